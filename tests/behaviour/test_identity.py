"""A table is what its uuid says, not its name: an object of one that is gone never touches another in its place."""

import datetime as dt
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from floe import Lake, Table, errors
from floe.catalog.protocol import Capability
from floe.spec.metadata.table_metadata import StatisticsFile
from floe.table.table import TableBranch
from floe.table.transaction import Transaction
from floe.table.view import View
from floe.table.writer import Stage
from helpers.synthetic_files import data_file

COLUMNS = "id bigint not null, day date, note string"
DAY = dt.date(2024, 5, 17)
ROWS = [{"id": n, "day": DAY, "note": "x"} for n in range(3)]

Operation = Callable[[Any, Table], object]
"""What is done, to a table or a branch or in a transaction; and the table, for what it holds."""

ROW_OPERATIONS: dict[str, Operation] = {
    "append": lambda to, t: to.append(ROWS),
    "overwrite": lambda to, t: to.overwrite(ROWS[:1]),
    "overwrite where": lambda to, t: to.overwrite(ROWS[:1], where="id = 0"),
    "overwrite_partitions": lambda to, t: to.overwrite_partitions(ROWS[:1]),
    "delete": lambda to, t: to.delete("id = 1"),
    "delete metadata_only": lambda to, t: to.delete("true", metadata_only=True),
    "update": lambda to, t: to.update({"note": "'y'"}, where="id = 1"),
    "upsert": lambda to, t: to.upsert([{"id": 1, "day": DAY, "note": "z"}], on="id"),
    "merge": lambda to, t: to.merge(ROWS[:1], on=["id"]).when_matched_delete().execute(),
    "add_files": lambda to, t: to.add_files(t.scan().files(), check_duplicates=False),
    "append_files": lambda to, t: to.append_files([data_file(t, "new")]),
    "overwrite_files": lambda to, t: to.overwrite_files([data_file(t, "new")], where="true"),
    "replace_partitions": lambda to, t: to.replace_partitions([data_file(t, "new")]),
    "delete_files": lambda to, t: to.delete_files(t.scan().files()),
    "rewrite_files": lambda to, t: to.rewrite_files([data_file(t, "known")], [data_file(t, "new")]),
    "row_delta": lambda to, t: to.row_delta([data_file(t, "new")]),
    "rewrite_manifests": lambda to, t: to.rewrite_manifests(),
}

TABLE_OPERATIONS: dict[str, Operation] = {
    "set_properties": lambda to, t: to.set_properties({"owner": "me"}),
    "remove_properties": lambda to, t: to.remove_properties("owner"),
    "set_location": lambda to, t: to.set_location(t.location + "-moved"),
    "upgrade": lambda to, t: to.upgrade(3),
    "update_schema": lambda to, t: to.update_schema().add_column("more", "string").commit(),
    "evolve": lambda to, t: to.evolve().add_column("more", "string").commit(),
    "update_spec": lambda to, t: to.update_spec().add_field("bucket(4, id)").commit(),
    "update_sort_order": lambda to, t: to.update_sort_order("id desc"),
    "update_sort": lambda to, t: to.update_sort("id desc"),
    "update_statistics": lambda to, t: to.update_statistics([statistics_file(t)]),
    "create_branch": lambda to, t: to.create_branch("other"),
    "create_tag": lambda to, t: to.create_tag("other-tag"),
    "replace_branch": lambda to, t: to.replace_branch("audit", first(t)),
    "replace_tag": lambda to, t: to.replace_tag("eom", last(t)),
    "rename_branch": lambda to, t: to.rename_branch("audit", "checked"),
    "drop_branch": lambda to, t: to.drop_branch("audit"),
    "drop_tag": lambda to, t: to.drop_tag("eom"),
    "set_retention": lambda to, t: to.set_retention("audit", min_snapshots=3),
    "rollback": lambda to, t: to.rollback(first(t)),
    "set_current": lambda to, t: to.set_current(first(t)),
    "fast_forward": lambda to, t: to.fast_forward("audit", "main"),
    "cherry_pick": lambda to, t: to.cherry_pick(staged(t)),
    "publish": lambda to, t: to.publish("nightly"),
}

AT_ONCE: dict[str, Operation] = {
    "refresh": lambda to, t: to.refresh(),
    "compute_statistics": lambda to, t: to.compute_statistics(),
    "expire": lambda to, t: to.expire(older_than="1s", retain_last=1).apply(),
    "expire plan": lambda to, t: to.expire(older_than="1s", retain_last=1).plan(),
}
"""What only a table does."""

