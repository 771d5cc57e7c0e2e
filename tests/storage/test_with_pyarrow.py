"""Readers and writers of Parquet work on what a storage opens."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floe.storage.access import Access
from floe.storage.environment import deterministic_environment
from floe.storage.local import LocalStorage
from floe.storage.memory import MemoryStorage
from floe.storage.protocol import Storage
from floe.storage.wrappers import Retrying
from floe.testing.faults import Fault, FaultyStorage

TABLE = pa.table({"id": range(50_000), "name": [f"name-{n}" for n in range(50_000)]})


def storages(folder: Path) -> list[tuple[Storage, str]]:
    memory = MemoryStorage()
    flaky = FaultyStorage(memory, Fault.BEFORE, at=2, only={"read_range"})
    return [
        (LocalStorage(), str(folder)),
        (Access(LocalStorage(), roots=[str(folder)]), f"file:{folder}/access"),
        (memory, "memory:t"),
        (Retrying(flaky, environment=deterministic_environment()), "memory:u"),
    ]


@pytest.mark.parametrize("number", range(4))
def test_parquet_is_written_and_read(number: int, tmp_path: Path) -> None:
    storage, root = storages(tmp_path)[number]
    location = f"{root}/a.parquet"
    with storage.open_write(location) as sink:
        pq.write_table(TABLE, sink, row_group_size=10_000)
    assert sink.tell() == storage.stat(location).size
    with storage.open_read(location) as source:
        assert pq.read_table(source).equals(TABLE)
    with storage.open_read(location) as source:
        part = pq.ParquetFile(source).read_row_group(3, columns=["id"])
    assert part["id"].to_pylist() == list(range(30_000, 40_000))


def test_a_writer_that_fails_leaves_no_file(tmp_path: Path) -> None:
    storage = LocalStorage()
    with pytest.raises(OSError, match="BYTE_STREAM_SPLIT"), storage.open_write(f"{tmp_path}/a.parquet") as sink:
        pq.write_table(TABLE, sink, column_encoding={"name": "BYTE_STREAM_SPLIT"}, use_dictionary=False)
    assert list(tmp_path.iterdir()) == []
