"""Many processes that commit to one table, and are killed: every acknowledged version is in its history, once."""

import multiprocessing
import os
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

import pytest

from floe.catalog.sql.catalog import SqlCatalog, connect_sql
from floe.errors import CatalogUnavailable, CommitConflict
from floe.storage.local import LocalStorage
from helpers.sql_catalogs import DATABASES, TABLE, chain, change, create, database

PROCESSES = 8
VERSIONS = 4
KILLED = 8
ACKNOWLEDGED = 60

pytestmark = pytest.mark.slow


@pytest.fixture(params=DATABASES)
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with database(request.param, tmp_path) as uri:
        yield uri


@pytest.fixture
def catalog(uri: str, tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = opened(uri, tmp_path)
    create(catalog)
    yield catalog
    catalog.close()


@pytest.fixture
def context() -> ForkServerContext:
    """Processes that start from one that has imported what they need."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["helpers.sql_catalogs"])
    return context


def opened(uri: str, folder: Path) -> SqlCatalog:
    return connect_sql(uri, warehouse=str(folder / "warehouse"), storage=LocalStorage(durable=False))


def commit_versions(uri: str, folder: Path, count: int) -> list[str]:
    """Commits a number of versions, starting over when somebody else was faster; gives those that were acknowledged."""
    catalog = opened(uri, folder)
    acknowledged = []
    while len(acknowledged) < count:
        proposal = change(catalog.pointer(TABLE), writer=str(os.getpid()), number=str(len(acknowledged)))
        try:
            proposal.pointer.swap(proposal)
            acknowledged.append(proposal.location)
        except CommitConflict:
            proposal.pointer.discard(proposal)
    catalog.close()
    return acknowledged


def test_no_version_of_many_processes_is_lost(
    uri: str, catalog: SqlCatalog, context: ForkServerContext, tmp_path: Path
) -> None:
    start = catalog.pointer(TABLE).load()
    assert start is not None
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as processes:
        runs = [processes.submit(commit_versions, uri, tmp_path, VERSIONS) for _ in range(PROCESSES)]
        acknowledged = [location for run in runs for location in run.result()]
    assert len(set(acknowledged)) == PROCESSES * VERSIONS
    history = list(chain(catalog.pointer(TABLE)))
    assert sorted(history) == sorted([*acknowledged, start.location])
    # The files of those who lost are gone, and no others.
    assert {str(path) for path in (tmp_path / "warehouse").rglob("*.json")} == set(history)


def commit_for_ever(uri: str, folder: Path, told: Connection) -> None:
    """Commits versions, and tells each one that was acknowledged, until it is killed."""
    catalog = opened(uri, folder)
    number = 0
    while True:
        proposal = change(catalog.pointer(TABLE), writer=str(os.getpid()), number=str(number))
        try:
            proposal.pointer.swap(proposal)
        except (CommitConflict, CatalogUnavailable):
            continue
        told.send(proposal.location)
        number += 1


def test_killed_processes_lose_nothing(
    uri: str, catalog: SqlCatalog, context: ForkServerContext, tmp_path: Path
) -> None:
    chance = random.Random(4)
    running: dict[Connection, ForkServerProcess] = {}
    acknowledged: list[str] = []
    killed = 0

    def start() -> None:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=commit_for_ever, args=(uri, tmp_path, there), daemon=True)
        process.start()
        there.close()
        running[here] = process

    def drain(pipe: Connection) -> None:
        """Takes what a process told before it was killed; the last message may be cut off."""
        try:
            while True:
                acknowledged.append(pipe.recv())
        except (EOFError, OSError):
            pipe.close()

    for _ in range(4):
        start()
    while killed < KILLED or len(acknowledged) < ACKNOWLEDGED:
        for pipe in wait(list(running)):
            assert isinstance(pipe, Connection)
            acknowledged.append(pipe.recv())
            if chance.random() < 0.2 and killed < KILLED:
                victim = chance.choice(list(running))
                running[victim].kill()
                running.pop(victim).join()
                drain(victim)
                start()
                killed += 1
                break
    for pipe, process in list(running.items()):
        process.kill()
        process.join()
        drain(pipe)
    assert len(set(acknowledged)) == len(acknowledged)
    history = list(chain(catalog.pointer(TABLE)))
    assert len(set(history)) == len(history)
    assert set(acknowledged) <= set(history)
    # At most the last version of each process that ended was published without being told.
    assert len(history) - 1 - len(acknowledged) <= killed + len(running)
