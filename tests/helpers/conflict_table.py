"""A small table of real manifests whose rows are in the model, committed to by hand.

The table has two partitions: `A` and `B` in the first, `C` in the second, four rows each; the last of each is deleted
by position, the third of `A` and `C` by value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from floe.avro.manifest_lists import write_manifest_list
from floe.avro.manifest_writer import write_manifest
from floe.commit.change import Writes
from floe.commit.conflicts.concurrent_commits import SnapshotCache
from floe.spec.codecs.deletion_vectors import deletion_vector_blob, deserialize
from floe.spec.codecs.puffin import write_file
from floe.spec.codecs.single_value import encode
from floe.spec.manifests.entries import (
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    assign_first_row_ids,
    summarize_manifest,
)
from floe.spec.metadata.creation import new_table_metadata
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.snapshots import Snapshot, SnapshotRef
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import AddSnapshot, SetSnapshotRef, UpgradeFormatVersion
from floe.spec.partitioning.transform_terms import build_spec
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH, DELETE_POS
from floe.spec.schemas.schema import Schema
from floe.spec.types import INT, LONG, STRING, Field
from floe.storage.environment import deterministic_environment
from floe.storage.memory import MemoryStorage
from helpers.row_model import KINDS, Kind, Row, Rows

SCHEMA = Schema((Field(1, "key", INT, required=True), Field(2, "part", INT), Field(3, "value", STRING)))
ROOT = "memory:wh/t"
FILES = {"A": range(4), "B": range(4, 8), "C": range(8, 12)}
PARTS = {"A": 0, "B": 0, "C": 1}
ROWS = {id_: Row(id_, id_, PARTS[name], f"r{id_}") for name, ids in FILES.items() for id_ in ids}
OVERLAPS = {"same row": 0, "same file": 1, "same partition": 4, "disjoint": 8}
DELETED_BY_VALUE = {0: 2, 1: 10}
"""For each partition, the key that an equality delete has from the beginning."""

TABLES = ("v1", "v2", "v3", "v3 from v2")
"""Format versions; the last table was upgraded, and has its position deletes still in files for whole partitions."""

Place = tuple[str, int | None]


class Live(NamedTuple):
    """A file of the table."""

    file: DataFile
    number: int
    snapshot_id: int


def path_of(name: str) -> str:
    return f"{ROOT}/data/{name}.parquet"


def place(file: DataFile) -> Place:
    return file.file_path, file.content_offset


class Contents:
    """What is in the files, which nobody writes: rows, positions by data file, or keys."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.storage = storage
        self.rows: dict[str, tuple[Row, ...]] = {}
        self.positions: dict[str, Mapping[str, frozenset[int]]] = {}
        self.keys: dict[str, frozenset[int]] = {}

    def data(self, name: str, rows: Iterable[Row]) -> DataFile:
        """A data file."""
        held, path = tuple(rows), path_of(name)
        self.rows[path] = held
        keys = [row.key for row in held]
        (part,) = {row.part for row in held}
        return DataFile(
            FileContent.DATA, path, "parquet", (part,), len(held), 1000, **_metrics(keys, [row.part for row in held])
        )

    def position_deletes(
        self, name: str, part: int, positions: Mapping[str, Iterable[int]], *, named: bool
    ) -> DataFile:
        """A position delete file; if it is for one data file alone, its bounds may say so."""
        path = path_of(name)
        self.positions[path] = {target: frozenset(some) for target, some in positions.items()}
        count = sum(map(len, self.positions[path].values()))
        bounds = {}
        if named:
            ((target, some),) = self.positions[path].items()
            bounds = {
                "lower_bounds": {DELETE_FILE_PATH.id: target.encode(), DELETE_POS.id: encode(LONG, min(some))},
                "upper_bounds": {DELETE_FILE_PATH.id: target.encode(), DELETE_POS.id: encode(LONG, max(some))},
            }
        return DataFile(FileContent.POSITION_DELETES, path, "parquet", (part,), count, 100, **bounds)

    def vectors(self, name: str, positions: Mapping[str, Iterable[int]]) -> list[DataFile]:
        """Deletion vectors in a Puffin file that is really there."""
        path = f"{ROOT}/data/{name}.puffin"
        written = write_file([deletion_vector_blob(sorted(some), target) for target, some in positions.items()])
        self.storage.write(path, written.data, overwrite=True)
        return [
            DataFile(
                FileContent.POSITION_DELETES,
                path,
                "puffin",
                (PARTS[target.removeprefix(f"{ROOT}/data/")[0]],),
                int(blob.properties["cardinality"]),
                len(written.data),
                referenced_data_file=target,
                content_offset=blob.offset,
                content_size_in_bytes=blob.length,
            )
            for target, blob in zip(positions, written.payload.blobs, strict=True)
        ]

    def equality_deletes(self, name: str, part: int, keys: Iterable[int]) -> DataFile:
        """An equality delete file on `key`, for a partition."""
        path, held = path_of(name), sorted(keys)
        self.keys[path] = frozenset(held)
        return DataFile(
            FileContent.EQUALITY_DELETES,
            path,
            "parquet",
            (part,),
            len(held),
            100,
            equality_ids=(1,),
            **_metrics(held, [part] * len(held)),
        )

    def deleted_positions(self, delete: DataFile, path: str) -> frozenset[int]:
        """The rows of a data file that position deletes delete."""
        if not delete.is_deletion_vector:
            return self.positions[delete.file_path].get(path, frozenset())
        if delete.referenced_data_file != path:
            return frozenset()
        assert delete.content_offset is not None
        assert delete.content_size_in_bytes is not None
        data = self.storage.read_range(delete.file_path, delete.content_offset, delete.content_size_in_bytes)
        return frozenset(deserialize(data))


