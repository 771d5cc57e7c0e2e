"""Namespaces and tables in SQL, over both catalogs: what statements say, and what Floe's own API then finds."""

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    PySparkException,
    UnsupportedOperationException,
)

import floe
from floe.spark.catalog.definitions import shown_properties
from helpers.spark import Spark


@pytest.fixture(scope="module")
def db(session: Spark, catalog: str) -> str:
    """A namespace for the module's tables."""
    session(f"CREATE NAMESPACE {catalog}.ddl")
    return f"{catalog}.ddl"


# namespaces -----------------------------------------------------------------------------------------------------------


def test_namespaces(session: Spark, catalog: str) -> None:
    session(f"CREATE NAMESPACE {catalog}.outer1")
    session(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.outer1")
    session(f"CREATE NAMESPACE {catalog}.outer1.inner")
    assert ("outer1",) in session(f"SHOW NAMESPACES IN {catalog}")
    assert session(f"SHOW NAMESPACES IN {catalog}.outer1") == [("outer1.inner",)]
    with pytest.raises(AnalysisException) as caught:
        session(f"CREATE NAMESPACE {catalog}.outer1")
    assert caught.value.getCondition() == "SCHEMA_ALREADY_EXISTS"
    with pytest.raises(AnalysisException) as caught:
        session(f"DROP NAMESPACE {catalog}.outer1")
    assert caught.value.getCondition() == "SCHEMA_NOT_EMPTY"
    session(f"DROP NAMESPACE {catalog}.outer1.inner")
    session(f"DROP NAMESPACE {catalog}.outer1")
    assert ("outer1",) not in session(f"SHOW NAMESPACES IN {catalog}")
    session(f"DROP NAMESPACE IF EXISTS {catalog}.outer1")
    with pytest.raises(AnalysisException) as caught:
        session(f"DROP NAMESPACE {catalog}.outer1")
    assert caught.value.getCondition() == "SCHEMA_NOT_FOUND"


def test_properties_of_namespaces(session: Spark, catalog: str) -> None:
    session(f"CREATE NAMESPACE {catalog}.props COMMENT 'for tests' WITH PROPERTIES ('a' = '1')")
    session(f"ALTER NAMESPACE {catalog}.props SET PROPERTIES ('b' = '2')")
    described = dict(session(f"DESCRIBE NAMESPACE EXTENDED {catalog}.props"))
    assert described["Comment"] == "for tests"
    assert described["Properties"] == "((a,1), (b,2))"
    assert session.lake(catalog).namespace_properties("props")["b"] == "2"
    session(f"DROP NAMESPACE {catalog}.props")


def test_use(session: Spark, db: str) -> None:
    session(f"CREATE TABLE {db}.used (id INT)")
    session(f"USE {db}")
    try:
        assert session.one("SELECT count(*) FROM used") == 0
        assert ("ddl", "used", False) in session("SHOW TABLES")
    finally:
        session("USE spark_catalog.default")


# CREATE TABLE ---------------------------------------------------------------------------------------------------------

TYPES = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "decimal(10, 2)": "DECIMAL(10,2)",
    "date": "DATE",
    "timestamptz": "TIMESTAMP",
    "timestamp": "TIMESTAMP_NTZ",
    "string": "STRING",
    "binary": "BINARY",
    "list<int>": "ARRAY<INT>",
    "map<string, long>": "MAP<STRING, BIGINT>",
    "struct<{id}: a: optional int, {next}: b: required string>": "STRUCT<a: INT, b: STRING NOT NULL>",
}


