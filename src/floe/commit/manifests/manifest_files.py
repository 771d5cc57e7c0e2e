"""The manifest files of one change, and the `Workspace` in which an attempt reads and writes them.

A change has one `ManifestFiles` for all its attempts: it names files so that no other commit uses the names, and keeps
manifests for retries. Each attempt has a `Workspace`: the newest state of the table, and how manifests are written
according to it.

| file | name, in the table's metadata folder |
|---|---|
| manifest | `<commit id>-m<number>.avro` |
| manifest list | `snap-<snapshot id>-<attempt>-<commit id>.avro` |

`summarize_copied` computes the summary of a manifest in the manifest list from columns of entries, as
`floe.spec.manifests.entries.summarize_manifest` does it from entry objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from floe.avro.manifest_columns import ManifestColumns
from floe.avro.manifest_lists import write_manifest_list
from floe.avro.manifest_reader import read_manifest, read_manifest_file, read_snapshot_manifests, with_counts
from floe.avro.manifest_writer import CopiedEntries, splice_manifests, write_manifest
from floe.avro.stored_columns import column_values
from floe.avro.vector_decoder import Offsets
from floe.commit.change import Attempt
from floe.errors import InvalidMetadata
from floe.spec.manifests.entries import (
    EntryStatus,
    FieldSummary,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    ManifestSummary,
    summarize_manifest,
    summarize_partitions,
)
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.properties import MANIFEST_CODEC, MANIFEST_LEVEL, MANIFEST_TARGET_SIZE, METADATA_PATH
from floe.spec.pruning.column_evaluation import Column
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, StructType
from floe.storage.concurrency import map_concurrently
from floe.storage.locations import join
from floe.storage.protocol import Storage

# Manifest summaries ---------------------------------------------------------------------------------------------


def summarize_copied(parts: Sequence[CopiedEntries], partition_type: StructType) -> ManifestSummary:
    """The counts and partition summaries of a manifest that is spliced from these parts."""
    files, rows = dict.fromkeys(EntryStatus, 0), dict.fromkeys(EntryStatus, 0)
    min_numbers: list[int] = []
    for part in parts:
        part_status = np.asarray(part.status)
        counts = np.maximum(part.columns.record_count[part.rows], 0)
        for status in EntryStatus:
            mask = np.equal(part_status, status)
            files[status] += int(mask.sum())
            rows[status] += int(counts[mask].sum())
        numbers = part.columns.sequence_number
        live = numbers.is_valid[part.rows] & np.not_equal(part_status, EntryStatus.DELETED)
        if live.any():
            min_numbers.append(int(np.asarray(numbers.values)[part.rows][live].min()))
    return ManifestSummary(
        files[EntryStatus.ADDED],
        files[EntryStatus.EXISTING],
        files[EntryStatus.DELETED],
        rows[EntryStatus.ADDED],
        rows[EntryStatus.EXISTING],
        rows[EntryStatus.DELETED],
        min(min_numbers, default=None),
        tuple(_field_summary(parts, field) for field in partition_type),
    )


def _field_summary(parts: Iterable[CopiedEntries], field: Field) -> FieldSummary:
    """The summary of one partition field, from the few values of each part that can change it."""
    extremes: list[Any] = []
    for part in parts:
        if len(part.rows):
            column = part.columns.partition(field.id)
            extremes.extend(column_values(field.type, column, _extreme_rows(column, part.rows)))
    (summary,) = summarize_partitions([(value,) for value in extremes], StructType((field,)))
    return summary


def _extreme_rows(column: Column, rows: Offsets) -> Offsets:
    """Rows with all values that a summary depends on: a null, a NaN, the lowest and the highest value."""
    not_null = column.is_valid[rows]
    nulls, present = rows[~not_null][:1], rows[not_null]
    values = column.values
    if isinstance(values, VarBytes):
        distinct = {string: row for row, string in zip(present.tolist(), values.take(present).to_list(), strict=True)}
        return np.concatenate([nulls, np.fromiter(distinct.values(), np.int64, len(distinct))])
    keys = values[present]
    nans = present[:0]
    if keys.dtype.kind == "f":
        is_nan = np.isnan(keys)
        nans, present, keys = present[is_nan][:1], present[~is_nan], keys[~is_nan]
        bits = keys.astype(np.float64, copy=False).view(np.int64)
        keys = bits ^ ((bits >> 63) & np.int64(2**63 - 1))  # integers in the order of the floats, with -0.0 below 0.0
    if not present.size:
        return np.concatenate([nulls, nans])
    return np.concatenate([nulls, nans, present[[keys.argmin(), keys.argmax()]]])


# Files of a change ----------------------------------------------------------------------------------------------

_CODECS: Final = {"gzip": "deflate", "zstd": "zstandard", "snappy": "snappy", "uncompressed": "null"}
"""Avro's names of the codecs in table properties."""

