"""Reads with deletes of all kinds: random tables against a model, and difficult cases one by one."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import floe
from floe import Table
from floe.arrow.read.deletes import KeySet
from floe.arrow.read.task_reader import TaskReader
from floe.plan.tasks import split_task
from floe.spec.schemas.column_projection import select
from helpers.run_totals import report_totals
from helpers.written_files import Files

COLUMNS = "id bigint, n int, x double, s string, at timestamp, st struct<a: int, b: string>"
KEYS = (("id",), ("n",), ("s",), ("at",), ("n", "s"), ("st.a",), ("n", "st.b", "at"), ("id", "n", "st.a", "s"))


def new_table(columns: str = COLUMNS, version: int = 2, **options: Any) -> Table:
    lake = floe.connect("memory:")
    lake.create_namespace("db")
    return lake.create_table("db.t", columns, format_version=version, **options)


def same(value: Any) -> Any:
    """A value that is equal to itself if it is NaN, and tells -0.0 from 0.0."""
    return ("float", math.copysign(1, value), str(value)) if isinstance(value, float) else value


def part_of(row: dict[str, Any], column: str) -> Any:
    for name in column.split("."):
        row = row[name] if row is not None else None  # type: ignore[assignment]
    return same(row)


def nested(row: dict[str, Any], columns: tuple[str, ...]) -> dict[str, Any]:
    """The part of a row that a delete file of some columns has."""
    part: dict[str, Any] = {}
    for column in columns:
        first, _, field = column.partition(".")
        if not field:
            part[first] = row[first]
        elif row[first] is None:
            part[first] = None
        else:
            part.setdefault(first, {})[field] = row[first][field]
    return part


class Model:
    """The rows of a table, where they are, and whether they are still there."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []  # file, position, row, is alive

    def append(self, file: Any, rows: list[dict[str, Any]]) -> None:
        self.rows += [[file, position, row, True] for position, row in enumerate(rows)]

    def delete_positions(self, deleted: set[tuple[str, int]]) -> None:
        for row in self.rows:
            row[3] &= (row[0].file_path, row[1]) not in deleted

    def delete_keys(self, columns: tuple[str, ...], keys: list[dict[str, Any]]) -> None:
        deleted = {tuple(part_of(key, column) for column in columns) for key in keys}
        for row in self.rows:
            row[3] &= tuple(part_of(row[2], column) for column in columns) not in deleted


VALUES = st.fixed_dictionaries(
    {
        "id": st.integers(0, 6),
        "n": st.none() | st.integers(-2, 2),
        "x": st.none() | st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf]),
        "s": st.none() | st.sampled_from(["", "a", "b", "ä"]),
        "at": st.none() | st.integers(0, 4),
        "st": st.none()
        | st.fixed_dictionaries({"a": st.none() | st.integers(0, 2), "b": st.none() | st.sampled_from(["p", "q"])}),
    }
)


class Steps:
    """Random commits to a table and to its model."""

    def __init__(self, data: st.DataObject, table: Table, files: Files) -> None:
        self.data, self.table, self.files, self.model = data, table, files, Model()
        self.vectors: dict[str, Any] = {}

    def append(self) -> None:
        rows = self.data.draw(st.lists(VALUES, min_size=1, max_size=12))
        file = self.files.data(rows)
        self.table.append_files([file])
        self.model.append(file, rows)

    def delete_positions(self) -> None:
        deleted = self.data.draw(st.sets(st.sampled_from([(row[0].file_path, row[1]) for row in self.model.rows])))
        if deleted and self.table.format_version < 3:
            self.table.row_delta(
                deletes=[self.files.positions(sorted(deleted))], referenced=sorted({path for path, _ in deleted})
            )
        for path in {path for path, _ in deleted} if self.table.format_version == 3 else ():
            target = next(row[0] for row in self.model.rows if row[0].file_path == path)
            before, old = self.vectors.get(path, (set(), None))
            all_of_them = before | {position for other, position in deleted if other == path}
            new = self.files.vector(target, all_of_them)
            self.table.row_delta(deletes=[new], removed=[old] if old else [])
            self.vectors[path] = (all_of_them, new)
        self.model.delete_positions(deleted)

    def delete_keys(self) -> None:
        columns = self.data.draw(st.sampled_from(KEYS))
        existing = st.sampled_from([row[2] for row in self.model.rows])
        keys = [nested(key, columns) for key in self.data.draw(st.lists(existing | VALUES, min_size=1, max_size=6))]
        self.table.row_delta(deletes=[self.files.keys(columns, keys)])
        self.model.delete_keys(columns, keys)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@given(data=st.data())
