"""What is left of a filter once a file's partition is known: equal to the filter on every row of that partition."""

import math

import pytest
from hypothesis import assume, given, settings, strategies as st

from floe.spec import types as t
from floe.spec.expressions.binder import bind
from floe.spec.expressions.dsl import col
from floe.spec.expressions.nodes import FALSE, TRUE, BoundPredicate, BoundReference, Op
from floe.spec.expressions.row_evaluation import compile_row_filter
from floe.spec.partitioning.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec, partition_value_fn
from floe.spec.partitioning.transforms import DAY, HOUR, IDENTITY, VOID, Bucket, Truncate, UnknownTransform
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field
from helpers.filter_strategies import (
    SCHEMA,
    TYPES,
    every_predicate,
    field_ids,
    filters,
    pool,
    predicates,
    references,
    rows,
    safe_rows,
)
from helpers.residuals import compile_residual, residual

V = col("v")


def left(expression, type_, transform, value):
    """What is left of a filter on column `v` in the partition of a value, as text."""
    schema = Schema((Field(1, "v", type_),))
    by = PartitionSpec((PartitionField((1,), 1000, "p", transform),))
    return str(residual(bind(expression, schema), by, schema, (value,)))


def test_the_days_between_need_no_filter():
    """Java's example: `ts >= a and ts <= b` over days."""
    between = (V >= "2024-01-01T12:00:00") & (V <= "2024-01-03T12:00:00")
    assert [left(between, t.TIMESTAMP, DAY, day) for day in (19722, 19724, 19726)] == ["false", "true", "false"]
    schema = Schema((Field(1, "v", t.TIMESTAMP),))
    first, last = (str(bind(part, schema)) for part in between.children)
    assert [left(between, t.TIMESTAMP, DAY, day) for day in (19723, 19725)] == [first, last]


@pytest.mark.parametrize(
    ("expression", "value", "wanted"),
    [
        (V == 5, 5, "true"), (V == 5, 6, "false"), (V != 5, 5, "false"), (V != 5, 6, "true"),
        (V < 5, 4, "true"), (V < 5, 5, "false"), (V.is_in([1, 5]), 5, "true"), (V.is_in([1, 5]), 4, "false"),
        (V.not_in([1, 5]), 4, "true"), (V.not_in([1, 5]), 5, "false"),
        (V.is_null(), None, "true"), (V.is_null(), 5, "false"), (V.is_not_null(), None, "false"),
    ],
    ids=str,
)  # fmt: skip
def test_an_identity_partition_decides_everything(expression, value, wanted):
    assert left(expression, t.INT, IDENTITY, value) == wanted


@pytest.mark.parametrize("expression", [V == 5, V != 5, V < 5, V > 5, V.is_in([4, 5]), V.not_in([4, 5])], ids=str)
@pytest.mark.parametrize("transform", [IDENTITY, Bucket(4), Truncate(10)], ids=str)
def test_a_null_partition_fails_every_comparison(expression, transform):
    """Java lets nulls pass `<>` and NOT IN."""
    assert left(expression, t.INT, transform, None) == "false"


@pytest.mark.parametrize("transform", [IDENTITY, Truncate(2)], ids=str)
def test_prefixes_in_a_null_partition(transform):
    """Java fails with a null pointer on NOT STARTS WITH (see the corpus' README)."""
    assert left(V.starts_with("a"), t.STRING, transform, None) == "false"
    assert left(V.not_starts_with("a"), t.STRING, transform, None) == "false"


def test_not_starts_with_by_the_length_of_the_prefix():
    """The residual of NOT STARTS WITH (apache/iceberg-python#3528)."""
    assert left(V.not_starts_with("a"), t.STRING, Truncate(2), "ab") == "false"
    assert left(V.not_starts_with("b"), t.STRING, Truncate(2), "ab") == "true"
    assert left(V.not_starts_with("ab"), t.STRING, Truncate(2), "ab") == "false"
    assert left(V.not_starts_with("ac"), t.STRING, Truncate(2), "ab") == "true"
    assert left(V.not_starts_with("acd"), t.STRING, Truncate(2), "ab") == "true"
    assert left(V.not_starts_with("abc"), t.STRING, Truncate(2), "ab") == str(
        bind(V.not_starts_with("abc"), Schema((Field(1, "v", t.STRING),)))
    )


def test_not_nan_in_a_null_partition():
    """No test but IS NULL is true of null, NOT NAN included (apache/iceberg-python#3689 raised an error)."""
    schema = Schema((Field(1, "v", t.DOUBLE),))
    by = PartitionSpec((PartitionField((1,), 1000, "p", IDENTITY),))
    v = BoundReference(schema.entry(1))
    for op, of_null, of_nan, of_number in ((Op.NOT_NAN, FALSE, FALSE, TRUE), (Op.IS_NAN, FALSE, TRUE, FALSE)):
        left_of = compile_residual(BoundPredicate(op, v), by, schema)
        assert [left_of((value,)) for value in (None, math.nan, 1.0)] == [of_null, of_nan, of_number]


