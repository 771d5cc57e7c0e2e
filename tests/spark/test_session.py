"""Sessions: made and attached, with several catalogs; what is missing is told in one sentence."""

import logging
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.clientserver import PythonParameters  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

import floe
from floe import errors
from floe.spark import session as requirements
from floe.spark.bridge.jvm import answer_calls, jvm_of
from floe.spark.session import FloeSession, check_environment, check_session
from helpers.cluster import run_program
from helpers.fresh_session import ANSWERS
from helpers.spark import Spark


def test_the_session_is_a_session(session: Spark) -> None:
    assert isinstance(session.session, SparkSession)
    assert isinstance(session.session, FloeSession)
    assert {"lake", "sq"} <= set(session.session.lakes)
    assert {("lake",), ("sq",)} <= set(session("SHOW CATALOGS"))


def test_attach_gives_the_same_object(session: Spark, tmp_path: Path) -> None:
    before = session.session
    attached = floe.attach(before, extra=str(tmp_path / "wh"))
    assert attached is before
    session("CREATE NAMESPACE extra.db")
    session("CREATE TABLE extra.db.t AS SELECT 1 AS one")
    assert session("SELECT * FROM extra.db.t") == [(1,)]
    assert floe.connect(tmp_path / "wh").table("db.t").scan().to_arrow().to_pylist() == [{"one": 1}]


def test_new_sessions_have_the_catalogs(session: Spark) -> None:
    session("CREATE NAMESPACE IF NOT EXISTS lake.sessions")
    session("CREATE TABLE lake.sessions.t AS SELECT 7 AS n")
    other = session.session.newSession()
    assert other.sql("SELECT * FROM lake.sessions.t").collect() == [(7,)]
    other.sql("USE lake.sessions")
    assert other.table("t").count() == 1
    assert session.one("SELECT current_catalog()") == "spark_catalog"
    other.sql("ALTER TABLE t CREATE TAG x")
    assert set(session.lake().table("sessions.t").refs) == {"main", "x"}


def test_sessions_that_spark_makes_by_itself_have_the_catalogs(session: Spark) -> None:
    session("CREATE NAMESPACE IF NOT EXISTS lake.copies")
    session("CREATE OR REPLACE TABLE lake.copies.t AS SELECT 7 AS n")
    for java in (session.session._jsparkSession.cloneSession(), session.session._jsparkSession.newSession()):
        copy = SparkSession(session.session.sparkContext, java)
        assert copy.table("lake.copies.t").collect() == [(7,)]
        assert copy.sql("SELECT count(*) FROM lake.copies.t WHERE n > 7").collect() == [(0,)]
        assert floe.attach(copy) is copy
        copy.sql("ALTER TABLE lake.copies.t CREATE TAG x")
        copy.sql("ALTER TABLE lake.copies.t DROP TAG x")


def test_batches_of_a_stream_can_use_the_catalogs(session: Spark, tmp_path: Path) -> None:
    session("CREATE NAMESPACE IF NOT EXISTS lake.batches")
    session("CREATE OR REPLACE TABLE lake.batches.t (n BIGINT)")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"n": 1}\n{"n": 2}\n')

    def into_the_table(rows: DataFrame, number: int) -> None:
        rows.createOrReplaceTempView("arrived")
        rows.sparkSession.sql("INSERT INTO lake.batches.t SELECT n FROM arrived")

    rows = session.session.readStream.schema("n BIGINT").json(str(tmp_path / "in"))
    writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).foreachBatch(into_the_table).start().awaitTermination()
    assert session.sorted("SELECT * FROM lake.batches.t") == [(1,), (2,)]


@pytest.mark.slow
def test_first_statements_in_threads_and_a_session_after_another(tmp_path: Path) -> None:
    """Every class is compiled once in a JVM, whichever threads and sessions need it first."""
    answers = run_program("helpers.fresh_session", tmp_path, str(tmp_path))
    assert answers == {"answers": [str(answer) for answer in ANSWERS], "once more": [3, 3]}


