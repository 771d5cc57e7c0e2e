"""Conversion of errors between Python and the JVM: Floe's message in the exception that Spark itself would throw.

A Java proxy may only throw the checked exceptions that the method of its interface declares. Those that the methods of
Spark's catalogs declare (no such table, …) need the identifier, so the catalog creates them (`declared_error`). All
others become one of three unchecked exceptions that PySpark shows to users as classes of their own (`to_java`):

| Floe's | Spark's |
|---|---|
| `InvalidInput`, `NotFound`, `AlreadyExists` | `SparkIllegalArgumentException` |
| `UnsupportedFeature` | `SparkUnsupportedOperationException` |
| all others | `SparkRuntimeException` |
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
"""The bit of `private` in `java.lang.reflect.Modifier`."""

_NOT_NULL_VIOLATION = "NOT_NULL_ASSERT_VIOLATION"


class JavaError(Py4JJavaError):  # type: ignore[misc]
    """A Python error that holds the Java exception to throw."""


class _JavaErrorFilter(logging.Filter):
    """Keeps py4j from logging the traceback of an error that reaches the user through Spark."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], JavaError))


for _logger in ("py4j.clientserver", "py4j.java_gateway"):
    logging.getLogger(_logger).addFilter(_JavaErrorFilter())
for _logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    PySparkLogger.getLogger(_logger).setLevel(logging.CRITICAL)  # they print the Java stack trace of every SQL error


def to_java(jvm: Jvm, error: Exception) -> Exception:
    """The error to raise from a method of a proxy for a Python error: the JVM then throws Spark's exception."""
    if isinstance(error, JavaError):
        return error
    java_exception = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    if java_exception is not None:
        return JavaError("", _as_unchecked(jvm, java_exception))
    if isinstance(error, UnsupportedFeature | NotImplementedError):
        return JavaError("", _spark_exception(jvm, "SparkUnsupportedOperationException", str(error)))
    if isinstance(error, InvalidInput | NotFound | AlreadyExists):
        return JavaError("", _spark_exception(jvm, "SparkIllegalArgumentException", str(error)))
    message = str(error) if isinstance(error, FloeError) else f"{type(error).__name__}: {_strip_frames(str(error))}"
    return JavaError("", _spark_exception(jvm, "SparkRuntimeException", message))


def _strip_frames(message: str) -> str:
    r"""A message of py4j about a failed call without the stack frames; the Java exceptions remain.

    >>> _strip_frames("Calling o1.f failed. Trace:\njava.lang.Exception: why\n\tat a.B(C.java:1)\n\n")
    'Calling o1.f failed. Trace:\njava.lang.Exception: why'
    """
    return "\n".join(line for line in message.splitlines() if not re.match(r"\s+(at |\.\.\. \d)", line)).strip()


def to_python(error: Exception) -> Exception:
    """The error to raise to a user from Python code: a Java exception as the class that PySpark has for it."""
    return convert_exception(error.java_exception) if isinstance(error, JavaError) else error


def _as_unchecked(jvm: Jvm, java_exception: Any) -> Any:
    """A Java exception as an unchecked one, with the message of its root cause: for a failed job, that of the task."""
    root = java_exception
    while root.getCause() is not None:
        root = root.getCause()
    message = str(root.getMessage())
    plain = plain_message(message)
    if plain == message and jvm.class_object("java.lang.RuntimeException").isInstance(java_exception):
        return java_exception
    return _spark_exception(jvm, "SparkRuntimeException", plain)


def plain_message(message: str) -> str:
    r"""The message of a Floe error in a Python worker, without the traceback; other messages stay as they are.

    >>> plain_message("Job aborted: Traceback (most recent call last):\n  File x\nfloe.errors.InvalidInput: no\n\n")
    'no'
    """
    match = re.search(r"^floe\.errors\.\w+: (.*?)(?=^\s+at |\Z)", message, re.MULTILINE | re.DOTALL)
    return message if match is None else match[1].strip()


def null_error(error: Exception, table: str) -> InvalidInput | None:
    """The error to raise for Spark's error about a null in a required column; None for other errors."""
    if not isinstance(error, PySparkException) or error.getCondition() != _NOT_NULL_VIOLATION:
        return None
    path = (error.getMessageParameters() or {}).get("walkedTypePath", "").split()
    column = ".".join(path) or "a column"
    return InvalidInput(
        f"[{_NOT_NULL_VIOLATION}] null for {column}, which {table} requires",
        hint=f"leave rows without it out, or ALTER TABLE {table} ALTER COLUMN {column} DROP NOT NULL",
    )


def declared_error(jvm: Jvm, error: FloeError, name: Sequence[str]) -> JavaError | None:
    """The exception that the methods of Spark's catalogs declare for an error about a table, view or namespace.

    None for errors that they do not declare.
    """
    match error:
        case NoSuchTable():
            exception = jvm.sql(_ANALYSIS + "NoSuchTableException")(jvm.identifier(name))
        case NoSuchView():
            exception = jvm.sql(_ANALYSIS + "NoSuchViewException")(jvm.identifier(name))
        case NoSuchNamespace() if error.hint:
            class_name = "sql.catalyst.analysis.NoSuchNamespaceException"
            exception = _spark_exception(jvm, class_name, f"[SCHEMA_NOT_FOUND] {error}", "SCHEMA_NOT_FOUND")
        case NoSuchNamespace():
            exception = jvm.sql(_ANALYSIS + "NoSuchNamespaceException")(jvm.strings(name))
        case TableAlreadyExists():
            exception = jvm.sql(_ANALYSIS + "TableAlreadyExistsException")(jvm.identifier(name))
        case ViewAlreadyExists():
            exception = jvm.sql(_ANALYSIS + "ViewAlreadyExistsException")(jvm.identifier(name))
        case NamespaceAlreadyExists():
            exception = jvm.sql(_ANALYSIS + "NamespaceAlreadyExistsException")(jvm.strings(name))
        case NamespaceNotEmpty():
            exception = jvm.sql(_ANALYSIS + "NonEmptyNamespaceException")(jvm.strings(name), str(error), jvm.none)
        case _:
            return None
    return JavaError("", exception)


def append_advice(error: PySparkException, advice: str) -> PySparkException:
    """Append a line of advice to the message of an error; returns the same object, of a subclass of its class."""
    kind = type(error)
    members = {"__module__": kind.__module__, "__str__": lambda self: f"{kind.__str__(self)}\n{advice}"}
    error.__class__ = type(kind.__name__, (kind,), members)
    return error


def _spark_exception(jvm: Jvm, name: str, message: str, condition: str | None = None) -> Any:
    """Create an exception of Spark with any message.

    The public constructors take a message only from Spark's error classes; a private one takes text.
    """
    for constructor in jvm.class_object(f"org.apache.spark.{name}").getDeclaredConstructors():
        types = [parameter.getName() for parameter in constructor.getParameterTypes()]
        if constructor.getModifiers() & _PRIVATE and types[0] == "java.lang.String":
            constructor.setAccessible(True)
            defaults = [_empty_argument(jvm, type_) for type_ in types[1:]]
            if condition is not None:
                defaults[1] = jvm.some(condition)
            return constructor.newInstance(jvm.array("java.lang.Object", [message, *defaults]))
    return jvm.java_class("java.lang.RuntimeException")(message)


def _empty_argument(jvm: Jvm, type_: str) -> Any:
    match type_:
        case "scala.Option":
            return jvm.none
        case "scala.collection.immutable.Map":
            return jvm.scala_map({})
        case "[Lorg.apache.spark.QueryContext;":
            return jvm.array("org.apache.spark.QueryContext", [])
        case _:
            return None
