"""Nodes of Spark's plans that do something: writes, made anew or with another table, and commands of ours."""

from __future__ import annotations

from typing import Any, Final

from floe.spark.bridge.interfaces.commands import ExternalCommandRunner
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.proxies import Proxy

__all__ = ["append_data", "own_command", "with_table"]

_APPEND: Final = "org.apache.spark.sql.catalyst.plans.logical.AppendData"
_ARGUMENTS_WITH_EVOLUTION: Final = 7
_EXTERNAL: Final = "org.apache.spark.sql.execution.command.ExternalCommandExecutor"


def append_data(jvm: Jvm, relation: Any, query: Any, write: Proxy) -> Any:
    """A command that has a write take the rows of a query, as Spark's optimizer leaves it."""
    (constructor,) = jvm.reflected(_APPEND).getConstructors()
    evolution = [False] if constructor.getParameterCount() == _ARGUMENTS_WITH_EVOLUTION else []
    options = jvm.scala_map({})
    return jvm.named(_APPEND)(relation, query, options, False, *evolution, jvm.some(write), jvm.none)


def with_table(jvm: Jvm, relation: Any, table: Proxy) -> Any:
    """A relation with another table in it."""
    others = [relation.productElement(place) for place in range(1, relation.productArity())]
    return relation.copy(table, *others)


def own_command(jvm: Jvm, runner: ExternalCommandRunner, text: str) -> Any:
    """A command that Python runs, when and only when it is executed; EXPLAIN shows the text."""
    return jvm.named(_EXTERNAL)(runner, text, jvm.scala_map({}))