def test_all_types_both_ways(session: Spark, catalog: str, db: str) -> None:
    columns = ", ".join(f"c{n} {sql}" for n, sql in enumerate(TYPES.values()))
    session(f"CREATE TABLE {db}.types ({columns}, small SMALLINT, tiny TINYINT, short_text VARCHAR(3))")
    schema = session.lake(catalog).table("ddl.types").schema
    for field, (ours, _) in zip(schema.fields, TYPES.items(), strict=False):
        inside = [child.id for child in field.type.fields]
        expected = ours.format(id=inside[0], next=inside[1]) if "{id}" in ours else ours
        assert str(field.type) == expected
    assert [str(schema.field(name).type) for name in ("small", "tiny", "short_text")] == ["int", "int", "string"]
    described = {name: type_ for name, type_, _ in session(f"DESCRIBE TABLE {db}.types")}
    assert [described[f"c{n}"] for n in range(len(TYPES))] == [
        "boolean", "int", "bigint", "float", "double", "decimal(10,2)", "date", "timestamp", "timestamp_ntz", "string",
        "binary", "array<int>", "map<string,bigint>", "struct<a:int,b:string>",
    ]  # fmt: skip


def test_create_says_everything(session: Spark, catalog: str, db: str) -> None:
    session(
        f"""CREATE TABLE {db}.orders (
            id BIGINT NOT NULL COMMENT 'the key', customer STRING, at TIMESTAMP, amount DECIMAL(10,2) DEFAULT 9.99)
        USING iceberg PARTITIONED BY (days(at), bucket(16, id), truncate(3, customer))
        COMMENT 'what people ordered' TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read')"""
    )
    table = session.lake(catalog).table("ddl.orders")
    assert table.format_version == 3
    assert table.schema.field("id").required
    assert table.schema.field("id").doc == "the key"
    assert table.schema.field("amount").write_default == Decimal("9.99")
    assert [f"{field.name}={field.transform}" for field in table.spec.fields] == [
        "at_day=day", "id_bucket=bucket[16]", "customer_trunc=truncate[3]",
    ]  # fmt: skip
    assert table.properties["comment"] == "what people ordered"
    assert table.properties["write.delete.mode"] == "merge-on-read"
    assert "format-version" not in table.properties
    with pytest.raises(AnalysisException) as caught:
        session(f"CREATE TABLE {db}.orders (id INT)")
    assert caught.value.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    session(f"CREATE TABLE IF NOT EXISTS {db}.orders (id INT)")


def test_a_table_in_a_namespace_that_is_not_there(session: Spark, catalog: str, db: str) -> None:
    """A folder is made with the table, as Java's catalog does; others have to be told."""
    session(f"CREATE TABLE {db}.alike (id INT)")
    makers = {
        "one": lambda name: session(f"CREATE TABLE {name} (id INT)"),
        "two.deep": lambda name: session(f"CREATE TABLE {name} AS SELECT 1 AS id"),
        "three": lambda name: session.session.range(3).writeTo(name).create(),
        "four": lambda name: session(f"CREATE TABLE {name} LIKE {db}.alike"),
    }
    for namespace, make in makers.items():
        if catalog == "lake":
            make(f"{catalog}.missing_{namespace}.t")
            assert session.lake().tables(f"missing_{namespace}") == [f"missing_{namespace}.t"]
        else:
            with pytest.raises(AnalysisException, match=f"CREATE NAMESPACE {catalog}.missing_{namespace}") as caught:
                make(f"{catalog}.missing_{namespace}.t")
            assert caught.value.getCondition() == "SCHEMA_NOT_FOUND"
            assert not session.lake(catalog).namespace_exists(f"missing_{namespace}")


def test_names_of_catalogs_that_are_wrong(session: Spark) -> None:
    advice = (
        r"There is no catalog named lak\. The catalogs are lake, sq(, \w+)* and spark_catalog\. Did you mean lake\.db"
    )
    for statement in (
        "SELECT * FROM lak.db.t",
        "CREATE TABLE lak.db.t (id INT) USING iceberg",
        "CREATE TABLE lak.db.t AS SELECT 1 AS id",
        "INSERT INTO lak.db.t VALUES (1)",
        "DELETE FROM lak.db.t",
    ):
        with pytest.raises(AnalysisException, match=advice) as caught:
            session(statement)
        assert caught.value.getCondition() == "REQUIRES_SINGLE_PART_NAMESPACE"
    for statement in ("USE lak.db", "SHOW TABLES IN lak.db"):
        with pytest.raises(AnalysisException, match=advice):
            session(statement)
    with pytest.raises(AnalysisException, match=advice):
        session.session.table("lak.db.t")
    for statement in (
        "CREATE TABLE default.x (id INT) USING iceberg",
        "CREATE TABLE x USING iceberg AS SELECT 1 AS id",
    ):
        with pytest.raises(PySparkException, match=r"write lake\.default\.x, or USE lake before"):
            session(statement)


