"""What a manifest list says about a manifest, found from its entries; compared with what Java wrote."""

import json
import math
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidValue
from floe.spec.manifests.entries import (
    DataFile,
    EntryStatus,
    FieldSummary,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestSummary,
    summarize_manifest,
    summarize_partitions,
)
from floe.spec.partitioning.partition_spec import PartitionSpec, fields_from_json
from floe.spec.schemas.schema_json import schema_from_json
from floe.spec.types import DATE, DOUBLE, INT, STRING, UNKNOWN, Field, StructType
from helpers.avro_files import header, local, read_manifest, read_manifest_list
from helpers.corpus import table_names

FILE = DataFile(FileContent.DATA, "a.parquet", "parquet", (), 10, 1000)
NO_PARTITION = StructType()


def entry(status: EntryStatus, number: int | None, rows: int = 10) -> ManifestEntry:
    return ManifestEntry(status, None, number, number, replace(FILE, record_count=rows))


def listed(summary: ManifestSummary, sequence_number: int) -> Any:
    return summary.manifest_file(
        "m.avro", 10, spec_id=1, content=ManifestContent.DATA, snapshot_id=5, sequence_number=sequence_number
    )


def test_counts_of_files_and_rows_by_status() -> None:
    found = summarize_manifest(
        [
            entry(EntryStatus.ADDED, None, 1),
            entry(EntryStatus.ADDED, None, 2),
            entry(EntryStatus.EXISTING, 4, 10),
            entry(EntryStatus.DELETED, 3, 100),
        ],
        NO_PARTITION,
    )
    files = (found.added_files_count, found.existing_files_count, found.deleted_files_count)
    rows = (found.added_rows_count, found.existing_rows_count, found.deleted_rows_count)
    assert (files, rows) == ((2, 1, 1), (3, 10, 100))


def test_min_sequence_number_is_the_lowest_of_live_entries() -> None:
    entries = [entry(EntryStatus.DELETED, 1), entry(EntryStatus.EXISTING, 4), entry(EntryStatus.ADDED, None)]
    assert listed(summarize_manifest(entries, NO_PARTITION), 9).min_sequence_number == 4


def test_min_sequence_number_of_new_files_is_that_of_the_commit() -> None:
    """So that a retry of the commit changes the manifest list alone."""
    summary = summarize_manifest([entry(EntryStatus.ADDED, None)], NO_PARTITION)
    for number in (9, 10):
        manifest = listed(summary, number)
        assert (manifest.sequence_number, manifest.min_sequence_number) == (number, number)
        assert (manifest.added_snapshot_id, manifest.partition_spec_id) == (5, 1)


def test_field_summary_leaves_out_null_and_nan() -> None:
    struct_type = StructType((Field(1000, "x", DOUBLE), Field(1001, "s", STRING)))
    nan = float("nan")
    found = summarize_partitions([(nan, "b"), (2.5, None), (-1.0, "a")], struct_type)
    assert found == (
        FieldSummary(False, True, struct.pack("<d", -1.0), struct.pack("<d", 2.5)),
        FieldSummary(True, False, b"a", b"b"),
    )


def test_field_summary_bounds_of_signed_zeros() -> None:
    """Lower bound not +0.0 when -0.0 is a value, upper bound not -0.0 when +0.0 is (spec: Manifest Lists, note 2)."""
    (found,) = summarize_partitions([(0.0,), (-0.0,)], StructType((Field(1000, "x", DOUBLE),)))
    assert (found.lower_bound, found.upper_bound) == (struct.pack("<d", -0.0), struct.pack("<d", 0.0))


def test_field_summary_bounds_are_encoded_in_the_type_of_the_partition_field() -> None:
    """A day is a date of four bytes, whatever the source column is."""
    (found,) = summarize_partitions([(17486,), (-1,)], StructType((Field(1000, "ts_day", DATE),)))
    assert (found.lower_bound, found.upper_bound) == (struct.pack("<i", -1), struct.pack("<i", 17486))


