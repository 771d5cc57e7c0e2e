"""Reads through Spark: what is pushed down, what is read, and by whom; evolution, time travel, metadata columns."""

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from floe.spec.metadata.table_metadata import BlobMetadata, StatisticsFile
from floe.table.table import Table
from helpers.spark import Spark

DB = "lake.scans"


@pytest.fixture(scope="module")
def spark(session: Spark) -> Spark:
    session(f"CREATE NAMESPACE {DB}")
    return session


def new_table(spark: Spark, name: str, columns: str, **options: Any) -> Table:
    return spark.lake().create_table(f"scans.{name}", columns, **options)


def plan_value(plan: str, label: str) -> str:
    """The value of a label in a plan."""
    (value,) = {part.strip() for part in plan.replace("\n", ";").split(";") if part.strip().startswith(label)}
    return value.removeprefix(label).strip(": ")


@pytest.fixture(scope="module")
def days(spark: Spark) -> str:
    """Ten days of hours, a file for each day."""
    table = new_table(spark, "days", "id bigint, at timestamptz, s struct<a: int, b: string>", partition_by=["day(at)"])
    first = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    hours = [first + datetime.timedelta(hours=n) for n in range(240)]
    structs = [{"a": n, "b": str(n)} for n in range(240)]
    table.append(pa.table({"id": range(240), "at": hours, "s": structs}))
    return f"{DB}.days"


@pytest.mark.parametrize(
    ("where", "files", "rows"),
    [
        ("at < timestamp'2024-01-03'", 2, 48),
        ("at >= timestamp'2024-01-02 12:00:00' AND at < timestamp'2024-01-02 13:00:00'", 1, 1),
        ("CAST(at AS DATE) = DATE'2024-01-04'", 1, 24),
        ("id IN (5, 100) AND s.a < 50", 1, 1),
        ("id = 5 OR at > timestamp'2024-01-10 22:00:00'", 2, 2),
        ("NOT (at < timestamp'2024-01-10')", 1, 24),
        ("id IS NULL", 0, 0),
        ("id <=> 7", 1, 1),
        ("s.b = '7'", None, 1),
        ("id % 100 = 7", 10, 3),
    ],
)
def test_filters_leave_out_files(spark: Spark, days: str, where: str, files: int | None, rows: int) -> None:
    statement = f"SELECT * FROM {days} WHERE {where}"
    assert len(spark(statement)) == rows
    if files is not None:
        assert plan_value(spark.explained(statement), "files").startswith(f"{files} ")


def test_large_in_lists(spark: Spark, days: str) -> None:
    ids = ", ".join(str(n) for n in range(48))
    statement = f"SELECT id FROM {days} WHERE id IN ({ids})"
    assert spark.sorted(statement) == sorted(((n,) for n in range(48)), key=repr)
    assert plan_value(spark.explained(statement), "files").startswith("2 ")


def test_plans_speak(spark: Spark, days: str) -> None:
    plan = spark.explained(f"SELECT id FROM {days} WHERE at < timestamp'2024-01-03' AND id % 2 = 0")
    assert plan_value(plan, "files") == "2 of 10"
    assert "at < TIMESTAMP '2024-01-03 00:00:00+00:00'" in plan_value(plan, "pushed filter")
    assert "Spark's Parquet reader" in plan
    table = spark.lake().table("scans.days")
    assert table.current_snapshot is not None
    assert str(table.current_snapshot.snapshot_id) in plan


def test_only_needed_columns_are_read(spark: Spark, days: str) -> None:
    frame = spark.session.sql(f"SELECT s.b FROM {days} WHERE id < 3")
    assert "s#" in frame._jdf.queryExecution().executedPlan().toString()
    (scan,) = [line for line in spark.explained(f"SELECT s.b FROM {days}").splitlines() if "BatchScan" in line]
    assert "at#" not in scan
    schema = frame._jdf.queryExecution().optimizedPlan().collectLeaves().apply(0).schema().simpleString()
    assert schema == "struct<id:bigint,s:struct<b:string>>"
    assert sorted(row[0] for row in frame.collect()) == ["0", "1", "2"]


