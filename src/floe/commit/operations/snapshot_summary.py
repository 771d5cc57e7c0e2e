"""The summary of a new snapshot: counts of added and removed files, as in Java Iceberg, and properties of the caller.

Only counts that are not zero are written, and the number of changed partitions. `commit_properties` adds properties to
all snapshots that are created in a `with` block. Properties cannot replace counts.

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
from floe.spec.partitioning.partition_paths import partition_path
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


def check_summary_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that a caller adds to the summary; raises `InvalidInput` if one is not text, or is computed.

    >>> check_summary_properties({"added-records": "7"})
    Traceback (most recent call last):
    floe.errors.InvalidInput: added-records of a snapshot's summary is counted, and cannot be set
    """
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidInput(f"a snapshot's summary holds text, found {name!r:.80}: {value!r:.80}")
        if name in _COMPUTED or name.startswith(snapshots.CHANGED_PARTITION_PREFIX):
            raise InvalidInput(f"{name} of a snapshot's summary is counted, and cannot be set")
    return dict(properties)


_ACTIVE: Final[ContextVar[Mapping[str, str]]] = ContextVar("floe.commit-properties", default=MappingProxyType({}))
_listeners: Final[dict[str, Callable[[Mapping[str, str]], None]]] = {}


@contextmanager
def commit_properties(properties: Mapping[str, str]) -> Iterator[None]:
    """Add properties to the summary of every snapshot that the block creates, by Python or by SQL of the same thread.

    The properties of a single call (`summary=`, the write option `snapshot-property.*`) take precedence, and those of
    an inner block over those of an outer one. A Spark stream that is started in the block keeps them until it ends.

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
            _notify_engines()
            yield
    finally:
        _notify_engines()


@contextmanager
def engine_properties(properties: Mapping[str, str]) -> Iterator[None]:
    """As `commit_properties`, for an engine that sets the properties itself: engines are not notified."""
    token = _ACTIVE.set({**_ACTIVE.get(), **check_summary_properties(properties)})
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def follow_properties(engine: str, listener: Callable[[Mapping[str, str]], None]) -> None:
    """Call a listener with the active properties, now and whenever a `commit_properties` block begins or ends.

    For engines that commit in other threads; the listener is called in the thread of the block. An engine has one
    listener, the last that was given.
    """
    _listeners[engine] = listener
    listener(active_properties())


def _notify_engines() -> None:
    for listener in list(_listeners.values()):
        listener(active_properties())


def active_properties() -> Mapping[str, str]:
    """The properties of the `commit_properties` blocks around the call.

    >>> with commit_properties({"job": "nightly", "by": "me"}), commit_properties({"by": "you"}):
    ...     active_properties()
    {'job': 'nightly', 'by': 'you'}
    """
    return _ACTIVE.get()


def _kind(file: DataFile) -> str:
    if file.content == FileContent.DATA:
        return "data"
    if file.content == FileContent.EQUALITY_DELETES:
        return "equality"
    return "vector" if file.is_deletion_vector else "position"


@dataclass(slots=True)
class FileCounts:
    """The numbers of files, rows and bytes of each kind that were added and removed."""

    values: dict[str, int] = field(default_factory=dict)

    def added(self, file: DataFile) -> None:
        """Count an added file."""
        self._count(file, _ADDED, snapshots.ADDED_DELETE_FILES, snapshots.ADDED_FILES_SIZE)

    def removed(self, file: DataFile) -> None:
        """Count a removed file."""
        self._count(file, _REMOVED, snapshots.REMOVED_DELETE_FILES, snapshots.REMOVED_FILES_SIZE)

    def _count(self, file: DataFile, names: Mapping[str, tuple[str, str]], deletes: str, size: str) -> None:
        kind = _kind(file)
        file_count, row_count = names[kind]
        values = self.values
        values[file_count] = values.get(file_count, 0) + 1
        values[row_count] = values.get(row_count, 0) + max(file.record_count, 0)
        if kind != "data":
            values[deletes] = values.get(deletes, 0) + 1
        # A Puffin file has many deletion vectors; each counts only its own bytes.
        vector_size = file.content_size_in_bytes if kind == "vector" else None
        values[size] = values.get(size, 0) + (file.file_size_in_bytes if vector_size is None else vector_size)

    def to_summary(self) -> dict[str, str]:
        """The counts that are not zero, as properties of a summary."""
        return {name: str(self.values[name]) for name in _ORDER if self.values.get(name, 0) > 0}


class SummaryBuilder:
    """Collects the counts of a commit, and builds the summary of its snapshot."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self._all = FileCounts()
        self._partitions: dict[Hashable, tuple[DataFile, FileCounts]] = {}
        self._properties: dict[str, str] = {}

    def add(self, files: Iterable[DataFile]) -> None:
        """Count added files."""
        for file in files:
            self._all.added(file)
            self._partition(file).added(file)

    def remove(self, files: Iterable[DataFile]) -> None:
        """Count removed files."""
        for file in files:
            self._all.removed(file)
            self._partition(file).removed(file)

    def set(self, name: str, value: int | str) -> None:
        """Set another property of the summary."""
        self._properties[name] = str(value)

    def _partition(self, file: DataFile) -> FileCounts:
        """The counts of a file's partition."""
        key = partition_key(file.spec_id, file.partition)
        entry = self._partitions.get(key)
        if entry is None:
            entry = self._partitions[key] = file, FileCounts()
        return entry[1]

    def _partition_summaries(self) -> dict[str, str]:
        """The number of changed partitions, and the counts of each if there are no more than the limit."""
        by_path: dict[str, FileCounts] = {}
        for file, counts in self._partitions.values():
            # partitions of several specs can have the same path
            total = by_path.setdefault(self._path(file), FileCounts())
            for name, value in counts.values.items():
                total.values[name] = total.values.get(name, 0) + value
        summaries = {snapshots.CHANGED_PARTITION_COUNT: str(len(by_path))}
        limit = SUMMARY_PARTITION_LIMIT.read(self._metadata.properties)
        if by_path and len(by_path) <= limit:
            summaries[snapshots.PARTITION_SUMMARIES_INCLUDED] = "true"
            for path, counts in by_path.items():
                if path:
                    text = ",".join(f"{name}={value}" for name, value in counts.to_summary().items())
                    summaries[snapshots.CHANGED_PARTITION_PREFIX + path] = text
        return summaries

    def _path(self, file: DataFile) -> str:
        metadata = self._metadata
        spec = metadata.specs_by_id.get(file.spec_id)
        if spec is None:
            raise InvalidUpdate(f"the table has no partition spec {file.spec_id}", file=file.file_path)
        return partition_path(spec, metadata.schema, file.partition, reversed(metadata.schemas))

    def build(self, operation: str, custom: Mapping[str, str], head: Mapping[str, str] | None) -> dict[str, str]:
        """The summary of the snapshot.

        `custom` are properties of the caller and the engine. `head` is the summary of the parent, to which the totals
        are added; None if there is no parent.
        """
        summary = {OPERATION: operation} | dict(custom)
        summary |= self._all.to_summary() | self._partition_summaries() | self._properties
        snapshots.check_replace(summary)
        return snapshots.with_totals(summary, head)
