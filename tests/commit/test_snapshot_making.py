"""What all operations share: transactions, executors, old manifest lists, summaries of partitions and of manifests."""

import operator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from floe.avro.manifest_lists import read_manifest_list, write_manifest_list
from floe.avro.manifest_reader import read_manifest
from floe.avro.manifest_writer import CopiedEntries, write_manifest
from floe.commit.change import BLIND, BranchChange, KeyedChange, Reads, TidyChange
from floe.commit.manifests.manifest_files import metadata_folder, summarize_copied
from floe.commit.manifests.manifest_filter import match_files
from floe.commit.operations.cherry_pick import CherryPick
from floe.commit.operations.data_changes import (
    DeleteFiles,
    FastAppend,
    MergeAppend,
    Overwrite,
    ReplacePartitions,
    RowDelta,
)
from floe.commit.operations.rewrite import RewriteFiles, RewriteManifests
from floe.commit.operations.snapshot_change import active_properties, commit_properties
from floe.errors import InvalidInput, InvalidUpdate
from floe.spec.codecs.single_value import encode
from floe.spec.expressions.binder import bind
from floe.spec.expressions.dsl import col
from floe.spec.expressions.row_evaluation import evaluate
from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestEntry, summarize_manifest
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.partitioning.transform_terms import build_spec
from floe.spec.schemas.schema import Schema
from floe.spec.types import DOUBLE, INT, LONG, Field
from floe.sql.filters import parse_filter
from helpers.manifest_strategies import SCHEMA as WIDE, SPEC as WIDE_SPEC, data_files
from helpers.snapshot_invariants import check_all
from helpers.tables import Box, data_file, equality_deletes, new_table
from helpers.value_strategies import values_of

VERSIONS = [1, 2, 3]
A, B, C, D = (f"memory:wh/t/{name}" for name in "abcd")


def test_every_operation_is_what_the_loop_asks_for() -> None:
    old, new = [data_file(A)], [data_file(B)]
    for change in (
        FastAppend(new),
        MergeAppend(new),
        Overwrite(added=new, reads=BLIND),
        ReplacePartitions(new),
        DeleteFiles(paths=[A]),
        RowDelta(new, reads=BLIND),
        RewriteFiles(removed=old, added=new, reads=Reads(1)),
        RewriteManifests(),
        CherryPick(1),
    ):
        assert isinstance(change, KeyedChange)
        assert isinstance(change, BranchChange)
        assert isinstance(change, TidyChange)


# transactions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_changes_of_a_transaction_build_upon_one_another(version: int) -> None:
    box = Box(new_table(version, properties={"commit.manifest.min-count-to-merge": "2"}))
    box.commit(FastAppend([data_file(A, 1)]))
    changes = [
        MergeAppend([data_file(B, 2)]),
        DeleteFiles(paths=[A, B]),
        MergeAppend([data_file(C, 3)]),
        RewriteManifests(cluster_by=lambda file: file.file_path),
    ]
    for number in (1, 2):  # the first attempt is lost to a rival
        start, metadata = box.metadata, box.metadata
        for change in changes:
            attempt = replace(box.attempt(number), metadata=metadata, start=start)
            metadata = apply(metadata, change.updates(attempt), now_ms=attempt.now_ms)
        if number == 1:
            box.commit(FastAppend([data_file(D, 4, rows=7)]))
    box.metadata = metadata
    check_all(box)
    assert set(box.live()) == {C, D}
    assert [s.operation for s in metadata.snapshots[-4:]] == ["append", "delete", "append", "replace"]
    assert metadata.snapshots[-1].summary["total-records"] == "17"


# executors ------------------------------------------------------------------------------------------------------------


