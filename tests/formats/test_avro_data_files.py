"""Avro data files: what other readers and writers of Avro see, splits, and files that are not what they claim."""

import io
import itertools
import json
import random
import uuid
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from floe.avro.container import open_container, write_container
from floe.errors import CorruptFile, FloeError, UnsupportedFeature
from floe.formats.columns.arrays import to_array, to_values
from floe.formats.model import ReadRequest, WriteRequest
from floe.formats.registry import AvroAsArrow
from floe.spec.codecs.avro_schemas import type_to_avro
from floe.spec.manifests.entries import FileContent
from floe.spec.schemas.metadata_columns import POS
from floe.spec.schemas.schema import Schema
from floe.spec.types import (
    DATE,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    UUID,
    DecimalType,
    Field,
    FixedType,
    ListType,
    MapType,
    StructType,
)
from floe.storage.memory import MemoryStorage
from helpers.schema_strategies import schemas
from helpers.value_strategies import values_of

MODEL = AvroAsArrow()
IDS = Schema((Field(1, "id", LONG, required=True), Field(2, "name", STRING)))


def written(schema, *batches, **request):
    storage = MemoryStorage()
    with MODEL.write(WriteRequest(storage=storage, location="memory:a", schema=schema, **request)) as file:
        for batch in batches:
            file.write(batch)
    return storage, file.close()


def read(storage, schema, **request):
    batches = list(MODEL.read(ReadRequest(storage=storage, location="memory:a", schema=schema, **request)))
    return pa.Table.from_batches(batches) if batches else None


def stored(data, schema, **request):
    storage = MemoryStorage()
    storage.write("memory:a", data)
    return read(storage, schema, **request)


def batch_of(schema, rows):
    return pa.RecordBatch.from_struct_array(to_array(schema.as_struct(), rows))


def rows_of(schema, table):
    return [row for batch in table.to_batches() for row in to_values(schema.as_struct(), batch.to_struct_array())]


def many_rows(count=20_000):
    chance = random.Random(5)
    return pa.record_batch({"id": list(range(count)), "name": [str(chance.random()) for _ in range(count)]})


# other readers and writers --------------------------------------------------------------------------------------------

FULL = Schema(
    (
        Field(1, "i", INT, required=True),
        Field(2, "d", DecimalType(20, 3)),
        Field(3, "u", UUID),
        Field(4, "f", FixedType(4)),
        Field(5, "day", DATE),
        Field(6, "l", ListType(7, StructType((Field(8, "x y", STRING), Field(9, "n", UNKNOWN))))),
        Field(10, "m", MapType(11, STRING, 12, LONG)),
        Field(13, "by_number", MapType(14, INT, 15, STRING)),
    )
)
ROWS = [
    {
        "i": 1,
        "d": Decimal("-12345678901234567.890"),
        "u": uuid.UUID(int=5),
        "f": b"abcd",
        "day": 19_000,
        "l": [{"x y": "a", "n": None}, None],
        "m": {"k": 1, "z": None},
        "by_number": {7: "seven"},
    },
    dict.fromkeys([field.name for field in FULL.fields]) | {"i": -(2**31)},
]


def test_fastavro_reads_what_is_written():
    storage, _ = written(FULL, batch_of(FULL, ROWS), metadata={"made-by": "a test"})
    reader = fastavro.reader(io.BytesIO(storage.read("memory:a")))
    assert reader.metadata["made-by"] == "a test"
    assert reader.metadata["avro.codec"] == "deflate"
    records = list(reader)
    assert records[0]["d"] == ROWS[0]["d"]
    assert records[0]["f"] == b"abcd"
    assert records[0]["l"] == [{"x_x20y": "a", "n": None}, None]
    assert records[0]["m"] == {"k": 1, "z": None}
    assert records[0]["by_number"] == [{"key": 7, "value": "seven"}]
    assert records[1] == ROWS[1]


