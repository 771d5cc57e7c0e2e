"""An epoch of a stream is committed once, however many drivers the query has: one may be thought to be gone."""

import json
from collections.abc import Callable, Collection, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType as SparkStruct

import floe
from floe import Table
from floe.commit.change import Change
from floe.commit.target import TableTarget
from floe.errors import CommitStateUnknown, FloeError, InvalidInput, NoSuchSnapshot
from floe.spark.data_source import stream_writer
from floe.spark.streaming.sink import commit_epoch
from floe.spark.write.options import WriteOptions
from floe.spark.write.worker import WriteRows
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.snapshots import Snapshot

_numbers = count(1)


@pytest.fixture
def name(tmp_path: Path) -> str:
    lake = floe.connect(tmp_path)
    lake.create_namespace("db")
    lake.create_table("db.t", "id bigint")
    return str(tmp_path)


def driver(where: str) -> Table:
    """The table as one of the drivers has it."""
    return floe.connect(where).table("db.t")


def files_of(table: Table, *ids: int) -> list[DataFile]:
    batch = pa.record_batch({"id": pa.array(ids, pa.int64())})
    return WriteRows(table.metadata, table.storage, f"w{next(_numbers)}").write([batch])


def rows(where: str) -> list[int]:
    return sorted(driver(where).scan().to_arrow()["id"].to_pylist())


class Between:
    """Runs something once, between a driver's look at the table and its commit, or within the commit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def look_and_commit(self, run: Callable[[], Any]) -> None:
        before, todo = TableTarget.commit, [run]

        def commit(target: TableTarget, changes: Sequence[Change], files: Collection[str] = ()) -> Snapshot | None:
            if todo:
                todo.pop()()
            return before(target, changes, files)

        self._patch.setattr(TableTarget, "commit", commit)

    def attempt_and_swap(self, pointer: Any, run: Callable[[], Any]) -> None:
        before, todo = type(pointer).swap, [run]

        def swap(self: Any, proposal: Any) -> None:
            if todo:
                todo.pop()()
            before(self, proposal)

        self._patch.setattr(type(pointer), "swap", swap)


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    return Between(monkeypatch)


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("when", ["look_and_commit", "attempt_and_swap"])
@pytest.mark.parametrize("branch", [None, "audit"])
def test_of_two_drivers_one_commits(
    name: str, between: Between, when: str, branch: str | None, *, replaces: bool
) -> None:
    mine, other = driver(name), driver(name)
    options = WriteOptions(branch=branch)
    mine.append([{"id": 0}])
    written, others = files_of(mine, 1, 2), files_of(other, 1, 2)
    said = []

    def zombie() -> None:
        said.append(commit_epoch(other, others, "q", 5, options, replaces=replaces))

    if when == "look_and_commit":
        between.look_and_commit(zombie)
    else:
        between.attempt_and_swap(mine.commit_target.pointer, zombie)
    assert commit_epoch(mine, written, "q", 5, options, replaces=replaces) is False
    assert said == [True]
    found = driver(name).scan(ref=branch).to_arrow()["id"].to_pylist()
    assert sorted(found) == ([1, 2] if replaces else [0, 1, 2])
    left = {str(path) for path in Path(name).rglob("*.parquet")}
    assert not left & {file.file_path.removeprefix("file://").removeprefix("file:") for file in written}


def test_older_epochs_are_not_written_and_newer_ones_are(name: str) -> None:
    table = driver(name)
    for epoch, is_committed in ((0, True), (1, True), (0, False), (1, False), (2, True)):
        files = files_of(table, epoch)
        assert commit_epoch(table, files, "q", epoch, WriteOptions()) is is_committed
    assert rows(name) == [0, 1, 2]
    assert commit_epoch(table, files_of(table, 9), "another query", 0, WriteOptions()) is True
    assert rows(name) == [0, 1, 2, 9]


def test_others_who_commit_meanwhile_are_built_upon(name: str, between: Between) -> None:
    mine, other = driver(name), driver(name)
    between.attempt_and_swap(mine.commit_target.pointer, lambda: other.append([{"id": 7}]))
    assert commit_epoch(mine, files_of(mine, 1), "q", 0, WriteOptions()) is True
    assert rows(name) == [1, 7]


def test_a_commit_that_fails_can_be_made_again(name: str, between: Between) -> None:
    """What failed before the swap has not been committed, so the epoch is not taken for known."""
    table = driver(name)

    def fail() -> None:
        raise FloeError("the network is gone")

    between.attempt_and_swap(table.commit_target.pointer, fail)
    with pytest.raises(FloeError, match="network"):
        commit_epoch(table, files_of(table, 1), "q", 0, WriteOptions())
    assert commit_epoch(table, files_of(table, 1), "q", 0, WriteOptions()) is True
    assert rows(name) == [1]


def test_an_epoch_that_may_be_there_where_history_has_expired_is_not_written_again(name: str) -> None:
    table = driver(name)
    assert commit_epoch(table, files_of(table, 1), "q", 0, WriteOptions())
    first = table.snapshots[0].snapshot_id
    table.create_tag("kept", snapshot=first)
    for number in (2, 3):
        table.append([{"id": number}])
    table.expire(snapshots=[table.snapshots[1].snapshot_id]).apply()
    with pytest.raises(NoSuchSnapshot, match=f"branch 'main' has epoch 0 .* {first} has epoch 0"):
        commit_epoch(table, files_of(table, 1), "q", 0, WriteOptions())
    assert rows(name) == [1, 2, 3]
    assert commit_epoch(table, files_of(table, 4), "q", 1, WriteOptions()), "a later one is new"
    assert commit_epoch(table, files_of(table, 5), "another", 0, WriteOptions())
    assert rows(name) == [1, 2, 3, 4, 5]


def test_files_of_a_commit_that_may_have_been_made_stay(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark has a write that failed aborted, in another process: also if its commit failed, and nobody knows how."""
    table, before = driver(name), TableTarget.commit
    (tmp_path / "metadata").write_text(json.dumps({"id": "query"}))
    writer = stream_writer(
        table, SparkStruct().add("id", "long"), {"checkpointLocation": str(tmp_path)}, WriteOptions(), replaces=False
    )
    message = writer.write_batches(iter([pa.record_batch({"id": pa.array([1], pa.int64())})]))

    def lost(target: TableTarget, changes: Sequence[Change], files: Collection[str] = ()) -> Snapshot | None:
        before(target, changes, files)
        raise CommitStateUnknown("no answer")

    monkeypatch.setattr(TableTarget, "commit", lost)
    with pytest.raises(CommitStateUnknown):
        writer.commit([message], 0)
    writer.abort([message], 0)
    assert rows(name) == [1]


def test_files_of_tasks_are_deleted_when_another_failed(name: str, tmp_path: Path) -> None:
    writer = stream_writer(driver(name), SparkStruct().add("id", "long"), {}, WriteOptions(), replaces=False)
    message = writer.write_batches(iter([pa.record_batch({"id": pa.array([1], pa.int64())})]))
    assert list(tmp_path.rglob("*.parquet"))
    writer.abort([message, None], 0)
    assert not list(tmp_path.rglob("*.parquet"))


def test_files_of_a_stream_that_cannot_be_committed_are_deleted(name: str, tmp_path: Path) -> None:
    writer = stream_writer(driver(name), SparkStruct().add("id", "long"), {}, WriteOptions(), replaces=False)
    message = writer.write_batches(iter([pa.record_batch({"id": pa.array([1], pa.int64())})]))
    with pytest.raises(InvalidInput, match="checkpoint"):
        writer.commit([message], 0)
    assert not list(tmp_path.rglob("*.parquet"))
