"""Deletion vectors (Puffin spec, deletion-vector-v1): the layout by hand, Java's vectors, broken and hostile ones."""

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile as PyIcebergPuffinFile
from pyroaring import BitMap, BitMap64, FrozenBitMap64

from floe.errors import CorruptFile, FloeError, InvalidValue
from floe.spec.codecs import puffin
from floe.spec.codecs.deletion_vectors import MAX_POSITION, deletion_vector_blob, deserialize, find_blob, serialize
from floe.spec.codecs.puffin import FooterPayload
from floe.spec.manifests.entries import DataFile, FileContent
from helpers.avro_files import local, read_manifest
from helpers.corpus import table_names

MAGIC = bytes.fromhex("d1d33964")


def framed(vector: bytes) -> bytes:
    """A blob around any bytes: right length, magic and checksum."""
    data = MAGIC + vector
    return len(data).to_bytes(4, "big") + data + zlib.crc32(data).to_bytes(4, "big")


def bitmaps(*parts: tuple[int, bytes], count: int | None = None) -> bytes:
    """A vector of 32-bit bitmaps under their keys."""
    number = len(parts) if count is None else count
    return number.to_bytes(8, "little") + b"".join(key.to_bytes(4, "little") + bitmap for key, bitmap in parts)


# one array container with the positions 1, 3 and 4: cookie, containers, (key, cardinality - 1), offset, values
ARRAY = bytes.fromhex("3a300000 01000000 0000 0200 10000000 0100 0300 0400")
EMPTY = bytes.fromhex("3a300000 00000000")


def test_blob_by_hand() -> None:
    vector = bytes.fromhex("010000000000000000000000") + ARRAY
    blob = bytes.fromhex("00000026") + MAGIC + vector + zlib.crc32(MAGIC + vector).to_bytes(4, "big")
    assert serialize([1, 3, 4]) == blob
    assert list(deserialize(blob)) == [1, 3, 4]


def test_length_is_big_endian_and_counts_magic_and_vector() -> None:
    blob = serialize(range(0, 4000, 3))
    assert int.from_bytes(blob[:4], "big") == len(blob) - 8


def test_magic_bytes() -> None:
    assert serialize([])[4:8].hex(" ").upper() == "D1 D3 39 64"


def test_vector_is_little_endian_count_then_keys_and_bitmaps_in_order() -> None:
    blob = serialize([2**32 + 7, 5])
    one = bytes.fromhex("3a300000 01000000 0000 0000 10000000")
    assert blob[8:-4] == bitmaps((0, one + b"\x05\x00"), (1, one + b"\x07\x00"))


def test_crc_is_big_endian_over_magic_and_vector() -> None:
    blob = serialize([9])
    assert blob[-4:] == zlib.crc32(blob[4:-4]).to_bytes(4, "big")


def test_empty_vector() -> None:
    blob = serialize([])
    assert blob == framed(bytes(8))
    assert list(deserialize(blob, cardinality=0)) == []


def test_positions_are_split_into_a_key_and_a_sub_position() -> None:
    positions = [0, 2**32 - 1, 2**32, 3 * 2**32 + 17, MAX_POSITION]
    blob = serialize(positions)
    assert int.from_bytes(blob[8:16], "little") == 4  # keys 0, 1, 3 and the highest
    assert list(deserialize(blob)) == positions


def test_runs_are_encoded_as_such_where_that_is_shorter() -> None:
    assert len(serialize(range(100_000))) < 60
    # a run of three is no shorter than its three values, and other writers leave it as it is
    assert serialize([0, 1, 2])[20:24] == bytes.fromhex("3a300000")
    assert serialize([0, 1, 2, 3])[20:22] == bytes.fromhex("3b30")


def test_serializing_does_not_change_the_bitmap() -> None:
    positions = BitMap64(range(1000))
    before = positions.serialize()
    serialize(positions)
    assert positions.serialize() == before


@pytest.mark.parametrize("positions", [FrozenBitMap64([1, 5]), (i for i in (5, 1)), {1, 5}, BitMap([1, 5])])
def test_positions_may_come_in_any_form(positions: Any) -> None:
    assert serialize(positions) == serialize([1, 5])


@pytest.mark.parametrize("positions", [[-1], [1.5], [2**64], "ab", [None], [MAX_POSITION + 1], None])
def test_positions_must_be_whole_numbers_from_zero(positions: Any) -> None:
    with pytest.raises(InvalidValue):
        serialize(positions)


POSITIONS = st.one_of(
    st.integers(0, 200),
    st.integers(0, 2**17),
    st.integers(2**32 - 10, 2**32 + 10),
    st.integers(0, MAX_POSITION),
)


@given(st.sets(POSITIONS, max_size=300), st.lists(st.tuples(POSITIONS, st.integers(0, 70_000)), max_size=3))
def test_positions_come_back_as_they_were(single: set[int], runs: list[tuple[int, int]]) -> None:
    positions = BitMap64(single)
    for start, length in runs:
        positions |= BitMap64(range(start, min(start + length, MAX_POSITION + 1)))
    found = deserialize(serialize(positions), cardinality=len(positions))
    assert found == positions


