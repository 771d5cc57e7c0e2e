"""What a procedure is: its parameters, the columns of its answer, and what it does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import SparkSession

from floe.catalog.identifiers import parse_namespace
from floe.errors import InvalidInput
from floe.spark.bridge.jvm import Jvm
from floe.table.lake import Lake
from floe.table.table import Table


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a procedure takes. Types are Spark's, as in the JSON of its schemas."""

    name: str
    type: Any
    default: str | None = None
    """SQL of the value that it has unless another is given; without it there must be one."""

    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the answer."""

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class Context:
    """Where a procedure is called: the catalog, and the session."""

    jvm: Jvm
    catalog: str
    lake: Lake

    @property
    def session(self) -> SparkSession:
        """The session that calls it."""
        return SparkSession(self.jvm.context, self.jvm.active_session())

    def identifier(self, name: str) -> tuple[str, ...]:
        """The parts of a table's name, without the catalog's: it may be there, and no other's."""
        parts = tuple(parse_namespace(required_text("table", name)))
        if len(parts) > 1 and parts[0] == self.catalog:
            parts = parts[1:]
        if len(parts) == 1:
            manager = self.jvm.active_session().sessionState().catalogManager()
            if manager.currentCatalog().name() != self.catalog:
                raise InvalidInput(
                    f"a table is named with its namespace, found {name!r}",
                    hint=f"write 'db.{name}', or USE its namespace",
                )
            parts = (*self.jvm.read_strings(manager.currentNamespace()), *parts)
        return parts

    def table(self, name: str) -> Table:
        """The table of a name."""
        return self.lake.table(self.identifier(name))


class Procedure:
    """A procedure; a subclass says what it is called, what it takes, what it answers, and does it."""

    name: ClassVar[str]
    description: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]]
    output: ClassVar[tuple[Column, ...]]

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Do it, and give the rows of the answer."""
        raise NotImplementedError


def required_text(name: str, value: str | None) -> str:
    """A text that must be there.

    >>> required_text("table", "")
    Traceback (most recent call last):
    floe.errors.InvalidInput: table must not be empty or null
    """
    if not value:
        raise InvalidInput(f"{name} must not be empty or null")
    return value
