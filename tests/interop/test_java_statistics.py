"""Statistics of columns: Java's `compute_table_stats` and Floe's count the same, and each reads the other's files."""

import re
from typing import Any

import pytest

from floe import Table
from floe.formats.registry import default_registry
from floe.spark.bridge.jvm import jvm_of
from floe.spark.bridge.sessions import activate
from floe.spark.session import FloeSession
from floe.spec.codecs.theta_sketches import ThetaSketch
from helpers.java_catalogs import JavaCatalogs, Shared

# Spark's own Python side leaves sockets to the garbage collector
pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

COLUMNS = {
    "a_boolean": ("boolean", "id % 2 = 0"),
    "an_int": ("int", "CAST(id % 11 - 5 AS INT)"),
    "a_long": ("bigint", "id"),
    "a_float": ("float", "CAST(id % 13 AS FLOAT) / 4"),
    "a_double": ("double", "CAST(id % 17 AS DOUBLE) / 3"),
    "a_decimal": ("decimal(9, 2)", "CAST(id % 19 - 9 AS DECIMAL(9, 2)) * 100"),
    "a_wide_decimal": ("decimal(38, 10)", "CAST(id % 23 - 11 AS DECIMAL(38, 10)) * 1234567890123"),
    "a_date": ("date", "date_add(DATE '1969-12-20', CAST(id % 29 AS INT))"),
    "a_timestamp": ("timestamp", "CAST(timestamp_seconds(id % 31 - 15) AS TIMESTAMP_NTZ)"),
    "a_timestamptz": ("timestamptz", "timestamp_seconds(id % 37 - 15)"),
    "a_string": ("string", "repeat('ä', CAST(id % 41 AS INT))"),  # one of them is empty
    "a_binary": ("binary", "CAST(repeat('x', CAST(id % 43 AS INT)) AS BINARY)"),
    "some_nulls": ("int", "IF(id % 2 = 0, NULL, CAST(id % 47 AS INT))"),
    "only_nulls": ("string", "CAST(NULL AS STRING)"),
    "one_value": ("string", "'always'"),
}


@pytest.fixture(scope="module")
def shared(java_catalogs: JavaCatalogs) -> Shared:
    found = java_catalogs.new("files")
    found.lake.create_namespace("counted")
    return found


@pytest.fixture(scope="module")
def session(shared: Shared) -> FloeSession:
    return shared.session()


def make(shared: Shared, session: FloeSession, name: str, rows: int) -> Table:
    columns = ", ".join(f"{column} {kind}" for column, (kind, _) in COLUMNS.items())
    table = shared.lake.create_table(f"counted.{name}", columns)
    values = ", ".join(value for _, value in COLUMNS.values())
    session.sql(f"INSERT INTO {shared.floe_key}.counted.{name} SELECT {values} FROM range(0, {rows}, 1, 3)")
    return table


def sketches(table: Table) -> dict[str, tuple[int, ThetaSketch]]:
    """The counts and sketches of the current snapshot, by the names of columns."""
    table.refresh()
    (file,) = (one for one in table.metadata.statistics if one.snapshot_id == table.metadata.current_snapshot_id)
    reader = default_registry().read_puffin(table.storage, file.statistics_path, file_size=file.file_size_in_bytes)
    assert [one.properties for one in reader.blobs] == [one.properties for one in file.blob_metadata]
    return {
        table.schema.name_of(blob.fields[0]): (
            int(blob.properties["ndv"]),
            ThetaSketch.deserialize(reader.read(blob)),
        )
        for blob in reader.blobs
    }


def computed(session: FloeSession, catalog: str, table: Table) -> dict[str, tuple[int, ThetaSketch]]:
    ((path,),) = session.sql(f"CALL {catalog}.system.compute_table_stats(table => '{table.name}')").collect()
    found = sketches(table)
    assert any(one.statistics_path == path for one in table.metadata.statistics)
    return found


