"""What the writers of a table's files have to know: the table's metadata, where its files are, and one write's name.

A target is made of a table's metadata and needs no catalog, so that any process can write files that another one
commits.

>>> from floe.spec.metadata.creation import new_table_metadata
>>> from floe.spec.types import Field, LONG
>>> from floe.storage.environment import deterministic_environment
>>> from floe.storage.memory import MemoryStorage
>>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
>>> table = new_table_metadata(Schema((Field(1, "id", LONG),)), location="memory:wh/t", uuid=uuid, now_ms=0)
>>> target = WriteTarget.of(table, MemoryStorage(), deterministic_environment())
>>> target.new_location("parquet")
'memory:wh/t/data/00000-0-...-00001.parquet'
>>> target.file_format, target.file_bytes
('parquet', 536870912)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from floe.errors import InvalidUpdate, UnsupportedFeature
from floe.formats.metrics_config import MetricsConfig
from floe.formats.model import Encryption
from floe.formats.registry import Registry, default_registry
from floe.formats.writers.locations import FileNames, Locations, file_location
from floe.spec.manifests.entries import FILE_FORMATS, FileContent
from floe.spec.metadata.properties import integer_property
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.schema import Schema
from floe.spec.sorting import SortOrder
from floe.storage.environment import Environment
from floe.storage.protocol import Storage

__all__ = ["WriteTarget"]

ENCRYPTION_KEY: Final = "encryption.key-id"
_FORMAT: Final = "write.format.default"
_DELETE_FORMAT: Final = "write.delete.format.default"
_FILE_BYTES: Final = "write.target-file-size-bytes"
_DELETE_FILE_BYTES: Final = "write.delete.target-file-size-bytes"
_GRANULARITY: Final = "write.delete.granularity"

_DEFAULT_FILE_BYTES = 512 * 1024 * 1024
_DEFAULT_DELETE_FILE_BYTES = 64 * 1024 * 1024

_REGISTRY = default_registry()


@dataclass(frozen=True, eq=False)
class WriteTarget:
    """A table to write files of; nothing of what is written counts before somebody commits it.

    `overrides` are properties that take the place of the table's, for this write alone.
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
        """A target for one write.

        Several processes share the `write_id` of a write, each with a part or task of its own; by default it is new.
        """
        if (ENCRYPTION_KEY in metadata.properties or metadata.encryption_keys) and encryption is None:
            raise UnsupportedFeature(
                "the table is encrypted, and nobody was given who encrypts its files",
                hint=f"property {ENCRYPTION_KEY} or the keys in its metadata say so; nothing was written",
            )
        environment = environment or Environment()
        names = FileNames(write_id or str(environment.ids.uuid()), part=part, task=task)
        return cls(metadata, storage, environment, names, dict(overrides or {}), registry or _REGISTRY, encryption)

    def with_metadata(self, metadata: TableMetadata) -> WriteTarget:
        """The same write to the table as other metadata has it, with a changed schema, say."""
        return replace(self, metadata=metadata)

    # what the table says -----------------------------------------------------------------------------------------

    @property
    def schema(self) -> Schema:
        """The columns of new rows."""
        return self.metadata.schema

    @property
    def spec(self) -> PartitionSpec:
        """How new rows are grouped into files."""
        return self.metadata.spec

    @property
    def sort_order(self) -> SortOrder:
        """How rows are ordered within a file."""
        return self.metadata.sort_order

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """The table's properties, with what overrides them."""
        return {**self.metadata.properties, **self.overrides}

    @property
    def file_format(self) -> str:
        """The format of data files (`write.format.default`)."""
        return self._format(_FORMAT, "parquet")

    @property
    def delete_format(self) -> str:
        """The format of delete files (`write.delete.format.default`): if it is not set, that of data files."""
        return self._format(_DELETE_FORMAT, self.file_format)

    @property
    def file_bytes(self) -> int:
        """How large data files get, roughly (`write.target-file-size-bytes`)."""
        return self._size(_FILE_BYTES, _DEFAULT_FILE_BYTES)

    @property
    def delete_file_bytes(self) -> int:
        """How large delete files get, roughly (`write.delete.target-file-size-bytes`)."""
        return self._size(_DELETE_FILE_BYTES, _DEFAULT_DELETE_FILE_BYTES)

    @property
    def deletes_per_file(self) -> bool:
        """Whether each data file gets position deletes of its own (`write.delete.granularity`: file or partition).

        It is the default, as in Spark: readers then open only what they need, and two changes that delete rows of
        different files do not meet.
        """
        found = self.properties.get(_GRANULARITY, "file").lower()
        if found not in ("file", "partition"):
            raise InvalidUpdate(
                f"{found[:80]!r} is no granularity of deletes", hint="use file or partition", property=_GRANULARITY
            )
        return found == "file"

    def metrics(self, schema: Schema) -> MetricsConfig:
        """Which metrics of data files are kept."""
        return MetricsConfig.from_properties(self.properties, schema, self.sort_order)

    # where files go ----------------------------------------------------------------------------------------------

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
        """The location of a new file, in the folder of its partition; without a spec, of no partition."""
        name = self.names.next(file_format, suffix="" if content == FileContent.DATA else "deletes")
        if spec is None:
            return self.locations.file(name)
        return file_location(self.locations, spec, self.schema, partition, name, self.metadata.schemas)

    def _format(self, name: str, default: str) -> str:
        found = self.properties.get(name, default).lower()
        known = {model.file_format.lower() for model in self.registry} | (FILE_FORMATS - {"puffin"})
        if found not in known:
            raise InvalidUpdate(
                f"{found[:80]!r} is no format of data files",
                hint=f"use one of {', '.join(sorted(known))}",
                property=name,
            )
        return found

    def _size(self, name: str, default: int) -> int:
        found = integer_property(self.properties, name, default=default)
        if found <= 0:
            raise InvalidUpdate(f"property {name} must be above 0, found {found}", property=name)
        return found
