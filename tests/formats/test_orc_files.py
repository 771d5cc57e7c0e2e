"""ORC files: timestamps of any year, what the file itself tells, stripes, and files that are not what they claim."""

import datetime as dt
import io
import itertools
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest

from floe.errors import CorruptFile, FloeError, UnsupportedFeature
from floe.formats.model import ReadRequest, WriteRequest
from floe.formats.orc.reader import PatchedTailFile
from floe.formats.orc.streams import decode_unsigned
from floe.formats.orc.tail import (
    CODEC_NAMES,
    NONE,
    decompress,
    parse_postscript,
    read_fields,
    read_tail,
    store_uncompressed,
    write_fields,
)
from floe.formats.registry import OrcAsArrow
from floe.formats.rows import rows_to_batch
from floe.spec.expressions.binder import bind
from floe.spec.expressions.dsl import col
from floe.spec.manifests.entries import FileContent
from floe.spec.schemas.metadata_columns import POS, position_delete_schema
from floe.spec.schemas.schema import Schema
from floe.spec.types import (
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    DecimalType,
    Field,
    ListType,
    MapType,
    StructType,
)
from floe.storage.memory import MemoryStorage

MODEL = OrcAsArrow()
IDS = Schema((Field(1, "id", LONG, required=True), Field(2, "name", STRING)))
YEAR_1, YEAR_9999 = -62_135_596_800_000_000, 253_402_300_799_999_999


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


def orc_bytes(table, **options):
    sink = io.BytesIO()
    orc.write_table(table, sink, **options)
    return sink.getvalue()


def many_rows(count=60_000):
    numbers = np.random.default_rng(7).integers(0, 2**60, count)
    return pa.record_batch({"id": pa.array(np.sort(numbers)), "name": [str(number) for number in numbers]})


# timestamps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["none", "zlib", "snappy", "lz4", "zstd"])
def test_timestamps_of_any_year_at_any_depth(codec):
    timestamps = [YEAR_1, YEAR_9999, None, 0, 1, 1_700_000_000_123_456, -1_000_000, *range(10**15, 10**15 + 2000, 7)]
    schema = Schema(
        (
            Field(1, "t", TIMESTAMP),
            Field(2, "s", StructType((Field(3, "z", TIMESTAMPTZ), Field(4, "n", INT)))),
            Field(5, "l", ListType(6, TIMESTAMPTZ)),
            Field(7, "m", MapType(8, STRING, 9, TIMESTAMP)),
        )
    )
    zone = pa.timestamp("us", "UTC")
    batch = pa.record_batch(
        {
            "t": pa.array(timestamps, pa.timestamp("us")),
            "s": pa.array(
                [None if n % 5 == 2 else {"z": at, "n": n} for n, at in enumerate(timestamps)],
                pa.struct([("z", zone), ("n", pa.int32())]),
            ),
            "l": pa.array([[at, None, at] if n % 3 else None for n, at in enumerate(timestamps)], pa.list_(zone)),
            "m": pa.array([[("k", at)] for at in timestamps], pa.map_(pa.string(), pa.timestamp("us"))),
        }
    )
    storage, _ = written(schema, batch, properties={"write.orc.compression-codec": codec})
    actual = read(storage, schema).combine_chunks().to_batches()[0]
    for name in batch.schema.names:
        assert actual.column(name).cast(batch.schema.field(name).type).equals(batch.column(name)), name


