"""MERGE and upsert: rows of a source are joined with rows of a table, and clauses update, delete or insert rows.

For each row, the first clause whose condition is true applies. A table row that several source rows would update is an
error; several may delete it. The table is read file by file: only the files that may have matching rows, and of these
first only the columns that the conditions need. `floe.arrow.dml.merge_join` evaluates the ON condition.

An upsert is a MERGE on key columns that updates matching rows and inserts the others. It leaves rows alone that would
not change, and null keys equal each other, so that repeating an upsert changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from floe.arrow.dml.assignments import Columns, inserted_columns, updated_columns
from floe.arrow.dml.base import (
    SOURCE,
    TARGET,
    Base,
    Counts,
    FileChanges,
    Mode,
    Positions,
    ReadSet,
    StatementResult,
    bitmap,
    columns_with_position,
    reject_pending_rows,
    row_positions,
)
from floe.arrow.dml.merge_join import JoinCondition, KeyIndex, Source, split_condition
from floe.arrow.dml.row_output import copy_on_write, merge_on_read
from floe.arrow.values.compiled import Compiled, Mask, Rows
from floe.arrow.values.compiler import Scope
from floe.arrow.values.filters import implied_filter
from floe.errors import ConflictingChange, InvalidInput, InvalidSchema
from floe.plan.tasks import FileTask
from floe.spec.expressions.nodes import TRUE, Expression, or_
from floe.spec.schemas.schema import Schema
from floe.sql.values import Call, Name, Node

MERGE = "merge"

_ROWS_PER_CHUNK = 262_144
_NO_CLAUSE = -1


class Match(Enum):
    """The rows that a clause applies to."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


class Then(Enum):
    """The action of a clause."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause of a MERGE; without `values`, all columns are set that the source has under the same names."""

    when: Match
    then: Then
    values: Mapping[str, Any] | None = None
    condition: Any = None


@dataclass(frozen=True, eq=False, slots=True)
class _CompiledClause:
    """A clause with its condition and values compiled."""

    then: Then
    condition: Compiled | None
    columns: Columns = ()


_VISIBLE_RELATIONS = {
    Match.MATCHED: (TARGET, SOURCE),
    Match.NOT_MATCHED: (SOURCE,),
    Match.NOT_MATCHED_BY_SOURCE: (TARGET,),
}
"""The relations that the values and conditions of a clause can refer to."""


def merge(base: Base, source: Source, on: Any, clauses: Sequence[Clause], *, statement: str = MERGE) -> StatementResult:
    """The change of a MERGE of `source` into the table.

    Raises `InvalidInput` for clauses that cannot apply, and if several source rows update one table row;
    `ConflictingChange` if the source is a scan of an older snapshot of the same table.
    """
    reject_pending_rows(base)
    if not clauses:
        raise InvalidInput("a MERGE without a clause does nothing", hint="for example, add when_matched_update_all()")
    head = None if base.head is None else base.head.snapshot_id
    if source.table_filter is not None and source.table_snapshot_id != head:
        raise ConflictingChange(
            "the source is a scan of the table itself, and the table has changed since the scan",
            hint="refresh the table and scan it again",
            snapshot=head,
        )
    scope = base.scope(source.schema)
    join = split_condition(scope.condition(_normalize_on(on)), source)
    clauses_by_match = {
        when: _compile_clauses(base, source, scope, [clause for clause in clauses if clause.when is when])
        for when in Match
    }
    return _Merge(base, source, join, clauses_by_match).run(statement)


def _normalize_on(on: Any) -> Any:
    """The ON condition as text or node; a list of names means equality of the columns of these names."""
    if isinstance(on, list | tuple):
        if not on:
            raise InvalidInput("the MERGE has no columns to match by", hint='for example, write on=["id"]')
        return " and ".join(f"t.{_quote_path(name)} = s.{_quote_path(name)}" for name in on)
    if not isinstance(on, str | Node):
        raise InvalidInput(
            f"on must be a condition or a list of column names, found {on!r:.80}",
            hint='write on="t.id = s.id", or on=["id"]',
        )
    return on


def _quote_path(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"the name of a column must be text, found {name!r:.80}")
    return ".".join(f"`{part.replace('`', '``')}`" for part in name.split("."))


def _compile_clauses(base: Base, source: Source, scope: Scope, clauses: Sequence[Clause]) -> list[_CompiledClause]:
    compiled: list[_CompiledClause] = []
    for clause in clauses:
        if compiled and compiled[-1].condition is None:
            raise InvalidInput(
                f"a clause WHEN {clause.when.value.upper()} follows one without a condition, and is never reached",
                hint="put the clause without condition last",
            )
        visible = scope.only(*_VISIBLE_RELATIONS[clause.when])
        condition = None if clause.condition is None else visible.condition(clause.condition)
        compiled.append(_CompiledClause(clause.then, condition, _compile_columns(base, source, visible, clause)))
    return compiled


