"""Java Iceberg understands the metadata that Floe writes as it understands its own."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from floe.spec.metadata.table_metadata_json import parse, serialize
from floe.spec.views.view_metadata import parse_view, serialize_view
from helpers.corpus import metadata_files, table_names

pytestmark = pytest.mark.interop

TABLES = table_names(without=("invalid_", "odd_", "view_"))


def text_of(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


@pytest.mark.parametrize("name", TABLES)
def test_table_metadata(ask_java: Callable[..., Any], corpus_dir: Path, name: str) -> None:
    for path in metadata_files(corpus_dir, name)[-3:]:
        original = text_of(path)
        ours = serialize(parse(path.read_bytes())).decode()
        assert json.loads(ask_java("metadata", ours)) == json.loads(ask_java("metadata", original)), path.name


def test_view_metadata(ask_java: Callable[..., Any], corpus_dir: Path) -> None:
    for path in metadata_files(corpus_dir, "view_basic"):
        ours = serialize_view(parse_view(path.read_bytes())).decode()
        assert json.loads(ask_java("viewMetadata", ours)) == json.loads(ask_java("viewMetadata", text_of(path))), (
            path.name
        )