@given(st.sets(st.integers(0, 2**33), max_size=200))
def test_vector_is_the_portable_roaring_format(positions: set[int]) -> None:
    assert BitMap64.deserialize(serialize(positions)[8:-4]) == BitMap64(positions)


# reading what others write --------------------------------------------------------------------------------------


def test_empty_bitmaps_between_keys_are_read() -> None:
    """Java writes one for every key below the highest."""
    assert list(deserialize(framed(bitmaps((0, EMPTY), (1, EMPTY), (2, ARRAY))))) == [
        2 * 2**32 + 1,
        2 * 2**32 + 3,
        2 * 2**32 + 4,
    ]


def vectors_of(corpus_dir: Path, table: str) -> list[DataFile]:
    """The deletion vectors that a table's manifests list."""
    found = {}
    for path in sorted((corpus_dir / table / "metadata").glob("*-m*.avro")):
        for entry in read_manifest(path):
            if entry.data_file.is_deletion_vector:
                file = entry.data_file
                found[file.file_path, file.content_offset] = file
    return list(found.values())


TABLES = table_names("del_dv", "del_upgrade", "lineage_")


@pytest.mark.parametrize("table", TABLES)
def test_vectors_of_java_are_read_and_written_again_byte_for_byte(corpus_dir: Path, table: str) -> None:
    for file in vectors_of(corpus_dir, table):
        assert file.content_offset is not None
        assert file.content_size_in_bytes is not None
        data = local(corpus_dir, file.file_path).read_bytes()
        blob = data[file.content_offset : file.content_offset + file.content_size_in_bytes]
        positions = deserialize(blob, cardinality=file.record_count)
        assert serialize(positions) == blob
        assert serialize(list(positions)) == blob


@pytest.mark.parametrize("table", TABLES)
def test_vector_place_in_the_manifest_is_that_of_the_puffin_footer(corpus_dir: Path, table: str) -> None:
    for file in vectors_of(corpus_dir, table):
        payload = puffin.parse_footer(local(corpus_dir, file.file_path).read_bytes())
        blob = find_blob(payload, file)
        assert (blob.offset, blob.length) == (file.content_offset, file.content_size_in_bytes)
        assert (blob.snapshot_id, blob.sequence_number, blob.compression_codec) == (-1, -1, None)


def test_corpus_has_vectors() -> None:
    assert len(TABLES) >= 6


@pytest.mark.parametrize(
    ("table", "problem"),
    [("invalid_dv_crc", "checksum"), ("invalid_dv_magic", "magic"), ("invalid_dv_offset", "bytes")],
)
def test_broken_vectors_of_the_corpus_are_refused(corpus_dir: Path, table: str, problem: str) -> None:
    refused = 0
    for file in vectors_of(corpus_dir, table):
        data = local(corpus_dir, file.file_path).read_bytes()
        assert file.content_offset is not None
        assert file.content_size_in_bytes is not None
        blob = data[file.content_offset : file.content_offset + file.content_size_in_bytes]
        with pytest.raises(CorruptFile, match=problem):
            deserialize(blob, cardinality=file.record_count)
        refused += 1
    assert refused


def test_vector_with_a_wrong_place_in_the_manifest_is_found_out(corpus_dir: Path) -> None:
    (file,) = vectors_of(corpus_dir, "invalid_dv_offset")
    payload = puffin.parse_footer(local(corpus_dir, file.file_path).read_bytes())
    with pytest.raises(CorruptFile, match="no blob of"):
        find_blob(payload, file)


@settings(max_examples=25)
@given(st.sets(st.integers(0, 2**32 - 1), min_size=1, max_size=50), st.booleans())
def test_pyiceberg_reads_our_vectors(positions: set[int], more: bool) -> None:
    """PyIceberg 0.12 cannot list a vector that has nothing below 2**32, so there is always something."""
    positions |= {2**32 + 5} if more else set()
    written = puffin.write_file([deletion_vector_blob(positions, "a.parquet")])
    (found,) = deletion_vectors_from_puffin_file(PyIcebergPuffinFile(written.data))
    assert found.referenced_data_file == "a.parquet"
    assert set(found.to_vector().to_pylist()) == positions


# broken and hostile ---------------------------------------------------------------------------------------------


def test_cardinality_must_be_what_was_announced() -> None:
    with pytest.raises(CorruptFile, match="2 positions, expected 3"):
        deserialize(serialize([1, 2]), cardinality=3)


def test_positions_must_lie_within_the_data_file() -> None:
    assert len(deserialize(serialize([9]), row_count=10)) == 1
    with pytest.raises(CorruptFile, match="deletes row 10 of a file of 10 rows"):
        deserialize(serialize([10]), row_count=10)


@pytest.mark.parametrize("size", range(20))
def test_blob_that_is_too_short(size: int) -> None:
    with pytest.raises(CorruptFile):
        deserialize(serialize([1])[:size])


