"""The commit loop: attempts, retries, times, several changes and several tables, and who is told what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from floe.commit.change import Attempt
from floe.commit.loop import TableChanges, commit, commit_all
from floe.commit.operations.create import CreateOrReplaceTable, CreateTable, TableDefinition
from floe.commit.operations.data_changes import DeleteFiles, FastAppend
from floe.commit.operations.expire import apply_expire, plan_expire
from floe.commit.operations.metadata_changes import UpdateProperties
from floe.commit.outcomes import CommitStatus
from floe.commit.pointer import Pointer, Proposal
from floe.commit.retry import RetryPolicy, retry_policy
from floe.errors import (
    AccessDenied,
    CommitConflict,
    CommitFailed,
    ConflictingChange,
    InvalidInput,
    InvalidUpdate,
    NoSuchFile,
    NoSuchTable,
    OutcomeUnknown,
    RequirementFailed,
    TableAlreadyExists,
    UnsupportedFeature,
)
from floe.spec.metadata.requirements import AssertCreate, AssertRefSnapshotId, AssertTableUuid
from floe.spec.metadata.updates import SetProperties, TableUpdate
from floe.spec.properties import COMMIT_STATUS_CHECK
from floe.spec.schemas.schema import Schema
from floe.storage.environment import Environment, deterministic_environment
from floe.storage.memory import MemoryStorage
from floe.testing.faults import Fault
from helpers.pointers import (
    LOCATION,
    SCHEMA,
    FaultyPointer,
    WrappedPointer,
    create,
    loaded,
    memory_catalog,
    new_table,
    properties_of,
)
from helpers.small_snapshots import PutFiles, check_readable, data_file, live_files


def path(name: str) -> str:
    return f"{LOCATION}/data/{name}.parquet"


def append(pointer: Pointer, *names: str, branch: str | None = "main") -> PutFiles:
    return PutFiles(pointer.environment, [data_file(path(name)) for name in names], branch=branch)


@dataclass
class Racing:
    """A change that lets somebody else commit while it is being made, some number of times."""

    inner: object
    other: Callable[[], object]
    times: int = 1
    seen: list[int] = field(default_factory=list)

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        self.seen.append(attempt.number)
        if len(self.seen) <= self.times:
            self.other()
        return self.inner.updates(attempt)  # type: ignore[attr-defined,no-any-return]


def rival(pointer: Pointer) -> Callable[[], object]:
    """Somebody who commits a property of his own each time."""
    calls: list[int] = []

    def act() -> None:
        calls.append(1)
        commit(pointer, [UpdateProperties({f"rival-{len(calls)}": "was here"})])

    return act


# one attempt ------------------------------------------------------------------------------------------------------


def test_a_commit_gives_the_new_state() -> None:
    pointer = new_table()
    before = loaded(pointer)
    done = commit(pointer, [UpdateProperties({"owner": "me"})])
    assert done.status is CommitStatus.PUBLISHED
    assert done.attempts == 1
    assert done.location == loaded(pointer).location != before.location
    assert done.metadata.properties["owner"] == "me"
    assert [entry.metadata_file for entry in done.metadata.metadata_log] == [before.location]


def test_several_changes_are_one_commit() -> None:
    pointer = new_table()
    before = loaded(pointer)
    first, second = append(pointer, "a"), append(pointer, "b")
    done = commit(pointer, [first, UpdateProperties({"owner": "me"}), second])
    assert live_files(done.metadata, pointer.storage) == {path("a"), path("b")}
    assert done.metadata.properties["owner"] == "me"
    assert len(done.metadata.metadata_log) == 1
    assert [entry.snapshot_id for entry in done.metadata.snapshot_log] == [second.snapshot_id]
    assert done.metadata.snapshot(second.snapshot_id).parent_snapshot_id == first.snapshot_id
    assert done.metadata.last_sequence_number == before.metadata.last_sequence_number + 2


@pytest.mark.parametrize("changes", [[], [UpdateProperties()], [UpdateProperties(remove=["no such"])]])
def test_nothing_to_do_is_no_commit(changes: list[UpdateProperties]) -> None:
    pointer = FaultyPointer(new_table())
    before = loaded(pointer.inner)
    done = commit(pointer, changes)
    assert done.status is CommitStatus.UNCHANGED
    assert done.location == before.location
    assert pointer.calls == ["load"]


def test_setting_what_is_set_already_is_no_commit() -> None:
    pointer = FaultyPointer(new_table(properties={"owner": "me"}))
    assert commit(pointer, [UpdateProperties({"owner": "me"})]).status is CommitStatus.UNCHANGED
    assert "swap" not in pointer.calls


def test_the_time_of_a_commit_never_goes_back() -> None:
    pointer = new_table()
    commit(pointer, [append(pointer, "a")])
    last = loaded(pointer).metadata.last_updated_ms
    early = deterministic_environment(7, start_ms=last - 3_600_000)
    behind = WrappedPointer(pointer, environment=early)
    done = commit(behind, [PutFiles(early, [data_file(path("b"))])])
    assert done.metadata.last_updated_ms == last
    assert done.metadata.snapshots[-1].timestamp_ms == last


def test_a_snapshot_and_its_commit_have_the_same_time() -> None:
    pointer = new_table()
    done = commit(pointer, [append(pointer, "a")])
    assert done.metadata.last_updated_ms == done.metadata.snapshots[-1].timestamp_ms


def test_requirements_say_what_the_updates_rest_on() -> None:
    seen: list[Proposal] = []

    class Watching(WrappedPointer):
        def swap(self, proposal: Proposal) -> None:
            seen.append(proposal)
            super().swap(proposal)

    pointer = Watching(memory_catalog().pointer(("db", "t")))
    create(pointer)
    assert seen[-1].requirements == (AssertCreate(),)
    assert seen[-1].base is None
    commit(pointer, [append(pointer, "a")])
    uuid = loaded(pointer).metadata.table_uuid
    assert uuid is not None
    assert seen[-1].requirements == (AssertTableUuid(uuid), AssertRefSnapshotId("main", None))


def test_an_error_of_a_change_names_the_table_and_changes_nothing() -> None:
    pointer = FaultyPointer(new_table())

    class Wrong:
        def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
            raise InvalidUpdate("no")

    with pytest.raises(InvalidUpdate, match=r"table: db\.t"):
        commit(pointer, [UpdateProperties({"owner": "me"}), Wrong()])
    assert pointer.calls == ["load"]
    assert properties_of(pointer) == {}


def test_a_table_that_is_not_there() -> None:
    with pytest.raises(NoSuchTable, match="no such table"):
        commit(memory_catalog().pointer(("db", "t")), [UpdateProperties({"owner": "me"})])


def test_a_file_whose_answer_is_lost_before_the_swap_is_a_definite_failure() -> None:
    """The user is not left in doubt: nothing was sent that could publish."""

    class Silent:
        def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
            raise OutcomeUnknown("the answer was lost", location="m.avro")

    pointer = new_table()
    with pytest.raises(CommitFailed, match="not published") as caught:
        commit(pointer, [Silent()])
    assert not isinstance(caught.value, CommitConflict)
    assert caught.value.context["table"] == "db.t"


# retries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [1, 2, 4])
def test_a_lost_race_is_tried_again(lost: int) -> None:
    pointer = new_table()
    change = Racing(UpdateProperties({"owner": "me"}), rival(pointer), lost)
    done = commit(pointer, [change])
    assert done.attempts == lost + 1
    assert change.seen == list(range(1, lost + 2))
    assert properties_of(pointer) == {"owner": "me"} | {f"rival-{n + 1}": "was here" for n in range(lost)}


def test_retries_end() -> None:
    pointer = new_table(properties={"commit.retry.num-retries": "2"})
    commit(pointer, [append(pointer, "a")])
    head = loaded(pointer).metadata.current_snapshot_id
    change = Racing(UpdateProperties({"owner": "me"}), rival(pointer), 99)
    with pytest.raises(CommitConflict) as caught:
        commit(pointer, [change])
    assert change.seen == [1, 2, 3]
    text = str(caught.value)
    assert "in each of 3 attempts" in text
    assert f"last: snapshot {head} (append)" in text
    assert "commit.retry.num-retries" in text
    assert isinstance(caught.value.__cause__, CommitConflict)
    assert caught.value.retryable


def test_no_retries() -> None:
    pointer = new_table(properties={"commit.retry.num-retries": "0"})
    change = Racing(UpdateProperties({"owner": "me"}), rival(pointer), 99)
    with pytest.raises(CommitConflict, match="each of 1 attempts"):
        commit(pointer, [change])


def test_pauses_grow_and_have_jitter_and_a_limit() -> None:
    """Expected values: 100 ms doubled each time up to 300 ms, times one half to three halves, within the limits."""
    numbers = {"num-retries": "5", "min-wait-ms": "100", "max-wait-ms": "300"}
    pointer = new_table(properties={f"commit.retry.{k}": v for k, v in numbers.items()})
    waits: list[float] = []
    chances = iter([0.5, 0.0, 0.9, 0.25, 0.5])
    environment = replace(pointer.environment, sleep=waits.append, random=lambda: next(chances))
    change = Racing(UpdateProperties({"owner": "me"}), rival(pointer), 5)
    commit(WrappedPointer(pointer, environment=environment), [change])
    assert waits == [0.1, 0.1, 0.3, 0.225, 0.3]


def test_the_total_time_is_a_limit() -> None:
    pointer = new_table(properties={"commit.retry.num-retries": "99", "commit.retry.total-timeout-ms": "1000"})
    began = pointer.environment.clock.now_ms()
    change = Racing(UpdateProperties({"owner": "me"}), rival(pointer), 999)
    with pytest.raises(CommitConflict, match="within 1"):
        commit(pointer, [change])
    assert 1_000 <= pointer.environment.clock.now_ms() - began < 1_200


def test_checks_of_the_outcome_have_settings_of_their_own() -> None:
    given = {
        "commit.status-check.num-retries": "5",
        "commit.status-check.min-wait-ms": "6",
        "commit.status-check.max-wait-ms": "7",
        "commit.status-check.total-timeout-ms": "8",
    }
    assert retry_policy(given, COMMIT_STATUS_CHECK) == RetryPolicy(5, 6, 7, 8)
    assert retry_policy(given) == retry_policy({})


def test_a_wrong_setting_can_be_mended() -> None:
    pointer = new_table()

    class Others:
        """What another engine sets, which looks at no values."""

        def updates(self, attempt: Attempt) -> list[SetProperties]:
            return [SetProperties({"commit.retry.num-retries": "many"})]

    commit(pointer, [Others()])
    change = Racing(UpdateProperties(remove=["commit.retry.num-retries"]), rival(pointer), 1)
    assert commit(pointer, [change]).attempts == 2


@pytest.mark.parametrize("kind", [CommitConflict, RequirementFailed])
def test_any_retryable_conflict_is_tried_again(kind: type[CommitConflict]) -> None:
    refused = [kind("not now"), kind("not now")]

    class Refusing(WrappedPointer):
        def swap(self, proposal: Proposal) -> None:
            if refused:
                raise refused.pop()
            super().swap(proposal)

    pointer = Refusing(new_table())
    assert commit(pointer, [UpdateProperties({"owner": "me"})]).attempts == 3


@pytest.mark.parametrize("lost", [False, True], ids=["expired", "lost"])
def test_a_manifest_that_is_gone_is_looked_for_in_the_newer_state(lost: bool) -> None:
    """While an append looks at the manifests of the head, somebody replaces them, and expires what he replaced."""
    pointer = new_table()
    first = FastAppend([data_file(path("a"))])
    commit(pointer, [first])

    def act() -> None:
        if lost:  # and nobody has committed
            (manifest,) = [file for file in first.written() if "-m" in file.rpartition("/")[2]]
            pointer.storage.delete_many([manifest])
            return
        commit(pointer, [DeleteFiles(paths=[path("a")])])
        commit(pointer, [FastAppend([data_file(path("b"))])])
        apply_expire(pointer, plan_expire(pointer, older_than_ms=pointer.environment.clock.now_ms() + 1))

    racing = Racing(FastAppend([data_file(path("c"))]), act)
    if lost:
        with pytest.raises(NoSuchFile):
            commit(pointer, [racing])
        assert racing.seen == [1]
    else:
        assert commit(pointer, [racing]).attempts == 2
        assert live_files(loaded(pointer).metadata, pointer.storage) == {path("b"), path("c")}


def test_a_conflicting_change_is_final() -> None:
    class Conflicting:
        attempts = 0

        def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
            self.attempts += 1
            raise ConflictingChange("somebody else changed it")

    change = Conflicting()
    with pytest.raises(ConflictingChange):
        commit(new_table(), [change])
    assert change.attempts == 1


def test_an_error_of_the_swap_is_final() -> None:
    class Denied(WrappedPointer):
        def swap(self, proposal: Proposal) -> None:
            raise AccessDenied("you may not")

    pointer = Denied(new_table())
    files = {info.location for info in pointer.storage.list(LOCATION)}
    change = append(pointer, "a")
    with pytest.raises(AccessDenied):
        commit(pointer, [change])
    left = {info.location for info in pointer.storage.list(LOCATION)}
    assert left == files | {path("a")}, "metadata files of the failed commit are gone, data files are the engine's"


def test_a_stale_sequence_number_is_made_again() -> None:
    """A change that keeps a snapshot from an earlier state is told so by `apply`, as a conflict."""
    pointer = new_table()
    inner = append(pointer, "a")
    change = Racing(inner, lambda: commit(pointer, [append(pointer, "b")]))
    assert commit(pointer, [change]).attempts == 2
    assert live_files(loaded(pointer).metadata, pointer.storage) == {path("a"), path("b")}


def test_what_lost_attempts_wrote_is_removed() -> None:
    pointer = new_table()
    inner = append(pointer, "a")

    class Keyed(Racing):
        snapshot_id, commit_id, branch = inner.snapshot_id, inner.commit_id, "main"
        written, used, forget = inner.written, inner.used, inner.forget

    change = Keyed(inner, lambda: commit(pointer, [append(pointer, "b")]), 2)
    # the rival writes b twice: two snapshots with the same file name are fine here
    done = commit(pointer, [change])
    assert done.attempts == 3
    assert done.notes == ()
    lists = [name for name in inner.written() if "/snap-" in name]
    assert len(lists) == 3
    assert [pointer.storage.exists(name) for name in lists] == [False, False, True]
    check_readable(done.metadata, pointer.storage)
    metadata_files = [i.location for i in pointer.storage.list(LOCATION) if i.location.endswith(".metadata.json")]
    assert len(metadata_files) == 4, "proposals that were not published are discarded"


def test_a_failed_change_can_be_committed_again() -> None:
    """Its manifests were deleted with the failure, so that they must not be used again."""
    pointer = new_table(properties={"commit.retry.num-retries": "0"})
    inner = append(pointer, "a")

    class Keyed(Racing):
        snapshot_id, commit_id, branch = inner.snapshot_id, inner.commit_id, "main"
        written, used, forget = inner.written, inner.used, inner.forget

    change = Keyed(inner, rival(pointer), 1)
    with pytest.raises(CommitConflict):
        commit(pointer, [change])
    assert [pointer.storage.exists(name) for name in inner.written()] == []
    done = commit(pointer, [change])
    assert done.status is CommitStatus.PUBLISHED
    assert check_readable(done.metadata, pointer.storage) == 1


def test_another_table_of_the_same_name_is_not_changed() -> None:
    catalog = memory_catalog()
    pointer = catalog.pointer(("db", "t"))
    create(pointer)

    def swapped() -> None:
        catalog.drop_table(("db", "t"))
        create(pointer)

    change = Racing(UpdateProperties({"owner": "me"}), swapped)
    with pytest.raises(NoSuchTable, match="load the table again"):
        commit(pointer, [change])
    assert properties_of(pointer) == {}


def test_the_table_that_the_user_saw() -> None:
    pointer = new_table()
    uuid = loaded(pointer).metadata.table_uuid
    assert commit(pointer, [UpdateProperties({"a": "1"})], table_uuid=uuid).status is CommitStatus.PUBLISHED
    with pytest.raises(NoSuchTable, match=f"9c12d441-03fe-4693-9a96-a0705ddf69c1.*{uuid}"):
        commit(pointer, [UpdateProperties({"a": "2"})], table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1")


def test_a_table_that_is_dropped_meanwhile() -> None:
    catalog = memory_catalog()
    pointer = catalog.pointer(("db", "t"))
    create(pointer)
    change = Racing(UpdateProperties({"owner": "me"}), lambda: catalog.drop_table(("db", "t")))
    with pytest.raises(NoSuchTable):
        commit(pointer, [change])


def test_a_v1_table_without_uuid_gets_one() -> None:
    pointer = new_table(format_version=1)
    state = loaded(pointer)
    catalog = pointer.catalog  # type: ignore[attr-defined]
    catalog._tables["db", "t"] = replace(state, metadata=replace(state.metadata, table_uuid=None))
    done = commit(pointer, [UpdateProperties({"format-version": "2"})])
    assert done.metadata.format_version == 2
    assert done.metadata.table_uuid


# creating ---------------------------------------------------------------------------------------------------------


def test_of_two_that_create_a_table_one_wins() -> None:
    catalog = memory_catalog()
    pointer = catalog.pointer(("db", "t"))

    class Slow(WrappedPointer):
        def swap(self, proposal: Proposal) -> None:
            if pointer.load() is None:
                create(pointer, TableDefinition(SCHEMA, properties={"owner": "rival"}))
            super().swap(proposal)

    with pytest.raises(TableAlreadyExists):
        create(Slow(pointer), TableDefinition(SCHEMA, properties={"owner": "me"}))
    assert properties_of(pointer) == {"owner": "rival"}
    files = [info.location for info in pointer.storage.list(LOCATION)]
    assert files == [loaded(pointer).location], "the loser leaves nothing behind"


def test_create_or_replace_takes_what_it_finds() -> None:
    catalog = memory_catalog()
    pointer = catalog.pointer(("db", "t"))

    class Slow(WrappedPointer):
        def swap(self, proposal: Proposal) -> None:
            if pointer.load() is None:
                create(pointer, TableDefinition(SCHEMA, properties={"owner": "rival"}))
            super().swap(proposal)

    uuid = str(pointer.environment.ids.uuid())
    change = CreateOrReplaceTable(
        TableDefinition(Schema(()), properties={"mine": "yes"}), new_location=LOCATION, table_uuid=uuid
    )
    done = commit(Slow(pointer), [change])
    assert done.attempts == 2
    assert done.metadata.table_uuid != uuid
    assert properties_of(pointer) == {"owner": "rival", "mine": "yes"}


def test_a_name_that_a_view_has_is_told_at_once() -> None:
    class Taken(WrappedPointer):
        def swap(self, proposal: Proposal) -> None:
            raise TableAlreadyExists("there is a view of that name already")

    pointer = Taken(memory_catalog().pointer(("db", "t")))
    with pytest.raises(TableAlreadyExists, match="a view"):
        create(pointer)


def test_a_creation_whose_answer_was_lost_is_found() -> None:
    for fault in (Fault.LOST_ANSWER, Fault.TWICE):
        pointer = FaultyPointer(memory_catalog().pointer(("db", "t")), fault, at=1, only={"swap"})
        done = create(pointer)
        assert done.metadata.table_uuid == loaded(pointer.inner).metadata.table_uuid


def test_a_table_is_created_with_its_first_rows() -> None:
    pointer = memory_catalog().pointer(("db", "t"))
    uuid = str(pointer.environment.ids.uuid())
    done = commit(pointer, [CreateTable(TableDefinition(SCHEMA), LOCATION, uuid), append(pointer, "a")])
    assert live_files(done.metadata, pointer.storage) == {path("a")}
    assert done.metadata.metadata_log == ()


# several tables ---------------------------------------------------------------------------------------------------


def two_tables() -> tuple[object, list[Pointer]]:
    catalog = memory_catalog()
    pointers: list[Pointer] = [catalog.pointer(("db", name)) for name in ("one", "two")]
    for number, pointer in enumerate(pointers):
        create(pointer, location=f"memory:warehouse/db/{number}")
    return catalog, pointers


def test_several_tables_are_published_together() -> None:
    catalog, (one, two) = two_tables()
    done = commit_all(
        [(one, [UpdateProperties({"a": "1"})]), (two, [UpdateProperties({"b": "2"})])],
        catalog.shared,  # type: ignore[attr-defined]
    )
    assert [state.status for state in done] == [CommitStatus.PUBLISHED, CommitStatus.PUBLISHED]
    assert properties_of(one) == {"a": "1"}
    assert properties_of(two) == {"b": "2"}


def test_a_race_lost_for_one_table_is_lost_for_all_and_tried_again() -> None:
    catalog, (one, two) = two_tables()
    change = Racing(UpdateProperties({"b": "2"}), rival(two))
    done = commit_all([(one, [UpdateProperties({"a": "1"})]), (two, [change])], catalog.shared)  # type: ignore[attr-defined]
    assert [state.attempts for state in done] == [2, 2]
    assert properties_of(two) == {"b": "2", "rival-1": "was here"}
    assert len(loaded(one).metadata.metadata_log) == 1


def test_a_conflict_in_one_table_changes_none() -> None:
    catalog, (one, two) = two_tables()

    class Conflicting:
        def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
            raise ConflictingChange("somebody else changed it")

    with pytest.raises(ConflictingChange):
        commit_all([(one, [UpdateProperties({"a": "1"})]), (two, [Conflicting()])], catalog.shared)  # type: ignore[attr-defined]
    assert properties_of(one) == {}


def test_a_table_with_nothing_to_do_is_left_alone() -> None:
    catalog, (one, two) = two_tables()
    done = commit_all([TableChanges(one, [UpdateProperties({"a": "1"})]), TableChanges(two, [])], catalog.shared)  # type: ignore[attr-defined]
    assert [state.status for state in done] == [CommitStatus.PUBLISHED, CommitStatus.UNCHANGED]


def test_catalogs_that_cannot_say_so_before_anything_is_written() -> None:
    _, (one, two) = two_tables()
    before = list(one.storage.list("memory:warehouse"))
    with pytest.raises(UnsupportedFeature, match=r"db\.one, db\.two"):
        commit_all([(one, [append(one, "a")]), (two, [append(two, "b")])])
    assert list(one.storage.list("memory:warehouse")) == before


def test_a_table_cannot_be_named_twice() -> None:
    catalog, (one, _) = two_tables()
    with pytest.raises(InvalidInput, match="named twice"):
        commit_all([(one, []), (one, [])], catalog.shared)  # type: ignore[attr-defined]


def test_no_tables_are_no_work() -> None:
    assert commit_all([]) == []


def test_runs_repeat() -> None:
    """The same environment makes the same files, byte for byte."""

    def run() -> dict[str, bytes]:
        storage = MemoryStorage()
        pointer = new_table(3, storage=storage)
        change = Racing(append(pointer, "a"), rival(pointer), 2)
        commit(pointer, [change])
        names = [info.location for info in storage.list(LOCATION)]
        return {name: storage.read(name) for name in names if name.endswith(".json")}

    assert run() == run()


def test_the_environment_is_the_pointers() -> None:
    pointer = new_table()
    assert isinstance(pointer.environment, Environment)
    done = commit(pointer, [_SetNow()])
    assert done.metadata.properties["when"] == str(done.metadata.last_updated_ms)


class _SetNow:
    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        return (SetProperties({"when": str(attempt.now_ms)}),)
