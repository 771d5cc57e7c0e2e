"""Rows of a table changed by condition and by key: DELETE, UPDATE, upsert and MERGE, without Spark.

Conditions and values are SQL as Spark writes it (`floe.arrow.values`), filters made with `col`, or plain Python values.
A statement reads the table as it is now, and is committed on top of what others did meanwhile, or refused as
docs/isolation.md says. How rows are changed is the table's choice: `write.delete.mode`, `write.update.mode` and
`write.merge.mode` say `copy-on-write` (the default) or `merge-on-read`.

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
from dataclasses import dataclass
from typing import Any, Final, Self

import pyarrow as pa

from floe.arrow.changing.base import Base, Made, file_paths
from floe.arrow.changing.delete import delete
from floe.arrow.changing.merge import Clause, Match, Then, merge
from floe.arrow.changing.source import Source, source_of
from floe.arrow.changing.update import update
from floe.arrow.changing.upsert import upsert
from floe.commit.change import Change
from floe.errors import ConflictingChange, InvalidExpression, InvalidInput, InvalidUpdate
from floe.spec.expressions.nodes import Expression
from floe.spec.metadata.properties import integer_property
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.table.row_actions import RowActions

__all__ = ["Merge", "RowChanges", "RowsChanged", "retries_of"]

RETRIES: Final = "write.conflict.retries"
"""The property that says how often a statement is run again on the newest state after a conflict; by default never."""


@dataclass(frozen=True, repr=False)
class RowsChanged:
    """What a statement did: the snapshot that it made, and how many rows it changed.

    There is no snapshot if no row was concerned, and in a transaction, which makes it later.
    """

    snapshot: Snapshot | None = None
    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    copied: int = 0
    """Rows that were only written anew beside others, by copy-on-write."""

    unchanged: int = 0
    """Rows of an upsert that were in the table already, just so."""

    def __repr__(self) -> str:
        counts = {name: getattr(self, name) for name in ("deleted", "updated", "inserted")}
        told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        return f"<RowsChanged: {told or 'nothing'}>"


class RowChanges(RowActions):
    """The methods that change rows; a table has them, its branches and stages, and transactions.

    `options` are write properties that take the place of the table's for one call, such as `{"write.delete.mode":
    "merge-on-read"}`; `summary` adds properties to the snapshot's summary. If others have changed what a statement
    read, it is refused; with the property `write.conflict.retries` it is run again so many times. A statement that
    reads rows cannot follow another change of rows in the same transaction, for it would not see it.
    """

    def delete(
        self,
        where: Expression | str,
        *,
        metadata_only: bool = False,
        options: Mapping[str, Any] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> RowsChanged:
        """Delete the rows that a condition is true of: `t.delete("id = 7")`.

        Where metadata tells that only whole files go, no row is read, and what goes is what passes when the commit is
        made. With `metadata_only` anything else is an error.
        """
        if where is None:
            raise InvalidExpression(
                "a condition is text or an expression, found None", hint="write 'true' to delete all rows"
            )
        demanded = True if metadata_only else None
        try:
            return self._change(lambda base: delete(base, where, by_metadata=demanded), options, summary)
        except _NotWholeFiles as error:
            if metadata_only:
                raise error.why from None
            # since then a file came of which only some rows go
            return self._change(lambda base: delete(base, where, by_metadata=False), options, summary)

    def update(
        self,
        set: Mapping[str, Any],
        where: Expression | str | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> RowsChanged:
        """Set columns of the rows that a condition is true of: `t.update({"amount": "amount * 2"}, where="id = 7")`.

        Values are SQL over the row as it was, or plain Python values; text is SQL, and `floe.arrow.values.given.lit`
        makes it a text. A field of a struct is named by its path. Without a condition all rows are updated.
        """
        return self._change(lambda base: update(base, set, where), options, summary)

    def upsert(
        self,
        data: Any,
        on: str | Sequence[str] | None = None,
        *,
        merge_schema: bool = False,
        options: Mapping[str, Any] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> RowsChanged:
        """Bring rows up to date that are there, and add the others: `t.upsert(data, on=["id"])`.

        Rows are the same if they are equal in the columns `on`, by default the table's identifier fields; two rows of
        the data that are the same are an error. Columns that the data has not stay as they are, and rows that would
        not change are left alone. Dictionaries all have to name the same columns. `merge_schema` adds columns that only
        the data has, and widens types, in the same commit.
        """
        source = self._source(data)
        return self._change(
            lambda base: upsert(base, source, on),
            options,
            summary,
            again=source.made_from is None,
            columns=source.table.schema if merge_schema else None,
        )

    def merge(
        self,
        data: Any,
        on: str | Sequence[str],
        *,
        merge_schema: bool = False,
        options: Mapping[str, Any] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> Merge:
        """Begin a MERGE of rows into the table, to be completed by clauses and `execute()`.

        `on` is a condition over `t` (or `target`), the table, and `s` (or `source`), the data: `"t.id = s.id"`; a list
        of names says that these columns are equal. With `merge_schema` columns that only the data has are added, and
        types widened, in the same commit; else clauses for all columns leave them out. If the data is a scan of this
        very table, what others change meanwhile among the rows that it reads is a conflict too.

        >>> import floe
        >>> lake = floe.connect("memory:")
        >>> lake.create_namespace("db")
        >>> t = lake.create_table("db.t", "id bigint, n int")
        >>> _ = t.append([{"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 3, "n": 3}])
        >>> merge = t.merge([{"id": 1, "n": 10}, {"id": 2, "n": None}, {"id": 9, "n": 90}], on="t.id = s.id")
        >>> merge = merge.when_matched_delete("s.n is null").when_matched_update({"n": "t.n + s.n"})
        >>> merge.when_not_matched_insert_all().when_not_matched_by_source_update({"n": 0}).execute()
        <RowsChanged: 1 deleted, 2 updated, 1 inserted>
        >>> t.scan().to_arrow().sort_by("id").to_pylist()
        [{'id': 1, 'n': 11}, {'id': 3, 'n': 0}, {'id': 9, 'n': 90}]
        """
        source = self._source(data)
        return Merge(lambda clauses: self._merge(source, on, clauses, merge_schema, options, summary))

    def _merge(
        self,
        source: Source,
        on: str | Sequence[str],
        clauses: Sequence[Clause],
        merge_schema: bool,
        options: Mapping[str, Any] | None,
        summary: Mapping[str, str] | None,
    ) -> RowsChanged:
        run = lambda base: merge(base, source, on, clauses)  # noqa: E731
        columns = source.table.schema if merge_schema else None
        return self._change(run, options, summary, again=source.made_from is None, columns=columns)

    def _source(self, data: Any) -> Source:
        """The rows that a statement brings, all of them; of a scan of this table it is noted what was read."""
        made_from, seen = self._made_from(data), self._head()
        self._reload()
        return source_of(data, self.metadata.schema, made_from, None if seen is None else seen.snapshot_id)

    # how statements run --------------------------------------------------------------------------------------------

    def _change(
        self,
        statement: Callable[[Base], Made],
        options: Mapping[str, Any] | None,
        summary: Mapping[str, str] | None,
        *,
        again: bool = True,
        columns: pa.Schema | None = None,
    ) -> RowsChanged:
        """Run a statement on the newest state, and commit it; again after conflicts if the table says so.

        What is made from rows of the table itself cannot be run `again`, for they may have changed. `columns` are taken
        into the table's schema before.
        """
        tries = 0
        while True:
            self._reload()
            metadata = self.metadata
            evolved: tuple[Change, ...] = ()
            if columns is not None:
                metadata, evolved = self._merged(metadata, columns, case_sensitive=True)
            base = self._base_of(metadata, options, summary)
            made = statement(base)
            counts = made.counts
            told = RowsChanged(None, counts.deleted, counts.updated, counts.inserted, counts.copied, counts.unchanged)
            changes = [*evolved, *([] if made.change is None else [made.change])]
            if not changes:
                return told
            try:
                snapshot = self._do_all(changes, file_paths(made.files))
            except (ConflictingChange, InvalidUpdate) as error:
                if made.by_metadata:
                    raise _NotWholeFiles(error) from None
                tries += 1
                if not isinstance(error, ConflictingChange) or not again or tries > retries_of(base.target.properties):
                    raise
                continue
            return RowsChanged(snapshot, told.deleted, told.updated, told.inserted, told.copied, told.unchanged)

    def _base_of(
        self, metadata: TableMetadata, options: Mapping[str, Any] | None, summary: Mapping[str, str] | None
    ) -> Base:
        published = self._published
        known = published.schemas_by_id.get(metadata.current_schema_id)
        return Base(
            metadata,
            self._head(),
            self._write_target(metadata, options),
            self._options(summary),
            schema_id=metadata.current_schema_id if known == metadata.schema else None,
            rows_pending=self._rows_pending,
        )


class _NotWholeFiles(Exception):
    """A delete by metadata met a file, at the commit, of which only some rows go."""

    def __init__(self, why: ConflictingChange | InvalidUpdate) -> None:
        self.why = why


def retries_of(properties: Mapping[str, str]) -> int:
    """How often a statement is run again after a conflict."""
    found = integer_property(properties, RETRIES, default=0)
    if found < 0:
        raise InvalidUpdate(f"property {RETRIES} must be 0 or more, found {found}", property=RETRIES)
    return found


class Merge:
    """A MERGE that is put together clause by clause; `execute` runs it.

    Clauses of a kind are asked in their order, and the first whose condition is true applies; a row for which none is
    stays as it is. Conditions and values of matched rows may name columns of `t` and `s`, those of new rows columns of
    `s`, and those of rows that no source row matches columns of `t`.
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
        """Add rows of the source that match none; columns that are not named have their defaults."""
        return self._add(Clause(Match.NOT_MATCHED, Then.INSERT, values, condition))

    def when_not_matched_insert_all(self, condition: Expression | str | None = None) -> Self:
        """Add rows of the source that match none, with all columns that the table has too."""
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
        """Run it, and commit; it can be done once."""
        if self._done:
            raise InvalidInput("this MERGE has been executed", hint="begin another one")
        self._done = True
        return self._run(self._clauses)

    def _add(self, clause: Clause) -> Self:
        if self._done:
            raise InvalidInput("this MERGE has been executed", hint="begin another one")
        self._clauses.append(clause)
        return self

    def __repr__(self) -> str:
        kinds = ", ".join(f"when {clause.when.value} {clause.then.value}" for clause in self._clauses)
        return f"<Merge: {kinds or 'no clauses'}{'' if self._done else ', not executed yet'}>"

    def __del__(self) -> None:
        if getattr(self, "_clauses", None) and not self._done:
            warnings.warn("a MERGE was never executed: end it with .execute()", stacklevel=2)