def test_counts_from_metadata(spark: Spark, days: str) -> None:
    statement = f"SELECT count(*), count(id), min(id), max(id), min(at) FROM {days}"
    assert spark(statement) == [(240, 240, 0, 239, datetime.datetime(2024, 1, 1))]
    assert "computed from metadata" in spark.explained(statement) or "LocalTableScan" in spark.explained(statement)
    whole = f"SELECT count(*) FROM {days} WHERE at >= timestamp'2024-01-09'"
    assert spark(whole) == [(48,)]
    assert "BatchScan" not in spark.explained(whole)
    part = f"SELECT count(*) FROM {days} WHERE at >= timestamp'2024-01-09 01:00:00'"
    assert spark(part) == [(47,)]
    assert "BatchScan" in spark.explained(part)
    assert spark(f"SELECT min(s.b), count(DISTINCT id) FROM {days}") == [("0", 240)]


def test_minima_of_all_kinds(spark: Spark) -> None:
    table = new_table(spark, "extremes", "i int, d decimal(9, 2), f float, x double, b boolean, t date, s string")
    assert spark(f"SELECT min(i), max(d), count(*), count(s) FROM {DB}.extremes") == [(None, None, 0, 0)]
    day = datetime.date(1969, 12, 31)
    first = {"i": -5, "d": Decimal("1.50"), "f": 1.5, "x": -2.5, "b": True, "t": day, "s": "b"}
    table.append([first, dict.fromkeys(first), {**first, "i": 7, "b": False, "s": "a"}])
    columns = list(first)
    for function in ("min", "max", "count"):
        aggregates = ", ".join(f"{function}({name})" for name in columns)
        plain = ", ".join(f"{function}({name})" for name in columns) + ", sum(i)"  # a sum is read from the rows
        assert (
            spark(f"SELECT {aggregates} FROM {DB}.extremes")[0] == spark(f"SELECT {plain} FROM {DB}.extremes")[0][:-1]
        )


def test_limit_reads_few_files(spark: Spark, days: str) -> None:
    statement = f"SELECT id FROM {days} LIMIT 30"
    assert len(spark(statement)) == 30
    assert "limit: 30" in spark.explained(statement)
    parts = spark.session.sql(statement)._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
    assert parts.inputPartitions().size() <= 2


def test_runtime_filters(spark: Spark, days: str) -> None:
    spark.session.sql("SELECT timestamp'2024-01-05 03:00:00' AS at, 'x' AS tag").createOrReplaceTempView("wanted")
    assert spark(f"SELECT id, tag FROM {days} d JOIN wanted w ON d.at = w.at") == [(99, "x")]


def test_joins_with_itself(spark: Spark, days: str) -> None:
    assert spark.one(f"SELECT count(*) FROM {days} a JOIN {days} b ON a.id = b.id + 1") == 239
    assert spark.one(f"WITH x AS (SELECT id FROM {days}) SELECT count(*) FROM x WHERE id IN (SELECT id FROM x)") == 240


# evolution ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_evolution_is_by_id(spark: Spark, file_format: str) -> None:
    name = f"evolved_{file_format}"
    table = new_table(
        spark,
        name,
        "a int, b int, dropped string, s struct<x: int, y: string>, l list<struct<u: int>>, "
        "m map<string, struct<q: int>>, f float, d decimal(5, 2)",
        format_version=3,
        properties={"write.format.default": file_format},
    )
    old = {"a": 1, "b": 2, "dropped": "gone", "s": {"x": 3, "y": "y"}, "l": [{"u": 4}], "m": {"k": {"q": 5}}}
    table.append([{**old, "f": 1.5, "d": Decimal("1.25")}])
    table.evolve().rename_column("a", "tmp").commit()
    table.evolve().rename_column("b", "a").commit()
    table.evolve().rename_column("tmp", "b").drop_column("dropped").commit()
    (
        table.evolve()
        .add_column("dropped", "string")
        .add_column("n", "int", default=42)
        .rename_column("s.x", "xx")
        .promote("s.xx", "long")
        .promote("b", "long")
        .promote("f", "double")
        .promote("d", "decimal(9, 2)")
        .add_column("s.new", "string")
        .rename_column("l.element.u", "uu")
        .promote("l.element.uu", "long")
        .rename_column("m.value.q", "qq")
        .commit()
    )
    rows = spark(f"SELECT a, b, dropped, n, s.xx, s.new, l[0].uu, m['k'].qq, f, d FROM {DB}.{name}")
    assert rows == [(2, 1, None, 42, 3, None, 4, 5, 1.5, Decimal("1.25"))]
    assert spark(f"SELECT * FROM {DB}.{name} WHERE b = 1 AND a = 2 AND n = 42 AND f > 1 AND dropped IS NULL") != []
    assert spark(f"SELECT * FROM {DB}.{name} WHERE b = 2 OR a = 1 OR dropped = 'gone'") == []
    reader = "Spark's Parquet reader" if file_format == "parquet" else f"Arrow reader, for {file_format} files"
    assert reader in spark.explained(f"SELECT a, b FROM {DB}.{name}")