@pytest.mark.parametrize(
    ("term", "transform"),
    [
        ("year(at)", "year"),
        ("years(at)", "year"),
        ("month(at)", "month"),
        ("months(at)", "month"),
        ("day(at)", "day"),
        ("days(at)", "day"),
        ("date(at)", "day"),
        ("hour(at)", "hour"),
        ("hours(at)", "hour"),
        ("date_hour(at)", "hour"),
        ("bucket(8, id)", "bucket[8]"),
        ("truncate(10, id)", "truncate[10]"),
        ("truncate(id, 10)", "truncate[10]"),
        ("id", "identity"),
    ],
)
def test_every_transform_in_both_spellings(session: Spark, catalog: str, db: str, term: str, transform: str) -> None:
    session(f"CREATE TABLE {db}.parted (id BIGINT, at TIMESTAMP) PARTITIONED BY ({term})")
    try:
        (field,) = session.lake(catalog).table("ddl.parted").spec.fields
        assert str(field.transform) == transform
    finally:
        session(f"DROP TABLE {db}.parted PURGE")


def test_show_create_table_makes_the_same_table_again(session: Spark, catalog: str, db: str) -> None:
    session(
        f"""CREATE TABLE {db}.again (id BIGINT NOT NULL COMMENT 'it\\'s the key', `a b` STRING, at TIMESTAMP_NTZ,
            n INT DEFAULT 5, s STRUCT<x: INT, y: ARRAY<STRING>>)
        PARTITIONED BY (bucket(4, id), hours(at)) TBLPROPERTIES ('format-version' = '3', 'a' = 'b',
            'sort-order' = 'id desc, truncate(3, `a b`), days(at) nulls last', 'identifier-fields' = 'id')"""
    )
    lake = session.lake(catalog)
    before = lake.table("ddl.again").metadata
    statement = session.one(f"SHOW CREATE TABLE {db}.again")
    assert "COLLATE" not in statement
    session(f"DROP TABLE {db}.again PURGE")
    session(statement)
    after = lake.table("ddl.again").metadata
    assert after.schema == before.schema
    assert after.spec == before.spec
    assert after.sort_order == before.sort_order
    assert not after.sort_order.is_unsorted
    assert after.schema.identifier_names == ("id",)
    assert after.format_version == before.format_version
    assert after.properties == before.properties
    assert after.location == before.location


def test_what_is_shown_beside_a_tables_own_properties() -> None:
    """As Java's tables show it; a property of a table cannot say otherwise."""
    lake = floe.connect("memory:")
    lake.create_namespace("db")
    order = [
        "c desc",
        "id",
        "bucket(16, id)",
        "truncate(4, c) nulls last",
        "year(at)",
        "month(at)",
        "day(at)",
        "hour(at)",
    ]
    columns = "id bigint not null, c string not null, at timestamp"
    table = lake.create_table("db.t", columns, sort_by=order, properties={"a": "b", "write.format.default": "orc"})
    table.evolve().set_identifier_fields("id", "c").commit()
    assert shown_properties(table) == {
        "provider": "iceberg",
        "location": table.location,
        "format": "iceberg/orc",
        "format-version": "2",
        "current-snapshot-id": "none",
        "identifier-fields": "[id,c]",
        "sort-order": "c DESC NULLS LAST, id ASC NULLS FIRST, bucket(16, id) ASC NULLS FIRST, "
        "truncate(c, 4) ASC NULLS LAST, years(at) ASC NULLS FIRST, months(at) ASC NULLS FIRST, "
        "days(at) ASC NULLS FIRST, hours(at) ASC NULLS FIRST",
        "a": "b",
        "write.format.default": "orc",
        "write.parquet.compression-codec": "zstd",
    }
    plain = lake.create_table("db.plain", "id bigint", properties={"sort-order": "a lie", "format": "paper"})
    assert shown_properties(plain)["format"] == "iceberg/parquet"
    assert "sort-order" not in shown_properties(plain)


