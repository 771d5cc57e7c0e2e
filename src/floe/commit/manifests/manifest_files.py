"""The manifest files of one change: named so that no other commit writes them, written once, and kept over retries.

A change has one `ManifestFiles` for all its attempts, and each attempt works in a `Workspace` made from it: the
newest state of the table, and what that state says about how manifests are written.

| file | name, in the table's metadata folder |
|---|---|
| manifest | `<commit id>-m<number>.avro` |
| manifest list | `snap-<snapshot id>-<attempt>-<commit id>.avro` |

What a manifest list says about a manifest that was put together from entries of others, found from columns.

The counterpart of `floe.spec.manifests.entries` for entries that are not objects: the answers are the same.
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

# What a manifest list says about a manifest that was put together from entries of others, found from columns.


def summarize_kept(parts: Sequence[CopiedEntries], partition_type: StructType) -> ManifestSummary:
    """The counts and partition summaries of a manifest that is spliced from these parts."""
    files, rows = dict.fromkeys(EntryStatus, 0), dict.fromkeys(EntryStatus, 0)
    lowest: list[int] = []
    for part in parts:
        status = np.asarray(part.status)
        counts = np.maximum(part.columns.record_count[part.rows], 0)
        for one in EntryStatus:
            which = np.equal(status, one)
            files[one] += int(which.sum())
            rows[one] += int(counts[which].sum())
        numbers = part.columns.sequence_number
        carried = numbers.known[part.rows] & np.not_equal(status, EntryStatus.DELETED)
        if carried.any():
            lowest.append(int(np.asarray(numbers.values)[part.rows][carried].min()))
    return ManifestSummary(
        files[EntryStatus.ADDED],
        files[EntryStatus.EXISTING],
        files[EntryStatus.DELETED],
        rows[EntryStatus.ADDED],
        rows[EntryStatus.EXISTING],
        rows[EntryStatus.DELETED],
        min(lowest, default=None),
        tuple(_field_summary(parts, field) for field in partition_type),
    )


def _field_summary(parts: Iterable[CopiedEntries], field: Field) -> FieldSummary:
    """The summary of one partition field, from the few values that can decide it."""
    deciding: list[Any] = []
    for part in parts:
        if len(part.rows):
            column = part.columns.partition(field.id)
            deciding.extend(column_values(field.type, column, _deciding_rows(column, part.rows)))
    (summary,) = summarize_partitions([(value,) for value in deciding], StructType((field,)))
    return summary


def _deciding_rows(column: Column, rows: Offsets) -> Offsets:
    """Rows that have every value which matters: a null, a NaN, the least and the greatest."""
    known = column.known[rows]
    nulls, present = rows[~known][:1], rows[known]
    values = column.values
    if isinstance(values, VarBytes):
        places = {string: row for row, string in zip(present.tolist(), values.take(present).to_list(), strict=True)}
        return np.concatenate([nulls, np.fromiter(places.values(), np.int64, len(places))])
    keys = values[present]
    nans = present[:0]
    if keys.dtype.kind == "f":
        is_nan = np.isnan(keys)
        nans, present, keys = present[is_nan][:1], present[~is_nan], keys[~is_nan]
        bits = keys.astype(np.float64, copy=False).view(np.int64)
        keys = bits ^ ((bits >> 63) & np.int64(2**63 - 1))  # ordered as the numbers are, and -0.0 below 0.0
    if not present.size:
        return np.concatenate([nulls, nans])
    return np.concatenate([nulls, nans, present[[keys.argmin(), keys.argmax()]]])


_CODECS: Final = {"gzip": "deflate", "zstd": "zstandard", "snappy": "snappy", "uncompressed": "null"}
"""The codecs by their names in table properties; manifests are Avro files, which have other names for them."""

_LIMIT: Final = 8
"""Manifests read or written at once."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class CommitKey:
    """What a commit is found by: the id of its snapshot, and the random text in its summary and file names."""

    snapshot_id: int
    commit_id: str


@dataclass(frozen=True, slots=True)
class NewManifest:
    """A manifest that this change wrote. Its sequence number and first row id are given by the list of each attempt."""

    path: str
    length: int
    spec_id: int
    content: ManifestContent
    summary: ManifestSummary

    def listed(self, snapshot_id: int, sequence_number: int) -> ManifestFile:
        """The manifest as the list of an attempt describes it."""
        return self.summary.manifest_file(
            self.path,
            self.length,
            spec_id=self.spec_id,
            content=self.content,
            snapshot_id=snapshot_id,
            sequence_number=sequence_number,
        )


Manifest: TypeAlias = ManifestFile | NewManifest
"""A manifest of the snapshot to be: one that was there before, or a new one."""


@dataclass(frozen=True, slots=True)
class SpecLayout:
    """How the files of a partition spec are described: its tuple's type, and a schema that has its source columns."""

    spec: PartitionSpec
    schema: Schema
    partition_type: StructType


