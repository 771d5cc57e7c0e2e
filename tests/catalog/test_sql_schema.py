"""The tables of a SQL catalog: made as Java and PyIceberg make them, in both versions, changed only when asked."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from floe.catalog.sql.catalog import SqlCatalog, connect_sql
from floe.errors import CatalogError, InvalidLocation, InvalidName, InvalidValue, UnsupportedFeature
from helpers.sql_catalogs import (
    DATABASES,
    TABLE,
    commit,
    create,
    database,
    make_version_0,
    proposal_to_create,
    sql,
    view,
)


@pytest.fixture(params=DATABASES)
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with database(request.param, tmp_path) as uri:
        yield uri


@pytest.fixture
def connect(uri: str, tmp_path: Path) -> "Iterator[Connect]":
    opener = Connect(uri, tmp_path)
    yield opener
    opener.close()


class Connect:
    """Opens catalogs over one database, and closes them in the end."""

    def __init__(self, uri: str, folder: Path) -> None:
        self.uri, self.warehouse, self.opened = uri, str(folder / "warehouse"), list[SqlCatalog]()

    def __call__(self, **options: str) -> SqlCatalog:
        self.opened.append(connect_sql(self.uri, warehouse=self.warehouse, options=options))
        return self.opened[-1]

    def close(self) -> None:
        for catalog in self.opened:
            catalog.close()


def columns(uri: str) -> list[str]:
    query = (
        "SELECT name FROM pragma_table_info('iceberg_tables')"
        if uri.startswith("sqlite")
        else "SELECT column_name FROM information_schema.columns WHERE table_name = 'iceberg_tables'"
    )
    return [name for (name,) in sql(uri, query)]


def test_a_new_database_gets_version_1(uri: str, connect: Connect) -> None:
    create(connect())
    assert "iceberg_type" in columns(uri)
    assert sql(uri, "SELECT catalog_name, table_namespace, table_name, iceberg_type FROM iceberg_tables") == [
        ("default", "db", "orders", "TABLE")
    ]
    assert sql(uri, "SELECT * FROM iceberg_namespace_properties") == [("default", "db", "exists", "true")]


def test_version_0_is_made_when_asked(uri: str, connect: Connect) -> None:
    catalog = connect(schema_version="v0")
    pointer = create(catalog)
    commit(pointer, colour="red")
    assert "iceberg_type" not in columns(uri)
    assert catalog.tables(("db",)) == [TABLE]
    assert catalog.views(("db",)) == []
    assert not catalog.view_exists(TABLE)
    with pytest.raises(UnsupportedFeature, match="version 1"):
        catalog.create_view(("db", "v"), view(connect.warehouse + "/v"))
    assert "iceberg_type" not in columns(uri)


def test_version_0_is_used_as_it_is(uri: str, connect: Connect) -> None:
    make_version_0(uri)
    catalog = connect()
    pointer = create(catalog)
    commit(pointer, colour="red")
    catalog.rename_table(TABLE, ("db", "sold"))
    assert catalog.tables(("db",)) == [("db", "sold")]
    assert "iceberg_type" not in columns(uri)
    catalog.drop_table(("db", "sold"), purge=True)
    assert catalog.tables(("db",)) == []


@pytest.mark.parametrize("option", ["schema_version", "jdbc.schema-version"])
def test_version_0_becomes_version_1_when_asked(uri: str, connect: Connect, option: str) -> None:
    make_version_0(uri)
    old = connect()
    pointer = create(old)
    new = connect(**{option: "V1"})
    assert new.tables(("db",)) == [TABLE]
    assert "iceberg_type" in columns(uri)
    commit(pointer, colour="red")
    new.create_view(("db", "v"), view(connect.warehouse + "/v"))
    # The catalog that was open before sees the change too, so it does not take the view for a table.
    assert old.tables(("db",)) == [TABLE]
    assert old.views(("db",)) == [("db", "v")]
    assert old.pointer(("db", "v")).load() is None


def test_a_view_makes_version_1(uri: str, connect: Connect) -> None:
    make_version_0(uri)
    catalog = connect()
    create(catalog)
    catalog.create_view(("db", "v"), view(connect.warehouse + "/v"))
    assert catalog.views(("db",)) == [("db", "v")]
    assert sql(uri, "SELECT table_name, iceberg_type FROM iceberg_tables ORDER BY 1") == [
        ("orders", None),
        ("v", "VIEW"),
    ]


def test_tables_are_not_made_when_that_is_switched_off(uri: str, connect: Connect) -> None:
    with pytest.raises(CatalogError, match="no tables iceberg_tables"):
        connect(init_catalog_tables="false").namespaces()
    connect().namespaces()
    assert connect(init_catalog_tables="false").namespaces() == []


def test_a_table_of_that_name_that_is_something_else(uri: str, connect: Connect) -> None:
    sql(uri, "CREATE TABLE iceberg_tables (id INTEGER)")
    with pytest.raises(CatalogError, match="not created by an Iceberg catalog"):
        connect().namespaces()


def test_many_that_open_an_empty_database_at_once(connect: Connect) -> None:
    catalogs = [connect() for _ in range(8)]
    start, errors = threading.Barrier(len(catalogs)), list[Exception]()

    def look(catalog: SqlCatalog) -> None:
        start.wait()
        try:
            assert catalog.namespaces() == []
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=look, args=(catalog,)) for catalog in catalogs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_many_that_make_version_1_at_once(uri: str, connect: Connect) -> None:
    make_version_0(uri)
    catalogs = [connect(schema_version="v1") for _ in range(6)]
    start, errors = threading.Barrier(len(catalogs)), list[Exception]()

    def look(catalog: SqlCatalog) -> None:
        start.wait()
        try:
            assert catalog.namespaces() == []
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=look, args=(catalog,)) for catalog in catalogs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert columns(uri).count("iceberg_type") == 1


@pytest.mark.parametrize("kind", ["postgresql"])
def test_what_the_columns_cannot_hold_is_told_before_it_is_sent(kind: str, tmp_path: Path) -> None:
    levels = ("n" * 120, "m" * 120, "k" * 30)
    with database(kind, tmp_path) as uri:
        catalog = connect_sql(uri, warehouse=str(tmp_path / "warehouse"))
        with pytest.raises(InvalidName, match=r"272 characters; the database holds at most 255"):
            catalog.create_namespace(levels)
        with pytest.raises(InvalidValue, match="1001 characters"):
            catalog.create_namespace(("db",), {"comment": "x" * 1001})
        with pytest.raises(InvalidValue, match="256 characters"):
            catalog.create_namespace(("db",), {"x" * 256: "comment"})
        catalog.create_namespace(("db",), {"x" * 255: "é" * 1000})
        with pytest.raises(InvalidName, match="272"):
            catalog.rename_table(create(catalog).identifier, (*levels, "t"))
        with pytest.raises(InvalidLocation, match="at most 1000"):
            catalog.register_table(("db", "far"), "memory:" + "x" * 1000)
        # An administrator who widened the column gets what it holds.
        sql(uri, "ALTER TABLE iceberg_namespace_properties ALTER COLUMN namespace TYPE VARCHAR(300)")
        wider = connect_sql(uri, warehouse=str(tmp_path / "warehouse"))
        wider.create_namespace(levels)
        assert wider.namespace_exists(levels)
        catalog.close()
        wider.close()


def test_a_metadata_file_too_far_away_is_not_left_behind(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d" * 200] * 5)
    with database("postgresql", tmp_path) as uri:
        catalog = connect_sql(uri, warehouse=str(deep))
        catalog.create_namespace(("db",))
        with pytest.raises(InvalidLocation, match="the location of the metadata file"):
            proposal_to_create(catalog)
        assert not [path for path in deep.rglob("*") if path.is_file()]
        catalog.close()


def test_sqlite_holds_long_names(tmp_path: Path) -> None:
    levels = ("n" * 200, "m" * 200)
    catalog = connect_sql("sqlite://", warehouse="memory:wh")
    catalog.create_namespace(levels, {"comment": "x" * 5000})
    assert catalog.namespace_properties(levels) == {"comment": "x" * 5000}
    catalog.close()
