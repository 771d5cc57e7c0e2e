"""Rows of many partitions, written in any order or partition by partition, in bounded memory."""

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from floe.errors import FloeError, InvalidInput
from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.writers import partitioned
from floe.formats.writers.partitioned import ClusteredWriter, FanoutWriter
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, STRING, Field
from floe.testing.faults import Fault, FaultyStorage
from helpers.written_rows import file_names, plain_rows, read_file, target_of

SCHEMA = Schema((Field(1, "id", LONG, required=True), Field(2, "part", LONG), Field(3, "note", STRING)))


def batch(rows: int, parts: int, seed: int = 7) -> pa.RecordBatch:
    chance = random.Random(seed)
    return pa.record_batch(
        {
            "id": list(range(rows)),
            "part": [chance.randrange(parts) for _ in range(rows)],
            "note": [f"note {chance.randrange(100)}" for _ in range(rows)],
        },
        schema=arrow_schema(SCHEMA),
    )


def written(writer: Any, *batches: pa.RecordBatch) -> list[Any]:
    with writer:
        for part in batches:
            writer.write(part)
        return list(writer.close())


@pytest.mark.parametrize("workers", [1, 3])
def test_every_row_is_in_the_file_of_its_partition(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned, "_WORTH_THREADS", 1)
    monkeypatch.setattr(partitioned, "_ROWS_AT_ONCE", 500)
    target = target_of(SCHEMA, partition_by=["part"])
    rows = batch(5000, 7)
    files = written(FanoutWriter(target, workers=workers), *(rows.slice(n, 333) for n in range(0, 5000, 333)))
    assert len(files) == 7
    for file in files:
        table = read_file(target.storage, file, SCHEMA)
        assert set(table["part"].to_pylist()) == {file.partition[0]}
        assert table["id"].to_pylist() == sorted(table["id"].to_pylist()), "rows keep their order"
        assert f"/data/part={file.partition[0]}/" in file.file_path
    assert sorted(row["id"] for row in plain_rows(target.storage, files, SCHEMA)) == list(range(5000))
    assert [file.partition[0] for file in files] == list(dict.fromkeys(rows.column("part").to_pylist()))


@pytest.mark.parametrize("workers", [1, 2])
def test_memory_is_bounded(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned, "_ROWS_AT_ONCE", 1000)
    target = target_of(SCHEMA, partition_by=["part"])
    most = 100_000
    writer = FanoutWriter(target, memory=most, workers=workers)
    rows = batch(30_000, 5)
    held = []
    with writer:
        for start in range(0, rows.num_rows, 1000):
            writer.write(rows.slice(start, 1000))
            held.append(sum(part.waiting_bytes + part.files.buffered_bytes for part in writer._partitions.values()))
        files = writer.close()
    step = rows.slice(0, 1000).nbytes
    assert max(held) <= most + (workers + 1) * step
    assert rows.nbytes > 5 * most, "or there was nothing to bound"
    assert len(files) == 5, "files stay open and get more row groups"
    assert all(len(file.split_offsets) > 1 for file in files)
    assert sorted(row["id"] for row in plain_rows(target.storage, files, SCHEMA)) == list(range(30_000))


def test_the_number_of_open_files_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned, "_ROWS_AT_ONCE", 200)
    target = target_of(SCHEMA, partition_by=["part"])
    writer = FanoutWriter(target, memory=1, open_files=3, workers=1)
    rows = batch(2000, 10)
    most = 0
    with writer:
        for start in range(0, 2000, 200):
            writer.write(rows.slice(start, 200))
            most = max(most, sum(part.files.is_open for part in writer._partitions.values()))
        files = writer.close()
    assert most == 3
    assert len(files) > 10, "partitions whose file was closed get another"
    assert sorted(row["id"] for row in plain_rows(target.storage, files, SCHEMA)) == list(range(2000))


@pytest.mark.parametrize("make", [FanoutWriter, ClusteredWriter])
def test_files_of_a_sorted_table_are_sorted(make: type) -> None:
    target = target_of(SCHEMA, partition_by=["part"], sort_by=["note desc", "id"])
    rows = batch(3000, 4).sort_by("part") if make is ClusteredWriter else batch(3000, 4)
    files = written(make(target), *(rows.slice(n, 700) for n in range(0, 3000, 700)))
    assert len(files) == 4
    assert {file.sort_order_id for file in files} == {1}
    for file in files:
        keys = [(row["note"], -row["id"]) for row in read_file(target.storage, file, SCHEMA).to_pylist()]
        assert keys == sorted(keys, reverse=True)


def test_sorted_rows_that_are_too_many_make_several_sorted_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned, "_ROWS_AT_ONCE", 500)
    target = target_of(SCHEMA, sort_by=["note"])
    files = written(FanoutWriter(target, memory=50_000, workers=1), batch(5000, 4))
    assert len(files) > 2
    for file in files:
        notes = read_file(target.storage, file, SCHEMA)["note"].to_pylist()
        assert notes == sorted(notes)
    assert sum(file.record_count for file in files) == 5000


def test_unsorted_files_say_so() -> None:
    (file,) = written(FanoutWriter(target_of(SCHEMA)), batch(10, 1))
    assert file.sort_order_id == 0


def test_rows_partition_by_partition() -> None:
    target = target_of(SCHEMA, partition_by=["part"])
    rows = batch(1000, 5).sort_by("part")
    files = written(ClusteredWriter(target), rows.slice(0, 300), rows.slice(300))
    assert Counter(file.partition for file in files) == {(part,): 1 for part in range(5)}
    assert sorted(row["id"] for row in plain_rows(target.storage, files, SCHEMA)) == list(range(1000))


def test_a_partition_that_comes_again_is_an_error() -> None:
    target = target_of(SCHEMA, partition_by=["part"])
    parts = [pa.record_batch({"id": [1], "part": [part]}) for part in (1, 2, 1)]
    with pytest.raises(InvalidInput, match=r"rows of partition \(1,\) occur again"):
        written(ClusteredWriter(target), *parts)
    assert file_names(target.storage) == []


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("operation", ["open_write", "close_write"])
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.LOST_ANSWER])
def test_a_storage_that_fails_leaves_no_file(
    operation: str, fault: Fault, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioned, "_WORTH_THREADS", 1)
    for at in (1, 3, 6):
        storage = FaultyStorage(target_of(SCHEMA).storage, fault, at=at, only={operation})
        target = target_of(SCHEMA, partition_by=["part"], storage=storage)
        with pytest.raises(FloeError, match="a fault was injected"):
            written(FanoutWriter(target, workers=workers), batch(500, 6))
        assert storage.happened
        assert file_names(storage.storage) == []


def test_files_that_cannot_be_deleted_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned, "_ROWS_AT_ONCE", 100)
    storage = FaultyStorage(target_of(SCHEMA).storage, Fault.BEFORE, at=1, only={"delete_many"})
    target = target_of(SCHEMA, partition_by=["part"], storage=storage)
    broken = pa.record_batch({"id": pa.array([None], pa.int64())})
    with pytest.raises(FloeError, match="null in a required column") as caught:
        written(FanoutWriter(target, memory=1, workers=1), batch(1000, 1), broken)
    (note,) = caught.value.__notes__
    assert "memory:wh/t/data/part=0/00000-0-" in note
    assert "orphan removal" in note
