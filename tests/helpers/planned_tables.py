"""Tables made by hand for tests of planning: entries in, manifests and metadata in a memory storage out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from floe.avro.manifest_lists import write_manifest_list
from floe.avro.manifest_writer import write_manifest
from floe.spec.manifests.entries import (
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    summarize_manifest,
)
from floe.spec.metadata.snapshots import Snapshot, SnapshotRef
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import UNPARTITIONED, PartitionSpec
from floe.spec.schemas.schema import Schema
from floe.storage.memory import MemoryStorage

ROOT = "memory:t"


def data_file(path: str, **changes: Any) -> DataFile:
    """A data file of ten rows, unless told otherwise."""
    return replace(DataFile(FileContent.DATA, path, "parquet", (), 10, 1000), **changes)


def added(file: DataFile, snapshot: int | None = None, number: int | None = None) -> ManifestEntry:
    """A file that comes with the snapshot; with a number of its own, its content is older."""
    return ManifestEntry(EntryStatus.ADDED, snapshot, number, None, file)


def existing(file: DataFile, snapshot: int, number: int) -> ManifestEntry:
    """A file that was there before."""
    return ManifestEntry(EntryStatus.EXISTING, snapshot, number, number, file)


def deleted(file: DataFile, snapshot: int, number: int) -> ManifestEntry:
    """A file that the snapshot removes."""
    return ManifestEntry(EntryStatus.DELETED, snapshot, number, number, file)


@dataclass
class TableMaker:
    """A table that grows snapshot by snapshot."""

    schema: Schema
    specs: Sequence[PartitionSpec] = (UNPARTITIONED,)
    format_version: int = 2
    storage: MemoryStorage = field(default_factory=MemoryStorage)
    snapshots: list[Snapshot] = field(default_factory=list)
    manifests: dict[int, list[ManifestFile]] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    schemas: Sequence[Schema] = ()

    def manifest(
        self, entries: Iterable[ManifestEntry], *, snapshot: int, number: int, spec_id: int = 0, **changes: Any
    ) -> ManifestFile:
        """A manifest of some entries, written."""
        listed = list(entries)
        spec = next(spec for spec in self.specs if spec.spec_id == spec_id)
        content = ManifestContent.DATA if all(e.data_file.is_data for e in listed) else ManifestContent.DELETES
        written = write_manifest(listed, self.schema, spec, format_version=self.format_version, content=content)
        path = f"{ROOT}/metadata/{snapshot}-m{len(list(self.storage.list(ROOT)))}.avro"
        self.storage.write(path, written)
        summary = summarize_manifest(listed, spec.partition_type(self.schema))
        made = summary.manifest_file(
            path, len(written), spec_id=spec_id, content=content, snapshot_id=snapshot, sequence_number=number
        )
        return replace(made, **changes)

    def snapshot(
        self, snapshot_id: int, manifests: Sequence[ManifestFile], operation: str = "append", **changes: Any
    ) -> Snapshot:
        """The next snapshot, with exactly these manifests."""
        number = len(self.snapshots) + 1
        parent = self.snapshots[-1].snapshot_id if self.snapshots else None
        path = f"{ROOT}/metadata/snap-{snapshot_id}.avro"
        versioned: dict[str, Any] = {"sequence_number": number} if self.format_version > 1 else {}
        if self.format_version > 2:
            versioned["first_row_id"] = 0
        listed = write_manifest_list(
            manifests,
            format_version=self.format_version,
            snapshot_id=snapshot_id,
            parent_snapshot_id=parent,
            **versioned,
        )
        self.storage.write(path, listed)
        facts: dict[str, Any] = {
            "sequence_number": number if self.format_version > 1 else 0,
            "snapshot_id": snapshot_id,
            "parent_snapshot_id": parent,
            "timestamp_ms": 1000 * number,
            "summary": {"operation": operation},
            "manifest_list": path,
            "schema_id": self.schema.schema_id,
        }
        made = Snapshot(**(facts | changes))
        self.snapshots.append(made)
        self.manifests[snapshot_id] = list(manifests)
        return made

    @property
    def metadata(self) -> TableMetadata:
        """The table as it is now."""
        last = self.snapshots[-1].snapshot_id if self.snapshots else None
        return TableMetadata(
            format_version=self.format_version,
            table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
            location=ROOT,
            last_sequence_number=len(self.snapshots),
            last_updated_ms=1000 * len(self.snapshots),
            last_column_id=1000,
            schemas=(self.schema, *self.schemas),
            current_schema_id=self.schema.schema_id,
            partition_specs=tuple(self.specs),
            default_spec_id=self.specs[-1].spec_id,
            last_partition_id=2000,
            properties=self.properties,
            current_snapshot_id=last,
            snapshots=tuple(self.snapshots),
            refs={} if last is None else {"main": SnapshotRef(snapshot_id=last, type="branch")},
            next_row_id=0 if self.format_version > 2 else None,
        )


def table_of(entries: Iterable[ManifestEntry], schema: Schema, **changes: Any) -> TableMaker:
    """A table of one snapshot, with a manifest for each kind of content and each spec."""
    maker = TableMaker(schema, **changes)
    groups: dict[tuple[bool, int], list[ManifestEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.data_file.is_data, entry.data_file.spec_id), []).append(entry)
    manifests = [maker.manifest(group, snapshot=1, number=1, spec_id=spec_id) for (_, spec_id), group in groups.items()]
    maker.snapshot(1, manifests)
    return maker
