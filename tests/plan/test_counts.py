"""Counts, minima and maxima from metadata, beside the rows themselves."""

import math
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies as st

from floe.errors import InvalidInput
from floe.plan.counts import count_rows, count_values, value_range
from floe.plan.scan import ScanOptions, plan_scan
from floe.spec.codecs.single_value import encode
from floe.spec.expressions.nodes import TRUE
from floe.spec.expressions.row_evaluation import compile_row_filter
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.schemas.schema import Schema
from floe.spec.types import BOOLEAN, DOUBLE, INT, STRING, DecimalType, Field
from helpers.corpus import table_names
from helpers.corpus_tables import open_table
from helpers.filter_strategies import filters, predicates, references, value_in
from helpers.planned_tables import added, data_file, existing, table_of
from helpers.random_tables import DECIMAL, DOUBLE as X, IDS, INT as N, TEXT, random_table

TABLES = table_names(without=("invalid", "odd", "view"))


@pytest.mark.parametrize("name", TABLES)
def test_counts_of_the_corpus_are_right_or_left_open(corpus_dir, name):
    table = open_table(corpus_dir, name)
    plan = plan_scan(table.metadata, table.storage, snapshot=table.metadata.current_snapshot)
    found = count_rows(plan)
    (count,) = {case["count"] for case in table.facts["cases"] if not case["query"]} or {None}
    open_rows = sum(task.file.record_count for task in found.tasks())
    if count is not None:
        assert found.count <= count <= found.count + open_rows
    deletes = any(not d.is_deletion_vector for task in plan.tasks() for d in task.deletes)
    assert found.is_complete == (not deletes)


def rows_of(table, bound):
    """The rows of the table that pass, deletes left aside."""
    passes = compile_row_filter(bound)
    live = [entry.data_file.file_path for entry in table.data if entry.is_live]
    return {path: [row for row in table.rows[path] if passes(row)] for path in live}


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32), bound=st.just(TRUE) | filters(predicates(references(IDS))))
def test_what_is_settled_is_what_the_rows_say(seed, bound):
    table = random_table(seed)
    plan = plan_scan(
        table.maker.metadata,
        table.maker.storage,
        snapshot=table.maker.snapshots[-1],
        options=ScanOptions(where=bound, metrics=IDS),
    )
    deleted = {task.file.file_path for task in plan.tasks() if task.deletes}
    rows = rows_of(table, bound)

    counted = count_rows(plan)
    unread = {task.file.file_path for task in counted.tasks()}
    vectors = {
        task.file.file_path: task.deletes[0].record_count
        for task in plan.tasks()
        if len(task.deletes) == 1 and task.deletes[0].is_deletion_vector
    }
    assert deleted - vectors.keys() <= unread
    assert counted.count == sum(len(own) - vectors.get(path, 0) for path, own in rows.items() if path not in unread)

    whole = {task.file.file_path: table.rows[task.file.file_path] for task in plan.tasks()}
    for i in (N, X, DECIMAL, TEXT):
        unread = check_values(count_values(plan, i), rows, i)
        assert deleted <= unread
        assert check_values(count_values(plan, i, whole_files=True), whole, i) <= unread
        unread = check_range(value_range(plan, i), rows, i)
        assert deleted <= unread
        assert check_range(value_range(plan, i, whole_files=True), whole, i) <= unread
        if i == TEXT:
            assert len(unread) == len(plan)


def check_values(found, rows, i):
    """The count is right for the files that need not be read; gives those that do."""
    unread = {task.file.file_path for task in found.tasks()}
    settled = [value_in(row, i) for path, own in rows.items() if path not in unread for row in own]
    assert found.count == sum(value is not None for value in settled)
    return unread


def check_range(found, rows, i):
    """The extent is right for the files that need not be read; gives those that do."""
    unread = {task.file.file_path for task in found.tasks()}
    settled = [value_in(row, i) for path, own in rows.items() if path not in unread for row in own]
    order = [(value != value, 0 if value != value else value) for value in settled if value is not None]
    lower, upper = (
        None if value is None else (value != value, 0 if value != value else value)
        for value in (found.lower, found.upper)
    )
    assert (lower, upper) == ((min(order), max(order)) if order else (None, None))
    return unread


