"""Many files, manifests and partition tuples at once: the same answers as one by one; byte strings compared whole."""

import bisect
import math
from decimal import Decimal
from types import SimpleNamespace
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from floe.errors import CorruptFile, InvalidExpression, InvalidValue
from floe.spec import types as t
from floe.spec.codecs.single_value import encode
from floe.spec.expressions.nodes import FALSE, TRUE, BoundPredicate, BoundReference, BoundTransform, Op
from floe.spec.expressions.row_evaluation import compile_row_filter
from floe.spec.manifests.entries import FieldSummary
from floe.spec.partitioning.transforms import Bucket, Truncate
from floe.spec.pruning import metrics_evaluation
from floe.spec.pruning.column_evaluation import Column, evaluate, make_column
from floe.spec.pruning.key_columns import keys_from_bounds, trusted_bounds
from floe.spec.pruning.metrics_evaluation import ColumnStats, FileStats, gather_stats
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, Field, FixedType
from helpers import scalar_pruning
from helpers.filter_strategies import (
    COLUMNS,
    SCHEMA,
    TYPES,
    every_predicate,
    field_ids,
    files_of_two,
    filters,
    metrics_of,
    nullable_values,
    pool,
    predicates,
    references,
    rows,
    safe_rows,
    transform_terms,
    value_in,
)

FLAT = [n + 1 for n in range(len(TYPES))]

# byte strings ------------------------------------------------------------------------------------------------

LETTERS = st.lists(st.sampled_from(list(b"\0ab\x7f\x80\xff")), max_size=20).map(bytes)
STRINGS = st.lists(st.none() | LETTERS, max_size=60)


def sign(a, b):
    return (a > b) - (a < b)


@given(STRINGS, LETTERS)
def test_strings_compare_with_one_as_bytes_do(strings, other):
    compared = VarBytes.of(strings).compare(other)
    assert [c for s, c in zip(strings, compared, strict=True) if s is not None] == [
        sign(s, other) for s in strings if s is not None
    ]


@given(st.lists(st.tuples(LETTERS, LETTERS), max_size=60))
def test_strings_compare_in_pairs_as_bytes_do(pairs):
    left, right = VarBytes.of([a for a, _ in pairs]), VarBytes.of([b for _, b in pairs])
    assert left.compare(right).tolist() == [sign(a, b) for a, b in pairs]


@given(STRINGS, LETTERS)
def test_prefixes_are_found_as_in_bytes(strings, prefix):
    found = VarBytes.of(strings).starts_with(prefix).tolist()
    assert found == [s is not None and s.startswith(prefix) for s in strings]


@given(st.lists(LETTERS, max_size=60), st.sets(LETTERS, max_size=8), st.sampled_from([b"", b"ab", b"abababab\xff"]))
def test_ranks_among_keys_are_those_of_bisection(strings, keys, shared):
    ordered = sorted(shared + key for key in keys)
    column = VarBytes.of(strings)
    assert column.rank(ordered, inclusive=False).tolist() == [bisect.bisect_left(ordered, s) for s in strings]
    assert column.rank(ordered, inclusive=True).tolist() == [bisect.bisect_right(ordered, s) for s in strings]


@pytest.mark.parametrize("length", [7, 8, 9, 63, 64, 65, 1000])
@pytest.mark.parametrize("count", [3, 100])
def test_long_common_prefixes_are_told_apart(length, count):
    strings = [b"x" * length + bytes([n]) for n in range(count)]
    column = VarBytes.of(strings)
    assert column.compare(strings[1]).tolist() == [sign(s, strings[1]) for s in strings]
    assert column.compare(VarBytes.of(strings[::-1])).tolist() == [
        sign(a, b) for a, b in zip(strings, strings[::-1], strict=True)
    ]


def test_strings_are_slices_of_a_shared_array():
    data = np.frombuffer(b"..ab..abc", np.uint8)
    column = VarBytes(data, np.array([2, 6, 0]), np.array([2, 3, -1]))
    assert column.to_list() == [b"ab", b"abc", None]
    assert column.compare(b"abc").tolist()[:2] == [-1, 0]  # what follows in the array is not compared
    assert column.take(np.array([1])).to_list() == [b"abc"]
    assert VarBytes.from_offsets(b"abc", np.array([0, 2, 2, 3]), np.array([True, False, True])).to_list() == [
        b"ab",
        None,
        b"c",
    ]


@pytest.mark.parametrize(("start", "length"), [(-1, 2), (2, 2), (4, 0), (0, 4), (2**62, 1)])
def test_slices_outside_the_array_are_refused(start, length):
    with pytest.raises(CorruptFile, match="of 3"):
        VarBytes(np.frombuffer(b"abc", np.uint8), np.array([start]), np.array([length]))


