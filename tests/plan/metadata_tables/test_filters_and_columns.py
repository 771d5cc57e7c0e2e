"""Filters and projections of metadata tables: what is left is exactly what a filter on all rows leaves."""

import functools
import random
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from floe.errors import FloeError, InvalidExpression, InvalidInput, NoSuchColumn
from floe.formats.columns.filters import filter_batch
from floe.plan.metadata_tables import NAMES, metadata_table, schema_of
from floe.spec.expressions.binder import bind
from floe.spec.expressions.dsl import col
from floe.spec.expressions.nodes import Expression
from floe.spec.schemas.schema import Schema, SchemaField
from floe.testing.faults import FaultyStorage
from helpers.corpus_tables import CorpusTable, open_table

TABLES = ["combo_v2", "evo_partition", "part_identity_types", "del_upgrade"]
KINDS = sorted(set(NAMES) - {"data_files", "delete_files", "all_data_files", "all_delete_files", "all_entries"})
"""The tables whose rows are made in a way of their own."""


def read(table: CorpusTable, name: str, **options: Any) -> pa.Table:
    location = f"{table.metadata.location}/{table.facts['metadata']}"
    return metadata_table(name, table.metadata, location, table.storage, workers=1, **options)


@functools.lru_cache(100)
def _all_rows(corpus_dir: Path, table_name: str, name: str) -> pa.Table:
    return read(open_table(corpus_dir, table_name), name)


def all_rows(table: CorpusTable, name: str) -> pa.Table:
    return _all_rows(table.folder.parent, table.name, name)


def texts(table: pa.Table) -> list[str]:
    return [repr(row) for row in table.to_pylist()]


def filterable(schema: Schema) -> list[SchemaField]:
    return [entry for entry in schema.by_id.values() if not entry.in_collection]


def some_values(table: pa.Table, entry: SchemaField) -> list[Any]:
    """Values that a column has, as a person writes them."""
    column: Any = table.column(entry.path[0])
    for name in entry.path[1:]:
        column = pc.struct_field(column, name)
    moments = pa.types.is_timestamp(column.type) and column.type.unit == "ns"
    found = [] if moments else [value for value in column.to_pylist() if value is not None]
    if entry.field.type.kind == "uuid":
        found = [uuid.UUID(bytes=value) for value in found]
    return sorted(set(found)) if found else []


def random_filter(rng: random.Random, table: pa.Table, entries: list[SchemaField], depth: int = 2) -> Expression:
    if depth and rng.random() < 0.6:
        left, right = (random_filter(rng, table, entries, depth - 1) for _ in range(2))
        return left & right if rng.random() < 0.5 else left | right
    entry = rng.choice(entries)
    column = col(*entry.path)
    values = some_values(table, entry) if entry.field.type.is_primitive else []
    if not values or rng.random() < 0.15:
        return column.is_null() if rng.random() < 0.5 else column.is_not_null()
    value = rng.choice(values)
    tests = [
        column == value,
        column != value,
        column < value,
        column >= value,
        column.is_in(rng.choices(values, k=3)),
        ~column.is_in(rng.choices(values, k=2)),
    ]
    return rng.choice(tests)


@pytest.mark.parametrize("table_name", TABLES)
def test_a_filter_leaves_what_it_leaves_of_all_rows(corpus_dir: Path, table_name: str) -> None:
    table = open_table(corpus_dir, table_name)
    rng = random.Random(table_name)
    left = 0
    for name in KINDS:
        everything = all_rows(table, name)
        schema = schema_of(name, table.metadata)
        entries = filterable(schema)
        for _ in range(6):
            where = random_filter(rng, everything, entries)
            wanted = filter_batch(bind(where, schema), everything)
            found = read(table, name, where=where)
            assert found.schema == everything.schema
            assert texts(found) == texts(wanted), (name, str(where))
            left += 0 < len(found) < len(everything)
    assert left > 10  # filters that leave something and not all


@pytest.mark.parametrize("table_name", TABLES)
def test_a_projection_gives_the_same_values(corpus_dir: Path, table_name: str) -> None:
    table = open_table(corpus_dir, table_name)
    rng = random.Random(table_name)
    for name in KINDS:
        everything = all_rows(table, name)
        entries = filterable(schema_of(name, table.metadata))
        for _ in range(3):
            chosen = rng.sample(entries, k=min(3, len(entries)))
            found = read(table, name, columns=[entry.path for entry in chosen])
            assert found.num_rows == everything.num_rows
            order = {column.name: place for place, column in enumerate(everything.schema)}
            assert found.column_names == sorted({entry.path[0] for entry in chosen}, key=order.__getitem__)
            for entry in chosen:
                ours, all_of_it = (_nested(one, entry.path) for one in (found, everything))
                assert repr(ours.to_pylist()) == repr(all_of_it.to_pylist()), (name, entry.name)


def _nested(table: pa.Table, path: tuple[str, ...]) -> Any:
    column: Any = table.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, name)
    return column


def test_filter_and_projection_together(corpus_dir: Path) -> None:
    table = open_table(corpus_dir, "combo_v2")
    where = (col("data_file.content") == 1) & (col("data_file.record_count") > 1)
    found = read(table, "entries", where=where, columns=["data_file.file_path", "status"])
    rows = [
        {"status": row["status"], "data_file": {"file_path": row["data_file"]["file_path"]}}
        for row in read(table, "entries").to_pylist()
        if row["data_file"]["content"] == 1 and row["data_file"]["record_count"] > 1
    ]
    assert rows
    assert found.to_pylist() == rows


