"""The fixture of the format conformance tests, and their sample data.

- `FormatBench` writes and reads plain rows through any format model.
- `WITHOUT_IDS` writes files without field ids, as engines do that do not know Iceberg.
- `SAMPLES` has values of every type.
- `CountingStorage` and `EncryptedStorage` show how a format model uses its storage.
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
from floe.formats.columns.arrays import to_values
from floe.formats.model import Feature, FormatModel, ReadBuilder, WriteBuilder, WriteRequest, data_writer
from floe.formats.registry import AvroAsArrow
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

# Files without field ids ----------------------------------------------------------------------------------------------

WriteWithoutIds = Callable[[Storage, str, Schema, list[Any]], None]
"""Writes rows to a location, in the columns of a schema but without its field ids."""

_AVRO_IDS = frozenset({"field-id", "element-id", "key-id", "value-id"})


def _plain_type(type_: pa.DataType) -> pa.DataType:
    """An Arrow type without the metadata of its fields."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _plain_type(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(_plain_type(type_.key_type), _plain_type(type_.item_type))
    return pa.list_(_plain_type(type_.value_type)) if pa.types.is_list(type_) else type_


def _plain_table(schema: Schema, rows: list[Any]) -> pa.Table:
    batch = rows_to_batch(schema, rows)
    return pa.Table.from_batches([batch]).cast(
        pa.schema([pa.field(field.name, _plain_type(field.type)) for field in batch.schema])
    )


def _write_parquet(storage: Storage, location: str, schema: Schema, rows: list[Any]) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(_plain_table(schema, rows), sink)
    storage.write(location, sink.getvalue().to_pybytes())


def _write_orc(storage: Storage, location: str, schema: Schema, rows: list[Any]) -> None:
    sink = pa.BufferOutputStream()
    orc.write_table(_plain_table(schema, rows), sink)
    storage.write(location, sink.getvalue().to_pybytes())


def _write_avro(storage: Storage, location: str, schema: Schema, rows: list[Any]) -> None:
    """Write a file with ids into memory, and copy its blocks below a schema without them."""
    memory = MemoryStorage()
    with AvroAsArrow().write(WriteRequest(storage=memory, location="memory:with-ids", schema=schema)) as file:
        file.write(rows_to_batch(schema, rows))
    container = open_container(memory.read("memory:with-ids"))
    schema_json = json.dumps(_strip_ids(json.loads(container.schema_text)))
    counts = [block.count for block in container.blocks]
    blocks = zip(counts, container.decompressed(), strict=True)
    storage.write(location, write_container({"avro.schema": schema_json.encode()}, blocks))


def _strip_ids(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _strip_ids(value) for key, value in schema.items() if key not in _AVRO_IDS}
    return [_strip_ids(item) for item in schema] if isinstance(schema, list) else schema


WITHOUT_IDS: dict[str, WriteWithoutIds] = {"parquet": _write_parquet, "orc": _write_orc, "avro": _write_avro}
"""The functions that write Floe's own formats without field ids."""


# The bench ------------------------------------------------------------------------------------------------------------

Rows = list[Any]
"""Plain rows: dictionaries by column name."""


@contextmanager
def expect_error(*kinds: type[FloeError], text: str = "") -> Iterator[None]:
    """Expect an error of one of some classes, with a text in its message."""
    try:
        yield
    except kinds as error:
        if text not in str(error):
            raise AssertionError(f"expected {text!r} in the error: {error}") from error
        return
    raise AssertionError(f"expected {' or '.join(kind.__name__ for kind in kinds)}, but nothing was raised")


def columns(*fields: tuple[int, str, Type] | Field) -> Schema:
    """A schema of fields; a tuple of id, name and type is an optional field."""
    return Schema(tuple(item if isinstance(item, Field) else Field(*item) for item in fields))


def _arrow_batch(schema: Schema, rows: Rows) -> pa.RecordBatch:
    return rows_to_batch(schema, rows)


def _arrow_rows(schema: Schema, batches: Iterable[Any]) -> Rows:
    names = [column.name for column in schema.fields]
    rows: Rows = []
    for batch in batches:
        assert batch.num_rows > 0, "an empty batch"
        assert batch.schema.names == names, f"expected the columns {names}, found {batch.schema.names}"
        values = [to_values(column.type, batch.column(index)) for index, column in enumerate(schema.fields)]
        rows += [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)] or [{}] * batch.num_rows
    return rows


def _plain_rows(schema: Schema, batches: Iterable[Any]) -> Rows:
    return [dict(row) for row in batches]


