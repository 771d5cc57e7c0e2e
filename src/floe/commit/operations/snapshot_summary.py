"""The summary of a new snapshot: what was added and removed, counted as Java Iceberg counts it.

Only what is not zero is told, beside the number of changed partitions. The properties that a caller gives stand
beside the counts and cannot take their place.

>>> from floe.spec.manifests.entries import FileContent
>>> counts = FileCounts()
>>> counts.added(DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100))
>>> counts.to_summary()
{'added-data-files': '1', 'added-records': '3', 'added-files-size': '100'}
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from floe.commit.change import COMMIT_ID
from floe.errors import InvalidInput, InvalidUpdate
from floe.spec.manifests.delete_scope import partition_key
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.metadata import snapshots
from floe.spec.metadata.snapshots import OPERATION
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.paths import partition_path
from floe.spec.properties import SUMMARY_PARTITION_LIMIT

_ADDED: Final = {
    "data": (snapshots.ADDED_DATA_FILES, snapshots.ADDED_RECORDS),
    "equality": (snapshots.ADDED_EQUALITY_DELETE_FILES, snapshots.ADDED_EQUALITY_DELETES),
    "position": (snapshots.ADDED_POSITION_DELETE_FILES, snapshots.ADDED_POSITION_DELETES),
    "vector": (snapshots.ADDED_DVS, snapshots.ADDED_POSITION_DELETES),
}
_REMOVED: Final = {
    "data": (snapshots.DELETED_DATA_FILES, snapshots.DELETED_RECORDS),
    "equality": (snapshots.REMOVED_EQUALITY_DELETE_FILES, snapshots.REMOVED_EQUALITY_DELETES),
    "position": (snapshots.REMOVED_POSITION_DELETE_FILES, snapshots.REMOVED_POSITION_DELETES),
    "vector": (snapshots.REMOVED_DVS, snapshots.REMOVED_POSITION_DELETES),
}
_ORDER: Final = (
    snapshots.ADDED_DATA_FILES,
    snapshots.DELETED_DATA_FILES,
    snapshots.ADDED_EQUALITY_DELETE_FILES,
    snapshots.REMOVED_EQUALITY_DELETE_FILES,
    snapshots.ADDED_POSITION_DELETE_FILES,
    snapshots.REMOVED_POSITION_DELETE_FILES,
    snapshots.ADDED_DELETE_FILES,
    snapshots.REMOVED_DELETE_FILES,
    snapshots.ADDED_DVS,
    snapshots.REMOVED_DVS,
    snapshots.ADDED_RECORDS,
    snapshots.DELETED_RECORDS,
    snapshots.ADDED_FILES_SIZE,
    snapshots.REMOVED_FILES_SIZE,
    snapshots.ADDED_POSITION_DELETES,
    snapshots.REMOVED_POSITION_DELETES,
    snapshots.ADDED_EQUALITY_DELETES,
    snapshots.REMOVED_EQUALITY_DELETES,
)
_COMPUTED: Final = frozenset(
    {
        *_ORDER,
        *snapshots.TOTALS,
        snapshots.CHANGED_PARTITION_COUNT,
        snapshots.DELETED_DUPLICATE_FILES,
        snapshots.MANIFESTS_CREATED,
        snapshots.MANIFESTS_KEPT,
        snapshots.MANIFESTS_REPLACED,
        snapshots.ENTRIES_PROCESSED,
        snapshots.PARTITION_SUMMARIES_INCLUDED,
        snapshots.REPLACE_PARTITIONS,
        snapshots.SOURCE_SNAPSHOT_ID,
        snapshots.PUBLISHED_WAP_ID,
        COMMIT_ID,
        OPERATION,
    }
)


def check_own_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that a caller wants in the summary, if they are text and none of them is computed.

    >>> check_own_properties({"added-records": "7"})
    Traceback (most recent call last):
    floe.errors.InvalidInput: added-records of a snapshot's summary is counted, and cannot be set
    """
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidInput(f"a snapshot's summary holds text, found {name!r:.80}: {value!r:.80}")
        if name in _COMPUTED or name.startswith(snapshots.CHANGED_PARTITION_PREFIX):
            raise InvalidInput(f"{name} of a snapshot's summary is counted, and cannot be set")
    return dict(properties)


_OF_NOW: Final[ContextVar[Mapping[str, str]]] = ContextVar("floe.commit-properties", default=MappingProxyType({}))
_followers: Final[dict[str, Callable[[Mapping[str, str]], None]]] = {}


@contextmanager
def commit_properties(properties: Mapping[str, str]) -> Iterator[None]:
    """Write properties into the summary of every snapshot that is made inside, by Python or by SQL of the same thread.

    What a call gives itself (`summary=`, the write option `snapshot-property.*`) takes the place of what is said here,
    and an inner block that of an outer one. A stream of Spark that is started inside has them to its end.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> with floe.commit_properties({"job": "nightly"}):
    ...     snapshot = lake.create_table("db.t", "id bigint").append([{"id": 1}])
    >>> snapshot.summary["job"]
    'nightly'
    """
    try:
        with engine_properties(properties):
            _tell()
            yield
    finally:
        _tell()


