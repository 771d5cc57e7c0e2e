"""The bench on which format models are tried: rows written and read through any of them, and samples of every type.

Files as engines write them that know nothing of tables: without field ids, in Parquet, ORC and Avro.

Storages that show what a format model does with files: one counts what is read, one turns every byte.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from floe.avro.container import open_container, write_container
from floe.errors import FloeError
from floe.formats.arrow_arrays import to_values
from floe.formats.arrow_models import AvroAsArrow
from floe.formats.builders import ReadBuilder, WriteBuilder, data_writer
from floe.formats.model import Feature, FormatModel, WriteRequest
from floe.formats.rows import rows_to_batch
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.schema import Schema
from floe.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UUID,
    VARIANT,
    DecimalType,
    Field,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StructType,
    Type,
)
from floe.storage.file_objects import open_ranges
from floe.storage.memory import MemoryStorage
from floe.storage.protocol import Data, FileWriter, Storage
from floe.storage.wrappers import StorageWrapper

# Files as engines write them that know nothing of tables: without field ids, in Parquet, ORC and Avro.

WriteWithoutIds = Callable[[Storage, str, Schema, list[Any]], None]
"""Writes some rows to a location, in the columns of a schema but without its ids."""

_AVRO_IDS = frozenset({"field-id", "element-id", "key-id", "value-id"})


def _bare(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _bare(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(_bare(type_.key_type), _bare(type_.item_type))
    return pa.list_(_bare(type_.value_type)) if pa.types.is_list(type_) else type_


def _bare_table(schema: Schema, rows: list[Any]) -> pa.Table:
    batch = rows_to_batch(schema, rows)
    return pa.Table.from_batches([batch]).cast(
        pa.schema([pa.field(field.name, _bare(field.type)) for field in batch.schema])
    )


def _parquet(storage: Storage, location: str, schema: Schema, rows: list[Any]) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(_bare_table(schema, rows), sink)
    storage.write(location, sink.getvalue().to_pybytes())


def _orc(storage: Storage, location: str, schema: Schema, rows: list[Any]) -> None:
    sink = pa.BufferOutputStream()
    orc.write_table(_bare_table(schema, rows), sink)
    storage.write(location, sink.getvalue().to_pybytes())


def _avro(storage: Storage, location: str, schema: Schema, rows: list[Any]) -> None:
    own = MemoryStorage()
    with AvroAsArrow().write(WriteRequest(storage=own, location="memory:with-ids", schema=schema)) as file:
        file.write(rows_to_batch(schema, rows))
    container = open_container(own.read("memory:with-ids"))
    bare = json.dumps(_without_ids(json.loads(container.schema_text)))
    counts = [block.count for block in container.blocks]
    blocks = zip(counts, container.decompressed(), strict=True)
    storage.write(location, write_container({"avro.schema": bare.encode()}, blocks))


def _without_ids(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _without_ids(value) for key, value in schema.items() if key not in _AVRO_IDS}
    return [_without_ids(item) for item in schema] if isinstance(schema, list) else schema


WITHOUT_IDS: dict[str, WriteWithoutIds] = {"parquet": _parquet, "orc": _orc, "avro": _avro}
"""How each format of Floe's own is written without ids."""
Rows = list[Any]
"""Plain rows, dictionaries by column name."""


@contextmanager
def refused(*kinds: type[FloeError], naming: str = "") -> Iterator[None]:
    """Expects an error of one of some kinds, with a text in it."""
    try:
        yield
    except kinds as error:
        if naming not in str(error):
            raise AssertionError(f"{naming!r} is missing in: {error}") from error
        return
    raise AssertionError(f"{' or '.join(kind.__name__ for kind in kinds)} was expected, and nothing was raised")


def columns(*fields: tuple[int, str, Type] | Field) -> Schema:
    """A schema of optional fields, or of fields as they are."""
    return Schema(tuple(one if isinstance(one, Field) else Field(*one) for one in fields))


def _arrow_batch(schema: Schema, rows: Rows) -> pa.RecordBatch:
    return rows_to_batch(schema, rows)


def _arrow_rows(schema: Schema, batches: Iterable[Any]) -> Rows:
    names = [one.name for one in schema.fields]
    found: Rows = []
    for batch in batches:
        assert batch.num_rows > 0, "an empty batch"
        assert batch.schema.names == names, f"{batch.schema.names} in place of {names}"
        values = [to_values(one.type, batch.column(place)) for place, one in enumerate(schema.fields)]
        found += [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)] or [{}] * batch.num_rows
    return found


