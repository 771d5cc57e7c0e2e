"""Passwords are never shown: not in what is printed, not in errors and what led to them, not in logs."""

import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from floe.catalog.sql.catalog import SqlCatalog, connect_sql
from floe.errors import CatalogError, CatalogUnavailable, FloeError
from floe.storage.local import LocalStorage
from helpers.postgres import WITH_PASSWORD, postgres_database, shared_server
from helpers.sql_catalogs import sql

CANARY = "canary-Pa%55 w@rd'"
SPELLINGS = (CANARY, quote(CANARY, safe=""), "Pa%55", "canary-Pa")


@pytest.fixture(autouse=True)
def no_canary_in_logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    assert not shown(caplog.text)


def shown(text: object) -> bool:
    return any(spelling in str(text) or spelling in repr(text) for spelling in SPELLINGS)


def told(call: Callable[[], object]) -> FloeError:
    """The error that a call raises; nothing of it may show the canary, however it is printed."""
    with pytest.raises(FloeError) as raised:
        call()
    assert not shown(raised.value)
    assert not shown(raised.value.context)
    assert not shown("".join(traceback.format_exception(raised.value)))
    return raised.value


@pytest.fixture
def user() -> Iterator[str]:
    """A user of the server who must give a password."""
    server = shared_server()
    server.run(f"CREATE ROLE {WITH_PASSWORD} LOGIN PASSWORD '{CANARY.replace(chr(39), chr(39) * 2)}'")
    yield WITH_PASSWORD
    server.run(f"DROP OWNED BY {WITH_PASSWORD}")
    server.run(f"DROP ROLE {WITH_PASSWORD}")


def test_a_catalog_shows_no_secret(tmp_path: Path) -> None:
    catalog = connect_sql(
        f"postgresql://me:{quote(CANARY, safe='')}@db.example:5433/lake?sslpassword={quote(CANARY)}",
        name="prod",
        warehouse="s3://bucket/warehouse",
        storage=LocalStorage(),
        options={"password": CANARY, "jdbc.password": CANARY},
    )
    assert repr(catalog) == "SqlCatalog('prod', 'postgresql://me@db.example:5433/lake')"
    for text in (catalog, catalog.properties, dict(catalog.properties), catalog.pointer(("db", "t")), catalog.shared):
        assert not shown(text)
    assert not shown(vars(catalog))
    catalog.close()


@pytest.mark.parametrize(
    "uri",
    [
        f"postgresql://me:{quote(CANARY, safe='')}@/lake?host=/nowhere",
        f"postgresql://me@/lake?host=/nowhere&password={quote(CANARY)}",
        f"postgresql://me:{quote(CANARY, safe='')}@/lake?host=/nowhere&sslmode=colourful",
        f"postgresql://me:{quote(CANARY, safe='')}@/lake?host=/nowhere&colour=red",
        f"postgresql://me:{quote(CANARY, safe='')}@ho:st:1/lake",
        f"postgresql+driver://me:{quote(CANARY, safe='')}@host/lake",
        f"mysql://me:{quote(CANARY, safe='')}@host/lake",
        f"sqlite://me:{CANARY}@host/lake.db",
    ],
    ids=range(8),
)
def test_what_goes_wrong_is_told_without_the_password(uri: str) -> None:
    told(lambda: connect_sql(uri).namespaces())


def test_a_wrong_password(user: str, tmp_path: Path) -> None:
    with postgres_database() as uri:
        mine = uri.replace("postgres@", f"{user}:{quote('not ' + CANARY, safe='')}@")
        error = told(lambda: connect_sql(mine, warehouse=str(tmp_path)).namespaces())
        assert isinstance(error, CatalogError)
        assert not isinstance(error, CatalogUnavailable)  # trying again is no use
        assert "password authentication failed" in str(error)


@pytest.mark.parametrize("where", ["uri", "query", "password", "jdbc.password"])
def test_the_right_password_wherever_it_stands(user: str, tmp_path: Path, where: str) -> None:
    with postgres_database() as uri:
        sql(uri, f"GRANT ALL ON SCHEMA public TO {user}")
        mine = uri.replace("postgres@", f"{user}@")
        options: dict[str, str] = {}
        if where == "uri":
            mine = uri.replace("postgres@", f"{user}:{quote(CANARY, safe='')}@")
        elif where == "query":
            mine += f"&password={quote(CANARY)}"
        else:
            options[where] = CANARY
        catalog = connect_sql(mine, warehouse=str(tmp_path), options=options)
        catalog.create_namespace(("db",))
        assert not shown(vars(catalog))
        told(lambda: catalog.drop_table(("db", "missing")))
        told(lambda: catalog._store.database.read("SELECT no_such_column"))
        catalog.close()


def test_an_unprivileged_user_is_told_what_is_missing(user: str, tmp_path: Path) -> None:
    with postgres_database() as uri:
        mine: SqlCatalog = connect_sql(
            uri.replace("postgres@", f"{user}@"), warehouse=str(tmp_path), options={"password": CANARY}
        )
        error = told(mine.namespaces)
        assert "permission denied" in str(error)
        mine.close()