def _compile_columns(base: Base, source: Source, scope: Scope, clause: Clause) -> Columns:
    if clause.then is Then.DELETE:
        return ()
    values = clause.values
    if values is None:
        source_names = {field.name for field in source.schema.fields}
        values = {
            field.name: f"s.{_quote_name(field.name)}" for field in base.schema.fields if field.name in source_names
        }
        if not values:
            raise InvalidInput(
                "the source has no columns in common with the table",
                hint=f"its columns are {', '.join(sorted(source_names))}",
            )
    if clause.then is Then.INSERT:
        return inserted_columns(base.schema, values, scope)
    return updated_columns(base.schema, TARGET, values, scope)


def _quote_name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


class _Merge:
    """One execution of a MERGE."""

    def __init__(
        self, base: Base, source: Source, join: JoinCondition, clauses_by_match: Mapping[Match, list[_CompiledClause]]
    ) -> None:
        self.base, self.source, self.join = base, source, join
        self.matched_clauses, self.insert_clauses, self.unmatched_clauses = (clauses_by_match[when] for when in Match)
        self.is_matched: Mask = np.zeros(len(source), np.bool_)
        """Which source rows match a row of the table."""

        self.read_positions: dict[str, BitMap64] = {}
        """The positions of the table rows that were read, by file."""

    def run(self, statement: str) -> StatementResult:
        where = self._table_filter()
        plan = self.base.plan(where)
        self.join.check_size(plan.record_count)
        files = [changes for task in plan.tasks() if (changes := self._match_file(task)) is not None]
        counts = Counts(
            deleted=sum(len(changes.deleted) for changes in files),
            updated=sum(len(changes.updated) for changes in files),
        )
        inserts = self._choose_inserts()
        counts = Counts(counts.deleted, counts.updated, inserted=sum(len(rows) for rows, _ in inserts))
        if not files and not counts.inserted:
            return StatementResult(None, counts)
        write = copy_on_write if self.base.mode(MERGE) is Mode.COPY_ON_WRITE else merge_on_read
        return write(
            self.base,
            statement,
            files,
            counts,
            read_set=self._read_set(where),
            assign=self._assign,
            inserted=self._insert_batches(inserts),
        )

    def _read_set(self, where: Expression) -> ReadSet:
        """The rows that the result depends on: those of the table, and those that the source was read from."""
        table_filter = self.source.table_filter
        if table_filter is None:
            return ReadSet(where, row_wise=False, positions=self.read_positions)
        return ReadSet(or_(where, table_filter), row_wise=False)

    def _table_filter(self) -> Expression:
        """A filter for the table rows to read: those that may match, and those that change if they do not match."""
        if not self.unmatched_clauses:
            return self.join.filter
        conditions = [
            TRUE if clause.condition is None else implied_filter(clause.condition, TARGET).filter
            for clause in self.unmatched_clauses
        ]
        return or_(self.join.filter, *conditions)

    # Table rows ---------------------------------------------------------------------------------------------------

    def _match_file(self, task: FileTask) -> FileChanges | None:
        """The rows of a file that the clauses delete or update; None if there are none."""
        all_clauses = (*self.matched_clauses, *self.unmatched_clauses)
        conditions = [compiled.condition for compiled in all_clauses if compiled.condition is not None]
        schema = columns_with_position(self.base.schema, TARGET, [*self.join.target_values, *conditions])
        chunks = []
        read_positions = self.read_positions.setdefault(task.file.file_path, BitMap64())
        for rows in self._chunks(task, schema):
            read_positions |= bitmap(row_positions(rows))
            chunks.append(self._match_rows(rows))
        if not chunks:
            return None
        deleted, updated, clause, source = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
        if not len(deleted) and not len(updated):
            return None
        order = np.argsort(updated)
        return FileChanges(task, np.sort(deleted), updated[order], clause[order], source[order])

    def _chunks(self, task: FileTask, schema: Schema) -> Iterator[pa.RecordBatch]:
        """The rows of a file in large chunks, because each chunk looks up the keys of the source."""
        size = max(_ROWS_PER_CHUNK, min(len(self.source), 8 * _ROWS_PER_CHUNK))
        batches: list[pa.RecordBatch] = []
        count = 0
        for batch in self.base.reader.batches(task, schema):
            batches.append(batch)
            count += batch.num_rows
            if count >= size:
                yield pa.concat_batches(batches)
                batches, count = [], 0
        if batches:
            yield pa.concat_batches(batches)

    def _match_rows(self, rows: pa.RecordBatch) -> tuple[Positions, Positions, Positions, Positions]:
        """The positions to delete, and the positions to update with their clauses and source rows."""
        clauses = np.full(rows.num_rows, _NO_CLAUSE)
        source_rows = np.full(rows.num_rows, -1)
        all_clauses = [*self.matched_clauses, *self.unmatched_clauses]
        is_matched = np.zeros(rows.num_rows, np.bool_)
        for targets, sources in self.join.pairs(rows):
            is_matched[targets] = True
            self.is_matched[sources] = True
            chosen = self._choose_clauses(self.matched_clauses, rows, targets, sources)
            self._check_single_match(targets, sources, chosen)
            applies = chosen >= 0
            clauses[targets[applies]] = chosen[applies]
            source_rows[targets[applies]] = sources[applies]
        if self.unmatched_clauses:
            unmatched = np.flatnonzero(~is_matched)
            chosen = self._choose_clauses(self.unmatched_clauses, rows, unmatched, None)
            clauses[unmatched] = np.where(chosen >= 0, chosen + len(self.matched_clauses), _NO_CLAUSE)
        positions = row_positions(rows)
        deletes = np.array([clause.then is Then.DELETE for clause in all_clauses] + [False])[clauses]
        updates = np.array([clause.then is Then.UPDATE for clause in all_clauses] + [False])[clauses]
        return positions[deletes], positions[updates], clauses[updates], source_rows[updates]

    def _choose_clauses(
        self, clauses: Sequence[_CompiledClause], rows: pa.RecordBatch, targets: Positions, sources: Positions | None
    ) -> Positions:
        """For each pair, or table row alone, the index of the first clause whose condition is true; -1 for none."""
        chosen = np.full(len(targets), _NO_CLAUSE)
        for index, clause in enumerate(clauses):
            undecided = np.flatnonzero(chosen == _NO_CLAUSE)
            if not len(undecided):
                break
            if clause.condition is None:
                chosen[undecided] = index
                continue
            relations = {TARGET: rows.take(pa.array(targets[undecided]))}
            if sources is not None:
                relations[SOURCE] = self.source.take(sources[undecided])
            chosen[undecided[clause.condition.mask(Rows(len(undecided), relations))]] = index
        return chosen

    def _check_single_match(self, targets: Positions, sources: Positions, chosen: Positions) -> None:
        """Raise `InvalidInput` if several source rows update one table row; several may delete it."""
        applies = np.flatnonzero(chosen >= 0)
        rows, counts = np.unique(targets[applies], return_counts=True)
        repeated = rows[counts > 1]
        if not len(repeated):
            return
        updates = np.array([clause.then is Then.UPDATE for clause in self.matched_clauses])[chosen[applies]]
        updated = np.intersect1d(repeated, targets[applies][updates])
        if len(updated):
            pairs = applies[targets[applies] == updated[0]]
            examples = " and ".join(str(row)[:200] for row in self.source.take(sources[pairs[:2]]).to_pylist())
            raise InvalidInput(
                f"{len(pairs)} rows of the source match one row of the table, which can be updated only once: "
                f"{examples}",
                hint="keep one of them in the source, or match by more columns",
            )

    def _assign(self, rows: pa.RecordBatch, clause: Positions, source: Positions) -> list[pa.Array]:
        """The new columns of updated rows, computed clause by clause, in the order of the rows."""
        all_clauses = [*self.matched_clauses, *self.unmatched_clauses]
        columns_by_clause: list[list[pa.Array]] = []
        row_indexes: list[Positions] = []
        for clause_index in np.unique(clause):
            indexes = np.flatnonzero(clause == clause_index)
            relations = {TARGET: rows.take(pa.array(indexes))}
            if clause_index < len(self.matched_clauses):
                relations[SOURCE] = self.source.take(source[indexes])
            input_rows = Rows(len(indexes), relations)
            columns_by_clause.append([column.array(input_rows) for column in all_clauses[clause_index].columns])
            row_indexes.append(indexes)
        if len(columns_by_clause) == 1:
            return columns_by_clause[0]
        order = pa.array(np.argsort(np.concatenate(row_indexes)))
        return [pa.concat_arrays(columns).take(order) for columns in zip(*columns_by_clause, strict=True)]

    # Source rows --------------------------------------------------------------------------------------------------

    def _choose_inserts(self) -> list[tuple[Positions, _CompiledClause]]:
        """The source rows that match no table row, by the clause that inserts them."""
        remaining = np.flatnonzero(~self.is_matched)
        inserts = []
        for clause in self.insert_clauses:
            if not len(remaining):
                break
            mask = np.ones(len(remaining), np.bool_)
            if clause.condition is not None:
                mask = clause.condition.mask(Rows(len(remaining), {SOURCE: self.source.take(remaining)}))
            inserts.append((remaining[mask], clause))
            remaining = remaining[~mask]
        return inserts

    def _insert_batches(self, inserts: Sequence[tuple[Positions, _CompiledClause]]) -> Iterator[pa.RecordBatch]:
        names = [field.name for field in self.base.schema.fields]
        for rows, clause in inserts:
            for begin in range(0, len(rows), _ROWS_PER_CHUNK):
                indexes = rows[begin : begin + _ROWS_PER_CHUNK]
                source_rows = Rows(len(indexes), {SOURCE: self.source.take(indexes)})
                yield pa.RecordBatch.from_arrays([column.array(source_rows) for column in clause.columns], names)


