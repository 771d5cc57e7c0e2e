"""Columns, partitioning, order, properties, location and version of a table that lives."""

import json
import warnings
from collections.abc import Callable

import pyarrow as pa
import pytest

from floe import Lake, Table, errors
from floe.spec.metadata.table_metadata import PartitionStatisticsFile, StatisticsFile
from floe.table.evolution import SchemaEvolution
from helpers.synthetic_files import DAY, data_file, live


def columns(table: Table) -> list[tuple[int, str, str]]:
    return [(f.id, f.name, str(f.type)) for f in table.schema]


# columns --------------------------------------------------------------------------------------------------------------


def test_columns_are_added_renamed_moved_widened_and_dropped(orders: Table, reconnect: Callable[[], Lake]) -> None:
    (
        orders.evolve()
        .add_column("customer", "string", after="id", doc="who")
        .rename_column("amount", "total")
        .promote("total", "decimal(12, 2)")
        .move_column("note", first=True)
        .commit()
    )
    expected = [
        (4, "note", "string"),
        (1, "id", "long"),
        (5, "customer", "string"),
        (2, "day", "date"),
        (3, "total", "decimal(12, 2)"),
    ]
    assert columns(orders) == expected
    assert columns(reconnect().table("db.orders")) == expected
    orders.evolve().drop_column("customer").commit()
    assert "customer" not in [name for _, name, _ in columns(orders)]


def test_a_dropped_columns_id_is_never_used_again(orders: Table) -> None:
    orders.evolve().drop_column("note").commit()
    orders.evolve().add_column("note", "string").commit()
    assert orders.schema.field("note").id == 5


def test_nested_columns(orders: Table) -> None:
    orders.evolve().add_column("who", "struct<name: string, tags: array<string>>").commit()
    orders.evolve().add_column("who.age", "int", after="name").rename_column("who.name", "full_name").commit()
    assert str(orders.schema.field("who").type).count("optional") == 3
    assert orders.schema.field("who.age").id > orders.schema.field("who.tags.element").id


def test_a_with_block_commits_at_its_end(orders: Table) -> None:
    with orders.evolve() as evolution:
        evolution.add_column("extra", "int")
        assert "extra" in [f.name for f in evolution.schema]
        assert not orders.schema.has("extra")
    assert orders.schema.has("extra")


def test_a_with_block_that_raises_commits_nothing(lake: Lake, orders: Table) -> None:
    def stop() -> None:
        with orders.evolve() as evolution:
            evolution.add_column("extra", "int")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        stop()
    assert not lake.table("db.orders").schema.has("extra")


SPOILING: list[tuple[Callable[[SchemaEvolution], object], type[errors.FloeError]]] = [
    (lambda e: e.add_column("id", "int"), errors.InvalidSchema),
    (lambda e: e.add_column("x", "quux"), errors.InvalidSchema),
    (lambda e: e.drop_column("nope"), errors.NoSuchColumn),
    (lambda e: e.drop_column("day"), errors.IncompatibleChange),
    (lambda e: e.rename_column("note", "id"), errors.InvalidSchema),
    (lambda e: e.promote("amount", "int"), errors.IncompatibleChange),
    (lambda e: e.promote("id", "int"), errors.IncompatibleChange),
    (lambda e: e.require("note"), errors.IncompatibleChange),
    (lambda e: e.add_column("x", "int", required=True), errors.IncompatibleChange),
    (lambda e: e.set_identifier_fields("note"), errors.InvalidSchema),
    (lambda e: e.add_column("x", "int", first=True, after="id"), errors.InvalidInput),
]


def test_changes_that_would_spoil_data_are_refused(lake: Lake, orders: Table) -> None:
    before = columns(orders)
    for step, error in SPOILING:
        with pytest.raises(error), orders.evolve() as evolution:
            step(evolution)
    assert columns(lake.table("db.orders")) == before


def test_after_a_failed_step_nothing_more_is_taken(orders: Table) -> None:
    evolution = orders.evolve().add_column("good", "int")
    with pytest.raises(errors.NoSuchColumn):
        evolution.drop_column("nope")
    with pytest.raises(errors.InvalidInput, match="SchemaEvolution"):
        evolution.commit()
    assert not orders.schema.has("good")


def test_incompatible_changes_can_be_allowed(orders: Table) -> None:
    orders.evolve(allow_incompatible=True).require("note").commit()
    assert orders.schema.field("note").required
    orders.evolve().make_optional("note").commit()
    assert orders.schema.field("note").optional


def test_docs_and_keys(orders: Table) -> None:
    orders.evolve().set_doc("id", "the key").set_identifier_fields("id").commit()
    assert orders.schema.field("id").doc == "the key"
    assert orders.schema.identifier_names == ("id",)


def test_names_without_regard_to_case(orders: Table) -> None:
    with pytest.raises(errors.NoSuchColumn):
        orders.evolve().rename_column("NOTE", "remark")
    orders.evolve(case_sensitive=False).rename_column("NOTE", "remark").commit()
    assert orders.schema.has("remark")


