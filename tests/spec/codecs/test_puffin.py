"""Puffin files (Puffin spec): bytes by hand, Java's files, round trips, broken and hostile footers."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pyiceberg.table.puffin import PuffinFile as PyIcebergPuffinFile

from floe.errors import CorruptFile, FloeError, InvalidInput, UnsupportedFeature
from floe.spec.codecs.puffin import (
    DELETION_VECTOR,
    FOOTER_TAIL_SIZE,
    THETA_SKETCH,
    Blob,
    BlobMetadata,
    FooterPayload,
    compress_lz4,
    footer_size,
    parse_footer,
    read_blob,
    write_file,
)
from helpers.corpus import table_names

BLOB: dict[str, Any] = {"type": "x", "fields": [1], "snapshot-id": 2, "sequence-number": 3, "offset": 4, "length": 2}


def file_of(payload: Any, *, content: bytes = b"ab", flags: bytes = bytes(4), size: int | None = None) -> bytes:
    """A Puffin file with any footer."""
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    length = (len(data) if size is None else size).to_bytes(4, "little", signed=True)
    return b"PFA1" + content + b"PFA1" + data + length + flags + b"PFA1"


# layout ---------------------------------------------------------------------------------------------------------


def test_puffin_file_by_hand() -> None:
    written = write_file([Blob("x", (1, 2), 7, 8, b"abc", None, {"k": "v"})], {"created-by": "me"})
    json_text = (
        b'{"blobs":[{"type":"x","fields":[1,2],"snapshot-id":7,"sequence-number":8,"offset":4,"length":3,'
        b'"properties":{"k":"v"}}],"properties":{"created-by":"me"}}'
    )
    footer = b"PFA1" + json_text + len(json_text).to_bytes(4, "little") + bytes(4) + b"PFA1"
    assert written.data == b"PFA1" + b"abc" + footer
    assert written.footer_size == len(footer)
    assert written.payload == FooterPayload(
        (BlobMetadata("x", (1, 2), 7, 8, 4, 3, None, {"k": "v"}),), {"created-by": "me"}
    )


def test_magic_stands_at_the_start_before_the_footer_and_at_the_end() -> None:
    written = write_file([Blob("x", (), 1, 1, b"abc")])
    data, footer = written.data, written.data[-written.footer_size :]
    assert data[:4] == footer[:4] == footer[-4:] == bytes([0x50, 0x46, 0x41, 0x31])


def test_footer_payload_size_is_little_endian() -> None:
    written = write_file([Blob("x" * 300, (), 1, 1, b"")])
    payload = written.data[-written.footer_size :][4:-12]
    assert written.data[-12:-8] == len(payload).to_bytes(4, "little")


def test_reserved_flags_are_written_as_zero() -> None:
    assert write_file([]).data[-8:-4] == bytes(4)
    assert write_file([], compress_footer=True).data[-8:-4] == bytes([1, 0, 0, 0])


def test_flags_of_a_later_version_are_refused() -> None:
    for flags in (b"\x02\0\0\0", b"\0\x01\0\0", b"\0\0\0\x80"):
        with pytest.raises(UnsupportedFeature, match="flags"):
            parse_footer(file_of({"blobs": []}, flags=flags))


def test_footer_payload_may_be_one_lz4_frame_with_content_size() -> None:
    plain = write_file([Blob("x", (1,), 2, 3, b"abc")], {"a": "b"})
    packed = write_file([Blob("x", (1,), 2, 3, b"abc")], {"a": "b"}, compress_footer=True)
    assert parse_footer(packed.data) == parse_footer(plain.data) == plain.payload
    frame = packed.data[-packed.footer_size :][4:-12]
    json_text = plain.data[-plain.footer_size :][4:-12]
    assert pa.Codec("lz4").decompress(frame, len(json_text)).to_pybytes() == json_text


def test_footer_is_found_from_the_last_bytes_of_a_file() -> None:
    written = write_file([Blob("x", (1,), 2, 3, bytes(1000))])
    size = footer_size(written.data[-FOOTER_TAIL_SIZE:])
    assert size == written.footer_size
    assert parse_footer(written.data[-size:], len(written.data)) == written.payload
    assert parse_footer(written.data[-size - 50 :], len(written.data)) == written.payload
    with pytest.raises(InvalidInput, match="only the last"):
        parse_footer(written.data[-size + 1 :], len(written.data))


# blobs ----------------------------------------------------------------------------------------------------------


def stored(data: bytes, blob: BlobMetadata) -> bytes:
    return data[blob.offset : blob.offset + blob.length]


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_compression_codecs(codec: str | None) -> None:
    content = b"sketch" * 500
    written = write_file([Blob(THETA_SKETCH, (1,), 2, 3, content, codec, {"ndv": "7"})])
    (blob,) = parse_footer(written.data).blobs
    assert blob.compression_codec == codec
    assert read_blob(stored(written.data, blob), blob) == content
    assert (blob.length < len(content)) == (codec is not None)


def test_other_codecs_are_not_supported() -> None:
    with pytest.raises(InvalidInput, match="no codec 'snappy'"):
        write_file([Blob("x", (), 1, 1, b"", "snappy")])
    blob = BlobMetadata("x", (), 1, 1, 4, 2, "snappy")
    with pytest.raises(UnsupportedFeature, match="'snappy'"):
        read_blob(b"ab", blob)


def test_deletion_vector_is_not_compressed() -> None:
    with pytest.raises(InvalidInput, match="never compressed"):
        write_file([Blob(DELETION_VECTOR, (), -1, -1, b"", "zstd")])


def test_blob_that_could_not_be_read_whole() -> None:
    with pytest.raises(CorruptFile, match="of which 1 could be read"):
        read_blob(b"a", BlobMetadata("x", (), 1, 1, 4, 2))


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_blob_that_is_too_large_is_refused(codec: str | None) -> None:
    written = write_file([Blob("x", (), 1, 1, bytes(10_000), codec)])
    (blob,) = written.payload.blobs
    with pytest.raises(CorruptFile, match="at most 9999"):
        read_blob(stored(written.data, blob), blob, max_size=9_999)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PROPERTIES = st.dictionaries(TEXT, TEXT, max_size=3)
INT64 = st.integers(-(2**63), 2**63 - 1)
BLOBS = st.builds(
    Blob,
    TEXT,
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3).map(tuple),
    INT64,
    INT64,
    st.binary(max_size=200),
    st.sampled_from([None, "lz4", "zstd"]),
    PROPERTIES,
)


@given(st.lists(BLOBS, max_size=4), PROPERTIES, st.booleans())
def test_puffin_files_come_back_as_they_were(blobs: list[Blob], properties: dict[str, str], compress: bool) -> None:
    written = write_file(blobs, properties, compress_footer=compress)
    payload = parse_footer(written.data)
    assert payload == written.payload
    assert payload.properties == properties
    assert len(payload.blobs) == len(blobs)
    for blob, found in zip(blobs, payload.blobs, strict=True):
        assert (found.type, found.fields, found.properties) == (blob.type, blob.fields, blob.properties)
        assert (found.snapshot_id, found.sequence_number) == (blob.snapshot_id, blob.sequence_number)
        assert read_blob(stored(written.data, found), found) == blob.data


def test_pyiceberg_reads_our_footers() -> None:
    blob = Blob(DELETION_VECTOR, (1,), -1, -1, bytes(20), None, {"referenced-data-file": "a"})
    written = write_file([blob], {"k": "v"})
    theirs = PyIcebergPuffinFile(written.data).footer
    assert theirs.properties == {"k": "v"}
    assert [(b.type, b.fields, b.offset, b.length) for b in theirs.blobs] == [(DELETION_VECTOR, [1], 4, 20)]


# what a footer may leave out ------------------------------------------------------------------------------------


def test_properties_and_codec_are_optional() -> None:
    payload = parse_footer(file_of({"blobs": [BLOB]}))
    assert payload == FooterPayload((BlobMetadata("x", (1,), 2, 3, 4, 2),))
    assert parse_footer(file_of({"blobs": [BLOB | {"properties": None}], "properties": None})) == payload


def test_keys_of_later_versions_are_ignored() -> None:
    assert len(parse_footer(file_of({"blobs": [BLOB | {"new": [1]}], "more": {}})).blobs) == 1


@pytest.mark.parametrize("key", BLOB)
def test_required_fields_of_blob_metadata(key: str) -> None:
    blob = {k: v for k, v in BLOB.items() if k != key}
    with pytest.raises(CorruptFile, match=f"missing required field `{key}`"):
        parse_footer(file_of({"blobs": [blob]}))


def test_required_fields_of_file_metadata() -> None:
    with pytest.raises(CorruptFile, match="missing required field `blobs`"):
        parse_footer(file_of({"properties": {}}))


# Java's files ---------------------------------------------------------------------------------------------------


def test_statistics_files_of_java_are_read(corpus_dir: Path) -> None:
    """Footer sizes and blobs are those that the table's metadata lists for the file."""
    seen = 0
    for table in table_names("meta_stats"):
        folder = corpus_dir / table / "metadata"
        newest = max(folder.glob("v*.metadata.json"), key=lambda p: int(p.name[1:].split(".")[0]))
        for listed in json.loads(newest.read_text())["statistics"]:
            data = (corpus_dir / listed["statistics-path"].removeprefix("/floe-corpus/")).read_bytes()
            assert len(data) == listed["file-size-in-bytes"]
            assert footer_size(data) == listed["file-footer-size-in-bytes"]
            payload = parse_footer(data)
            assert [
                (b.type, b.snapshot_id, b.sequence_number, list(b.fields), b.properties) for b in payload.blobs
            ] == [
                (b["type"], b["snapshot-id"], b["sequence-number"], b["fields"], b.get("properties", {}))
                for b in listed["blob-metadata"]
            ]
            for blob in payload.blobs:
                sketch = read_blob(stored(data, blob), blob)
                assert sketch[2] == 3  # a compact theta sketch: family 3 in its third byte
                assert blob.properties["ndv"].isdigit()
                seen += 1
    assert seen >= 10


