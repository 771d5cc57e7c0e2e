"""Every storage call of writing rows made to fail: no row is committed by halves, and no file is left by what failed.

A write that is said to have failed has changed nothing and left nothing; one that was acknowledged is there, once; only
if nobody can know do its files stay.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import floe
from floe import Lake, Table, errors
from floe.storage.environment import deterministic_environment
from floe.storage.memory import MemoryStorage
from floe.storage.protocol import Storage
from floe.testing.faults import Fault, FaultyStorage
from helpers.run_totals import report_totals

FAULTS = (Fault.BEFORE, Fault.LOST_ANSWER, Fault.LOST_REQUEST)
ROWS = [{"id": n, "part": n % 3} for n in range(9)]


def append(table: Table) -> None:
    table.append([{"id": 100, "part": 0}, {"id": 101, "part": 7}])


def merge(table: Table) -> None:
    table.append([{"id": 100, "part": 0, "more": "x"}], merge_schema=True)


def overwrite_some(table: Table) -> None:
    table.overwrite([{"id": 4, "part": 9}], where="id >= 3 and id < 6")


def overwrite_partitions(table: Table) -> None:
    table.overwrite_partitions([{"id": 100, "part": 1}])


def in_transaction(table: Table) -> None:
    with table.transaction() as tx:
        tx.append([{"id": 100, "part": 0}])
        tx.append([{"id": 101, "part": 1}])


WRITES: dict[str, tuple[Callable[[Table], None], list[int]]] = {
    "append": (append, [*range(9), 100, 101]),
    "append with new columns": (merge, [*range(9), 100]),
    "overwrite of some rows": (overwrite_some, [0, 1, 2, 4, 6, 7, 8]),
    "overwrite of partitions": (overwrite_partitions, [0, 2, 3, 5, 6, 8, 100]),
    "transaction": (in_transaction, [*range(9), 100, 101]),
}


class World:
    """A lake whose files are in memory, and may fail; its catalog never does."""

    def __init__(self, folder: Path, version: int) -> None:
        self.files = MemoryStorage()
        self.uri = f"sqlite:///{folder}/lake.db"
        table = self.open(self.files).create_table(
            "db.t", "id bigint not null, part bigint", partition_by=["part"], format_version=version
        )
        table.append(ROWS)

    def open(self, storage: Storage) -> Lake:
        lake = floe.connect(self.uri, warehouse="memory:wh", storage=storage, environment=deterministic_environment(3))
        lake.create_namespace("db", if_not_exists=True)
        return lake

    def data(self) -> set[str]:
        return {info.location for info in self.files.list("memory:wh") if "/data/" in info.location}


def run(
    world: World, write: Callable[[Table], None], fault: Fault | None, at: int
) -> tuple[FaultyStorage, errors.FloeError | None]:
    storage = FaultyStorage(world.files)
    table = world.open(storage).table("db.t")
    storage.fault, storage.at, storage.calls, storage._matching = fault, at, [], 0
    try:
        write(table)
    except errors.FloeError as error:
        return storage, error
    return storage, None


@pytest.mark.parametrize("version", [pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("name", WRITES)
def test_every_call_fails_once(
    name: str, version: int, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> None:
    write, expected = WRITES[name]
    world = World(tmp_path_factory.mktemp("w"), version)
    calls = run(world, write, None, 0)[0].calls
    assert sorted(read_ids(world)) == expected
    tried = 0
    for at, call in enumerate(calls, 1):
        for fault in FAULTS:
            world = World(tmp_path_factory.mktemp("w"), version)
            before = world.data()
            storage, error = run(world, write, fault, at)
            storage.settle()
            tried += 1
            where = f"{fault.value} at call {at}, {call.operation} {call.location}: {error!r}"
            found = sorted(read_ids(world))
            if error is None:
                assert found == expected, where
            elif isinstance(error, errors.CommitStateUnknown):
                assert found in (expected, list(range(9))), where
            else:
                assert found == list(range(9)), where
                if call.operation != "delete_many":
                    assert world.data() == before, f"files are left: {where}"
    report_totals(request, storage_calls_that_failed_while_rows_were_written=tried)


def read_ids(world: World) -> list[Any]:
    ids: list[Any] = world.open(world.files).table("db.t").scan().to_arrow()["id"].to_pylist()
    return ids
