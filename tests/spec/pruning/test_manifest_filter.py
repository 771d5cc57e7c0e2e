"""Skipping manifests by the summaries of their partition fields."""

import math
from types import SimpleNamespace
from uuid import UUID

import pytest
from hypothesis import given, settings, strategies as st

from floe.errors import InvalidExpression
from floe.spec import types as t
from floe.spec.codecs.single_value import encode
from floe.spec.expressions.binder import bind
from floe.spec.expressions.dsl import col
from floe.spec.expressions.nodes import FALSE, TRUE, BoundPredicate, BoundReference, Op
from floe.spec.expressions.row_evaluation import compile_tuple_filter
from floe.spec.manifests.entries import FieldSummary, ManifestContent, ManifestFile, summarize_partitions
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import DAY
from floe.spec.pruning.metrics_evaluation import gather_summaries, manifests_might_match, manifests_must_match
from floe.spec.pruning.projection import inclusive_projection, partition_schema
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, StructType
from helpers.filter_strategies import (
    TYPES,
    every_predicate,
    field_ids,
    filters,
    nullable_values,
    pool,
    predicates,
    references,
)

PARTITION = Schema(tuple(Field(n + 1, f"p{n + 1}", type_) for n, type_ in enumerate(TYPES)))
INT_ONLY = Schema((Field(1000, "p", t.INT),))
FLOAT_ONLY = Schema((Field(1000, "p", t.DOUBLE),))
P = col("p")


def might_match(expression, listed, partition):
    return bool(manifests_might_match(expression, gather_summaries([listed], partition), 1)[0])


def must_match(expression, listed, partition):
    return bool(manifests_must_match(expression, gather_summaries([listed], partition), 1)[0])


def manifest(*summaries):
    return SimpleNamespace(partitions=summaries)


def of_ints(lower, upper, *, null=False):
    bounds = (None if v is None else encode(t.INT, v) for v in (lower, upper))
    return manifest(FieldSummary(null, None, *bounds))


def of_floats(lower, upper, *, null=False, nan=False):
    bounds = (None if v is None else encode(t.DOUBLE, v) for v in (lower, upper))
    return manifest(FieldSummary(null, nan, *bounds))


@pytest.mark.parametrize(
    ("expression", "might", "must"),
    [
        (P < 10, False, False), (P < 11, True, False), (P < 21, True, True), (P <= 9, False, False),
        (P <= 20, True, True),
        (P > 20, False, False), (P > 9, True, True), (P >= 21, False, False), (P == 15, True, False),
        (P == 9, False, False), (P != 9, True, True), (P.is_in([1, 30]), False, False), (P.is_in([1, 12]), True, False),
        (P.not_in([1, 30]), True, True), (P.is_null(), False, False), (P.is_not_null(), True, True),
    ],
    ids=str,
)  # fmt: skip
def test_values_between_10_and_20(expression, might, must):
    bound = bind(expression, INT_ONLY)
    assert might_match(bound, of_ints(10, 20), INT_ONLY) is might
    assert must_match(bound, of_ints(10, 20), INT_ONLY) is must


def test_nulls_are_found_and_fail_comparisons():
    some = of_ints(10, 20, null=True)
    assert might_match(bind(P.is_null(), INT_ONLY), some, INT_ONLY)
    assert not must_match(bind(P.is_not_null(), INT_ONLY), some, INT_ONLY)
    assert not must_match(bind(P < 100, INT_ONLY), some, INT_ONLY)


def test_without_bounds_all_values_are_null():
    """Spec, Manifest Lists: bounds are null if all values are null or NaN."""
    all_null = of_ints(None, None, null=True)
    assert must_match(bind(P.is_null(), INT_ONLY), all_null, INT_ONLY)
    for expression in (P == 1, P != 1, P < 5, P.not_in([1, 2]), P.is_not_null()):
        assert not might_match(bind(expression, INT_ONLY), all_null, INT_ONLY)