def test_with_an_executor_the_files_are_the_same() -> None:
    def contents(executor) -> dict[str, bytes]:
        options = {} if executor is None else {"executor": executor}
        box = Box(new_table(3, properties={"commit.manifest.target-size-bytes": "20000"}))
        for begin in range(0, 3000, 1500):
            files = [data_file(f"memory:wh/t/{n:05}", n % 9, ids=(n, n)) for n in range(begin, begin + 1500)]
            box.commit(FastAppend(files, **options))
        box.commit(DeleteFiles(where=parse_filter("day = 3"), **options))
        box.commit(RewriteManifests(**options))
        check_all(box)
        return {info.location: box.storage.read(info.location) for info in box.storage.list("memory:wh/t")}

    with ThreadPoolExecutor(4) as pool:
        at_once = contents(pool)
    alone = contents(None)
    assert at_once.keys() == alone.keys()
    names = [name for name in alone if "/snap-" not in name]
    entries = {name: read_manifest(alone[name]).entries() for name in names}
    assert {name: read_manifest(at_once[name]).entries() for name in names} == entries


# old lists ------------------------------------------------------------------------------------------------------------


def test_counts_that_v1_lists_leave_out_are_found_for_v2() -> None:
    box = Box(new_table(1))
    box.commit(FastAppend([data_file(A, 1), data_file(B, 2)]))
    box.commit(DeleteFiles(paths=[A]))
    head = box.head()
    bare = [
        replace(m, added_files_count=None, existing_rows_count=None, deleted_rows_count=None) for m in box.manifests()
    ]
    data = write_manifest_list(bare, format_version=1, snapshot_id=head.snapshot_id, parent_snapshot_id=None)
    box.storage.write(head.manifest_list, data, overwrite=True)
    box.metadata = replace(box.metadata, format_version=3, next_row_id=0)
    box.commit(FastAppend([data_file(C, 3)]))
    check_all(box)
    assert {n: e.data_file.first_row_id for n, e in box.live().items()} == {B: 10, C: 0}


def test_snapshots_that_name_their_manifests_themselves() -> None:
    box = Box(new_table(1))
    box.commit(FastAppend([data_file(A, 1), data_file(B, 2)]))
    head = box.head()
    old = Snapshot(
        snapshot_id=head.snapshot_id,
        timestamp_ms=head.timestamp_ms,
        manifests=tuple(m.manifest_path for m in box.manifests()),
    )
    box.metadata = replace(box.metadata, snapshots=(old,))
    made = box.commit(DeleteFiles(where=parse_filter("day = 1")))
    assert set(box.live()) == {B}
    assert "total-records" not in made.summary, "the parent has no summary, so that no total is known"
    assert made.manifest_list is not None
    assert all(
        m.added_snapshot_id == made.snapshot_id for m in read_manifest_list(box.storage.read(made.manifest_list))
    )


def test_a_list_without_partition_summaries_is_read_in_full() -> None:
    box = Box(new_table(2))
    box.commit(FastAppend([data_file(A, 1)]))
    box.commit(FastAppend([data_file(B, 2)]))
    head = box.head()
    bare = [replace(m, partitions=None) for m in box.manifests()]
    data = write_manifest_list(
        bare, format_version=2, snapshot_id=head.snapshot_id, parent_snapshot_id=None, sequence_number=2
    )
    box.storage.write(head.manifest_list, data, overwrite=True)
    box.commit(DeleteFiles(files=[data_file(A, 1)]))
    assert set(box.live()) == {B}


# summaries ------------------------------------------------------------------------------------------------------------


def test_partitions_are_summarised_up_to_the_limit() -> None:
    box = Box(new_table(2, ["day", "name"], properties={"write.summary.partition-limit": "2"}))
    made = box.commit(FastAppend([data_file(A, (1, "x y"), rows=5), data_file(B, (None, "z"))]))
    assert made.summary["partition-summaries-included"] == "true"
    assert {k: v for k, v in made.summary.items() if k.startswith("partitions.")} == {
        "partitions.day=1/name=x+y": "added-data-files=1,added-records=5,added-files-size=500",
        "partitions.day=null/name=z": "added-data-files=1,added-records=10,added-files-size=1000",
    }
    made = box.commit(FastAppend([data_file(f"{C}{n}", (n, "x")) for n in range(3)]))
    assert made.summary["changed-partition-count"] == "3"
    assert not [k for k in made.summary if k.startswith("partition")]


