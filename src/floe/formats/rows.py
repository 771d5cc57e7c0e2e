"""Plain Python rows over any format model of Arrow batches: dictionaries of `floe.spec.values`, or dataclasses.

Each row is a dictionary by column name, with values in the form that `floe.spec.values` describes; structs are
dictionaries too. A dataclass can be written as it is, and rows can be asked for as instances of one.

>>> from floe.formats.arrow_models import ParquetAsArrow
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
from floe.formats.arrow_arrays import to_array, to_values
from floe.formats.arrow_types import arrow_schema
from floe.formats.model import Feature, FileAppender, FormatModel, ReadRequest, WriteRequest
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.defaults import write_value
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, ListType, MapType, StructType, Type
from floe.spec.values.value_checks import check, map_items

Row: TypeAlias = dict[str, Any]

_GATHERED_ROWS = 1024
"""Rows are turned into a batch when there are so many of them."""

Record = TypeVar("Record")


class AsRows:
    """The rows model of a format, made from its Arrow model."""

    object_model = "rows"

    def __init__(self, arrow: FormatModel[pa.RecordBatch]) -> None:
        self._arrow = arrow

    @property
    def file_format(self) -> str:
        """The format's name."""
        return self._arrow.file_format

    @property
    def features(self) -> frozenset[Feature]:
        """Those of the Arrow model, and dictionaries that are used again."""
        return self._arrow.features | {Feature.REUSE}

    @property
    def lacks(self) -> Mapping[Feature, str]:
        """Why it cannot do the rest."""
        lacks: Mapping[Feature, str] = getattr(self._arrow, "lacks", {})
        return {feature: why for feature, why in lacks.items() if feature not in self.features}

    def read(self, request: ReadRequest) -> Iterator[Row]:
        """The rows, one after the other; with `reuse` they are all the same dictionary."""
        reused: Row | None = {} if request.reuse else None
        for batch in self._arrow.read(request):
            try:
                yield from batch_to_rows(request.schema, batch, reused)
            except FloeError as error:
                raise error.with_context(file=request.location) from None

    def write(self, request: WriteRequest) -> RowAppender:
        """A new file."""
        return RowAppender(self._arrow.write(request), request.schema)

    def __repr__(self) -> str:
        return f"AsRows({self._arrow!r})"


def batch_to_rows(schema: Schema, batch: pa.RecordBatch, reused: Row | None = None) -> Iterator[Row]:
    """The rows of a batch that has the columns of a schema; all of them in one dictionary if it is given.

    >>> from floe.spec.types import INT
    >>> list(batch_to_rows(Schema((Field(1, "n", INT),)), pa.record_batch({"n": pa.array([1, None], pa.int32())})))
    [{'n': 1}, {'n': None}]
    """
    names = [field.name for field in schema.fields]
    columns = [to_values(field.type, batch.column(place)) for place, field in enumerate(schema.fields)]
    for row in zip(*columns, strict=True) if columns else ((),) * batch.num_rows:
        if reused is None:
            yield dict(zip(names, row, strict=True))
        else:
            reused.update(zip(names, row, strict=True))
            yield reused


def as_dataclasses(record: type[Record], rows: Iterable[Row]) -> Iterator[Record]:
    """The rows as instances of a dataclass whose fields are named as the columns are.

    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> list(as_dataclasses(Point, [{"x": 1, "y": 2}]))
    [Point(x=1, y=2)]
    """
    if not dataclasses.is_dataclass(record):
        raise InvalidSchema(f"{record!r} is no dataclass")
    for row in rows:
        yield record(**row)


class RowAppender:
    """A file that rows are written to."""

    def __init__(self, arrow: FileAppender[pa.RecordBatch], schema: Schema) -> None:
        self._arrow = arrow
        self._schema = schema
        self._gathered: list[Any] = []

    def write(self, rows: Mapping[str, Any] | Iterable[Any], /) -> None:
        """Add a row or many: dictionaries, or instances of dataclasses."""
        if isinstance(rows, Mapping) or dataclasses.is_dataclass(rows):
            self._gathered.append(rows)
        else:
            self._gathered.extend(rows)
        if len(self._gathered) >= _GATHERED_ROWS:
            self._flush()

    def _flush(self) -> None:
        rows, self._gathered = self._gathered, []
        for start in range(0, len(rows), _GATHERED_ROWS):
            self._arrow.write(rows_to_batch(self._schema, rows[start : start + _GATHERED_ROWS]))

    @property
    def record_count(self) -> int:
        """How many rows were written."""
        return self._arrow.record_count + len(self._gathered)

    @property
    def length(self) -> int:
        """About how many bytes the file would have if it were closed now."""
        written = self._arrow.record_count
        per_row = self._arrow.length / written if written else 0
        return self._arrow.length + int(per_row * len(self._gathered))

    def close(self) -> DataFile:
        """Finish the file and describe it."""
        try:
            self._flush()
        except BaseException:
            self.abort()
            raise
        return self._arrow.close()

    def abort(self) -> None:
        """Throw away what was written; after `close`, does nothing."""
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
    """A batch of rows, checked against the schema; what a row leaves out has its write default.

    >>> from floe.spec.types import INT
    >>> rows_to_batch(Schema((Field(1, "n", INT, write_default=7),)), [{"n": 1}, {}]).to_pylist()
    [{'n': 1}, {'n': 7}]
    """
    row_type = schema.as_struct()
    complete = [_completed_row(row_type, row) for row in rows]
    arrays = [to_array(field.type, [row[field.name] for row in complete]) for field in schema.fields]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))


def _completed_row(type_: StructType, row: Any) -> dict[str, Any]:
    filled: dict[str, Any] = _completed(type_, row, "")
    return filled


def _completed(type_: Type, value: Any, path: str) -> Any:
    """The value, checked, with everything that a struct in it leaves out filled in."""
    if value is None:
        return None
    if isinstance(type_, StructType):
        return _completed_struct(type_, value, path)
    if isinstance(type_, ListType):
        return [_required(type_.element_field, item, f"{path}.element") for item in value]
    if isinstance(type_, MapType):
        return [
            (
                _required(type_.key_field, key, f"{path}.key"),
                _required(type_.value_field, item, f"{path}.value"),
            )
            for key, item in map_items(value)
        ]
    try:
        check(type_, value)
    except InvalidValue as error:
        raise error.with_context(column=path.lstrip(".") or None) from None
    return value


def _completed_struct(type_: StructType, value: Any, path: str) -> dict[str, Any]:
    given = value if isinstance(value, Mapping) else _dataclass_values(value, path)
    names = {child.name for child in type_.fields}
    if not given.keys() <= names:
        extra = next(name for name in given if name not in names)
        raise InvalidSchema(
            "a row has a column that the schema has not",
            hint=f"its columns are {', '.join(sorted(names)[:20])}",
            column=f"{path}.{extra}".lstrip("."),
        )
    filled = {}
    for child in type_.fields:
        inside = f"{path}.{child.name}"
        if child.name in given:
            filled[child.name] = _required(child, given[child.name], inside)
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


def _required(field: Field, value: Any, path: str) -> Any:
    if value is None and field.required:
        raise InvalidValue("null in a required column", column=path.lstrip("."))
    return _completed(field.type, value, path)
