"""Views: queries that engines share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from floe import Lake, errors
from floe.catalog.protocol import Capability
from floe.table.view import View

SQL = "SELECT id, amount FROM orders WHERE amount > 100"


@pytest.fixture
def big(lake: Lake) -> View:
    return lake.create_view("db.big", SQL, schema="id bigint, amount decimal(9, 2)", properties={"owner": "me"})


def test_a_view_is_found_again(big: View, reconnect: Callable[[], Lake]) -> None:
    found = reconnect().view("db.big")
    assert found.sql() == SQL
    assert found.sql("SPARK") == SQL
    assert [f.name for f in found.schema] == ["id", "amount"]
    assert found.properties["owner"] == "me"
    assert found.metadata.current_version.default_namespace == ("db",)
    assert found.metadata.view_uuid == big.metadata.view_uuid


def test_a_view_has_a_place_of_its_own_or_the_catalogs(lake: Lake, tmp_path: Path) -> None:
    options = {"schema": "one int", "location": f"{tmp_path}/elsewhere"}
    if Capability.CUSTOM_LOCATIONS not in lake.capabilities:
        with pytest.raises(errors.UnsupportedFeature) as refused:
            lake.create_view("db.placed", "SELECT 1 AS one", **options)
        assert refused.value.context["name"] == "db.placed"
        return
    view = lake.create_view("db.placed", "SELECT 1 AS one", **options)
    assert view.metadata.location == options["location"]
    assert view.replace("SELECT 2 AS one", schema="one int").metadata.location == options["location"]
    options["location"] += "/still"
    assert lake.create_view("db.placed", "SELECT 3 AS one", replace=True, **options).sql() == "SELECT 3 AS one"
    assert lake.view("db.placed").metadata.location == options["location"]


def test_views_are_listed(lake: Lake, big: View) -> None:
    lake.create_table("db.orders", "id bigint")
    assert lake.views("db") == ["db.big"]
    assert lake.views() == ["db.big"]
    assert lake.tables("db") == ["db.orders"]
    assert lake.view_exists("db.big")
    assert not lake.view_exists("db.orders")


def test_a_view_is_made_once(lake: Lake, big: View) -> None:
    with pytest.raises(errors.ViewAlreadyExists):
        lake.create_view("db.big", "SELECT 1 AS one", schema="one int")
    assert lake.view("db.big").sql() == SQL


def test_a_view_is_replaced(lake: Lake, big: View) -> None:
    new = lake.create_view("db.big", "SELECT 1 AS one", schema="one int", replace=True, properties={"team": "x"})
    found = lake.view("db.big")
    assert found.sql() == new.sql() == "SELECT 1 AS one"
    assert found.metadata.view_uuid == big.metadata.view_uuid
    assert [version.sql("spark") for version in found.metadata.versions] == [SQL, "SELECT 1 AS one"]
    assert found.properties == {"owner": "me", "team": "x"}


def test_a_view_speaks_several_dialects(lake: Lake) -> None:
    view = lake.create_view("db.v", {"spark": "SELECT 1 AS one", "trino": "SELECT 1 one"}, schema="one int")
    assert view.dialects == ("spark", "trino")
    assert lake.view("db.v").sql("trino") == "SELECT 1 one"
    with pytest.raises(errors.NotFound, match="duckdb"):
        view.sql("duckdb")
    with pytest.raises(errors.InvalidUpdate):
        view.replace("SELECT 2 AS two", schema="two int")
    view.replace({"spark": "SELECT 2 AS two", "trino": "SELECT 2 two"}, schema="two int")
    assert lake.view("db.v").sql("trino") == "SELECT 2 two"


def test_two_who_replace_a_view(lake: Lake, big: View, reconnect: Callable[[], Lake]) -> None:
    theirs = reconnect().view("db.big")
    theirs.replace("SELECT 1 AS one", schema="one int")
    with pytest.raises(errors.CommitConflict):
        big.replace("SELECT 2 AS two", schema="two int")
    assert big.refresh().sql() == "SELECT 1 AS one"


def test_properties_of_views(lake: Lake, big: View) -> None:
    big.set_properties({"team": "x"})
    big.remove_properties("owner")
    assert lake.view("db.big").properties == {"team": "x"}


def test_a_view_and_a_table_share_their_names(lake: Lake, big: View) -> None:
    with pytest.raises(errors.AlreadyExists):
        lake.create_table("db.big", "id bigint")
    lake.create_table("db.orders", "id bigint")
    with pytest.raises(errors.AlreadyExists):
        lake.create_view("db.orders", SQL, schema="id bigint")
    with pytest.raises(errors.AlreadyExists):
        lake.create_view("db.orders", SQL, schema="id bigint", replace=True)


def test_a_view_is_dropped(lake: Lake, big: View) -> None:
    lake.drop_view("db.big")
    assert not lake.view_exists("db.big")
    with pytest.raises(errors.NoSuchView):
        lake.view("db.big")
    with pytest.raises(errors.NoSuchView):
        lake.drop_view("db.big")
    lake.drop_view("db.big", if_exists=True)


def test_a_table_is_not_dropped_as_a_view(lake: Lake) -> None:
    lake.create_table("db.orders", "id bigint")
    with pytest.raises(errors.NoSuchView):
        lake.drop_view("db.orders")
    assert lake.table_exists("db.orders")


def test_a_view_is_renamed(lake: Lake, big: View) -> None:
    if Capability.RENAME_VIEWS not in lake.capabilities:
        with pytest.raises(errors.UnsupportedFeature):
            lake.rename_view("db.big", "db.huge")
        return
    assert lake.rename_view("db.big", "db.huge").sql() == SQL
    assert lake.views("db") == ["db.huge"]


def test_a_view_needs_a_namespace(lake: Lake) -> None:
    with pytest.raises(errors.NoSuchNamespace):
        lake.create_view("nowhere.v", SQL, schema="id bigint")


def test_a_view_tells_what_it_is(big: View) -> None:
    assert "db.big (view, version 1)" in repr(big)
    assert SQL in repr(big)
    assert "amount &gt; 100" in big._repr_html_()
