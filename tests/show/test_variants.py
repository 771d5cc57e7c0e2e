"""Variants of tables that Java wrote, decoded to the values that the corpus has for them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floe.errors import CorruptFile
from floe.formats.columns.variants import decode_variant
from helpers.variants import canonical_variant


def canonical(value: Any) -> Any:
    """A value in the form in which the corpus has it: all but booleans, null, objects and arrays as texts."""
    if isinstance(value, dict):
        return {name: canonical(item) for name, item in value.items()}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    return value if value is None or isinstance(value, bool) else str(value)


def stored_variants(corpus: Path) -> list[tuple[bytes, bytes]]:
    variants = []
    for path in sorted(corpus.glob("*variant*/**/*.parquet")):
        file = pq.ParquetFile(path)
        for field in file.schema_arrow:
            is_struct = pa.types.is_struct(field.type)
            if is_struct and {child.name for child in field.type} == {"metadata", "value"}:
                rows = file.read([field.name])[field.name].to_pylist()
                variants += [(row["metadata"], row["value"]) for row in rows if row is not None]
        file.close()
    return variants


def test_values_of_the_corpus(corpus_dir: Path) -> None:
    variants = stored_variants(corpus_dir)
    assert len(variants) > 10
    for metadata, value in variants:
        ours, theirs = canonical(decode_variant(metadata + value)), canonical(canonical_variant(metadata, value))
        if "." not in str(theirs):  # timestamps and floats are formatted differently
            assert ours == theirs


@pytest.mark.parametrize(
    "data", [b"", b"\x01\x00\x00", b"\x01\x00\x00\x18", b"\x01\x00\x00\xfc", b"\x01\x00\x00\x03\xff\x00"]
)
def test_broken_bytes_are_errors(data: bytes) -> None:
    with pytest.raises(CorruptFile):
        decode_variant(data)