def _metrics(keys: list[int], parts: list[int]) -> dict[str, dict[int, object]]:
    return {
        "value_counts": {1: len(keys), 2: len(parts)},
        "null_value_counts": {1: 0, 2: 0},
        "lower_bounds": {1: encode(INT, min(keys)), 2: encode(INT, min(parts))},
        "upper_bounds": {1: encode(INT, max(keys)), 2: encode(INT, max(parts))},
    }


# the table as a reader sees it ------------------------------------------------------------------------------------


class Broken(Exception):
    """A table that no reader can make sense of."""


def scan(files: Iterable[Live], contents: Contents) -> Rows:
    """The rows that a reader finds (spec: Scan Planning), by the model's own few lines."""
    held = list(files)
    deletes = [one for one in held if not one.file.is_data]
    found: list[Row] = []
    for data in (one for one in held if one.file.is_data):
        path, vectors = data.file.file_path, []
        positions: set[int] = set()
        keys: set[int] = set()
        for delete in deletes:
            if delete.file.is_equality_delete_file:
                if data.number < delete.number and data.file.partition == delete.file.partition:
                    keys |= contents.keys[delete.file.file_path]
            elif data.number <= delete.number:
                some = contents.deleted_positions(delete.file, path)
                if delete.file.is_deletion_vector and delete.file.referenced_data_file == path:
                    vectors.append(some)
                positions |= some
        if len(vectors) > 1:
            raise Broken(f"two deletion vectors for {path}")
        if vectors:
            positions = set(vectors[0])
        rows = contents.rows[path]
        found += [row for at, row in enumerate(rows) if at not in positions and row.key not in keys]
    paths = {one.file.file_path for one in held if one.file.is_data}
    for delete in deletes:
        if delete.file.is_deletion_vector and delete.file.referenced_data_file not in paths:
            raise Broken(f"a deletion vector for {delete.file.referenced_data_file}, which is not there")
    twice = len(found) != len({row.id for row in found})
    return {(row.id if not twice else 10_000 + n): row for n, row in enumerate(found)}


@dataclass
class State:
    """The table after some commits."""

    metadata: TableMetadata
    files: dict[Place, Live]
    cache: SnapshotCache = field(default_factory=SnapshotCache)

    @property
    def head(self) -> int:
        assert self.metadata.current_snapshot_id is not None
        return self.metadata.current_snapshot_id


