"""The bridge to the JVM: Java interfaces in Python, errors, equality, conversion of values, input partitions."""

import gc
import inspect
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from py4j.clientserver import ClientServerConnection  # type: ignore[import-untyped]
from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    SparkRuntimeException,
    UnsupportedOperationException,
)

from floe.errors import CommitConflict, InvalidInput, UnsupportedFeature
from floe.spark.bridge import proxies
from floe.spark.bridge.interfaces import catalog, read, write
from floe.spark.bridge.jvm import Jvm, Once, jvm_of
from floe.spark.bridge.parquet_readers import FileSplits, file_partitions
from floe.spark.bridge.proxies import Proxy, proxy_of
from floe.spark.read.native_reader import hadoop_urls
from floe.storage.local import LocalStorage
from helpers.spark import Spark

INTERFACES = [
    value
    for module in (catalog, write, proxies, catalog, catalog, write, read, read, read, write)
    for _, value in inspect.getmembers(module, inspect.isclass)
    if issubclass(value, Proxy) and "interface" in vars(value)
]
STATIC = 8


@pytest.fixture(scope="module")
def jvm(session: Spark) -> Jvm:
    return jvm_of(session.session)


@pytest.mark.parametrize("kind", INTERFACES, ids=lambda kind: kind.__name__)
def test_a_class_has_every_method_of_its_interface(jvm: Jvm, kind: type[Proxy]) -> None:
    """Java proxies forward default methods too, so a class needs every method of this version's interface."""
    if jvm.version < kind.since or not jvm.has_class(kind.interface):
        pytest.skip(f"this Spark has no {kind.interface}")
    methods = jvm.class_object(kind.interface).getMethods()
    names = {method.getName() for method in methods if not method.getModifiers() & STATIC}
    assert {name for name in names if not callable(getattr(kind, name, None))} == set()


class NamedFunction(catalog.UnboundFunction):
    """A proxy whose method `name` returns a value, or raises an error."""

    def __init__(self, jvm: Jvm, outcome: Any) -> None:
        super().__init__(jvm)
        self._outcome = outcome

    def key(self) -> Any:
        return str(self._outcome)

    def name(self) -> str:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return str(self._outcome)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (InvalidInput("no such thing", hint="try another", column="x"), IllegalArgumentException),
        (UnsupportedFeature("cannot be done", hint="do that"), UnsupportedOperationException),
        (CommitConflict("somebody was first"), SparkRuntimeException),
        (ZeroDivisionError("a mistake of ours"), SparkRuntimeException),
    ],
)
def test_errors_are_spark_s_with_our_message(jvm: Jvm, raised: Exception, expected: type[Exception]) -> None:
    array = jvm.array("java.lang.Object", [NamedFunction(jvm, raised)])
    with pytest.raises(expected) as caught:
        array[0].name()
    assert str(raised) in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert "Py4J" not in str(caught.value)


def test_a_failed_java_call_reports_its_causes_without_frames(jvm: Jvm) -> None:
    message = "An error occurred while calling o1.f. Trace:\njava.lang.IllegalArgumentException: not an instance\n"
    frames = "\tat a.B.f(B.java:7)\nCaused by: java.io.IOException: no disk\n\tat a.C.g(C.java:1)\n\t... 3 more\n\n"
    with pytest.raises(SparkRuntimeException) as caught:
        jvm.array("java.lang.Object", [NamedFunction(jvm, Py4JError(message + frames))])[0].name()
    assert "IllegalArgumentException: not an instance\nCaused by: java.io.IOException: no disk" in str(caught.value)
    assert "B.java" not in str(caught.value)
    assert "more" not in str(caught.value)


def test_a_value_is_computed_once_for_all_threads() -> None:
    once, start, created = Once(), threading.Barrier(4), []

    def make() -> object:
        with pytest.raises(threading.BrokenBarrierError):  # a second thread in here would complete the barrier
            together.wait(0.2)
        created.append(object())
        return created[-1]

    def ask(_: int) -> object:
        start.wait()
        return once("key", make)

    together = threading.Barrier(2)
    with ThreadPoolExecutor(4) as threads:
        values = list(threads.map(ask, range(4)))
    assert values == created * 4