def test_columns_of_another_schema_are_taken_in(orders: Table) -> None:
    orders.evolve().union_by_name("id bigint, extra array<int>").commit()
    orders.evolve().union_by_name(pa.schema({"amount": pa.decimal128(20, 2)})).commit()
    assert orders.schema.has("extra.element")
    assert str(orders.schema.field("amount").type) == "decimal(20, 2)"


def test_defaults_need_version_3(orders: Table, version: int) -> None:
    if version < 3:
        with pytest.raises(errors.InvalidSchema, match="format version 3"):
            orders.evolve().add_column("n", "int", default=7)
        return
    orders.evolve().add_column("n", "int", required=True, default=7).commit()
    orders.evolve().set_default("n", 8).commit()
    field = orders.schema.field("n")
    assert (field.initial_default, field.write_default) == (7, 8)


def test_a_change_of_nothing_is_no_commit(orders: Table) -> None:
    before = orders.metadata_location
    orders.evolve().commit()
    orders.evolve().add_column("x", "int").drop_column("x").commit()
    assert orders.metadata_location == before


def test_changes_that_are_forgotten_are_told(orders: Table) -> None:
    with pytest.warns(UserWarning, match="never committed"):
        orders.evolve().add_column("x", "int")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        orders.evolve()
    assert not orders.schema.has("x")


def test_files_of_before_are_found_after_a_change(orders: Table) -> None:
    orders.append_files([data_file(orders, "a", (1, 10))])
    orders.evolve().rename_column("id", "order_id").commit()
    assert live(orders, where="order_id = 5") == ["a"]
    assert live(orders, where="order_id = 50") == []


def test_settings_of_columns_go_where_their_column_goes(orders: Table) -> None:
    metrics = "write.metadata.metrics.column."
    orders.set_properties({f"{metrics}note": "full", f"{metrics}id": "none", f"{metrics}amount": "counts"})
    orders.evolve().rename_column("note", "remark").drop_column("amount").commit()
    found = {name.removeprefix(metrics): v for name, v in orders.properties.items() if name.startswith(metrics)}
    assert found == {"remark": "full", "id": "none"}


def test_settings_follow_columns_that_swap_their_names(orders: Table) -> None:
    metrics = "write.metadata.metrics.column."
    orders.set_properties({f"{metrics}note": "full", f"{metrics}amount": "counts"})
    orders.evolve().rename_column("note", "amount").rename_column("amount", "note").commit()
    assert (orders.properties[f"{metrics}amount"], orders.properties[f"{metrics}note"]) == ("full", "counts")


def test_the_name_mapping_learns_new_names(orders: Table) -> None:
    mapping = '[{"field-id":1,"names":["id"]},{"field-id":4,"names":["note"]}]'
    orders.set_properties({"schema.name-mapping.default": mapping})
    orders.evolve().rename_column("note", "remark").add_column("extra", "int").commit()
    found = {m["field-id"]: set(m["names"]) for m in json.loads(orders.properties["schema.name-mapping.default"])}
    assert found == {1: {"id"}, 4: {"note", "remark"}, 5: {"extra"}}


def test_a_broken_name_mapping_stops_nobody(orders: Table) -> None:
    orders.set_properties({"schema.name-mapping.default": "{"})
    orders.evolve().add_column("extra", "int").commit()
    assert orders.properties["schema.name-mapping.default"] == "{"
    assert orders.schema.has("extra")


# partitioning ---------------------------------------------------------------------------------------------------------


def test_the_partitioning_changes_for_new_files_only(orders: Table, version: int) -> None:
    orders.append_files([data_file(orders, "old", day=DAY)])
    orders.update_spec().add_field("bucket(4, id)").commit()
    assert [f.name for f in orders.spec.fields] == ["day", "id_bucket_4"]
    new = data_file(orders, "new", day=DAY)
    orders.append_files([new])
    assert live(orders) == ["new", "old"]
    assert {row["spec_id"] for row in orders.inspect.files(columns=["spec_id"]).to_pylist()} == {0, 1}
    assert live(orders, where="day = '2024-05-17'") == ["new", "old"]


def test_a_partition_field_is_removed_and_comes_back(orders: Table, version: int) -> None:
    orders.update_spec().remove_field("day").commit()
    shown = [f.name for f in orders.spec.fields if str(f.transform) != "void"]
    assert shown == []
    assert len(orders.spec.fields) == (1 if version == 1 else 0), "v1 keeps the place"
    orders.update_spec().add_field("day").commit()
    assert [str(f.transform) for f in orders.spec.fields][-1] == "identity"


def test_a_partition_field_is_renamed(orders: Table) -> None:
    orders.update_spec().rename_field("day", "the_day").commit()
    assert [f.name for f in orders.spec.fields] == ["the_day"]


def test_partitionings_that_cannot_be(orders: Table) -> None:
    wrong = {
        "day(note)": errors.InvalidPartitionSpec,
        "nope": errors.NoSuchColumn,
        "day": errors.InvalidPartitionSpec,
        "frob(id)": errors.InvalidPartitionSpec,
    }
    for term, error in wrong.items():
        with pytest.raises(error), orders.update_spec() as update:
            update.add_field(term)
    assert orders.spec.spec_id == 0


