"""Deletes of a plan: errors for what cannot be, what is left out and why, and many files at once."""

import time
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from floe.errors import CorruptFile
from floe.plan.scan import ScanOptions, plan_scan
from floe.spec.codecs.single_value import encode
from floe.spec.expressions.dsl import col
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.partitioning.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import IDENTITY
from floe.spec.schemas.schema import Schema
from floe.spec.types import DOUBLE, INT, STRING, DecimalType, Field
from helpers.planned_tables import data_file, existing, table_of

SCHEMA = Schema((Field(1, "id", INT), Field(2, "p", STRING), Field(3, "x", DOUBLE), Field(4, "d", DecimalType(9, 2))))
BY_P = PartitionSpec((PartitionField((2,), 1000, "p", IDENTITY),), 1)
BY_X = PartitionSpec((PartitionField((3,), 1001, "x", IDENTITY), PartitionField((4,), 1002, "d", IDENTITY)), 2)
SPECS = (UNPARTITIONED, BY_P, BY_X)

ROWS = data_file("a", partition=("x",), spec_id=1)
POSITIONS = DataFile(FileContent.POSITION_DELETES, "p", "parquet", ("x",), 3, 100, spec_id=1)
AIMED = replace(POSITIONS, file_path="f", referenced_data_file="a")
VECTOR = replace(AIMED, file_path="v", file_format="puffin", content_offset=4, content_size_in_bytes=44)
EQUALITY = DataFile(FileContent.EQUALITY_DELETES, "e", "parquet", ("x",), 3, 100, equality_ids=(1,), spec_id=1)
GLOBAL = replace(EQUALITY, file_path="g", partition=(), spec_id=0)


def deletes(*entries, where=None):
    """The paths of each data file's deletes."""
    maker = table_of(entries, SCHEMA, specs=SPECS, format_version=3)
    plan = plan_scan(maker.metadata, maker.storage, snapshot=maker.snapshots[-1], options=ScanOptions(where=where))
    return {task.file.file_path: [d.file_path for d in task.deletes] for task in plan.tasks()}


def at(file, number):
    return existing(file, 1, number)


def test_every_kind_in_the_order_of_the_manifests():
    found = deletes(at(ROWS, 5), at(POSITIONS, 5), at(AIMED, 6), at(EQUALITY, 6), at(GLOBAL, 6), at(EQUALITY, 5))
    assert found == {"a": ["p", "f", "e", "g"]}


def test_a_vector_takes_the_place_of_position_deletes():
    assert deletes(at(ROWS, 5), at(POSITIONS, 6), at(AIMED, 6), at(VECTOR, 6), at(EQUALITY, 6)) == {"a": ["v", "e"]}


def test_a_vector_comes_with_its_place_in_the_file():
    maker = table_of([at(ROWS, 5), at(VECTOR, 6)], SCHEMA, specs=SPECS, format_version=3)
    (task,) = plan_scan(maker.metadata, maker.storage, snapshot=maker.snapshots[-1]).tasks()
    (vector,) = task.deletes
    assert (vector.content_offset, vector.content_size_in_bytes, task.deletes_size) == (4, 44, 44)


def test_paths_from_equal_bounds():
    bounds = {2147483546: b"a"}
    other = {2147483546: b"b"}
    own = replace(POSITIONS, file_path="own", lower_bounds=bounds, upper_bounds=bounds)
    range_ = replace(POSITIONS, file_path="range", lower_bounds=bounds, upper_bounds=other)
    elsewhere = replace(POSITIONS, file_path="elsewhere", lower_bounds=other, upper_bounds=other)
    assert deletes(at(ROWS, 5), at(own, 6), at(range_, 6), at(elsewhere, 6)) == {"a": ["own", "range"]}


def test_partitions_with_nan_and_signed_zero():
    """Floats are equal by their bits, with one NaN; decimals by their value."""
    nan, minus = float("nan"), -float("nan")
    cent = Decimal("0.01")
    rows = [replace(ROWS, file_path=f"{x}", partition=(x, cent), spec_id=2) for x in (nan, 0.0, -0.0)]
    gone = [replace(POSITIONS, file_path=f"d{x}", partition=(x, cent), spec_id=2) for x in (minus, -0.0)]
    found = deletes(*(at(row, 5) for row in rows), *(at(one, 5) for one in gone))
    assert found == {"nan": ["dnan"], "0.0": [], "-0.0": ["d-0.0"]}


# errors ---------------------------------------------------------------------------------------------------------------


def test_two_vectors_for_one_file():
    with pytest.raises(CorruptFile, match="2 deletion vectors for one data file"):
        deletes(at(ROWS, 5), at(VECTOR, 6), at(replace(VECTOR, content_offset=50, file_size_in_bytes=200), 7))


