"""What every operation wrote, read by PyIceberg: the same files, entries, ages, row counts and manifests."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from floe.commit.change import BLIND, Change, Reads
from floe.commit.operations.data_changes import (
    DeleteFiles,
    FastAppend,
    MergeAppend,
    Overwrite,
    ReplacePartitions,
    RowDelta,
)
from floe.commit.operations.rewrite import RewriteFiles, RewriteManifests
from floe.sql.filters import parse_filter
from helpers.tables import Box, data_file, equality_deletes, local_box, name_of, position_deletes, vector

Steps = list[Callable[[Box], Change]]


def file(box: Box, name: str, day: int = 1, **more):
    return data_file(f"{box.metadata.location}/data/{name}", day, **more)


STEPS: Steps = [
    lambda b: FastAppend([file(b, "a", 1, ids=(1, 5)), file(b, "b", 2, ids=(6, 9))]),
    lambda b: MergeAppend([file(b, "c", 3), file(b, "d", 1)]),
    lambda b: DeleteFiles(where=parse_filter("day = 2")),
    lambda b: Overwrite(removed=[file(b, "a", 1)], added=[file(b, "e", 1)], reads=Reads(b.head().snapshot_id)),
    lambda b: ReplacePartitions([file(b, "f", 3), file(b, "g", 4)]),
    lambda b: RewriteFiles(
        removed=[file(b, "d", 1), file(b, "e", 1)],
        added=[file(b, "h", 1, rows=20)],
        reads=Reads(b.head().snapshot_id),
    ),
    lambda b: FastAppend([file(b, "j", 5), file(b, "k", 4)]),
    lambda b: RewriteManifests(),
    lambda b: MergeAppend([file(b, "i", 9)]),
]


def deletes(box: Box) -> Change:
    folder = f"{box.metadata.location}/data"
    target = f"{folder}/h"
    reads = Reads(box.head().snapshot_id)
    if box.metadata.format_version == 2:
        return RowDelta([position_deletes(f"{folder}/p", 1, target=target)], reads=reads)
    return RowDelta([vector(target, 1, puffin=f"{folder}/v.puffin")], reads=reads)


def equality(box: Box) -> Change:
    return RowDelta([equality_deletes(f"{box.metadata.location}/data/q", 4)], reads=BLIND)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_sees_the_same_after_every_commit(tmp_path: Path, version: int) -> None:
    box = local_box(tmp_path, version, properties={"commit.manifest.min-count-to-merge": "3"})
    for step in [*STEPS, *([deletes, equality] if version > 1 else [])]:
        made = box.commit(step(box))
        assert made is not None
        _compare(box)


def _compare(box: Box) -> None:
    table = StaticTable.from_metadata(box.write_metadata())
    snapshot = table.current_snapshot()
    assert snapshot is not None
    theirs = {}
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            theirs[entry.data_file.file_path] = (
                int(entry.status),
                entry.snapshot_id,
                entry.sequence_number,
                entry.file_sequence_number,
                tuple(entry.data_file.partition[n] for n in range(len(entry.data_file.partition))),
                entry.data_file.record_count,
                dict(entry.data_file.lower_bounds or {}),
            )
    ours = {
        e.data_file.file_path: (
            int(e.status),
            e.snapshot_id,
            e.sequence_number,
            e.file_sequence_number,
            e.data_file.partition,
            e.data_file.record_count,
            dict(e.data_file.lower_bounds or {}),
        )
        for e in box.entries()
    }
    assert theirs == ours
    summary = {k: v for k, v in snapshot.summary.model_dump().items() if k != "operation"}
    assert summary == {k: v for k, v in box.head().summary.items() if k != "operation"}
    assert snapshot.summary.operation.value == box.head().operation
    counts = [
        (m.manifest_path, m.manifest_length, m.added_files_count, m.existing_files_count, m.deleted_files_count)
        for m in snapshot.manifests(table.io)
    ]
    assert counts == [
        (m.manifest_path, m.manifest_length, m.added_files_count, m.existing_files_count, m.deleted_files_count)
        for m in box.manifests()
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_pyiceberg_plans_the_same_files(tmp_path: Path, version: int) -> None:
    box = local_box(tmp_path, version)
    for step in STEPS:
        box.commit(step(box))
    table = StaticTable.from_metadata(box.write_metadata())
    assert {task.file.file_path for task in table.scan().plan_files()} == set(box.live())
    some = {task.file.file_path for task in table.scan(row_filter="day = 3").plan_files()}
    assert some == {name_of(file(box, "f"))}
