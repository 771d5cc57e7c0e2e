"""Row-level statements without Spark: how DELETE, UPDATE, upsert and MERGE run, and the builder of a MERGE.

Conditions and values are SQL as Spark writes it (`floe.arrow.values`), filters built with `col`, or plain Python
values. A statement reads the newest state of the table. It is committed on top of what others committed meanwhile, or
refused as docs/isolation.md says. `write.delete.mode`, `write.update.mode` and `write.merge.mode` of the table choose
`copy-on-write` (the default) or `merge-on-read`.

>>> import floe
>>> lake = floe.connect("memory:")
>>> lake.create_namespace("db")
>>> t = lake.create_table("db.t", "id bigint not null, amount decimal(9, 2), note string")
>>> _ = t.append([{"id": n, "amount": 10 * n} for n in range(5)])
>>> t.delete("id % 2 = 1")
<RowsChanged: 2 deleted>
>>> t.update({"amount": "amount * 1.5", "note": "'raised'"}, where="amount > 30")
<RowsChanged: 1 updated>
>>> t.upsert([{"id": 4, "note": "again"}, {"id": 7, "note": None}], on="id")
<RowsChanged: 1 updated, 1 inserted>
>>> t.scan(where="id >= 4").to_arrow().to_pylist()
[{'id': 4, 'amount': Decimal('60.00'), 'note': 'again'}, {'id': 7, 'amount': None, 'note': None}]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa

from floe.arrow.dml.base import Base, StatementResult, file_paths
from floe.arrow.dml.merge import Clause, Match, Then
from floe.arrow.dml.merge_matching import Source, source_of
from floe.commit.change import Change
from floe.commit.target import CommitTarget
from floe.errors import ConflictingChange, InvalidInput, InvalidUpdate
from floe.spec.expressions.nodes import Expression
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.properties import CONFLICT_RETRIES
from floe.table.row_writes import merge_input_schema, source_filter, write_overrides


@dataclass(frozen=True, repr=False)
class RowsChanged:
    """The result of a row-level statement: its snapshot, and how many rows it changed.

    The snapshot is None if no row was changed, and in a transaction, which makes its snapshots when it is committed.
    """

    snapshot: Snapshot | None = None
    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    copied: int = 0
    """Unchanged rows that copy-on-write had to rewrite, because others of their files changed."""

    unchanged: int = 0
    """Rows of an upsert that were in the table already, with the same values."""

    def __repr__(self) -> str:
        counts = {name: getattr(self, name) for name in ("deleted", "updated", "inserted")}
        text = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        return f"<RowsChanged: {text or 'nothing'}>"


class OnlySomeRowsMatch(Exception):
    """A delete by metadata found, at its commit, a file of which only some rows match; `error` says which."""

    def __init__(self, error: ConflictingChange | InvalidUpdate) -> None:
        self.error = error


def run_statement(
    target: CommitTarget,
    statement: Callable[[Base], StatementResult],
    options: Mapping[str, Any] | None,
    summary: Mapping[str, str] | None,
    *,
    retry: bool = True,
    columns: pa.Schema | None = None,
) -> RowsChanged:
    """Run a statement on the newest state and commit it; after a conflict again, if the table's properties say so.

    With `retry=False` it runs once: input data that was read from the table itself may be outdated after a conflict.
    `columns` are merged into the table's schema in the same commit.
    """
    overrides = write_overrides(options)
    attempts = 0
    while True:
        target.refresh()
        metadata = target.metadata
        schema_changes: tuple[Change, ...] = ()
        if columns is not None:
            metadata, schema_changes = merge_input_schema(target, metadata, columns)
        base = Base.of(target, metadata=metadata, overrides=overrides, summary=summary)
        result = statement(base)
        counts = result.counts
        changed = RowsChanged(None, counts.deleted, counts.updated, counts.inserted, counts.copied, counts.unchanged)
        changes = [*schema_changes, *([] if result.change is None else [result.change])]
        if not changes:
            return changed
        try:
            return replace(changed, snapshot=target.commit(changes, file_paths(result.files)))
        except (ConflictingChange, InvalidUpdate) as error:
            if result.by_metadata:
                raise OnlySomeRowsMatch(error) from None
            attempts += 1
            may_retry = retry and isinstance(error, ConflictingChange)
            if not may_retry or attempts > CONFLICT_RETRIES.read(base.target.properties):
                raise


def read_source(target: CommitTarget, data: Any) -> Source:
    """Read the source of an upsert or MERGE into memory; of a scan of this very table, with what it read."""
    where, head = source_filter(target, data), target.head
    target.refresh()
    return source_of(data, target.metadata.schema, where, None if head is None else head.snapshot_id)


class Merge:
    """A MERGE that is built clause by clause; `execute` runs it.

    Clauses of a kind are tried in order, and the first whose condition is true applies; a row for which none is stays
    as it is. Conditions and values of matched rows may name columns of `t` and `s`, those of new rows columns of `s`,
    and those of rows that no source row matches columns of `t`.
    """

    def __init__(self, run: Callable[[Sequence[Clause]], RowsChanged]) -> None:
        self._run = run
        self._clauses: list[Clause] = []
        self._done = False

    def when_matched_update(self, set: Mapping[str, Any], condition: Expression | str | None = None) -> Self:
        """Set columns of rows that match."""
        return self._add(Clause(Match.MATCHED, Then.UPDATE, set, condition))

    def when_matched_update_all(self, condition: Expression | str | None = None) -> Self:
        """Set all columns that the source has too, under the same names."""
        return self._add(Clause(Match.MATCHED, Then.UPDATE, None, condition))

    def when_matched_delete(self, condition: Expression | str | None = None) -> Self:
        """Delete rows that match."""
        return self._add(Clause(Match.MATCHED, Then.DELETE, None, condition))

    def when_not_matched_insert(self, values: Mapping[str, Any], condition: Expression | str | None = None) -> Self:
        """Insert rows of the source that match no row; columns that are not named get their defaults."""
        return self._add(Clause(Match.NOT_MATCHED, Then.INSERT, values, condition))

    def when_not_matched_insert_all(self, condition: Expression | str | None = None) -> Self:
        """Insert rows of the source that match no row, with all columns that the table has too."""
        return self._add(Clause(Match.NOT_MATCHED, Then.INSERT, None, condition))

    def when_not_matched_by_source_update(
        self, set: Mapping[str, Any], condition: Expression | str | None = None
    ) -> Self:
        """Set columns of rows that no row of the source matches."""
        return self._add(Clause(Match.NOT_MATCHED_BY_SOURCE, Then.UPDATE, set, condition))

    def when_not_matched_by_source_delete(self, condition: Expression | str | None = None) -> Self:
        """Delete rows that no row of the source matches."""
        return self._add(Clause(Match.NOT_MATCHED_BY_SOURCE, Then.DELETE, None, condition))

    def execute(self) -> RowsChanged:
        """Run the MERGE and commit it. This can be done once."""
        self._check_not_executed()
        self._done = True
        return self._run(self._clauses)

    def _add(self, clause: Clause) -> Self:
        self._check_not_executed()
        self._clauses.append(clause)
        return self

    def _check_not_executed(self) -> None:
        if self._done:
            raise InvalidInput("this MERGE was executed already", hint="start another one")

    def __repr__(self) -> str:
        kinds = ", ".join(f"when {clause.when.value} {clause.then.value}" for clause in self._clauses)
        return f"<Merge: {kinds or 'no clauses'}{'' if self._done else ', not executed yet'}>"

    def __del__(self) -> None:
        if getattr(self, "_clauses", None) and not self._done:
            warnings.warn("a MERGE was never executed: end it with .execute()", stacklevel=2)