def test_no_columns_still_count_rows(corpus_dir: Path) -> None:
    table = open_table(corpus_dir, "combo_v2")
    for name in NAMES:
        found = read(table, name, columns=[])
        assert (found.num_columns, found.num_rows) == (0, all_rows(table, name).num_rows), name


def test_a_bound_filter_works_as_well(corpus_dir: Path) -> None:
    table = open_table(corpus_dir, "combo_v2")
    where = col("content") == 0
    bound = bind(where, schema_of("files", table.metadata))
    assert read(table, "files", where=bound).equals(read(table, "files", where=where))


# what is not read -------------------------------------------------------------------------------------------------


def reads(table: CorpusTable, name: str, **options: Any) -> list[str]:
    """The files that are read for a table, without the manifest lists."""
    storage = FaultyStorage(table.storage)
    location = f"{table.metadata.location}/{table.facts['metadata']}"
    metadata_table(name, table.metadata, location, storage, workers=1, **options)
    found = (call.location for call in storage.calls if call.operation.startswith(("read", "open_read")))
    return [location for location in found if "/snap-" not in location]


def test_manifests_of_other_partitions_are_not_read(corpus_dir: Path) -> None:
    table = open_table(corpus_dir, "evo_partition")
    everything = set(reads(table, "files"))
    summaries = read(table, "manifests").to_pylist()
    field = schema_of("files", table.metadata).field("partition").type.fields[0]
    values = [row["partition"][field.name] for row in read(table, "files").to_pylist()]
    value = next(value for value in values if value is not None)
    some = set(reads(table, "files", where=col("partition", field.name) == value))
    assert some < everything
    assert len(everything) == len(summaries)
    for name in ("entries", "partitions"):
        prefix = ("data_file", "partition") if name == "entries" else ("partition",)
        assert set(reads(table, name, where=col(*prefix, field.name) == value)) == some


def test_manifests_of_other_content_or_spec_are_not_read(corpus_dir: Path) -> None:
    table = open_table(corpus_dir, "combo_v2")
    manifests = read(table, "manifests").to_pylist()
    deletes = {row["path"] for row in manifests if row["content"] == 1}
    assert deletes
    assert set(reads(table, "files", where=col("content") != 0)) == deletes
    assert set(reads(table, "entries", where=col("data_file.content") == 2)) == deletes
    assert set(reads(table, "delete_files")) == deletes
    of_spec = {row["path"] for row in manifests if row["partition_spec_id"] == 0}
    assert set(reads(table, "files", where=col("spec_id") == 0)) == of_spec < {row["path"] for row in manifests}


def test_manifest_lists_of_other_snapshots_are_not_read(corpus_dir: Path) -> None:
    table = open_table(corpus_dir, "combo_v2")
    chosen = table.metadata.snapshots[1]
    storage = FaultyStorage(table.storage)
    where = col("reference_snapshot_id") == chosen.snapshot_id
    found = metadata_table("all_manifests", table.metadata, "x", storage, where=where)
    assert found.num_rows
    assert [call.location for call in storage.calls] == [chosen.manifest_list]


def test_delete_files_that_cannot_match_are_not_opened(corpus_dir: Path) -> None:
    table = open_table(corpus_dir, "del_pos_file_part")
    rows = read(table, "position_deletes").to_pylist()
    one = rows[0]["delete_file_path"]
    by_name = reads(table, "position_deletes", where=col("delete_file_path") == one)
    assert {path for path in by_name if "/data/" in path} == {one}
    target = rows[0]["file_path"]
    found = reads(table, "position_deletes", where=col("file_path") == target)
    by_path = {path for path in found if "/data/" in path}
    assert by_path == {row["delete_file_path"] for row in rows if row["file_path"] == target}
    assert len(by_path) < len({row["delete_file_path"] for row in rows})


def test_metrics_are_not_decoded_when_not_asked_for(corpus_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_table(corpus_dir, "combo_v2")

    def refuse(*arguments: Any) -> Any:
        raise AssertionError("metrics were decoded")

    monkeypatch.setattr("floe.plan.metadata_tables.entries.flat_maps", refuse)
    assert read(table, "files", columns=["file_path", "record_count", "partition"]).num_rows
    with pytest.raises(AssertionError):
        read(table, "files", columns=["readable_metrics"])


# what cannot be asked ---------------------------------------------------------------------------------------------


def test_wrong_questions_have_clear_errors(corpus_dir: Path) -> None:
    table = open_table(corpus_dir, "combo_v2")
    with pytest.raises(InvalidInput, match="no metadata table 'filez'; there are snapshots"):
        read(table, "filez")
    with pytest.raises(NoSuchColumn, match="nope"):
        read(table, "files", columns=["nope"])
    with pytest.raises(NoSuchColumn, match="nope"):
        read(table, "files", where=col("nope") == 1)
    with pytest.raises(InvalidExpression, match="list or map"):
        read(table, "files", where=col("column_sizes.key") == 1)
    with pytest.raises(InvalidInput, match="a filter must be an expression, found str"):
        read(table, "files", where="content = 0")


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_filter_fails_before_anything_is_read(corpus_dir: Path, name: str) -> None:
    table = open_table(corpus_dir, "combo_v2")
    storage = FaultyStorage(table.storage)
    with pytest.raises(FloeError):
        metadata_table(name, table.metadata, "x", storage, where=col("nope").is_null())
    assert not storage.calls
