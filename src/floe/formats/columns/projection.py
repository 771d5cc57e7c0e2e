"""From the columns of a file to the rows and columns that were asked for: what all formats share.

A reader of a format tells its columns, reads those that `Projection.selection` names, and hands its batches to
`Projection.batches`, which does the rest: columns by id with renames, reorders, drops, promotions and defaults at any
depth, constants, metadata columns, row lineage, and the filter down to the last row.

>>> from floe.formats.model import ReadRequest
>>> from floe.spec.schemas.metadata_columns import POS
>>> from floe.spec.types import Field, INT, LONG, STRING
>>> from floe.storage.memory import MemoryStorage
>>> wanted = Schema((POS, Field(2, "kind", STRING, initial_default="x"), Field(1, "id", LONG)))
>>> stored = pa.record_batch({"key": pa.array([5, 6], pa.int32())})
>>> columns = [FileField("key", "int", INT, 1)]
>>> request = ReadRequest(storage=MemoryStorage(), location="memory:a", schema=wanted)
>>> for batch in Projection(request, columns).batches([(100, stored)]):
...     batch.to_pylist()
[{'_pos': 100, 'kind': 'x', 'id': 5}, {'_pos': 101, 'kind': 'x', 'id': 6}]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.errors import CorruptFile, FloeError, InvalidInput
from floe.formats.arrow_arrays import constant_array
from floe.formats.arrow_conversion import Converter, make_converter
from floe.formats.arrow_filters import filter_mask
from floe.formats.arrow_types import arrow_schema, arrow_type
from floe.formats.file_columns import find_columns, select_columns
from floe.formats.model import ReadRequest
from floe.spec.expressions.nodes import FALSE, TRUE, BoundPredicate, BoundReference, BoundTransform, Expression
from floe.spec.expressions.row_evaluation import value_test
from floe.spec.expressions.simplification import leaves, rebuild
from floe.spec.schemas.column_projection import ColumnSource, ConstantColumn, FromFile, FromReader
from floe.spec.schemas.metadata_columns import DELETED, FILE, LAST_UPDATED_SEQUENCE_NUMBER, POS, ROW_ID
from floe.spec.schemas.name_mapping import FileField
from floe.spec.schemas.schema import Schema, SchemaField
from floe.spec.types import Field, StructType

_Maker = Callable[[pa.RecordBatch, pa.Array], pa.Array]
"""From a batch of the file, and the positions of its rows, to a wanted column."""


class Projection:
    """How the rows of one file answer a request."""

    def __init__(self, request: ReadRequest, columns: Sequence[FileField], *, nested_selection: bool = True) -> None:
        self.request = request
        wanted = _resolved(request, request.schema, columns)
        tested = _tested_columns(request.filter)
        tests = [_resolved(request, Schema((_alone(entry),)), columns)[0] for entry in tested.values()]
        by_id = dict(zip(tested, tests, strict=True))
        self.filter = _without_constants(TRUE if request.filter is None else request.filter, by_id)
        """What is left to test on rows, once what is the same in all of them is known; bound to the table's columns."""

        still_tested = _tested_columns(self.filter)
        tests = [by_id[field_id] for field_id in still_tested]
        sources, self.selection = select_columns((*wanted, *tests), nested=nested_selection)
        """Which columns of the file are read; batches must have just these, in the file's order."""

        self._stored_tests = dict(zip(still_tested, tests, strict=True))
        self.sources = sources[: len(wanted)]
        self._tests = list(zip(still_tested.values(), sources[len(wanted) :], strict=True))
        self._filter = _on_ids(self.filter)
        self._schema = arrow_schema(request.schema)
        self._compiled: tuple[pa.Schema, list[_Maker], list[_Maker]] | None = None

    @property
    def reads_nothing(self) -> bool:
        """Whether no row can pass the filter, whatever the file holds."""
        return self.filter == FALSE

    def tested_columns(self) -> dict[int, tuple[tuple[int, ...], FileField]]:
        """The stored columns that the filter tests, by field id: the way to each through the file's columns, and it.

        Those that the file does not have, or not for every row whose structs are there, are not among them.
        """
        found = {}
        for field_id, source in self._stored_tests.items():
            path: list[int] = []
            at: ColumnSource | None = source
            while isinstance(at, FromFile):
                path.append(at.position)
                if at.field.id == field_id:
                    found[field_id] = (tuple(path), at.column)
                    break
                at = at.children[0]
        return found

    def batches(self, stored: Iterable[tuple[int, pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """The wanted columns of the rows that pass, from batches of the file and the position of their first row.

        Batches have at least one row, and at most as many as was asked for.
        """
        for first, batch in stored:
            made = self._batch(first, batch)
            if made is None:
                continue
            for start in range(0, made.num_rows, self.request.batch_size):
                yield made.slice(start, self.request.batch_size) if made.num_rows > self.request.batch_size else made

    def _batch(self, first: int, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        wanted, tested = self._makers(batch.schema)
        positions: pa.Array = pa.array(np.arange(first, first + batch.num_rows, dtype=np.int64))
        try:
            if tested or self.filter != TRUE:
                mask = self._mask(tested, batch, positions)
                passing = mask.true_count
                if not passing:
                    return None
                if passing < batch.num_rows:
                    batch, positions = batch.filter(mask), positions.filter(mask)
            if not batch.num_rows:
                return None
            arrays = [make(batch, positions) for make in wanted]
        except FloeError as error:
            raise error.with_context(file=self.request.location) from None
        if not arrays:
            return rows_without_columns(batch.num_rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _mask(self, tested: list[_Maker], batch: pa.RecordBatch, positions: pa.Array) -> pa.BooleanArray:
        arrays = [_leaf_of(make(batch, positions), entry) for (entry, _), make in zip(self._tests, tested, strict=True)]
        names = [str(entry.field.id) for entry, _ in self._tests]
        if not arrays:
            return pa.repeat(self.filter == TRUE, batch.num_rows)
        return filter_mask(self._filter, pa.RecordBatch.from_arrays(arrays, names=names))

    def _makers(self, stored: pa.Schema) -> tuple[list[_Maker], list[_Maker]]:
        """What makes the columns, compiled for the first batch and good for all of the same schema."""
        if self._compiled is None or not (self._compiled[0] is stored or self._compiled[0].equals(stored)):
            try:
                wanted = [self._maker(source, stored) for source in self.sources]
                tested = [self._maker(source, stored) for _, source in self._tests]
            except FloeError as error:
                raise error.with_context(file=self.request.location) from None
            self._compiled = (stored, wanted, tested)
        return self._compiled[1], self._compiled[2]

    def _maker(self, source: ColumnSource, stored: pa.Schema) -> _Maker:
        match source:
            case FromFile():
                return _from_file(source, stored)
            case ConstantColumn():
                return _repeated(source.field, source.value)
            case FromReader():
                return self._metadata_column(source, stored)

    def _metadata_column(self, source: FromReader, stored: pa.Schema) -> _Maker:
        request, field = self.request, source.field
        if field.id == POS.id:
            return lambda batch, positions: positions
        if field.id == ROW_ID.id:
            return self._row_ids(source, stored)
        if field.id == LAST_UPDATED_SEQUENCE_NUMBER.id:
            return self._sequence_numbers(source, stored)
        defaults = {FILE.id: request.location, DELETED.id: False}
        value = request.constants.get(field.id, defaults.get(field.id))
        if value is None and field.required:
            raise InvalidInput(
                f"the reader was not told the {field.name} of the file",
                hint=f"pass it as constant {field.id}",
                column=field.name,
            )
        return _repeated(field, value)

    def _row_ids(self, source: FromReader, stored: pa.Schema) -> _Maker:
        """The stored id, else one counted from the file's first; none where there is no first (spec: Row Lineage)."""
        first = self.request.first_row_id
        if first is None:
            return _repeated(source.field, None)
        if source.stored is None:
            return lambda batch, positions: pc.add(positions, first)
        own = _from_file(source.stored, stored)
        return lambda batch, positions: pc.coalesce(own(batch, positions), pc.add(positions, first))

    def _sequence_numbers(self, source: FromReader, stored: pa.Schema) -> _Maker:
        request = self.request
        number = None if request.first_row_id is None else request.data_sequence_number
        if source.stored is None or request.first_row_id is None:
            return _repeated(source.field, number)
        own = _from_file(source.stored, stored)
        if number is None:
            return own
        return lambda batch, positions: pc.coalesce(own(batch, positions), pa.scalar(number, pa.int64()))


def rows_without_columns(count: int) -> pa.RecordBatch:
    """A batch that has rows, and nothing in them.

    >>> rows_without_columns(3).num_rows
    3
    """
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None], children=[]))


# sources --------------------------------------------------------------------------------------------------------------


def _resolved(request: ReadRequest, schema: Schema, columns: Sequence[FileField]) -> tuple[ColumnSource, ...]:
    try:
        return find_columns(
            schema, columns, name_mapping=request.name_mapping, constants=_column_constants(request, schema)
        )
    except FloeError as error:
        raise error.with_context(file=request.location) from None


def _column_constants(request: ReadRequest, schema: Schema) -> Mapping[int, Any]:
    return {field_id: value for field_id, value in request.constants.items() if field_id in schema.by_id}


def _from_file(source: FromFile, stored: pa.Schema) -> _Maker:
    place = source.position
    if place >= len(stored):
        raise CorruptFile(f"the reader gave {len(stored)} columns, too few", column=source.field.name)
    convert: Converter = make_converter(source, stored.field(place).type)
    return lambda batch, positions: convert(batch.column(place))


def _repeated(field: Field, value: Any) -> _Maker:
    """A column with one value; made once for the longest batch, of which others take a part."""
    kept = pa.nulls(0, arrow_type(field.type))

    def make(batch: pa.RecordBatch, positions: pa.Array) -> pa.Array:
        nonlocal kept
        mine = kept
        if len(mine) < len(positions):
            kept = mine = constant_array(field.type, value, len(positions))
        return mine if len(mine) == len(positions) else mine.slice(0, len(positions))

    return make


# filters --------------------------------------------------------------------------------------------------------------


def _tested_columns(expression: Expression | None) -> dict[int, SchemaField]:
    """The columns that a bound filter tests, by id."""
    found = {}
    for leaf in leaves(expression) if expression is not None else ():
        if isinstance(leaf, BoundPredicate):
            entry = _reference(leaf).entry
            found[entry.field.id] = entry
    return found


def _reference(predicate: BoundPredicate) -> BoundReference:
    term = predicate.term
    return term if isinstance(term, BoundReference) else term.ref


def _alone(entry: SchemaField) -> Field:
    """The column at the top that leads to a field, with nothing else in it."""
    field = entry.field
    for ancestor in reversed(entry.ancestors):
        field = replace(ancestor, type=StructType((field,)))
    return field


def _leaf_of(array: pa.Array, entry: SchemaField) -> pa.Array:
    """The tested field of a column made by `_alone`; null where a struct around it is."""
    for _ in entry.ancestors:
        array = pc.struct_field(array, [0])
    return array


def _on_ids(expression: Expression) -> Expression:
    """The filter on flat columns that are named by their ids, so that names play no part."""

    def leaf(node: Expression) -> Expression:
        if not isinstance(node, BoundPredicate):
            return node
        field = replace(_reference(node).entry.field, name=str(node.term.field_id), required=False)
        reference = BoundReference(Schema((field,)).entry(field.id))
        term = node.term
        if isinstance(term, BoundTransform):
            return replace(node, term=replace(term, ref=reference))
        return replace(node, term=reference)

    return rebuild(expression, leaf)


def _without_constants(expression: Expression, sources: Mapping[int, ColumnSource]) -> Expression:
    """The filter with tests of columns that are the same in all rows answered."""

    def leaf(node: Expression) -> Expression:
        if not isinstance(node, BoundPredicate):
            return node
        source = sources[node.term.field_id]
        if not isinstance(source, ConstantColumn):
            return node
        value = source.value
        for name in _reference(node).entry.path[1:]:
            value = None if value is None else value[name]
        if isinstance(node.term, BoundTransform):
            value = node.term.transform.apply(node.term.ref.type, value)
        return TRUE if value_test(node.term.type, node.op, node.literals)(value) else FALSE

    return rebuild(expression, leaf)
