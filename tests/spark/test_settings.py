"""Settings and options of Iceberg on Spark: they work, or are told once, or are refused."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import floe
from floe import errors
from floe.spark.bridge.jvm import jvm_of
from floe.spark.names import AsOf
from floe.spark.read.changes import change_range
from floe.spark.read.scan_source import ScanSource, apply_read_options
from floe.spark.settings import (
    CATALOG_SETTINGS,
    HADOOP_SETTINGS,
    READ_OPTIONS,
    SESSION_SETTINGS,
    WRITE_OPTIONS,
    check_all_settings,
    check_catalog_settings,
    check_read_options,
    check_write_options,
)
from floe.spark.streaming.source import stream_options
from floe.spark.write.options import write_options
from floe.spec.setting_types import Setting
from helpers.spark import Spark


@contextmanager
def set_to(session: Spark, settings: dict[str, str]) -> Iterator[None]:
    for name, value in settings.items():
        session.session.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            session.session.conf.unset(name)


@pytest.fixture(scope="module")
def rows(session: Spark) -> str:
    """A table of four files."""
    session("CREATE NAMESPACE IF NOT EXISTS lake.settings")
    session("CREATE OR REPLACE TABLE lake.settings.t (id BIGINT) TBLPROPERTIES ('read.split.open-file-cost' = '0')")
    table = session.lake().table("settings.t")
    for number in range(4):
        table.append([{"id": number}])
    return "lake.settings.t"


def test_aggregates_are_pushed_down_unless_it_is_turned_off(session: Spark, rows: str) -> None:
    query = f"SELECT count(*), max(id) FROM {rows}"
    assert "LocalTableScan" in session.explained(query)
    with set_to(session, {"spark.sql.iceberg.aggregate-push-down.enabled": "false"}):
        assert "LocalTableScan" not in session.explained(query)
        assert session(query) == [(4, 3)]
        frame = session.session.read.option("aggregate-push-down-enabled", "true").table(rows)
        assert "LocalTableScan" in frame.groupBy().count()._jdf.queryExecution().toString()
    frame = session.session.read.option("aggregate-push-down-enabled", "false").table(rows)
    assert "LocalTableScan" not in frame.groupBy().count()._jdf.queryExecution().toString()


def test_the_size_of_splits(session: Spark, rows: str) -> None:
    def tasks(**options: str) -> int:
        return int(session.session.read.options(**options).table(rows).rdd.getNumPartitions())

    size = session.lake().table("settings.t").inspect.files()["file_size_in_bytes"][0].as_py()
    assert tasks() == 1
    with set_to(session, {"spark.sql.iceberg.read.split-size": str(size)}):
        assert tasks() == 4
        assert tasks(**{"split-size": str(4 * size)}) == 1
    assert tasks(**{"file-open-cost": str(2**40)}) == 4
    session(f"ALTER TABLE {rows} SET TBLPROPERTIES ('read.split.target-size' = '{4 * size}')")
    source = session.session.table(rows)  # what is less than 16 MB is not made smaller for more readers
    assert source.rdd.getNumPartitions() == 1
    session(f"ALTER TABLE {rows} UNSET TBLPROPERTIES ('read.split.target-size')")


def test_adaptive_splits(session: Spark, rows: str) -> None:
    table = session.lake().table("settings.t")
    total, enabled = 2**30, "spark.sql.iceberg.read.adaptive-split-size.enabled"

    def size(settings: dict[str, str]) -> int:
        source = apply_read_options(ScanSource("t", table, AsOf(), table.schema), {}, settings)
        return source.split_settings(total, 16).target_size

    assert size({}) == 64 * 2**20
    assert size({"spark.sql.iceberg.read.adaptive-split-size.parallelism": "32"}) == 32 * 2**20
    assert size({enabled: "false"}) == 128 * 2**20
    table.set_properties({"read.split.adaptive-size.enabled": "false"})
    assert size({}) == 128 * 2**20
    assert size({enabled: "true"}) == 64 * 2**20
    table.remove_properties("read.split.adaptive-size.enabled")


def test_defaults_of_a_catalog(session: Spark, rows: str) -> None:
    prefix = "spark.sql.catalog.lake."
    settings = {
        f"{prefix}table-default.a": "1", f"{prefix}table-override.b": "2", f"{prefix}table-default.c": "3",
        f"{prefix}default-namespace": "settings",
    }  # fmt: skip
    with set_to(session, settings):
        session("CREATE OR REPLACE TABLE lake.settings.d (id BIGINT) TBLPROPERTIES ('b' = 'mine', 'c' = 'mine')")
        properties = session.lake().table("settings.d").properties
        assert {name: properties[name] for name in "abc"} == {"a": "1", "b": "2", "c": "mine"}
        other = session.session.newSession()
        other.conf.set(f"{prefix}default-namespace", "settings")
        other.sql("USE lake")
        assert other.sql("SHOW CURRENT NAMESPACE").collect() == [("lake", "settings")]
        assert other.table("t").count() == 4


def test_nullability_of_a_query(session: Spark, rows: str) -> None:
    query = "SELECT id, CAST(NULL AS INT) AS n FROM range(1)"
    with set_to(session, {"spark.sql.catalog.lake.use-nullable-query-schema": "false"}):
        session(f"CREATE OR REPLACE TABLE lake.settings.n AS {query}")
        assert [field.required for field in session.lake().table("settings.n").schema.fields] == [True, False]
    session(f"CREATE OR REPLACE TABLE lake.settings.n2 AS {query}")
    assert [field.required for field in session.lake().table("settings.n2").schema.fields] == [False, False]


def test_properties_of_views(session: Spark) -> None:
    catalog = "sq"
    session(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.settings")
    prefix = f"spark.sql.catalog.{catalog}."
    settings = {f"{prefix}view-default.a": "1", f"{prefix}view-override.b": "2", f"{prefix}view-default.c": "3"}
    with set_to(session, settings):
        session(f"CREATE VIEW {catalog}.settings.v TBLPROPERTIES ('b' = 'mine', 'c' = 'mine') AS SELECT 1 AS one")
    properties = session.lake(catalog).view("settings.v").properties
    assert {name: properties[name] for name in "abc"} == {"a": "1", "b": "2", "c": "mine"}


def test_what_has_no_effect_is_told_once(session: Spark, rows: str) -> None:
    with set_to(session, {"spark.sql.iceberg.planning.preserve-data-grouping": "true"}):
        with pytest.warns(errors.IgnoredSetting, match="no partitioning is reported to Spark yet") as caught:
            session(f"SELECT * FROM {rows}")
        assert [warning.category for warning in caught].count(errors.IgnoredSetting) == 1
        session(f"SELECT * FROM {rows} WHERE id > 1")  # a warning would be an error here
    frame = session.session.createDataFrame([(9,)], "id BIGINT")
    session("CREATE OR REPLACE TABLE lake.settings.w (id BIGINT)")
    with pytest.warns(errors.IgnoredSetting, match="shred-variants=true has no effect: variants are written") as caught:
        frame.writeTo("lake.settings.w").option("shred-variants", "true").append()
    assert [warning.category for warning in caught].count(errors.IgnoredSetting) == 1
    frame.writeTo("lake.settings.w").option("shred-variants", "false").append()


def test_misspelt_and_wrong_settings(session: Spark, rows: str) -> None:
    with (
        set_to(session, {"spark.sql.iceberg.aggregate-pushdown.enabled": "false"}),
        pytest.warns(errors.IgnoredSetting, match=r"did you mean spark\.sql\.iceberg\.aggregate-push-down\.enabled"),
    ):
        session(f"SELECT count(*) FROM {rows}")
    with set_to(session, {"spark.sql.iceberg.read.split-size": "16MB"}):
        for _ in range(2):
            with pytest.raises(Exception, match=r"read\.split-size must be a whole number of at least 1, found '16MB'"):
                session(f"SELECT * FROM {rows}")
    with pytest.raises(Exception, match=r"write\.format\.default must be one of parquet, avro, orc, found 'csv'"):
        session(f"ALTER TABLE {rows} SET TBLPROPERTIES ('write.format.default' = 'csv')")
    with pytest.raises(Exception, match=r"write\.format\.default must be one of parquet, avro, orc, found 'csv'"):
        session("CREATE TABLE lake.settings.csv (id BIGINT) TBLPROPERTIES ('write.format.default' = 'csv')")
    frame = session.session.createDataFrame([(9,)], "id BIGINT")
    with pytest.raises(Exception, match=r"overwrite-mode=dynamic is refused.*overwritePartitions"):
        frame.write.option("overwrite-mode", "dynamic").mode("overwrite").insertInto(rows)
    assert session.one(f"SELECT count(*) FROM {rows}") == 4


def test_options_of_writes(session: Spark, rows: str) -> None:
    settings = {
        "delete-format": "avro", "target-delete-file-size-bytes": "5", "delete-granularity": "file",
        "compression-strategy": "speed", "write-format": "orc",
    }  # fmt: skip
    options = write_options(jvm_of(session.session), settings, session.lake().table("settings.t").metadata, None)
    assert options.overrides == {
        "write.delete.format.default": "avro", "write.delete.target-file-size-bytes": "5",
        "write.delete.granularity": "file", "write.orc.compression-strategy": "speed", "write.format.default": "orc",
    }  # fmt: skip
    with set_to(session, {"spark.sql.iceberg.compression-strategy": "compression"}):
        options = write_options(jvm_of(session.session), {}, session.lake().table("settings.t").metadata, None)
    assert options.overrides == {"write.parquet.compression-strategy": "compression"}


def test_options_of_streams_and_changes(session: Spark, rows: str) -> None:
    options = stream_options({"stream-from-timestamp": "5", "streaming-max-files-per-micro-batch": "6"})
    assert (options.from_ms, options.max_files) == (5, 6)
    table = session.lake().table("settings.t")
    first, second, *_ = table.snapshots
    times = {"start-timestamp": str(first.timestamp_ms), "end-timestamp": str(second.timestamp_ms)}
    between = change_range(table.metadata, AsOf(), times)
    assert between.until is not None
    assert (between.after, between.until) in {(first.snapshot_id, second.snapshot_id), (second.snapshot_id,) * 2}


CHECKS = {
    "session": (SESSION_SETTINGS, lambda name, value: check_all_settings({name: value})),
    "hadoop": (HADOOP_SETTINGS, lambda name, value: check_all_settings({f"spark.hadoop.{name}": value})),
    "catalog": (CATALOG_SETTINGS, lambda name, value: check_catalog_settings("once", {name: value})),
    "read": (READ_OPTIONS, lambda name, value: check_read_options({name: value})),
    "write": (WRITE_OPTIONS, lambda name, value: check_write_options({name: value})),
}


@pytest.mark.parametrize("kind", CHECKS)
def test_every_setting_without_effect_is_told_exactly_once(kind: str) -> None:
    settings, check = CHECKS[kind]
    for setting in settings.values():
        if setting.state not in ("ignored", "refused"):
            continue
        value, name = _value(setting), setting.name.replace("*", "x")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if setting.state == "refused":
                with pytest.raises(errors.UnsupportedFeature, match=r"is refused: "):
                    check(name, value)
            for _ in range(2 if setting.state == "ignored" else 0):
                check(name, value)
            for same in setting.no_effect:
                check(name, same)
        expected = [f"has no effect: {setting.note}"] if setting.state == "ignored" else []
        assert [str(each.message).partition(" has ")[2] for each in caught] == [text[4:] for text in expected], name
        assert all(each.category is errors.IgnoredSetting for each in caught)


def _value(setting: Setting[Any]) -> str:
    candidates = ["TRUE", "FALSE", "Distributed", "dynamic", "71"]  # no other test has them in these letters
    return next(text for text in candidates if text.lower() not in setting.no_effect and setting.values.accepts(text))


def test_floe_connect_takes_them_by_their_names() -> None:
    lake = floe.connect("sqlite://", **{"jdbc.init-catalog-tables": "true"}, warehouse="memory:wh")
    assert lake.namespaces() == []


STATEMENTS = {
    "write.delete.distribution-mode": "DELETE FROM {name} WHERE id = 1",
    "write.update.distribution-mode": "UPDATE {name} SET id = 7 WHERE id = 1",
    "write.merge.distribution-mode": "MERGE INTO {name} t USING (SELECT 1L AS id) s ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET id = 7",
}


def test_where_changed_rows_come_together(session: Spark, rows: str) -> None:
    name = "lake.settings.m"
    session(f"CREATE OR REPLACE TABLE {name} (id BIGINT, p INT) PARTITIONED BY (p)")
    session(f"INSERT INTO {name} VALUES (1, 1), (2, 1), (3, 2)")
    for setting, statement in STATEMENTS.items():
        shuffled = {}
        for mode in ("none", "hash"):
            session.lake().table("settings.m").set_properties({setting: mode})
            shuffled[mode] = "REBALANCE_PARTITIONS_BY_COL" in session.explained(statement.format(name=name))
        assert shuffled == {"none": False, "hash": True}, setting
    session.lake().table("settings.m").set_properties({"write.merge.isolation-level": "snapshot"})
    session(STATEMENTS["write.merge.distribution-mode"].format(name=name))
    assert session.sorted(f"SELECT id FROM {name}") == [(2,), (3,), (7,)]
