"""Every commit of the corpus made again: the same files, ages, row ids and counts as Java Iceberg's snapshot has."""

from pathlib import Path

import pytest

from floe.commit.change import BLIND, Reads
from floe.commit.operations.data_changes import (
    DeleteFiles,
    FastAppend,
    MergeAppend,
    Overwrite,
    ReplacePartitions,
    RowDelta,
)
from floe.commit.operations.rewrite import RewriteFiles, RewriteManifests
from floe.commit.operations.snapshot_change import SnapshotChange
from floe.errors import InvalidUpdate
from floe.spec.manifests.entries import EntryStatus
from helpers.corpus import table_names
from helpers.java_commits import JavaCommit, counts, java_commits
from helpers.tables import Box, name_of

_LAYOUTS_ONLY = ("types", "evo", "fmt", "imp", "meta", "scale", "plan", "names")
"""Their commits are plain appends; what differs is in the files."""

TABLES = table_names(without=("invalid", "view", "empty_new", "odd", "del_eq_evolved"))


def again(commit: JavaCommit) -> SnapshotChange:
    """The operation that makes the same change."""
    added, removed = commit.own(EntryStatus.ADDED), commit.own(EntryStatus.DELETED)
    new, gone = [one.data_file for one in added], [one.data_file for one in removed]
    reads = Reads(commit.snapshot.parent_snapshot_id)
    has_deletes = any(not file.is_data for file in (*new, *gone))
    operation = commit.snapshot.operation
    if operation == "append":
        return MergeAppend(new, keep_empty=True)
    if operation == "replace" and not new and not gone:
        return RewriteManifests(keep_empty=True)
    if operation == "replace":
        numbers = {
            one.data_file.file_path: one.sequence_number
            for one in added
            if one.sequence_number not in (None, commit.snapshot.sequence_number)
        }
        return RewriteFiles(removed=gone, added=new, sequence_numbers=numbers, reads=reads)
    if commit.snapshot.summary.get("replace-partitions") == "true":
        return ReplacePartitions(new, keep_empty=True)
    if has_deletes:
        somewhere = [one.data_file.file_path for one in commit.live() if one.data_file.is_data]
        return RowDelta(new, removed=gone, referenced=somewhere, reads=reads)
    if operation == "delete":
        return DeleteFiles(files=gone, keep_empty=True)
    return Overwrite(added=new, removed=gone, reads=BLIND if not gone else reads, keep_empty=True)


@pytest.mark.parametrize(
    "table", [pytest.param(t, marks=pytest.mark.slow) if t.startswith(_LAYOUTS_ONLY) else t for t in TABLES]
)
def test_the_commits_of_java_made_again(corpus_dir: Path, table: str) -> None:
    for commit in java_commits(corpus_dir, table):
        box = commit.box()
        made = box.commit(again(commit))
        assert made is not None
        java = {name_of(one.data_file): one for one in commit.live()}
        ours = box.live(made)
        assert ours.keys() == java.keys()
        for name, entry in ours.items():
            # NaN of a partition is unlike itself, but prints alike
            assert entry.data_file == java[name].data_file or repr(entry.data_file) == repr(java[name].data_file)
            assert entry.sequence_number == java[name].sequence_number
            assert entry.file_sequence_number == java[name].file_sequence_number
        own = {made.snapshot_id, commit.snapshot.snapshot_id}
        assert {n: e.snapshot_id for n, e in ours.items() if e.snapshot_id not in own} == {
            n: e.snapshot_id for n, e in java.items() if e.snapshot_id not in own
        }
        assert counts(made.summary, _UNLIKE.get(table, ())) == counts(commit.snapshot.summary, _UNLIKE.get(table, ()))


_SIZES = ("added-files-size", "total-files-size", "changed-partition-count")
_UNLIKE = {
    # Java added whole manifests, and did not look what is in them.
    **dict.fromkeys(table_names("imp_add_files", "imp_migrate", "imp_int96"), _SIZES),
    # A table was replaced: Java calls it an overwrite though the branch was empty.
    "hist_replace": ("operation",),
}


def test_deletes_that_the_spec_forbids_are_not_made_again(corpus_dir: Path) -> None:
    """Java's data model lets equality deletes compare floats, whose zeros and NaN are not equal to all engines."""
    commits = list(java_commits(corpus_dir, "del_eq_evolved"))
    (forbidden,) = [one for one in commits if _compares_floats(one)]
    with pytest.raises(InvalidUpdate, match="cannot compare values of type float"):
        forbidden.box().commit(again(forbidden))


def _compares_floats(commit: JavaCommit) -> bool:
    schema = commit.before.schema
    ids = {i for one in commit.own(EntryStatus.ADDED) for i in one.data_file.equality_ids or ()}
    return any(schema.entry(i).field.type.kind == "float" for i in ids)


@pytest.mark.parametrize("table", ["v1_basic", "v2_basic", "v3_basic", "part_multi", "lineage_v3"])
def test_fast_appends(corpus_dir: Path, table: str) -> None:
    for commit in java_commits(corpus_dir, table):
        if commit.snapshot.operation == "append":
            box: Box = commit.box()
            made = box.commit(FastAppend([one.data_file for one in commit.own(EntryStatus.ADDED)]))
            assert made is not None
            assert box.live(made).keys() == {name_of(one.data_file) for one in commit.live()}
            assert counts(made.summary) == counts(commit.snapshot.summary)