def test_seconds_and_nanoseconds_are_read_as_pyarrow_reads_them():
    timestamps = [random.Random(3).randrange(0, 2**60) for _ in range(5000)] + [10**9 * n for n in range(5000)]
    array = pa.array(timestamps, pa.timestamp("ns"))
    schema = Schema((Field(1, "t", TIMESTAMP), Field(2, "far", TIMESTAMP)))
    with_ids = pa.schema(
        [
            pa.field("t", pa.timestamp("ns"), metadata={"iceberg.id": "1"}),
            pa.field("far", pa.timestamp("us"), metadata={"iceberg.id": "2"}),
        ]
    )
    data = orc_bytes(pa.table([array, pa.array([YEAR_1] * len(timestamps), pa.timestamp("us"))], schema=with_ids))
    table = stored(data, schema)
    # more digits than microseconds are cut off
    assert table["t"].cast(pa.int64()).to_pylist() == [timestamp // 1000 for timestamp in timestamps]
    assert set(table["far"].cast(pa.int64()).to_pylist()) == {YEAR_1}


def test_what_orc_cannot_store_is_refused():
    schema = Schema((Field(1, "s", StructType((Field(2, "t", TIMESTAMP),))),))
    batch = pa.record_batch({"s": pa.array([{"t": -1}], pa.struct([("t", pa.timestamp("us"))]))})
    with pytest.raises(UnsupportedFeature, match=r"last second before 1970 \(column: s"):
        written(schema, batch)


def early_rows(count, seed, earliest=-8 * 10**15):
    """Rows with timestamps at every depth, and nulls; none in the last second before 1970."""
    random_ = random.Random(seed)

    def random_timestamp():
        if random_.random() < 0.2:
            return None
        value = random_.choice(
            [random_.randint(earliest, 8 * 10**15), -1_000_000 * random_.randint(1, 9), random_.randint(-9, 9) * 10**6]
        )
        return value if not -1_000_000 < value < 0 else 0

    return [
        {
            "t": random_timestamp(),
            "z": random_timestamp(),
            "s": random_.choice([None, {"t": random_timestamp(), "n": n}]),
            "l": random_.choice([None, [], [random_timestamp(), random_timestamp()], [random_timestamp()]]),
            "m": random_.choice([None, [(n, random_timestamp())], []]),
        }
        for n in range(count)
    ]


MOMENTS = Schema(
    (
        Field(1, "t", TIMESTAMP),
        Field(2, "z", TIMESTAMPTZ),
        Field(3, "s", StructType((Field(4, "t", TIMESTAMP), Field(5, "n", INT)))),
        Field(6, "l", ListType(7, TIMESTAMPTZ)),
        Field(8, "m", MapType(9, LONG, 10, TIMESTAMP)),
    )
)


@pytest.mark.parametrize("codec", ["zlib", "none", "zstd"])
@pytest.mark.parametrize(("plain", "early"), [(0, 5), (3000, 25_000), (40, 1)])
def test_fractions_before_1970(plain, early, codec):
    """From the first such row on the file is put together by hand; pyarrow's own reader finds the same rows."""
    first, then = (
        rows_to_batch(MOMENTS, early_rows(count, count, start)) for count, start in ((plain, 0), (early, -8 * 10**15))
    )
    batches = [first, *(then.slice(start, 4000) for start in range(0, early, 4000))]
    properties = {"write.orc.compression-codec": codec, "write.orc.stripe-size-bytes": "100000"}
    storage, file = written(MOMENTS, *batches, properties=properties, metadata={"a": "b"})
    table = pa.Table.from_batches(batches)
    assert file.record_count == plain + early
    assert read(storage, MOMENTS).equals(table)
    data = storage.read("memory:a")
    theirs = orc.ORCFile(io.BytesIO(data))
    assert theirs.nrows == plain + early
    for name in ("t", "z"):  # of the nested ones pyarrow has other types of lists and maps
        column = theirs.read(columns=[name]).column(name).combine_chunks()
        assert column.cast(table.schema.field(name).type, safe=False).equals(table.column(name).combine_chunks())
    assert list(file.split_offsets) == [stripe.offset for stripe in read_tail(io.BytesIO(data), len(data)).stripes]
    assert sum(file.column_sizes.values()) < len(data)
    for start, end in itertools.pairwise((*file.split_offsets, len(data))):
        assert read(storage, MOMENTS, split=(start, end - start)).num_rows > 0


def test_filters_on_moments_before_1970():
    batch = rows_to_batch(MOMENTS, early_rows(3000, 7))
    storage, _ = written(MOMENTS, batch, properties={"write.orc.stripe-size-bytes": "20000"})
    times = [t for t in batch.column("t").view(pa.int64()).to_pylist() if t is not None]
    for micros in (-(10**15), -1_500_000, 0, 5 * 10**15):
        bound = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)
        matching = read(storage, MOMENTS, filter=bind(col("t") < bound, MOMENTS))
        assert matching.num_rows == sum(t < micros for t in times)