def test_puffin_files_of_java_are_written_again_byte_for_byte(corpus_dir: Path) -> None:
    paths = sorted(corpus_dir.glob("*/data/*.puffin"))
    assert len(paths) > 10
    for path in paths:
        data = path.read_bytes()
        payload = parse_footer(data)
        blobs = [
            Blob(b.type, b.fields, b.snapshot_id, b.sequence_number, stored(data, b), None, b.properties)
            for b in payload.blobs
        ]
        assert write_file(blobs, payload.properties).data == data, path


# broken and hostile ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"PFA1", b"PFA1PFA1", bytes(100), b"PFA1" + bytes(12), b"x" * 11 + b"PFA1"])
def test_not_a_puffin_file(data: bytes) -> None:
    with pytest.raises(CorruptFile):
        parse_footer(data)


def test_file_and_footer_must_start_with_magic() -> None:
    good = file_of({"blobs": []})
    with pytest.raises(CorruptFile, match="must start with PFA1"):
        parse_footer(b"XFA1" + good[4:])
    with pytest.raises(CorruptFile, match="footer must start with PFA1"):
        parse_footer(good.replace(b"abPFA1", b"abPFAx"))


@pytest.mark.parametrize("size", [-1, -(2**31), 1, 12, 14, 2**31 - 1])
def test_payload_size_must_be_right(size: int) -> None:
    with pytest.raises(CorruptFile):
        parse_footer(file_of({"blobs": []}, size=size))


