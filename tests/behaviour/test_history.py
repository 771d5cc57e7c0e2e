"""Branches, tags, going back, picking, staging and time travel."""

import datetime as dt

import pytest

from floe import Lake, Table, errors
from floe.spec.metadata.snapshots import Snapshot
from floe.storage.environment import ManualClock
from helpers.synthetic_files import DAY, data_file, live


def append(table: Table, name: str) -> Snapshot:
    snapshot = table.append_files([data_file(table, name)])
    assert snapshot is not None
    return snapshot


# branches and tags ----------------------------------------------------------------------------------------------------


def test_a_tag_stays_where_it_is(lake: Lake, orders: Table) -> None:
    append(orders, "a")
    orders.create_tag("eoy")
    append(orders, "b")
    assert live(orders, ref="eoy") == ["a"]
    assert live(lake.table("db.orders"), ref="eoy") == ["a"]
    assert live(orders) == ["a", "b"]


def test_a_branch_goes_its_own_way(orders: Table) -> None:
    append(orders, "a")
    orders.create_branch("audit")
    orders.branch("audit").append_files([data_file(orders, "b")])
    append(orders, "c")
    assert live(orders) == ["a", "c"]
    assert live(orders, ref="audit") == ["a", "b"]
    assert orders.branch("audit").snapshot.snapshot_id == orders.refs["audit"].snapshot_id


def test_totals_follow_the_branch(orders: Table) -> None:
    append(orders, "a")
    orders.create_branch("audit")
    append(orders, "b")
    snapshot = orders.branch("audit").append_files([data_file(orders, "c")])
    assert snapshot is not None
    assert (snapshot.summary or {})["total-records"] == "20"


def test_refs_start_at_any_snapshot_or_ref(orders: Table) -> None:
    first = append(orders, "a")
    append(orders, "b")
    orders.create_tag("first", snapshot=first.snapshot_id)
    orders.create_branch("again", snapshot="first")
    assert orders.refs["again"].snapshot_id == first.snapshot_id
    with pytest.raises(errors.NoSuchSnapshot):
        orders.create_tag("none", snapshot=7)
    with pytest.raises(errors.NoSuchRef):
        orders.create_tag("none", snapshot="nope")


def test_refs_need_a_snapshot(orders: Table) -> None:
    with pytest.raises(errors.InvalidUpdate, match="no current snapshot"):
        orders.create_branch("audit")


def test_names_of_refs_are_taken_once(orders: Table) -> None:
    append(orders, "a")
    orders.create_tag("x")
    with pytest.raises(errors.AlreadyExists, match="'x'"):
        orders.create_branch("x")
    with pytest.raises(errors.AlreadyExists):
        orders.create_tag("x")


def test_refs_are_dropped_and_renamed(orders: Table) -> None:
    append(orders, "a")
    orders.create_tag("t")
    orders.create_branch("b")
    with pytest.raises(errors.NoSuchRef):
        orders.drop_branch("t")
    orders.drop_tag("t")
    orders.rename_branch("b", "c")
    assert set(orders.refs) == {"main", "c"}
    orders.drop_branch("c")
    with pytest.raises(errors.NoSuchRef):
        orders.drop_branch("c")
    orders.drop_branch("c", if_exists=True)


def test_main_cannot_be_dropped_or_renamed(orders: Table) -> None:
    append(orders, "a")
    with pytest.raises(errors.InvalidUpdate):
        orders.drop_branch("main")
    with pytest.raises(errors.InvalidUpdate):
        orders.rename_branch("main", "other")
    assert live(orders) == ["a"]


def test_refs_are_moved(orders: Table) -> None:
    first, second = append(orders, "a"), append(orders, "b")
    orders.create_tag("t", snapshot=first.snapshot_id, max_ref_age="30d")
    orders.replace_tag("t", second.snapshot_id)
    assert orders.refs["t"].snapshot_id == second.snapshot_id
    assert orders.refs["t"].max_ref_age_ms == 30 * 86_400_000
    orders.create_branch("b")
    orders.replace_branch("b", first.snapshot_id)
    assert live(orders, ref="b") == ["a"]


