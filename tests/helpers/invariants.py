"""A second, naive reader of tables (JSON, fastavro, Parquet; nothing of Floe's own), and what must hold of every table.

`check_table` looks at every retained snapshot: its files are there, decode, and have the sizes and rows that are
recorded; its numbers go up; what is said of manifests and snapshots is what a recount gives. `described` tells a
table's state as values that do not depend on random ids, so that two runs can be compared.
"""

import gzip
import io
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import fastavro
import pyarrow.parquet
from pyroaring import BitMap64

Read = Callable[[str], bytes]

EXISTING, ADDED, DELETED = 0, 1, 2
DATA, POSITIONS, EQUALITY = 0, 1, 2
SECOND_MS = 60_000
_RANDOM = ("commit-id",)
_HOW = ("manifests-created", "manifests-kept", "manifests-replaced", "entries-processed")


# decoding: by content, so that a file that many runs share is read once -------------------------------------------


@lru_cache(maxsize=20_000)
def avro_rows(data: bytes) -> list[dict[str, Any]]:
    return list(fastavro.reader(io.BytesIO(data)))  # type: ignore[arg-type]


@lru_cache(maxsize=20_000)
def parquet_columns(data: bytes) -> dict[str, list[Any]]:
    return pyarrow.parquet.read_table(io.BytesIO(data)).to_pydict()


@lru_cache(maxsize=20_000)
def vector_positions(blob: bytes) -> frozenset[int]:
    """The positions of a deletion vector: length, magic, a 64-bit roaring bitmap, and a checksum."""
    assert blob[4:8] == bytes.fromhex("D1D33964")
    assert int.from_bytes(blob[:4], "big") == len(blob) - 8
    return frozenset(BitMap64.deserialize(blob[8:-4]))


@dataclass(frozen=True, eq=False)
class Entry:
    """A file of a snapshot, with the numbers that it inherits."""

    status: int
    snapshot_id: int
    sequence: int
    file: dict[str, Any]
    first_row_id: int | None

    @property
    def path(self) -> str:
        return self.file["file_path"]

    @property
    def content(self) -> int:
        return self.file.get("content") or DATA

    @property
    def is_live(self) -> bool:
        return self.status != DELETED

    @property
    def is_vector(self) -> bool:
        return self.file["file_format"].upper() == "PUFFIN"


