"""The layout of manifest entries: maps the Avro schema of any writer to the fields of the Iceberg format.

An entry is a record that contains the record `data_file`, which contains the record `partition`. The fields of the
three, flattened, are the *slots* of an entry, in the order of their bytes. Fields are matched by id, or by name if the
schema has no ids. Unknown fields are slots too, because they have to be skipped.

>>> from floe.spec.codecs.manifest_schemas import manifest_entry_schema
>>> from floe.spec.types import StructType
>>> import msgspec
>>> layout = manifest_layout(msgspec.json.encode(manifest_entry_schema(1, StructType())))
>>> [slot.name for slot in layout.slots][:5]
['status', 'snapshot_id', 'file_path', 'file_format', 'record_count']
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from floe.avro.records import Skipper, make_skipper
from floe.avro.schemas import Node, NodeField, parse_layout
from floe.errors import CorruptFile, UnsupportedFeature
from floe.spec.codecs.avro_schemas import avro_to_type
from floe.spec.codecs.manifest_schemas import FORMAT_VERSIONS, PARTITION_ID, manifest_entry_type
from floe.spec.types import ListType, MapType, StructType, Type

DATA_FILE_ID = 2
OPAQUE = "opaque"
"""The shape of values that can be skipped, but not decoded."""

_REQUIRED = ("status", "file_path", "file_format", "record_count", "file_size_in_bytes")
_CACHED_SCHEMA_BYTES = 256 * 2**10


@dataclass(frozen=True, slots=True)
class Slot:
    """A field of an entry; its shape says how the value is encoded.

    | shape | bytes |
    |---|---|
    | `long` | a long |
    | `bytes` | a length, then so many bytes |
    | `plain` | always `width` bytes |
    | `longs`, `long_map`, `bytes_map` | blocks of longs, or of pairs with a long as key |
    | `opaque` | anything else |
    """

    name: str
    shape: str
    node: Node
    """The layout of the value, without the union around it."""

    tag: int | None
    """The byte before a value if the field is a union: the encoded index of the value's branch."""

    null: int | None
    """The byte of a null if the field is a union with null: the encoded index of that branch."""

    skip: Skipper = field(compare=False)
    """The skipper of the value, without the union around it."""

    @property
    def width(self) -> int:
        """The size of a plain value in bytes."""
        return self.node.smallest


@dataclass(frozen=True, slots=True)
class PartitionSlot:
    """A partition field: its id, if the schema has one, its name, its type in the file, and the index of its slot."""

    id: int | None
    name: str
    type: Type
    index: int


@dataclass(frozen=True, slots=True)
class ManifestLayout:
    """The slots of the entries of a manifest."""

    slots: tuple[Slot, ...]
    partition: tuple[PartitionSlot, ...]
    data_file: range
    """The indexes of the slots of the data file."""

    index: dict[str, int] = field(compare=False)
    """The indexes of the slots of the format's fields, by name."""

    smallest: int
    """The minimum size of an entry in bytes."""

    @property
    def columnar(self) -> bool:
        """Whether no slot is opaque, so that many entries can be scanned together."""
        return all(slot.shape != OPAQUE for slot in self.slots)

    def same_data_file(self, other: ManifestLayout) -> bool:
        """Whether data files are encoded in the same way in both layouts, so that their bytes can be copied."""
        slots, other_slots = (layout.slots[layout.data_file.start : layout.data_file.stop] for layout in (self, other))
        return _comparison_keys(slots) == _comparison_keys(other_slots) and [
            (p.id, p.type) for p in self.partition
        ] == [(p.id, p.type) for p in other.partition]


def _comparison_keys(slots: tuple[Slot, ...]) -> list[tuple[object, ...]]:
    return [(slot.name, slot.shape, slot.width, slot.tag, slot.null, slot.node.declared) for slot in slots]


def manifest_layout(schema_text: bytes) -> ManifestLayout:
    """The layout of the entries of a manifest, from the Avro schema in its header; cached for usual schemas."""
    if len(schema_text) <= _CACHED_SCHEMA_BYTES:
        return _cached_layout(schema_text)
    return _build_layout(schema_text)


@lru_cache(maxsize=64)
def _cached_layout(schema_text: bytes) -> ManifestLayout:
    return _build_layout(schema_text)


def _names_and_shapes(type_: StructType) -> dict[int, tuple[str, str]]:
    """The name and shape of each field, by id."""
    return {child.id: (child.name, _shape_of_type(child.type)) for child in type_ if child.type.kind != "struct"}


def _shape_of_type(type_: Type) -> str:
    if isinstance(type_, MapType):
        return "long_map" if type_.value.kind == "long" else "bytes_map"
    if isinstance(type_, ListType):
        return "longs"
    return "long" if type_.kind in ("int", "long") else "bytes"


