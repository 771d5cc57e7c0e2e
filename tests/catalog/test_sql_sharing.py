"""One database for three programs: what PyIceberg and Java write Floe reads and changes, and the other way round."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog as PyIcebergCatalog
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

from floe.catalog.sql.catalog import SqlCatalog, connect_sql
from floe.errors import (
    CommitConflict,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    TableAlreadyExists,
    ViewAlreadyExists,
)
from floe.spec.metadata.table_metadata_json import serialize
from helpers.sql_catalogs import (
    DATABASES,
    TABLE,
    change,
    commit,
    create,
    database,
    make_version_0,
    make_version_1,
    properties_of,
    sql,
    view,
)

ARROW = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


class Both:
    """Floe and PyIceberg over one database."""

    def __init__(self, uri: str, folder: Path) -> None:
        self.uri = uri
        self.warehouse = str(folder / "warehouse")
        self.floe = connect_sql(uri, name="lake", warehouse=self.warehouse)
        self.py = self.another_pyiceberg()

    def another_pyiceberg(self, **options: str) -> PyIcebergCatalog:
        spelled = self.uri.replace("postgresql://", "postgresql+psycopg://")
        return PyIcebergCatalog("lake", uri=spelled, warehouse=self.warehouse, **options)

    def close(self) -> None:
        self.floe.close()
        self.py.close()


@pytest.fixture(params=DATABASES)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Both]:
    with database(request.param, tmp_path) as uri:
        both = Both(uri, tmp_path)
        yield both
        both.close()


@pytest.fixture(params=["v0", "v1"])
def java_uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, bool]]:
    """A database as Java makes it, without and with support for views."""
    with database("postgresql" if request.param == "v1" else "sqlite", tmp_path) as uri:
        (make_version_1 if request.param == "v1" else make_version_0)(uri)
        yield uri, request.param == "v1"


# PyIceberg ---------------------------------------------------------------------------------------------------------


def test_floe_reads_and_changes_what_pyiceberg_makes(both: Both) -> None:
    both.py.create_namespace("db", {"owner": "me"})
    both.py.create_namespace("lake.raw")
    table = both.py.create_table("db.orders", ARROW, properties={"made-by": "pyiceberg"})
    table.append(pa.table({"id": [1, 2], "name": ["a", "b"]}, schema=ARROW))

    assert both.floe.namespaces() == [("db",), ("lake",)]
    assert both.floe.namespaces(("lake",)) == [("lake", "raw")]
    assert both.floe.namespace_properties(("db",)) == {"owner": "me"}
    assert both.floe.namespace_properties(("lake", "raw")) == {}  # PyIceberg's mark of existence is not shown
    assert both.floe.tables(("db",)) == [TABLE]
    pointer = both.floe.pointer(TABLE)
    state = pointer.load()
    assert state is not None
    assert len(state.metadata.snapshots) == 1

    commit(pointer, colour="red")
    table.refresh()
    assert table.properties["colour"] == "red"
    assert table.scan().to_arrow().num_rows == 2
    table.append(pa.table({"id": [3], "name": ["c"]}, schema=ARROW))
    assert properties_of(both.floe)["made-by"] == "pyiceberg"


def test_pyiceberg_reads_and_changes_what_floe_makes(both: Both) -> None:
    both.floe.create_namespace(("lake", "raw"), {"owner": "me"})
    create(both.floe, ("lake", "raw", "orders"))
    assert set(both.py.list_namespaces()) == {("lake",)}
    assert both.py.list_namespaces(("lake",)) == [("lake", "raw")]
    assert both.py.load_namespace_properties(("lake", "raw"))["owner"] == "me"
    assert both.py.list_tables(("lake", "raw")) == [("lake", "raw", "orders")]
    table = both.py.load_table(("lake", "raw", "orders"))
    table.append(pa.table({"id": [1], "name": ["a"]}, schema=ARROW))
    both.py.rename_table(("lake", "raw", "orders"), ("lake", "raw", "sold"))
    pointer = both.floe.pointer(("lake", "raw", "sold"))
    commit(pointer, colour="red")
    assert both.py.load_table(("lake", "raw", "sold")).properties == {"colour": "red"}
    both.py.drop_table(("lake", "raw", "sold"))
    assert pointer.load() is None


def test_a_race_has_one_winner_whoever_it_is(both: Both) -> None:
    pointer = create(both.floe)
    table = both.py.load_table(TABLE)
    ours = change(pointer, colour="red")
    table.transaction().set_properties(colour="blue").commit_transaction()
    with pytest.raises(CommitConflict, match="committed first"):
        pointer.swap(ours)
    commit(pointer, colour="green")
    assert both.py.load_table(TABLE).properties["colour"] == "green"
    assert properties_of(both.floe)["colour"] == "green"


def test_names_are_taken_for_both(both: Both) -> None:
    create(both.floe)
    with pytest.raises(TableAlreadyExistsError):
        both.py.create_table(TABLE, ARROW)
    both.py.create_table("db.items", ARROW)
    with pytest.raises(TableAlreadyExists):
        create(both.floe, ("db", "items"))
    with pytest.raises(TableAlreadyExists):
        both.floe.rename_table(TABLE, ("db", "items"))


def test_pyiceberg_does_not_see_views_as_tables(both: Both) -> None:
    both.floe.create_namespace(("db",))
    both.floe.create_view(("db", "v"), view(both.warehouse + "/db/v"))
    assert both.py.list_tables("db") == []
    with pytest.raises(NoSuchTableError):
        both.py.load_table("db.v")
    with pytest.raises(TableAlreadyExistsError):
        both.py.create_table("db.v", ARROW)
    with pytest.raises(NamespaceNotEmpty):
        both.floe.drop_namespace(("db",))


def test_a_namespace_stays_when_its_last_property_goes(both: Both) -> None:
    both.py.create_namespace("db", {"owner": "me"})  # PyIceberg marks only namespaces without properties
    both.floe.update_namespace(("db",), removals=["owner"])
    assert both.floe.namespace_properties(("db",)) == {}
    assert both.py.namespace_exists("db")
    both.py.update_namespace_properties("db", updates={"owner": "you"})
    assert both.floe.namespace_properties(("db",)) == {"owner": "you"}
    both.py.drop_namespace("db")
    assert not both.floe.namespace_exists(("db",))


def test_catalogs_of_other_names_in_the_same_database_are_apart(both: Both) -> None:
    create(both.floe)
    other = connect_sql(both.uri, name="other", warehouse=both.warehouse + "2")
    assert other.namespaces() == []
    with pytest.raises(NoSuchTable, match=r"this catalog is 'other'; the database has 'lake' \(catalog_name\)"):
        other.drop_table(TABLE)
    create(other)
    same = connect_sql(both.uri, name="prod", warehouse=both.warehouse, options={"catalog_name": "lake"})
    assert (same.name, same.catalog_name, same.tables(("db",))) == ("prod", "lake", [TABLE])
    both.floe.drop_table(TABLE)
    assert other.table_exists(TABLE)
    other.close()
    same.close()


def test_tables_made_by_pyiceberg_are_found(tmp_path: Path) -> None:
    """PyIceberg was there first."""
    with database("postgresql", tmp_path) as uri:
        py = PyIcebergCatalog(
            "default", uri=uri.replace("postgresql://", "postgresql+psycopg://"), warehouse=str(tmp_path)
        )
        py.create_namespace("db")
        py.create_table("db.orders", ARROW)
        catalog = connect_sql(uri, options={"init_catalog_tables": "false"})
        commit(catalog.pointer(TABLE), colour="red")
        assert py.load_table("db.orders").properties["colour"] == "red"
        catalog.close()
        py.close()


# Java: the statements of JdbcUtil, with the values that JdbcCatalog binds -------------------------------------------


class Java:
    """Does to a database what Java's JdbcCatalog does."""

    def __init__(self, uri: str, has_views: bool, catalog: SqlCatalog) -> None:
        self.uri, self.has_views, self.catalog = uri, has_views, catalog

    def create_namespace(self, namespace: str, **properties: str) -> None:
        for key, value in {**properties, "exists": "true"}.items():
            sql(
                self.uri,
                "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)"
                " VALUES (?,?,?,?)",
                ["default", namespace, key, value],
            )

    def insert(self, namespace: str, name: str, location: str, kind: str = "TABLE") -> None:
        if self.has_views:
            statement = (
                "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location,"
                " previous_metadata_location, iceberg_type)  VALUES (?,?,?,?,null,?)"
            )
            sql(self.uri, statement, ["default", namespace, name, location, kind])
        else:
            statement = (
                "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location,"
                " previous_metadata_location)  VALUES (?,?,?,?,null)"
            )
            sql(self.uri, statement, ["default", namespace, name, location])

    def commit(self, namespace: str, name: str, old: str, new: str) -> None:
        kinds = " AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)" if self.has_views else ""
        statement = (
            "UPDATE iceberg_tables SET metadata_location = ? , previous_metadata_location = ? WHERE catalog_name = ?"
            f" AND table_namespace = ? AND table_name = ? AND metadata_location = ?{kinds}"
        )
        sql(self.uri, statement, [new, old, "default", namespace, name, old])

    def metadata_file(self, folder: Path, version: int = 0) -> str:
        """A metadata file where Java would put it, spelled as Hadoop's FileIO spells it."""
        state = create(self.catalog, ("scratch", f"t{uuid.uuid4().hex}")).load()
        assert state is not None
        path = folder / "metadata" / f"{version:05d}-{uuid.uuid4()}.metadata.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(serialize(state.metadata))
        return f"file:{path}"


