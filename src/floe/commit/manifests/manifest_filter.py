"""Removing files from a snapshot: manifests that list them are rewritten, with the entries marked as deleted.

`Removal` says what is removed, and `ManifestFilter` applies it. The manifest list tells which manifests may list a
file that is removed: by their counts, their partition summaries, and for outdated deletes by their lowest sequence
number. Only these are read. A manifest with such a file is rewritten: the bytes of its entries are copied, and only
status and snapshot id change. Entries that earlier snapshots deleted are left out. All other manifests stay.

`match_files` decides which files match a filter, in part or completely. Every predicate is evaluated on the partition
values and on the metrics, and what either proves counts. So a filter is proved too if one of its predicates is proved
by the partition and another by the metrics.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, TypeAlias

import numpy as np

from floe.avro.manifest_columns import FORMATS, ManifestColumns
from floe.avro.manifest_writer import CopiedEntries
from floe.commit.manifests.file_sets import NO_FILES, NO_PARTITIONS, FileKey, FileSet, PartitionSet, rows_mask
from floe.commit.manifests.manifest_files import Manifest, Workspace
from floe.errors import ConflictingChange, InvalidUpdate
from floe.spec.expressions.expression_text import to_text
from floe.spec.expressions.nodes import FALSE, BoundPredicate, Expression, fold
from floe.spec.expressions.simplification import field_ids
from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestFile
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.pruning import metrics_evaluation
from floe.spec.pruning.column_evaluation import evaluate
from floe.spec.pruning.projection import inclusive_projection, project_predicate
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH
from floe.spec.schemas.schema import Schema

# Files that match a filter --------------------------------------------------------------------------------------

_Masks: TypeAlias = tuple[Mask, Mask]


def match_files(expression: Expression, spec: PartitionSpec, columns: ManifestColumns) -> _Masks:
    """For each entry of a manifest, whether some rows of its file might match a bound filter, and whether all must.

    An empty file never matches.
    """
    count = len(columns)
    stats = columns.stats(field_ids(expression))
    partition = Schema(columns.partition_type.fields)

    def evaluate_predicate(predicate: BoundPredicate) -> _Masks:
        might, must = (
            metrics_evaluation.files_might_match(predicate, stats),
            metrics_evaluation.files_must_match(predicate, stats),
        )
        for inclusive_filter, strict_filter in project_predicate(predicate, spec, partition):
            might = might & evaluate(inclusive_filter, columns.partitions, count)
            must = must | evaluate(strict_filter, columns.partitions, count)
        return might, must

    def all_of(masks: Sequence[_Masks]) -> _Masks:
        return reduce(np.logical_and, [m for m, _ in masks]), reduce(np.logical_and, [m for _, m in masks])

    def any_of(masks: Sequence[_Masks]) -> _Masks:
        return reduce(np.logical_or, [m for m, _ in masks]), reduce(np.logical_or, [m for _, m in masks])

    might, must = fold(
        expression,
        constant=lambda value: (np.full(count, value), np.full(count, value)),
        predicate=evaluate_predicate,
        all_of=all_of,
        any_of=any_of,
    )
    return might & np.not_equal(columns.record_count, 0), must


# Filtered manifests ---------------------------------------------------------------------------------------------

_PUFFIN: Final = FORMATS.index("puffin")
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Removal:
    """The files that are removed from the manifests of one content, and those that must not be in them.

    A filtered manifest depends on all fields; one that was written for a removal is used again for an equal one.
    """

    files: FileSet = NO_FILES
    """Files that are removed; it is a conflict if one of them is not in the table."""

    files_in: PartitionSet | None = NO_PARTITIONS
    """The partitions of these files; None if they are not known."""

    filter: Expression = FALSE
    """Bound to the table's schema: files whose rows all match it are removed."""

    partitions: PartitionSet = NO_PARTITIONS
    """All files of these partitions are removed."""

    orphans: FileSet = NO_FILES
    """Removed data files: position deletes and deletion vectors for them alone are removed too."""

    orphans_in: PartitionSet = NO_PARTITIONS
    older_than: int = 0
    """Deletes with a lower sequence number apply to no data file any more, and are removed."""

    vectors_for: FileSet = NO_FILES
    """Data files that get a deletion vector, so that no other may stay."""

    vectors_in: PartitionSet = NO_PARTITIONS

    def is_nothing(self) -> bool:
        """Whether no manifest has to be read."""
        by_set = self.files or self.partitions or self.orphans or self.vectors_for or self.older_than
        return self.filter == FALSE and not by_set


