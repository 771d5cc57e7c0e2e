"""Connections lost at every statement of every operation: what is told is what happened, and nothing happens twice.

Each operation runs once to count its statements, then once for each statement and each way to lose the connection:
before the statement is sent, after it was done, or because the server ended the session.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from floe.catalog.sql.catalog import SqlCatalog
from floe.catalog.sql.database import Database, PostgresUri, parse_sql_uri
from floe.catalog.sql.postgres import PostgresDatabase
from floe.catalog.sql.sqlite import SqliteDatabase
from floe.commit.pointer import Outcome, Proposal
from floe.errors import CatalogUnavailable, CommitStateUnknown, FloeError, OutcomeUnknown
from floe.storage.local import LocalStorage
from helpers.sql_catalogs import chain, change, commit, create, database, properties_of, proposal_to_create, sql, view

WAYS = {"sqlite": ["before", "after"], "postgresql": ["before", "after", "terminated"]}


class Losses:
    """Counts the statements sent over all connections, and loses the connection at one of them, once."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.at: int | None = None
        self.way = ""

    def arm(self, at: int, way: str) -> None:
        self.statements, self.at, self.way = [], at, way

    def disarm(self) -> list[str]:
        self.at = None
        seen, self.statements = self.statements, []
        return seen

    def strikes(self, statement: str) -> bool:
        self.statements.append(statement)
        return len(self.statements) == self.at


class LosingPostgres:
    """A psycopg connection that is lost when told."""

    def __init__(self, losses: Losses, **parameters: Any) -> None:
        self._losses = losses
        self._parameters = parameters
        self._real = psycopg.connect(**parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, statement: str, values: Any = None) -> Any:
        if not self._losses.strikes(statement):
            return self._real.execute(statement, values)
        if self._losses.way == "terminated":
            with psycopg.connect(**self._parameters) as other:
                other.execute("SELECT pg_terminate_backend(%s)", [self._real.info.backend_pid])
            return self._real.execute(statement, values)
        if self._losses.way == "after":
            self._real.execute(statement, values)
        self._real.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")


def losing_sqlite(losses: Losses) -> Callable[[str, float], sqlite3.Connection]:
    class Losing(sqlite3.Connection):
        """A SQLite connection whose disk fails when told."""

        def execute(self, statement: str, values: Any = ()) -> sqlite3.Cursor:
            if not losses.strikes(statement):
                return super().execute(statement, values)
            if losses.way == "after":
                super().execute(statement, values).fetchall()
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error

    return lambda path, timeout: sqlite3.connect(
        path, timeout=timeout, isolation_level=None, check_same_thread=False, factory=Losing
    )


@dataclass
class Rig:
    """A catalog whose connections get lost, one beside it that sees the truth, and names that nobody used yet."""

    kind: str
    uri: str
    warehouse: str
    losses: Losses
    catalog: SqlCatalog
    truth: SqlCatalog
    number: int = 0

    def namespace(self) -> tuple[str, ...]:
        self.number += 1
        return (f"ns{self.number}",)


@pytest.fixture(params=sorted(WAYS))
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    with database(request.param, tmp_path) as uri:
        losses, warehouse, storage = Losses(), str(tmp_path / "warehouse"), LocalStorage(durable=False)
        catalog = SqlCatalog(losing_database(uri, losses), warehouse=warehouse, storage=storage)
        truth = SqlCatalog(losing_database(uri, Losses()), warehouse=warehouse, storage=storage)
        yield Rig(request.param, uri, warehouse, losses, catalog, truth)
        catalog.close()
        truth.close()


def losing_database(uri: str, losses: Losses) -> Database:
    parsed = parse_sql_uri(uri)
    if isinstance(parsed, PostgresUri):
        return PostgresDatabase(parsed.parameters, connect=lambda **parameters: LosingPostgres(losses, **parameters))
    return SqliteDatabase(parsed.path, connect=losing_sqlite(losses))


# swaps: the pointer's three calls -----------------------------------------------------------------------------------

Swap = Callable[[Rig], tuple[list[Proposal], Callable[[], bool]]]


def an_update(rig: Rig) -> tuple[list[Proposal], Callable[[], bool]]:
    identifier = (*rig.namespace(), "t")
    create(rig.truth, identifier)
    proposal = change(rig.catalog.pointer(identifier), colour="red")
    return [proposal], lambda: properties_of(rig.truth, identifier).get("colour") == "red"