_PARALLEL_FILES: Final = 8
"""The number of manifests that are read or written at once."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class CommitKey:
    """Identifies a commit: the id of its snapshot, and the random text in its summary and file names."""

    snapshot_id: int
    commit_id: str


@dataclass(frozen=True, slots=True)
class NewManifest:
    """A manifest that this change wrote; the manifest list of each attempt adds sequence number and first row id."""

    path: str
    length: int
    spec_id: int
    content: ManifestContent
    summary: ManifestSummary

    def to_manifest_file(self, snapshot_id: int, sequence_number: int) -> ManifestFile:
        """The manifest as an entry of an attempt's manifest list."""
        return self.summary.manifest_file(
            self.path,
            self.length,
            spec_id=self.spec_id,
            content=self.content,
            snapshot_id=snapshot_id,
            sequence_number=sequence_number,
        )


Manifest: TypeAlias = ManifestFile | NewManifest
"""A manifest of the new snapshot: one of its parent, or a new one."""


@dataclass(frozen=True, slots=True)
class SpecLayout:
    """A partition spec with the type of its tuples and a schema that has its source columns."""

    spec: PartitionSpec
    schema: Schema
    partition_type: StructType


class ManifestFiles:
    """The manifests that a change has written in all its attempts, by the inputs they were made from."""

    def __init__(self, key: CommitKey, executor: Executor | None = None) -> None:
        self.key = key
        self.executor = executor
        self._numbers = count()
        self._lists = count(1)
        self._written: dict[str, None] = {}
        self._manifests: dict[Hashable, tuple[NewManifest, ...]] = {}

    def workspace(self, attempt: Attempt) -> Workspace:
        """The workspace of an attempt."""
        return Workspace(attempt, self)

    def written(self) -> tuple[str, ...]:
        """Every file that was written, or may have been."""
        return tuple(self._written)

    def forget(self, files: Collection[str]) -> None:
        """Forget files that are being deleted, so that they are not used again."""
        deleted = set(files)
        for path in deleted:
            self._written.pop(path, None)
        self._manifests = {
            key: manifests
            for key, manifests in self._manifests.items()
            if not any(manifest.path in deleted for manifest in manifests)
        }

    def record(self, path: str) -> None:
        """Record that a file is about to be written; call it before, because a failed write may leave a file."""
        self._written[path] = None

    def write(self, storage: Storage, path: str, data: bytes) -> None:
        """Record and write a file."""
        self.record(path)
        storage.write(path, data)

    def manifest_name(self) -> str:
        """The name of the next manifest."""
        return f"{self.key.commit_id}-m{next(self._numbers)}.avro"

    def list_name(self) -> str:
        """The name of the next manifest list."""
        return f"snap-{self.key.snapshot_id}-{next(self._lists)}-{self.key.commit_id}.avro"

    def write_once(self, key: Hashable, write: Callable[[], Sequence[NewManifest]]) -> tuple[NewManifest, ...]:
        """The manifests for a key, which has all inputs of `write`: written for the first attempt, reused by others."""
        if key not in self._manifests:
            self._manifests[key] = tuple(write())
        return self._manifests[key]


