"""fsspec's file systems keep the protocol's promises, but for exclusive creation, which they refuse."""

import uuid
from pathlib import Path

import pytest

from floe.errors import StorageUnavailable, UnsupportedFeature
from floe.storage.fsspec_storage import FsspecStorage
from floe.storage.protocol import Storage
from floe.storage.schemes import open_storage
from floe.storage.wrappers import Retrying
from floe.testing.storage import StorageConformance

pytest.importorskip("fsspec", reason="fsspec is not installed: pip install 'floe[fsspec]'")


class TestFsspecLocal(StorageConformance):
    @pytest.fixture
    def storage(self) -> Storage:
        return FsspecStorage("file")

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return f"file:{tmp_path}"


class TestFsspecMemory(StorageConformance):
    @pytest.fixture
    def storage(self) -> Storage:
        return FsspecStorage("memory")

    @pytest.fixture
    def root(self) -> str:
        return f"memory://{uuid.uuid4()}"


def test_streams_leave_no_temporary_files(tmp_path: Path) -> None:
    storage = FsspecStorage("file")
    storage.write(f"{tmp_path}/a/b", b"abc")
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "b"]


def test_unknown_schemes_are_told() -> None:
    with pytest.raises(UnsupportedFeature, match="nonesuch"):
        open_storage("nonesuch://x/y")


def test_schemes_without_a_storage_of_their_own_go_to_fsspec() -> None:
    storage = open_storage("data://x/y")
    assert isinstance(storage, Retrying)
    assert isinstance(storage.storage, FsspecStorage)


def test_other_failures_of_a_deletion_are_told(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    storage = FsspecStorage("file")
    outcomes = storage.delete_many([str(tmp_path / "folder"), str(tmp_path / "missing"), "s3://bucket/a"])
    assert [outcome.deleted for outcome in outcomes] == [False, True, False]
    assert (tmp_path / "folder").exists()


class _Failing:
    """A file system behind which something breaks."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def _strip_protocol(self, path: str) -> str:
        return path

    def info(self, path: str) -> dict[str, object]:
        return {"type": "file", "size": 5, "LastModified": "2024-01-02T03:04:05+00:00"}

    def cat_file(self, path: str, start: int = 0, end: int = 0) -> bytes:
        raise self.error

    def rm_file(self, path: str) -> None:
        raise self.error


@pytest.fixture
def broken() -> FsspecStorage:
    storage = FsspecStorage("memory")
    storage._files = _Failing(ConnectionResetError("peer"))
    return storage


def test_errors_without_a_number_are_recognised(broken: FsspecStorage) -> None:
    with pytest.raises(StorageUnavailable, match="connection reset error"):
        broken.read("memory:a")
    with pytest.raises(StorageUnavailable):
        broken.read_range("memory:a", 0, 5)
    (outcome,) = broken.delete_many(["memory:a"])
    assert isinstance(outcome.error, StorageUnavailable)


def test_a_range_behind_the_end_is_empty_even_where_that_is_an_error(broken: FsspecStorage) -> None:
    assert broken.read_range("memory:a", 5, 1) == b""


def test_times_come_in_many_forms(broken: FsspecStorage) -> None:
    assert broken.stat("memory:a").modified_ms == 1_704_164_645_000
