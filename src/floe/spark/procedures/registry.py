"""The procedures of a catalog, as Spark asks for them: `CALL lake.system.…`, SHOW PROCEDURES, DESCRIBE PROCEDURE.

All procedures, by their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from floe.commit.operations.snapshot_summary import engine_properties
from floe.errors import InvalidInput, NotFound
from floe.spark.bridge.interfaces.catalog import BoundProcedure, ProcedureCatalog, UnboundProcedure
from floe.spark.bridge.interfaces.read import LocalScan
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.values import internal_rows_of, value_at
from floe.spark.procedures.history import (
    AncestorsOf,
    CherrypickSnapshot,
    CreateChangelogView,
    FastForward,
    PublishChanges,
    RollbackToSnapshot,
    RollbackToTimestamp,
    SetCurrentSnapshot,
)
from floe.spark.procedures.maintenance import ComputeTableStats, RegisterTable
from floe.spark.procedures.procedure import Column, Context, Parameter, Procedure
from floe.spark.write.options import snapshot_properties
from floe.table.lake import Lake

# All procedures, by their names.

_ALL: Final[tuple[type[Procedure], ...]] = (
    AncestorsOf,
    CherrypickSnapshot,
    ComputeTableStats,
    CreateChangelogView,
    FastForward,
    PublishChanges,
    RegisterTable,
    RollbackToSnapshot,
    RollbackToTimestamp,
    SetCurrentSnapshot,
)

PROCEDURES: Final[dict[str, type[Procedure]]] = {kind.name: kind for kind in _ALL}

INSTEAD: Final = {
    "expire_snapshots": "in Python, {table}.expire(older_than='7d').apply() does it",
    "rewrite_manifests": "in Python, {table}.rewrite_manifests() does it",
    "add_files": "in Python, {table}.add_files(['folder']) does it",
    "rewrite_data_files": "there is no compaction yet; INSERT OVERWRITE t SELECT * FROM t writes all rows anew, and in"
    " Python {table}.rewrite_files(…) takes files that somebody else wrote",
    "rewrite_position_delete_files": "there is no compaction yet; INSERT OVERWRITE t SELECT * FROM t writes all rows"
    " anew, without deletes",
    "remove_orphan_files": "`floe doctor --full` names files that no snapshot has, and deletes none of them",
    "snapshot": "create a table of the same columns, and in Python {table}.add_files(['folder']) takes the files",
    "migrate": "create a table of the same columns, and in Python {table}.add_files(['folder']) takes the files",
    "compute_partition_stats": "SELECT * FROM db.t.partitions counts rows and files of partitions",
    "rewrite_table_path": 'floe.connect(…, prefixes={{"/old/root": "/new/root"}}) opens tables that were moved',
}
"""What to do in place of Iceberg's procedures that are not there yet."""
_NAMESPACE: Final = "system"
_PARAMETER: Final = "org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter"


class LakeProcedures(ProcedureCatalog):
    """The procedures of a lake."""

    lake: Lake

    def loadProcedure(self, identifier: Any) -> Any:
        """The procedure of a name."""
        *namespace, name = self.jvm.read_identifier(identifier)
        found = PROCEDURES.get(name.lower())
        if [part.lower() for part in namespace] != [_NAMESPACE] or found is None:
            there = f"the procedures of {self.name()}.{_NAMESPACE} are {', '.join(PROCEDURES)}"
            instead = INSTEAD.get(name.lower())
            table = f'spark.lakes["{self.name()}"].table("db.t")'
            raise NotFound(
                f"there is no procedure {'.'.join((*namespace, name))}",
                hint=there if instead is None else f"{instead.format(table=table)}; {there}",
            )
        return CatalogProcedure(self.jvm, found(), Context(self.jvm, self.name(), self.lake))

    def listProcedures(self, namespace: Any) -> Any:
        """The procedures of a namespace, or of all."""
        given = [part.lower() for part in self.jvm.read_strings(namespace)]
        names = PROCEDURES if given in ([], [_NAMESPACE]) else ()
        return self.jvm.identifiers([(_NAMESPACE, name) for name in names])


class CatalogProcedure(UnboundProcedure, BoundProcedure):
    """A procedure of a catalog; arguments of all types are taken as Spark casts them."""

    def __init__(self, jvm: Jvm, procedure: Procedure, context: Context) -> None:
        super().__init__(jvm)
        self._procedure, self._context = procedure, context

    def title(self) -> str:
        """What plans show."""
        return f"procedure {self._procedure.name}"

    def name(self) -> str:
        """Its name."""
        return self._procedure.name

    def description(self) -> str:
        """What it does, in words."""
        return self._procedure.description

    def bind(self, schema: Any) -> Any:
        """The procedure itself."""
        return self

    def parameters(self) -> Any:
        """What it takes."""
        return self.jvm.array(_PARAMETER, [self._parameter(one) for one in self._procedure.parameters])

    def _parameter(self, one: Parameter) -> Any:
        # `in` is a keyword of Python
        made = getattr(self.jvm.named(_PARAMETER), "in")(one.name, self.jvm.data_type(one.type))
        if one.default is not None:
            made = made.defaultValue(one.default)
        return (made if one.comment is None else made.comment(one.comment)).build()

    def isDeterministic(self) -> bool:
        """It is not done twice, nor left out."""
        return False

    def call(self, row: Any) -> Any:
        """Do it."""
        arguments = {one.name: value_at(row, place, one.type) for place, one in enumerate(self._procedure.parameters)}
        for one in self._procedure.parameters:
            if arguments[one.name] is None and one.default is None:
                raise InvalidInput(f"{one.name} must not be null", hint=f"it is an argument of {self._procedure.name}")
        with engine_properties(snapshot_properties(self.jvm)):
            rows = list(self._procedure.call(self._context, **arguments))
        answers = self.jvm.named("java.util.ArrayList")()
        answers.add(AnswerScan(self.jvm, self._procedure.output, rows))
        return answers.iterator()


class AnswerScan(LocalScan):
    """The answer of a procedure."""

    def __init__(self, jvm: Jvm, columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> None:
        super().__init__(jvm)
        self._columns, self._answer = columns, rows

    def readSchema(self) -> Any:
        """The columns of the answer."""
        fields = [
            {"name": one.name, "type": one.type, "nullable": one.nullable, "metadata": {}} for one in self._columns
        ]
        return self.jvm.data_type({"type": "struct", "fields": fields})

    def description(self) -> str:
        """What EXPLAIN says."""
        return "Floe: the answer of a procedure"

    def rows(self) -> Any:
        """The rows of the answer."""
        return internal_rows_of(self.jvm, self._answer, [one.type for one in self._columns])