BRANCH_OPERATIONS: dict[str, Operation] = {
    **ROW_OPERATIONS,
    "rollback": lambda to, t: to.rollback(first(t)),
    "fast_forward": lambda to, t: to.fast_forward("main"),
    "cherry_pick": lambda to, t: to.cherry_pick(staged(t)),
}

LOOKS = {"history", "snapshot", "scan", "changes", "load"}
"""What shows the state that the object holds, or none of it."""

PLACES = {"branch", "stage", "transaction", "commit", "abort"}
"""What leads to operations, or ends them; those are tried themselves."""

OPERATIONS: dict[type, dict[str, Operation]] = {
    Table: {**ROW_OPERATIONS, **TABLE_OPERATIONS, **AT_ONCE},
    TableBranch: BRANCH_OPERATIONS,
    Stage: ROW_OPERATIONS,
    Transaction: {**ROW_OPERATIONS, **TABLE_OPERATIONS},
}


def statistics_file(table: Table) -> StatisticsFile:
    return StatisticsFile(
        snapshot_id=last(table),
        statistics_path="s.puffin",
        file_size_in_bytes=9,
        file_footer_size_in_bytes=4,
        blob_metadata=(),
    )


def first(table: Table) -> int:
    return table.snapshots[0].snapshot_id


def last(table: Table) -> int:
    assert table.current_snapshot is not None
    return table.current_snapshot.snapshot_id


def staged(table: Table) -> int:
    return next(s.snapshot_id for s in table.snapshots if "wap.id" in (s.summary or {}))


def made(lake: Lake, version: int) -> Table:
    """A table with something for every operation; called again after a drop, another that looks the same."""
    table = lake.create_table(
        "db.orders", COLUMNS, partition_by=["day"], format_version=version, properties={"owner": "you"}
    )
    table.append(ROWS)
    table.create_branch("audit")
    table.create_tag("eom")
    table.append(ROWS)
    table.stage("nightly").append(ROWS)
    return table


@pytest.mark.parametrize("kind_of_place", OPERATIONS, ids=lambda place: place.__name__)
def test_every_operation_is_tried(kind_of_place: type) -> None:
    """A new operation must be listed above, and so be refused for a table that is gone."""
    public = {
        name
        for name in dir(kind_of_place)
        if not name.startswith("_") and not isinstance(inspect.getattr_static(kind_of_place, name), property)
    }
    tried = {name.partition(" ")[0] for name in OPERATIONS[kind_of_place]}
    assert tried == public - LOOKS - PLACES


def attempts(old: Table) -> Iterator[tuple[str, Callable[[], object]]]:
    for name, operation in OPERATIONS[Table].items():
        yield f"table {name}", lambda operation=operation: operation(old, old)
    for name, operation in OPERATIONS[TableBranch].items():
        yield f"branch {name}", lambda operation=operation: operation(old.branch("audit"), old)
    for name, operation in OPERATIONS[Stage].items():
        yield f"stage {name}", lambda operation=operation: operation(old.stage("nightly-2"), old)
    for name, operation in OPERATIONS[Transaction].items():

        def in_transaction(operation: Operation = operation) -> None:
            with old.transaction() as transaction:
                operation(transaction, old)

        yield f"transaction {name}", in_transaction


def test_nothing_is_done_to_another_table_of_that_name(
    lake: Lake, kind: str, reconnect: Callable[[], Lake], clock: Any
) -> None:
    version = {"files": 1, "sqlite": 2, "postgres": 3}.get(kind, 2)
    old = made(lake, version)
    theirs = reconnect()
    theirs.drop_table("db.orders")
    new = made(theirs, version)
    clock.advance(60_000)
    before = new.metadata_location
    assert new.uuid != old.uuid

    done, wrong = [], {}
    for name, attempt in attempts(old):
        try:
            attempt()
        except errors.NoSuchTable as error:
            told = str(error)
            if not all(part in told for part in ("db.orders", str(old.uuid), str(new.uuid), "load the table again")):
                wrong[name] = told
        except errors.FloeError as error:
            wrong[name] = f"{type(error).__name__}: {error}"
        else:
            done.append(name)
    assert done == []
    assert wrong == {}
    assert lake.table("db.orders").metadata_location == before, "the new table is as it was"
    assert old.uuid != new.uuid, "the object still shows the table that it was loaded as"
    assert old.scan(ref="eom").count() == len(ROWS)


