"""Input data: every kind of data becomes the same stream of batches."""

import dataclasses
import datetime as dt
import itertools
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from floe.arrow.input_data import batch_reader, is_data
from floe.errors import FloeError, InvalidInput, InvalidValue
from floe.spec.schemas.schema import Schema
from floe.spec.types import (
    DATE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    Field,
    ListType,
    MapType,
    StructType,
)

ROWS = [{"id": 1, "note": "a"}, {"id": 2, "note": None}]
TABLE = pa.Table.from_pylist(ROWS)


@dataclasses.dataclass
class Order:
    id: int
    note: str | None = None


class OnlyArray:
    """Has nothing but the Arrow array interface."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return pa.record_batch(TABLE.to_pydict()).__arrow_c_array__(requested_schema)


class OnlyStream:
    """Has nothing but the Arrow stream interface."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return TABLE.__arrow_c_stream__(requested_schema)


KINDS: dict[str, Any] = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": TABLE.to_reader,
    "dataset": lambda: ds.dataset(TABLE),
    "scanner": lambda: ds.dataset(TABLE).scanner(),
    "stream interface": OnlyStream,
    "array interface": OnlyArray,
    "pandas": lambda: pd.DataFrame(ROWS),
    "polars": lambda: pl.DataFrame(ROWS),
    "lazy polars": lambda: pl.DataFrame(ROWS).lazy(),
    "duckdb": lambda: duckdb.sql("select * from (values (1::bigint, 'a'), (2, null)) as t(id, note)"),
    "list of rows": lambda: ROWS,
    "tuple of rows": lambda: tuple(ROWS),
    "generator of rows": lambda: (row for row in ROWS),
    "dataclasses": lambda: [Order(1, "a"), Order(2)],
    "generator of dataclasses": lambda: (order for order in [Order(1, "a"), Order(2)]),
    "columns": lambda: {"id": [1, 2], "note": ["a", None]},
    "columns of arrays": lambda: {"id": np.array([1, 2]), "note": pa.array(["a", None])},
    "columns of series": lambda: {"id": pd.Series([1, 2]), "note": pl.Series(["a", None])},
    "list of batches": lambda: [TABLE.slice(0, 1).to_batches()[0], TABLE.slice(1).to_batches()[0]],
    "generator of tables": lambda: (TABLE.slice(n, 1) for n in range(2)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_same_rows(kind: str) -> None:
    assert batch_reader(KINDS[kind]()).read_all().to_pylist() == ROWS


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "generator" not in kind])
def test_data_is_known_as_data(kind: str) -> None:
    assert is_data(KINDS[kind]())


@pytest.mark.parametrize("candidate", ["id bigint", pa.schema({"id": pa.int64()}), Schema(()), 7, None])
def test_schemas_are_not_data(candidate: Any) -> None:
    assert not is_data(candidate)


def test_a_stream_is_not_loaded_before_it_is_read() -> None:
    generated = []

    def batches() -> Iterator[pa.RecordBatch]:
        for n in itertools.count():
            generated.append(n)
            yield pa.record_batch({"n": [n]})

    reader = batch_reader(batches())
    for n in range(5):
        assert reader.read_next_batch().to_pylist() == [{"n": n}]
    assert len(generated) <= 7


def test_rows_that_come_for_ever_are_not_waited_for() -> None:
    reader = batch_reader({"n": n} for n in itertools.count())
    assert reader.read_next_batch().column("n")[0].as_py() == 0
    assert reader.read_next_batch().num_rows > 0


SCHEMA = Schema(
    (
        Field(1, "id", INT),
        Field(2, "day", DATE),
        Field(3, "ts", TIMESTAMP),
        Field(4, "at", TIMESTAMPTZ),
        Field(5, "amount", DecimalType(9, 2)),
        Field(6, "key", UUID),
        Field(7, "tags", ListType(8, STRING)),
        Field(9, "where", StructType((Field(10, "x", LONG), Field(11, "y", LONG, write_default=7)))),
        Field(12, "props", MapType(13, STRING, 14, LONG)),
    )
)
KEY = uuid.UUID(int=5)