class NaiveTable:
    """A table as its files tell it, from a metadata file on."""

    def __init__(self, read: Read, location: str) -> None:
        self.read_file = read
        self.location = location
        data = self.read(location, "the table's metadata")
        self.metadata: dict[str, Any] = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        self.version: int = self.metadata["format-version"]
        self.snapshots: list[dict[str, Any]] = self.metadata.get("snapshots") or []
        self._entries: dict[int, list[Entry]] = {}

    def read(self, location: str, why: str) -> bytes:
        try:
            return self.read_file(location)
        except Exception as error:
            raise AssertionError(f"{why} cannot be read: {location}: {error!r}") from error

    @cached_property
    def by_id(self) -> dict[int, dict[str, Any]]:
        return {snapshot["snapshot-id"]: snapshot for snapshot in self.snapshots}

    @property
    def refs(self) -> dict[str, dict[str, Any]]:
        return self.metadata.get("refs") or {}

    def sequence_of(self, snapshot: dict[str, Any]) -> int:
        return snapshot.get("sequence-number") or 0

    def chain(self, snapshot_id: int | None) -> Iterator[dict[str, Any]]:
        """A snapshot and those before it, as far as they are retained."""
        while snapshot_id in self.by_id:
            yield self.by_id[snapshot_id]
            snapshot_id = self.by_id[snapshot_id].get("parent-snapshot-id")

    def manifests(self, snapshot: dict[str, Any]) -> list[dict[str, Any]]:
        name = f"the manifest list of snapshot {snapshot['snapshot-id']}"
        return avro_rows(self.read(snapshot["manifest-list"], name))

    def entries(self, snapshot: dict[str, Any]) -> list[Entry]:
        own = snapshot["snapshot-id"]
        if own not in self._entries:
            found = [entry for manifest in self.manifests(snapshot) for entry in self.manifest_entries(manifest)]
            self._entries[own] = found
        return self._entries[own]

    def manifest_entries(self, manifest: dict[str, Any]) -> Iterator[Entry]:
        """The entries of a manifest; what an added one does not say, the manifest says."""
        data = self.read(manifest["manifest_path"], "a manifest")
        assert len(data) == manifest["manifest_length"], "a manifest has not the length that is recorded"
        next_row_id = manifest.get("first_row_id")
        for row in avro_rows(data):
            file = row["data_file"]
            sequence = row.get("sequence_number")
            if sequence is None:
                assert row["status"] == ADDED or "sequence_number" not in row  # in a manifest of version 1
                sequence = manifest.get("sequence_number") or 0
            added_by = row["snapshot_id"] if row["snapshot_id"] is not None else manifest["added_snapshot_id"]
            first = file.get("first_row_id")
            if first is None and next_row_id is not None and row["status"] != DELETED:
                first = next_row_id
                next_row_id += file["record_count"]
            yield Entry(row["status"], added_by, sequence, file, first)

    def live(self, snapshot: dict[str, Any]) -> list[Entry]:
        return [entry for entry in self.entries(snapshot) if entry.is_live]

    # rows -----------------------------------------------------------------------------------------------------

    def rows(self, snapshot: dict[str, Any]) -> Counter[int]:
        """The ids of a snapshot's rows, after all deletes."""
        live = self.live(snapshot)
        positions = self._deleted_positions(live)
        keys = [
            (entry.sequence, _partition(entry), set(self.columns(entry)["id"]))
            for entry in live
            if entry.content == EQUALITY
        ]
        found: Counter[int] = Counter()
        for entry in live:
            if entry.content != DATA:
                continue
            gone = {p for sequence, p in positions.get(entry.path, ()) if sequence >= entry.sequence}
            unwanted = [ids for s, partition, ids in keys if s > entry.sequence and partition == _partition(entry)]
            for position, row_id in enumerate(self.columns(entry)["id"]):
                if position not in gone and not any(row_id in ids for ids in unwanted):
                    found[row_id] += 1
        return found

    def columns(self, entry: Entry) -> dict[str, list[Any]]:
        return parquet_columns(self.read(entry.path, "a live file"))

    def _deleted_positions(self, live: Iterable[Entry]) -> dict[str, list[tuple[int, int]]]:
        found: dict[str, list[tuple[int, int]]] = {}
        for entry in live:
            if entry.content != POSITIONS:
                continue
            if entry.is_vector:
                target = found.setdefault(entry.file["referenced_data_file"], [])
                target += [(entry.sequence, position) for position in vector_positions(self._blob(entry))]
            else:
                columns = self.columns(entry)
                for path, position in zip(columns["file_path"], columns["pos"], strict=True):
                    found.setdefault(path, []).append((entry.sequence, position))
        return found

    def _blob(self, entry: Entry) -> bytes:
        data = self.read(entry.path, "a live deletion vector")
        start = entry.file["content_offset"]
        return data[start : start + entry.file["content_size_in_bytes"]]


def _partition(entry: Entry) -> tuple[Any, ...]:
    return tuple(entry.file["partition"].values())


# the checks -------------------------------------------------------------------------------------------------------


def check_table(read: Read, location: str, *, with_log: bool = True) -> NaiveTable:
    """Raises AssertionError unless everything holds of the table whose metadata is at a location.

    `with_log` asks for the files of the metadata log too.
    """
    table = NaiveTable(read, location)
    _check_chain(table)
    if with_log:
        for entry in table.metadata.get("metadata-log") or ():
            NaiveTable(read, entry["metadata-file"])
    for snapshot in table.snapshots:
        _check_snapshot(table, snapshot)
    for file in table.metadata.get("statistics") or ():
        assert len(table.read(file["statistics-path"], "statistics")) == file["file-size-in-bytes"]
    return table


