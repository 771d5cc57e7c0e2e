"""One warehouse for Java's HadoopCatalog and ours, both ways: what one commits, the other sees and builds upon."""

import uuid
from pathlib import Path
from typing import Any

import pytest

from floe.catalog.file_system.catalog import FileSystemCatalog
from helpers.catalog_tables import a_view, change, create, load

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

CODEC = "write.metadata.compression-codec"


@pytest.fixture
def namespace() -> str:
    return f"db_{uuid.uuid4().hex[:8]}"


@pytest.fixture
def catalog(spark: Any) -> FileSystemCatalog:
    return FileSystemCatalog(spark.conf.get("spark.sql.catalog.java.warehouse"))


def properties(spark: Any, name: str) -> dict[str, str]:
    return {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES java.{name}").collect()}


def listed(spark: Any, what: str, namespace: str) -> list[str]:
    column = {"TABLES": "tableName", "NAMESPACES": "namespace"}[what]
    place = f"java.{namespace}" if namespace else "java"
    rows = spark.sql(f"SHOW {what} IN {place}").collect()
    return sorted(row[column] for row in rows)


def test_commits_take_turns(spark: Any, catalog: FileSystemCatalog, namespace: str) -> None:
    """Each builds on the other's newest version; compression is switched on and off by both."""
    name = (namespace, "t")
    spark.sql(f"CREATE NAMESPACE java.{namespace}")
    assert catalog.namespace_exists((namespace,))
    spark.sql(f"CREATE TABLE java.{namespace}.t (id bigint) USING iceberg TBLPROPERTIES ('{CODEC}' = 'gzip')")
    assert catalog.tables((namespace,)) == [name]
    pointer = catalog.pointer(name)
    for turn, codec in enumerate(("gzip", "none", "gzip", "gzip", "none", "none")):
        change(pointer, floe=str(turn), **{CODEC: codec})
        assert properties(spark, f"{namespace}.t")["floe"] == str(turn)
        spark.sql(f"INSERT INTO java.{namespace}.t VALUES ({turn})")
        other = "none" if turn % 2 else "gzip"
        spark.sql(f"ALTER TABLE java.{namespace}.t SET TBLPROPERTIES ('java' = '{turn}', '{CODEC}' = '{other}')")
        state = load(pointer)
        assert state.metadata.properties["java"] == str(turn)
        assert len(state.metadata.snapshots) == turn + 1
    assert [row.id for row in spark.sql(f"SELECT id FROM java.{namespace}.t ORDER BY id").collect()] == list(range(6))


def test_a_table_of_ours_is_javas_too(spark: Any, catalog: FileSystemCatalog, namespace: str) -> None:
    state = create(catalog, (namespace, "t"), {CODEC: "gzip", "mine": "ü'%"})
    assert listed(spark, "TABLES", namespace) == ["t"]
    assert properties(spark, f"{namespace}.t")["mine"] == "ü'%"
    spark.sql(f"INSERT INTO java.{namespace}.t VALUES (1), (2)")
    after = load(catalog.pointer((namespace, "t")))
    assert after.metadata.table_uuid == state.metadata.table_uuid
    assert after.metadata.current_snapshot is not None
    assert spark.sql(f"SELECT count(*) AS n FROM java.{namespace}.t").collect()[0].n == 2


def test_clean_up_by_both(spark: Any, catalog: FileSystemCatalog, namespace: str) -> None:
    keep = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}
    state = create(catalog, (namespace, "t"), keep)
    pointer = catalog.pointer((namespace, "t"))
    for turn in range(4):
        change(pointer, floe=str(turn))
        spark.sql(f"ALTER TABLE java.{namespace}.t SET TBLPROPERTIES ('java' = '{turn}')")
    metadata = Path(state.location).parent
    assert sorted(path.name for path in metadata.glob("v*.metadata.json")) == [f"v{n}.metadata.json" for n in (7, 8, 9)]
    assert properties(spark, f"{namespace}.t")["floe"] == "3"


def test_dropped_by_one_made_by_the_other(spark: Any, catalog: FileSystemCatalog, namespace: str) -> None:
    """No checksum of the old files stands in Java's way."""
    name = (namespace, "t")
    spark.sql(f"CREATE NAMESPACE java.{namespace}")
    for purge in (False, True):
        spark.sql(f"CREATE TABLE java.{namespace}.t (id bigint) USING iceberg")
        spark.sql(f"INSERT INTO java.{namespace}.t VALUES (1)")
        catalog.drop_table(name, purge=purge)
        assert listed(spark, "TABLES", namespace) == []
        create(catalog, name, {"made": "by floe"})
        change(catalog.pointer(name), a="1")
        assert properties(spark, f"{namespace}.t")["made"] == "by floe"
        spark.sql(f"DROP TABLE java.{namespace}.t")
        assert not catalog.table_exists(name)


def test_hints_of_any_kind_stop_neither(spark: Any, catalog: FileSystemCatalog, namespace: str) -> None:
    state = create(catalog, (namespace, "t"))
    hint = Path(state.location).with_name("version-hint.text")
    for turn, text in enumerate((b"", b"banana", b"1", None)):
        spark.sql(f"ALTER TABLE java.{namespace}.t SET TBLPROPERTIES ('java' = '{turn}')")
        hint.unlink()
        hint.with_name(f".{hint.name}.crc").unlink(missing_ok=True)
        if text is not None:
            hint.write_bytes(text)
        change(catalog.pointer((namespace, "t")), floe=str(turn))
        found = properties(spark, f"{namespace}.t")
        assert (found["java"], found["floe"]) == (str(turn), str(turn))


def test_what_java_does_not_know_stays_out_of_its_way(spark: Any, catalog: FileSystemCatalog, namespace: str) -> None:
    """Properties of namespaces are invisible; a view is not a table."""
    catalog.create_namespace((namespace,), {"owner": "me"})
    catalog.create_view((namespace, "v"), a_view())
    create(catalog, (namespace, "t"))
    assert listed(spark, "TABLES", namespace) == ["t"]
    assert namespace in listed(spark, "NAMESPACES", "")
    spark.sql(f"ALTER TABLE java.{namespace}.t SET TBLPROPERTIES ('java' = '1')")
    assert catalog.views((namespace,)) == [(namespace, "v")]
    assert catalog.namespace_properties((namespace,)) == {"owner": "me"}
