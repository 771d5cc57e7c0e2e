"""Rows that were deleted stay deleted, whoever deleted them, however they are read, and whoever reads the file."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from floe.spec.manifests.entries import DataFile
from floe.table.table import Table
from helpers.spark import Spark
from helpers.table_maker import write_equality_deletes, write_position_deletes

DB = "lake.deletes"
ROWS = 1000
MOST_DELETES = "spark.sql.floe.most-deletes-on-driver"


@pytest.fixture(scope="module")
def spark(session: Spark) -> Spark:
    session(f"CREATE NAMESPACE {DB}")
    return session


def new_table(spark: Spark, name: str, columns: str, version: int = 2, **options: Any) -> Table:
    properties = {"write.delete.mode": "merge-on-read", **options.pop("properties", {})}
    return spark.lake().create_table(
        f"deletes.{name}", columns, format_version=version, properties=properties, **options
    )


def numbers(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": ids, "k": [n % 7 for n in ids], "name": [f"row {n}" for n in ids]})


def ids(spark: Spark, query: str) -> list[int]:
    return sorted(row[0] for row in spark(query))


# every door -----------------------------------------------------------------------------------------------------------


def is_gone(n: int) -> bool:
    return n % 10 == 3 or 400 <= n < 450


LIVE = [n for n in range(ROWS) if not is_gone(n)]


@pytest.fixture(scope="module", params=[3, pytest.param(2, marks=pytest.mark.slow)])
def doors(request: pytest.FixtureRequest, spark: Spark) -> str:
    """A table of several files, of which each has deleted rows but one."""
    name = f"doors_{request.param}"
    table = new_table(spark, name, "id bigint, k int, name string", request.param)
    for first in range(0, ROWS, 250):
        table.append(numbers(first, 250))
    table.append(numbers(ROWS, 1))
    table.delete("id >= 400 and id < 450")
    table.delete("id % 10 = 3")
    table.delete(f"id = {ROWS}")
    return f"{DB}.{name}"


QUERIES = {
    "rows": ("SELECT id FROM {t}", lambda: LIVE),
    "filter": ("SELECT id FROM {t} WHERE id > 395 AND id < 460", lambda: [n for n in LIVE if 395 < n < 460]),
    "filter that fails on deleted rows": (
        "SELECT id FROM {t} WHERE id < 400 AND 1 / (id % 10 - 3) < 2",
        lambda: [n for n in LIVE if n < 400],
    ),
    "count": ("SELECT count(*) FROM {t}", lambda: [len(LIVE)]),
    "count with a filter": ("SELECT count(*) FROM {t} WHERE k = 3", lambda: [sum(n % 7 == 3 for n in LIVE)]),
    "count of a column": ("SELECT count(name) FROM {t}", lambda: [len(LIVE)]),
    "max": ("SELECT max(id) FROM {t} WHERE id < 450", lambda: [max(n for n in LIVE if n < 450)]),
    "min": ("SELECT min(id) FROM {t} WHERE id >= 400", lambda: [min(n for n in LIVE if n >= 400)]),
    "sum": ("SELECT sum(id) FROM {t}", lambda: [sum(LIVE)]),
    "groups": (
        "SELECT sum(id) FROM {t} GROUP BY k",
        lambda: sorted(sum(n for n in LIVE if n % 7 == k) for k in range(7)),
    ),
    "join": ("SELECT a.id FROM {t} a JOIN {t} b ON a.id = b.id + 1", lambda: [n for n in LIVE if n - 1 in set(LIVE)]),
    "outer join": (
        "SELECT r.id FROM range(1000) r LEFT ANTI JOIN {t} t ON r.id = t.id",
        lambda: [n for n in range(ROWS) if is_gone(n)],
    ),
    "subquery": ("SELECT id FROM range(1000) WHERE id IN (SELECT id FROM {t})", lambda: LIVE),
    "scalar subquery": ("SELECT id FROM {t} WHERE id = (SELECT max(id) FROM {t})", lambda: [LIVE[-1]]),
    "exists": (
        "SELECT id FROM range(1000) r WHERE NOT EXISTS (SELECT 1 FROM {t} t WHERE t.id = r.id)",
        lambda: [n for n in range(ROWS) if is_gone(n)],
    ),
    "cte": (
        "WITH x AS (SELECT id, k FROM {t}) SELECT x.id FROM x JOIN x y ON x.id = y.id WHERE x.k = 1",
        lambda: [n for n in LIVE if n % 7 == 1],
    ),
    "union": (
        "SELECT id FROM {t} WHERE k = 1 UNION ALL SELECT id FROM {t} WHERE k = 2",
        lambda: [n for n in LIVE if n % 7 in (1, 2)],
    ),
    "distinct": ("SELECT DISTINCT k FROM {t}", lambda: list(range(7))),
    "window": (
        "SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY k ORDER BY id DESC) AS n FROM {t}) WHERE n = 1",
        lambda: sorted(max(n for n in LIVE if n % 7 == k) for k in range(7)),
    ),
    "order and limit": ("SELECT id FROM {t} ORDER BY id DESC LIMIT 5", lambda: LIVE[-5:]),
    "deleted rows too": (
        "SELECT id FROM {t} WHERE _deleted AND id < 1000",
        lambda: [n for n in range(ROWS) if is_gone(n)],
    ),
    "live rows by the mark": ("SELECT id FROM {t} WHERE NOT _deleted", lambda: LIVE),
    "positions": ("SELECT id FROM {t} WHERE _pos = id % 250", lambda: LIVE),
}


@pytest.mark.parametrize("kind", QUERIES)
def test_queries(spark: Spark, doors: str, kind: str) -> None:
    query, expected = QUERIES[kind]
    assert ids(spark, query.format(t=doors)) == expected()


def test_readers(spark: Spark, doors: str) -> None:
    plan = spark.explained(f"SELECT * FROM {doors}")
    assert "Spark's Parquet reader" in plan
    assert "Arrow reader" not in plan
    assert "files with deleted rows: 4, tested in generated code" in plan


def test_data_frames(spark: Spark, doors: str) -> None:
    frame = spark.session.table(doors)
    assert sorted(row.id for row in frame.select("id").collect()) == LIVE
    assert frame.where("k = 3").count() == sum(n % 7 == 3 for n in LIVE)
    assert frame.agg(F.sum("id"), F.max("name")).collect() == [(sum(LIVE), max(f"row {n}" for n in LIVE))]
    assert spark.session.read.table(doors).groupBy("k").count().agg(F.sum("count")).collect() == [(len(LIVE),)]
    assert sorted(frame.select("id").toPandas()["id"].tolist()) == LIVE
    assert len(frame.limit(7).collect()) == 7
    assert frame.rdd.count() == len(LIVE)


def test_views_and_caches(spark: Spark, doors: str) -> None:
    frame = spark.session.table(doors)
    frame.createOrReplaceTempView("live_rows")
    assert ids(spark, "SELECT id FROM live_rows WHERE id < 20") == [n for n in LIVE if n < 20]
    spark("CACHE TABLE kept AS SELECT * FROM live_rows")
    assert ids(spark, "SELECT id FROM kept") == LIVE
    spark("DROP VIEW kept")
    cached = frame.cache()
    assert cached.count() == len(LIVE)
    assert cached.where("id BETWEEN 400 AND 450").count() == 1
    cached.unpersist()


def test_time_travel(spark: Spark, doors: str) -> None:
    table = spark.lake().table(doors.removeprefix("lake."))
    assert ids(spark, f"SELECT id FROM {doors} VERSION AS OF {table.snapshots[4].snapshot_id}") == [*range(ROWS + 1)]
    assert spark.one(f"SELECT count(*) FROM {doors} VERSION AS OF {table.snapshots[5].snapshot_id}") == ROWS + 1 - 50


def test_copies_of_live_rows(spark: Spark, doors: str) -> None:
    spark(f"CREATE TABLE {doors}_copy AS SELECT * FROM {doors}")
    assert ids(spark, f"SELECT id FROM {doors}_copy") == LIVE
    spark(f"INSERT OVERWRITE {doors}_copy SELECT * FROM {doors} WHERE k = 1")
    assert ids(spark, f"SELECT id FROM {doors}_copy") == [n for n in LIVE if n % 7 == 1]


# who deleted ----------------------------------------------------------------------------------------------------------


def file_with(table: Table, number: int) -> DataFile:
    """The data file of the row with an id."""
    (path,) = table.scan(where=f"id = {number}", columns=["_file"]).to_arrow()["_file"].to_pylist()
    return next(task.file for task in table.scan().plan().tasks() if task.file.file_path == path)


@pytest.mark.parametrize("together", [False, True])
def test_delete_files_of_others(spark: Spark, together: bool) -> None:
    """Position deletes for one data file, and for all that a partition has."""
    name = f"granular_{together}"
    table = new_table(spark, name, "id bigint, p string", partition_by=["p"])
    table.append([{"id": n, "p": "a"} for n in range(10)])
    table.append([{"id": n, "p": "a"} for n in range(10, 20)])
    table.append([{"id": n, "p": "b"} for n in range(20, 30)])
    one, two = file_with(table, 0), file_with(table, 10)
    places = [(one.file_path, [0, 9]), (two.file_path, [5])]
    if together:
        flat = sorted((path, place) for path, own in places for place in own)
        deletes = [write_position_deletes(table, one.spec_id, one.partition, flat)]
        assert deletes[0].referenced_data_file is None
    else:
        deletes = [
            write_position_deletes(table, one.spec_id, one.partition, [(p, n) for n in own]) for p, own in places
        ]
    table.row_delta((), deletes, referenced=[path for path, _ in places])
    left = [n for n in range(30) if n not in (0, 9, 15)]
    assert ids(spark, f"SELECT id FROM {DB}.{name}") == left
    assert ids(spark, f"SELECT id FROM {DB}.{name} WHERE p = 'a'") == [n for n in left if n < 20]
    assert ids(spark, f"SELECT id FROM {DB}.{name} WHERE _deleted") == [0, 9, 15]
    assert spark.one(f"SELECT count(*) FROM {DB}.{name} WHERE p = 'b'") == 10
    plan = spark.explained(f"SELECT id FROM {DB}.{name}")
    assert "Arrow reader" not in plan
    assert spark.sorted(f"SELECT pos FROM {DB}.{name}.position_deletes") == [(0,), (5,), (9,)]


def test_equality_deletes(spark: Spark) -> None:
    """They delete what is older and in their partition, null for null; newer rows come back."""
    table = new_table(spark, "equal", "id bigint, p string, v int", partition_by=["p"])
    rows = [{"id": n, "p": "ab"[n % 2], "v": None if n % 3 == 0 else n % 3} for n in range(12)]
    table.append(rows)
    table.row_delta((), write_equality_deletes(table, [{"id": 4, "p": "a", "v": None}], ("id",)))
    table.row_delta((), write_equality_deletes(table, [{"id": 0, "p": "b", "v": None}], ("v",)))  # null is a value
    table.append([{"id": 4, "p": "a", "v": 9}, {"id": 3, "p": "b", "v": None}])
    left = sorted([(n["id"], n["v"]) for n in rows if n["id"] != 4 and not (n["p"] == "b" and n["v"] is None)] + [
        (4, 9), (3, None)
    ], key=repr)  # fmt: skip
    assert spark.sorted(f"SELECT id, v FROM {DB}.equal") == left
    assert spark.one(f"SELECT count(*) FROM {DB}.equal") == len(left)
    assert ids(spark, f"SELECT id FROM {DB}.equal WHERE p = 'b' AND v IS NULL") == [3]
    assert ids(spark, f"SELECT id FROM {DB}.equal WHERE _deleted") == [3, 4, 9]
    plan = spark.explained(f"SELECT id FROM {DB}.equal")
    assert "joined with equality deletes by (id) and equality deletes by (v)" in plan
    assert "Arrow reader" not in plan


MIXED = {
    "rows": ("SELECT id FROM {t}", lambda live: live),
    "filter": ("SELECT id FROM {t} WHERE id BETWEEN 15 AND 45", lambda live: [n for n in live if 15 <= n <= 45]),
    "partition": ("SELECT id FROM {t} WHERE p = 1", lambda live: [n for n in live if n % 2]),
    "count": ("SELECT count(*) FROM {t}", lambda live: [len(live)]),
    "empty columns": ("SELECT 1 FROM {t}", lambda live: [1] * len(live)),
    "join": (
        "SELECT a.id FROM {t} a JOIN {t} b ON a.id = b.id WHERE b.p = 0",
        lambda live: [n for n in live if n % 2 == 0],
    ),
    "runtime filter": (
        "SELECT t.id FROM {t} t JOIN (SELECT 1 AS p, 'x' AS x UNION ALL SELECT 7, 'y') s ON t.p = s.p WHERE s.x = 'x'",
        lambda live: [n for n in live if n % 2],
    ),
    "metadata columns": (
        "SELECT id FROM {t} WHERE _file IS NOT NULL AND _pos >= 0 AND _partition.p = p",
        lambda live: live,
    ),
    "limit": ("SELECT count(*) FROM (SELECT id FROM {t} LIMIT 11)", lambda live: [11]),
    "order": ("SELECT id FROM {t} ORDER BY s DESC, id LIMIT 3", lambda live: live[-3:]),
    "deleted": ("SELECT id FROM {t} WHERE _deleted", lambda live: [n for n in range(80) if n not in live]),
}


@pytest.fixture(scope="module")
def mixed(spark: Spark) -> tuple[str, list[int]]:
    """Files of all formats, of which some have positions, keys, both or nothing deleted."""
    table = new_table(spark, "mixed", "id bigint, p int, s string", partition_by=["p"])
    deleted = set()
    for index, file_format in enumerate(("parquet", "orc", "avro", "parquet")):
        table.set_properties({"write.format.default": file_format})
        table.append([{"id": n, "p": n % 2, "s": f"{n:03d}"} for n in range(20 * index, 20 * index + 20)])
    table.delete("id in (0, 1, 21, 42, 43)")
    deleted |= {0, 1, 21, 42, 43}
    rows = [{"id": n, "p": n % 2, "s": None} for n in (2, 22, 44)]
    table.row_delta((), write_equality_deletes(table, rows, ("id",)))
    deleted |= {2, 22, 44}
    return f"{DB}.mixed", [n for n in range(80) if n not in deleted]


@pytest.mark.parametrize("kind", MIXED)
def test_mixtures(spark: Spark, mixed: tuple[str, list[int]], kind: str) -> None:
    name, live = mixed
    query, expected = MIXED[kind]
    assert ids(spark, query.format(t=name)) == expected(live)


@pytest.mark.parametrize(
    ("most", "reason"), [(0, "Arrow reader, for row-level deletes"), (150, "Arrow reader, for very many deletes")]
)
def test_very_many_deletes_are_read_in_workers(spark: Spark, doors: str, most: int, reason: str) -> None:
    spark.session.conf.set(MOST_DELETES, most)
    try:
        plan = spark.explained(f"SELECT * FROM {doors}")
        assert reason in plan
        assert ("Spark's Parquet reader" in plan) == (most > 0)
        assert ids(spark, f"SELECT id FROM {doors}") == LIVE
        assert spark.one(f"SELECT count(*) FROM {doors} WHERE k = 1") == sum(n % 7 == 1 for n in LIVE)
    finally:
        spark.session.conf.unset(MOST_DELETES)


def test_row_groups_and_parts(spark: Spark) -> None:
    """A row's place is that in its file, in whichever part and whichever row groups are read."""
    sizes = {"write.parquet.row-group-size-bytes": "20000"}
    table = new_table(spark, "groups", "id bigint, text string", properties=sizes)
    table.append(pa.table({"id": range(50_000), "text": [f"text {n * 7919}" for n in range(50_000)]}))
    table.delete("id % 1000 = 17")
    assert table.inspect.delete_files().num_rows > 0
    read = spark.session.read.option("split-size", "50000").table(f"{DB}.groups")
    assert read.rdd.getNumPartitions() > 3
    live = [n for n in range(50_000) if n % 1000 != 17]
    assert read.selectExpr("count(*)", "sum(id)").collect() == [(len(live), sum(live))]
    assert read.where("id > 44000 AND id < 46050").selectExpr("count(*)").collect() == [(2049 - 3,)]
    assert read.where("id = 44017").collect() == []
    assert read.where("id = 44018").select("id").collect() == [(44018,)]


