"""Filters with functions on columns: only files with rows that pass are read, and the rows are those of Spark."""

import datetime
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from helpers.spark import Spark

DB = "lake.by_functions"
COLUMNS = "id bigint, at timestamptz, clock timestamp, d date, s string, flag boolean, i int, n decimal(9, 2), x double"
PARTITIONS = {
    "plain": (),
    "by_hour": ("hour(clock)",),
    "by_day": ("day(at)",),
    "by_month": ("month(clock)", "truncate(1, s)"),
    "by_bucket": ("bucket(4, id)", "year(d)"),
    "by_hash": ("bucket(8, n)",),
    "by_value": ("flag", "truncate(100, i)"),
}
COUNT = 480


def rows() -> pa.Table:
    """Two months around a new year, a row for every three hours; in the last row all but the number is null."""
    first = datetime.datetime(2023, 12, 1, tzinfo=datetime.UTC)
    timestamps = [first + datetime.timedelta(hours=3 * n) for n in range(COUNT)]
    columns = {
        "id": range(COUNT),
        "at": timestamps,
        "clock": [timestamp.replace(tzinfo=None) for timestamp in timestamps],
        "d": [timestamp.date() for timestamp in timestamps],
        "s": [f"{'abcdef'[n * 6 // COUNT]}-{n:03}" for n in range(COUNT)],
        "flag": [n < 100 for n in range(COUNT)],
        "i": pa.array([n - 100 for n in range(COUNT)], pa.int32()),
        "n": [Decimal(n) / 4 for n in range(COUNT)],
        "x": [float("nan") if n == 7 else float(n) for n in range(COUNT)],
    }
    table = pa.table(columns)
    last = pa.table(
        {name: pa.array([COUNT] if name == "id" else [None], table.schema.field(name).type) for name in columns}
    )
    return pa.concat_tables([table, last])


@pytest.fixture(scope="module")
def spark(session: Spark) -> Iterator[Spark]:
    """Tables with the same rows in several partitionings, and where each row of them is, in Spark's memory."""
    session(f"CREATE NAMESPACE {DB}")
    table_rows = rows()
    for name, fields in PARTITIONS.items():
        table = session.lake().create_table(f"by_functions.{name}", COLUMNS, partition_by=list(fields))
        if name == "plain":
            for start in range(0, table_rows.num_rows, 60):
                table.append(table_rows.slice(start, 60))
        else:
            table.append(table_rows.slice(0, 40) if name == "by_hour" else table_rows)
    where = " UNION ALL ".join(f"SELECT '{name}' AS kept_in, _file AS file, * FROM {DB}.{name}" for name in PARTITIONS)
    session(f"CACHE TABLE kept AS {where}")
    yield session
    session("DROP VIEW kept")


DAY_OF_TIMES = "lake.system.days(TIMESTAMP '2024-01-02 03:00:00')"
CONDITIONS = [
    # functions of the catalog
    ("by_day", "lake.system.days(at) = DATE'2024-01-02'"),
    ("by_day", f"lake.system.days(at) = {DAY_OF_TIMES}"),
    ("by_day", "lake.system.days(at) IN (DATE'2023-12-31', DATE'2024-01-02', NULL)"),
    ("by_day", "lake.system.days(at) NOT IN (DATE'2023-12-31', DATE'2024-01-02')"),
    ("by_day", "lake.system.days(at) BETWEEN DATE'2023-12-31' AND DATE'2024-01-02'"),
    ("by_day", "lake.system.days(at) IS NULL"),
    ("by_day", "lake.system.months(at) = 648"),
    ("by_day", "lake.system.years(at) <> 54"),
    ("by_day", "lake.system.hours(at) < 473000"),
    ("by_hour", "lake.system.hours(clock) IN (472608, 472611)"),
    ("by_hour", "lake.system.days(clock) < DATE'2023-12-03'"),
    ("by_month", "lake.system.months(clock) = 648"),
    ("by_month", "lake.system.years(clock) < 54 AND lake.system.truncate(1, s) = 'b'"),
    ("by_month", "NOT (lake.system.months(clock) = 648)"),
    ("by_month", "lake.system.truncate(1, s) >= 'e'"),
    ("by_month", "lake.system.truncate(3, s) = 'a-0'"),
    ("by_bucket", "lake.system.bucket(4, id) = 3"),
    ("by_bucket", "lake.system.bucket(4, id) IN (1, 2) AND lake.system.years(d) = 53"),
    ("by_bucket", "lake.system.bucket(4, id) <> 3"),
    ("by_bucket", "lake.system.years(d) IS NULL"),
    ("by_hash", "lake.system.bucket(8, n) = 3"),
    ("by_hash", "lake.system.bucket(8, n) IN (1, 2) AND lake.system.truncate(1, lake.system.truncate(3, s)) = 'a'"),
    ("by_value", "lake.system.truncate(100, i) = 0"),
    ("by_value", "lake.system.truncate(50, i) >= 200"),
    ("plain", "lake.system.truncate(50, n) > 100"),
    ("plain", "lake.system.truncate(10, id) IN (20, 470)"),
    # of dates and times
    ("by_day", "year(at) = 2024"),
    ("by_day", "year(at) <> 2024"),
    ("by_month", "year(clock) >= 2024"),
    ("by_bucket", "year(d) <= 2023"),
    ("by_day", "to_date(at) = DATE'2024-01-02'"),
    ("by_hour", "CAST(clock AS DATE) > DATE'2023-12-03'"),
    ("by_day", "trunc(at, 'WEEK') = DATE'2024-01-08'"),
    ("by_month", "trunc(clock, 'MM') = DATE'2024-01-01'"),
    ("plain", "trunc(d, 'YEAR') < DATE'2024-01-01'"),
    ("plain", "date_add(d, 3) > DATE'2024-01-28'"),
    ("plain", "datediff(d, DATE'2023-12-01') < 5"),
    ("plain", "datediff(DATE'2024-01-29', d) <= 3"),
    ("by_day", "at > TIMESTAMP_NTZ'2024-01-28 12:00:00'"),
    ("plain", "d > TIMESTAMP'2024-01-26 12:00:00'"),
    # of texts
    ("by_month", "left(s, 1) IN ('a', 'f')"),
    ("by_month", "substring(s, 1, 3) = 'c-1'"),
    ("by_month", "s LIKE 'b-%9'"),
    ("by_month", "s NOT LIKE 'a%'"),
    # of numbers, and others
    ("plain", "id + 1 > 470"),
    ("plain", "abs(i) < 30"),
    ("plain", "-id > -10"),
    ("plain", "i * 2 < -190"),
    ("plain", "CAST(i AS DECIMAL(12, 1)) > 370.5"),
    ("plain", "coalesce(id, 0) > 470"),
    ("by_value", "coalesce(flag, false)"),
    ("by_value", "flag"),
    ("by_value", "NOT flag"),
    ("by_value", "flag <=> NULL"),
    ("plain", "CASE WHEN id > 100 THEN id < 110 ELSE id = 3 END"),
    ("plain", "id BETWEEN 3 AND 5 OR year(at) > 2030"),
    ("plain", "NOT (x < 470)"),
]  # fmt: skip