def test_without_bounds_and_nulls_a_summary_says_nothing():
    empty = of_ints(None, None)
    assert might_match(bind(P == 1, INT_ONLY), empty, INT_ONLY)
    assert not might_match(bind(P.is_null(), INT_ONLY), empty, INT_ONLY)


@pytest.mark.parametrize(("nan", "kept"), [(False, False), (True, True), (None, True)])
def test_contains_nan_missing_means_unknown(nan, kept):
    numbers = of_floats(1.0, 2.0, nan=nan)
    assert might_match(bind(P > 5.0, FLOAT_ONLY), numbers, FLOAT_ONLY) is kept
    assert might_match(bind(P.is_nan(), FLOAT_ONLY), numbers, FLOAT_ONLY) is kept
    assert must_match(bind(P < 5.0, FLOAT_ONLY), numbers, FLOAT_ONLY) is not kept


def test_without_bounds_all_values_may_be_nan():
    all_nan = of_floats(None, None, nan=True)
    assert must_match(bind(P.is_nan(), FLOAT_ONLY), all_nan, FLOAT_ONLY)
    assert not might_match(bind(P < 5.0, FLOAT_ONLY), all_nan, FLOAT_ONLY)
    both = of_floats(None, None, null=True, nan=True)
    assert not must_match(bind(P.is_nan(), FLOAT_ONLY), both, FLOAT_ONLY)
    assert might_match(bind(P > 5.0, FLOAT_ONLY), both, FLOAT_ONLY)


def test_nan_bounds_are_not_trusted():
    odd = of_floats(1.0, math.nan, nan=False)
    assert might_match(bind(P < 0.0, FLOAT_ONLY), odd, FLOAT_ONLY)
    assert might_match(bind(P.is_nan(), FLOAT_ONLY), odd, FLOAT_ONLY)


def test_zero_valued_bounds_are_bounds():
    zeros = of_ints(0, 0)
    assert not might_match(bind(P > 0, INT_ONLY), zeros, INT_ONLY)
    assert must_match(bind(P == 0, INT_ONLY), zeros, INT_ONLY)


def test_bounds_are_in_the_result_type_of_the_transform():
    schema = Schema((Field(1, "ts", t.TIMESTAMP),))
    by = PartitionSpec((PartitionField((1,), 1000, "ts_day", DAY),))
    partition = partition_schema(by, schema)
    days = manifest(FieldSummary(False, None, encode(t.DATE, 19723), encode(t.DATE, 19724)))
    for text, kept in (("2023-12-31", False), ("2024-01-01", True), ("2024-01-02", True), ("2024-01-03", False)):
        whole_day = bind((col("ts") >= f"{text}T00:00:00") & (col("ts") <= f"{text}T23:59:59.999999"), schema)
        assert might_match(inclusive_projection(whole_day, by, schema), days, partition) is kept


def test_bounds_written_before_a_promotion():
    partition = Schema((Field(1000, "p", t.LONG),))
    old = manifest(FieldSummary(False, None, encode(t.INT, 10), encode(t.INT, 20)))
    assert not might_match(bind(P > 20, partition), old, partition)


def test_uuid_bounds_in_javas_order():
    """Java's summaries order UUIDs as signed numbers: with both signs the bounds are the wrong way round."""
    partition = Schema((Field(1000, "p", t.UUID),))
    values = [UUID(int=1 << 127), UUID(int=5 << 64), UUID(int=7)]
    signed = manifest(FieldSummary(False, None, values[0].bytes, values[1].bytes))
    for value in values:
        assert might_match(bind(value == P, partition), signed, partition)


def test_manifests_without_summaries_are_kept():
    for bare in (SimpleNamespace(partitions=None), manifest()):
        assert might_match(bind(P == 1, INT_ONLY), bare, INT_ONLY)
        assert not must_match(bind(P == 1, INT_ONLY), bare, INT_ONLY)
        assert not might_match(FALSE, bare, INT_ONLY)
        assert must_match(TRUE, bare, INT_ONLY)


