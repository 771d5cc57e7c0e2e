"""The target of a write: a table's metadata, its storage, and the locations of new files.

A target needs no catalog, so that any process can write files that another one commits.

>>> from floe.spec.metadata.creation import new_table_metadata
>>> from floe.spec.types import Field, LONG, STRING
>>> from floe.storage.environment import deterministic_environment
>>> from floe.storage.memory import MemoryStorage
>>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
>>> table = new_table_metadata(Schema((Field(1, "id", LONG),)), location="memory:wh/t", uuid=uuid, now_ms=0)
>>> target = WriteTarget.of(table, MemoryStorage(), deterministic_environment())
>>> target.new_location("parquet")
'memory:wh/t/data/00000-0-...-00001.parquet'
>>> target.file_format, target.file_bytes
('parquet', 536870912)

New files have the same names and folders as those of Java Iceberg:

| property | effect |
|---|---|
| `write.data.path` | the folder of data files and delete files; by default `data` below the table |
| `write.folder-storage.path`, `write.object-storage.path` | older names of it, the second for object storage |
| `write.object-storage.enabled` | the object store layout: folders of a hash come first, to spread files over a store |
| `write.object-storage.partitioned-paths` | whether folders of the partition follow the hash; true by default |

`write.location-provider.impl`, a class that Java would load, is ignored: readers take the paths from manifests.

>>> from floe.spec.partitioning.transform_terms import build_spec
>>> schema = Schema((Field(1, "who", STRING),))
>>> spec = build_spec(schema, ["who"])
>>> file_location(Locations("s3://b/db/t"), spec, schema, ("a",), "f.parquet")
's3://b/db/t/data/who=a/f.parquet'
>>> file_location(Locations("s3://b/db/t", {"write.object-storage.enabled": "true"}), spec, schema, ("a",), "f.parquet")
's3://b/db/t/data/1010/0011/0111/11011111/who=a/f.parquet'
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from floe.errors import InvalidUpdate, UnsupportedFeature
from floe.formats.metrics import MetricsConfig
from floe.formats.model import Encryption
from floe.formats.registry import Registry, default_registry
from floe.spec.manifests.entries import FILE_FORMATS, FileContent
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.murmur3 import hash_bytes
from floe.spec.partitioning.partition_paths import partition_path
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.properties import (
    DATA_PATH,
    DELETE_FILE_FORMAT,
    DELETE_GRANULARITY,
    DELETE_TARGET_FILE_SIZE,
    ENCRYPTION_KEY,
    FILE_FORMAT,
    FOLDER_STORAGE_PATH,
    OBJECT_STORAGE,
    OBJECT_STORAGE_PATH,
    PARTITIONED_PATHS,
    TARGET_FILE_SIZE,
)
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import SortOrder
from floe.storage.environment import Environment
from floe.storage.locations import parse
from floe.storage.protocol import Storage

# Locations and names --------------------------------------------------------------------------------------------------

_HASH_BITS = 20
_HASH_FOLDERS = ((0, 4), (4, 8), (8, 12), (12, _HASH_BITS))
"""The bits of the hash in the name of each folder: three short ones, so that a listing can be parallelized."""


@dataclass(frozen=True, slots=True)
class Locations:
    """The layout of a table's new files, from its location and properties."""

    table: str
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def hashed(self) -> bool:
        """Whether folders of a hash come first (`write.object-storage.enabled`)."""
        return OBJECT_STORAGE.read(self.properties)

    @property
    def partitioned(self) -> bool:
        """Whether locations have folders of the partition."""
        return not self.hashed or PARTITIONED_PATHS.read(self.properties)

    @property
    def data(self) -> str:
        """The folder of data files and delete files.

        >>> Locations("s3://b/t/").data, Locations("s3://b/t", {"write.data.path": "s3://c/d/"}).data
        ('s3://b/t/data', 's3://c/d')
        """
        settings = (
            [DATA_PATH, OBJECT_STORAGE_PATH, FOLDER_STORAGE_PATH] if self.hashed else [DATA_PATH, FOLDER_STORAGE_PATH]
        )
        setting = next((each for each in settings if each.is_set(self.properties)), None)
        if setting is None:
            return f"{_stripped(self.table)}/data"
        folder = self.properties[setting.name]
        if not folder.strip():
            raise InvalidUpdate(
                f"property {setting} is empty",
                hint="set it to the location of a folder, or remove it",
                property=setting.name,
            )
        return _stripped(folder)

    def file(self, name: str, folders: str = "") -> str:
        """The location of a file, with the folders of its partition if the layout has them.

        >>> hashed = {"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": "false"}
        >>> Locations("s3://b/t", hashed).file("a.orc")
        's3://b/t/data/0111/0110/0100/01111111-a.orc'
        """
        path = f"{folders}/{name}" if folders and self.partitioned else name
        if not self.hashed:
            return f"{self.data}/{path}"
        data, entropy = self.data, _entropy(path)
        if not data.startswith(self.table):  # several tables may share the folder, so their names are part of the path
            return f"{data}/{entropy}/{_context(self.table)}/{path}"
        return f"{data}/{entropy}/{path}" if self.partitioned else f"{data}/{entropy}-{path}"


