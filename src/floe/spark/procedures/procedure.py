"""What a procedure is, how one is registered, and how Spark loads and calls it.

A subclass of `Procedure` names its parameters and output columns, and implements `call`. `register` adds it to the
namespace `system` of every catalog.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

from pyspark.sql import SparkSession

from floe.catalog.identifiers import parse_namespace
from floe.commit.operations.snapshot_change import engine_properties
from floe.errors import AlreadyExists, InvalidInput, NotFound
from floe.spark.bridge.interfaces.catalog import BoundProcedure, ProcedureCatalog, UnboundProcedure
from floe.spark.bridge.interfaces.read import LocalScan
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.values import to_internal_rows, value_at
from floe.spark.write.options import snapshot_properties
from floe.table.lake import Lake
from floe.table.table import Table

_NAMESPACE: Final = "system"
_PARAMETER: Final = "org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a procedure; its type is one of Spark, as in the JSON of a schema, such as `"long"`."""

    name: str
    type: Any
    default: str | None = None
    """SQL of the default value; a parameter without one is required, and must not be null."""

    comment: str | None = None
    """What DESCRIBE PROCEDURE shows."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a procedure's result, with Spark's name of its type."""

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class Context:
    """Where a procedure is called: the catalog, its lake, and the session."""

    jvm: Jvm
    catalog: str
    lake: Lake

    @property
    def session(self) -> SparkSession:
        """The session that calls the procedure."""
        return SparkSession(self.jvm.context, self.jvm.active_session())

    def identifier(self, name: str) -> tuple[str, ...]:
        """The namespace and name of a table, from `db.t`, `catalog.db.t`, or `t` in the current namespace."""
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
        """Load the table of a name."""
        return self.lake.table(self.identifier(name))