def test_sessions_are_attached_in_threads(session: Spark, tmp_path: Path) -> None:
    names = [f"threads{number}" for number in range(4)]
    other, together = session.session.newSession(), threading.Barrier(len(names))

    def attach_and_ask(name: str) -> Any:
        together.wait()
        floe.attach(other, {name: str(tmp_path / name)})
        return other.sql(f"SHOW NAMESPACES IN {name}").collect()

    with ThreadPoolExecutor(len(names)) as threads:
        assert list(threads.map(attach_and_ask, names)) == [[]] * len(names)
    assert isinstance(other, FloeSession)
    assert {*names, "lake", "sq"} <= set(other.lakes)
    rules = other._jsparkSession.experimental().extraOptimizations()
    rule_names = [rules.apply(index).ruleName() for index in range(rules.size())]
    assert sorted(rule_names) == sorted(set(rule_names))


CALLS = """
import encodings.idna, os, socket, sys
if os.getuid() == 0:
    os.setuid(65534)
port, objects, token = int(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:]
for name in objects:
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        try:  # whoever is refused may find the connection closed at any call
            for word in token:
                connection.sendall(f"A\\n{word}\\ne\\n".encode())
            connection.sendall(f"c\\n{name}\\ntoString\\ne\\n".encode())
            connection.shutdown(socket.SHUT_WR)
            sys.stdout.write(connection.makefile().read())
        except OSError:
            pass
"""
"""What another user of the machine can do: call a method of every object by its number."""


def answers_to_others(port: int, objects: list[str], *token: str) -> str:
    command = [sys.executable, "-c", CALLS, str(port), ",".join(objects), *token]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return run.stdout


def test_other_users_cannot_call_what_the_session_answers(session: Spark) -> None:
    gateway: Any = session.session.sparkContext._gateway
    server, object_ids = gateway.get_callback_server(), list(gateway.gateway_property.pool.dict)
    assert object_ids
    assert server.get_listening_address() == "127.0.0.1"
    assert answers_to_others(server.get_listening_port(), object_ids[:3]) == ""
    assert "yv" not in answers_to_others(server.get_listening_port(), object_ids[:1], "guessed")
    assert session("SHOW NAMESPACES IN lake LIKE 'nothing'") == []


def test_calls_that_were_answered_before_are_answered_with_a_token(session: Spark) -> None:
    """As in a session that had run `foreachBatch` before Floe came: PySpark's server asks for no token."""
    gateway: Any = session.session.sparkContext._gateway
    gateway._callback_server = None
    gateway.python_parameters = gateway.callback_server_parameters = PythonParameters(port=0)
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    open_to_all, object_ids = gateway.get_callback_server(), list(gateway.gateway_property.pool.dict)[:1]
    assert "!y" in answers_to_others(open_to_all.get_listening_port(), object_ids)
    answer_calls(jvm_of(session.session))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", open_to_all.get_listening_port()), 10)
    assert answers_to_others(gateway.get_callback_server().get_listening_port(), object_ids) == ""
    assert session("SHOW NAMESPACES IN lake LIKE 'nothing'") == []
    assert session.session.newSession().sql("SHOW NAMESPACES IN lake LIKE 'nothing'").collect() == []


def test_temporary_files_are_of_this_user_alone(session: Spark) -> None:
    jvm = jvm_of(session.session)
    folder = Path(jvm.java_class("java.lang.System").getProperty("java.io.tmpdir"))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.glob("blockmgr-*"))  # where rows go that are shuffled or cached
    assert Path(session.session.sparkContext._temp_dir).is_relative_to(folder)


def test_the_default_catalog(session: Spark) -> None:
    session("CREATE NAMESPACE IF NOT EXISTS lake.defaults")
    session("CREATE OR REPLACE TABLE lake.defaults.t AS SELECT 1 AS n")
    other = session.session.newSession()
    other.conf.set("spark.sql.defaultCatalog", "lake")
    assert other.sql("SELECT current_catalog()").collect() == [("lake",)]
    assert other.table("defaults.t").collect() == [(1,)]
    other.sql("ALTER TABLE defaults.t CREATE TAG x")
    assert "x" in session.lake().table("defaults.t").refs
    copy = SparkSession(session.session.sparkContext, other._jsparkSession.cloneSession())
    assert copy.table("defaults.t").collect() == [(1,)]