def a_creation(rig: Rig) -> tuple[list[Proposal], Callable[[], bool]]:
    identifier = (*rig.namespace(), "t")
    rig.truth.create_namespace(identifier[:-1])
    return [proposal_to_create(rig.catalog, identifier)], lambda: rig.truth.table_exists(identifier)


def several(rig: Rig) -> tuple[list[Proposal], Callable[[], bool]]:
    namespace = rig.namespace()
    names = [(*namespace, name) for name in "cab"]
    for identifier in names[:2]:
        create(rig.truth, identifier)
    changes = [change(rig.catalog.pointer(identifier), colour="red") for identifier in names[:2]]

    def happened() -> bool:
        made = rig.truth.table_exists(names[2])
        red = [properties_of(rig.truth, identifier).get("colour") == "red" for identifier in names[:2]]
        assert red == [made, made], "published in part"
        return made

    return [*changes, proposal_to_create(rig.catalog, names[2])], happened


def swapped(rig: Rig, proposals: list[Proposal]) -> str:
    """What the swap said, and then settling if it did not know."""
    try:
        if len(proposals) == 1:
            proposals[0].pointer.swap(proposals[0])
        else:
            rig.catalog.shared.swap_all(proposals)
        return "published"
    except OutcomeUnknown:
        if len(proposals) == 1:
            return proposals[0].pointer.settle(proposals[0]).value
        return rig.catalog.shared.settle_all(proposals).value
    except FloeError:
        return "absent"


@pytest.mark.parametrize("swap", [an_update, a_creation, several])
@pytest.mark.parametrize("others_go_on", [False, True], ids=["alone", "others go on"])
def test_a_swap_tells_what_happened(rig: Rig, swap: Swap, others_go_on: bool) -> None:
    proposals, happened = swap(rig)
    rig.losses.arm(0, "")
    assert swapped(rig, proposals) == "published"
    statements = rig.losses.disarm()
    assert statements[-1] == "COMMIT"
    told = []
    for way in WAYS[rig.kind]:
        for at in range(1, len(statements) + 1):
            proposals, happened = swap(rig)
            rig.losses.arm(at, way)
            answer = (settled_after_others_went_on if others_go_on else swapped)(rig, proposals)
            rig.losses.disarm()
            assert answer == ("published" if happened() else "absent"), f"{way} {statements[at - 1]}"
            told.append(answer)
            if answer == "published":
                for proposal in proposals:
                    history = list(chain(rig.truth.pointer(proposal.pointer.identifier)))  # type: ignore[attr-defined]
                    assert history.count(proposal.location) == 1
    assert {"published", "absent"} <= set(told)


def settled_after_others_went_on(rig: Rig, proposals: list[Proposal]) -> str:
    """As `swapped`, but somebody commits three times before it is settled."""
    try:
        rig.catalog.shared.swap_all(proposals)
        return "published"
    except OutcomeUnknown:
        for proposal in proposals:
            pointer = rig.truth.pointer(proposal.pointer.identifier)  # type: ignore[attr-defined]
            if pointer.load() is not None:
                for number in range(3):
                    commit(pointer, other=str(number))
        return rig.catalog.shared.settle_all(proposals).value
    except FloeError:
        return "absent"


# everything else: one call that returns or raises ------------------------------------------------------------------

Act = Callable[[Rig], tuple[Callable[[], None], Callable[[], bool]]]


def dropping(rig: Rig) -> tuple[Callable[[], None], Callable[[], bool]]:
    identifier = (*rig.namespace(), "t")
    create(rig.truth, identifier)
    return lambda: rig.catalog.drop_table(identifier), lambda: not rig.truth.table_exists(identifier)


def purging(rig: Rig) -> tuple[Callable[[], None], Callable[[], bool]]:
    identifier = (*rig.namespace(), "t")
    pointer = create(rig.truth, identifier)
    state = pointer.load()
    assert state is not None

    def happened() -> bool:
        gone = not rig.truth.table_exists(identifier)
        assert gone != Path(state.location).exists()
        return gone

    return lambda: rig.catalog.drop_table(identifier, purge=True), happened


def renaming(rig: Rig) -> tuple[Callable[[], None], Callable[[], bool]]:
    old, new = (*rig.namespace(), "t"), (*rig.namespace(), "u")
    create(rig.truth, old)
    rig.truth.create_namespace(new[:-1])

    def happened() -> bool:
        found = rig.truth.table_exists(old), rig.truth.table_exists(new)
        assert found in ((True, False), (False, True))
        return found[1]

    return lambda: rig.catalog.rename_table(old, new), happened


