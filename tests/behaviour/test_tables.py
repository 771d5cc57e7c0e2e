"""Tables: made, found, renamed, registered, replaced, dropped."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import floe
from floe import Lake, Schema, Table, errors
from floe.catalog.protocol import Capability
from floe.spec.types import LONG, STRING, Field
from helpers.synthetic_files import data_file, live


def test_a_new_table_is_empty(orders: Table, version: int) -> None:
    assert orders.format_version == version
    assert orders.current_snapshot is None
    assert orders.snapshots == ()
    assert dict(orders.refs) == {}
    assert orders.history() == ()
    assert live(orders) == []


def test_a_table_is_found_again_as_it_was_made(orders: Table, reconnect: Callable[[], Lake]) -> None:
    found = reconnect().table("db.orders")
    assert found.metadata == orders.metadata
    assert found.metadata_location == orders.metadata_location
    assert found.uuid == orders.uuid
    assert found.name == "db.orders"


def test_columns_partitions_order_and_properties_are_as_asked(lake: Lake, version: int) -> None:
    table = lake.create_table(
        "db.t",
        "order_id bigint not null, customer string comment 'who', ts timestamptz, primary key (order_id)",
        partition_by=["day(ts)", "bucket(16, order_id)"],
        sort_by=["ts desc", "customer nulls last"],
        format_version=version,
        properties={"owner": "me", "write.delete.mode": "merge-on-read", "commit.retry.num-retries": 7},
    )
    assert [(f.id, f.name, f.required) for f in table.schema] == [
        (1, "order_id", True),
        (2, "customer", False),
        (3, "ts", False),
    ]
    assert table.schema.field("customer").doc == "who"
    assert table.schema.identifier_names == ("order_id",)
    assert str(table.spec) == "[1000: ts_day: day(3), 1001: order_id_bucket: bucket[16](1)]"
    assert str(table.sort_order) == "[identity(3) desc nulls-last, identity(2) asc nulls-last]"
    assert table.properties["owner"] == "me"
    assert table.properties["commit.retry.num-retries"] == "7"


def test_columns_can_be_given_in_three_ways(lake: Lake) -> None:
    text = lake.create_table("db.a", "id bigint not null, name string")
    values = lake.create_table("db.b", Schema((Field(7, "id", LONG, required=True), Field(3, "name", STRING))))
    arrow = lake.create_table(
        "db.c", pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    )
    assert text.schema.fields == values.schema.fields == arrow.schema.fields


def test_terms_may_be_one_text(lake: Lake) -> None:
    table = lake.create_table("db.t", "id bigint, ts timestamp", partition_by="day(ts)", sort_by="id desc")
    assert len(table.spec.fields) == 1
    assert len(table.sort_order.fields) == 1


def test_the_default_format_version_is_2(lake: Lake) -> None:
    assert lake.create_table("db.t", "id bigint").format_version == 2


def test_a_table_is_made_once(lake: Lake, orders: Table) -> None:
    with pytest.raises(errors.TableAlreadyExists, match=r"db\.orders"):
        lake.create_table("db.orders", "other int")
    again = lake.create_table("db.orders", "other int", if_not_exists=True)
    assert again.uuid == orders.uuid
    assert again.schema == orders.schema


def test_a_table_needs_a_namespace(lake: Lake) -> None:
    with pytest.raises(errors.NoSuchNamespace, match="nowhere"):
        lake.create_table("nowhere.t", "id bigint")
    with pytest.raises(errors.NoSuchNamespace, match="nowhere"):
        lake.create_table("nowhere.t", data=pa.table({"id": [1]}))
    assert not lake.namespace_exists("nowhere")
    with pytest.raises(errors.InvalidName, match="namespace"):
        lake.create_table("t", "id bigint")


def test_a_missing_table_tells_which_there_are(lake: Lake, orders: Table) -> None:
    with pytest.raises(errors.NoSuchTable, match=r"db\.orders"):
        lake.table("db.order")
    with pytest.raises(errors.NoSuchTable, match=r"namespace dc; .* db$"):
        lake.table("dc.orders")
    assert not lake.table_exists("db.order")
    assert lake.table_exists("db.orders")


def test_a_view_is_no_table(lake: Lake) -> None:
    lake.create_view("db.v", "SELECT 1 AS one", schema="one int")
    with pytest.raises(errors.NoSuchTable, match="view"):
        lake.table("db.v")
    assert not lake.table_exists("db.v")


def test_tables_are_listed_by_namespace_or_all(lake: Lake) -> None:
    lake.create_namespace("other.deep")
    for name in ("db.b", "db.a", "other.deep.c"):
        lake.create_table(name, "id bigint")
    assert lake.tables("db") == ["db.a", "db.b"]
    assert lake.tables("other") == []
    assert lake.tables() == ["db.a", "db.b", "other.deep.c"]


def test_a_lake_works_like_a_dictionary(lake: Lake, orders: Table) -> None:
    assert "db.orders" in lake
    assert "db.none" not in lake
    assert 5 not in lake
    assert lake["db.orders"].uuid == orders.uuid
    assert lake._ipython_key_completions_() == ["db.orders"]


IMPOSSIBLE: list[tuple[str, dict[str, Any], type[errors.FloeError]]] = [
    ("id bigint, id int", {}, errors.InvalidSchema),
    ("id quux", {}, errors.InvalidSchema),
    ("_file string", {}, errors.InvalidSchema),
    ("id bigint", {"partition_by": ["day(id)"]}, errors.InvalidPartitionSpec),
    ("id bigint", {"partition_by": ["nope"]}, errors.NoSuchColumn),
    ("id bigint", {"sort_by": ["nope"]}, errors.NoSuchColumn),
    ("id bigint", {"format_version": 4}, errors.UnsupportedFeature),
    ("id bigint", {"format_version": 0}, errors.FloeError),
    ("v variant", {"format_version": 2}, errors.InvalidSchema),
    ("id int default 5", {"format_version": 2}, errors.InvalidSchema),
    ("id bigint", {"properties": {"commit.retry.num-retries": "many"}}, errors.InvalidUpdate),
    ("id bigint", {"properties": {"a": None}}, errors.InvalidInput),
]


def test_a_table_that_cannot_be_is_not_made(lake: Lake) -> None:
    for columns, more, error in IMPOSSIBLE:
        with pytest.raises(error):
            lake.create_table("db.t", columns, **more)
        assert not lake.table_exists("db.t")
    lake.create_table("db.t", "id bigint")


def test_version_3_brings_its_types_and_defaults(lake: Lake) -> None:
    table = lake.create_table(
        "db.t", "id int not null default 5, at timestamp_ns, v variant, g geometry", format_version=3
    )
    assert table.schema.field("id").write_default == 5
    assert table.schema.field("at").type.kind == "timestamp_ns"


def test_a_table_is_dropped(lake: Lake, orders: Table) -> None:
    orders.append_files([data_file(orders, "a", write=True)])
    (path,) = orders.scan().files()
    lake.drop_table("db.orders")
    assert not lake.table_exists("db.orders")
    assert orders.storage.exists(path), "without purge no data file is deleted"
    with pytest.raises(errors.NoSuchTable):
        lake.drop_table("db.orders")
    lake.drop_table("db.orders", if_exists=True)


def test_a_purged_tables_files_are_gone(lake: Lake, orders: Table) -> None:
    orders.append_files([data_file(orders, "a", write=True)])
    orders.append_files([data_file(orders, "b", write=True)])
    paths = orders.scan().files()
    lake.purge_table("db.orders")
    assert not lake.table_exists("db.orders")
    assert [path for path in paths if orders.storage.exists(path)] == []
    assert list(orders.storage.list(orders.location)) == []


def test_a_table_that_shares_its_files_is_not_purged(lake: Lake, orders: Table) -> None:
    orders.append_files([data_file(orders, "a", write=True)])
    (path,) = orders.scan().files()
    orders.set_properties({"gc.enabled": False})
    with pytest.raises(errors.FloeError, match=r"gc\.enabled"):
        lake.purge_table("db.orders")
    assert lake.table_exists("db.orders")
    assert orders.storage.exists(path)


def test_a_dropped_name_is_free_for_another_table(lake: Lake, orders: Table) -> None:
    orders.append_files([data_file(orders, "a")])
    lake.drop_table("db.orders", purge=True)
    other = lake.create_table("db.orders", "id bigint not null, other string")
    assert other.uuid != orders.uuid
    assert live(other) == []


def test_a_table_object_outlived_by_its_name_changes_nothing(lake: Lake, orders: Table) -> None:
    lake.drop_table("db.orders", purge=True)
    lake.create_table("db.orders", "id bigint not null, day date")
    with pytest.raises(errors.FloeError):
        orders.set_properties({"owner": "me"})
    assert "owner" not in lake.table("db.orders").properties


def test_changing_a_dropped_table_says_so(lake: Lake, orders: Table) -> None:
    lake.drop_table("db.orders", purge=True)
    with pytest.raises(errors.NoSuchTable, match=r"db\.orders"):
        orders.append_files([data_file(orders, "a")])
    with pytest.raises(errors.NoSuchTable):
        orders.refresh()


def test_a_table_is_renamed_with_its_history(lake: Lake, orders: Table) -> None:
    orders.append_files([data_file(orders, "a")])
    lake.create_namespace("other")
    if Capability.RENAME not in lake.capabilities:
        with pytest.raises(errors.UnsupportedFeature):
            lake.rename_table("db.orders", "other.o2")
        return
    renamed = lake.rename_table("db.orders", "other.o2")
    assert renamed.name == "other.o2"
    assert renamed.uuid == orders.uuid
    assert live(renamed) == ["a"]
    assert not lake.table_exists("db.orders")
    renamed.append_files([data_file(renamed, "b")])
    assert live(lake.table("other.o2")) == ["a", "b"]


def test_a_rename_takes_nobodys_name(lake: Lake, orders: Table) -> None:
    if Capability.RENAME not in lake.capabilities:
        pytest.skip("this catalog cannot rename")
    lake.create_table("db.taken", "id bigint")
    with pytest.raises(errors.TableAlreadyExists):
        lake.rename_table("db.orders", "db.taken")
    with pytest.raises(errors.NoSuchTable):
        lake.rename_table("db.none", "db.free")
    with pytest.raises(errors.NoSuchNamespace):
        lake.rename_table("db.orders", "nowhere.o2")
    assert lake.table_exists("db.orders")


def test_a_metadata_file_is_registered_as_a_table(lake: Lake, orders: Table) -> None:
    orders.append_files([data_file(orders, "a")])
    where = orders.metadata_location
    if Capability.REGISTER_ANYWHERE not in lake.capabilities:
        with pytest.raises(errors.FloeError):
            lake.register_table("db.copy", where)
        return
    copy = lake.register_table("db.copy", where)
    assert copy.uuid == orders.uuid
    assert live(copy) == ["a"]
    with pytest.raises(errors.TableAlreadyExists):
        lake.register_table("db.copy", where)
    with pytest.raises(errors.FloeError):
        lake.register_table("db.other", where + ".missing")


def test_a_table_may_have_a_place_of_its_own(lake: Lake, version: int) -> None:
    if Capability.CUSTOM_LOCATIONS not in lake.capabilities:
        with pytest.raises(errors.UnsupportedFeature, match="location"):
            lake.create_table("db.t", "id bigint", location="memory:elsewhere/t")
        return
    table = lake.create_table("db.t", "id bigint not null", location="memory:elsewhere/t", format_version=version)
    assert table.location == "memory:elsewhere/t"
    assert table.metadata_location.startswith("memory:elsewhere/t/metadata/")
    table.append_files([data_file(table, "a")])
    assert live(lake.table("db.t")) == ["a"]


# replacing ------------------------------------------------------------------------------------------------------------


def test_a_replaced_table_is_empty_and_keeps_its_history(lake: Lake, orders: Table) -> None:
    first = orders.append_files([data_file(orders, "a")])
    assert first is not None
    new = lake.replace_table("db.orders", "note string, id bigint not null", properties={"owner": "me"})
    assert new.uuid == orders.uuid
    assert [(f.name, f.id) for f in new.schema] == [("note", 4), ("id", 1)]
    assert new.current_snapshot is None
    assert live(new) == []
    assert live(new, snapshot=first.snapshot_id) == ["a"]
    assert new.properties["owner"] == "me"


def test_a_replaced_table_can_be_rolled_back(lake: Lake, orders: Table) -> None:
    first = orders.append_files([data_file(orders, "a")])
    assert first is not None
    new = lake.replace_table("db.orders", "id bigint not null")
    new.set_current(first.snapshot_id)
    assert live(lake.table("db.orders")) == ["a"]


def test_only_a_table_that_is_there_is_replaced(lake: Lake) -> None:
    with pytest.raises(errors.NoSuchTable):
        lake.replace_table("db.none", "id bigint")


def test_create_or_replace_does_either(lake: Lake, version: int) -> None:
    made = lake.create_or_replace_table("db.t", "id bigint not null", format_version=version)
    made.append_files([data_file(made, "a")])
    replaced = lake.create_or_replace_table("db.t", "id bigint not null, name string", partition_by=["name"])
    assert replaced.uuid == made.uuid
    assert replaced.format_version == version
    assert live(replaced) == []
    assert len(replaced.snapshots) == 1


# without a catalog ----------------------------------------------------------------------------------------------------


def test_a_folder_of_a_warehouse_is_opened_and_written(lake: Lake, orders: Table, kind: str) -> None:
    if kind != "files":
        pytest.skip("only tables in folders of Hadoop's layout can be committed to without a catalog")
    orders.append_files([data_file(orders, "a")])
    opened = floe.open(orders.location, durable=False)
    assert live(opened) == ["a"]
    opened.append_files([data_file(opened, "b")])
    assert live(lake.table("db.orders")) == ["a", "b"]


def test_a_metadata_file_is_opened_to_be_read(orders: Table) -> None:
    orders.append_files([data_file(orders, "a")])
    where = orders.metadata_location
    orders.append_files([data_file(orders, "b")])
    opened = floe.open(where, storage=orders.storage)
    assert live(opened) == ["a"]
    with pytest.raises(errors.UnsupportedFeature, match="can only be read"):
        opened.set_properties({"owner": "me"})


# what it says about itself --------------------------------------------------------------------------------------------


def test_a_table_and_a_lake_tell_what_they_are(lake: Lake, orders: Table) -> None:
    orders.append_files([data_file(orders, "a", (1, 1234))])
    text = repr(orders)
    for words in ("db.orders", f"format version {orders.format_version}", "id      long not null", "1,234 rows"):
        assert words in text
    assert "partitions  day" in text
    assert orders._repr_html_().startswith("<div><b>db.orders</b>")
    assert lake.name in repr(lake)
    assert lake.name in lake._repr_html_()


def test_showing_a_table_reads_nothing(lake: Lake, orders: Table) -> None:
    lake.drop_table("db.orders", purge=True)
    assert "db.orders" in repr(orders)


def test_history_tells_when_what_was_current(orders: Table) -> None:
    orders.append_files([data_file(orders, "a")])
    orders.append_files([data_file(orders, "b")])
    entries = orders.history()
    assert [entry.operation for entry in entries] == ["append", "append"]
    assert entries[0].made_current_at < entries[1].made_current_at
    assert entries[0].made_current_at.tzinfo is dt.UTC
    assert "append" in str(entries[0])
