"""Rows that equality deletes have deleted are taken out by joins: the same rows stay as in the embedded engine."""

import datetime as dt
import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from floe.commit.manifests import added_files
from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.writers.delete_files import write_equality_deletes
from floe.formats.writers.write_target import WriteTarget
from floe.spark.read import rewrite
from floe.spec.schemas.schema import Schema
from floe.table.table import Table
from helpers.spark import Spark
from helpers.written_files import Files

DB = "lake.keys"
BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
ADAPTIVE_BROADCAST = "spark.sql.adaptive.autoBroadcastJoinThreshold"


@pytest.fixture(scope="module")
def spark(session: Spark) -> Spark:
    session(f"CREATE NAMESPACE {DB}")
    return session


@pytest.fixture(params=["small deletes", "large deletes"])
def joins(request: pytest.FixtureRequest, spark: Spark, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spark]:
    """Spark that sends deletes to all tasks, and Spark that sorts and merges, as it does with very many of them."""
    if request.param == "large deletes":
        monkeypatch.setattr(rewrite, "_FEW_KEYS", 0)
        for name in (BROADCAST, ADAPTIVE_BROADCAST):
            spark.session.conf.set(name, -1)
    yield spark
    for name in (BROADCAST, ADAPTIVE_BROADCAST):
        spark.session.conf.unset(name)


def new_table(spark: Spark, name: str, columns: str, version: int = 2, **options: Any) -> Table:
    return spark.lake().create_table(f"keys.{name}", columns, format_version=version, **options)


def delete(table: Table, rows: list[dict[str, Any]], *columns: str, **options: Any) -> None:
    """Deletes the rows that are equal to some in some columns, as other engines do."""
    tops = list(dict.fromkeys(column.partition(".")[0] for column in columns))
    schema = arrow_schema(Schema(tuple(table.schema.field(name) for name in tops)))
    keys = pa.Table.from_pylist([{name: row[name] for name in tops} for row in rows], schema=schema)
    target = WriteTarget.of(table.metadata, table.storage)
    table.row_delta((), write_equality_deletes(target, [keys], columns, **options))


def delete_in(files: Files, partition: tuple[Any, ...], rows: list[dict[str, Any]], *columns: str) -> None:
    """The same in one partition, whatever columns are compared."""
    keys = [{name: row[name] for name in columns} for row in rows]
    files.table.row_delta((), [files.keys(columns, keys, partition)])


def agree(spark: Spark, table: Table, *deleted_ids: int, by: str = "Spark's Parquet reader") -> None:
    """Spark gives the rows that the embedded engine gives, by joins, and those of some ids are not among them."""
    name = f"{DB}.{table.name.rpartition('.')[2]}"
    left = sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())
    assert [row[0] for row in spark(f"SELECT id FROM {name} ORDER BY id")] == left
    assert not set(deleted_ids) & set(left)
    assert spark.one(f"SELECT count(*) FROM {name}") == len(left)
    assert sorted(row[0] for row in spark(f"SELECT id FROM {name} WHERE NOT _deleted")) == left
    marked = table.scan(columns=["id", "_deleted"]).to_arrow().to_pylist()
    deleted = sorted(row["id"] for row in marked if row["_deleted"])
    assert set(deleted_ids) <= set(deleted)
    assert sorted(row[0] for row in spark(f"SELECT id FROM {name} WHERE _deleted")) == deleted
    plan = spark.explained(f"SELECT * FROM {name}")
    assert by in plan
    assert ("joined with equality deletes by (" in plan) == ("row-level deletes" not in by)
    assert ("Arrow reader" in plan) == ("Arrow reader" in by)


