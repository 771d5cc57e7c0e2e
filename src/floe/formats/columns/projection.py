"""From batches of a file to the requested rows and columns: what the readers of all formats share.

A reader describes the columns of its file, reads those in `Projection.selection`, and passes its batches to
`Projection.batches`, which does everything else: columns by id with renames, reorders, drops, promotions and defaults
at any depth, constants, metadata columns, row lineage, and the filter for every row.

>>> from floe.formats.model import ReadRequest
>>> from floe.spec.schemas.metadata_columns import POS
>>> from floe.spec.types import Field, INT, LONG, STRING
>>> from floe.storage.memory import MemoryStorage
>>> schema = Schema((POS, Field(2, "kind", STRING, initial_default="x"), Field(1, "id", LONG)))
>>> stored = pa.record_batch({"key": pa.array([5, 6], pa.int32())})
>>> columns = [FileField("key", "int", INT, 1)]
>>> request = ReadRequest(storage=MemoryStorage(), location="memory:a", schema=schema)
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
from floe.formats.columns.arrays import constant_array
from floe.formats.columns.arrow_types import arrow_schema, arrow_type
from floe.formats.columns.conversion import Converter, make_converter
from floe.formats.columns.file_columns import file_fields, resolve_file_columns, select_columns
from floe.formats.columns.filters import filter_mask
from floe.formats.model import ReadRequest
from floe.spec.expressions.nodes import FALSE, TRUE, BoundPredicate, BoundReference, BoundTransform, Expression
from floe.spec.expressions.row_evaluation import value_test
from floe.spec.expressions.simplification import leaves, rebuild
from floe.spec.schemas.column_projection import ColumnSource, ConstantColumn, FromFile, FromReader
from floe.spec.schemas.metadata_columns import DELETED, FILE, LAST_UPDATED_SEQUENCE_NUMBER, POS, ROW_ID
from floe.spec.schemas.name_mapping import FileField
from floe.spec.schemas.schema import Schema, SchemaField
from floe.spec.types import Field, StructType

_ColumnReader = Callable[[pa.RecordBatch, pa.Array], pa.Array]
"""Returns a column, from a batch of the file and the positions of its rows."""


class Projection:
    """Turns the batches of a file into the rows and columns of a request."""

    def __init__(self, request: ReadRequest, columns: Sequence[FileField], *, nested_selection: bool = True) -> None:
        self.request = request
        requested = _resolve(request, request.schema, columns)
        filtered = _columns_of_filter(request.filter)
        filter_sources = [
            _resolve(request, Schema((_pruned_column(entry),)), columns)[0] for entry in filtered.values()
        ]
        by_id = dict(zip(filtered, filter_sources, strict=True))
        self.filter = _evaluate_constants(TRUE if request.filter is None else request.filter, by_id)
        """The filter to evaluate on rows, without predicates on constant columns; bound to the table's columns."""

        remaining = _columns_of_filter(self.filter)
        filter_sources = [by_id[field_id] for field_id in remaining]
        sources, self.selection = select_columns((*requested, *filter_sources), nested=nested_selection)
        """The columns of the file to read; batches must have exactly these, in the order of the file."""

        self._stored_filter_sources = dict(zip(remaining, filter_sources, strict=True))
        self.sources = sources[: len(requested)]
        self._filter_columns = list(zip(remaining.values(), sources[len(requested) :], strict=True))
        self._filter_by_id = _rename_to_ids(self.filter)
        self._schema = arrow_schema(request.schema)
        self._compiled: tuple[pa.Schema, list[_ColumnReader], list[_ColumnReader]] | None = None

    @property
    def reads_nothing(self) -> bool:
        """Whether no row can match the filter, whatever the file contains."""
        return self.filter == FALSE

    def filtered_columns(self) -> dict[int, tuple[tuple[int, ...], FileField]]:
        """The stored columns that the filter refers to, by field id, each with its path of indices in the file.

        Columns that the file lacks, at the top or inside a struct, are not among them.
        """
        columns = {}
        for field_id, source in self._stored_filter_sources.items():
            path: list[int] = []
            current: ColumnSource | None = source
            while isinstance(current, FromFile):
                path.append(current.position)
                if current.field.id == field_id:
                    columns[field_id] = (tuple(path), current.column)
                    break
                current = current.children[0]
        return columns

    def batches(self, stored: Iterable[tuple[int, pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """The requested columns of the matching rows, from batches of the file with the position of their first row.

        No batch is empty or larger than the requested batch size.
        """
        size = self.request.batch_size
        for position, batch in stored:
            projected = self._project(position, batch)
            if projected is None:
                continue
            for start in range(0, projected.num_rows, size):
                yield projected.slice(start, size) if projected.num_rows > size else projected

    def _project(self, position: int, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        requested, filtered = self._readers(batch.schema)
        positions: pa.Array = pa.array(np.arange(position, position + batch.num_rows, dtype=np.int64))
        try:
            if filtered or self.filter != TRUE:
                mask = self._mask(filtered, batch, positions)
                matching = mask.true_count
                if not matching:
                    return None
                if matching < batch.num_rows:
                    batch, positions = batch.filter(mask), positions.filter(mask)
            if not batch.num_rows:
                return None
            arrays = [read(batch, positions) for read in requested]
        except FloeError as error:
            raise error.with_context(file=self.request.location) from None
        if not arrays:
            return rows_without_columns(batch.num_rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _mask(self, filtered: list[_ColumnReader], batch: pa.RecordBatch, positions: pa.Array) -> pa.BooleanArray:
        arrays = [
            _leaf_array(read(batch, positions), entry)
            for (entry, _), read in zip(self._filter_columns, filtered, strict=True)
        ]
        names = [str(entry.field.id) for entry, _ in self._filter_columns]
        if not arrays:
            return pa.repeat(self.filter == TRUE, batch.num_rows)
        return filter_mask(self._filter_by_id, pa.RecordBatch.from_arrays(arrays, names=names))

    def _readers(self, stored: pa.Schema) -> tuple[list[_ColumnReader], list[_ColumnReader]]:
        """The readers of the requested and of the filtered columns, compiled once for batches of the same schema."""
        if self._compiled is None or not (self._compiled[0] is stored or self._compiled[0].equals(stored)):
            try:
                requested = [self._reader(source, stored) for source in self.sources]
                filtered = [self._reader(source, stored) for _, source in self._filter_columns]
            except FloeError as error:
                raise error.with_context(file=self.request.location) from None
            self._compiled = (stored, requested, filtered)
        return self._compiled[1], self._compiled[2]

    def _reader(self, source: ColumnSource, stored: pa.Schema) -> _ColumnReader:
        match source:
            case FromFile():
                return _file_reader(source, stored)
            case ConstantColumn():
                return _constant_reader(source.field, source.value)
            case FromReader():
                return self._metadata_column(source, stored)

    def _metadata_column(self, source: FromReader, stored: pa.Schema) -> _ColumnReader:
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
                f"the read has no value for the metadata column {field.name}",
                hint=f"pass it as the constant of field id {field.id}",
                column=field.name,
            )
        return _constant_reader(field, value)

    def _row_ids(self, source: FromReader, stored: pa.Schema) -> _ColumnReader:
        """The stored row id, else the position plus the file's first row id; null without one (spec: Row Lineage)."""
        first = self.request.first_row_id
        if first is None:
            return _constant_reader(source.field, None)
        if source.stored is None:
            return lambda batch, positions: pc.add(positions, first)
        read_stored = _file_reader(source.stored, stored)
        return lambda batch, positions: pc.coalesce(read_stored(batch, positions), pc.add(positions, first))

    def _sequence_numbers(self, source: FromReader, stored: pa.Schema) -> _ColumnReader:
        request = self.request
        number = None if request.first_row_id is None else request.data_sequence_number
        if source.stored is None or request.first_row_id is None:
            return _constant_reader(source.field, number)
        read_stored = _file_reader(source.stored, stored)
        if number is None:
            return read_stored
        return lambda batch, positions: pc.coalesce(read_stored(batch, positions), pa.scalar(number, pa.int64()))


def project_batches(
    request: ReadRequest, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Answer a read request with all batches of a file, whose columns have an Arrow schema with field ids.

    Raises `CorruptFile` if the file does not have as many rows as the manifest says.
    """
    projection = Projection(request, file_fields(schema), nested_selection=False)
    if projection.reads_nothing:
        return
    indices = projection.selection.indices(len(schema))
    position = 0
    for batch in batches:
        columns = batch.select(indices) if indices else rows_without_columns(batch.num_rows)
        yield from projection.batches([(position, columns)])
        position += batch.num_rows
    if request.record_count is not None and request.record_count >= 0 and request.record_count != position:
        raise CorruptFile(
            f"the file has {position} rows, the manifest says {request.record_count}", file=request.location
        )


def rows_without_columns(count: int) -> pa.RecordBatch:
    """A batch with `count` rows and no columns.

    >>> rows_without_columns(3).num_rows
    3
    """
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None], children=[]))


# Sources --------------------------------------------------------------------------------------------------------------


def _resolve(request: ReadRequest, schema: Schema, columns: Sequence[FileField]) -> tuple[ColumnSource, ...]:
    try:
        return resolve_file_columns(
            schema, columns, name_mapping=request.name_mapping, constants=_column_constants(request, schema)
        )
    except FloeError as error:
        raise error.with_context(file=request.location) from None


def _column_constants(request: ReadRequest, schema: Schema) -> Mapping[int, Any]:
    return {field_id: value for field_id, value in request.constants.items() if field_id in schema.by_id}


def _file_reader(source: FromFile, stored: pa.Schema) -> _ColumnReader:
    index = source.position
    if index >= len(stored):
        raise CorruptFile(f"the reader returned only {len(stored)} columns", column=source.field.name)
    convert: Converter = make_converter(source, stored.field(index).type)
    return lambda batch, positions: convert(batch.column(index))


def _constant_reader(field: Field, value: Any) -> _ColumnReader:
    """A reader of a constant column; batches share slices of the array for the longest one."""
    cached = pa.nulls(0, arrow_type(field.type))

    def read(batch: pa.RecordBatch, positions: pa.Array) -> pa.Array:
        nonlocal cached
        array = cached
        if len(array) < len(positions):
            cached = array = constant_array(field.type, value, len(positions))
        return array if len(array) == len(positions) else array.slice(0, len(positions))

    return read


# Filters --------------------------------------------------------------------------------------------------------------


def _columns_of_filter(expression: Expression | None) -> dict[int, SchemaField]:
    """The columns that a bound filter refers to, by id."""
    columns = {}
    for leaf in leaves(expression) if expression is not None else ():
        if isinstance(leaf, BoundPredicate):
            entry = _reference(leaf).entry
            columns[entry.field.id] = entry
    return columns


def _reference(predicate: BoundPredicate) -> BoundReference:
    term = predicate.term
    return term if isinstance(term, BoundReference) else term.ref


def _pruned_column(entry: SchemaField) -> Field:
    """The top-level column of a field, with no other field in its structs."""
    field = entry.field
    for ancestor in reversed(entry.ancestors):
        field = replace(ancestor, type=StructType((field,)))
    return field


def _leaf_array(array: pa.Array, entry: SchemaField) -> pa.Array:
    """The field in an array of the column that `_pruned_column` returns; null where a struct around it is null."""
    for _ in entry.ancestors:
        array = pc.struct_field(array, [0])
    return array


def _rename_to_ids(expression: Expression) -> Expression:
    """The filter on flat columns named by their ids, so that it does not depend on the names in the file."""

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


def _evaluate_constants(expression: Expression, sources: Mapping[int, ColumnSource]) -> Expression:
    """The filter with predicates on constant columns evaluated."""

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
