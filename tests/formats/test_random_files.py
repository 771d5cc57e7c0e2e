"""Random schemas, rows, projections and filters through all formats, against a plain model of what must come back."""

from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from floe.formats.model import ReadBuilder, data_writer
from floe.formats.registry import default_registry
from floe.spec.expressions.row_evaluation import compile_row_filter
from floe.spec.schemas.metadata_columns import POS
from floe.spec.schemas.schema import Schema
from floe.storage.memory import MemoryStorage
from helpers.file_strategies import all_leaves, complete, evolved, files, has_timestamp, orc_holds, row_by_model, text
from helpers.filter_strategies import SCHEMA as FILTER_SCHEMA, filters, predicates, references, rows as filter_rows

FORMATS = default_registry()
SMALL_PARTS = {"write.parquet.row-group-limit": "3", "write.orc.stripe-size-bytes": "100"}

each_format = pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])


def write(file_format: str, schema: Schema, rows: list[dict[str, Any]]) -> MemoryStorage:
    storage = MemoryStorage()
    builder = data_writer(FORMATS.model(file_format, "rows"), storage, "memory:a").schema(schema)
    with builder.properties(SMALL_PARTS).build() as file:
        file.write(rows)
    assert file.close().record_count == len(rows)
    return storage


def reading(file_format: str, storage: MemoryStorage, schema: Schema) -> ReadBuilder[Any]:
    return ReadBuilder(FORMATS.model(file_format, "rows"), storage, "memory:a").project(schema)


def storable(file_format: str, schema: Schema, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if file_format != "orc" or all_leaves(schema.as_struct(), row, orc_holds)]


@each_format
@settings(max_examples=80)
@given(file=files())
def test_rows_come_back(file_format: str, file: tuple[Schema, list[dict[str, Any]]]) -> None:
    schema, rows = file
    rows = storable(file_format, schema, rows)
    actual = list(reading(file_format, write(file_format, schema, rows), schema))
    assert [text(row) for row in actual] == [text(complete(schema.fields, row)) for row in rows]


@each_format
@settings(max_examples=80)
@given(data=st.data(), file=files())
def test_evolution(file_format: str, data: st.DataObject, file: tuple[Schema, list[dict[str, Any]]]) -> None:
    schema, rows = file
    rows = [r for r in storable(file_format, schema, rows) if all_leaves(schema.as_struct(), r, has_timestamp)]
    fields = data.draw(evolved(schema.fields, count(1000)))
    projected = Schema((*fields, POS) if data.draw(st.booleans()) else fields)
    actual = list(reading(file_format, write(file_format, schema, rows), projected).batch_size(2))
    assert len(actual) == len(rows)
    for position, (row, stored) in enumerate(zip(actual, rows, strict=True)):
        model = row_by_model(schema.fields, fields, stored)
        if POS in projected.fields:
            model["_pos"] = position
        assert text(row) == text(model)


@each_format
@settings(max_examples=80)
@given(where=filters(predicates(references())), rows=filter_rows(max_size=12))
def test_filters(file_format: str, where: Any, rows: list[dict[str, Any]]) -> None:
    """Row groups of three rows, of which statistics rule out some: the rows are those that pass one by one."""
    passes = compile_row_filter(where)
    schema = FILTER_SCHEMA
    rows = storable(file_format, schema, rows)
    storage = write(file_format, schema, rows)
    all_rows = list(reading(file_format, storage, schema))
    actual = list(reading(file_format, storage, schema).filter(where))
    assert [text(row) for row in actual] == [text(row) for row in all_rows if passes(row)]
