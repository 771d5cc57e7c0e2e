"""Python objects as Java interfaces: every method is there, errors and equality go both ways."""

import inspect
from typing import Any

import pytest
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    SparkRuntimeException,
    UnsupportedOperationException,
)

from floe.errors import CommitConflict, InvalidInput, UnsupportedFeature
from floe.spark.bridge.interfaces import (
    catalogs,
    functions,
    java_functions,
    procedures,
    row_level,
    scans,
    streams,
    tables,
    writes,
)
from floe.spark.bridge.jvm import Jvm, jvm_of
from floe.spark.bridge.partitioned_files import partitioned_files, url_of
from floe.spark.bridge.proxies import Proxy, proxy_of
from helpers.spark import Spark

INTERFACES = [
    value
    for module in (catalogs, java_functions, procedures, functions, row_level, tables, scans, streams, writes)
    for _, value in inspect.getmembers(module, inspect.isclass)
    if issubclass(value, Proxy) and "interface" in vars(value)
]
STATIC = 8


@pytest.fixture(scope="module")
def jvm(session: Spark) -> Jvm:
    return jvm_of(session.session)


@pytest.mark.parametrize("kind", INTERFACES, ids=lambda kind: kind.__name__)
def test_a_class_has_every_method_of_its_interface(jvm: Jvm, kind: type[Proxy]) -> None:
    """Calls of default methods come to Python as well, so none may be missing in the Spark that runs."""
    if jvm.version < kind.since or not jvm.has_class(kind.interface):
        pytest.skip(f"this Spark has no {kind.interface}")
    methods = jvm.reflected(kind.interface).getMethods()
    names = {method.getName() for method in methods if not method.getModifiers() & STATIC}
    assert {name for name in names if not callable(getattr(kind, name, None))} == set()


class Answering(tables.MetadataColumn):
    """A proxy whose answer a test chooses."""

    def __init__(self, jvm: Jvm, answer: Any) -> None:
        super().__init__(jvm)
        self._answer = answer

    def key(self) -> Any:
        return str(self._answer)

    def name(self) -> str:
        if isinstance(self._answer, Exception):
            raise self._answer
        return str(self._answer)


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
    array = jvm.array("java.lang.Object", [Answering(jvm, raised)])
    with pytest.raises(expected) as caught:
        array[0].name()
    assert str(raised) in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert "Py4J" not in str(caught.value)


def test_equal_keys_are_equal_objects_to_the_jvm(jvm: Jvm) -> None:
    same, other = Answering(jvm, "a"), Answering(jvm, "b")
    array = jvm.array("java.lang.Object", [same, Answering(jvm, "a"), other])
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


def test_many_files_are_what_the_jvm_would_have_made(jvm: Jvm) -> None:
    names = [f"/wh/t/day=2024-01-01/{'long' * (n % 100)} {n} é%.parquet" for n in range(3000)]
    parts = [(url_of(f"file:{name}"), n, n + 1, n + 2, [name, n]) for n, name in enumerate(names)]
    made = partitioned_files(jvm, parts, ["text", "int"])
    assert made.size() == len(parts)
    for place in (0, 1, 63, 64, 2999):
        file, name = made.apply(place), names[place]
        assert file.toPath().toString() == f"file:{name}"
        assert (file.start(), file.length(), file.fileSize()) == (place, place + 1, place + 2)
        assert file.partitionValues().getUTF8String(0).toString() == name
        assert file.partitionValues().getInt(1) == place
        assert list(file.locations()) == []


def test_an_unknown_table_is_spark_s_own_error(session: Spark) -> None:
    with pytest.raises(AnalysisException) as caught:
        session("SELECT * FROM lake.nowhere.t")
    assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
