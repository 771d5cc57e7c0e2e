"""From a location to its storage; and the libraries that some of them need."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from floe.errors import InvalidInput, UnsupportedFeature
from floe.storage.environment import ManualClock, SeededIds, SystemIds, deterministic_environment
from floe.storage.local import LocalStorage
from floe.storage.memory import MemoryStorage
from floe.storage.protocol import Data, Storage, verify_exclusive_creation
from floe.storage.schemes import open_storage, register
from floe.storage.wrappers import StorageWrapper
from helpers.plugins import install_plugin


@pytest.mark.parametrize("location", ["/wh", "wh/t", "file:", "file://", "file:/wh", "file://localhost/wh"])
def test_local_locations(location: str) -> None:
    assert isinstance(open_storage(location), LocalStorage)


@pytest.mark.parametrize("location", ["memory:", "memory://", "memory:a", "memory://a/b"])
def test_memory_locations(location: str) -> None:
    storage = open_storage(location, clock=ManualClock(5))
    assert isinstance(storage, MemoryStorage)
    storage.write("memory:a", b"")
    assert storage.stat("memory:a").modified_ms == 5


def test_options_reach_the_storage() -> None:
    assert repr(open_storage("/wh", durable=False)) == "LocalStorage(durable=False)"
    with pytest.raises(InvalidInput, match="durble"):
        open_storage("/wh", durble=False)


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("s3://bucket/wh", "s3:// needs obstore; pip install 'floe[s3]'"),
        ("s3a:", "s3:// needs obstore; pip install 'floe[s3]'"),
        ("gs://", "gs:// needs obstore; pip install 'floe[gcs]'"),
        ("abfss://c@acct.dfs.core.windows.net/wh", "abfs:// needs obstore; pip install 'floe[azure]'"),
        ("sftp://host/wh", "sftp: needs fsspec; pip install 'floe[fsspec]'"),
    ],
)
def test_missing_libraries_are_told_with_a_way_to_get_them(
    location: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("obstore", "fsspec")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Hiding(), *sys.meta_path])
    with pytest.raises(UnsupportedFeature) as caught:
        open_storage(location)
    assert str(caught.value) == words


class _Hiding:
    """Makes the optional libraries look as if they were not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in ("obstore", "fsspec"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])


def test_storages_of_others_are_opened_too() -> None:
    opened: list[tuple[str, dict[str, object]]] = []

    def opener(scheme: str, options: object) -> Storage:
        opened.append((scheme, dict(options)))  # type: ignore[call-overload]
        return MemoryStorage()

    register("mine", opener)
    open_storage("mine://a/b", colour="red")
    assert opened == [("mine", {"colour": "red"})]
    with pytest.raises(InvalidInput, match="'mine' is registered already"):
        register("mine", opener)
    with pytest.raises(InvalidInput, match="'file' is registered already"):
        register("file", opener)
    register("Mine", lambda scheme, options: LocalStorage(), replace=True)
    assert isinstance(open_storage("mine://a/b"), LocalStorage)


def test_storages_of_installed_packages_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_plugin(tmp_path, monkeypatch, "floe.storages", "toys", "toy_storage:open_toys", TOY_STORAGE)
    storage = open_storage("TOYS://a/b", colour="red")
    assert repr(storage) == "ToyStorage('toys', {'colour': 'red'})"
    storage.write("toys://a/b", b"abc")
    assert storage.read("toys://a/b") == b"abc"


TOY_STORAGE = """
from floe.storage import MemoryStorage

class ToyStorage(MemoryStorage):
    def __init__(self, scheme, options):
        super().__init__()
        self.opened = (scheme, dict(options))

    def __repr__(self):
        return "ToyStorage" + repr(self.opened)

def open_toys(scheme, options):
    return ToyStorage(scheme, options)
"""


# Exclusive creation is tried before it is relied on


def test_a_store_that_ignores_the_condition_is_refused() -> None:
    class Ignorant(StorageWrapper):
        def create(self, location: str, data: Data) -> None:
            self.storage.write(location, data, overwrite=True)

    files = MemoryStorage()
    with pytest.raises(UnsupportedFeature, match="overwrite each other"):
        verify_exclusive_creation(Ignorant(files), "s3://bucket/wh")
    assert list(files.list("s3://bucket/")) == []


def test_a_store_that_says_it_cannot_is_refused_without_a_write() -> None:
    class Unable(StorageWrapper):
        creates_exclusively = False  # type: ignore[assignment]

        def _run(self, operation: str, location: str, action: Callable[[], object]) -> object:  # type: ignore[override]
            raise AssertionError("nothing should be asked")

    with pytest.raises(UnsupportedFeature):
        verify_exclusive_creation(Unable(MemoryStorage()), "s3://bucket/wh")


# Time, chance and ids


def test_runs_of_one_seed_are_the_same_and_of_two_differ() -> None:
    def run(seed: int) -> list[object]:
        environment = deterministic_environment(seed)
        environment.sleep(1.5)
        ids = environment.ids
        return [environment.clock.now_ms(), ids.uuid(), ids.snapshot_id(), environment.random(), ids.uuid()]

    assert run(1) == run(1)
    assert run(1)[1:] != run(2)[1:]


def test_snapshot_ids_are_positive_and_fit_a_java_long() -> None:
    for ids in (SystemIds(), SeededIds(3)):
        snapshot_ids = {ids.snapshot_id() for _ in range(1000)}
        assert len(snapshot_ids) == 1000
        assert all(0 < number < 2**63 for number in snapshot_ids)
        assert ids.uuid().version == 4
