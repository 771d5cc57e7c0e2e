"""ANALYZE TABLE and compute_table_stats: what is counted, what Spark makes of it, and what DataSketches says."""

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException

from floe.spec.codecs.theta_sketches import ThetaSketch, value_hashes_of
from floe.table.table import Table
from helpers.spark import Spark

NAMESPACE = "statistics"


@pytest.fixture(scope="module", autouse=True)
def namespace(session: Spark) -> None:
    for catalog in ("lake", "sq"):
        session(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.{NAMESPACE}")


def new_table(session: Spark, name: str, catalog: str = "lake", columns: str = "id BIGINT, k STRING, n INT") -> str:
    full = f"{catalog}.{NAMESPACE}.{name}"
    session(f"CREATE TABLE {full} ({columns})")
    return full


def filled(session: Spark, name: str, catalog: str = "lake", rows: int = 1_000) -> str:
    """A table of numbers, ten texts, and seven numbers of which one row in ten has none."""
    full = new_table(session, name, catalog)
    values = "id, concat('k', id % 10), IF(id % 10 = 0, NULL, CAST(id % 7 AS INT))"
    session(f"INSERT INTO {full} SELECT {values} FROM range({rows})")
    return full


def table_of(session: Spark, full: str) -> Table:
    catalog, _, name = full.partition(".")
    return session.lake(catalog).table(name)


def counts(session: Spark, full: str, snapshot: int | None = None) -> dict[str, int]:
    table = table_of(session, full)
    snapshot_id = table.metadata.current_snapshot_id if snapshot is None else snapshot
    return {
        table.schema.name_of(blob.fields[0]): int(blob.properties["ndv"])
        for file in table.metadata.statistics
        if file.snapshot_id == snapshot_id
        for blob in file.blob_metadata
    }


# what is counted --------------------------------------------------------------------------------------------------


def test_rows_and_size_need_no_counting(session: Spark, catalog: str) -> None:
    full = filled(session, "sizes", catalog)
    before = table_of(session, full).metadata_location
    assert session(f"ANALYZE TABLE {full} COMPUTE STATISTICS") == []
    assert session(f"ANALYZE TABLE {full} COMPUTE STATISTICS NOSCAN") == []
    assert table_of(session, full).metadata_location == before
    description = {row[0]: row[1] for row in session(f"DESCRIBE EXTENDED {full}")}
    assert "1000 rows" in description["Statistics"]


def test_some_columns_and_all(session: Spark, catalog: str) -> None:
    full = filled(session, "columns", catalog)
    assert session(f"ANALYZE TABLE {full} COMPUTE STATISTICS FOR COLUMNS id, K") == []
    assert counts(session, full) == {"id": 1_000, "k": 10}
    session(f"ANALYZE TABLE {full} COMPUTE STATISTICS FOR COLUMNS n")
    assert counts(session, full) == {"id": 1_000, "k": 10, "n": 7}
    session(f"INSERT INTO {full} VALUES (5000, 'new', 50)")
    session(f"ANALYZE TABLE {full} COMPUTE STATISTICS FOR ALL COLUMNS")
    assert counts(session, full) == {"id": 1_001, "k": 11, "n": 8}


def test_names_are_looked_up_as_in_any_statement(session: Spark) -> None:
    full = filled(session, "named")
    session(f"USE lake.{NAMESPACE}")
    try:
        session("ANALYZE TABLE named COMPUTE STATISTICS FOR COLUMNS n")
    finally:
        session("USE spark_catalog.default")
    assert counts(session, full) == {"n": 7}


@pytest.mark.parametrize("version", [2, 3])
def test_deleted_rows_are_not_counted(session: Spark, version: int) -> None:
    full = filled(session, f"deleted_{version}")
    session(
        f"ALTER TABLE {full} SET TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')"
    )
    session(f"DELETE FROM {full} WHERE k <> 'k3'")
    session(f"ANALYZE TABLE {full} COMPUTE STATISTICS FOR ALL COLUMNS")
    assert counts(session, full) == {"id": 100, "k": 1, "n": 7}


@pytest.mark.parametrize("files", [5, 20])
def test_many_files_in_many_tasks_are_counted_together(session: Spark, files: int) -> None:
    full = new_table(session, f"many_{files}")
    table = table_of(session, full)
    step = 40_000 // files
    for begin in range(0, 40_000, step):  # each has half of the next one's numbers
        ids = range(begin, begin + 2 * step)
        table.append(pa.table({"id": ids, "k": [f"k{n % 50}" for n in ids], "n": pa.nulls(2 * step, pa.int32())}))
    session(f"ALTER TABLE {full} SET TBLPROPERTIES ('read.split.open-file-cost' = '134217728')")  # a file for each task
    session(f"ANALYZE TABLE {full} COMPUTE STATISTICS FOR ALL COLUMNS")
    expected = ThetaSketch.of(value_hashes_of(struct.pack("<q", n) for n in range(40_000 + step)))
    assert counts(session, full) == {"id": expected.estimate, "k": 50, "n": 0}


def test_types_that_spark_does_not_have(session: Spark) -> None:
    table = session.lake().create_table(f"{NAMESPACE}.others", "u uuid, t time, f fixed[2]", format_version=3)
    table.append(
        pa.table(
            {
                "u": pa.array([bytes(16), bytes(15) + b"x", bytes(16)], pa.binary(16)),
                "t": pa.array([1, 2, 3], pa.time64("us")),
                "f": pa.array([b"ab", b"ab", None], pa.binary(2)),
            }
        )
    )
    session(f"ANALYZE TABLE lake.{NAMESPACE}.others COMPUTE STATISTICS FOR ALL COLUMNS")
    assert counts(session, f"lake.{NAMESPACE}.others") == {"u": 2, "t": 3, "f": 1}


def test_a_table_without_rows(session: Spark) -> None:
    full = new_table(session, "empty")
    session(f"ANALYZE TABLE {full} COMPUTE STATISTICS FOR ALL COLUMNS")
    assert session(f"CALL lake.system.compute_table_stats('{NAMESPACE}.empty')") == []
    assert table_of(session, full).metadata.statistics == ()


def test_a_branch(session: Spark) -> None:
    full = filled(session, "branched", rows=20)
    session(f"ALTER TABLE {full} CREATE BRANCH other")
    session(f"INSERT INTO {full}.branch_other VALUES (100, 'x', 1)")
    session(f"ANALYZE TABLE {full}.branch_other COMPUTE STATISTICS FOR COLUMNS id")
    table = table_of(session, full)
    assert counts(session, full, table.refs["other"].snapshot_id) == {"id": 21}
    assert counts(session, full) == {}


def test_what_cannot_be_analyzed(session: Spark) -> None:
    full = new_table(session, "refused", columns="id BIGINT, s STRUCT<a: INT>")
    session(f"INSERT INTO {full} VALUES (1, named_struct('a', 1))")
    with pytest.raises(PySparkException, match="does not take a PARTITION"):
        session(f"ANALYZE TABLE {full} PARTITION (id = 1) COMPUTE STATISTICS")
    with pytest.raises(PySparkException, match="no column is named 'nope'"):
        session(f"ANALYZE TABLE {full} COMPUTE STATISTICS FOR COLUMNS nope")
    with pytest.raises(PySparkException, match="cannot be counted"):
        session(f"ANALYZE TABLE {full} COMPUTE STATISTICS FOR COLUMNS s")
    with pytest.raises(AnalysisException, match="not supported for v2 tables"):
        session(f"ANALYZE TABLE {full}.files COMPUTE STATISTICS")
    with pytest.raises(AnalysisException):
        session(f"ANALYZE TABLE lake.{NAMESPACE}.nowhere COMPUTE STATISTICS")
    assert table_of(session, full).metadata.statistics == ()


def test_explain_counts_nothing(session: Spark) -> None:
    full = filled(session, "explained", rows=10)
    plan = session.explained(f"ANALYZE TABLE {full} COMPUTE STATISTICS FOR COLUMNS id, k")
    assert f"ANALYZE TABLE {full}: id, k" in plan
    assert table_of(session, full).metadata.statistics == ()


def test_tables_of_others_are_analyzed_by_spark(session: Spark) -> None:
    session("CREATE TABLE spark_catalog.default.others USING parquet AS SELECT id FROM range(7)")
    try:
        session("ANALYZE TABLE spark_catalog.default.others COMPUTE STATISTICS")
        description = {row[0]: row[1] for row in session("DESCRIBE EXTENDED spark_catalog.default.others")}
        assert "7 rows" in description["Statistics"]
    finally:
        session("DROP TABLE spark_catalog.default.others")


def test_all_tables_of_a_namespace(session: Spark, catalog: str) -> None:
    assert session(f"ANALYZE TABLES IN {catalog}.{NAMESPACE} COMPUTE STATISTICS") == []
    with pytest.raises(PySparkException, match="nowhere"):
        session(f"ANALYZE TABLES IN {catalog}.nowhere COMPUTE STATISTICS NOSCAN")


# the procedure ----------------------------------------------------------------------------------------------------


def test_the_procedure(session: Spark, catalog: str) -> None:
    full = filled(session, "called", catalog)
    first = table_of(session, full).metadata.current_snapshot_id
    session(f"INSERT INTO {full} VALUES (5000, 'new', 50)")
    call = f"CALL {catalog}.system.compute_table_stats"
    ((path,),) = session(f"{call}(table => '{NAMESPACE}.called', columns => array('k', 'n'))")
    table = table_of(session, full)
    assert [path] == [file.statistics_path for file in table.metadata.statistics]
    assert counts(session, full) == {"k": 11, "n": 8}
    ((path,),) = session(f"{call}('{NAMESPACE}.called', {first})")
    assert path.rpartition("/")[2].startswith(f"{first}-")
    assert counts(session, full, first) == {"id": 1_000, "k": 10, "n": 7}
    assert counts(session, full) == {"k": 11, "n": 8}


def test_the_procedure_counts_inside_structs(session: Spark) -> None:
    full = new_table(session, "nested", columns="s STRUCT<a: INT, b: STRUCT<c: STRING>>")
    session(f"INSERT INTO {full} SELECT named_struct('a', id % 3, 'b', named_struct('c', id % 4)) FROM range(20)")
    session(f"CALL lake.system.compute_table_stats(table => '{NAMESPACE}.nested', columns => array('s.a', 's.b.c'))")
    assert counts(session, full) == {"s.a": 3, "s.b.c": 4}


def test_wrong_calls_of_the_procedure(session: Spark) -> None:
    filled(session, "wrong", rows=5)
    call = f"CALL lake.system.compute_table_stats(table => '{NAMESPACE}.wrong', "
    with pytest.raises(PySparkException, match="columns are names of columns"):
        session(f"{call} columns => array())")
    with pytest.raises(PySparkException, match="no column is named"):
        session(f"{call} columns => array('nope'))")
    with pytest.raises(PySparkException, match="17"):
        session(f"{call} snapshot_id => 17)")


# what Spark makes of it -------------------------------------------------------------------------------------------


@pytest.fixture
def by_costs(session: Spark) -> Iterator[None]:
    """Spark plans by costs."""
    session.session.conf.set("spark.sql.cbo.enabled", True)
    yield
    session.session.conf.unset("spark.sql.cbo.enabled")


def expected_rows(session: Spark, query: str) -> int:
    """How many rows Spark expects a query to give."""
    frame: Any = session.session.sql(query)
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().rowCount().get()))