def file_location(
    locations: Locations,
    spec: PartitionSpec,
    schema: Schema,
    partition: Sequence[Any],
    name: str,
    earlier: Iterable[Schema] = (),
) -> str:
    """The location of a file of a partition; `earlier` schemas have the types of dropped source columns."""
    return locations.file(name, partition_path(spec, schema, partition, earlier))


def _stripped(location: str) -> str:
    return location if location.endswith("://") else location.rstrip("/")


def _entropy(path: str) -> str:
    """The folders of a path's hash.

    >>> _entropy("a")
    '0101/0110/1001/10110010'
    """
    bits = f"{hash_bytes(path.encode()) & (2**_HASH_BITS - 1):0{_HASH_BITS}b}"
    return "/".join(bits[start:end] for start, end in _HASH_FOLDERS)


def _context(table: str) -> str:
    """The last two folders of a table's location, usually its namespace and name.

    >>> _context("s3://b/wh/db/t/"), _context("s3://b/t")
    ('db/t', 't')
    """
    return "/".join([folder for folder in parse(table).path.split("/") if folder][-2:])


class FileNames:
    """The names of the files of one write: `00000-7-<uuid>-00001.parquet`, counted from 1.

    The first two numbers distinguish the processes of a write (in Spark: partition and task). Thread-safe.

    >>> names = FileNames("9c12d441", task=7)
    >>> names.next("parquet"), names.next("orc", suffix="deletes")
    ('00000-7-9c12d441-00001.parquet', '00000-7-9c12d441-00002-deletes.orc')
    """

    def __init__(self, write_id: str, *, part: int = 0, task: int = 0) -> None:
        self.write_id, self.part, self.task = write_id, part, task
        self._count = 0
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _names, (self.write_id, self.part, self.task, self._count)

    def next(self, file_format: str, *, suffix: str = "") -> str:
        """A new name, which no other file of the write has."""
        with self._lock:
            self._count += 1
            number = self._count
        ending = f"-{suffix}" if suffix else ""
        return f"{self.part:05d}-{self.task}-{self.write_id}-{number:05d}{ending}.{file_format}"


def _names(write_id: str, part: int, task: int, count: int) -> FileNames:
    """Unpickle names, which continue the count."""
    names = FileNames(write_id, part=part, task=task)
    names._count = count
    return names


# Target ---------------------------------------------------------------------------------------------------------------

_REGISTRY = default_registry()


