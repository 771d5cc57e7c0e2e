"""Classes of a few lines, where an object of Python's cannot do: compiled by the compiler that Spark has inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from floe.spark.bridge.jvm import Jvm

__all__ = ["compiled", "made_of_source", "spark_loader"]


def spark_loader(jvm: Jvm) -> Any:
    """The loader that has Spark's classes, and in which Spark looks for those of others."""
    return jvm.named("org.apache.spark.util.Utils").getContextOrSparkClassLoader()


def compiled(jvm: Jvm, source: str) -> Any:
    """The compiler with what it has made of a source."""
    compiler = jvm.named("org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(spark_loader(jvm))
    compiler.cook(source)
    return compiler


def made_of_source(jvm: Jvm, source: str, name: str, arguments: Sequence[Any]) -> Any:
    """An object of a class with one constructor, which is compiled unless it has been before."""
    constructor = jvm.constructors(name, lambda: _constructor(jvm, source, name))
    return constructor.newInstance(jvm.array("java.lang.Object", arguments))


def _constructor(jvm: Jvm, source: str, name: str) -> Any:
    (constructor,) = compiled(jvm, source).getClassLoader().loadClass(name).getConstructors()
    return constructor
