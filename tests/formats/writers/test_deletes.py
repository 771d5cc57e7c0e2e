"""Deletes written: by position for version 2, as vectors for version 3, by value for both."""

import pyarrow as pa
import pytest
from pyroaring import BitMap64

from floe.errors import FloeError, InvalidInput, InvalidUpdate, UnsupportedFeature
from floe.formats.puffin import read_deletion_vector
from floe.formats.writers import write_deletion_vectors, write_equality_deletes, write_position_deletes
from floe.spec.codecs.deletion_vectors import find_blob
from floe.spec.codecs.puffin import parse_footer
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.partitioning.partition_spec import UNPARTITIONED
from floe.spec.schemas.metadata_columns import position_delete_schema
from floe.spec.schemas.schema import Schema
from floe.spec.types import DOUBLE, LONG, STRING, Field
from floe.testing.faults import Fault, FaultyStorage
from helpers.written_rows import file_names, read_file, target_of

SCHEMA = Schema((Field(1, "id", LONG), Field(2, "part", LONG), Field(3, "note", STRING), Field(4, "x", DOUBLE)))


def data_file(name: str, part: int | None = None, rows: int = 100, spec_id: int = 0) -> DataFile:
    partition = () if part is None else (part,)
    path = f"memory:wh/t/data/{name}.parquet"
    return DataFile(FileContent.DATA, path, "parquet", partition, rows, 1000, spec_id=spec_id)


# by position ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_each_data_file_has_deletes_of_its_own(file_format: str) -> None:
    target = target_of(SCHEMA, partition_by=["part"], properties={"write.delete.format.default": file_format})
    spec = target.spec
    deleted = [(data_file("b", 1), spec, BitMap64([5, 3])), (data_file("a", 2), spec, BitMap64([0, 99]))]
    files = write_position_deletes(target, deleted)
    assert [(file.partition, file.record_count, file.file_format) for file in files] == [
        ((1,), 2, file_format),
        ((2,), 2, file_format),
    ]
    for file, (data, _, positions) in zip(files, deleted, strict=True):
        assert file.content == FileContent.POSITION_DELETES
        assert file.referenced_data_file == data.file_path
        assert file.sort_order_id is None
        assert "-deletes." in file.file_path
        rows = read_file(target.storage, file, position_delete_schema()).to_pylist()
        assert [(row["file_path"], row["pos"]) for row in rows] == [(data.file_path, pos) for pos in sorted(positions)]


def test_deletes_of_a_partition_share_a_file_sorted_by_path_and_position() -> None:
    target = target_of(SCHEMA, partition_by=["part"], properties={"write.delete.granularity": "partition"})
    spec = target.spec
    deletes = [("b", 1, [7, 1]), ("c", 2, [4]), ("a", 1, [9, 8])]
    files = write_position_deletes(target, [(data_file(n, part), spec, BitMap64(pos)) for n, part, pos in deletes])
    assert [(file.partition, file.record_count, file.referenced_data_file) for file in files] == [
        ((1,), 4, None),
        ((2,), 1, data_file("c").file_path),
    ]
    rows = read_file(target.storage, files[0], position_delete_schema()).to_pylist()
    assert [(row["file_path"][-9:], row["pos"]) for row in rows] == [
        ("a.parquet", 8),
        ("a.parquet", 9),
        ("b.parquet", 1),
        ("b.parquet", 7),
    ]


def test_positions_of_a_file_that_comes_twice_are_one_set() -> None:
    target = target_of(SCHEMA)
    twice = [(data_file("a"), UNPARTITIONED, BitMap64([1, 2])), (data_file("a"), UNPARTITIONED, BitMap64([2, 3]))]
    (file,) = write_position_deletes(target, twice)
    assert read_file(target.storage, file, position_delete_schema())["pos"].to_pylist() == [1, 2, 3]


def test_no_positions_no_file() -> None:
    target = target_of(SCHEMA)
    assert write_position_deletes(target, [(data_file("a"), UNPARTITIONED, BitMap64())]) == []
    assert file_names(target.storage) == []


def test_large_deletes_are_rolled() -> None:
    target = target_of(SCHEMA, properties={"write.delete.target-file-size-bytes": "20000"})
    positions = BitMap64(n * n % 1_000_003 for n in range(100_000))
    files = write_position_deletes(target, [(data_file("a", rows=10**7), UNPARTITIONED, positions)])
    assert len(files) > 1
    assert sum(file.record_count for file in files) == len(positions)


@pytest.mark.parametrize("version", [1, 3])
def test_only_version_2_has_position_deletes(version: int) -> None:
    target = target_of(SCHEMA, format_version=version)
    with pytest.raises(UnsupportedFeature, match=f"format version {version} cannot have new position deletes"):
        write_position_deletes(target, [(data_file("a"), UNPARTITIONED, BitMap64([1]))])


def test_an_unknown_granularity_is_refused() -> None:
    target = target_of(SCHEMA, properties={"write.delete.granularity": "row"})
    with pytest.raises(InvalidUpdate, match=r"write\.delete\.granularity must be one of partition, file, found 'row'"):
        write_position_deletes(target, [(data_file("a"), UNPARTITIONED, BitMap64([1]))])


def test_position_deletes_that_fail_leave_nothing() -> None:
    storage = FaultyStorage(target_of(SCHEMA).storage, Fault.LOST_ANSWER, at=2, only={"close_write"})
    target = target_of(SCHEMA, storage=storage)
    with pytest.raises(FloeError, match="a fault was injected"):
        write_position_deletes(target, [(data_file(name), UNPARTITIONED, BitMap64([1])) for name in "abc"])
    assert file_names(storage.storage) == []