def registering(rig: Rig) -> tuple[Callable[[], None], Callable[[], bool]]:
    namespace = rig.namespace()
    state = create(rig.truth, (*namespace, "t")).load()
    assert state is not None
    new = (*namespace, "u")
    return lambda: rig.catalog.register_table(new, state.location), lambda: rig.truth.table_exists(new)


def making_a_namespace(rig: Rig) -> tuple[Callable[[], None], Callable[[], bool]]:
    namespace = (*rig.namespace(), "below")
    properties = {"a": "1", "b": "2"}

    def happened() -> bool:
        there = rig.truth.namespace_exists(namespace)
        assert not there or rig.truth.namespace_properties(namespace) == properties
        return there

    return lambda: rig.catalog.create_namespace(namespace, properties), happened


def dropping_a_namespace(rig: Rig) -> tuple[Callable[[], None], Callable[[], bool]]:
    namespace = rig.namespace()
    rig.truth.create_namespace(namespace, {"a": "1"})
    return lambda: rig.catalog.drop_namespace(namespace), lambda: not rig.truth.namespace_exists(namespace)


def changing_a_namespace(rig: Rig) -> tuple[Callable[[], None], Callable[[], bool]]:
    namespace = rig.namespace()
    rig.truth.create_namespace(namespace, {"a": "1", "b": "2"})

    def happened() -> bool:
        found = rig.truth.namespace_properties(namespace)
        assert found in ({"a": "1", "b": "2"}, {"a": "3", "c": "4"})
        return "c" in found

    return lambda: rig.catalog.update_namespace(namespace, {"a": "3", "c": "4"}, ["b"]), happened


def making_a_view(rig: Rig) -> tuple[Callable[[], None], Callable[[], bool]]:
    identifier = (*rig.namespace(), "v")
    rig.truth.create_namespace(identifier[:-1])
    metadata = view(f"{rig.warehouse}/{identifier[0]}/v")

    def happened() -> bool:
        there = rig.truth.view_exists(identifier)
        assert not there or rig.truth.load_view(identifier) == metadata
        return there

    return lambda: rig.catalog.create_view(identifier, metadata), happened


def replacing_a_view(rig: Rig) -> tuple[Callable[[], None], Callable[[], bool]]:
    identifier = (*rig.namespace(), "v")
    rig.truth.create_namespace(identifier[:-1])
    location = f"{rig.warehouse}/{identifier[0]}/v"
    old, new = view(location), view(location, "SELECT 2 AS id", version_id=2)
    rig.truth.create_view(identifier, old)

    def happened() -> bool:
        found = rig.truth.load_view(identifier)
        assert found in (old, new)
        return found == new

    return lambda: rig.catalog.replace_view(identifier, old, new), happened


def dropping_a_view(rig: Rig) -> tuple[Callable[[], None], Callable[[], bool]]:
    identifier = (*rig.namespace(), "v")
    rig.truth.create_namespace(identifier[:-1])
    rig.truth.create_view(identifier, view(f"{rig.warehouse}/{identifier[0]}/v"))
    return lambda: rig.catalog.drop_view(identifier), lambda: not rig.truth.view_exists(identifier)


ACTS = [
    dropping,
    purging,
    renaming,
    registering,
    making_a_namespace,
    dropping_a_namespace,
    changing_a_namespace,
    making_a_view,
    replacing_a_view,
    dropping_a_view,
]


@pytest.mark.parametrize("act", ACTS)
def test_a_call_that_returns_did_it_and_one_that_raises_did_not(rig: Rig, act: Act) -> None:
    call, happened = act(rig)
    rig.losses.arm(0, "")
    call()
    statements = rig.losses.disarm()
    assert happened()
    told = set()
    for way in WAYS[rig.kind]:
        for at in range(1, len(statements) + 1):
            call, happened = act(rig)
            rig.losses.arm(at, way)
            try:
                call()
                did = True
            except CommitStateUnknown:
                pytest.fail(f"{way} {statements[at - 1]}: nobody else was there, so it can be known")
            except FloeError:
                did = False
            finally:
                rig.losses.disarm()
            assert happened() == did, f"{way} {statements[at - 1]}"
            told.add(did)
    assert told == {True, False}
    # no file of a view that was not made or was replaced in vain stays behind
    if act is making_a_view:
        files = list(Path(rig.warehouse).rglob("*.metadata.json"))
        assert len(files) == sql(rig.uri, "SELECT count(*) FROM iceberg_tables WHERE iceberg_type = 'VIEW'")[0][0]


# PostgreSQL: the transaction outlives its client --------------------------------------------------------------------


