"""The files in which a change and a snapshot of others overlap: both read or write the same rows, or may do so.

Each function belongs to a rule of `rules`. It takes the change (`mine`), the changes of a snapshot (`theirs`) and those
entries of it that the rule is about (`files`), and yields the paths where the two overlap. It may yield a path without
need, where metadata cannot keep the two apart, but it never misses one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from floe.commit.conflicts.change_index import ChangeIndex, delete_file_key, group_by_target
from floe.commit.conflicts.concurrent_commits import Entries, SnapshotChanges
from floe.commit.conflicts.position_overlaps import may_delete_rows_of, overlap
from floe.commit.manifests.file_sets import PathSet
from floe.spec.manifests.delete_scope import partition_key
from floe.spec.manifests.entries import DataFile

Files: TypeAlias = Iterable[Entries]
OverlapCheck: TypeAlias = Callable[[ChangeIndex, SnapshotChanges, Files], Iterator[str]]


# Rows that the change read --------------------------------------------------------------------------------------


def added_where_read(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Added files that may have rows which match the filter of the read."""
    assert mine.rows_read is not None
    return _paths(map(mine.rows_read.data, files))


def removed_where_read(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Removed files that may have had rows which match the filter of the read."""
    assert mine.rows_read is not None
    if mine.files_read is not None:
        return _same(mine.files_read, files)
    return _paths(map(mine.rows_read.data, files))


def deleted_by_position_where_read(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Position deletes that may have deleted rows which match the filter of the read."""
    assert mine.rows_read is not None
    may_match = list(map(mine.rows_read.position_deletes, files))
    if mine.files_read is None:
        yield from _paths(may_match)
        return
    added = mine.match_position_deletes(mine.files_read, may_match)
    removed = group_by_target(PathSet(added), theirs.removed_deletes)
    for path, deletes in added.items():
        deleted = mine.their_positions(path, deletes, removed.get(path, []))
        if any(overlap(mine.positions_read(path), positions) for positions in deleted):
            yield path


def deleted_by_value_where_read(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Equality deletes that may have deleted rows which match the filter of the read."""
    assert mine.rows_read is not None
    return _paths(map(mine.rows_read.equality_deletes, files))


# Rows of a filter or partition that the change removes ----------------------------------------------------------


def added_where_cleared(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Added files that the change would remove without having read them."""
    if mine.rows_cleared is not None:
        yield from _paths(map(mine.rows_cleared.data, files))
    yield from _in_partitions(mine, files)


def removed_where_cleared(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Removed files that may have had rows which the change removes or replaces."""
    return added_where_cleared(mine, theirs, files)


def deleted_by_position_where_cleared(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Position deletes that may have deleted rows which the change removes or replaces."""
    if mine.rows_cleared is not None:
        yield from _paths(map(mine.rows_cleared.position_deletes, files))
    yield from _in_partitions(mine, files)


def deleted_by_value_where_cleared(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Equality deletes that may have deleted rows which the change replaces."""
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


# Data files -----------------------------------------------------------------------------------------------------


def removed_copied_or_dropped(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Removed files that the change copies or removes."""
    return _same(mine.copied_or_dropped, files)


def removed_referenced(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Removed files that the change's position deletes refer to."""
    return _same(mine.referenced, files)


def removed_vector_targets(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Removed files that the change adds deletion vectors for."""
    return _same(mine.vector_targets, files)


def added_by_both(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Data files that both add."""
    return _same(mine.new_data, files)


def _same(paths: PathSet, files: Files) -> Iterator[str]:
    for entries in files if len(paths) else ():
        yield from sorted(paths.found_in(entries.paths))


# Position deletes -----------------------------------------------------------------------------------------------


def deletes_of_copied(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Files that the change copies and of which rows were deleted by position."""
    return iter(mine.match_position_deletes(mine.copied, files))


def deletes_of_dropped(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Files that the change removes and of which rows were deleted by position."""
    return iter(mine.match_position_deletes(mine.dropped, files))


def deletes_of_vector_targets(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Files that the change adds deletion vectors for and that got other position deletes."""
    return iter(mine.match_position_deletes(mine.vector_targets, files))


def same_positions(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Files of which both delete the same rows, or may."""
    added = mine.match_position_deletes(mine.referenced, files)
    removed = group_by_target(PathSet(added), theirs.removed_deletes)
    for path, deletes in added.items():
        deleted = mine.their_positions(path, deletes, removed.get(path, []))
        if any(overlap(positions, other) for positions in mine.positions(path) for other in deleted):
            yield path


def removed_by_both(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Delete files that both remove."""
    paths = PathSet(file.file_path for file in mine.removed_delete_files.values())
    for entries in files:
        if paths.found_in(entries.paths):
            for file in entries.columns.data_files(entries.rows, metrics=False):
                if delete_file_key(file) in mine.removed_delete_files:
                    yield file.file_path


# Equality deletes -----------------------------------------------------------------------------------------------


def equality_deletes_of_copied(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Files that the change copies and whose rows equality deletes may have deleted: the copies would bring them back.

    They do not if the copies keep the sequence number of the originals: then the deletes apply to the copies too.
    """
    for delete in _files(files):
        if _applies_to_copies(mine, theirs, delete):
            continue
        copied = [(path, mine.removed_data_of(path)) for path in mine.paths_in_scope(delete, mine.copied)]
        with_metrics = [file for _, file in copied if file is not None]
        affected = iter(may_delete_rows_of(delete, with_metrics, mine.metadata.schema).tolist())
        yield from (path for path, file in copied if file is None or next(affected))


def _applies_to_copies(mine: ChangeIndex, theirs: SnapshotChanges, delete: DataFile) -> bool:
    """Whether an equality delete applies to the copies of rows as it did to the rows (spec: Scan Planning).

    Its sequence number must be higher than that of the copies; and if it is for one partition, the copies must be in
    partitions of its spec, in which equal rows have equal partition tuples.
    """
    sequence_number = mine.writes.data_sequence_number
    if sequence_number is None or sequence_number >= theirs.snapshot.sequence_number:
        return False
    same_spec = all(file.spec_id == delete.spec_id for file in mine.added_data)
    return same_spec or mine.is_unpartitioned(delete.spec_id)


def equality_deletes_of_moved(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Files with rows that the change updates and that equality deletes may have deleted."""
    if mine.rows_read is not None:
        files = map(mine.rows_read.equality_deletes, files)
    for delete in _files(files):
        yield from mine.paths_in_scope(delete, mine.referenced)


def added_with_other_spec(mine: ChangeIndex, theirs: SnapshotChanges, files: Files) -> Iterator[str]:
    """Added files that the change's equality deletes do not apply to, because they have another partition spec."""
    specs = {file.spec_id for file in mine.equality_deletes if not mine.is_unpartitioned(file.spec_id)}
    return _paths(entries for entries in files if entries.spec_id not in specs)


# Entries as paths and files -------------------------------------------------------------------------------------


def _paths(files: Iterable[Entries]) -> Iterator[str]:
    for entries in files:
        if len(entries):
            yield from (file.file_path for file in entries.columns.data_files(entries.rows[:3], metrics=False))


def _files(files: Files) -> Iterator[DataFile]:
    for entries in files:
        if len(entries):
            yield from entries.files()