SCHEMA = Schema(
    (
        Field(1, "id", INT),
        Field(2, "x", DOUBLE),
        Field(3, "s", STRING),
        Field(4, "d", DecimalType(38, 2)),
        Field(5, "b", BOOLEAN),
    )
)


def one_file(field_id, type_, low, high, nulls=0, nans=None, deletes=()):
    file = data_file(
        "a",
        value_counts={field_id: 10},
        null_value_counts={field_id: nulls},
        nan_value_counts=None if nans is None else {field_id: nans},
        lower_bounds=None if low is None else {field_id: encode(type_, low)},
        upper_bounds=None if high is None else {field_id: encode(type_, high)},
    )
    maker = table_of([existing(file, 1, 1), *deletes], SCHEMA, format_version=3)
    return plan_scan(
        maker.metadata, maker.storage, snapshot=maker.snapshots[-1], options=ScanOptions(metrics=(field_id,))
    )


def extent(*arguments, **options):
    found = value_range(one_file(*arguments, **options), arguments[0])
    return (found.lower, found.upper) if found.is_complete else None


def test_ranges_of_each_type():
    assert extent(1, INT, -5, 7) == (-5, 7)
    assert extent(2, DOUBLE, -0.5, 7.0, nans=0) == (-0.5, 7.0)
    assert extent(4, DecimalType(38, 2), Decimal("-1.50"), Decimal("2.25")) == (Decimal("-1.50"), Decimal("2.25"))
    assert extent(5, BOOLEAN, False, True) == (False, True)


def test_strings_may_be_cut_short():
    assert extent(3, STRING, "a", "b") is None


def test_nan_is_the_greatest():
    lower, upper = extent(2, DOUBLE, 1.0, 2.0, nans=1)
    assert lower == 1.0
    assert math.isnan(upper)
    lower, upper = extent(2, DOUBLE, None, None, nans=10)
    assert math.isnan(lower)
    assert math.isnan(upper)
    assert extent(2, DOUBLE, 1.0, 2.0) is None  # nobody counted NaN


def test_nothing_but_nulls():
    assert extent(1, INT, None, None, nulls=10) == (None, None)
    assert extent(1, INT, None, None, nulls=9) is None
    assert count_values(one_file(1, INT, 1, 2, nulls=4), 1).count == 6


def test_a_vector_is_counted_and_other_deletes_are_not():
    vector = DataFile(
        FileContent.POSITION_DELETES,
        "v",
        "puffin",
        (),
        3,
        100,
        referenced_data_file="a",
        content_offset=4,
        content_size_in_bytes=44,
    )
    plan = one_file(1, INT, 1, 2, deletes=[existing(vector, 1, 1)])
    assert (count_rows(plan).count, count_rows(plan).is_complete) == (7, True)
    assert not count_values(plan, 1).is_complete
    assert not value_range(plan, 1).is_complete
    assert count_values(plan, 1, whole_files=True).is_complete
    assert value_range(plan, 1, whole_files=True).is_complete
    positions = replace(
        vector, file_format="parquet", referenced_data_file=None, content_offset=None, content_size_in_bytes=None
    )
    plan = one_file(1, INT, 1, 2, deletes=[existing(positions, 1, 1)])
    assert [task.file.file_path for task in count_rows(plan).tasks()] == ["a"]


def test_files_that_nobody_counted():
    maker = table_of([added(data_file("a", file_format="avro", record_count=-1)), added(data_file("b"))], SCHEMA)
    found = count_rows(plan_scan(maker.metadata, maker.storage, snapshot=maker.snapshots[-1]))
    assert (found.count, [task.file.file_path for task in found.tasks()]) == (10, ["a"])


def test_metrics_must_be_kept():
    maker = table_of([added(data_file("a"))], SCHEMA)
    plan = plan_scan(maker.metadata, maker.storage, snapshot=maker.snapshots[-1])
    with pytest.raises(InvalidInput, match="does not keep the metrics of column 1"):
        value_range(plan, 1)