@settings(max_examples=15)
def test_rows_are_those_of_the_model(file_format: str, version: int, data: st.DataObject) -> None:
    table = new_table(version=version)
    steps = Steps(data, table, Files(table, file_format))
    steps.append()
    for _ in range(data.draw(st.integers(1, 5))):
        data.draw(st.sampled_from([steps.append, steps.delete_positions, steps.delete_keys]))()
    order = {path: index for index, path in enumerate(table.scan().files())}  # newest first
    rows = sorted(steps.model.rows, key=lambda row: (order[row[0].file_path], row[1]))

    def read(**options: Any) -> list[Any]:
        batch_size = options.pop("batch_size", 1000)
        stream = table.scan(**options).to_batches(batch_size=batch_size, workers=data.draw(st.sampled_from([1, 3])))
        return [row for batch in stream for row in plain(batch)]

    def plain(batch: pa.RecordBatch) -> list[Any]:
        assert batch.num_rows > 0
        at = batch.schema.get_field_index("at")
        if at >= 0:
            batch = batch.set_column(at, "at", batch.column(at).view(pa.int64()))
        return [{name: comparable(value) for name, value in row.items()} for row in batch.to_pylist()]

    alive = [comparable(row) for _, _, row, is_alive in rows if is_alive]
    assert read() == alive
    assert read(batch_size=data.draw(st.integers(1, 5))) == alive
    name = data.draw(st.sampled_from(["id", "x", "s"]))
    assert read(columns=[name]) == [{name: row[name]} for row in alive]
    assert read(columns=["st.b"]) == [{"st": row["st"] and {"b": row["st"]["b"]}} for row in alive]
    assert read(where="id < 3", columns=["s"]) == [{"s": row["s"]} for row in alive if row["id"] < 3]
    assert [(row["_pos"], row["_deleted"]) for row in read(columns=["_pos", "_deleted"])] == [
        (position, not is_alive) for _, position, _, is_alive in rows
    ]
    assert table.scan().count() == len(alive)
    assert table.scan(where="id < 3").count() == sum(row["id"] < 3 for row in alive)


def comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: comparable(item) for name, item in value.items()}
    return same(value)


def test_how_many_are_tried(request: pytest.FixtureRequest) -> None:
    report_totals(request, random_tables_with_deletes_read=6 * 15)


# one by one -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_parts_of_a_file_have_their_own_deletes(file_format: str) -> None:
    """Positions count from the beginning of the file, wherever a part begins."""
    table = new_table("id bigint, s string")
    if file_format == "orc":
        table.set_properties({"write.orc.stripe-size-bytes": "1000"})
    files = Files(table, file_format)
    rows = [{"id": n, "s": "x" * 200} for n in range(3000)]
    file = files.data(rows)
    table.append_files([file])
    table.row_delta(deletes=[files.positions([(file.file_path, n) for n in range(0, 3000, 7)])])
    (task,) = table.scan().plan().tasks()
    reader = TaskReader(table.metadata, table.storage)
    parts = [
        [value for batch in reader.batches(part, table.schema) for value in batch.column("id").to_pylist()]
        for part in split_task(task, 500)
    ]
    assert len(parts) >= 1
    assert [value for part in parts for value in part] == [n for n in range(3000) if n % 7]


def test_keys_that_the_table_has_dropped_widened_and_renamed() -> None:
    table = new_table("id int, gone string, n int, st struct<a: int, b: int>")
    files = Files(table)
    table.append_files([files.data([row(n) for n in range(6)])])
    table.row_delta(deletes=[files.keys(["gone", "n"], [{"gone": "s1", "n": 1}])])
    table.row_delta(deletes=[files.keys(["st.b"], [{"st": {"b": 2}}])])
    table.row_delta(deletes=[files.keys(["id"], [{"id": 3}])])
    before = table.current_snapshot
    assert before is not None
    table.evolve().drop_column("gone").promote("id", "bigint").promote("n", "bigint").drop_column("st.b").commit()
    table.evolve().add_column("gone", "int").rename_column("n", "number").commit()
    table.row_delta(deletes=[files.keys(["id"], [{"id": 4}])])
    assert table.scan(columns=["id"]).to_arrow().column("id").to_pylist() == [0, 5]
    assert table.scan(columns=["gone"]).to_arrow().column("gone").to_pylist() == [None, None]
    assert table.scan(columns=["st"]).to_arrow().column("st").to_pylist() == [{"a": 0}, {"a": 5}]
    then = table.scan(snapshot=before.snapshot_id).to_arrow()
    assert then.column("id").to_pylist() == [0, 4, 5]
    assert then.column("id").type == pa.int32()


