"""Others commit between our reading and our commit: nothing of theirs is lost, nothing of ours goes wrong unseen."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from floe import Lake, Table, errors
from helpers.synthetic_files import DAY, data_file, equality_deletes, live, position_deletes


@pytest.fixture
def rival(orders: Table, reconnect: Callable[[], Lake]) -> Table:
    """The same table in the hands of somebody else."""
    return reconnect().table("db.orders")


def test_two_appends_are_both_there(orders: Table, rival: Table) -> None:
    rival.append_files([data_file(rival, "theirs")])
    orders.append_files([data_file(orders, "mine")])
    assert live(orders) == ["mine", "theirs"]
    ours, theirs = orders.snapshots[1], orders.snapshots[0]
    assert ours.parent_snapshot_id == theirs.snapshot_id
    assert (ours.summary or {})["total-records"] == "20"


def test_an_object_shows_what_it_saw_until_it_is_refreshed(orders: Table, rival: Table) -> None:
    rival.append_files([data_file(rival, "theirs")])
    assert live(orders) == []
    assert live(orders.refresh()) == ["theirs"]


def test_row_ids_are_given_once_even_to_rivals(lake: Lake, reconnect: Callable[[], Lake]) -> None:
    mine = lake.create_table("db.t", "id bigint not null", format_version=3)
    theirs = reconnect().table("db.t")
    theirs.append_files([data_file(theirs, "theirs", (1, 7))])
    mine.append_files([data_file(mine, "mine", (1, 10))])
    starts = {row["file_path"].rpartition("/")[2]: row["first_row_id"] for row in mine.inspect.files().to_pylist()}
    assert starts == {"theirs.parquet": 0, "mine.parquet": 7}
    assert mine.metadata.next_row_id == 17


def test_properties_of_two_are_both_set(orders: Table, rival: Table) -> None:
    rival.set_properties({"theirs": "1", "both": "theirs"})
    orders.set_properties({"mine": "1", "both": "mine"})
    assert orders.properties.items() >= {("theirs", "1"), ("mine", "1"), ("both", "mine")}


def test_two_changes_of_columns_conflict(orders: Table, rival: Table) -> None:
    rival.evolve().add_column("theirs", "int").commit()
    with pytest.raises(errors.ConflictingChange, match="schema"):
        orders.evolve().add_column("mine", "int").commit()
    orders.refresh().evolve().add_column("mine", "int").commit()
    assert orders.schema.has("theirs")
    assert orders.schema.has("mine")
    assert orders.schema.field("mine").id == orders.schema.field("theirs").id + 1


def test_a_change_of_columns_and_an_append_agree(orders: Table, rival: Table) -> None:
    rival.append_files([data_file(rival, "theirs")])
    orders.evolve().add_column("mine", "int").commit()
    assert live(orders) == ["theirs"]
    rival.append_files([data_file(rival, "more")])
    assert live(rival) == ["more", "theirs"]
    assert rival.schema.has("mine")


def test_files_that_lack_a_column_required_meanwhile_are_refused(orders: Table, rival: Table) -> None:
    rival.evolve(allow_incompatible=True).require("note").commit()
    with pytest.raises(errors.FloeError, match="note"):
        orders.append_files([data_file(orders, "mine")])
    assert live(orders.refresh()) == []


def test_two_changes_of_partitioning_conflict(orders: Table, rival: Table) -> None:
    rival.update_spec().add_field("bucket(4, id)").commit()
    with pytest.raises(errors.ConflictingChange):
        orders.update_spec().add_field("bucket(8, id)").commit()


def test_files_of_an_older_partitioning_still_fit(orders: Table, rival: Table) -> None:
    rival.update_spec().add_field("bucket(4, id)").commit()
    orders.append_files([data_file(orders, "mine")])
    assert live(orders) == ["mine"]


def test_removing_what_somebody_removed_conflicts(orders: Table, rival: Table) -> None:
    file = data_file(orders, "a")
    orders.append_files([file])
    rival.refresh().delete_files([file])
    with pytest.raises(errors.ConflictingChange):
        orders.delete_files([file])
    with pytest.raises(errors.ConflictingChange):
        orders.overwrite_files([data_file(orders, "b")], removed=[file])
    assert live(orders.refresh()) == []


def test_an_overwrite_of_what_was_read_sees_new_rows(orders: Table, rival: Table) -> None:
    file = data_file(orders, "a")
    orders.append_files([file])
    rival.append_files([data_file(rival, "theirs", (100, 110))])
    with pytest.raises(errors.ConflictingChange):
        orders.overwrite_files([data_file(orders, "b")], removed=[file])
    assert live(orders.refresh()) == ["a", "theirs"]


def test_an_overwrite_that_read_something_else_does_not(orders: Table, rival: Table) -> None:
    file = data_file(orders, "a", (1, 10))
    orders.append_files([file])
    rival.append_files([data_file(rival, "theirs", (100, 110))])
    orders.overwrite_files([data_file(orders, "b")], removed=[file], read="id <= 10")
    assert live(orders) == ["b", "theirs"]


def test_under_snapshot_isolation_new_rows_are_no_conflict(orders: Table, rival: Table) -> None:
    file = data_file(orders, "a")
    orders.append_files([file])
    rival.append_files([data_file(rival, "theirs")])
    orders.overwrite_files([data_file(orders, "b")], removed=[file], isolation="snapshot")
    assert live(orders) == ["b", "theirs"]


def test_isolation_has_two_names(orders: Table) -> None:
    with pytest.raises(errors.InvalidInput, match="serializable or snapshot"):
        orders.overwrite_files([], isolation="chaos")


def test_a_delete_by_filter_takes_what_came_meanwhile(orders: Table, rival: Table) -> None:
    orders.append_files([data_file(orders, "a", (1, 10))])
    rival.append_files([data_file(rival, "theirs", (3, 5))])
    orders.delete("id <= 10")
    assert live(orders) == []


def test_a_rewrite_of_what_somebody_removed_conflicts(orders: Table, rival: Table) -> None:
    small = [data_file(orders, f"s{n}", (10 * n + 1, 10 * n + 10)) for n in range(2)]
    orders.append_files(small)
    rival.refresh().delete_files(small[:1])
    with pytest.raises(errors.ConflictingChange):
        orders.rewrite_files(small, [data_file(orders, "large", (1, 20))])
    assert live(orders.refresh()) == ["s1"], "the deleted rows did not come back"


def test_a_rewrite_and_an_append_agree(orders: Table, rival: Table) -> None:
    small = [data_file(orders, f"s{n}", (10 * n + 1, 10 * n + 10)) for n in range(2)]
    orders.append_files(small)
    rival.append_files([data_file(rival, "theirs", (100, 110))])
    orders.rewrite_files(small, [data_file(orders, "large", (1, 20))])
    assert live(orders) == ["large", "theirs"]


def test_two_replacements_of_a_partition(orders: Table, rival: Table) -> None:
    orders.append_files([data_file(orders, "a", day=DAY)])
    rival.replace_partitions([data_file(rival, "theirs", day=DAY)])
    orders.replace_partitions([data_file(orders, "mine", day=DAY)])
    assert live(orders) == ["mine"], "the later one replaced all that was there"


@pytest.fixture(params=[2, 3], ids="v{}".format)
def pair(request: pytest.FixtureRequest, lake: Lake, reconnect: Callable[[], Lake]) -> tuple[Table, Table]:
    """A table whose version has deletes, in the hands of two."""
    mine = lake.create_table("db.t", "id bigint not null", format_version=request.param)
    return mine, reconnect().table("db.t")


def test_rows_deleted_of_a_file_that_was_rewritten_are_not_lost(pair: tuple[Table, Table]) -> None:
    mine, theirs = pair
    file = data_file(mine, "a", (1, 10))
    mine.append_files([file])
    theirs.refresh().row_delta(deletes=[position_deletes(theirs, "d", file)])
    with pytest.raises(errors.ConflictingChange):
        mine.rewrite_files([file], [data_file(mine, "b", (1, 10))])
    assert live(mine.refresh()) == ["a"]


def test_deletes_of_a_file_that_was_rewritten_conflict(pair: tuple[Table, Table]) -> None:
    mine, theirs = pair
    file = data_file(mine, "a", (1, 10))
    mine.append_files([file])
    theirs.refresh().rewrite_files([file], [data_file(theirs, "b", (1, 10))])
    with pytest.raises(errors.ConflictingChange):
        mine.row_delta(deletes=[position_deletes(mine, "d", file)])
    assert live(mine.refresh()) == ["b"]


def test_an_update_and_a_delete_of_the_same_rows_conflict(pair: tuple[Table, Table]) -> None:
    mine, theirs = pair
    file = data_file(mine, "a", (1, 10))
    mine.append_files([file])
    theirs.refresh().row_delta(deletes=[position_deletes(theirs, "d", file, 10)])
    with pytest.raises(errors.ConflictingChange):
        mine.overwrite_files([data_file(mine, "b", (1, 10))], removed=[file])
    assert live(mine.refresh()) == ["a"]


def test_equality_deletes_of_two_agree(pair: tuple[Table, Table]) -> None:
    mine, theirs = pair
    mine.append_files([data_file(mine, "a", (1, 10))])
    theirs.refresh().row_delta(deletes=[equality_deletes(theirs, "theirs")])
    mine.row_delta(deletes=[equality_deletes(mine, "mine")])
    (task,) = mine.scan().plan().tasks()
    assert len(task.deletes) == 2


def test_a_rollback_takes_back_only_what_was_seen(orders: Table, rival: Table) -> None:
    first = orders.append_files([data_file(orders, "a")])
    assert first is not None
    orders.append_files([data_file(orders, "b")])
    rival.refresh().append_files([data_file(rival, "theirs")])
    with pytest.raises(errors.ConflictingChange):
        orders.rollback(to=first.snapshot_id)
    assert live(orders.refresh()) == ["a", "b", "theirs"]
    orders.rollback(to=first.snapshot_id)
    assert live(orders) == ["a"]


def test_a_branch_is_made_by_one(orders: Table, rival: Table) -> None:
    orders.append_files([data_file(orders, "a")])
    rival.refresh().create_branch("audit")
    with pytest.raises(errors.AlreadyExists):
        orders.create_branch("audit")


def test_a_branch_that_moved_is_not_dropped(orders: Table, rival: Table) -> None:
    orders.append_files([data_file(orders, "a")])
    orders.create_branch("audit")
    rival.refresh().branch("audit").append_files([data_file(rival, "theirs")])
    with pytest.raises(errors.ConflictingChange):
        orders.drop_branch("audit")
    assert live(orders.refresh(), ref="audit") == ["a", "theirs"]


def test_commits_to_different_branches_agree(orders: Table, rival: Table) -> None:
    orders.append_files([data_file(orders, "a")])
    orders.create_branch("audit")
    rival.refresh().branch("audit").append_files([data_file(rival, "theirs")])
    orders.append_files([data_file(orders, "mine")])
    assert live(orders) == ["a", "mine"]
    assert live(orders, ref="audit") == ["a", "theirs"]


def test_of_two_who_make_a_table_one_wins(lake: Lake, reconnect: Callable[[], Lake]) -> None:
    lakes = [lake, reconnect()]
    together = threading.Barrier(2)

    def make(one: Lake) -> Table | None:
        together.wait(30)
        try:
            return one.create_table("db.t", "id bigint not null")
        except errors.TableAlreadyExists:
            return None

    with ThreadPoolExecutor(2) as pool:
        made = [table for table in pool.map(make, lakes) if table is not None]
    assert len(made) == 1
    assert lake.table("db.t").uuid == made[0].uuid


def test_many_threads_append_to_one_table(lake: Lake, orders: Table) -> None:
    orders.set_properties({"commit.retry.num-retries": 100, "commit.retry.min-wait-ms": 1})
    writers, each = 4, 3
    together = threading.Barrier(writers)

    def write(number: int) -> None:
        table = lake.table("db.orders")
        together.wait(30)
        for n in range(each):
            table.append_files([data_file(table, f"f{number}x{n}")])

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    orders.refresh()
    assert live(orders) == sorted(f"f{w}x{n}" for w in range(writers) for n in range(each))
    assert len(orders.snapshots) == writers * each
    assert orders.current_snapshot is not None
    assert (orders.current_snapshot.summary or {})["total-records"] == str(10 * writers * each)
    parents = [s.parent_snapshot_id for s in orders.snapshots]
    assert len(set(parents)) == len(parents), "one line of history"


def test_many_threads_share_one_object(orders: Table) -> None:
    orders.set_properties({"commit.retry.num-retries": 100, "commit.retry.min-wait-ms": 1})
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: orders.append_files([data_file(orders, f"f{n}")]), range(8)))
    assert live(orders.refresh()) == [f"f{n}" for n in range(8)]


def test_without_patience_the_loser_is_told(orders: Table, rival: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.set_properties({"commit.retry.num-retries": 0})
    rival.refresh()
    pointer = orders.commit_target.pointer
    propose = pointer.propose

    def late(*args: object, **options: object) -> object:
        proposal = propose(*args, **options)  # type: ignore[arg-type]
        monkeypatch.undo()
        rival.append_files([data_file(rival, "theirs")])
        return proposal

    monkeypatch.setattr(pointer, "propose", late)
    with pytest.raises(errors.CommitConflict, match="others committed first"):
        orders.append_files([data_file(orders, "mine")])
    assert live(orders.refresh()) == ["theirs"]


def test_a_lost_race_is_run_again(orders: Table, rival: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    pointer = orders.commit_target.pointer
    propose = pointer.propose
    rounds = []

    def late(*args: object, **options: object) -> object:
        proposal = propose(*args, **options)  # type: ignore[arg-type]
        if len(rounds) < 2:
            rounds.append(None)
            rival.append_files([data_file(rival, f"theirs{len(rounds)}")])
        return proposal

    monkeypatch.setattr(pointer, "propose", late)
    orders.append_files([data_file(orders, "mine")])
    assert live(orders) == ["mine", "theirs1", "theirs2"]
    assert orders.current_snapshot is not None
    assert (orders.current_snapshot.summary or {})["total-records"] == "30"