def test_both_count_the_same(shared: Shared, session: FloeSession) -> None:
    table = make(shared, session, "few", 3_000)
    session.sql(f"DELETE FROM {shared.floe_key}.{table.name} WHERE a_long % 10 = 3")
    theirs = computed(session, shared.key, table)
    ours = computed(session, shared.floe_key, table)
    assert set(ours) == set(theirs) == set(COLUMNS)
    assert theirs["a_long"][0] == 2_700
    assert ours == theirs


def test_both_count_many_values_about(shared: Shared, session: FloeSession) -> None:
    table = make(shared, session, "many", 60_000)
    theirs = computed(session, shared.key, table)
    ours = computed(session, shared.floe_key, table)
    for found in (ours, theirs):
        assert found["a_long"][0] == pytest.approx(60_000, rel=0.05)
    exact = set(COLUMNS) - {"a_long"}
    assert {name: ours[name] for name in exact} == {name: theirs[name] for name in exact}
    # hashes are the same, so those that both have room for are
    (_, one), (_, other) = ours["a_long"], theirs["a_long"]
    theta = min(one.theta, other.theta)
    assert [h for h in one.hashes.tolist() if h < theta] == [h for h in other.hashes.tolist() if h < theta]


def expected_rows(session: FloeSession, query: str) -> int:
    """How many rows Spark expects of a query when it plans by costs."""
    session.conf.set("spark.sql.cbo.enabled", "true")
    try:
        told = str(session.sql(f"EXPLAIN COST {query}").collect()[0][0])
    finally:
        session.conf.unset("spark.sql.cbo.enabled")
    found = re.search(r"rowCount=(\S+)\)", told)
    assert found is not None, told
    return round(float(found[1]))


def test_java_reads_what_floe_writes(shared: Shared, session: FloeSession) -> None:
    table = make(shared, session, "ours", 1_000)
    session.sql(f"ANALYZE TABLE {shared.floe_key}.{table.name} COMPUTE STATISTICS FOR ALL COLUMNS")
    (file,) = table.refresh().metadata.statistics
    java: Any = session._jvm
    input_file = java.org.apache.iceberg.Files.localInput(file.statistics_path)
    reader = java.org.apache.iceberg.puffin.Puffin.read(input_file).build()
    found = {}
    pairs = reader.readAll(reader.fileMetadata().blobs()).iterator()
    while pairs.hasNext():
        pair = pairs.next()
        data = bytearray(java.org.apache.iceberg.util.ByteBuffers.toByteArray(pair.second()))
        memory = java.org.apache.datasketches.memory.Memory.wrap(data)
        sketch = java.org.apache.datasketches.theta.Sketches.heapifySketch(memory)
        found[table.schema.name_of(pair.first().inputFields()[0])] = int(sketch.getEstimate())
    assert found == {name: count for name, (count, _) in sketches(table).items()}
    session.conf.set("spark.sql.cbo.enabled", "true")
    try:
        with activate(jvm_of(session), session._jsparkSession):
            for column in ("a_string", "an_int"):
                frame: Any = session.sql(f"SELECT {column} FROM {shared.key}.{table.name}")
                told = frame._jdf.queryExecution().optimizedPlan().stats().attributeStats().toString()
                assert f"ColumnStat(Some({found[column]})" in told
    finally:
        session.conf.unset("spark.sql.cbo.enabled")


def test_floe_uses_what_java_writes(shared: Shared, session: FloeSession) -> None:
    table = make(shared, session, "theirs", 1_000)
    call = f"CALL {shared.key}.system.compute_table_stats"
    session.sql(f"{call}(table => '{table.name}', columns => array('an_int', 'one_value'))")
    rows = expected_rows(session, f"SELECT * FROM {shared.floe_key}.{table.name} WHERE an_int = 3")
    assert rows == pytest.approx(1_000 / 11, abs=1)
    session.sql(f"ANALYZE TABLE {shared.floe_key}.{table.name} COMPUTE STATISTICS FOR COLUMNS a_long")
    kept = {name: count for name, (count, _) in sketches(table).items()}
    assert kept == {"a_long": 1_000, "an_int": 11, "one_value": 1}
