"""URIs and options of SQL catalogs: every spelling that users have, and clear words for the others."""

import os
from pathlib import Path

import pytest

from floe.catalog.sql.catalog import connect_sql, creates_tables, database_of, schema_version
from floe.catalog.sql.database import PostgresUri, SqliteUri, is_sql_uri, parse_sql_uri
from floe.catalog.sql.records import SchemaVersion
from floe.errors import CatalogError, CatalogUnavailable, InvalidSettings, UnsupportedFeature


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("sqlite:///lake.db", "lake.db"),
        ("sqlite:///sub/lake.db", "sub/lake.db"),
        ("sqlite:////data/lake.db", "/data/lake.db"),
        ("sqlite+pysqlite:////data/lake.db", "/data/lake.db"),
        ("SQLite:///lake.db", "lake.db"),
        ("sqlite://", ":memory:"),
        ("sqlite:///", ":memory:"),
        ("sqlite:///:memory:", ":memory:"),
        ("sqlite:///my%20lake#1.db", "my%20lake#1.db"),  # SQLAlchemy does not decode the path either
    ],
)
def test_sqlite_paths(uri: str, path: str) -> None:
    assert parse_sql_uri(uri) == SqliteUri(path)
    assert is_sql_uri(uri)


@pytest.mark.parametrize(
    ("uri", "parameters"),
    [
        ("postgresql://host/db", {"host": "host", "dbname": "db"}),
        ("postgres://host:5433/db", {"host": "host", "port": "5433", "dbname": "db"}),
        ("postgresql+psycopg://me@host/db", {"user": "me", "host": "host", "dbname": "db"}),
        (
            "postgresql+psycopg2://me:p%40ss%3Aword@host/db?sslmode=require&connect_timeout=3",
            {
                "user": "me",
                "password": "p@ss:word",
                "host": "host",
                "dbname": "db",
                "sslmode": "require",
                "connect_timeout": "3",
            },
        ),
        ("postgresql://me:a@b@host/db", {"user": "me", "password": "a@b", "host": "host", "dbname": "db"}),
        ("postgresql://me:@/db?host=/run/pg", {"user": "me", "host": "/run/pg", "dbname": "db"}),
        ("postgresql://%2Frun%2Fpg/db", {"host": "/run/pg", "dbname": "db"}),
        ("postgresql://[::1]:5433/db", {"host": "::1", "port": "5433", "dbname": "db"}),
        ("postgresql://one:1,two/db", {"host": "one,two", "port": "1,", "dbname": "db"}),
        ("postgresql://", {}),
    ],
)
def test_postgresql_parameters(uri: str, parameters: dict[str, str]) -> None:
    assert parse_sql_uri(uri) == PostgresUri(parameters)
    assert is_sql_uri(uri)


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("mysql://me:hunter2@host/db", "mysql:"),
        ("/data/lake.db", "no SQL catalog"),
        ("sqlite:lake.db", "two slashes"),
        ("sqlite://lake.db", "three slashes"),
        ("sqlite:///lake.db?mode=ro", "no option mode"),
        ("postgresql+asyncpg://me:hunter2@host/db", "asyncpg"),
        ("postgresql://me:hunter2@ho:st:1/db", "host"),
        ("postgresql://me:hunter2@host/db?sslmode=a&sslmode=b", "twice"),
        ("postgresql://me:5/hunter2@host/db", "an @ after its host"),
        ("postgresql://me:5?hunter2@host/db", "an @ after its host"),
    ],
)
def test_what_is_no_uri_is_told_without_its_password(uri: str, words: str) -> None:
    with pytest.raises(InvalidSettings, match=words) as raised:
        parse_sql_uri(uri)
    assert "hunter2" not in str(raised.value)


def test_a_relative_path_stays_where_it_was_when_the_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    catalog = connect_sql("sqlite:///lake.db")
    os.chdir(elsewhere)
    catalog.create_namespace(("db",))
    catalog.close()
    assert (tmp_path / "lake.db").exists()
    assert not list(elsewhere.iterdir())


def test_every_catalog_in_memory_is_its_own() -> None:
    one, other = connect_sql("sqlite://"), connect_sql("sqlite://")
    one.create_namespace(("db",))
    assert (one.namespaces(), other.namespaces()) == ([("db",)], [])
    one.close()
    other.close()


def test_options_in_the_spellings_of_others() -> None:
    assert schema_version({"jdbc.schema-version": "V1"}) is SchemaVersion.V1
    assert schema_version({"schema_version": "v0"}) is SchemaVersion.V0
    assert schema_version({}) is None
    assert not creates_tables({"init_catalog_tables": "False"})
    assert repr(database_of("postgresql://host/db", {"jdbc.user": "me", "jdbc.password": "hunter2"})) == (
        "PostgresDatabase('postgresql://host/db')"
    )


@pytest.mark.parametrize(
    "options",
    [
        {"schema_version": "v2"},
        {"init_catalog_tables": "maybe"},
        {"timeout": "-1"},
        {"timeout": "1e9"},
        {"pool_size": "0"},
    ],
    ids=str,
)
def test_options_that_cannot_be(options: dict[str, str]) -> None:
    with pytest.raises(InvalidSettings):
        connect_sql("postgresql://host/db", options=options)


@pytest.mark.parametrize("seconds", ["soon", "-1", "nan"])
def test_a_time_out_in_a_sqlite_uri_that_is_no_time(seconds: str) -> None:
    with pytest.raises(InvalidSettings, match="number of seconds"):
        connect_sql(f"sqlite:///lake.db?timeout={seconds}")


def test_an_option_that_does_not_exist() -> None:
    with pytest.raises(InvalidSettings, match="no option bussy_timeout"):
        connect_sql("sqlite://", options={"bussy_timeout": "3"})


def test_a_catalog_without_a_warehouse_says_so_when_it_needs_one() -> None:
    catalog = connect_sql("sqlite://")
    catalog.create_namespace(("db",))
    with pytest.raises(InvalidSettings, match="no warehouse"):
        catalog.default_location(("db", "t"))
    catalog.close()


def test_psycopg_is_asked_for_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("floe.plugins.import_module", missing)
    with pytest.raises(UnsupportedFeature) as raised:
        connect_sql("postgresql://host/db")
    assert str(raised.value) == "postgresql:// needs psycopg; pip install 'floe[postgres]'"


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="check that the folder is there"):
        connect_sql(f"sqlite:///{tmp_path}/nowhere/lake.db").namespaces()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "lake.db").write_bytes(b"PAR1" * 1000)
    with pytest.raises(CatalogError, match="not an SQLite database"):
        connect_sql(f"sqlite:///{tmp_path}/lake.db").namespaces()


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CatalogUnavailable, match="cannot connect to PostgreSQL"):
        connect_sql(f"postgresql://me:hunter2@/db?host={tmp_path}").namespaces()


def test_a_parameter_that_libpq_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="colour"):
        connect_sql(f"postgresql://me@/db?host={tmp_path}&colour=red").namespaces()


def test_a_closed_catalog_says_so() -> None:
    catalog = connect_sql("sqlite://")
    catalog.close()
    catalog.close()
    with pytest.raises(CatalogError, match="was closed"):
        catalog.namespaces()
