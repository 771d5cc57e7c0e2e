"""Files of about the size that a table asks for, whatever the format and however well the rows compress."""

import numpy as np
import pyarrow as pa
import pytest

from floe.errors import FileAlreadyExists, InvalidUpdate, InvalidValue
from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.writers.rolling_writer import BufferedAppender, RollingWriter
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, STRING, Field
from floe.testing.faults import Fault, FaultyStorage
from helpers.written_rows import file_names, plain_rows, target_of

SCHEMA = Schema((Field(1, "id", LONG, required=True), Field(2, "text", STRING)))
FORMATS = ("parquet", "orc", "avro")


def batch(rows: int, *, random: bool, first: int = 0) -> pa.RecordBatch:
    numbers = np.random.default_rng(rows)
    texts = numbers.integers(0, 2**60, rows) if random else np.arange(rows) % 10
    return pa.record_batch(
        {"id": np.arange(first, first + rows), "text": [f"{number:020}" for number in texts]},
        schema=arrow_schema(SCHEMA),
    )


@pytest.mark.parametrize("random", [True, False], ids=["random", "repeating"])
@pytest.mark.parametrize("file_format", FORMATS)
def test_files_have_about_the_wanted_size(file_format: str, random: bool) -> None:
    target_size = 200_000
    stripes = {"write.orc.stripe-size-bytes": "65536"}
    properties = {"write.format.default": file_format, "write.target-file-size-bytes": str(target_size), **stripes}
    target = target_of(SCHEMA, properties=properties)
    writer = RollingWriter(target)
    for first in range(0, 100_000, 10_000):
        writer.write(batch(10_000, random=random, first=first))
    files = writer.close()
    sizes = [file.file_size_in_bytes for file in files]
    assert [row["id"] for row in plain_rows(target.storage, files, SCHEMA)] == list(range(100_000))
    assert [target.storage.stat(file.file_path).size for file in files] == sizes
    if random:
        assert len(files) > 3
    if len(files) > 1:
        assert max(sizes) < 1.6 * target_size
        assert min(sizes[:-1]) > 0.5 * target_size


def test_one_large_batch_is_cut_as_well_as_many_small_ones() -> None:
    target = target_of(SCHEMA, properties={"write.target-file-size-bytes": "200000"})
    writer = RollingWriter(target)
    writer.write(batch(100_000, random=True))
    sizes = [file.file_size_in_bytes for file in writer.close()]
    assert len(sizes) > 3
    assert max(sizes) < 1.5 * 200_000


def test_what_one_file_showed_serves_the_next() -> None:
    target = target_of(SCHEMA, properties={"write.target-file-size-bytes": "100000"})
    writer = RollingWriter(target)
    writer.write(batch(200_000, random=False))
    first, second, *_ = writer.close()
    assert len(first.split_offsets or ()) > 1, "the first row group showed how well rows compress"
    assert len(second.split_offsets or ()) == 1, "now it is known"
    assert 0.7 * 100_000 < second.file_size_in_bytes < 1.3 * 100_000


def test_delete_files_have_a_size_of_their_own() -> None:
    target = target_of(SCHEMA, properties={"write.delete.target-file-size-bytes": "12345"})
    assert (target.file_bytes, target.delete_file_bytes) == (512 * 2**20, 12345)


@pytest.mark.parametrize("name", ["write.target-file-size-bytes", "write.delete.target-file-size-bytes"])
def test_a_size_is_above_zero(name: str) -> None:
    target = target_of(SCHEMA, properties={name: "0"})
    with pytest.raises(InvalidUpdate, match=f"{name} must be a whole number of at least 1, found '0'"):
        _ = (target.file_bytes, target.delete_file_bytes)


def test_nothing_is_written_without_rows() -> None:
    target = target_of(SCHEMA)
    writer = RollingWriter(target)
    writer.write(batch(0, random=True))
    assert writer.close() == []
    assert file_names(target.storage) == []


def test_memory_can_be_freed() -> None:
    writer = RollingWriter(target_of(SCHEMA))
    writer.write(batch(1000, random=True))
    assert writer.buffered_bytes > 20_000
    writer.flush()
    assert writer.buffered_bytes == 0
    (file,) = writer.close()
    assert file.record_count == 1000


def test_parquet_gathers_and_avro_does_not() -> None:
    for file_format, gathers in (("parquet", True), ("avro", False)):
        writer = RollingWriter(target_of(SCHEMA, properties={"write.format.default": file_format}))
        writer.write(batch(10, random=True))
        assert isinstance(writer._file, BufferedAppender) is gathers
        writer.abort()


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.LOST_ANSWER, Fault.LOST_REQUEST])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_after_an_error_nothing_is_left(fault: Fault, at: int) -> None:
    storage = FaultyStorage(target_of(SCHEMA).storage, fault, at=at, only={"close_write"})
    target = target_of(SCHEMA, properties={"write.target-file-size-bytes": "50000"}, storage=storage)
    writer = RollingWriter(target)
    with pytest.raises(Exception, match="a fault was injected"):
        writer.write(batch(100_000, random=True))
    assert writer.abort() == []
    assert file_names(storage.storage) == []


def test_a_null_in_a_required_column_leaves_nothing() -> None:
    target = target_of(SCHEMA)
    writer = RollingWriter(target)
    writer.write(batch(10, random=True))
    with pytest.raises(InvalidValue, match="null in a required column"):
        writer.write(pa.record_batch({"id": pa.array([None], pa.int64()), "text": ["a"]}))
    writer.abort()
    assert file_names(target.storage) == []


def test_a_file_of_the_same_name_is_not_overwritten() -> None:
    target = target_of(SCHEMA)
    other = target_of(SCHEMA, storage=target.storage)  # the same ids, as tests have them
    target.storage.write(other.new_location("parquet"), b"somebody's")
    with pytest.raises(FileAlreadyExists):
        RollingWriter(target).write(batch(1, random=True))


def test_properties_of_parquet_have_an_effect() -> None:
    sizes = {}
    for codec in ("uncompressed", "zstd", "gzip"):
        target = target_of(SCHEMA, properties={"write.parquet.compression-codec": codec})
        writer = RollingWriter(target)
        writer.write(batch(10_000, random=True))
        (file,) = writer.close()
        sizes[codec] = file.file_size_in_bytes
    assert sizes["zstd"] < sizes["uncompressed"]
    assert sizes["gzip"] != sizes["zstd"]
    target = target_of(SCHEMA, properties={"write.parquet.row-group-limit": "1000"})
    writer = RollingWriter(target)
    writer.write(batch(10_000, random=True))
    (file,) = writer.close()
    assert len(file.split_offsets or ()) == 10


def test_overrides_take_the_place_of_properties() -> None:
    target = target_of(SCHEMA, properties={"write.format.default": "orc"})
    override = type(target).of(
        target.metadata, target.storage, target.environment, overrides={"write.format.default": "AVRO"}
    )
    assert (target.file_format, target.delete_format, override.file_format) == ("orc", "orc", "avro")
    with pytest.raises(InvalidUpdate, match="'lance' is not a format of data files"):
        _ = target_of(SCHEMA, properties={"write.format.default": "lance"}).file_format
