"""Several changes, one commit: all or nothing, of one table and of several."""

from collections.abc import Callable

import pytest

from floe import Lake, Table, errors
from helpers.synthetic_files import data_file, live


def test_all_changes_come_at_once(orders: Table, reconnect: Callable[[], Lake]) -> None:
    before = orders.metadata_location
    with orders.transaction() as tx:
        tx.evolve().add_column("extra", "int", after="id").rename_column("amount", "total")
        tx.set_properties({"owner": "me"})
        tx.append_files([data_file(orders, "a")])
        tx.update_sort("id desc")
        assert live(reconnect().table("db.orders")) == []
    found = reconnect().table("db.orders")
    assert [f.name for f in found.schema] == ["id", "extra", "day", "total", "note"]
    assert found.properties["owner"] == "me"
    assert not found.sort_order.is_unsorted
    assert live(found) == ["a"]
    assert [entry.metadata_file for entry in found.metadata.metadata_log] == [before], "one commit"
    assert found.metadata == orders.metadata


def test_nothing_comes_if_the_block_raises(lake: Lake, orders: Table) -> None:
    before = orders.metadata_location

    def stop() -> None:
        with orders.transaction() as tx:
            tx.evolve().add_column("extra", "int")
            tx.append_files([data_file(orders, "a")])
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        stop()
    assert lake.table("db.orders").metadata_location == before
    assert orders.metadata_location == before


def test_an_empty_transaction_is_no_commit(orders: Table) -> None:
    before = orders.metadata_location
    with orders.transaction():
        pass
    assert orders.metadata_location == before


def test_pending_columns_are_seen_in_the_transaction(orders: Table) -> None:
    with orders.transaction() as tx:
        evolution = tx.evolve()
        evolution.add_column("extra", "int")
        assert tx.schema.has("extra")
        evolution.rename_column("extra", "more")
        assert tx.schema.has("more")
        assert not orders.schema.has("more")
        tx.set_properties({"owner": "me"})
        assert tx.properties["owner"] == "me"
    assert orders.schema.has("more")


def test_later_changes_build_on_earlier_ones(orders: Table) -> None:
    with orders.transaction() as tx:
        tx.evolve().add_column("ts", "timestamp")
        tx.update_spec().add_field("day(ts)")
        tx.evolve().add_column("extra", "int", after="ts")
        tx.update_sort("ts desc")
        assert [f.name for f in tx.spec.fields] == ["day", "ts_day"]
    assert [f.name for f in orders.schema] == ["id", "day", "amount", "note", "ts", "extra"]
    assert [f.name for f in orders.spec.fields] == ["day", "ts_day"]


def test_a_change_that_others_follow_is_closed(orders: Table) -> None:
    with orders.transaction() as tx:
        evolution = tx.evolve().add_column("x", "int")
        tx.set_properties({"owner": "me"})
        with pytest.raises(errors.InvalidInput, match="SchemaEvolution"):
            evolution.add_column("y", "int")
    assert orders.schema.has("x")
    assert not orders.schema.has("y")


def test_several_snapshots_in_one_transaction(orders: Table) -> None:
    a = data_file(orders, "a")
    with orders.transaction() as tx:
        tx.append_files([a])
        tx.append_files([data_file(orders, "b")])
        tx.delete_files([a])
    assert live(orders) == ["b"]
    assert [s.operation for s in orders.snapshots] == ["append", "append", "delete"]
    assert [s.parent_snapshot_id for s in orders.snapshots[1:]] == [s.snapshot_id for s in orders.snapshots[:2]]
    assert len(orders.history()) == 1, "readers saw the last one only"


def test_a_tag_on_what_the_transaction_writes(orders: Table) -> None:
    with orders.transaction() as tx:
        tx.append_files([data_file(orders, "a")])
        tx.create_tag("v1")
        tx.append_files([data_file(orders, "b")])
    assert live(orders, ref="v1") == ["a"]
    assert live(orders) == ["a", "b"]


def test_a_branch_made_and_written_in_one_transaction(orders: Table) -> None:
    orders.append_files([data_file(orders, "a")])
    with orders.transaction() as tx:
        tx.create_branch("audit")
        tx.branch("audit").append_files([data_file(orders, "b")])
    assert live(orders, ref="audit") == ["a", "b"]
    assert live(orders) == ["a"]


