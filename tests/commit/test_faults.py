"""Every call of every change made to fail, in every way: nothing acknowledged is lost, doubled or deleted."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import pytest

from floe.commit.change import Change
from floe.commit.loop import commit, commit_all
from floe.commit.operations.create import CreateTable, TableDefinition
from floe.commit.operations.expire import apply_expire, plan_expire
from floe.commit.outcomes import CommitStatus
from floe.commit.pointer import Outcome, Pointer, Proposal
from floe.errors import CommitStateUnknown, FloeError, OutcomeUnknown
from floe.spec.metadata.ancestry import ancestors
from floe.storage.memory import MemoryStorage
from floe.testing.faults import Fault, FaultyStorage, SimulatedCrash
from helpers.change_samples import SAMPLES, Sample, fill, path, rival_commit
from helpers.pointers import (
    LOCATION,
    SCHEMA,
    FaultyPointer,
    WrappedPointer,
    copied,
    create,
    loaded,
    memory_catalog,
    new_table,
)
from helpers.small_snapshots import PutFiles, check_readable, data_file, live_files

TRIED: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def _numbers() -> Iterator[None]:
    yield
    total = sum(TRIED.values())
    print(f"\nfaults tried: {total} ({', '.join(f'{n} {what}' for what, n in sorted(TRIED.items()))})")  # noqa: T201


@cache
def _filled() -> tuple[Pointer, list[int]]:
    pointer = new_table()
    return pointer, fill(pointer)


def filled() -> tuple[Pointer, list[int]]:
    """A table with a history, in a world of its own."""
    pointer, ids = _filled()
    return copied(pointer), ids


@dataclass
class World:
    """A table with a history, and the change that is to be made to it."""

    pointer: Pointer
    change: Change
    ids: list[int]
    sample: Sample
    head: int

    @staticmethod
    def of(sample: Sample) -> World:
        pointer, ids = filled()
        change = sample.make(loaded(pointer), pointer)
        head = loaded(pointer).metadata.current_snapshot_id
        assert head is not None
        assert not sample.shows(loaded(pointer).metadata, ids)
        return World(pointer, change, ids, sample, head)

    def shows(self) -> bool:
        return self.sample.shows(loaded(self.pointer).metadata, self.ids)

    def check(self) -> None:
        """What must hold whatever happened."""
        table, storage = loaded(self.pointer).metadata, self.pointer.storage
        check_readable(table, storage)
        if self.sample.name != "replace":
            history = [snapshot.snapshot_id for snapshot in ancestors(table, table.current_snapshot_id)]
            assert self.head in history, "main never goes back"
        keys = Counter((s.summary or {}).get("commit-id") for s in table.snapshots)
        assert max(keys.values()) == 1, "no commit is doubled"
        files = Counter(f for f in live_files(table, storage))
        assert max(files.values(), default=1) == 1


def run(world: World, pointer: Pointer) -> str:
    """Commits the change through a faulty pointer, and says how that went."""
    try:
        commit(pointer, [world.change])
    except CommitStateUnknown as error:
        told = "no file was deleted" in error.message and error.context["table"] == "db.t"
        return "unknown" if told else "not told"
    except FloeError:
        return "failed"
    except SimulatedCrash:
        return "crashed"
    return "done"


def check_outcome(world: World, outcome: str) -> None:
    world.check()
    if outcome == "done":
        assert world.shows(), "acknowledged, and not there"
    if outcome == "failed":
        assert not world.shows(), "failed for good, and there"


def again(world: World) -> None:
    """The same change object once more, with nothing failing: done, and done once."""
    try:
        commit(world.pointer, [world.change])
    except FloeError:
        assert world.shows(), "what cannot be done again was done before"
    world.check()
    assert world.shows()


def calls_of(sample: Sample) -> list[str]:
    world = World.of(sample)
    pointer = FaultyPointer(world.pointer)
    commit(pointer, [world.change])
    return pointer.calls


@pytest.mark.parametrize("rivals", [False, True], ids=["alone", "others commit on top"])
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_every_pointer_call_of_every_change(sample: Sample, rivals: bool) -> None:
    count = len(calls_of(sample))
    assert count >= 3
    for at in range(1, count + 1):
        for fault in Fault:
            world = World.of(sample)
            pointer = FaultyPointer(world.pointer, fault, at=at)
            if rivals:
                pointer.between = lambda world=world: setattr(world, "head", rival_commit(world.pointer))  # type: ignore[misc]
            outcome = run(world, pointer)
            assert pointer.happened
            call = pointer.calls[[*range(count)][at - 1]]
            check_outcome(world, outcome)
            if call == "swap":
                expected = {
                    Fault.BEFORE: "failed",
                    Fault.LOST_ANSWER: "done",
                    Fault.LOST_REQUEST: "done",  # the pointer settles it: absent, and it is tried again
                    Fault.TWICE: "done",
                    Fault.DELAYED: "unknown",
                }
                assert outcome == expected.get(fault, "crashed")
            pointer.arrive()
            world.check()
            again(world)
            TRIED["pointer calls"] += 1


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_every_storage_call_of_every_change(sample: Sample) -> None:
    count = None
    for fault in Fault:
        at = 0
        while count is None or at < count:
            at += 1
            world = World.of(sample)
            files = FaultyStorage(world.pointer.storage, fault if count else None, at=at)
            world.pointer.catalog.storage = files  # type: ignore[attr-defined]
            outcome = run(world, world.pointer)
            world.pointer.catalog.storage = files.storage  # type: ignore[attr-defined]
            files.settle()
            if count is None:
                count, at = len(files.calls), 0
                assert count >= 1
                continue
            check_outcome(world, outcome)
            again(world)
            TRIED["storage calls"] += 1


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.name in ("append", "create tag", "properties", "schema")])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit, RuntimeError], ids=lambda e: e.__name__)
def test_interruptions_delete_nothing(sample: Sample, error: type[BaseException]) -> None:
    """At every call, the swap and those after it among them, after its effect."""
    for at in range(1, len(calls_of(sample)) + 1):
        world = World.of(sample)
        pointer = FaultyPointer(world.pointer, error("now"), at=at)
        deleted: list[str] = []
        watch = _NoDeletes(world.pointer.storage, deleted)
        world.pointer.catalog.storage = watch  # type: ignore[attr-defined]
        notes = ""
        try:
            commit(pointer, [world.change])
        except error as caught:
            notes = "".join(getattr(caught, "__notes__", ()))
        else:
            assert pointer.calls[at - 1] == "finish"
            assert issubclass(error, Exception)
            continue
        assert ("may have been published or not" in notes) == (pointer.calls[-1] == "swap")
        assert ("had been published" in notes) == (pointer.calls[-1] == "finish")
        assert deleted == []
        world.check()
        again(world)
        TRIED["interruptions"] += 1


class _NoDeletes(FaultyStorage):
    def __init__(self, inner: object, deleted: list[str]) -> None:
        super().__init__(inner)  # type: ignore[arg-type]
        self.deleted = deleted

    def delete_many(self, locations):  # type: ignore[no-untyped-def]
        asked = list(locations)
        self.deleted += asked
        return super().delete_many(asked)


# the known defects, by name ---------------------------------------------------------------------------------------


def append(pointer: Pointer, name: str = "new") -> PutFiles:
    return PutFiles(pointer.environment, [data_file(path(name))])


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.TWICE])
def test_n1_a_lost_answer_does_not_roll_back_others(fault: Fault) -> None:
    """Ours landed, the answer was a conflict or nothing, somebody committed on top: main stays where he left it."""
    inner = new_table()
    fill(inner)
    pointer = FaultyPointer(inner, fault, at=1, only={"swap"})
    on_top: list[int] = []
    pointer.between = lambda: on_top.append(rival_commit(inner))
    change = append(inner)
    done = commit(pointer, [change])
    table = loaded(inner).metadata
    assert table.current_snapshot_id == on_top[0]
    assert table.snapshot(on_top[0]).parent_snapshot_id == change.snapshot_id
    if fault is Fault.TWICE:
        assert done.status is CommitStatus.FOUND
        assert done.metadata.current_snapshot_id == on_top[0]
    check_readable(table, inner.storage)


def test_a_commit_that_was_rolled_back_by_others_is_not_done_again() -> None:
    inner = new_table()
    ids = fill(inner)
    sample = next(s for s in SAMPLES if s.name == "rollback")
    assert sample
    pointer = FaultyPointer(inner, Fault.TWICE, at=1, only={"swap"})

    def roll_back() -> None:
        from floe.commit.operations.refs import RollbackToSnapshot

        commit(inner, [RollbackToSnapshot(ids[2])])

    pointer.between = roll_back
    change = append(inner)
    done = commit(pointer, [change])
    assert done.status is CommitStatus.ROLLED_BACK
    table = loaded(inner).metadata
    assert table.current_snapshot_id == ids[2]
    assert change.snapshot_id in table.snapshots_by_id


def test_14583_lost_answers_again_and_again_delete_no_live_manifest_list() -> None:
    """Every swap lands and is answered with a conflict; each time somebody commits on top."""
    inner = new_table(properties={"commit.retry.num-retries": "0"})
    pointer = FaultyPointer(inner, Fault.TWICE, at=1, only={"swap"})
    pointer.between = lambda: rival_commit(inner)
    change = append(inner)
    done = commit(pointer, [change])  # not even the last attempt's conflict is believed
    assert done.status is CommitStatus.FOUND
    table = loaded(inner).metadata
    assert change.snapshot_id in table.snapshots_by_id
    assert check_readable(table, inner.storage) == 3


def test_pr_3717_a_commit_that_lands_after_the_check_is_not_cleaned_up() -> None:
    inner = new_table()
    pointer = FaultyPointer(inner, Fault.DELAYED, at=1, only={"swap"})
    change = append(inner)
    with pytest.raises(CommitStateUnknown) as caught:
        commit(pointer, [change])
    text = str(caught.value)
    assert str(change.snapshot_id) in text
    assert change.commit_id in text
    assert ".metadata.json" in text
    assert "look for" in text
    pointer.arrive()
    table = loaded(inner).metadata
    assert table.current_snapshot_id == change.snapshot_id
    assert check_readable(table, inner.storage) == 1
    assert commit(inner, [change]).status is CommitStatus.FOUND


def test_pr_3717_in_a_transaction_of_several() -> None:
    inner = new_table()
    pointer = FaultyPointer(inner, Fault.DELAYED, at=1, only={"swap"})
    one, two = append(inner, "one"), append(inner, "two")
    with pytest.raises(CommitStateUnknown):
        commit(pointer, [one, two])
    pointer.arrive()
    assert commit(inner, [one, two]).status is CommitStatus.FOUND
    assert live_files(loaded(inner).metadata, inner.storage) == {path("one"), path("two")}


def test_an_unknown_outcome_is_asked_for_again_before_it_is_told() -> None:
    """`commit.status-check.*`: three more times, with pauses."""
    asked: list[int] = []

    class Unreachable(WrappedPointer):
        def swap(self, proposal: Proposal) -> None:
            super().swap(proposal)
            raise OutcomeUnknown("the answer was lost")

        def settle(self, proposal: Proposal) -> Outcome:
            asked.append(self.environment.clock.now_ms())
            return super().settle(proposal) if len(asked) == 3 else Outcome.UNKNOWN

    pointer = Unreachable(new_table())
    assert commit(pointer, [append(pointer)]).status is CommitStatus.PUBLISHED
    assert len(asked) == 3
    assert asked[1] - asked[0] >= 1_000
    assert asked[2] - asked[1] >= 1_000


def test_the_key_is_the_second_line_when_the_pointer_cannot_tell() -> None:
    class Forgetful(WrappedPointer):
        def swap(self, proposal: Proposal) -> None:
            super().swap(proposal)
            raise OutcomeUnknown("the answer was lost")

        def settle(self, proposal: Proposal) -> Outcome:
            raise FloeError("the history was cut off")

    pointer = Forgetful(new_table())
    change = append(pointer)
    assert commit(pointer, [change]).status is CommitStatus.FOUND


def test_an_expired_commit_is_found_by_those_built_upon_it() -> None:
    inner = new_table()
    fill(inner)
    pointer = FaultyPointer(inner, Fault.TWICE, at=1, only={"swap"})
    change = append(inner)

    def others() -> None:
        rival_commit(inner)
        plan = plan_expire(inner, older_than_ms=inner.environment.clock.now_ms() + 1, retain_last=1)
        assert change.snapshot_id in plan.expiry.snapshots
        apply_expire(inner, plan)

    pointer.between = others
    done = commit(pointer, [change])
    assert done.status is CommitStatus.FOUND
    assert path("new") in live_files(loaded(inner).metadata, inner.storage)
    check_readable(loaded(inner).metadata, inner.storage)


def test_failing_clean_up_does_not_make_a_success_fail() -> None:
    inner = new_table()
    change = append(inner)

    class Racer(WrappedPointer):
        raced = False

        def propose(self, *args, **kwargs):  # type: ignore[no-untyped-def]
            if not self.raced:
                self.raced = True
                rival_commit(inner)
            return super().propose(*args, **kwargs)

    files = FaultyStorage(inner.storage, Fault.BEFORE, at=2, only={"delete_many"})
    done = commit(Racer(inner, storage=files), [change])
    assert done.attempts == 2
    assert done.status is CommitStatus.PUBLISHED


@pytest.mark.parametrize("rivals", [False, True], ids=["alone", "others commit on top"])
@pytest.mark.parametrize("fault", list(Fault))
def test_several_tables_are_published_all_or_none(fault: Fault, rivals: bool) -> None:
    catalog = memory_catalog()
    pointers = [catalog.pointer(("db", name)) for name in ("one", "two")]
    for number, pointer in enumerate(pointers):
        create(pointer, location=f"{LOCATION}-{number}")
    changes = [append(pointer, f"new-{number}") for number, pointer in enumerate(pointers)]

    class Shared(FaultyPointer):
        def swap_all(self, proposals: Sequence[Proposal]) -> None:
            self._run("swap", lambda: catalog.swap_all(proposals))

        def settle_all(self, proposals: Sequence[Proposal]) -> Outcome:
            return self._run("settle", lambda: catalog.settle_all(proposals))

    shared = Shared(pointers[0], fault, at=1)
    if rivals:
        shared.between = lambda: rival_commit(pointers[1])
    outcome = "done"
    works = [(pointer, [change]) for pointer, change in zip(pointers, changes, strict=True)]
    try:
        commit_all(works, shared)
    except CommitStateUnknown as error:
        assert error.context["table"] == "db.one, db.two"  # noqa: PT017
        outcome = "unknown"
    except (FloeError, SimulatedCrash):
        outcome = "failed"
    there = [c.snapshot_id in loaded(p).metadata.snapshots_by_id for p, c in zip(pointers, changes, strict=True)]
    assert there in ([True, True], [False, False])
    assert outcome != "done" or there == [True, True]
    shared.arrive()
    commit_all(works, catalog.shared)
    for pointer, change in zip(pointers, changes, strict=True):
        table = loaded(pointer).metadata
        history = [snapshot.snapshot_id for snapshot in ancestors(table, table.current_snapshot_id)]
        assert history.count(change.snapshot_id) == 1
        check_readable(table, pointer.storage)
    TRIED["several tables"] += 1


def test_creation_under_every_fault() -> None:
    def world() -> tuple[Pointer, Change]:
        pointer = memory_catalog().pointer(("db", "t"))
        return pointer, CreateTable(TableDefinition(SCHEMA), LOCATION, str(pointer.environment.ids.uuid()))

    pointer, change = world()
    counting = FaultyPointer(pointer)
    commit(counting, [change])
    for at in range(1, len(counting.calls) + 1):
        for fault in Fault:
            pointer, change = world()
            faulty = FaultyPointer(pointer, fault, at=at)
            outcome = "done"
            try:
                commit(faulty, [change])
            except CommitStateUnknown:
                outcome = "unknown"
            except FloeError:
                outcome = "failed"
            except SimulatedCrash:
                outcome = "crashed"
            state = pointer.load()
            assert outcome != "done" or state is not None
            assert outcome != "failed" or state is None
            faulty.arrive()
            done = commit(pointer, [change])
            assert done.metadata.table_uuid == change.table_uuid  # type: ignore[attr-defined]
            assert pointer.storage.exists(done.location)
            TRIED["creations"] += 1


def test_expiry_with_its_deletions_under_every_fault() -> None:
    """Whatever storage call fails, every snapshot that is left can be read."""
    count = None
    for fault in Fault:
        at = 0
        while count is None or at < count:
            at += 1
            pointer, _ = filled()
            now = pointer.environment.clock.now_ms()
            plan = plan_expire(pointer, older_than_ms=now + 1, retain_last=1)
            files = FaultyStorage(pointer.storage, fault if count else None, at=at)
            pointer.catalog.storage = files  # type: ignore[attr-defined]
            with contextlib.suppress(FloeError, SimulatedCrash):
                apply_expire(pointer, plan)
            pointer.catalog.storage = files.storage  # type: ignore[attr-defined]
            files.settle()
            check_readable(loaded(pointer).metadata, pointer.storage)
            if count is None:
                count, at = len(files.calls), 0
                assert {"delete_many", "read", "write"} <= {call.operation for call in files.calls}
                continue
            TRIED["expiries"] += 1


def test_the_harness_notices_what_it_is_for() -> None:
    """A control: a pointer that publishes and says 'not published' for good is caught by the check."""

    class Lying(WrappedPointer):
        def swap(self, proposal: Proposal) -> None:
            super().swap(proposal)
            raise FloeError("it did not work")

        def load(self):  # type: ignore[no-untyped-def]
            if hasattr(self, "lied"):
                raise FloeError("cannot be read")
            self.lied = True
            return super().load()

    world = World.of(next(sample for sample in SAMPLES if sample.name == "properties"))
    outcome = run(world, Lying(world.pointer))
    assert outcome == "failed"
    with pytest.raises(AssertionError, match="failed for good, and there"):
        check_outcome(world, outcome)
    assert isinstance(world.pointer.storage, MemoryStorage)