_ENTRY_FIELDS: dict[int, tuple[str, str]] = {}
_DATA_FILE_FIELDS: dict[int, tuple[str, str]] = {}
for _version in FORMAT_VERSIONS:
    _entry_type = manifest_entry_type(_version, StructType())
    _ENTRY_FIELDS |= _names_and_shapes(_entry_type)
    _DATA_FILE_FIELDS |= _names_and_shapes(
        next(c.type for c in _entry_type if c.id == DATA_FILE_ID and isinstance(c.type, StructType))
    )


def _build_layout(schema_text: bytes) -> ManifestLayout:
    root = parse_layout(schema_text)
    if root.kind != "record":
        raise CorruptFile(f"the entries of a manifest must be records, found {root.kind}")
    slots: list[Slot] = []
    partition: list[PartitionSlot] = []
    data_file: range | None = None
    has_partition = False
    for child in root.fields:
        if not _is_field(child, DATA_FILE_ID, "data_file"):
            slots.append(_build_slot(child, _ENTRY_FIELDS, len(slots)))
            continue
        begin = len(slots)
        for file_field in _check_record(child).fields:
            if _is_field(file_field, PARTITION_ID, "partition"):
                has_partition = True
                for partition_slot, slot in _partition_slots(file_field, len(slots)):
                    partition.append(partition_slot)
                    slots.append(slot)
            else:
                slots.append(_build_slot(file_field, _DATA_FILE_FIELDS, len(slots)))
        data_file = range(begin, len(slots))
    index = {slot.name: n for n, slot in enumerate(slots)}
    missing = [name for name in _REQUIRED if name not in index]
    if missing or data_file is None or not has_partition:
        missing_field = (
            missing[0] if data_file is not None and missing else "partition" if data_file is not None else "data_file"
        )
        raise CorruptFile(f"the manifest's schema has no field {missing_field!r}")
    return ManifestLayout(tuple(slots), tuple(partition), data_file, index, root.smallest)


def _is_field(child: NodeField, field_id: int, name: str) -> bool:
    return child.id == field_id or (child.id is None and child.name == name)


def _check_record(child: NodeField) -> Node:
    if child.node.kind != "record":
        raise UnsupportedFeature(f"{child.name!r} of a manifest must be a record, found {child.node.kind}")
    return child.node


def _build_slot(child: NodeField, format_fields: dict[int, tuple[str, str]], number: int) -> Slot:
    """The slot of a field, with the format's name if it is a field of the format."""
    format_field = _find_format_field(child, format_fields)
    slot = _slot_of_node(child, f"?{number}" if format_field is None else format_field[0])
    if format_field is not None and slot.shape != format_field[1]:
        raise CorruptFile(f"the manifest's field {child.name!r} has a type that the format does not allow")
    return slot


def _find_format_field(child: NodeField, format_fields: dict[int, tuple[str, str]]) -> tuple[str, str] | None:
    if child.id is not None:
        return format_fields.get(child.id)
    return next((format_field for format_field in format_fields.values() if format_field[0] == child.name), None)


def _partition_slots(child: NodeField, number: int) -> Iterator[tuple[PartitionSlot, Slot]]:
    for n, field_node in enumerate(_check_record(child).fields):
        name = f"partition.{n}"
        slot = _slot_of_node(field_node, name)
        if slot.shape not in ("long", "bytes", "plain"):
            raise UnsupportedFeature(f"the partition field {field_node.name!r} has a type that no partition field has")
        yield PartitionSlot(field_node.id, field_node.name, avro_to_type(slot.node.declared), number + n), slot


def _slot_of_node(child: NodeField, name: str) -> Slot:
    node, tag, null = child.node, None, None
    if node.kind == "union":
        branches = node.branches
        values = [n for n, branch in enumerate(branches) if branch.kind != "null"]
        if len(values) != 1 or len(branches) > 2:
            return Slot(name, OPAQUE, node, None, None, make_skipper(node))
        tag = 2 * values[0]  # the zig-zag encoding of the branch's index
        null = None if len(branches) == 1 else 2 - tag
        node = branches[values[0]]
    return Slot(name, _shape_of_node(node), node, tag, null, make_skipper(node))


def _shape_of_node(node: Node) -> str:
    kind = node.kind
    if kind in ("int", "long"):
        return "long"
    if kind in ("bytes", "string"):
        return "bytes"
    if kind in ("null", "boolean", "float", "double", "fixed"):
        return "plain"
    if kind == "array" and node.items is not None:
        item = node.items
        if item.kind in ("int", "long"):
            return "longs"
        parts = [child.node.kind for child in item.fields]
        if len(parts) == 2 and parts[0] in ("int", "long"):
            return {"int": "long_map", "long": "long_map", "bytes": "bytes_map"}.get(parts[1], OPAQUE)
    return OPAQUE
