"""The tables `manifests`, of one snapshot, and `all_manifests`, with the manifests of every snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from floe.errors import CorruptFile, InvalidValue
from floe.formats.columns.arrow_types import arrow_schema
from floe.plan.delete_files import relax_to_columns
from floe.plan.manifests import read_manifest_groups
from floe.plan.metadata_tables.filters import matching_rows
from floe.plan.metadata_tables.schemas import ALL_MANIFESTS, MANIFESTS, MetadataSource
from floe.spec.codecs.single_value import decode
from floe.spec.expressions.nodes import Expression
from floe.spec.manifests.entries import EntryStatus, FieldSummary, ManifestContent, ManifestFile
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import PartitionField
from floe.spec.types import Field, Type

_REFERENCE_SNAPSHOT_ID = 18
_COUNTS = {
    "added": EntryStatus.ADDED,
    "existing": EntryStatus.EXISTING,
    "deleted": EntryStatus.DELETED,
}


def manifests(sources: MetadataSource, snapshot: Snapshot | None) -> pa.Table:
    """One row for each manifest of a snapshot."""
    counted = _counted(sources, sources.manifests(snapshot))
    columns = _columns(sources.metadata, counted)
    columns["partition_summaries"] = [rows or [] for rows in columns["partition_summaries"]]  # the column is required
    return _table(MANIFESTS.fields, columns)


def all_manifests(sources: MetadataSource, where: Expression) -> pa.Table:
    """One row for each manifest of each snapshot; manifest lists of snapshots that the filter excludes are not read."""
    chosen = _chosen_snapshots(sources.metadata.snapshots, where)
    pairs = list(sources.manifests_by_snapshot(chosen))
    counted = _counted(sources, [manifest for _, listed in pairs for manifest in listed])
    columns = _columns(sources.metadata, counted)
    columns["partition_summaries"] = [
        None if rows is None else [_with_nan_known(row) for row in rows] for rows in columns["partition_summaries"]
    ]
    columns["reference_snapshot_id"] = [snapshot.snapshot_id for snapshot, listed in pairs for _ in listed]
    columns["key_metadata"] = [manifest.key_metadata for manifest in counted]
    return _table(ALL_MANIFESTS.fields, columns)


def _chosen_snapshots(snapshots: tuple[Snapshot, ...], where: Expression) -> list[Snapshot]:
    """The snapshots that a filter does not exclude by their ids."""
    test = relax_to_columns(where, {_REFERENCE_SNAPSHOT_ID})
    ids = pa.array([snapshot.snapshot_id for snapshot in snapshots], pa.int64())
    mask = matching_rows(test, pa.record_batch([ids], ["reference_snapshot_id"]), ALL_MANIFESTS)
    return [snapshot for snapshot, passes in zip(snapshots, mask.tolist(), strict=True) if passes]


def _with_nan_known(summary: dict[str, Any]) -> dict[str, Any]:
    """The column is required here; lists of early writers do not say, and wrote no NaN apart from other values."""
    return summary if summary["contains_nan"] is not None else {**summary, "contains_nan": False}


def _table(fields: tuple[Field, ...], columns: dict[str, list[Any]]) -> pa.Table:
    schema = arrow_schema(replace(MANIFESTS, fields=fields))
    return pa.Table.from_arrays([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def _columns(metadata: TableMetadata, manifests: list[ManifestFile]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {
        "content": [int(manifest.content) for manifest in manifests],
        "path": [manifest.manifest_path for manifest in manifests],
        "length": [manifest.manifest_length for manifest in manifests],
        "partition_spec_id": [manifest.partition_spec_id for manifest in manifests],
        "added_snapshot_id": [manifest.added_snapshot_id for manifest in manifests],
        "partition_summaries": _summaries(metadata, manifests),
    }
    for kind, content in (("data", ManifestContent.DATA), ("delete", ManifestContent.DELETES)):
        for status in _COUNTS:
            counts = (getattr(manifest, f"{status}_files_count") for manifest in manifests)
            columns[f"{status}_{kind}_files_count"] = [
                count if manifest.content == content else 0 for manifest, count in zip(manifests, counts, strict=True)
            ]
    return columns


def _counted(sources: MetadataSource, manifests: list[ManifestFile]) -> list[ManifestFile]:
    """The manifests with their counts; those of old manifest lists without counts are read."""
    unknown = {
        manifest.manifest_path: manifest
        for manifest in manifests
        if any(getattr(manifest, f"{status}_files_count") is None for status in _COUNTS)
    }
    counted = sources.run_concurrently(lambda listed: _count(sources, listed), unknown.values())
    counts = dict(zip(unknown, counted, strict=True))
    return [_with_counts(manifest, counts.get(manifest.manifest_path)) for manifest in manifests]


def _with_counts(manifest: ManifestFile, counts: dict[str, Any] | None) -> ManifestFile:
    return manifest if counts is None else replace(manifest, **counts)


def _count(sources: MetadataSource, manifest: ManifestFile) -> dict[str, Any]:
    """The counts of a manifest, from its entries."""
    (status,) = read_manifest_groups(sources.storage, [manifest], lambda entries: entries.status, types={}, workers=1)
    return {f"{name}_files_count": int(np.count_nonzero(status == value)) for name, value in _COUNTS.items()}


# summaries ------------------------------------------------------------------------------------------------------------


def _summaries(metadata: TableMetadata, manifests: Iterable[ManifestFile]) -> list[list[dict[str, Any]] | None]:
    texts: dict[tuple[int, int, bytes | None], str] = {}
    types = {
        spec.spec_id: spec.partition_type(metadata.schema, reversed(metadata.schemas)).fields
        for spec in metadata.partition_specs
    }

    def text(spec_id: int, index: int, bound: bytes | None) -> str:
        key = spec_id, index, bound
        if key not in texts:
            field = metadata.spec_by_id(spec_id).fields[index]
            texts[key] = _bound_text(field, types[spec_id][index].type, bound)
        return texts[key]

    def rows(manifest: ManifestFile) -> list[dict[str, Any]] | None:
        if manifest.partitions is None:
            return None
        fields = metadata.spec_by_id(manifest.partition_spec_id).fields
        if len(manifest.partitions) > len(fields):
            raise CorruptFile(
                f"a manifest of partition spec {manifest.partition_spec_id} with {len(fields)} fields has "
                f"{len(manifest.partitions)} summaries",
                manifest=manifest.manifest_path,
            )
        return [
            _row(summary, *(text(manifest.partition_spec_id, index, bound) for bound in _bounds(summary)))
            for index, summary in enumerate(manifest.partitions)
        ]

    return [rows(manifest) for manifest in manifests]


def _bounds(summary: FieldSummary) -> tuple[bytes | None, bytes | None]:
    return summary.lower_bound, summary.upper_bound


def _row(summary: FieldSummary, lower: str, upper: str) -> dict[str, Any]:
    return {
        "contains_null": summary.contains_null,
        "contains_nan": summary.contains_nan,
        "lower_bound": lower,
        "upper_bound": upper,
    }


def _bound_text(field: PartitionField, type_: Type, bound: bytes | None) -> str:
    """A bound as text, as in the paths of partitions; `null` if there is none."""
    try:
        value = None if bound is None else decode(type_, bound)
    except (CorruptFile, InvalidValue) as error:
        raise CorruptFile(f"a bound of the partition field {field.name!r} cannot be read: {error}") from None
    return field.transform.to_human(type_, value)
