"""Races for version numbers: stalled writers, cleaned and dropped versions, and writers in other processes."""

import gzip
import json
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from floe.catalog.file_system.catalog import FileSystemCatalog
from floe.commit.pointer import Outcome, Proposal, TableState
from floe.errors import CommitConflict, CommitFailed, OutcomeUnknown, TableAlreadyExists
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.snapshots import Snapshot, SnapshotRef
from floe.spec.metadata.updates import AddSnapshot, SetSnapshotRef
from floe.storage.environment import deterministic_environment
from floe.storage.local import LocalStorage
from floe.storage.memory import MemoryStorage
from helpers.catalog_tables import Interrupted, a_view, change, create, load, names, new_metadata, propose

ORDERS = ("db", "orders")
CLEANING = {"write.metadata.delete-after-commit.enabled": "true"}


class World:
    """One table, a writer that can be held up at its creation of a file, and the others."""

    def __init__(self, **properties: str) -> None:
        environment = deterministic_environment()
        self.files = MemoryStorage(clock=environment.clock)
        self.storage = Interrupted(self.files)
        self.others = FileSystemCatalog("memory:wh", storage=self.files, environment=environment)
        self.catalog = FileSystemCatalog("memory:wh", storage=self.storage, environment=environment)
        create(self.others, ORDERS, properties)
        self.pointer = self.catalog.pointer(ORDERS)
        self.rival = self.others.pointer(ORDERS)

    def go_on(self, commits: int, start: int = 0) -> TableState:
        for n in range(start, start + commits):
            change(self.rival, n=str(n))
        return load(self.rival)

    def versions(self) -> list[str]:
        found = names(self.files, "memory:wh/db/orders/metadata")
        return sorted((name for name in found if name.startswith("v") and name.endswith(".json")), key=_number)

    def snapshot(self, snapshot_id: int) -> Proposal:
        """A proposal that adds a snapshot."""
        base = load(self.pointer)
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            timestamp_ms=base.metadata.last_updated_ms,
            sequence_number=base.metadata.next_sequence_number,
            summary={"operation": "append"},
            manifest_list=f"memory:wh/db/orders/metadata/snap-{snapshot_id}.avro",
        )
        updates = [AddSnapshot(snapshot), SetSnapshotRef("main", SnapshotRef(snapshot_id=snapshot_id, type="branch"))]
        now_ms = self.pointer.environment.clock.now_ms()
        changed = apply(base.metadata, updates, now_ms=now_ms, metadata_location=base.location)
        return self.pointer.propose(base, changed)


def _number(name: str) -> int:
    return int(name[1:].split(".", maxsplit=1)[0])


# a writer that stands still (A8) ----------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [1, 2, 5])
@pytest.mark.parametrize("commits", range(1, 12))
def test_a_number_that_was_cleaned_away_is_not_used_again(keep: int, commits: int) -> None:
    """The writer stands still between its last look and its creation, while others commit and clean up."""
    world = World(**CLEANING, **{"write.metadata.previous-versions-max": str(keep)})
    world.go_on(3)
    base = load(world.pointer)
    proposal = propose(world.pointer, base, by="late")
    world.storage.before = lambda: world.go_on(commits, start=3)
    with pytest.raises(CommitConflict):
        world.pointer.swap(proposal)
    after = load(world.rival)
    assert after.metadata.properties["n"] == str(2 + commits)
    assert "by" not in after.metadata.properties
    newest = 4 + commits
    assert world.versions() == [f"v{n}.metadata.json" for n in range(max(1, newest - keep), newest + 1)]
    assert change(world.pointer, by="late").metadata.properties["n"] == str(2 + commits)


def test_a_writer_that_finds_its_base_gone_writes_nothing() -> None:
    world = World(**CLEANING, **{"write.metadata.previous-versions-max": "1"})
    proposal = propose(world.pointer, load(world.pointer), by="late")
    world.go_on(5)
    before = world.versions()
    with pytest.raises(CommitConflict):
        world.pointer.swap(proposal)
    assert world.versions() == before
    assert world.pointer.settle(proposal) in (Outcome.ABSENT, Outcome.UNKNOWN)
    assert world.versions() == before


@pytest.mark.parametrize("keep", [1, 2, 5])
@pytest.mark.parametrize("commits", range(1, 9))
def test_a_commit_that_others_build_upon_stands(keep: int, commits: int) -> None:
    """The writer stands still after its creation; others commit on top, and clean its base and its file away."""
    world = World(**CLEANING, **{"write.metadata.previous-versions-max": str(keep)})
    world.go_on(3)
    proposal = world.snapshot(77)
    world.storage.after = lambda: world.go_on(commits, start=3)
    world.pointer.swap(proposal)
    after = load(world.rival)
    assert after.metadata.properties["n"] == str(2 + commits)
    assert after.metadata.current_snapshot_id == 77


