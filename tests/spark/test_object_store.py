"""Tables in an object store that Spark itself cannot reach: a real S3 server, and no Hadoop file system for it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

import floe
from helpers.cluster import run_on
from helpers.cluster_program import ROWS, TOTAL
from helpers.s3_server import ACCESS_KEY, INSTALL, SECRET_KEY, find_server, running_server
from helpers.spark import Spark


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What `floe.connect` takes for a warehouse in a bucket."""
    pytest.importorskip("obstore", reason="obstore is not installed: pip install 'floe[s3]'")
    if find_server() is None:
        pytest.skip(f"no S3 server to test with: {INSTALL}")
    folder = tmp_path_factory.mktemp("s3")
    (folder / "bucket").mkdir()
    with running_server(folder) as url:
        yield {
            "uri": "s3://bucket/warehouse",
            "s3.endpoint": url,
            "s3.region": "us-east-1",
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
        }


@pytest.fixture(scope="module")
def store(session: Spark, options: dict[str, str]) -> Spark:
    """The session, with the bucket as catalog `store`."""
    floe.attach(session.session, {"store": options})
    session("CREATE NAMESPACE store.db")
    return session


def test_tables_are_made_and_read(store: Spark) -> None:
    store(
        "CREATE TABLE store.db.t PARTITIONED BY (days(at), bucket(2, id)) AS SELECT id, s, at FROM VALUES "
        "(1L, 'a', TIMESTAMP'2024-01-01 10:00:00'), (2L, NULL, TIMESTAMP'2024-01-02 10:00:00') AS v(id, s, at)"
    )
    store("INSERT INTO store.db.t VALUES (3, 'c', TIMESTAMP'2024-01-02 11:00:00')")
    assert store.sorted("SELECT id, s FROM store.db.t") == [(1, "a"), (2, None), (3, "c")]
    assert store.one("SELECT count(*) FROM store.db.t WHERE at >= TIMESTAMP'2024-01-02 00:00:00'") == 2
    assert "read by Arrow reader, for s3: locations" in store.explained("SELECT * FROM store.db.t")
    paths = [path for (path,) in store("SELECT file_path FROM store.db.t.files")]
    assert paths
    assert all(path.startswith("s3://bucket/warehouse/db/t/data/") for path in paths)
    assert store.one("SELECT sum(added_data_files_count) FROM store.db.t.manifests") == len(paths)


def test_partitions_are_replaced(store: Spark) -> None:
    store("CREATE TABLE store.db.d PARTITIONED BY (p) AS SELECT id, id % 2 AS p FROM range(4)")
    rows = store.session.createDataFrame([(10, 1)], "id bigint, p bigint")
    rows.writeTo("store.db.d").overwritePartitions()
    assert store.sorted("SELECT * FROM store.db.d") == [(0, 0), (10, 1), (2, 0)]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_are_changed(store: Spark, mode: str) -> None:
    name = f"store.db.changed_{mode[:4]}"
    modes = ", ".join(f"'write.{command}.mode' = '{mode}'" for command in ("delete", "update", "merge"))
    store(f"CREATE TABLE {name} (id BIGINT, n INT) TBLPROPERTIES ({modes})")
    store(f"INSERT INTO {name} SELECT id, 0 FROM range(6)")
    store(f"DELETE FROM {name} WHERE id = 1")
    store(f"UPDATE {name} SET n = 1 WHERE id > 3")
    assert store.sorted(f"SELECT * FROM {name}") == [(0, 0), (2, 0), (3, 0), (4, 1), (5, 1)]


def test_credentials_are_told_to_nobody(store: Spark, options: dict[str, str]) -> None:
    """Not in plans, properties, settings, errors, nor in what the web pages of Spark show."""
    store("CREATE TABLE store.db.quiet AS SELECT 1L AS id")
    said = [str(store(f"EXPLAIN {how} SELECT * FROM store.db.quiet")) for how in ("EXTENDED", "FORMATTED", "CODEGEN")]
    statements = (
        "DESCRIBE EXTENDED store.db.quiet",
        "SHOW CREATE TABLE store.db.quiet",
        "SHOW TBLPROPERTIES store.db.quiet",
        "DESCRIBE NAMESPACE EXTENDED store.db",
        "SET -v",
        "INSERT INTO store.db.quiet VALUES (2)",
        "SELECT * FROM store.db.quiet",
    )
    said += [str(store(statement)) for statement in statements]
    said.append(str(store.session.sparkContext.getConf().getAll()))
    shown = [page for execution in executions(store) for page in execution]
    assert "store.db.quiet" in "\n".join(shown)  # so that it is the right place to look
    said += shown
    floe.attach(store.session, {"wrong": {**options, "s3.access-key-id": "nobody"}})
    with pytest.raises(PySparkException) as caught:
        store("SELECT * FROM wrong.db.quiet")
    said.append(str(caught.value))
    assert SECRET_KEY not in "\n".join(said)
    assert ACCESS_KEY not in "\n".join(said)


def executions(store: Spark) -> Iterator[tuple[str, ...]]:
    """What the web pages show of the last statements."""
    pages: Any = store.session._jsparkSession.sharedState().statusStore().executionsList()
    for place in range(max(0, pages.size() - 10), pages.size()):
        one = pages.apply(place)
        yield one.physicalPlanDescription(), one.description(), one.details(), one.modifiedConfigs().toString()


@pytest.mark.slow
def test_executors_reach_the_store_themselves(options: dict[str, str], tmp_path: Path) -> None:
    env = {"FLOE_TEST_S3": json.dumps({**options, "uri": "s3://bucket/cluster"})}
    found = run_on("local-cluster[2,1,1024]", tmp_path, "core", "changed", env=env)
    core = found["core"]
    assert core["made"] == core["other format"] == TOTAL
    assert "read by Arrow reader, for s3: locations" in core["native"]
    assert core["files"] == [[4, ROWS]]
    assert found["changed"]["copy-on-write"] == found["changed"]["merge-on-read"]
