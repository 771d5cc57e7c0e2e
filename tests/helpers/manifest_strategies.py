"""Random manifest entries, as a writer may make them."""

from typing import Any

from hypothesis import strategies as st

from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestEntry
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import IDENTITY
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, parse_type

TYPES = [
    "boolean", "int", "long", "float", "double", "decimal(9,2)", "decimal(38,10)", "date", "time", "timestamp",
    "timestamptz", "timestamp_ns", "timestamptz_ns", "string", "uuid", "fixed[5]", "binary",
]  # fmt: skip
SCHEMA = Schema(tuple(Field(n, f"c{n}", parse_type(text)) for n, text in enumerate(TYPES, 1)))
SPEC = PartitionSpec(tuple(PartitionField((n,), 999 + n, f"c{n}", IDENTITY) for n in range(1, len(TYPES) + 1)))

_long = st.integers(0, 2**63 - 1) | st.integers(0, 200)
_ids = st.integers(0, 63) | st.integers(0, 2**31 - 1)


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


_counts = _maybe(st.dictionaries(_ids, _long, max_size=5))
_bounds = _maybe(st.dictionaries(_ids, st.binary(max_size=10) | st.binary(min_size=60, max_size=70), max_size=5))


def data_files(partitions: st.SearchStrategy[tuple[Any, ...]]) -> st.SearchStrategy[DataFile]:
    """Files of rows."""
    return st.builds(
        DataFile,
        st.just(FileContent.DATA),
        st.text(min_size=1, max_size=20) | st.just("s3://b/\x0ePARQUET/x\x06ORC"),
        st.sampled_from(["parquet", "parquet", "orc", "avro"]),
        partitions,
        _long,
        _long,
        _counts,
        _counts,
        _counts,
        _counts,
        _bounds,
        _bounds,
        _maybe(st.binary(max_size=5)),
        _maybe(st.lists(_long, max_size=4).map(tuple)),
        _maybe(st.lists(st.integers(0, 100), max_size=3).map(tuple)),
        _maybe(st.integers(0, 2**31 - 1)),
    )


def entries(partitions: st.SearchStrategy[tuple[Any, ...]]) -> st.SearchStrategy[ManifestEntry]:
    """Entries that may be written into a manifest of v2."""

    def entry(status: EntryStatus, snapshot: int | None, number: int, file: DataFile) -> ManifestEntry:
        numbers = (None, None) if status is EntryStatus.ADDED else (number, number)
        return ManifestEntry(status, snapshot, *numbers, file)

    return st.builds(entry, st.sampled_from(EntryStatus), _maybe(_long), _long, data_files(partitions))
