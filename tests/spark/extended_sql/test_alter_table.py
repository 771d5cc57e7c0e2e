"""What Iceberg adds to `ALTER TABLE`: read from text, and run on a table; no Spark is needed for that."""

from datetime import timedelta

import pytest

import floe
from floe import Lake, Table, errors
from floe.spark.sql.statements import alter_table
from floe.sql.printer import partition_terms, sort_terms
from floe.sql.statements import parse_statement


@pytest.fixture
def lake() -> Lake:
    lake = floe.connect("memory:")
    lake.create_namespace("db")
    return lake


@pytest.fixture
def table(lake: Lake) -> Table:
    return lake.create_table(
        "db.t",
        "id bigint not null, ts timestamptz, name string, st struct<a: int not null> not null, `odd name` int",
        partition_by=["day(ts)"],
    )


def alter(table: Table, rest: str) -> None:
    statement = parse_statement(f"ALTER TABLE lake.db.t {rest}")
    assert statement is not None
    assert statement.table == ("lake", "db", "t")
    alter_table(table, statement.action)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "ALTER TABLE t ADD COLUMN a int",
        "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')",
        "ALTER TABLE t DROP COLUMN partition",
        "ALTER TABLE t ADD PARTITION (p = 1)",
        "ALTER TABLE t DROP PARTITION (p = 1)",
        "ALTER VIEW v RENAME TO w",
        "ALTER TABLE",
        "ALTER TABLE t REPLACE COLUMNS (a int)",
        "",
        "'unclosed",
    ],
)
def test_what_is_sparks_own_is_left_to_spark(text: str) -> None:
    assert parse_statement(text) is None


@pytest.mark.parametrize("name", ["t", "db.t", "lake.db.t", "`la ke`.`d.b`.t"])
def test_names(name: str) -> None:
    statement = parse_statement(f"alter table {name} drop branch b;")
    assert statement is not None
    assert statement.table == {
        "t": ("t",), "db.t": ("db", "t"), "lake.db.t": ("lake", "db", "t"), "`la ke`.`d.b`.t": ("la ke", "d.b", "t"),
    }[name]  # fmt: skip


# partitioning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "terms"),
    [
        ("ADD PARTITION FIELD bucket(16, id)", ("day(ts)", "bucket(16, id)")),
        ("ADD PARTITION FIELD bucket(id, 16) AS shard", ("day(ts)", "bucket(16, id) as shard")),
        ("add partition field TRUNCATE(4, Name)", ("day(ts)", "truncate(4, name)")),
        ("ADD PARTITION FIELD st.a", ("day(ts)", "st.a")),
        ("ADD PARTITION FIELD `odd name`", ("day(ts)", "`odd name`")),
        ("DROP PARTITION FIELD ts_day", ()),
        ("DROP PARTITION FIELD days(ts)", ()),
        ("REPLACE PARTITION FIELD ts_day WITH hours(ts)", ("hour(ts)",)),
        ("REPLACE PARTITION FIELD day(ts) WITH months(ts) AS m", ("month(ts) as m",)),
    ],
)
def test_partition_fields(table: Table, rest: str, terms: tuple[str, ...]) -> None:
    alter(table, rest)
    assert partition_terms(table.spec, table.schema) == terms


# order ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "terms", "distribution"),
    [
        ("WRITE ORDERED BY id", ("id",), "range"),
        ("WRITE ORDERED BY name ASC NULLS LAST, id DESC", ("name nulls last", "id desc"), "range"),
        ("WRITE ORDERED BY (bucket(4, id), ts DESC NULLS FIRST)", ("bucket(4, id)", "ts desc nulls first"), "range"),
        ("WRITE LOCALLY ORDERED BY ID", ("id",), None),
        ("WRITE DISTRIBUTED BY PARTITION", (), "hash"),
        ("WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id", ("id",), "hash"),
        ("WRITE LOCALLY ORDERED BY id DISTRIBUTED BY PARTITION", ("id",), "hash"),
        ("WRITE UNORDERED", (), "none"),
    ],
)
def test_write_order(table: Table, rest: str, terms: tuple[str, ...], distribution: str | None) -> None:
    before = len(table.metadata.metadata_log)
    alter(table, rest)
    assert sort_terms(table.sort_order, table.schema) == terms
    assert table.properties.get("write.distribution-mode") == distribution
    assert len(table.metadata.metadata_log) <= before + 1, "order and distribution are one commit"


# identifier fields ----------------------------------------------------------------------------------------------------


