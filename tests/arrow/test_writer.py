"""Writes of rows: with random schemas and partitions, each row is in a file of its partition, with exact metrics."""

import math
import re
import struct
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from floe.arrow.writer import write_rows
from floe.errors import InvalidInput, InvalidPartitionSpec, InvalidSortOrder, InvalidValue
from floe.formats.registry import default_registry
from floe.formats.rows import rows_to_batch
from floe.formats.writers.write_target import WriteTarget
from floe.spec.codecs.single_value import decode
from floe.spec.manifests.entries import DataFile
from floe.spec.partitioning.partition_spec import column_reader, partition_value_fn
from floe.spec.partitioning.transform_terms import build_spec
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import build_order, sort_key
from floe.spec.types import LONG, STRING, Field
from floe.spec.values import value_order
from helpers.file_strategies import all_leaves, complete, files, orc_holds, text
from helpers.schema_strategies import LEAVES
from helpers.written_rows import file_names, target_of

TERMS = ["{}", "bucket(2, {})", "truncate(3, {})", "year({})", "month({})", "day({})", "hour({})", "void({})"]


def key_of(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack(">d", value)
    return value


def rows_in(target: WriteTarget, file: DataFile) -> list[dict[str, Any]]:
    reading = default_registry().read(file.file_format, "rows", target.storage, file.file_path)
    return list(reading.project(target.schema).facts(record_count=file.record_count))


def usable(schema: Schema, terms: list[str], build: Any) -> list[str]:
    """Those of the terms that the schema allows, all at once."""
    accepted: list[str] = []
    for term in terms:
        try:
            build(schema, [*accepted, term])
        except (InvalidPartitionSpec, InvalidSortOrder, InvalidInput, ValueError):
            continue
        accepted.append(term)
    return accepted


def check_metrics(schema: Schema, file: DataFile, rows: list[dict[str, Any]]) -> None:
    """Counts are exact; every value that is neither null nor NaN lies within the bounds."""
    assert file.record_count == len(rows)
    for field_id, counted in (file.value_counts or {}).items():
        entry = schema.entry(field_id)
        values = [column_reader(entry)(row) for row in rows]
        not_null = [value for value in values if value is not None]
        nans = [value for value in not_null if isinstance(value, float) and math.isnan(value)]
        assert counted == len(values)
        assert (file.null_value_counts or {})[field_id] == len(values) - len(not_null)
        if entry.field.type.kind in ("float", "double"):
            assert (file.nan_value_counts or {})[field_id] == len(nans)
        numbers = [value for value in not_null if not (isinstance(value, float) and math.isnan(value))]
        lower, upper = (file.lower_bounds or {}).get(field_id), (file.upper_bounds or {}).get(field_id)
        if numbers and lower is not None:
            key = value_order.sort_key(entry.field.type)
            assert key(decode(entry.field.type, lower)) <= min(map(key, numbers))
        if numbers and upper is not None:
            key = value_order.sort_key(entry.field.type)
            assert key(decode(entry.field.type, upper)) >= max(map(key, numbers))


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@settings(max_examples=100)
@given(data=st.data(), file=files(LEAVES))
def test_each_row_is_in_a_file_of_its_partition(
    file_format: str, data: st.DataObject, file: tuple[Schema, list[dict[str, Any]]]
) -> None:
    schema, rows = file
    plain = re.compile(r"\w+(\.\w+)*", re.ASCII)
    names = [entry.name for entry in schema.by_id.values() if not entry.in_collection and plain.fullmatch(entry.name)]
    drawn = st.lists(st.tuples(st.sampled_from(TERMS), st.sampled_from(names)), max_size=3) if names else st.just([])
    terms = [term.format(name) for term, name in data.draw(drawn)]
    partition_by = usable(schema, terms, build_spec)
    sort_by = usable(schema, [f"{term} desc" for term in terms[:1]], build_order)
    target = target_of(
        schema,
        partition_by=partition_by,
        sort_by=sort_by,
        properties={"write.format.default": file_format, "write.metadata.metrics.default": "full"},
    )
    schema = target.schema  # with ids of its own
    rows = [
        complete(schema.fields, row)
        for row in rows
        if file_format != "orc" or all_leaves(schema.as_struct(), row, orc_holds)
    ]
    batch = rows_to_batch(schema, rows)
    tuple_of = partition_value_fn(target.spec, schema)
    try:
        expected = [tuple(map(key_of, tuple_of(row))) for row in rows]
        order = sort_key(target.sort_order, schema)
        [order(row) for row in rows]
    except InvalidValue:  # truncated, the lowest numbers are below what the type holds
        with pytest.raises(InvalidValue):
            write_rows(target, [batch])
        assert file_names(target.storage) == []
        return
    data_files = write_rows(target, [batch.slice(0, 3), batch.slice(3)])
    assert (
        len({tuple(map(key_of, written.partition)) for written in data_files}) == len(data_files) == len(set(expected))
    )
    stored_rows: Counter[tuple[Any, ...]] = Counter()
    for written in data_files:
        stored = rows_in(target, written)
        check_metrics(schema, written, stored)
        for row in stored:
            assert tuple(map(key_of, tuple_of(row))) == tuple(map(key_of, written.partition))
            stored_rows[text(row)] += 1
        if sort_by:
            assert [order(row) for row in stored] == sorted(map(order, stored))
    assert stored_rows == Counter(text(row) for row in rows)


SCHEMA = Schema((Field(1, "id", LONG), Field(2, "note", STRING)))


def test_row_lineage_is_stored() -> None:
    target = target_of(SCHEMA, format_version=3)
    rows = pa.record_batch(
        {"id": [1, 2], "_row_id": [100, None], "_last_updated_sequence_number": pa.array([5, None], pa.int64())}
    )
    (file,) = write_rows(target, [rows], row_lineage=True)
    reading = default_registry().read("parquet", "arrow", target.storage, file.file_path)
    (batch,) = reading.project(target_with_lineage()).lineage(1000, 9)
    assert batch.column("_row_id").to_pylist() == [100, 1001]
    assert batch.column("_last_updated_sequence_number").to_pylist() == [5, 9]
    reading = default_registry().read("parquet", "arrow", target.storage, file.file_path)
    (batch,) = reading.project(target_with_lineage()).lineage(None, 9)  # a file from before the upgrade to v3
    assert batch.column("_row_id").to_pylist() == [None, None]
    assert batch.column("_last_updated_sequence_number").to_pylist() == [None, None]
    with pytest.raises(InvalidInput, match="format version 2 has no row lineage"):
        write_rows(target_of(SCHEMA), [rows], row_lineage=True)


def target_with_lineage() -> Schema:
    from_spec = Field(2147483540, "_row_id", LONG), Field(2147483539, "_last_updated_sequence_number", LONG)
    return Schema((*SCHEMA.fields, *from_spec))


def test_metrics_are_those_that_properties_ask_for() -> None:
    properties = {"write.metadata.metrics.default": "counts", "write.metadata.metrics.column.note": "truncate(2)"}
    (file,) = write_rows(target_of(SCHEMA, properties=properties), [pa.record_batch({"id": [1], "note": ["abc"]})])
    assert file.value_counts == {1: 1, 2: 1}
    assert (file.lower_bounds, file.upper_bounds) == ({2: b"ab"}, {2: b"ac"})


def test_bounds_of_sorted_columns_are_kept() -> None:
    properties = {"write.metadata.metrics.default": "none"}
    target = target_of(SCHEMA, sort_by=["id"], properties=properties)
    (file,) = write_rows(target, [pa.record_batch({"id": [3, 1]})])
    assert set(file.lower_bounds or {}) == {1}


def test_clustered_rows() -> None:
    target = target_of(SCHEMA, partition_by=["id"])
    rows = pa.record_batch({"id": [1, 1, 2]})
    assert [file.record_count for file in write_rows(target, [rows], clustered=True)] == [2, 1]


def test_equality_deletes_as_rows() -> None:
    target = target_of(SCHEMA)
    (file,) = write_rows(
        target, [pa.record_batch({"id": [1]})], schema=Schema(SCHEMA.fields[:1]), content="equality-deletes",
        equality_ids=(1,),
    )  # fmt: skip
    assert file.is_equality_delete_file
    assert "-deletes.parquet" in file.file_path


def test_an_error_of_the_data_leaves_no_file() -> None:
    target = target_of(SCHEMA, partition_by=["id"])

    def batches() -> Any:
        yield pa.record_batch({"id": list(range(200)) * 1000})
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError, match="the source is gone"):
        write_rows(target, batches())
    assert file_names(target.storage) == []
