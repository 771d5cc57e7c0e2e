"""Many at once: threads, forks, deadlocks and busy databases; one wins, the others are told, and nothing is lost."""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from floe.catalog.sql.catalog import SqlCatalog, connect_sql
from floe.catalog.sql.sqlite import SqliteDatabase
from floe.errors import (
    CatalogError,
    CatalogUnavailable,
    CommitConflict,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchTable,
    TableAlreadyExists,
)
from floe.storage.local import LocalStorage
from helpers.sql_catalogs import (
    DATABASES,
    TABLE,
    change,
    commit,
    create,
    database,
    properties_of,
    proposal_to_create,
    sql,
)


@pytest.fixture(params=DATABASES)
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with database(request.param, tmp_path) as uri:
        yield uri


@pytest.fixture
def catalog(uri: str, tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = opened(uri, tmp_path)
    yield catalog
    catalog.close()


def opened(uri: str, folder: Path, **options: str) -> SqlCatalog:
    storage = LocalStorage(durable=False)
    return connect_sql(uri, warehouse=str(folder / "warehouse"), storage=storage, options=options)


def test_threads_share_a_catalog(catalog: SqlCatalog) -> None:
    create(catalog)

    def work(number: int) -> int:
        done = 0
        while not done:
            try:
                commit(catalog.pointer(TABLE), **{f"thread-{number}": "was here"})
                done += 1
            except CommitConflict:
                continue
        return done

    with ThreadPoolExecutor(12) as threads:
        assert sum(threads.map(work, range(12))) == 12
    assert properties_of(catalog) == {f"thread-{number}": "was here" for number in range(12)}


def raced(*calls: Callable[[], object]) -> list[object]:
    """Runs calls at the same time; gives what each returned or raised."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> object:
        start.wait()
        try:
            return call()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


def kinds(answers: list[object]) -> list[str]:
    return sorted("done" if answer is None else type(answer).__name__ for answer in answers)


ROUNDS = range(6)


@pytest.mark.parametrize("number", ROUNDS)
def test_one_of_many_creates_a_table(catalog: SqlCatalog, number: int) -> None:
    catalog.create_namespace(("db",))
    proposals = [proposal_to_create(catalog) for _ in range(4)]
    answers = raced(*(lambda proposal=p: proposal.pointer.swap(proposal) for p in proposals))
    assert kinds(answers) == ["TableAlreadyExists"] * 3 + ["done"]
    state = catalog.pointer(TABLE).load()
    assert state is not None
    assert state.location == proposals[answers.index(None)].location


@pytest.mark.parametrize("number", ROUNDS)
def test_one_of_two_swaps_of_several_tables_wins_whatever_their_order(catalog: SqlCatalog, number: int) -> None:
    pointers = [create(catalog, ("db", name)) for name in "abc"]
    ours = [change(pointer, colour="red") for pointer in pointers]
    theirs = [change(pointer, colour="blue") for pointer in reversed(pointers)]
    answers = raced(lambda: catalog.shared.swap_all(ours), lambda: catalog.shared.swap_all(theirs))
    assert kinds(answers) == ["CommitConflict", "done"]
    assert "deadlock" not in str(answers)
    colours = {properties_of(catalog, pointer.identifier)["colour"] for pointer in pointers}
    assert colours == ({"red"} if answers[0] is None else {"blue"})


@pytest.mark.parametrize("number", ROUNDS)
def test_a_rename_races_a_creation(catalog: SqlCatalog, number: int) -> None:
    create(catalog, ("db", "old"))
    proposal = proposal_to_create(catalog)
    answers = raced(
        lambda: catalog.rename_table(("db", "old"), TABLE),
        lambda: proposal.pointer.swap(proposal),
        lambda: catalog.rename_table(("db", "old"), ("db", "elsewhere")),
    )
    done = [answer is None for answer in answers]
    assert done[1] != done[0], "the name has one owner"
    assert not (done[0] and done[2]), "the table was renamed once"
    for answer in answers:
        assert answer is None or isinstance(answer, TableAlreadyExists | NoSuchTable | CommitConflict), answer
    expected = {TABLE} | ({("db", "elsewhere")} if done[2] else set() if done[0] else {("db", "old")})
    assert set(catalog.tables(("db",))) == expected


@pytest.mark.parametrize("number", ROUNDS)
def test_a_namespace_is_not_dropped_under_a_new_table(catalog: SqlCatalog, number: int) -> None:
    catalog.create_namespace(("db",), {"owner": "me"})
    proposal = proposal_to_create(catalog)
    dropped, made = raced(lambda: catalog.drop_namespace(("db",)), lambda: proposal.pointer.swap(proposal))
    if made is None:
        assert isinstance(dropped, NamespaceNotEmpty)
        assert catalog.namespace_properties(("db",)) == {"owner": "me"}
    else:
        assert isinstance(made, NoSuchNamespace)
        assert dropped is None
        assert catalog.namespaces() == []


@pytest.mark.parametrize("number", ROUNDS)
def test_a_namespace_has_one_maker(catalog: SqlCatalog, number: int) -> None:
    answers = raced(*(lambda n=n: catalog.create_namespace(("db",), {"maker": str(n)}) for n in range(4)))
    assert kinds(answers) == ["NamespaceAlreadyExists"] * 3 + ["done"]
    assert catalog.namespace_properties(("db",)) == {"maker": str(answers.index(None))}


def test_updates_of_a_namespace_all_arrive(catalog: SqlCatalog) -> None:
    catalog.create_namespace(("db",), {"shared": "0"})
    calls = [lambda n=n: catalog.update_namespace(("db",), {"shared": str(n), f"own-{n}": "1"}) for n in range(6)]
    answers = raced(*calls)
    assert kinds(answers) == ["done"] * 6
    assert {key for key in catalog.namespace_properties(("db",)) if key.startswith("own")} == {
        f"own-{n}" for n in range(6)
    }


# deadlocks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uri", ["postgresql"], indirect=True)
def test_a_deadlock_with_a_stranger_is_a_conflict_and_nothing_happened(uri: str, catalog: SqlCatalog) -> None:
    """Another program takes the rows in another order; the server ends the one that notices first."""
    pointers = [create(catalog, ("db", name)) for name in "ab"]
    proposals = [change(pointer, colour="red") for pointer in pointers]
    lock = "SELECT 1 FROM iceberg_tables WHERE table_name = %s FOR UPDATE"
    with psycopg.connect(uri) as stranger, ThreadPoolExecutor(2) as threads:
        stranger.execute("SET deadlock_timeout = '10min'")
        stranger.execute(lock, ["b"])
        swap = threads.submit(lambda: raced(lambda: catalog.shared.swap_all(proposals))[0])  # holds a, waits for b
        wait_until_somebody_waits(uri)
        stranger.execute(lock, ["a"])
        answer = swap.result()
    assert isinstance(answer, CommitConflict)
    assert "deadlock" in str(answer)
    assert [properties_of(catalog, pointer.identifier) for pointer in pointers] == [{}, {}]
    catalog.shared.swap_all(proposals)
    assert properties_of(catalog, ("db", "b")) == {"colour": "red"}


def wait_until_somebody_waits(uri: str) -> None:
    waiting = threading.Event()
    for _ in range(1000):
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        if sql(uri, query)[0][0]:
            return
        waiting.wait(0.01)
    raise AssertionError("nobody waits")


@pytest.mark.parametrize("uri", ["postgresql"], indirect=True)
def test_a_row_that_stays_locked_makes_the_catalog_unavailable(uri: str, catalog: SqlCatalog, tmp_path: Path) -> None:
    create(catalog)
    hasty = opened(uri, tmp_path, timeout="0.2")
    with psycopg.connect(uri) as stranger:
        stranger.execute("SELECT 1 FROM iceberg_tables FOR UPDATE")
        with pytest.raises(CatalogUnavailable, match="timed out"):
            commit(hasty.pointer(TABLE), colour="red")
        assert hasty.pointer(TABLE).load() is not None  # readers wait for nobody
    commit(hasty.pointer(TABLE), colour="red")
    hasty.close()


@pytest.mark.parametrize("uri", ["postgresql"], indirect=True)
def test_serializable_databases_change_nothing(uri: str, catalog: SqlCatalog) -> None:
    """The transactions say what they need, whatever the database's default is."""
    pointer = create(catalog)
    ((name,),) = sql(uri, "SELECT current_database()")
    sql(uri, f'ALTER DATABASE "{name}" SET default_transaction_isolation = serializable')
    fresh = connect_sql(uri, warehouse=catalog.warehouse)
    proposals = [change(fresh.pointer(TABLE), colour=str(number)) for number in range(4)]
    answers = raced(*(lambda proposal=p: proposal.pointer.swap(proposal) for p in proposals))
    assert kinds(answers) == ["CommitConflict"] * 3 + ["done"]
    assert "committed first" in str(next(answer for answer in answers if answer is not None))
    commit(pointer, colour="last")
    fresh.close()


# SQLite ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uri", ["sqlite"], indirect=True)
class TestSqlite:
    def test_a_writer_in_the_way_makes_the_catalog_unavailable(
        self, uri: str, catalog: SqlCatalog, tmp_path: Path
    ) -> None:
        create(catalog)
        hasty = opened(uri, tmp_path, busy_timeout="0.05")
        with closing(sqlite3.connect(uri.removeprefix("sqlite:///"), isolation_level=None)) as stranger:
            stranger.execute("BEGIN IMMEDIATE")
            with pytest.raises(CatalogUnavailable, match="locked by another writer"):
                commit(hasty.pointer(TABLE), colour="red")
            assert hasty.pointer(TABLE).load() is not None  # readers wait for nobody
            stranger.execute("ROLLBACK")
        commit(hasty.pointer(TABLE), colour="red")
        hasty.close()

    def test_writers_wait_for_each_other(self, uri: str, catalog: SqlCatalog) -> None:
        create(catalog)
        stranger = sqlite3.connect(uri.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False)
        stranger.execute("BEGIN IMMEDIATE")
        begun, waiting = threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            commit(catalog.pointer(TABLE), colour="red")
            waiting.set()

        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
        assert not waiting.wait(0.1)
        stranger.execute("COMMIT")
        thread.join()
        stranger.close()
        assert properties_of(catalog) == {"colour": "red"}

    def test_files_are_in_wal_mode_and_commits_on_disk(self, uri: str, catalog: SqlCatalog) -> None:
        create(catalog)
        assert sql(uri, "PRAGMA journal_mode") == [("wal",)]
        database = SqliteDatabase(uri.removeprefix("sqlite:///"))
        assert database.read("PRAGMA synchronous") == [(2,)]
        database.close()

    def test_a_reader_that_blocks_commit_in_the_old_mode(self, uri: str, tmp_path: Path) -> None:
        """While it reads, the mode cannot change; COMMIT gives up, and nothing happened."""
        first = opened(uri, tmp_path)
        create(first)
        first.close()
        with closing(sqlite3.connect(uri.removeprefix("sqlite:///"), isolation_level=None)) as reader:
            assert reader.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM iceberg_tables").fetchall()
            hasty = opened(uri, tmp_path, busy_timeout="0.05")
            with pytest.raises(CatalogUnavailable, match="locked"):
                commit(hasty.pointer(TABLE), colour="red")
            reader.execute("ROLLBACK")
            assert properties_of(hasty) == {}
            commit(hasty.pointer(TABLE), colour="red")
            assert properties_of(hasty) == {"colour": "red"}
            hasty.close()

    def test_a_database_that_may_only_be_read(self, uri: str, catalog: SqlCatalog, tmp_path: Path) -> None:
        pointer = create(catalog)
        catalog.close()
        with closing(sqlite3.connect(uri.removeprefix("sqlite:///"))) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")

        def read_only(path: str, timeout: float) -> sqlite3.Connection:
            return sqlite3.connect(
                f"file:{path}?mode=ro", timeout=timeout, isolation_level=None, check_same_thread=False, uri=True
            )

        database = SqliteDatabase(uri.removeprefix("sqlite:///"), connect=read_only)
        reading = SqlCatalog(database, warehouse=str(tmp_path / "warehouse"), storage=LocalStorage())
        assert reading.tables(("db",)) == [pointer.identifier]
        with pytest.raises(CatalogError, match="may not be written"):
            commit(reading.pointer(TABLE), colour="red")
        reading.close()


def test_a_catalog_in_memory_serves_many_threads() -> None:
    catalog = connect_sql("sqlite://", warehouse="memory:warehouse")
    catalog.create_namespace(("db",))
    answers = raced(*(lambda n=n: create(catalog, ("db", f"t{n}")) and None for n in range(8)))
    assert kinds(answers) == ["done"] * 8
    assert len(catalog.tables(("db",))) == 8
    catalog.close()


# forks -------------------------------------------------------------------------------------------------------------


def in_a_fork(work: Callable[[], bool]) -> bool:
    """Runs something in a forked process that inherits everything."""
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_forked_process_uses_connections_of_its_own(uri: str, catalog: SqlCatalog) -> None:
    pointer = create(catalog)

    def child() -> bool:
        commit(catalog.pointer(TABLE), child="was here")
        catalog.close()  # closes its own, and leaves the parent's alone
        return True

    assert in_a_fork(child)
    commit(pointer, parent="is here")
    assert properties_of(catalog) == {"child": "was here", "parent": "is here"}


def test_a_catalog_in_memory_says_that_it_cannot_be_forked() -> None:
    catalog = connect_sql("sqlite://", warehouse="memory:warehouse")
    catalog.create_namespace(("db",))

    def child() -> bool:
        try:
            catalog.namespaces()
        except CatalogError as error:
            return "belongs to the process that opened it" in str(error)
        return False

    assert in_a_fork(child)
    assert catalog.namespaces() == [("db",)]
    catalog.close()
