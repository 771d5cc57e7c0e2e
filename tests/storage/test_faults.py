"""The fault injection itself: each fault does what it says, at the call it was told."""

import pytest

from floe.errors import FileAlreadyExists, OutcomeUnknown, StorageUnavailable
from floe.storage.memory import MemoryStorage
from floe.testing.faults import Call, Fault, FaultyStorage, SimulatedCrash


@pytest.fixture
def files() -> MemoryStorage:
    return MemoryStorage()


@pytest.mark.parametrize(
    ("fault", "error", "happened"),
    [
        (Fault.BEFORE, StorageUnavailable, False),
        (Fault.LOST_ANSWER, OutcomeUnknown, True),
        (Fault.LOST_REQUEST, OutcomeUnknown, False),
        (Fault.DELAYED, OutcomeUnknown, False),
        (Fault.TWICE, FileAlreadyExists, True),
        (Fault.CRASH_BEFORE, SimulatedCrash, False),
        (Fault.CRASH_AFTER, SimulatedCrash, True),
    ],
)
def test_faults_of_a_create(files: MemoryStorage, fault: Fault, error: type[BaseException], happened: bool) -> None:
    storage = FaultyStorage(files, fault, at=1)
    with pytest.raises(error):
        storage.create("memory:v1", b"1")
    assert files.exists("memory:v1") is happened
    assert storage.happened


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.BEFORE, StorageUnavailable),
        (Fault.LOST_ANSWER, StorageUnavailable),
        (Fault.LOST_REQUEST, StorageUnavailable),
        (Fault.DELAYED, StorageUnavailable),
        (Fault.CRASH_BEFORE, SimulatedCrash),
        (Fault.CRASH_AFTER, SimulatedCrash),
    ],
)
def test_faults_of_a_read(files: MemoryStorage, fault: Fault, error: type[BaseException]) -> None:
    files.write("memory:a", b"a")
    with pytest.raises(error):
        FaultyStorage(files, fault, at=1).read("memory:a")


@pytest.mark.parametrize(
    ("fault", "error", "happened"),
    [
        (Fault.BEFORE, StorageUnavailable, False),
        (Fault.LOST_ANSWER, OutcomeUnknown, True),
        (Fault.LOST_REQUEST, OutcomeUnknown, False),
        (Fault.CRASH_BEFORE, SimulatedCrash, False),
        (Fault.CRASH_AFTER, SimulatedCrash, True),
    ],
)
def test_faults_when_a_stream_is_closed(
    files: MemoryStorage, fault: Fault, error: type[BaseException], happened: bool
) -> None:
    storage = FaultyStorage(files, fault, at=1, only={"close_write"})
    with pytest.raises(error), storage.open_write("memory:a") as file:
        file.write(b"a")
    assert files.exists("memory:a") is happened


def test_a_delayed_write_happens_after_the_next_call(files: MemoryStorage) -> None:
    storage = FaultyStorage(files, Fault.DELAYED, at=1)
    with pytest.raises(OutcomeUnknown):
        storage.create("memory:v1", b"late")
    assert not storage.exists("memory:v1"), "the first look finds nothing"
    assert storage.exists("memory:v1"), "and then it is there"


def test_a_delayed_create_that_comes_too_late_changes_nothing(files: MemoryStorage) -> None:
    storage = FaultyStorage(files, Fault.DELAYED, at=1)
    with pytest.raises(OutcomeUnknown):
        storage.create("memory:v1", b"late")
    storage.create("memory:v1", b"quick")
    storage.settle()
    assert files.read("memory:v1") == b"quick"


def test_after_a_crash_every_call_fails(files: MemoryStorage) -> None:
    storage = FaultyStorage(files, Fault.CRASH_AFTER, at=1)
    for _ in range(2):
        with pytest.raises(SimulatedCrash):
            storage.write("memory:a", b"a")
    with pytest.raises(SimulatedCrash):
        storage.read("memory:a")
    assert files.read("memory:a") == b"a"


def test_the_fault_comes_at_its_call_and_only_once(files: MemoryStorage) -> None:
    storage = FaultyStorage(files, Fault.BEFORE, at=2, only={"create"})
    storage.create("memory:v1", b"")
    assert storage.exists("memory:v1")
    with pytest.raises(StorageUnavailable):
        storage.create("memory:v2", b"")
    storage.create("memory:v2", b"")
    assert storage.calls == [
        Call("create", "memory:v1"),
        Call("exists", "memory:v1"),
        Call("create", "memory:v2"),
        Call("create", "memory:v2"),
    ]


def test_reads_of_an_opened_file_are_calls(files: MemoryStorage) -> None:
    files.write("memory:a", b"abc")
    storage = FaultyStorage(files)
    with storage.open_read("memory:a") as file:
        file.read()
    assert [call.operation for call in storage.calls] == ["stat", "read_range"]


def test_deletes_may_be_delivered_twice(files: MemoryStorage) -> None:
    files.write("memory:a", b"")
    outcomes = FaultyStorage(files, Fault.TWICE, at=1).delete_many(["memory:a"])
    assert outcomes[0].deleted