def _plain_rows(schema: Schema, batches: Iterable[Any]) -> Rows:
    return [dict(row) for row in batches]


@dataclass
class FormatBench:
    """A format model, the storage it works on, and how its batches are made from plain rows and back.

    For `arrow` and `rows` the two ways are known. `write_without_ids` writes a file as an engine does that knows
    nothing of tables, and is known for Floe's own formats; without it the tests of imported files are left out, and the
    table of features says so.
    """

    model: FormatModel[Any]
    storage: Storage = field(default_factory=MemoryStorage)
    to_batch: Callable[[Schema, Rows], Any] | None = None
    to_rows: Callable[[Schema, Iterable[Any]], Rows] | None = None
    write_without_ids: WriteWithoutIds | None = None
    _names: Iterator[int] = field(default_factory=count, repr=False)

    def __post_init__(self) -> None:
        arrow = self.model.object_model == "arrow"
        if self.to_batch is None:
            self.to_batch = _arrow_batch if arrow else lambda schema, rows: rows
        if self.write_without_ids is None:
            self.write_without_ids = WITHOUT_IDS.get(self.model.file_format)
        if self.to_rows is None:
            self.to_rows = _arrow_rows if arrow else _plain_rows

    def supports(self, feature: Feature) -> bool:
        """Whether the model says that it can do something."""
        return feature in self.model.features

    def location(self) -> str:
        """The name of a file that is not there yet."""
        return f"memory:formats/{next(self._names)}.{self.model.file_format}"

    def writing(self, schema: Schema, location: str | None = None) -> WriteBuilder[Any]:
        """The builder of a data file."""
        return data_writer(self.model, self.storage, location or self.location()).schema(schema)

    def fill(self, builder: WriteBuilder[Any], *groups: Rows) -> DataFile:
        """The file with some rows, written group by group."""
        assert self.to_batch is not None
        with builder.build() as file:
            for rows in groups:
                file.write(self.to_batch(builder.request.schema, rows))
        return file.close()

    def write(self, schema: Schema, rows: Rows, **properties: str) -> DataFile:
        """A data file with some rows; underscores in the names of properties stand for dashes."""
        named = {name.replace("__", ".").replace("_", "-"): text for name, text in properties.items()}
        return self.fill(self.writing(schema).properties(named), rows)

    def reading(self, schema: Schema, file: DataFile | str) -> ReadBuilder[Any]:
        """The builder that reads some columns of a file."""
        location = file if isinstance(file, str) else file.file_path
        return ReadBuilder(self.model, self.storage, location).project(schema)

    def rows(self, builder: ReadBuilder[Any]) -> Rows:
        """The rows that a builder reads."""
        assert self.to_rows is not None
        assert builder.wanted is not None
        return self.to_rows(builder.wanted, builder.build())

    def read(self, schema: Schema, file: DataFile | str) -> Rows:
        """The rows of a file in some columns."""
        return self.rows(self.reading(schema, file))

    def check(self, found: Rows, wanted: Rows) -> None:
        """Raise unless the rows are the same, with NaN equal to itself and zeros told apart by their sign."""
        assert len(found) == len(wanted), f"{len(found)} rows in place of {len(wanted)}"
        for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
            assert _text(one) == _text(other), f"row {number}: {one!r} in place of {other!r}"

    def round_trip(self, schema: Schema, rows: Rows) -> DataFile:
        """Write rows, read them, and compare."""
        file = self.write(schema, rows)
        assert file.record_count == len(rows)
        self.check(self.read(schema, file), rows)
        return file


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{key!r}: {_text(item)}" for key, item in value.items())) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    return repr(value)


_NAN, _INFINITY = math.nan, math.inf
_POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")
_NULL_VARIANT, _OBJECT_VARIANT = b"\x01\x00\x00\x00", b"\x01\x01\x00\x01a\x02\x01\x00\x00\x02\x0c\x07"

