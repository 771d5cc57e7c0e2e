"""Local disk: what happens in which order, crashes, races between processes, and odd file systems."""

import errno
import multiprocessing
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from floe.errors import (
    AccessDenied,
    FileAlreadyExists,
    InvalidLocation,
    NoSuchFile,
    OutcomeUnknown,
    StorageError,
    StorageUnavailable,
)
from floe.storage.local import TEMPORARY_PREFIX, LocalStorage


class Calls:
    """Records the system calls that matter, in order, and can make one of them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.recorded: list[tuple[str, str]] = []
        self.failures: dict[str, Callable[[], BaseException]] = {}
        for name in ("fsync", "link", "replace", "unlink", "mkdir"):
            monkeypatch.setattr(os, name, self._recorded(name, getattr(os, name)))

    def _recorded(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            target = arguments[-1]
            if name == "fsync":
                target = os.readlink(f"/proc/self/fd/{target}")
                target = "folder" if os.path.isdir(target) else "file"
                name_now = f"fsync {target}"
            else:
                name_now = name
            self.recorded.append((name_now, str(arguments[-1])))
            if name_now in self.failures:
                raise self.failures.pop(name_now)()
            return real(*arguments, **options)

        return call

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.recorded]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def failing(number: int) -> Callable[[], BaseException]:
    return lambda: OSError(number, os.strerror(number))


def test_create_is_on_disk_before_it_is_seen_and_before_it_returns(tmp_path: Path, calls: Calls) -> None:
    LocalStorage().create(f"{tmp_path}/v1", b"1")
    assert calls.names == ["fsync file", "link", "fsync folder", "unlink"]


def test_overwriting_is_on_disk_before_it_is_seen_and_before_it_returns(tmp_path: Path, calls: Calls) -> None:
    LocalStorage().write(f"{tmp_path}/version-hint.text", b"1", overwrite=True)
    assert calls.names == ["fsync file", "replace", "fsync folder", "unlink"]


def test_new_folders_are_on_disk_too(tmp_path: Path, calls: Calls) -> None:
    LocalStorage().create(f"{tmp_path}/ns/t/v1", b"1")
    assert calls.names[:4] == ["mkdir", "fsync folder", "mkdir", "fsync folder"]


def test_without_durability_nothing_is_flushed(tmp_path: Path, calls: Calls) -> None:
    LocalStorage(durable=False).create(f"{tmp_path}/ns/v1", b"1")
    assert "fsync file" not in calls.names
    assert "fsync folder" not in calls.names


@pytest.mark.parametrize("failing_call", ["fsync file", "link"])
def test_a_crash_before_publishing_leaves_no_file(tmp_path: Path, calls: Calls, failing_call: str) -> None:
    """A real crash leaves the temporary file; it is hidden, and `leftovers` finds it."""
    storage = LocalStorage()
    calls.failures = {failing_call: KeyboardInterrupt, "unlink": failing(errno.EIO)}
    with pytest.raises(KeyboardInterrupt):
        storage.create(f"{tmp_path}/v1", b"1")
    assert not storage.exists(f"{tmp_path}/v1")
    assert list(storage.list(str(tmp_path))) == []
    leftovers = [Path(info.location).name for info in storage.leftovers(str(tmp_path))]
    assert len(leftovers) == 1
    assert leftovers[0].startswith(TEMPORARY_PREFIX)
    storage.create(f"{tmp_path}/v1", b"2")
    assert storage.read(f"{tmp_path}/v1") == b"2"


def test_a_crash_after_publishing_leaves_the_whole_file(tmp_path: Path, calls: Calls) -> None:
    storage = LocalStorage()
    calls.failures = {"fsync folder": KeyboardInterrupt, "unlink": failing(errno.EIO)}
    with pytest.raises(KeyboardInterrupt):
        storage.create(f"{tmp_path}/v1", b"1")
    assert storage.read(f"{tmp_path}/v1") == b"1"


def test_an_error_of_the_folders_flush_is_an_unknown_outcome(tmp_path: Path, calls: Calls) -> None:
    storage = LocalStorage()
    calls.failures = {"fsync folder": failing(errno.EIO)}
    with pytest.raises(OutcomeUnknown):
        storage.create(f"{tmp_path}/v1", b"1")
    assert storage.read(f"{tmp_path}/v1") == b"1"


def test_an_error_of_the_files_flush_is_a_definite_failure(tmp_path: Path, calls: Calls) -> None:
    storage = LocalStorage()
    calls.failures = {"fsync file": failing(errno.ENOSPC)}
    with pytest.raises(StorageError, match="no space left"):
        storage.create(f"{tmp_path}/v1", b"1")
    assert os.listdir(tmp_path) == []


def test_a_link_that_timed_out_is_an_unknown_outcome(tmp_path: Path, calls: Calls) -> None:
    calls.failures = {"link": failing(errno.ETIMEDOUT)}
    with pytest.raises(OutcomeUnknown):
        LocalStorage().create(f"{tmp_path}/v1", b"1")


@pytest.mark.parametrize("number", [errno.EEXIST, errno.EIO, errno.ETIMEDOUT])
def test_a_link_whose_answer_was_lost_is_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """On NFS a repeated request finds the link that the first one made, and says that the name is taken."""
    real = os.link

    def link(*arguments: Any, **options: Any) -> None:
        real(*arguments, **options)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    storage = LocalStorage()
    storage.create(f"{tmp_path}/v1", b"mine")
    assert storage.read(f"{tmp_path}/v1") == b"mine"


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS])
def test_file_systems_without_hard_links_open_exclusively(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def link(*arguments: Any, **options: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    storage = LocalStorage()
    storage.create(f"{tmp_path}/v1", b"one")
    with pytest.raises(FileAlreadyExists):
        storage.create(f"{tmp_path}/v1", b"two")
    assert storage.read(f"{tmp_path}/v1") == b"one"
    assert os.listdir(tmp_path) == ["v1"]


def test_file_systems_that_cannot_flush_folders_are_accepted(tmp_path: Path, calls: Calls) -> None:
    calls.failures = {"fsync folder": failing(errno.EINVAL)}
    LocalStorage().create(f"{tmp_path}/v1", b"1")


def test_modes_respect_the_umask(tmp_path: Path) -> None:
    storage = LocalStorage(durable=False)
    for mask, expected in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        before = os.umask(mask)
        try:
            storage.create(f"{tmp_path}/created-{mask}", b"")
            storage.write(f"{tmp_path}/overwritten-{mask}", b"", overwrite=True)
        finally:
            os.umask(before)
        for name in ("created", "overwritten"):
            assert stat.S_IMODE((tmp_path / f"{name}-{mask}").stat().st_mode) == expected


def _create_versions(folder: str, process: int, start: Any, results: Any) -> None:
    storage = LocalStorage(durable=False)
    start.wait()
    won = []
    for version in range(50):
        try:
            storage.create(f"{folder}/v{version}", b"%d" % process * 5000)
        except FileAlreadyExists:
            continue
        won.append(version)
    results.put((process, won))


def test_of_many_processes_one_creates_each_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(4), context.Queue()
    processes = [
        context.Process(target=_create_versions, args=(str(tmp_path), number, start, results)) for number in range(4)
    ]
    for process in processes:
        process.start()
    won = dict(results.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    assert sorted(version for versions in won.values() for version in versions) == list(range(50))
    for number, versions in won.items():
        for version in versions:
            assert (tmp_path / f"v{version}").read_bytes() == b"%d" % number * 5000


_WRITE_UNTIL_KILLED = """
import sys
from floe.storage.local import LocalStorage
storage, folder, version = LocalStorage(durable=False), sys.argv[1], 0
while True:
    storage.create(f"{folder}/v{version}", b"%06d" % version * 50_000)
    print(version, flush=True)
    version += 1