# which rows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
def test_older_rows_with_the_same_key(joins: Spark, version: int) -> None:
    """What comes with a delete or after it stays; a key may be deleted several times."""
    table = new_table(joins, f"older_{version}_{joins_kind(joins)}", "id bigint, k int", version)
    table.append([{"id": n, "k": n % 5} for n in range(20)])
    delete(table, [{"k": 3}, {"k": 77}], "k")
    agree(joins, table, 3, 8, 13, 18)
    table.append([{"id": n, "k": n % 5} for n in range(20, 30)])
    delete(table, [{"k": 1}, {"k": 3}, {"k": 3}], "k")
    table.append([{"id": 30, "k": 1}, {"id": 31, "k": 3}])
    agree(joins, table, 1, 3, 6, 8, 11, 13, 16, 18, 21, 23, 26, 28)


def joins_kind(spark: Spark) -> str:
    return "large" if spark.session.conf.get(BROADCAST) == "-1" else "small"


def test_nulls_and_several_keys(joins: Spark) -> None:
    """Null is a value, in each column; deletes by other columns are another join."""
    table = new_table(joins, f"several_{joins_kind(joins)}", "id bigint not null, k int, s string, d date")
    day = dt.date(2024, 2, 29)
    values = [(k, s, d) for k in (None, 1, 2) for s in (None, "a", "") for d in (None, day)]
    table.append([{"id": n, "k": k, "s": s, "d": d} for n, (k, s, d) in enumerate(values)])
    delete(table, [{"k": None, "s": "a"}, {"k": 2, "s": None}], "k", "s")
    delete(table, [{"d": None, "s": ""}], "s", "d")
    delete(table, [{"id": 0}, {"id": 7}], "id")
    delete(table, [{"k": None, "s": None, "d": day}], "k", "s", "d")

    def is_gone(n: int, k: int | None, s: str | None, d: dt.date | None) -> bool:
        return (
            (k, s) in {(None, "a"), (2, None)} or (d, s) == (None, "") or n in (0, 7) or (k, s, d) == (None, None, day)
        )

    agree(joins, table, *(n for n, one in enumerate(values) if is_gone(n, *one)))
    assert len(table.scan().to_arrow()) == sum(not is_gone(n, *one) for n, one in enumerate(values))
    plan = joins.explained(f"SELECT id FROM {DB}.{table.name.rpartition('.')[2]}")
    for said in ("(k, s)", "(s, d)", "(id)", "(k, s, d)", "scope: older rows of all partitions"):
        assert said in plan


def test_partitions(joins: Spark) -> None:
    """Deletes reach their partition, null too, and everything if they have none."""
    table = new_table(joins, f"parts_{joins_kind(joins)}", "id bigint, p string, k int")
    files = Files(table)
    table.append([{"id": n, "p": "abc"[n % 3], "k": n % 4} for n in range(12)])
    delete(table, [{"k": 3}], "k")  # the spec has no fields yet
    table.update_spec().add_field("p").commit()
    table.append([{"id": 100 + n, "p": ["a", "b", None][n % 3], "k": n % 4} for n in range(12)])
    delete_in(files, ("a",), [{"k": 0}], "k")  # not of the first twelve, which have another spec
    delete_in(files, (None,), [{"k": 1}], "k")
    agree(joins, table, 3, 7, 11, 100, 105)
    delete(table, [{"k": 2}], "k", everywhere=True)
    table.append([{"id": 200 + n, "p": "a", "k": n} for n in range(4)])
    table.update_spec().add_field("bucket(4, id)").commit()
    table.append([{"id": 300 + n, "p": "a", "k": n} for n in range(4)])
    delete_in(files, partition_of(table, 301), [{"k": 1}], "k")
    agree(joins, table, 3, 7, 11, 100, 105, 2, 6, 10, 102, 106, 110, 301)
    name = f"{DB}.{table.name.rpartition('.')[2]}"
    assert sorted(row[0] for row in joins(f"SELECT id FROM {name} WHERE p = 'a' AND k = 1")) == [9, 109, 201]


def partition_of(table: Table, number: int) -> tuple[Any, ...]:
    (task,) = table.scan(where=f"id = {number}").plan().tasks()
    return task.file.partition


# which columns --------------------------------------------------------------------------------------------------------


