"""Puffin files through the registry: deletion vectors as manifests list them, statistics as metadata does."""

from contextlib import suppress
from pathlib import Path

import pytest

from floe.errors import CorruptFile, FileAlreadyExists, InvalidInput, NoSuchFile
from floe.formats.puffin import read_deletion_vector
from floe.formats.registry import default_registry
from floe.spec.codecs.deletion_vectors import find_blob
from floe.spec.codecs.puffin import THETA_SKETCH, Blob
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.manifests.manifest_checks import check_data_file
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import IDENTITY
from floe.storage.local import LocalStorage
from floe.storage.memory import MemoryStorage

FORMATS = default_registry()
SPEC = PartitionSpec((PartitionField((1,), 1000, "day", IDENTITY),), spec_id=4)


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


def test_vectors_are_described_as_manifests_list_them(storage: MemoryStorage) -> None:
    data = DataFile(FileContent.DATA, "memory:t/b.parquet", "parquet", (7,), 100, 999, spec_id=4)
    with FORMATS.write_puffin(storage, "memory:t/d.puffin") as file:
        file.add_vector("memory:t/a.parquet", range(10, 2000))
        file.add_vector(data, [0, 99], spec=SPEC)
    first, second = file.close().vectors()
    assert (first.referenced_data_file, first.record_count, first.partition, first.spec_id) == (
        "memory:t/a.parquet",
        1990,
        (),
        0,
    )
    assert (second.referenced_data_file, second.partition, second.spec_id) == ("memory:t/b.parquet", (7,), 4)
    reader = FORMATS.read_puffin(storage, "memory:t/d.puffin", file_size=first.file_size_in_bytes)
    assert reader.properties == {"created-by": "Floe"}
    assert {path: list(vector)[-1] for path, vector in reader.vectors().items()} == {
        "memory:t/a.parquet": 1999,
        "memory:t/b.parquet": 99,
    }
    for vector in (first, second):
        check_data_file(vector)
        assert vector.is_deletion_vector
        assert vector.file_size_in_bytes == len(storage.read("memory:t/d.puffin"))
        assert find_blob(reader.footer, vector).length == vector.content_size_in_bytes
        assert list(read_deletion_vector(storage, vector)) == list(reader.vectors()[vector.referenced_data_file or ""])


def test_statistics_are_described_as_metadata_lists_them(storage: MemoryStorage) -> None:
    sketch = Blob(THETA_SKETCH, (3,), 77, 2, b"sketch" * 1000, "zstd", {"ndv": "42"})
    with FORMATS.write_puffin(storage, "memory:t/s.stats", properties={"created-by": "me"}) as file:
        file.add(sketch)
    statistics = file.close().statistics(77)
    assert (statistics.snapshot_id, statistics.statistics_path) == (77, "memory:t/s.stats")
    assert statistics.file_size_in_bytes == len(storage.read("memory:t/s.stats"))
    (blob,) = statistics.blob_metadata
    assert (blob.type, blob.fields, blob.snapshot_id, blob.sequence_number) == (THETA_SKETCH, (3,), 77, 2)
    assert blob.properties == {"ndv": "42"}
    reader = FORMATS.read_puffin(storage, "memory:t/s.stats")
    assert reader.properties["created-by"] == "me"
    assert [reader.read(blob) for blob in reader.blobs] == [sketch.data]
    assert reader.vectors() == {}
    with pytest.raises(CorruptFile, match=r"memory:t/s\.stats"):
        reader.read(reader.blobs[0], max_size=100)


def test_a_long_footer_is_read_whole(storage: MemoryStorage) -> None:
    with FORMATS.write_puffin(storage, "memory:many") as file:
        for number in range(500):
            file.add(Blob("note", (number,), 1, 1, str(number).encode()))
    reader = FORMATS.read_puffin(storage, "memory:many")
    assert [reader.read(blob) for blob in reader.blobs] == [str(number).encode() for number in range(500)]


def test_files_appear_whole_or_not_at_all(storage: MemoryStorage) -> None:
    with suppress(KeyError), FORMATS.write_puffin(storage, "memory:a") as file:
        file.add_vector("x", [1])
        raise KeyError
    assert not storage.exists("memory:a")
    with pytest.raises(ValueError, match="closed"):
        file.add_vector("y", [1])
    with FORMATS.write_puffin(storage, "memory:a") as file:
        file.add_vector("x", [1])
        assert not storage.exists("memory:a")
        with pytest.raises(InvalidInput, match="one deletion vector"):
            file.add_vector("x", [2])
    assert file.close() is file.close()
    with pytest.raises(FileAlreadyExists):
        FORMATS.write_puffin(storage, "memory:a").close()
    FORMATS.write_puffin(storage, "memory:a", overwrite=True).close()
    assert FORMATS.read_puffin(storage, "memory:a").blobs == ()


@pytest.mark.parametrize("data", [b"", b"PFA1", b"x" * 100, b"PFA1PFA1{}\x00\x00\x00\x7f\0\0\0\0PFA1"])
def test_broken_files_are_named(storage: MemoryStorage, data: bytes) -> None:
    storage.write("memory:broken.puffin", data)
    with pytest.raises(CorruptFile, match=r"memory:broken\.puffin"):
        FORMATS.read_puffin(storage, "memory:broken.puffin").vectors()
    with pytest.raises(NoSuchFile):
        FORMATS.read_puffin(storage, "memory:not-there").vectors()


def test_java_wrote_these(corpus_dir: Path) -> None:
    """Every sound Puffin file of the corpus: its vectors have the rows that its properties count."""
    files = [path for path in sorted(corpus_dir.rglob("*.puffin")) if "/invalid_" not in str(path)]
    assert files
    storage = LocalStorage()
    for path in files:
        reader = FORMATS.read_puffin(storage, str(path))
        assert reader.properties["created-by"].startswith("Apache Iceberg")
        counts = [int(blob.properties["cardinality"]) for blob in reader.blobs]
        assert [len(vector) for vector in reader.vectors().values()] == counts
