"""Rows written through Spark: every statement and method, over both catalogs, with what Floe's own API then finds."""

import datetime
import os
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

import floe
from floe.table.table import Table
from helpers.spark import Spark

SLOW = pytest.mark.slow
EVERYTHING = (
    "c1 BOOLEAN, c2 INT, c3 BIGINT, c4 FLOAT, c5 DOUBLE, c6 DECIMAL(20,4), c7 DATE, c8 TIMESTAMP, c9 TIMESTAMP_NTZ, "
    "c10 STRING, c11 BINARY, c12 STRUCT<a: INT, b: STRUCT<c: STRING>>, c13 ARRAY<STRUCT<x: INT>>, "
    "c14 MAP<STRING, ARRAY<INT>>"
)
ROW = (
    "true, 1, 2L, 1.5F, 2.5D, 3.25BD, DATE'1969-12-31', TIMESTAMP'2024-01-01 00:00:00.000001', "
    "TIMESTAMP_NTZ'1582-01-01 00:00:00', '漢字', X'00FF', named_struct('a', 1, 'b', named_struct('c', 'd')), "
    "array(named_struct('x', 1), null), map('k', array(1, null))"
)
VALUES = {
    "c1": True,
    "c2": 1,
    "c3": 2,
    "c4": 1.5,
    "c5": 2.5,
    "c6": Decimal("3.2500"),
    "c7": datetime.date(1969, 12, 31),
    "c8": datetime.datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=datetime.UTC),
    "c9": datetime.datetime(1582, 1, 1),
    "c10": "漢字",
    "c11": b"\x00\xff",
    "c12": {"a": 1, "b": {"c": "d"}},
    "c13": [{"x": 1}, None],
    "c14": [("k", [1, None])],
}


@pytest.fixture(scope="module", params=["lake", pytest.param("sq", marks=pytest.mark.slow)])
def catalog(request: pytest.FixtureRequest) -> str:
    """The name of a catalog; DDL is where they differ, so that the second one is for the slow tier here."""
    return str(request.param)


@pytest.fixture(scope="module")
def db(session: Spark, catalog: str) -> str:
    session(f"CREATE NAMESPACE {catalog}.writes")
    return f"{catalog}.writes"


def loaded(session: Spark, table: str) -> Table:
    catalog, namespace, name = table.split(".")
    return session.lake(catalog).table((namespace, name))


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_values_of_every_type(session: Spark, db: str, file_format: str) -> None:
    name = f"{db}.types_{file_format}"
    session(f"CREATE TABLE {name} ({EVERYTHING}) TBLPROPERTIES ('write.format.default' = '{file_format}')")
    nulls = ", ".join(["NULL"] * len(VALUES))
    session(f"INSERT INTO {name} VALUES ({ROW}), ({nulls})")
    rows = loaded(session, name).scan().to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: row["c2"] is None) == [VALUES, dict.fromkeys(VALUES)]
    (through_spark,) = session(f"SELECT * FROM {name} WHERE c2 = 1")
    assert through_spark[9:11] == ("漢字", bytearray(b"\x00\xff"))
    assert through_spark[8] == datetime.datetime(1582, 1, 1)


def test_insert_by_position_name_and_list(session: Spark, db: str) -> None:
    name = f"{db}.inserted"
    session(f"CREATE TABLE {name} (id BIGINT NOT NULL, name STRING, n INT) TBLPROPERTIES ('format-version' = '3')")
    session(f"INSERT INTO {name} VALUES (1, 'a', 10), (2, 'b', 20)")
    if session.version >= (4, 1):  # older ones fill in nothing for columns that are not given
        session(f"INSERT INTO {name} BY NAME SELECT 30 AS n, 3L AS id")
        session(f"INSERT INTO {name} (name, id) SELECT 'd', 4L")
    else:
        session(f"INSERT INTO {name} BY NAME SELECT 30 AS n, 3L AS id, CAST(NULL AS STRING) AS name")
        session(f"INSERT INTO {name} (name, id, n) SELECT 'd', 4L, CAST(NULL AS INT)")
    session(f"INSERT INTO {name} TABLE {name}")
    expected = [(1, "a", 10), (2, "b", 20), (3, None, 30), (4, "d", None)]
    assert session.sorted(f"SELECT * FROM {name}") == sorted(expected * 2, key=repr)
    with pytest.raises(PySparkException, match="NOT_NULL_ASSERT_VIOLATION"):
        session(f"INSERT INTO {name} VALUES (NULL, 'x', 1)")
    with pytest.raises(AnalysisException, match="INCOMPATIBLE_DATA_FOR_TABLE"):
        session(f"INSERT INTO {name} VALUES ('x', 'x', 1)")
    assert session.one(f"SELECT count(*) FROM {name}") == 8