def test_fields_of_structs_swap_names(spark: Spark) -> None:
    table = new_table(
        spark,
        "swapped",
        "s struct<x: int, y: int>, l list<struct<x: int, y: int>>, m map<string, struct<x: int, y: int>>",
    )
    both = {"x": 1, "y": 2}
    table.append([{"s": both, "l": [both], "m": {"k": both}}])
    for name in ("s", "l.element", "m.value"):
        table.evolve().rename_column(f"{name}.x", "tmp").commit()
        table.evolve().rename_column(f"{name}.y", "x").commit()
        table.evolve().rename_column(f"{name}.tmp", "y").commit()
    assert spark(f"SELECT s.x, s.y, l[0].x, l[0].y, m['k'].x, m['k'].y FROM {DB}.swapped") == [(2, 1, 2, 1, 2, 1)]
    assert spark(f"SELECT l.y, m['k'].y FROM {DB}.swapped WHERE s.x = 2") == [([1], 1)]
    table.evolve().drop_column("s.y").commit()
    table.evolve().add_column("s.y", "int").commit()
    assert spark(f"SELECT s FROM {DB}.swapped") == [((2, None),)]
    how = "Spark's Parquet reader" if spark.version >= (4, 1) else "Arrow reader, for s.x, which was called y"
    assert how in spark.explained(f"SELECT * FROM {DB}.swapped")


def test_row_groups_of_promoted_columns(spark: Spark) -> None:
    table = new_table(
        spark,
        "promoted",
        "i int, f float, d decimal(5, 2), late_to string",
        properties={"write.parquet.row-group-size-bytes": "2000"},
    )
    numbers = range(3000)
    table.append([{"i": n, "f": n / 2, "d": Decimal(n) / 100, "late_to": str(n)} for n in numbers])
    table.evolve().promote("i", "long").promote("f", "double").promote("d", "decimal(12, 2)").commit()
    table.append([{"i": 2**40, "f": 1e300, "d": Decimal("9999999999.99"), "late_to": "x"}])
    name = f"{DB}.promoted"
    assert spark(f"SELECT i FROM {name} WHERE i = 1234") == [(1234,)]
    assert sorted(spark(f"SELECT i FROM {name} WHERE i > 2998")) == [(2999,), (2**40,)]
    assert spark.one(f"SELECT count(*) FROM {name} WHERE i < {2**33}") == 3000
    assert spark(f"SELECT i FROM {name} WHERE f = 617.0") == [(1234,)]
    assert spark(f"SELECT i FROM {name} WHERE d = 12.34") == [(1234,)]
    assert spark(f"SELECT i FROM {name} WHERE late_to LIKE '123%' AND i % 10 = 4 AND i > 1000") == [(1234,)]