# Upsert ---------------------------------------------------------------------------------------------------------------


def upsert(base: Base, source: Source, on: str | Sequence[str] | None = None) -> StatementResult:
    """The change of an upsert by key columns, by default the table's identifier fields.

    Raises `InvalidInput` if there are no key columns or if two rows of the source have the same key, `InvalidSchema`
    for columns that the source must or must not have.
    """
    keys = _key_columns(base.schema, on)
    if not len(source):
        return StatementResult(None)
    _check_columns(base.schema, source, keys)
    index = KeyIndex([_key_array(source, key) for key in keys], [True] * len(keys))
    if index.has_duplicates:
        row = source.table.slice(index.first_duplicate(), 1).to_pylist()[0]
        key_text = ", ".join(f"{key} = {_row_value(row, key)!r}" for key in keys)
        raise InvalidInput(
            f"two rows of the data have the same key: {key_text}", hint="keep one of them, or match by more columns"
        )
    value_columns = [field.name for field in source.schema.fields if field.name not in keys]
    clauses = [Clause(Match.NOT_MATCHED, Then.INSERT)]
    if value_columns:
        is_changed = Call(-1, "differs", tuple(side for name in value_columns for side in _column_pair((name,))))
        clauses.insert(
            0,
            Clause(Match.MATCHED, Then.UPDATE, {name: Name(-1, (SOURCE, name)) for name in value_columns}, is_changed),
        )
    on_keys = Call(-1, "and", tuple(Call(-1, "<=>", _column_pair(tuple(key.split(".")))) for key in keys))
    result = merge(base, source, on_keys, clauses, statement="upsert")
    changed = result.counts.updated + result.counts.inserted
    return replace(result, counts=replace(result.counts, unchanged=max(len(source) - changed, 0)))