def test_columns_that_changed(joins: Spark) -> None:
    """Keys are found by id: renamed, widened, dropped, with its name given to another, added later with a default."""
    table = new_table(joins, f"changed_{joins_kind(joins)}", "id bigint, a int, b int, c string, f float", 3)
    table.append([{"id": n, "a": n, "b": n, "c": str(n), "f": n / 4} for n in range(10)])
    delete(table, [{"a": 1}], "a")
    delete(table, [{"b": 2}], "b")
    delete(table, [{"c": "3"}], "c")
    name = f"{DB}.{table.name.rpartition('.')[2]}"
    for change in ("RENAME COLUMN a TO aa", "ALTER COLUMN aa TYPE bigint", "DROP COLUMN b", "ADD COLUMN b string",
                   "DROP COLUMN c"):  # fmt: skip
        joins(f"ALTER TABLE {name} {change}")
    table.refresh()
    table.append([{"id": 10 + n, "aa": 2**40 + n, "b": "2", "f": 0.5} for n in range(3)])
    delete(table, [{"aa": 4}, {"aa": 2**40 + 1}], "aa")
    agree(joins, table, 1, 2, 3, 4, 11)
    delete(table, [{"b": None, "aa": 5}, {"b": "2", "aa": 2**40}], "b", "aa")
    agree(joins, table, 1, 2, 3, 4, 5, 10, 11)


def test_a_default_is_a_key(spark: Spark) -> None:
    """A column that was added with a default has it in older files too."""
    table = new_table(spark, "defaults", "id bigint", 3)
    table.append([{"id": n} for n in range(4)])
    table.evolve().add_column("v", "int", default=7).commit()
    table.append([{"id": 4, "v": 7}, {"id": 5, "v": 8}])
    delete(table, [{"v": 8}], "v")
    agree(spark, table, 5)
    delete(table, [{"v": 7}], "v")
    agree(spark, table, 0, 1, 2, 3, 4, 5)


def test_fields_of_structs(joins: Spark) -> None:
    """A key within structs is null where a struct is; of the structs only what was asked for is given."""
    columns = "id bigint, s struct<a: int, t: struct<k: string, x: int>>"
    table = new_table(joins, f"structs_{joins_kind(joins)}", columns)
    values = [None, {"a": 1, "t": None}, *({"a": n, "t": {"k": k, "x": n}} for n, k in enumerate(("u", "v", None)))]
    table.append([{"id": n, "s": s} for n, s in enumerate(values)])
    delete(table, [{"s": {"a": 9, "t": {"k": "u", "x": 9}}}], "s.t.k")
    name = f"{DB}.{table.name.rpartition('.')[2]}"
    by = "Spark's Parquet reader" if joins.version >= (4, 1) else "Arrow reader, for row-level deletes"
    agree(joins, table, 2, by=by)
    assert joins(f"SELECT id, s.a FROM {name} ORDER BY id") == [(0, None), (1, 1), (3, 1), (4, 2)]
    assert joins(f"SELECT s.t.x, id FROM {name} ORDER BY id") == [(None, 0), (None, 1), (1, 3), (2, 4)]
    (whole,) = joins(f"SELECT s FROM {name} WHERE id = 3")
    assert whole[0].asDict(recursive=True) == {"a": 1, "t": {"k": "v", "x": 1}}
    delete(table, [{"s": None}], "s.t.k")
    agree(joins, table, 0, 1, 2, 4, by=by)


TYPES = {
    "boolean": [True, False],
    "bigint": [2**62, -1],
    "date": [dt.date(1969, 12, 31), dt.date(9999, 1, 1)],
    "timestamp": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 1, 1)],
    "timestamptz": [dt.datetime(2024, 1, 1, 1, tzinfo=dt.UTC), dt.datetime(1900, 1, 1, tzinfo=dt.UTC)],
    "decimal(9, 2)": [Decimal("1.10"), Decimal("-0.01")],
    "decimal(38, 10)": [Decimal("1234567890123456789.0123456789"), Decimal("0")],
    "string": ["ä", ""],
    "binary": [b"\x00", b""],
    "fixed[3]": [b"abc", b"\x00\x00\x00"],
}