def _check_chain(table: NaiveTable) -> None:
    """I2: ids once; numbers and times go up from parent to child; the table knows the highest; refs lead somewhere."""
    metadata, snapshots = table.metadata, table.snapshots
    assert len(table.by_id) == len(snapshots), "two snapshots have one id"
    keys = Counter(snapshot["summary"].get("commit-id") for snapshot in snapshots)
    assert all(count == 1 for key, count in keys.items() if key is not None), "a commit is doubled"
    if table.version > 1:
        numbers = [number for snapshot in snapshots if (number := table.sequence_of(snapshot))]  # 0: of version 1
        assert len(set(numbers)) == len(numbers), "two snapshots have one number"
        assert metadata["last-sequence-number"] >= max(numbers, default=0)
    for snapshot in snapshots:
        parent = table.by_id.get(snapshot.get("parent-snapshot-id"))
        if parent is not None:
            assert not table.sequence_of(snapshot) or table.sequence_of(snapshot) > table.sequence_of(parent)
            assert snapshot["timestamp-ms"] >= parent["timestamp-ms"] - SECOND_MS
    for name, ref in table.refs.items():
        assert ref["snapshot-id"] in table.by_id, f"{name} leads nowhere"
    current = metadata.get("current-snapshot-id")
    assert (None if current in (None, -1) else current) == table.refs.get("main", {}).get("snapshot-id")
    log = [entry["timestamp-ms"] for entry in metadata.get("snapshot-log") or ()]
    assert all(later >= earlier - SECOND_MS for earlier, later in itertools.pairwise(log))


def _check_snapshot(table: NaiveTable, snapshot: dict[str, Any]) -> None:
    for manifest in table.manifests(snapshot):
        _check_manifest(table, snapshot, manifest)
    live = table.live(snapshot)
    paths = Counter((entry.path, entry.file.get("content_offset")) for entry in live)
    assert max(paths.values(), default=1) == 1, f"I10: a file is live twice: {paths.most_common(1)}"
    for entry in live:
        _check_file(table, entry)
    _check_deletes(table, live)
    _check_row_ids(table, snapshot, live)
    _check_summary(table, snapshot)


def _check_file(table: NaiveTable, entry: Entry) -> None:
    """I6: the file is there, has its size, decodes, and has as many rows as is recorded."""
    data = table.read(entry.path, "a live file")
    assert len(data) == entry.file["file_size_in_bytes"], entry.path
    if entry.is_vector:
        assert len(vector_positions(table._blob(entry))) == entry.file["record_count"]
    else:
        columns = parquet_columns(data)
        assert len(next(iter(columns.values()))) == entry.file["record_count"], entry.path


def _check_manifest(table: NaiveTable, snapshot: dict[str, Any], manifest: dict[str, Any]) -> None:
    """I11: what a manifest list says of its manifests is true."""
    entries = list(table.manifest_entries(manifest))
    for status, word in ((ADDED, "added"), (EXISTING, "existing"), (DELETED, "deleted")):
        own = [entry for entry in entries if entry.status == status]
        said = manifest.get(f"{word}_files_count", manifest.get(f"{word}_data_files_count"))
        assert said in (None, len(own))
        assert manifest.get(f"{word}_rows_count") in (None, sum(entry.file["record_count"] for entry in own))
    assert len({entry.content == DATA for entry in entries}) <= 1, "data and deletes in one manifest"
    if table.version > 1:
        assert all((entry.content == DATA) == (manifest.get("content", 0) == 0) for entry in entries)
        live = [entry.sequence for entry in entries if entry.is_live]
        assert not live or manifest.get("min_sequence_number", 0) <= min(live)
        assert manifest.get("sequence_number", 0) <= table.sequence_of(snapshot)
    for place, summary in enumerate(manifest.get("partitions") or ()):
        values = [_partition(entry)[place] for entry in entries if entry.is_live]
        assert summary["contains_null"] or None not in values


def _check_deletes(table: NaiveTable, live: list[Entry]) -> None:
    """I7: one vector for a data file, which is there, not younger, and of the same partition."""
    data = {entry.path: entry for entry in live if entry.content == DATA}
    vectors = [entry for entry in live if entry.is_vector]
    targets = Counter(entry.file["referenced_data_file"] for entry in vectors)
    assert max(targets.values(), default=1) == 1, f"two vectors for one file: {targets.most_common(1)}"
    for entry in live:
        target = entry.file.get("referenced_data_file")
        if entry.content != POSITIONS or target is None:
            continue
        assert not entry.is_vector or target in data, f"{entry.path} is for {target}, which is gone"
        if target in data:
            assert _partition(entry) == _partition(data[target])
            assert entry.sequence >= data[target].sequence