def test_what_cannot_be_done_is_told_at_once(lake: Lake, orders: Table) -> None:
    tx = orders.transaction()
    with pytest.raises(errors.NoSuchColumn):
        tx.update_sort("nope")
    with pytest.raises(errors.InvalidUpdate):
        orders.transaction().set_properties({"uuid": "x"})
    with pytest.raises(errors.NoSuchRef):
        orders.transaction().drop_branch("nope")


def test_a_failed_step_fails_the_transaction(lake: Lake, orders: Table) -> None:
    tx = orders.transaction()
    tx.set_properties({"owner": "me"})
    with pytest.raises(errors.NoSuchColumn):
        tx.evolve().drop_column("nope")
    with pytest.raises(errors.InvalidInput) as refused:
        tx.commit()
    assert refused.value.context["table"] == "db.orders"
    assert "owner" not in lake.table("db.orders").properties


def test_a_change_that_fails_at_the_end_takes_all_with_it(lake: Lake, orders: Table) -> None:
    orders.append_files([data_file(orders, "a")])
    tx = orders.transaction()
    tx.set_properties({"owner": "me"})
    tx.append_files([data_file(orders, "b")])
    tx.delete_files([f"{orders.location}/data/none.parquet"])
    with pytest.raises(errors.ConflictingChange):
        tx.commit()
    found = lake.table("db.orders")
    assert "owner" not in found.properties
    assert live(found) == ["a"]


def test_a_transaction_is_used_once(orders: Table) -> None:
    with orders.transaction() as tx:
        tx.set_properties({"a": "1"})
    with pytest.raises(errors.InvalidInput, match="over"):
        tx.set_properties({"b": "1"})
    with pytest.raises(errors.InvalidInput, match="over"):
        tx.commit()
    assert "closed" in repr(tx)


def test_a_transaction_may_be_committed_by_hand(orders: Table) -> None:
    tx = orders.transaction()
    tx.append_files([data_file(orders, "a")])
    assert "1 changes pending" in repr(tx)
    tx.commit()
    assert live(orders) == ["a"]


def test_what_others_did_meanwhile_is_kept(lake: Lake, orders: Table) -> None:
    with orders.transaction() as tx:
        tx.append_files([data_file(orders, "a")])
        tx.set_properties({"owner": "me"})
        other = lake.table("db.orders")
        other.append_files([data_file(other, "b")])
        other.set_properties({"team": "x"})
    assert live(orders) == ["a", "b"]
    assert (orders.properties["owner"], orders.properties["team"]) == ("me", "x")


def test_columns_that_others_changed_meanwhile_are_not_lost(lake: Lake, orders: Table) -> None:
    tx = orders.transaction()
    tx.evolve().add_column("mine", "int")
    tx.append_files([data_file(orders, "a")])
    lake.table("db.orders").evolve().add_column("theirs", "int").commit()
    with pytest.raises(errors.ConflictingChange):
        tx.commit()
    found = lake.table("db.orders")
    assert found.schema.has("theirs")
    assert not found.schema.has("mine")
    assert live(found) == []


def test_a_call_that_raises_has_no_effect(orders: Table) -> None:
    with orders.transaction() as tx:
        tx.set_properties({"owner": "me"})
        with pytest.raises(errors.NoSuchRef):
            tx.drop_branch("nope")
        tx.set_properties({"team": "x"})
    assert (orders.properties["owner"], orders.properties["team"]) == ("me", "x")


def test_a_transaction_is_aborted(orders: Table) -> None:
    with orders.transaction() as tx:
        tx.set_properties({"owner": "me"})
        tx.abort()
    assert "owner" not in orders.refresh().properties


# new tables -----------------------------------------------------------------------------------------------------------


def test_a_table_comes_with_what_is_in_it(lake: Lake, version: int) -> None:
    with lake.create_table_transaction("db.t", "id bigint not null, day date", format_version=version) as tx:
        tx.append_files([data_file(tx, "a")])
        tx.evolve().add_column("note", "string")
        tx.create_tag("v1")
        assert not lake.table_exists("db.t")
        with pytest.raises(errors.InvalidInput) as refused:
            _ = tx.table
        assert refused.value.context["table"] == "db.t"
    found = lake.table("db.t")
    assert found.uuid == tx.table.uuid
    assert live(found) == live(found, ref="v1") == ["a"]
    assert [f.name for f in found.schema] == ["id", "day", "note"]
    assert found.metadata.metadata_log == ()