def test_files_are_cut_where_row_groups_begin(spark: Spark) -> None:
    table = new_table(
        spark, "cut", "id bigint, text string", properties={"write.parquet.row-group-size-bytes": "20000"}
    )
    table.append(pa.table({"id": range(50_000), "text": [f"text {n * 7919}" for n in range(50_000)]}))
    assert len(table.inspect.files()["split_offsets"][0]) > 3
    read = spark.session.read.option("split-size", "50000").table(f"{DB}.cut")
    assert read.rdd.getNumPartitions() > 3
    assert read.selectExpr("count(*)", "sum(id)", "max(_pos)").collect() == [(50_000, sum(range(50_000)), 49_999)]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_small_files_share_tasks_as_their_cost_says(spark: Spark, file_format: str) -> None:
    table = new_table(spark, f"small_{file_format}", "id int", properties={"write.format.default": file_format})
    for n in range(10):
        table.append([{"id": n}])

    def tasks(**options: int) -> int:
        read_options = {name.replace("_", "-"): str(value) for name, value in options.items()}
        read = spark.session.read.options(**read_options).table(f"{DB}.small_{file_format}")
        assert sorted(row[0] for row in read.collect()) == list(range(10))
        return read.rdd.getNumPartitions()

    assert tasks() == 3, "of 16 MB each, in which a file weighs 4 MB"
    assert tasks(split_size=8 * 2**20) == 5
    assert tasks(file_open_cost=16 * 2**20) == 10
    assert tasks(file_open_cost=0) == 1
    with table.transaction() as changes:
        changes.set_properties({"read.split.open-file-cost": str(8 * 2**20)})
    spark(f"REFRESH TABLE {DB}.small_{file_format}")
    assert tasks() == 5


def test_structs_of_which_old_files_have_nothing(spark: Spark) -> None:
    table = new_table(spark, "emptied", "id int, s struct<a: int>", format_version=3)
    table.append([{"id": 1, "s": {"a": 1}}, {"id": 2, "s": None}])
    table.evolve().add_column("s.b", "string").add_column("s.c", "int", default=7).commit()
    assert spark.sorted(f"SELECT id, s.b, s.c, s IS NULL FROM {DB}.emptied") == [
        (1, None, 7, False),
        (2, None, None, True),
    ]
    assert "Arrow reader" in spark.explained(f"SELECT s.b FROM {DB}.emptied")


def test_types_that_only_arrow_reads(spark: Spark) -> None:
    table = new_table(spark, "odd_types", "id int, u uuid, f fixed[3], l list<uuid>", format_version=3)
    uuid = "01234567-89ab-cdef-0123-456789abcdef"
    table.append([{"id": 1, "u": uuid, "f": b"abc", "l": [uuid, None]}])
    assert spark(f"SELECT * FROM {DB}.odd_types") == [(1, uuid, bytearray(b"abc"), [uuid, None])]
    assert spark(f"SELECT id FROM {DB}.odd_types WHERE u = '{uuid}'") == [(1,)]
    spark(f"INSERT INTO {DB}.odd_types VALUES (2, '{uuid}', X'616263', array('{uuid}'))")
    assert table.refresh().scan(where="id = 2").to_arrow()["u"].to_pylist()[0] == bytes.fromhex(uuid.replace("-", ""))


# deletes, metadata columns, time --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
def test_deleted_rows_are_not_read(spark: Spark, version: int) -> None:
    name = f"deleted_{version}"
    properties = {"write.delete.mode": "merge-on-read"}
    table = new_table(spark, name, "id bigint, name string", format_version=version, properties=properties)
    table.append([{"id": n, "name": str(n)} for n in range(10)])
    table.delete("id in (3, 4)")
    assert table.inspect.delete_files().num_rows == 1
    assert [row[0] for row in spark(f"SELECT id FROM {DB}.{name} ORDER BY id")] == [0, 1, 2, 5, 6, 7, 8, 9]
    assert spark(f"SELECT count(*), sum(id), min(name) FROM {DB}.{name} WHERE id > 2") == [(5, 35, "5")]
    assert spark.one(f"SELECT count(*) FROM {DB}.{name}") == 8
    assert plan_value(spark.explained(f"SELECT * FROM {DB}.{name}"), "files with deleted rows").startswith("1,")
    assert spark(f"SELECT id FROM {DB}.{name} WHERE _deleted ORDER BY id") == [(3,), (4,)]