class TableBench:
    """One of `TABLES`, and commits to it as a simple-minded engine makes them."""

    def __init__(self, table: str = "v2") -> None:
        self.table = table
        self.version = int(table[1])
        self.storage = MemoryStorage()
        self.contents = Contents(self.storage)
        self.environment = deterministic_environment()
        self._lists = 0
        self.start = self._start()

    def _start(self) -> State:
        spec = build_spec(SCHEMA, ["part"])
        first = 2 if self.table == "v3 from v2" else self.version
        metadata = new_table_metadata(
            SCHEMA, spec, location=ROOT, uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1", now_ms=1, format_version=first
        )
        data = tuple(self.contents.data(name, [ROWS[id_] for id_ in ids]) for name, ids in FILES.items())
        state = self.commit(State(metadata, {}), Writes(added=data), "append")
        if self.version > 1:
            state = self.commit(state, Writes(added=tuple(self._first_deletes())), "delete")
        if first != self.version:
            upgraded = apply(state.metadata, [UpgradeFormatVersion(self.version)], now_ms=10_000)
            state = State(upgraded, state.files)
        return state

    def _first_deletes(self) -> list[DataFile]:
        make = self.contents
        found = [make.equality_deletes(f"E{part}", part, [key]) for part, key in DELETED_BY_VALUE.items()]
        if self.table == "v3":
            return [*found, *make.vectors("first", {path_of(name): [3] for name in FILES})]
        by_part = {part: {path_of(name): [3] for name in FILES if PARTS[name] == part} for part in (0, 1)}
        return [*found, *(make.position_deletes(f"P{part}", part, some, named=False) for part, some in by_part.items())]

    @cached_property
    def rows(self) -> Rows:
        """The rows at the start."""
        return scan(self.start.files.values(), self.contents)

    def kinds(self) -> list[Kind]:
        """The kinds of operations that such a table can have."""
        return [kind for kind in KINDS.values() if self.version in kind.versions]

    # commits by hand ----------------------------------------------------------------------------------------------

    def commit(self, state: State, writes: Writes, label: str | None, *, clears: int | None = None) -> State:
        """The table after a commit, written as a simple-minded engine would: all entries in one manifest."""
        metadata = state.metadata
        number = metadata.next_sequence_number
        snapshot_id = 7_000 + len(metadata.snapshots)
        after, gone, _ = self.applied(state.files, writes, snapshot_id, number, clears=clears)
        listed = []
        for content in ManifestContent:
            entries = [
                *(_entry(one, EntryStatus.DELETED, snapshot_id) for one in gone),
                *(_added(one, number) if one.snapshot_id == snapshot_id else _entry(one) for one in after.values()),
            ]
            chosen = [e for e in entries if e.data_file.is_data == (content is ManifestContent.DATA)]
            for spec_id in sorted({entry.data_file.spec_id for entry in chosen}):
                of_spec = [entry for entry in chosen if entry.data_file.spec_id == spec_id]
                listed.append(self._manifest(metadata, of_spec, content, snapshot_id, number))
        added_rows = None
        if metadata.next_row_id is not None:
            manifests, next_row_id = assign_first_row_ids(listed, metadata.next_row_id)
            listed, added_rows = list(manifests), next_row_id - metadata.next_row_id
        path = f"{ROOT}/metadata/snap-{self._next()}.avro"
        self.storage.write(
            path,
            write_manifest_list(
                listed,
                format_version=metadata.format_version,
                snapshot_id=snapshot_id,
                parent_snapshot_id=metadata.current_snapshot_id,
                sequence_number=number,
                first_row_id=metadata.next_row_id,
            ),
        )
        snapshot = Snapshot(
            sequence_number=number,
            snapshot_id=snapshot_id,
            parent_snapshot_id=metadata.current_snapshot_id,
            timestamp_ms=1_000 + snapshot_id,
            summary=None if label is None else {"operation": label},
            manifest_list=path,
            schema_id=0,
            first_row_id=metadata.next_row_id,
            added_rows=added_rows,
        )
        updates = [AddSnapshot(snapshot), SetSnapshotRef("main", SnapshotRef(snapshot_id=snapshot_id, type="branch"))]
        return State(apply(metadata, updates, now_ms=1_000 + snapshot_id), after)

    def _manifest(
        self,
        metadata: TableMetadata,
        entries: list[ManifestEntry],
        content: ManifestContent,
        snapshot_id: int,
        number: int,
    ) -> ManifestFile:
        path = f"{ROOT}/metadata/m{self._next()}.avro"
        version, spec = metadata.format_version, metadata.spec_by_id(entries[0].data_file.spec_id)
        data = write_manifest(entries, SCHEMA, spec, format_version=version, content=content)
        self.storage.write(path, data)
        summary = summarize_manifest(entries, spec.partition_type(SCHEMA))
        return summary.manifest_file(
            path, len(data), spec_id=spec.spec_id, content=content, snapshot_id=snapshot_id, sequence_number=number
        )

    def _next(self) -> int:
        self._lists += 1
        return self._lists

    def applied(
        self,
        files: Mapping[Place, Live],
        writes: Writes,
        snapshot_id: int,
        number: int,
        *,
        clears: int | None = None,
    ) -> tuple[dict[Place, Live], list[Live], list[Place]]:
        """The files after a change, those that went, and those that were to go and were not there."""
        wanted = [place(file) for file in writes.removed]
        missing = [one for one in wanted if one not in files]
        going = {one for one in wanted if one in files}
        going |= {at for at, one in files.items() if one.file.partition == (clears,)}
        paths = {at[0] for at in going if files[at].file.is_data}
        going |= {
            at for at, one in files.items() if one.file.is_deletion_vector and one.file.referenced_data_file in paths
        }
        after = {at: one for at, one in files.items() if at not in going}
        for file in writes.added:
            own = writes.data_sequence_number if file.is_data else None
            after[place(file)] = Live(file, number if own is None else own, snapshot_id)
        return after, [files[at] for at in going], missing


def _added(one: Live, number: int) -> ManifestEntry:
    return ManifestEntry(
        EntryStatus.ADDED, one.snapshot_id, None if one.number == number else one.number, None, one.file
    )


def _entry(one: Live, status: EntryStatus = EntryStatus.EXISTING, snapshot_id: int | None = None) -> ManifestEntry:
    return ManifestEntry(status, snapshot_id or one.snapshot_id, one.number, one.number, one.file)
