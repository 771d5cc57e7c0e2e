"""Conformance tests for implementations of the protocol `Storage`.

Subclass `StorageConformance` in a test module, with two pytest fixtures: `storage`, and `root`, the location of an
empty folder for each test.

```python
class TestMine(StorageConformance):
    @pytest.fixture
    def storage(self):
        return MyStorage()

    @pytest.fixture
    def root(self, storage):
        return "mine://bucket/" + uuid.uuid4().hex
```
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from floe.errors import FileAlreadyExists, FileTooLarge, InvalidInput, NoSuchFile, StorageError, UnsupportedFeature
from floe.storage.locations import join
from floe.storage.protocol import Storage

_NAMES = (
    "plain.parquet",
    "with space.parquet",
    "ts_day=2020-01-01/ts=2020-01-01T00%3A00/a.parquet",
    "percent%20and%2Fslash",
    "plus+and&and=and?and#hash",
    "ünïcode-数据-😀",
    "quote'and\"double",
    "~tilde-[brackets]-{braces}",
    "_underscore/.hidden",
)
"""Names that engines write, or that some systems encode or interpret."""


class _raises:
    """A context manager that expects an error of a class, with a text in its message."""

    def __init__(self, kind: type[Exception], text: str = "") -> None:
        self._kind, self._text = kind, text

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is None:
            raise AssertionError(f"expected {self._kind.__name__}, but nothing was raised")
        return issubclass(kind, self._kind) and self._text in str(error)


class StorageConformance:
    """The conformance tests of a storage, as test methods for pytest."""

    def test_what_was_written_is_read(self, storage: Storage, root: str) -> None:
        """Files are read as they were written, from empty ones to ones larger than any buffer."""
        for size in (0, 1, 70_000, 3_000_000):
            data = bytes(range(251)) * (size // 251 + 1)
            storage.write(join(root, f"file-{size}"), data[:size])
            assert storage.read(join(root, f"file-{size}")) == data[:size]

    def test_writes_take_any_block_of_bytes(self, storage: Storage, root: str) -> None:
        """Writes take bytes, bytearrays and memoryviews."""
        storage.write(join(root, "a"), bytearray(b"abc"))
        storage.write(join(root, "b"), memoryview(b"xabcx")[1:4])
        assert storage.read(join(root, "a")) == storage.read(join(root, "b")) == b"abc"

    def test_names_are_stored_exactly(self, storage: Storage, root: str) -> None:
        """Names are stored as they are, without encoding."""
        for number, name in enumerate(_NAMES):
            storage.write(join(root, name), b"%d" % number)
        for number, name in enumerate(_NAMES):
            assert storage.read(join(root, name)) == b"%d" % number, name
            assert storage.stat(join(root, name)).size == 1, name
        assert sorted(info.location for info in storage.list(root)) == sorted(join(root, name) for name in _NAMES)
        assert all(outcome.deleted for outcome in storage.delete_many(join(root, name) for name in _NAMES))
        assert list(storage.list(root)) == []

    def test_ranges(self, storage: Storage, root: str) -> None:
        """A range is exact inside of the file, shorter at its end, and empty behind it."""
        storage.write(join(root, "a"), b"0123456789")
        read = storage.read_range
        assert read(join(root, "a"), 0, 4) == b"0123"
        assert read(join(root, "a"), 3, 4) == b"3456"
        assert read(join(root, "a"), 8, 100) == b"89"
        assert read(join(root, "a"), 10, 5) == b""
        assert read(join(root, "a"), 1000, 5) == b""
        assert read(join(root, "a"), 5, 0) == b""
        for offset, length in ((-1, 5), (0, -5)):
            with _raises(InvalidInput):
                read(join(root, "a"), offset, length)

    def test_ranges_of_an_empty_file(self, storage: Storage, root: str) -> None:
        """Ranges of an empty file are empty, and no error."""
        storage.write(join(root, "empty"), b"")
        assert storage.read_range(join(root, "empty"), 0, 10) == b""
        with storage.open_read(join(root, "empty")) as file:
            assert file.read() == b""

    def test_missing_files_raise(self, storage: Storage, root: str) -> None:
        """Each way of reading a missing file raises `NoSuchFile` with its location."""
        missing = join(root, "nothing/here")
        readers: list[Callable[[], object]] = [
            lambda: storage.read(missing),
            lambda: storage.read_range(missing, 0, 1),
            lambda: storage.read_range(missing, 0, 0),
            lambda: storage.open_read(missing).read(1),
            lambda: storage.stat(missing),
        ]
        for reader in readers:
            with _raises(NoSuchFile, text="nothing/here"):
                reader()
        assert not storage.exists(missing)

    def test_a_folder_is_not_a_file(self, storage: Storage, root: str) -> None:
        """The folder of a file does not exist as a file."""
        storage.write(join(root, "folder/a"), b"a")
        assert not storage.exists(join(root, "folder"))
        with _raises(NoSuchFile):
            storage.stat(join(root, "folder"))
        with _raises(NoSuchFile):
            storage.read(join(root, "folder"))

    def test_files_over_the_limit_raise(self, storage: Storage, root: str) -> None:
        """A file with more than `max_bytes` raises `FileTooLarge`."""
        storage.write(join(root, "a"), b"12345")
        assert storage.read(join(root, "a"), max_bytes=5) == b"12345"
        with _raises(FileTooLarge):
            storage.read(join(root, "a"), max_bytes=4)

    def test_stat_and_exists(self, storage: Storage, root: str) -> None:
        """`stat` has the size, the time of modification and the location as it was passed."""
        storage.write(join(root, "a"), b"12345")
        info = storage.stat(join(root, "a"))
        assert (info.location, info.size) == (join(root, "a"), 5)
        assert info.modified_ms > 0
        assert storage.exists(join(root, "a"))

    def test_writes_do_not_replace_unless_asked(self, storage: Storage, root: str) -> None:
        """A write of an existing file raises `FileAlreadyExists`, or replaces it with `overwrite`."""
        storage.write(join(root, "a"), b"one")
        with _raises(FileAlreadyExists):
            storage.write(join(root, "a"), b"two")
        with _raises(FileAlreadyExists), storage.open_write(join(root, "a")) as file:
            file.write(b"two")
        assert storage.read(join(root, "a")) == b"one"
        storage.write(join(root, "a"), b"three", overwrite=True)
        assert storage.read(join(root, "a")) == b"three"
        with storage.open_write(join(root, "a"), overwrite=True) as file:
            file.write(b"four")
        assert storage.read(join(root, "a")) == b"four"

    def test_create_is_exclusive(self, storage: Storage, root: str) -> None:
        """A file is created once; a storage that cannot guarantee it raises `UnsupportedFeature`."""
        if not storage.creates_exclusively:
            with _raises(UnsupportedFeature):
                storage.create(join(root, "v1"), b"one")
            assert not storage.exists(join(root, "v1"))
            return
        storage.create(join(root, "v1"), b"one")
        with _raises(FileAlreadyExists):
            storage.create(join(root, "v1"), b"two")
        assert storage.read(join(root, "v1")) == b"one"

    def test_of_many_creators_one_wins(self, storage: Storage, root: str) -> None:
        """Of eight threads that create the same file, one succeeds, and its bytes are read."""
        if not storage.creates_exclusively:
            return
        for version in range(5):
            winners = _race(storage, join(root, f"v{version}"), writers=8)
            assert len(winners) == 1
            assert storage.read(join(root, f"v{version}")) == b"%d" % winners[0] * 1000

    def test_streams_are_seen_when_closed(self, storage: Storage, root: str) -> None:
        """The file of a stream appears when the stream is closed."""
        file = storage.open_write(join(root, "data/a"))
        for _ in range(100):
            assert file.write(b"0123456789" * 100) == 1000
        assert file.tell() == 100_000
        assert not storage.exists(join(root, "data/a"))
        assert list(storage.list(root)) == []
        file.close()
        file.close()
        assert file.closed
        assert storage.read(join(root, "data/a")) == b"0123456789" * 10_000
        with _raises(ValueError):
            file.write(b"more")

    def test_aborted_streams_leave_nothing(self, storage: Storage, root: str) -> None:
        """A stream that is aborted, not closed, or left by an exception leaves no file."""
        with _raises(KeyError), storage.open_write(join(root, "a")) as file:
            file.write(b"abc")
            raise KeyError
        file = storage.open_write(join(root, "b"))
        file.write(b"abc")
        file.abort()
        file.close()
        forgotten = storage.open_write(join(root, "c"))
        forgotten.write(b"abc")
        del forgotten
        assert list(storage.list(root)) == []

    def test_empty_streams_are_empty_files(self, storage: Storage, root: str) -> None:
        """A closed stream is a file, even without bytes."""
        storage.open_write(join(root, "empty")).close()
        assert storage.read(join(root, "empty")) == b""

    def test_opened_files_can_seek(self, storage: Storage, root: str) -> None:
        """An open file supports seeks, as Parquet readers need: the footer first, then column chunks."""
        data = bytes(range(256)) * 1000
        storage.write(join(root, "a"), data)
        with storage.open_read(join(root, "a")) as file:
            assert file.seekable()
            assert file.seek(-8, io.SEEK_END) == len(data) - 8
            assert file.read() == data[-8:]
            assert file.seek(1000) == 1000
            assert file.read(100_000) == data[1000:101_000]
            assert file.tell() == 101_000
            assert file.seek(-1000, io.SEEK_CUR) == 100_000
            assert file.read(10) == data[100_000:100_010]
            file.seek(len(data) + 10)
            assert file.read(10) == b""
        assert file.closed

    def test_listing(self, storage: Storage, root: str) -> None:
        """A listing has the files at all depths, sorted by path, spelled like the folder, with or without a slash."""
        names = ["t.txt", "t/a", "t/b/c", "t/b/d/e", "t2/a"]
        for name in reversed(names):
            storage.write(join(root, name), name.encode())
        assert [info.location for info in storage.list(root)] == [join(root, name) for name in names]
        for folder in (join(root, "t"), join(root, "t") + "/"):
            files = list(storage.list(folder))
            assert [info.location for info in files] == [join(root, name) for name in ("t/a", "t/b/c", "t/b/d/e")]
            assert [info.size for info in files] == [3, 5, 7]
            assert all(info.modified_ms > 0 for info in files)

    def test_missing_folders_are_empty(self, storage: Storage, root: str) -> None:
        """Listings of a missing folder, or of a file, are empty, and no error."""
        storage.write(join(root, "file"), b"")
        for name in ("nowhere", "file"):
            assert list(storage.list(join(root, name))) == []
            assert list(storage.folders(join(root, name))) == []

    def test_folders(self, storage: Storage, root: str) -> None:
        """`folders` has the names of the folders directly below, each once, without files."""
        for name in ("b/x", "b/y", "a/deep/x", "c"):
            storage.write(join(root, name), b"")
        assert list(storage.folders(root)) == ["a", "b"]
        assert list(storage.folders(root + "/")) == ["a", "b"]

    def test_making_and_removing_folders(self, storage: Storage, root: str) -> None:
        """Folders can be created and removed repeatedly; one with files cannot be removed."""
        for _ in range(2):
            storage.make_folder(join(root, "ns/deep"))
        storage.write(join(root, "ns/deep/a"), b"a")
        with _raises(StorageError):
            storage.remove_folder(join(root, "ns/deep"))
        assert storage.read(join(root, "ns/deep/a")) == b"a"
        storage.delete_many([join(root, "ns/deep/a")])
        for _ in range(2):
            storage.remove_folder(join(root, "ns/deep"))
        assert list(storage.folders(join(root, "ns"))) == []

    def test_deleting_many(self, storage: Storage, root: str) -> None:
        """Outcomes are in the order of the request; missing and repeated files count as deleted."""
        for name in ("a", "b", "keep"):
            storage.write(join(root, name), b"")
        locations = [join(root, name) for name in ("b", "missing", "a", "b")]
        outcomes = storage.delete_many(locations)
        assert [(outcome.location, outcome.deleted) for outcome in outcomes] == [(name, True) for name in locations]
        assert [info.location for info in storage.list(root)] == [join(root, "keep")]
        assert list(storage.delete_many([])) == []

    def test_a_deleted_name_can_be_created_again(self, storage: Storage, root: str) -> None:
        """A deleted file can be created again."""
        if storage.creates_exclusively:
            for content in (b"one", b"two"):
                storage.create(join(root, "a"), content)
                assert storage.read(join(root, "a")) == content
                storage.delete_many([join(root, "a")])

    def test_the_storage_fits_the_protocol(self, storage: Storage, root: str) -> None:
        """The storage has every method of the protocol."""
        assert isinstance(storage, Storage)


def _race(storage: Storage, location: str, *, writers: int) -> list[int]:
    """Create one file from several threads at the same time; returns the numbers of those that succeeded."""
    start = threading.Barrier(writers)

    def contend(number: int) -> bool:
        start.wait()
        try:
            storage.create(location, b"%d" % number * 1000)
        except FileAlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(writers) as pool:
        won = list(pool.map(contend, range(writers)))
    return [number for number, success in enumerate(won) if success]