def test_metadata_columns(spark: Spark) -> None:
    table = new_table(spark, "lineage", "id int, k string", partition_by=["k"], format_version=3)
    table.append([{"id": 1, "k": "a"}, {"id": 2, "k": "b"}])
    table.append([{"id": 3, "k": "a"}])
    rows = spark(f"SELECT id, _file, _pos, _spec_id, _partition.k FROM {DB}.lineage ORDER BY id")
    files = set(table.inspect.files()["file_path"].to_pylist())
    assert {row[1] for row in rows} == files
    assert [(row[0], *row[2:]) for row in rows] == [(1, 0, 0, "a"), (2, 0, 0, "b"), (3, 0, 0, "a")]
    lineage = spark(f"SELECT id, _row_id, _last_updated_sequence_number FROM {DB}.lineage ORDER BY id")
    assert [row[2] for row in lineage] == [1, 1, 2]
    assert sorted(row[1] for row in lineage) == [0, 1, 2]
    assert "Spark's Parquet reader" in spark.explained(f"SELECT _file, _pos, _spec_id FROM {DB}.lineage")


def test_positions_are_those_of_the_file(spark: Spark) -> None:
    table = new_table(spark, "positions", "id bigint", properties={"write.parquet.row-group-size-bytes": "2000"})
    table.append(pa.table({"id": range(5000)}))
    assert spark.one(f"SELECT count(*) FROM {DB}.positions WHERE id <> _pos") == 0
    assert spark(f"SELECT id, _pos FROM {DB}.positions WHERE id = 4321") == [(4321, 4321)]


def test_time_travel(spark: Spark) -> None:
    name = f"{DB}.travelled"
    table = new_table(spark, "travelled", "id int")
    table.append([{"id": 1}])
    first = table.current_snapshot
    table.evolve().rename_column("id", "number").commit()
    table.append([{"number": 2}])
    table.create_tag("one", snapshot=first.snapshot_id)
    table.create_branch("other")
    when = f"timestamp_millis({first.timestamp_ms})"
    for query in (
        f"{name} VERSION AS OF {first.snapshot_id}",
        f"{name} FOR SYSTEM_VERSION AS OF {first.snapshot_id}",
        f"{name} VERSION AS OF 'one'",
        f"{name} TIMESTAMP AS OF {when}",
        f"{name}.tag_one",
        f"{name}.snapshot_id_{first.snapshot_id}",
        f"{name}.at_timestamp_{first.timestamp_ms}",
    ):
        assert spark(f"SELECT id FROM {query}") == [(1,)], query
    assert spark.sorted(f"SELECT number FROM {name}.branch_other") == [(1,), (2,)]
    reader = spark.session.read
    assert reader.option("versionAsOf", first.snapshot_id).table(name).collect() == [(1,)]
    for option, value in (("snapshot-id", first.snapshot_id), ("tag", "one"), ("as-of-timestamp", first.timestamp_ms)):
        assert [row[0] for row in spark.session.read.option(option, value).table(name).collect()] == [1], option
    assert spark.session.read.option("branch", "other").table(name).count() == 2
    with pytest.raises(PySparkException, match="nowhere"):
        spark(f"SELECT * FROM {name} VERSION AS OF 'nowhere'")
    with pytest.raises(PySparkException):
        spark(f"SELECT * FROM {name} VERSION AS OF 17")


def test_incremental_reads(spark: Spark) -> None:
    name = f"{DB}.grown"
    table = new_table(spark, "grown", "id int")
    ids = []
    for n in range(4):
        table.append([{"id": n}])
        ids.append(table.current_snapshot.snapshot_id)
    read = spark.session.read.option("start-snapshot-id", ids[0])
    assert sorted(row[0] for row in read.table(name).collect()) == [1, 2, 3]
    assert sorted(row[0] for row in read.option("end-snapshot-id", ids[2]).table(name).collect()) == [1, 2]


# metadata tables ------------------------------------------------------------------------------------------------------


def test_metadata_tables_join_and_travel(spark: Spark, days: str) -> None:
    table = spark.lake().table("scans.days")
    snapshot = table.current_snapshot
    assert snapshot is not None
    assert spark(f"SELECT operation, summary['added-records'] FROM {days}.snapshots") == [("append", "240")]
    joined = spark(
        f"SELECT s.snapshot_id, h.is_current_ancestor FROM {days}.history h JOIN {days}.snapshots s USING (snapshot_id)"
    )
    assert joined == [(snapshot.snapshot_id, True)]
    assert spark.one(f"SELECT sum(record_count) FROM {days}.files WHERE partition.at_day < DATE'2024-01-03'") == 48
    assert spark.one(f"SELECT count(*) FROM {days}.files VERSION AS OF {snapshot.snapshot_id}") == 10
    bounds = f"SELECT readable_metrics.id.lower_bound FROM {days}.files ORDER BY 1"
    assert [row[0] for row in spark(bounds)] == list(range(0, 240, 24))
    assert spark(f"SELECT name, type FROM {days}.refs") == [("main", "BRANCH")]
    with pytest.raises(PySparkException, match="shows all snapshots"):
        spark(f"SELECT * FROM {days}.snapshots VERSION AS OF {snapshot.snapshot_id}")