class Procedure:
    """A procedure: a subclass sets these attributes and implements `call`."""

    name: ClassVar[str]
    description: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]]
    output: ClassVar[tuple[Column, ...]]

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Run the procedure with one argument for each parameter, and return the rows of its result.

        Timestamps are microseconds since 1970-01-01, in arguments and in rows.
        """
        raise NotImplementedError


def required_text(name: str, value: str | None) -> str:
    """The string argument `name`; raises if it is null or empty.

    >>> required_text("table", "")
    Traceback (most recent call last):
    floe.errors.InvalidInput: table must not be empty or null
    """
    if not value:
        raise InvalidInput(f"{name} must not be empty or null")
    return value


# the registry ---------------------------------------------------------------------------------------------------------

PROCEDURES: Final[dict[str, type[Procedure]]] = {}
"""The registered procedures by name."""

P = TypeVar("P", bound=type[Procedure])


def register(procedure: P) -> P:
    """Add a procedure to the namespace `system` of every catalog; also a decorator of its class.

    Raises if its name is not an identifier in lower case, or is registered already.
    """
    name = procedure.name
    if not name.isidentifier() or name != name.lower():
        raise InvalidInput(f"a procedure's name is an identifier in lower case, found {name!r}")
    if PROCEDURES.setdefault(name, procedure) is not procedure:
        raise AlreadyExists(f"there is a procedure {name} already", hint="choose another name")
    return procedure


INSTEAD: Final = {
    "expire_snapshots": "in Python, {table}.expire(older_than='7d').apply() does it",
    "rewrite_manifests": "in Python, {table}.rewrite_manifests() does it",
    "add_files": "in Python, {table}.add_files(['folder']) does it",
    "rewrite_data_files": "there is no compaction yet; INSERT OVERWRITE t SELECT * FROM t rewrites all rows, and in"
    " Python {table}.rewrite_files(…) takes files that another program wrote",
    "rewrite_position_delete_files": "there is no compaction yet; INSERT OVERWRITE t SELECT * FROM t rewrites all rows"
    " without deletes",
    "remove_orphan_files": "`floe doctor --full` lists orphan files, and deletes none of them",
    "snapshot": "create a table with the same columns, and in Python {table}.add_files(['folder']) takes the files",
    "migrate": "create a table with the same columns, and in Python {table}.add_files(['folder']) takes the files",
    "compute_partition_stats": "SELECT * FROM db.t.partitions counts rows and files of partitions",
    "rewrite_table_path": 'floe.connect(…, prefixes={{"/old/root": "/new/root"}}) opens tables that were moved',
}
"""Procedures of Iceberg that Floe does not have yet, and what to do instead."""


# what Spark calls -----------------------------------------------------------------------------------------------------


class LakeProcedures(ProcedureCatalog):
    """The part of a catalog that loads and lists procedures."""

    lake: Lake

    def loadProcedure(self, identifier: Any) -> Any:
        """Load the procedure of a name; raises if there is none, with what to do instead if that is known."""
        *namespace, name = self.jvm.read_identifier(identifier)
        procedure = PROCEDURES.get(name.lower())
        if [part.lower() for part in namespace] != [_NAMESPACE] or procedure is None:
            there = f"the procedures of {self.name()}.{_NAMESPACE} are {', '.join(sorted(PROCEDURES))}"
            instead = INSTEAD.get(name.lower())
            table = f'spark.lakes["{self.name()}"].table("db.t")'
            raise NotFound(
                f"there is no procedure {'.'.join((*namespace, name))}",
                hint=there if instead is None else f"{instead.format(table=table)}; {there}",
            )
        return CatalogProcedure(self.jvm, procedure(), Context(self.jvm, self.name(), self.lake))

    def listProcedures(self, namespace: Any) -> Any:
        """List the procedures of a namespace, or of all namespaces."""
        parts = [part.lower() for part in self.jvm.read_strings(namespace)]
        names = sorted(PROCEDURES) if parts in ([], [_NAMESPACE]) else ()
        return self.jvm.identifiers([(_NAMESPACE, name) for name in names])


class CatalogProcedure(UnboundProcedure, BoundProcedure):
    """A procedure of a catalog, as Spark calls it; Spark casts the arguments to the types of the parameters."""

    def __init__(self, jvm: Jvm, procedure: Procedure, context: Context) -> None:
        super().__init__(jvm)
        self._procedure, self._context = procedure, context

    def title(self) -> str:
        """The procedure, as plans show it."""
        return f"procedure {self._procedure.name}"

    def name(self) -> str:
        """The name of the procedure."""
        return self._procedure.name

    def description(self) -> str:
        """What the procedure does, as DESCRIBE PROCEDURE shows it."""
        return self._procedure.description

    def bind(self, schema: Any) -> Any:
        """The procedure itself: it is the same for arguments of all types."""
        return self

    def parameters(self) -> Any:
        """The parameters as a `ProcedureParameter[]`."""
        return self.jvm.array(_PARAMETER, [self._java_parameter(each) for each in self._procedure.parameters])

    def _java_parameter(self, parameter: Parameter) -> Any:
        # `in` is a keyword of Python
        builder = getattr(self.jvm.java_class(_PARAMETER), "in")(parameter.name, self.jvm.data_type(parameter.type))
        if parameter.default is not None:
            builder = builder.defaultValue(parameter.default)
        return (builder if parameter.comment is None else builder.comment(parameter.comment)).build()

    def isDeterministic(self) -> bool:
        """False, so that Spark runs each call exactly once."""
        return False

    def call(self, row: Any) -> Any:
        """Run the procedure with the arguments in a row; returns an iterator of scans, here of one."""
        parameters = self._procedure.parameters
        arguments = {each.name: value_at(row, index, each.type) for index, each in enumerate(parameters)}
        for parameter in parameters:
            if arguments[parameter.name] is None and parameter.default is None:
                raise InvalidInput(
                    f"{parameter.name} must not be null", hint=f"it is an argument of {self._procedure.name}"
                )
        with engine_properties(snapshot_properties(self.jvm)):
            rows = list(self._procedure.call(self._context, **arguments))
        scans = self.jvm.java_class("java.util.ArrayList")()
        scans.add(ResultScan(self.jvm, self._procedure.output, rows))
        return scans.iterator()


class ResultScan(LocalScan):
    """The result of a procedure as a scan."""

    def __init__(self, jvm: Jvm, columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> None:
        super().__init__(jvm)
        self._columns, self._result = columns, rows

    def readSchema(self) -> Any:
        """The columns of the result as a `StructType`."""
        fields = [
            {"name": column.name, "type": column.type, "nullable": column.nullable, "metadata": {}}
            for column in self._columns
        ]
        return self.jvm.data_type({"type": "struct", "fields": fields})

    def description(self) -> str:
        """The text that EXPLAIN shows."""
        return "Floe: the result of a procedure"

    def rows(self) -> Any:
        """The rows of the result as an `InternalRow[]`."""
        return to_internal_rows(self.jvm, self._result, [column.type for column in self._columns])
