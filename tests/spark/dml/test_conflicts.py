"""Statements that meet others at the same time: what is refused and what is not, and what is run again."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from helpers.spark import Spark
from helpers.spark_statements import COW, MOR, Make, Meanwhile


def test_a_conflict_names_the_other_commit_and_the_files(session: Spark, make: Make, meanwhile: Meanwhile) -> None:
    t = make(rows="(1, 'a'), (2, 'b')")
    other = t.table
    meanwhile(lambda: other.update({"v": "'theirs'"}, where="id = 1"))
    with pytest.raises(PySparkException) as caught:
        session(f"UPDATE {t.name} SET v = 'mine' WHERE id = 1")
    message = str(caught.value)
    snapshot = other.current_snapshot
    assert snapshot is not None
    assert str(snapshot.snapshot_id) in message
    assert ".parquet" in message
    assert "Traceback" not in message
    assert t.rows() == [(1, "theirs"), (2, "b")]


@pytest.mark.parametrize("mode", [COW, MOR])
def test_conflicts_are_tried_again_if_the_table_says_so(
    session: Spark, make: Make, meanwhile: Meanwhile, mode: str
) -> None:
    t = make(mode=mode, rows="(1, 'a'), (2, 'b')", **{"write.conflict.retries": "1"})
    meanwhile(lambda: t.table.update({"v": "v || '+'"}, where="id = 1"))
    session(f"UPDATE {t.name} SET v = concat(v, '!') WHERE id = 1")
    assert t.rows() == [(1, "a+!"), (2, "b")]
    meanwhile(
        lambda: t.table.update({"v": "v || '+'"}, where="id = 1"),
        lambda: None,
        lambda: t.table.update({"v": "v || '+'"}, where="id = 1"),
    )
    with pytest.raises(PySparkException):
        session(f"UPDATE {t.name} SET v = concat(v, '!') WHERE id = 1")
    assert t.rows() == [(1, "a+!++"), (2, "b")]


def by_another_session(session: Spark, statement: str) -> Callable[[], None]:
    """Has another session run a statement, from its beginning to its end."""
    other = Spark(session.session.newSession())  # type: ignore[arg-type]

    def run() -> None:
        thread = threading.Thread(target=other, args=(statement,))
        thread.start()
        thread.join()

    return run


@pytest.mark.parametrize("mode", [COW, MOR])
def test_frames_that_merge_are_tried_again_too(session: Spark, make: Make, meanwhile: Meanwhile, mode: str) -> None:
    t = make(mode=mode, rows="(1, 'a'), (2, 'b')", **{"write.conflict.retries": "1"})
    source = session.session.createDataFrame([(1, "one"), (3, "three")], "id INT, v STRING").alias("s")
    merging = source.mergeInto(t.name, F.expr(f"{t.name}.id = s.id"))
    merging = merging.whenMatched().update({"v": F.expr(f"concat({t.name}.v, '!')")}).whenNotMatched().insertAll()
    theirs = by_another_session(session, f"UPDATE {t.name} SET v = concat(v, '+') WHERE id = 1")
    meanwhile(theirs)
    merging.merge()
    assert t.rows() == [(1, "a+!"), (2, "b"), (3, "three")]
    meanwhile(theirs, lambda: None, theirs)
    with pytest.raises(PySparkException, match="repeat the change"):
        merging.merge()
    assert t.rows() == [(1, "a+!++"), (2, "b"), (3, "three")]


def test_a_frame_of_the_same_table_is_merged_as_it_is_then(session: Spark, make: Make, meanwhile: Meanwhile) -> None:
    """Whether Spark reads a frame anew or as it was when it was made: no row of others is lost."""
    t = make(rows="(1, 'a'), (2, 'b')", **{"write.conflict.retries": "1"})
    source = session.session.table(t.name).selectExpr("id + 1 AS id", "concat(v, '!') AS v").alias("s")
    merging = source.mergeInto(t.name, F.expr(f"{t.name}.id = s.id")).whenMatched().updateAll()
    meanwhile(by_another_session(session, f"INSERT INTO {t.name} VALUES (3, 'c')"))
    try:
        merging.whenNotMatched().insertAll().merge()
    except PySparkException:
        assert t.rows() == [(1, "a"), (2, "b"), (3, "c")]
    else:
        assert t.rows() == [(1, "a"), (2, "a!"), (3, "b!"), (4, "c!")]


# what a MERGE rests on ----------------------------------------------------------------------------------------------

UPSERT = "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
SOME_MATCHED = "WHEN MATCHED AND s.v = 'nothing' THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
NO_INSERT = "WHEN MATCHED AND s.v = 'x' THEN UPDATE SET v = s.v WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN DELETE"


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("clauses", "deleted", "outcome"),
    [
        (UPSERT, 3, [(1, "x"), (2, "b"), (4, "x")]),  # looked at, and matched by nothing
        (UPSERT, 1, None),  # changed
        (SOME_MATCHED, 1, None),  # matched and left alone: without it, a row would be inserted
        (NO_INSERT, 2, [(1, "x")]),
    ],
)
def test_a_merge_rests_on_the_rows_that_its_source_matches(
    session: Spark,
    make: Make,
    meanwhile: Meanwhile,
    clauses: str,
    deleted: int,
    outcome: list[tuple[int, str]] | None,
    version: int,
) -> None:
    t = make(version=version)
    t.table.append([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 3, "v": "c"}])
    meanwhile(by_another_session(session, f"DELETE FROM {t.name} WHERE id = {deleted}"))
    merge = f"MERGE INTO {t.name} t USING (SELECT * FROM VALUES (1, 'x'), (4, 'x') AS s(id, v)) s ON t.id = s.id "
    if outcome is not None:
        session(merge + clauses)
        assert t.rows() == outcome
        return
    with pytest.raises(PySparkException, match=r"row changed by both|rows disappeared"):
        session(merge + clauses)
    assert t.rows() == [row for row in [(1, "a"), (2, "b"), (3, "c")] if row[0] != deleted]


@pytest.mark.parametrize("clauses", [UPSERT, SOME_MATCHED])
def test_a_merge_that_copies_rests_on_the_files_that_have_matched_rows(
    session: Spark, make: Make, meanwhile: Meanwhile, clauses: str
) -> None:
    t = make(mode=COW, **{"write.delete.mode": MOR})
    for ids in ((1, 2), (5, 6)):
        t.table.append([{"id": key, "v": "a"} for key in ids])
    merge = f"MERGE INTO {t.name} t USING (SELECT * FROM VALUES (1, 'x'), (9, 'x') AS s(id, v)) s ON t.id = s.id "
    meanwhile(by_another_session(session, f"DELETE FROM {t.name} WHERE id = 2"))
    with pytest.raises(PySparkException, match="copied row was deleted"):
        session(merge + clauses)
    assert t.rows("id") == [(1,), (5,), (6,)]
    meanwhile(by_another_session(session, f"DELETE FROM {t.name} WHERE id = 6"))
    session(merge + clauses)
    assert t.rows() == [(1, "x" if clauses is UPSERT else "a"), (5, "a"), (9, "x")]


# what else is read --------------------------------------------------------------------------------------------------


def test_a_delete_of_whole_files_meets_one_of_which_some_rows_go(
    session: Spark, make: Make, meanwhile: Meanwhile
) -> None:
    t = make("id INT, v STRING", rows="(1, 'a'), (1, 'b')")
    meanwhile(lambda: t.table.append([{"id": 1, "v": "c"}, {"id": 2, "v": "d"}]))
    session(f"DELETE FROM {t.name} WHERE id = 1")
    assert t.rows() == [(2, "d")]


def test_what_a_statement_reads_of_its_own_table_counts(session: Spark, make: Make, meanwhile: Meanwhile) -> None:
    """A DELETE by a subquery on the same table rests on more rows than it deletes."""
    t = make(by="v", rows="(1, 'a'), (2, 'b'), (3, 'c')")
    meanwhile(lambda: t.table.append([{"id": 9, "v": "b"}]))
    with pytest.raises(PySparkException):
        session(f"DELETE FROM {t.name} WHERE v = 'a' AND id < (SELECT max(id) FROM {t.name} WHERE v = 'b')")
    meanwhile(lambda: t.table.append([{"id": 9, "v": "d"}]))
    session(f"DELETE FROM {t.name} WHERE v = 'a' AND id < (SELECT max(id) FROM {t.name} WHERE v = 'b')")
    assert t.rows() == [(2, "b"), (3, "c"), (9, "b"), (9, "d")]


def test_inserts_from_the_same_table_rest_on_what_they_read(session: Spark, make: Make, meanwhile: Meanwhile) -> None:
    """Also a MERGE that only inserts: two of them at once must not add the same row twice."""
    t = make(by="v", rows="(1, 'a'), (2, 'b')")
    statements = [
        "MERGE INTO {t} t USING (SELECT 5 AS id, 'a' AS v) s ON t.id = s.id AND t.v = 'a' "
        "WHEN NOT MATCHED THEN INSERT *",
        "INSERT INTO {t} SELECT max(id) + 1, 'z' FROM {t} WHERE v = 'a'",
        "INSERT OVERWRITE {t} SELECT id + 1, v FROM {t} WHERE v = 'a'",
    ]
    for statement in statements:
        before = t.rows()
        meanwhile(lambda: t.table.append([{"id": 5, "v": "a"}]))
        with pytest.raises(PySparkException, match=r"rows appeared|added rows would be lost"):
            session(statement.format(t=t.name))
        assert t.rows() == sorted([*before, (5, "a")], key=repr)
        session(f"DELETE FROM {t.name} WHERE id = 5")
    meanwhile(lambda: t.table.append([{"id": 9, "v": "c"}]))
    session(statements[1].format(t=t.name))
    assert t.rows() == [(1, "a"), (2, "b"), (2, "z"), (9, "c")]