@dataclass(frozen=True, eq=False, slots=True)
class FilteredManifest:
    """A manifest after filtering: unchanged, or rewritten with entries marked as deleted."""

    manifest: Manifest
    removed: tuple[DataFile, ...] = ()
    """The removed files, without metrics."""

    matched: frozenset[FileKey] = frozenset()
    """The files of `Removal.files` that the manifest listed."""

    duplicates: int = 0
    """The number of removed entries for files that other entries list too."""


class ManifestFilter:
    """Filters the manifests of one content; retries with an equal removal use the same rewritten manifests."""

    def __init__(self) -> None:
        self._removal: Removal | None = None
        self._filtered: dict[Hashable, FilteredManifest] = {}

    def forget(self) -> None:
        """Forget the rewritten manifests; the next attempt writes them again."""
        self._filtered.clear()

    def apply(
        self, workspace: Workspace, manifests: Sequence[ManifestFile], removal: Removal
    ) -> list[FilteredManifest]:
        """Filter manifests, in their order; raises `ConflictingChange` if a file of the removal is in none of them."""
        if removal != self._removal:
            self._removal = removal
            self.forget()
        selected = [False] * len(manifests) if removal.is_nothing() else _may_match(workspace, manifests, removal)
        # Paths are chosen in order beforehand, so that they do not depend on which manifest is read first.
        items = [(m, workspace.new_path() if is_read else "") for m, is_read in zip(manifests, selected, strict=True)]
        filtered = workspace.run_concurrently(lambda item: self._filter(workspace, *item, removal), items)
        self._check_all_matched(filtered, removal)
        return filtered

    def _filter(self, workspace: Workspace, manifest: ManifestFile, path: str, removal: Removal) -> FilteredManifest:
        if not path:
            return FilteredManifest(manifest)
        key = manifest, workspace.encoding_key(manifest.partition_spec_id)
        if key not in self._filtered:
            self._filtered[key] = _rewrite(workspace, manifest, path, removal)
        return self._filtered[key]

    def _check_all_matched(self, filtered: Iterable[FilteredManifest], removal: Removal) -> None:
        missing = removal.files.keys.difference(*(manifest.matched for manifest in filtered))
        if missing:
            paths = ", ".join(sorted(path for path, _ in missing)[:_SHOWN])
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            raise ConflictingChange(
                f"{len(missing)} files to be removed are not in the table: {paths}{more}",
                hint="another commit removed them; read the table again and repeat the change",
            )


# Selection of manifests -----------------------------------------------------------------------------------------


def _may_match(workspace: Workspace, manifests: Sequence[ManifestFile], removal: Removal) -> list[bool]:
    """For each manifest, whether it may list a file that the removal is about."""
    may_match = [False] * len(manifests)
    by_spec: dict[int, list[int]] = {}
    for index, manifest in enumerate(manifests):
        if manifest.may_have_live_files:
            by_spec.setdefault(manifest.partition_spec_id, []).append(index)
    for spec_id, indices in by_spec.items():
        group = [manifests[index] for index in indices]
        mask = _may_match_of_spec(workspace, spec_id, group, removal)
        for index, matches in zip(indices, mask.tolist(), strict=True):
            may_match[index] = matches
    return may_match


def _may_match_of_spec(workspace: Workspace, spec_id: int, manifests: Sequence[ManifestFile], removal: Removal) -> Mask:
    count = len(manifests)
    if removal.files_in is None:
        return np.ones(count, np.bool_)
    layout = workspace.layout(spec_id)
    partition = Schema(layout.partition_type.fields)
    summaries = metrics_evaluation.gather_summaries(manifests, partition)
    outdated = np.array([0 < m.min_sequence_number < removal.older_than for m in manifests], np.bool_)
    may_match: Mask = outdated | metrics_evaluation.manifests_might_match(
        inclusive_projection(removal.filter, layout.spec, workspace.metadata.schema), summaries, count
    )
    for partitions in (removal.files_in, removal.partitions, removal.orphans_in, removal.vectors_in):
        if len(partitions):
            projected = partitions.filter(spec_id, layout.partition_type)
            may_match = may_match | metrics_evaluation.manifests_might_match(projected, summaries, count)
    return may_match


# Selection of entries -------------------------------------------------------------------------------------------


