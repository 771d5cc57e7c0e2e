"""Plans of small tables: what was left out and why, filters, schemas and lineage."""

from dataclasses import replace

import pytest

from floe.errors import InvalidExpression, NoSuchColumn
from floe.plan.scan import ScanOptions, plan_scan
from floe.spec.codecs.single_value import encode
from floe.spec.expressions.dsl import col
from floe.spec.partitioning.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import IDENTITY
from floe.spec.schemas.schema import Schema
from floe.spec.types import INT, LONG, STRING, Field
from floe.storage.environment import ManualClock
from helpers.corpus_tables import open_table
from helpers.planned_tables import TableMaker, added, data_file, deleted, existing, table_of

SCHEMA = Schema((Field(1, "id", INT), Field(2, "p", STRING)))
BY_P = PartitionSpec((PartitionField((2,), 1000, "p", IDENTITY),), 1)
SPECS = (UNPARTITIONED, BY_P)


def numbered(path, low, high, **changes):
    bounds = {"lower_bounds": {1: encode(INT, low)}, "upper_bounds": {1: encode(INT, high)}}
    return data_file(path, value_counts={1: 10}, null_value_counts={1: 0}, **bounds, **changes)


@pytest.fixture
def table():
    """Two manifests of spec 1 (partitions x and y, and z) and one without partitions."""
    maker = TableMaker(SCHEMA, SPECS)
    x, y, z = ([numbered(f"{p}{n}", n * 10, n * 10 + 9, partition=(p,), spec_id=1) for n in range(3)] for p in "xyz")
    first = maker.manifest([added(file) for file in (*x, *y)], snapshot=1, number=1, spec_id=1)
    second = maker.manifest([added(file) for file in z], snapshot=1, number=1, spec_id=1)
    plain = maker.manifest([added(numbered("plain", 0, 100)), deleted(data_file("gone"), 1, 1)], snapshot=1, number=1)
    maker.snapshot(1, [first, second, plain])
    return maker


def plan_of(maker, **options):
    snapshot = options.pop("snapshot", maker.snapshots[-1])
    return plan_scan(maker.metadata, maker.storage, snapshot=snapshot, options=ScanOptions(**options))


def paths(plan):
    return [task.file.file_path for task in plan.tasks()]


def test_what_was_left_out_and_why(table):
    plan = plan_of(table, where=(col("p") == "x") & (col("id") > 15), clock=ManualClock(step_ms=7))
    assert paths(plan) == ["x1", "x2", "plain"]
    report = plan.report
    assert (report.data_manifests, report.data_manifests_skipped) == (3, 1)
    assert (report.files_read, report.files_in_partitions, report.files, report.files_skipped) == (7, 4, 3, 4)
    assert (report.delete_manifests, report.delete_files, report.file_bytes) == (0, 0, 3000)
    assert report.planning_ms == 7
    text = plan.explain()
    assert "id > 15" in text
    assert "7 in the manifests read, 3 skipped by partition, 1 skipped by metrics, 3 to read" in text


def test_each_spec_leaves_its_own_residual(table):
    plan = plan_of(table, where=(col("p") == "x") & (col("id") > 25))
    found = {task.file.file_path: str(task.residual) for task in plan.tasks()}
    assert found == {"x2": "id > 25", "plain": "p = 'x' AND id > 25"}


def test_specs_of_tasks_are_those_of_the_files(table):
    assert {task.file.file_path: task.spec.spec_id for task in plan_of(table).tasks()} == {
        "plain": 0,
        **{f"{p}{n}": 1 for p in "xyz" for n in range(3)},
    }


def test_filters_that_nothing_or_everything_passes(table):
    assert paths(plan_of(table, where=col("id") < -(2**40))) == []
    assert plan_of(table, where=col("id") < -(2**40)).report.data_manifests_read == 0
    assert len(plan_of(table, where=(col("id") < 2**40) | col("id").is_null())) == 10


def test_no_snapshot_no_files(table):
    plan = plan_of(table, snapshot=None, where=col("id") > 3)
    assert (len(plan), plan.record_count, list(plan.tasks()), list(plan.combined())) == (0, 0, [], [])
    assert plan.to_arrow().num_rows == plan.deletes_to_arrow().num_rows == 0