@pytest.fixture
def java(java_uri: tuple[str, bool], tmp_path: Path) -> Iterator[Java]:
    uri, has_views = java_uri
    catalog = connect_sql(uri, warehouse=str(tmp_path / "warehouse"))
    yield Java(uri, has_views, catalog)
    catalog.close()


def test_rows_of_java(java: Java, tmp_path: Path) -> None:
    java.create_namespace("lake.raw", owner="me")
    location = java.metadata_file(tmp_path / "orders")
    java.insert("lake.raw", "orders", location)
    catalog = java.catalog
    assert ("lake",) in catalog.namespaces()
    assert catalog.namespace_properties(("lake", "raw")) == {"owner": "me"}
    assert catalog.namespace_properties(("lake",)) == {}  # there because there is one below
    assert catalog.tables(("lake", "raw")) == [("lake", "raw", "orders")]
    pointer = catalog.pointer(("lake", "raw", "orders"))
    state = pointer.load()
    assert state is not None
    assert state.location == location
    commit(pointer, colour="red")
    columns = "metadata_location, previous_metadata_location"
    ((current, previous),) = sql(java.uri, f"SELECT {columns} FROM iceberg_tables WHERE table_name = 'orders'")
    assert previous == location
    assert current.endswith(".metadata.json")
    assert "/00001-" in current


