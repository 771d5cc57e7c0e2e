"""ALTER TABLE: the changes that Spark hands over, made in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from floe.errors import InvalidInput, UnsupportedFeature
from floe.spark.bridge.jvm import Jvm
from floe.spark.columns import floe_type
from floe.spark.definitions import IDENTIFIER_FIELDS, LOCATION, SORT_ORDER, Evaluate
from floe.spec.metadata.properties import FORMAT_VERSION
from floe.table.evolution import SchemaEvolution
from floe.table.table import Table
from floe.table.transaction import Transaction

__all__ = ["alter"]

Path = tuple[str, ...]

_CURRENT_SNAPSHOT: Final = "current-snapshot-id"
_PICK: Final = "cherry-pick-snapshot-id"


def alter(jvm: Jvm, table: Table, changes: Iterable[Any], evaluate: Evaluate) -> None:
    """Make the changes of an ALTER TABLE statement."""
    set_properties: dict[str, str] = {}
    removed: list[str] = []
    columns: list[tuple[str, Any]] = []
    for change in changes:
        match jvm.simple_name(change):
            case "SetProperty":
                set_properties[change.property()] = change.value()
            case "RemoveProperty":
                removed.append(change.property())
            case "ClusterBy":
                raise UnsupportedFeature(
                    "Iceberg tables have no clustering columns", hint="use ALTER TABLE … WRITE ORDERED BY"
                )
            case "AddConstraint" | "DropConstraint":
                raise UnsupportedFeature("Iceberg tables have no constraints but NOT NULL")
            case name:
                columns.append((name, change))
    with table.transaction() as transaction:
        _change_properties(transaction, set_properties, removed)
        if columns:
            evolution = transaction.evolve(case_sensitive=jvm.is_case_sensitive)
            for name, change in columns:
                _change_column(jvm, evolution, name, change, evaluate)


def _change_properties(transaction: Transaction, given: dict[str, str], removed: Sequence[str]) -> None:
    for name in (SORT_ORDER, IDENTIFIER_FIELDS):
        if name in given or name in removed:
            statement = "WRITE ORDERED BY …" if name == SORT_ORDER else "SET IDENTIFIER FIELDS …"
            raise InvalidInput(f"{name} is not a property", hint=f"use ALTER TABLE … {statement}")
    own = dict(given)
    if (version := own.pop(FORMAT_VERSION, None)) is not None:
        transaction.upgrade(_number(FORMAT_VERSION, version))
    if (location := own.pop(LOCATION, None)) is not None:
        transaction.set_location(location)
    if own:
        transaction.set_properties({k: v for k, v in own.items() if k not in (_CURRENT_SNAPSHOT, _PICK)})
    if removed:
        transaction.remove_properties(*removed)
    if (current := own.get(_CURRENT_SNAPSHOT)) is not None:
        transaction.set_current(_number(_CURRENT_SNAPSHOT, current))
    if (picked := own.get(_PICK)) is not None:
        transaction.cherry_pick(_number(_PICK, picked))


def _number(name: str, text: str) -> int:
    if not text.isdigit():
        raise InvalidInput(f"{name} is a number, found {text!r}")
    return int(text)


def _change_column(jvm: Jvm, evolution: SchemaEvolution, kind: str, change: Any, evaluate: Evaluate) -> None:
    path = jvm.read_strings(change.fieldNames())
    match kind:
        case "AddColumn":
            type_ = floe_type(jvm.read_data_type(change.dataType()))
            default = change.defaultValue()
            evolution.add_column(
                path,
                type_,
                doc=change.comment(),
                required=not change.isNullable(),
                default=None if default is None else evaluate(default.getSql(), type_),
                **_place(jvm, path, change.position()),
            )
        case "RenameColumn":
            evolution.rename_column(path, change.newName())
        case "DeleteColumn":
            if not change.ifExists() or evolution.schema.has(path, case_sensitive=jvm.is_case_sensitive):
                evolution.drop_column(path)
        case "UpdateColumnType":
            evolution.promote(path, floe_type(jvm.read_data_type(change.newDataType())))
        case "UpdateColumnNullability":
            (evolution.make_optional if change.nullable() else evolution.require)(path)
        case "UpdateColumnComment":
            evolution.set_doc(path, change.newComment())
        case "UpdateColumnPosition":
            evolution.move_column(path, **_place(jvm, path, change.position()))
        case "UpdateColumnDefaultValue":
            sql = change.newDefaultValue()
            type_ = evolution.schema.resolve(path, case_sensitive=jvm.is_case_sensitive).field.type
            evolution.set_default(path, evaluate(sql, type_) if sql else None)
        case _:
            raise UnsupportedFeature(f"Floe does not know this change of a table: {kind}")


def _place(jvm: Jvm, path: Path, position: Any) -> dict[str, Any]:
    """Where a column goes: nowhere in particular, first, or behind another one of the same struct."""
    if position is None:
        return {}
    if jvm.simple_name(position) == "First":
        return {"first": True}
    return {"after": (*path[:-1], position.column())}