def row(n: int) -> dict[str, Any]:
    return {"id": n, "gone": f"s{n}", "n": n, "st": {"a": n, "b": n}}


def test_a_delete_file_for_many_data_files_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table("id bigint")
    files = Files(table)
    data = [files.data([{"id": 10 * n + m} for m in range(10)]) for n in range(8)]
    table.append_files(data)
    paths = [file.file_path for file in data]
    table.row_delta(deletes=[files.positions([(path, m) for path in paths for m in (3, 4)])], referenced=paths)
    table.row_delta(deletes=[files.keys(["id"], [{"id": 10 * n + 5} for n in range(8)])])
    opened: list[str] = []
    original = type(table.storage).open_read

    def open_read(storage: Any, location: str) -> Any:
        opened.append(location)
        return original(storage, location)

    monkeypatch.setattr(type(table.storage), "open_read", open_read)
    rows = table.scan().to_arrow(workers=4).column("id").to_pylist()
    assert rows == [n for n in range(80) if n % 10 not in (3, 4, 5)]
    assert len([path for path in opened if "/positions-" in path]) == 1
    assert len([path for path in opened if "/keys-" in path]) == 1


def test_deletes_of_a_partition_leave_others_alone() -> None:
    table = new_table("id bigint, part string", partition_by=["part"])
    files = Files(table)
    table.append_files(
        [files.data([{"id": n, "part": part} for n in range(3)], partition=(part,)) for part in ("a", "b")]
    )
    table.row_delta(deletes=[files.keys(["id"], [{"id": 1}], partition=("a",))])
    rows = table.scan().to_arrow().to_pylist()
    assert sorted((row["part"], row["id"]) for row in rows) == [("a", 0), ("a", 2), ("b", 0), ("b", 1), ("b", 2)]


def test_partition_values_stand_for_columns_that_files_lack() -> None:
    """Also in filters, in keys of deletes, and as `_partition`."""
    table = new_table("id bigint, part string", partition_by=["part"])
    files = Files(table)
    without = select(table.schema, ["id"])
    table.append_files([files.data([{"id": n} for n in range(3)], partition=("a",), schema=without)])
    table.row_delta(deletes=[files.keys(["id", "part"], [{"id": 1, "part": "a"}], partition=("a",))])
    rows = table.scan(columns=["part", "id", "_partition", "_spec_id"], where="part = 'a' and id < 5").to_arrow()
    assert rows.to_pylist() == [
        {"id": n, "part": "a", "_partition": {"part": "a"}, "_spec_id": table.spec.spec_id} for n in (0, 2)
    ]


# Keys -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "values", "expected"),
    [
        (pa.array([1, None], pa.int32()), pa.array([1, 2, None], pa.int32()), [True, False, True]),
        (pa.array([1], pa.int64()), pa.array([None, 1, 0]), [False, True, False]),
        (pa.array([math.nan, 0.0]), pa.array([math.nan, -0.0, 0.0, None]), [True, False, True, False]),
        (pa.array([b"ab", None], pa.binary(2)), pa.array([b"ab", b"ba", None], pa.binary(2)), [True, False, True]),
        (pa.array([True]), pa.array([True, False, None]), [True, False, False]),
        (pa.array([], pa.string()), pa.array(["a", None]), [False, False]),
        (pa.array([5], pa.date32()), pa.array([5, None, 6], pa.date32()), [True, False, False]),
    ],
    ids=["ints", "no null", "floats", "bytes", "booleans", "nothing", "dates"],
)
def test_keys_of_one_column(keys: pa.Array, values: pa.Array, expected: list[bool]) -> None:
    assert KeySet([pa.chunked_array([keys])]).contains([values]).tolist() == expected


CELLS = st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from("ab"), st.none() | st.booleans())


@given(st.lists(CELLS, max_size=20), st.lists(CELLS, max_size=40))
def test_keys_of_several_columns(keys: list[tuple[Any, ...]], rows: list[tuple[Any, ...]]) -> None:
    types = (pa.int64(), pa.string(), pa.bool_())

    def columns(values: list[tuple[Any, ...]]) -> list[pa.Array]:
        return [pa.array([value[n] for value in values], types[n]) for n in range(3)]

    chunked = [pa.chunked_array([array]) for array in columns(keys)]
    assert KeySet(chunked).contains(columns(rows)).tolist() == [row in keys for row in rows]