def test_all_rows_of_a_file(spark: Spark) -> None:
    table = new_table(spark, "emptied", "id bigint", 3)
    table.append([{"id": n} for n in range(100)])
    table.append([{"id": n} for n in range(100, 110)])
    table.delete("id < 99")
    table.delete("id = 99")
    assert ids(spark, f"SELECT id FROM {DB}.emptied") == [*range(100, 110)]
    table.delete("id < 109")
    assert ids(spark, f"SELECT id FROM {DB}.emptied") == [109]


# metadata columns -----------------------------------------------------------------------------------------------------


def test_partitions_of_all_types(spark: Spark) -> None:
    """`_partition` is what the file's partition is, null where it is null, whatever its type."""
    columns = (
        "id int, i int, l bigint, f float, d double, b boolean, n decimal(9, 2), t date, at timestamptz, s string, "
        "u uuid, x binary"
    )
    by = ["i", "l", "f", "d", "b", "n", "t", "day(at)", "truncate(2, s)", "bucket(4, id)", "u", "x"]
    table = new_table(spark, "typed", columns, partition_by=by)
    known = "01234567-89ab-cdef-0123-456789abcdef"
    row = {
        "id": 1, "i": -7, "l": 2**40, "f": 1.5, "d": -2.25, "b": True, "n": Decimal("-12.34"),
        "t": dt.date(1969, 12, 31), "at": dt.datetime(2024, 1, 2, 3, tzinfo=dt.UTC), "s": "äbc", "u": known,
        "x": b"\x00\xff",
    }  # fmt: skip
    table.append([row, {**dict.fromkeys(row), "id": 2}])
    name = f"{DB}.typed"
    assert "Spark's Parquet reader" in spark.explained(f"SELECT id, _partition FROM {name}")
    found = {one[0]: one[1].asDict() for one in spark(f"SELECT id, _partition FROM {name}")}
    for n in (1, 2):
        assert found[n].pop("id_bucket") == file_with(table, n).partition[9]
    assert found[1] == {
        "i": -7, "l": 2**40, "f": 1.5, "d": -2.25, "b": True, "n": Decimal("-12.34"), "t": dt.date(1969, 12, 31),
        "at_day": dt.date(2024, 1, 2), "s_trunc": "äb", "u": known, "x": bytearray(b"\x00\xff"),
    }  # fmt: skip
    assert set(found[2].values()) == {None}
    assert spark(f"SELECT _partition.s_trunc FROM {name} WHERE _partition.i = -7") == [("äb",)]