@pytest.fixture(scope="module")
def counted(session: Spark) -> str:
    full = filled(session, "counted")
    session(f"ANALYZE TABLE {full} COMPUTE STATISTICS FOR ALL COLUMNS")
    return full


@pytest.mark.usefixtures("by_costs")
def test_filters_and_groups_are_estimated(session: Spark, counted: str) -> None:
    assert expected_rows(session, f"SELECT * FROM {counted} WHERE k = 'k3'") == 100
    assert expected_rows(session, f"SELECT * FROM {counted} WHERE id < 250") == pytest.approx(250, abs=2)
    assert expected_rows(session, f"SELECT * FROM {counted} WHERE n IS NULL") == 100
    assert expected_rows(session, f"SELECT k, n, count(*) FROM {counted} GROUP BY k, n") == 80  # null is a group
    told = session.one(f"EXPLAIN COST SELECT * FROM {counted} WHERE k = 'k3'")
    assert "rowCount=100" in told


@pytest.mark.usefixtures("by_costs")
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_reads_with_deletes_are_estimated(session: Spark, file_format: str) -> None:
    """Whether Spark's reader reads or the Arrow reader, or both."""
    full = filled(session, f"estimated_{file_format}", rows=500)
    properties = f"'write.delete.mode' = 'merge-on-read', 'write.format.default' = '{file_format}'"
    session(f"ALTER TABLE {full} SET TBLPROPERTIES ({properties})")
    session(f"INSERT INTO {full} SELECT id, concat('k', id % 10), CAST(id % 7 AS INT) FROM range(500, 1000)")
    session(f"DELETE FROM {full} WHERE id % 100 = 7")
    session(f"ANALYZE TABLE {full} COMPUTE STATISTICS FOR ALL COLUMNS")
    assert counts(session, full) == {"id": 990, "k": 10, "n": 7}
    assert expected_rows(session, f"SELECT k FROM {full} WHERE k = 'k3'") == pytest.approx(99, abs=10)
    assert session.one(f"SELECT count(*) FROM {full} WHERE k = 'k3'") == 100


