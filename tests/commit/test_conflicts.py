"""Conflicts: how precisely they are told from none, what they say, and that the documentation is true."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyroaring import BitMap64

from floe.commit.change import BLIND, Footprint, Isolation, Reads, Writes
from floe.commit.conflicts.position_overlaps import PositionRange, VectorReader, overlap
from floe.commit.conflicts.rules import RULES, Rule, check
from floe.commit.operations.data_changes import DeleteFiles, FastAppend, Overwrite, RowDelta
from floe.commit.operations.rewrite import RewriteFiles
from floe.errors import ConflictingChange, CorruptFile, InvalidInput, InvalidUpdate
from floe.spec.codecs.single_value import encode
from floe.spec.expressions.dsl import col
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.updates import (
    LAST_ADDED,
    AddPartitionSpec,
    AddSchema,
    RemovePartitionSpecs,
    SetCurrentSchema,
    SetDefaultSpec,
    UpgradeFormatVersion,
)
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH, DELETE_POS
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, STRING, Field
from floe.sql.filters import parse_filter
from helpers.conflict_bench import Bench, Matrix, Pair
from helpers.conflict_table import OVERLAPS, path_of
from helpers.row_model import KINDS
from helpers.tables import SCHEMA, Box, data_file, equality_deletes, new_table, position_deletes, vector

SERIALIZABLE, SNAPSHOT = Isolation
A, B, C, D, E = (f"memory:wh/t/{name}" for name in "abcde")


def filled(version: int = 2, *files: DataFile) -> Box:
    box = Box(new_table(version))
    box.commit(FastAppend(files or [data_file(A, 1, ids=(0, 9)), data_file(B, 2, ids=(10, 19))]))
    return box


def reads(box: Box, where: Expression | None = None, **more: object) -> Reads:
    return Reads(box.head().snapshot_id, where, **more)  # type: ignore[arg-type]


def refused(box: Box, footprint: Footprint, rule: str | None = None) -> ConflictingChange:
    with pytest.raises(ConflictingChange) as caught:
        check(box.attempt(), footprint, "main")
    if rule is not None:
        assert caught.value.context["rule"] == rule
    return caught.value


def fine(box: Box, footprint: Footprint) -> None:
    assert check(box.attempt(), footprint, "main") == ()


def pair(table: str, first: str, second: str, overlap: str, isolation: Isolation = SNAPSHOT) -> Pair:
    return Pair(table, first, second, overlap, isolation)


# transactions ----------------------------------------------------------------------------------------------------


def test_a_row_moved_by_a_transaction_of_two_snapshots() -> None:
    """Delete in one snapshot, insert in the next, published at once: together they moved the row."""
    box = filled()
    mine = Footprint(
        reads(box), Writes(added=(position_deletes("mine", 1, target=A),), referenced=frozenset({A})), SNAPSHOT
    )
    first = RowDelta([position_deletes("theirs", 1, target=A)], reads=reads(box)).updates(box.attempt())
    between = Box(box.metadata, box.storage, box.environment)
    between.apply(*first)
    second = FastAppend([data_file(C, 1)]).updates(between.attempt())
    apart = Box(between.metadata, box.storage, box.environment)
    apart.commit(FastAppend([data_file(D, 1)]))
    fine(apart, mine)  # two commits: the deletion and the append are of different people
    box.apply(*first, *second)
    refused(box, mine, "row moved meanwhile")


# appends ----------------------------------------------------------------------------------------------------------


def test_appends_never_conflict() -> None:
    box = filled()
    append = FastAppend([data_file(C, 1)])
    rivals = [
        FastAppend([data_file(D, 1)]),
        DeleteFiles(where=TRUE),
        Overwrite(where=parse_filter("day = 1"), added=[data_file(E, 1)], reads=BLIND),
    ]
    assert box.commit(append, *rivals) is not None
    assert {C, E} <= box.live().keys()


def test_an_append_whose_spec_is_gone() -> None:
    box = filled()
    append = FastAppend([data_file(C, 1)])
    append.updates(box.attempt())
    box.commit(DeleteFiles(where=TRUE))
    box.apply(AddPartitionSpec(PartitionSpec(())), SetDefaultSpec(LAST_ADDED), RemovePartitionSpecs((0,)))
    with pytest.raises(ConflictingChange, match="partition spec 0"):
        append.updates(box.attempt(2))


def test_an_append_whose_columns_no_longer_suffice() -> None:
    box = filled()
    append = FastAppend([data_file(C, 1)], written_with=0)
    append.updates(box.attempt())
    wider = Schema((*SCHEMA.fields[:2], replace(SCHEMA.fields[2], required=True)), schema_id=1)
    box.apply(AddSchema(wider), SetCurrentSchema(LAST_ADDED))
    with pytest.raises(ConflictingChange, match="before the column was required"):
        append.updates(box.attempt(2))


def test_position_deletes_after_an_upgrade() -> None:
    box = filled()
    change = RowDelta([position_deletes("p", 1, target=A)], reads=reads(box))
    change.updates(box.attempt())
    box.apply(UpgradeFormatVersion(3))
    with pytest.raises(ConflictingChange, match="must not be added to a v3 table"):
        change.updates(box.attempt(2))
    with pytest.raises(InvalidUpdate):
        RowDelta([position_deletes("q", 1, target=A)], reads=reads(box)).updates(box.attempt())


# what was read ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "conflicts_"),
    [
        (col("day") == 1, True),
        (col("day") == 3, False),  # another partition
        ((col("day") == 1) & (col("id") < 30), False),  # outside the bounds
        ((col("day") == 1) & (col("id") < 40), True),
        (col("name") == "x", True),  # nothing is known of it
        (TRUE, True),
    ],
)
def test_filters_against_added_files(where: Expression, conflicts_: bool) -> None:
    box = filled()
    mine = Footprint(reads(box, where))
    box.commit(FastAppend([data_file(C, 1, ids=(30, 39))]))
    if conflicts_:
        error = refused(box, mine, "rows appeared")
        assert error.context["files"] == C
        fine(box, replace(mine, isolation=SNAPSHOT))
    else:
        fine(box, mine)


def test_a_filter_means_the_columns_that_it_meant() -> None:
    """Two columns have swapped their names since: `name = 'x'` was about what is called `alias` now."""
    box = filled()
    fields = (*SCHEMA.fields[:2], Field(3, "alias", STRING), Field(4, "name", STRING))
    mine = Footprint(Reads(box.head().snapshot_id, col("name") == "x", schema_id=0))
    box.apply(AddSchema(Schema(fields, schema_id=1)), SetCurrentSchema(LAST_ADDED))
    only_new = {
        "lower_bounds": {4: b"a"},
        "upper_bounds": {4: b"b"},
        "value_counts": {4: 10},
        "null_value_counts": {4: 0},
    }
    box.commit(FastAppend([data_file(C, 1, **only_new)]))
    refused(box, mine, "rows appeared")
    refused(box, replace(mine, reads=replace(mine.reads, schema_id=None)), "rows appeared")
    fine(box, replace(mine, reads=replace(mine.reads, schema_id=1)))


def test_a_filter_on_a_column_that_nobody_knows_matches_everything() -> None:
    box = filled()
    mine = Footprint(reads(box, col("dropped") == 1))
    box.commit(FastAppend([data_file(C, 1)]))
    refused(box, mine, "rows appeared")


def test_filters_under_an_evolved_spec() -> None:
    """Files of a spec without `day` are judged by their metrics alone."""
    box = filled()
    mine = Footprint(reads(box, (col("day") == 2) & (col("id") > 100)))
    box.apply(AddPartitionSpec(PartitionSpec(())), SetDefaultSpec(LAST_ADDED))
    box.commit(FastAppend([data_file(C, (), spec_id=1, ids=(0, 9))]))
    fine(box, mine)
    box.commit(FastAppend([data_file(D, (), spec_id=1, ids=(100, 101))]))
    assert refused(box, mine, "rows appeared").context["files"] == D


def test_row_wise_reads_do_not_mind_what_disappears() -> None:
    box = filled()
    together = Footprint(reads(box, TRUE))
    alone = replace(together, reads=replace(together.reads, row_wise=True))
    box.commit(DeleteFiles(where=parse_filter("day = 2")))
    refused(box, together, "rows disappeared with their files")
    fine(box, alone)


def test_rows_that_were_not_looked_at_may_disappear() -> None:
    """Who says which rows were looked at together minds only what becomes of those."""
    box = filled()
    anything = Footprint(reads(box, col("id") > 3))
    in_a = replace(anything, reads=replace(anything.reads, positions={A: BitMap64([4, 7]), B: BitMap64()}))
    in_b = replace(anything, reads=replace(anything.reads, positions={B: BitMap64([4, 7])}))
    bounds = {"lower_bounds": {DELETE_POS.id: encode(LONG, 5)}, "upper_bounds": {DELETE_POS.id: encode(LONG, 7)}}
    box.commit(RowDelta([replace(position_deletes(D, 2, target=B), **bounds)], reads=reads(box)))  # type: ignore[arg-type]
    refused(box, anything, "rows disappeared by position")
    refused(box, in_b, "rows disappeared by position")
    fine(box, replace(in_b, reads=replace(in_b.reads, positions={B: BitMap64([4])})))
    fine(box, in_a)
    box.commit(DeleteFiles(where=parse_filter("day = 2")))
    fine(box, in_a)
    box.commit(DeleteFiles(where=parse_filter("day = 1")))
    refused(box, in_a, "rows disappeared with their files")


def test_compaction_of_others_is_no_news_to_a_reader() -> None:
    box = filled()
    mine = Footprint(reads(box, TRUE))
    old = box.live()[A].data_file
    box.commit(RewriteFiles(reads=reads(box), removed=[old], added=[data_file(C, 1)], data_sequence_number=1))
    fine(box, mine)


# positions --------------------------------------------------------------------------------------------------------


def positioned(name: str, first: int, last: int, target: str = A) -> DataFile:
    """A position delete file for one data file, with the bounds of its positions."""
    path, low, high = target.encode(), encode(LONG, first), encode(LONG, last)
    return replace(
        position_deletes(name, 1),
        lower_bounds={DELETE_FILE_PATH.id: path, DELETE_POS.id: low},
        upper_bounds={DELETE_FILE_PATH.id: path, DELETE_POS.id: high},
    )


def update(box: Box, delete: DataFile, new: str, **more: object) -> RowDelta:
    return RowDelta([delete, data_file(new, 1)], reads=reads(box), isolation=SNAPSHOT, referenced=[A], **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("mine", "meets"), [((0, 3), True), ((3, 3), True), ((4, 9), False)])
def test_positions_by_their_bounds(mine: tuple[int, int], meets: bool) -> None:
    box = filled()
    late = update(box, positioned("mine", *mine), C)
    box.commit(update(box, positioned("theirs", 1, 3), D))
    if meets:
        with pytest.raises(ConflictingChange, match="row changed by both"):
            box.commit(late)
    else:
        assert box.commit(late) is not None


def test_positions_that_the_writer_knows() -> None:
    box = filled()
    known = {"positions": {A: BitMap64([0, 9])}}
    late, unlucky = (update(box, position_deletes(f"{n}-p", 1), n, **more) for n, more in ((C, known), (D, {})))
    box.commit(update(box, positioned("theirs", 1, 3), E))
    assert box.commit(late) is not None
    with pytest.raises(ConflictingChange, match="row changed by both"):
        box.commit(unlucky)


def test_positions_that_a_reader_of_delete_files_knows() -> None:
    box = filled()
    mine = Footprint(
        reads(box),
        Writes(added=(position_deletes("mine", 1), data_file(C, 1)), referenced=frozenset({A})),
        SNAPSHOT,
    )
    box.commit(update(box, position_deletes("theirs", 1), D))
    held = {"mine": BitMap64([1]), "theirs": BitMap64([2])}
    refused(box, mine, "row changed by both")
    assert check(box.attempt(), mine, "main", read_positions=lambda file, path: held.get(file.file_path)) == ()


def test_deletes_of_another_partition_or_path_do_not_count() -> None:
    box = filled()
    mine = Footprint(
        reads(box), Writes(added=(positioned("mine", 0, 9), data_file(C, 1)), referenced=frozenset({A})), SNAPSHOT
    )
    box.commit(RowDelta([position_deletes("p", 2)], referenced=[B], reads=reads(box)))
    fine(box, mine)
    bounds = {DELETE_FILE_PATH.id: b"memory:wh/t/x"}, {DELETE_FILE_PATH.id: b"memory:wh/t/z"}
    elsewhere = replace(position_deletes("q", 1), lower_bounds=bounds[0], upper_bounds=bounds[1])
    box.commit(RowDelta([elsewhere], referenced=[D], reads=reads(box)))
    fine(box, mine)
    box.commit(RowDelta([position_deletes("r", 1)], referenced=[A], reads=reads(box)))
    refused(box, mine, "row changed by both")


@pytest.mark.parametrize(
    ("spelled", "meets"),
    [("file:///wh/t/data", True), ("file:/wh/t/data", True), ("/wh/t/data", True), ("file:/wh/t/date", False)],
)
def test_bounds_of_paths_are_compared_only_in_one_spelling(spelled: str, meets: bool) -> None:
    """`file:/` and `file:///` are one file, though not one text: bounds in the other spelling rule out nothing."""
    mine_at = "file:/wh/t/data/a"
    box = filled(2, data_file(mine_at, 1))
    mine = Footprint(
        reads(box), Writes(added=(position_deletes("mine", 1), data_file(C, 1)), referenced=frozenset({mine_at}))
    )
    bounds = {DELETE_FILE_PATH.id: f"{spelled}/a".encode()}, {DELETE_FILE_PATH.id: f"{spelled}/z".encode()}
    theirs = replace(position_deletes("q", 1), lower_bounds=bounds[0], upper_bounds=bounds[1])
    box.commit(RowDelta([theirs], referenced=[f"{spelled}/a"], reads=reads(box)))
    if meets:
        refused(box, mine, "row changed by both")
    else:
        fine(box, mine)


def test_vectors_that_are_too_long_are_not_looked_into() -> None:
    bench = Bench("v3")
    (dv,) = bench.contents.vectors("some", {path_of("A"): [0]})
    assert VectorReader(bench.storage).read(dv) == BitMap64([0])
    assert VectorReader(bench.storage, max_bytes=10).read(dv) is None
    assert VectorReader(bench.storage, total_bytes=10).read(dv) is None
    assert overlap(BitMap64([7]), None)
    assert not overlap(PositionRange(0, 6), BitMap64([7]))


def test_a_broken_vector_is_an_error_and_no_commit() -> None:
    bench = Bench("v3")
    one, two = (bench.plan(KINDS["MoR update"], target, tag) for target, tag in ((0, "one"), (1, "two")))
    state = bench.commit(bench.start, one.footprint.writes, one.label)
    broken = next(file for file in one.footprint.writes.added if file.is_deletion_vector)
    bench.storage.write(broken.file_path, b"\0" * broken.file_size_in_bytes, overwrite=True)
    with pytest.raises(CorruptFile) as caught:
        bench.check(state, two, SNAPSHOT)
    assert caught.value.context["file"] == broken.file_path


# equality deletes -------------------------------------------------------------------------------------------------


def keyed(name: str, low: int, high: int, day: object = 1) -> DataFile:
    return replace(
        equality_deletes(name, day),
        value_counts={1: 3},
        null_value_counts={1: 0},
        lower_bounds={1: encode(LONG, low)},
        upper_bounds={1: encode(LONG, high)},
    )


@pytest.mark.parametrize(
    ("delete", "meets"),
    [
        (keyed("e", 0, 5), True),
        (keyed("e", 5, 40, day=2), False),  # another partition
        (keyed("e", 100, 200), False),  # no such ids in the file
        (equality_deletes("e", 1), True),  # nobody knows which
    ],
)
def test_equality_deletes_against_copied_files(delete: DataFile, meets: bool) -> None:
    box = filled()
    old = box.live()[A].data_file
    change = Overwrite(
        removed=[old], added=[data_file(C, 1)], reads=reads(box, files=frozenset({A})), isolation=SNAPSHOT
    )
    box.commit(RowDelta([delete], reads=BLIND))
    if meets:
        with pytest.raises(ConflictingChange, match="copied row was deleted by value"):
            box.commit(change)
    else:
        assert box.commit(change) is not None


def test_equality_deletes_do_not_follow_rows_into_another_spec() -> None:
    """Old sequence numbers keep them applying only where they reach: in partitions of their own spec."""
    box = filled()
    box.apply(AddPartitionSpec(PartitionSpec(())), SetDefaultSpec(LAST_ADDED))
    old = box.live()[A].data_file
    rewrites = [
        RewriteFiles(reads=reads(box), removed=[old], added=[file], data_sequence_number=1)
        for file in (data_file(C, (), spec_id=1), data_file(D, 1))
    ]
    box.commit(RowDelta([equality_deletes("e", 1)], reads=BLIND))
    with pytest.raises(ConflictingChange, match="copied row was deleted by value"):
        box.commit(rewrites[0])
    assert box.commit(rewrites[1]) is not None


# vectors ----------------------------------------------------------------------------------------------------------


def test_a_vector_for_a_file_that_was_removed_is_left_out() -> None:
    """Somebody deletes the whole partition while I delete a row of it: nothing is left to be done."""
    outcome = Matrix(["v3"]).outcome(pair("v3", "delete by filter", "MoR delete", "same row"))
    assert (outcome.rule, outcome.merged, outcome.right) == (None, True, True)


def test_vectors_share_a_puffin_file_and_are_still_different_files() -> None:
    """Both replace vectors of one Puffin file, but of different data files."""
    outcome = Matrix(["v3"]).outcome(pair("v3", "MoR delete", "MoR delete", "same partition"))
    assert (outcome.rule, outcome.merged, outcome.right) == (None, False, True)


def test_position_delete_files_of_others_cannot_be_merged_unread() -> None:
    """Before an upgrade others add a position delete file; my vector for the data file would hide it."""
    box = filled()
    start = box.head().snapshot_id
    box.commit(RowDelta([position_deletes("p", 1, target=A)], reads=reads(box)))
    box.apply(UpgradeFormatVersion(3))
    mine = Footprint(Reads(start), Writes(added=(vector(A),), referenced=frozenset({A})))
    with pytest.raises(ConflictingChange, match="second deletion vector"):
        check(box.attempt(), mine, "main", can_merge=True)


# what a conflict says ---------------------------------------------------------------------------------------------


def test_the_message_names_who_and_what() -> None:
    box = filled()
    old = box.live()[A].data_file
    change = Overwrite(removed=[old], added=[data_file(C, 1)], reads=reads(box), isolation=SNAPSHOT)
    other = box.commit(DeleteFiles(files=[old]))
    assert other is not None
    with pytest.raises(ConflictingChange) as caught:
        box.commit(change)
    assert not caught.value.retryable
    assert str(caught.value) == (
        f"file is gone: this change copied the rows of data files into others, and snapshot {other.snapshot_id} "
        f"removed data files, and added no rows (snapshot: {other.snapshot_id}, operation: delete, rule: file is gone, "
        f"files: {A}, table: t, branch: main); read the table again and repeat the change"
    )


def test_many_files_are_not_all_named() -> None:
    files = [data_file(f"memory:wh/t/{n}", 1) for n in range(9)]
    box = filled(2, *files)
    change = Overwrite(removed=files, reads=reads(box))
    box.commit(DeleteFiles(files=files))
    with pytest.raises(ConflictingChange) as caught:
        box.commit(change)
    assert caught.value.context["files"].endswith(", …")
    assert caught.value.context["files"].count("memory:") == 3


def test_blind_changes_must_be_blind() -> None:
    box = filled()
    with pytest.raises(InvalidInput, match="says that it read nothing"):
        check(box.attempt(), Footprint(BLIND, Writes(referenced=frozenset({A}))), "main")
    own = data_file(C, 1)
    fine(box, Footprint(BLIND, Writes(added=(own, position_deletes("p", 1, target=C)), referenced=frozenset({C}))))


def test_the_snapshot_read_is_one_that_others_can_have_built_upon() -> None:
    """In a transaction what was read is the state that it began with, whatever it did itself since."""
    box = filled()
    attempt = box.attempt()
    append = FastAppend([data_file(C, 1)])
    inside = Box(box.metadata, box.storage, box.environment)
    inside.apply(*append.updates(attempt))
    second = replace(attempt, metadata=inside.metadata)
    with pytest.raises(InvalidInput, match="transaction's own"):
        check(second, Footprint(Reads(append.snapshot_id)), "main")
    assert check(second, Footprint(reads(box, TRUE)), "main") == ()


# the table --------------------------------------------------------------------------------------------------------

DOCS = Path(__file__).parents[2] / "docs" / "isolation.md"


def documented(part: str) -> list[tuple[str, ...]]:
    """The rows of a table of the documentation, without its head."""
    text = DOCS.read_text().split(f"<!-- {part} -->")[1].split("<!-- end -->")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    return [tuple(cell.strip() for cell in row.strip().strip("|").split("|")) for row in rows]


def described(rule: Rule) -> tuple[str, ...]:
    mine = "; ".join(str(kind.value) for kind in rule.mine)
    theirs = "; ".join(str(kind.value) for kind in rule.theirs)
    return rule.name, mine, theirs, rule.serializable.name.lower(), rule.snapshot.name.lower()


def test_the_documentation_shows_the_table() -> None:
    assert documented("rules") == [described(rule) for rule in RULES]


WORDS = {
    "append": "append",
    "MoR delete": "DELETE",
    "MoR update": "UPDATE",
    "CoW update": "copy-on-write",
    "overwrite by filter": "INSERT OVERWRITE",
    "blind overwrite": "blind overwrite",
    "compaction": "compaction",
    "upsert": "upsert",
}
REACHES = ("–", "row", "file", "partition", "table")


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("table", ["v2", "v3"])
def test_the_documentation_tells_what_to_expect(table: str, isolation: Isolation) -> None:
    matrix = Matrix([table])

    def reach(first: str, second: str) -> str:
        refused_ = [matrix.outcome(Pair(table, first, second, one, isolation)).rule is not None for one in OVERLAPS]
        assert refused_ == sorted(refused_, reverse=True), "who is refused farther away is refused nearer by"
        return REACHES[sum(refused_)]

    rows = [(word, *(reach(first, second) for first in WORDS)) for second, word in WORDS.items()]
    assert documented(isolation.value) == rows


def test_rules_have_names_of_their_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


# changes that cannot be blind -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        RewriteFiles(removed=[data_file(A, 1)], added=[data_file(C, 1)], reads=BLIND),
        RewriteFiles(removed=[equality_deletes(D, 1)], reads=BLIND),
    ],
)
def test_a_rewrite_cannot_say_that_it_read_nothing(change: RewriteFiles) -> None:
    """Else rows that others deleted meanwhile would come back with the copies."""
    with pytest.raises(InvalidInput, match="says that it read nothing"):
        filled().commit(change)