@dataclass
class FormatBench:
    """A format model with a storage, and the conversion of its batches from plain rows and back.

    The object models `arrow` and `rows` need no conversion functions. `write_without_ids` writes a file without field
    ids; Floe's own formats have it. Without it the tests of imported files are skipped, and `feature_table` says so.
    """

    model: FormatModel[Any]
    storage: Storage = field(default_factory=MemoryStorage)
    to_batch: Callable[[Schema, Rows], Any] | None = None
    to_rows: Callable[[Schema, Iterable[Any]], Rows] | None = None
    write_without_ids: WriteWithoutIds | None = None
    _names: Iterator[int] = field(default_factory=count, repr=False)

    def __post_init__(self) -> None:
        is_arrow = self.model.object_model == "arrow"
        if self.to_batch is None:
            self.to_batch = _arrow_batch if is_arrow else lambda schema, rows: rows
        if self.write_without_ids is None:
            self.write_without_ids = WITHOUT_IDS.get(self.model.file_format)
        if self.to_rows is None:
            self.to_rows = _arrow_rows if is_arrow else _plain_rows

    def supports(self, feature: Feature) -> bool:
        """Whether the model claims a feature."""
        return feature in self.model.features

    def location(self) -> str:
        """The location of a new file."""
        return f"memory:formats/{next(self._names)}.{self.model.file_format}"

    def writing(self, schema: Schema, location: str | None = None) -> WriteBuilder[Any]:
        """A builder that writes a data file with the columns of a schema."""
        return data_writer(self.model, self.storage, location or self.location()).schema(schema)

    def fill(self, builder: WriteBuilder[Any], *groups: Rows) -> DataFile:
        """Write groups of rows to the file of a builder, one batch each; returns its description."""
        assert self.to_batch is not None
        with builder.build() as file:
            for rows in groups:
                file.write(self.to_batch(builder.request.schema, rows))
        return file.close()

    def write(self, schema: Schema, rows: Rows, **properties: str) -> DataFile:
        """Write a data file; in the names of properties `__` stands for a dot and `_` for a dash."""
        table_properties = {name.replace("__", ".").replace("_", "-"): text for name, text in properties.items()}
        return self.fill(self.writing(schema).properties(table_properties), rows)

    def reading(self, schema: Schema, file: DataFile | str) -> ReadBuilder[Any]:
        """A builder that reads the columns of a schema from a file."""
        location = file if isinstance(file, str) else file.file_path
        return ReadBuilder(self.model, self.storage, location).project(schema)

    def rows(self, builder: ReadBuilder[Any]) -> Rows:
        """Read the rows of a builder."""
        assert self.to_rows is not None
        assert builder.projected is not None
        return self.to_rows(builder.projected, builder.build())

    def read(self, schema: Schema, file: DataFile | str) -> Rows:
        """Read the columns of a schema from a file; returns its rows."""
        return self.rows(self.reading(schema, file))

    def check(self, rows: Rows, expected: Rows) -> None:
        """Raise unless the rows are the expected ones; NaN equals NaN, and zeros of different sign differ."""
        assert len(rows) == len(expected), f"expected {len(expected)} rows, found {len(rows)}"
        for number, (row, expected_row) in enumerate(zip(rows, expected, strict=True)):
            assert _text(row) == _text(expected_row), f"row {number}: expected {expected_row!r}, found {row!r}"

    def round_trip(self, schema: Schema, rows: Rows) -> DataFile:
        """Write rows, read them, and compare them; returns the description of the file."""
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
"""Values of every type, with the limits of its range."""


# Storages -------------------------------------------------------------------------------------------------------------

_INVERTED = bytes(255 - n for n in range(256))


class CountingStorage(StorageWrapper):
    """A storage that counts the bytes that are read."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.bytes = 0

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """Read a file, and count its bytes."""
        data = super().read(location, max_bytes=max_bytes)
        self.bytes += len(data)
        return data

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """Read a range of a file, and count its bytes."""
        data = super().read_range(location, offset, length)
        self.bytes += len(data)
        return data

    def open_read(self, location: str) -> BinaryIO:
        """Open a file that reads ranges with a small buffer, so that hardly more is read than requested."""
        return open_ranges(self, location, buffer_bytes=1024)


class EncryptedStorage(StorageWrapper):
    """A storage that inverts each byte: the simplest encryption."""

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """Read and decrypt a file."""
        return super().read(location, max_bytes=max_bytes).translate(_INVERTED)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """Read and decrypt a range of a file."""
        return super().read_range(location, offset, length).translate(_INVERTED)

    def open_read(self, location: str) -> BinaryIO:
        """Open a file whose ranges are decrypted."""
        return open_ranges(self, location)

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """Open a stream that encrypts a new file."""
        return _EncryptingWriter(super().open_write(location, overwrite=overwrite))

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """Encrypt and write a file."""
        super().write(location, bytes(data).translate(_INVERTED), overwrite=overwrite)


class _EncryptingWriter(FileWriter):
    def __init__(self, inner: FileWriter) -> None:
        super().__init__(inner.location)
        self._inner = inner

    def _append(self, data: Data) -> None:
        self._inner.write(bytes(data).translate(_INVERTED))

    def _publish(self) -> None:
        self._inner.close()

    def _discard(self) -> None:
        self._inner.abort()
