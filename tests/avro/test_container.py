"""Avro containers: what is whole is read, and what is broken or hostile gives a clear error without much memory."""

import io
import time
import tracemalloc
import zlib
from collections.abc import Iterator

import cramjam
import fastavro
import pytest
from hypothesis import given, strategies as st

from floe.avro.container import CODECS, Limits, open_container, write_container
from floe.avro.records import encode_long, make_reader, make_skipper, read_long, skip_longs
from floe.avro.schemas import build_layout, parse_layout
from floe.errors import CorruptFile, InvalidMetadata, UnsupportedFeature

SYNC = bytes(range(16))
LONGS = {"avro.schema": b'"long"'}


@pytest.fixture
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    begin = time.perf_counter()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2**20
    assert time.perf_counter() - begin < 2


def container(*blocks: bytes, codec: str = "null") -> bytes:
    return write_container(LONGS, [], codec=codec, sync=SYNC) + b"".join(blocks)


def block(count: int, size: int, content: bytes, sync: bytes = SYNC) -> bytes:
    return encode_long(count) + encode_long(size) + content + sync


# numbers --------------------------------------------------------------------------------------------------------


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_come_back(value: int) -> None:
    data = encode_long(value)
    assert read_long(b"x" + data + b"y", 1) == (value, 1 + len(data))
    assert skip_longs(data * 3, 0, 3) == 3 * len(data)


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\xff" * 9, b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x00", b"\xff" * 50]
)
def test_numbers_that_are_cut_off_or_too_long_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptFile):
        read_long(data, 0)
    with pytest.raises(CorruptFile):
        skip_longs(data + b"\x80" * 20, 0, 5)


# containers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_fastavro_reads_ours_and_we_read_theirs(codec: str) -> None:
    numbers = list(range(-500, 5000, 7))
    content = b"".join(map(encode_long, numbers))
    ours = write_container(LONGS, [(len(numbers), content), (len(numbers), content)], codec=codec)
    opened = open_container(ours)
    assert (opened.codec, [b.count for b in opened.blocks]) == (codec, [len(numbers)] * 2)
    assert opened.decompressed() == [content, content]
    if codec != "zstandard":  # fastavro has no library for it here
        assert list(fastavro.reader(io.BytesIO(ours))) == numbers * 2
        out = io.BytesIO()
        fastavro.writer(out, "long", numbers, codec=codec)
        assert b"".join(open_container(out.getvalue()).decompressed()) == content


def test_every_cut_is_noticed_but_one_between_blocks() -> None:
    header = len(container())
    data = container(block(2, 2, b"\2\4"), block(1, 1, b"\6"))
    valid_ends = {header, header + len(block(2, 2, b"\2\4")), len(data)}
    for end in range(len(data) + 1):
        if end in valid_ends:
            open_container(data[:end])
        else:
            with pytest.raises(CorruptFile):
                open_container(data[:end])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (block(-1, 2, b"\2\4"), "-1 records"),
        (block(1, -2, b"\2\4"), "-2 bytes"),
        (block(1, 2**62, b"\2\4"), "cut off"),
        (block(1, 2, b"\2\4", bytes(16)), "sync marker"),
        (block(1, 1, b"\2") + b"garbage", "cut off|number|sync|records"),
        (b"\xff" * 40, "64 bits"),
    ],
)
@pytest.mark.usefixtures("little_memory")
def test_hostile_blocks_are_refused(broken: bytes, message: str) -> None:
    with pytest.raises(CorruptFile, match=message):
        open_container(container(broken))


@pytest.mark.parametrize("count", [3, 2**40, 2**62])
@pytest.mark.usefixtures("little_memory")
def test_counts_that_the_bytes_have_no_room_for_are_refused(count: int) -> None:
    with pytest.raises(CorruptFile, match=f"for its {count} records"):
        open_container(container(block(count, 2, b"\2\4"))).decompressed()


@pytest.mark.parametrize(
    "header",
    [
        b"Obj\1" + encode_long(2**40),
        b"Obj\1" + encode_long(-(2**40)) + encode_long(5),
        b"Obj\1" + encode_long(1) + encode_long(2**40) + b"avro",
        b"Obj\1" + encode_long(1) + encode_long(-1),
        b"Obj\1" + encode_long(1) + encode_long(1) + b"\xff" + encode_long(0) + b"\0" + SYNC,
        b"Obj\1\0" + SYNC,
        b"Obj\2\0",
        b"PAR1",
        b"",
    ],
)
@pytest.mark.usefixtures("little_memory")
def test_hostile_headers_are_refused(header: bytes) -> None:
    with pytest.raises(CorruptFile):
        open_container(header)


def test_a_header_in_blocks_of_negative_counts_is_read() -> None:
    entry = encode_long(11) + b"avro.schema" + encode_long(6) + b'"long"'
    data = b"Obj\1" + encode_long(-1) + encode_long(len(entry)) + entry + b"\0" + SYNC
    assert open_container(data).metadata == LONGS


def test_an_unknown_codec_is_named() -> None:
    data = container().replace(b"\x08null", b"\x08lzma")
    with pytest.raises(UnsupportedFeature, match=r"'lzma' is not supported; .*null, deflate"):
        open_container(data)


