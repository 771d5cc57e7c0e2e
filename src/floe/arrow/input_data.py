"""Input data of writes, in all forms that users pass, as a stream of Arrow record batches.

| input | read as |
|---|---|
| Arrow tables, batches, readers, datasets, scanners | a stream; readers and datasets are not loaded as a whole |
| anything with the Arrow C stream or array interface: Polars, DuckDB, a scan of Floe, … | its stream |
| Polars lazy frames | their batches, one after the other |
| pandas frames | Arrow's conversion; a named index becomes columns, an unnamed one is dropped |
| a dictionary of columns: lists, NumPy arrays, series, Arrow arrays | a table |
| dictionaries or dataclass instances, in a list or any other iterable | rows, whose values are converted exactly |
| an iterable of batches or tables | one stream; all must have the same columns |

Python values are converted to the types of the table's columns, if these are known (a `datetime` or ISO text for a
timestamp, `1` for a decimal); a value that is not exactly one value of the type is an error.

>>> batch_reader([{"a": 1}, {"a": 2, "b": "x"}]).read_all().to_pylist()
[{'a': 1, 'b': None}, {'a': 2, 'b': 'x'}]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from floe.errors import FloeError, InvalidInput, InvalidValue
from floe.formats.columns.arrays import to_array
from floe.formats.columns.arrow_types import arrow_field
from floe.formats.rows import rows_to_batch
from floe.spec.schemas.schema import Schema
from floe.spec.values import convert

_ROWS_PER_BATCH = 8192

_ACCEPTED_DATA = (
    "pass an Arrow table or reader, a pandas or Polars frame, a dictionary of columns, a list of dictionaries, or "
    "anything else with the Arrow stream interface"
)


def batch_reader(
    data: Any, schema: Schema | None = None, *, case_sensitive: bool = True, same_columns: bool = False
) -> pa.RecordBatchReader:
    """The data as a stream of batches; `schema` is that of the table, if it is known.

    With `same_columns`, all rows that are dictionaries must have the same keys: an UPDATE or MERGE cannot tell whether
    a key that is missing means null or no change. Raises `InvalidInput` for an object that is not data.

    >>> from floe.spec.types import DATE, Field
    >>> batch_reader({"day": ["2024-02-29"]}, Schema((Field(1, "day", DATE),))).read_all().column("day").type
    DataType(date32[day])
    >>> batch_reader("a.parquet")
    Traceback (most recent call last):
    floe.errors.InvalidInput: text is not data; pass an Arrow table or reader, a pandas or Polars frame, ...
    """
    if isinstance(data, str | bytes) or hasattr(data, "__fspath__"):
        raise InvalidInput("text is not data", hint=f"{_ACCEPTED_DATA}; existing files are added with `add_files`")
    if isinstance(data, type):
        raise InvalidInput(f"the class {data.__name__} is not data", hint=_ACCEPTED_DATA)
    try:
        reader = _open_reader(data, _PythonData(schema, case_sensitive, same_columns))
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, FloeError):
            raise
        raise InvalidValue(f"the data cannot be converted to Arrow columns: {str(error)[:300]}") from error
    if reader is None:
        raise InvalidInput(f"{type(data).__name__} is not data that can be written", hint=_ACCEPTED_DATA)
    return reader


def is_data(candidate: Any) -> bool:
    """Whether an object holds rows that `batch_reader` accepts, and is not a schema.

    >>> is_data(pa.table({"a": [1]})), is_data(pa.schema({"a": pa.int64()})), is_data("a int")
    (True, False, False)
    """
    if isinstance(candidate, str | bytes | Schema | pa.Schema) or hasattr(candidate, "__arrow_c_schema__"):
        return hasattr(candidate, "__arrow_c_stream__") or hasattr(candidate, "__arrow_c_array__")
    if isinstance(candidate, type):
        return False
    return (
        _is_frame(candidate)
        or _is_from(candidate, "polars")
        or isinstance(candidate, Mapping | Sequence)
        or hasattr(candidate, "scanner")
        or hasattr(candidate, "to_reader")
    )


def _is_frame(candidate: Any) -> bool:
    return (
        hasattr(candidate, "__arrow_c_stream__")
        or hasattr(candidate, "__arrow_c_array__")
        or _is_from(candidate, "pandas")
    )


def _is_from(candidate: Any, library: str) -> bool:
    return type(candidate).__module__.split(".")[0] == library


def _open_reader(data: Any, python_data: _PythonData) -> pa.RecordBatchReader | None:
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if _is_from(data, "pandas") and hasattr(data, "columns"):
        return _from_pandas(data)
    if _is_from(data, "polars") and hasattr(data, "collect"):
        return _from_lazy_frame(data)
    if isinstance(data, pa.Table) or hasattr(data, "to_reader"):  # tables and scanners
        return data.to_reader()
    if hasattr(data, "scanner"):
        return data.scanner().to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        batch = pa.record_batch(data)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    if isinstance(data, Mapping):
        return python_data.columns(data).to_reader()
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        return python_data.rows([data])
    return _from_iterable(data, python_data) if isinstance(data, Iterable) else None


def _from_pandas(frame: Any) -> pa.RecordBatchReader:
    named = all(name is not None for name in frame.index.names)
    return pa.Table.from_pandas(frame, preserve_index=named).to_reader()


def _from_lazy_frame(frame: Any) -> pa.RecordBatchReader:
    if not hasattr(frame, "collect_batches"):  # Polars before 1.34
        return pa.RecordBatchReader.from_stream(frame.collect())
    parts = (batch for part in frame.collect_batches() for batch in pa.table(part).to_batches())
    first = next(parts, None)
    if first is None:
        return pa.RecordBatchReader.from_stream(frame.limit(0).collect())
    return pa.RecordBatchReader.from_batches(first.schema, chain([first], parts))


def _from_iterable(data: Iterable[Any], python_data: _PythonData) -> pa.RecordBatchReader | None:
    items = iter(data)
    first = next(items, None)
    if first is None:
        return python_data.empty_reader()
    all_items = chain([first], items)
    if isinstance(first, Mapping) or (dataclasses.is_dataclass(first) and not isinstance(first, type)):
        if isinstance(data, Sequence):
            return python_data.rows(data)
        return python_data.stream(all_items)
    if not _is_frame(first):
        return None
    batches = (batch for item in all_items for batch in batch_reader(item))
    start = next(batches, None)
    if start is None:
        return batch_reader(first)
    return pa.RecordBatchReader.from_batches(start.schema, _check_columns(start, batches))


def _check_columns(first: pa.RecordBatch, following: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    for number, batch in enumerate(following, 2):
        if batch.num_rows and not batch.schema.equals(first.schema):
            raise InvalidInput(
                f"batch {number} has other columns than the first: {_describe(batch.schema)}, "
                f"not {_describe(first.schema)}",
                hint="write them separately, or cast them to one schema",
            )
        yield batch


def _describe(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)[:200]


class _PythonData:
    """Converts Python values to Arrow: to the types of the table's columns, or to types that Arrow infers."""

    def __init__(self, schema: Schema | None, case_sensitive: bool, same_columns: bool) -> None:
        self._same_columns = same_columns
        self._fold = str if case_sensitive else str.lower
        self._fields = {} if schema is None else {self._fold(field.name): field for field in schema.fields}

    def empty_reader(self) -> pa.RecordBatchReader:
        """A reader without rows, with the columns of the table."""
        schema = pa.schema([arrow_field(field) for field in self._fields.values()])
        return pa.RecordBatchReader.from_batches(schema, [])

    def columns(self, data: Mapping[str, Any]) -> pa.Table:
        """Convert a dictionary of columns to a table."""
        arrays = {name: self._column(name, values) for name, values in data.items()}
        lengths = {name: len(column) for name, column in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidInput(f"the columns have different lengths: {str(lengths)[:300]}")
        return pa.table(arrays)

    def _column(self, name: str, values: Any) -> pa.Array | pa.ChunkedArray:
        if isinstance(values, pa.Array | pa.ChunkedArray):
            return values
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
        if _is_from(values, "pandas") or _is_from(values, "numpy") or hasattr(values, "__arrow_c_array__"):
            return pa.array(values, from_pandas=True) if _is_from(values, "pandas") else pa.array(values)
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise InvalidInput(
                f"a column must be a list of values or an array, found {values!r:.80}",
                hint="write one row as a list of one dictionary: [{…}]",
                column=str(name),
            )
        return self._convert_values(str(name), list(values))

    def _convert_values(self, name: str, values: list[Any]) -> pa.Array:
        field = self._fields.get(self._fold(name))
        try:
            if field is None or not field.type.is_primitive:
                return pa.array(values) if field is None else self._convert_nested(name, values)
            return to_array(field.type, [convert(field.type, value) for value in values])
        except FloeError as error:
            raise error.with_context(column=name) from None
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidValue(f"the values cannot be converted to a column: {str(error)[:200]}", column=name) from None

    def _convert_nested(self, name: str, values: list[Any]) -> pa.Array:
        field = self._fields[self._fold(name)]
        rows = [{field.name: convert(field.type, _unwrap_dataclass(value))} for value in values]
        return rows_to_batch(Schema((dataclasses.replace(field, required=False),)), rows).column(0)

    def rows(self, rows: Sequence[Any]) -> pa.RecordBatchReader:
        """A reader of rows that are all in memory; its columns are the keys of all rows."""
        dictionaries = [_to_dictionary(row) for row in rows]
        batch = self._batch(dictionaries, self._column_names(dictionaries))
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])

    def stream(self, rows: Iterator[Any]) -> pa.RecordBatchReader:
        """A reader of rows from an iterator; its columns are the keys of the first few thousand rows."""
        first = [_to_dictionary(row) for row in islice(rows, _ROWS_PER_BATCH)]
        names = self._column_names(first)
        start = self._batch(first, names)

        def batches() -> Iterator[pa.RecordBatch]:
            yield start
            while dictionaries := [_to_dictionary(row) for row in islice(rows, _ROWS_PER_BATCH)]:
                for row in dictionaries:
                    for name in row.keys() - set(names):
                        raise InvalidInput(
                            "a row has a column that the first rows do not have",
                            hint="name all columns in the first row, with None where there is no value",
                            column=str(name),
                        )
                yield self._batch(dictionaries, names).cast(start.schema)

        return pa.RecordBatchReader.from_batches(start.schema, batches())

    def _column_names(self, rows: list[Mapping[str, Any]]) -> list[str]:
        names = list(dict.fromkeys(str(name) for row in rows for name in row))
        if not names:  # rows without keys still count, and a batch without columns has no length
            names = [field.name for field in self._fields.values() if not field.required][:1]
        return names

    def _batch(self, rows: list[Mapping[str, Any]], names: Sequence[str]) -> pa.RecordBatch:
        return pa.record_batch(
            {name: self._convert_values(name, self._values_with_default(rows, name)) for name in names}
        )

    def _values_with_default(self, rows: list[Mapping[str, Any]], name: str) -> list[Any]:
        """The values of a column; a row without the key gets the column's write default."""
        if self._same_columns:
            for row in rows:
                if name not in row:
                    raise InvalidInput(
                        f"a row does not have a column that other rows have: {dict(row)!r:.80}",
                        hint="name it in all rows, with None for null, or write these rows separately",
                        column=name,
                    )
        field = self._fields.get(self._fold(name))
        default = None if field is None else field.write_default
        return [row.get(name, default) for row in rows]


def _to_dictionary(row: Any) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return dataclasses.asdict(row)
    raise InvalidInput(f"a row must be a dictionary or an instance of a dataclass, found {row!r:.80}")


def _unwrap_dataclass(value: Any) -> Any:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
