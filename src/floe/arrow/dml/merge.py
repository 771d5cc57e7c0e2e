"""MERGE: rows of a source beside rows of a table, with a list of clauses that say what becomes of each.

Clauses are asked in order, and the first whose condition is true applies. A row of the table that several rows of the
source would change is an error; to be deleted by several is none. The table is read file by file, only the files that
may hold matching rows, and of these first the columns that conditions need.

The ON condition of a MERGE, taken apart: equal keys to look up, conditions on one side alone, and the rest.

`t.id = s.id and t.day = s.day and s.valid and t.day >= '2024-01-01' and t.a < s.b` has two keys; a source row must be
valid, and a table row of that time, to match at all; and pairs with equal keys are asked for the rest. What the keys of
the source are, and the conditions on the table, say which files have to be read.

Upsert: rows that are there by their keys are brought up to date, the others are added.

Rows that would not change are left alone, so that doing it again does nothing. Keys are compared so that null equals
null, for the same reason.
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
    Mode,
    Positions,
    ReadSet,
    StatementResult,
    Touched,
    bitmap,
    refuse_pending_rows,
)
from floe.arrow.dml.merge_matching import KeyIndex, Matching, Source, take_apart
from floe.arrow.dml.row_matching import columns_for, positions_of
from floe.arrow.dml.row_output import copy_on_write, merge_on_read
from floe.arrow.values.compiled import Compiled, Mask, Rows
from floe.arrow.values.compiler import Scope
from floe.arrow.values.filters import filter_of
from floe.errors import ConflictingChange, InvalidInput, InvalidSchema
from floe.plan.tasks import FileTask
from floe.spec.expressions.nodes import TRUE, Expression, or_
from floe.spec.schemas.schema import Schema
from floe.sql.values import Call, Name, Node

# The ON condition of a MERGE, taken apart: equal keys to look up, conditions on one side alone, and the rest.


MERGE = "merge"

_ROWS_AT_ONCE = 262_144
_KEEP = -1


class Match(Enum):
    """Which rows a clause is for."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


class Then(Enum):
    """What a clause does."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause as a user wrote it; `values` of None are all columns that the source has under the same names."""

    when: Match
    then: Then
    values: Mapping[str, Any] | None = None
    condition: Any = None


@dataclass(frozen=True, eq=False, slots=True)
class _Step:
    """A clause, compiled."""

    then: Then
    condition: Compiled | None
    columns: Columns = ()


_SEES = {Match.MATCHED: (TARGET, SOURCE), Match.NOT_MATCHED: (SOURCE,), Match.NOT_MATCHED_BY_SOURCE: (TARGET,)}
"""The relations that values and conditions of a clause may name."""


def merge(base: Base, source: Source, on: Any, clauses: Sequence[Clause], *, statement: str = MERGE) -> StatementResult:
    """The change that a MERGE makes."""
    refuse_pending_rows(base)
    if not clauses:
        raise InvalidInput("a MERGE without a clause does nothing", hint="add when_matched_update_all(), for example")
    head = None if base.head is None else base.head.snapshot_id
    if source.made_from is not None and source.read_at != head:
        raise ConflictingChange(
            "the source is a scan of the table itself, which has changed since",
            hint="refresh the table, and scan it again",
            snapshot=head,
        )
    scope = base.scope(source.schema)
    matching = take_apart(scope.condition(_on(on)), source)
    steps = {when: _compiled(base, source, scope, [c for c in clauses if c.when is when]) for when in Match}
    return _Merge(base, source, matching, steps).made(statement)


def _on(given: Any) -> Any:
    """The ON condition; a list of names says that columns of these names are equal."""
    if isinstance(given, list | tuple):
        if not given:
            raise InvalidInput("a MERGE needs columns to match by", hint='write on=["id"], for example')
        return " and ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in given)
    if not isinstance(given, str | Node):
        raise InvalidInput(
            f"a MERGE matches by a condition or by names of columns, found {given!r:.80}",
            hint='write on="t.id = s.id", or on=["id"]',
        )
    return given


def _quoted(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"the name of a column is text, found {name!r:.80}")
    return ".".join(f"`{part.replace('`', '``')}`" for part in name.split("."))