def test_identifier_fields(table: Table) -> None:
    alter(table, "SET IDENTIFIER FIELDS ID, st.a")
    assert set(table.schema.identifier_names) == {"id", "st.a"}
    alter(table, "DROP IDENTIFIER FIELDS st.A")
    assert table.schema.identifier_names == ("id",)
    with pytest.raises(errors.NoSuchColumn, match=r"identifier field .*st\.a.*are: id"):
        alter(table, "DROP IDENTIFIER FIELDS st.a")
    with pytest.raises(errors.FloeError, match="name"):
        alter(table, "SET IDENTIFIER FIELDS name")  # it may be null


# branches and tags ----------------------------------------------------------------------------------------------------


@pytest.fixture
def written(table: Table) -> Table:
    table.append([{"id": 1, "st": {"a": 1}}])
    table.append([{"id": 2, "st": {"a": 2}}])
    return table


def test_branches_are_created_with_what_expiry_keeps(written: Table) -> None:
    first, second = (snapshot.snapshot_id for snapshot in written.snapshots)
    alter(written, "CREATE BRANCH plain")
    assert written.refs["plain"].snapshot_id == second
    alter(
        written,
        f"CREATE BRANCH IF NOT EXISTS audit AS OF VERSION {first} RETAIN 7 DAYS "
        "WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 HOURS",
    )
    audit = written.refs["audit"]
    assert (audit.type, audit.snapshot_id, audit.min_snapshots_to_keep) == ("branch", first, 3)
    assert audit.max_ref_age_ms == timedelta(days=7) // timedelta(milliseconds=1)
    assert audit.max_snapshot_age_ms == timedelta(hours=2) // timedelta(milliseconds=1)
    alter(written, "CREATE BRANCH aged WITH SNAPSHOT RETENTION 90 MINUTES")
    assert written.refs["aged"].max_snapshot_age_ms == 90 * 60_000
    assert written.refs["aged"].min_snapshots_to_keep is None


def test_what_exists_is_kept_refused_or_replaced_as_said(written: Table) -> None:
    first, second = (snapshot.snapshot_id for snapshot in written.snapshots)
    alter(written, f"CREATE TAG eoy AS OF VERSION {first} RETAIN 30 DAYS")
    with pytest.raises(errors.AlreadyExists):
        alter(written, "CREATE TAG eoy")
    alter(written, "CREATE TAG IF NOT EXISTS eoy")
    assert written.refs["eoy"].snapshot_id == first
    alter(written, "CREATE OR REPLACE TAG eoy RETAIN 5 DAYS")
    assert written.refs["eoy"].snapshot_id == second
    assert written.refs["eoy"].max_ref_age_ms == 5 * 86_400_000
    alter(written, f"REPLACE TAG eoy AS OF VERSION {first}")
    assert written.refs["eoy"].snapshot_id == first
    assert written.refs["eoy"].max_ref_age_ms == 5 * 86_400_000, "what is not said stays"
    with pytest.raises(errors.NoSuchRef, match="CREATE OR REPLACE"):
        alter(written, "REPLACE BRANCH nowhere")
    with pytest.raises(errors.InvalidInput, match="'eoy' is a tag, not a branch"):
        alter(written, "CREATE OR REPLACE BRANCH eoy")


def test_dropping(written: Table) -> None:
    alter(written, "CREATE BRANCH b")
    alter(written, "CREATE TAG t")
    alter(written, "DROP BRANCH b")
    alter(written, "DROP TAG IF EXISTS t")
    assert set(written.refs) == {"main"}
    alter(written, "DROP BRANCH IF EXISTS b")
    with pytest.raises(errors.NoSuchRef):
        alter(written, "DROP TAG t")


# mistakes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("ADD PARTITION FIELD", "expected a name, found the end"),
        ("ADD PARTITION FIELD bucket(16, id", r"expected `\)`, found the end"),
        ("ADD PARTITION FIELD id AS a b", "expected the end of the statement, found `b`"),
        ("REPLACE PARTITION FIELD a BY b", "expected WITH, found `BY`"),
        ("WRITE", "expected .LOCALLY. ORDERED BY, UNORDERED or DISTRIBUTED BY PARTITION"),
        ("WRITE ORDERED BY id UNORDERED", "expected the end of the statement, found `UNORDERED`"),
        ("CREATE BRANCH b AS OF VERSION 'x'", "expected a whole number, found `'x'`"),
        ("CREATE TAG t RETAIN 5 YEARS", "expected DAYS, HOURS or MINUTES, found `YEARS`"),
        ("CREATE TAG t WITH SNAPSHOT RETENTION 5 SNAPSHOTS", "expected the end of the statement, found `WITH`"),
        ("DROP BRANCH", "expected a name, found the end"),
    ],
)
def test_mistakes_are_pointed_at(rest: str, message: str) -> None:
    with pytest.raises(errors.InvalidExpression, match=message):
        parse_statement(f"ALTER TABLE t {rest}")
