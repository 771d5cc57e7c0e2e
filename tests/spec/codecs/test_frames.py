"""LZ4 and Zstandard frames with the size of their content, checked against pyarrow's and zstandard's own codecs."""

import cramjam
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, strategies as st

from floe.errors import CorruptFile, FloeError
from floe.spec.codecs.puffin import compress_lz4, compress_zstd, decompress_lz4, decompress_zstd

CODECS = {"lz4": (compress_lz4, decompress_lz4), "zstd": (compress_zstd, decompress_zstd)}
CONTENT = b"puffin" * 1000

both = pytest.mark.parametrize("codec", CODECS)


@both
@given(content=st.binary(max_size=2000), repeat=st.integers(1, 50))
def test_what_is_compressed_comes_back(codec: str, content: bytes, repeat: int) -> None:
    compress, decompress = CODECS[codec]
    content *= repeat
    assert decompress(compress(content), len(content)) == content


@both
@given(content=st.binary(max_size=2000))
def test_other_implementations_read_our_frames(codec: str, content: bytes) -> None:
    compress, _ = CODECS[codec]
    assert pa.Codec(codec).decompress(compress(content), len(content)).to_pybytes() == content


@given(content=st.binary(max_size=2000))
def test_zstd_frames_of_other_implementations_are_read(content: bytes) -> None:
    assert decompress_zstd(zstandard.ZstdCompressor().compress(content), len(content)) == content
    assert decompress_zstd(pa.Codec("zstd").compress(content).to_pybytes(), len(content)) == content


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 65535, 65536, 65791, 65792, 70000, 300_000])
def test_content_size_is_present_in_the_frame(size: int) -> None:
    """Zstandard stores it in 1, 2, 4 or 8 bytes; that of two bytes counts from 256."""
    content = bytes(size)
    assert zstandard.get_frame_parameters(compress_zstd(content)).content_size == size
    assert decompress_zstd(compress_zstd(content), size) == content
    frame = compress_lz4(content)
    assert frame[4] & 0x08
    assert int.from_bytes(frame[6:14], "little") == size


def test_lz4_frame_by_hand() -> None:
    """Magic, flags (version 1, independent blocks, content size), block size, content size, checksum of these."""
    head = bytes.fromhex("04224d18 68 40 0300000000000000")
    # one uncompressed block (highest bit of its size set) and the end mark
    blocks = bytes.fromhex("03000080") + b"abc" + bytes(4)
    frames = [head + bytes([checksum]) + blocks for checksum in range(256)]
    (right,) = (frame for frame in frames if accepted_by_pyarrow(frame))
    assert decompress_lz4(right, 100) == b"abc"


def accepted_by_pyarrow(frame: bytes) -> bool:
    try:
        return pa.Codec("lz4").decompress(frame, 3).to_pybytes() == b"abc"
    except OSError:
        return False


@pytest.mark.parametrize("content", [b"", b"abc", CONTENT])
def test_content_size_is_added_where_a_compressor_leaves_it_out(
    content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = zstandard.ZstdCompressor(write_content_size=False).compress
    monkeypatch.setattr(cramjam.zstd, "compress", without)
    frame = compress_zstd(content)
    assert zstandard.get_frame_parameters(frame).content_size == len(content)
    assert zstandard.ZstdDecompressor().decompress(frame) == content
    assert decompress_zstd(frame, len(content)) == content


@both
def test_frame_that_swells_beyond_the_limit_is_refused(codec: str) -> None:
    compress, decompress = CODECS[codec]
    bomb = compress(bytes(50_000_000))
    assert len(bomb) < 300_000
    with pytest.raises(CorruptFile, match="at most 1000000"):
        decompress(bomb, 1_000_000)


@both
def test_frame_that_lies_about_its_size_is_refused(codec: str) -> None:
    compress, decompress = CODECS[codec]
    frame = bytearray(compress(CONTENT))
    at = 6 if codec == "lz4" else 5
    for size in (len(CONTENT) - 256 - 1, len(CONTENT) - 256 + 1):
        frame[at : at + 2] = size.to_bytes(2, "little")
        with pytest.raises(CorruptFile):
            decompress(bytes(frame), 10**6)
    frame[at : at + 2] = b"\xff\xff"
    with pytest.raises(CorruptFile):
        decompress(bytes(frame), 10**6)


def test_frame_without_content_size_is_refused() -> None:
    with pytest.raises(CorruptFile, match="without the size"):
        decompress_lz4(pa.Codec("lz4").compress(CONTENT).to_pybytes(), 10**6)
    stream = zstandard.ZstdCompressor(write_content_size=False).compress(CONTENT)
    with pytest.raises(CorruptFile, match="without the size"):
        decompress_zstd(stream, 10**6)


@both
def test_only_one_frame_is_read(codec: str) -> None:
    compress, decompress = CODECS[codec]
    with pytest.raises(CorruptFile):
        decompress(compress(b"one") + compress(b"two"), 100)
    with pytest.raises(CorruptFile):
        decompress(compress(CONTENT) + b"more", 10**6)


@both
@pytest.mark.parametrize("junk", [b"", b"x", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd", b"not a frame at all"])
def test_junk_is_not_a_frame(codec: str, junk: bytes) -> None:
    with pytest.raises(CorruptFile):
        CODECS[codec][1](junk, 100)


@both
@given(data=st.data())
def test_damaged_frames_raise_only_errors_of_floe(codec: str, data: st.DataObject) -> None:
    compress, decompress = CODECS[codec]
    frame = bytearray(compress(CONTENT + bytes(range(256))))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(frame)))
    for damaged in (bytes(frame), bytes(frame[:cut])):
        try:
            decompress(damaged, 10**6)
        except FloeError:
            continue
