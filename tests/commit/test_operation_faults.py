"""Every storage call of every operation on files made to fail: nothing acknowledged is lost, nothing done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from floe.catalog.file_system.catalog import FileSystemCatalog
from floe.commit.change import BLIND, Change, Reads
from floe.commit.loop import commit
from floe.commit.operations.cherry_pick import PublishWap
from floe.commit.operations.create import TableDefinition
from floe.commit.operations.data_changes import (
    DeleteFiles,
    FastAppend,
    MergeAppend,
    Overwrite,
    ReplacePartitions,
    RowDelta,
)
from floe.commit.operations.rewrite import RewriteFiles, RewriteManifests
from floe.commit.pointer import Pointer
from floe.errors import CommitStateUnknown, FloeError
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.transform_terms import build_spec
from floe.sql.filters import parse_filter
from floe.storage.environment import deterministic_environment
from floe.storage.memory import MemoryStorage
from floe.storage.protocol import Storage
from floe.testing.faults import Fault, FaultyStorage, SimulatedCrash
from helpers.pointers import create, loaded
from helpers.snapshot_invariants import check_all
from helpers.tables import SCHEMA, Box, data_file, equality_deletes, vector

TRIED: Counter[str] = Counter()
FOLDER = "memory:warehouse/db/t/data"
A, B, C, N = (f"{FOLDER}/{name}" for name in "abcn")
PROPERTIES = {"commit.manifest.min-count-to-merge": "3", "commit.status-check.num-retries": "1"}


def reads(metadata: TableMetadata, *files: str) -> Reads:
    return Reads(metadata.current_snapshot_id, files=frozenset(files))


OPERATIONS: dict[str, Callable[[TableMetadata], Change]] = {
    "fast append": lambda m: FastAppend([data_file(N, 1)]),
    "append with merging": lambda m: MergeAppend([data_file(N, 1)]),
    "delete by filter": lambda m: DeleteFiles(where=parse_filter("day = 1")),
    "delete files": lambda m: DeleteFiles(paths=[A, C]),
    "overwrite": lambda m: Overwrite(removed=[data_file(A, 1)], added=[data_file(N, 1)], reads=reads(m, A)),
    "replace partitions": lambda m: ReplacePartitions([data_file(N, 1)]),
    "row delta": lambda m: RowDelta([vector(B, 2, puffin=f"{N}.puffin"), data_file(N, 2)], reads=reads(m)),
    "upsert": lambda m: RowDelta([equality_deletes(N, 1)], reads=BLIND),
    "rewrite files": lambda m: RewriteFiles(
        removed=[data_file(A, 1), data_file(C, 1)], added=[data_file(N, 1, rows=20)], reads=reads(m, A, C)
    ),
    "rewrite manifests": lambda m: RewriteManifests(),
    "publish": lambda m: PublishWap("w"),
}
QUICK = ("fast append",)


@pytest.fixture(scope="module", autouse=True)
def _numbers() -> Iterator[None]:
    yield
    print(f"\nstorage faults tried on operations: {dict(TRIED)}")  # noqa: T201 (the numbers tried)


@cache
def _filled() -> tuple[MemoryStorage, int]:
    """A v3 table of three files, one with a deletion vector, and a staged snapshot that main has gone past."""
    storage = MemoryStorage()
    catalog = FileSystemCatalog("memory:warehouse", storage=storage, environment=deterministic_environment())
    catalog.create_namespace(("db",))
    pointer = catalog.pointer(("db", "t"))
    spec = build_spec(SCHEMA, ["day"])
    create(pointer, TableDefinition(SCHEMA, spec, properties=PROPERTIES, format_version=3))
    commit(pointer, [FastAppend([data_file(A, 1), data_file(B, 2)])])
    commit(pointer, [FastAppend([data_file(f"{FOLDER}/w", 3)], staged=True, summary={"wap.id": "w"})])
    commit(pointer, [FastAppend([data_file(C, 1)])])
    head = loaded(pointer).metadata.current_snapshot_id
    commit(pointer, [RowDelta([vector(A, 1, puffin=f"{FOLDER}/v.puffin")], reads=Reads(head))])
    return storage, catalog.environment.clock.now_ms()


def opened(storage: Storage, seed: int) -> Pointer:
    """The table through a storage, as a new process opens it."""
    environment = deterministic_environment(seed, start_ms=_filled()[1] + 1_000_000 * seed)
    return FileSystemCatalog("memory:warehouse", storage=storage, environment=environment).pointer(("db", "t"))


def run(pointer: Pointer, change: Change) -> str:
    try:
        commit(pointer, [change])
    except CommitStateUnknown:
        return "unknown"
    except FloeError:
        return "failed"
    except SimulatedCrash:
        return "crashed"
    return "done"


def files_of(disk: MemoryStorage, seed: int) -> tuple[set[str], int]:
    """The live files of a table, and how many snapshots it has."""
    box = Box(loaded(opened(disk, seed)).metadata, disk)
    return set(box.live()), len(box.metadata.snapshots)


def check_sound(disk: MemoryStorage) -> None:
    """The table is as it must be, and every manifest of every snapshot is there."""
    box = Box(loaded(opened(disk, 6)).metadata, disk)
    check_all(box)
    for snapshot in box.metadata.snapshots:
        assert all(disk.exists(manifest.manifest_path) for manifest in box.manifests(snapshot))


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in OPERATIONS])
def test_every_storage_call(name: str) -> None:
    master, _ = _filled()

    def copy() -> MemoryStorage:
        disk = MemoryStorage()
        disk._files = dict(master._files)
        return disk

    start = loaded(opened(copy(), 1)).metadata
    before = files_of(copy(), 1)
    disk = copy()
    counting = FaultyStorage(disk)
    assert run(opened(counting, 2), OPERATIONS[name](start)) == "done"
    after = files_of(disk, 1)
    assert after != before
    for fault in Fault:
        for at in range(1, len(counting.calls) + 1):
            disk = copy()
            change = OPERATIONS[name](start)
            files = FaultyStorage(disk, fault, at=at)
            outcome = run(opened(files, 2), change)
            assert files.happened
            files.settle()
            expected = {"done": [after], "failed": [before]}.get(outcome, [before, after])
            assert files_of(disk, 3) in expected, f"{fault} at {at}: {outcome}"
            again = run(opened(disk, 4), change)
            assert files_of(disk, 5) == after, f"{fault} at {at}: {outcome}, then {again}"
            check_sound(disk)
            TRIED[name] += 1