def test_retention_of_refs(orders: Table) -> None:
    append(orders, "a")
    orders.create_branch("b", min_snapshots=3, max_snapshot_age="7d", max_ref_age=dt.timedelta(days=30))
    orders.set_retention("b", min_snapshots=5, max_ref_age=None)
    ref = orders.refs["b"]
    assert (ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms) == (5, 7 * 86_400_000, None)
    with pytest.raises(errors.FloeError):
        orders.set_retention("b", min_snapshots=0)


def test_a_tag_cannot_be_written_to(orders: Table) -> None:
    append(orders, "a")
    orders.create_tag("t")
    with pytest.raises(errors.InvalidUpdate, match="is a tag"):
        orders.branch("t").append_files([data_file(orders, "b")])


def test_a_missing_branch_is_not_made_by_accident(orders: Table) -> None:
    append(orders, "a")
    with pytest.raises(errors.NoSuchRef, match="'audti'"):
        orders.branch("audti").append_files([data_file(orders, "b")])
    orders.branch("audit", create=True).append_files([data_file(orders, "b")])
    assert live(orders, ref="audit") == ["a", "b"]
    assert live(orders) == ["a"]


def test_main_is_fast_forwarded_to_a_branch(orders: Table) -> None:
    append(orders, "a")
    branch = orders.branch("audit", create=True)
    branch.append_files([data_file(orders, "b")])
    orders.fast_forward("main", "audit")
    assert live(orders) == ["a", "b"]
    assert len(orders.snapshots) == 2


def test_a_fast_forward_loses_nothing(orders: Table) -> None:
    append(orders, "a")
    orders.branch("audit", create=True).append_files([data_file(orders, "b")])
    append(orders, "c")
    with pytest.raises(errors.ConflictingChange, match="would be lost"):
        orders.fast_forward("main", "audit")
    assert live(orders) == ["a", "c"]


def test_a_branch_is_read_with_the_current_columns_and_a_tag_with_its_own(orders: Table) -> None:
    append(orders, "a")
    orders.create_tag("t")
    orders.create_branch("b")
    orders.evolve().add_column("extra", "int").commit()
    assert "extra" in [f.name for f in orders.scan(ref="b").schema]
    assert "extra" not in [f.name for f in orders.scan(ref="t").schema]


# going back -----------------------------------------------------------------------------------------------------------


def test_a_rollback_to_a_snapshot(lake: Lake, orders: Table) -> None:
    first = append(orders, "a")
    append(orders, "b")
    orders.rollback(to=first.snapshot_id)
    assert live(orders) == ["a"]
    assert live(lake.table("db.orders")) == ["a"]
    assert len(orders.snapshots) == 2
    assert [(e.snapshot_id == first.snapshot_id, e.is_current_ancestor) for e in orders.history()] == [
        (True, True),
        (False, False),
        (True, True),
    ]


def test_a_rollback_to_a_time(orders: Table, clock: ManualClock) -> None:
    append(orders, "a")
    clock.advance(60_000)
    moment = clock.now_ms()
    clock.advance(60_000)
    append(orders, "b")
    orders.rollback(to=dt.datetime.fromtimestamp(moment / 1000, dt.UTC))
    assert live(orders) == ["a"]


def test_a_rollback_to_a_time_before_everything(orders: Table) -> None:
    append(orders, "a")
    with pytest.raises(errors.NoSuchSnapshot):
        orders.rollback(to="2001-01-01")


def test_a_rollback_to_a_tag(orders: Table) -> None:
    append(orders, "a")
    orders.create_tag("good")
    append(orders, "b")
    orders.rollback(to="good")
    assert live(orders) == ["a"]


def test_a_rollback_stays_in_the_history(orders: Table) -> None:
    append(orders, "a")
    other = orders.branch("audit", create=True).append_files([data_file(orders, "b")])
    assert other is not None
    with pytest.raises(errors.InvalidUpdate, match="not in the history"):
        orders.rollback(to=other.snapshot_id)
    orders.set_current(other.snapshot_id)
    assert live(orders) == ["a", "b"]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("branch", ["main", "audit"])