class ManifestFiles:
    """The manifests that a change has written in all its attempts, and what they were made from."""

    def __init__(self, key: CommitKey, executor: Executor | None = None) -> None:
        self.key = key
        self.executor = executor
        self._numbers = count()
        self._lists = count(1)
        self._written: dict[str, None] = {}
        self._made: dict[Hashable, tuple[NewManifest, ...]] = {}

    def workspace(self, attempt: Attempt) -> Workspace:
        """A workspace for an attempt."""
        return Workspace(attempt, self)

    def written(self) -> tuple[str, ...]:
        """Every file that was written, or may have been: its name is noted before."""
        return tuple(self._written)

    def forget(self, files: Collection[str]) -> None:
        """These files are being deleted, and are not used again."""
        gone = set(files)
        for path in gone:
            self._written.pop(path, None)
        self._made = {
            key: manifests for key, manifests in self._made.items() if not any(m.path in gone for m in manifests)
        }

    def note(self, path: str) -> None:
        """A file is about to be written: noted before, for a write that fails may have left it behind."""
        self._written[path] = None

    def write(self, storage: Storage, path: str, data: bytes) -> None:
        """Writes a file."""
        self.note(path)
        storage.write(path, data)

    def manifest_name(self) -> str:
        """The name of the next manifest."""
        return f"{self.key.commit_id}-m{next(self._numbers)}.avro"

    def list_name(self) -> str:
        """The name of the next manifest list."""
        return f"snap-{self.key.snapshot_id}-{next(self._lists)}-{self.key.commit_id}.avro"

    def once(self, key: Hashable, make: Callable[[], Sequence[NewManifest]]) -> tuple[NewManifest, ...]:
        """The manifests made from some inputs: written the first time, used again as long as all inputs are equal."""
        if key not in self._made:
            self._made[key] = tuple(make())
        return self._made[key]


class Workspace:
    """One attempt's view of the table, and the reading and writing of manifests for it."""

    def __init__(self, attempt: Attempt, files: ManifestFiles) -> None:
        self.attempt = attempt
        self.metadata: TableMetadata = attempt.metadata
        self.storage: Storage = attempt.storage
        self.files = files
        self.key = files.key
        self.format_version = attempt.metadata.format_version
        self.sequence_number = attempt.metadata.next_sequence_number
        self._layouts: dict[int, SpecLayout] = {}

    # what the table says ------------------------------------------------------------------------------------------

    @cached_property
    def folder(self) -> str:
        """Where metadata files are written."""
        return metadata_folder(self.metadata)

    @cached_property
    def codec(self) -> tuple[str, int | None]:
        """The codec of manifests and its level, as the table's properties say."""
        properties = self.metadata.properties
        return _CODECS[MANIFEST_CODEC.read(properties)], MANIFEST_LEVEL.read(properties)

    @cached_property
    def target_bytes(self) -> int:
        """How long a manifest should become."""
        return manifest_target_bytes(self.metadata)

    def layout(self, spec_id: int) -> SpecLayout:
        """How the files of a spec are described."""
        if spec_id not in self._layouts:
            self._layouts[spec_id] = _layout(self.metadata, spec_id)
        return self._layouts[spec_id]

    def style(self, spec_id: int) -> Hashable:
        """All that shapes the bytes of a manifest beside its entries: part of the key of whatever is kept."""
        layout = self.layout(spec_id)
        return self.format_version, layout.spec, layout.partition_type, layout.schema.schema_id, self.codec

    # reading ------------------------------------------------------------------------------------------------------

    def manifests_of(self, snapshot: Snapshot | None) -> list[ManifestFile]:
        """The manifests of a snapshot, with the counts that lists of v2 and later must have."""
        if snapshot is None:
            return []
        found = read_snapshot_manifests(snapshot, self.storage)
        if self.format_version < 2:
            return found
        return [with_counts(manifest, self.storage) for manifest in found]

    def read(self, manifest: Manifest) -> ManifestColumns:
        """The entries of a manifest. Those that this change added go on to inherit what the commit will give them."""
        if isinstance(manifest, NewManifest):
            data, known, spec_id = self.storage.read(manifest.path), None, manifest.spec_id
        else:
            data, known, spec_id = read_manifest_file(manifest, self.storage), manifest, manifest.partition_spec_id
        return read_manifest(data, known, partition_type=self.layout(spec_id).partition_type)

    def several(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """The function of each item, some at once if there is an executor."""
        return list(map_concurrently(function, items, limit=_LIMIT, executor=self.files.executor))

    # writing ------------------------------------------------------------------------------------------------------

    def new_path(self) -> str:
        """A location for a manifest, given to no other; it need not be used."""
        return join(self.folder, self.files.manifest_name())

    def encode(self, entries: Sequence[ManifestEntry], spec_id: int, content: ManifestContent) -> bytes:
        """The file of a manifest with these entries."""
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
        """Writes the file of a manifest."""
        self.files.write(self.storage, path, data)
        summary = summarize_manifest(entries, self.layout(spec_id).partition_type)
        return NewManifest(path, len(data), spec_id, content, summary)

    def splice(self, path: str, parts: Sequence[CopiedEntries], spec_id: int, content: ManifestContent) -> NewManifest:
        """Writes a manifest with entries of others."""
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
        return NewManifest(path, len(data), spec_id, content, summarize_kept(parts, layout.partition_type))

    def write_list(self, manifests: Sequence[ManifestFile], parent_id: int | None) -> str:
        """Writes the manifest list of the attempt."""
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
    own = METADATA_PATH.read(metadata.properties)
    return own.rstrip("/") if own else join(metadata.location, "metadata")


def manifest_target_bytes(metadata: TableMetadata) -> int:
    """How long the manifests of a table should become: 8 MB unless its properties say otherwise."""
    return MANIFEST_TARGET_SIZE.read(metadata.properties)


def _layout(metadata: TableMetadata, spec_id: int) -> SpecLayout:
    spec = metadata.specs_by_id.get(spec_id)
    if spec is None:
        raise InvalidMetadata(
            f"a manifest is of partition spec {spec_id}, which the table does not have", path=".partition-specs"
        )
    older = tuple(reversed(metadata.schemas))
    sources = {source for field in spec.fields for source in field.source_ids}
    best = max((metadata.schema, *older), key=lambda schema: sum(schema.find(one) is not None for one in sources))
    return SpecLayout(spec, best, spec.partition_type(metadata.schema, older))
