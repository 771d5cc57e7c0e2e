"""Where the new files of a table go, and what they are called, as Java Iceberg has it.

| property | effect |
|---|---|
| `write.data.path` | the folder of data files and delete files; by default `data` below the table |
| `write.folder-storage.path`, `write.object-storage.path` | older names of it, the second for the layout below alone |
| `write.object-storage.enabled` | folders that are made of a hash come first, to spread files over an object store |
| `write.object-storage.partitioned-paths` | whether, with these, folders of the partition follow; by default they do |

A class that Java would load for this (`write.location-provider.impl`) means nothing here: whoever reads a table takes
the paths from its manifests, wherever they lead.

>>> from floe.spec.types import Field, STRING
>>> from floe.spec.partitioning.building import build_spec
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
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from floe.errors import InvalidUpdate
from floe.spec.metadata.properties import boolean_property
from floe.spec.partitioning.murmur3 import hash_bytes
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.partitioning.paths import partition_path
from floe.spec.schemas.schema import Schema
from floe.storage.locations import parse

__all__ = ["FileNames", "Locations", "file_location"]

_DATA_PATH = "write.data.path"
_FOLDER_PATH = "write.folder-storage.path"
_OBJECT_PATH = "write.object-storage.path"
_OBJECT_STORAGE = "write.object-storage.enabled"
_PARTITIONED_PATHS = "write.object-storage.partitioned-paths"

_HASH_BITS = 20
_HASH_FOLDERS = ((0, 4), (4, 8), (8, 12), (12, _HASH_BITS))
"""The bits of the hash that each folder is named after: three of few, so that a listing can be shared out."""


@dataclass(frozen=True, slots=True)
class Locations:
    """The layout of a table's new files: its location, and the properties that speak of it."""

    table: str
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def hashed(self) -> bool:
        """Whether folders of a hash come first, as object stores like it."""
        return boolean_property(self.properties, _OBJECT_STORAGE, default=False)

    @property
    def partitioned(self) -> bool:
        """Whether there are folders of the partition."""
        return not self.hashed or boolean_property(self.properties, _PARTITIONED_PATHS, default=True)

    @property
    def data(self) -> str:
        """The folder of data files and delete files.

        >>> Locations("s3://b/t/").data, Locations("s3://b/t", {"write.data.path": "s3://c/d/"}).data
        ('s3://b/t/data', 's3://c/d')
        """
        names = (_DATA_PATH, _OBJECT_PATH, _FOLDER_PATH) if self.hashed else (_DATA_PATH, _FOLDER_PATH)
        chosen = next((name for name in names if name in self.properties), None)
        if chosen is None:
            return f"{_stripped(self.table)}/data"
        found = self.properties[chosen]
        if not found.strip():
            raise InvalidUpdate(
                f"property {chosen} is empty", hint="give the location of a folder, or remove it", property=chosen
            )
        return _stripped(found)

    def file(self, name: str, folders: str = "") -> str:
        """The location of a file, with the folders of its partition where the layout has them.

        >>> hashed = {"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": "false"}
        >>> Locations("s3://b/t", hashed).file("a.orc")
        's3://b/t/data/0111/0110/0100/01111111-a.orc'
        """
        path = f"{folders}/{name}" if folders and self.partitioned else name
        if not self.hashed:
            return f"{self.data}/{path}"
        data, entropy = self.data, _entropy(path)
        if not data.startswith(self.table):  # a folder of several tables: theirs are told apart by their names
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
    """The location of a file of a partition; for types of dropped columns, `earlier` schemas are looked through."""
    return locations.file(name, partition_path(spec, schema, partition, earlier))


def _stripped(location: str) -> str:
    return location if location.endswith("://") else location.rstrip("/")


def _entropy(path: str) -> str:
    """The folders that are made of a path's hash.

    >>> _entropy("a")
    '0101/0110/1001/10110010'
    """
    bits = f"{hash_bytes(path.encode()) & (2**_HASH_BITS - 1):0{_HASH_BITS}b}"
    return "/".join(bits[start:end] for start, end in _HASH_FOLDERS)


def _context(table: str) -> str:
    """The last two folders of a table's location, by which people know it: namespace and table.

    >>> _context("s3://b/wh/db/t/"), _context("s3://b/t")
    ('db/t', 't')
    """
    return "/".join([folder for folder in parse(table).path.split("/") if folder][-2:])


class FileNames:
    """The names of the files of one write: `00000-7-<uuid>-00001.parquet`, counted from 1.

    The first two numbers tell the parts of a write apart that several processes work on (in Spark: partition and task).
    May be used by several threads.

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
        """A name that no other file of the write has."""
        with self._lock:
            self._count += 1
            number = self._count
        ending = f"-{suffix}" if suffix else ""
        return f"{self.part:05d}-{self.task}-{self.write_id}-{number:05d}{ending}.{file_format}"


def _names(write_id: str, part: int, task: int, count: int) -> FileNames:
    """Names that go on where others, in another process, were."""
    names = FileNames(write_id, part=part, task=task)
    names._count = count
    return names
