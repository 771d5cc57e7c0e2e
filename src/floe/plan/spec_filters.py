"""A filter under each of a table's partition specs: which manifests and partitions it leaves, and the types to read.

Files keep the spec that they were written with, so a table has as many projections of a filter as it has specs
(spec: Scan Planning).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from floe.avro.manifests import ManifestColumns
from floe.spec.expressions.nodes import FALSE, TRUE, Expression
from floe.spec.expressions.rewrite import field_ids
from floe.spec.manifests.entries import ManifestFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.pruning import columnar_manifests
from floe.spec.pruning.columnar_facts import Mask
from floe.spec.pruning.columnar_rows import evaluate
from floe.spec.pruning.projection import inclusive, partition_schema
from floe.spec.schemas.schema import Schema
from floe.spec.types import StructType

__all__ = ["SpecFilter", "SpecFilters", "partition_types"]


def partition_types(metadata: TableMetadata, schema: Schema | None = None) -> dict[int, StructType]:
    """The types of the partition tuples of all specs, as a read with that schema sees them, or the current one.

    Columns that the schema does not have are of the type that they had last.

    >>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
    >>> metadata = TableMetadata(
    ...     format_version=2,
    ...     table_uuid=None,
    ...     location="",
    ...     last_updated_ms=0,
    ...     last_column_id=0,
    ...     schemas=(Schema(()),),
    ...     partition_specs=(UNPARTITIONED,),
    ... )
    >>> {spec_id: str(type_) for spec_id, type_ in partition_types(metadata).items()}
    {0: 'struct<>'}
    """
    newest_first = sorted(metadata.schemas, key=lambda schema: -schema.schema_id)
    first = metadata.schema if schema is None else schema
    return {spec.spec_id: spec.partition_type(first, newest_first) for spec in metadata.partition_specs}


@dataclass(frozen=True, slots=True)
class SpecFilter:
    """A filter under one spec."""

    spec: PartitionSpec
    partition: Schema
    projected: Expression
    """What the partition of a file with passing rows must pass."""

    wanted: tuple[int, ...]
    """The partition fields that the projection looks at."""

    def manifests_kept(self, manifests: Sequence[ManifestFile], *, live_only: bool = True) -> Mask:
        """Which manifests, all of this spec, may hold files with passing rows."""
        live = np.array([not live_only or manifest.may_have_live_files for manifest in manifests], np.bool_)
        if self.projected == TRUE or not len(live):
            return live
        summaries = columnar_manifests.summaries_of_manifests(manifests, self.partition)
        return live & columnar_manifests.might_match(self.projected, summaries, len(manifests))

    def keeps_all_files(self, manifests: Sequence[ManifestFile]) -> bool:
        """Whether it is known that all files of some manifests, of this spec, lie in partitions with passing rows."""
        if self.projected == TRUE:
            return True
        summaries = columnar_manifests.summaries_of_manifests(manifests, self.partition)
        return bool(columnar_manifests.must_match(self.projected, summaries, len(manifests)).all())

    def files_kept(self, columns: ManifestColumns) -> Mask:
        """Which files, all of this spec, lie in partitions with passing rows."""
        if self.projected == TRUE:
            return np.ones(len(columns), np.bool_)
        return evaluate(self.projected, {i: columns.partition(i) for i in self.wanted}, len(columns))


class SpecFilters:
    """A filter, bound to the schema of the read, under all specs of a table."""

    def __init__(self, metadata: TableMetadata, schema: Schema, bound: Expression) -> None:
        self.bound = bound
        self.schema = schema
        self._metadata = metadata
        self._known: dict[int, SpecFilter] = {}

    def of(self, spec_id: int) -> SpecFilter:
        """The filter under the spec of that id."""
        found = self._known.get(spec_id)
        if found is None:
            spec = self._metadata.spec_by_id(spec_id)
            projected = inclusive(self.bound, spec, self.schema)
            wanted = () if projected in (TRUE, FALSE) else tuple(sorted(field_ids(projected)))
            found = SpecFilter(spec, partition_schema(spec, self.schema), projected, wanted)
            self._known[spec_id] = found
        return found

    def manifests_kept(self, manifests: Sequence[ManifestFile], *, live_only: bool = True) -> list[ManifestFile]:
        """The manifests, of any specs, that may hold files with passing rows; their order stays.

        Without `live_only`, files that were deleted count too.
        """
        keep = np.zeros(len(manifests), np.bool_)
        for spec_id in dict.fromkeys(manifest.partition_spec_id for manifest in manifests):
            places = [n for n, manifest in enumerate(manifests) if manifest.partition_spec_id == spec_id]
            keep[places] = self.of(spec_id).manifests_kept([manifests[n] for n in places], live_only=live_only)
        return [manifest for manifest, is_kept in zip(manifests, keep.tolist(), strict=True) if is_kept]