def test_partitioned_writes_make_one_file_for_each_partition(session: Spark, db: str) -> None:
    name = f"{db}.parted"
    session(
        f"""CREATE TABLE {name} (id BIGINT, name STRING, at TIMESTAMP)
        PARTITIONED BY (days(at), bucket(4, id), bucket(2, name), truncate(1, name))"""
    )
    session(
        f"""INSERT INTO {name} SELECT id, concat(chr(97 + id % 2), 'x'), timestamp_seconds((id % 3) * 86400)
        FROM range(0, 1000, 1, 8)"""
    )
    files = loaded(session, name).inspect.files(columns=["partition", "record_count"]).to_pylist()
    partitions = [tuple(file["partition"].values()) for file in files]
    assert len(partitions) == len(set(partitions)), "tasks wrote the same partition"
    assert sum(file["record_count"] for file in files) == 1000
    assert session.one(f"SELECT count(DISTINCT id) FROM {name}") == 1000


@pytest.fixture
def parted(session: Spark, db: str, request: pytest.FixtureRequest) -> str:
    name = f"{db}.t_{abs(hash(request.node.name))}"
    session(f"CREATE TABLE {name} (id BIGINT, k INT) PARTITIONED BY (k)")
    session(f"INSERT INTO {name} SELECT id, CAST(id % 3 AS INT) FROM range(9)")
    return name


def counts(session: Spark, name: str) -> list[tuple[Any, ...]]:
    return session(f"SELECT k, count(*) FROM {name} GROUP BY k ORDER BY k")


def test_insert_overwrite_static(session: Spark, parted: str) -> None:
    session(f"INSERT OVERWRITE {parted} PARTITION (k = 1) SELECT id FROM range(10, 15)")
    assert counts(session, parted) == [(0, 3), (1, 5), (2, 3)]
    session(f"INSERT OVERWRITE {parted} VALUES (1L, 7)")
    assert counts(session, parted) == [(7, 1)]


def test_insert_overwrite_dynamic(session: Spark, parted: str) -> None:
    session("SET spark.sql.sources.partitionOverwriteMode = dynamic")
    try:
        session(f"INSERT OVERWRITE {parted} VALUES (100L, 2), (101L, 5)")
        assert counts(session, parted) == [(0, 3), (1, 3), (2, 1), (5, 1)]
        before = loaded(session, parted).current_snapshot
        session(f"INSERT OVERWRITE {parted} SELECT * FROM {parted} WHERE false")
        assert loaded(session, parted).current_snapshot == before, "nothing to write is no commit"
    finally:
        session("SET spark.sql.sources.partitionOverwriteMode = static")


def test_data_frame_writer(session: Spark, db: str) -> None:
    spark, name = session.session, f"{db}.framed"
    rows = spark.range(10).selectExpr("id", "CAST(id % 2 AS INT) AS k")
    rows.writeTo(name).tableProperty("a", "b").partitionedBy("k").create()
    rows.writeTo(name).append()
    assert counts(session, name) == [(0, 10), (1, 10)]
    rows.where("k = 1").writeTo(name).overwrite(F.col("k") == 1)
    assert counts(session, name) == [(0, 10), (1, 5)]
    rows.where("k = 0").writeTo(name).overwritePartitions()
    assert counts(session, name) == [(0, 5), (1, 5)]
    rows.limit(3).writeTo(name).replace()
    assert session.one(f"SELECT count(*) FROM {name}") == 3
    table = loaded(session, name)
    assert table.properties["a"] == "b", "replacing keeps properties"
    assert len(table.snapshots) == 5, "and history"
    rows.write.insertInto(name)
    rows.write.mode("append").saveAsTable(name)
    assert session.one(f"SELECT count(*) FROM {name}") == 23
    with pytest.raises(AnalysisException):
        rows.writeTo(name).create()
    with pytest.raises(AnalysisException):
        rows.writeTo(f"{db}.not_there").append()


