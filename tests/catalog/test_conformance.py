"""Every catalog in files or memory keeps the protocol's promises."""

import uuid
from pathlib import Path
from typing import Any

import pytest

from floe.catalog.file_system.catalog import FileSystemCatalog
from floe.catalog.memory import MemoryCatalog
from floe.catalog.protocol import Catalog
from floe.storage.access import Access
from floe.storage.environment import deterministic_environment
from floe.storage.local import LocalStorage
from floe.storage.memory import MemoryStorage
from floe.storage.schemes import open_storage
from floe.testing.catalogs import CatalogConformance


class TestMemory(CatalogConformance):
    @pytest.fixture
    def catalog(self) -> Catalog:
        return MemoryCatalog()


class TestMemoryCatalogOverFiles(CatalogConformance):
    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Catalog:
        return MemoryCatalog(storage=LocalStorage(durable=False), warehouse=f"file:{tmp_path}/wh/")


class TestLocalFolder(CatalogConformance):
    @pytest.fixture(params=["{}", "file:{}", "file://{}/"])
    def catalog(self, request: pytest.FixtureRequest, tmp_path: Path) -> Catalog:
        return FileSystemCatalog(request.param.format(tmp_path / "ware house"), storage=LocalStorage(durable=False))


class TestDurableLocalFolder(CatalogConformance):
    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Catalog:
        return FileSystemCatalog(str(tmp_path))


class TestFilesInMemory(CatalogConformance):
    @pytest.fixture(params=["memory:wh", "s3a://bucket/wh", "s3://bucket"])
    def catalog(self, request: pytest.FixtureRequest) -> Catalog:
        environment = deterministic_environment()
        return FileSystemCatalog(request.param, storage=MemoryStorage(clock=environment.clock), environment=environment)


class TestWithinAllowedRoots(CatalogConformance):
    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Catalog:
        storage = Access(LocalStorage(durable=False), roots=[str(tmp_path)])
        return FileSystemCatalog(str(tmp_path / "wh"), storage=storage)


class TestObjectStore(CatalogConformance):
    @pytest.fixture
    def catalog(self, s3_options: dict[str, Any]) -> Catalog:
        warehouse = f"s3://bucket/{uuid.uuid4()}"
        return FileSystemCatalog(warehouse, storage=open_storage(warehouse, **s3_options))
