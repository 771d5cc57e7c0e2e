"""Hypothesis strategies for schemas, and PyIceberg's form of ours."""

import json
from dataclasses import replace

from hypothesis import strategies as st
from pyiceberg.schema import Schema as PyIcebergSchema

from floe.spec import types as t
from floe.spec.schemas.schema import Schema, assign_fresh_ids, with_children
from floe.spec.schemas.schema_json import schema_to_json
from floe.spec.types import DecimalType, Field, FixedType, ListType, MapType, StructType

LEAVES = [
    t.BOOLEAN, t.INT, t.LONG, t.FLOAT, t.DOUBLE, DecimalType(9, 2), t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ,
    t.STRING, t.UUID, FixedType(4), t.BINARY,
]  # fmt: skip
LEAVES_V3 = [*LEAVES, t.TIMESTAMP_NS, t.TIMESTAMPTZ_NS]

NAMES = st.sampled_from(["a", "b", "c", "d", "Id", "x y", "ñ", "element", "value", "key", "long_name_of_a_column"])
_NAME_SETS = st.sets(NAMES, min_size=1, max_size=3).map(sorted)
_KINDS = st.sampled_from(["leaf", "leaf", "leaf", "struct", "list", "map"])
_BOTH = st.booleans()
_DOCS = st.sampled_from([None, None, "doc", ""])


@st.composite
def types(draw, leaves, depth=2):
    """Types of any shape, their ids 0 until a schema gives them some; by hand, as `st.recursive` is slow."""
    kind = draw(_KINDS) if depth else "leaf"
    if kind == "leaf":
        return draw(st.sampled_from(leaves))
    if kind == "list":
        return ListType(0, draw(types(leaves, depth - 1)), draw(_BOTH))
    if kind == "map":
        return MapType(0, draw(types(leaves, depth - 1)), 0, draw(types(leaves, depth - 1)), draw(_BOTH))
    return StructType(draw(_fields(leaves, depth - 1)))


@st.composite
def _fields(draw, leaves, depth):
    names = draw(_NAME_SETS)
    return tuple(Field(0, name, draw(types(leaves, depth)), draw(_BOTH), draw(_DOCS)) for name in names)


def _numbered(fields, counter):
    """The fields with ids in depth-first order, so that they differ from the ids a writer would give."""
    numbered = []
    for field in fields:
        field_id, counter = counter, counter + 1
        children, counter = _numbered(field.type.fields, counter)
        numbered.append(replace(field, id=field_id, type=with_children(field.type, children)))
    return tuple(numbered), counter


@st.composite
def schemas(draw, leaves=LEAVES, *, fresh=False):
    """Schemas with unique ids: as a writer gives them (`fresh`), or in another order and with gaps."""
    fields = draw(_fields(leaves, 3))
    numbered, _ = _numbered(fields, draw(st.integers(1, 5)))
    schema = Schema(numbered)
    allowed = [i for i in schema.by_id if can_identify(schema, i)]
    chosen = draw(st.lists(st.sampled_from(allowed), unique=True)) if allowed else []
    schema = replace(schema, identifier_field_ids=tuple(chosen))
    return assign_fresh_ids(schema)[0] if fresh else schema


def can_identify(schema, field_id):
    """Whether a field may identify rows (spec: Identifier Field IDs)."""
    entry = schema.by_id[field_id]
    return (
        entry.field.type.is_primitive
        and entry.field.type not in (t.FLOAT, t.DOUBLE)
        and all(step.required for step in (*entry.ancestors, entry.field))
        and all(holder.kind == "struct" for holder in entry.ancestor_types)
    )


def to_pyiceberg(schema):
    """The same schema as PyIceberg has it."""
    return PyIcebergSchema.model_validate_json(json.dumps(schema_to_json(schema)))


def with_names(schema, respell):
    """The same schema with the names of columns and fields of structs spelt otherwise, where they stay different."""

    def fields(old):
        taken, out = set(), []
        for field in old:
            name = respell(field.name)
            name = field.name if name in taken else name
            taken.add(name)
            out.append(replace(field, name=name, type=of_type(field.type)))
        return tuple(out)

    def of_type(type_):
        if isinstance(type_, StructType):
            return with_children(type_, fields(type_.fields))
        return with_children(type_, [replace(child, type=of_type(child.type)) for child in type_.fields])

    return replace(schema, fields=fields(schema.fields))