def test_no_table_comes_if_the_block_raises(lake: Lake) -> None:
    def stop() -> None:
        with lake.create_table_transaction("db.t", "id bigint not null") as tx:
            tx.append_files([data_file(tx, "a")])
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        stop()
    assert not lake.table_exists("db.t")


def test_a_table_that_is_there_is_not_made_again(lake: Lake, orders: Table) -> None:
    with pytest.raises(errors.TableAlreadyExists):
        lake.create_table_transaction("db.orders", "id bigint")
    tx = lake.create_table_transaction("db.t", "id bigint not null")
    tx.append_files([data_file(tx, "mine")])
    theirs = lake.create_table("db.t", "other int")
    with pytest.raises(errors.TableAlreadyExists):
        tx.commit()
    assert lake.table("db.t").uuid == theirs.uuid


def test_a_table_is_replaced_with_what_is_in_it(lake: Lake, orders: Table) -> None:
    first = orders.append_files([data_file(orders, "old")])
    assert first is not None
    with lake.create_table_transaction("db.orders", "id bigint not null, extra int", or_replace=True) as tx:
        tx.append_files([data_file(tx, "new")])
        assert live(lake.table("db.orders")) == ["old"]
    found = lake.table("db.orders")
    assert found.uuid == orders.uuid
    assert [f.name for f in found.schema] == ["id", "extra"]
    assert live(found) == ["new"]
    assert live(found, snapshot=first.snapshot_id) == ["old"]


def test_create_or_replace_in_a_transaction_creates_too(lake: Lake) -> None:
    with lake.create_table_transaction("db.t", "id bigint not null", or_replace=True) as tx:
        tx.append_files([data_file(tx, "a")])
    assert live(lake.table("db.t")) == ["a"]


# several tables -------------------------------------------------------------------------------------------------------


@pytest.fixture
def shared(lake: Lake) -> Lake:
    if lake.catalog.shared is None:
        pytest.skip("this catalog commits to one table at a time")
    for name in ("db.a", "db.b"):
        lake.create_table(name, "id bigint not null")
    return lake


def test_a_catalog_of_folders_says_that_it_cannot(lake: Lake, kind: str) -> None:
    if kind == "files":
        with pytest.raises(errors.UnsupportedFeature, match="several tables at once"):
            lake.transaction()


def test_several_tables_change_together(shared: Lake) -> None:
    a, b = shared.table("db.a"), shared.table("db.b")
    with shared.transaction() as tx:
        tx.table("db.a").append_files([data_file(a, "x")])
        tx.table("db.b").append_files([data_file(b, "y")])
        tx.table("db.a").set_properties({"batch": "7"})
        assert live(shared.table("db.a")) == []
    assert live(a.refresh()) == ["x"]
    assert live(b.refresh()) == ["y"]
    assert a.properties["batch"] == "7"


def test_no_table_changes_if_one_cannot(shared: Lake) -> None:
    a, b = shared.table("db.a"), shared.table("db.b")
    tx = shared.transaction()
    tx.table("db.a").append_files([data_file(a, "x")])
    tx.table("db.b").delete_files([f"{b.location}/data/none.parquet"])
    with pytest.raises(errors.ConflictingChange):
        tx.commit()
    assert live(a.refresh()) == []
    assert live(b.refresh()) == []


def test_no_table_changes_if_the_block_raises(shared: Lake) -> None:
    def stop() -> None:
        with shared.transaction() as tx:
            tx.table("db.a").set_properties({"x": "1"})
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        stop()
    assert "x" not in shared.table("db.a").properties


def test_several_tables_on_what_others_did(shared: Lake) -> None:
    a, b = shared.table("db.a"), shared.table("db.b")
    with shared.transaction() as tx:
        tx.table("db.a").append_files([data_file(a, "mine")])
        tx.table("db.b").append_files([data_file(b, "mine")])
        shared.table("db.a").append_files([data_file(a, "theirs")])
    assert live(a.refresh()) == ["mine", "theirs"]
    assert live(b.refresh()) == ["mine"]


def test_a_missing_table_in_a_transaction(shared: Lake) -> None:
    with pytest.raises(errors.NoSuchTable, match=r"db\.none"):
        shared.transaction().table("db.none")


def test_one_table_is_enough(shared: Lake) -> None:
    with shared.transaction() as tx:
        tx.table("db.a").set_properties({"x": "1"})
    with shared.transaction():
        pass
    with pytest.raises(errors.InvalidInput, match="over"):
        tx.table("db.a")
    assert shared.table("db.a").properties["x"] == "1"
