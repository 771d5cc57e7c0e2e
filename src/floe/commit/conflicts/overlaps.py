"""Where what a change declared meets what others did: the files in which they touch the same rows, or may.

Each function takes the change, a snapshot's facts and the entries in question, and gives the files where they meet.
None of them is ever wrong in saying that two changes do not meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from floe.commit.conflicts.change_index import ChangeIndex, delete_place, deletes_naming
from floe.commit.conflicts.concurrent_commits import Entries, SnapshotChanges
from floe.commit.conflicts.position_overlaps import may_delete_rows_of, overlap
from floe.commit.manifests.file_sets import PathSet
from floe.spec.manifests.delete_scope import partition_key
from floe.spec.manifests.entries import DataFile

Files: TypeAlias = Iterable[Entries]
OverlapCheck: TypeAlias = Callable[[ChangeIndex, SnapshotChanges, Files], Iterator[str]]


# rows that were looked at ---------------------------------------------------------------------------------------


def added_where_read(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Added files that may hold rows of the filter."""
    assert mine.rows_read is not None
    return _paths(map(mine.rows_read.data, files))


def removed_where_read(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Removed files that may have held rows of the filter."""
    assert mine.rows_read is not None
    if mine.looked_at is not None:
        return _same(mine.looked_at, files)
    return _paths(map(mine.rows_read.data, files))


def deleted_by_position_where_read(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Position deletes that may have deleted rows of the filter."""
    assert mine.rows_read is not None
    near = list(map(mine.rows_read.position_deletes, files))
    if mine.looked_at is None:
        yield from _paths(near)
        return
    aimed = mine.aimed(mine.looked_at, near)
    removed = deletes_naming(PathSet(aimed), facts.removed_deletes)
    for path, deletes in aimed.items():
        theirs = mine.their_positions(path, deletes, removed.get(path, []))
        if any(overlap(mine.positions_looked_at(path), other) for other in theirs):
            yield path


def deleted_by_value_where_read(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Equality deletes that may have deleted rows of the filter."""
    assert mine.rows_read is not None
    return _paths(map(mine.rows_read.equality_deletes, files))


# rows that are removed wherever they are ------------------------------------------------------------------------


def added_where_cleared(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Added files that would be removed as well, though nobody looked at them."""
    if mine.rows_cleared is not None:
        yield from _paths(map(mine.rows_cleared.data, files))
    yield from _in_partitions(mine, files)


def removed_where_cleared(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Removed files that may have held rows that are to be removed, or were read for their replacement."""
    return added_where_cleared(mine, facts, files)


def deleted_by_position_where_cleared(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Position deletes in what is to be removed."""
    if mine.rows_cleared is not None:
        yield from _paths(map(mine.rows_cleared.position_deletes, files))
    yield from _in_partitions(mine, files)


def deleted_by_value_where_cleared(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Equality deletes that reach into what is to be removed."""
    if mine.rows_cleared is not None:
        yield from _paths(map(mine.rows_cleared.equality_deletes, files))
    if mine.partitions_cleared:
        yield from _paths(entries for entries in files if mine.is_unpartitioned(entries.spec_id))
    yield from _in_partitions(mine, files)


def _in_partitions(mine: ChangeIndex, files: Files) -> Iterator[str]:
    specs = {spec_id for spec_id, _ in mine.writes.partitions}
    for entries in files if mine.partitions_cleared else ():
        if entries.spec_id in specs:
            for file in entries.columns.data_files(entries.rows, metrics=False):
                if partition_key(file.spec_id, file.partition) in mine.partitions_cleared:
                    yield file.file_path


# data files -----------------------------------------------------------------------------------------------------


def gone_copied_or_dropped(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Files that are to be removed and were removed already."""
    return _same(mine.going, files)


def gone_referenced(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Removed files that position deletes point into."""
    return _same(mine.referenced, files)


def gone_vector_targets(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Removed files that are to get a deletion vector."""
    return _same(mine.vector_targets, files)


def same_new_files(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Files that both add."""
    return _same(mine.new_data, files)


def _same(paths: PathSet, files: Files) -> Iterator[str]:
    for entries in files if len(paths) else ():
        yield from sorted(paths.found_in(entries.paths))


# deletes for some data files ------------------------------------------------------------------------------------


def deletes_of_copied(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Files whose rows were copied, some of which were deleted by position since."""
    return iter(mine.aimed(mine.copied, files))


def deletes_of_dropped(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Files to be removed whole, of which rows were deleted by position since."""
    return iter(mine.aimed(mine.dropped, files))


def deletes_of_vector_targets(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Files that are to get a deletion vector and got other position deletes since."""
    return iter(mine.aimed(mine.vector_targets, files))


def same_positions(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Files of which both delete the same rows, as far as can be told."""
    aimed = mine.aimed(mine.referenced, files)
    removed = deletes_naming(PathSet(aimed), facts.removed_deletes)
    for path, deletes in aimed.items():
        theirs = mine.their_positions(path, deletes, removed.get(path, []))
        if any(overlap(one, other) for one in mine.positions(path) for other in theirs):
            yield path


def same_delete_files(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Delete files that both remove."""
    wanted = PathSet(file.file_path for file in mine.removed_delete_files.values())
    for entries in files:
        if wanted.found_in(entries.paths):
            for file in entries.columns.data_files(entries.rows, metrics=False):
                if delete_place(file) in mine.removed_delete_files:
                    yield file.file_path


# equality deletes -----------------------------------------------------------------------------------------------


def values_of_copied(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Files whose rows were copied, some of which may have been deleted by value since, and would come back.

    They do not if the copies are as old as the originals: then the deletes apply to the copies too.
    """
    for delete in _files(files):
        if _goes_on_applying(mine, facts, delete):
            continue
        for path in mine.in_reach_of(delete, mine.copied):
            copied = mine.removed_data_of(path)
            if copied is None or may_delete_rows_of(delete, copied, mine.metadata.schema):
                yield path


def _goes_on_applying(mine: ChangeIndex, facts: SnapshotChanges, delete: DataFile) -> bool:
    """Whether an equality delete applies to the copies of rows as it did to the rows (spec: Scan Planning).

    It must be younger than the copies; and if it is for one partition, the copies must lie in partitions of its spec,
    where equal rows have equal partitions.
    """
    age = mine.writes.data_sequence_number
    if age is None or age >= facts.snapshot.sequence_number:
        return False
    same_spec = all(file.spec_id == delete.spec_id for file in mine.added_data)
    return same_spec or mine.is_unpartitioned(delete.spec_id)


def values_of_moved(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Files with rows that get a new version, while the old one may have been deleted by value since."""
    if mine.rows_read is not None:
        files = map(mine.rows_read.equality_deletes, files)
    for delete in _files(files):
        yield from mine.in_reach_of(delete, mine.referenced)


def added_in_reach(mine: ChangeIndex, facts: SnapshotChanges, files: Files) -> Iterator[str]:
    """Added files that equality deletes of a partition do not reach, because they are of another spec."""
    specs = {file.spec_id for file in mine.equality_deletes if not mine.is_unpartitioned(file.spec_id)}
    return _paths(entries for entries in files if entries.spec_id not in specs)


# ----------------------------------------------------------------------------------------------------------------


def _paths(parts: Iterable[Entries]) -> Iterator[str]:
    for entries in parts:
        if len(entries):
            yield from (file.file_path for file in entries.columns.data_files(entries.rows[:3], metrics=False))


def _files(parts: Files) -> Iterator[DataFile]:
    for entries in parts:
        if len(entries):
            yield from entries.files()