def test_a_namespace_that_java_knows_only_by_its_tables(java: Java, tmp_path: Path) -> None:
    """Unless told to be strict, Java makes tables in namespaces that nobody created."""
    java.insert("a.b", "t", java.metadata_file(tmp_path / "t"))
    catalog = java.catalog
    assert catalog.namespace_exists(("a",))
    assert catalog.namespaces(("a",)) == [("a", "b")]
    assert catalog.namespace_properties(("a", "b")) == {}
    with pytest.raises(NamespaceNotEmpty):
        catalog.drop_namespace(("a",))
    with pytest.raises(NamespaceNotEmpty):
        catalog.drop_namespace(("a", "b"))
    catalog.update_namespace(("a", "b"), {"owner": "me"})
    assert catalog.namespace_properties(("a", "b")) == {"owner": "me"}
    catalog.drop_table(("a", "b", "t"))
    catalog.drop_namespace(("a", "b"))
    with pytest.raises(NoSuchNamespace):
        catalog.namespaces(("a",))


def test_java_wins_a_race(java: Java, tmp_path: Path) -> None:
    java.create_namespace("db")
    first, second = java.metadata_file(tmp_path / "t"), java.metadata_file(tmp_path / "t", 1)
    java.insert("db", "t", first)
    pointer = java.catalog.pointer(("db", "t"))
    ours = change(pointer, colour="red")
    java.commit("db", "t", first, second)
    with pytest.raises(CommitConflict):
        pointer.swap(ours)
    state = pointer.load()
    assert state is not None
    assert state.location == second


@pytest.mark.parametrize("java_uri", ["v1"], indirect=True)
def test_views_of_java(java: Java, tmp_path: Path) -> None:
    java.create_namespace("db")
    java.catalog.create_view(("db", "w"), view(str(tmp_path / "w")))
    ((location,),) = sql(java.uri, "SELECT metadata_location FROM iceberg_tables WHERE table_name = 'w'")
    assert location.endswith(".gz.metadata.json")  # Java's default for views
    java.insert("db", "v", location, "VIEW")
    assert java.catalog.views(("db",)) == [("db", "v"), ("db", "w")]
    assert java.catalog.load_view(("db", "v")) == java.catalog.load_view(("db", "w"))
    assert java.catalog.tables(("db",)) == []
    assert not java.catalog.table_exists(("db", "v"))
    with pytest.raises(NoSuchTable, match="it is a view"):
        java.catalog.drop_table(("db", "v"))
    with pytest.raises(TableAlreadyExists, match="there is a view"):
        create(java.catalog, ("db", "v"))
    create(java.catalog, ("db", "t"))
    with pytest.raises(NoSuchView, match="it is a table"):
        java.catalog.drop_view(("db", "t"))
    with pytest.raises(ViewAlreadyExists, match="there is a table"):
        java.catalog.rename_view(("db", "v"), ("db", "t"))


def test_rows_without_a_type_are_tables(java: Java, tmp_path: Path) -> None:
    """A program that knows only version 0 writes none."""
    java.create_namespace("db")
    java_0 = Java(java.uri, False, java.catalog)
    location = java.metadata_file(tmp_path / "t")
    java_0.insert("db", "t", location)
    assert java.catalog.tables(("db",)) == [("db", "t")]
    pointer = java.catalog.pointer(("db", "t"))
    commit(pointer, colour="red")
    java.catalog.rename_table(("db", "t"), ("db", "u"))
    java.catalog.drop_table(("db", "u"))
    assert java.catalog.tables(("db",)) == []
