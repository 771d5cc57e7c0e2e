"""Tables in memory whose one snapshot has given entries: for tests that read what nobody else would write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from floe.avro.manifest_lists import write_manifest_list
from floe.avro.manifest_writer import write_manifest
from floe.spec.manifests.entries import EntryStatus, ManifestContent, ManifestEntry, ManifestFile, summarize_partitions
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.schema import Schema
from floe.storage.memory import MemoryStorage

FOLDER = "memory:t"


def small_table(
    manifests: Sequence[Sequence[ManifestEntry]],
    schema: Schema,
    *specs: PartitionSpec,
    format_version: int = 2,
    spec_ids: Sequence[int] = (),
) -> tuple[TableMetadata, MemoryStorage]:
    """A table with one snapshot, number 77 of sequence number 9, and manifests with these entries.

    The manifests are of the specs given by id, and of spec 0 by default.
    """
    storage = MemoryStorage()
    by_id = {spec.spec_id: spec for spec in specs}
    listed = []
    for number, entries in enumerate(manifests):
        spec = by_id[spec_ids[number] if spec_ids else 0]
        is_data = not entries or entries[0].data_file.is_data
        content = ManifestContent.DATA if is_data else ManifestContent.DELETES
        data = write_manifest(entries, schema, spec, format_version=format_version, content=content)
        path = f"{FOLDER}/m{number}.avro"
        storage.write(path, data)
        counts = [sum(entry.status == status for entry in entries) for status in (1, 0, 2)]
        partitions = summarize_partitions([e.data_file.partition for e in entries], spec.partition_type(schema))
        listed.append(
            ManifestFile(path, len(data), spec.spec_id, content, 9, 0, 77, *counts, 0, 0, 0, partitions=partitions)
        )
    put_list(storage, listed)
    snapshot = Snapshot(snapshot_id=77, sequence_number=9, timestamp_ms=5, manifest_list=f"{FOLDER}/snap-77.avro")
    metadata = TableMetadata(
        format_version=format_version,
        table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
        location=FOLDER,
        last_sequence_number=9,
        last_updated_ms=5,
        last_column_id=schema.highest_field_id,
        schemas=(schema,),
        partition_specs=specs,
        default_spec_id=specs[-1].spec_id,
        current_snapshot_id=77,
        snapshots=(snapshot,),
    )
    return metadata, storage


def put_list(storage: MemoryStorage, manifests: Sequence[ManifestFile]) -> None:
    """Write the manifest list of the table's snapshot."""
    data = write_manifest_list(manifests, format_version=2, snapshot_id=77, parent_snapshot_id=None, sequence_number=9)
    storage.write(f"{FOLDER}/snap-77.avro", data, overwrite=True)


def added(*entries_of: object) -> list[ManifestEntry]:
    """Entries that add files."""
    return [ManifestEntry(EntryStatus.ADDED, None, None, None, file) for file in entries_of]  # type: ignore[arg-type]


def without_current_snapshot(metadata: TableMetadata) -> TableMetadata:
    """The same table before its first snapshot."""
    return replace(metadata, current_snapshot_id=None, snapshots=())
