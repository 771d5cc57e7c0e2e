"""Many Avro blocks decoded at once give what row by row gives: the rows, and for broken bytes the same errors."""

import random
from typing import Any

import pyarrow as pa
import pytest

from floe.errors import CorruptFile
from floe.formats.avro import reader, writer
from floe.formats.model import ReadRequest, WriteRequest
from floe.formats.registry import AvroAsArrow
from floe.formats.rows import rows_to_batch
from floe.spec.expressions.binder import bind
from floe.spec.expressions.dsl import col
from floe.spec.schemas.metadata_columns import POS
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, STRING, UNKNOWN, Field
from floe.storage.memory import MemoryStorage
from floe.testing.format_bench import SAMPLES

MODEL = AvroAsArrow()
PLAIN = [type_ for type_ in SAMPLES if not type_.is_nested and type_.kind != "variant"]
FIELDS = [Field(n, f"c{n}", type_, required=n % 3 == 0) for n, type_ in enumerate(PLAIN, 1)]
SCHEMA = Schema((Field(100, "id", LONG, required=True), *FIELDS, Field(101, "u", UNKNOWN)))


def some_rows(count: int) -> pa.RecordBatch:
    choose = random.Random(7)
    rows = []
    for number in range(count):
        row: dict[str, Any] = {"id": number, "u": None}
        for field in FIELDS:
            values = list(SAMPLES[field.type])
            row[field.name] = choose.choice(values if field.required else [*values, None])
        rows.append(row)
    return rows_to_batch(SCHEMA, rows)


@pytest.fixture(params=["null", "deflate"])
def file(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[MemoryStorage, pa.RecordBatch]:
    """Rows in blocks of very few."""
    monkeypatch.setattr(writer, "_BLOCK_BYTES", 20_000)
    storage, batch = MemoryStorage(), some_rows(1500)
    codec = {"write.avro.compression-codec": "uncompressed" if request.param == "null" else "gzip"}
    with MODEL.write(WriteRequest(storage=storage, location="memory:a", schema=SCHEMA, properties=codec)) as appender:
        appender.write(batch)
    return storage, batch


def read(storage: MemoryStorage, location: str = "memory:a", schema: Schema = SCHEMA, **request: Any) -> pa.Table:
    batches = list(MODEL.read(ReadRequest(storage=storage, location=location, schema=schema, **request)))
    return pa.Table.from_batches(batches, batches[0].schema)


def test_all_plain_types(file: tuple[MemoryStorage, pa.RecordBatch], monkeypatch: pytest.MonkeyPatch) -> None:
    storage, batch = file
    table = read(storage)
    assert table.num_rows == 1500
    for name in batch.schema.names:  # as text, in which NaN is like itself
        assert str(table.column(name).to_pylist()) == str(batch.column(name).to_pylist()), name
    monkeypatch.setattr(reader, "MIN_LANES", 10**9)
    row_by_row = read(storage)
    assert [str(column.to_pylist()) for column in table.columns] == [
        str(column.to_pylist()) for column in row_by_row.columns
    ]


def test_they_are_decoded_at_once(file: tuple[MemoryStorage, pa.RecordBatch], monkeypatch: pytest.MonkeyPatch) -> None:
    storage, _ = file
    monkeypatch.setattr(reader._RowDecoder, "decode", lambda *_: pytest.fail("row by row"))
    assert read(storage).num_rows == 1500


def test_some_columns_positions_filters_and_splits(file: tuple[MemoryStorage, pa.RecordBatch]) -> None:
    storage, batch = file
    schema = Schema((POS, SCHEMA.fields[1], SCHEMA.fields[0]))
    table = read(storage, schema=schema, filter=bind(col("id") >= 1000, SCHEMA), batch_size=64)
    assert table.column("_pos").to_pylist() == table.column("id").to_pylist() == list(range(1000, 1500))
    assert table.column("c1").to_pylist() == batch.column("c1").to_pylist()[1000:]
    size = len(storage.read("memory:a"))
    parts = [read(storage, schema=schema, split=(start, size // 3 + 1)) for start in range(0, size, size // 3 + 1)]
    assert [n for part in parts for n in part.column("_pos").to_pylist()] == list(range(1500))


def test_broken_bytes_are_told_as_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that are not compressed, with a byte changed: the rows or the error are those of the careful way."""
    monkeypatch.setattr(writer, "_BLOCK_BYTES", 60)
    schema = Schema((Field(1, "a", LONG), Field(2, "s", STRING), Field(3, "b", PLAIN[0]), Field(4, "d", PLAIN[4])))
    rows = [{"a": n * 7919, "s": f"text {n}", "b": n % 2 == 0, "d": None} for n in range(60)]
    storage = MemoryStorage()
    plain = {"write.avro.compression-codec": "uncompressed"}
    with MODEL.write(WriteRequest(storage=storage, location="memory:a", schema=schema, properties=plain)) as appender:
        appender.write(rows_to_batch(schema, rows))
    data = storage.read("memory:a")
    outcomes = []
    for offset in range(len(data) // 2, len(data), 3):
        for turned in (0xFF, 0x01, 0x80):
            storage.write(
                "memory:b", data[:offset] + bytes([data[offset] ^ turned]) + data[offset + 1 :], overwrite=True
            )
            both = []
            for lanes in (2, 10**9):
                monkeypatch.setattr(reader, "MIN_LANES", lanes)
                try:
                    both.append(read(storage, "memory:b", schema).to_pylist())
                except CorruptFile as error:
                    both.append(str(error))
            assert both[0] == both[1], offset
            outcomes.append(isinstance(both[0], str))
    assert any(outcomes)
    assert not all(outcomes)