# keys --------------------------------------------------------------------------------------------------------

BOUND_BYTES = st.none() | st.binary(max_size=18) | st.sampled_from([encode(t.DOUBLE, math.nan), b"\x7f" + b"\xff" * 15])


def bounds_for(type_):
    values = [v for v in pool(type_) if v == v]
    return BOUND_BYTES | st.sampled_from([encode(type_, v) for v in values])


@given(st.data())
@settings(max_examples=150)
def test_bounds_are_decoded_as_one_by_one(data):
    type_ = data.draw(st.sampled_from(TYPES))
    pairs = data.draw(st.lists(st.tuples(bounds_for(type_), bounds_for(type_)), max_size=6))
    lower = keys_from_bounds(type_, VarBytes.of([low for low, _ in pairs]))
    upper = keys_from_bounds(type_, VarBytes.of([high for _, high in pairs]))
    lower, upper = trusted_bounds(type_, lower, upper)
    for row, (low, high) in enumerate(pairs):
        for keys, expected in zip((lower, upper), scalar_pruning.bounds_to_keys(type_, low, high), strict=True):
            assert keys.is_valid[row] == (expected is not None)
            if expected is not None:
                values = keys.values
                assert (values.to_list() if isinstance(values, VarBytes) else values.tolist())[row] == expected


@pytest.mark.parametrize("text", ["0", "1", "-1", "99999999999999999999999999999999999999", "-9223372036854775809"])
@pytest.mark.parametrize("padding", [0, 3])
def test_wide_decimals(text, padding):
    type_, value = DecimalType(38, 0), Decimal(text)
    data = encode(type_, value)
    data = (b"\xff" if value < 0 else b"\0") * padding + data
    column = BoundReference(Schema((Field(1, "d", type_),)).entry(1))
    files = FileStats(np.array([1]), {1: ColumnStats(lower=VarBytes.of([data]), upper=VarBytes.of([data]))})
    known = len(data) <= 16
    for other, op in ((value, Op.NOT_EQ), (value, Op.LT), (value - 1, Op.LT_EQ), (value, Op.GT), (value + 1, Op.GT_EQ)):
        if abs(other) < 10**38:
            assert metrics_evaluation.files_might_match(BoundPredicate(op, column, (other,)), files)[0] != known
    assert metrics_evaluation.files_might_match(BoundPredicate(Op.EQ, column, (value,)), files)[0]


# metrics -----------------------------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=100)
def test_many_files_are_judged_as_one_by_one(data):
    expression = data.draw(filters(predicates(references(), transformed=True)))
    ids = field_ids(expression)
    files = [
        data.draw(metrics_of(safe_rows(data.draw(rows(ids, max_size=4)), ids), ids))
        for _ in range(data.draw(st.integers(0, 4)))
    ]
    stats = gather_stats(files, expression)
    assert metrics_evaluation.files_might_match(expression, stats).tolist() == [
        scalar_pruning.might_match(expression, file) for file in files
    ]
    assert metrics_evaluation.files_must_match(expression, stats).tolist() == [
        scalar_pruning.must_match(expression, file) for file in files
    ]


@given(st.data())
@settings(max_examples=100)
def test_hostile_metrics_are_judged_as_one_by_one(data):
    leaf = data.draw(predicates(references(), transformed=True))
    i = leaf.term.field_id
    type_ = leaf.term.type if isinstance(leaf.term, BoundReference) else leaf.term.ref.type
    counts = st.none() | st.integers(-2, 6)
    files = [
        SimpleNamespace(
            record_count=data.draw(st.integers(-1, 5)),
            **{name: _map(i, data.draw(counts)) for name in ("value_counts", "null_value_counts", "nan_value_counts")},
            **{name: _map(i, data.draw(bounds_for(type_))) for name in ("lower_bounds", "upper_bounds")},
        )
        for _ in range(data.draw(st.integers(1, 4)))
    ]
    stats = gather_stats(files, leaf)
    for many, one in (
        (metrics_evaluation.files_might_match, scalar_pruning.might_match),
        (metrics_evaluation.files_must_match, scalar_pruning.must_match),
    ):
        assert many(leaf, stats).tolist() == [one(leaf, file) for file in files]


def _map(i, value):
    return None if value is None else {i: value}