def test_create_table_as_is_all_or_nothing(session: Spark, db: str) -> None:
    name = f"{db}.ctas"
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        session(f"CREATE TABLE {name} AS SELECT 1 / (id - 5) AS x FROM range(10)")
    assert not session.lake(db.split(".", maxsplit=1)[0]).table_exists("writes.ctas")
    session(f"CREATE TABLE {name} AS SELECT id FROM range(5)")
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        session(f"CREATE OR REPLACE TABLE {name} AS SELECT 1 / (id - 5) AS x FROM range(10)")
    assert session.sorted(f"SELECT * FROM {name}") == [(n,) for n in range(5)]
    session(f"CREATE OR REPLACE TABLE {name} PARTITIONED BY (bucket(2, id)) AS SELECT id, 'x' AS s FROM {name}")
    assert session.sorted(f"SELECT * FROM {name}") == [(n, "x") for n in range(5)]
    session(f"REPLACE TABLE {name} AS SELECT 1 AS one")
    assert session(f"SELECT * FROM {name}") == [(1,)]
    with pytest.raises(AnalysisException):
        session(f"REPLACE TABLE {db}.not_there AS SELECT 1 AS one")


def test_write_options(session: Spark, db: str) -> None:
    name = f"{db}.told"
    session(f"CREATE TABLE {name} (id BIGINT)")
    rows = session.session.range(1000)
    (
        rows.writeTo(name)
        .option("snapshot-property.who", "me")
        .option("write-format", "orc")
        .option("target-file-size-bytes", "1000000")
        .append()
    )
    table = loaded(session, name)
    assert table.current_snapshot is not None
    assert table.current_snapshot.summary["who"] == "me"
    assert set(table.inspect.files()["file_format"].to_pylist()) == {"ORC"}
    rows.writeTo(name).option("branch", "audit").append()
    assert session.one(f"SELECT count(*) FROM {name}") == 1000
    assert session.one(f"SELECT count(*) FROM {name}.branch_audit") == 2000
    session(f"INSERT INTO {name}.branch_audit VALUES (7L)")
    assert session.one(f"SELECT count(*) FROM {name} VERSION AS OF 'audit'") == 2001
    with pytest.raises(PySparkException, match="none, hash, range"):
        rows.writeTo(name).option("distribution-mode", "wild").append()


def test_write_audit_publish(session: Spark, db: str) -> None:
    name = f"{db}.audited"
    session(f"CREATE TABLE {name} (id BIGINT) TBLPROPERTIES ('write.wap.enabled' = 'true')")
    session("SET spark.wap.id = load-1")
    try:
        session(f"INSERT INTO {name} VALUES (1)")
    finally:
        session("RESET spark.wap.id")
    assert session.one(f"SELECT count(*) FROM {name}") == 0
    loaded(session, name).publish("load-1")
    assert session.one(f"SELECT count(*) FROM {name}") == 1


