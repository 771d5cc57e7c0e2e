"""Errors on their way to the JVM, where they become what Spark itself would raise, with our message.

A Java proxy may only throw what the interface's method declares, and what is never checked. So the errors that Spark's
catalog methods declare (no such table, …) are raised as themselves by those who know the name, and everything else
becomes one of the three that PySpark gives to users as a class of its own:

| ours | Spark's |
|---|---|
| `InvalidInput`, `NotFound`, `AlreadyExists` | `SparkIllegalArgumentException` |
| `UnsupportedFeature` | `SparkUnsupportedOperationException` |
| everything else | `SparkRuntimeException` |
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import convert_exception
from pyspark.logger import PySparkLogger

from floe.errors import (
    AlreadyExists,
    FloeError,
    InvalidInput,
    NamespaceAlreadyExists,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    NotFound,
    TableAlreadyExists,
    UnsupportedFeature,
    ViewAlreadyExists,
)

if TYPE_CHECKING:
    from floe.spark.bridge.jvm import Jvm


_ANALYSIS = "catalyst.analysis."
_PRIVATE = 2
_NULL = "NOT_NULL_ASSERT_VIOLATION"


class JavaError(Py4JJavaError):  # type: ignore[misc]
    """An error that is a Java exception already."""


class _Expected(logging.Filter):
    """Keeps py4j from logging the traceback of errors that are on their way to the user anyway."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], JavaError))


for _logger in ("py4j.clientserver", "py4j.java_gateway"):
    logging.getLogger(_logger).addFilter(_Expected())
for _logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    PySparkLogger.getLogger(_logger).setLevel(logging.CRITICAL)  # prints whole Java traces of mistakes in SQL


def to_java(jvm: Jvm, error: Exception) -> Exception:
    """The error to raise out of a proxy's method."""
    if isinstance(error, JavaError):
        return error
    thrown = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    if thrown is not None:
        return JavaError("", _unchecked(jvm, thrown))
    if isinstance(error, UnsupportedFeature | NotImplementedError):
        return JavaError("", _spark_exception(jvm, "SparkUnsupportedOperationException", str(error)))
    if isinstance(error, InvalidInput | NotFound | AlreadyExists):
        return JavaError("", _spark_exception(jvm, "SparkIllegalArgumentException", str(error)))
    message = str(error) if isinstance(error, FloeError) else f"{type(error).__name__}: {_without_frames(str(error))}"
    return JavaError("", _spark_exception(jvm, "SparkRuntimeException", message))


def _without_frames(message: str) -> str:
    r"""What py4j tells of a call that failed: the Java exceptions that it came of, without their traces.

    >>> _without_frames("Calling o1.f failed. Trace:\njava.lang.Exception: why\n\tat a.B(C.java:1)\n\n")
    'Calling o1.f failed. Trace:\njava.lang.Exception: why'
    """
    return "\n".join(line for line in message.splitlines() if not re.match(r"\s+(at |\.\.\. \d)", line)).strip()


def to_python(error: Exception) -> Exception:
    """An error to raise to a user out of Python code: what PySpark would have made of it."""
    return convert_exception(error.java_exception) if isinstance(error, JavaError) else error


def _unchecked(jvm: Jvm, thrown: Any) -> Any:
    """An exception that Spark threw at us, as one that may be thrown anywhere; a failed job tells what failed."""
    root = thrown
    while root.getCause() is not None:
        root = root.getCause()
    message = str(root.getMessage())
    plain = plain_message(message)
    if plain == message and jvm.reflected("java.lang.RuntimeException").isInstance(thrown):
        return thrown
    return _spark_exception(jvm, "SparkRuntimeException", plain)


def plain_message(message: str) -> str:
    r"""What an error of ours in a Python worker says, without the traceback; that of a user's own function stays.

    >>> plain_message("Job aborted: Traceback (most recent call last):\n  File x\nfloe.errors.InvalidInput: no\n\n")
    'no'
    """
    found = re.search(r"^floe\.errors\.\w+: (.*?)(?=^\s+at |\Z)", message, re.MULTILINE | re.DOTALL)
    return message if found is None else found[1].strip()


def null_error(error: Exception, table: str) -> InvalidInput | None:
    """The error to raise for one of Spark's that a null was found where the table may have none; None for others."""
    if not isinstance(error, PySparkException) or error.getCondition() != _NULL:
        return None
    path = (error.getMessageParameters() or {}).get("walkedTypePath", "").split()
    column = ".".join(path) or "a column"
    return InvalidInput(
        f"[{_NULL}] null for {column}, which {table} requires",
        hint=f"leave rows without it out, or ALTER TABLE {table} ALTER COLUMN {column} DROP NOT NULL",
    )


def declared_error(jvm: Jvm, error: FloeError, name: Sequence[str]) -> JavaError | None:
    """The exception that Spark's catalog methods declare for an error, with the name that it is about."""
    match error:
        case NoSuchTable():
            found = jvm.sql(_ANALYSIS + "NoSuchTableException")(jvm.identifier(name))
        case NoSuchView():
            found = jvm.sql(_ANALYSIS + "NoSuchViewException")(jvm.identifier(name))
        case NoSuchNamespace() if error.hint:
            class_name = "sql.catalyst.analysis.NoSuchNamespaceException"
            found = _spark_exception(jvm, class_name, f"[SCHEMA_NOT_FOUND] {error}", "SCHEMA_NOT_FOUND")
        case NoSuchNamespace():
            found = jvm.sql(_ANALYSIS + "NoSuchNamespaceException")(jvm.strings(name))
        case TableAlreadyExists():
            found = jvm.sql(_ANALYSIS + "TableAlreadyExistsException")(jvm.identifier(name))
        case ViewAlreadyExists():
            found = jvm.sql(_ANALYSIS + "ViewAlreadyExistsException")(jvm.identifier(name))
        case NamespaceAlreadyExists():
            found = jvm.sql(_ANALYSIS + "NamespaceAlreadyExistsException")(jvm.strings(name))
        case NamespaceNotEmpty():
            found = jvm.sql(_ANALYSIS + "NonEmptyNamespaceException")(jvm.strings(name), str(error), jvm.none)
        case _:
            return None
    return JavaError("", found)


def with_advice(error: PySparkException, advice: str) -> PySparkException:
    """The same error, with a sentence below its message."""
    kind = type(error)
    told = {"__module__": kind.__module__, "__str__": lambda self: f"{kind.__str__(self)}\n{advice}"}
    error.__class__ = type(kind.__name__, (kind,), told)
    return error


def _spark_exception(jvm: Jvm, name: str, message: str, condition: str | None = None) -> Any:
    """An exception of Spark's own with our message: the constructor is private, as Spark's are of its error classes."""
    for constructor in jvm.reflected(f"org.apache.spark.{name}").getDeclaredConstructors():
        types = [parameter.getName() for parameter in constructor.getParameterTypes()]
        if constructor.getModifiers() & _PRIVATE and types[0] == "java.lang.String":
            constructor.setAccessible(True)
            rest = [_nothing(jvm, type_) for type_ in types[1:]]
            if condition is not None:
                rest[1] = jvm.some(condition)
            return constructor.newInstance(jvm.array("java.lang.Object", [message, *rest]))
    return jvm.named("java.lang.RuntimeException")(message)


def _nothing(jvm: Jvm, type_: str) -> Any:
    match type_:
        case "scala.Option":
            return jvm.none
        case "scala.collection.immutable.Map":
            return jvm.scala_map({})
        case "[Lorg.apache.spark.QueryContext;":
            return jvm.array("org.apache.spark.QueryContext", [])
        case _:
            return None