@pytest.mark.parametrize("field_id", COLUMNS, ids=SCHEMA.name_of)
def test_every_test_of_many_files_is_judged_as_one_by_one(field_id):
    reference = BoundReference(SCHEMA.entry(field_id))
    files = [metrics for _, metrics in files_of_two(field_id)]
    stats = gather_stats(files, BoundPredicate(Op.IS_NULL, reference))
    for term in (reference, *transform_terms(reference)[::3]):
        for leaf in every_predicate(term):
            might, must = scalar_pruning.compile_might_match(leaf), scalar_pruning.compile_must_match(leaf)
            assert metrics_evaluation.files_might_match(leaf, stats).tolist() == [might(file) for file in files], str(
                leaf
            )
            assert metrics_evaluation.files_must_match(leaf, stats).tolist() == [must(file) for file in files], str(
                leaf
            )


def test_columns_without_metrics_are_unknown():
    a = BoundReference(Schema((Field(1, "a", t.INT),)).entry(1))
    files = FileStats(np.array([3, 0, -1]))
    assert metrics_evaluation.files_might_match(BoundPredicate(Op.EQ, a, (1,)), files).tolist() == [True, False, True]
    assert metrics_evaluation.files_must_match(BoundPredicate(Op.EQ, a, (1,)), files).tolist() == [False, True, False]


def test_all_nan_without_counts_of_nulls():
    x = BoundReference(Schema((Field(1, "x", t.DOUBLE),)).entry(1))
    two = np.array([2, 2])
    files = FileStats(two, {1: ColumnStats(value_count=two, nan_count=np.array([2, 1]))})
    assert metrics_evaluation.files_might_match(BoundPredicate(Op.LT, x, (1.0,)), files).tolist() == [False, True]
    assert metrics_evaluation.files_must_match(BoundPredicate(Op.IS_NAN, x), files).tolist() == [True, False]


def test_float_bits_that_signal_are_read_without_a_warning():
    x = BoundReference(Schema((Field(1, "x", t.FLOAT),)).entry(1))
    bounds = VarBytes.of([b"\x01\x00\x80\x7f", encode(t.FLOAT, 1.0)])
    files = FileStats(np.array([1, 1]), {1: ColumnStats(nan_count=np.array([0, 0]), lower=bounds, upper=bounds)})
    assert metrics_evaluation.files_might_match(BoundPredicate(Op.LT, x, (0.0,)), files).tolist() == [True, False]


@pytest.mark.parametrize("literal", [-(2**70), -(2**63) - 1, 2**63, 2**70])
def test_literals_beyond_64_bits(literal):
    """A projected literal may lie just outside its type."""
    a = BoundReference(Schema((Field(1, "a", t.LONG),)).entry(1))
    ends = VarBytes.of([encode(t.LONG, -(2**63)), encode(t.LONG, 2**63 - 1)])
    files = FileStats(np.array([1, 1]), {1: ColumnStats(lower=ends, upper=ends)})
    above = literal > 0
    for op, expected in ((Op.LT, above), (Op.LT_EQ, above), (Op.GT, not above), (Op.GT_EQ, not above), (Op.EQ, False)):
        assert metrics_evaluation.files_might_match(BoundPredicate(op, a, (literal,)), files).tolist() == [expected] * 2
    either = BoundPredicate(Op.IN, a, tuple(sorted((literal, 2**63 - 1))))
    assert metrics_evaluation.files_might_match(either, files).tolist() == [False, True]
    neither = BoundPredicate(Op.NOT_IN, a, either.literals)
    assert metrics_evaluation.files_might_match(neither, files).tolist() == [True, False]


def test_many_literals_are_not_given_up():
    """Java looks at no more than 200 literals of IN."""
    s = BoundReference(Schema((Field(1, "s", t.STRING),)).entry(1))
    literals = tuple(sorted(f"key-{n:05}" for n in range(0, 2000, 2)))
    lower = VarBytes.of([b"key-00001", b"key-00001", b"key-01999"])
    upper = VarBytes.of([b"key-00001~", b"key-00002", b"z"])
    files = FileStats(np.array([1, 1, 1]), {1: ColumnStats(lower=lower, upper=upper)})
    assert metrics_evaluation.files_might_match(BoundPredicate(Op.IN, s, literals), files).tolist() == [
        False,
        True,
        False,
    ]


