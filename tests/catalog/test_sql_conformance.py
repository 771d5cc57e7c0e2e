"""The SQL catalog keeps the promises of all catalogs: in SQLite files and memory, in PostgreSQL, in both versions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from floe.catalog.protocol import Catalog
from floe.catalog.sql.catalog import SqlCatalog, connect_sql
from floe.storage.local import LocalStorage
from floe.testing.catalogs import CatalogConformance
from helpers.postgres import postgres_database
from helpers.sql_catalogs import make_version_0


def opened(uri: str, folder: Path) -> SqlCatalog:
    return connect_sql(uri, warehouse=str(folder / "warehouse"), storage=LocalStorage(durable=False))


class TestSqliteFile(CatalogConformance):
    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Iterator[SqlCatalog]:
        catalog = opened(f"sqlite:///{tmp_path}/lake.db", tmp_path)
        yield catalog
        catalog.close()


class TestSqliteMemory(CatalogConformance):
    @pytest.fixture
    def catalog(self) -> Iterator[SqlCatalog]:
        catalog = connect_sql("sqlite://", warehouse="memory:warehouse")
        yield catalog
        catalog.close()


class TestPostgres(CatalogConformance):
    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Iterator[SqlCatalog]:
        with postgres_database() as uri:
            catalog = opened(uri, tmp_path)
            yield catalog
            catalog.close()


class TestSqliteOfVersion0(CatalogConformance):
    """A database that an older Java made; the first view changes it."""

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Iterator[SqlCatalog]:
        uri = f"sqlite:///{tmp_path}/lake.db"
        make_version_0(uri)
        catalog = opened(uri, tmp_path)
        yield catalog
        catalog.close()


class TestPostgresOfVersion0(CatalogConformance):
    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Iterator[SqlCatalog]:
        with postgres_database() as uri:
            make_version_0(uri)
            catalog = opened(uri, tmp_path)
            yield catalog
            catalog.close()


def test_it_is_a_catalog() -> None:
    catalog = connect_sql("sqlite://")
    assert isinstance(catalog, Catalog)
    catalog.close()