def test_partitions_of_several_specs(spark: Spark) -> None:
    table = new_table(spark, "specs", "id int, k string, n int")
    name = f"{DB}.specs"
    table.append([{"id": 1, "k": "a", "n": 1}])
    assert spark(f"SELECT id, _partition, _spec_id FROM {name}") == [(1, (), 0)]
    spark(f"ALTER TABLE {name} ADD PARTITION FIELD k")
    spark(f"INSERT INTO {name} VALUES (2, 'b', 2)")
    spark(f"ALTER TABLE {name} ADD PARTITION FIELD n")
    spark(f"INSERT INTO {name} VALUES (3, 'c', 3)")
    assert spark(f"SELECT id, _partition, _spec_id FROM {name} ORDER BY id") == [
        (1, (None, None), 0), (2, ("b", None), 1), (3, ("c", 3), 2)
    ]  # fmt: skip


def test_row_ids(spark: Spark) -> None:
    """A row keeps its id when it moves to another file, and gets a new number when it changes."""
    table = new_table(spark, "ids", "id int, v int", 3)
    table.append([{"id": n, "v": 0} for n in range(10)])
    table.append([{"id": n, "v": 0} for n in range(10, 15)])
    name = f"{DB}.ids"
    query = f"SELECT id, _row_id, _last_updated_sequence_number FROM {name} ORDER BY id"
    assert spark(query) == [(n, n, 1 if n < 10 else 2) for n in range(15)]
    table.update({"v": "v + 1"}, where="id % 5 = 0", options={"write.update.mode": "copy-on-write"})
    table.update({"v": "v + 1"}, where="id = 7", options={"write.update.mode": "merge-on-read"})
    changed = {**dict.fromkeys((0, 5, 10), 3), 7: 4}
    assert spark(query) == [(n, n, changed.get(n, 1 if n < 10 else 2)) for n in range(15)]
    assert "Spark's Parquet reader" in spark.explained(query)
    assert "Arrow" not in spark.explained(query)
    assert spark(f"SELECT id FROM {name} WHERE _row_id = 7") == [(7,)]


