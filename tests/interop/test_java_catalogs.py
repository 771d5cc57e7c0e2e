"""Catalogs that Java made are Floe's too, and the reverse: namespaces, tables, views, in files and SQL databases."""

from typing import Any

import pytest

from floe import errors
from floe.spec.partitioning.partition_spec import UNPARTITIONED, spec_to_json
from floe.spec.schemas.schema_json import schema_to_json
from floe.sql.columns import parse_columns
from helpers.java_catalogs import JavaCatalogs, Shared
from helpers.made_tables import KINDS
from helpers.table_maker import Made, Maker, plain
from helpers.table_rows import read_rows

# Spark's own Python side leaves sockets to the garbage collector
pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

SCHEMA = schema_to_json(parse_columns("id bigint not null, name string"))
SPEC = spec_to_json(UNPARTITIONED)
SQL = ("sqlite", "postgres")
V0 = {"jdbc.schema-version": "V0"}
V1 = {"jdbc.schema-version": "V1"}
ROWS = [{"id": 1, "name": "ü"}, {"id": 2, "name": None}]


def tree(shared: Shared, *, views: bool = True) -> dict[str, Any]:
    """What Floe lists, in the form of Java's answer, without properties that Java makes up."""
    lake = shared.lake
    found: dict[str, Any] = {}

    def walk(parent: str | None) -> None:
        for namespace in lake.namespaces(parent):
            found[namespace] = {
                "properties": lake.namespace_properties(namespace),
                "tables": {name.rpartition(".")[2]: lake.table(name).uuid for name in lake.tables(namespace)},
                "views": {name.rpartition(".")[2]: lake.view(name).sql("spark") for name in lake.views(namespace)}
                if views
                else None,
            }
            walk(namespace)

    walk(None)
    return without_made_up(found)


def java_tree(shared: Shared) -> dict[str, Any]:
    """What Java lists, without properties that it makes up."""
    return without_made_up(shared.ask("list"))


def without_made_up(found: dict[str, Any]) -> dict[str, Any]:
    for namespace in found.values():
        for made_up in ("exists", "location"):
            namespace["properties"].pop(made_up, None)
    return found


@pytest.mark.parametrize("properties", [V0, V1], ids=["V0", "V1"])
@pytest.mark.parametrize("kind", SQL)
def test_a_database_that_java_made(java_catalogs: JavaCatalogs, kind: str, properties: dict[str, str]) -> None:
    """Floe lists what is there, reads it, adds to it, and Java goes on; version 0 stays version 0."""
    shared = java_catalogs.new(kind, **properties)
    shared.ask("createNamespace", "a", {"owner": "ü", "team": "x"})
    shared.ask("createNamespace", "a.b", {"deep": "yes"})
    shared.ask("createNamespace", "empty", {})
    for name in ("a.t", "a.b.t", "a.other"):
        shared.ask("createTable", name, SCHEMA, SPEC, {"made": "by java", "format-version": "2"})
    shared.ask("change", "a.b.t", {"do": "append", "rows": ROWS})
    if properties is V1:
        shared.ask("createView", "a.v", SCHEMA, "SELECT 1L AS id, 'x' AS name", {"comment": "a view"})
    listed = java_tree(shared)
    assert tree(shared, views=properties is V1) == listed
    assert set(listed) == {"a", "a.b", "empty"}
    assert listed["a"]["properties"] == {"owner": "ü", "team": "x"}

    table = shared.lake.table("a.b.t")
    assert read_rows(table) == plain(ROWS)
    maker = Maker(shared.lake, Made("java's", 2, table))
    more = [{"id": 3, "name": "floe"}]
    table.append_files(maker.write(more))
    assert len(shared.ask("rows", "a.b.t")["now"]["rows"]) == 3
    shared.lake.rename_table("a.other", "a.b.moved")
    shared.lake.drop_table("a.t")
    shared.lake.update_namespace("a", {"owner": "floe"}, remove=["team"])
    shared.lake.create_namespace("new.deep", {"k": "v"})
    shared.lake.create_table("new.deep.t", "id bigint")
    listed = java_tree(shared)
    assert tree(shared, views=properties is V1) == listed
    assert set(listed["a.b"]["tables"]) == {"t", "moved"}
    assert listed["a"]["properties"] == {"owner": "floe"}
    assert listed["a"]["tables"] == {}

    shared.ask("rename", "a.b.moved", "a.back")
    shared.ask("setNamespace", "new.deep", {"k": "w", "l": ""})
    assert shared.lake.tables("a") == ["a.back"]
    assert shared.lake.namespace_properties("new.deep")["k"] == "w"
    assert shared.ask("drop", "a.back", True)
    assert shared.lake.tables("a") == []