def _column_pair(path: tuple[str, ...]) -> tuple[Node, Node]:
    return Name(-1, ("t", *path)), Name(-1, (SOURCE, *path))


def _key_columns(schema: Schema, on: str | Sequence[str] | None) -> list[str]:
    if on is None:
        if not schema.identifier_names:
            raise InvalidInput(
                "the upsert has no columns to match by, and the table has no identifier fields",
                hint='write on=["id"], or set identifier fields with evolve().set_identifier_fields("id")',
            )
        return list(schema.identifier_names)
    keys = [on] if isinstance(on, str) else list(on)
    if not keys or len(set(keys)) < len(keys):
        raise InvalidInput(f"an upsert needs columns to match by, each only once, found {keys!r:.80}")
    for key in keys:
        type_ = schema.field(key).type
        if type_.is_nested or type_.kind in ("variant", "geometry", "geography", "unknown"):
            raise InvalidInput(f"values of type {type_} cannot be keys", column=key)
    return keys


def _check_columns(schema: Schema, source: Source, keys: Sequence[str]) -> None:
    for key in keys:
        if not source.schema.has(key):
            raise InvalidSchema("the data has no such key column", column=key)
    table_columns = [field.name for field in schema.fields]
    for field in source.schema.fields:
        if field.name not in table_columns:
            raise InvalidSchema(
                "the data has a column that the table does not have",
                hint=f"leave it out, or pass merge_schema=True to add it; columns are {', '.join(table_columns[:20])}",
                column=field.name,
            )


def _key_array(source: Source, key: str) -> Any:
    first, *nested = source.schema.resolve(key).path
    array = source.batch.column(first)
    for name in nested:
        array = array.field(name)
    return array


def _row_value(row: dict[str, Any], key: str) -> Any:
    value: Any = row
    for part in key.split("."):
        value = None if value is None else value[part]
    return value
