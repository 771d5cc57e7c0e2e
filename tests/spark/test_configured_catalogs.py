"""Catalogs that Spark's settings describe for Java Iceberg are understood as they are."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import floe
from floe import errors
from floe.spark.configured_catalogs import configured_catalogs, settings_for_spark
from helpers.spark import Spark

CLASS = "org.apache.iceberg.spark.SparkCatalog"
SESSION_CLASS = "org.apache.iceberg.spark.SparkSessionCatalog"
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def described(name: str, **settings: str) -> dict[str, Any]:
    """The settings of a catalog; `_` in a name stands for `-`, `__` for `.`"""
    below = {key.replace("__", ".").replace("_", "-"): value for key, value in settings.items()}
    return {f"spark.sql.catalog.{name}": CLASS, **{f"spark.sql.catalog.{name}.{k}": v for k, v in below.items()}}


SQLITE = {"uri": "sqlite:////d/lake.db", "name": "c", "catalog_name": "c", "warehouse": "/wh"}


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"type": "hadoop", "warehouse": "/wh"}, {"uri": "/wh", "name": "c"}),
        ({"type": "hadoop", "warehouse": "wh"}, {"uri": "./wh", "name": "c"}),
        (
            {"catalog_impl": "org.apache.iceberg.hadoop.HadoopCatalog", "warehouse": "file:///wh"},
            {"uri": "file:///wh", "name": "c"},
        ),
        (
            {"type": "hadoop", "warehouse": "s3://b/wh", "io_impl": "org.apache.iceberg.aws.s3.S3FileIO",
             "s3__endpoint": "http://h:9000", "client__region": "eu"},
            {"uri": "s3://b/wh", "name": "c", "s3.endpoint": "http://h:9000", "client.region": "eu"},
        ),
        (
            {"type": "hadoop", "warehouse": "s3a://b/wh", "hadoop__fs__s3a__access__key": "k"},
            {"uri": "s3a://b/wh", "name": "c", "s3.access-key-id": "k"},
        ),
        ({"type": "JDBC", "uri": "jdbc:sqlite:/d/lake.db", "warehouse": "/wh"}, SQLITE),
        (
            {"catalog_impl": "org.apache.iceberg.jdbc.JdbcCatalog", "uri": "jdbc:sqlite:file:/d/lake.db",
             "warehouse": "/wh", "jdbc__schema_version": "V1", "jdbc__strict_mode": "true"},
            {**SQLITE, "jdbc.schema-version": "V1"},
        ),
        (
            {"type": "jdbc", "uri": "jdbc:postgresql://h:5432/db?ssl=true&ApplicationName=x&user=me",
             "jdbc__password": "p", "clients": "3"},
            {"uri": "postgresql://h:5432/db?sslmode=verify-full&application_name=x&user=me", "name": "c",
             "catalog_name": "c", "jdbc.password": "p", "clients": "3"},
        ),
        ({"type": "jdbc", "uri": "jdbc:postgresql:db"},
         {"uri": "postgresql://localhost/db", "name": "c", "catalog_name": "c"}),
        ({"catalog_impl": "org.apache.iceberg.inmemory.InMemoryCatalog"}, {"uri": "memory:", "name": "c"}),
    ],
)  # fmt: skip
def test_settings_become_options_of_connect(settings: dict[str, str], options: dict[str, Any]) -> None:
    assert configured_catalogs(described("c", **settings)) == {"c": options}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"type": "rest", "uri": "http://h:8181"}, r"catalog c: there are no REST catalogs yet.*floe\.open.*type=jdbc"),
        ({"type": "hive"}, "no Hive catalogs yet"),
        ({}, r"catalog c \(no type is set, which means hive, as in Java\): there are no Hive"),
        ({"type": "glue"}, "no Glue catalogs yet"),
        ({"type": "nessie"}, "no Nessie catalogs yet"),
        ({"catalog_impl": "org.apache.iceberg.rest.RESTCatalog"}, "no REST catalogs yet"),
        ({"catalog_impl": "com.mine.Catalog"}, r"com\.mine\.Catalog is Java's.*hadoop \(a folder\)"),
        ({"type": "hadoop", "catalog_impl": "com.mine.Catalog"}, "both type=hadoop and catalog-impl"),
        ({"type": "hdoop", "warehouse": "/w"}, "type must be one of hadoop, jdbc, .*found 'hdoop'"),
        ({"type": "hadoop"}, r"has no warehouse; set spark\.sql\.catalog\.c\.warehouse"),
        ({"type": "jdbc", "warehouse": "/w"}, "catalog c has no uri"),
        (
            {"type": "jdbc", "uri": "jdbc:mysql://me:secret@h/db"},
            r"no database is known for jdbc:mysql:; .*jdbc:postgresql://",
        ),
        ({"type": "jdbc", "uri": "jdbc:postgresql://h/db?socketFactory=x"}, "parameter socketFactory"),
        (
            {"type": "hadoop", "warehouse": "/w", "io_impl": "com.mine.IO"},
            r"io-impl=com\.mine\.IO is a class",
        ),
    ],
)
def test_unsupported_settings_raise(settings: dict[str, str], message: str) -> None:
    with pytest.raises(errors.FloeError, match=message) as caught:
        configured_catalogs(described("c", **settings))
    assert "secret" not in str(caught.value)


def test_the_session_catalog_stays_sparks_own() -> None:
    conf = {"spark.sql.catalog.spark_catalog": SESSION_CLASS, "spark.sql.catalog.spark_catalog.type": "hive"}
    with pytest.warns(errors.IgnoredSetting, match="spark_catalog stays Spark's own"):
        assert configured_catalogs(conf) == {}
    with pytest.raises(errors.InvalidSettings, match=r"other=.*SparkSessionCatalog .*catalog.<name>=org.apache"):
        configured_catalogs({"spark.sql.catalog.other": SESSION_CLASS})


def test_settings_without_effect_are_told() -> None:
    of_hadoop = described("c", type="hadoop", warehouse="/w", hadoop__fs__defaultFS="hdfs://h")
    with pytest.warns(errors.IgnoredSetting, match=r"hadoop\.fs\.defaultFS has no effect"):
        configured_catalogs(of_hadoop)
    of_driver = described("c", type="jdbc", uri="jdbc:sqlite:x.db", jdbc__useSSL="true")
    with pytest.warns(errors.IgnoredSetting, match=r"jdbc\.useSSL have no effect: .* driver"):
        configured_catalogs(of_driver)


def test_spark_is_not_told_of_javas_classes() -> None:
    conf = {**described("c", type="jdbc", uri="jdbc:sqlite:x.db", jdbc__password="p", table_default__x="1"),
            "spark.sql.extensions": f"{EXTENSIONS}, com.mine.Extensions", "spark.ui.enabled": False}  # fmt: skip
    unchanged = {"spark.sql.catalog.c.table-default.x": "1", "spark.ui.enabled": False}
    assert settings_for_spark(conf) == {**unchanged, "spark.sql.extensions": "com.mine.Extensions"}
    assert settings_for_spark({"spark.sql.extensions": EXTENSIONS}) == {}


def test_a_session_made_of_javas_settings(session: Spark, tmp_path: Path) -> None:
    database = f"{tmp_path}/lake.db"
    conf = {
        "spark.sql.extensions": EXTENSIONS,
        **described("jh", type="hadoop", warehouse=f"{tmp_path}/wh", table_default__team="us"),
        **described("jd", type="jdbc", uri=f"jdbc:sqlite:{database}", warehouse=f"{tmp_path}/files"),
    }
    assert floe.spark(conf=conf) is session.session
    for name in ("jh", "jd"):
        session(f"CREATE NAMESPACE {name}.db")
        session(f"CREATE TABLE {name}.db.t AS SELECT 1 AS one")
        session(f"ALTER TABLE {name}.db.t WRITE ORDERED BY one")
        assert session(f"SELECT * FROM {name}.db.t") == [(1,)]
    assert floe.connect(tmp_path / "wh").table("db.t").properties["team"] == "us"
    # as with Java's JdbcCatalog, the rows of the database have the name of the catalog in Spark
    assert floe.connect(f"sqlite:///{database}", catalog_name="jd").tables() == ["db.t"]


def test_a_session_that_has_javas_settings(session: Spark, tmp_path: Path) -> None:
    other = SparkSession(session.session.sparkContext, session.session._jsparkSession.newSession())
    for name, value in described("jattached", type="hadoop", warehouse=f"{tmp_path}/wh").items():
        other.conf.set(name, value)
    other.conf.set("spark.sql.catalog.spark_catalog", SESSION_CLASS)
    with pytest.warns(errors.IgnoredSetting, match="spark_catalog stays Spark's own"):
        attached = floe.attach(other)
    assert "jattached" in attached.lakes
    attached.sql("CREATE NAMESPACE jattached.db")
    attached.sql("CREATE TABLE jattached.db.t AS SELECT 1 AS one")
    assert attached.table("jattached.db.t").collect() == [(1,)]
    assert ("default",) in attached.sql("SHOW NAMESPACES IN spark_catalog").collect()


def test_what_is_given_goes_before_settings(session: Spark, tmp_path: Path) -> None:
    conf = described("jg", type="rest", uri="http://nowhere")
    floe.spark(jg=str(tmp_path / "wh"), conf=conf)
    assert session.session.lakes["jg"].catalog.properties["warehouse"] == str(tmp_path / "wh")
    other = SparkSession(session.session.sparkContext, session.session._jsparkSession.newSession())
    for name, value in described("jk", type="rest", default_namespace="db").items():
        other.conf.set(name, value)
    with pytest.warns(errors.IgnoredSetting, match=r"of catalog jk, the settings type have no effect: .* jk="):
        floe.attach(other, jk=str(tmp_path / "wh"))