@pytest.mark.parametrize("values", [[], [(None,)], [(float("nan"),), (None,)]])
def test_field_summary_without_values_has_no_bounds(values: list[Any]) -> None:
    (found,) = summarize_partitions(values, StructType((Field(1000, "x", DOUBLE),)))
    assert (found.lower_bound, found.upper_bound) == (None, None)
    assert found.contains_null == (bool(values) and values[-1] == (None,))
    assert found.contains_nan == any(v[0] is not None for v in values)


def test_field_of_unknown_type_has_no_bounds() -> None:
    (found,) = summarize_partitions([(3,), (4,)], StructType((Field(1000, "x", UNKNOWN),)))
    assert found == FieldSummary(False, False)


@given(st.lists(st.tuples(st.none() | st.floats(), st.none() | st.integers(-(2**31), 2**31 - 1))))
def test_field_summary_bounds_hold_for_every_value(values: list[tuple[float | None, int | None]]) -> None:
    floats, ints = summarize_partitions(values, StructType((Field(1000, "x", DOUBLE), Field(1001, "i", INT))))
    assert floats.contains_null == any(x is None for x, _ in values)
    assert floats.contains_nan == any(x is not None and math.isnan(x) for x, _ in values)
    numbers = [i for _, i in values if i is not None]
    if numbers:
        assert ints.lower_bound == struct.pack("<i", min(numbers))
        assert ints.upper_bound == struct.pack("<i", max(numbers))
    for x in (x for x, _ in values if x is not None and not math.isnan(x)):
        assert floats.lower_bound is not None
        assert floats.upper_bound is not None
        assert struct.unpack("<d", floats.lower_bound)[0] <= x <= struct.unpack("<d", floats.upper_bound)[0]


def test_summaries_are_those_that_java_wrote(corpus_dir: Path) -> None:
    """Counts, lowest sequence number and partition summaries of every manifest of Java's v2 and v3 tables."""
    compared, partitioned = 0, 0
    for table in table_names("del_", "part_", "v2_", "v3_", "evo_", "hist_overwrite", "hist_manifests", "lineage_"):
        for path in sorted((corpus_dir / table / "metadata").glob("snap-*.avro")):
            if header(path)["format-version"] == "1":
                continue
            for manifest in read_manifest_list(path):
                manifest_path = local(corpus_dir, manifest.manifest_path)
                head = header(manifest_path)
                spec = PartitionSpec(fields_from_json(json.loads(head["partition-spec"])))
                partition_type = spec.partition_type(schema_from_json(json.loads(head["schema"])))
                if not simple(partition_type) or head["format-version"] == "1":
                    continue
                summary = summarize_manifest(read_manifest(manifest_path), partition_type)
                ours = summary.manifest_file(
                    manifest.manifest_path,
                    manifest.manifest_length,
                    spec_id=manifest.partition_spec_id,
                    content=manifest.content,
                    snapshot_id=manifest.added_snapshot_id or 0,
                    sequence_number=manifest.sequence_number,
                )
                assert replace(ours, first_row_id=manifest.first_row_id) == manifest, (path, manifest)
                compared += 1
                partitioned += bool(partition_type)
    assert compared > 100
    assert partitioned > 30


def simple(partition_type: StructType) -> bool:
    """Whether fastavro gives partition values in the form that Floe has, so that the test need not convert them."""
    return all(child.type.kind in ("int", "long", "string", "float", "double", "boolean") for child in partition_type)


@pytest.mark.parametrize("partitions", [[(1, 2)], [(1,), ()], [()]])
def test_a_partition_tuple_must_have_a_value_for_each_field(partitions):
    with pytest.raises(InvalidValue, match="a partition tuple must have 1 values"):
        summarize_partitions(partitions, StructType((Field(1000, "x", INT),)))