def test_what_fastavro_writes_is_read():
    stream = io.BytesIO()
    theirs = [
        {
            "i": n,
            "d": Decimal(n) / 1000,
            "u": None,
            "f": None,
            "day": n,
            "l": [{"x_x20y": str(n), "n": None}],
            "m": {"k": n},
            "by_number": [{"key": n, "value": None}],
        }
        for n in range(-500, 500)
    ]
    fastavro.writer(stream, fastavro.parse_schema(type_to_avro(FULL)), theirs, codec="deflate", sync_interval=1000)
    rows = rows_of(FULL, stored(stream.getvalue(), FULL, batch_size=77))
    assert [row["d"] for row in rows] == [row["d"] for row in theirs]
    assert [row["m"] for row in rows] == [row["m"] for row in theirs]
    assert [row["l"][0]["x y"] for row in rows] == [str(n) for n in range(-500, 500)]
    assert [row["by_number"] for row in rows] == [{n: None} for n in range(-500, 500)]


def test_forms_of_other_writers():
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "t", "type": {"type": "int", "logicalType": "time-millis"}, "field-id": 1},
            {"name": "at", "type": ["long", "null"], "field-id": 2},
            {
                "name": "z",
                "type": {"type": "long", "logicalType": "timestamp-millis", "adjust-to-utc": True},
                "field-id": 3,
            },
            {"name": "u", "type": {"type": "string", "logicalType": "uuid"}, "field-id": 4},
            {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["a", "b"]}, "field-id": 5},
            {
                "name": "d",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2},
                "field-id": 6,
            },
        ],
    }
    stream = io.BytesIO()
    rows = [{"t": 5, "at": None, "z": -7, "u": str(uuid.UUID(int=9)), "e": "b", "d": Decimal("-1.25")}]
    bare = {**schema, "fields": [{**field} for field in schema["fields"]]}
    bare["fields"][0] = {"name": "t", "type": "int", "field-id": 1}
    bare["fields"][2] = {"name": "z", "type": "long", "field-id": 3}
    fastavro.writer(stream, fastavro.parse_schema(bare), rows)
    container = open_container(stream.getvalue())
    data = write_container({"avro.schema": json.dumps(schema).encode()}, [(1, container.decompressed()[0])])
    table_schema = Schema(
        (
            Field(1, "t", TIME),
            Field(2, "at", LONG),
            Field(3, "z", TIMESTAMPTZ),
            Field(4, "u", UUID),
            Field(5, "e", STRING),
            Field(6, "d", DecimalType(30, 2)),
        )
    )
    (row,) = rows_of(table_schema, stored(data, table_schema))
    assert row == {"t": 5000, "at": None, "z": -7000, "u": uuid.UUID(int=9), "e": "b", "d": Decimal("-1.25")}


@settings(max_examples=40)
@given(st.data())
def test_any_schema_comes_back(data):
    schema = data.draw(schemas())
    rows = data.draw(st.lists(values_of(schema.as_struct()), max_size=5))
    storage, file = written(schema, *([batch_of(schema, rows)] if rows else []))
    assert file.record_count == len(rows)
    table = read(storage, schema)
    assert repr([] if table is None else rows_of(schema, table)) == repr(
        to_values(schema.as_struct(), to_array(schema.as_struct(), rows))
    )


# layout ---------------------------------------------------------------------------------------------------------------