def test_rows_without_ids(spark: Spark) -> None:
    """Files of format version 2 have no row ids when the table becomes one of version 3."""
    table = new_table(spark, "upgraded", "id int")
    table.append([{"id": 1}])
    table.upgrade(3)
    assert spark(f"SELECT id, _row_id FROM {DB}.upgraded") == [(1, None)]
    spark(f"INSERT INTO {DB}.upgraded VALUES (2)")
    rows = spark(f"SELECT id, _row_id IS NULL FROM {DB}.upgraded ORDER BY id")
    assert rows[1] == (2, False)


# plans ----------------------------------------------------------------------------------------------------------------


def test_filters_at_run_time_reach_all_parts(spark: Spark) -> None:
    table = new_table(spark, "facts", "id bigint, p int", partition_by=["p"])
    table.append(pa.table({"id": range(1000), "p": pa.array([n % 10 for n in range(1000)], pa.int32())}))
    table.delete("id in (1, 2, 13)")
    table.row_delta((), write_equality_deletes(table, [{"id": 25, "p": 5}], ("id",)))
    spark(f"CREATE TABLE {DB}.dimensions AS SELECT CAST(id AS INT) AS p, concat('n', id) AS name FROM range(10)")
    frame = spark.session.sql(
        f"SELECT count(*), sum(f.id) FROM {DB}.facts f JOIN {DB}.dimensions d ON f.p = d.p WHERE d.name IN ('n5', 'n3')"
    )
    live = [n for n in range(1000) if n % 10 in (3, 5) and n not in (13, 25)]
    assert frame.collect() == [(len(live), sum(live))]
    plan = frame._jdf.queryExecution().executedPlan().toString()
    scans = {line.split("; files:")[1].split(";")[0] for line in plan.splitlines() if "runtime filter: p IN" in line}
    assert scans == {" 1 of 10"}
    assert "joined with equality deletes by (id)" in plan