def test_two_vectors_for_a_file_that_is_not_read():
    """Java looks at all vectors; whoever does not read the file need not care."""
    other = replace(ROWS, file_path="b", partition=("y",))
    second = replace(VECTOR, content_offset=50, file_size_in_bytes=200)
    assert deletes(at(ROWS, 5), at(other, 5), at(VECTOR, 6), at(second, 7), where=col("p") == "y") == {"b": []}


def test_a_vector_that_is_older_than_its_file():
    with pytest.raises(CorruptFile, match="older than the data file"):
        deletes(at(ROWS, 5), at(VECTOR, 4))


def test_older_positions_of_a_file_do_not_matter():
    assert deletes(at(ROWS, 5), at(AIMED, 4)) == {"a": []}


@pytest.mark.parametrize("file", [AIMED, VECTOR], ids=["positions", "vector"])
@pytest.mark.parametrize("place", [{"partition": ("y",)}, {"partition": (), "spec_id": 0}])
def test_a_delete_that_names_a_file_of_another_partition(file, place):
    other = at(replace(ROWS, file_path="b", **place), 5)  # so that the manifest of the delete is read
    with pytest.raises(CorruptFile, match="names a data file but cannot apply"):
        deletes(at(ROWS, 5), other, at(replace(file, **place), 6))


def test_a_vector_without_its_data_file():
    with pytest.raises(CorruptFile, match="must name its data file"):
        deletes(at(ROWS, 5), at(replace(VECTOR, referenced_data_file=None), 6))


# what is left out -----------------------------------------------------------------------------------------------------


def bounds(low, high, *, nulls=0, count=10, nans=None):
    return {
        "value_counts": {1: count},
        "null_value_counts": {1: nulls},
        "lower_bounds": {} if low is None else {1: encode(INT, low)},
        "upper_bounds": {} if high is None else {1: encode(INT, high)},
    }


@pytest.mark.parametrize(
    ("data", "delete", "applies"),
    [
        (bounds(1, 5), bounds(6, 9), False),
        (bounds(6, 9), bounds(1, 5), False),
        (bounds(1, 5), bounds(5, 9), True),
        (bounds(1, 5, nulls=1), bounds(6, 9, nulls=1), True),
        (bounds(1, 5, nulls=1), bounds(6, 9), False),
        (bounds(None, None, nulls=10), bounds(1, 9), False),
        (bounds(None, None, nulls=10), bounds(1, 9, nulls=1), True),
        (bounds(1, 9), bounds(None, None, nulls=10), False),
        (bounds(1, 5), {}, True),
        ({}, bounds(1, 5), True),
        (bounds(1, None), bounds(2, 3), True),
        (bounds(4, None), bounds(2, 3), False),
    ],
)
@pytest.mark.parametrize("scope", [EQUALITY, GLOBAL], ids=["partition", "global"])
def test_equality_deletes_by_the_bounds_of_both_files(scope, data, delete, applies):
    """The cases of Java's DeleteFileIndex, and those where only one bound is known."""
    rows, gone = replace(ROWS, **data), replace(scope, record_count=10, **delete)
    assert deletes(at(rows, 5), at(gone, 6)) == {"a": [scope.file_path] if applies else []}


def test_equality_deletes_of_nan():
    def of(low, high, nans):
        return {
            "value_counts": {3: 10},
            "null_value_counts": {3: 0},
            "nan_value_counts": {3: nans},
            "lower_bounds": {3: encode(DOUBLE, low)},
            "upper_bounds": {3: encode(DOUBLE, high)},
        }

    for data, delete, applies in [
        (of(1.0, 2.0, 1), of(5.0, 6.0, 1), True),
        (of(1.0, 2.0, 0), of(5.0, 6.0, 1), False),
        (of(1.0, 2.0, 1), of(5.0, 6.0, 0), False),
        (of(-0.0, -0.0, 0), of(0.0, 0.0, 0), True),
    ]:
        gone = replace(GLOBAL, equality_ids=(3,), record_count=10, **delete)
        assert deletes(at(replace(ROWS, **data), 5), at(gone, 6)) == {"a": ["g"] if applies else []}


def test_equality_deletes_that_the_filter_leaves_out():
    """A row that passes cannot be one of those deleted, by the columns that are compared."""
    rows = replace(ROWS, **bounds(1, 50))
    gone = replace(GLOBAL, record_count=10, **bounds(20, 30))
    assert deletes(at(rows, 5), at(gone, 6), where=col("id") > 40) == {"a": []}
    assert deletes(at(rows, 5), at(gone, 6), where=col("id") > 25) == {"a": ["g"]}
    assert deletes(at(rows, 5), at(replace(gone, equality_ids=(3,)), 6), where=col("id") > 40) == {"a": ["g"]}