def test_splits_cover_the_file_with_and_without_positions():
    batch = many_rows()
    storage, file = written(IDS, batch)
    size = file.file_size_in_bytes
    schema = Schema((POS, *IDS.fields))
    for step in (size // 3, 1000, size + 5):
        edges = [*range(0, size, step), size]
        splits = [(begin, end - begin) for begin, end in itertools.pairwise(edges)]
        parts = [read(storage, schema, split=split) for split in splits]
        table = pa.concat_tables(part for part in parts if part is not None)
        assert table["_pos"].to_pylist() == table["id"].to_pylist() == list(range(batch.num_rows))
        bare = [read(storage, IDS, split=split) for split in splits]
        assert pa.concat_tables(part for part in bare if part is not None)["id"].to_pylist() == list(range(20_000))


def test_the_same_rows_make_the_same_bytes():
    first, _ = written(IDS, many_rows(100))
    second, _ = written(IDS, many_rows(100))
    assert first.read("memory:a") == second.read("memory:a")


def test_levels_and_properties_of_delete_files():
    properties = {"write.avro.compression-codec": "zstd", "write.delete.avro.compression-codec": "uncompressed"}
    data, _ = written(IDS, many_rows(1000), properties=properties)
    deletes, file = written(
        IDS, many_rows(1000), properties=properties, content=FileContent.EQUALITY_DELETES, equality_ids=(1,)
    )
    assert open_container(data.read("memory:a")).codec == "zstandard"
    container = open_container(deletes.read("memory:a"))
    assert container.codec == "null"
    assert container.text("delete-type") == "equality"
    assert container.text("delete-field-ids") == "1"
    assert file.equality_ids == (1,)
    gzip = {"write.avro.compression-codec": "gzip"}
    fast, _ = written(IDS, many_rows(), properties={**gzip, "write.avro.compression-level": "1"})
    small, _ = written(IDS, many_rows(), properties={**gzip, "write.avro.compression-level": "9"})
    usual, _ = written(IDS, many_rows(), properties=gzip)
    sizes = [len(storage.read("memory:a")) for storage in (small, usual, fast)]
    assert max(sizes[:2]) < sizes[-1]
    assert sizes[1] < 1.1 * sizes[0]  # data that is kept for long is worth some time


def test_rows_that_take_no_bytes():
    schema = Schema((Field(1, "u", UNKNOWN),))
    storage, _ = written(schema, pa.record_batch({"u": pa.nulls(100_000)}))
    assert read(storage, schema).num_rows == 100_000
    with pytest.raises(UnsupportedFeature, match="lists of type unknown"):
        written(Schema((Field(1, "l", ListType(2, UNKNOWN)),)))


# hostile files --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    storage, _ = written(IDS, many_rows(3000))
    return storage.read("memory:a")


def test_cut_off_files(data):
    for length in [0, 1, 4, 10, 200, len(data) // 2, len(data) - 1]:
        with pytest.raises(CorruptFile):
            stored(data[:length], IDS)


def test_changed_bytes_never_crash(data):
    chance = random.Random(1)
    errors = 0
    for _ in range(300):
        offset = chance.randrange(len(data))
        changed = data[:offset] + bytes([data[offset] ^ (1 << chance.randrange(8))]) + data[offset + 1 :]
        try:
            stored(changed, IDS)
        except FloeError:
            errors += 1
    assert errors > 100


@pytest.mark.parametrize(
    ("content", "count", "message"),
    [
        (b"\x02\x02\x02a", 2**50, f"{2**50} rows"),
        (b"\x02\x02\x02a", 2, " 2 rows|beyond its block"),
        (b"\x02\x02\x02ab", 1, "1 bytes follow"),
        (b"\x02\x02\xfe\xff\xff\xff\x0fa", 1, " of 2147483647 bytes"),
        (b"\x02\x02\x03a", 1, " of -2 bytes"),
        (b"\x02\x06\x02a", 1, "branch 3"),
        (b"\x02\x02\x02\xff", 1, r"(?i)invalid UTF8 payload \(column: name"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00", 1, "more than 64 bits"),
        (b"", 2**60, f"{2**60} rows"),
    ],
)
def test_lying_blocks(content, count, message):
    schema = fastavro.parse_schema(type_to_avro(IDS))
    file = write_container({"avro.schema": json.dumps(schema).encode()}, [(count, content)])
    with pytest.raises(CorruptFile, match=message):
        stored(file, IDS)


def test_lying_counts_and_types(data):
    for record_count in (2999, 3001):
        with pytest.raises(CorruptFile, match="the manifest says"):
            stored(data, IDS, record_count=record_count)
    with pytest.raises(CorruptFile, match="the file stores long, which cannot be read as string"):
        stored(data, Schema((Field(1, "id", STRING),)))
    for schema in (
        b"",
        b"[",
        b'"long"',
        b'{"type":"record","name":"r","fields":[{"name":"a","type":"r"}]}',
        b"[" * 9999,
    ):
        with pytest.raises(FloeError):
            stored(write_container({"avro.schema": schema}, [(1, b"\x02")]), IDS)


def test_timestamps_beyond_a_batch():
    schema = Schema((Field(1, "t", TIMESTAMP),))
    rows = [{"t": -(2**63)}, {"t": 2**63 - 1}, {"t": None}]
    storage, _ = written(schema, batch_of(schema, rows))
    assert rows_of(schema, read(storage, schema, batch_size=2)) == rows