@pytest.mark.parametrize("commits", range(1, 6))
def test_a_change_without_a_snapshot_is_never_said_to_have_failed_when_it_stands(commits: int) -> None:
    """There is no key to search: as long as the log tells it is found, and later it is unknown, never absent."""
    world = World(**CLEANING, **{"write.metadata.previous-versions-max": "2"})
    proposal = propose(world.pointer, load(world.pointer), by="me")
    world.storage.after = lambda: world.go_on(commits)
    try:
        world.pointer.swap(proposal)
    except OutcomeUnknown:
        assert commits > 2
        assert world.pointer.settle(proposal) is Outcome.UNKNOWN
    assert load(world.rival).metadata.properties["by"] == "me"


def test_clean_up_that_was_switched_on_late_leaves_no_gap() -> None:
    """Versions from before are deleted with the first that leaves the log, in their order: no number is free again."""
    world = World(**{"write.metadata.previous-versions-max": "2"})
    world.go_on(6)
    late = propose(world.pointer, load(world.pointer), by="late")
    world.rival.environment.clock.now_ms()
    state = change(world.rival, **CLEANING)
    assert world.versions()[0] == f"v{_number(state.location.rpartition('/')[2]) - 2}.metadata.json"
    world.go_on(4, start=10)
    with pytest.raises(CommitConflict):
        world.pointer.swap(late)
    newest = _number(load(world.rival).location.rpartition("/")[2])
    assert world.versions() == [f"v{n}.metadata.json" for n in range(newest - 2, newest + 1)]


def test_a_gap_that_others_left_is_not_filled() -> None:
    """Java deletes without an order. The base is there, the next number is free, and the hint tells better."""
    world = World()
    world.go_on(1)
    proposal = propose(world.pointer, load(world.pointer), by="late")
    world.go_on(4, start=1)
    world.files.delete_many(["memory:wh/db/orders/metadata/v3.metadata.json"])
    with pytest.raises(CommitConflict):
        world.pointer.swap(proposal)
    assert "v3.metadata.json" not in world.versions()
    assert load(world.rival).metadata.properties["n"] == "4"


# dropped meanwhile ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("purge", [False, True])
def test_a_table_that_was_dropped_is_not_brought_back(purge: bool) -> None:
    world = World()
    world.go_on(2)
    proposal = propose(world.pointer, load(world.pointer), by="late")
    world.storage.before = lambda: world.others.drop_table(ORDERS, purge=purge)
    with pytest.raises(CommitConflict):
        world.pointer.swap(proposal)
    assert world.pointer.load() is None
    assert world.versions() == []
    assert world.others.tables(("db",)) == []


@pytest.mark.parametrize("purge", [False, True])
@pytest.mark.parametrize("commits", [0, 1, 2, 3, 4])
def test_a_table_that_was_made_anew_is_not_touched(purge: bool, commits: int) -> None:
    world = World()
    world.go_on(2)
    proposal = propose(world.pointer, load(world.pointer), by="late")

    def make_anew() -> None:
        world.others.drop_table(ORDERS, purge=purge)
        create(world.others, ORDERS)
        world.go_on(commits, start=10)

    world.storage.before = make_anew
    with pytest.raises(CommitConflict):
        world.pointer.swap(proposal)
    after = load(world.rival)
    assert after.metadata.table_uuid != proposal.metadata.table_uuid
    assert world.versions() == [f"v{n}.metadata.json" for n in range(1, commits + 2)]
    change(world.pointer, by="me")


def test_a_commit_that_is_dropped_right_after_is_gone() -> None:
    world = World()
    proposal = propose(world.pointer, load(world.pointer), by="me")
    world.storage.after = lambda: world.others.drop_table(ORDERS)
    with pytest.raises(CommitConflict):
        world.pointer.swap(proposal)
    assert world.versions() == []


def test_a_drop_takes_commits_with_it_that_come_meanwhile() -> None:
    world = World()
    slow = FileSystemCatalog("memory:wh", storage=BeforeDeleting(world.files, lambda: world.go_on(1)))
    slow.drop_table(ORDERS)
    assert world.rival.load() is None
    assert world.versions() == []


class BeforeDeleting(Interrupted):
    """A storage on which something happens before the first deletion."""

    def __init__(self, storage: MemoryStorage, action: Callable[[], object]) -> None:
        super().__init__(storage)
        self._actions = [action]

    def delete_many(self, locations: Any) -> Any:
        while self._actions:
            self._actions.pop()()
        return super().delete_many(locations)


# Java in between --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v2.gz.metadata.json", "v2.metadata.json.gz"])
def test_another_spelling_that_came_in_between_wins(name: str) -> None:
    """Java does not look again, so we do: two files of one version must not both count."""
    world = World()
    proposal = propose(world.pointer, load(world.pointer), by="floe")
    theirs = gzip.compress(proposal.content.replace(b'"floe"', b'"java"'))
    world.storage.before = lambda: world.files.write(f"memory:wh/db/orders/metadata/{name}", theirs)
    with pytest.raises(CommitConflict):
        world.pointer.swap(proposal)
    assert load(world.rival).metadata.properties["by"] == "java"
    assert not world.files.exists(proposal.location)


