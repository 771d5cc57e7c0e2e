"""Every storage call of every change to a file-system table made to fail: reading, writing, publishing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from floe.catalog.file_system.catalog import FileSystemCatalog
from floe.commit.change import Change
from floe.commit.loop import commit
from floe.commit.operations.create import TableDefinition
from floe.commit.pointer import Pointer
from floe.errors import CommitStateUnknown, FloeError
from floe.spec.metadata.ancestry import ancestors
from floe.storage.environment import deterministic_environment
from floe.storage.memory import MemoryStorage
from floe.storage.protocol import Storage
from floe.testing.faults import Fault, FaultyStorage, SimulatedCrash
from helpers.change_samples import SAMPLES, Sample, fill
from helpers.pointers import SCHEMA, create, loaded
from helpers.small_snapshots import check_readable

TRIED: Counter[str] = Counter()
QUICK = ("append", "create tag", "expire")
FITTING = [sample for sample in SAMPLES if sample.name != "location"]  # these tables cannot be moved


@pytest.fixture(scope="module", autouse=True)
def _numbers() -> Iterator[None]:
    yield
    print(f"\nstorage faults tried on file-system tables: {dict(TRIED)}")  # noqa: T201 (the numbers tried)


@cache
def _filled() -> tuple[MemoryStorage, list[int], int]:
    storage = MemoryStorage()
    catalog = FileSystemCatalog("memory:warehouse", storage=storage, environment=deterministic_environment())
    catalog.create_namespace(("db",))
    pointer = catalog.pointer(("db", "t"))
    create(pointer, TableDefinition(SCHEMA))
    ids = fill(pointer)
    return storage, ids, catalog.environment.clock.now_ms()


def opened(storage: Storage, seed: int) -> Pointer:
    """The table through a storage, as a new process opens it."""
    environment = deterministic_environment(seed, start_ms=_filled()[2] + 1_000_000 * seed)
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


@pytest.mark.parametrize(
    "sample",
    [pytest.param(s, id=s.name, marks=[] if s.name in QUICK else [pytest.mark.slow]) for s in FITTING],
)
def test_every_storage_call(sample: Sample) -> None:
    master, ids, _ = _filled()
    count = None
    for fault in Fault:
        at = 0
        while count is None or at < count:
            at += 1
            disk = MemoryStorage()
            disk._files = dict(master._files)
            healthy = opened(disk, 1)
            change = sample.make(loaded(healthy), healthy)
            head = loaded(healthy).metadata.current_snapshot_id
            files = FaultyStorage(disk, fault if count is not None else None, at=at)
            outcome = run(opened(files, 2), change)
            if count is None:
                assert outcome == "done"
                count, at = len(files.calls), 0
                continue
            assert files.happened
            if outcome == "done":
                assert sample.shows(loaded(healthy).metadata, ids), f"{fault} at {at}: acknowledged, and not there"
            if outcome == "failed":
                assert not sample.shows(loaded(healthy).metadata, ids), f"{fault} at {at}: failed, and there"
            files.settle()
            check_readable(loaded(opened(disk, 3)).metadata, disk)
            again = run(opened(disk, 4), change)
            table = loaded(opened(disk, 5)).metadata
            assert sample.shows(table, ids), f"{fault} at {at}: {outcome}, then {again}"
            check_readable(table, disk)
            if sample.name != "replace":
                assert head in [snapshot.snapshot_id for snapshot in ancestors(table, table.current_snapshot_id)]
            keys = Counter((snapshot.summary or {}).get("commit-id") for snapshot in table.snapshots)
            assert max(keys.values()) == 1
            TRIED[sample.name] += 1
