"""Namespaces: made, listed, described and dropped."""

from collections.abc import Callable

import pytest

from floe import Lake, errors
from helpers.synthetic_files import data_file


def test_a_new_lake_has_none(reconnect: Callable[[], Lake]) -> None:
    assert reconnect().namespaces() == []


def test_namespaces_are_listed_by_level(lake: Lake) -> None:
    lake.create_namespace("a.b")
    lake.create_namespace("a.c.d")
    assert lake.namespaces() == ["a", "db"]
    assert lake.namespaces("a") == ["a.b", "a.c"]
    assert lake.namespaces("a.c") == ["a.c.d"]


def test_everybody_sees_a_new_namespace(lake: Lake, reconnect: Callable[[], Lake]) -> None:
    lake.create_namespace("raw")
    assert reconnect().namespace_exists("raw")


def test_a_namespace_is_made_once(lake: Lake) -> None:
    with pytest.raises(errors.NamespaceAlreadyExists, match="db"):
        lake.create_namespace("db")
    lake.create_namespace("db", if_not_exists=True)


def test_missing_namespaces_are_named(lake: Lake) -> None:
    for action in (lake.tables, lake.drop_namespace, lake.namespace_properties, lake.namespaces):
        with pytest.raises(errors.NoSuchNamespace, match="nowhere"):
            action("nowhere")
    assert not lake.namespace_exists("nowhere")


def test_properties_of_namespaces(lake: Lake) -> None:
    lake.create_namespace("raw", {"owner": "me", "team": "x"})
    lake.update_namespace("raw", {"owner": "you"}, remove=["team", "never-there"])
    assert lake.namespace_properties("raw")["owner"] == "you"
    assert "team" not in lake.namespace_properties("raw")


def test_an_empty_namespace_is_dropped(lake: Lake) -> None:
    lake.drop_namespace("db")
    assert lake.namespaces() == []
    lake.drop_namespace("db", if_exists=True)


def test_a_namespace_with_tables_is_not_dropped_by_accident(lake: Lake) -> None:
    lake.create_table("db.t", "id bigint")
    with pytest.raises(errors.NamespaceNotEmpty):
        lake.drop_namespace("db")
    assert lake.tables("db") == ["db.t"]


def test_a_namespace_with_namespaces_is_not_dropped_by_accident(lake: Lake) -> None:
    lake.create_namespace("db.inner")
    with pytest.raises(errors.NamespaceNotEmpty):
        lake.drop_namespace("db")


def test_cascade_drops_everything_below(lake: Lake) -> None:
    lake.create_namespace("db.inner.deep")
    lake.create_table("db.t", "id bigint")
    lake.create_table("db.inner.deep.u", "id bigint")
    lake.create_view("db.inner.v", "SELECT 1 AS one", schema="one int")
    lake.drop_namespace("db", cascade=True, purge=True)
    assert lake.namespaces() == []
    assert lake.tables() == []


def test_cascade_without_purge_keeps_files(lake: Lake) -> None:
    lake.create_namespace("db.inner")
    table = lake.create_table("db.inner.t", "id bigint not null")
    table.append_files([data_file(table, "a", write=True)])
    (path,) = table.scan().files()
    lake.drop_namespace("db", cascade=True)
    assert lake.namespaces() == []
    assert not lake.namespace_exists("db.inner")
    assert table.storage.exists(path)


def test_a_namespace_whose_tables_are_dropped_can_be_dropped(lake: Lake) -> None:
    lake.update_namespace("db", {"owner": "me"})
    table = lake.create_table("db.t", "id bigint not null")
    table.append_files([data_file(table, "a", write=True)])
    lake.drop_table("db.t")
    assert lake.tables("db") == []
    lake.drop_namespace("db")
    assert not lake.namespace_exists("db")
    assert lake.namespaces() == []
    for action in (lake.tables, lake.drop_namespace, lake.namespace_properties, lake.namespaces):
        with pytest.raises(errors.NoSuchNamespace):
            action("db")
    with pytest.raises(errors.NoSuchNamespace):
        lake.create_table("db.u", "id bigint")


def test_no_dropped_table_comes_back(lake: Lake) -> None:
    first = lake.create_table("db.t", "id bigint not null")
    first.append_files([data_file(first, "a", write=True)])
    lake.drop_table("db.t")
    lake.drop_namespace("db")
    lake.create_namespace("db", {"owner": "you"})
    assert (lake.tables("db"), lake.namespaces("db"), lake.namespace_properties("db")) == ([], [], {"owner": "you"})
    with pytest.raises(errors.NamespaceAlreadyExists):
        lake.create_namespace("db")
    second = lake.create_table("db.t", "id bigint not null")
    assert second.uuid != first.uuid
    assert second.scan().files() == []
    with pytest.raises(errors.NamespaceNotEmpty):
        lake.drop_namespace("db")
    lake.drop_table("db.t")
    assert lake.tables("db") == []
    lake.drop_namespace("db")
    lake.create_namespace("db.inner")
    assert (lake.namespaces(), lake.namespaces("db"), lake.tables()) == (["db"], ["db.inner"], [])


def test_a_dropped_namespace_can_be_made_again(lake: Lake) -> None:
    lake.create_table("db.t", "id bigint")
    lake.drop_namespace("db", cascade=True, purge=True)
    lake.create_namespace("db")
    assert lake.tables("db") == []


def test_names_that_no_namespace_can_have(lake: Lake) -> None:
    for name in ("a..b", "a/b", "..", "a.`b/c`", "x\ny", "a." + "x" * 300):
        with pytest.raises(errors.InvalidName):
            lake.create_namespace(name)


def test_names_with_dots_and_spaces_are_quoted(lake: Lake) -> None:
    lake.create_namespace("`my lake`")
    lake.create_table("`my lake`.`orders 2024.01`", "id bigint")
    assert lake.namespaces() == ["db", "`my lake`"]
    assert lake.tables("`my lake`") == ["`my lake`.`orders 2024.01`"]
    assert lake.table(["my lake", "orders 2024.01"]).name == "`my lake`.`orders 2024.01`"