def test_describe_extended_and_columns(session: Spark, db: str) -> None:
    session(f"CREATE TABLE {db}.told (id INT, d DATE) PARTITIONED BY (months(d)) TBLPROPERTIES ('k' = 'v')")
    described = {name: value for name, value, _ in session(f"DESCRIBE EXTENDED {db}.told")}
    assert described["Part 0"] == "months(d)"
    assert described["Provider"] == "iceberg"
    assert described["Location"].endswith("/ddl/told")
    assert "k=v" in described["Table Properties"]
    assert described["_pos"] == "bigint"
    assert session(f"SHOW COLUMNS IN {db}.told") == [("id",), ("d",)]
    assert ("k", "v") in session(f"SHOW TBLPROPERTIES {db}.told")


def test_drop_rename_and_like(session: Spark, catalog: str, db: str) -> None:
    session(f"CREATE TABLE {db}.first (id INT, name STRING)")
    if catalog == "lake":
        with pytest.raises(UnsupportedOperationException, match="cannot be renamed"):
            session(f"ALTER TABLE {db}.first RENAME TO {db}.second")
    else:
        session(f"ALTER TABLE {db}.first RENAME TO ddl.second")
        assert not session.lake(catalog).table_exists("ddl.first")
        session(f"ALTER TABLE {db}.second RENAME TO ddl.first")
    session(f"DROP TABLE {db}.first PURGE")
    assert not session.lake(catalog).table_exists("ddl.first")
    session(f"DROP TABLE IF EXISTS {db}.first")
    with pytest.raises(AnalysisException) as caught:
        session(f"DROP TABLE {db}.first")
    assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


# ALTER TABLE ----------------------------------------------------------------------------------------------------------


def test_columns_change(session: Spark, catalog: str, db: str) -> None:
    session(f"CREATE TABLE {db}.evolving (id INT NOT NULL, s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<x: INT>>)")
    for change in (
        "SET TBLPROPERTIES ('format-version' = '3')",
        "ADD COLUMN note STRING COMMENT 'free' AFTER id",
        "ADD COLUMNS (n INT DEFAULT 7, first_one DATE FIRST)",
        "ADD COLUMN s.c DOUBLE AFTER a",
        "ADD COLUMN l.element.y STRING",
        "RENAME COLUMN note TO remark",
        "RENAME COLUMN s.b TO bb",
        "ALTER COLUMN id TYPE BIGINT",
        "ALTER COLUMN id DROP NOT NULL",
        "ALTER COLUMN remark COMMENT 'changed'",
        "ALTER COLUMN n SET DEFAULT 8",
        "ALTER COLUMN n AFTER id",
        "DROP COLUMN first_one",
        "DROP COLUMN IF EXISTS nowhere",
    ):
        session(f"ALTER TABLE {db}.evolving {change}")
    schema = session.lake(catalog).table("ddl.evolving").schema
    assert [field.name for field in schema] == ["id", "n", "remark", "s", "l"]
    assert str(schema.field("id").type) == "long"
    assert not schema.field("id").required
    assert schema.field("remark").doc == "changed"
    assert (schema.field("n").initial_default, schema.field("n").write_default) == (7, 8)
    assert [field.name for field in schema.field("s").type.fields] == ["a", "c", "bb"]
    assert schema.has("l.element.y")


