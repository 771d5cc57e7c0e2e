"""One suite for all: every test here runs over each kind of catalog, and where it matters over each format version."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import floe
from floe import Lake, Table
from floe.storage.environment import Environment, ManualClock, deterministic_environment
from floe.storage.memory import MemoryStorage
from helpers.postgres import postgres_database

CATALOGS = [  # the quick two in every run, the others in the slow tier
    "memory",
    "sqlite",
    pytest.param("files", marks=pytest.mark.slow),
    pytest.param("postgres", marks=pytest.mark.slow),
]
COLUMNS = "id bigint not null, day date, amount decimal(9, 2), note string"

_numbers = itertools.count()


@pytest.fixture(scope="session")
def database() -> Iterator[str]:
    """A PostgreSQL database for all tests of a process; each test has a catalog of its own in it."""
    with postgres_database() as uri:
        yield uri


@pytest.fixture
def environment() -> Environment:
    """Time that only moves when it is asked for or told to, and ids that are the same in every run."""
    return deterministic_environment(7, start_ms=1_715_947_200_000)


@pytest.fixture
def clock(environment: Environment) -> ManualClock:
    assert isinstance(environment.clock, ManualClock)
    return environment.clock


@pytest.fixture(params=CATALOGS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def reconnect(
    kind: str, request: pytest.FixtureRequest, environment: Environment, tmp_path: Path
) -> Iterator[Callable[[], Lake]]:
    """Opens the same catalog again, as another program would."""
    opened: list[Lake] = []
    number = next(_numbers)
    files = MemoryStorage(clock=environment.clock)

    def connect() -> Lake:
        if kind == "memory":
            return opened[0] if opened else floe.connect("memory:", environment=environment)
        if kind == "files":
            return floe.connect(str(tmp_path / "wh"), durable=False, environment=environment)
        uri = f"sqlite:///{tmp_path}/lake.db" if kind == "sqlite" else request.getfixturevalue("database")
        return floe.connect(
            uri, name=f"lake{number}", warehouse=f"memory:wh{number}", storage=files, environment=environment
        )

    def open_one() -> Lake:
        opened.append(connect())
        return opened[-1]

    yield open_one
    for lake in opened:
        lake.close()


@pytest.fixture
def lake(reconnect: Callable[[], Lake]) -> Lake:
    """A lake with an empty namespace."""
    lake = reconnect()
    lake.create_namespace("db")
    return lake


@pytest.fixture(params=[1, 2, 3], ids="v{}".format)
def version(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture
def orders(lake: Lake, version: int) -> Table:
    """An empty table, partitioned by day."""
    return lake.create_table("db.orders", COLUMNS, partition_by=["day"], format_version=version)
