"""Scans and changelogs in every form that users read: the same rows, streams that stop, and changes of rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import floe
from floe import Table, errors
from floe.arrow.read.changelog import row_numbers
from floe.arrow.read.parallel import Finished, read_in_parallel
from helpers.written_files import Files


def new_table(columns: str = "id bigint not null, s string", version: int = 2, **options: Any) -> Table:
    lake = floe.connect("memory:")
    lake.create_namespace("db")
    return lake.create_table("db.t", columns, format_version=version, **options)


@pytest.fixture
def filled() -> Table:
    """Ten files of 100 rows, some of them deleted."""
    table = new_table()
    files = Files(table)
    data = [files.data([{"id": 100 * n + m, "s": f"s{m}"} for m in range(100)]) for n in range(10)]
    table.append_files(data)
    table.row_delta(deletes=[files.positions([(data[3].file_path, m) for m in range(50)])])
    return table


def ids(rows: Any) -> list[int]:
    values: list[int] = pa.table(rows).column("id").to_pylist()
    return values


EXPECTED = [n for n in range(1000) if not 300 <= n < 350]


# Forms ----------------------------------------------------------------------------------------------------------------


def test_every_form_has_the_same_rows(filled: Table) -> None:
    scan = filled.scan()
    assert ids(scan.to_arrow()) == EXPECTED
    assert ids(scan) == EXPECTED
    assert scan.to_pandas()["id"].tolist() == EXPECTED
    assert scan.to_polars()["id"].to_list() == EXPECTED
    assert pl.DataFrame(scan)["id"].to_list() == EXPECTED
    assert [row["id"] for row in scan.to_rows()] == EXPECTED
    assert duckdb.sql("select count(*), sum(id) from scan").fetchall() == [(len(EXPECTED), sum(EXPECTED))]
    with scan.to_batches() as stream:
        assert ids(stream.to_reader().read_all()) == EXPECTED
    assert scan.count() == len(EXPECTED)
    assert "id" in scan._repr_html_()


def test_what_is_missing_is_told(filled: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("floe.plugins.import_module", nothing)
    with pytest.raises(errors.UnsupportedFeature, match="to_pandas needs pandas; pip install 'pandas'"):
        filled.scan().to_pandas()
    with pytest.raises(errors.UnsupportedFeature, match="to_polars needs polars"):
        filled.scan().to_polars()


def test_limits(filled: Table) -> None:
    scan = filled.scan()
    for limit in (0, 1, 99, 100, 101, 949, 950, 2000):
        assert ids(scan.limit(limit)) == EXPECTED[:limit]
        assert scan.limit(limit).count() == min(limit, len(EXPECTED))
    assert ids(scan.limit(50).limit(5)) == ids(scan.limit(5).limit(50)) == EXPECTED[:5]
    assert ids(scan.head()) == EXPECTED[:10]
    assert [row["id"] for row in filled.scan(where="id > 320").limit(3).to_rows()] == [350, 351, 352]
    with pytest.raises(errors.InvalidInput, match="found -1"):
        scan.limit(-1)


def test_a_limit_opens_no_more_files_than_it_needs(filled: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = filled.scan()
    scan.plan()
    opened: list[str] = []
    original = type(filled.storage).open_read

    def open_read(storage: Any, location: str) -> Any:
        opened.append(location)
        return original(storage, location)

    monkeypatch.setattr(type(filled.storage), "open_read", open_read)
    assert scan.head(5).num_rows == 5
    assert len(opened) == 1


def test_progress(filled: Table) -> None:
    reports: list[Any] = []
    filled.scan().to_arrow(progress=reports.append)
    assert (reports[-1].files, reports[-1].total_files, reports[-1].rows) == (10, 10, len(EXPECTED))
    assert reports[-1].bytes == reports[-1].total_bytes == filled.scan().plan().size
    assert reports[-1].share == 1
    assert [report.rows for report in reports] == sorted(report.rows for report in reports)


def test_unordered_batches_are_the_same_rows(filled: Table) -> None:
    assert sorted(ids(filled.scan().to_batches(ordered=False).read_all())) == EXPECTED


def test_streams_let_go_of_threads(filled: Table) -> None:
    stream = filled.scan().to_batches(batch_size=10, workers=4)
    assert next(stream).num_rows == 10
    assert any(thread.name.startswith("floe-read") for thread in threading.enumerate())
    stream.close()
    stream.close()
    assert not any(thread.name.startswith("floe-read") for thread in threading.enumerate())
    assert list(stream) == []


def test_a_missing_file_is_named(filled: Table) -> None:
    victim = filled.scan().files()[5]
    filled.storage.delete_many([victim])
    with pytest.raises(errors.NoSuchFile, match="rows-5") as caught:
        filled.scan().to_arrow(workers=4)
    assert "refresh" in str(caught.value)
    assert not any(thread.name.startswith("floe-read") for thread in threading.enumerate())


# Parallel reads -------------------------------------------------------------------------------------------------------


def batch(number: int, size: int = 1) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array([number] * size, pa.int64())})


def test_whoever_is_ahead_waits() -> None:
    """However slow the consumer, only so many bytes are read ahead of it."""
    read_so_far: list[int] = []

    def read(item: int) -> Iterator[pa.RecordBatch]:
        for n in range(20):
            read_so_far.append(item)
            yield batch(100 * item + n, 100_000)  # 800,000 bytes

    batches = read_in_parallel(read, range(6), workers=3, budget=4_000_000)
    numbers = []
    consumed = 0
    for item_batch in batches:
        if isinstance(item_batch, Finished):
            continue
        consumed += 1
        numbers.append(item_batch.column("n")[0].as_py())
        assert len(read_so_far) - consumed <= 5 + 3 + 1  # what the budget has room for, one in each thread's hands
    assert numbers == [100 * item + n for item in range(6) for n in range(20)]


def test_an_error_comes_in_its_turn_and_ends_the_rest() -> None:
    def read(item: int) -> Iterator[pa.RecordBatch]:
        yield batch(item)
        if item == 2:
            raise errors.CorruptFile("broken")

    batches = read_in_parallel(read, iter(range(1000)), workers=3, budget=10**6)
    numbers = []
    with pytest.raises(errors.CorruptFile, match="broken"):
        numbers.extend(
            item_batch.column("n")[0].as_py() for item_batch in batches if not isinstance(item_batch, Finished)
        )
    assert not any(thread.name.startswith("floe-read") for thread in threading.enumerate())


def test_an_error_of_the_plan_is_raised_too() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise errors.CorruptFile("no plan")

    with pytest.raises(errors.CorruptFile, match="no plan"):
        list(read_in_parallel(lambda n: iter([batch(n)]), items(), workers=2, budget=10**6))


def test_readers_work_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=20)

    def read(item: int) -> Iterator[pa.RecordBatch]:
        both.wait()
        yield batch(item)

    assert len(list(read_in_parallel(read, range(2), workers=2, budget=10**6))) == 4


def test_closing_does_not_wait_for_what_nobody_wants() -> None:
    def read(item: int) -> Iterator[pa.RecordBatch]:
        while True:
            yield batch(item, 100_000)

    batches = read_in_parallel(read, range(4), workers=4, budget=10**6)
    next(batches)
    start = time.monotonic()
    batches.close()  # type: ignore[attr-defined]
    assert time.monotonic() - start < 20


# Changelogs -----------------------------------------------------------------------------------------------------------


def change_rows(changes: Any) -> list[tuple[Any, ...]]:
    rows = changes.to_arrow().to_pylist()
    return [(row["_change_ordinal"], row["_change_type"], row["id"], row.get("s")) for row in rows]


@pytest.fixture
def changed() -> Table:
    """An append, an update by rewriting the file, and a delete by positions."""
    table = new_table("id bigint not null, s string")
    files = Files(table)
    first = files.data([{"id": n, "s": "a"} for n in range(5)])
    table.append_files([first])
    second = files.data([{"id": n, "s": "b" if n == 2 else "a"} for n in range(5)])
    table.overwrite_files(added=[second], removed=[first], read="true")
    table.row_delta(deletes=[files.positions([(second.file_path, 4)])])
    return table


def test_changes_are_rows(changed: Table) -> None:
    inserts = [(0, "INSERT", n, "a") for n in range(5)]
    assert change_rows(changed.changes()) == [
        *inserts,
        (1, "DELETE", 2, "a"),
        (1, "INSERT", 2, "b"),
        (2, "DELETE", 4, "a"),
    ]
    everything = change_rows(changed.changes(carry_over=True))
    assert len(everything) == 5 + 10 + 1
    assert change_rows(changed.changes(columns=["id"]))[5:7] == [(1, "DELETE", 2, None), (1, "INSERT", 2, None)]
    assert change_rows(changed.changes(where="s = 'b'")) == [(1, "INSERT", 2, "b")]
    assert change_rows(changed.changes(columns=["_change_type", "id"]))[5] == (1, "DELETE", 2, None)
    with pytest.raises(errors.NoSuchColumn, match=r"'_change_type'.*changes\(\)"):
        changed.scan(columns=["_change_type"])
    snapshots = [snapshot.snapshot_id for snapshot in changed.snapshots]
    assert set(changed.changes().to_arrow()["_commit_snapshot_id"].to_pylist()) == set(snapshots)
    assert [row["_change_type"] for row in changed.changes(since=snapshots[1]).to_rows()] == ["DELETE"]
    assert changed.changes().limit(3).to_arrow().num_rows == 3


def test_updates_are_pairs(changed: Table) -> None:
    assert change_rows(changed.changes(updates=True, identifiers=["id"]))[5:] == [
        (1, "UPDATE_BEFORE", 2, "a"),
        (1, "UPDATE_AFTER", 2, "b"),
        (2, "DELETE", 4, "a"),
    ]
    with pytest.raises(errors.InvalidInput, match="no identifier columns"):
        changed.changes(updates=True)
    with pytest.raises(errors.InvalidInput, match="updates=True"):
        changed.changes(identifiers=["id"])
    changed.evolve().set_identifier_fields("id").commit()
    assert "UPDATE_AFTER" in changed.changes(updates=True).to_arrow()["_change_type"].to_pylist()


def test_appends_keep_their_meaning(changed: Table) -> None:
    assert ids(changed.changes().appended()) == [0, 1, 2, 3, 4]
    assert len(changed.changes().appends()) == 1


def test_replaying_the_changes_gives_the_table(changed: Table) -> None:
    rows: list[tuple[int, str]] = []
    for row in changed.changes().to_rows():
        key = (row["id"], row["s"])
        rows.append(key) if row["_change_type"] == "INSERT" else rows.remove(key)
    assert sorted(rows) == sorted((row["id"], row["s"]) for row in changed.scan().to_rows())


def test_rows_are_numbered_by_their_values() -> None:
    def numbers(values: list[Any], type_: pa.DataType) -> list[int]:
        numbered: list[int] = row_numbers([pa.array(values, type_)], len(values)).tolist()
        return numbered

    nested = pa.struct([("a", pa.list_(pa.struct([("b", pa.int32())]))), ("c", pa.map_(pa.string(), pa.float64()))])
    first, second = {"a": [{"b": 1}, None], "c": [("x", float("nan"))]}, {"a": [{"b": 1}], "c": [("x", float("nan"))]}
    numbered = numbers([first, second, None, first, {"a": None, "c": None}, None, {"a": [], "c": None}], nested)
    assert [numbered.index(number) for number in numbered] == [0, 1, 2, 0, 4, 2, 6]
    assert numbers([None, None], pa.null()) == [0, 0]
    assert row_numbers([], 3).tolist() == [0, 0, 0]
