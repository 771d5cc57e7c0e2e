"""What people bring to be written, as a stream of Arrow batches.

| given | taken as |
|---|---|
| Arrow tables, batches, readers, datasets, scanners | they are; readers and datasets are not loaded as a whole |
| anything with the Arrow C stream or array interface: Polars, DuckDB, a scan of Floe, … | the stream it gives |
| Polars lazy frames | their batches, one after the other |
| pandas frames | Arrow's conversion; an index with names becomes columns, one without is left out |
| a dictionary of columns: lists, NumPy arrays, series, Arrow arrays | a table |
| dictionaries or dataclass instances, in a list or any other iterable | rows, whose values are converted exactly |
| an iterable of batches or tables | one stream; all must have the same columns |

Where Python values are given and the table's columns are known, values are converted to their types (a `datetime` or
ISO text for a timestamp, `1` for a decimal); what does not mean exactly one value of the type is refused.

>>> reader_of([{"a": 1}, {"a": 2, "b": "x"}]).read_all().to_pylist()
[{'a': 1, 'b': None}, {'a': 2, 'b': 'x'}]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from floe.errors import FloeError, InvalidInput, InvalidValue
from floe.formats.arrow_arrays import to_array
from floe.formats.arrow_types import arrow_field
from floe.formats.rows import rows_to_batch
from floe.spec.schemas.schema import Schema
from floe.spec.values import convert

_ROWS_AT_ONCE = 8192

_WANTED = (
    "give an Arrow table or reader, a pandas or Polars frame, a dictionary of columns, a list of dictionaries, or "
    "anything else with the Arrow stream interface"
)


def reader_of(
    data: Any, schema: Schema | None = None, *, case_sensitive: bool = True, alike: bool = False
) -> pa.RecordBatchReader:
    """The data as a stream of batches; the schema is that of the table, if it is known.

    With `alike`, rows that are dictionaries all have to name the same columns: for who cannot tell whether what is left
    out means null, or no change.

    >>> from floe.spec.types import DATE, Field
    >>> reader_of({"day": ["2024-02-29"]}, Schema((Field(1, "day", DATE),))).read_all().column("day").type
    DataType(date32[day])
    >>> reader_of("a.parquet")
    Traceback (most recent call last):
    floe.errors.InvalidInput: text is no data; give an Arrow table or reader, a pandas or Polars frame, ...
    """
    if isinstance(data, str | bytes) or hasattr(data, "__fspath__"):
        raise InvalidInput("text is no data", hint=f"{_WANTED}; files that are there are added with `add_files`")
    if isinstance(data, type):
        raise InvalidInput(f"the class {data.__name__} is no data", hint=_WANTED)
    try:
        found = _known_kind(data, _Names(schema, case_sensitive, alike))
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, FloeError):
            raise
        raise InvalidValue(f"the data cannot be taken as Arrow columns: {str(error)[:300]}") from error
    if found is None:
        raise InvalidInput(f"{type(data).__name__} is no data that can be written", hint=_WANTED)
    return found


def is_data(given: Any) -> bool:
    """Whether something holds rows, as `reader_of` takes them, and is not a schema.

    >>> is_data(pa.table({"a": [1]})), is_data(pa.schema({"a": pa.int64()})), is_data("a int")
    (True, False, False)
    """
    if isinstance(given, str | bytes | Schema | pa.Schema) or hasattr(given, "__arrow_c_schema__"):
        return hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")
    if isinstance(given, type):
        return False
    return (
        _is_frame(given)
        or _from(given, "polars")
        or isinstance(given, Mapping | Sequence)
        or hasattr(given, "scanner")
        or hasattr(given, "to_reader")
    )


def _is_frame(given: Any) -> bool:
    return hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__") or _from(given, "pandas")


def _from(given: Any, library: str) -> bool:
    return type(given).__module__.split(".")[0] == library


def _known_kind(data: Any, names: _Names) -> pa.RecordBatchReader | None:
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if _from(data, "pandas") and hasattr(data, "columns"):
        return _from_pandas(data)
    if _from(data, "polars") and hasattr(data, "collect"):
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
        return names.columns(data).to_reader()
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        return names.rows([data])
    return _from_iterable(data, names) if isinstance(data, Iterable) else None


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


def _from_iterable(data: Iterable[Any], names: _Names) -> pa.RecordBatchReader | None:
    items = iter(data)
    first = next(items, None)
    if first is None:
        return names.nothing()
    rest = chain([first], items)
    if isinstance(first, Mapping) or (dataclasses.is_dataclass(first) and not isinstance(first, type)):
        if isinstance(data, Sequence):
            return names.rows(data)
        return names.stream(rest)
    if not _is_frame(first):
        return None
    batches = (batch for one in rest for batch in reader_of(one))
    start = next(batches, None)
    if start is None:
        return reader_of(first)
    return pa.RecordBatchReader.from_batches(start.schema, _alike(start, batches))


def _alike(first: pa.RecordBatch, rest: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    for number, batch in enumerate(rest, 2):
        if batch.num_rows and not batch.schema.equals(first.schema):
            raise InvalidInput(
                f"batch {number} has other columns than the first: {_shown(batch.schema)}, not {_shown(first.schema)}",
                hint="write them one by one, or cast them to one schema",
            )
        yield batch


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)[:200]


class _Names:
    """Python values taken as columns of a table, where it has one of the name; others are as Arrow sees them."""

    def __init__(self, schema: Schema | None, case_sensitive: bool, alike: bool) -> None:
        self._alike = alike
        self._fold = str if case_sensitive else str.lower
        self._fields = {} if schema is None else {self._fold(field.name): field for field in schema.fields}

    def nothing(self) -> pa.RecordBatchReader:
        """No rows, of which nobody can tell the columns: those of the table."""
        schema = pa.schema([arrow_field(field) for field in self._fields.values()])
        return pa.RecordBatchReader.from_batches(schema, [])

    def columns(self, data: Mapping[str, Any]) -> pa.Table:
        """A dictionary of columns as a table."""
        made = {name: self._column(name, values) for name, values in data.items()}
        lengths = {name: len(column) for name, column in made.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidInput(f"the columns are not equally long: {str(lengths)[:300]}")
        return pa.table(made)

    def _column(self, name: str, values: Any) -> pa.Array | pa.ChunkedArray:
        if isinstance(values, pa.Array | pa.ChunkedArray):
            return values
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
        if _from(values, "pandas") or _from(values, "numpy") or hasattr(values, "__arrow_c_array__"):
            return pa.array(values, from_pandas=True) if _from(values, "pandas") else pa.array(values)
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise InvalidInput(
                f"a column is a list of values or an array, found {values!r:.80}",
                hint="one row is a list of one dictionary: [{…}]",
                column=str(name),
            )
        return self._values(str(name), list(values))

    def _values(self, name: str, values: list[Any]) -> pa.Array:
        field = self._fields.get(self._fold(name))
        try:
            if field is None or not field.type.is_primitive:
                return pa.array(values) if field is None else self._nested(name, values)
            return to_array(field.type, [convert(field.type, value) for value in values])
        except FloeError as error:
            raise error.with_context(column=name) from None
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidValue(f"the values cannot be taken as a column: {str(error)[:200]}", column=name) from None

    def _nested(self, name: str, values: list[Any]) -> pa.Array:
        field = self._fields[self._fold(name)]
        rows = [{field.name: convert(field.type, _plain(value))} for value in values]
        return rows_to_batch(Schema((dataclasses.replace(field, required=False),)), rows).column(0)

    def rows(self, rows: Sequence[Any]) -> pa.RecordBatchReader:
        """Rows that are all there: their columns are those of all of them."""
        plain = [_row(row) for row in rows]
        batch = self._batch(plain, self._columns_of(plain))
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])

    def stream(self, rows: Iterator[Any]) -> pa.RecordBatchReader:
        """Rows that come one after the other: their columns are those of the first few thousand."""
        first = [_row(row) for row in islice(rows, _ROWS_AT_ONCE)]
        names = self._columns_of(first)
        start = self._batch(first, names)

        def batches() -> Iterator[pa.RecordBatch]:
            yield start
            while part := [_row(row) for row in islice(rows, _ROWS_AT_ONCE)]:
                for row in part:
                    for name in row.keys() - set(names):
                        raise InvalidInput(
                            "a row has a column that those before it did not have",
                            hint="name all columns in the first row, with None where there is no value",
                            column=str(name),
                        )
                yield self._batch(part, names).cast(start.schema)

        return pa.RecordBatchReader.from_batches(start.schema, batches())

    def _columns_of(self, rows: list[Mapping[str, Any]]) -> list[str]:
        names = list(dict.fromkeys(str(name) for row in rows for name in row))
        if not names:  # rows of nothing but defaults are rows too: a column has to count them
            names = [field.name for field in self._fields.values() if not field.required][:1]
        return names

    def _batch(self, rows: list[Mapping[str, Any]], names: Sequence[str]) -> pa.RecordBatch:
        return pa.record_batch({name: self._values(name, self._filled(rows, name)) for name in names})

    def _filled(self, rows: list[Mapping[str, Any]], name: str) -> list[Any]:
        """The values of a column; what a row leaves out has the column's write default."""
        if self._alike:
            for row in rows:
                if name not in row:
                    raise InvalidInput(
                        f"a row leaves out a column that other rows have: {dict(row)!r:.80}",
                        hint="name it in all rows, with None for null; rows that set other columns go by themselves",
                        column=name,
                    )
        field = self._fields.get(self._fold(name))
        default = None if field is None else field.write_default
        return [row.get(name, default) for row in rows]


def _row(row: Any) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return dataclasses.asdict(row)
    raise InvalidInput(f"a row is a dictionary or an instance of a dataclass, found {row!r:.80}")


def _plain(value: Any) -> Any:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