def test_python_values_mean_values_of_the_columns() -> None:
    zone = dt.timezone(dt.timedelta(hours=2))
    row = {
        "id": 7,
        "day": "2024-02-29",
        "ts": dt.datetime(2024, 2, 29, 12),
        "at": dt.datetime(2024, 2, 29, 12, tzinfo=zone),
        "amount": 1,
        "key": str(KEY),
        "tags": ("a", None),
        "where": {"x": 1},
        "props": {"a": 1},
    }
    expected = {
        "id": 7,
        "day": dt.date(2024, 2, 29),
        "ts": dt.datetime(2024, 2, 29, 12),
        "at": dt.datetime(2024, 2, 29, 10, tzinfo=dt.UTC),
        "amount": Decimal("1.00"),
        "key": KEY.bytes,
        "tags": ["a", None],
        "where": {"x": 1, "y": 7},
        "props": [("a", 1)],
    }
    for data in ([row], {name: [value] for name, value in row.items()}, iter([row])):
        (converted,) = batch_reader(data, SCHEMA).read_all().to_pylist()
        assert converted == expected


def test_what_a_row_leaves_out_has_the_write_default() -> None:
    schema = Schema((Field(1, "id", INT), Field(2, "note", STRING, write_default="none")))
    rows = batch_reader([{"id": 1}, {"id": 2, "note": None}, {"id": 3, "note": "x"}], schema).read_all()
    assert rows["note"].to_pylist() == ["none", None, "x"]


@pytest.mark.parametrize(
    ("data", "error", "why"),
    [
        ("orders.parquet", InvalidInput, "text is not data.*add_files"),
        (b"PAR1", InvalidInput, "text is not data"),
        (7, InvalidInput, "int is not data that can be written"),
        (pd.DataFrame, InvalidInput, "the class DataFrame is not data"),
        (pa.array([1]), InvalidValue, "cannot be converted to Arrow columns"),
        ([1, 2], InvalidInput, "list is not data"),
        ({"id": 1}, InvalidInput, "a column must be a list of values or an array, found 1 .*column: id"),
        ({"id": [1], "note": ["a", "b"]}, InvalidInput, r"columns have different lengths: .*'id': 1, 'note': 2"),
        ([{"id": 1}, 5], InvalidInput, "a row must be a dictionary or an instance of a dataclass, found 5"),
        ([{"id": 2**31}], InvalidValue, "2147483648 is not a value of type int.*column: id"),
        ([{"day": "soon"}], InvalidValue, "not a value of type date.*column: day"),
        ([{"at": dt.datetime(2024, 1, 1)}], InvalidValue, "it has no zone.*column: at"),
        ({"amount": [1.005]}, InvalidValue, "column: amount"),
        ([{"where": {"z": 1}}], InvalidValue, "the struct has no field 'z'.*column: where"),
        ({"new": [1, "a"]}, InvalidValue, "column: new"),
    ],
)
def test_what_cannot_be_taken(data: Any, error: type[FloeError], why: str) -> None:
    with pytest.raises(error, match=f"(?s){why}"):
        batch_reader(data, SCHEMA).read_all()


def test_batches_of_one_stream_have_the_same_columns() -> None:
    reader = batch_reader([pa.record_batch({"a": [1]}), pa.record_batch({"b": [1]})])
    with pytest.raises(InvalidInput, match="batch 2 has other columns than the first: b int64, not a int64"):
        reader.read_all()


def test_a_column_that_comes_late_in_a_stream_of_rows() -> None:
    rows = itertools.chain(({"a": n} for n in range(10_000)), [{"a": 1, "b": 2}])
    with pytest.raises(InvalidInput, match=r"a column that the first rows do not have .*column: b"):
        batch_reader(rows).read_all()


def test_an_index_with_a_name_is_a_column() -> None:
    frame = pd.DataFrame({"k": ["x", "y", "x"], "n": [1, 2, 3]})
    assert batch_reader(frame.groupby("k").sum()).schema.names == ["n", "k"]
    assert batch_reader(frame.sort_values("n", ascending=False)).schema.names == ["k", "n"]


def test_nothing_at_all() -> None:
    assert batch_reader([]).read_all().num_rows == 0
    assert batch_reader(pl.LazyFrame({"a": []})).schema.names == ["a"]