def test_a_table_that_was_renamed_is_not_confused_with_a_new_one(lake: Lake, reconnect: Callable[[], Lake]) -> None:
    if Capability.RENAME not in lake.capabilities:
        pytest.skip("this catalog does not rename tables")
    old = made(lake, 2)
    theirs = reconnect()
    theirs.rename_table("db.orders", "db.kept")
    new = made(theirs, 2)
    for operation in (old.refresh, lambda: old.delete("true"), lambda: old.append(ROWS)):
        with pytest.raises(errors.NoSuchTable, match=rf"{old.uuid}.*{new.uuid}"):
            operation()
    assert lake.table("db.kept").scan().count() == lake.table("db.orders").scan().count()
    assert lake.table("db.kept").uuid == old.uuid


def test_a_table_made_anew_between_plan_and_apply_keeps_its_snapshots(lake: Lake, clock: Any) -> None:
    old = made(lake, 2)
    clock.advance(60_000)
    expiry = old.expire(older_than="1s", retain_last=1)
    plan = expiry.plan()
    assert plan.snapshots
    lake.drop_table("db.orders")
    new = made(lake, 2)
    with pytest.raises(errors.NoSuchTable, match=str(old.uuid)):
        expiry.apply(plan)
    theirs = new.expire(older_than="1s", retain_last=1)
    with pytest.raises(errors.InvalidInput, match=rf"{old.uuid}.*{new.uuid}"):
        theirs.apply(plan)
    with pytest.raises(errors.InvalidInput, match=rf"{new.uuid}.*{old.uuid}"):
        expiry.apply(theirs.plan())
    assert len(lake.table("db.orders").snapshots) == len(new.snapshots)


def test_a_transaction_of_several_tables(lake: Lake, reconnect: Callable[[], Lake]) -> None:
    if Capability.SEVERAL_TABLES not in lake.capabilities:
        pytest.skip("this catalog commits to one table at a time")
    old = made(lake, 2)
    lake.create_table("db.other", "id bigint")
    both = lake.transaction()
    both.table("db.orders").set_properties({"owner": "me"})
    both.table("db.other").set_properties({"owner": "me"})
    theirs = reconnect()
    theirs.drop_table("db.orders")
    made(theirs, 2)
    with pytest.raises(errors.NoSuchTable, match=str(old.uuid)):
        both.commit()
    assert lake.table("db.orders").properties["owner"] == "you"
    assert "owner" not in lake.table("db.other").properties


def test_a_table_made_anew_while_it_is_replaced(lake: Lake, reconnect: Callable[[], Lake]) -> None:
    old = made(lake, 2)
    replacing = lake.create_table_transaction("db.orders", "other string", or_replace=True)
    theirs = reconnect()
    theirs.drop_table("db.orders")
    new = made(theirs, 2)
    with pytest.raises(errors.NoSuchTable, match=str(old.uuid)):
        replacing.commit()
    assert lake.table("db.orders").schema == new.schema


VIEW_OPERATIONS: dict[str, Callable[[View], object]] = {
    "refresh": lambda view: view.refresh(),
    "replace": lambda view: view.replace("SELECT 3 AS one", schema="one int"),
    "set_properties": lambda view: view.set_properties({"owner": "me"}),
    "remove_properties": lambda view: view.remove_properties("owner"),
}


def test_every_operation_of_views_is_tried() -> None:
    public = {
        name
        for name in dir(View)
        if not name.startswith("_") and not isinstance(inspect.getattr_static(View, name), property)
    }
    assert public - {"sql"} == VIEW_OPERATIONS.keys()


def test_nothing_is_done_to_another_view_of_that_name(lake: Lake, reconnect: Callable[[], Lake]) -> None:
    def make(lake: Lake) -> View:
        return lake.create_view("db.v", "SELECT 1 AS one", schema="one int", properties={"owner": "you"})

    old = make(lake)
    theirs = reconnect()
    theirs.drop_view("db.v")
    new = make(theirs)
    for operation in VIEW_OPERATIONS.values():
        told = rf"{old.metadata.view_uuid}.*{new.metadata.view_uuid}.*db\.v.*load the view again"
        with pytest.raises(errors.NoSuchView, match=told):
            operation(old)
    assert lake.view("db.v").metadata == new.metadata
    assert old.sql() == "SELECT 1 AS one"