def test_options_say_the_state_of_metadata_tables(spark: Spark) -> None:
    table = new_table(spark, "optional", "id int")
    table.append([{"id": 1}])
    first = table.current_snapshot
    assert first is not None
    table.create_tag("one")
    table.append([{"id": 2}])
    table.create_branch("later")
    table.append([{"id": 3}])
    reader, files = (lambda: spark.session.read), f"{DB}.optional.files"
    states = {"snapshot-id": first.snapshot_id, "as-of-timestamp": first.timestamp_ms, "tag": "one"}
    for option, value in states.items():
        assert reader().option(option, value).table(files).count() == 1, option
        assert reader().format("iceberg").option(option, value).load(files).count() == 1, option
    assert reader().option("branch", "later").table(files).count() == 2
    assert (
        reader().format("iceberg").option("snapshot-id", first.snapshot_id).load(f"{table.location}#files").count() == 1
    )
    assert reader().table(files).count() == 3
    for options, words in (
        ({"tag": "one", "branch": "later"}, "branch, tag"),
        ({"start-snapshot-id": str(first.snapshot_id)}, "not of a range"),
        ({"tag": "nowhere"}, "nowhere"),
    ):
        with pytest.raises(PySparkException, match=words):
            reader().options(**options).table(files).count()
    with pytest.raises(PySparkException, match="shows all snapshots"):
        reader().option("tag", "one").table(f"{DB}.optional.snapshots").count()


def test_types_that_spark_lacks_are_shown(spark: Spark) -> None:
    """As texts, or as bytes; the other columns are read as ever, and none of it can be written."""
    table = new_table(spark, "lacking", "id int, t time, n timestamp_ns, s struct<t: time>, k string", format_version=3)
    clock = datetime.time(1, 2, 3, 4)
    nanos = pa.array([1_700_000_000_123_456_789, None], pa.timestamp("ns"))
    table.append(pa.table({"id": [1, 2], "t": [clock, None], "n": nanos, "s": [{"t": clock}, None], "k": ["a", "b"]}))
    name = f"{DB}.lacking"
    assert spark(f"SELECT id, k FROM {name} WHERE id = 1") == [(1, "a")]
    assert "Spark's Parquet reader" in spark.explained(f"SELECT id, k FROM {name}")
    assert spark(f"SELECT t, n, s.t FROM {name} ORDER BY id") == [
        ("01:02:03.000004", "2023-11-14 22:13:20.123456789", "01:02:03.000004"),
        (None, None, None),
    ]
    assert spark(f"SELECT min(t), count(n) FROM {name}") == [("01:02:03.000004", 1)]
    with pytest.raises(PySparkException, match="Spark has no type for time"):
        spark(f"INSERT INTO {name} VALUES (3, '1', '2', NULL, 'c')")