def test_bounds_of_a_wrong_length_are_unknown():
    junk = manifest(FieldSummary(False, None, b"?", b"?"))
    assert might_match(bind(P == 1, INT_ONLY), junk, INT_ONLY)


@pytest.mark.parametrize(
    ("added", "existing", "live"), [(0, 0, False), (1, 0, True), (0, 1, True), (None, 0, True), (0, None, True)]
)
def test_counts_of_files_when_null_are_assumed_non_zero(added, existing, live):
    counts = {"added_files_count": added, "existing_files_count": existing}
    listed = ManifestFile("m.avro", 100, 0, ManifestContent.DATA, 1, 1, 1, **counts)
    assert listed.may_have_live_files is live


def test_no_summary_is_unknown():
    for op, literals in ((Op.IS_NULL, ()), (Op.IS_NAN, ()), (Op.EQ, (1.0,))):
        predicate = BoundPredicate(op, BoundReference(FLOAT_ONLY.entry(1000)), literals)
        assert might_match(predicate, SimpleNamespace(partitions=None), FLOAT_ONLY)
        assert not must_match(predicate, SimpleNamespace(partitions=None), FLOAT_ONLY)


@pytest.mark.parametrize("field_id", range(1, len(TYPES) + 1), ids=lambda n: str(TYPES[n - 1]))
def test_every_test_of_summaries_of_two_files_is_sound(field_id):
    type_ = TYPES[field_id - 1]
    only = Schema((PARTITION.by_id[field_id].field,))
    reference = BoundReference(only.entry(field_id))
    values = [None, *pool(type_)]
    pairs = [
        (a, b) for n, a in enumerate(values) for b in {id(v): v for v in (a, values[n - 1], values[n // 2])}.values()
    ]
    manifests = [manifest(*summarize_partitions([(a,), (b,)], StructType(only.fields))) for a, b in pairs]
    summaries = gather_summaries(manifests, only)
    for leaf in every_predicate(reference):
        passes = compile_tuple_filter(leaf, only)
        mights = manifests_might_match(leaf, summaries, len(manifests)).tolist()
        musts = manifests_must_match(leaf, summaries, len(manifests)).tolist()
        for (a, b), might, must in zip(pairs, mights, musts, strict=True):
            results = [passes((a,)), passes((b,))]
            assert might or not any(results)
            assert not must or all(results)


@given(st.data())
@settings(max_examples=100)
def test_no_manifest_with_a_passing_file_is_skipped(data):
    expression = data.draw(filters(predicates(references(list(PARTITION.by_id), PARTITION))))
    used = set(field_ids(expression))
    tuples = [
        tuple(data.draw(nullable_values(f.type)) if f.id in used else None for f in PARTITION.fields)
        for _ in range(data.draw(st.integers(1, 4)))
    ]
    listed = manifest(*summarize_partitions(tuples, StructType(PARTITION.fields)))
    passes = compile_tuple_filter(expression, PARTITION)
    results = [passes(values) for values in tuples]
    assert might_match(expression, listed, PARTITION) or not any(results)
    assert not must_match(expression, listed, PARTITION) or all(results)


def test_one_value_everywhere_is_exact():
    partition = Schema((Field(1000, "p", t.STRING),))
    constant = manifest(*summarize_partitions([("a",), ("a",)], StructType(partition.fields)))
    p = BoundReference(partition.entry(1000))
    assert not might_match(BoundPredicate(Op.NOT_EQ, p, ("a",)), constant, partition)
    assert must_match(BoundPredicate(Op.EQ, p, ("a",)), constant, partition)
    assert not might_match(BoundPredicate(Op.NOT_STARTS_WITH, p, ("a",)), constant, partition)


def test_a_filter_on_rows_is_refused_with_a_hint():
    on_rows = bind(col("a") == 1, Schema((Field(1, "a", t.INT),)))
    with pytest.raises(InvalidExpression, match="project the filter"):
        might_match(on_rows, SimpleNamespace(partitions=()), INT_ONLY)