def test_the_same_partitioning_is_no_new_one(orders: Table) -> None:
    before = orders.metadata_location
    orders.update_spec().remove_field("day").add_field("day").commit()
    assert orders.metadata_location == before


# order, properties, location, version ---------------------------------------------------------------------------------


def test_the_sort_order_changes(orders: Table, reconnect: Callable[[], Lake]) -> None:
    orders.update_sort("day desc", "id nulls last")
    found = reconnect().table("db.orders")
    assert str(found.sort_order) == "[identity(2) desc nulls-last, identity(1) asc nulls-last]"
    orders.update_sort()
    assert orders.sort_order.is_unsorted
    orders.update_sort("day desc", "id nulls last")
    assert orders.sort_order.order_id == 1, "an order that was there before is taken again"
    with pytest.raises(errors.NoSuchColumn):
        orders.update_sort("nope")


def test_properties_are_set_and_removed(orders: Table, reconnect: Callable[[], Lake]) -> None:
    orders.set_properties({"owner": "me", "n": 5, "flag": True})
    orders.remove_properties("owner", "never-there")
    found = reconnect().table("db.orders").properties
    assert "owner" not in found
    assert (found["n"], found["flag"]) == ("5", "true")


def test_what_shows_the_tables_state_is_no_property(orders: Table) -> None:
    for name in ("uuid", "current-snapshot-id", "snapshot-count"):
        with pytest.raises(errors.InvalidUpdate, match=name):
            orders.set_properties({name: "x"})


def test_a_property_must_be_text(orders: Table) -> None:
    with pytest.raises(errors.InvalidUpdate, match="text"):
        orders.set_properties({"a": None})


def test_setting_what_is_set_is_no_commit(orders: Table) -> None:
    orders.set_properties({"owner": "me"})
    before = orders.metadata_location
    orders.set_properties({"owner": "me"})
    assert orders.metadata_location == before


def test_the_format_version_goes_up_only(orders: Table, version: int) -> None:
    orders.append_files([data_file(orders, "a")])
    orders.upgrade(3)
    assert orders.format_version == 3
    orders.append_files([data_file(orders, "b")])
    assert live(orders) == ["a", "b"]
    with pytest.raises(errors.InvalidUpdate, match="3"):
        orders.upgrade(2)
    with pytest.raises(errors.UnsupportedFeature):
        orders.upgrade(4)


def test_rows_get_ids_after_the_upgrade_to_version_3(orders: Table, version: int) -> None:
    orders.append_files([data_file(orders, "a", (1, 10))])
    orders.upgrade(3)
    orders.append_files([data_file(orders, "b", (11, 15))])
    starts = sorted(row["first_row_id"] for row in orders.inspect.files().to_pylist())
    assert len(set(starts)) == 2
    assert orders.metadata.next_row_id == 15


def test_the_location_changes_for_new_files(orders: Table, lake: Lake, kind: str) -> None:
    if kind == "files":
        with pytest.raises(errors.FloeError):
            orders.set_location("/elsewhere")
        return
    orders.append_files([data_file(orders, "a")])
    orders.set_location("memory:elsewhere/orders")
    orders.append_files([data_file(orders, "b")])
    found = lake.table("db.orders")
    assert found.location == "memory:elsewhere/orders"
    assert live(found) == ["a", "b"]
    assert found.metadata_location.startswith("memory:elsewhere/orders/metadata/")


def test_statistics_are_registered_and_forgotten(orders: Table) -> None:
    snapshot = orders.append_files([data_file(orders, "a")])
    assert snapshot is not None
    i = snapshot.snapshot_id
    file = StatisticsFile(
        snapshot_id=i, statistics_path="s.puffin", file_size_in_bytes=9, file_footer_size_in_bytes=4, blob_metadata=()
    )
    partition = PartitionStatisticsFile(snapshot_id=i, statistics_path="p.parquet", file_size_in_bytes=9)
    orders.update_statistics([file, partition])
    assert orders.metadata.statistics == (file,)
    assert orders.metadata.partition_statistics == (partition,)
    orders.update_statistics(forget=[i], forget_partition=[i])
    assert orders.metadata.statistics == orders.metadata.partition_statistics == ()


def test_every_change_leaves_a_metadata_file_in_the_log(orders: Table) -> None:
    first = orders.metadata_location
    orders.set_properties({"a": "1"})
    orders.set_properties({"a": "2"})
    log = [entry.metadata_file for entry in orders.metadata.metadata_log]
    assert log[0] == first
    assert len(log) == 2
    assert all(orders.storage.exists(file) for file in log)


def test_old_metadata_files_are_cleaned_as_the_properties_say(orders: Table) -> None:
    orders.set_properties(
        {"write.metadata.previous-versions-max": 2, "write.metadata.delete-after-commit.enabled": True}
    )
    for n in range(4):
        orders.set_properties({"n": n})
    files = [f for f in orders.storage.list(orders.location) if f.location.endswith(".metadata.json")]
    assert len(orders.metadata.metadata_log) == 2
    assert len(files) == 3