def _compiled(base: Base, source: Source, scope: Scope, clauses: Sequence[Clause]) -> list[_Step]:
    steps: list[_Step] = []
    for clause in clauses:
        if steps and steps[-1].condition is None:
            raise InvalidInput(
                f"a clause WHEN {clause.when.value.upper()} comes after one without condition, and is never reached",
                hint="put the clause without condition last",
            )
        seen = scope.only(*_SEES[clause.when])
        condition = None if clause.condition is None else seen.condition(clause.condition)
        steps.append(_Step(clause.then, condition, _columns(base, source, seen, clause)))
    return steps


def _columns(base: Base, source: Source, scope: Scope, clause: Clause) -> Columns:
    if clause.then is Then.DELETE:
        return ()
    values = clause.values
    if values is None:
        known = {field.name for field in source.schema.fields}
        values = {field.name: f"s.{_quoted_name(field.name)}" for field in base.schema.fields if field.name in known}
        if not values:
            raise InvalidInput(
                "the source has no column of the table", hint=f"its columns are {', '.join(sorted(known))}"
            )
    if clause.then is Then.INSERT:
        return inserted_columns(base.schema, values, scope)
    return updated_columns(base.schema, TARGET, values, scope)


def _quoted_name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


class _Merge:
    """One run of a MERGE."""

    def __init__(self, base: Base, source: Source, matching: Matching, steps: Mapping[Match, list[_Step]]) -> None:
        self.base, self.source, self.matching = base, source, matching
        self.matched, self.inserts, self.unmatched = (steps[when] for when in Match)
        self.seen: Mask = np.zeros(len(source), np.bool_)
        """The source rows that some row of the table matches."""

        self.looked_at: dict[str, BitMap64] = {}
        """By file, the rows of the table that were looked at."""

    def made(self, statement: str) -> StatementResult:
        where = self._filter()
        plan = self.base.plan(where)
        self.matching.check_size(plan.record_count)
        files = [touched for task in plan.tasks() if (touched := self._decide(task)) is not None]
        counts = Counts(
            deleted=sum(len(touched.deleted) for touched in files),
            updated=sum(len(touched.updated) for touched in files),
        )
        chosen = self._chosen_inserts()
        counts = Counts(counts.deleted, counts.updated, inserted=sum(len(rows) for rows, _ in chosen))
        if not files and not counts.inserted:
            return StatementResult(None, counts)
        make = copy_on_write if self.base.mode(MERGE) is Mode.COPY_ON_WRITE else merge_on_read
        return make(
            self.base,
            statement,
            files,
            counts,
            looked=self._looked(where),
            assign=self._assign,
            inserted=self._inserted(chosen),
        )

    def _looked(self, where: Expression) -> ReadSet:
        """The rows that the outcome rests on: those of the table, and those that the source was made from."""
        made_from = self.source.made_from
        if made_from is None:
            return ReadSet(where, together=True, positions=self.looked_at)
        return ReadSet(or_(where, made_from), together=True)

    def _filter(self) -> Expression:
        """Which rows of the table have to be looked at: those that may match, and those that are changed if not."""
        if not self.unmatched:
            return self.matching.filter
        conditions = [
            TRUE if step.condition is None else filter_of(step.condition, TARGET).filter for step in self.unmatched
        ]
        return or_(self.matching.filter, *conditions)

    # rows of the table --------------------------------------------------------------------------------------------

    def _decide(self, task: FileTask) -> Touched | None:
        conditions = [step.condition for step in (*self.matched, *self.unmatched) if step.condition is not None]
        schema = columns_for(self.base.schema, TARGET, [*self.matching.target_values, *conditions])
        found = []
        looked_at = self.looked_at.setdefault(task.file.file_path, BitMap64())
        for rows in self._chunks(task, schema):
            looked_at |= bitmap(positions_of(rows))
            found.append(self._decide_rows(rows))
        if not found:
            return None
        deleted, updated, clause, source = (np.concatenate(parts) for parts in zip(*found, strict=True))
        if not len(deleted) and not len(updated):
            return None
        order = np.argsort(updated)
        return Touched(task, np.sort(deleted), updated[order], clause[order], source[order])

    def _chunks(self, task: FileTask, schema: Schema) -> Iterator[pa.RecordBatch]:
        """The rows of a file, many at a time: keys of the source are looked up anew for each chunk."""
        size = max(_ROWS_AT_ONCE, min(len(self.source), 8 * _ROWS_AT_ONCE))
        waiting: list[pa.RecordBatch] = []
        count = 0
        for batch in self.base.reader.batches(task, schema):
            waiting.append(batch)
            count += batch.num_rows
            if count >= size:
                yield pa.concat_batches(waiting)
                waiting, count = [], 0
        if waiting:
            yield pa.concat_batches(waiting)

    def _decide_rows(self, rows: pa.RecordBatch) -> tuple[Positions, Positions, Positions, Positions]:
        """Positions to delete, and positions to change with the clauses and source rows that do it."""
        action = np.full(rows.num_rows, _KEEP)
        by = np.full(rows.num_rows, -1)
        steps = [*self.matched, *self.unmatched]
        has_match = np.zeros(rows.num_rows, np.bool_)
        for targets, sources in self.matching.pairs(rows):
            has_match[targets] = True
            self.seen[sources] = True
            chosen = self._choose(self.matched, rows, targets, sources)
            self._check_once(targets, sources, chosen)
            hit = chosen >= 0
            action[targets[hit]] = chosen[hit]
            by[targets[hit]] = sources[hit]
        if self.unmatched:
            left = np.flatnonzero(~has_match)
            chosen = self._choose(self.unmatched, rows, left, None)
            action[left] = np.where(chosen >= 0, chosen + len(self.matched), _KEEP)
        positions = positions_of(rows)
        deletes = np.array([step.then is Then.DELETE for step in steps] + [False])[action]
        updates = np.array([step.then is Then.UPDATE for step in steps] + [False])[action]
        return positions[deletes], positions[updates], action[updates], by[updates]

    def _choose(
        self, steps: Sequence[_Step], rows: pa.RecordBatch, targets: Positions, sources: Positions | None
    ) -> Positions:
        """For each pair (or table row alone) the first clause whose condition is true; -1 for none."""
        found = np.full(len(targets), _KEEP)
        for number, step in enumerate(steps):
            left = np.flatnonzero(found == _KEEP)
            if not len(left):
                break
            if step.condition is None:
                found[left] = number
                continue
            relations = {TARGET: rows.take(pa.array(targets[left]))}
            if sources is not None:
                relations[SOURCE] = self.source.take(sources[left])
            found[left[step.condition.mask(Rows(len(left), relations))]] = number
        return found

    def _check_once(self, targets: Positions, sources: Positions, chosen: Positions) -> None:
        """Raise if a row of the table is changed by several rows of the source, unless all of them delete it."""
        hit = np.flatnonzero(chosen >= 0)
        rows, counts = np.unique(targets[hit], return_counts=True)
        several = rows[counts > 1]
        if not len(several):
            return
        updates = np.array([step.then is Then.UPDATE for step in self.matched])[chosen[hit]]
        changed = np.intersect1d(several, targets[hit][updates])
        if len(changed):
            own = hit[targets[hit] == changed[0]]
            shown = " and ".join(str(one)[:200] for one in self.source.take(sources[own[:2]]).to_pylist())
            raise InvalidInput(
                f"{len(own)} rows of the source match one row of the table, which can be changed once only: {shown}",
                hint="leave one of them in the source, or match by more columns",
            )

    def _assign(self, rows: pa.RecordBatch, clause: Positions, source: Positions) -> list[pa.Array]:
        """The columns of changed rows, clause by clause, in the order of the rows."""
        steps = [*self.matched, *self.unmatched]
        parts: list[list[pa.Array]] = []
        places: list[Positions] = []
        for number in np.unique(clause):
            mine = np.flatnonzero(clause == number)
            relations = {TARGET: rows.take(pa.array(mine))}
            if number < len(self.matched):
                relations[SOURCE] = self.source.take(source[mine])
            given = Rows(len(mine), relations)
            parts.append([column.array(given) for column in steps[number].columns])
            places.append(mine)
        if len(parts) == 1:
            return parts[0]
        order = pa.array(np.argsort(np.concatenate(places)))
        return [pa.concat_arrays(columns).take(order) for columns in zip(*parts, strict=True)]

    # rows of the source -------------------------------------------------------------------------------------------

    def _chosen_inserts(self) -> list[tuple[Positions, _Step]]:
        """The source rows that nothing matches, by the clause that inserts them."""
        left = np.flatnonzero(~self.seen)
        found = []
        for step in self.inserts:
            if not len(left):
                break
            mask = np.ones(len(left), np.bool_)
            if step.condition is not None:
                mask = step.condition.mask(Rows(len(left), {SOURCE: self.source.take(left)}))
            found.append((left[mask], step))
            left = left[~mask]
        return found

    def _inserted(self, chosen: Sequence[tuple[Positions, _Step]]) -> Iterator[pa.RecordBatch]:
        names = [field.name for field in self.base.schema.fields]
        for rows, step in chosen:
            for begin in range(0, len(rows), _ROWS_AT_ONCE):
                part = rows[begin : begin + _ROWS_AT_ONCE]
                given = Rows(len(part), {SOURCE: self.source.take(part)})
                yield pa.RecordBatch.from_arrays([column.array(given) for column in step.columns], names)


