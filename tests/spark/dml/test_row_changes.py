"""What statements do to files, row ids, branches and properties; what they refuse, and how they say it."""

from __future__ import annotations

import io
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from floe.formats.writers.delete_files import write_equality_deletes
from floe.formats.writers.write_target import WriteTarget
from helpers.spark import Spark
from helpers.spark_statements import COW, MOR, Make


def parquet_of(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    return sink.getvalue()


# files --------------------------------------------------------------------------------------------------------------


def test_only_files_with_changed_rows_are_written_anew(session: Spark, make: Make) -> None:
    t = make(mode=COW, rows="(1, 'a'), (2, 'b')")
    t.table.append([{"id": 3, "v": "c"}, {"id": 4, "v": "d"}])
    t.table.append([{"id": 5, "v": "e"}, {"id": 6, "v": "f"}])
    before = {task.file.file_path for task in t.table.scan().plan().tasks()}
    session(f"DELETE FROM {t.name} WHERE v = upper(v) OR concat(v, id) = 'd4'")
    after = {task.file.file_path for task in t.table.scan().plan().tasks()}
    assert len(before - after) == 1
    assert len(after - before) == 1
    assert t.rows("id") == [(1,), (2,), (3,), (5,), (6,)]


@pytest.mark.parametrize(("mode", "version"), [(COW, 3), (MOR, 2)])
def test_files_that_writers_spell_differently(session: Spark, make: Make, mode: str, version: int) -> None:
    """Flink records `file:/x`, Floe `/x` or `file:///x`: they are read, and changed, together."""
    t = make(mode=mode, version=version, rows="(1, 'a'), (2, 'b')")
    for spelling, id in (("file:", 3), ("file://", 5), ("file://localhost", 7)):
        path = f"{t.table.location.removeprefix('file:')}/elsewhere/{id}.parquet"
        t.table.storage.write(path, parquet_of(pa.table({"id": pa.array([id, id + 1], pa.int32()), "v": ["x", "y"]})))
        t.table.add_files(spelling + path)
    files = t.table.inspect.files()["file_path"].to_pylist()
    assert {path.partition("/")[0] for path in files} == {"", "file:"}
    assert {row[0] for row in t.rows("_file")} == set(files)
    session(
        f"MERGE INTO {t.name} t USING (SELECT explode(array(1, 3, 5, 7, 9)) AS id) s ON t.id = s.id "
        "WHEN MATCHED AND s.id = 7 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'm' "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new')"
    )
    session(f"DELETE FROM {t.name} WHERE concat(v, id) IN ('y4', 'y6')")
    assert t.rows() == [(1, "m"), (2, "b"), (3, "m"), (5, "m"), (8, "y"), (9, "new")]
    assert t.table.scan().to_arrow().num_rows == 6


def test_a_statement_that_changes_nothing_makes_no_snapshot(session: Spark, make: Make) -> None:
    for mode in (COW, MOR):
        t = make(mode=mode, rows="(1, 'a'), (2, 'b')")
        before = t.table.current_snapshot
        session(f"DELETE FROM {t.name} WHERE concat(v, id) = 'nothing'")
        session(f"UPDATE {t.name} SET v = 'x' WHERE concat(v, id) = 'nothing'")
        assert t.table.current_snapshot == before


def test_a_file_has_one_deletion_vector_that_grows(session: Spark, make: Make) -> None:
    t = make(rows="(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e')")
    t.table.append([{"id": n, "v": "z"} for n in range(6, 10)])
    for number in (2, 7, 4):
        session(f"DELETE FROM {t.name} WHERE id = {number}")
    assert t.rows("id") == [(1,), (3,), (5,), (6,), (8,), (9,)]
    tasks = list(t.table.scan().plan().tasks())
    assert all(len(task.deletes) <= 1 for task in tasks)
    assert sum(delete.record_count for task in tasks for delete in task.deletes) == 3
    session(f"UPDATE {t.name} SET v = 'w' WHERE id IN (1, 8)")
    vectors = {delete.file_path for task in t.table.scan().plan().tasks() for delete in task.deletes}
    assert t.summary()["added-dvs"] in ("1", "2")
    assert all(path.endswith(".puffin") for path in vectors)
    assert t.rows("id", "v = 'w'") == [(1,), (8,)]


def test_vectors_take_in_the_position_deletes_of_an_upgraded_table(session: Spark, make: Make) -> None:
    t = make(version=2, rows="(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e')")
    session(f"DELETE FROM {t.name} WHERE id = 2")
    session(f"ALTER TABLE {t.name} SET TBLPROPERTIES ('format-version' = '3')")
    session(f"DELETE FROM {t.name} WHERE id = 4")
    assert t.rows("id") == [(1,), (3,), (5,)]
    session(f"MERGE INTO {t.name} t USING (SELECT 3 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'm'")
    assert t.rows() == [(1, "a"), (3, "m"), (5, "e")]


@pytest.mark.parametrize(("granularity", "files"), [("file", 4), ("partition", 2)])
def test_position_deletes_are_as_fine_as_the_table_says(
    session: Spark, make: Make, granularity: str, files: int
) -> None:
    t = make("id INT, p INT", version=2, by="p", **{"write.delete.granularity": granularity})
    for start in (0, 10):
        t.table.append([{"id": start + n, "p": n % 2} for n in range(6)])
    session(f"DELETE FROM {t.name} WHERE id IN (0, 1, 10, 11)")
    assert t.summary()["added-delete-files"] == str(files)
    assert t.rows("count(*)") == [(8,)]


def test_a_small_merge_into_many_partitions_makes_one_file_for_each(session: Spark, make: Make) -> None:
    for mode in (COW, MOR):
        t = make("id INT, p INT", mode=mode, by="p")
        session(f"INSERT INTO {t.name} SELECT id, id % 8 FROM range(80)")
        session(
            f"MERGE INTO {t.name} t USING (SELECT explode(sequence(0, 159)) AS id) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET id = -t.id WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.id, s.id % 8)"
        )
        assert t.summary()["added-data-files"] == "8"
        assert t.rows("count(*), count(DISTINCT id), min(id)") == [(160, 160, -79)]


def test_files_of_several_formats_are_written_anew(session: Spark, make: Make) -> None:
    """Spark's own reader cannot read ORC by field id, so both readers take part; each is told which files change."""
    t = make(mode=COW)
    for start, file_format in enumerate(["parquet", "orc", "avro", "parquet", "orc"]):
        rows = [{"id": 2 * start + n, "v": "abcdefghij"[2 * start + n]} for n in range(2)]
        t.table.append(rows, options={"write.format.default": file_format})

    def files() -> dict[str, str]:
        return {task.file.file_path: task.file.file_format for task in t.table.scan().plan().tasks()}

    for statement, changed in [
        ("DELETE FROM {t} WHERE concat(v, id) IN ('c2', 'a0')", ["orc", "parquet"]),
        ("UPDATE {t} SET v = 'u' WHERE id IN (SELECT max(id) FROM {t})", ["orc"]),
        (
            "MERGE INTO {t} t USING (SELECT explode(array(4, 6, 77)) AS id) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
            ["avro", "parquet"],
        ),
    ]:
        before = files()
        plan = session.explained(statement.format(t=t.name))
        assert "read by Spark's Parquet reader" in plan
        assert "read by Arrow reader, for avro files" in plan
        session(statement.format(t=t.name))
        assert sorted(before[path] for path in before.keys() - files().keys()) == changed
    assert t.rows() == [
        (1, "b"), (3, "d"), (4, "m"), (5, "f"), (6, "m"), (7, "h"), (77, None), (8, "i"), (9, "u"),
    ]  # fmt: skip


def test_rows_of_older_partition_specs_are_changed(session: Spark, make: Make) -> None:
    for mode in (COW, MOR):
        for version in (2, 3):
            t = make("id INT, p STRING", mode=mode, version=version, by="p", rows="(1, 'x'), (2, 'y'), (3, 'x')")
            session(f"ALTER TABLE {t.name} ADD PARTITION FIELD bucket(4, id)")
            session(f"INSERT INTO {t.name} VALUES (4, 'x'), (5, 'y')")
            session(f"UPDATE {t.name} SET p = 'z' WHERE id IN (1, 4)")
            session(f"DELETE FROM {t.name} WHERE id IN (2, 5)")
            assert t.rows() == [(1, "z"), (3, "x"), (4, "z")]


# summaries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [COW, MOR])
def test_summaries_tell_how_many_rows_were_changed(session: Spark, make: Make, mode: str) -> None:
    t = make(mode=mode)
    session(f"INSERT INTO {t.name} SELECT id, 'a' FROM range(0, 10, 1, 1)")

    def counts(prefix: str = "floe.rows-") -> dict[str, int]:
        numbers = {name.removeprefix(prefix): int(n) for name, n in t.summary().items() if name.startswith(prefix)}
        return {name: n for name, n in numbers.items() if n}

    copies = {"copied": 8} if mode == COW else {}
    session(f"DELETE FROM {t.name} WHERE id % 5 = 1")
    assert counts() == {"deleted": 2, **copies}
    copies = {"copied": 6} if mode == COW else {}
    session(f"UPDATE {t.name} SET v = 'u' WHERE id % 5 = 2")
    if mode == MOR or session.version >= (4, 2):  # before, updated rows look like copied ones
        assert counts() == {"updated": 2, **copies}
    session(
        f"MERGE INTO {t.name} t USING (SELECT explode(array(3, 4, 100)) AS id) s ON t.id = s.id "
        "WHEN MATCHED AND s.id = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'm' "
        "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id) WHEN NOT MATCHED BY SOURCE AND t.id = 8 THEN DELETE"
    )
    copies = {"copied": 5} if mode == COW else {}
    if mode == MOR or session.version >= (4, 1):
        assert counts() == {"deleted": 2, "updated": 1, "inserted": 1, **copies}
        java = counts("spark.merge-into.num-target-rows-")
        assert {name: java[name] for name in counts()} == counts()
    if session.version >= (4, 1):  # before, Spark does not tell them
        names = ("matched-updated", "matched-deleted", "not-matched-by-source-updated", "not-matched-by-source-deleted")
        details = [t.summary()[f"spark.merge-into.num-target-rows-{name}"] for name in names]
        assert details == ["1", "1", "0", "1"]


def test_what_is_not_known_is_not_told(session: Spark, make: Make) -> None:
    """A delete file of several data files does not tell how many rows it deletes of each."""
    t = make(version=2, mode=COW, rows="(1, 'a'), (2, 'b'), (3, 'c')", **{"write.delete.mode": MOR})
    session(f"DELETE FROM {t.name} WHERE id = 2")
    session(f"ALTER TABLE {t.name} SET TBLPROPERTIES ('write.delete.mode' = '{COW}')")
    session(f"DELETE FROM {t.name} WHERE concat(v, id) = 'c3'")
    assert t.rows() == [(1, "a")]
    assert t.summary()["floe.rows-copied"] == "1"
    assert "floe.rows-deleted" not in t.summary()


# row ids ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [COW, MOR])
def test_rows_keep_their_ids_and_say_when_they_were_changed(session: Spark, make: Make, mode: str) -> None:
    t = make(mode=mode, rows="(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    born = dict(t.rows("id, _row_id"))
    session(f"UPDATE {t.name} SET v = 'u' WHERE id = 2")
    session(
        f"MERGE INTO {t.name} t USING (SELECT * FROM VALUES (3), (9) AS s(id)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new')"
    )
    session(f"DELETE FROM {t.name} WHERE id = 4")
    lineage = {row[0]: row[1:] for row in t.rows("id, _row_id, _last_updated_sequence_number")}
    assert {key: lineage[key][0] for key in (1, 2, 3)} == {key: born[key] for key in (1, 2, 3)}
    assert lineage[9][0] not in born.values()
    assert [lineage[key][1] for key in (1, 2, 3, 9)] == [1, 2, 3, 3]


# values -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [COW, MOR])
def test_nested_fields_defaults_and_types(session: Spark, make: Make, mode: str) -> None:
    columns = (
        "id BIGINT, s STRUCT<a: INT, b: STRUCT<c: STRING>>, l ARRAY<INT>, m MAP<STRING, DATE>, "
        "d DECIMAL(9, 2), t TIMESTAMP, k INT DEFAULT 7"
    )
    t = make(columns, mode=mode)
    session(
        f"INSERT INTO {t.name} VALUES (1, named_struct('a', 1, 'b', named_struct('c', 'x')), array(1, 2), "
        "map('k', DATE'2024-02-29'), 1.25, TIMESTAMP'2024-01-01 10:00:00', 1), (2, NULL, NULL, NULL, NULL, NULL, 2)"
    )
    session(f"UPDATE {t.name} SET s.b.c = 'y', s.a = s.a + 1, l = array(9), d = d * 2, k = DEFAULT WHERE id = 1")
    session(
        f"MERGE INTO {t.name} t USING (SELECT 3 AS id, 5 AS a) x ON t.id = x.id "
        "WHEN NOT MATCHED THEN INSERT (id, s) VALUES (x.id, named_struct('a', x.a, 'b', NULL)) "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 2 THEN UPDATE SET m = map('z', NULL)"
    )
    assert t.rows("id, s.a, s.b.c, l, element_at(m, 'k'), map_keys(m), d, k") == [
        (1, 2, "y", [9], date(2024, 2, 29), ["k"], Decimal("2.50"), 7),
        (2, None, None, None, None, ["z"], None, 2),
        (3, 5, None, None, None, None, None, 7),
    ]


def test_merge_with_schema_evolution(session: Spark, make: Make) -> None:
    if session.version < (4, 1):
        pytest.skip("Spark has it since 4.1")
    for mode in (COW, MOR):
        t = make(mode=mode, rows="(1, 'a'), (2, 'b')")
        session(
            f"MERGE WITH SCHEMA EVOLUTION INTO {t.name} t "
            "USING (SELECT 2 AS id, 'bb' AS v, 20 AS n UNION ALL SELECT 3, 'c', 30) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        assert t.rows("id, v, n") == [(1, "a", None), (2, "bb", 20), (3, "c", 30)]


def test_not_null_columns_refuse_null(session: Spark, make: Make) -> None:
    t = make("id INT NOT NULL, v STRING", rows="(1, 'a'), (2, 'b')")
    with pytest.raises(PySparkException, match=r"NOT_NULL|null"):
        session(f"UPDATE {t.name} SET id = nullif(id, 1)")
    session(f"DELETE FROM {t.name} WHERE id = 1")  # whose other columns are null on the way
    session(f"MERGE INTO {t.name} t USING (SELECT 2 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert t.rows() == []


# doors --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [COW, MOR])
def test_data_frames_merge(session: Spark, make: Make, mode: str) -> None:
    t = make(mode=mode, rows="(1, 'a'), (2, 'b')")
    source = session.session.createDataFrame([(2, "two"), (3, "three")], "id INT, v STRING").alias("s")
    merging = source.mergeInto(t.name, F.expr(f"{t.name}.id = s.id"))
    merging.whenMatched().updateAll().whenNotMatched().insertAll().whenNotMatchedBySource().delete().merge()
    assert t.rows() == [(2, "two"), (3, "three")]


def test_statements_with_parameters_and_explanations(session: Spark, make: Make) -> None:
    t = make(mode=COW, rows="(1, 'a'), (2, 'b'), (3, 'c')")
    session.session.sql(f"DELETE FROM {t.name} WHERE id = :id", {"id": 2})
    assert t.rows("id") == [(1,), (3,)]
    plan = session.explained(f"UPDATE {t.name} SET v = 'x' WHERE concat(v, id) = 'a1'")
    assert f"Floe table {t.name}: UPDATE, copy-on-write" in plan
    assert t.rows() == [(1, "a"), (3, "c")]


def test_a_row_that_matches_twice_is_refused(session: Spark, make: Make) -> None:
    for mode in (COW, MOR):
        t = make(mode=mode, rows="(1, 'a'), (2, 'b')")
        before = t.table.current_snapshot
        with pytest.raises(PySparkException) as caught:
            session(
                f"MERGE INTO {t.name} t USING (SELECT * FROM VALUES (1, 'x'), (1, 'y') AS s(id, v)) s "
                "ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
            )
        assert "MERGE_CARDINALITY_VIOLATION" in str(caught.value)
        assert t.table.current_snapshot == before


def test_a_row_that_matches_twice_is_copied_once(session: Spark, make: Make) -> None:
    source = "(SELECT * FROM VALUES (1, 'x'), (1, 'y'), (4, 'z') AS s(id, v))"
    for mode in (COW, MOR):
        t = make(mode=mode, rows="(1, 'a'), (2, 'b'), (3, NULL)")
        session(
            f"MERGE INTO {t.name} t USING {source} s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN DELETE"
        )
        assert t.rows() == [(1, "a"), (2, "b")]
        session(
            f"MERGE INTO {t.name} t USING {source} s ON t.id < s.id + 1 AND upper(t.v) > 'A'"
            "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = concat(t.v, '!')"
        )
        assert t.rows() == [(1, "a!"), (2, "b")]
        session(f"MERGE INTO {t.name} t USING {source} s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE")
        assert t.rows() == [(1, "a!")]
        session(f"MERGE INTO {t.name} t USING {source} s ON true WHEN NOT MATCHED BY SOURCE THEN DELETE")
        assert t.rows() == [(1, "a!")]


def test_deletes_of_others_stay_where_the_source_has_no_rows(session: Spark, make: Make) -> None:
    t = make(mode=COW, rows="(1, 'a'), (2, 'b'), (3, 'c')")
    target = WriteTarget.of(t.table.metadata, t.table.storage)
    t.table.row_delta((), write_equality_deletes(target, [pa.table({"id": pa.array([2], pa.int32())})], ["id"]))
    nothing = "(SELECT 1 AS id, 'x' AS v WHERE false)"
    clauses = "WHEN NOT MATCHED BY SOURCE AND concat(t.v, t.id) = 'c3' THEN DELETE"
    session(f"MERGE INTO {t.name} t USING {nothing} s ON t.id = s.id {clauses}")
    assert t.rows() == [(1, "a")]


def test_a_row_that_matches_twice_is_not_doubled_by_a_merge_that_inserts(session: Spark, make: Make) -> None:
    source = "(SELECT * FROM VALUES (1, 'x'), (1, 'y'), (4, 'z') AS s(id, v))"
    clauses = "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE"
    t = make(mode=COW, rows="(1, 'a'), (2, 'b')")
    with pytest.raises(PySparkException) as caught:
        session(f"MERGE INTO {t.name} t USING {source} s ON t.id = s.id {clauses}")
    assert "MERGE_CARDINALITY_VIOLATION" in str(caught.value)
    assert t.rows() == [(1, "a"), (2, "b")]
    session(f"MERGE INTO {t.name} t USING {source} s ON t.id = s.id AND s.v <> 'y' {clauses}")
    assert t.rows() == [(1, "a"), (1, "y"), (4, "z")]
    t = make(mode=MOR, rows="(1, 'a'), (2, 'b')")
    session(f"MERGE INTO {t.name} t USING {source} s ON t.id = s.id {clauses}")
    assert t.rows() == [(1, "a"), (4, "z")]


def test_branches_and_stages(session: Spark, make: Make) -> None:
    for mode in (COW, MOR):
        t = make(mode=mode, rows="(1, 'a'), (2, 'b'), (3, 'c')")
        session(f"ALTER TABLE {t.name} CREATE BRANCH b")
        session(f"DELETE FROM {t.name}.branch_b WHERE id = 1")
        session(f"UPDATE {t.name}.branch_b SET v = 'u' WHERE id = 2")
        session(
            f"MERGE INTO {t.name}.branch_b t USING (SELECT 3 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE "
            "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = concat(t.v, '!')"
        )
        assert session.sorted(f"SELECT * FROM {t.name}.branch_b") == [(2, "u!")]
        assert t.rows() == [(1, "a"), (2, "b"), (3, "c")]
        with pytest.raises(PySparkException):
            session(f"DELETE FROM {t.name}.snapshot_id_{t.table.snapshots[0].snapshot_id} WHERE concat(v, id) = 'a1'")


def test_writes_that_are_audited_first(session: Spark, make: Make) -> None:
    t = make(rows="(1, 'a'), (2, 'b'), (3, 'c')", **{"write.wap.enabled": "true"})
    session.session.conf.set("spark.wap.branch", "audit")
    try:
        session(f"DELETE FROM {t.name} WHERE concat(v, id) = 'a1'")
        session(f"UPDATE {t.name} SET v = 'u' WHERE id = 2")
        session(f"DELETE FROM {t.name} WHERE id = 3")
    finally:
        session.session.conf.unset("spark.wap.branch")
    assert t.rows() == [(1, "a"), (2, "b"), (3, "c")]
    assert session.sorted(f"SELECT * FROM {t.name}.branch_audit") == [(2, "u")]


def test_a_branch_merges_what_another_has(session: Spark, make: Make) -> None:
    t = make(rows="(1, 'a'), (2, 'b')")
    session(f"ALTER TABLE {t.name} CREATE BRANCH b")
    session(f"INSERT INTO {t.name} VALUES (3, 'c')")
    session(f"UPDATE {t.name}.branch_b SET v = 'x' WHERE id = 1")
    session(
        f"MERGE INTO {t.name}.branch_b t USING {t.name} s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = t.v || s.v WHEN NOT MATCHED THEN INSERT *"
    )
    session(f"INSERT INTO {t.name}.branch_b SELECT id + 10, v FROM {t.name}")
    rows = [(1, "xa"), (11, "a"), (12, "b"), (13, "c"), (2, "bb"), (3, "c")]
    assert session.sorted(f"SELECT * FROM {t.name}.branch_b") == rows
