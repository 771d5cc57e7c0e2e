"""Small tables for tests of commits: in memory, or in a folder where other readers can open them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from floe.avro.manifest_columns import ManifestColumns
from floe.avro.manifest_reader import read_manifest, read_snapshot_manifests
from floe.commit.change import Attempt, Change
from floe.spec.codecs.single_value import encode
from floe.spec.manifests.entries import DataFile, FileContent, ManifestEntry, ManifestFile
from floe.spec.metadata.creation import new_table_metadata
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import serialize
from floe.spec.metadata.updates import TableUpdate
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.partitioning.transform_terms import build_spec
from floe.spec.schemas.schema import Schema
from floe.spec.types import INT, LONG, STRING, Field
from floe.storage.environment import Environment, deterministic_environment
from floe.storage.local import LocalStorage
from floe.storage.memory import MemoryStorage
from floe.storage.protocol import Storage

SCHEMA = Schema((Field(1, "id", LONG, required=True), Field(2, "day", INT), Field(3, "name", STRING)))
UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


def new_table(
    version: int = 2,
    partition: Iterable[str] = ("day",),
    *,
    location: str = "memory:wh/t",
    schema: Schema = SCHEMA,
    properties: Mapping[str, str] | None = None,
) -> TableMetadata:
    """The metadata of an empty table of ids, days and names."""
    return new_table_metadata(
        schema,
        build_spec(schema, list(partition)),
        location=location,
        uuid=UUID,
        now_ms=1_700_000_000_000,
        properties=dict(properties or {}),
        format_version=version,
    )


def other_spec(terms: Iterable[str], spec_id: int = 1) -> PartitionSpec:
    """Another spec of the table, whose fields have ids of their own, except for `day`."""
    spec = build_spec(SCHEMA, list(terms), spec_id=spec_id)
    ids = [1000 if field.name == "day" else 1000 + 10 * spec_id + n for n, field in enumerate(spec.fields)]
    return replace(spec, fields=tuple(replace(f, field_id=i) for f, i in zip(spec.fields, ids, strict=True)))


@dataclass
class Box:
    """A table that is changed without a catalog: each commit applies a change to the state it holds."""

    metadata: TableMetadata
    storage: Storage = field(default_factory=MemoryStorage)
    environment: Environment = field(default_factory=deterministic_environment)
    versions: int = 0

    def attempt(self, number: int = 1) -> Attempt:
        """What the next attempt builds on."""
        now = max(self.environment.clock.now_ms(), self.metadata.last_updated_ms)
        return Attempt("t", self.metadata, self.metadata, self.storage, self.environment, number, now)

    def commit(self, change: Change, *rivals: Change) -> Snapshot | None:
        """Commits a change; before each rival an attempt is made that loses to it."""
        for number, rival in enumerate(rivals, 1):
            change.updates(self.attempt(number))
            self.commit(rival)
        self.apply(*change.updates(self.attempt(len(rivals) + 1)))
        return self.metadata.snapshots_by_id.get(getattr(change, "snapshot_id", -1))

    def apply(self, *updates: TableUpdate) -> None:
        """Applies updates."""
        if updates:
            now = max(self.environment.clock.now_ms(), self.metadata.last_updated_ms)
            self.metadata = apply(self.metadata, updates, now_ms=now)

    # what is in it ------------------------------------------------------------------------------------------------

    def head(self, branch: str = "main") -> Snapshot:
        """The newest snapshot of a branch."""
        return self.metadata.snapshot_of_ref(branch)

    def manifests(self, snapshot: Snapshot | None = None) -> list[ManifestFile]:
        """The manifests of a snapshot, of the current one by default."""
        return read_snapshot_manifests(snapshot or self.head(), self.storage)

    def columns(self, manifest: ManifestFile) -> ManifestColumns:
        """The entries of a manifest."""
        metadata = self.metadata
        type_ = metadata.specs_by_id[manifest.partition_spec_id].partition_type(metadata.schema, metadata.schemas)
        return read_manifest(self.storage.read(manifest.manifest_path), manifest, partition_type=type_)

    def entries(self, snapshot: Snapshot | None = None) -> list[ManifestEntry]:
        """All entries of a snapshot, deleted ones too."""
        if snapshot is None and not self.metadata.refs:
            return []
        return [entry for manifest in self.manifests(snapshot) for entry in self.columns(manifest).entries()]

    def live(self, snapshot: Snapshot | None = None) -> dict[str, ManifestEntry]:
        """The live entries of a snapshot by path, deletion vectors by path and offset."""
        return {name_of(entry.data_file): entry for entry in self.entries(snapshot) if entry.is_live}

    def write_metadata(self) -> str:
        """Writes the metadata to a file, for other readers."""
        self.versions += 1
        path = f"{self.metadata.location}/metadata/v{self.versions}.metadata.json"
        self.storage.write(path, serialize(self.metadata))
        return path


def name_of(file: DataFile) -> str:
    """The path of a file, with the offset of a deletion vector."""
    return f"{file.file_path}#{file.content_offset}" if file.is_deletion_vector else file.file_path


def local_box(folder: Path, version: int = 2, **options: Any) -> Box:
    """A table in a folder."""
    return Box(new_table(version, location=str(folder / "t"), **options), LocalStorage())


# files ------------------------------------------------------------------------------------------------------------


def data_file(
    name: str, day: Any = 1, *, rows: int = 10, spec_id: int = 0, ids: tuple[int, int] | None = None, **more: Any
) -> DataFile:
    """A data file of one day; `ids` are the least and the greatest id in it."""
    bounds = {}
    if ids is not None:
        bounds = {
            "value_counts": {1: rows},
            "null_value_counts": {1: 0},
            "lower_bounds": {1: encode(LONG, ids[0])},
            "upper_bounds": {1: encode(LONG, ids[1])},
        }
    partition = day if isinstance(day, tuple) else (day,)
    return DataFile(
        FileContent.DATA, name, "parquet", partition, rows, rows * 100, spec_id=spec_id, **{**bounds, **more}
    )


def vector(
    target: str, day: Any = 1, *, puffin: str = "memory:wh/t/data/dv.puffin", offset: int = 4, rows: int = 2
) -> DataFile:
    """A deletion vector for a data file."""
    return DataFile(
        FileContent.POSITION_DELETES,
        puffin,
        "puffin",
        day if isinstance(day, tuple) else (day,),
        rows,
        1_000,
        referenced_data_file=target,
        content_offset=offset,
        content_size_in_bytes=40,
    )


def position_deletes(name: str, day: Any = 1, *, rows: int = 2, target: str | None = None) -> DataFile:
    """A position delete file."""
    partition = day if isinstance(day, tuple) else (day,)
    return DataFile(FileContent.POSITION_DELETES, name, "parquet", partition, rows, 50, referenced_data_file=target)


def equality_deletes(name: str, day: Any = 1, *, rows: int = 1) -> DataFile:
    """An equality delete file on `id`."""
    partition = day if isinstance(day, tuple) else (day,)
    return DataFile(FileContent.EQUALITY_DELETES, name, "parquet", partition, rows, 60, equality_ids=(1,))