def _rewrite(workspace: Workspace, manifest: ManifestFile, path: str, removal: Removal) -> FilteredManifest:
    """Read a manifest, and write it to `path` if files of it are removed."""
    columns = workspace.read(manifest)
    live = columns.live
    matched = removal.files.matching_entries(columns, live)
    removed = _removed_entries(workspace, columns, removal, rows_mask(matched, len(columns)))
    _check_one_vector(columns, removal, live & ~removed)
    rows = np.flatnonzero(removed)
    if not rows.size:
        return FilteredManifest(manifest)
    files = columns.data_files(rows, metrics=False)
    copied = np.flatnonzero(live)
    status = np.where(removed[copied], EntryStatus.DELETED, EntryStatus.EXISTING)
    ids = columns.snapshot_id
    added_by = manifest.added_snapshot_id or workspace.key.snapshot_id
    snapshots = np.where(ids.is_valid, np.asarray(ids.values), added_by)[copied]
    snapshots = np.where(removed[copied], workspace.key.snapshot_id, snapshots)
    new = workspace.splice(
        path, [CopiedEntries(columns, copied, status, snapshots)], manifest.partition_spec_id, manifest.content
    )
    distinct = {(file.file_path, file.content_offset): file for file in files}
    return FilteredManifest(new, tuple(distinct.values()), frozenset(matched.values()), len(files) - len(distinct))


def _removed_entries(workspace: Workspace, columns: ManifestColumns, removal: Removal, matched: Mask) -> Mask:
    """The live entries that are removed; `matched` are those of `Removal.files`."""
    live = columns.live
    removed = matched
    if len(removal.partitions):
        removed = removed | removal.partitions.matching_entries(columns, live)
    if not np.equal(columns.content, FileContent.DATA).all():
        removed = removed | (live & (_outdated(columns, removal) | _orphaned(columns, removal)))
    if removal.filter == FALSE:
        return removed
    might, must = match_files(removal.filter, workspace.layout(columns.spec_id).spec, columns)
    partly = live & might & ~must & ~removed & np.equal(columns.content, FileContent.DATA)
    if partly.any():
        raise _partial_match_error(workspace, columns, partly, removal.filter)
    return removed | (live & might & must)


def _partial_match_error(
    workspace: Workspace, columns: ManifestColumns, partly: Mask, filter_: Expression
) -> ConflictingChange | InvalidUpdate:
    (file,) = columns.data_files(np.flatnonzero(partly)[:1], metrics=False)
    kind = ConflictingChange if workspace.attempt.number > 1 else InvalidUpdate
    return kind(
        f"only some rows of a file, not all, may match the filter {to_text(filter_)[:200]}",
        hint="rewrite the file without these rows, or delete them with delete files",
        file=file.file_path,
    )


def _outdated(columns: ManifestColumns, removal: Removal) -> Mask:
    """Deletes that are older than all data files; sequence number 0 is that of v1 tables, and proves nothing."""
    numbers = np.asarray(columns.sequence_number.values)
    return columns.sequence_number.is_valid & (numbers > 0) & (numbers < removal.older_than)


def _orphaned(columns: ManifestColumns, removal: Removal) -> Mask:
    """Position deletes whose only target is a data file that is removed."""
    orphaned = np.zeros(len(columns), np.bool_)
    if not len(removal.orphans):
        return orphaned
    positions = np.equal(columns.content, FileContent.POSITION_DELETES)
    orphaned[list(removal.orphans.matching_rows(columns.referenced_data_file))] = True
    without_target = np.flatnonzero(positions & ~columns.referenced_data_file.is_valid)
    if without_target.size:  # files of writers that do not set referenced_data_file: equal bounds of the path tell it
        stats = columns.stored.stats(DELETE_FILE_PATH.id)
        if stats.lower is not None and stats.upper is not None:
            lower, upper = stats.lower.take(without_target), stats.upper.take(without_target)
            single = lower.is_valid & upper.is_valid & (lower.compare(upper) == 0)
            orphaned[without_target[[row for row in removal.orphans.matching_rows(lower) if single[row]]]] = True
    return orphaned & positions


def _check_one_vector(columns: ManifestColumns, removal: Removal, remaining: Mask) -> None:
    """Raise if a data file would have two deletion vectors."""
    if not len(removal.vectors_for):
        return
    vectors = remaining & np.equal(columns.file_format, _PUFFIN)
    for row, target in removal.vectors_for.matching_rows(columns.referenced_data_file).items():
        if vectors[row]:
            raise ConflictingChange(
                "the data file has a deletion vector already, and can have only one",
                hint="merge both into one vector, and remove the old one in the same commit",
                **{"data file": target},
            )