def test_times_and_nanoseconds_are_compared_as_values(spark: Spark) -> None:
    """Texts as SELECT shows them order as their values; other spellings of an instant are refused."""
    columns = "id int, n timestamp_ns, z timestamptz_ns, t time, s struct<n: timestamp_ns>"
    table = new_table(spark, "instants", columns, format_version=3)
    stored = [-(10**9), -1001, -1000, -1, 0, 1, 999, 1000]
    n, z = (pa.array(stored, pa.timestamp("ns", zone)) for zone in (None, "UTC"))
    nested = pa.StructArray.from_arrays([n], names=["n"])
    times = [datetime.time(0, 0, n) for n in range(8)]
    table.append(pa.table({"id": range(8), "n": n, "z": z, "t": times, "s": nested}))
    name, zero = f"{DB}.instants", "1970-01-01 00:00:00.000000000"
    for where, ids in {
        f"n < '{zero}' AND z < '{zero}Z' AND s.n < '{zero}'": [0, 1, 2, 3],
        f"n = '{zero}'": [4],
        "n IN ('1969-12-31 23:59:59.999998999', '1970-01-01 00:00:00.000000999')": [1, 6],
        "CAST(n AS TIMESTAMP_NTZ) < timestamp_ntz'1970-01-01'": [0, 1, 2, 3],
        f"z > (SELECT z FROM {name} WHERE id = 4)": [5, 6, 7],
        "t < '00:00:03.000000'": [0, 1, 2],
        "n LIKE '1969%'": [0, 1, 2, 3],
    }.items():
        assert [row[0] for row in spark(f"SELECT id FROM {name} WHERE {where} ORDER BY n")] == ids, where
    before = table.current_snapshot
    for where in (
        "n < '1970-01-01T00:00:00'",
        f"id = 3 OR NOT z <= '{zero}'",
        "n IN ('x', 'y')",
        "s.n <=> '1970-01-01'",
        "t < '0:00:03'",
    ):
        for statement in (f"SELECT id FROM {name} WHERE {where}", f"DELETE FROM {name} WHERE {where}"):
            with pytest.raises(PySparkException, match=r"is compared with .*Spark writes values of"):
                spark(statement)
    assert table.refresh().current_snapshot == before


def test_distinct_counts_of_statistics_files(spark: Spark) -> None:
    table = new_table(spark, "counted", "id int, k string")
    table.append([{"id": n, "k": "ab"[n % 2]} for n in range(100)])
    snapshot = table.current_snapshot
    sketches = [
        BlobMetadata(
            type="apache-datasketches-theta-v1",
            snapshot_id=snapshot.snapshot_id,
            sequence_number=1,
            fields=(field,),
            properties={"ndv": str(count)},
        )
        for field, count in ((1, 100), (2, 2))
    ]
    path = f"{table.location}/metadata/counted.stats"
    table.update_statistics(
        [
            StatisticsFile(
                snapshot_id=snapshot.snapshot_id,
                statistics_path=path,
                file_size_in_bytes=1,
                file_footer_size_in_bytes=1,
                blob_metadata=tuple(sketches),
            )
        ]
    )
    spark.session.conf.set("spark.sql.cbo.enabled", True)
    try:
        plan = spark.session.sql(f"SELECT k, count(*) FROM {DB}.counted GROUP BY k")._jdf.queryExecution()
        assert int(str(plan.optimizedPlan().stats().rowCount().get())) == 2
    finally:
        spark.session.conf.unset("spark.sql.cbo.enabled")


@pytest.mark.parametrize("pages", ["v1", "v2"])
def test_damaged_pages_are_told_by_every_reader(spark: Spark, pages: str) -> None:
    """A bit that changed in a page is an error which names the file, unless checksums are not to be verified."""
    properties = {"write.parquet.compression-codec": "uncompressed", "write.parquet.page-version": pages}
    table = new_table(spark, f"damaged_{pages}", "id int, u uuid", properties=properties)
    table.append(pa.table({"id": pa.array([7, 123_456_789, 9], pa.int32()), "u": [b"u" * 16] * 3}))
    (path,) = table.scan().files()
    data = bytearray(table.storage.read(path))
    data[data.index((123_456_789).to_bytes(4, "little"))] ^= 1
    table.storage.write(path, bytes(data), overwrite=True)
    native, worker = f"SELECT id FROM {DB}.damaged_{pages}", f"SELECT id, u FROM {DB}.damaged_{pages}"
    assert "Spark's Parquet reader" in spark.explained(native)
    assert "Spark's Parquet reader" not in spark.explained(worker)
    for statement in (native, worker):
        with pytest.raises((PySparkException, Py4JJavaError), match=path.rpartition("/")[2]) as caught:
            spark(statement)
        assert "checksum" in str(caught.value)
    table.set_properties({"read.parquet.page-checksum-verification.enabled": "false"})
    for statement in (native, worker):
        assert sorted(row[0] for row in spark(statement)) == [7, 9, 123_456_788]