@pytest.mark.parametrize(
    ("offset", "length"), [(0, 2), (3, 1), (4, 3), (7, 0), (2**62, 2**62), (4, 2**63 - 1), (-1, 2), (4, -1)]
)
def test_blobs_must_lie_between_start_and_footer(offset: int, length: int) -> None:
    with pytest.raises(CorruptFile):
        parse_footer(file_of({"blobs": [BLOB | {"offset": offset, "length": length}]}))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"\xff"',
        {"blobs": {}},
        {"blobs": [7]},
        {"blobs": [BLOB | {"fields": ["1"]}]},
        {"blobs": [BLOB | {"fields": [2**31]}]},
        {"blobs": [BLOB | {"snapshot-id": 2**63}]},
        {"blobs": [BLOB | {"offset": 4.5}]},
        {"blobs": [BLOB | {"properties": {"a": 1}}]},
        {"blobs": [], "properties": []},
        b'{"blobs":[],"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=range(14),
)
def test_payload_that_is_not_what_it_must_be(payload: Any) -> None:
    with pytest.raises(CorruptFile, match="payload"):
        parse_footer(file_of(payload))


def test_errors_in_the_payload_name_the_place() -> None:
    with pytest.raises(CorruptFile, match=r"\$\.blobs\[1\]\.offset"):
        parse_footer(file_of({"blobs": [BLOB, BLOB | {"offset": "4"}]}))


def test_compressed_footer_that_swells_is_refused() -> None:
    frame = bytearray(compress_lz4(b'{"blobs":[]}'))
    frame[6:14] = (2**40).to_bytes(8, "little")
    with pytest.raises(CorruptFile, match="at most"):
        parse_footer(file_of(bytes(frame), flags=b"\x01\0\0\0"))


@given(st.data(), st.booleans())
def test_damaged_puffin_files_raise_only_errors_of_floe(data: st.DataObject, compress: bool) -> None:
    blobs = [Blob("x", (1,), 2, 3, b"abc" * 50, codec, {"a": "b"}) for codec in (None, "lz4", "zstd")]
    file = bytearray(write_file(blobs, {"created-by": "me"}, compress_footer=compress).data)
    for _ in range(data.draw(st.integers(1, 4))):
        file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(file[: data.draw(st.none() | st.integers(0, len(file)))])
    try:
        for blob in parse_footer(damaged).blobs:
            read_blob(stored(damaged, blob), blob, max_size=10**6)
    except FloeError:
        pass
