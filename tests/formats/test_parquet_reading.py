"""Reading Parquet: other writers' forms, row groups skipped, and files that lie or are broken."""

import io
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floe.errors import CorruptFile, NoSuchFile, PathNotAllowed
from floe.formats.columns.arrow_types import FIELD_ID, arrow_schema
from floe.formats.columns.file_columns import file_fields
from floe.formats.columns.projection import Projection
from floe.formats.model import ReadRequest, WriteRequest
from floe.formats.parquet import reader
from floe.formats.registry import ParquetAsArrow
from floe.formats.rows import AsRows, rows_to_batch
from floe.spec.expressions.binder import bind
from floe.spec.expressions.dsl import col
from floe.spec.schemas.metadata_columns import POS
from floe.spec.schemas.schema import Schema
from floe.spec.types import (
    BINARY,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    VARIANT,
    DecimalType,
    Field,
    FixedType,
    ListType,
    MapType,
    StructType,
    Type,
)
from floe.storage.access import Access
from floe.storage.memory import MemoryStorage

MODEL, ROWS = ParquetAsArrow(), AsRows(ParquetAsArrow())


def stored(table: pa.Table, **options: Any) -> MemoryStorage:
    """A file with field ids 1, 2, … on the columns at the top, as pyarrow writes it."""
    fields = [field.with_metadata({FIELD_ID: str(n + 1).encode()}) for n, field in enumerate(table.schema)]
    sink = io.BytesIO()
    pq.write_table(table.cast(pa.schema(fields)), sink, **options)
    storage = MemoryStorage()
    storage.write("memory:a", sink.getvalue())
    return storage


def read(storage: Any, schema: Schema, **options: Any) -> list[dict[str, Any]]:
    return list(ROWS.read(ReadRequest(storage=storage, location="memory:a", schema=schema, **options)))


def column(type_: Type, name: str = "a", field_id: int = 1) -> Schema:
    return Schema((Field(field_id, name, type_),))


# other forms ----------------------------------------------------------------------------------------------------------

MOMENT = 1_700_000_000_123_456