"""


@pytest.mark.parametrize("acknowledged", [0, 1, 7])
def test_killed_writers_leave_whole_files_or_none(tmp_path: Path, acknowledged: int) -> None:
    """`kill -9` while files are being created: what was acknowledged is there, and nothing is cut short."""
    command = [sys.executable, "-c", _WRITE_UNTIL_KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(acknowledged):
            writer.stdout.readline()
        writer.kill()
        acknowledged_count = acknowledged + len(writer.stdout.read().split())
    storage = LocalStorage(durable=False)
    sizes = {Path(info.location).name: info.size for info in storage.list(str(tmp_path))}
    assert set(sizes.values()) <= {300_000}
    assert {f"v{version}" for version in range(acknowledged_count)} <= set(sizes)
    assert len(sizes) <= acknowledged_count + 1
    storage.create(f"{tmp_path}/v{len(sizes)}", b"the next writer goes on")


def test_a_full_disk_leaves_no_file_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    storage = LocalStorage()
    monkeypatch.setattr(os, "link", no_links)
    writer = storage.open_write(f"{tmp_path}/v1")
    writer.write(b"1")
    flushes = iter([None, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))])

    def fsync(descriptor: int) -> None:
        error = next(flushes)
        if error is not None:
            raise error

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StorageError, match="no space left"):
        writer.close()
    assert os.listdir(tmp_path) == []


def test_readers_never_see_half_a_file(tmp_path: Path) -> None:
    """A reader polls while a file is overwritten again and again: each look finds one whole version."""
    storage = LocalStorage(durable=False)
    versions = [b"%d" % number * 200_000 for number in range(10)]
    storage.write(f"{tmp_path}/hint", versions[0])
    done = threading.Event()

    def overwrite() -> None:
        for version in versions * 5:
            storage.write(f"{tmp_path}/hint", version, overwrite=True)
        done.set()

    writer = threading.Thread(target=overwrite)
    writer.start()
    contents_read = set()
    while not done.is_set():
        contents_read.add(storage.read(f"{tmp_path}/hint"))
    writer.join()
    assert contents_read <= set(versions)


def test_pipes_and_devices_are_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    storage = LocalStorage()
    for location in (f"{tmp_path}/pipe", "/dev/zero"):
        for call in (storage.read, storage.open_read, storage.stat):
            with pytest.raises(StorageError, match="pipe, socket or device"):
                call(location)
    assert list(storage.list(str(tmp_path))) == []


def test_links_are_read_but_a_listing_does_not_leave_its_folder(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a").write_bytes(b"a")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "file").symlink_to(tmp_path / "outside" / "a")
    (tmp_path / "t" / "folder").symlink_to(tmp_path / "outside")
    (tmp_path / "t" / "loop").symlink_to(tmp_path / "t")
    (tmp_path / "t" / "dangling").symlink_to(tmp_path / "nowhere")
    storage = LocalStorage()
    assert [info.location for info in storage.list(f"{tmp_path}/t")] == [f"{tmp_path}/t/file"]
    assert storage.read(f"{tmp_path}/t/folder/a") == b"a"
    with pytest.raises(FileAlreadyExists):
        storage.create(f"{tmp_path}/t/dangling", b"")


def test_deleting_reports_what_could_not_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "a").write_bytes(b"")
    storage = LocalStorage()
    outcomes = storage.delete_many(
        [f"{tmp_path}/a", f"{tmp_path}/folder", f"{tmp_path}/a/below", "s3://b/k", f"{tmp_path}/folder/"]
    )
    assert [outcome.deleted for outcome in outcomes] == [True, False, True, False, False]
    assert (tmp_path / "folder").exists()


def test_errors_name_the_location(tmp_path: Path) -> None:
    storage = LocalStorage()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NoSuchFile, match=r"no such file \(location: file:/nowhere\)"):
        storage.read("file:/nowhere")
    with pytest.raises(NoSuchFile):
        storage.create(f"{tmp_path}/file/below", b"")
    with pytest.raises(InvalidLocation):
        storage.read("s3://bucket/key")
    with pytest.raises(StorageError, match="too long"):
        storage.create(f"{tmp_path}/{'x' * 300}", b"")


def test_a_percent_sign_in_a_missing_name_brings_a_hint() -> None:
    with pytest.raises(NoSuchFile, match="not percent-decoded"):
        LocalStorage().read("file:///nowhere/my%20table")


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.EACCES, AccessDenied), (errno.EROFS, AccessDenied), (errno.EMFILE, StorageUnavailable)],
)
def test_errors_of_the_system_become_ours(monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]) -> None:
    def refuse(*arguments: Any, **options: Any) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(kind):
        LocalStorage().read("/wh/a")


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    storage = LocalStorage()
    before = len(os.listdir("/proc/self/fd"))
    storage.create(f"{tmp_path}/a", b"abc")
    for call in (
        lambda: storage.create(f"{tmp_path}/a", b"abc"),
        lambda: storage.read(str(tmp_path)),
        lambda: storage.read(f"{tmp_path}/a", max_bytes=1),
    ):
        with pytest.raises(StorageError):
            call()
    storage.read_range(f"{tmp_path}/a", 0, 1)
    writer = storage.open_write(f"{tmp_path}/b")
    writer.abort()
    assert len(os.listdir("/proc/self/fd")) == before