BOMB = bytes(300 * 2**20)


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard"])
def test_a_block_that_swells_is_stopped_at_the_limit(codec: str) -> None:
    packed = {
        "deflate": lambda: zlib.compress(BOMB, 1)[2:-4],
        "snappy": lambda: bytes(cramjam.snappy.compress_raw(BOMB)) + zlib.crc32(BOMB).to_bytes(4, "big"),
        "zstandard": lambda: bytes(cramjam.zstd.compress(BOMB)),
    }[codec]()
    opened = open_container(container(block(1, len(packed), packed), codec=codec), Limits(block_bytes=2**20))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFile, match="more than 1048576 bytes"):
            opened.decompressed()
        assert tracemalloc.get_traced_memory()[1] < 40 * 2**20  # of which the packed bytes of snappy are 2 times 14
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard"])
@pytest.mark.parametrize("content", [b"", b"\0", b"not compressed at all", b"\xff" * 30])
def test_blocks_that_cannot_be_decompressed_are_refused(codec: str, content: bytes) -> None:
    with pytest.raises(CorruptFile, match=r"cannot be decompressed|too short for its \d+ records"):
        open_container(container(block(1, len(content), content), codec=codec)).decompressed()


def test_the_total_of_all_blocks_is_limited() -> None:
    data = container(*[block(1, 1000, bytes(1000))] * 5)
    with pytest.raises(CorruptFile, match="more than 500 bytes"):
        open_container(data, Limits(total_bytes=2500)).decompressed()


def test_snappy_checksums_are_compared() -> None:
    packed = bytes(cramjam.snappy.compress_raw(b"\2"))
    with pytest.raises(CorruptFile, match="checksum"):
        open_container(container(block(1, len(packed) + 4, packed + b"abcd"), codec="snappy")).decompressed()


# schemas and records --------------------------------------------------------------------------------------------

SCHEMA = {
    "type": "record",
    "name": "ns.r",
    "fields": [
        {"name": "a", "type": ["string", "null", {"type": "enum", "name": "e", "symbols": ["x", "y"]}]},
        {"name": "b", "type": {"type": "map", "values": {"type": "array", "items": "double"}}},
        {"name": "c", "type": {"type": "fixed", "name": "f", "size": 3}},
        {"name": "d", "type": ["null", "ns.f"]},
        {"name": "e", "type": {"type": "array", "items": {"type": "record", "name": "i", "fields": [
            {"name": "k", "type": "long"}, {"name": "f", "type": "float"}, {"name": "t", "type": "boolean"}]}}},
    ],
}  # fmt: skip
RECORDS = st.fixed_dictionaries(
    {
        "a": st.none() | st.just("x") | st.text(min_size=2),
        "b": st.dictionaries(st.text(), st.lists(st.floats(allow_nan=False))),
        "c": st.binary(min_size=3, max_size=3),
        "d": st.none() | st.binary(min_size=3, max_size=3),
        "e": st.lists(
            st.fixed_dictionaries(
                {"k": st.integers(-(2**63), 2**63 - 1), "f": st.floats(width=32, allow_nan=False), "t": st.booleans()}
            )
        ),
    }
)


@given(RECORDS)
def test_any_record_is_read_as_fastavro_wrote_it(record: dict[str, object]) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), record)
    data, layout = out.getvalue(), build_layout(SCHEMA)
    assert make_reader(layout)(data, 0) == (record, len(data))
    assert make_skipper(layout)(data, 0) == len(data)
    for cut in range(len(data)):
        with pytest.raises(CorruptFile):
            make_reader(layout)(data[:cut], 0)


@pytest.mark.parametrize(
    "schema",
    [
        b"no json",
        b"{}",
        b"[]",
        b'"nobody"',
        b'{"type": "record"}',
        b'{"type": "record", "name": "r", "fields": [1]}',
        b'{"type": "record", "name": "r", "fields": [{"type": "int"}]}',
        b'{"type": "fixed", "name": "f", "size": -1}',
        b'{"type": "enum", "name": "e"}',
        b'{"type": "array", "items": ' * 5000,
        b'{"type": "array", "items": ' * 200 + b'"int"' + b"}" * 200,
    ],
)
def test_schemas_that_are_none_are_refused(schema: bytes) -> None:
    with pytest.raises(CorruptFile):
        parse_layout(schema)


def test_schemas_that_would_grow_without_end_are_refused() -> None:
    itself = {"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", "r"]}]}
    with pytest.raises(UnsupportedFeature, match="'r' contains itself"):
        build_layout(itself)
    with pytest.raises(UnsupportedFeature, match="no bytes"):
        build_layout({"type": "array", "items": "null"})
    fields = [{"name": "x0", "type": {"type": "record", "name": "r0", "fields": [{"name": "a", "type": "int"}]}}]
    for n in range(1, 40):
        twice = [{"name": "a", "type": f"r{n - 1}"}, {"name": "b", "type": f"r{n - 1}"}]
        fields.append({"name": f"x{n}", "type": {"type": "record", "name": f"r{n}", "fields": twice}})
    with pytest.raises(InvalidMetadata, match="more than 50000 parts"):
        build_layout({"type": "record", "name": "root", "fields": fields})
