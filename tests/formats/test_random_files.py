"""Random schemas, rows, projections and filters through Parquet, against a plain model of what must come back."""

import math
from dataclasses import replace
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from floe.formats.builders import ReadBuilder, data_writer
from floe.formats.parquet.model import ParquetAsArrow
from floe.formats.rows import AsRows
from floe.spec.expressions.rows import compile_row_filter
from floe.spec.schemas.metadata_columns import POS
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_fields import with_children
from floe.spec.types import DATE, DOUBLE, FLOAT, INT, LONG, STRING, TIMESTAMP, DecimalType, Field, StructType, Type
from floe.storage.memory import MemoryStorage
from helpers.filter_strategies import SCHEMA as FILTER_SCHEMA
from helpers.filter_strategies import filters, predicates, references
from helpers.filter_strategies import rows as filter_rows
from helpers.schema_strategies import LEAVES_V3, schemas
from helpers.value_strategies import values_of

ROWS = AsRows(ParquetAsArrow())


def text(value: Any) -> str:
    """A text that tells values apart as tables do: NaN is one, zeros differ, the order of a map does not count."""
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{text(k)}:{text(v)}" for k, v in value.items())) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(text, value)) + "]"
    return "NaN" if isinstance(value, float) and math.isnan(value) else repr(value)


@st.composite
def files(draw: Any) -> tuple[Schema, list[dict[str, Any]]]:
    """A schema, and rows of it."""
    schema = draw(schemas(LEAVES_V3))
    columns = {
        field.name: values_of(field.type) if field.required else st.none() | values_of(field.type)
        for field in schema.fields
    }
    return schema, draw(st.lists(st.fixed_dictionaries(columns), max_size=8))


# a plain model of evolution -------------------------------------------------------------------------------------------

PROMOTIONS: dict[Type, Type] = {INT: LONG, FLOAT: DOUBLE, DecimalType(9, 2): DecimalType(20, 2), DATE: TIMESTAMP}
LATEST_DAY = 100_000_000  # further out, a day has no timestamp


@st.composite
def evolved(draw: Any, fields: tuple[Field, ...], new_ids: Any) -> tuple[Field, ...]:
    """The fields after some changes: renamed, reordered, dropped, promoted, made optional, with new ones."""
    changed = [draw(evolved_field(field, new_ids)) for field in fields if draw(st.integers(0, 3))]
    for _ in range(draw(st.integers(0, 1))):
        default = draw(st.none() | st.integers(0, 9))
        required = default is not None and draw(st.booleans())
        field_id = next(new_ids)
        changed.append(Field(field_id, f"new {field_id}", INT, required, initial_default=default))
    if not changed:
        changed = [Field(next(new_ids), "only", STRING)]
    return tuple(draw(st.permutations(changed)))


@st.composite
def evolved_field(draw: Any, field: Field, new_ids: Any) -> Field:
    type_ = field.type
    if type_.kind == "struct":
        type_ = StructType(draw(evolved(type_.fields, new_ids)))
    elif type_.kind == "list":
        type_ = with_children(type_, (draw(evolved_field(type_.fields[0], new_ids)),))
    elif type_.kind == "map":
        type_ = with_children(type_, (type_.fields[0], draw(evolved_field(type_.fields[1], new_ids))))
    elif draw(st.booleans()):
        type_ = PROMOTIONS.get(type_, type_)
    name = field.name if draw(st.booleans()) else f"{field.name} {field.id}"
    return replace(field, name=name, type=type_, required=field.required and draw(st.booleans()))


def read_by_model(old: Type, new: Type, value: Any) -> Any:
    """What a value of the old type is under the new one."""
    if value is None:
        return None
    if new.kind == "struct":
        return row_by_model(old.fields, new.fields, value)
    if new.kind == "list":
        return [read_by_model(old.fields[0].type, new.fields[0].type, item) for item in value]
    if new.kind == "map":
        pairs = value.items() if isinstance(value, dict) else value
        old_key, old_value, new_key, new_value = (child.type for child in (*old.fields, *new.fields))
        made = [(read_by_model(old_key, new_key, k), read_by_model(old_value, new_value, v)) for k, v in pairs]
        return dict(made) if isinstance(value, dict) else made
    if old == DATE and new == TIMESTAMP:
        return value * 86_400_000_000
    return value


def row_by_model(old: tuple[Field, ...], new: tuple[Field, ...], row: dict[str, Any]) -> dict[str, Any]:
    stored = {field.id: field for field in old}
    found = {}
    for field in new:
        if field.id in stored:
            before = stored[field.id]
            found[field.name] = read_by_model(before.type, field.type, row.get(before.name))
        else:
            found[field.name] = field.initial_default
    return found


def in_range(value: Any, type_: Type) -> bool:
    """Whether all dates have timestamps."""
    if value is None:
        return True
    if type_.kind == "struct":
        return all(in_range(value.get(child.name), child.type) for child in type_.fields)
    if type_.kind == "list":
        return all(in_range(item, type_.fields[0].type) for item in value)
    if type_.kind == "map":
        pairs = value.items() if isinstance(value, dict) else value
        return all(in_range(k, type_.fields[0].type) and in_range(v, type_.fields[1].type) for k, v in pairs)
    return type_ != DATE or abs(value) < LATEST_DAY


# tests ----------------------------------------------------------------------------------------------------------------


def write(schema: Schema, rows: list[dict[str, Any]], limit: int = 3) -> MemoryStorage:
    storage = MemoryStorage()
    builder = data_writer(ROWS, storage, "memory:a").schema(schema)
    with builder.properties({"write.parquet.row-group-limit": str(limit)}).build() as file:
        file.write(rows)
    assert file.close().record_count == len(rows)
    return storage


def complete(fields: tuple[Field, ...], row: dict[str, Any]) -> dict[str, Any]:
    """The row with null for what its structs leave out."""
    return row_by_model(fields, fields, row)


@settings(max_examples=120)
@given(files())
def test_rows_come_back(file: tuple[Schema, list[dict[str, Any]]]) -> None:
    schema, rows = file
    found = list(ReadBuilder(ROWS, write(schema, rows), "memory:a").project(schema))
    assert [text(row) for row in found] == [text(complete(schema.fields, row)) for row in rows]


@settings(max_examples=120)
@given(st.data(), files())
def test_evolution(data: st.DataObject, file: tuple[Schema, list[dict[str, Any]]]) -> None:
    schema, rows = file
    rows = [row for row in rows if in_range(row, schema.as_struct())]
    fields = data.draw(evolved(schema.fields, count(1000)))
    wanted = Schema((*fields, POS) if data.draw(st.booleans()) else fields)
    found = list(ReadBuilder(ROWS, write(schema, rows), "memory:a").project(wanted).batch_size(2))
    assert len(found) == len(rows)
    for position, (row, stored) in enumerate(zip(found, rows, strict=True)):
        model = row_by_model(schema.fields, fields, stored)
        if POS in wanted.fields:
            model["_pos"] = position
        assert text(row) == text(model)


@settings(max_examples=120)
@given(filters(predicates(references())), filter_rows(max_size=12))
def test_filters(where: Any, rows: list[dict[str, Any]]) -> None:
    """Row groups of three rows, of which statistics rule out some: the rows are those that pass one by one."""
    passes = compile_row_filter(where)
    schema = FILTER_SCHEMA
    storage = write(schema, rows)
    whole = list(ReadBuilder(ROWS, storage, "memory:a").project(schema))
    found = list(ReadBuilder(ROWS, storage, "memory:a").project(schema).filter(where))
    assert [text(row) for row in found] == [text(row) for row in whole if passes(row)]