def test_a_file_that_java_put_over_ours_is_noticed() -> None:
    """Java renames onto the version after looking; where renaming replaces, ours is gone."""
    world = World()
    proposal = propose(world.pointer, load(world.pointer), by="floe")
    theirs = proposal.content.replace(b'"floe"', b'"java engine"')
    world.storage.after = lambda: world.files.write(proposal.location, theirs, overwrite=True)
    with pytest.raises(CommitConflict):
        world.pointer.swap(proposal)
    assert load(world.rival).metadata.properties["by"] == "java engine"


def test_a_table_that_java_created_compressed_in_between_wins() -> None:
    world = World()
    pointer = world.catalog.pointer(("db", "new"))
    proposal = pointer.propose(None, new_metadata(pointer, world.catalog.default_location(("db", "new"))))
    theirs = "memory:wh/db/new/metadata/v1.gz.metadata.json"
    other = new_metadata(pointer, world.catalog.default_location(("db", "new")), {"by": "java"})
    content = gzip.compress(pointer.propose(None, other).content)
    world.storage.before = lambda: world.files.write(theirs, content)
    with pytest.raises(TableAlreadyExists):
        pointer.swap(proposal)
    assert load(pointer).metadata.properties == {"by": "java"}


# tables and views -------------------------------------------------------------------------------------------------


def test_a_view_that_came_in_between_keeps_its_name() -> None:
    world = World()
    pointer = world.catalog.pointer(("db", "x"))
    proposal = pointer.propose(None, new_metadata(pointer, world.catalog.default_location(("db", "x"))))
    world.storage.before = lambda: world.others.create_view(("db", "x"), a_view())
    with pytest.raises(TableAlreadyExists):
        pointer.swap(proposal)
    assert world.others.view_exists(("db", "x"))
    assert pointer.load() is None


def test_a_table_that_came_in_between_keeps_its_name() -> None:
    world = World()
    world.storage.before = lambda: create(world.others, ("db", "x"))
    with pytest.raises(Exception, match="a table of that name"):
        world.catalog.create_view(("db", "x"), a_view())
    assert world.others.table_exists(("db", "x"))
    assert world.others.views(("db",)) == []


def test_a_view_that_was_made_anew_is_not_replaced() -> None:
    world = World()
    world.others.create_view(("db", "v"), a_view("SELECT 1"))

    def make_anew() -> None:
        world.others.drop_view(("db", "v"))
        world.others.create_view(("db", "v"), a_view("SELECT 'new'"))

    world.storage.before = make_anew
    with pytest.raises(CommitConflict):
        world.catalog.replace_view(("db", "v"), a_view("SELECT 1"), a_view("SELECT 2"))
    assert world.others.load_view(("db", "v")) == a_view("SELECT 'new'")


# processes --------------------------------------------------------------------------------------------------------


def _commit_in_a_process(warehouse: str, number: int, count: int, start: Any, results: Any) -> None:
    catalog = FileSystemCatalog(warehouse, storage=LocalStorage(durable=False))
    pointer = catalog.pointer(ORDERS)
    acknowledged: list[tuple[str, str]] = []
    start.wait()
    while len(acknowledged) < count:
        key = f"{number}.{len(acknowledged)}"
        try:
            acknowledged.append((key, change(pointer, **{key: "done"}).location))
        except CommitFailed:
            continue
    results.put(acknowledged)


@pytest.mark.parametrize("cleaning", [pytest.param(False, marks=pytest.mark.slow), True])
def test_processes_that_commit_to_one_table(tmp_path: Path, cleaning: bool) -> None:
    """Eight of them: every version that was told as committed is there once, and the table holds all of it."""
    writers, count = 8, 5
    keep = {"write.metadata.previous-versions-max": "5", **CLEANING} if cleaning else {}
    create(FileSystemCatalog(str(tmp_path)), ORDERS, keep)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["floe.catalog.file_system.catalog", "helpers.catalog_tables"])
    start, results = context.Barrier(writers), context.Queue()
    processes = [
        context.Process(target=_commit_in_a_process, args=(str(tmp_path), n, count, start, results))
        for n in range(writers)
    ]
    for process in processes:
        process.start()
    acknowledged = [entry for _ in processes for entry in results.get(timeout=120)]
    for process in processes:
        process.join(timeout=30)
        assert process.exitcode == 0
    locations = [location for _, location in acknowledged]
    assert len(locations) == len(set(locations)) == writers * count
    newest = load(FileSystemCatalog(str(tmp_path)).pointer(ORDERS))
    keys = {key for key in newest.metadata.properties if key[0].isdigit()}
    assert keys == {key for key, _ in acknowledged}
    assert newest.location.endswith(f"/v{writers * count + 1}.metadata.json")
    if not cleaning:
        for key, location in acknowledged:
            assert key in json.loads(Path(location).read_bytes())["properties"]
