"""Where a manifest's Avro schema puts the values of an entry: the fields of the format found in any writer's schema.

An entry is a record with the record `data_file` in it, and in that the record `partition`. Spelled out one after
another, their fields are the *slots* of an entry, in the order in which their bytes follow. Fields are found by id, and
by name where the writer gave no ids; fields that nobody knows are slots too, because they have to be stepped over.

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
"""The shape of what can be stepped over, and not looked into."""

_REQUIRED = ("status", "file_path", "file_format", "record_count", "file_size_in_bytes")
_CACHED_SCHEMA_BYTES = 256 * 2**10


@dataclass(frozen=True, slots=True)
class Slot:
    """A value of an entry.

    | shape | the bytes |
    |---|---|
    | `long` | a number |
    | `bytes` | a length and that many bytes |
    | `plain` | always `width` bytes |
    | `longs`, `long_map`, `bytes_map` | blocks of numbers, or of pairs with a number as key |
    | `opaque` | anything else |
    """

    name: str
    shape: str
    node: Node
    """The layout of the value, without the union around it."""

    tag: int | None
    """The byte in front of a value, if it is in a union."""

    null: int | None
    """The byte in place of a null."""

    skip: Skipper = field(compare=False)
    """Finds the end of the value."""

    @property
    def width(self) -> int:
        """How many bytes a plain value takes."""
        return self.node.smallest


@dataclass(frozen=True, slots=True)
class PartitionSlot:
    """A partition field: its id if the writer gave it one, its name, its type in the file, and its slot."""

    id: int | None
    name: str
    type: Type
    index: int


@dataclass(frozen=True, slots=True)
class ManifestLayout:
    """The slots of an entry."""

    slots: tuple[Slot, ...]
    partition: tuple[PartitionSlot, ...]
    data_file: range
    """The slots of the data file."""

    index: dict[str, int] = field(compare=False)
    """The slots of the fields that the format knows, by name."""

    smallest: int
    """The fewest bytes that an entry takes."""

    @property
    def columnar(self) -> bool:
        """Whether all slots are of shapes that can be stepped over for many entries at once."""
        return all(slot.shape != OPAQUE for slot in self.slots)

    def same_data_file(self, other: ManifestLayout) -> bool:
        """Whether the bytes of a data file mean the same in both."""
        mine, theirs = (own.slots[own.data_file.start : own.data_file.stop] for own in (self, other))
        return _comparable(mine) == _comparable(theirs) and [(p.id, p.type) for p in self.partition] == [
            (p.id, p.type) for p in other.partition
        ]


def _comparable(slots: tuple[Slot, ...]) -> list[tuple[object, ...]]:
    return [(slot.name, slot.shape, slot.width, slot.tag, slot.null, slot.node.declared) for slot in slots]


def manifest_layout(schema_text: bytes) -> ManifestLayout:
    """The layout of the entries of a manifest, by the schema in its header."""
    if len(schema_text) <= _CACHED_SCHEMA_BYTES:
        return _cached_layout(schema_text)
    return _layout(schema_text)


@lru_cache(maxsize=64)
def _cached_layout(schema_text: bytes) -> ManifestLayout:
    return _layout(schema_text)


def _known(type_: StructType) -> dict[int, tuple[str, str]]:
    """The name and shape of each field, by id."""
    return {child.id: (child.name, _shape_of_type(child.type)) for child in type_ if child.type.kind != "struct"}


def _shape_of_type(type_: Type) -> str:
    if isinstance(type_, MapType):
        return "long_map" if type_.value.kind == "long" else "bytes_map"
    if isinstance(type_, ListType):
        return "longs"
    return "long" if type_.kind in ("int", "long") else "bytes"


_ENTRY: dict[int, tuple[str, str]] = {}
_DATA_FILE: dict[int, tuple[str, str]] = {}
for _version in FORMAT_VERSIONS:
    _entry_type = manifest_entry_type(_version, StructType())
    _ENTRY |= _known(_entry_type)
    _DATA_FILE |= _known(next(c.type for c in _entry_type if c.id == DATA_FILE_ID and isinstance(c.type, StructType)))


def _layout(schema_text: bytes) -> ManifestLayout:
    root = parse_layout(schema_text)
    if root.kind != "record":
        raise CorruptFile(f"the entries of a manifest must be records, found {root.kind}")
    slots: list[Slot] = []
    partition: list[PartitionSlot] = []
    data_file: range | None = None
    found_partition = False
    for child in root.fields:
        if not _is(child, DATA_FILE_ID, "data_file"):
            slots.append(_slot(child, _ENTRY, len(slots)))
            continue
        begin = len(slots)
        for part in _record(child).fields:
            if _is(part, PARTITION_ID, "partition"):
                found_partition = True
                for own in _partition(part, len(slots)):
                    partition.append(own[0])
                    slots.append(own[1])
            else:
                slots.append(_slot(part, _DATA_FILE, len(slots)))
        data_file = range(begin, len(slots))
    index = {slot.name: n for n, slot in enumerate(slots)}
    missing = [name for name in _REQUIRED if name not in index]
    if missing or data_file is None or not found_partition:
        what = (
            missing[0] if data_file is not None and missing else "partition" if data_file is not None else "data_file"
        )
        raise CorruptFile(f"the manifest's schema has no field {what!r}")
    return ManifestLayout(tuple(slots), tuple(partition), data_file, index, root.smallest)


def _is(child: NodeField, field_id: int, name: str) -> bool:
    return child.id == field_id or (child.id is None and child.name == name)


def _record(child: NodeField) -> Node:
    if child.node.kind != "record":
        raise UnsupportedFeature(f"{child.name!r} of a manifest must be a record, found {child.node.kind}")
    return child.node


def _slot(child: NodeField, known: dict[int, tuple[str, str]], number: int) -> Slot:
    """The slot of a field, under the format's name if it is one of the format's."""
    found = _find(child, known)
    slot = _shaped(child, f"?{number}" if found is None else found[0])
    if found is not None and slot.shape != found[1]:
        raise CorruptFile(f"the manifest's field {child.name!r} has a type that the format does not allow")
    return slot


def _find(child: NodeField, known: dict[int, tuple[str, str]]) -> tuple[str, str] | None:
    if child.id is not None:
        return known.get(child.id)
    return next((found for found in known.values() if found[0] == child.name), None)


def _partition(child: NodeField, number: int) -> Iterator[tuple[PartitionSlot, Slot]]:
    for n, part in enumerate(_record(child).fields):
        name = f"partition.{n}"
        slot = _shaped(part, name)
        if slot.shape not in ("long", "bytes", "plain"):
            raise UnsupportedFeature(f"the partition field {part.name!r} has a type that no partition field has")
        yield PartitionSlot(part.id, part.name, avro_to_type(slot.node.declared), number + n), slot


def _shaped(child: NodeField, name: str) -> Slot:
    node, tag, null = child.node, None, None
    if node.kind == "union":
        branches = node.branches
        values = [n for n, branch in enumerate(branches) if branch.kind != "null"]
        if len(values) != 1 or len(branches) > 2:
            return Slot(name, OPAQUE, node, None, None, make_skipper(node))
        tag = 2 * values[0]  # the zig-zag form of the branch's number
        null = None if len(branches) == 1 else 2 - tag
        node = branches[values[0]]
    return Slot(name, _shape(node), node, tag, null, make_skipper(node))


def _shape(node: Node) -> str:
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