@pytest.mark.usefixtures("by_costs")
def test_joins_are_estimated(session: Spark, counted: str) -> None:
    other = new_table(session, "other_side", columns="k STRING, id BIGINT")
    session(f"INSERT INTO {other} SELECT concat('k', id % 5), id * 2 FROM range(20)")
    session(f"ANALYZE TABLE {other} COMPUTE STATISTICS FOR ALL COLUMNS")
    # rows of one times rows of the other, by the greater number of different values
    assert expected_rows(session, f"SELECT * FROM {counted} t JOIN {other} o ON t.k = o.k") == 1_000 * 20 // 10
    # numbers from 0 to 999 and from 0 to 38: only the part that both have counts
    found = expected_rows(session, f"SELECT * FROM {counted} t JOIN {other} o ON t.id = o.id")
    assert 1 <= found <= 40


@pytest.mark.usefixtures("by_costs")
def test_joins_are_reordered(session: Spark, counted: str) -> None:
    """The join that leaves few rows comes first, which Spark cannot know without counts."""
    names = {"many": (1_000, 2), "few": (1_000, 1_000)}
    for name, (rows, different) in names.items():
        full = new_table(session, name + "_matches", columns="id BIGINT")
        session(f"INSERT INTO {full} SELECT id % {different} FROM range({rows})")
        session(f"ANALYZE TABLE {full} COMPUTE STATISTICS FOR ALL COLUMNS")
    session.session.conf.set("spark.sql.cbo.joinReorder.enabled", True)
    try:
        many, few = (f"lake.{NAMESPACE}.{name}_matches" for name in names)
        frame: Any = session.session.sql(
            f"SELECT count(*) FROM {counted} t JOIN {many} m ON t.n = m.id JOIN {few} f ON t.id = f.id"
        )
        plan = frame._jdf.queryExecution().optimizedPlan().toString()
    finally:
        session.session.conf.unset("spark.sql.cbo.joinReorder.enabled")
    lines = {name: line for line in plan.splitlines() for name in ("many_matches", "few_matches") if name in line}
    depth = {name: len(line) - len(line.lstrip(" :+-|")) for name, line in lines.items()}
    assert depth["few_matches"] > depth["many_matches"]