def test_nan_partitions():
    assert left(V > 5.0, t.DOUBLE, IDENTITY, math.nan) == "true"
    assert left(V < 5.0, t.DOUBLE, IDENTITY, math.nan) == "false"
    assert left(V == 0.0, t.DOUBLE, IDENTITY, -0.0) == "true"


def test_buckets_rule_out_but_do_not_prove_equality():
    bucket = Bucket(16).apply(t.LONG, 34)
    assert left(V == 34, t.LONG, Bucket(16), bucket) == "v = 34"
    assert left(V == 34, t.LONG, Bucket(16), bucket + 1) == "false"
    assert left(V != 34, t.LONG, Bucket(16), bucket + 1) == "true"
    assert left(V != 34, t.LONG, Bucket(16), bucket) == "v <> 34"
    assert left(V.bucket(16) == 3, t.LONG, Bucket(16), 3) == "true"


def test_void_and_unknown_transforms_leave_the_filter():
    for transform in (VOID, UnknownTransform("zorder")):
        assert left(V == 34, t.LONG, transform, None) == "v = 34"
        assert left(V.is_null(), t.LONG, transform, None) == "v IS NULL"


def test_several_fields_of_one_column_each_may_decide():
    schema = Schema((Field(1, "v", t.TIMESTAMP),))
    by = PartitionSpec((PartitionField((1,), 1000, "d", DAY), PartitionField((1,), 1001, "h", HOUR)))
    late = bind(V > "2024-01-01T01:00:00", schema)
    assert residual(late, by, schema, (19723, 19723 * 24 + 2)) == TRUE
    assert residual(late, by, schema, (19723, 19723 * 24)) == FALSE
    assert residual(late, by, schema, (19723, 19723 * 24 + 1)) == late


def test_parts_that_are_decided_fall_away():
    schema = Schema((Field(1, "a", t.INT), Field(2, "b", t.INT)))
    by = PartitionSpec((PartitionField((1,), 1000, "a", IDENTITY),))
    both, either = bind((col("a") == 1) & (col("b") == 2), schema), bind((col("a") == 1) | (col("b") == 2), schema)
    assert [str(residual(both, by, schema, (a,))) for a in (1, 2, None)] == ["b = 2", "false", "false"]
    assert [str(residual(either, by, schema, (a,))) for a in (1, 2, None)] == ["true", "b = 2", "b = 2"]


def test_without_partitions_all_is_left():
    schema = Schema((Field(1, "v", t.INT),))
    bound = bind(V == 1, schema)
    assert residual(bound, UNPARTITIONED, schema, ()) == bound


TRANSFORMS = [IDENTITY, Bucket(4), Truncate(2), Truncate(10), DAY, HOUR, VOID]


@pytest.mark.parametrize("source", [n + 1 for n in range(len(TYPES))], ids=lambda n: str(TYPES[n - 1]))
def test_what_is_left_is_equal_on_every_row_of_the_partition(source):
    reference = BoundReference(SCHEMA.entry(source))
    name = reference.entry.name
    found = safe_rows([{name: v} for v in (None, *pool(reference.type))], [source])
    for transform in TRANSFORMS:
        if not transform.can_transform(reference.type):
            continue
        by = PartitionSpec((PartitionField((source,), 1000, "p", transform),))
        place = partition_value_fn(by, SCHEMA)
        for leaf in every_predicate(reference):
            left_of, passes = compile_residual(leaf, by, SCHEMA), compile_row_filter(leaf)
            for row in found:
                rest = left_of(place(row))
                assert rest in (TRUE, FALSE, leaf)
                assert compile_row_filter(rest)(row) == passes(row), (str(leaf), str(transform), row)


@given(st.data())
@settings(max_examples=60)
def test_what_is_left_of_whole_filters_is_equal_on_every_row(data):
    expression = data.draw(filters(predicates(references(), transformed=True)))
    ids = field_ids(expression)
    assume(ids)
    fields = []
    for n, source in enumerate(ids[:3]):
        choices = [x for x in TRANSFORMS if x.can_transform(SCHEMA.entry(source).field.type)]
        fields.append(PartitionField((source,), 1000 + n, f"p{n}", data.draw(st.sampled_from(choices))))
    by = PartitionSpec(tuple(fields))
    place, left_of, passes = (
        partition_value_fn(by, SCHEMA),
        compile_residual(expression, by, SCHEMA),
        compile_row_filter(expression),
    )
    for row in safe_rows(data.draw(rows(ids)), ids):
        assert compile_row_filter(left_of(place(row)))(row) == passes(row)