class Ghost:
    """A transaction whose client is gone, and which the server still has."""

    def __init__(self, uri: str, statement: str, values: list[str]) -> None:
        self._connection = psycopg.connect(uri, autocommit=True)
        self._connection.execute("BEGIN")
        cursor = self._connection.execute(statement.replace("?", "%s"), values)  # type: ignore[call-overload]
        assert cursor.rowcount == 1

    def end(self, how: str) -> None:
        self._connection.execute(how)  # type: ignore[call-overload]
        self._connection.close()


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("is_new", [False, True], ids=["update", "create"])
@pytest.mark.parametrize("rig", ["postgresql"], indirect=True)
def test_settling_waits_for_the_lost_transaction(rig: Rig, is_new: bool, end: str) -> None:
    (proposal,), _ = (a_creation if is_new else an_update)(rig)
    namespace, name = proposal.pointer.identifier  # type: ignore[attr-defined]
    if proposal.base is None:
        statement = "INSERT INTO iceberg_tables VALUES ('default', ?, ?, ?, NULL, 'TABLE')"
        ghost = Ghost(rig.uri, statement, [namespace, name, proposal.location])
    else:
        statement = "UPDATE iceberg_tables SET metadata_location = ? WHERE table_namespace = ? AND table_name = ?"
        ghost = Ghost(rig.uri, statement, [proposal.location, namespace, name])
    outcomes: list[Outcome] = []
    settling = threading.Thread(target=lambda: outcomes.append(proposal.pointer.settle(proposal)))
    settling.start()
    wait_until_somebody_waits(rig.uri)
    assert not outcomes
    ghost.end(end)
    settling.join()
    assert outcomes == [Outcome.PUBLISHED if end == "COMMIT" else Outcome.ABSENT]


@pytest.mark.parametrize("rig", ["postgresql"], indirect=True)
def test_settling_gives_up_when_the_lost_transaction_does_not_end(rig: Rig) -> None:
    (proposal,), _ = an_update(rig)
    namespace, name = proposal.pointer.identifier  # type: ignore[attr-defined]
    statement = "UPDATE iceberg_tables SET metadata_location = ? WHERE table_namespace = ? AND table_name = ?"
    ghost = Ghost(rig.uri, statement, [proposal.location, namespace, name])
    parsed = parse_sql_uri(rig.uri)
    assert isinstance(parsed, PostgresUri)
    hasty = SqlCatalog(PostgresDatabase(parsed.parameters, timeout=0.2), storage=rig.catalog.storage)
    moved = Proposal(hasty.pointer((namespace, name)), proposal.base, proposal.metadata, proposal.location)
    assert moved.pointer.settle(moved) is Outcome.UNKNOWN
    with pytest.raises(FloeError) as raised:
        moved.pointer.swap(moved)
    assert not isinstance(raised.value, OutcomeUnknown)
    ghost.end("ROLLBACK")
    assert moved.pointer.settle(moved) is Outcome.ABSENT
    hasty.close()


@pytest.mark.parametrize("rig", ["postgresql"], indirect=True)
def test_the_server_ends_a_transaction_whose_client_is_gone(rig: Rig) -> None:
    """So that settling has an answer in the end, even if the network never tells the server."""
    parsed = parse_sql_uri(rig.uri)
    assert isinstance(parsed, PostgresUri)
    database = PostgresDatabase(parsed.parameters, timeout=0.4)
    (proposal,), _ = an_update(rig)
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(database.transaction())
        session.execute("UPDATE iceberg_tables SET metadata_location = metadata_location")
        assert proposal.pointer.settle(proposal) is Outcome.ABSENT  # waited until the server ended the idle one
        with pytest.raises(CatalogUnavailable):
            session.execute("SELECT 1")
        stack.pop_all()  # the transaction is gone
    database.close()


END_ALL_SESSIONS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND datname = current_database()"""


@pytest.mark.parametrize("rig", ["postgresql"], indirect=True)
def test_a_kept_connection_that_died_is_replaced(rig: Rig) -> None:
    pointer = create(rig.catalog, ("db", "t"))
    sql(rig.uri, END_ALL_SESSIONS)
    assert pointer.load() is not None
    sql(rig.uri, END_ALL_SESSIONS)
    commit(pointer, colour="red")
    assert properties_of(rig.catalog, ("db", "t")) == {"colour": "red"}


def wait_until_somebody_waits(uri: str) -> None:
    waiting = threading.Event()
    for _ in range(1000):
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        if sql(uri, query)[0][0]:
            return
        waiting.wait(0.01)
    raise AssertionError("nobody waits")
