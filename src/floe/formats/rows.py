"""File formats as plain Python rows, on top of their Arrow models.

A row is a dictionary by column name, with values in the form that `floe.spec.values` describes; structs are
dictionaries too. Instances of dataclasses can be written, and rows can be read as instances of one (`as_dataclasses`).

>>> from floe.formats.registry import ParquetAsArrow
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import DATE, Field, LONG
>>> from floe.storage.memory import MemoryStorage
>>> storage, schema = MemoryStorage(), Schema((Field(1, "id", LONG), Field(2, "day", DATE)))
>>> model = AsRows(ParquetAsArrow())
>>> with model.write(WriteRequest(storage=storage, location="memory:a", schema=schema)) as file:
...     file.write([{"id": 1, "day": 19_000}, {"id": 2}])
>>> list(model.read(ReadRequest(storage=storage, location="memory:a", schema=schema)))
[{'id': 1, 'day': 19000}, {'id': 2, 'day': None}]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

import pyarrow as pa

from floe.errors import FloeError, InvalidSchema, InvalidValue
from floe.formats.columns.arrays import to_array, to_values
from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.model import Feature, FileAppender, FormatModel, ReadRequest, WriteRequest
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.schema import Schema, write_value
from floe.spec.types import Field, ListType, MapType, StructType, Type
from floe.spec.values.value_checks import check, map_items

Row: TypeAlias = dict[str, Any]

_BATCH_ROWS = 1024
"""How many rows are converted to a batch at a time."""

Record = TypeVar("Record")


class AsRows:
    """The model of a format as plain rows, on top of its Arrow model."""

    object_model = "rows"

    def __init__(self, arrow: FormatModel[pa.RecordBatch]) -> None:
        self._arrow = arrow

    @property
    def file_format(self) -> str:
        """The name of the format in manifests."""
        return self._arrow.file_format

    @property
    def features(self) -> frozenset[Feature]:
        """The features of the Arrow model, and reuse of the dictionary of a row."""
        return self._arrow.features | {Feature.REUSE}

    @property
    def lacks(self) -> Mapping[Feature, str]:
        """The reason for each feature that the model does not have."""
        lacks: Mapping[Feature, str] = getattr(self._arrow, "lacks", {})
        return {feature: why for feature, why in lacks.items() if feature not in self.features}

    def read(self, request: ReadRequest) -> Iterator[Row]:
        """Read the requested rows; with `reuse` all are the same dictionary."""
        reused: Row | None = {} if request.reuse else None
        for batch in self._arrow.read(request):
            try:
                yield from batch_to_rows(request.schema, batch, reused)
            except FloeError as error:
                raise error.with_context(file=request.location) from None

    def write(self, request: WriteRequest) -> RowAppender:
        """Open a new file to write rows to."""
        return RowAppender(self._arrow.write(request), request.schema)

    def __repr__(self) -> str:
        return f"AsRows({self._arrow!r})"


def batch_to_rows(schema: Schema, batch: pa.RecordBatch, reused: Row | None = None) -> Iterator[Row]:
    """The rows of a batch that has the columns of a schema; all in the same dictionary if `reused` is one.

    >>> from floe.spec.types import INT
    >>> list(batch_to_rows(Schema((Field(1, "n", INT),)), pa.record_batch({"n": pa.array([1, None], pa.int32())})))
    [{'n': 1}, {'n': None}]
    """
    names = [field.name for field in schema.fields]
    columns = [to_values(field.type, batch.column(index)) for index, field in enumerate(schema.fields)]
    for row in zip(*columns, strict=True) if columns else ((),) * batch.num_rows:
        if reused is None:
            yield dict(zip(names, row, strict=True))
        else:
            reused.update(zip(names, row, strict=True))
            yield reused


def as_dataclasses(record: type[Record], rows: Iterable[Row]) -> Iterator[Record]:
    """Convert rows to instances of a dataclass whose fields have the names of the columns.

    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> list(as_dataclasses(Point, [{"x": 1, "y": 2}]))
    [Point(x=1, y=2)]
    """
    if not dataclasses.is_dataclass(record):
        raise InvalidSchema(f"{record!r} is not a dataclass")
    for row in rows:
        yield record(**row)


class RowAppender:
    """Writes rows to a file."""

    def __init__(self, arrow: FileAppender[pa.RecordBatch], schema: Schema) -> None:
        self._arrow = arrow
        self._schema = schema
        self._pending: list[Any] = []

    def write(self, rows: Mapping[str, Any] | Iterable[Any], /) -> None:
        """Add a row, or several: dictionaries or instances of dataclasses."""
        if isinstance(rows, Mapping) or dataclasses.is_dataclass(rows):
            self._pending.append(rows)
        else:
            self._pending.extend(rows)
        if len(self._pending) >= _BATCH_ROWS:
            self._flush()

    def _flush(self) -> None:
        rows, self._pending = self._pending, []
        for start in range(0, len(rows), _BATCH_ROWS):
            self._arrow.write(rows_to_batch(self._schema, rows[start : start + _BATCH_ROWS]))

    @property
    def record_count(self) -> int:
        """The number of rows written so far."""
        return self._arrow.record_count + len(self._pending)

    @property
    def length(self) -> int:
        """The approximate size in bytes that the file would have if it were closed now."""
        written = self._arrow.record_count
        per_row = self._arrow.length / written if written else 0
        return self._arrow.length + int(per_row * len(self._pending))

    def close(self) -> DataFile:
        """Finish the file and return it as a manifest describes it."""
        try:
            self._flush()
        except BaseException:
            self.abort()
            raise
        return self._arrow.close()

    def abort(self) -> None:
        """Discard what was written; does nothing after `close`."""
        self._arrow.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


def rows_to_batch(schema: Schema, rows: Iterable[Any]) -> pa.RecordBatch:
    """Convert rows to a batch; columns that a row lacks get their write default.

    Raises `InvalidSchema` for columns that the schema lacks, and `InvalidValue` for values that do not fit their type.

    >>> from floe.spec.types import INT
    >>> rows_to_batch(Schema((Field(1, "n", INT, write_default=7),)), [{"n": 1}, {}]).to_pylist()
    [{'n': 1}, {'n': 7}]
    """
    row_type = schema.as_struct()
    complete = [_complete_row(row_type, row) for row in rows]
    arrays = [to_array(field.type, [row[field.name] for row in complete]) for field in schema.fields]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))


def _complete_row(type_: StructType, row: Any) -> dict[str, Any]:
    filled: dict[str, Any] = _complete(type_, row, "")
    return filled


def _complete(type_: Type, value: Any, path: str) -> Any:
    """Check a value, and fill in the fields that its structs lack."""
    if value is None:
        return None
    if isinstance(type_, StructType):
        return _complete_struct(type_, value, path)
    if isinstance(type_, ListType):
        return [_complete_field(type_.element_field, item, f"{path}.element") for item in value]
    if isinstance(type_, MapType):
        return [
            (
                _complete_field(type_.key_field, key, f"{path}.key"),
                _complete_field(type_.value_field, item, f"{path}.value"),
            )
            for key, item in map_items(value)
        ]
    try:
        check(type_, value)
    except InvalidValue as error:
        raise error.with_context(column=path.lstrip(".") or None) from None
    return value


def _complete_struct(type_: StructType, value: Any, path: str) -> dict[str, Any]:
    values = value if isinstance(value, Mapping) else _dataclass_values(value, path)
    names = {child.name for child in type_.fields}
    if not values.keys() <= names:
        extra = next(name for name in values if name not in names)
        raise InvalidSchema(
            "a row has a column that the schema does not have",
            hint=f"its columns are {', '.join(sorted(names)[:20])}",
            column=f"{path}.{extra}".lstrip("."),
        )
    filled = {}
    for child in type_.fields:
        inside = f"{path}.{child.name}"
        if child.name in values:
            filled[child.name] = _complete_field(child, values[child.name], inside)
            continue
        try:
            filled[child.name] = write_value(child)
        except InvalidValue as error:
            raise error.with_context(column=inside.lstrip(".")) from None
    return filled


def _dataclass_values(value: Any, path: str) -> dict[str, Any]:
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise InvalidValue(
            f"a row or struct is a dictionary or a dataclass, found {value!r:.80}", column=path.lstrip(".") or None
        )
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _complete_field(field: Field, value: Any, path: str) -> Any:
    if value is None and field.required:
        raise InvalidValue("null in a required column", column=path.lstrip("."))
    return _complete(field.type, value, path)
