"""What all tests share: the corpus of tables written by Java Iceberg, unpacked once, and Hypothesis's settings."""

import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from helpers.run_totals import pytest_terminal_summary  # noqa: F401 (a hook)

CORPUS = Path(__file__).parent / "corpus"

# Machines are shared and noisy, so no deadline; the database would make runs depend on earlier ones. The same examples
# are tried in every run, so that a change is blamed only for what it broke; FLOE_TESTS=explore looks for new ones.
settings.register_profile(
    "floe",
    deadline=None,
    database=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", settings.get_profile("floe"), derandomize=False, max_examples=1000)
settings.load_profile(os.environ.get("FLOE_TESTS", "floe"))


@pytest.fixture(scope="session")
def corpus_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with one folder for each table of the corpus (tests/corpus/README.md describes them)."""
    target = tmp_path_factory.mktemp("corpus")
    with tarfile.open(CORPUS / "dev.tar.xz") as archive:
        archive.extractall(target, filter="data")
    return target / "dev"