@dataclass(frozen=True, eq=False)
class WriteTarget:
    """A table to write files of; they belong to it only once they are committed.

    `overrides` are properties that replace the table's for this write.
    """

    metadata: TableMetadata
    storage: Storage
    environment: Environment
    names: FileNames
    overrides: Mapping[str, str] = field(default_factory=dict)
    registry: Registry = _REGISTRY
    encryption: Encryption | None = None

    @classmethod
    def of(
        cls,
        metadata: TableMetadata,
        storage: Storage,
        environment: Environment | None = None,
        *,
        overrides: Mapping[str, str] | None = None,
        write_id: str | None = None,
        part: int = 0,
        task: int = 0,
        registry: Registry | None = None,
        encryption: Encryption | None = None,
    ) -> WriteTarget:
        """A target of a new write; raises `UnsupportedFeature` for an encrypted table without `encryption`.

        Several processes of a write share its `write_id`, and differ in `part` or `task`; by default the id is new.
        """
        if (ENCRYPTION_KEY in metadata.properties or metadata.encryption_keys) and encryption is None:
            raise UnsupportedFeature(
                "the table is encrypted, and files cannot be encrypted without `encryption`",
                hint=f"it has property {ENCRYPTION_KEY} or encryption keys in its metadata; nothing was written",
            )
        environment = environment or Environment()
        names = FileNames(write_id or str(environment.ids.uuid()), part=part, task=task)
        return cls(metadata, storage, environment, names, dict(overrides or {}), registry or _REGISTRY, encryption)

    def with_metadata(self, metadata: TableMetadata) -> WriteTarget:
        """The same write with other metadata of the table, such as a changed schema."""
        return replace(self, metadata=metadata)

    @property
    def schema(self) -> Schema:
        """The schema of new data files."""
        return self.metadata.schema

    @property
    def spec(self) -> PartitionSpec:
        """The partition spec of new data files."""
        return self.metadata.spec

    @property
    def sort_order(self) -> SortOrder:
        """The sort order of new data files."""
        return self.metadata.sort_order

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """The table's properties, with the overrides."""
        return {**self.metadata.properties, **self.overrides}

    @property
    def file_format(self) -> str:
        """The format of data files (`write.format.default`)."""
        return self._format(FILE_FORMAT.name, FILE_FORMAT.default)

    @property
    def delete_format(self) -> str:
        """The format of delete files (`write.delete.format.default`); by default that of data files."""
        return self._format(DELETE_FILE_FORMAT.name, self.file_format)

    @property
    def file_bytes(self) -> int:
        """The target size of data files (`write.target-file-size-bytes`)."""
        return TARGET_FILE_SIZE.read(self.properties)

    @property
    def delete_file_bytes(self) -> int:
        """The target size of delete files (`write.delete.target-file-size-bytes`)."""
        return DELETE_TARGET_FILE_SIZE.read(self.properties)

    @property
    def deletes_per_file(self) -> bool:
        """Whether each data file has its own position delete files (`write.delete.granularity`: file or partition).

        This is the default, as in Spark: readers open only what they need, and two changes that delete rows of
        different files do not overlap.
        """
        return DELETE_GRANULARITY.read(self.properties) == "file"

    def metrics(self, schema: Schema) -> MetricsConfig:
        """The metrics to collect for data files."""
        return MetricsConfig.from_properties(self.properties, schema, self.sort_order)

    @cached_property
    def locations(self) -> Locations:
        """The layout of new files."""
        return Locations(self.metadata.location, self.properties)

    def new_location(
        self,
        file_format: str,
        spec: PartitionSpec | None = None,
        partition: Sequence[Any] = (),
        *,
        content: FileContent = FileContent.DATA,
    ) -> str:
        """A new location of a file, in the folder of its partition; without a spec, outside of partition folders."""
        name = self.names.next(file_format, suffix="" if content == FileContent.DATA else "deletes")
        if spec is None:
            return self.locations.file(name)
        return file_location(self.locations, spec, self.schema, partition, name, self.metadata.schemas)

    def _format(self, name: str, default: str) -> str:
        file_format = self.properties.get(name, default).lower()
        specified = FILE_FORMATS - {"puffin"}
        if file_format not in specified and not self.registry.has_format(file_format):
            registered = {model.file_format.lower() for model in self.registry}
            raise InvalidUpdate(
                f"{file_format[:80]!r} is not a format of data files",
                hint=f"use one of {', '.join(sorted(registered | specified))}",
                property=name,
            )
        return file_format