class Workspace:
    """The table as one attempt sees it, with methods that read and write manifests."""

    def __init__(self, attempt: Attempt, files: ManifestFiles) -> None:
        self.attempt = attempt
        self.metadata: TableMetadata = attempt.metadata
        self.storage: Storage = attempt.storage
        self.files = files
        self.key = files.key
        self.format_version = attempt.metadata.format_version
        self.sequence_number = attempt.metadata.next_sequence_number
        self._layouts: dict[int, SpecLayout] = {}

    # settings of the table ----------------------------------------------------------------------------------------

    @cached_property
    def folder(self) -> str:
        """The folder of metadata files."""
        return metadata_folder(self.metadata)

    @cached_property
    def codec(self) -> tuple[str, int | None]:
        """The codec of manifests and its level, from the table's properties."""
        properties = self.metadata.properties
        return _CODECS[MANIFEST_CODEC.read(properties)], MANIFEST_LEVEL.read(properties)

    @cached_property
    def target_bytes(self) -> int:
        """The target size of a manifest."""
        return manifest_target_bytes(self.metadata)

    def layout(self, spec_id: int) -> SpecLayout:
        """The layout of a partition spec."""
        if spec_id not in self._layouts:
            self._layouts[spec_id] = _layout(self.metadata, spec_id)
        return self._layouts[spec_id]

    def encoding_key(self, spec_id: int) -> Hashable:
        """All that the bytes of a manifest depend on beside its entries; part of the key of every manifest kept."""
        layout = self.layout(spec_id)
        return self.format_version, layout.spec, layout.partition_type, layout.schema.schema_id, self.codec

    # reading ------------------------------------------------------------------------------------------------------

    def manifests_of(self, snapshot: Snapshot | None) -> list[ManifestFile]:
        """The manifests of a snapshot, with the counts that manifest lists of v2 and later require."""
        if snapshot is None:
            return []
        manifests = read_snapshot_manifests(snapshot, self.storage)
        if self.format_version < 2:
            return manifests
        return [with_counts(manifest, self.storage) for manifest in manifests]

    def read(self, manifest: Manifest) -> ManifestColumns:
        """The entries of a manifest; those of a new one have no sequence numbers yet, which the commit assigns."""
        if isinstance(manifest, NewManifest):
            data, listed, spec_id = self.storage.read(manifest.path), None, manifest.spec_id
        else:
            data, listed, spec_id = read_manifest_file(manifest, self.storage), manifest, manifest.partition_spec_id
        return read_manifest(data, listed, partition_type=self.layout(spec_id).partition_type)

    def run_concurrently(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Call a function for each item, several at once if there is an executor; returns the results in order."""
        return list(map_concurrently(function, items, limit=_PARALLEL_FILES, executor=self.files.executor))

    # writing ------------------------------------------------------------------------------------------------------

    def new_path(self) -> str:
        """A new path for a manifest; it need not be used."""
        return join(self.folder, self.files.manifest_name())

    def encode(self, entries: Sequence[ManifestEntry], spec_id: int, content: ManifestContent) -> bytes:
        """The bytes of a manifest with these entries."""
        layout, (codec, level) = self.layout(spec_id), self.codec
        return write_manifest(
            entries,
            layout.schema,
            layout.spec,
            format_version=self.format_version,
            content=content,
            partition_type=layout.partition_type,
            codec=codec,
            level=level,
        )

    def store(
        self, path: str, data: bytes, entries: Sequence[ManifestEntry], spec_id: int, content: ManifestContent
    ) -> NewManifest:
        """Write the bytes of a manifest with these entries to a path."""
        self.files.write(self.storage, path, data)
        summary = summarize_manifest(entries, self.layout(spec_id).partition_type)
        return NewManifest(path, len(data), spec_id, content, summary)

    def splice(self, path: str, parts: Sequence[CopiedEntries], spec_id: int, content: ManifestContent) -> NewManifest:
        """Write a manifest with entries that are copied from other manifests."""
        layout, (codec, level) = self.layout(spec_id), self.codec
        data = splice_manifests(
            parts,
            layout.schema,
            layout.spec,
            format_version=self.format_version,
            content=content,
            partition_type=layout.partition_type,
            codec=codec,
            level=level,
        )
        self.files.write(self.storage, path, data)
        return NewManifest(path, len(data), spec_id, content, summarize_copied(parts, layout.partition_type))

    def write_list(self, manifests: Sequence[ManifestFile], parent_id: int | None) -> str:
        """Write the manifest list of the attempt, and return its path."""
        path = join(self.folder, self.files.list_name())
        data = write_manifest_list(
            manifests,
            format_version=self.format_version,
            snapshot_id=self.key.snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=self.sequence_number,
            first_row_id=self.metadata.next_row_id,
        )
        self.files.write(self.storage, path, data)
        return path


def metadata_folder(metadata: TableMetadata) -> str:
    """The folder of a table's metadata files.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> table = new_table_metadata(
    ...     Schema(()), location="s3://wh/t", uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1", now_ms=0
    ... )
    >>> metadata_folder(table)
    's3://wh/t/metadata'
    """
    path = METADATA_PATH.read(metadata.properties)
    return path.rstrip("/") if path else join(metadata.location, "metadata")


def manifest_target_bytes(metadata: TableMetadata) -> int:
    """The target size of a table's manifests: 8 MB unless its properties set another."""
    return MANIFEST_TARGET_SIZE.read(metadata.properties)


def _layout(metadata: TableMetadata, spec_id: int) -> SpecLayout:
    spec = metadata.specs_by_id.get(spec_id)
    if spec is None:
        raise InvalidMetadata(
            f"a manifest has partition spec {spec_id}, which the table does not have", path=".partition-specs"
        )
    older = tuple(reversed(metadata.schemas))
    sources = {source for field in spec.fields for source in field.source_ids}
    # source columns may have been dropped: the newest schema with most of them
    best = max((metadata.schema, *older), key=lambda schema: sum(schema.find(id_) is not None for id_ in sources))
    return SpecLayout(spec, best, spec.partition_type(metadata.schema, older))