def _check_row_ids(table: NaiveTable, snapshot: dict[str, Any], live: list[Entry]) -> None:
    """I9: in version 3 every row has an id of its own, below the table's next."""
    if table.version < 3 or snapshot.get("first-row-id") is None:
        return
    ranges = [(entry.first_row_id, entry.file["record_count"]) for entry in live if entry.content == DATA]
    assert all(first is not None for first, _ in ranges), "a file without row ids"
    end = 0
    for first, count in sorted(ranges):  # type: ignore[type-var]
        assert first is not None
        assert first >= end, "two rows have one id"
        end = first + count
    assert end <= table.metadata["next-row-id"]


def _check_summary(table: NaiveTable, snapshot: dict[str, Any]) -> None:
    """I18, I8: labels and totals are what a recount gives, and a replacement keeps the rows."""
    summary, live = snapshot["summary"], table.live(snapshot)
    own = [entry for entry in table.entries(snapshot) if entry.snapshot_id == snapshot["snapshot-id"]]
    added = Counter(entry.content for entry in own if entry.status == ADDED)
    removed = Counter(entry.content for entry in own if entry.status == DELETED)
    data = [entry for entry in live if entry.content == DATA]
    assert int(summary["total-data-files"]) == len(data)
    assert int(summary["total-records"]) == sum(entry.file["record_count"] for entry in data)
    assert int(summary["total-delete-files"]) == len(live) - len(data)
    for word, content in (("position", POSITIONS), ("equality", EQUALITY)):
        counted = sum(entry.file["record_count"] for entry in live if entry.content == content)
        assert int(summary[f"total-{word}-deletes"]) == counted
    assert int(summary.get("added-data-files", 0)) == added[DATA]
    assert int(summary.get("deleted-data-files", 0)) == removed[DATA]
    operation = summary["operation"]
    if operation == "append":
        assert not removed
        assert not added[POSITIONS] + added[EQUALITY]
    elif operation == "delete":
        assert not added[DATA]
    elif operation == "replace" and snapshot.get("parent-snapshot-id") in table.by_id:
        parent = table.by_id[snapshot["parent-snapshot-id"]]
        assert table.rows(parent) == table.rows(snapshot), "a replacement changed rows"


# comparing --------------------------------------------------------------------------------------------------------


def described(read: Read, location: str) -> dict[str, Any]:
    """A table's state as values that are the same however often and by which ids it was made."""
    table = NaiveTable(read, location)
    metadata = table.metadata
    return {
        "version": metadata["format-version"],
        "uuid": None,
        "location": metadata["location"],
        "columns": _current(metadata, "schemas", "schema-id", "current-schema-id")["fields"],
        "schemas": len(metadata["schemas"]),
        "spec": _current(metadata, "partition-specs", "spec-id", "default-spec-id")["fields"],
        "specs": len(metadata["partition-specs"]),
        "order": _current(metadata, "sort-orders", "order-id", "default-sort-order-id")["fields"],
        "properties": metadata.get("properties") or {},
        "next row": metadata.get("next-row-id"),
        "refs": {name: _described_ref(table, ref) for name, ref in table.refs.items()},
        "snapshots": [_described_snapshot(table, snapshot) for snapshot in table.snapshots],
        "statistics": [file["statistics-path"] for file in metadata.get("statistics") or ()],
        "history": len(metadata.get("snapshot-log") or ()),
    }


def _current(metadata: dict[str, Any], values: str, key: str, current: str) -> dict[str, Any]:
    return next(value for value in metadata[values] if value[key] == metadata[current])


def _described_ref(table: NaiveTable, ref: dict[str, Any]) -> dict[str, Any]:
    chain = list(table.chain(ref["snapshot-id"]))
    rest = {key: value for key, value in ref.items() if key != "snapshot-id"}
    return {**rest, "length": len(chain), "head": _described_snapshot(table, chain[0])}


def _described_snapshot(table: NaiveTable, snapshot: dict[str, Any]) -> tuple[Any, ...]:
    summary = {k: v for k, v in snapshot["summary"].items() if k not in _RANDOM and k not in _HOW}
    return (summary, sorted(entry.path for entry in table.live(snapshot)))