@pytest.mark.parametrize("type_", TYPES)
def test_types(spark: Spark, type_: str) -> None:
    one, other = TYPES[type_]
    table = new_table(spark, "typed_" + "".join(filter(str.isalnum, type_)), f"id bigint, k {type_}")
    table.append([{"id": n, "k": value} for n, value in enumerate((one, other, None, one))])
    delete(table, [{"k": one}], "k")
    agree(spark, table, 0, 3)
    delete(table, [{"k": None}], "k")
    agree(spark, table, 0, 2, 3)


def test_types_that_spark_does_not_read(spark: Spark) -> None:
    table = new_table(spark, "unread", "id bigint, k uuid")
    one, other = "01234567-89ab-cdef-0123-456789abcdef", "11234567-89ab-cdef-0123-456789abcdef"
    table.append([{"id": 0, "k": one}, {"id": 1, "k": other}, {"id": 2, "k": None}])
    files = Files(table)
    delete_in(files, (), [{"k": UUID(one)}], "k")
    assert sorted(row[0] for row in spark(f"SELECT id FROM {DB}.unread")) == [1, 2]
    table.append([{"id": 3, "k": one}])
    assert "Arrow reader, for equality deletes by (k)" in spark.explained(f"SELECT id FROM {DB}.unread")
    assert sorted(row[0] for row in spark(f"SELECT id FROM {DB}.unread")) == [1, 2, 3]


