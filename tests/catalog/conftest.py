"""A real S3 server, started once for the tests that need one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.s3_server import ACCESS_KEY, INSTALL, SECRET_KEY, find_server, running_server


@pytest.fixture(scope="session")
def s3_options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What opens an S3 server with one bucket, `bucket`."""
    pytest.importorskip("obstore", reason="obstore is not installed: pip install 'floe[s3]'")
    if find_server() is None:
        pytest.skip(f"no S3 server to test with: {INSTALL}")
    folder: Path = tmp_path_factory.mktemp("s3")
    (folder / "bucket").mkdir()
    with running_server(folder) as url:
        yield {
            "s3.endpoint": url,
            "s3.region": "us-east-1",
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
        }
