"""What all tests share: the corpus of tables written by Java Iceberg, unpacked once, and Hypothesis's settings."""

import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

CORPUS = Path(__file__).parent / "corpus"

# Machines are shared and noisy, so no deadline; the database would make runs depend on earlier ones.
settings.register_profile(
    "floe", deadline=None, database=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("floe")


@pytest.fixture(scope="session")
def corpus_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with one folder for each table of the corpus (tests/corpus/README.md describes them)."""
    target = tmp_path_factory.mktemp("corpus")
    with tarfile.open(CORPUS / "dev.tar.xz") as archive:
        archive.extractall(target, filter="data")
    return target / "dev"