@pytest.mark.parametrize("length", [0, 33, 35, 2**31 - 1, 2**32 - 1])
def test_length_must_be_that_of_the_blob(length: int) -> None:
    blob = serialize([1])
    assert int.from_bytes(blob[:4], "big") == 34
    with pytest.raises(CorruptFile, match="content"):
        deserialize(length.to_bytes(4, "big") + blob[4:])


HOSTILE = {
    "count without bitmaps": bitmaps(count=1),
    "count beyond the bytes": bitmaps((0, ARRAY), count=2),
    "huge count": bitmaps((0, ARRAY), count=2**31),
    "largest count": bitmaps((0, ARRAY), count=2**64 - 1),
    "count below the bitmaps": bitmaps((0, ARRAY), count=0),
    "bytes behind the last bitmap": bitmaps((0, ARRAY)) + b"\0",
    "keys out of order": bitmaps((1, ARRAY), (0, ARRAY)),
    "a key twice": bitmaps((1, ARRAY), (1, ARRAY)),
    "negative position": bitmaps((2**31, ARRAY)),
    "cut off": bitmaps((0, ARRAY[:-1])),
    "no bitmap": bitmaps((0, b"")),
    "unknown cookie": bitmaps((0, bytes.fromhex("3c300000 01000000"))),
    "too many containers": bitmaps((0, bytes.fromhex("3a300000 01000100"))),
    "most containers": bitmaps((0, bytes.fromhex("3b30ffff"))),
    "values out of order": bitmaps((0, ARRAY[:-4] + bytes.fromhex("04000300"))),
    "a value twice": bitmaps((0, ARRAY[:-4] + bytes.fromhex("04000400"))),
    "run beyond the end": bitmaps((0, bytes.fromhex("3b300000 01 0000 0900 0100 faff 6400"))),
    "runs that overlap": bitmaps((0, bytes.fromhex("3b300000 01 0000 0900 0200 0000 0a00 0500 0a00"))),
    "no runs": bitmaps((0, bytes.fromhex("3b300000 01 0000 0900 0000"))),
    "bitset that miscounts": bitmaps((0, bytes.fromhex("3a300000 01000000 0000 ffff 10000000") + bytes(8192))),
}


@pytest.mark.parametrize("vector", HOSTILE.values(), ids=HOSTILE)
def test_hostile_vectors_are_refused(vector: bytes) -> None:
    with pytest.raises(CorruptFile):
        deserialize(framed(vector))


SEED = bytes(serialize([*range(100), *range(1000, 9000, 2), 2**33, *range(70_000, 140_000, 3)]))[8:-4]


@given(st.data())
def test_damaged_vectors_raise_only_errors_of_floe(data: st.DataObject) -> None:
    """With a right checksum, as an attacker would write it."""
    vector = bytearray(SEED)
    for _ in range(data.draw(st.integers(1, 4))):
        within = data.draw(st.sampled_from([60, len(vector)]))
        vector[data.draw(st.integers(0, within - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.none() | st.integers(0, len(vector)))
    try:
        found = deserialize(framed(bytes(vector[:cut])))
    except FloeError:
        return
    assert len(list(found)) == len(found)


@given(st.data())
def test_any_flipped_byte_is_noticed(data: st.DataObject) -> None:
    blob = bytearray(serialize([1, 5, 9, 2**33]))
    at = data.draw(st.integers(0, len(blob) - 1))
    blob[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptFile):
        deserialize(bytes(blob))


# in a Puffin file -----------------------------------------------------------------------------------------------


def vector_file(**changes: Any) -> DataFile:
    vector = DataFile(
        FileContent.POSITION_DELETES,
        "d.puffin",
        "puffin",
        (),
        record_count=2,
        file_size_in_bytes=300,
        content_offset=4,
        content_size_in_bytes=44,
        referenced_data_file="a.parquet",
    )
    return replace(vector, **changes)


def payload() -> FooterPayload:
    return puffin.write_file([deletion_vector_blob([0, 2], "a.parquet")]).payload


def test_vector_blob_properties() -> None:
    (blob,) = payload().blobs
    assert blob.properties == {"referenced-data-file": "a.parquet", "cardinality": "2"}
    assert (blob.type, blob.snapshot_id, blob.sequence_number) == ("deletion-vector-v1", -1, -1)
    assert blob.compression_codec is None
    assert blob.fields == (2147483645,)


def test_vector_is_found_at_its_place() -> None:
    assert find_blob(payload(), vector_file()) == payload().blobs[0]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"content_offset": 5}, "no blob of 44 bytes at 5"),
        ({"content_size_in_bytes": 43}, "no blob of 43 bytes at 4"),
        ({"referenced_data_file": "b.parquet"}, "another data file"),
        ({"record_count": 3}, "counts 3 deleted rows, the blob 2"),
    ],
)
def test_manifest_and_footer_must_agree(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(CorruptFile, match=problem):
        find_blob(payload(), vector_file(**changes))


def test_blob_of_another_type_is_no_vector() -> None:
    other = puffin.write_file([puffin.Blob("note", (1,), 1, 1, bytes(44))]).payload
    with pytest.raises(CorruptFile, match="not an uncompressed deletion vector"):
        find_blob(other, vector_file())