def test_the_branch_of_an_audit_is_read_too(session: Spark, db: str) -> None:
    name = f"{db}.reviewed"
    session(f"CREATE TABLE {name} (id BIGINT) TBLPROPERTIES ('write.wap.enabled' = 'true')")
    session(f"INSERT INTO {name} VALUES (1)")
    first = loaded(session, name).current_snapshot
    assert first is not None
    session("SET spark.wap.branch = audit")
    try:
        assert session(f"SELECT id FROM {name}") == [(1,)], "where there is no such branch, main is read"
        session(f"INSERT INTO {name} VALUES (2)")
        assert session.sorted(f"SELECT id FROM {name}") == [(1,), (2,)]
        assert session.one(f"SELECT count(*) FROM {name}") == 2
        session(f"INSERT INTO {name} SELECT id + 10 FROM {name}")
        session(f"DELETE FROM {name} WHERE id = 1")
        assert session(f"SELECT id FROM {name} ORDER BY id") == [(2,), (11,), (12,)]
        assert session(f"SELECT id FROM {name} VERSION AS OF {first.snapshot_id}") == [(1,)]
        assert session(f"SELECT id FROM {name}.branch_main") == [(1,)]
        assert session.session.read.option("branch", "main").table(name).count() == 1
        assert session.session.read.option("snapshot-id", first.snapshot_id).table(name).count() == 1
        assert session.session.read.format("iceberg").load(name).count() == 3
        session(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('write.wap.enabled')")
        assert session(f"SELECT id FROM {name}") == [(1,)], "the table does not say that it is audited"
    finally:
        session("RESET spark.wap.branch")
    assert session(f"SELECT id FROM {name}") == [(1,)]
    assert session.one(f"SELECT count(*) FROM {name}.branch_audit") == 3


def test_every_snapshot_tells_who_made_it(session: Spark, db: str, tmp_path: Path) -> None:
    """Under Java's names, with what blocks and settings around the statement say."""
    name, catalog = f"{db}.told_by_whom", db.partition(".")[0]
    rows = session.session.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load()

    def stream(checkpoint: str) -> None:
        writer = rows.selectExpr("value AS id", "value AS v").writeStream
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(once=True)
        writer.toTable(name).awaitTermination()

    session("SET `spark.sql.iceberg.snapshot-property.cluster` = blue")
    try:
        with floe.commit_properties({"job": "nightly", "cluster": "red"}):
            session(
                f"CREATE TABLE {name} TBLPROPERTIES ('format-version' = '2', 'write.update.mode' = 'merge-on-read', "
                "'write.wap.enabled' = 'true') AS SELECT id, id AS v FROM range(6)"
            )
            session(f"INSERT INTO {name} VALUES (6, 6)")
            session(f"DELETE FROM {name} WHERE id + v = 2")
            session(f"DELETE FROM {name} WHERE id = 6")
            session(f"UPDATE {name} SET v = 0 WHERE id = 2")
            session(f"MERGE INTO {name} t USING (SELECT 3L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
            session.session.range(1).selectExpr("id", "id AS v").writeTo(name).overwritePartitions()
            session("SET spark.wap.id = w1")
            session(f"INSERT INTO {name} VALUES (7, 7)")
            session("RESET spark.wap.id")
            session(f"INSERT INTO {name} VALUES (8, 8)")
            session(f"CALL {catalog}.system.publish_changes('{name.partition('.')[2]}', 'w1')")
            session(f"TRUNCATE TABLE {name}")
            stream("inside")
        stream("outside")
    finally:
        session("RESET spark.wap.id")
        session("RESET `spark.sql.iceberg.snapshot-property.cluster`")
    snapshots = loaded(session, name).metadata.snapshots
    assert len(snapshots) == 13
    application = session.session.sparkContext.applicationId
    for snapshot in snapshots:
        summary = dict(snapshot.summary)
        assert summary["spark.app.id"] == summary["app-id"] == application, summary
        assert (summary["engine-name"], summary["engine-version"]) == ("spark", session.session.version)
        assert summary["iceberg-version"] == f"Floe {floe.__version__}"
        assert summary["cluster"] == "blue"
    assert [dict(one.summary).get("job") for one in snapshots] == ["nightly"] * 12 + [None]
    who = f"SELECT DISTINCT summary['spark.app.id'] FROM {name}.snapshots"
    assert session(who) == [(application,)]


def test_sorted_tables_are_sorted(session: Spark, db: str) -> None:
    name = f"{db}.sorted"
    session(f"CREATE TABLE {name} (id BIGINT, k INT) TBLPROPERTIES ('sort-order' = 'id desc')")
    session(f"INSERT INTO {name} SELECT id, 0 FROM range(0, 10000, 1, 4)")
    files = loaded(session, name).inspect.files(columns=["file_path", "sort_order_id"])
    assert set(files["sort_order_id"].to_pylist()) == {1}
    for path in files["file_path"].to_pylist():
        rows = session(f"SELECT id FROM {name} WHERE _file = '{path}' ORDER BY _pos")
        assert rows == sorted(rows, reverse=True)


def test_sorted_partitions_are_not_spread_over_tasks(session: Spark, db: str) -> None:
    name = f"{db}.sorted_parts"
    session(f"CREATE TABLE {name} (id BIGINT, k INT) PARTITIONED BY (k) TBLPROPERTIES ('sort-order' = 'id desc')")
    session(f"INSERT INTO {name} SELECT id, CAST(id % 5 AS INT) FROM range(0, 10000, 1, 8)")
    files = loaded(session, name).inspect.files(columns=["partition", "record_count"]).to_pylist()
    assert sum(file["record_count"] for file in files) == 10000
    assert len(files) <= 6, "two tasks share at most one partition"


def test_truncate_and_deletes_of_whole_files(session: Spark, parted: str) -> None:
    session(f"DELETE FROM {parted} WHERE k = 1")
    assert counts(session, parted) == [(0, 3), (2, 3)]
    session(f"TRUNCATE TABLE {parted}")
    assert counts(session, parted) == []


def test_a_failing_task_leaves_nothing(session: Spark, db: str) -> None:
    name = f"{db}.failing"
    session(f"CREATE TABLE {name} (id BIGINT)")
    folder = loaded(session, name).location

    def fail_in_the_end(batches: Any) -> Any:
        yield from batches
        if TaskContext.get().partitionId() == 1:
            raise ValueError("on purpose")

    rows = session.session.range(0, 1000, 1, 2).mapInArrow(fail_in_the_end, "id bigint")
    with pytest.raises(PySparkException, match="on purpose") as caught:
        rows.writeTo(name).append()
    assert "Py4J" not in str(caught.value)
    assert session.one(f"SELECT count(*) FROM {name}") == 0
    found = [file for _, _, files in os.walk(f"{folder}/data") for file in files]
    assert len(found) <= 1, "only the task that finished may have left its file"


def test_batches_of_other_functions_stay_as_they_were(session: Spark, db: str) -> None:
    def sizes(batches: Any) -> Any:
        for batch in batches:
            yield pa.record_batch({"rows": [batch.num_rows]})

    def biggest() -> int:
        found = session.session.range(0, 30_000, 1, 1).mapInArrow(sizes, "rows bigint").collect()
        return max(row.rows for row in found)

    before, name = biggest(), f"{db}.batches"
    session(f"CREATE TABLE {name} (id BIGINT, n BIGINT) PARTITIONED BY (n)")
    session(f"INSERT INTO {name} SELECT id, id % 2 FROM range(30000)")
    assert biggest() == before
    rows = session.session.sql("SELECT id, 1L AS n FROM range(100)")
    rows.writeTo(name).overwritePartitions()
    assert biggest() == before
    with pytest.raises(PySparkException):
        session(f"INSERT INTO {name} SELECT id, raise_error('no') FROM range(30000)")
    with pytest.raises(PySparkException):
        session(f"UPDATE {name} SET n = raise_error('no')")
    assert biggest() == before


def test_rows_of_arrow_and_floe_meet(session: Spark, db: str) -> None:
    name = f"{db}.shared"
    session(f"CREATE TABLE {name} (id BIGINT, name STRING)")
    loaded(session, name).append(pa.table({"id": [1, 2], "name": ["a", None]}))
    session(f"INSERT INTO {name} VALUES (3L, 'c')")
    assert session.sorted(f"SELECT * FROM {name}") == [(1, "a"), (2, None), (3, "c")]
    assert loaded(session, name).scan(where="id = 3").to_arrow().to_pylist() == [{"id": 3, "name": "c"}]


def test_a_few_values_are_written_without_a_job(session: Spark, db: str) -> None:
    name = f"{db}.few"
    session(f"CREATE TABLE {name} ({EVERYTHING}) PARTITIONED BY (bucket(4, c3), c10)")
    context = session.session.sparkContext
    context.setJobGroup(name, "few rows")
    try:
        session(f"INSERT INTO {name} VALUES ({ROW}), ({ROW})")
        assert len(context.statusTracker().getJobIdsForGroup(name)) == 0
        session(f"INSERT INTO {name} SELECT * FROM {name} WHERE c2 = 1")
        assert len(context.statusTracker().getJobIdsForGroup(name)) > 0
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert loaded(session, name).scan().to_arrow().to_pylist() == [VALUES] * 4
    assert loaded(session, name).inspect.files(columns=["record_count"])["record_count"].to_pylist() == [2, 2]


def test_dynamic_overwrites_bring_rows_together(session: Spark, db: str) -> None:
    name = f"{db}.together"
    session(f"CREATE TABLE {name} (id BIGINT, s STRING, at TIMESTAMP) PARTITIONED BY (bucket(3, s), days(at))")
    rows = session.session.range(0, 600, 1, 8).selectExpr(
        "id", "concat('k', id % 50) AS s", "timestamp_seconds((id % 2) * 86400) AS at"
    )
    rows.writeTo(name).overwritePartitions()
    files = loaded(session, name).inspect.files(columns=["partition", "record_count"]).to_pylist()
    partitions = [tuple(file["partition"].values()) for file in files]
    assert len(partitions) == len(set(partitions)) == 6, "tasks wrote the same partition"
    assert sum(file["record_count"] for file in files) == 600
    rows.where("id < 100").writeTo(name).option("distribution-mode", "none").overwritePartitions()
    assert session.one(f"SELECT count(*) FROM {name}") == 100


def test_columns_by_name_and_new_ones(session: Spark, db: str) -> None:
    name, spark = f"{db}.wide", session.session
    session(
        f"""CREATE TABLE {name} (id BIGINT NOT NULL, n INT, inside STRUCT<a: INT>)
        TBLPROPERTIES ('write.spark.accept-any-schema' = 'true')"""
    )
    spark.sql("SELECT 7 AS n, 1L AS id").writeTo(name).append()
    assert session(f"SELECT * FROM {name}") == [(1, 7, None)]
    new = spark.sql("SELECT 2L AS id, 5000000000L AS n, named_struct('b', 'x', 'a', 3) AS inside, 'more' AS text")
    with pytest.raises(PySparkException, match="mergeSchema"):
        new.writeTo(name).append()
    before = len(loaded(session, name).snapshots)
    new.writeTo(name).option("mergeSchema", "true").append()
    table = loaded(session, name)
    assert [str(field.type) for field in table.schema.fields][:2] == ["long", "long"]
    assert table.schema.fields[0].required, "nothing becomes optional because a data frame does not say more"
    assert len(table.snapshots) == before + 1
    assert session.sorted(f"SELECT id, n, inside.a, inside.b, text FROM {name}") == [
        (1, 7, None, None, None),
        (2, 5_000_000_000, 3, "x", "more"),
    ]
    with pytest.raises(PySparkException, match="order"):
        spark.sql("SELECT 1L AS n, 1L AS id").writeTo(name).option("check-ordering", "true").append()
    maybe_null = spark.sql("SELECT IF(id = 1, NULL, id) AS id FROM range(2)")
    with pytest.raises(PySparkException, match="NULLABLE"):
        maybe_null.writeTo(name).append()
    with pytest.raises(PySparkException, match="null in a required column"):
        maybe_null.writeTo(name).option("check-nullability", "false").append()
    maybe_null.where("id IS NOT NULL").writeTo(name).option("check-nullability", "false").append()
    assert session.one(f"SELECT count(*) FROM {name} WHERE id = 0") == 1
    session(f"INSERT INTO {name} VALUES (9L, 8L, NULL, 'by place')")
    assert session(f"SELECT n, text FROM {name} WHERE id = 9") == [(8, "by place")]
    with pytest.raises(PySparkException, match="in its order"):
        spark.sql("SELECT 1L AS n, 1L AS id").writeTo(name).overwritePartitions()


def test_statements_with_schema_evolution(session: Spark, db: str) -> None:
    if session.version < (4, 2):
        pytest.skip("this Spark has no INSERT WITH SCHEMA EVOLUTION")
    name = f"{db}.evolving"
    session(f"CREATE TABLE {name} (id INT)")
    session(f"INSERT WITH SCHEMA EVOLUTION INTO {name} BY NAME SELECT 5000000000L AS id, 'x' AS text")
    assert session(f"SELECT * FROM {name}") == [(5_000_000_000, "x")]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("write.distribution-mode", "wild", "none, hash, range"),
        ("write.spark.fanout.enabled", "yes", "true or false"),
        ("write.object-storage.enabled", "on", "true or false"),
        ("write.spark.accept-any-schema", "1", "true or false"),
    ],
)
def test_properties_that_say_nothing_are_refused(session: Spark, db: str, name: str, value: str, words: str) -> None:
    table = f"{db}.told_{abs(hash(name))}"
    with pytest.raises(PySparkException, match=words):
        session(f"CREATE TABLE {table} (id BIGINT) TBLPROPERTIES ('{name}' = '{value}')")
    session(f"CREATE TABLE {table} (id BIGINT)")
    with pytest.raises(PySparkException, match=words):
        session(f"ALTER TABLE {table} SET TBLPROPERTIES ('{name}' = '{value}')")


