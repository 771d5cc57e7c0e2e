"""Avro schemas as trees of nodes, which describe how values are laid out in bytes (Avro spec: Schema Declaration).

`floe.spec.codecs.avro_schemas` maps Avro's types to Iceberg's; here only the layout matters. Schemas are untrusted
input: their depth and size are limited, and a record that contains itself is rejected.

>>> tree = parse_layout(b'{"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", "int"]}]}')
>>> tree.kind, tree.fields[0].name, tree.fields[0].node.kind
('record', 'x', 'union')
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from floe.errors import CorruptFile, InvalidMetadata, UnsupportedFeature
from floe.spec.codecs.avro_schemas import FIELD_NAME, MAX_DEPTH, MAX_FIELDS, parse_avro_schema

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
MAX_FIXED = 2**31 - 1


@dataclass(frozen=True, slots=True)
class NodeField:
    """A field of a record; `id` is its field id, or None if the schema does not have one."""

    name: str
    id: int | None
    node: Node


@dataclass(frozen=True, slots=True)
class Node:
    """The layout of a value: its Avro kind, and the attributes of that kind.

    `declared` is the JSON of the schema of a primitive, fixed or enum; it has the logical type.
    """

    kind: str
    fields: tuple[NodeField, ...] = ()
    items: Node | None = None
    """The layout of the elements of an array, or of the values of a map."""

    branches: tuple[Node, ...] = ()
    size: int = 0
    symbols: tuple[str, ...] = ()
    declared: Any = None

    smallest: int = field(init=False)
    """The minimum size of a value in bytes."""

    weight: int = field(init=False, compare=False)
    """The number of nodes of the layout, with every reference to a named schema expanded."""

    def __post_init__(self) -> None:
        children = [*self.branches, *(child.node for child in self.fields), *([self.items] if self.items else ())]
        weight = 1 + sum(child_node.weight for child_node in children)
        if weight > MAX_FIELDS:
            raise InvalidMetadata(f"the Avro schema has more than {MAX_FIELDS} parts")
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "smallest", self._smallest())

    def _smallest(self) -> int:
        if self.kind == "record":
            return sum(child.node.smallest for child in self.fields)
        if self.kind == "union":
            return 1 + min(branch.smallest for branch in self.branches)
        return {"null": 0, "float": 4, "double": 8, "fixed": self.size}.get(self.kind, 1)


def parse_layout(text: bytes) -> Node:
    """Build the layout of a schema from its JSON text; raises CorruptFile if it is not an Avro schema."""
    return build_layout(parse_avro_schema(text))


def build_layout(schema: Any) -> Node:
    """Build the layout of a schema from parsed JSON.

    >>> build_layout({"type": "array", "items": "long"}).items.kind
    'long'
    """
    return _LayoutBuilder().build(schema, "", MAX_DEPTH)


@dataclass
class _LayoutBuilder:
    """Builds the nodes of one schema; every method takes the namespace that applies to names without one."""

    defined: dict[str, Node | None] = field(default_factory=dict)
    """Named schemas by full name; None while a record is being built, so that recursion is detected."""

    def build(self, schema: Any, namespace: str, depth: int) -> Node:
        if depth <= 0:
            raise InvalidMetadata(f"Avro schemas nest deeper than {MAX_DEPTH} levels")
        if isinstance(schema, str):
            return self.resolve_name(schema, namespace)
        if isinstance(schema, list):
            if not schema:
                raise InvalidMetadata("an Avro union without branches")
            return Node("union", branches=tuple(self.build(branch, namespace, depth - 1) for branch in schema))
        kind = schema.get("type") if isinstance(schema, dict) else None
        if isinstance(kind, dict | list):
            return self.build(kind, namespace, depth - 1)
        if not isinstance(kind, str):
            raise InvalidMetadata(f"must be an Avro schema, found {schema!r:.80}")
        if kind in ("record", "error"):
            return self.build_record(schema, namespace, depth)
        if kind in ("array", "map"):
            items = self.build(schema.get("items" if kind == "array" else "values"), namespace, depth - 1)
            if items.smallest == 0 and kind == "array":
                raise UnsupportedFeature(
                    "an Avro array of values that take no bytes, so the file does not limit its length"
                )
            return Node(kind, items=items)
        if kind == "fixed":
            return self.define_name(schema, namespace, Node("fixed", size=_fixed_size(schema), declared=schema))
        if kind == "enum":
            return self.define_name(schema, namespace, Node("enum", symbols=_enum_symbols(schema), declared=schema))
        if kind in PRIMITIVES:
            return Node(kind, declared=schema)
        return self.resolve_name(kind, namespace)

    def resolve_name(self, name: str, namespace: str) -> Node:
        if name in PRIMITIVES:
            return Node(name, declared=name)
        for full_name in (f"{namespace}.{name}", name):
            if full_name in self.defined:
                node = self.defined[full_name]
                if node is None:
                    raise UnsupportedFeature(f"the Avro record {full_name[:80]!r} contains itself")
                return node
        raise InvalidMetadata(f"no Avro schema is named {name[:80]!r}")

    def define_name(self, schema: dict[str, Any], namespace: str, node: Node) -> Node:
        self.defined[_full_name(schema, namespace)] = node
        return node

    def build_record(self, schema: dict[str, Any], namespace: str, depth: int) -> Node:
        full_name = _full_name(schema, namespace)
        field_namespace = full_name.rpartition(".")[0]
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise InvalidMetadata(f"the Avro record {full_name[:80]!r} has no list of fields")
        self.defined[full_name] = None
        node = Node("record", tuple(self.build_field(item, field_namespace, depth) for item in fields))
        self.defined[full_name] = node
        return node

    def build_field(self, field_json: Any, namespace: str, depth: int) -> NodeField:
        if not isinstance(field_json, dict):
            raise InvalidMetadata(f"must be an Avro field, found {field_json!r:.80}")
        name = field_json.get(FIELD_NAME, field_json.get("name"))
        if not isinstance(name, str):
            raise InvalidMetadata("an Avro field needs a name")
        return NodeField(name, _field_id(field_json), self.build(field_json.get("type"), namespace, depth - 1))


def _full_name(schema: dict[str, Any], namespace: str) -> str:
    name, namespace = schema.get("name"), schema.get("namespace", namespace)
    if not isinstance(name, str) or not isinstance(namespace, str):
        raise InvalidMetadata("an Avro record, enum or fixed needs a name")
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _field_id(field_json: dict[str, Any]) -> int | None:
    field_id = field_json.get("field-id")
    if isinstance(field_id, str) and field_id.isascii() and field_id.isdigit():  # old writers put ids in strings
        field_id = int(field_id[:11])
    if field_id is not None and type(field_id) is not int:
        raise InvalidMetadata(f"must be a field id, found {field_id!r:.80}")
    return field_id


def _fixed_size(schema: dict[str, Any]) -> int:
    size = schema.get("size")
    if type(size) is not int or not 0 <= size <= MAX_FIXED:
        raise InvalidMetadata(f"the size of an Avro fixed must be a number of bytes, found {size!r:.80}")
    return size


def _enum_symbols(schema: dict[str, Any]) -> tuple[str, ...]:
    symbols = schema.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise CorruptFile("an Avro enum needs a list of symbols")
    return tuple(symbols)
