"""Plain rows: dictionaries and dataclasses of the values that `floe.spec.values` describes."""

import dataclasses
import uuid
from decimal import Decimal
from typing import Any

import pytest

from floe.errors import CorruptFile, InvalidSchema, InvalidValue
from floe.formats.model import ReadRequest, WriteRequest
from floe.formats.registry import ParquetAsArrow
from floe.formats.rows import AsRows, as_dataclasses, rows_to_batch
from floe.spec.schemas.schema import Schema
from floe.spec.types import BINARY, DATE, INT, LONG, STRING, UUID, DecimalType, Field, ListType, MapType, StructType
from floe.storage.memory import MemoryStorage

ROWS = AsRows(ParquetAsArrow())


@dataclasses.dataclass
class Point:
    x: int
    y: int | None = None


@dataclasses.dataclass
class Place:
    id: int
    at: Point | None
    tags: list[str]


POINT = StructType((Field(11, "x", INT), Field(12, "y", INT)))
PLACES = Schema((Field(1, "id", LONG), Field(2, "at", POINT), Field(3, "tags", ListType(31, STRING))))


def write(schema: Schema, rows: Any) -> MemoryStorage:
    storage = MemoryStorage()
    with ROWS.write(WriteRequest(storage=storage, location="memory:a", schema=schema)) as file:
        file.write(rows)
    return storage


def read(storage: MemoryStorage, schema: Schema) -> list[Any]:
    return list(ROWS.read(ReadRequest(storage=storage, location="memory:a", schema=schema)))


def test_dataclasses_are_written_and_read() -> None:
    places = [Place(1, Point(3, 4), ["a"]), Place(2, None, [])]
    storage = write(PLACES, places)
    rows = read(storage, PLACES)
    assert rows == [{"id": 1, "at": {"x": 3, "y": 4}, "tags": ["a"]}, {"id": 2, "at": None, "tags": []}]
    flat = Schema((PLACES.fields[0],))
    with_id = dataclasses.make_dataclass("WithId", [("id", int)])
    assert list(as_dataclasses(with_id, read(storage, flat))) == [with_id(1), with_id(2)]
    with pytest.raises(InvalidSchema, match="dataclass"):
        list(as_dataclasses(dict, rows))


def test_one_row_is_written_as_it_is() -> None:
    assert read(write(PLACES, {"id": 7}), PLACES) == [{"id": 7, "at": None, "tags": None}]
    assert read(write(PLACES, Place(7, None, [])), PLACES) == [{"id": 7, "at": None, "tags": []}]


def test_maps_with_nested_keys_are_pairs() -> None:
    schema = Schema((Field(1, "m", MapType(2, POINT, 3, INT)),))
    rows = [{"m": [({"x": 1, "y": 2}, 5)]}, {"m": []}, {"m": None}]
    assert read(write(schema, rows), schema) == rows


def test_values_are_those_of_the_spec() -> None:
    schema = Schema((Field(1, "d", DecimalType(9, 2)), Field(2, "u", UUID), Field(3, "t", DATE)))
    row = {"d": Decimal("1.50"), "u": uuid.UUID(int=7), "t": -5_000_000}  # before the year 1, out of datetime's reach
    assert read(write(schema, [row]), schema) == [row]


@pytest.mark.parametrize(
    ("row", "error", "column"),
    [
        ({"id": "1"}, InvalidValue, "id"),
        ({"id": 2**63}, InvalidValue, "id"),
        ({"at": {"x": 1.5}}, InvalidValue, "at.x"),
        ({"at": {"z": 1}}, InvalidSchema, "at.z"),
        ({"tags": [1]}, InvalidValue, "tags.element"),
        ({"idd": 1}, InvalidSchema, "idd"),
        (7, InvalidValue, None),
    ],
)
def test_what_does_not_fit_is_named(row: Any, error: type[Exception], column: str | None) -> None:
    with pytest.raises(error) as raised:
        rows_to_batch(PLACES, [row])
    assert raised.value.context.get("column") == column


def test_defaults_and_required_fields() -> None:
    inner = StructType((Field(2, "a", INT, required=True), Field(3, "b", INT, required=True, write_default=7)))
    schema = Schema((Field(1, "s", inner), Field(4, "l", ListType(5, INT, element_required=True))))
    assert rows_to_batch(schema, [{"s": {"a": 1}}]).to_pylist() == [{"s": {"a": 1, "b": 7}, "l": None}]
    for row, column in (({"s": {}}, "s.a"), ({"s": {"a": None}}, "s.a"), ({"l": [None]}, "l.element")):
        with pytest.raises(InvalidValue) as raised:
            rows_to_batch(schema, [row])
        assert raised.value.context["column"] == column


def test_text_that_is_no_utf8_is_an_error() -> None:
    binary = Schema((Field(1, "s", BINARY),))
    storage = write(binary, [{"s": b"\xff"}])
    with pytest.raises(CorruptFile, match="memory:a"):
        read(storage, Schema((Field(1, "s", STRING),)))