@pytest.mark.parametrize("kind", SQL)
def test_views_both_ways(java_catalogs: JavaCatalogs, kind: str) -> None:
    shared = java_catalogs.new(kind)
    lake = shared.lake
    lake.create_namespace("v")
    lake.create_table("v.t", "id bigint")
    lake.create_view("v.ours", "SELECT id FROM t", schema="id bigint", properties={"comment": "ours"})
    shared.ask("createView", "v.theirs", SCHEMA, "SELECT 2L AS id, 'y' AS name", {})
    assert java_tree(shared)["v"]["views"] == {"ours": "SELECT id FROM t", "theirs": "SELECT 2L AS id, 'y' AS name"}
    assert sorted(lake.views("v")) == ["v.ours", "v.theirs"]
    assert lake.view("v.theirs").sql("spark") == "SELECT 2L AS id, 'y' AS name"
    assert lake.tables("v") == ["v.t"]

    shared.ask("replaceView", "v.ours", SCHEMA, "SELECT 3L AS id, 'z' AS name")
    assert lake.view("v.ours").sql("spark") == "SELECT 3L AS id, 'z' AS name"
    lake.view("v.theirs").replace("SELECT 4L AS id", schema="id bigint")
    assert [tuple(row) for row in shared.sql("SELECT * FROM {c}.v.theirs")] == [(4,)]
    shared.ask("renameView", "v.theirs", "v.their_own")
    lake.rename_view("v.ours", "v.our_own")
    assert java_tree(shared)["v"]["views"] == {
        "our_own": "SELECT 3L AS id, 'z' AS name",
        "their_own": "SELECT 4L AS id",
    }
    lake.drop_view("v.their_own")
    assert java_tree(shared)["v"]["views"] == {"our_own": "SELECT 3L AS id, 'z' AS name"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_catalog_that_floe_made(java_catalogs: JavaCatalogs, kind: str) -> None:
    """Java lists the same namespaces and tables, drops and makes some, and Floe sees it."""
    shared = java_catalogs.new(kind)
    lake = shared.lake
    lake.create_namespace("x", {"owner": "me"})
    lake.create_namespace("x.y", {"deep": "ü"})
    lake.create_namespace("empty")
    for name in ("x.t", "x.y.t"):
        lake.create_table(name, "id bigint not null, name string", format_version=3)
    ours = tree(shared)
    if kind == "files":  # Hadoop's layout has no properties of namespaces, so Java cannot see them
        assert ours["x"]["properties"] == {"owner": "me"}
        for namespace in ours.values():
            namespace["properties"] = {}
    assert java_tree(shared) == ours
    assert set(ours) == {"x", "x.y", "empty"}
    shared.ask("change", "x.y.t", {"do": "append", "rows": ROWS})
    assert read_rows(lake.table("x.y.t")) == plain(ROWS)
    assert shared.ask("drop", "x.t", True)
    shared.ask("createTable", "x.t", SCHEMA, SPEC, {"format-version": "1"})
    table = lake.table("x.t")
    assert (table.format_version, read_rows(table)) == (1, [])
    lake.drop_table("x.t", purge=True)
    assert "t" not in java_tree(shared)["x"]["tables"]


@pytest.mark.parametrize("kind", SQL)
def test_two_catalogs_of_one_database_do_not_mix(java_catalogs: JavaCatalogs, kind: str) -> None:
    """Rows belong to a catalog's name; Java with another name sees nothing of ours."""
    shared = java_catalogs.new(kind)
    shared.lake.create_namespace("n")
    shared.lake.create_table("n.t", "id bigint")
    other = f"{shared.key}_other"
    shared.java("open", other, "another", shared.properties)
    try:
        assert shared.java("list", other) == {}
        shared.java("createNamespace", other, "n", {})
        shared.java("createTable", other, "n.theirs", SCHEMA, SPEC, {})
        assert shared.lake.tables() == ["n.t"]
        with pytest.raises(errors.NoSuchTable):
            shared.lake.table("n.theirs")
    finally:
        shared.java("close", other)
