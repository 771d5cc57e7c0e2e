"""Which refs and snapshots expire (spec: Snapshot Retention Policy)."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidUpdate, NoSuchSnapshot
from floe.spec.metadata.ancestry import ancestors
from floe.spec.metadata.metadata_checks import check_for_writing
from floe.spec.metadata.retention import Expiry, plan_expiry
from floe.spec.metadata.updates import RemoveSnapshotRef, RemoveSnapshots
from helpers.metadata_samples import START_MS, branch, changed, snapshot, table, tag

DAY_MS = 24 * 60 * 60 * 1000
NOW = START_MS + 100 * DAY_MS


def history_of(parents, refs, days=None, properties=None):
    """A table of snapshots, each given by its parent; snapshot n was made n days after the start unless told."""
    metadata = table(properties=properties or {})
    snapshots = tuple(
        snapshot(
            metadata,
            number,
            parent_snapshot_id=parent,
            sequence_number=number,
            timestamp_ms=START_MS + (days or {}).get(number, number) * DAY_MS,
        )
        for number, parent in parents.items()
    )
    main = refs.get("main")
    return replace(
        metadata,
        snapshots=snapshots,
        refs=refs,
        last_sequence_number=max(parents),
        current_snapshot_id=main.snapshot_id if main else None,
        last_updated_ms=NOW,
    )


LINE = {1: None, 2: 1, 3: 2, 4: 3, 5: 4}


def expired(metadata, **options):
    plan = plan_expiry(metadata, now_ms=options.pop("now_ms", NOW), **options)
    return set(plan.refs), set(plan.snapshots)


def test_retention_of_an_empty_table():
    assert plan_expiry(table(), now_ms=NOW) == Expiry()
    assert Expiry().updates() == ()


def test_retention_keeps_the_head_of_main_however_old():
    assert expired(history_of(LINE, {"main": branch(5)})) == (set(), {1, 2, 3, 4})


def test_retention_default_age_is_five_days():
    metadata = history_of(LINE, {"main": branch(5)})
    at = START_MS + 8 * DAY_MS
    assert expired(metadata, now_ms=at) == (set(), {1, 2})
    assert expired(metadata, now_ms=at + 1) == (set(), {1, 2, 3}), "exactly five days old is not too old"


def test_retention_of_table_properties():
    age = {"history.expire.max-snapshot-age-ms": str(97 * DAY_MS)}
    assert expired(history_of(LINE, {"main": branch(5)}, properties=age)) == (set(), {1, 2})
    count = {"history.expire.min-snapshots-to-keep": "3"}
    assert expired(history_of(LINE, {"main": branch(5)}, properties=count)) == (set(), {1, 2})


def test_retention_ends_at_the_first_snapshot_both_too_old_and_beyond_the_minimum():
    """An old snapshot between young ones ends the walk: history is kept without holes."""
    metadata = history_of(LINE, {"main": branch(5)}, days={5: 99, 4: 1, 3: 98, 2: 97, 1: 96})
    assert expired(metadata) == (set(), {1, 2, 3, 4})
    assert expired(metadata, retain_last=2) == (set(), set())


def test_retention_of_a_branch_with_settings_of_its_own():
    parents = LINE | {10: 5, 11: 10, 12: 11}
    own = branch(12, min_snapshots_to_keep=2, max_snapshot_age_ms=DAY_MS)
    metadata = history_of(parents, {"main": branch(5), "audit": own}, days={n: n for n in parents})
    assert expired(metadata) == (set(), {1, 2, 3, 4, 10})
    older = branch(12, max_snapshot_age_ms=97 * DAY_MS)
    metadata = history_of(parents, {"main": branch(5), "audit": older}, days={n: n for n in parents})
    assert expired(metadata) == (set(), {1, 2})


def test_retention_arguments_do_not_override_a_branch_with_its_own_settings():
    own = branch(5, min_snapshots_to_keep=2, max_snapshot_age_ms=DAY_MS)
    metadata = history_of(LINE, {"main": own})
    assert expired(metadata, older_than_ms=0, retain_last=5) == (set(), {1, 2, 3})


def test_retention_tags_keep_their_snapshot_alone():
    metadata = history_of(LINE, {"main": branch(5), "v3": tag(3)})
    assert expired(metadata) == (set(), {1, 2, 4})


def test_retention_removes_old_refs_but_never_main():
    refs = {
        "main": branch(5, max_ref_age_ms=1),
        "old": tag(2, max_ref_age_ms=97 * DAY_MS),
        "young": tag(3, max_ref_age_ms=97 * DAY_MS),
    }
    assert expired(history_of(LINE, refs)) == ({"old"}, {1, 2, 4})


def test_retention_ref_age_defaults_to_the_table_property_and_that_to_forever():
    refs = {"main": branch(5), "v1": tag(1), "audit": branch(2)}
    assert expired(history_of(LINE, refs)) == (set(), {3, 4})
    short = {"history.expire.max-ref-age-ms": str(98 * DAY_MS)}
    assert expired(history_of(LINE, refs, properties=short)) == ({"v1"}, {1, 3, 4})


def test_retention_keeps_unreferenced_snapshots_until_they_are_too_old():
    staged = {1: None, 2: 1, 3: 2, 7: 1, 8: 1}
    metadata = history_of(staged, {"main": branch(3)}, days={7: 50, 8: 98})
    assert expired(metadata) == (set(), {1, 2, 7})


def test_retention_snapshots_of_an_expired_branch_are_unreferenced():
    parents = LINE | {9: 1}
    metadata = history_of(parents, {"main": branch(5), "b": branch(9, max_ref_age_ms=DAY_MS)}, days={9: 98})
    assert expired(metadata) == ({"b"}, {1, 2, 3, 4}), "the head itself is young enough to stay a while"


def test_expire_older_than_a_time():
    metadata = history_of(LINE, {"main": branch(5)})
    assert expired(metadata, older_than_ms=START_MS + 3 * DAY_MS) == (set(), {1, 2})
    assert expired(metadata, older_than_ms=0) == (set(), set())


def test_expire_all_but_the_last():
    metadata = history_of(LINE, {"main": branch(5)})
    assert expired(metadata, retain_last=4) == (set(), {1})
    with pytest.raises(InvalidUpdate, match=r"retain_last .* at least 1.*found 0"):
        plan_expiry(metadata, now_ms=NOW, retain_last=0)


def test_expire_snapshots_by_id():
    metadata = history_of(LINE, {"main": branch(5), "v1": tag(1)})
    assert expired(metadata, older_than_ms=0, snapshot_ids=[3]) == (set(), {3})
    with pytest.raises(InvalidUpdate, match="snapshot 1 cannot expire: v1 points at it"):
        plan_expiry(metadata, now_ms=NOW, snapshot_ids=[1])
    with pytest.raises(NoSuchSnapshot, match="77"):
        plan_expiry(metadata, now_ms=NOW, snapshot_ids=[77])


def test_nothing_expires_while_gc_is_disabled():
    metadata = history_of(LINE, {"main": branch(5)}, properties={"gc.enabled": "false"})
    with pytest.raises(InvalidUpdate, match=r"gc\.enabled is false"):
        plan_expiry(metadata, now_ms=NOW)


def test_retention_properties_must_be_numbers():
    metadata = history_of(LINE, {"main": branch(5)}, properties={"history.expire.min-snapshots-to-keep": "few"})
    with pytest.raises(InvalidUpdate, match="must be a whole number"):
        plan_expiry(metadata, now_ms=NOW)


def test_a_ring_of_parents_ends():
    metadata = history_of({1: 3, 2: 1, 3: 2}, {"main": branch(3)}, days={1: 99, 2: 99, 3: 99})
    assert expired(metadata) == (set(), set())


def test_expiry_as_updates():
    refs = {"main": branch(5), "old": tag(2, max_ref_age_ms=1)}
    metadata = history_of(LINE, refs)
    plan = plan_expiry(metadata, now_ms=NOW)
    assert plan.updates() == (RemoveSnapshotRef("old"), RemoveSnapshots((1, 2, 3, 4)))
    after = changed(metadata, *plan.updates(), now_ms=NOW)
    assert ([s.snapshot_id for s in after.snapshots], set(after.refs)) == ([5], {"main"})


@st.composite
def tables(draw):
    count = draw(st.integers(1, 12))
    parents = {n: draw(st.sampled_from([None, *range(1, n)])) for n in range(1, count + 1)}
    retention = st.fixed_dictionaries(
        {},
        optional={
            "min_snapshots_to_keep": st.integers(1, 4),
            "max_snapshot_age_ms": st.integers(1, 15).map(lambda d: d * DAY_MS),
            "max_ref_age_ms": st.integers(1, 15).map(lambda d: d * DAY_MS),
        },
    )
    refs = {}
    for name in draw(st.sets(st.sampled_from(["main", "audit", "test"]))):
        refs[name] = branch(draw(st.integers(1, count)), **draw(retention))
    for name in draw(st.sets(st.sampled_from(["v1", "v2"]))):
        age = {key: value for key, value in draw(retention).items() if key == "max_ref_age_ms"}
        refs[name] = tag(draw(st.integers(1, count)), **age)
    days = {n: draw(st.integers(0, 15)) for n in parents}
    return history_of(parents, refs, days)


@given(tables(), st.integers(0, 20))
def test_retention_follows_the_steps_of_the_spec(metadata, day):
    """The spec's algorithm, step by step, with unreferenced snapshots kept while they are young."""
    now = START_MS + day * DAY_MS
    five_days = 5 * DAY_MS
    plan = plan_expiry(metadata, now_ms=now)
    at = {s.snapshot_id: s.timestamp_ms for s in metadata.snapshots}

    kept_refs = {
        name: ref
        for name, ref in metadata.refs.items()
        if name == "main" or ref.max_ref_age_ms is None or now - at[ref.snapshot_id] <= ref.max_ref_age_ms
    }
    assert set(plan.refs) == metadata.refs.keys() - kept_refs.keys()
    retained, reached = set(), set()
    for ref in kept_refs.values():
        retained.add(ref.snapshot_id)
        reached.add(ref.snapshot_id)
        if ref.is_tag:
            continue
        line = [s.snapshot_id for s in ancestors(metadata, ref.snapshot_id)]
        reached.update(line)
        for n, snapshot_id in enumerate(line):
            too_old = now - at[snapshot_id] > (ref.max_snapshot_age_ms or five_days)
            if too_old and n >= (ref.min_snapshots_to_keep or 1):
                break
            retained.add(snapshot_id)
    retained |= {i for i, made in at.items() if i not in reached and now - made <= five_days}
    assert set(plan.snapshots) == at.keys() - retained

    after = changed(metadata, *plan.updates(), now_ms=NOW)
    assert {s.snapshot_id for s in after.snapshots} == retained
    assert after.refs.keys() == kept_refs.keys()
    check_for_writing(after)
    assert plan_expiry(after, now_ms=now) == Expiry(), "what stays, stays"
