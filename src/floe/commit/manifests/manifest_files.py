"""The manifest files of one change: named so that no other commit writes them, written once, and kept over retries.

A change has one `ManifestFiles` for all its attempts, and each attempt works in a `Workspace` made from it: the
newest state of the table, and what that state says about how manifests are written.

| file | name, in the table's metadata folder |
|---|---|
| manifest | `<commit id>-m<number>.avro` |
| manifest list | `snap-<snapshot id>-<attempt>-<commit id>.avro` |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Final, TypeAlias, TypeVar

from floe.avro.manifest_lists import write_manifest_list
from floe.avro.manifest_writing import write_manifest
from floe.avro.manifests import ManifestColumns, read_manifest
from floe.avro.snapshot_manifests import counted, open_manifest, snapshot_manifests
from floe.avro.splicing import Kept, splice_manifests
from floe.commit.change import Attempt
from floe.commit.manifests.summaries import summarize_kept
from floe.errors import InvalidMetadata, InvalidUpdate
from floe.spec.manifests.entries import ManifestContent, ManifestEntry, ManifestFile
from floe.spec.manifests.summary import ManifestSummary, summarize_manifest
from floe.spec.metadata.properties import integer_property
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.schema import Schema
from floe.spec.types import StructType
from floe.storage.concurrency import map_concurrently
from floe.storage.locations import join
from floe.storage.protocol import Storage

__all__ = [
    "CommitKey",
    "Manifest",
    "ManifestFiles",
    "NewManifest",
    "SpecLayout",
    "Workspace",
    "manifest_target_bytes",
    "metadata_folder",
]

METADATA_PATH: Final = "write.metadata.path"
TARGET_BYTES: Final = "commit.manifest.target-size-bytes"
CODEC: Final = "write.manifest.compression-codec"
LEVEL: Final = "write.manifest.compression-level"

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
        name = properties.get(CODEC, "gzip").lower()
        if name not in _CODECS:
            raise InvalidUpdate(f"property {CODEC} must be one of {', '.join(_CODECS)}; found {name[:80]!r}")
        level = integer_property(properties, LEVEL, default=-1) if LEVEL in properties else None
        return _CODECS[name], level

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
        found = snapshot_manifests(snapshot, self.storage)
        if self.format_version < 2:
            return found
        return [counted(manifest, self.storage) for manifest in found]

    def read(self, manifest: Manifest) -> ManifestColumns:
        """The entries of a manifest. Those that this change added go on to inherit what the commit will give them."""
        if isinstance(manifest, NewManifest):
            data, known, spec_id = self.storage.read(manifest.path), None, manifest.spec_id
        else:
            data, known, spec_id = open_manifest(manifest, self.storage), manifest, manifest.partition_spec_id
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

    def splice(self, path: str, parts: Sequence[Kept], spec_id: int, content: ManifestContent) -> NewManifest:
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
    own = metadata.properties.get(METADATA_PATH)
    return own.rstrip("/") if own else join(metadata.location, "metadata")


def manifest_target_bytes(metadata: TableMetadata) -> int:
    """How long the manifests of a table should become: 8 MB unless its properties say otherwise."""
    target = integer_property(metadata.properties, TARGET_BYTES, default=8 * 2**20)
    if target < 1:
        raise InvalidUpdate(f"property {TARGET_BYTES} must be positive, found {target}")
    return target


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