@contextmanager
def engine_properties(properties: Mapping[str, str]) -> Iterator[None]:
    """The same for an engine that is asked to commit by others: it knows what blocks say, and is not told it again."""
    token = _OF_NOW.set({**_OF_NOW.get(), **check_own_properties(properties)})
    try:
        yield
    finally:
        _OF_NOW.reset(token)


def follow_properties(engine: str, follower: Callable[[Mapping[str, str]], None]) -> None:
    """Have an engine told, in the thread of a block, what `commit_properties` says from then on, and what it says now.

    For engines that commit in threads of their own; of each, the last that asked is told.
    """
    _followers[engine] = follower
    follower(properties_of_now())


def _tell() -> None:
    for follower in list(_followers.values()):
        follower(properties_of_now())


def properties_of_now() -> Mapping[str, str]:
    """What blocks of `commit_properties` around the call say.

    >>> with commit_properties({"job": "nightly", "by": "me"}), commit_properties({"by": "you"}):
    ...     properties_of_now()
    {'job': 'nightly', 'by': 'you'}
    """
    return _OF_NOW.get()


def _kind(file: DataFile) -> str:
    if file.content == FileContent.DATA:
        return "data"
    if file.content == FileContent.EQUALITY_DELETES:
        return "equality"
    return "vector" if file.is_deletion_vector else "position"


@dataclass(slots=True)
class FileCounts:
    """How many files, rows and bytes of each kind were added and removed."""

    values: dict[str, int] = field(default_factory=dict)

    def added(self, file: DataFile) -> None:
        """A file was added."""
        self._count(file, _ADDED, snapshots.ADDED_DELETE_FILES, snapshots.ADDED_FILES_SIZE)

    def removed(self, file: DataFile) -> None:
        """A file was removed."""
        self._count(file, _REMOVED, snapshots.REMOVED_DELETE_FILES, snapshots.REMOVED_FILES_SIZE)

    def _count(self, file: DataFile, names: Mapping[str, tuple[str, str]], deletes: str, size: str) -> None:
        kind = _kind(file)
        of_files, of_rows = names[kind]
        values = self.values
        values[of_files] = values.get(of_files, 0) + 1
        values[of_rows] = values.get(of_rows, 0) + max(file.record_count, 0)
        if kind != "data":
            values[deletes] = values.get(deletes, 0) + 1
        # A Puffin file holds many deletion vectors; each counts for its own bytes.
        own = file.content_size_in_bytes if kind == "vector" else None
        values[size] = values.get(size, 0) + (file.file_size_in_bytes if own is None else own)

    def to_summary(self) -> dict[str, str]:
        """What is not zero, as the summary tells it."""
        return {name: str(self.values[name]) for name in _ORDER if self.values.get(name, 0) > 0}


class SummaryBuilder:
    """Gathers what a commit did into the summary of its snapshot."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self._all = FileCounts()
        self._partitions: dict[Hashable, tuple[DataFile, FileCounts]] = {}
        self._others: dict[str, str] = {}

    def add(self, files: Iterable[DataFile]) -> None:
        """These files were added."""
        for file in files:
            self._all.added(file)
            self._partition(file).added(file)

    def remove(self, files: Iterable[DataFile]) -> None:
        """These files were removed."""
        for file in files:
            self._all.removed(file)
            self._partition(file).removed(file)

    def set(self, name: str, value: int | str) -> None:
        """Another key of the summary."""
        self._others[name] = str(value)

    def _partition(self, file: DataFile) -> FileCounts:
        key = partition_key(file.spec_id, file.partition)
        found = self._partitions.get(key)
        if found is None:
            found = self._partitions[key] = file, FileCounts()
        return found[1]

    def _partition_summaries(self) -> dict[str, str]:
        """The number of changed partitions, and what was changed in each if they are no more than the limit."""
        by_path: dict[str, FileCounts] = {}
        for file, counts in self._partitions.values():
            together = by_path.setdefault(self._path(file), FileCounts())
            for name, value in counts.values.items():
                together.values[name] = together.values.get(name, 0) + value
        found = {snapshots.CHANGED_PARTITION_COUNT: str(len(by_path))}
        limit = SUMMARY_PARTITION_LIMIT.read(self._metadata.properties)
        if by_path and len(by_path) <= limit:
            found[snapshots.PARTITION_SUMMARIES_INCLUDED] = "true"
            for path, counts in by_path.items():
                if path:
                    text = ",".join(f"{name}={value}" for name, value in counts.to_summary().items())
                    found[snapshots.CHANGED_PARTITION_PREFIX + path] = text
        return found

    def _path(self, file: DataFile) -> str:
        metadata = self._metadata
        spec = metadata.specs_by_id.get(file.spec_id)
        if spec is None:
            raise InvalidUpdate(f"the table has no partition spec {file.spec_id}", file=file.file_path)
        return partition_path(spec, metadata.schema, file.partition, reversed(metadata.schemas))

    def build(self, operation: str, own: Mapping[str, str], head: Mapping[str, str] | None) -> dict[str, str]:
        """The summary of the snapshot; `head` is that of the snapshot it is built upon (None: there is none)."""
        found = {OPERATION: operation} | dict(own)
        found |= self._all.to_summary() | self._partition_summaries() | self._others
        snapshots.check_replace(found)
        return snapshots.with_totals(found, head)
