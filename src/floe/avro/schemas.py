"""Avro schemas as trees that say how bytes are laid out (Avro spec: Schema Declaration).

What the types mean in a table is told by `floe.spec.codecs.avro_schemas`; here it matters where a value ends.
Schemas may come from anywhere: nesting and size are limited, and a record that holds itself is refused.

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
    """A field of a record; `id` is its field id, if the writer gave it one."""

    name: str
    id: int | None
    node: Node


@dataclass(frozen=True, slots=True)
class Node:
    """The layout of a value: its kind as Avro names it, and what that kind needs.

    `declared` is the schema's own JSON where the kind is a primitive, a fixed or an enum, for its logical type.
    """

    kind: str
    fields: tuple[NodeField, ...] = ()
    items: Node | None = None
    """The elements of an array, or the values of a map."""

    branches: tuple[Node, ...] = ()
    size: int = 0
    symbols: tuple[str, ...] = ()
    declared: Any = None

    smallest: int = field(init=False)
    """The fewest bytes that a value takes."""

    weight: int = field(init=False, compare=False)
    """How many parts the layout has when every name is spelled out."""

    def __post_init__(self) -> None:
        parts = [*self.branches, *(child.node for child in self.fields), *([self.items] if self.items else ())]
        weight = 1 + sum(part.weight for part in parts)
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
    """The layout of a schema in JSON text; CorruptFile if it is no Avro schema."""
    return build_layout(parse_avro_schema(text))


def build_layout(schema: Any) -> Node:
    """The layout of a schema that is a JSON value already.

    >>> build_layout({"type": "array", "items": "long"}).items.kind
    'long'
    """
    return _Compiler().of(schema, "", MAX_DEPTH)


@dataclass
class _Compiler:
    defined: dict[str, Node | None] = field(default_factory=dict)
    """Named schemas by full name; None while a record is being read."""

    def of(self, schema: Any, namespace: str, depth: int) -> Node:
        if depth <= 0:
            raise InvalidMetadata(f"Avro schemas nest deeper than {MAX_DEPTH} levels")
        if isinstance(schema, str):
            return self.named(schema, namespace)
        if isinstance(schema, list):
            if not schema:
                raise InvalidMetadata("an Avro union without branches")
            return Node("union", branches=tuple(self.of(branch, namespace, depth - 1) for branch in schema))
        kind = schema.get("type") if isinstance(schema, dict) else None
        if isinstance(kind, dict | list):
            return self.of(kind, namespace, depth - 1)
        if not isinstance(kind, str):
            raise InvalidMetadata(f"must be an Avro schema, found {schema!r:.80}")
        if kind in ("record", "error"):
            return self.record(schema, namespace, depth)
        if kind in ("array", "map"):
            items = self.of(schema.get("items" if kind == "array" else "values"), namespace, depth - 1)
            if items.smallest == 0 and kind == "array":
                raise UnsupportedFeature("an Avro array of values that take no bytes, whose count nothing limits")
            return Node(kind, items=items)
        if kind == "fixed":
            return self.define(schema, namespace, Node("fixed", size=_size(schema), declared=schema))
        if kind == "enum":
            return self.define(schema, namespace, Node("enum", symbols=_symbols(schema), declared=schema))
        if kind in PRIMITIVES:
            return Node(kind, declared=schema)
        return self.named(kind, namespace)

    def named(self, name: str, namespace: str) -> Node:
        if name in PRIMITIVES:
            return Node(name, declared=name)
        for full in (f"{namespace}.{name}", name):
            if full in self.defined:
                node = self.defined[full]
                if node is None:
                    raise UnsupportedFeature(f"the Avro record {full[:80]!r} holds itself")
                return node
        raise InvalidMetadata(f"no Avro schema is named {name[:80]!r}")

    def define(self, schema: dict[str, Any], namespace: str, node: Node) -> Node:
        self.defined[_full_name(schema, namespace)] = node
        return node

    def record(self, schema: dict[str, Any], namespace: str, depth: int) -> Node:
        full = _full_name(schema, namespace)
        inside = full.rpartition(".")[0]
        items = schema.get("fields")
        if not isinstance(items, list):
            raise InvalidMetadata(f"the Avro record {full[:80]!r} has no list of fields")
        self.defined[full] = None
        node = Node("record", tuple(self.field(item, inside, depth) for item in items))
        self.defined[full] = node
        return node

    def field(self, item: Any, namespace: str, depth: int) -> NodeField:
        if not isinstance(item, dict):
            raise InvalidMetadata(f"must be an Avro field, found {item!r:.80}")
        name = item.get(FIELD_NAME, item.get("name"))
        if not isinstance(name, str):
            raise InvalidMetadata("an Avro field needs a name")
        return NodeField(name, _field_id(item), self.of(item.get("type"), namespace, depth - 1))


def _full_name(schema: dict[str, Any], namespace: str) -> str:
    name, own = schema.get("name"), schema.get("namespace", namespace)
    if not isinstance(name, str) or not isinstance(own, str):
        raise InvalidMetadata("an Avro record, enum or fixed needs a name")
    return name if "." in name or not own else f"{own}.{name}"


def _field_id(item: dict[str, Any]) -> int | None:
    found = item.get("field-id")
    if isinstance(found, str) and found.isascii() and found.isdigit():  # old writers put ids in strings
        found = int(found[:11])
    if found is not None and type(found) is not int:
        raise InvalidMetadata(f"must be a field id, found {found!r:.80}")
    return found


def _size(schema: dict[str, Any]) -> int:
    size = schema.get("size")
    if type(size) is not int or not 0 <= size <= MAX_FIXED:
        raise InvalidMetadata(f"the size of an Avro fixed must be a number of bytes, found {size!r:.80}")
    return size


def _symbols(schema: dict[str, Any]) -> tuple[str, ...]:
    symbols = schema.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise CorruptFile("an Avro enum needs a list of symbols")
    return tuple(symbols)
