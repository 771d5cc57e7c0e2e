"""Views as a user holds them: where names are looked for, and what one change is."""

from pathlib import Path

import pytest

import floe
from floe import Lake


@pytest.fixture(params=["files", "sqlite"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    uri = str(tmp_path / "lake") if request.param == "files" else f"sqlite:///{tmp_path}/lake.db"
    options = {} if request.param == "files" else {"warehouse": str(tmp_path / "warehouse")}
    lake = floe.connect(uri, **options)
    lake.create_namespace("db")
    return lake


def test_names_are_looked_for_where_the_view_says(lake: Lake) -> None:
    lake.create_view("db.own", "SELECT 1", schema="x int")
    lake.create_view("db.other", "SELECT 1", schema="x int", default_namespace="elsewhere", default_catalog="prod")
    places = [
        (version.default_catalog, version.default_namespace)
        for name in ("db.own", "db.other")
        for version in [lake.view(name).metadata.current_version]
    ]
    assert places == [(None, ("db",)), ("prod", ("elsewhere",))]


def test_a_replacement_is_one_change(lake: Lake) -> None:
    lake.create_view("db.v", "SELECT 1", schema="x int", properties={"a": "1", "b": "2"})
    lake.view("db.v").replace(
        "SELECT 2", schema="y int", default_catalog="prod", properties={"b": "3", "c": "4"}, removed=["a"]
    )
    view = lake.view("db.v")
    assert (view.sql(), [field.name for field in view.schema.fields]) == ("SELECT 2", ["y"])
    assert dict(view.properties) == {"b": "3", "c": "4"}
    assert view.metadata.current_version.default_catalog == "prod"
    assert len(view.metadata.versions) == 2


def test_created_or_replaced_with_properties(lake: Lake) -> None:
    for number in (1, 2):
        lake.create_view(
            "db.v", f"SELECT {number}", schema="x int", properties={"n": str(number)}, replace=True, default_catalog="c"
        )
    view = lake.view("db.v")
    assert (view.sql(), dict(view.properties)) == ("SELECT 2", {"n": "2"})
    assert [version.default_catalog for version in view.metadata.versions] == ["c", "c"]