def test_filters_that_do_not_fit(table):
    with pytest.raises(NoSuchColumn):
        plan_of(table, where=col("nobody") == 1)
    with pytest.raises(InvalidExpression):
        plan_of(table, where=col("id") == "text")
    with pytest.raises(NoSuchColumn):
        plan_of(table, where=col("ID") == 1)
    assert paths(plan_of(table, where=col("ID") == 1, case_sensitive=False)) == ["x0", "y0", "z0", "plain"]


def test_the_schema_of_the_read_names_the_columns(table):
    """A column that was renamed is found by the name of the time that is read."""
    newer = replace(table, schema=Schema((Field(1, "number", LONG), Field(2, "p", STRING)), 1), schemas=(SCHEMA,))
    assert paths(plan_of(newer, where=col("number") == 1)) == ["x0", "y0", "z0", "plain"]
    assert paths(plan_of(newer, where=col("id") == 1, schema=SCHEMA)) == ["x0", "y0", "z0", "plain"]
    later = newer.snapshot(2, newer.manifests[1], schema_id=1)
    assert paths(plan_of(newer, snapshot=newer.snapshots[0], where=col("id") == 1)) == ["x0", "y0", "z0", "plain"]
    assert paths(plan_of(newer, snapshot=later, where=col("number") == 1)) == ["x0", "y0", "z0", "plain"]


def test_a_partition_column_that_was_dropped(table):
    """Its values are still read, and its type is that of the schema which had it."""
    newer = replace(table, schema=Schema((Field(1, "id", INT),), 1), schemas=(SCHEMA,))
    newer.snapshot(2, newer.manifests[1], schema_id=1)
    plan = plan_of(newer, where=col("id") == 25)
    assert [task.file.partition for task in plan.tasks()] == [("x",), ("y",), ("z",), ()]
    unknown = replace(newer, schemas=())  # and even where no schema has it any more
    plan = plan_of(unknown, where=col("id") == 25)
    assert [task.file.partition for task in plan.tasks()] == [("x",), ("y",), ("z",), ()]
    assert len(list(plan.combined())) == 1


def test_files_without_rows_are_kept_only_without_a_filter():
    """As in Java: there is nothing in them, but a plan without a filter does not look."""
    maker = table_of([added(data_file("empty", record_count=0)), added(data_file("a"))], SCHEMA)
    assert paths(plan_of(maker)) == ["empty", "a"]
    assert paths(plan_of(maker, where=col("id") > 1)) == ["a"]


@pytest.mark.parametrize("name", ["lineage_v3", "lineage_upgraded", "lineage_upgraded_cow"])
def test_row_ids_and_sequence_numbers_come_with_the_tasks(corpus_dir, name):
    """The first row id of each file is where the rows' ids begin (columns `_row_id` of the answers)."""
    table = open_table(corpus_dir, name)
    plan = plan_scan(table.metadata, table.storage, snapshot=table.metadata.current_snapshot)
    tasks = list(plan.tasks())
    firsts = [task.file.first_row_id for task in tasks]
    assert all(first is not None for first in firsts)
    assert len(set(firsts)) == len(firsts)
    assert all(first < table.metadata.next_row_id for first in firsts)
    assert all(task.entry.sequence_number is not None for task in tasks)


def test_tasks_can_be_made_again(table):
    plan = plan_of(table)
    assert list(plan.tasks()) == list(plan.tasks())
    assert repr(plan) == "<ScanPlan: 10 files, 10000 bytes>"


def test_many_small_manifests_are_one_plan():
    maker = TableMaker(SCHEMA, SPECS)
    manifests = [
        maker.manifest(
            [existing(data_file(f"{n}-{k}", partition=(f"p{n % 3}",), spec_id=1), n, n) for k in range(3)],
            snapshot=n,
            number=n,
            spec_id=1,
        )
        for n in range(1, 301)
    ]
    maker.snapshot(1, manifests)
    plan = plan_of(maker, where=col("p") == "p1")
    assert [(t.file.file_path, t.entry.sequence_number, t.entry.snapshot_id) for t in plan.tasks()] == [
        (f"{n}-{k}", n, n) for n in range(1, 301) if n % 3 == 1 for k in range(3)
    ]
    assert plan.report.data_manifests_skipped == 200
