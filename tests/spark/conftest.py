"""One Spark session for all Spark tests of a process, with a catalog in the file system and one in SQLite."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.spark import Spark, start_session

if shutil.which("java") is None:
    collect_ignore_glob = ["test_*.py", "*/test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            # some versions of PySpark leave it to the garbage collector to close sockets
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def session(warehouse: Path) -> Iterator[Spark]:
    """The session; `lake` is in the file system, `sq` in SQLite."""
    spark = start_session(warehouse)
    yield spark
    spark.stop()


@pytest.fixture(scope="module", params=["lake", "sq"])
def catalog(request: pytest.FixtureRequest) -> str:
    """The name of a catalog: each test runs with each of them."""
    return str(request.param)
