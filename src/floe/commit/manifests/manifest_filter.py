"""Taking files out of a snapshot: entries of manifests marked as deleted, and manifests without any left as they are.

Which manifests may list a file to be removed is told by the manifest list: by their counts, the summaries of their
partitions, and for outdated deletes by their lowest sequence number. No other manifest is read. A manifest that is read
and has such a file is written anew, with the bytes of its entries copied and only their heads changed; entries that
were deleted before are left out.

Which files of a manifest have rows that pass a filter: some of them perhaps, or all of them for sure.

Each predicate is asked of the partition values and of the metrics, and what either proves counts; so a filter of which
one part is proved by the partition and another by the metrics is proved (the answers are at least those of residuals).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, TypeAlias

import numpy as np

from floe.avro.manifest_columns import FORMATS, ManifestColumns
from floe.avro.manifest_writer import CopiedEntries
from floe.commit.manifests.file_sets import NO_FILES, NO_PARTITIONS, FileName, FileSet, PartitionSet, rows_mask
from floe.commit.manifests.manifest_files import Manifest, Workspace
from floe.errors import ConflictingChange, InvalidUpdate
from floe.spec.expressions.nodes import FALSE, BoundPredicate, Expression, fold
from floe.spec.expressions.printing import to_text
from floe.spec.expressions.simplification import field_ids
from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestFile
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.pruning import metrics_evaluation
from floe.spec.pruning.column_evaluation import evaluate
from floe.spec.pruning.projection import inclusive_projection, project_predicate
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH
from floe.spec.schemas.schema import Schema

# Which files of a manifest have rows that pass a filter: some of them perhaps, or all of them for sure.

_Answers: TypeAlias = tuple[Mask, Mask]


def match_files(expression: Expression, spec: PartitionSpec, columns: ManifestColumns) -> _Answers:
    """For each entry of a manifest, whether some row of its file may pass a bound filter, and whether all must.

    No row of an empty file passes.
    """
    count = len(columns)
    stats = columns.stats(field_ids(expression))
    partition = Schema(columns.partition_type.fields)

    def leaf(predicate: BoundPredicate) -> _Answers:
        might, must = (
            metrics_evaluation.files_might_match(predicate, stats),
            metrics_evaluation.files_must_match(predicate, stats),
        )
        for inclusive_filter, strict_filter in project_predicate(predicate, spec, partition):
            might = might & evaluate(inclusive_filter, columns.partitions, count)
            must = must | evaluate(strict_filter, columns.partitions, count)
        return might, must

    def all_of(parts: Sequence[_Answers]) -> _Answers:
        return reduce(np.logical_and, [m for m, _ in parts]), reduce(np.logical_and, [m for _, m in parts])

    def any_of(parts: Sequence[_Answers]) -> _Answers:
        return reduce(np.logical_or, [m for m, _ in parts]), reduce(np.logical_or, [m for _, m in parts])

    might, must = fold(
        expression,
        constant=lambda value: (np.full(count, value), np.full(count, value)),
        predicate=leaf,
        all_of=all_of,
        any_of=any_of,
    )
    return might & np.not_equal(columns.record_count, 0), must


_PUFFIN: Final = FORMATS.index("puffin")
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Removal:
    """Which files are to be removed from the manifests of one content, and what must not be found in them.

    All of these are inputs of a filtered manifest; one that was written for a removal is used again for an equal one.
    """

    files: FileSet = NO_FILES
    """Files that must be there, and are removed."""

    files_in: PartitionSet | None = NO_PARTITIONS
    """The partitions of these files; None if they are not known."""

    filter: Expression = FALSE
    """Bound to the table's schema: files all of whose rows pass it are removed."""

    partitions: PartitionSet = NO_PARTITIONS
    """All files of these partitions are removed."""

    orphans: FileSet = NO_FILES
    """Data files that go: position deletes and deletion vectors for them alone go too."""

    orphans_in: PartitionSet = NO_PARTITIONS
    older_than: int = 0
    """Deletes of a lower sequence number apply to no file any more."""

    vectors_for: FileSet = NO_FILES
    """Data files that get a deletion vector, and must not keep another."""

    vectors_in: PartitionSet = NO_PARTITIONS

    def is_nothing(self) -> bool:
        """Whether no manifest needs to be looked at."""
        some = self.files or self.partitions or self.orphans or self.vectors_for or self.older_than
        return self.filter == FALSE and not some