def test_the_same_read_is_done_once(spark: Spark, doors: str) -> None:
    spark.session.conf.set("spark.sql.autoBroadcastJoinThreshold", -1)
    try:
        sums = f"SELECT k, sum(id) AS s FROM {doors} GROUP BY k"
        frame = spark.session.sql(f"SELECT a.k, a.s + b.s FROM ({sums}) a JOIN ({sums}) b ON a.k = b.k")
        expected = {k: 2 * sum(n for n in LIVE if n % 7 == k) for k in range(7)}
        assert dict(frame.collect()) == expected
        assert "ReusedExchange" in frame._jdf.queryExecution().executedPlan().toString()
    finally:
        spark.session.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def test_statistics_leave_out_deleted_rows(spark: Spark, doors: str) -> None:
    table = spark.lake().table(doors.removeprefix("lake."))
    plan = spark.session.table(doors)._jdf.queryExecution().optimizedPlan()
    size = int(str(plan.stats().sizeInBytes()))
    before = spark.session.sql(f"SELECT * FROM {doors} VERSION AS OF {table.snapshots[4].snapshot_id}")
    whole = int(str(before._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    assert 0.95 * len(LIVE) / (ROWS + 1) < size / whole < 1.05 * len(LIVE) / (ROWS + 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.parquet.enableVectorizedReader", "false"),
        ("spark.sql.codegen.wholeStage", "false"),
        ("spark.sql.codegen.factoryMode", "NO_CODEGEN"),
    ],
)
def test_without_generated_code(spark: Spark, doors: str, name: str, value: str) -> None:
    """Spark interprets what it does not compile."""
    before = spark.session.conf.get(name, None)
    spark.session.conf.set(name, value)
    try:
        assert ids(spark, f"SELECT id FROM {doors}") == LIVE
        assert ids(spark, f"SELECT id FROM {doors} WHERE k = 1 AND _pos >= 0") == [n for n in LIVE if n % 7 == 1]
    finally:
        if before is None:
            spark.session.conf.unset(name)
        else:
            spark.session.conf.set(name, before)


def test_a_setting_that_is_no_number(spark: Spark, doors: str) -> None:
    spark.session.conf.set(MOST_DELETES, "lots")
    try:
        with pytest.raises(PySparkException, match=r"most-deletes-on-driver must be a whole number .*'lots'"):
            spark(f"SELECT * FROM {doors}")
    finally:
        spark.session.conf.unset(MOST_DELETES)


def test_files_by_name(spark: Spark, doors: str) -> None:
    """A filter on `_file` leaves out the other files."""
    table = spark.lake().table(doors.removeprefix("lake."))
    path = file_with(table, 600).file_path
    query = f"SELECT id FROM {doors} WHERE _file = '{path}'"
    assert ids(spark, query) == [n for n in LIVE if 500 <= n < 750]
    assert "files: 1 " in spark.explained(query)
    both = f"SELECT id FROM {doors} WHERE _file IN ('{path}', 'nowhere') AND id < 510"
    assert ids(spark, both) == [n for n in LIVE if 500 <= n < 510]
    assert ids(spark, f"SELECT id FROM {doors} WHERE _file <> '{path}'") == [n for n in LIVE if not 500 <= n < 750]
    assert spark.one(f"SELECT count(*) FROM {doors} WHERE _file = 'nowhere'") == 0


def test_functions_in_python(spark: Spark, mixed: tuple[str, list[int]]) -> None:
    name, live = mixed
    frame = spark.session.table(name)
    doubled = F.udf(lambda n: 2 * n, "long")
    assert sorted(row[0] for row in frame.select(doubled("id")).collect()) == [2 * n for n in live]
    assert sorted(row[0] for row in frame.where(doubled("id") > 100).select("id").collect()) == [
        n for n in live if n > 50
    ]