def test_who_asks_for_encryption_gets_no_table_in_plain_text(session: Spark, db: str) -> None:
    with pytest.raises(PySparkException, match="cannot be encrypted yet"):
        session(f"CREATE TABLE {db}.secret TBLPROPERTIES ('encryption.key-id' = 'k') AS SELECT 1 AS id")
    assert not session(f"SHOW TABLES IN {db} LIKE 'secret'")
    session(f"CREATE TABLE {db}.open (id INT)")
    with pytest.raises(PySparkException, match="cannot be encrypted yet"):
        session(f"ALTER TABLE {db}.open SET TBLPROPERTIES ('encryption.data-key-length' = '16')")


def test_settings_of_the_session(session: Spark, db: str) -> None:
    name = f"{db}.by_session"
    session(f"CREATE TABLE {name} (id BIGINT)")
    session("SET `spark.sql.iceberg.snapshot-property.who` = me")
    try:
        session(f"INSERT INTO {name} VALUES (1)")
    finally:
        session("RESET `spark.sql.iceberg.snapshot-property.who`")
    snapshot = loaded(session, name).current_snapshot
    assert snapshot is not None
    assert snapshot.summary["who"] == "me"
    with pytest.raises(PySparkException, match="serializable, snapshot"):
        session.session.range(1).writeTo(name).option("isolation-level", "none").append()


