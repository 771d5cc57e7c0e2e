"""Row deltas: rows and deletes together, deletion vectors, and what goes with a removed data file."""

from dataclasses import replace

import pytest

from floe.commit.change import BLIND, Isolation, Reads
from floe.commit.operations.data_changes import DeleteFiles, FastAppend, Overwrite, RowDelta
from floe.commit.operations.evolution import EvolveSchema
from floe.errors import ConflictingChange, InvalidInput, InvalidUpdate
from floe.spec.codecs.deletion_vectors import deletion_vector_blob
from floe.spec.codecs.puffin import write_file
from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestContent
from floe.sql.filters import parse_filter
from helpers.tables import Box, data_file, equality_deletes, new_table, position_deletes, vector

A, B, C, D = (f"memory:wh/t/{name}" for name in "abcd")
DEL = "memory:wh/t/del"


def filled(version: int) -> Box:
    box = Box(new_table(version))
    box.commit(FastAppend([data_file(A, 1), data_file(B, 2)]))
    return box


def reads(box: Box) -> Reads:
    return Reads(box.head().snapshot_id)


def real_vector(box: Box, name: str, positions: dict[str, set[int]], day: int = 1) -> list[DataFile]:
    """Deletion vectors in a Puffin file that is there."""
    from pyroaring import BitMap64

    written = write_file([deletion_vector_blob(BitMap64(rows), target) for target, rows in positions.items()])
    path = f"memory:wh/t/{name}.puffin"
    box.storage.write(path, written.data)
    return [
        DataFile(
            FileContent.POSITION_DELETES,
            path,
            "puffin",
            (day,),
            len(rows),
            len(written.data),
            referenced_data_file=target,
            content_offset=blob.offset,
            content_size_in_bytes=blob.length,
        )
        for (target, rows), blob in zip(positions.items(), written.payload.blobs, strict=True)
    ]


# v2 -------------------------------------------------------------------------------------------------------------------


def test_position_deletes_have_their_own_manifest() -> None:
    box = filled(2)
    made = box.commit(RowDelta([position_deletes(DEL, 1, target=A)], reads=reads(box)))
    assert made.operation == "delete"
    assert [m.content for m in box.manifests()] == [ManifestContent.DATA, ManifestContent.DELETES]
    assert box.live()[DEL].sequence_number == 2
    assert {k: v for k, v in made.summary.items() if "delete" in k} == {
        "added-position-delete-files": "1",
        "added-delete-files": "1",
        "added-position-deletes": "2",
        "total-delete-files": "1",
        "total-position-deletes": "2",
        "total-equality-deletes": "0",
    }
    assert made.summary["total-records"] == "20"


@pytest.mark.parametrize("version", [2, 3])
def test_the_label_says_what_was_done(version: int) -> None:
    box = filled(version)
    assert box.commit(RowDelta([data_file(C)], reads=BLIND)).operation == "append"
    assert box.commit(RowDelta([equality_deletes(DEL)], reads=BLIND)).operation == "delete"
    both = [data_file(D), equality_deletes(DEL + "2")]
    assert box.commit(RowDelta(both, reads=BLIND)).operation == "overwrite"
    assert box.commit(RowDelta(removed=[data_file(D)], reads=reads(box))).operation == "delete"
    assert box.commit(RowDelta(reads=BLIND)) is None


def test_two_deletes_of_one_file_both_stand() -> None:
    box = filled(2)
    change = RowDelta([position_deletes(DEL, 1, target=A)], reads=reads(box))
    box.commit(change, RowDelta([position_deletes(DEL + "2", 1, target=A)], reads=reads(box)))
    assert {DEL, DEL + "2"} < set(box.live())


def test_a_delete_of_a_row_that_an_update_moved_is_a_conflict() -> None:
    """The lost delete of merge-on-read DELETE against UPDATE, also under snapshot isolation."""
    box = filled(2)
    delete = RowDelta([position_deletes(DEL, 1, target=A)], reads=reads(box), isolation=Isolation.SNAPSHOT)
    update = RowDelta([position_deletes(DEL + "2", 1, target=A), data_file(C, 1)], reads=reads(box))
    with pytest.raises(ConflictingChange):
        box.commit(delete, update)


@pytest.mark.parametrize("version", [1])
def test_v1_has_no_deletes(version: int) -> None:
    box = filled(version)
    for file in (position_deletes(DEL, target=A), equality_deletes(DEL), vector(A)):
        with pytest.raises(InvalidUpdate, match=r"v1 table has no row-level deletes"):
            box.commit(RowDelta([file], reads=reads(box)))