# Upsert: rows that are there by their keys are brought up to date, the others are added.


def upsert(base: Base, source: Source, on: str | Sequence[str] | None = None) -> StatementResult:
    """The change that an upsert makes; without columns to match by, those of the table's identifier fields."""
    keys = _keys(base.schema, on)
    if not len(source):
        return StatementResult(None)
    _check_columns(base.schema, source, keys)
    index = KeyIndex([_column(source, key) for key in keys], [True] * len(keys))
    if index.has_duplicates:
        row = source.table.slice(index.first_duplicate(), 1).to_pylist()[0]
        shown = ", ".join(f"{key} = {_value(row, key)!r}" for key in keys)
        raise InvalidInput(
            f"two rows of the data have the same key: {shown}", hint="leave one of them, or match by more columns"
        )
    others = [field.name for field in source.schema.fields if field.name not in keys]
    clauses = [Clause(Match.NOT_MATCHED, Then.INSERT)]
    if others:
        differs = Call(-1, "differs", tuple(side for name in others for side in _sides((name,))))
        clauses.insert(
            0, Clause(Match.MATCHED, Then.UPDATE, {name: Name(-1, (SOURCE, name)) for name in others}, differs)
        )
    equal = Call(-1, "and", tuple(Call(-1, "<=>", _sides(tuple(key.split(".")))) for key in keys))
    made = merge(base, source, equal, clauses, statement="upsert")
    changed = made.counts.updated + made.counts.inserted
    return replace(made, counts=replace(made.counts, unchanged=max(len(source) - changed, 0)))