def test_manifests_of_deletes_of_other_partitions_are_not_read():
    entries = [at(ROWS, 5), at(replace(POSITIONS, partition=("y",)), 6)]
    maker = table_of(entries, SCHEMA, specs=SPECS)
    unread = [m.manifest_path for m in maker.manifests[1] if m.content == 1]
    maker.storage.delete_many(unread)
    plan = plan_scan(
        maker.metadata, maker.storage, snapshot=maker.snapshots[-1], options=ScanOptions(where=col("p") == "x")
    )
    assert (len(plan), plan.report.delete_manifests, plan.report.delete_manifests_skipped) == (1, 1, 1)


def test_manifests_of_deletes_of_other_specs_are_not_read():
    maker = table_of([at(ROWS, 5), at(replace(POSITIONS, partition=(1.0, None), spec_id=2), 6)], SCHEMA, specs=SPECS)
    maker.storage.delete_many([m.manifest_path for m in maker.manifests[1] if m.content == 1])
    assert len(plan_scan(maker.metadata, maker.storage, snapshot=maker.snapshots[-1])) == 1


def test_deletes_alone_are_not_read():
    maker = table_of([at(ROWS, 5), at(GLOBAL, 6)], SCHEMA, specs=SPECS)
    maker.storage.delete_many([m.manifest_path for m in maker.manifests[1] if m.content == 1])
    plan = plan_scan(
        maker.metadata, maker.storage, snapshot=maker.snapshots[-1], options=ScanOptions(where=col("p") == "nothing")
    )
    assert (len(plan), plan.report.delete_manifests_read) == (0, 0)


# many -----------------------------------------------------------------------------------------------------------------


def test_many_files_with_many_deletes():
    """20,000 data files in 500 partitions; 1,000 vectors, 500 aimed, 500 partition-wide and 500 equality deletes."""
    count, partitions = 20_000, 500
    rows = [at(data_file(f"data-{n:06}", partition=(f"p{n % partitions}",), spec_id=1), n % 7) for n in range(count)]
    gone = []
    for n in range(1000):
        place = {"partition": (f"p{n % partitions}",), "referenced_data_file": f"data-{n:06}"}
        gone.append(at(replace(VECTOR, file_path=f"v{n}", **place), 7))
    for n in range(partitions):
        place = {"partition": (f"p{n}",)}
        gone.append(at(replace(AIMED, file_path=f"f{n}", referenced_data_file=f"data-{5000 + n:06}", **place), 7))
        gone.append(at(replace(POSITIONS, file_path=f"p{n}", **place), 3))
        gone.append(at(replace(EQUALITY, file_path=f"e{n}", **place), 3))
    maker = table_of([*rows, *gone], SCHEMA, specs=SPECS, format_version=3)
    started = time.process_time()
    plan = plan_scan(maker.metadata, maker.storage, snapshot=maker.snapshots[-1])
    counts = np.concatenate(list(plan.delete_counts()))
    spent = time.process_time() - started
    numbers = np.arange(count)
    age = numbers % 7
    has_vector, has_aimed = numbers < 1000, (numbers >= 5000) & (numbers < 5500)
    expected = np.where(has_vector, 1, (age <= 3).astype(int) + has_aimed) + (age < 3)
    assert counts.tolist() == expected.tolist()
    assert spent < 5


def test_global_deletes_of_narrow_ranges_are_found_by_their_bounds():
    """20,000 data files and 5,000 deletes of the whole table, each near a few files: not 100 million pairs."""
    rows = [
        at(replace(data_file(f"{n:06}", partition=("p",), spec_id=1), **bounds(n * 10, n * 10 + 9)), 5)
        for n in range(20_000)
    ]
    gone = [at(replace(GLOBAL, file_path=f"g{n}", record_count=10, **bounds(n * 40, n * 40)), 6) for n in range(5000)]
    wide = at(replace(GLOBAL, file_path="wide", record_count=10, **bounds(0, 10**6)), 6)
    old = at(replace(GLOBAL, file_path="old", record_count=10, **bounds(0, 10**6)), 5)
    maker = table_of([*rows, *gone, old], SCHEMA, specs=SPECS)
    started = time.process_time()
    plan = plan_scan(maker.metadata, maker.storage, snapshot=maker.snapshots[-1])
    counts = np.concatenate(list(plan.delete_counts()))
    assert counts.tolist() == [int(n % 4 == 0) for n in range(20_000)]
    assert time.process_time() - started < 5
    assert deletes(*rows[:3], gone[0], wide) == {"000000": ["g0", "wide"], "000001": ["wide"], "000002": ["wide"]}
    nulls = replace(GLOBAL, file_path="nulls", record_count=10, **bounds(500, 500, nulls=1))
    holey = replace(data_file("holey", partition=("p",), spec_id=1), **bounds(0, 1, nulls=1))
    found = deletes(at(holey, 5), *rows[:2], at(nulls, 6), *gone[:3])
    assert found == {"holey": ["nulls", "g0"], "000000": ["g0"], "000001": []}