def test_a_transaction_is_rolled_back_as_a_whole(lake: Lake, branch: str, version: int, clock: ManualClock) -> None:
    table = lake.create_table("db.t", "id bigint", format_version=version)
    before = append(table, "a")
    table.create_branch("audit")
    clock.advance(60_000)
    with table.transaction() as tx:
        place = tx if branch == "main" else tx.branch(branch)
        place.append_files([data_file(table, "b")])
        place.append_files([data_file(table, "c")])
        place.append_files([data_file(table, "d")])
    _, first, second, last = (snapshot.snapshot_id for snapshot in table.snapshots)
    clock.advance(60_000)
    table.branch(branch).append_files([data_file(table, "e")])
    for within in (first, second):
        with pytest.raises(
            errors.InvalidUpdate, match=f"from snapshot {before.snapshot_id} to snapshot {last} at once"
        ):
            table.rollback(to=within, branch=branch)
        assert live(table, ref=branch) == ["a", "b", "c", "d", "e"]
    assert live(table, snapshot=first) == ["a", "b"], "time travel stays possible"
    table.rollback(to=last, branch=branch)
    assert live(table, ref=branch) == ["a", "b", "c", "d"]
    table.rollback(to=before.snapshot_id, branch=branch)
    assert live(table, ref=branch) == ["a"]
    table.set_current(first, branch=branch)
    assert live(table, ref=branch) == ["a", "b"], "who means it says so"


def test_a_fast_forward_does_not_end_within_a_transaction(orders: Table) -> None:
    before = append(orders, "a")
    orders.create_branch("audit")
    with orders.transaction() as tx:
        tx.branch("audit").append_files([data_file(orders, "b")])
        tx.branch("audit").append_files([data_file(orders, "c")])
    _, within, last = (snapshot.snapshot_id for snapshot in orders.snapshots)
    with pytest.raises(errors.InvalidUpdate, match=f"from snapshot {before.snapshot_id} to snapshot {last} at once"):
        orders.fast_forward("main", within)
    orders.fast_forward("main", last)
    assert live(orders) == ["a", "b", "c"]


def test_a_first_transaction_is_kept_whole(orders: Table) -> None:
    with orders.transaction() as tx:
        tx.append_files([data_file(orders, "a")])
        tx.append_files([data_file(orders, "b")])
    first, last = orders.snapshots
    with pytest.raises(errors.InvalidUpdate, match=f"from an empty table to snapshot {last.snapshot_id} at once"):
        orders.rollback(to=first.snapshot_id)


def test_what_a_tag_or_a_branch_has_shown_was_seen(orders: Table) -> None:
    with orders.transaction() as tx:
        tx.append_files([data_file(orders, "a")])
        tx.create_tag("v1")
        tx.append_files([data_file(orders, "b")])
    orders.rollback(to="v1")
    assert live(orders) == ["a"]


def test_the_snapshots_of_a_branch_were_seen_when_main_takes_them_over(orders: Table, clock: ManualClock) -> None:
    append(orders, "a")
    audit = orders.branch("audit", create=True)
    middle = audit.append_files([data_file(orders, "b")])
    audit.append_files([data_file(orders, "c")])
    assert middle is not None
    clock.advance(1000)
    orders.fast_forward("main", "audit")
    orders.rollback(to=middle.snapshot_id)
    assert live(orders) == ["a", "b"]


def test_a_branch_is_rolled_back_alone(orders: Table) -> None:
    first = append(orders, "a")
    branch = orders.branch("audit", create=True)
    branch.append_files([data_file(orders, "b")])
    append(orders, "c")
    branch.rollback(to=first.snapshot_id)
    assert live(orders, ref="audit") == ["a"]
    assert live(orders) == ["a", "c"]


def test_the_table_goes_on_after_a_rollback(orders: Table) -> None:
    first = append(orders, "a")
    append(orders, "b")
    orders.rollback(to=first.snapshot_id)
    third = append(orders, "c")
    assert third.parent_snapshot_id == first.snapshot_id
    assert live(orders) == ["a", "c"]