SAMPLES: dict[Type, Sequence[Any]] = {
    BOOLEAN: (True, False),
    INT: (0, -1, 2**31 - 1, -(2**31)),
    LONG: (0, -1, 2**63 - 1, -(2**63)),
    FLOAT: (0.0, -0.0, 1.5, _NAN, _INFINITY, -_INFINITY, 1.401298464324817e-45),
    DOUBLE: (0.0, -0.0, 0.1, _NAN, _INFINITY, -_INFINITY, 5e-324),
    DATE: (0, -1, 19_723, -719_162, 2_932_896),
    TIME: (0, 1, 86_399_999_999),
    TIMESTAMP: (0, -1_500_000, -1_999_999, 1_700_000_000_123_456, -62_135_596_800_000_000, 253_402_300_799_999_999),
    TIMESTAMPTZ: (0, -1_000_001, -9_000_500, 1_700_000_000_123_456, -62_135_596_800_000_000, 253_402_300_799_999_999),
    TIMESTAMP_NS: (0, -1_000_000_001, 1_700_000_000_123_456_789, -(2**62), 2**62),
    TIMESTAMPTZ_NS: (0, -5_000_000_100, 1_700_000_000_123_456_789, -(2**62), 2**62),
    STRING: ("", "a", "ünï 数据 😀", "x" * 5000),
    UUID: (uuid.UUID(int=0), uuid.UUID(int=2**128 - 1), uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")),
    FixedType(1): (b"\x00", b"\xff"),
    FixedType(20): (bytes(20), bytes(range(20))),
    BINARY: (b"", b"\x00\xff", b"y" * 5000),
    DecimalType(1, 0): (Decimal(0), Decimal(-9)),
    DecimalType(9, 2): (Decimal("0.00"), Decimal("9999999.99"), Decimal("-9999999.99")),
    DecimalType(10, 3): (Decimal("1.500"), Decimal("-9999999.999")),
    DecimalType(18, 18): (Decimal("0.999999999999999999"), Decimal("-0.000000000000000001")),
    DecimalType(19, 4): (Decimal("999999999999999.9999"), Decimal("-1.0000")),
    DecimalType(38, 10): (Decimal("9999999999999999999999999999.9999999999"), Decimal("-0.0000000001")),
    StructType((Field(101, "x", INT), Field(102, "y", STRING))): ({"x": 1, "y": "a"}, {"x": None, "y": None}),
    ListType(103, LONG): ([], [1, None, 3]),
    ListType(104, STRING, element_required=True): ([], ["a", "b"]),
    MapType(105, STRING, 106, INT): ({}, {"a": 1, "b": None}),
    MapType(107, LONG, 108, DecimalType(9, 2), value_required=True): ({}, {7: Decimal("1.25")}),
    ListType(109, StructType((Field(110, "p", DOUBLE), Field(111, "q", ListType(112, INT))))): (
        [],
        [{"p": 0.5, "q": [1]}, None, {"p": None, "q": None}],
    ),
    MapType(113, STRING, 114, MapType(115, STRING, 116, DATE)): ({"a": {"b": 1}, "c": None}, {"d": {}}),
    VARIANT: (_NULL_VARIANT, _OBJECT_VARIANT),
    GeometryType(): (_POINT,),
    GeometryType("EPSG:3857"): (_POINT,),
    GeographyType(None, "vincenty"): (_POINT,),
}
"""Values of every type, with those at the ends of its range."""

# Storages that show what a format model does with files: one counts what is read, one turns every byte.

_OTHER_WAY_ROUND = bytes(255 - n for n in range(256))


class CountingStorage(StorageWrapper):
    """Counts the bytes that are read."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.bytes = 0

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """The whole file."""
        data = super().read(location, max_bytes=max_bytes)
        self.bytes += len(data)
        return data

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """A part of the file."""
        data = super().read_range(location, offset, length)
        self.bytes += len(data)
        return data

    def open_read(self, location: str) -> BinaryIO:
        """The file, read by ranges, hardly more than is asked for."""
        return open_ranges(self, location, buffer_bytes=1024)


class EncryptedStorage(StorageWrapper):
    """Stores each byte the other way round: the least that can be called encryption."""

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """The whole file."""
        return super().read(location, max_bytes=max_bytes).translate(_OTHER_WAY_ROUND)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """A part of the file."""
        return super().read_range(location, offset, length).translate(_OTHER_WAY_ROUND)

    def open_read(self, location: str) -> BinaryIO:
        """The file, read by ranges."""
        return open_ranges(self, location)

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """A stream for a new file."""
        return _TurnedWriter(super().open_write(location, overwrite=overwrite))

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """A whole file."""
        super().write(location, bytes(data).translate(_OTHER_WAY_ROUND), overwrite=overwrite)


class _TurnedWriter(FileWriter):
    def __init__(self, inner: FileWriter) -> None:
        super().__init__(inner.location)
        self._inner = inner

    def _append(self, data: Data) -> None:
        self._inner.write(bytes(data).translate(_OTHER_WAY_ROUND))

    def _publish(self) -> None:
        self._inner.close()

    def _discard(self) -> None:
        self._inner.abort()
