"""What a manifest list says about a manifest, found from the manifest's entries (spec: Manifest Lists).

A manifest is written once, before its sequence number is known; the summary is what survives until the manifest list is
written, and gives a new `ManifestFile` for every attempt to commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from floe.errors import InvalidValue
from floe.spec.codecs import single_value
from floe.spec.codecs.ordering import sort_key
from floe.spec.manifests.entries import EntryStatus, FieldSummary, ManifestContent, ManifestEntry, ManifestFile
from floe.spec.types import StructType, Type
from floe.spec.values.checks import show

__all__ = ["ManifestSummary", "summarize_manifest", "summarize_partitions"]


@dataclass(frozen=True, slots=True)
class ManifestSummary:
    """The counts and partition summaries of a manifest."""

    added_files_count: int = 0
    existing_files_count: int = 0
    deleted_files_count: int = 0
    added_rows_count: int = 0
    existing_rows_count: int = 0
    deleted_rows_count: int = 0
    min_sequence_number: int | None = None
    """The lowest data sequence number that a live entry carries; None if all of them inherit theirs."""

    partitions: tuple[FieldSummary, ...] = ()

    def manifest_file(
        self,
        manifest_path: str,
        manifest_length: int,
        *,
        spec_id: int,
        content: ManifestContent,
        snapshot_id: int,
        sequence_number: int,
        key_metadata: bytes | None = None,
    ) -> ManifestFile:
        """The manifest as a list describes it when the commit has that snapshot id and sequence number.

        Inherited numbers are the commit's own, and no number is higher; so the lowest is one that an entry carries,
        if any does.
        """
        lowest = sequence_number if self.min_sequence_number is None else self.min_sequence_number
        return ManifestFile(
            manifest_path,
            manifest_length,
            spec_id,
            content,
            sequence_number=sequence_number,
            min_sequence_number=min(lowest, sequence_number),
            added_snapshot_id=snapshot_id,
            added_files_count=self.added_files_count,
            existing_files_count=self.existing_files_count,
            deleted_files_count=self.deleted_files_count,
            added_rows_count=self.added_rows_count,
            existing_rows_count=self.existing_rows_count,
            deleted_rows_count=self.deleted_rows_count,
            partitions=self.partitions,
            key_metadata=key_metadata,
        )


def summarize_manifest(entries: Iterable[ManifestEntry], partition_type: StructType) -> ManifestSummary:
    """Count a manifest's entries, as they are stored, and summarise their partitions.

    >>> from floe.spec.manifests.entries import DataFile, FileContent
    >>> file = DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100)
    >>> summary = summarize_manifest([ManifestEntry(EntryStatus.ADDED, None, None, None, file)], StructType())
    >>> summary.added_files_count, summary.added_rows_count, summary.deleted_files_count
    (1, 3, 0)
    """
    files = dict.fromkeys(EntryStatus, 0)
    rows = dict.fromkeys(EntryStatus, 0)
    partitions: list[tuple[Any, ...]] = []
    lowest: int | None = None
    for entry in entries:
        files[entry.status] += 1
        rows[entry.status] += max(entry.data_file.record_count, 0)
        partitions.append(entry.data_file.partition)
        number = entry.sequence_number
        if entry.is_live and number is not None and (lowest is None or number < lowest):
            lowest = number
    return ManifestSummary(
        files[EntryStatus.ADDED],
        files[EntryStatus.EXISTING],
        files[EntryStatus.DELETED],
        rows[EntryStatus.ADDED],
        rows[EntryStatus.EXISTING],
        rows[EntryStatus.DELETED],
        lowest,
        summarize_partitions(partitions, partition_type),
    )


def summarize_partitions(partitions: Iterable[tuple[Any, ...]], partition_type: StructType) -> tuple[FieldSummary, ...]:
    """A summary of each partition field over many partition tuples.

    Bounds leave out nulls and NaN, and are encoded in the type of the partition field, not of its source column. -0.0
    sorts below 0.0.

    >>> from floe.spec.types import DOUBLE, Field
    >>> nan = float("nan")
    >>> (summary,) = summarize_partitions([(None,), (nan,), (0.0,), (-0.0,)], StructType((Field(1000, "x", DOUBLE),)))
    >>> summary.contains_null, summary.contains_nan, summary.lower_bound.hex(), summary.upper_bound.hex()
    (True, True, '0000000000000080', '0000000000000000')
    """
    tuples = list(partitions)
    for values in tuples:
        if len(values) != len(partition_type):
            raise InvalidValue(f"a partition tuple must have {len(partition_type)} values, found {show(values)}")
    columns = zip(*tuples, strict=True) if tuples else ((),) * len(partition_type)
    return tuple(_summary(child.type, values) for child, values in zip(partition_type, columns, strict=True))


def _summary(type_: Type, values: Iterable[Any]) -> FieldSummary:
    values = tuple(values)
    present = [value for value in values if value is not None]
    numbers = [value for value in present if value == value]  # NaN alone differs from itself
    bounds: tuple[bytes | None, bytes | None] = (None, None)
    if numbers and type_.kind != "unknown":
        key = sort_key(type_)
        bounds = single_value.encode(type_, min(numbers, key=key)), single_value.encode(type_, max(numbers, key=key))
    return FieldSummary(len(present) < len(values), len(numbers) < len(present), *bounds)