Passing = dict[tuple[str, str], dict[int, str]]


@pytest.fixture(scope="module")
def passing(spark: Spark) -> Passing:
    """The rows that pass each condition, with their files: found by Spark in its memory, for all conditions at once."""
    tests = ", ".join(f"coalesce({where}, false)" for _, where in CONDITIONS)
    rows_by_condition: Passing = {condition: {} for condition in CONDITIONS}
    for name, file, number, *passes in spark(f"SELECT kept_in, file, id, {tests} FROM kept"):
        for condition, matches in zip(CONDITIONS, passes, strict=True):
            if matches and condition[0] == name:
                rows_by_condition[condition][number] = file
    return rows_by_condition


@pytest.mark.parametrize(("table", "where"), CONDITIONS)
def test_only_files_with_such_rows(spark: Spark, passing: Passing, table: str, where: str) -> None:
    expected = passing[table, where]
    assert 0 < len(expected) <= COUNT, "the condition is to choose some rows"
    frame = spark.session.sql(f"SELECT id FROM {DB}.{table} WHERE {where}")
    assert sorted(row[0] for row in frame.collect()) == sorted(expected)
    plan = spark.lake().table(f"by_functions.{table}").scan().plan()
    assert files_left(frame) == len(set(expected.values())) < len(plan)


def files_left(frame: Any) -> int:
    """How many files are read, as the plan says."""
    match = re.search(r"files: (\d+)", frame._jdf.queryExecution().executedPlan().toString())
    assert match is not None
    return int(match[1])


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Kiritimati"])
def test_other_time_zones(spark: Spark, zone: str) -> None:
    spark(f"SET TIME ZONE '{zone}'")
    try:
        for where in ("year(at) = 2024", "CAST(at AS DATE) = DATE'2024-01-01'", "to_date(at) <> DATE'2024-01-29'"):
            frame = spark.session.sql(f"SELECT id FROM {DB}.by_day WHERE {where}")
            expected = spark(f"SELECT id FROM kept WHERE kept_in = 'by_day' AND {where}")
            assert sorted(map(tuple, frame.collect())) == sorted(expected)
            assert files_left(frame) < 61
        of_utc = spark.session.sql(f"SELECT id FROM {DB}.by_day WHERE lake.system.days(at) = DATE'2024-01-01'")
        assert files_left(of_utc) == 1
    finally:
        spark("SET TIME ZONE 'UTC'")


def test_rows_need_no_check_where_whole_files_pass(spark: Spark) -> None:
    for where in ("lake.system.bucket(4, id) = 3", "year(d) = 2024", "lake.system.years(d) = 53"):
        assert "Filter (" not in spark.explained(f"SELECT id, d FROM {DB}.by_bucket WHERE {where}")
        assert "BatchScan" not in spark.explained(f"SELECT count(*) FROM {DB}.by_bucket WHERE {where}")
    assert "Filter (" in spark.explained(f"SELECT id FROM {DB}.by_bucket WHERE lake.system.bucket(8, id) = 3")


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        (["day(at)"], "lake.system.days(at) = DATE'2024-01-02'"),
        (["day(at)"], "year(at) = 2024"),
        (["month(at)"], "trunc(at, 'MM') = DATE'2024-01-01'"),
        (["bucket(4, id)"], "lake.system.bucket(4, id) IN (1, 3)"),
        (["truncate(100, i)"], "lake.system.truncate(100, i) = 100"),
        (["truncate(1, s)"], "left(s, 1) = 'c'"),
    ],
)
def test_whole_files_are_deleted_by_metadata(spark: Spark, fields: list[str], where: str) -> None:
    table = spark.lake().create_table("by_functions.deleted", COLUMNS, partition_by=fields)
    table.append(rows())
    try:
        left = spark.sorted(f"SELECT id FROM kept WHERE kept_in = 'plain' AND NOT coalesce({where}, false)")
        spark(f"DELETE FROM {DB}.deleted WHERE {where}")
        assert spark.sorted(f"SELECT id FROM {DB}.deleted") == left
        summary = spark.lake().table("by_functions.deleted").current_snapshot
        assert summary is not None
        assert summary.operation == "delete"
        assert "added-data-files" not in summary.summary
        assert "added-delete-files" not in summary.summary
    finally:
        spark.lake().drop_table("by_functions.deleted")
