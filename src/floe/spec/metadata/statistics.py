"""Entries for statistics files: Puffin files of a table, and partition statistics (spec: Table Statistics)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from floe.spec.metadata.records import Int32, Int64, Record, StringMap

__all__ = ["BlobMetadata", "PartitionStatisticsFile", "StatisticsFile"]


class BlobMetadata(Record, frozen=True, kw_only=True):
    """A blob of a statistics file: what it holds, and the snapshot it was computed from.

    >>> BlobMetadata(type="apache-datasketches-theta-v1", snapshot_id=3, sequence_number=2, fields=(1,)).properties
    {}
    """

    type: str
    snapshot_id: Int64
    sequence_number: Int64
    fields: tuple[Int32, ...]
    """The ids of the fields that the statistic is about, in order."""

    properties: StringMap = msgspec.field(default_factory=dict)


class StatisticsFile(Record, frozen=True, kw_only=True):
    """A Puffin file with statistics of a snapshot; readers may ignore it.

    >>> StatisticsFile(
    ...     snapshot_id=3,
    ...     statistics_path="s3://bucket/t/metadata/3.stats",
    ...     file_size_in_bytes=413,
    ...     file_footer_size_in_bytes=42,
    ...     blob_metadata=(),
    ... ).snapshot_id
    3
    """

    parts: ClassVar[Mapping[str, type[Record]]] = {"blob-metadata": BlobMetadata}

    snapshot_id: Int64
    statistics_path: str
    file_size_in_bytes: Int64
    file_footer_size_in_bytes: Int64
    """The size of the whole footer of the Puffin file, not of the payload in it."""

    key_metadata: str | None = None
    """Base64 of the key metadata, when the file is encrypted."""

    blob_metadata: tuple[BlobMetadata, ...]


class PartitionStatisticsFile(Record, frozen=True, kw_only=True):
    """A file with one row of counts for each partition, as of a snapshot.

    >>> PartitionStatisticsFile(
    ...     snapshot_id=3, statistics_path="s3://bucket/t/metadata/p.parquet", file_size_in_bytes=99
    ... ).snapshot_id
    3
    """

    snapshot_id: Int64
    statistics_path: str
    file_size_in_bytes: Int64
