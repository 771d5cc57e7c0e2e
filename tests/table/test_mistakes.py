"""Mistakes that are easily made: each is told as what it is, at once, and nothing half-done is left of it."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import floe
from floe import Lake, Table, errors
from floe.spec.types import DATE
from floe.spec.values.conversion import convert
from helpers.synthetic_files import data_file

Call = Callable[[Table], object]


@pytest.fixture
def lake() -> Lake:
    lake = floe.connect("memory:")
    lake.create_namespace("db")
    return lake


@pytest.fixture
def table(lake: Lake) -> Table:
    return lake.create_table("db.t", "id bigint not null, day date", partition_by=["day"])


@pytest.mark.parametrize("name", [None, 5, object()])
def test_a_name_that_is_no_text(lake: Lake, name: object) -> None:
    with pytest.raises(errors.InvalidName, match="text"):
        lake.table(name)  # type: ignore[arg-type]


def test_a_lake_is_gone_through_by_its_tables(lake: Lake, table: Table) -> None:
    assert list(lake) == ["db.t"]


def test_a_namespace_that_was_not_made(lake: Lake) -> None:
    with pytest.raises(errors.NoSuchNamespace, match=r"create_namespace\('sales'\)"):
        lake.create_table("sales.t", "id bigint")


def test_a_view_dropped_as_a_table(lake: Lake) -> None:
    lake.create_view("db.v", "SELECT 1", schema="x int")
    with pytest.raises(errors.NoSuchTable, match="view"):
        lake.drop_table("db.v")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"partition_by": 5}, "partition_by"),
        ({"sort_by": 5}, "sort_by"),
        ({"properties": [("a", "b")]}, "properties"),
        ({"format_version": "2"}, "format version"),
        ({"format_version": True}, "format version"),
    ],
)
def test_a_definition_of_wrong_types(lake: Lake, options: dict[str, object], told: str) -> None:
    with pytest.raises(errors.FloeError, match=told):
        lake.create_table("db.x", "id bigint", **options)  # type: ignore[arg-type]
    assert lake.tables() == []


def test_a_format_version_as_text(table: Table) -> None:
    with pytest.raises(errors.InvalidInput, match="'3'"):
        table.upgrade("3")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.append_files(data_file(t, "a")),
        lambda t: t.append_files("a.parquet"),
        lambda t: t.append_files(["a.parquet"], fast=True),
        lambda t: t.append_files(None),
        lambda t: t.delete_files("data/a.parquet"),
        lambda t: t.delete_files([5]),
        lambda t: t.overwrite_files(data_file(t, "a")),
        lambda t: t.overwrite_files(removed="a.parquet"),
        lambda t: t.replace_partitions(["a.parquet"]),
        lambda t: t.row_delta(data_file(t, "a")),
        lambda t: t.rewrite_files(["a.parquet"]),
    ],
)
def test_something_else_than_a_list_of_files(table: Table, call: Call) -> None:
    with pytest.raises(errors.InvalidInput, match=r"file|DataFile"):
        call(table)
    assert not table.refresh().snapshots


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.scan(where=5),
        lambda t: t.scan(where=True),
        lambda t: t.changes(where=5),
        lambda t: t.inspect.files(where=5),
        lambda t: t.delete(5),
        lambda t: t.delete(None),
        lambda t: t.overwrite_files(where=5),
    ],
)
def test_something_else_than_a_filter(table: Table, call: Call) -> None:
    table.append_files([data_file(table, "a")])
    with pytest.raises(errors.InvalidExpression, match=r"5|True|None|int"):
        call(table)


def test_changes_with_a_wrong_filter_are_told_at_once(table: Table) -> None:
    with pytest.raises(errors.NoSuchColumn, match="dya"):
        table.changes(where="dya > 5")


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.scan(snapshot=t.current_snapshot),
        lambda t: t.scan(snapshot=str(t.current_snapshot.snapshot_id)),
        lambda t: t.inspect.files(snapshot=t.current_snapshot),
        lambda t: t.rollback(t.current_snapshot),
        lambda t: t.cherry_pick(t.current_snapshot),
        lambda t: t.create_tag("x", snapshot=t.current_snapshot),
        lambda t: t.changes(since=t.current_snapshot),
        lambda t: t.changes(until=t.current_snapshot),
    ],
)
def test_a_snapshot_in_place_of_its_id(table: Table, call: Call) -> None:
    table.append_files([data_file(table, "a")])
    with pytest.raises(errors.InvalidInput, match="snapshot") as caught:
        call(table)
    assert len(str(caught.value)) < 400


def test_a_tag_that_is_not_there(table: Table) -> None:
    table.append_files([data_file(table, "a")])
    for call in (lambda: table.rollback("eyo"), lambda: table.changes(since="eyo")):
        with pytest.raises(errors.InvalidInput, match=r"'eyo'.*main"):
            call()


def test_times_are_told_for_people(table: Table) -> None:
    table.append_files([data_file(table, "a")])
    with pytest.raises(errors.NoSuchSnapshot, match="at 2001-01-01 00:00:00 UTC; the snapshot log begins at 20"):
        table.scan(as_of="2001-01-01")
    with pytest.raises(errors.NoSuchSnapshot, match="2001-01-01 00:00:00 UTC"):
        table.rollback("2001-01-01")


def test_properties_and_refs_are_only_shown(table: Table) -> None:
    table.append_files([data_file(table, "a")])
    with pytest.raises(TypeError):
        table.properties["owner"] = "me"  # type: ignore[index]
    with pytest.raises(TypeError):
        table.refs["b"] = table.refs["main"]  # type: ignore[index]
    with table.transaction() as tx, pytest.raises(TypeError):
        tx.properties["owner"] = "me"  # type: ignore[index]
    assert "owner" not in table.refresh().properties


def test_a_transaction_that_is_forgotten(lake: Lake, table: Table) -> None:
    transaction = table.transaction()
    transaction.set_properties({"owner": "me"})
    with pytest.warns(UserWarning, match=r"transaction of db\.t were never committed"):
        del transaction
    several = lake.transaction()
    several.table("db.t").set_properties({"owner": "me"})
    with pytest.warns(UserWarning, match="never committed"):
        del several
    table.transaction()  # nothing was to be done: nothing is said
    aborted = table.transaction()
    aborted.set_properties({"owner": "me"})
    aborted.abort()


def test_builders_say_what_they_hold(table: Table) -> None:
    update = table.evolve().add_column("note", "string")
    assert repr(update) == "<SchemaEvolution: 1 change, not committed yet>"
    update.commit()
    assert repr(update) == "<SchemaEvolution: closed>"


def test_expiry_is_shown_for_people(table: Table) -> None:
    first = table.append_files([data_file(table, "a", write=True)])
    table.append_files([data_file(table, "b", (11, 20), write=True)])
    assert first is not None
    expiration = table.expire(older_than="0s", retain_last=1)
    plan = expiration.plan()
    assert repr(plan) == str(plan)
    assert str(plan).startswith("db.t: 1 snapshot expires, 1 is kept")
    assert f"committed at {first.timestamp_ms} ms" not in str(plan)
    assert " UTC" in str(plan)
    done = expiration.apply(plan)
    assert repr(done) == str(done)
    assert str(done).startswith("1 snapshot expired; ")


def test_a_partition_value_in_another_form_than_it_is_stored(table: Table) -> None:
    file = replace(data_file(table, "a"), partition=(date(2024, 5, 17),))
    with pytest.raises(errors.InvalidValue, match=r"partition: day.*days from 1970-01-01.*convert"):
        table.append_files([file])
    table.append_files([replace(file, partition=(convert(DATE, date(2024, 5, 17)),))])
    assert table.scan(where="day = '2024-05-17'").count() == 10


# places ---------------------------------------------------------------------------------------------------------------


def test_relative_locations_are_kept_as_whole_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with floe.connect("sqlite:///lake.db", warehouse="wh") as lake:
        lake.create_namespace("db")
        table = lake.create_table("db.t", "id bigint not null", location="mine/t")
        assert table.location == f"{tmp_path}/mine/t"
        table.set_location("yours/t")
        assert table.location == f"{tmp_path}/yours/t"
        again = lake.register_table("db.again", os.path.relpath(table.metadata_location))
        assert again.metadata_location == table.metadata_location


def test_a_file_where_a_warehouse_should_be(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(errors.StorageError, match="a file exists where a folder is needed"):
        floe.connect(tmp_path / "notes.txt").create_namespace("db")


def test_a_moved_table_says_how_to_open_it(tmp_path: Path) -> None:
    lake = floe.connect(tmp_path / "old")
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id bigint not null")
    table.append_files([data_file(table, "a", day=None)])
    shutil.move(tmp_path / "old", tmp_path / "new")
    moved = floe.open(tmp_path / "new" / "db" / "t")
    for call in (moved.scan().plan, moved.inspect.files):
        with pytest.raises(errors.NoSuchFile, match=r"prefixes=\{.*old/db/t.*new/db/t") as caught:
            call()
        assert caught.value.context["table"] == moved.name
    opened = floe.open(tmp_path / "new" / "db" / "t", prefixes={str(tmp_path / "old"): str(tmp_path / "new")})
    assert opened.scan().count() == 10


def test_a_table_that_is_gone_says_so(tmp_path: Path) -> None:
    lake = floe.connect(tmp_path / "wh")
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id bigint not null")
    table.append_files([data_file(table, "a", day=None)])
    lake.drop_table("db.t", purge=True)
    with pytest.raises(errors.NoSuchFile, match=r"refresh\(\)"):
        table.scan().plan()


@pytest.mark.parametrize("uri", ["./wh", "sqlite:///lake.db", "memory:"])
def test_an_option_with_a_typing_mistake(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.FloeError, match=r"no option prefxes; did you mean prefixes\?"):
        floe.connect(uri, prefxes={})


# rows -----------------------------------------------------------------------------------------------------------------

ROW_MISTAKES: list[tuple[Call, str]] = [
    (lambda t: t.scan(columns=5), "columns"),  # type: ignore[arg-type]
    (lambda t: t.scan(columns=[None]), "column"),  # type: ignore[list-item]
    (lambda t: t.scan().to_batches(batch_size=-1), "batch_size"),
    (lambda t: t.scan().to_batches(batch_size="x"), "batch_size"),  # type: ignore[arg-type]
    (lambda t: t.scan().to_batches(workers=2.5), "workers"),  # type: ignore[arg-type]
    (lambda t: t.append({"id": 1}), "write one row as a list of one dictionary"),
    (lambda t: t.append([{"id": 1}], options={"wriet.format.default": "orc"}), "wriet.format.default"),
    (lambda t: t.delete("id = 1", options={"delete.mode": "copy-on-write"}), "delete.mode"),
    (lambda t: t.append([{"id": 1}], options=5), "dictionary"),  # type: ignore[arg-type]
    (lambda t: t.append([{"id": 1}], options={"write.data.path": " "}), "property write.data.path is empty"),
    (lambda t: t.update({"day": "2024-05-17"}), "times are quoted: \"'2024-05-17'\""),
    (lambda t: t.update({"day": "soon"}), "times are quoted: \"'soon'\""),
]


@pytest.mark.parametrize(("call", "told"), ROW_MISTAKES, ids=lambda value: value[:40] if isinstance(value, str) else "")
def test_mistakes_with_rows(table: Table, call: Call, told: str) -> None:
    table.append([{"id": 7}])
    with pytest.raises(errors.FloeError) as refused:
        call(table)
    assert told in str(refused.value)
    assert table.scan().to_arrow().to_pylist() == [{"id": 7, "day": None}]


# what other libraries call things -------------------------------------------------------------------------------------


def test_names_of_other_libraries_are_told() -> None:
    lake = floe.connect("memory:")
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id bigint")
    for owner, name, here in (
        (lake, "load_table", r'PyIceberg.*lake\.table\("db\.orders"\)'),
        (lake, "list_tables", r"lake\.tables"),
        (table, "vacuum", r"delta-rs.*t\.expire"),
        (table, "optimize", "rewrite_manifests"),
        (table, "to_duckdb", r"duckdb\.sql"),
        (table, "dynamic_partition_overwrite", r"t\.overwrite_partitions\(rows\)"),
        (table, "to_pandas", r"t\.scan\(\)\.to_pandas\(\)"),
        (table.scan(), "to_arrow_batch_reader", r"to_batches\(\)"),
        (table, "apend", "did you mean 'append'"),
    ):
        with pytest.raises(AttributeError, match=here):
            getattr(owner, name)
    for owner in (lake, table, table.scan()):
        assert not hasattr(owner, "_repr_png_")
    with pytest.raises(AttributeError, match=r"Table.*'zzz'$"):
        table.zzz  # noqa: B018


@pytest.mark.parametrize(
    ("given", "here"),
    [
        ({"row_filter": "id > 1"}, r'where="amount > 10"'),
        ({"selected_fields": ("id",)}, r'columns=\["id", "amount"\]'),
        ({"snapshot_id": 1}, "snapshot="),
        ({"limit": 1}, r"scan\(…\)\.limit\(10\)"),
    ],
    ids=str,
)
def test_arguments_of_other_libraries_are_told(given: dict[str, Any], here: str) -> None:
    lake = floe.connect("memory:")
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id bigint")
    with pytest.raises(errors.InvalidInput, match=rf"'{next(iter(given))}'.*{here}"):
        table.scan(**given)
    with pytest.raises(TypeError, match="colour"):
        table.scan(colour="red")


def test_a_type_that_says_not_null() -> None:
    lake = floe.connect("memory:")
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id bigint")
    with pytest.raises(errors.InvalidType, match=r"add_column\(name, 'bigint', required=True, default=…\)"):
        table.evolve().add_column("r", "bigint not null")
    table.evolve().add_column("s", "struct<a: int not null>").commit()
    table = lake.create_table("db.v3", "id bigint", format_version=3)
    table.evolve().add_column("r", "bigint", required=True, default=0).commit()


def test_a_snapshot_that_is_not_there_is_told_with_those_there_are() -> None:
    lake = floe.connect("memory:")
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id bigint")
    made = [one.snapshot_id for n in range(7) if (one := table.append([{"id": n}])) is not None]
    with pytest.raises(errors.NoSuchSnapshot, match=r"may have expired; there are .* and 2 older") as caught:
        table.scan(snapshot=123)
    assert all((str(one) in str(caught.value)) == (place >= 2) for place, one in enumerate(made))


def test_unknown_columns_are_told_together() -> None:
    lake = floe.connect("memory:")
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id bigint")
    with pytest.raises(errors.InvalidSchema) as caught:
        table.append([{"id": 1, "a": 1, "b": 2, "c": 3, "d": 4, "e": 5}])
    assert caught.value.hint == "leave a, b, c, d, e out, or pass merge_schema=True to add them"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="only Linux has /proc")
def test_a_folder_that_cannot_be_made_is_told() -> None:
    with pytest.raises(
        errors.AccessDenied, match=r"folder /proc/wh cannot be created: .* in /proc.*choose another location"
    ):
        floe.connect("/proc/wh").create_namespace("db")