def test_overwrites_rest_on_the_snapshot_that_they_are_told(session: Spark, db: str) -> None:
    """What others wrote since is a conflict, where it is among the rows that would be replaced."""
    name = f"{db}.validated"
    session(f"CREATE TABLE {name} (id BIGINT, k STRING) PARTITIONED BY (k)")
    table = loaded(session, name)
    table.append([{"id": 1, "k": "a"}, {"id": 2, "k": "b"}])
    assert table.current_snapshot is not None
    seen = table.current_snapshot.snapshot_id
    table.append([{"id": 3, "k": "a"}])
    rows = session.session.createDataFrame([(9, "a")], "id BIGINT, k STRING")

    def write(level: str | None = "serializable", since: object = seen) -> Any:
        writer = rows.writeTo(name).option("validate-from-snapshot-id", str(since))
        return writer if level is None else writer.option("isolation-level", level)

    with pytest.raises(PySparkException, match="added rows would be lost"):
        write().overwritePartitions()
    with pytest.raises(PySparkException, match="added rows would be lost"):
        write("snapshot").overwrite(F.col("k") == "a")
    with pytest.raises(PySparkException, match="added rows would be lost"):
        write(None).overwrite(F.col("k") == "a")
    with pytest.raises(PySparkException, match="'17', and the table has no such snapshot"):
        write(since=17).overwritePartitions()
    with pytest.raises(PySparkException, match="this one replaces or creates the table"):
        write().createOrReplace()
    assert session.sorted(f"SELECT * FROM {name}") == [(1, "a"), (2, "b"), (3, "a")]
    others = session.session.createDataFrame([(8, "b")], rows.schema)
    others.writeTo(name).option("validate-from-snapshot-id", str(seen)).option(
        "isolation-level", "serializable"
    ).overwritePartitions()
    assert session.sorted(f"SELECT * FROM {name}") == [(1, "a"), (3, "a"), (8, "b")], "nobody wrote to k = b since"
    write(since=loaded(session, name).current_snapshot.snapshot_id).overwritePartitions()
    assert session.sorted(f"SELECT * FROM {name}") == [(8, "b"), (9, "a")]
    rows.writeTo(name).option("isolation-level", "serializable").overwrite(F.col("k") == "a")
    assert session.sorted(f"SELECT * FROM {name}") == [(8, "b"), (9, "a")], "nothing came since the write began"