def test_v2_has_no_vectors_and_v3_no_new_position_files() -> None:
    box = filled(2)
    with pytest.raises(InvalidUpdate, match="need format version 3"):
        box.commit(RowDelta([vector(A)], reads=reads(box)))
    box = filled(3)
    with pytest.raises(InvalidUpdate, match="write a deletion vector"):
        box.commit(RowDelta([position_deletes(DEL, target=A)], reads=reads(box)))


def test_an_upgrade_meanwhile_is_a_conflict_for_position_deletes() -> None:
    box = filled(2)
    change = RowDelta([position_deletes(DEL, target=A)], reads=reads(box))
    change.updates(box.attempt())
    box.metadata = replace(box.metadata, format_version=3, next_row_id=0)
    with pytest.raises(ConflictingChange, match="position delete files must not be added to a v3 table"):
        change.updates(box.attempt(2))


def test_a_compared_column_that_is_dropped_meanwhile_is_a_conflict() -> None:
    box = filled(2)
    change = RowDelta([replace(equality_deletes(DEL), equality_ids=(3,))], reads=BLIND)
    change.updates(box.attempt())
    box.apply(*EvolveSchema(lambda update: update.drop_column("name")).updates(box.attempt()))
    with pytest.raises(ConflictingChange, match="changed the table: the schema has no field with id 3"):
        change.updates(box.attempt(2))


def test_equality_deletes_survive_an_upgrade() -> None:
    box = filled(2)
    change = RowDelta([equality_deletes(DEL)], reads=BLIND)
    change.updates(box.attempt())
    box.metadata = replace(box.metadata, format_version=3, next_row_id=0)
    box.apply(*change.updates(box.attempt(2)))
    assert DEL in box.live()


# v3 -------------------------------------------------------------------------------------------------------------------


def test_vectors_are_counted_by_their_own_bytes() -> None:
    box = filled(3)
    both = [vector(A, 1, offset=4), vector(B, 2, offset=44)]
    made = box.commit(RowDelta(both, reads=reads(box)))
    assert made.summary["added-dvs"] == "2"
    assert made.summary["added-delete-files"] == "2"
    assert made.summary["added-position-deletes"] == "4"
    assert made.summary["added-files-size"] == "80"
    assert "added-position-delete-files" not in made.summary


def test_one_vector_for_a_data_file() -> None:
    with pytest.raises(InvalidInput, match="two deletion vectors are added for one data file"):
        RowDelta([vector(A, offset=4), vector(A, offset=44)], reads=BLIND)


def test_a_second_vector_must_replace_the_first() -> None:
    box = filled(3)
    first = vector(A, 1, puffin="memory:wh/t/1.puffin")
    second = vector(A, 1, puffin="memory:wh/t/2.puffin", rows=5)
    box.commit(RowDelta([first], reads=reads(box)))
    with pytest.raises(ConflictingChange, match="has a deletion vector already"):
        box.commit(RowDelta([second], reads=reads(box)))
    made = box.commit(RowDelta([second], removed=[first], reads=reads(box)))
    assert [name for name in box.live() if "puffin" in name] == ["memory:wh/t/2.puffin#4"]
    assert made.summary["removed-dvs"] == "1"
    assert made.operation == "delete"


def test_vectors_of_one_puffin_are_told_apart() -> None:
    box = filled(3)
    one, two = vector(A, 1, offset=4), vector(B, 2, offset=44)
    box.commit(RowDelta([one, two], reads=reads(box)))
    new = vector(A, 1, puffin="memory:wh/t/2.puffin")
    box.commit(RowDelta([new], removed=[one], reads=reads(box)))
    assert {n for n in box.live() if "puffin" in n} == {"memory:wh/t/2.puffin#4", "memory:wh/t/data/dv.puffin#44"}
    with pytest.raises(ConflictingChange, match="not in the table"):
        box.commit(RowDelta([vector(C, 1, puffin="memory:wh/t/3.puffin")], removed=[one], reads=reads(box)))


@pytest.mark.parametrize(
    "removal",
    [
        lambda box: DeleteFiles(files=[data_file(A, 1)]),
        lambda box: DeleteFiles(paths=[A]),
        lambda box: DeleteFiles(where=parse_filter("day = 1")),
        lambda box: Overwrite(removed=[data_file(A, 1)], added=[data_file(C, 1)], reads=reads(box)),
    ],
)
def test_vectors_go_with_their_data_file(removal) -> None:
    box = filled(3)
    box.commit(RowDelta([vector(A, 1, offset=4), vector(B, 2, offset=44)], reads=reads(box)))
    made = box.commit(removal(box))
    assert A not in box.live()
    assert [name for name in box.live() if "puffin" in name] == ["memory:wh/t/data/dv.puffin#44"]
    assert made.summary["removed-dvs"] == "1"
    assert made.summary["total-delete-files"] == "1"