@pytest.mark.parametrize(
    ("data", "version", "numbers"),
    [  # the examples of ORC's specification
        ("0a2710", 2, [10000] * 5),
        ("5e035ca1ab1edeadbeef", 2, [23713, 43806, 57005, 48879]),
        ("8e13 2b 21 07d0 1e 00 14 70 28 32 3c 46 50 5a 64 6e 78 82 8c 96 a0 aa b4 be fc e8", 2,
         [2030, 2000, 2020, 1000000, *range(2040, 2200, 10)]),
        ("c609 02 02 22 42 42 46", 2, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
        ("61 00 07", 1, [7] * 100),
        ("61 ff 64", 1, list(range(100, 0, -1))),
        ("fb 02 03 06 07 0b", 1, [2, 3, 6, 7, 11]),
    ],
)  # fmt: skip
def test_run_lengths_of_the_specification(data, version, numbers):
    decoded = decode_unsigned(bytes.fromhex(data), len(numbers), version=version)
    assert decoded.tolist() == numbers
    with pytest.raises(CorruptFile):
        decode_unsigned(bytes.fromhex(data), len(numbers) + 1, version=version)


# what is written ------------------------------------------------------------------------------------------------------


def test_a_part_of_a_struct_column_is_written_as_it_is():
    schema = Schema((Field(1, "s", StructType((Field(2, "a", INT), Field(3, "l", ListType(4, INT))))),))
    rows = [{"a": 1, "l": [1]}, None, {"a": None, "l": None}, {"a": 4, "l": []}]
    array = pa.array(rows, pa.struct([("a", pa.int32()), ("l", pa.list_(pa.int32()))]))
    storage, _ = written(schema, pa.record_batch({"s": array}).slice(1, 3))
    assert read(storage, schema)["s"].to_pylist() == rows[1:]


def test_attributes_and_metadata_are_in_the_file():
    storage, file = written(
        position_delete_schema(),
        pa.record_batch({"file_path": ["memory:x"], "pos": [3]}),
        content=FileContent.POSITION_DELETES,
        metadata={"made-by": "a test"},
    )
    orc_file = orc.ORCFile(io.BytesIO(storage.read("memory:a")))
    assert dict(orc_file.metadata) == {b"delete-type": b"position", b"made-by": b"a test"}
    assert orc_file.schema.field("pos").metadata[b"iceberg.id"] == b"2147483545"
    assert orc_file.schema.field("pos").metadata[b"iceberg.required"] == b"true"
    assert file.referenced_data_file == "memory:x"
    assert file.file_size_in_bytes == len(storage.read("memory:a"))


def test_stripes_are_splits_and_column_sizes_add_up():
    batch = many_rows()
    storage, file = written(IDS, batch, batch, properties={"write.orc.stripe-size-bytes": "65536"})
    size = file.file_size_in_bytes
    assert file.split_offsets is not None
    assert len(file.split_offsets) > 1
    assert file.column_sizes is not None
    assert size / 2 < sum(file.column_sizes.values()) < size
    schema = Schema((POS, *IDS.fields))
    edges = [0, *(offset + 1 for offset in file.split_offsets), size]
    parts = [read(storage, schema, split=(begin, end - begin)) for begin, end in itertools.pairwise(edges)]
    table = pa.concat_tables(part for part in parts if part is not None)
    assert table["_pos"].to_pylist() == list(range(120_000))
    assert table["name"].to_pylist() == batch.column("name").to_pylist() * 2


def test_a_filter_skips_stripes(monkeypatch):
    batch = many_rows()
    storage, file = written(IDS, batch, properties={"write.orc.stripe-size-bytes": "65536"})
    _, more = written(IDS, batch)
    assert len(more.split_offsets or ()) == 1
    reads = []
    original = PatchedTailFile.read

    def counted(self, size=-1):
        reads.append(size)
        return original(self, size)

    monkeypatch.setattr(PatchedTailFile, "read", counted)
    nothing = bind(col("id") < 0, IDS)
    assert read(storage, IDS, filter=nothing) is None
    assert reads == []
    last = batch.column("id")[-1].as_py()
    assert read(storage, IDS, filter=bind(col("id") == last, IDS))["id"].to_pylist() == [last]
    assert file.record_count == batch.num_rows


def test_bloom_filters_and_codecs_are_written():
    plain, _ = written(IDS, many_rows(1000))
    with_filters, _ = written(IDS, many_rows(1000), properties={"write.orc.bloom.filter.columns": "name"})
    assert len(with_filters.read("memory:a")) > len(plain.read("memory:a")) + 500


def test_text_that_repeats_is_stored_once():
    words = [f"{n * 7919 % 10_007:05}{n * 104_729:09}" for n in range(500)]
    names = [words[n * n % 500] for n in range(20_000)]
    storage, _ = written(IDS, pa.record_batch({"id": range(20_000), "name": names}))
    plain = pa.BufferOutputStream()
    orc.write_table(pa.table({"name": names}), plain, compression="zlib", dictionary_key_size_threshold=0.0)
    assert len(storage.read("memory:a")) < plain.tell() / 2


def test_a_file_without_any_values_cannot_be():
    with pytest.raises(UnsupportedFeature, match=r"type unknown \(column: u, "):
        written(Schema((Field(1, "u", UNKNOWN),)))


def test_a_file_without_rows():
    storage, file = written(IDS)
    assert file.record_count == 0
    assert read(storage, IDS) is None


def test_a_failing_storage_is_told():
    class Full(MemoryStorage):
        def open_write(self, location, *, overwrite=False):
            stream = super().open_write(location, overwrite=overwrite)
            stream._append = lambda data: (_ for _ in ()).throw(CorruptFile("no space left"))
            return stream

    request = WriteRequest(storage=Full(), location="memory:a", schema=IDS)
    with pytest.raises(CorruptFile, match="no space left"), MODEL.write(request) as file:
        file.write(many_rows(1000))


# hostile files --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    storage, _ = written(IDS, many_rows(3000))
    return storage.read("memory:a")


def test_cut_off_files(data):
    for length in [0, 1, 3, 10, len(data) // 2, len(data) - 1]:
        with pytest.raises(CorruptFile):
            stored(data[:length], IDS)
    with pytest.raises(CorruptFile):
        stored(data, IDS, file_size=len(data) + 10)


def test_changed_bytes_never_crash(data):
    chance = random.Random(1)
    original = stored(data, IDS)
    errors = 0
    for _ in range(300):
        offset = chance.randrange(len(data))
        changed = data[:offset] + bytes([data[offset] ^ (1 << chance.randrange(8))]) + data[offset + 1 :]
        try:
            table = stored(changed, IDS)
        except FloeError:
            errors += 1
        else:
            assert table is None or table.num_rows == original.num_rows
    assert errors > 20  # of the rest most are in numbers, of which each is as good as another


def test_lying_counts(data):
    with pytest.raises(CorruptFile, match="the file has 3000 rows, the manifest says 3001"):
        stored(data, IDS, record_count=3001)
    with pytest.raises(CorruptFile, match="rows"):
        stored(_with_footer(data, 6, 2**60), IDS)


def test_stripes_outside_the_file(data):
    stripe = write_fields([(1, 3), (2, 0), (3, 2**40), (4, 10), (5, 3000)])
    with pytest.raises(CorruptFile, match=f"a stripe at 3 to {3 + 2**40 + 10}, "):
        stored(_with_footer(data, 3, stripe), IDS)
    stripe = write_fields([(1, 3), (2, 0), (3, 10), (4, 10), (5, 2**50)])
    with pytest.raises(CorruptFile, match=f"a stripe of 20 bytes with {2**50} rows"):
        stored(_with_footer(data, 3, stripe), IDS)


def test_types_that_are_no_tree(data):
    for types in ([(1, 12), (2, 0), (3, b"x")], [(1, 12), (2, 5), (3, b"x")], [(1, 4)], [(1, 99)]):
        with pytest.raises(CorruptFile):
            stored(_with_footer(data, 4, write_fields(types)), IDS)


def test_wrong_types_and_ids(data):
    with pytest.raises(CorruptFile, match="the file stores long, which cannot be read as string"):
        stored(data, Schema((Field(1, "id", STRING),)))
    bad = orc_bytes(pa.table([[1]], schema=pa.schema([pa.field("a", pa.int64(), metadata={"iceberg.id": "-x"})])))
    with pytest.raises(CorruptFile, match="a field id must be a number"):
        stored(bad, IDS)


def _with_footer(data, field, value):
    """The file with one field of its footer replaced."""
    tail = read_tail(io.BytesIO(data), len(data))
    script = tail.postscript
    fields = [(n, field_value) for n, values in tail.footer.items() if n != field for field_value in values]
    footer = write_fields([*fields, (field, value)])
    footer = footer if script.codec == NONE else store_uncompressed(footer, script.block_size)
    script_fields = [(n, field_value) for n, values in script.fields.items() if n != 1 for field_value in values]
    postscript = write_fields([(1, len(footer)), *script_fields])
    start = len(data) - script.length - script.footer_length
    return data[:start] + footer + postscript + bytes([len(postscript)])


def test_chunks_cannot_fill_the_memory():
    assert set(CODEC_NAMES.values()) == {"none", "zlib", "snappy", "lzo", "lz4", "zstd"}
    with pytest.raises(CorruptFile, match="a chunk of"):
        decompress(1, b"\xff\xff\xff", 1000)
    for codec in (1, 2, 4, 5):
        with pytest.raises(CorruptFile):
            decompress(codec, b"\x10\x00\x00abcdefgh", 1000)
    with pytest.raises(UnsupportedFeature, match="lzo"):
        decompress(3, b"\x10\x00\x00abcdefgh", 1000)


def test_messages():
    assert read_fields(write_fields([(1, 2**63), (2, b""), (3, 1.5)])) == {
        1: [2**63],
        2: [b""],
        3: [b"\0\0\0\0\0\0\xf8?"],
    }
    for broken in (b"\x08", b"\x0a\x05abc", b"\x0b", b"\x08" + b"\xff" * 11):
        with pytest.raises(CorruptFile):
            read_fields(broken)
    with pytest.raises(CorruptFile, match="not an ORC file"):
        parse_postscript(b"PAR1")


@pytest.mark.parametrize(
    ("type_", "value", "run", "changed", "message"),
    [
        (STRING, None, "c1ff0700", "c1ff0701", "lengths from -504 "),
        (ListType(2, INT), [1, 2, 3], "c1ff0300", "c1ff0301", "lengths from -508 "),
        (DecimalType(30, 2), Decimal("1.25"), "c1ff0400", "c1ff7f00", "scales from -64 to"),
        (DecimalType(9, 2), Decimal("1.25"), "c1ff0400", "c1ff7e00", "scales from 0 to 63"),
    ],
    ids=str,
)
def test_lengths_and_scales_that_cannot_be(type_, value, run, changed, message):
    """ORC's reader would end the process with them, or never end; the runs are of 512 equal numbers."""
    schema = Schema((Field(1, "a", type_),))
    rows = [{"a": f"{n:07}" if value is None else value} for n in range(600)]  # too many texts for a dictionary
    storage, _ = written(schema, rows_to_batch(schema, rows), properties={"write.orc.compression-codec": "none"})
    data = storage.read("memory:a")
    offset = data.index(bytes.fromhex(run))
    assert read(storage, schema).num_rows == 600
    storage.write("memory:a", data[:offset] + bytes.fromhex(changed) + data[offset + 4 :], overwrite=True)
    with pytest.raises(CorruptFile, match=message):
        read(storage, schema)