def test_changes_that_cannot_be_are_told(session: Spark, db: str) -> None:
    session(f"CREATE TABLE {db}.fixed (id BIGINT, name STRING) PARTITIONED BY (bucket(4, id))")
    with pytest.raises(PySparkException, match=r"DEFAULT|format version 3"):
        session(f"ALTER TABLE {db}.fixed ADD COLUMN n INT DEFAULT 7")
    with pytest.raises(AnalysisException, match="NOT_SUPPORTED_CHANGE_COLUMN"):
        session(f"ALTER TABLE {db}.fixed ALTER COLUMN id TYPE INT")
    with pytest.raises(IllegalArgumentException, match="WRITE ORDERED BY"):
        session(f"ALTER TABLE {db}.fixed SET TBLPROPERTIES ('sort-order' = 'id')")
    with pytest.raises(IllegalArgumentException, match="USING iceberg"):
        session(f"CREATE TABLE {db}.csv (id INT) USING csv")


def test_properties_change(session: Spark, catalog: str, db: str) -> None:
    session(f"CREATE TABLE {db}.proper (id INT)")
    session(f"ALTER TABLE {db}.proper SET TBLPROPERTIES ('a' = '1', 'b' = '2')")
    session(f"ALTER TABLE {db}.proper UNSET TBLPROPERTIES ('a')")
    table = session.lake(catalog).table("ddl.proper")
    assert "a" not in table.properties
    assert table.properties["b"] == "2"


def test_defaults_of_all_kinds(session: Spark, catalog: str, db: str) -> None:
    defaults = {
        "INT": ("-5", -5),
        "BIGINT": ("5000000000", 5_000_000_000),
        "DOUBLE": ("1.5", 1.5),
        "STRING": ("'it\\'s'", "it's"),
        "DATE": ("DATE'2024-02-29'", datetime.date(2024, 2, 29)),
        "TIMESTAMP": ("TIMESTAMP'2024-02-29 12:00:00'", datetime.datetime(2024, 2, 29, 12)),
        "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ'2024-02-29 12:00:00'", datetime.datetime(2024, 2, 29, 12)),
        "BOOLEAN": ("true", True),
        "DECIMAL(9,3)": ("1.5", Decimal("1.500")),
        "BINARY": ("X'0102'", bytearray(b"\x01\x02")),
    }
    columns = ", ".join(f"c{n} {type_} DEFAULT {sql}" for n, (type_, (sql, _)) in enumerate(defaults.items()))
    session(f"CREATE TABLE {db}.defaulted (id INT, {columns}) TBLPROPERTIES ('format-version' = '3')")
    if session.version < (4, 1):
        pytest.skip("Spark 4.0 fills in no defaults of tables like these")
    session(f"INSERT INTO {db}.defaulted (id) VALUES (1)")
    assert session(f"SELECT * FROM {db}.defaulted") == [(1, *(value for _, value in defaults.values()))]


# where files may be ---------------------------------------------------------------------------------------------------


def test_files_are_read_where_the_catalog_says(session: Spark, catalog: str, db: str, tmp_path: Path) -> None:
    location = f"LOCATION '{tmp_path}/apart'" if catalog == "sq" else ""
    session(
        f"CREATE TABLE {db}.placed {location} TBLPROPERTIES ('write.data.path' = '{tmp_path}/bulk') AS SELECT 1L AS id"
    )
    assert list((tmp_path / "bulk").glob("*.parquet"))
    assert session(f"SELECT id FROM {db}.placed") == [(1,)]
    session(f"DELETE FROM {db}.placed WHERE id = 5")
    pq.write_table(pa.table({"id": pa.array([9], pa.int64())}), tmp_path / "private.parquet")
    lake = session.lake(catalog)
    where = {"warehouse": lake.catalog.warehouse} if catalog == "sq" else {}
    uri = lake.catalog.properties["uri"] if catalog == "sq" else lake.catalog.warehouse
    with floe.connect(uri, roots="*", durable=False, **where) as trusting:  # leaves no record
        assert "ddl.placed" in trusting.tables("ddl"), "what is called so in the session is the same catalog"
        trusting.table("ddl.placed").add_files(str(tmp_path / "private.parquet"))
    session(f"REFRESH TABLE {db}.placed")
    with pytest.raises(PySparkException, match=rf"outside the allowed roots.*{tmp_path}/private.parquet.*roots=\["):
        session(f"SELECT id FROM {db}.placed")