@pytest.mark.parametrize("type_", ["float", "double"])
def test_floats(joins: Spark, type_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spec forbids them, and others write them: NaN is NaN, and minus zero is not zero."""
    monkeypatch.setattr(added_files, "check_equality_columns", lambda schema, ids: None)
    table = new_table(joins, f"floats_{type_}_{joins_kind(joins)}", f"id bigint, k {type_}")
    nan = float("nan")
    table.append([{"id": n, "k": k} for n, k in enumerate((0.0, -0.0, nan, 1.5, None, nan))])
    files = Files(table)
    delete_in(files, (), [{"k": -0.0}, {"k": nan}], "k")
    agree(joins, table, 1, 2, 5)
    delete_in(files, (), [{"k": 0.0}, {"k": None}], "k")
    agree(joins, table, 0, 1, 2, 4, 5)


def test_a_delete_file_without_the_column(spark: Spark) -> None:
    """It is corrupt; it does not delete the rows that have null."""
    table = new_table(spark, "lacking", "id bigint, k int")
    table.append([{"id": 0, "k": None}, {"id": 1, "k": 1}])
    files = Files(table)
    table.row_delta((), [replace(files.keys(["id"], [{"id": 5}]), equality_ids=(2,), lower_bounds={}, upper_bounds={})])
    with pytest.raises(Exception, match="Required column is missing"):
        spark(f"SELECT id FROM {DB}.lacking")


# which files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
def test_with_positions_and_vectors(joins: Spark, version: int) -> None:
    table = new_table(
        joins,
        f"mixed_{version}_{joins_kind(joins)}",
        "id bigint, k int",
        version,
        properties={"write.delete.mode": "merge-on-read"},
    )
    table.append([{"id": n, "k": n % 10} for n in range(40)])
    delete(table, [{"k": 4}], "k")
    table.append([{"id": n, "k": n % 10} for n in range(40, 80)])
    table.delete("id IN (5, 14, 45)")
    table.append([{"id": n, "k": n % 10} for n in range(80, 90)])
    agree(joins, table, 4, 5, 14, 24, 34, 45)
    delete(table, [{"k": 5}], "k")
    table.delete("id = 81")
    agree(joins, table, 4, 5, 14, 15, 24, 25, 34, 35, 45, 55, 65, 75, 81, 85)


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_delete_files_of_other_formats(spark: Spark, file_format: str) -> None:
    """They are read in workers, once each, and the data files by Spark's reader all the same."""
    table = new_table(spark, file_format, "id bigint, k int, s string", partition_by=["k"])
    table.append([{"id": n, "k": n % 2, "s": str(n)} for n in range(10)])
    others, own = Files(table, file_format), Files(table)
    delete_in(others, (1,), [{"id": 3}, {"id": 4}], "id")
    delete_in(others, (0,), [{"id": 6}], "id")
    agree(spark, table, 3, 6, by="read by Arrow reader")
    delete_in(own, (0,), [{"id": 8}], "id")
    agree(spark, table, 3, 6, 8, by="read by Arrow reader")


def test_data_files_of_other_formats(spark: Spark) -> None:
    table = new_table(spark, "formats", "id bigint, k int")
    for index, file_format in enumerate(("parquet", "orc", "avro")):
        table.set_properties({"write.format.default": file_format})
        table.append([{"id": 10 * index + n, "k": n} for n in range(10)])
    table.set_properties({"write.format.default": "parquet"})
    delete(table, [{"k": 3}], "k")
    table.append([{"id": 100, "k": 3}])
    agree(spark, table, 3, 13, 23, by="Arrow reader, for avro files and orc files")
    plan = spark.explained(f"SELECT id FROM {DB}.formats")
    assert "joined with equality deletes by (k)" in plan
    assert "files: 1 of 4" in plan


# plans ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def facts(spark: Spark) -> Table:
    """Ten partitions with deletes in each, and files after them."""
    table = new_table(spark, "facts", "id bigint, p int, k int", partition_by=["p"])
    rows = pa.table({
        "id": range(1000),
        "p": pa.array([n % 10 for n in range(1000)], pa.int32()),
        "k": pa.array([n // 10 for n in range(1000)], pa.int32()),
    })  # fmt: skip
    table.append(rows)
    delete(table, [{"p": p, "k": k} for p in range(10) for k in (p, p + 10, 99)], "p", "k")
    table.append(pa.table({"id": [5000], "p": pa.array([3], pa.int32()), "k": pa.array([3], pa.int32())}))
    return table


def test_filters_at_run_time(spark: Spark, facts: Table) -> None:
    spark(f"CREATE TABLE {DB}.dimensions AS SELECT CAST(id AS INT) AS p, concat('n', id) AS name FROM range(10)")
    frame = spark.session.sql(
        f"SELECT count(*), sum(f.id) FROM {DB}.facts f JOIN {DB}.dimensions d ON f.p = d.p WHERE d.name IN ('n5', 'n3')"
    )
    live = [row["id"] for row in facts.scan(where="p IN (3, 5)", columns=["id"]).to_arrow().to_pylist()]
    assert len(live) == 195
    assert frame.collect() == [(len(live), sum(live))]
    plan = frame._jdf.queryExecution().executedPlan().toString()
    scans = {line.split("; files:")[1].split(";")[0] for line in plan.splitlines() if "runtime filter: p IN" in line}
    assert scans == {" 2 of 11", " 1 of 11"}
    assert "Arrow" not in plan


def test_filters_go_below_joins_unless_they_may_fail(spark: Spark, facts: Table) -> None:
    """A query must not fail for a row that is deleted."""
    plan = spark.explained(f"SELECT id FROM {DB}.facts WHERE k > 97 AND 10 / (k - 99) < 0")
    lines = [line for line in plan.splitlines() if "Filter" in line or "Join" in line]
    places = {kind: place for place, line in enumerate(lines) for kind in (">", "Join", "/") if kind in line}
    assert places["/"] < places["Join"] < places[">"]
    table_rows = spark(f"SELECT id FROM {DB}.facts WHERE p < 3 AND k > 97 AND 10 / (k - 99) < 0 ORDER BY id")
    assert table_rows == [(980,), (981,), (982,)]


def test_statistics_choose_the_join(spark: Spark, facts: Table) -> None:
    assert "BroadcastHashJoin" in spark.explained(f"SELECT id FROM {DB}.facts")
    spark.session.conf.set(BROADCAST, 100)
    try:
        assert "SortMergeJoin" in spark.explained(f"SELECT id FROM {DB}.facts")
    finally:
        spark.session.conf.unset(BROADCAST)


def test_every_door(spark: Spark, facts: Table, tmp_path_factory: pytest.TempPathFactory) -> None:
    live = facts.scan(columns=["id"]).to_arrow()["id"].to_pylist()
    frame = spark.session.table(f"{DB}.facts")
    frame.createOrReplaceTempView("live_facts")
    assert spark.one("SELECT sum(id) FROM live_facts") == sum(live)
    assert frame.groupBy("p").count().agg({"count": "sum"}).collect() == [(len(live),)]
    assert frame.limit(7).count() == 7
    before, after = facts.snapshots[0].snapshot_id, facts.snapshots[1].snapshot_id
    assert spark.one(f"SELECT count(*) FROM {DB}.facts VERSION AS OF {before}") == 1000
    assert spark.one(f"SELECT count(*) FROM {DB}.facts VERSION AS OF {after}") == len(live) - 1
    facts.create_branch("side", snapshot=after)
    assert spark.one(f"SELECT count(*) FROM {DB}.facts VERSION AS OF 'side'") == len(live) - 1
    keys = "SELECT k, count(*) AS n FROM live_facts GROUP BY k"
    assert spark.one(f"SELECT sum(a.n + b.n) FROM ({keys}) a JOIN ({keys}) b ON a.k = b.k") == 2 * len(live)
    in_any = f"SELECT count(*) FROM range(1000) r WHERE r.id NOT IN (SELECT id FROM {DB}.facts)"
    assert spark.one(in_any) == 1001 - len(live)
    columns = "_file IS NOT NULL AND _pos >= 0 AND _partition.p = p AND _spec_id = 0"
    assert spark.one(f"SELECT count(*) FROM {DB}.facts WHERE {columns}") == len(live)
    query = frame.sparkSession.readStream.table(f"{DB}.facts").writeStream.format("memory").queryName("streamed")
    started = query.option("checkpointLocation", str(tmp_path_factory.mktemp("stream"))).trigger(availableNow=True)
    with pytest.raises(PySparkException, match="delete"):
        started.start().awaitTermination()


# statements -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("version", [2, 3])
def test_statements(spark: Spark, mode: str, version: int) -> None:
    """Rows that are deleted by key do not come back when files are written anew, and are not changed."""
    name = f"changed_rows_{version}_{mode[:4]}"
    properties = {f"write.{kind}.mode": mode for kind in ("delete", "update", "merge")}
    table = new_table(
        spark, name, "id bigint, p int, k int, v string", version, partition_by=["p"], properties=properties
    )
    rows = {n: (n % 2, n % 10, "old") for n in range(60)}
    for first in (0, 20, 40):
        own = range(first, first + 20)
        table.append([dict(zip(("id", "p", "k", "v"), (n, *rows[n]), strict=True)) for n in own])
        if first < 40:
            delete(table, [{"p": 1, "k": 3}, {"p": 0, "k": 4}], "p", "k")
    rows = {n: row for n, row in rows.items() if n >= 40 or row[1] not in (3, 4)}
    for statement in (f"DELETE FROM {DB}.{name} WHERE k = 5", f"UPDATE {DB}.{name} SET v = 'x' WHERE k = 5"):
        plan = spark.explained(statement)
        assert "joined with equality deletes by (p, k)" in plan
        assert "Arrow reader" not in plan
    spark(f"DELETE FROM {DB}.{name} WHERE k = 5 AND id < 50")
    rows = {n: row for n, row in rows.items() if not (row[1] == 5 and n < 50)}
    assert table_rows(spark, name) == rows
    spark(f"UPDATE {DB}.{name} SET v = 'new' WHERE id % 4 = 0")
    rows = {n: (p, k, "new" if n % 4 == 0 else v) for n, (p, k, v) in rows.items()}
    assert table_rows(spark, name) == rows
    spark(
        f"MERGE INTO {DB}.{name} t USING (SELECT id FROM range(0, 70, 3)) s ON t.id = s.id "
        "WHEN MATCHED AND t.k = 6 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'merged' "
        "WHEN NOT MATCHED THEN INSERT (id, p, k, v) VALUES (s.id, 0, 0, 'inserted')"
    )
    met = set(range(0, 70, 3))
    inserted = dict.fromkeys(met - rows.keys(), (0, 0, "inserted"))
    kept = {n: row for n, row in rows.items() if not (n in met and row[1] == 6)}
    rows = {n: (p, k, "merged" if n in met else v) for n, (p, k, v) in kept.items()} | inserted
    assert table_rows(spark, name) == rows
    table.refresh()
    assert {row["id"] for row in table.scan().to_arrow().to_pylist()} == rows.keys()


def table_rows(spark: Spark, name: str) -> dict[int, tuple[Any, ...]]:
    rows = spark(f"SELECT id, p, k, v FROM {DB}.{name}")
    assert len(rows) == len({row[0] for row in rows})
    return {row[0]: row[1:] for row in rows}


# lives ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seed", [1, 2, pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]
)
def test_random_lives(spark: Spark, seed: int) -> None:
    """Appends, deletes by keys of all reaches, positions and changes of the spec, in any order, against a model."""
    rng = random.Random(seed)
    properties = {"write.delete.mode": "merge-on-read"}
    columns = "id bigint, p int, k int, s string"
    table = new_table(spark, f"life_{seed}", columns, rng.choice([2, 3]), properties=properties)
    files, model, spec_of = Files(table), {}, {}
    for _ in range(14):
        match rng.choice(["append", "append", "keys", "keys", "everywhere", "positions", "spec"]):
            case "append":
                first = len(spec_of)
                new = [
                    {"id": n, "p": rng.choice([None, 0, 1]), "k": rng.choice([None, *range(6)]), "s": rng.choice("abc")}
                    for n in range(first, first + 25)
                ]
                table.append(new)
                model |= {row["id"]: row for row in new}
                spec_of |= {row["id"]: table.spec for row in new}
            case "keys":
                by = rng.choice([("k",), ("k", "s"), ("s", "k"), ("id",)])
                keys = [
                    {"id": rng.randrange(200), "k": rng.choice([None, *range(6)]), "s": rng.choice("abc")}
                    for _ in range(2)
                ]
                partition = (rng.choice([None, 0, 1]),) if table.spec.fields else ()
                delete_in(files, partition, keys, *by)
                wanted = {tuple(key[name] for name in by) for key in keys}
                model = {
                    n: row
                    for n, row in model.items()
                    if tuple(row[name] for name in by) not in wanted
                    or (table.spec.fields and (spec_of[n] != table.spec or (row["p"],) != partition))
                }
            case "everywhere":
                key = {"k": rng.choice([None, *range(6)]), "s": rng.choice("abc")}
                delete(table, [key], "k", "s", everywhere=True)
                model = {n: row for n, row in model.items() if (row["k"], row["s"]) != (key["k"], key["s"])}
            case "positions":
                gone = rng.sample(sorted(model), min(len(model), 3))
                if gone:
                    table.delete(f"id IN ({', '.join(map(str, gone))})")
                model = {n: row for n, row in model.items() if n not in gone}
            case "spec":
                update = table.update_spec()
                (update.remove_field("p") if table.spec.fields else update.add_field("p")).commit()
    name = f"{DB}.life_{seed}"
    rows = {row[0]: dict(zip(("id", "p", "k", "s"), row, strict=True)) for row in spark(f"SELECT * FROM {name}")}
    assert rows == model
    assert spark.one(f"SELECT count(*) FROM {name}") == len(model)
    assert {row[0] for row in spark(f"SELECT id FROM {name} WHERE k = 2")} == {n for n in model if model[n]["k"] == 2}
    assert {row[0] for row in spark(f"SELECT id FROM {name} WHERE _deleted")} == spec_of.keys() - model.keys()
