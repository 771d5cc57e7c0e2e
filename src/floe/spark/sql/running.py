"""Those statements carried out on a table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from floe.errors import InvalidInput, NoSuchRef
from floe.spark.sql.statements import (
    AddPartitionField,
    ChangeIdentifierFields,
    DropPartitionField,
    DropRef,
    MakeRef,
    ReplacePartitionField,
    Statement,
    WriteOrder,
)
from floe.spec.partitioning.transform_text import parse_partition_term
from floe.table.column_text import name_text
from floe.table.evolution import SpecEvolution
from floe.table.table import Table

__all__ = ["run_statement"]

_MODE = "write.distribution-mode"


def run_statement(table: Table, statement: Statement, *, case_sensitive: bool) -> None:
    """Change a table as a statement says."""
    match statement:
        case AddPartitionField(term=term):
            with table.update_spec(case_sensitive=case_sensitive) as spec:
                _add(spec, term)
        case DropPartitionField(name_or_term=name):
            with table.update_spec(case_sensitive=case_sensitive) as spec:
                spec.remove_field(name)
        case ReplacePartitionField(name_or_term=name, term=term):
            with table.update_spec(case_sensitive=case_sensitive) as spec:
                spec.remove_field(name)
                _add(spec, term)
        case WriteOrder(terms=terms, mode=mode):
            with table.transaction() as transaction:
                transaction.update_sort(*terms, case_sensitive=case_sensitive)
                if mode is not None:
                    transaction.set_properties({_MODE: mode})
        case ChangeIdentifierFields():
            _change_identifiers(table, statement, case_sensitive)
        case MakeRef():
            _make_ref(table, statement)
        case DropRef(kind=kind, name=name, if_exists=if_exists):
            (table.drop_branch if kind == "branch" else table.drop_tag)(name, if_exists=if_exists)


def _add(spec: SpecEvolution, text: str) -> None:
    term = parse_partition_term(text)
    if term.name is None:
        spec.add_field(text)
    else:
        bare = text[: text.lower().rindex(" as ")]
        spec.add_field(bare.strip(), term.name)


def _change_identifiers(table: Table, statement: ChangeIdentifierFields, case_sensitive: bool) -> None:
    names: list[str] = list(statement.names)
    if statement.drop:
        gone = {table.schema.resolve(name, case_sensitive=case_sensitive).field.id for name in names}
        if missing := gone - set(table.schema.identifier_field_ids):
            shown = ", ".join(table.schema.name_of(field_id) for field_id in sorted(missing))
            raise InvalidInput(f"{shown} is no identifier field", table=table.name)
        entries = [table.schema.entry(one) for one in table.schema.identifier_field_ids if one not in gone]
        names = [".".join(map(name_text, entry.path)) for entry in entries]
    with table.evolve(case_sensitive=case_sensitive) as evolution:
        evolution.set_identifier_fields(*names)


def _make_ref(table: Table, made: MakeRef) -> None:
    known = table.refs.get(made.name)
    if known is not None and made.if_not_exists:
        return
    if known is None and not made.create:
        raise NoSuchRef(f"the table has no {made.kind} named {made.name!r}", table=table.name)
    snapshot = made.snapshot
    if made.replace and known is not None:
        if snapshot is None:
            if table.current_snapshot is None:
                raise InvalidInput(f"there is no snapshot for {made.kind} {made.name!r} yet", table=table.name)
            snapshot = table.current_snapshot.snapshot_id
        with table.transaction() as transaction:
            move = transaction.replace_branch if made.kind == "branch" else transaction.replace_tag
            move(made.name, snapshot)
            given: dict[str, Any] = {
                "min_snapshots": made.min_snapshots,
                "max_snapshot_age": made.max_snapshot_age,
                "max_ref_age": made.retain,
            }
            if said := {name: value for name, value in given.items() if value is not None}:
                transaction.set_retention(made.name, **said)
        return
    create: Callable[..., None] = partial(table.create_tag, made.name)
    if made.kind == "branch":
        create = partial(
            table.create_branch,
            made.name,
            min_snapshots=made.min_snapshots,
            max_snapshot_age=made.max_snapshot_age,
        )
    create(snapshot=snapshot, max_ref_age=made.retain)