@pytest.mark.usefixtures("by_costs")
def test_columns_are_described(session: Spark, counted: str) -> None:
    description = dict(session(f"DESCRIBE EXTENDED {counted} n"))
    assert (description["distinct_count"], description["num_nulls"]) == ("7", "100")
    assert ("0" in description["min"], "6" in description["max"]) == (True, True)


@pytest.mark.usefixtures("by_costs")
def test_counts_are_those_of_the_snapshot_that_is_read(session: Spark) -> None:
    full = filled(session, "moved_on")
    session(f"ANALYZE TABLE {full} COMPUTE STATISTICS FOR ALL COLUMNS")
    first = table_of(session, full).metadata.current_snapshot_id
    session(f"INSERT INTO {full} VALUES (5000, 'new', 50)")
    grouped = "SELECT k, count(*) FROM {} GROUP BY k"
    assert expected_rows(session, grouped.format(f"{full} VERSION AS OF {first}")) == 10
    frame: Any = session.session.sql(f"SELECT * FROM {full}")
    assert frame._jdf.queryExecution().optimizedPlan().stats().attributeStats().isEmpty()


@pytest.mark.usefixtures("by_costs")
def test_types_that_spark_cannot_estimate_by(session: Spark) -> None:
    """Spark fails when it is told of a time without a zone, and misjudges numbers without a range."""
    columns = "t TIMESTAMP_NTZ, d DOUBLE, e DECIMAL(20, 3), z TIMESTAMP, y DATE, b BOOLEAN, nothing INT, unbounded INT"
    full = new_table(session, "kinds", columns=columns)
    session(f"ALTER TABLE {full} SET TBLPROPERTIES ('write.metadata.metrics.column.unbounded' = 'counts')")
    values = (
        "CAST(timestamp_seconds(id) AS TIMESTAMP_NTZ), IF(id = 3, double('NaN'), id), CAST(id AS DECIMAL(20, 3)) / 4, "
        "timestamp_seconds(id), date_add(DATE '2020-01-01', CAST(id AS INT)), id % 2 = 0, NULL, CAST(id AS INT)"
    )
    session(f"INSERT INTO {full} SELECT {values} FROM range(100)")
    session(f"ANALYZE TABLE {full} COMPUTE STATISTICS FOR ALL COLUMNS")
    conditions = {
        "t > TIMESTAMP_NTZ '1970-01-01 00:00:05'": None,
        "d > 1": None,
        "e < 12.5": 50,
        "z < TIMESTAMP '1970-01-01 00:00:50'": 50,
        "y < DATE '2020-02-20'": 50,
        "b": None,
        "nothing = 1": 0,
        "unbounded = 7": None,
    }
    for condition, rows in conditions.items():
        found = expected_rows(session, f"SELECT * FROM {full} WHERE {condition}")
        assert found == (100 if rows is None else pytest.approx(rows, abs=2)), condition
        session(f"SELECT * FROM {full} WHERE {condition}")