def _sides(path: tuple[str, ...]) -> tuple[Node, Node]:
    return Name(-1, ("t", *path)), Name(-1, (SOURCE, *path))


def _keys(schema: Schema, on: str | Sequence[str] | None) -> list[str]:
    if on is None:
        if not schema.identifier_names:
            raise InvalidInput(
                "an upsert needs columns to match by, and the table has no identifier fields",
                hint='write on=["id"], or set identifier fields with evolve().set_identifier_fields("id")',
            )
        return list(schema.identifier_names)
    keys = [on] if isinstance(on, str) else list(on)
    if not keys or len(set(keys)) < len(keys):
        raise InvalidInput(f"an upsert needs columns to match by, each once; found {keys!r:.80}")
    for key in keys:
        type_ = schema.field(key).type
        if type_.is_nested or type_.kind in ("variant", "geometry", "geography", "unknown"):
            raise InvalidInput(f"values of type {type_} cannot be keys", column=key)
    return keys


def _check_columns(schema: Schema, source: Source, keys: Sequence[str]) -> None:
    for key in keys:
        if not source.schema.has(key):
            raise InvalidSchema("the data has no such key column", column=key)
    known = [field.name for field in schema.fields]
    for field in source.schema.fields:
        if field.name not in known:
            raise InvalidSchema(
                "the data has a column that the table has not",
                hint=f"leave it out, or pass merge_schema=True to add it; columns are {', '.join(known[:20])}",
                column=field.name,
            )


def _column(source: Source, key: str) -> Any:
    first, *rest = source.schema.resolve(key).path
    array = source.whole.column(first)
    for name in rest:
        array = array.field(name)
    return array


def _value(row: dict[str, Any], key: str) -> Any:
    found: Any = row
    for part in key.split("."):
        found = None if found is None else found[part]
    return found