def test_a_value_that_failed_is_computed_again() -> None:
    once = Once()
    with pytest.raises(ZeroDivisionError):
        once("key", lambda: 1 // 0)
    assert once("key", lambda: 1) == 1
    assert once("other", lambda: once("key", lambda: 2)) == 1


def test_connections_end_with_the_threads_of_the_jvm(jvm: Jvm) -> None:
    called_in: list[threading.Thread] = []

    class Running(Proxy):
        interface = "java.lang.Runnable"

        def run(self) -> None:
            called_in.append(threading.current_thread())

    for _ in range(5):
        thread = jvm.java_class("java.lang.Thread")(Running(jvm))
        thread.start()
        thread.join()
    assert len(set(called_in)) == 5
    for thread in called_in[:-1]:  # the last connection is closed when another one is opened
        thread.join(30)
    assert [thread.is_alive() for thread in called_in[:-1]] == [False] * 4


@pytest.mark.slow
def test_statements_leave_nothing_behind(session: Spark, jvm: Jvm) -> None:
    """Repeated statements on the same rows leave no objects, neither in Python nor in the JVM."""
    session("CREATE NAMESPACE lake.soak")
    session("CREATE TABLE lake.soak.t AS SELECT id, 'a' AS name FROM range(20)")
    java_bindings = JavaObject("GATEWAY_SERVER", jvm.gateway._gateway_client).getGateway().getBindings()

    def run(times: int) -> None:
        for _ in range(times):
            session("SELECT count(*) FROM lake.soak.t WHERE id > 5")
            session("INSERT OVERWRITE lake.soak.t SELECT id, 'b' FROM range(20)")
            session(
                "MERGE INTO lake.soak.t t USING (SELECT id FROM range(20)) s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET name = 'x'"
            )

    def object_counts() -> tuple[int, int]:
        gc.collect()
        jvm.java_class("java.lang.System").gc()
        return len(jvm.gateway.gateway_property.pool), java_bindings.size()

    run(2)
    pool, bindings = map(min, zip(*(object_counts() for _ in range(5)), strict=True))
    run(8)
    for _ in range(100):  # the two garbage collectors notify each other with a delay
        counts = object_counts()
        if counts[0] <= pool + 8 and counts[1] <= bindings + 40:
            return
        time.sleep(0.05)
    pytest.fail(f"{counts} objects remain; after the first statements there were {(pool, bindings)}")


def test_equal_keys_are_equal_objects_to_the_jvm(jvm: Jvm) -> None:
    same, other = NamedFunction(jvm, "a"), NamedFunction(jvm, "b")
    array = jvm.array("java.lang.Object", [same, NamedFunction(jvm, "a"), other])
    assert array[0].equals(array[1])
    assert array[0].hashCode() == array[1].hashCode()
    assert not array[0].equals(array[2])
    assert proxy_of(array[0]) is same


def test_texts_lists_and_maps_go_there_and_back(jvm: Jvm) -> None:
    words = ["a", 'quo"te', "", "漢字\n"]
    assert jvm.read_strings(jvm.strings(words)) == tuple(words)
    assert [jvm.read_strings(part) for part in jvm.string_lists([["a"], [], ["b", "c"]])] == [("a",), (), ("b", "c")]
    assert jvm.read_map(jvm.map({"b": "1", "a": "2"})) == {"b": "1", "a": "2"}
    assert jvm.read_identifier(jvm.identifier(("a.b", "c", "t"))) == ("a.b", "c", "t")


def test_many_files_are_deserialized_as_the_jvm_creates_them(jvm: Jvm) -> None:
    names = [f"/wh/t/day=2024-01-01/{'long' * (n % 100)} {n} é%.parquet" for n in range(3000)]
    texts = pa.array([None if n % 7 == 1 else name for n, name in enumerate(names)])
    ints = pa.array([None if n % 63 == 0 else n for n in range(3000)], pa.int32())
    longs = pa.array([None if n % 64 == 0 else n - 2**40 for n in range(3000)], pa.int64())
    raw = pa.array([None if n == 63 else b"\xff" * (n * 31) for n in range(3000)], pa.large_binary())
    numbers = np.arange(3000)
    urls = hadoop_urls(LocalStorage(), pa.array(names))
    splits = FileSplits(urls, numbers, numbers + 1, numbers + 2, [texts, ints, longs, raw])
    (partition,) = file_partitions(jvm, splits, ["text", "int", "long", "bytes"], 2**40, 0)
    files = partition.files()
    assert len(files) == len(splits)
    for index in (0, 1, 63, 64, 2999):
        file, name = files[index], names[index]
        row = file.partitionValues()
        assert [row.isNullAt(n) for n in range(4)] == [column[index].as_py() is None for column in splits.constants]
        assert row.isNullAt(0) or row.getUTF8String(0).toString() == name
        assert row.isNullAt(1) or row.getInt(1) == index
        assert row.isNullAt(2) or row.getLong(2) == index - 2**40
        assert row.isNullAt(3) or bytes(row.getBinary(3)) == b"\xff" * (index * 31)
        assert file.toPath().toString() == f"file:{name}"
        assert (file.start(), file.length(), file.fileSize()) == (index, index + 1, index + 2)
        assert list(file.locations()) == []


def test_files_fill_partitions_and_count_at_least_the_cost_to_open_them(jvm: Jvm) -> None:
    lengths = np.array([90, 60, 40, 5, 5, 5])
    urls, begins = pa.array([f"file:/wh/{n}" for n in range(6)]), np.zeros(6, np.int64)
    for cost, expected in (
        (0, [[90], [60, 40], [5, 5, 5]]),
        (30, [[90], [60, 40], [5, 5, 5]]),
        (50, [[90], [60], [40, 5], [5, 5]]),
    ):
        partitions = file_partitions(jvm, FileSplits(urls, begins, lengths, lengths, []), [], 100, cost)
        assert [[file.length() for file in partition.files()] for partition in partitions] == expected
        assert [partition.index() for partition in partitions] == list(range(len(expected)))


def test_an_unknown_table_is_spark_s_own_error(session: Spark) -> None:
    with pytest.raises(AnalysisException) as caught:
        session("SELECT * FROM lake.nowhere.t")
    assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


def test_a_query_asks_the_jvm_few_times(session: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    session("CREATE NAMESPACE lake.calls_of_jvm")
    session("CREATE TABLE lake.calls_of_jvm.t (id BIGINT, s STRING, x DOUBLE)")
    session("INSERT INTO lake.calls_of_jvm.t VALUES (1, 'a', 1.5), (2, 'b', 2.5)")
    query = "SELECT * FROM lake.calls_of_jvm.t WHERE id = 2 AND s LIKE 'b%'"
    assert session(query) == [(2, "b", 2.5)]
    commands: list[str] = []
    send = ClientServerConnection.send_command

    def counted(self: Any, command: str) -> Any:
        if not command.startswith("m"):  # the release of an object
            commands.append(command)
        return send(self, command)

    monkeypatch.setattr(ClientServerConnection, "send_command", counted)
    assert session(query) == [(2, "b", 2.5)]
    assert len(commands) < 40, "\n".join(commands)