def test_catalogs_meet_in_one_query(session: Spark) -> None:
    for catalog in ("lake", "sq"):
        session(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.meet")
        session(f"CREATE TABLE {catalog}.meet.t AS SELECT id, '{catalog}' AS c FROM range(3)")
    assert session.one("SELECT count(*) FROM lake.meet.t a JOIN sq.meet.t b ON a.id = b.id WHERE a.c <> b.c") == 3
    session("INSERT INTO sq.meet.t SELECT * FROM lake.meet.t")
    assert session.one("SELECT count(*) FROM sq.meet.t") == 6


def test_what_others_commit_is_seen(session: Spark) -> None:
    session("CREATE NAMESPACE IF NOT EXISTS lake.fresh")
    session("CREATE TABLE lake.fresh.t (id BIGINT)")
    session.lake().table("fresh.t").append(pa.table({"id": [1, 2]}))
    assert session.one("SELECT count(*) FROM lake.fresh.t") == 2
    assert session.session.table("lake.fresh.t").count() == 2
    session("CACHE TABLE lake.fresh.t")
    session("REFRESH TABLE lake.fresh.t")
    assert session.one("SELECT count(*) FROM lake.fresh.t") == 2
    session("UNCACHE TABLE lake.fresh.t")


def test_names_that_cannot_be(session: Spark) -> None:
    with pytest.raises(errors.InvalidInput, match="no catalog is given"):
        floe.spark()
    with pytest.raises(errors.InvalidInput, match="Spark's own"):
        floe.attach(session.session, spark_catalog="wh")
    with pytest.raises(errors.InvalidInput, match="a word such as lake"):
        floe.attach(session.session, {"a.b": "wh"})


def test_what_is_missing_is_told(session: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    check_environment()
    monkeypatch.setattr(requirements, "java_version", lambda: None)
    with pytest.raises(errors.InvalidSettings, match="Spark needs Java, and there is none; install"):
        check_environment()
    monkeypatch.setattr(requirements, "java_version", lambda: 11)
    with pytest.raises(errors.InvalidSettings, match="Java 17 or newer, found Java 11"):
        check_environment()
    monkeypatch.setattr(requirements, "_package_version", lambda name: None)
    with pytest.raises(errors.InvalidSettings, match="needs pandas"):
        check_environment()
    monkeypatch.setattr(requirements, "_package_version", lambda name: (3, 0, 1))
    with pytest.raises(errors.InvalidSettings, match="cannot use pandas 3"):
        check_environment()


@pytest.mark.parametrize(("java_version", "version"), [("11.0.2", 11), ("1.8.0_392", 8), ("21", 21)])
def test_the_version_of_java_is_read_from_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java_version: str, version: int
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    (tmp_path / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{java_version}"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert requirements.java_version() == version
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert requirements.java_version() is None


def test_other_things_are_no_sessions() -> None:
    class Remote:
        __module__ = "pyspark.sql.connect.session"

    with pytest.raises(errors.UnsupportedFeature, match="Spark Connect"):
        check_session(Remote())
    with pytest.raises(errors.InvalidSettings, match="takes a SparkSession, found str"):
        check_session("spark")
    with pytest.raises(errors.UnsupportedFeature, match=r"Spark Connect.*start a session with floe\.spark"):
        check_environment({"spark.remote": "sc://somewhere"})


def test_errors_make_no_noise(session: Spark, caplog: pytest.LogCaptureFixture) -> None:
    session("CREATE NAMESPACE IF NOT EXISTS lake.noise")
    session("CREATE TABLE lake.noise.t (id BIGINT)")
    caplog.set_level(logging.DEBUG, logger="py4j.clientserver")
    with pytest.raises(PySparkException) as caught:
        session("ALTER TABLE lake.noise.t SET TBLPROPERTIES ('format-version' = 'x')")
    assert "format-version is a number" in str(caught.value)
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_the_data_source(session: Spark, tmp_path: Path, mode: str) -> None:
    lake = floe.connect(tmp_path / "wh")
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id bigint, name string", partition_by=["bucket(2, id)"])
    table.append([{"id": 1, "name": "a"}])
    path = str(tmp_path / "wh" / "db" / "t")
    spark: Any = session.session
    frame = spark.createDataFrame([(2, "b"), (3, None)], "id bigint, name string")
    frame.write.format("iceberg").mode(mode).save(path)
    old_rows = [(1, "a")] if mode == "append" else []
    read = spark.read.format("iceberg").load(path)
    assert sorted(map(tuple, read.collect())) == [*old_rows, (2, "b"), (3, None)]
    assert [tuple(row) for row in read.where("id = 2").collect()] == [(2, "b")]
    first = table.snapshots[0].snapshot_id
    old = spark.read.format("iceberg").option("snapshot-id", first).load(path)
    assert [tuple(row) for row in old.collect()] == [(1, "a")]
