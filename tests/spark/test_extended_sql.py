"""Statements that Spark's parser does not know, over both catalogs, with what Floe's own API then finds."""

import pytest
from pyspark.errors import AnalysisException, ParseException

from floe.sql.printer import partition_terms, sort_terms
from floe.table.table import Table
from helpers.spark import Spark

DAY = 86_400_000


@pytest.fixture(scope="module", params=["lake", pytest.param("sq", marks=pytest.mark.slow)])
def catalog(request: pytest.FixtureRequest) -> str:
    """The name of a catalog; the second one is for the slow tier here."""
    return str(request.param)


@pytest.fixture(scope="module")
def name(session: Spark, catalog: str) -> str:
    session(f"CREATE NAMESPACE {catalog}.ext")
    session(f"CREATE TABLE {catalog}.ext.t (id BIGINT NOT NULL, at TIMESTAMP, s STRUCT<k: INT NOT NULL> NOT NULL)")
    session(f"INSERT INTO {catalog}.ext.t VALUES (1, NULL, named_struct('k', 1))")
    return f"{catalog}.ext.t"


def table(session: Spark, name: str) -> Table:
    return session.lake(name.split(".", maxsplit=1)[0]).table("ext.t")


def test_partition_fields(session: Spark, name: str) -> None:
    def fields() -> tuple[str, ...]:
        loaded = table(session, name)
        return partition_terms(loaded.spec, loaded.schema)

    session(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(16, id) AS shard")
    session(f"alter table {name} add partition field days(at) -- by day")
    assert fields() == ("bucket(16, id) as shard", "day(at)")
    session(f"ALTER TABLE {name} REPLACE PARTITION FIELD at_day WITH hours(at) AS h")
    assert fields() == ("bucket(16, id) as shard", "hour(at) as h")
    session(f"ALTER TABLE {name} DROP PARTITION FIELD bucket(16, id);")
    session(f"ALTER TABLE {name} DROP PARTITION FIELD h")
    assert fields() == ()
    with pytest.raises(AnalysisException, match="no column"):
        session(f"ALTER TABLE {name} ADD PARTITION FIELD nowhere")


def test_write_order(session: Spark, name: str) -> None:
    def written() -> tuple[tuple[str, ...], str | None]:
        loaded = table(session, name)
        return sort_terms(loaded.sort_order, loaded.schema), loaded.properties.get("write.distribution-mode")

    session(f"ALTER TABLE {name} WRITE ORDERED BY at, bucket(16, id) DESC NULLS FIRST")
    assert written() == (("at", "bucket(16, id) desc nulls first"), "range")
    session(f"ALTER TABLE {name} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id")
    assert written() == (("id",), "hash")
    session(f"ALTER TABLE {name} WRITE LOCALLY ORDERED BY at DESC")
    assert written() == (("at desc",), "hash")
    session(f"ALTER TABLE {name} WRITE DISTRIBUTED BY PARTITION")
    assert written() == ((), "hash")
    session(f"ALTER TABLE {name} WRITE UNORDERED")
    assert written() == ((), "none")


def test_identifier_fields(session: Spark, name: str) -> None:
    session(f"ALTER TABLE {name} SET IDENTIFIER FIELDS id, s.k")
    assert table(session, name).schema.identifier_names == ("id", "s.k")
    session(f"ALTER TABLE {name} DROP IDENTIFIER FIELDS s.k")
    assert table(session, name).schema.identifier_names == ("id",)
    with pytest.raises(AnalysisException, match=r"not an identifier field \(column: at\)"):
        session(f"ALTER TABLE {name} DROP IDENTIFIER FIELDS at")
    session(f"ALTER TABLE {name} DROP IDENTIFIER FIELDS id")
    assert table(session, name).schema.identifier_names == ()


def test_branches_and_tags(session: Spark, name: str) -> None:
    first = table(session, name).current_snapshot
    assert first is not None
    session(f"ALTER TABLE {name} CREATE BRANCH audit RETAIN 7 DAYS WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 HOURS")
    audit = table(session, name).refs["audit"]
    assert (audit.max_ref_age_ms, audit.min_snapshots_to_keep, audit.max_snapshot_age_ms) == (7 * DAY, 3, DAY // 12)
    session(f"ALTER TABLE {name} CREATE TAG `end of year` AS OF VERSION {first.snapshot_id} RETAIN 365 DAYS")
    assert table(session, name).refs["end of year"].snapshot_id == first.snapshot_id
    session(f"INSERT INTO {name} VALUES (2, NULL, named_struct('k', 2))")
    assert session.one(f"SELECT count(*) FROM {name}.branch_audit") == 1
    assert session.one(f"SELECT count(*) FROM {name} VERSION AS OF 'end of year'") == 1
    session(f"ALTER TABLE {name} REPLACE BRANCH audit")
    assert session.one(f"SELECT count(*) FROM {name}.branch_audit") == 2
    assert table(session, name).refs["audit"].max_ref_age_ms == 7 * DAY
    session(f"ALTER TABLE {name} CREATE OR REPLACE TAG t2 AS OF VERSION {first.snapshot_id}")
    session(f"ALTER TABLE {name} CREATE TAG IF NOT EXISTS t2")
    assert table(session, name).refs["t2"].snapshot_id == first.snapshot_id
    with pytest.raises(AnalysisException, match="t2"):
        session(f"ALTER TABLE {name} CREATE TAG t2")
    for dropped in ("BRANCH audit", "TAG `end of year`", "TAG t2", "TAG IF EXISTS t2", "BRANCH IF EXISTS nowhere"):
        session(f"ALTER TABLE {name} DROP {dropped}")
    assert set(table(session, name).refs) == {"main"}
    with pytest.raises(AnalysisException, match="nowhere"):
        session(f"ALTER TABLE {name} DROP BRANCH nowhere")


def test_names_in_the_current_namespace(session: Spark, name: str) -> None:
    catalog, namespace, _ = name.split(".")
    session(f"USE {catalog}.{namespace}")
    try:
        session("ALTER TABLE t CREATE TAG here")
        session("ALTER TABLE ext.t DROP TAG here")
    finally:
        session("USE spark_catalog.default")
    with pytest.raises(ParseException):
        session("ALTER TABLE elsewhere.t CREATE TAG here")