# picking and staging --------------------------------------------------------------------------------------------------


def test_what_is_staged_is_seen_by_nobody(orders: Table) -> None:
    append(orders, "a")
    staged = orders.stage("nightly-7").append_files([data_file(orders, "b")])
    assert staged is not None
    assert (staged.summary or {})["wap.id"] == "nightly-7"
    assert live(orders) == ["a"]
    assert live(orders, snapshot=staged.snapshot_id) == ["a", "b"]


def test_writes_go_to_the_branch_that_audits_them(orders: Table) -> None:
    append(orders, "a")
    orders.set_properties({"write.wap.enabled": "true", "write.wap.branch": "audit"})
    append(orders, "b")
    append(orders, "c")
    assert live(orders) == ["a"], "readers of main see nothing yet"
    assert live(orders, ref="audit") == ["a", "b", "c"]
    orders.branch("main").append_files([data_file(orders, "d")])
    assert live(orders) == ["a", "d"], "a branch that is named is the one written to"


def test_what_was_audited_on_a_branch_is_published_by_fast_forward(orders: Table) -> None:
    orders.set_properties({"write.wap.branch": "audit"})
    append(orders, "a")
    assert orders.current_snapshot is None
    with orders.transaction() as tx:
        tx.append_files([data_file(orders, "b")])
    orders.fast_forward("main", "audit")
    assert live(orders) == ["a", "b"]


def test_what_is_staged_is_published(orders: Table) -> None:
    append(orders, "a")
    staged = orders.stage("nightly-7").append_files([data_file(orders, "b")])
    assert orders.publish("nightly-7") == staged, "right upon its parent it is published as it is"
    assert live(orders) == ["a", "b"]


def test_what_is_staged_is_published_on_what_came_since(orders: Table) -> None:
    append(orders, "a")
    orders.stage("nightly-7").append_files([data_file(orders, "b")])
    append(orders, "c")
    published = orders.publish("nightly-7")
    assert published is not None
    assert (published.summary or {})["published-wap-id"] == "nightly-7"
    assert live(orders) == ["a", "b", "c"]


def test_a_wap_id_is_published_once(orders: Table) -> None:
    append(orders, "a")
    orders.stage("nightly-7").append_files([data_file(orders, "b")])
    append(orders, "c")
    orders.publish("nightly-7")
    with pytest.raises(errors.InvalidUpdate):
        orders.publish("nightly-7")
    with pytest.raises(errors.NoSuchSnapshot, match="nightly-8"):
        orders.publish("nightly-8")
    assert live(orders) == ["a", "b", "c"]


def test_an_append_is_picked_from_a_branch(orders: Table) -> None:
    append(orders, "a")
    picked = orders.branch("audit", create=True).append_files([data_file(orders, "b")])
    assert picked is not None
    append(orders, "c")
    new = orders.cherry_pick(picked.snapshot_id)
    assert new is not None
    assert (new.summary or {})["source-snapshot-id"] == str(picked.snapshot_id)
    assert live(orders) == ["a", "b", "c"]


def test_what_is_there_already_is_not_picked(orders: Table) -> None:
    first = append(orders, "a")
    append(orders, "b")
    with pytest.raises(errors.InvalidUpdate):
        orders.cherry_pick(first.snapshot_id)


def test_a_delete_is_not_picked_onto_something_else(orders: Table) -> None:
    append(orders, "a")
    picked = orders.branch("audit", create=True).delete("day = '2024-05-17'").snapshot
    assert picked is not None
    orders.append_files([data_file(orders, "c", day=DAY + 1)])
    with pytest.raises(errors.FloeError):
        orders.cherry_pick(picked.snapshot_id)
    assert live(orders) == ["a", "c"]


def test_a_pick_onto_a_branch(orders: Table) -> None:
    append(orders, "a")
    orders.create_branch("audit")
    picked = append(orders, "b")
    orders.branch("audit").append_files([data_file(orders, "c")])
    orders.branch("audit").cherry_pick(picked.snapshot_id)
    assert live(orders, ref="audit") == ["a", "b", "c"]


