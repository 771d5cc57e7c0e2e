"""Which files a stream reads next: over random histories, limits and restarts, each appended file once and in order."""

import random

import pytest

import floe
from floe.errors import NoSuchSnapshot, UnsupportedFeature
from floe.spark.streaming.source import BEGINNING, StreamOffset, StreamOptions, StreamPlanner, parse_offset
from floe.spec.metadata.snapshots import Snapshot
from floe.table.table import Table


def new_table() -> Table:
    lake = floe.connect("memory:")
    lake.create_namespace("db")
    return lake.create_table("db.t", "id bigint, k bigint", partition_by=["k"])


def planner_of(table: Table, **options: bool | int) -> StreamPlanner:
    return StreamPlanner(table.storage, table.schema, StreamOptions(**options))  # type: ignore[arg-type]


def files_between(table: Table, planner: StreamPlanner, start: StreamOffset, end: StreamOffset) -> list[str]:
    return [task.file.file_path for part in planner.file_ranges(table.metadata, start, end) for task in part.tasks()]


def added_by(snapshot: Snapshot | None, table: Table) -> list[str]:
    """The files of an append; nothing for what else there is."""
    assert snapshot is not None
    added = table.changes(since=snapshot.parent_snapshot_id, until=snapshot.snapshot_id).appends()
    return [task.file.file_path for task in added.tasks()]


@pytest.mark.parametrize("seed", range(12))
def test_each_appended_file_comes_once(seed: int) -> None:
    rng, table = random.Random(seed), new_table()
    appended: list[str] = []
    read: list[str] = []
    offset = BEGINNING
    planner = planner_of(table, skip_deletes=True, skip_overwrites=True)
    number = 0
    for _ in range(40):
        match rng.choice(["append", "append", "delete", "overwrite", "rewrite", "read", "read", "restart"]):
            case "append":
                rows = [{"id": number + n, "k": n % rng.randint(1, 4)} for n in range(rng.randint(1, 8))]
                number += len(rows)
                appended += added_by(table.append(rows), table)
            case "delete" if table.current_snapshot is not None:
                table.delete(f"k = {rng.randint(0, 3)}")
            case "overwrite" if table.current_snapshot is not None:
                # which is an append where there is nothing to replace
                appended += added_by(table.overwrite([{"id": -1, "k": 9}], where="k = 9"), table)
            case "rewrite" if table.current_snapshot is not None:
                table.rewrite_manifests()
            case "restart":
                offset = parse_offset(str(offset))  # which is all that a checkpoint keeps
                planner = planner_of(table, skip_deletes=True, skip_overwrites=True)
            case _:
                limits = rng.choice([{}, {"max_files": rng.randint(1, 5)}, {"max_rows": rng.randint(1, 6)}])
                end = planner.next_offset(table.metadata, offset, table.metadata.current_snapshot_id, **limits)
                batch = files_between(table, planner, offset, end)
                assert len(batch) <= limits.get("max_files", len(batch))
                assert (
                    files_between(table, planner_of(table, skip_deletes=True, skip_overwrites=True), offset, end)
                    == batch
                )
                read += batch
                offset = end
    end = planner.next_offset(table.metadata, offset, table.metadata.current_snapshot_id)
    read += files_between(table, planner, offset, end)
    assert read == appended


def test_a_batch_has_so_many_rows_and_at_least_one_file() -> None:
    table = new_table()
    for count in (2, 2, 7, 1):
        table.append([{"id": n, "k": 0} for n in range(count)])
    planner, offset, counts = planner_of(table), BEGINNING, []
    while (
        end := planner.next_offset(table.metadata, offset, table.metadata.current_snapshot_id, max_rows=4)
    ) != offset:
        parts = planner.file_ranges(table.metadata, offset, end)
        counts.append(sum(task.file.record_count for part in parts for task in part.tasks()))
        offset = end
    assert counts == [4, 7, 1]


def test_operations_that_are_no_appends_are_told() -> None:
    table = new_table()
    table.append([{"id": 1, "k": 1}])
    table.delete("k = 1")
    with pytest.raises(UnsupportedFeature, match="streaming-skip-delete-snapshots"):
        planner_of(table).next_offset(table.metadata, BEGINNING, table.metadata.current_snapshot_id)
    end = planner_of(table, skip_deletes=True).next_offset(
        table.metadata, BEGINNING, table.metadata.current_snapshot_id
    )
    assert end.snapshot_id == table.metadata.current_snapshot_id  # so that the delete may expire


def test_a_first_batch_cannot_be_repeated_when_its_beginning_has_expired() -> None:
    table = new_table()
    for number in range(3):
        table.append([{"id": number, "k": 0}, {"id": number, "k": 1}])
    planner = planner_of(table)
    end = planner.next_offset(table.metadata, BEGINNING, table.metadata.current_snapshot_id, max_files=3)
    first, second, _ = (one.snapshot_id for one in table.snapshots)
    assert end == StreamOffset(second, 1)
    table.expire(snapshots=[first]).apply()
    with pytest.raises(NoSuchSnapshot, match="new checkpoint"):
        files_between(table, planner_of(table), BEGINNING, end)


def test_a_time_from_before_what_has_expired_is_no_beginning() -> None:
    table = new_table()
    for number in range(3):
        table.append([{"id": number, "k": 0}])
    first, _, third = table.snapshots
    planner = planner_of(table, from_ms=first.timestamp_ms - 1)
    end = planner.next_offset(table.metadata, BEGINNING, third.snapshot_id)
    assert len(files_between(table, planner, BEGINNING, end)) == 3
    table.create_tag("kept", snapshot=first.snapshot_id)
    table.expire(snapshots=[table.snapshots[1].snapshot_id]).apply()
    with pytest.raises(NoSuchSnapshot, match=f"has expired.*snapshot {third.snapshot_id} of"):
        planner_of(table, from_ms=first.timestamp_ms - 1).next_offset(table.metadata, BEGINNING, third.snapshot_id)
    late = planner_of(table, from_ms=third.timestamp_ms).next_offset(table.metadata, BEGINNING, third.snapshot_id)
    assert late == StreamOffset(third.snapshot_id, 1)


@pytest.mark.parametrize("rows", [[], [{"id": 7, "k": 7}]], ids=["empty", "with rows"])
def test_a_checkpoint_of_another_table_is_refused(rows: list[dict[str, int]]) -> None:
    """A table that was dropped and made anew has other snapshots: nothing of it is read as if the stream went on."""
    old, new = new_table(), new_table()
    old.append([{"id": 1, "k": 1}])
    end = planner_of(old).next_offset(old.metadata, BEGINNING, old.metadata.current_snapshot_id)
    if rows:
        new.append(rows)
    message = rf"snapshot {end.snapshot_id}.*uuid {new.uuid}.*new checkpoint"
    with pytest.raises(NoSuchSnapshot, match=message):
        planner_of(new).next_offset(new.metadata, end, new.metadata.current_snapshot_id)
    with pytest.raises(NoSuchSnapshot, match=message):
        files_between(new, planner_of(new), BEGINNING, end)
