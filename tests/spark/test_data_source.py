"""The data source `iceberg` for sessions that Floe did not make: batches and streams, by path and by name."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

import floe
from floe.spark.data_source import IcebergDataSource
from floe.table.table import Table
from helpers.spark import Spark

FORMAT = "iceberg_elsewhere"


class Elsewhere(IcebergDataSource):
    """The data source as other sessions have it; that of this session's name may be another."""

    @classmethod
    def name(cls) -> str:
        return FORMAT


@pytest.fixture(scope="module")
def spark(session: Spark) -> Iterator[Any]:
    here = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(here)  # workers do not have the tests
    session.session.dataSource.register(Elsewhere)
    yield session.session
    cloudpickle.unregister_pickle_by_value(here)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    lake = floe.connect(tmp_path / "wh")
    lake.create_namespace("db")
    return lake.create_table("db.t", "id bigint, name string", partition_by=["bucket(2, id)"])


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


@pytest.mark.slow
def test_batches_by_path_and_by_name(spark: Any, tmp_path: Path, table: Table) -> None:
    table.append([{"id": 1, "name": "a"}])
    frame = spark.createDataFrame([(2, "b"), (3, None)], "id bigint, name string")
    catalog = str(tmp_path / "wh")
    frame.write.format(FORMAT).mode("append").option("catalog", catalog).save("db.t")
    expected = [(1, "a"), (2, "b"), (3, None)]
    assert rows(spark.read.format(FORMAT).load(table.location)) == expected
    assert rows(spark.read.format(FORMAT).option("catalog", catalog).load("db.t")) == expected
    frame.write.format(FORMAT).mode("overwrite").save(table.location)
    assert rows(spark.read.format(FORMAT).load(table.location)) == expected[1:]


def test_an_unknown_table_is_told(spark: Any, tmp_path: Path, table: Table) -> None:
    with pytest.raises(PySparkException, match="there is no such table"):
        spark.read.format(FORMAT).option("catalog", str(tmp_path / "wh")).load("db.nowhere")


@pytest.mark.skipif(not hasattr(DataSourceReader, "pushFilters"), reason="Spark pushes filters from 4.1 on")
def test_filters_leave_out_files_when_the_option_says_so(table: Table) -> None:
    for number in range(4):
        table.append([{"id": number, "name": "a"}])

    def files(**options: str) -> int:
        reader: Any = Elsewhere({"path": table.location, "split-size": "1", **options}).reader(StructType())
        if "pushFilters" in dir(type(reader)) and type(reader).pushFilters is not DataSourceReader.pushFilters:
            reader.pushFilters([datasource.EqualTo(("id",), 2)])
        return len(reader.partitions())

    assert (files(), files(**{"push-filters": "false"}), files(**{"push-filters": "true"})) == (4, 4, 1)


def read_stream(spark: Any, where: str, checkpoint: Path, **options: Any) -> list[list[tuple[Any, ...]]]:
    batches: list[list[tuple[Any, ...]]] = []
    stream = spark.readStream.format(FORMAT).options(**{k.replace("_", "-"): v for k, v in options.items()}).load(where)
    query = stream.writeStream.foreachBatch(lambda batch, _: batches.append(rows(batch)))
    query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    return [batch for batch in batches if batch]


@pytest.mark.slow
def test_streams_read_each_row_once(spark: Any, session: Spark, tmp_path: Path, table: Table) -> None:
    checkpoint = tmp_path / "checkpoint"
    table.append([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    table.append([{"id": 3, "name": "c"}])
    batches = read_stream(spark, table.location, checkpoint, streaming_max_files_per_micro_batch="1")
    assert sorted(row for batch in batches for row in batch) == [(1, "a"), (2, "b"), (3, "c")]
    if session.version >= (4, 2):  # before, Spark does not say where a batch begins
        assert len(batches) == sum(int((one.summary or {})["added-data-files"]) for one in table.snapshots)
    table.append([{"id": 4, "name": "d"}])
    assert read_stream(spark, table.location, checkpoint) == [[(4, "d")]]
    table.delete("id = 1")
    with pytest.raises(StreamingQueryException, match="streaming-skip-"):
        read_stream(spark, table.location, checkpoint)


@pytest.mark.slow
def test_streams_are_written_once(spark: Any, tmp_path: Path, table: Table) -> None:
    lake = floe.connect(tmp_path / "wh")
    target = lake.create_table("db.copy", "name string, id bigint, more int")
    checkpoint = tmp_path / "checkpoint"

    def copy() -> None:
        stream = spark.readStream.format(FORMAT).load(table.location)
        query = stream.writeStream.format(FORMAT).option("checkpointLocation", str(checkpoint))
        query.option("path", target.location).trigger(availableNow=True).start().awaitTermination()

    table.append([{"id": 1, "name": "a"}])
    copy()
    for file in (checkpoint / "commits").iterdir():  # the table has the epoch, and the checkpoint does not say so
        file.unlink()
    copy()
    table.append([{"id": 2, "name": "b"}])
    copy()
    found = target.refresh().scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["name"], row["more"]) for row in found) == [(1, "a", None), (2, "b", None)]