def test_nothing_is_told_where_it_is_of_no_use(session: Spark, counted: str) -> None:
    def has_column_statistics(query: str) -> bool:
        frame: Any = session.session.sql(query)
        return not frame._jdf.queryExecution().optimizedPlan().stats().attributeStats().isEmpty()

    conf = session.session.conf
    assert not has_column_statistics(f"SELECT * FROM {counted}")
    conf.set("spark.sql.cbo.enabled", True)
    try:
        assert has_column_statistics(f"SELECT * FROM {counted}")
        assert not has_column_statistics(f"SELECT * FROM {counted} WITH (`report-column-stats` = 'false')")
        conf.set("spark.sql.iceberg.report-column-stats", False)
        assert not has_column_statistics(f"SELECT * FROM {counted}")
    finally:
        conf.unset("spark.sql.iceberg.report-column-stats")
        conf.unset("spark.sql.cbo.enabled")


# DataSketches -----------------------------------------------------------------------------------------------------

VALUES = {
    "none": [],
    "one": [b"iceberg"],
    "texts": [f"text {n}".encode() * (n % 9) for n in range(100)],
    "exact": [struct.pack("<q", n) for n in range(4096)],
    "many": [struct.pack("<q", n) for n in range(9_000)],
}


@pytest.mark.parametrize("name", VALUES)
def test_sketches_are_those_of_datasketches(session: Spark, name: str) -> None:
    """The library that Java's Iceberg uses is on Spark's own class path."""
    theta: Any = session.session._jvm.org.apache.datasketches.theta
    theirs = theta.UpdateSketch.builder().build()
    for value in VALUES[name]:
        theirs.update(bytearray(value))
    union = theta.SetOperation.builder().buildUnion()
    union.union(theirs)
    ours = ThetaSketch.of(value_hashes_of(VALUES[name]))
    assert bytes(union.getResult().toByteArray()) == ours.serialize()
    assert ThetaSketch.deserialize(bytes(union.getResult().toByteArray())) == ours
    memory: Any = session.session._jvm.org.apache.datasketches.memory.Memory
    read = theta.Sketches.heapifySketch(memory.wrap(bytearray(ours.serialize())))
    assert (read.getRetainedEntries(), int(read.getEstimate())) == (len(ours.hashes), ours.estimate)
    if name == "texts":  # what was written with DataSketches alone, in whatever order
        assert ThetaSketch.deserialize(bytes(theirs.compact(False, None).toByteArray())) == ours
