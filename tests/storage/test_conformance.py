"""Every storage, and every wrapper around one, keeps the protocol's promises."""

import uuid
from pathlib import Path

import pytest

from floe.storage.access import Access
from floe.storage.environment import deterministic_environment
from floe.storage.local import LocalStorage
from floe.storage.memory import MemoryStorage
from floe.storage.protocol import Storage
from floe.storage.schemes import RoutedStorage
from floe.storage.wrappers import PrefixMap, Retrying
from floe.testing.faults import FaultyStorage
from floe.testing.storage import StorageConformance


class TestLocal(StorageConformance):
    @pytest.fixture
    def storage(self) -> Storage:
        return LocalStorage(durable=False)

    @pytest.fixture(params=["", "file:", "file://", "file://localhost"])
    def root(self, request: pytest.FixtureRequest, tmp_path: Path) -> str:
        return f"{request.param}{tmp_path}"


class TestDurableLocal(StorageConformance):
    @pytest.fixture
    def storage(self) -> Storage:
        return LocalStorage()

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path)


class TestMemory(StorageConformance):
    @pytest.fixture
    def storage(self) -> Storage:
        return MemoryStorage()

    @pytest.fixture(params=["memory:wh", "memory://wh/t", "s3a://bucket/wh", "/wh", "hdfs://nn:8020/wh"])
    def root(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)


class TestAccess(StorageConformance):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return Access(LocalStorage(durable=False), roots=[str(tmp_path)])

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return f"file:{tmp_path}"


class TestPrefixMap(StorageConformance):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return PrefixMap(LocalStorage(durable=False), {"s3://old/wh/": f"{tmp_path}/"})

    @pytest.fixture(params=["s3://old/wh/t", "s3a://old/wh"])
    def root(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)


class TestRetrying(StorageConformance):
    @pytest.fixture
    def storage(self) -> Storage:
        return Retrying(MemoryStorage(), environment=deterministic_environment())

    @pytest.fixture
    def root(self) -> str:
        return f"memory:{uuid.uuid4()}"


class TestFaultyWithoutFaults(StorageConformance):
    @pytest.fixture
    def storage(self) -> Storage:
        return FaultyStorage(MemoryStorage())

    @pytest.fixture
    def root(self) -> str:
        return "memory:wh"


class TestRouted(StorageConformance):
    @pytest.fixture
    def storage(self) -> Storage:
        return RoutedStorage({"file": LocalStorage(durable=False), "s3": MemoryStorage(), "memory": MemoryStorage()})

    @pytest.fixture(params=["s3a://bucket/wh", "memory:wh", "{folder}"])
    def root(self, request: pytest.FixtureRequest, tmp_path: Path) -> str:
        return str(request.param).format(folder=tmp_path)


class TestTheWholeStack(StorageConformance):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        innermost = Retrying(LocalStorage(durable=False), environment=deterministic_environment())
        gate = Access(RoutedStorage({"file": innermost}), roots=[str(tmp_path)])
        return PrefixMap(gate, {"s3://old/wh": str(tmp_path)})

    @pytest.fixture
    def root(self) -> str:
        return "s3n://old/wh/t"