# vectors --------------------------------------------------------------------------------------------------------------


def test_many_vectors_share_a_puffin_file() -> None:
    target = target_of(SCHEMA, partition_by=["part"], format_version=3)
    positions_by_name = {name: BitMap64(range(n, 100, 7)) for n, name in enumerate("abcd")}
    deleted = [(data_file(name, n), target.spec, positions_by_name[name]) for n, name in enumerate(positions_by_name)]
    vectors = write_deletion_vectors(target, deleted)
    assert len({vector.file_path for vector in vectors}) == 1
    footer = parse_footer(target.storage.read(vectors[0].file_path))
    for vector, (data, _, positions) in zip(vectors, deleted, strict=True):
        assert vector.is_deletion_vector
        assert (vector.partition, vector.record_count) == (data.partition, len(positions))
        assert vector.referenced_data_file == data.file_path
        assert read_deletion_vector(target.storage, vector) == positions
        find_blob(footer, vector)  # manifest and footer say the same


def test_vectors_are_spread_over_files_of_the_wanted_size() -> None:
    target = target_of(SCHEMA, format_version=3, properties={"write.delete.target-file-size-bytes": "100"})
    vectors = write_deletion_vectors(target, [(data_file(n), UNPARTITIONED, BitMap64([1, 50])) for n in "abcdef"])
    assert len({vector.file_path for vector in vectors}) == 2


def test_the_vector_so_far_is_merged_if_it_is_given() -> None:
    target = target_of(SCHEMA, format_version=3)
    first = write_deletion_vectors(target, [(data_file(n), UNPARTITIONED, BitMap64([1, 2])) for n in "ab"])
    before = {vector.referenced_data_file or "": vector for vector in first}
    (second,) = write_deletion_vectors(target, [(data_file("b"), UNPARTITIONED, BitMap64([2, 9]))], existing=before)
    assert list(read_deletion_vector(target.storage, second)) == [1, 2, 9]


def test_vectors_that_cannot_be() -> None:
    target = target_of(SCHEMA, format_version=3)
    with pytest.raises(InvalidInput, match=r"one deletion vector \(data file: memory:wh/t/data/a.parquet"):
        write_deletion_vectors(target, [(data_file("a"), UNPARTITIONED, BitMap64([1]))] * 2)
    with pytest.raises(InvalidInput, match="row 100 cannot be deleted: the file has 100 rows"):
        write_deletion_vectors(target, [(data_file("a"), UNPARTITIONED, BitMap64([100]))])
    with pytest.raises(UnsupportedFeature, match="format version 2 has no deletion vectors"):
        write_deletion_vectors(target_of(SCHEMA), [(data_file("a"), UNPARTITIONED, BitMap64([1]))])
    assert file_names(target.storage) == []


def test_vectors_that_fail_leave_nothing() -> None:
    storage = FaultyStorage(target_of(SCHEMA).storage, Fault.LOST_ANSWER, at=2, only={"write"})
    properties = {"write.delete.target-file-size-bytes": "1"}
    target = target_of(SCHEMA, format_version=3, properties=properties, storage=storage)
    with pytest.raises(FloeError, match="a fault was injected"):
        write_deletion_vectors(target, [(data_file(n), UNPARTITIONED, BitMap64([1])) for n in "abc"])
    assert file_names(storage.storage) == []


# by value -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_equality_deletes_go_to_their_partitions(file_format: str) -> None:
    properties = {"write.delete.format.default": file_format}
    target = target_of(SCHEMA, partition_by=["part"], properties=properties)
    keys = pa.record_batch({"note": ["x", "y", "z"], "part": [1, 2, 1], "id": [10, 20, 30]})
    files = write_equality_deletes(target, [keys], ["part", "id"])
    assert {(file.partition, file.record_count, file.equality_ids) for file in files} == {
        ((1,), 2, (2, 1)),
        ((2,), 1, (2, 1)),
    }
    stored = Schema(SCHEMA.fields[:2])
    rows = [read_file(target.storage, file, stored).to_pylist() for file in files]
    assert rows == [[{"id": 10, "part": 1}, {"id": 30, "part": 1}], [{"id": 20, "part": 2}]]
    assert all(file.content == FileContent.EQUALITY_DELETES for file in files)


def test_keys_that_do_not_tell_the_partition() -> None:
    target = target_of(SCHEMA, partition_by=["bucket(4, part)"])
    keys = pa.record_batch({"id": [1]})
    with pytest.raises(InvalidInput, match="partition of the rows to delete: part_bucket;"):
        write_equality_deletes(target, [keys], ["id"])
    with pytest.raises(InvalidInput, match="unless the table has a partition spec without fields"):
        write_equality_deletes(target, [keys], ["id"], everywhere=True)


@pytest.mark.parametrize(("columns", "why"), [([], "at least one column"), (["x"], "cannot compare values of type d")])
def test_columns_that_cannot_be_compared(columns: list[str], why: str) -> None:
    with pytest.raises(FloeError, match=why):
        write_equality_deletes(target_of(SCHEMA), [], columns)


def test_version_1_has_no_equality_deletes() -> None:
    with pytest.raises(UnsupportedFeature, match="format version 1"):
        write_equality_deletes(target_of(SCHEMA, format_version=1), [], ["id"])