@pytest.mark.parametrize(
    ("array", "type_", "values"),
    [
        (pa.array([1, None], pa.int8()), INT, [1, None]),
        (pa.array([2**16 - 1], pa.uint16()), INT, [2**16 - 1]),
        (pa.array([2**32 - 1], pa.uint32()), LONG, [2**32 - 1]),
        (pa.array([1.5], pa.float16()), DOUBLE, [1.5]),
        (pa.array(["a", None], pa.large_string()), STRING, ["a", None]),
        (pa.array(["a", None, "a"]).dictionary_encode(), STRING, ["a", None, "a"]),
        (pa.array([b"a"], pa.large_binary()), BINARY, [b"a"]),
        (pa.array([b"text"]), STRING, ["text"]),
        (pa.array(["text"]), BINARY, [b"text"]),
        (pa.array([b"ab"], pa.binary(2)), BINARY, [b"ab"]),
        (pa.array([bytes(16)], pa.binary(16)), FixedType(16), [bytes(16)]),
        (pa.array([12_345], pa.time32("ms")), TIME, [12_345_000]),
        (pa.array([MOMENT // 1000], pa.timestamp("ms")), TIMESTAMP, [MOMENT // 1000 * 1000]),
        (pa.array([MOMENT // 10**6], pa.timestamp("s")), TIMESTAMP, [MOMENT // 10**6 * 10**6]),
        (pa.array([MOMENT], pa.timestamp("us", "Europe/Zurich")), TIMESTAMPTZ, [MOMENT]),
        (pa.array([MOMENT], pa.timestamp("us")), TIMESTAMPTZ, [MOMENT]),
        (pa.array([MOMENT], pa.timestamp("us", "UTC")), TIMESTAMP, [MOMENT]),
        (pa.array([Decimal("1.50")], pa.decimal256(9, 2)), DecimalType(9, 2), [Decimal("1.50")]),
        (pa.array([Decimal("1.50")], pa.decimal128(9, 2)), DecimalType(20, 2), [Decimal("1.50")]),
        (pa.array([[1, None], None], pa.large_list(pa.int32())), ListType(9, LONG), [[1, None], None]),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)), ListType(9, LONG), [[1, 2], [3, 4]]),
        (pa.nulls(2), STRING, [None, None]),
    ],
    ids=str,
)
@pytest.mark.parametrize("store_schema", [True, False])
def test_forms_of_other_writers(array: pa.Array, type_: Type, values: list[Any], store_schema: bool) -> None:
    if pa.types.is_decimal256(array.type) and not store_schema:
        store_schema = True  # without it, it is read as another type anyway
    storage = stored(pa.table({"a": array}), store_schema=store_schema)
    assert read(storage, column(type_)) == [{"a": value} for value in values]


def test_uuids_of_arrow() -> None:
    array = pa.array([b"\x01" * 16, None], pa.uuid())
    (first, second) = read(stored(pa.table({"a": array})), column(UUID))
    assert (first["a"].bytes, second["a"]) == (b"\x01" * 16, None)


@pytest.mark.parametrize("type_", [TIMESTAMP, TIMESTAMPTZ], ids=str)
def test_int96_reaches_beyond_nanoseconds(type_: Type) -> None:
    micros = [0, None, MOMENT, 253_402_300_799_999_999, -62_135_596_800_000_000]  # from the year 1 to 9999
    sink = io.BytesIO()
    fields = [pa.field("a", pa.timestamp("us"), metadata={FIELD_ID: b"1"})]
    table = pa.table([pa.array(micros, pa.timestamp("us"))], schema=pa.schema(fields))
    pq.write_table(table, sink, use_deprecated_int96_timestamps=True, row_group_size=2)
    storage = MemoryStorage()
    storage.write("memory:a", sink.getvalue())
    assert pq.ParquetFile(io.BytesIO(sink.getvalue())).schema.column(0).physical_type == "INT96"
    schema = column(type_)
    rows = [{"a": value} for value in micros]
    assert read(storage, schema) == rows
    zone = "+00:00" if type_ == TIMESTAMPTZ else ""
    where = bind(col("a") > f"2023-11-14T22:13:20.123456{zone}", schema)
    assert read(storage, schema, filter=where) == [rows[3]]
    with pytest.raises(CorruptFile, match="timestamp_ns"):
        read(storage, column(TIMESTAMP_NS))


def test_columns_that_no_table_can_have_are_only_errors_when_wanted() -> None:
    table = pa.table({"a": [1], "b": pa.array([1], pa.uint64()), "c": pa.array([1], pa.duration("s"))})
    storage = stored(table)
    assert read(storage, column(LONG)) == [{"a": 1}]
    for field_id, words in ((2, "uint64"), (3, "duration")):
        with pytest.raises(CorruptFile, match=words):
            read(storage, column(LONG, field_id=field_id))


def test_dates_too_far_for_timestamps() -> None:
    storage = stored(pa.table({"a": pa.array([0, 2**31 - 1], pa.date32())}))
    assert read(storage, column(DATE)) == [{"a": 0}, {"a": 2**31 - 1}]
    with pytest.raises(CorruptFile, match="2147483647"):
        read(storage, column(TIMESTAMP))


# variants -------------------------------------------------------------------------------------------------------------

NAMES = b"\x01\x02\x00\x01\x02ab"
INNER = pa.struct([("value", pa.binary()), ("typed_value", pa.int32())])


@pytest.mark.parametrize(
    ("typed", "typed_value", "value"),
    [
        (pa.int64(), 7, b"\x18" + (7).to_bytes(8, "little")),
        (pa.string(), "x", b"\x05x"),
        (pa.string(), "x" * 64, b"\x40" + (64).to_bytes(4, "little") + b"x" * 64),
        (pa.bool_(), True, b"\x04"),
        (pa.date32(), 1, b"\x2c\x01\x00\x00\x00"),
        (pa.decimal128(4, 2), Decimal("1.25"), b"\x20\x02\x7d\x00\x00\x00"),
        (pa.timestamp("us", "UTC"), 5, b"\x30" + (5).to_bytes(8, "little")),
        (pa.timestamp("ns"), 5, b"\x4c" + (5).to_bytes(8, "little")),
        (pa.list_(INNER), [{"typed_value": 1}, {"value": b"\x00"}], b"\x03\x02\x00\x05\x06\x14\x01\x00\x00\x00\x00"),
        (
            pa.struct([pa.field("a", INNER, False), pa.field("b", INNER, False)]),
            {"a": {}, "b": {"typed_value": 1}},
            b"\x02\x01\x01\x00\x05\x14\x01\x00\x00\x00",
        ),
    ],
    ids=str,
)
def test_shredded_variants(typed: pa.DataType, typed_value: Any, value: bytes) -> None:
    """Expected bytes are by the variant encoding: header, then little-endian numbers, offsets and items."""
    shape = pa.struct([pa.field("metadata", pa.binary(), False), ("value", pa.binary()), ("typed_value", typed)])
    rows = [
        {"metadata": NAMES, "typed_value": typed_value},
        {"metadata": NAMES, "value": b"\x0c\x05"},
        None,
        {"metadata": NAMES},
    ]
    storage = stored(pa.table({"a": pa.array(rows, shape)}))
    variants = [row["a"] for row in read(storage, column(VARIANT))]
    assert variants == [NAMES + value, NAMES + b"\x0c\x05", None, NAMES + b"\x00"]


def test_partly_shredded_objects() -> None:
    shape = pa.struct(
        [
            pa.field("metadata", pa.binary(), False),
            ("value", pa.binary()),
            ("typed_value", pa.struct([pa.field("b", INNER, False)])),
        ]
    )
    unshredded = b"\x02\x01\x00\x00\x01\x04"  # {"a": true}
    rows = [{"metadata": NAMES, "value": unshredded, "typed_value": {"b": {"typed_value": 1}}}]
    (row,) = read(stored(pa.table({"a": pa.array(rows, shape)})), column(VARIANT))
    assert row["a"] == NAMES + b"\x02\x02\x00\x01\x00\x01\x06\x04\x14\x01\x00\x00\x00"  # {"a": true, "b": 1}
    wrong = [{"metadata": NAMES, "value": b"\x04", "typed_value": {"b": {"typed_value": 1}}}]
    with pytest.raises(CorruptFile, match="must be an object"):
        read(stored(pa.table({"a": pa.array(wrong, shape)})), column(VARIANT))
    nameless = [{"metadata": b"\x01\x00\x00", "typed_value": {"b": {"typed_value": 1}}}]
    with pytest.raises(CorruptFile, match="lacks the name 'b'"):
        read(stored(pa.table({"a": pa.array(nameless, shape)})), column(VARIANT))


def test_structs_that_look_like_variants_are_structs_where_the_table_says_so() -> None:
    parts = StructType((Field(2, "metadata", BINARY), Field(3, "value", BINARY)))
    schema = Schema((Field(1, "s", parts), Field(4, "v", VARIANT)))
    rows = [{"s": {"metadata": b"x", "value": b"y"}, "v": b"\x01\x00\x00\x00"}]
    storage = MemoryStorage()
    with ROWS.write(WriteRequest(storage=storage, location="memory:a", schema=schema)) as file:
        file.write(rows)
    assert read(storage, schema) == rows


# row groups -----------------------------------------------------------------------------------------------------------

WIDE = Schema(
    (
        Field(1, "i", INT),
        Field(2, "s", STRING),
        Field(3, "d", DecimalType(9, 2)),
        Field(4, "w", DecimalType(30, 2)),
        Field(5, "t", TIMESTAMPTZ),
        Field(6, "x", DOUBLE),
        Field(7, "u", FixedType(4)),
        Field(8, "n", StructType((Field(9, "k", LONG),))),
        Field(10, "l", ListType(11, INT)),
    )
)


def wide_row(n: int) -> dict[str, Any]:
    return {
        "i": n,
        "s": f"{n:04}",
        "d": Decimal(n).scaleb(-2),
        "w": Decimal(-n).scaleb(-2),
        "t": MOMENT + n,
        "x": float(n),
        "u": n.to_bytes(4, "big"),
        "n": {"k": n} if n % 3 else None,
        "l": [n],
    }


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> tuple[MemoryStorage, list[list[int]]]:
    """A file of ten row groups with 100 rows each, and a list that gets the row groups of each read."""
    storage, chosen = MemoryStorage(), []
    request = WriteRequest(
        storage=storage, location="memory:a", schema=WIDE, properties={"write.parquet.row-group-limit": "100"}
    )
    with MODEL.write(request) as file:
        file.write(rows_to_batch(WIDE, [wide_row(n) for n in range(1000)]))
    contiguous_runs = reader.contiguous_runs

    def spy(metadata: pq.FileMetaData, numbers: Iterable[int]) -> Iterator[list[int]]:
        chosen.append(list(numbers))
        return contiguous_runs(metadata, chosen[-1])

    monkeypatch.setattr("floe.formats.parquet.reader.contiguous_runs", spy)
    return storage, chosen


@pytest.mark.parametrize(
    ("where", "row_groups", "rows"),
    [
        (col("i") == 250, [2], [250]),
        (col("s") == "0999", [9], [999]),
        (col("d") < Decimal("0.02"), [0], [0, 1]),
        (col("w") < Decimal("-9.98"), [9], [999]),
        (col("t") == "2023-11-14T22:13:20.123956+00:00", [5], [500]),
        (col("x") == 7.0, [0], [7]),
        (col("u") == (700).to_bytes(4, "big"), [7], [700]),
        (col("n.k") == 301, [3], [301]),
        (col("n.k").is_null() & (col("i") < 4), [0], [0, 3]),
        (col("s").starts_with("05") & (col("i") > 598), [5], [599]),
        (col("i").is_in([5, 995]), [0, 9], [5, 995]),
        ((col("i") < 1) | (col("s") > "0998"), [0, 9], [0, 999]),
        (col("i").is_null(), [], []),
        (col("l").is_null(), list(range(10)), []),
        (col("i") > 5000, [], []),
        (col("i").truncate(100) == 300, [3], list(range(300, 400))),
    ],
    ids=str,
)
def test_row_groups_are_skipped_by_statistics(
    groups: tuple[MemoryStorage, list[list[int]]], where: Any, row_groups: list[int], rows: list[int]
) -> None:
    storage, chosen = groups
    actual = read(storage, WIDE, filter=bind(where, WIDE))
    assert actual == [wide_row(n) for n in rows]
    assert chosen == [row_groups]


def test_statistics_of_promoted_columns_are_understood(groups: tuple[MemoryStorage, list[list[int]]]) -> None:
    storage, chosen = groups
    schema = Schema((Field(1, "i", LONG), Field(3, "d", DecimalType(38, 2))))
    where = bind((col("i") == 250) & (col("d") == Decimal("2.50")), schema)
    assert read(storage, schema, filter=where) == [{"i": 250, "d": Decimal("2.50")}]
    assert chosen == [[2]]


def test_nan_is_found_although_statistics_know_nothing_of_it() -> None:
    schema = column(DOUBLE)
    storage = stored(pa.table({"a": [1.0, 2.0, float("nan"), 3.0]}), row_group_size=2)
    assert len(read(storage, schema, filter=bind(col("a") > 100, schema))) == 1
    assert len(read(storage, schema, filter=bind(col("a").is_nan(), schema))) == 1


def test_splits_take_row_groups_by_their_middle(groups: tuple[MemoryStorage, list[list[int]]]) -> None:
    storage, _ = groups
    metadata = pq.ParquetFile(io.BytesIO(storage.read("memory:a"))).metadata
    schema = Schema((POS, WIDE.fields[0]))
    for number in range(10):
        group = metadata.row_group(number)
        start = group.column(0).dictionary_page_offset or group.column(0).data_page_offset
        size = sum(group.column(n).total_compressed_size for n in range(group.num_columns))
        middle = start + size // 2
        for split, row_count in (
            ((middle, 1), 100),
            ((middle - 1, 1), 0),
            ((start, size // 2), 0),
            ((start, size), 100),
        ):
            rows = read(storage, schema, split=split)
            assert len(rows) == row_count
            assert not rows or rows[0] == {"_pos": 100 * number, "i": 100 * number}


# batches --------------------------------------------------------------------------------------------------------------


def test_equal_types_are_not_copied() -> None:
    """The very buffers that pyarrow gives, for flat and for nested columns."""
    schema = Schema(
        (
            Field(1, "a", LONG),
            Field(2, "s", STRING),
            Field(3, "p", StructType((Field(4, "x", INT), Field(5, "l", ListType(6, STRING))))),
        )
    )
    batch = rows_to_batch(schema, [{"a": n, "s": "x", "p": {"x": n, "l": ["y"]}} for n in range(100)])
    request = ReadRequest(storage=MemoryStorage(), location="memory:a", schema=schema)
    (out,) = Projection(request, file_fields(batch.schema)).batches([(0, batch)])
    renamed = Schema(
        (
            Field(3, "q", StructType((Field(5, "m", ListType(6, STRING)), Field(4, "y", INT)))),
            Field(1, "b", LONG),
        )
    )
    request = ReadRequest(storage=MemoryStorage(), location="memory:a", schema=renamed)
    projection = Projection(request, file_fields(batch.schema))
    (other,) = projection.batches([(0, batch.select(projection.selection.indices(3)))])

    def addresses(array: pa.Array) -> set[int]:
        return {buffer.address for buffer in array.buffers() if buffer is not None and buffer.size}

    for index in range(3):
        assert addresses(out.column(index)) == addresses(batch.column(index))
    assert addresses(other.column(1)) == addresses(batch.column(0))
    values = batch.column(2).field(1).values
    assert addresses(values) <= addresses(other.column(0))


def test_schemas_are_exact() -> None:
    schema = Schema(
        (POS, Field(1, "i", LONG, required=True, doc="a number"), Field(2, "m", MapType(3, STRING, 4, INT)))
    )
    storage = stored(pa.table({"i": pa.array([1], pa.int32())}))
    (batch,) = MODEL.read(ReadRequest(storage=storage, location="memory:a", schema=schema))
    assert batch.schema.equals(arrow_schema(schema), check_metadata=True)


def test_large_files_are_read_in_pieces() -> None:
    count = 300_000
    storage = stored(pa.table({"a": np.arange(count), "b": np.arange(count)}), row_group_size=50_000)
    schema = Schema((POS, Field(1, "a", LONG)))
    request = ReadRequest(storage=storage, location="memory:a", schema=schema, batch_size=70_000)
    batches = list(MODEL.read(request))
    table = pa.Table.from_batches(batches)
    assert table.column("_pos").equals(table.column("a"))
    assert table.num_rows == count
    assert max(batch.num_rows for batch in batches) <= 70_000


# files that lie or are broken -----------------------------------------------------------------------------------------


def test_wrong_ids() -> None:
    fields = [pa.field(name, pa.int64(), metadata={FIELD_ID: b"1"}) for name in "ab"]
    sink = io.BytesIO()
    pq.write_table(pa.table([[1], [2]], schema=pa.schema(fields)), sink)
    storage = MemoryStorage()
    storage.write("memory:a", sink.getvalue())
    with pytest.raises(CorruptFile, match="two columns of the file have the field id 1") as raised:
        read(storage, column(LONG))
    assert raised.value.context == {"column": "b", "file": "memory:a"}

    inner = pa.list_(pa.field("element", pa.int64(), metadata={FIELD_ID: b"77"}))
    sink = io.BytesIO()
    pq.write_table(pa.table([[[1]]], schema=pa.schema([pa.field("a", inner, metadata={FIELD_ID: b"1"})])), sink)
    storage.write("memory:a", sink.getvalue(), overwrite=True)
    with pytest.raises(CorruptFile, match="id 77 in the file, 5 in the table"):
        read(storage, column(ListType(5, LONG)))


def test_wrong_types_name_file_and_column() -> None:
    storage = stored(pa.table({"a": ["x"], "s": [{"t": 1.5}]}))
    with pytest.raises(CorruptFile, match="stores string, which cannot be read as long") as raised:
        read(storage, column(LONG, "amount"))
    assert raised.value.context == {"column": "amount", "file": "memory:a"}


def test_nulls_in_required_fields() -> None:
    storage = MemoryStorage()
    optional = Schema((Field(1, "s", StructType((Field(2, "a", INT),))), Field(3, "l", ListType(4, INT))))
    with ROWS.write(WriteRequest(storage=storage, location="memory:a", schema=optional)) as file:
        file.write([{"s": None, "l": [1]}, {"s": {"a": None}, "l": [None]}])
    strict = Schema((Field(1, "s", StructType((Field(2, "a", INT, required=True),))),))
    with pytest.raises(CorruptFile, match=r"s\.a"):
        read(storage, strict)
    with pytest.raises(CorruptFile, match=r"l\.element"):
        read(storage, Schema((Field(3, "l", ListType(4, INT, element_required=True)),)))


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1PAR1", b"not a parquet file at all", b"\x00" * 1000], ids=len)
def test_no_parquet_at_all(data: bytes) -> None:
    storage = MemoryStorage()
    storage.write("memory:a", data)
    with pytest.raises(CorruptFile, match="memory:a"):
        read(storage, column(LONG))


def test_footers_that_promise_too_much() -> None:
    data = stored(pa.table({"a": list(range(100))})).read("memory:a")
    length = int.from_bytes(data[-8:-4], "little")
    for claimed in (0, length + 1, len(data), 2**31 - 1, 2**32 - 1):
        storage = MemoryStorage()
        storage.write("memory:a", data[:-8] + claimed.to_bytes(4, "little") + b"PAR1")
        with pytest.raises(CorruptFile, match="memory:a"):
            read(storage, column(LONG))


def test_storage_errors_stay_what_they_are() -> None:
    storage = stored(pa.table({"a": [1]}))
    with pytest.raises(NoSuchFile):
        list(MODEL.read(ReadRequest(storage=storage, location="memory:b", schema=column(LONG))))
    fenced = Access(storage, roots=["memory:table/"])
    with pytest.raises(PathNotAllowed):
        read(fenced, column(LONG))


# checksums of pages ---------------------------------------------------------------------------------------------------

VERIFY = "read.parquet.page-checksum-verification.enabled"


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_every_changed_bit_of_a_page_is_noticed(version: str) -> None:
    """Of dictionaries and of data; unless checksums are not to be verified, which gives other rows."""
    storage, schema = MemoryStorage(), Schema((Field(1, "n", INT), Field(2, "s", STRING)))
    properties = {"write.parquet.compression-codec": "uncompressed", "write.parquet.page-version": version}
    with MODEL.write(WriteRequest(storage=storage, location="memory:a", schema=schema, properties=properties)) as file:
        file.write(pa.record_batch({"n": pa.array(range(9), pa.int32()), "s": ["some", "text", None] * 3}))
    data, rows = storage.read("memory:a"), read(storage, schema)
    offsets = [data.index((n).to_bytes(4, "little") + (n + 1).to_bytes(4, "little")) for n in range(1, 8)]
    offsets += [data.index(b"some") + n for n in range(4)] + [data.index(b"text") + n for n in range(4)]
    differing = 0
    for offset in offsets:
        storage.write("memory:a", data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :], overwrite=True)
        with pytest.raises(CorruptFile, match=f"checksum.*memory:a.*{VERIFY}"):
            read(storage, schema)
        differing += read(storage, schema, properties={VERIFY: "false"}) != rows
    assert differing == len(offsets)