def test_removed_and_added_files_of_a_partition_are_told_together() -> None:
    box = Box(new_table(2, properties={"write.summary.partition-limit": "5"}))
    box.commit(FastAppend([data_file(A, 1)]))
    reads = Reads(box.head().snapshot_id, files=frozenset({A}))
    made = box.commit(Overwrite(removed=[data_file(A, 1)], added=[data_file(B, 1, rows=9)], reads=reads))
    assert made.summary["partitions.day=1"] == (
        "added-data-files=1,deleted-data-files=1,added-records=9,deleted-records=10,"
        "added-files-size=900,removed-files-size=1000"
    )


def test_without_partitioning_there_is_no_partition_to_tell_of() -> None:
    box = Box(new_table(2, [], properties={"write.summary.partition-limit": "5"}))
    made = box.commit(FastAppend([data_file(A, ())]))
    assert made.summary["changed-partition-count"] == "1"
    assert not [k for k in made.summary if k.startswith("partitions.")]


def test_the_engine_can_be_named() -> None:
    box = Box(new_table(2))
    made = box.commit(FastAppend([data_file(A)], summary={"engine-name": "spark", "app-id": "7"}))
    assert (made.summary["engine-name"], made.summary["app-id"]) == ("spark", "7")
    assert box.commit(FastAppend([data_file(B)])).summary["engine-name"] == "floe"


def test_blocks_of_commit_properties_reach_every_snapshot_of_their_thread() -> None:
    box = Box(new_table())
    with commit_properties({"job": "nightly", "by": "me"}):
        with commit_properties({"by": "you"}):
            inner = box.commit(FastAppend([data_file(A)], summary={"job": "mine"}))
        with ThreadPoolExecutor(1) as others:
            elsewhere = others.submit(active_properties).result()
        with pytest.raises(InvalidInput, match="counted, and cannot be set"), commit_properties({"added-records": "7"}):
            pass
    assert (inner.summary["job"], inner.summary["by"]) == ("mine", "you")
    assert dict(elsewhere) == {}
    assert "job" not in box.commit(FastAppend([data_file(B)])).summary


def test_unknown_totals_stay_unknown() -> None:
    box = Box(new_table(2))
    first = box.commit(FastAppend([data_file(A)]))
    summary = {k: v for k, v in first.summary.items() if k != "total-records"}
    bare = Snapshot(
        snapshot_id=first.snapshot_id,
        sequence_number=first.sequence_number,
        timestamp_ms=first.timestamp_ms,
        summary=summary,
        manifest_list=first.manifest_list,
        schema_id=first.schema_id,
    )
    box.metadata = replace(box.metadata, snapshots=(bare,))
    made = box.commit(FastAppend([data_file(B)]))
    assert "total-records" not in made.summary
    assert made.summary["total-data-files"] == "2"


def test_where_metadata_goes() -> None:
    assert metadata_folder(new_table(location="s3://b/t")) == "s3://b/t/metadata"
    assert metadata_folder(new_table(properties={"write.metadata.path": "s3://b/m/"})) == "s3://b/m"


# manifests put together -----------------------------------------------------------------------------------------------

_partitions = st.tuples(*(st.none() | values_of(field.type) for field in WIDE_SPEC.partition_type(WIDE)))