def test_file_scoped_position_deletes_of_an_upgraded_table_go_too() -> None:
    box = filled(2)
    bounds = {2147483546: A.encode()}
    by_bounds = replace(position_deletes(DEL + "b", 1), lower_bounds=bounds, upper_bounds=bounds)
    wide = replace(
        position_deletes(DEL + "w", 1),
        lower_bounds={2147483546: A.encode()},
        upper_bounds={2147483546: B.encode()},
    )
    deletes = [position_deletes(DEL, 1, target=A), by_bounds, wide, equality_deletes(DEL + "e", 1)]
    box.commit(RowDelta(deletes, reads=reads(box), referenced=[A]))
    box.metadata = replace(box.metadata, format_version=3, next_row_id=0)
    box.commit(FastAppend([data_file(C, 1)]))
    box.commit(DeleteFiles(files=[data_file(A, 1)]))
    assert set(box.live()) == {B, C, DEL + "w", DEL + "e"}


def test_two_deletions_of_one_file_are_merged_into_one_vector() -> None:
    box = filled(3)
    start = reads(box)
    mine = real_vector(box, "mine", {A: {1, 2}})
    theirs = real_vector(box, "theirs", {A: {2, 7}})
    change = RowDelta(mine, reads=start)
    box.commit(change, RowDelta(theirs, reads=start))
    (found,) = [e.data_file for e in box.live().values() if not e.data_file.is_data]
    assert found.record_count == 3
    assert found.referenced_data_file == A
    assert found.file_path in change.written()
    assert found.file_path in change.used()
    assert found.file_path.startswith("memory:wh/t/data/merged-dvs-")
    (gone,) = [e for e in box.entries() if e.status is EntryStatus.DELETED]
    assert gone.data_file.file_path == theirs[0].file_path
    assert box.head().summary["total-position-deletes"] == "3"


def test_a_vector_for_a_file_that_is_gone_is_left_out() -> None:
    box = filled(3)
    mine = real_vector(box, "mine", {A: {1}, B: {2}})
    mine[1] = replace(mine[1], partition=(2,))
    box.commit(RowDelta(mine, reads=reads(box)), DeleteFiles(paths=[A]))
    assert {e.data_file.referenced_data_file for e in box.live().values() if not e.data_file.is_data} == {B}


# housekeeping ---------------------------------------------------------------------------------------------------------


def test_outdated_deletes_go_when_something_is_removed() -> None:
    box = filled(2)
    box.commit(RowDelta([equality_deletes(DEL, 1)], reads=BLIND))  # 2
    box.commit(FastAppend([data_file(C, 1), data_file(D, 2)]))  # 3
    box.commit(Overwrite(removed=[data_file(A, 1)], reads=reads(box)))
    assert DEL in box.live(), "b, of sequence number 1, is older"
    made = box.commit(Overwrite(removed=[data_file(B, 2)], reads=reads(box)))
    assert set(box.live()) == {C, D}
    assert made.summary["removed-equality-delete-files"] == "1"
    assert made.summary["total-equality-deletes"] == "0"


def test_an_append_leaves_outdated_deletes_alone() -> None:
    box = filled(2)
    box.commit(RowDelta([equality_deletes(DEL, 1)], reads=BLIND))
    box.commit(RowDelta([data_file(C, 1)], reads=BLIND))
    assert DEL in box.live()


def test_deletes_of_a_removed_partition_go_with_it() -> None:
    box = filled(2)
    box.commit(RowDelta([equality_deletes(DEL + "1", 1), equality_deletes(DEL + "2", 2)], reads=BLIND))
    box.commit(DeleteFiles(where=parse_filter("day = 2")))
    assert set(box.live()) == {A, DEL + "1"}


def test_deletes_for_a_file_that_goes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="the same commit removes"):
        RowDelta([position_deletes(DEL, target=A)], removed=[data_file(A)], reads=BLIND)
    with pytest.raises(InvalidInput, match="the same commit removes"):
        RowDelta([position_deletes(DEL)], removed=[data_file(A)], referenced=[A], reads=BLIND)


def test_position_deletes_say_which_files_they_point_into() -> None:
    """Without it nothing could be compared with what others did: their updates of the same rows would be lost."""
    several = position_deletes(DEL, 1)
    for added in ([several], [several, position_deletes(DEL + "2", 1, target=A)]):
        with pytest.raises(InvalidInput, match="none of them is named"):
            RowDelta(added, reads=Reads(7))
    RowDelta([several], referenced=[A], reads=Reads(7))


def test_referenced_files_that_were_removed_are_a_conflict() -> None:
    box = filled(2)
    change = RowDelta([position_deletes(DEL, 1)], referenced=[A], reads=reads(box))
    rival = Overwrite(removed=[data_file(A, 1)], added=[data_file(C, 1)], reads=reads(box))
    with pytest.raises(ConflictingChange):
        box.commit(change, rival)
