"""Letting old snapshots go: looked at first, then done, and never a file that somebody needs."""

import pytest

from floe import Table, errors
from floe.spec.metadata.snapshots import Snapshot
from floe.storage.environment import ManualClock
from helpers.synthetic_files import data_file, live

DAY_MS = 86_400_000


def append(table: Table, name: str) -> Snapshot:
    snapshot = table.append_files([data_file(table, name, write=True)])
    assert snapshot is not None
    return snapshot


@pytest.fixture
def aged(orders: Table, clock: ManualClock) -> Table:
    """Three snapshots, ten days apart; the second removed what the first had added."""
    append(orders, "a")
    clock.advance(10 * DAY_MS)
    orders.overwrite_files([data_file(orders, "b", write=True)], where="true")
    clock.advance(10 * DAY_MS)
    append(orders, "c")
    return orders


def ids(table: Table) -> list[int]:
    return [s.snapshot_id for s in table.snapshots]


def data_files(table: Table) -> list[str]:
    return sorted(f.location.rpartition("/")[2] for f in table.storage.list(f"{table.location}/data"))


def test_a_plan_changes_nothing(aged: Table) -> None:
    before = ids(aged)
    plan = aged.expire(older_than="15d").plan()
    assert [s.snapshot_id for s in plan.snapshots] == before[:1]
    assert "1 snapshot expires, 2 are kept" in str(plan)
    assert ids(aged.refresh()) == before


def test_old_snapshots_and_their_files_go(aged: Table) -> None:
    first, *rest = ids(aged)
    done = aged.expire(older_than="15d").apply()
    assert done.snapshots == (first,)
    assert ids(aged) == rest
    assert data_files(aged) == ["b.parquet", "c.parquet"]
    assert live(aged) == ["b", "c"]
    with pytest.raises(errors.NoSuchSnapshot):
        aged.scan(snapshot=first)


def test_files_may_be_left(aged: Table) -> None:
    aged.expire(older_than="15d").apply(delete_files=False)
    assert len(ids(aged)) == 2
    assert data_files(aged) == ["a.parquet", "b.parquet", "c.parquet"]


def test_the_newest_stay_however_old(aged: Table, clock: ManualClock) -> None:
    clock.advance(100 * DAY_MS)
    newest = ids(aged)[-2:]
    aged.expire(older_than="1d", retain_last=2).apply()
    assert ids(aged) == newest
    assert live(aged) == ["b", "c"]


def test_the_head_of_main_never_expires(aged: Table, clock: ManualClock) -> None:
    clock.advance(1000 * DAY_MS)
    aged.expire(older_than="0s").apply()
    assert len(ids(aged)) == 1
    assert live(aged) == ["b", "c"]


def test_what_a_tag_names_stays(aged: Table) -> None:
    first = ids(aged)[0]
    aged.create_tag("keep", snapshot=first)
    aged.expire(older_than="0s").apply()
    assert first in ids(aged)
    assert live(aged, ref="keep") == ["a"]
    assert "a.parquet" in data_files(aged)


def test_refs_expire_too(aged: Table, clock: ManualClock) -> None:
    aged.create_tag("short", snapshot=ids(aged)[0], max_ref_age="1d")
    clock.advance(2 * DAY_MS)
    done = aged.expire(older_than="15d").apply()
    assert done.refs == ("short",)
    assert "short" not in aged.refs


def test_snapshots_expire_by_name(aged: Table) -> None:
    first, second, third = ids(aged)
    aged.expire(older_than="1000d", snapshots=[second]).apply()
    assert ids(aged) == [first, third]
    with pytest.raises(errors.InvalidUpdate, match="main"):
        aged.expire(snapshots=[third]).plan()
    with pytest.raises(errors.NoSuchSnapshot):
        aged.expire(snapshots=[second]).plan()


def test_the_tables_properties_decide_otherwise(aged: Table) -> None:
    aged.set_properties({"history.expire.max-snapshot-age-ms": 15 * DAY_MS})
    assert len(aged.expire().plan().snapshots) == 1
    aged.set_properties({"history.expire.min-snapshots-to-keep": 3})
    assert aged.expire().plan().is_empty


def test_a_timestamp_or_an_age(aged: Table) -> None:
    third = aged.snapshots[2]
    assert len(aged.expire(older_than=third.timestamp_ms).plan().snapshots) == 2
    assert len(aged.expire(older_than="2001-01-01").plan().snapshots) == 0
    with pytest.raises(errors.InvalidInput, match="duration"):
        aged.expire(older_than="a while")


def test_a_table_that_shares_its_files_does_not_expire(aged: Table) -> None:
    aged.set_properties({"gc.enabled": False})
    with pytest.raises(errors.InvalidUpdate, match=r"gc\.enabled"):
        aged.expire(older_than="0s").plan()


def test_a_plan_is_never_exceeded(aged: Table, clock: ManualClock) -> None:
    plan = aged.expire(older_than="15d").plan()
    clock.advance(100 * DAY_MS)
    done = aged.expire(older_than="15d").apply(plan)
    assert len(done.snapshots) == 1
    assert len(ids(aged)) == 2


def test_what_was_tagged_after_the_plan_stays(aged: Table) -> None:
    first = ids(aged)[0]
    expiration = aged.expire(older_than="15d")
    plan = expiration.plan()
    aged.create_tag("late", snapshot=first)
    done = expiration.apply(plan)
    assert done.snapshots == ()
    assert live(aged, ref="late") == ["a"]


def test_history_goes_on_after_expiry(aged: Table) -> None:
    aged.expire(older_than="15d").apply()
    append(aged, "d")
    assert live(aged) == ["b", "c", "d"]
    assert all(entry.snapshot is not None for entry in aged.history())


def test_unused_schemas_are_cleaned(aged: Table) -> None:
    aged.evolve().add_column("x", "int").commit()
    append(aged, "d")
    assert len(aged.metadata.schemas) == 2
    aged.expire(older_than="0s", clean_metadata=True).apply()
    assert [s.schema_id for s in aged.metadata.schemas] == [1]
