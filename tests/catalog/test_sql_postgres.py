"""PostgreSQL itself: sessions in their place, and tests that fail rather than stay silent where it cannot run."""

import gc
import threading
from pathlib import Path

import pytest

import helpers.postgres
from floe.catalog.sql.catalog import connect_sql
from helpers.postgres import WITHOUT, PostgresCannotStart, postgres_database, shared_server
from helpers.sql_catalogs import commit, create, sql


def cannot_start(pid: int) -> None:
    raise PostgresCannotStart("no room")


def test_tests_fail_where_no_server_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helpers.postgres, "_server_of_this_process", cannot_start)
    monkeypatch.delenv(WITHOUT, raising=False)
    with pytest.raises(
        pytest.fail.Exception, match="PostgreSQL cannot start: no room; set FLOE_TESTS_WITHOUT_POSTGRES"
    ):
        shared_server()
    monkeypatch.setenv(WITHOUT, "1")
    with pytest.raises(pytest.skip.Exception, match="no PostgreSQL: no room"):
        shared_server()


SESSIONS = """SELECT application_name, state FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""


def sessions_become(uri: str, expected: list[tuple[str, str]]) -> bool:
    """Whether the database has these sessions, soon: the server ends them a little after their clients."""
    waiting = threading.Event()
    for _ in range(500):
        if sql(uri, SESSIONS) == expected:
            return True
        waiting.wait(0.01)
    return False


def test_sessions_are_few_named_and_closed(tmp_path: Path) -> None:
    with postgres_database() as uri:
        catalog = connect_sql(uri, warehouse=str(tmp_path))
        assert sessions_become(uri, [])  # nothing happens before the catalog is used
        commit(create(catalog), colour="red")
        assert sessions_become(uri, [("floe", "idle")])
        catalog.close()
        catalog.close()
        assert sessions_become(uri, [])


def test_a_catalog_that_is_forgotten_leaves_no_session(tmp_path: Path) -> None:
    with postgres_database() as uri:
        connect_sql(uri, warehouse=str(tmp_path)).namespaces()
        gc.collect()
        assert sessions_become(uri, [])


def test_parameters_of_the_uri_reach_the_server(tmp_path: Path) -> None:
    with postgres_database(application_name="mine", options="-c search_path=lake") as uri:
        sql(uri, "CREATE SCHEMA lake")
        catalog = connect_sql(uri, warehouse=str(tmp_path))
        create(catalog)
        assert sql(uri, "SELECT count(*) FROM lake.iceberg_tables") == [(1,)]
        assert sessions_become(uri, [("mine", "idle")])
        catalog.close()
        sql(uri, "DROP SCHEMA lake CASCADE")