@dataclass(frozen=True, eq=False, slots=True)
class FilteredManifest:
    """A manifest after filtering: as it was, or written anew without the files that were removed."""

    manifest: Manifest
    removed: tuple[DataFile, ...] = ()
    """Without their metrics."""

    names: frozenset[FileName] = frozenset()
    """Of the files that had to be there, those that this manifest had."""

    duplicates: int = 0


class ManifestFilter:
    """Filters the manifests of one content, and keeps what it wrote as long as the removal is the same."""

    def __init__(self) -> None:
        self._removal: Removal | None = None
        self._kept: dict[Hashable, FilteredManifest] = {}

    def forget(self) -> None:
        """Nothing that was written is used again."""
        self._kept.clear()

    def apply(
        self, workspace: Workspace, manifests: Sequence[ManifestFile], removal: Removal
    ) -> list[FilteredManifest]:
        """The manifests, filtered, in their order; raises `ConflictingChange` if a file to be removed is not there."""
        if removal != self._removal:  # what was filtered otherwise is of no use
            self._removal = removal
            self.forget()
        wanted = [False] * len(manifests) if removal.is_nothing() else _may_have(workspace, manifests, removal)
        # Names are given in order beforehand, so that they do not depend on which manifest is read first.
        items = [(m, workspace.new_path() if w else "") for m, w in zip(manifests, wanted, strict=True)]
        filtered = workspace.several(lambda item: self._filter(workspace, *item, removal), items)
        self._check_found(filtered, removal)
        return filtered

    def _filter(self, workspace: Workspace, manifest: ManifestFile, path: str, removal: Removal) -> FilteredManifest:
        if not path:
            return FilteredManifest(manifest)
        key = manifest, workspace.style(manifest.partition_spec_id)
        if key not in self._kept:
            self._kept[key] = _filtered(workspace, manifest, path, removal)
        return self._kept[key]

    def _check_found(self, filtered: Iterable[FilteredManifest], removal: Removal) -> None:
        missing = removal.files.names.difference(*(one.names for one in filtered))
        if missing:
            shown = ", ".join(sorted(path for path, _ in missing)[:_SHOWN])
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            raise ConflictingChange(
                f"{len(missing)} files to be removed are not in the table: {shown}{more}",
                hint="somebody removed them meanwhile; make the change again from what the table holds now",
            )


# which manifests ------------------------------------------------------------------------------------------------


def _may_have(workspace: Workspace, manifests: Sequence[ManifestFile], removal: Removal) -> list[bool]:
    """For each manifest, whether it may list something that the removal is about."""
    wanted = [False] * len(manifests)
    by_spec: dict[int, list[int]] = {}
    for place, manifest in enumerate(manifests):
        if manifest.may_have_live_files:
            by_spec.setdefault(manifest.partition_spec_id, []).append(place)
    for spec_id, places in by_spec.items():
        group = [manifests[place] for place in places]
        for place, answer in zip(places, _may_have_of_spec(workspace, spec_id, group, removal).tolist(), strict=True):
            wanted[place] = answer
    return wanted


def _may_have_of_spec(workspace: Workspace, spec_id: int, manifests: Sequence[ManifestFile], removal: Removal) -> Mask:
    count = len(manifests)
    if removal.files_in is None:
        return np.ones(count, np.bool_)
    layout = workspace.layout(spec_id)
    partition = Schema(layout.partition_type.fields)
    summaries = metrics_evaluation.gather_summaries(manifests, partition)
    outdated = np.array([0 < m.min_sequence_number < removal.older_than for m in manifests], np.bool_)
    found: Mask = outdated | metrics_evaluation.manifests_might_match(
        inclusive_projection(removal.filter, layout.spec, workspace.metadata.schema), summaries, count
    )
    for partitions in (removal.files_in, removal.partitions, removal.orphans_in, removal.vectors_in):
        if len(partitions):
            test = partitions.filter(spec_id, layout.partition_type)
            found = found | metrics_evaluation.manifests_might_match(test, summaries, count)
    return found


# which entries ----------------------------------------------------------------------------------------------------