@given(st.lists(st.tuples(data_files(_partitions), st.sampled_from(EntryStatus), st.integers(1, 9)), max_size=8))
def test_columns_are_summarised_as_entries_are(given_: list[tuple[DataFile, EntryStatus, int]]) -> None:
    entries = [
        ManifestEntry(
            status,
            7,
            None if status is EntryStatus.ADDED else number,
            None if status is EntryStatus.ADDED else number,
            replace(file, record_count=file.record_count % 2**40),
        )
        for file, status, number in given_
    ]
    type_ = WIDE_SPEC.partition_type(WIDE)
    columns = read_manifest(write_manifest(entries, WIDE, WIDE_SPEC, format_version=2), partition_type=type_)
    half = len(entries) // 2
    parts = [
        CopiedEntries(columns, np.arange(begin, end), columns.status[begin:end])
        for begin, end in ((0, half), (half, len(entries)))
    ]
    assert summarize_copied(parts, type_) == summarize_manifest(entries, type_)


_TABLE = Schema((Field(1, "id", LONG), Field(2, "day", INT)))
_BY_DAY = build_spec(_TABLE, ["day", "truncate(4, id)"])
_tests = st.builds(
    lambda name, test, number: test(col(name), number),
    st.sampled_from(["id", "day"]),
    st.sampled_from(
        [
            operator.lt,
            operator.le,
            operator.gt,
            operator.ge,
            operator.eq,
            operator.ne,
            lambda term, number: term.is_null(),
            lambda term, number: term.is_not_null(),
            lambda term, number: term.is_in([number, number + 2]),
        ]
    ),
    st.integers(-5, 5),
)
_filters = st.recursive(
    _tests,
    lambda inner: (
        st.builds(operator.and_, inner, inner) | st.builds(operator.or_, inner, inner) | inner.map(operator.inv)
    ),
    max_leaves=4,
)
_row = st.tuples(st.none() | st.integers(-6, 6), st.none() | st.integers(-3, 3))


def _file(rows: list[tuple[int | None, int | None]]) -> DataFile:
    """The file of some rows, which are moved into one partition, with all metrics."""
    ids = [value for value, _ in rows if value is not None]
    days = [value for _, value in rows if value is not None]
    return DataFile(
        FileContent.DATA,
        "a",
        "parquet",
        (rows[0][1], None if rows[0][0] is None else rows[0][0] // 4 * 4),
        len(rows),
        100,
        value_counts={1: len(rows), 2: len(rows)},
        null_value_counts={1: len(rows) - len(ids), 2: len(rows) - len(days)},
        lower_bounds={i: encode(t, min(some)) for i, t, some in ((1, LONG, ids), (2, INT, days)) if some},
        upper_bounds={i: encode(t, max(some)) for i, t, some in ((1, LONG, ids), (2, INT, days)) if some},
    )


@given(st.data(), st.lists(st.lists(_row, min_size=1, max_size=4), min_size=1, max_size=5))
def test_what_is_said_of_files_holds_for_their_rows(
    data: st.DataObject, files: list[list[tuple[int | None, int | None]]]
) -> None:
    """A file that must match has only rows that pass, and one that cannot match has none."""
    expression = bind(data.draw(_filters), _TABLE)

    def same_partition(rows):
        first = rows[0]
        bucket = None if first[0] is None else first[0] // 4
        return [(None if bucket is None else bucket * 4 + (row[0] or 0) % 4, first[1]) for row in rows]

    rows_of = [same_partition(rows) for rows in files]
    entries = [ManifestEntry(EntryStatus.ADDED, 7, None, None, _file(rows)) for rows in rows_of]
    written = write_manifest(entries, _TABLE, _BY_DAY, format_version=2)
    columns = read_manifest(written, partition_type=_BY_DAY.partition_type(_TABLE))
    might, must = match_files(expression, _BY_DAY, columns)
    for place, rows in enumerate(rows_of):
        passing = [evaluate(expression, {"id": row[0], "day": row[1]}) for row in rows]
        assert all(passing) or not must[place]
        assert not any(passing) or might[place]


def test_equality_deletes_on_what_cannot_be_compared() -> None:
    box = Box(new_table(2, schema=Schema((Field(1, "id", DOUBLE), Field(2, "day", INT)))))
    with pytest.raises(InvalidUpdate, match="cannot compare values of type double"):
        box.commit(RowDelta([equality_deletes(D)], reads=BLIND))