@pytest.mark.slow
def test_a_stream_without_a_known_checkpoint_is_not_written(spark: Any, tmp_path: Path, table: Table) -> None:
    table.append([{"id": 1, "name": "a"}])
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "all"))
    try:
        stream = spark.readStream.format(FORMAT).load(table.location)
        query = stream.writeStream.format(FORMAT).option("path", table.location).trigger(availableNow=True)
        with pytest.raises(StreamingQueryException, match="checkpointLocation"):
            query.start().awaitTermination()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    assert len(table.refresh().snapshots) == 1


# in sessions with lakes -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def named(session: Spark) -> str:
    session("CREATE NAMESPACE IF NOT EXISTS lake.formats")
    session("CREATE TABLE lake.formats.t AS SELECT id, id % 3 AS k FROM range(10)")
    return "lake.formats.t"


def test_formats_name_tables_of_the_catalogs(session: Spark, named: str) -> None:
    spark: Any = session.session
    expected = [(n, n % 3) for n in range(10)]
    frame = spark.read.format("iceberg").load(named)
    assert rows(frame) == expected
    assert "Spark's Parquet reader" in session.explained(f"SELECT * FROM {named}")
    assert "Spark's Parquet reader" in frame._jdf.queryExecution().toString()
    assert rows(frame.where("id = 7").select("k")) == [(1,)]
    assert rows(spark.read.format("iceberg").load(f"{named}.snapshots").select("operation")) == [("append",)]
    location = session.lake().table("formats.t").location
    assert rows(spark.read.format("iceberg").load(location)) == expected
    assert rows(spark.read.format("iceberg").load(f"{location}#files").select("record_count"))[0][0] > 0
    session("USE lake.formats")
    try:
        assert rows(spark.read.format("iceberg").load("t")) == expected
    finally:
        session("USE spark_catalog.default")


def test_formats_write_and_travel(session: Spark) -> None:
    spark: Any = session.session
    session("CREATE NAMESPACE IF NOT EXISTS lake.formats")
    session("CREATE TABLE lake.formats.written (id BIGINT, k BIGINT)")
    spark.range(3).selectExpr("id", "id AS k").write.format("iceberg").mode("append").save("lake.formats.written")
    first = session.lake().table("formats.written").current_snapshot
    assert first is not None
    spark.range(9, 10).selectExpr("id", "id AS k").write.format("iceberg").mode("overwrite").save(
        "lake.formats.written"
    )
    assert session("SELECT * FROM lake.formats.written") == [(9, 9)]
    old = spark.read.format("iceberg").option("snapshot-id", first.snapshot_id).load("lake.formats.written")
    assert rows(old) == [(0, 0), (1, 1), (2, 2)]
    with pytest.raises(PySparkException, match="there is no such table"):
        spark.read.format("iceberg").load("lake.formats.nowhere")


def test_formats_stream(session: Spark, tmp_path: Path, named: str) -> None:
    session("CREATE TABLE lake.formats.streamed (id BIGINT, k BIGINT)")
    stream = session.session.readStream.format("iceberg").load(named)
    query = stream.writeStream.format("iceberg").option("checkpointLocation", str(tmp_path))
    query.trigger(availableNow=True).start("lake.formats.streamed").awaitTermination()
    assert session.sorted("SELECT * FROM lake.formats.streamed") == session.sorted(f"SELECT * FROM {named}")