def _filtered(workspace: Workspace, manifest: ManifestFile, path: str, removal: Removal) -> FilteredManifest:
    columns = workspace.read(manifest)
    live = columns.live
    named = removal.files.entries(columns, live)
    removed = _removed(workspace, columns, removal, rows_mask(named, len(columns)))
    _check_one_vector(columns, removal, live & ~removed)
    rows = np.flatnonzero(removed)
    if not rows.size:
        return FilteredManifest(manifest)
    files = columns.data_files(rows, metrics=False)
    kept = np.flatnonzero(live)
    status = np.where(removed[kept], EntryStatus.DELETED, EntryStatus.EXISTING)
    ids = columns.snapshot_id
    added_by = manifest.added_snapshot_id or workspace.key.snapshot_id
    snapshots = np.where(ids.known, np.asarray(ids.values), added_by)[kept]
    snapshots = np.where(removed[kept], workspace.key.snapshot_id, snapshots)
    new = workspace.splice(
        path, [CopiedEntries(columns, kept, status, snapshots)], manifest.partition_spec_id, manifest.content
    )
    distinct = {(file.file_path, file.content_offset): file for file in files}
    return FilteredManifest(new, tuple(distinct.values()), frozenset(named.values()), len(files) - len(distinct))


def _removed(workspace: Workspace, columns: ManifestColumns, removal: Removal, named: Mask) -> Mask:
    live = columns.live
    removed = named
    if len(removal.partitions):
        removed = removed | removal.partitions.rows(columns, live)
    if not np.equal(columns.content, FileContent.DATA).all():
        removed = removed | (live & (_outdated(columns, removal) | _orphaned(columns, removal)))
    if removal.filter == FALSE:
        return removed
    might, must = match_files(removal.filter, workspace.layout(columns.spec_id).spec, columns)
    partly = live & might & ~must & ~removed & np.equal(columns.content, FileContent.DATA)
    if partly.any():
        raise _only_some_rows(workspace, columns, partly, removal.filter)
    return removed | (live & might & must)


def _only_some_rows(
    workspace: Workspace, columns: ManifestColumns, partly: Mask, filter_: Expression
) -> ConflictingChange | InvalidUpdate:
    (file,) = columns.data_files(np.flatnonzero(partly)[:1], metrics=False)
    kind = ConflictingChange if workspace.attempt.number > 1 else InvalidUpdate
    return kind(
        f"only some rows of a file, not all, may pass the filter {to_text(filter_)[:200]}",
        hint="rewrite the file without these rows, or delete them with delete files",
        file=file.file_path,
    )


def _outdated(columns: ManifestColumns, removal: Removal) -> Mask:
    """Deletes that are older than all data. Those of number 0 are of a v1 table, and tell nothing."""
    numbers = np.asarray(columns.sequence_number.values)
    return columns.sequence_number.known & (numbers > 0) & (numbers < removal.older_than)


def _orphaned(columns: ManifestColumns, removal: Removal) -> Mask:
    """Position deletes for a data file that is removed, and for no other."""
    found = np.zeros(len(columns), np.bool_)
    if not len(removal.orphans):
        return found
    positions = np.equal(columns.content, FileContent.POSITION_DELETES)
    found[list(removal.orphans.places(columns.referenced_data_file))] = True
    unnamed = np.flatnonzero(positions & ~columns.referenced_data_file.known)
    if unnamed.size:  # writers that do not name the file leave equal bounds of its path
        stats = columns.stored.stats(DELETE_FILE_PATH.id)
        if stats.lower is not None and stats.upper is not None:
            lower, upper = stats.lower.take(unnamed), stats.upper.take(unnamed)
            single = lower.known & upper.known & (lower.compare(upper) == 0)
            found[unnamed[[place for place in removal.orphans.places(lower) if single[place]]]] = True
    return found & positions


def _check_one_vector(columns: ManifestColumns, removal: Removal, staying: Mask) -> None:
    """Raise if a second deletion vector would come to a file."""
    if not len(removal.vectors_for):
        return
    vectors = staying & np.equal(columns.file_format, _PUFFIN)
    for row, target in removal.vectors_for.places(columns.referenced_data_file).items():
        if vectors[row]:
            raise ConflictingChange(
                "the data file has a deletion vector already, and can have one only",
                hint="read it, put both into one vector, and remove the old one in the same commit",
                **{"data file": target},
            )