# manifests ---------------------------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=100)
def test_many_manifests_are_judged_as_one_by_one(data):
    partition = Schema(tuple(Field(n + 1, f"p{n + 1}", type_) for n, type_ in enumerate(TYPES)))
    expression = data.draw(filters(predicates(references(FLAT, partition), transformed=True)))

    def summary(type_):
        some = bounds_for(type_)
        return FieldSummary(
            data.draw(st.booleans()), data.draw(st.sampled_from([None, False, True])), data.draw(some), data.draw(some)
        )

    used = set(field_ids(expression))
    plain = FieldSummary(False, None, None, None)
    manifests = []
    for _ in range(data.draw(st.integers(0, 3))):
        summaries = tuple(summary(f.type) if f.id in used else plain for f in partition.fields)
        kept = data.draw(st.sampled_from([summaries, summaries, summaries[:3], None]))
        manifests.append(SimpleNamespace(partitions=kept))
    columns = metrics_evaluation.gather_summaries(manifests, partition)
    for many, one in (
        (metrics_evaluation.manifests_might_match, scalar_pruning.manifest_might_match),
        (metrics_evaluation.manifests_must_match, scalar_pruning.manifest_must_match),
    ):
        assert many(expression, columns, len(manifests)).tolist() == [one(expression, m, partition) for m in manifests]


# values ------------------------------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=150)
def test_columns_of_values_are_filtered_as_rows_are(data):
    expression = data.draw(filters(predicates(references(FLAT), transformed=True)))
    ids = field_ids(expression)
    found = safe_rows(data.draw(rows(ids, max_size=5)), ids)
    columns = {i: make_column(TYPES[i - 1], [value_in(row, i) for row in found]) for i in ids}
    passes = compile_row_filter(expression)
    assert evaluate(expression, columns, len(found)).tolist() == [passes(row) for row in found]


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_columns_hold_every_type(type_):
    values = [None, *pool(type_)]
    column = make_column(type_, values)
    reference = BoundReference(Schema((Field(1, "v", type_),)).entry(1))
    for literal in (v for v in pool(type_) if v == v):
        found = evaluate(BoundPredicate(Op.EQ, reference, (literal,)), {1: column}, len(values))
        assert found.tolist() == [v is not None and v == literal for v in values]


def test_decimals_may_come_as_unscaled_integers():
    reference = BoundReference(Schema((Field(1, "d", DecimalType(30, 2)),)).entry(1))
    column = Column(np.array([-150, 0, 150]), np.array([True, False, True]))
    assert evaluate(BoundPredicate(Op.LT, reference, (Decimal("1.50"),)), {1: column}, 3).tolist() == [
        True,
        False,
        False,
    ]


def test_a_decimal_of_too_many_bytes_is_an_error():
    reference = BoundReference(Schema((Field(1, "d", DecimalType(9, 2)),)).entry(1))
    with pytest.raises(CorruptFile, match="at most 16 bytes"):
        evaluate(BoundPredicate(Op.LT, reference, (Decimal(1),)), {1: Column(VarBytes.of([b"\0" * 17]))}, 1)


def test_a_column_that_is_not_there_is_an_error():
    reference = BoundReference(Schema((Field(1, "d", t.INT),)).entry(1))
    with pytest.raises(InvalidExpression, match="not among the columns"):
        evaluate(BoundPredicate(Op.IS_NULL, reference), {}, 1)


def test_transforms_of_values_that_have_none_raise_as_for_rows():
    reference = BoundReference(Schema((Field(1, "i", t.INT),)).entry(1))
    term = BoundTransform(Truncate(10), reference, t.INT)
    with pytest.raises(InvalidValue):
        evaluate(BoundPredicate(Op.EQ, term, (0,)), {1: Column(np.array([-(2**31)]))}, 1)


def test_buckets_of_fixed_and_uuid_columns():
    for type_, values in ((FixedType(3), [b"abc", None]), (t.UUID, [UUID(int=5), None])):
        reference = BoundReference(Schema((Field(1, "v", type_),)).entry(1))
        bucket = Bucket(16).apply(type_, values[0])
        term = BoundTransform(Bucket(16), reference, t.INT)
        found = evaluate(BoundPredicate(Op.EQ, term, (bucket,)), {1: make_column(type_, values)}, 2)
        assert found.tolist() == [True, False]


@given(st.lists(nullable_values(t.DOUBLE), max_size=8))
def test_floats_by_their_own_rules(values):
    x = BoundReference(Schema((Field(1, "x", t.DOUBLE),)).entry(1))
    column = {1: make_column(t.DOUBLE, values)}
    above = evaluate(BoundPredicate(Op.GT, x, (math.inf,)), column, len(values)).tolist()
    assert above == [v is not None and math.isnan(v) for v in values]
    zero = evaluate(BoundPredicate(Op.IN, x, (0.0, 1.5)), column, len(values)).tolist()
    assert zero == [v in (0.0, 1.5) for v in values]


def test_constants():
    assert evaluate(TRUE, {}, 3).tolist() == [True] * 3
    assert evaluate(FALSE, {}, 3).tolist() == [False] * 3
    assert metrics_evaluation.manifests_might_match(FALSE, {}, 2).tolist() == [False, False]