@pytest.fixture
def failing(session: Spark, tmp_path: Path) -> Iterator[None]:
    """A function `fails_late`, which raises for 3, and only when another task of its stage has ended."""
    go, over = str(tmp_path / "go"), threading.Event()

    def fails_late(number: int) -> int:
        if number == 3:
            for _ in range(6000):
                if os.path.exists(go):
                    raise ValueError("one task fails")
                time.sleep(0.01)
        return number

    def watch() -> None:
        tracker = session.session.sparkContext.statusTracker()
        while not over.wait(0.02):
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            if any(one is not None and one.numTasks > 1 and one.numCompletedTasks for one in stages):
                Path(go).touch()

    session.session.udf.register("fails_late", fails_late, "bigint")
    watching = threading.Thread(target=watch)
    watching.start()
    yield
    over.set()
    watching.join()


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {table} SELECT fails_late(id) AS id, part FROM two_parts",
        "INSERT OVERWRITE {table} SELECT fails_late(id) AS id, part FROM two_parts",
        "UPDATE {table} SET id = fails_late(id)",
        pytest.param("CREATE OR REPLACE TABLE {table} AS SELECT fails_late(id) AS id FROM two_parts", marks=SLOW),
        pytest.param(
            "MERGE INTO {table} t USING (SELECT id + 0 AS id FROM two_parts) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET id = fails_late(t.id)",
            marks=SLOW,
        ),
    ],
)
@pytest.mark.parametrize("mode", ["copy-on-write", pytest.param("merge-on-read", marks=SLOW)])
def test_a_statement_that_fails_leaves_no_file_of_tasks_that_had_finished(
    session: Spark, db: str, failing: None, statement: str, mode: str
) -> None:
    table = f"{db}.failing_{abs(hash((statement, mode)))}"
    modes = [f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge")]
    alone = [f"'write.{kind}distribution-mode' = 'none'" for kind in ("", "delete.", "update.", "merge.")]
    properties = ", ".join([*modes, *alone, "'read.split.target-size' = '1'", "'write.spark.fanout.enabled' = 'true'"])
    session(f"CREATE TABLE {table} (id BIGINT, part INT) PARTITIONED BY (part) TBLPROPERTIES ({properties})")
    for number in (1, 3):
        session(f"INSERT INTO {table} VALUES ({number}, {number})")
    session.session.range(1, 5, 2, 2).selectExpr("id", "CAST(id AS INT) AS part").createOrReplaceTempView("two_parts")
    session("SET spark.sql.sources.partitionOverwriteMode = dynamic")
    session("SET spark.sql.autoBroadcastJoinThreshold = 10MB")
    folder = Path(loaded(session, table).location.removeprefix("file:")) / "data"
    before = sorted(folder.rglob("*"))
    try:
        with pytest.raises(PySparkException, match="one task fails"):
            session(statement, table=table)
    finally:
        session("RESET spark.sql.sources.partitionOverwriteMode")
        session("RESET spark.sql.autoBroadcastJoinThreshold")
    assert [path for path in sorted(folder.rglob("*")) if path.is_file() and path not in before] == []
    assert session.sorted(f"SELECT id FROM {table}") == [(1,), (3,)]