# time travel ----------------------------------------------------------------------------------------------------------


def test_old_snapshots_are_read_by_id(orders: Table) -> None:
    snapshots = [append(orders, name) for name in "abc"]
    for n, snapshot in enumerate(snapshots):
        assert live(orders, snapshot=snapshot.snapshot_id) == list("abc"[: n + 1])
    with pytest.raises(errors.NoSuchSnapshot):
        orders.scan(snapshot=1)


def test_the_past_is_read_by_time(orders: Table, clock: ManualClock) -> None:
    append(orders, "a")
    clock.advance(3_600_000)
    between = clock.now_ms()
    clock.advance(3_600_000)
    append(orders, "b")
    moment = dt.datetime.fromtimestamp(between / 1000, dt.UTC)
    assert live(orders, as_of=moment) == ["a"]
    assert live(orders, as_of=moment.isoformat()) == ["a"]
    assert live(orders, as_of=between) == ["a"]
    with pytest.raises(errors.NoSuchSnapshot):
        orders.scan(as_of="2001-01-01")


def test_time_travel_sees_what_readers_saw(orders: Table, clock: ManualClock) -> None:
    first = append(orders, "a")
    append(orders, "b")
    clock.advance(3_600_000)
    wrong = clock.now_ms()
    clock.advance(3_600_000)
    orders.rollback(to=first.snapshot_id)
    assert live(orders, as_of=wrong) == ["a", "b"], "the mistake was there at that time"
    assert live(orders) == ["a"]


def test_a_snapshot_is_chosen_in_one_way(orders: Table) -> None:
    snapshot = append(orders, "a")
    with pytest.raises(errors.InvalidInput, match="one way"):
        orders.scan(snapshot=snapshot.snapshot_id, ref="main")


def test_the_past_has_the_columns_of_its_time(orders: Table) -> None:
    first = append(orders, "a")
    orders.evolve().rename_column("note", "remark").commit()
    assert [f.name for f in orders.scan().schema] == ["id", "day", "amount", "remark"]
    assert [f.name for f in orders.scan(snapshot=first.snapshot_id).schema] == ["id", "day", "amount", "note"]


# changes --------------------------------------------------------------------------------------------------------------


def test_changes_since_a_snapshot(orders: Table) -> None:
    a = data_file(orders, "a")
    first = orders.append_files([a])
    assert first is not None
    append(orders, "b")
    orders.delete_files([a])
    changes = orders.changes(since=first.snapshot_id)
    assert len(changes.snapshots) == 2
    found = [(type(t).__name__, t.ordinal, t.file.file_path.rpartition("/")[2]) for t in changes.plan().tasks()]
    assert found == [("AddedRows", 0, "b.parquet"), ("DeletedFile", 1, "a.parquet")]
    assert [t.file.file_path.rpartition("/")[2] for t in changes.appends().tasks()] == ["b.parquet"]


def test_a_rewrite_changes_nothing(orders: Table) -> None:
    small = [data_file(orders, f"s{n}", (10 * n + 1, 10 * n + 10)) for n in range(2)]
    first = orders.append_files(small)
    assert first is not None
    orders.rewrite_files(small, [data_file(orders, "large", (1, 20))])
    assert list(orders.changes(since=first.snapshot_id).plan().tasks()) == []


def test_changes_between_tags_and_times(orders: Table, clock: ManualClock) -> None:
    append(orders, "a")
    orders.create_tag("start")
    clock.advance(60_000)
    append(orders, "b")
    orders.create_tag("end")
    append(orders, "c")
    assert len(orders.changes(since="start", until="end").snapshots) == 1
    assert len(orders.changes(since="start").snapshots) == 2
    assert len(orders.changes().snapshots) == 3


def test_changes_since_what_was_rolled_back_are_not_known(orders: Table) -> None:
    first = append(orders, "a")
    second = append(orders, "b")
    orders.rollback(to=first.snapshot_id)
    append(orders, "c")
    with pytest.raises(errors.NoSuchSnapshot, match="not in the history"):
        orders.changes(since=second.snapshot_id)
