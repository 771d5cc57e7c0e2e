"""Skipping files by their metrics: never a file with a row that passes, never "all rows" without a proof."""

import math
from decimal import Decimal
from types import SimpleNamespace
from uuid import UUID

import pytest
from hypothesis import given, settings, strategies as st

from floe.spec import types as t
from floe.spec.codecs.single_value import encode
from floe.spec.expressions.binder import bind
from floe.spec.expressions.dsl import col
from floe.spec.expressions.nodes import FALSE, TRUE, BoundPredicate, BoundReference, BoundTransform, Op
from floe.spec.expressions.row_evaluation import compile_row_filter
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.partitioning.transforms import VOID, Truncate, UnknownTransform
from floe.spec.pruning.metrics_evaluation import (
    file_might_match as might_match,
    file_must_match as must_match,
    files_might_match,
    files_must_match,
    gather_stats,
    possible_values,
)
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, Field, ListType, StructType
from helpers.filter_strategies import (
    COLUMNS,
    SCHEMA,
    every_predicate,
    field_ids,
    files_of_two,
    filters,
    metrics_of,
    predicates,
    references,
    rows,
    safe_rows,
    transform_terms,
)

ONE = Schema((Field(1, "a", t.INT), Field(2, "x", t.DOUBLE), Field(3, "s", t.STRING), Field(4, "u", t.UUID)))


def file(records=10, *, type_=t.INT, id_=1, values="all", nulls=0, nans=None, lower=None, upper=None):
    """A file with the metrics of one column; `values="all"` counts every row."""
    return DataFile(
        FileContent.DATA,
        "f.parquet",
        "parquet",
        (),
        records,
        100,
        value_counts=None if values is None else {id_: records if values == "all" else values},
        null_value_counts=None if nulls is None else {id_: nulls},
        nan_value_counts=None if nans is None else {id_: nans},
        lower_bounds=None if lower is None else {id_: lower if isinstance(lower, bytes) else encode(type_, lower)},
        upper_bounds=None if upper is None else {id_: upper if isinstance(upper, bytes) else encode(type_, upper)},
    )


def on_a(op, *literals):
    return BoundPredicate(op, BoundReference(ONE.entry(1)), literals)


def on_x(op, *literals):
    return BoundPredicate(op, BoundReference(ONE.entry(2)), literals)


def on_s(op, *literals):
    return BoundPredicate(op, BoundReference(ONE.entry(3)), literals)


# soundness ---------------------------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=100)
def test_no_file_with_a_passing_row_is_skipped_and_all_rows_means_all(data):
    expression = data.draw(filters(predicates(references(), transformed=True)))
    ids = field_ids(expression)
    found = safe_rows(data.draw(rows(ids)), ids)
    metrics = data.draw(metrics_of(found, ids))
    passes = compile_row_filter(expression)
    results = [passes(row) for row in found]
    if any(results):
        assert might_match(expression, metrics)
    if not all(results):
        assert not must_match(expression, metrics)


@pytest.mark.parametrize("field_id", COLUMNS, ids=SCHEMA.name_of)
def test_every_test_of_every_pair_of_values_is_sound(field_id):
    """All operations and literals of the pool of a type, on files of two rows; files of one value decide all tests."""
    reference, files = BoundReference(SCHEMA.entry(field_id)), files_of_two(field_id)
    stats = gather_stats([metrics for _, metrics in files], BoundPredicate(Op.NOT_NULL, reference))
    for leaf in every_predicate(reference):
        passes = compile_row_filter(leaf)
        mights, musts = files_might_match(leaf, stats).tolist(), files_must_match(leaf, stats).tolist()
        for (data, _), might, must in zip(files, mights, musts, strict=True):
            results = [passes(row) for row in data]
            assert might or not any(results), (str(leaf), data)
            assert not must or all(results), (str(leaf), data)
            if data[0] == data[1] and not may_be_microseconds(reference.type, data[0].get(reference.entry.name)):
                assert might is must is results[0], (str(leaf), data)


def may_be_microseconds(type_, value):
    """Nanoseconds within some months of 1970, whose bounds are not believed."""
    return type_.kind in ("timestamp_ns", "timestamptz_ns") and value is not None and abs(value) < 10**16


def test_bounds_of_nanoseconds_that_are_microseconds_skip_nothing():
    """Java Iceberg writes the bounds of nanosecond columns of ORC files in microseconds."""
    column = BoundReference(Schema((Field(1, "a", t.TIMESTAMP_NS),)).entry(1))
    moment = 1_577_934_245_123_456_789
    for told, skipped in ((moment // 1000, False), (moment, True)):
        bounds = file(nulls=0, lower=encode(t.LONG, told), upper=encode(t.LONG, told))
        assert might_match(BoundPredicate(Op.GT_EQ, column, (moment,)), bounds)
        assert might_match(BoundPredicate(Op.GT, column, (moment,)), bounds) is not skipped
        assert not must_match(BoundPredicate(Op.LT, column, (moment,)), bounds)


@pytest.mark.parametrize("field_id", COLUMNS, ids=SCHEMA.name_of)
def test_every_test_of_every_transform_of_a_column_is_sound(field_id):
    files = [(data, metrics) for data, metrics in files_of_two(field_id) if len(safe_rows(data, [field_id])) == 2]
    reference = BoundReference(SCHEMA.entry(field_id))
    stats = gather_stats([metrics for _, metrics in files], BoundPredicate(Op.NOT_NULL, reference))
    for term in transform_terms(reference):
        for leaf in every_predicate(term):
            passes = compile_row_filter(leaf)
            mights, musts = files_might_match(leaf, stats).tolist(), files_must_match(leaf, stats).tolist()
            for (data, _), might, must in zip(files, mights, musts, strict=True):
                results = [passes(row) for row in data]
                assert might or not any(results), (str(leaf), data)
                assert not must or all(results), (str(leaf), data)


# rows and counts ---------------------------------------------------------------------------------------------


def test_a_file_without_rows_matches_nothing_and_all_its_rows_match():
    assert not might_match(TRUE, file(0))
    assert must_match(FALSE, file(0))


def test_a_negative_record_count_is_unknown():
    # Avro files that old versions imported uncounted
    imported = DataFile(FileContent.DATA, "f.avro", "avro", (), -1, 100)
    assert might_match(on_a(Op.EQ, 1), imported)
    assert not must_match(on_a(Op.EQ, 1), imported)
    assert not must_match(on_a(Op.NOT_NULL), imported)
    assert must_match(TRUE, imported)
    assert not might_match(FALSE, imported)


def test_missing_metrics_are_unknown():
    bare = DataFile(FileContent.DATA, "f.parquet", "parquet", (), 10, 100)
    for op, literals in ((Op.EQ, (1,)), (Op.IS_NULL, ()), (Op.NOT_NULL, ()), (Op.NOT_IN, (1, 2)), (Op.LT, (1,))):
        assert might_match(on_a(op, *literals), bare)
        assert not must_match(on_a(op, *literals), bare)


def test_a_column_that_the_file_lacks_may_hold_its_default():
    schema = Schema((Field(1, "old", t.INT), Field(9, "added", t.INT, initial_default=7)))
    written_before = file(type_=t.INT, lower=1, upper=5)
    for value in (7, 8):
        assert might_match(bind(col("added") == value, schema), written_before)
    assert might_match(bind(col("added").is_null(), schema), written_before)
    assert not must_match(bind(col("added") == 7, schema), written_before)


@pytest.mark.parametrize("op", [Op.LT, Op.LT_EQ, Op.GT, Op.GT_EQ, Op.EQ, Op.NOT_EQ])
def test_all_null_matches_no_comparison(op):
    all_null = file(nulls=10)
    assert not might_match(on_a(op, 5), all_null)
    assert not must_match(on_a(op, 5), all_null)


def test_all_null_matches_is_null_alone():
    all_null = file(nulls=10)
    assert must_match(on_a(Op.IS_NULL), all_null)
    assert not might_match(on_a(Op.NOT_NULL), all_null)
    assert not might_match(on_a(Op.NOT_IN, 1, 2), all_null)
    assert not might_match(on_s(Op.NOT_STARTS_WITH, "a"), file(id_=3, nulls=10))


def test_no_nulls():
    full = file(lower=1, upper=5)
    assert not might_match(on_a(Op.IS_NULL), full)
    assert must_match(on_a(Op.NOT_NULL), full)


def test_a_required_column_has_no_nulls_even_if_they_were_not_counted():
    schema = Schema((Field(1, "a", t.INT, required=True),))
    assert must_match(bind(col("a") < 9, schema), file(nulls=None, lower=1, upper=5))
    # yet counts are believed: the column may have been made required later
    assert not must_match(bind(col("a") < 9, schema), file(nulls=2, lower=1, upper=5))


@pytest.mark.parametrize("count", [9, 11, 0])
def test_counts_that_do_not_fit_the_rows_prove_nothing(count):
    assert not must_match(on_a(Op.NOT_NULL), file(values=count, nulls=0))
    assert might_match(on_a(Op.NOT_NULL), file(values=count, nulls=count))
    assert might_match(on_a(Op.EQ, 3), file(values=count, nulls=count))


def test_counts_of_a_missing_column_written_as_zero_do_not_mean_all_null():
    assert might_match(on_a(Op.EQ, 3), file(values=0, nulls=0))


# bugs of others ----------------------------------------------------------------------------------------------


def test_strict_not_equal_with_nulls():
    """A null does not pass `a <> 5` (apache/iceberg-python#3521; Java lets it pass)."""
    assert not must_match(on_a(Op.NOT_EQ, 5), file(nulls=1, lower=6, upper=9))
    assert must_match(on_a(Op.NOT_EQ, 5), file(nulls=0, lower=6, upper=9))
    assert not must_match(on_a(Op.NOT_EQ, 5), file(nulls=None, lower=6, upper=9))


def test_strict_not_in_with_nulls():
    """A null does not pass `a NOT IN (…)` (apache/iceberg-python#3521)."""
    assert not must_match(on_a(Op.NOT_IN, 4, 5), file(nulls=1, lower=6, upper=9))
    assert must_match(on_a(Op.NOT_IN, 4, 5), file(nulls=0, lower=6, upper=9))


def test_strict_not_starts_with_and_nulls():
    assert not must_match(on_s(Op.NOT_STARTS_WITH, "b"), file(id_=3, type_=t.STRING, nulls=1, lower="a", upper="ab"))
    assert must_match(on_s(Op.NOT_STARTS_WITH, "b"), file(id_=3, type_=t.STRING, nulls=0, lower="a", upper="ab"))


@pytest.mark.parametrize(
    ("type_", "zero", "below"),
    [
        (t.INT, 0, -1),
        (t.DOUBLE, 0.0, -1.0),
        (t.STRING, "", None),
        (t.BOOLEAN, False, None),
        (DecimalType(9, 2), Decimal("0.00"), Decimal("-0.01")),
        (t.BINARY, b"", None),
        (t.DATE, 0, -1),
    ],
    ids=str,
)
def test_zero_valued_bounds_are_bounds(type_, zero, below):
    """A bound of 0, "" or False is not a missing one (apache/iceberg-python#3412)."""
    schema = Schema((Field(1, "a", type_),))
    column = BoundReference(schema.entry(1))
    zeros = file(type_=type_, nans=0, lower=zero, upper=zero)
    assert must_match(BoundPredicate(Op.EQ, column, (zero,)), zeros)
    assert not might_match(BoundPredicate(Op.NOT_EQ, column, (zero,)), zeros)
    if below is not None:
        assert not might_match(BoundPredicate(Op.LT_EQ, column, (below,)), zeros)


@pytest.mark.parametrize(
    ("type_", "lower", "upper", "inside", "outside"),
    [
        (t.LONG, encode(t.INT, -5), encode(t.INT, 7), 7, 8),
        (t.DOUBLE, encode(t.FLOAT, 0.5), encode(t.FLOAT, 1.5), 1.5, 1.6),
        (t.TIMESTAMP, encode(t.DATE, -1), encode(t.DATE, 1), -86_400_000_000, -86_400_000_001),
        (t.TIMESTAMP_NS, encode(t.DATE, 900), encode(t.DATE, 1000), 86_400_000_000_000_000, 86_400_000_000_000_001),
        (DecimalType(18, 2), b"\xff", b"\x05", Decimal("0.05"), Decimal("0.06")),
        (DecimalType(38, 2), b"\xff", b"\x05", Decimal("-0.01"), Decimal("-0.02")),
    ],
    ids=str,
)
def test_promoted_type_bounds(type_, lower, upper, inside, outside):
    """Bounds written before a promotion are read by their length (apache/iceberg-python#3293)."""
    column = BoundReference(Schema((Field(1, "a", type_),)).entry(1))
    old = file(nans=0, lower=lower, upper=upper)
    assert might_match(BoundPredicate(Op.EQ, column, (inside,)), old)
    assert not might_match(BoundPredicate(Op.EQ, column, (outside,)), old)


def test_negative_decimals_in_the_fewest_bytes():
    """Minimal bytes of negative numbers keep their sign (apache/iceberg-python#3746)."""
    column = BoundReference(Schema((Field(1, "a", DecimalType(9, 2)),)).entry(1))
    old = file(lower=b"\xff\x7f", upper=b"\x80")  # -1.29 and -1.28
    assert must_match(BoundPredicate(Op.LT, column, (Decimal("-1.27"),)), old)
    assert not might_match(BoundPredicate(Op.GT, column, (Decimal("-1.28"),)), old)


# NaN ---------------------------------------------------------------------------------------------------------


def floats(nans, lower=1.0, upper=2.0, nulls=0):
    return file(type_=t.DOUBLE, id_=2, nans=nans, lower=lower, upper=upper, nulls=nulls)


@pytest.mark.parametrize(("nans", "kept"), [(0, False), (1, True), (None, True)])
def test_nan_is_greater_than_every_bound(nans, kept):
    """`x > 5` keeps a file unless it is known to hold no NaN; Java skips it."""
    assert might_match(on_x(Op.GT, 5.0), floats(nans)) is kept
    assert might_match(on_x(Op.GT_EQ, 5.0), floats(nans)) is kept
    assert might_match(on_x(Op.NOT_EQ, 1.0), floats(nans, 1.0, 1.0)) is kept
    assert not might_match(on_x(Op.LT, 0.5), floats(nans))
    assert not might_match(on_x(Op.EQ, 5.0), floats(nans))


@pytest.mark.parametrize(("nans", "proved"), [(0, True), (1, False), (None, False)])
def test_nan_fails_upper_limits(nans, proved):
    assert must_match(on_x(Op.LT, 5.0), floats(nans)) is proved
    assert must_match(on_x(Op.LT_EQ, 5.0), floats(nans)) is proved
    assert must_match(on_x(Op.EQ, 1.0), floats(nans, 1.0, 1.0)) is proved
    assert must_match(on_x(Op.GT, 0.5), floats(nans))
    assert must_match(on_x(Op.NOT_EQ, 5.0), floats(nans))


def test_all_nan():
    all_nan = file(type_=t.DOUBLE, id_=2, nans=10, nulls=None)
    assert must_match(on_x(Op.IS_NAN), all_nan)
    assert must_match(on_x(Op.GT, 5.0), all_nan)
    assert not might_match(on_x(Op.NOT_NAN), all_nan)
    assert not might_match(on_x(Op.LT, 5.0), all_nan)
    assert not might_match(on_x(Op.IS_NULL), all_nan)


def test_is_nan():
    assert not might_match(on_x(Op.IS_NAN), floats(0))
    assert might_match(on_x(Op.IS_NAN), floats(None))
    assert not might_match(on_x(Op.IS_NAN), floats(None, nulls=10))  # all null
    assert must_match(on_x(Op.NOT_NAN), floats(0))
    assert not must_match(on_x(Op.NOT_NAN), floats(0, nulls=1))


def test_nulls_and_nan_only():
    mixed = file(type_=t.DOUBLE, id_=2, nulls=4, nans=6)
    assert not might_match(on_x(Op.LT, math.inf), mixed)
    assert might_match(on_x(Op.GT, 0.0), mixed)
    assert not must_match(on_x(Op.GT, 0.0), mixed)


@pytest.mark.parametrize(("lower", "upper"), [(math.nan, math.nan), (math.nan, 2.0), (1.0, math.nan)])
def test_nan_bounds_are_not_trusted(lower, upper):
    """ORC wrote NaN in both bounds when the first value of a file was NaN."""
    assert might_match(on_x(Op.LT, -1e300), floats(0, lower, upper))
    assert might_match(on_x(Op.GT, 1e300), floats(0, lower, upper))
    assert not must_match(on_x(Op.NOT_EQ, 7.0), floats(0, lower, upper))


def test_signed_zeros_of_bounds_are_one_value():
    assert might_match(on_x(Op.EQ, 0.0), floats(0, -0.0, -0.0))
    assert must_match(on_x(Op.GT_EQ, 0.0), floats(0, -0.0, 1.0))
    assert not might_match(on_x(Op.LT, 0.0), floats(0, -0.0, 1.0))


# each operation against bounds -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "literals", "might", "must"),
    [
        (Op.LT, (10,), False, False), (Op.LT, (11,), True, False), (Op.LT, (20,), True, False),
        (Op.LT, (21,), True, True),
        (Op.LT_EQ, (9,), False, False), (Op.LT_EQ, (10,), True, False), (Op.LT_EQ, (20,), True, True),
        (Op.GT, (20,), False, False), (Op.GT, (19,), True, False), (Op.GT, (9,), True, True),
        (Op.GT_EQ, (21,), False, False), (Op.GT_EQ, (20,), True, False), (Op.GT_EQ, (10,), True, True),
        (Op.EQ, (9,), False, False), (Op.EQ, (10,), True, False), (Op.EQ, (20,), True, False),
        (Op.EQ, (21,), False, False),
        (Op.NOT_EQ, (9,), True, True), (Op.NOT_EQ, (15,), True, False), (Op.NOT_EQ, (21,), True, True),
        (Op.IN, (1, 9), False, False), (Op.IN, (1, 30), False, False), (Op.IN, (1, 15), True, False),
        (Op.NOT_IN, (1, 30), True, True), (Op.NOT_IN, (1, 15), True, False),
        (Op.IN, tuple(range(10, 21)), True, True), (Op.NOT_IN, tuple(range(10, 21)), False, False),
        (Op.IN, tuple(range(10, 20)), True, False), (Op.IN, tuple(range(1, 400)), True, True),
    ],
)  # fmt: skip
def test_integers_between_10_and_20(op, literals, might, must):
    between = file(lower=10, upper=20)
    assert might_match(on_a(op, *literals), between) is might
    assert must_match(on_a(op, *literals), between) is must


@pytest.mark.parametrize(
    ("op", "prefix", "might", "must"),
    [
        (Op.STARTS_WITH, "a", False, False), (Op.STARTS_WITH, "b", True, False), (Op.STARTS_WITH, "bb", True, False),
        (Op.STARTS_WITH, "ba", False, False), (Op.STARTS_WITH, "c", True, False), (Op.STARTS_WITH, "cd", False, False),
        (Op.STARTS_WITH, "d", False, False), (Op.STARTS_WITH, "bbbb", True, False),
        (Op.NOT_STARTS_WITH, "a", True, True), (Op.NOT_STARTS_WITH, "b", True, False),
        (Op.NOT_STARTS_WITH, "cd", True, True), (Op.NOT_STARTS_WITH, "d", True, True),
    ],
)  # fmt: skip
def test_prefixes_between_bb_and_cc(op, prefix, might, must):
    between = file(id_=3, type_=t.STRING, lower="bb", upper="cc")
    assert might_match(on_s(op, prefix), between) is might
    assert must_match(on_s(op, prefix), between) is must


def test_all_values_have_the_prefix_that_both_bounds_have():
    alike = file(id_=3, type_=t.STRING, lower="abc", upper="abz")
    assert must_match(on_s(Op.STARTS_WITH, "ab"), alike)
    assert not might_match(on_s(Op.NOT_STARTS_WITH, "ab"), alike)
    assert might_match(on_s(Op.NOT_STARTS_WITH, "abc"), alike)


def test_truncated_bounds_are_bounds():
    cut = file(id_=3, type_=t.STRING, lower="ice", upper="icf")
    assert might_match(on_s(Op.EQ, "iceberg"), cut)
    assert not might_match(on_s(Op.EQ, "icz"), cut)
    assert not must_match(on_s(Op.STARTS_WITH, "ice"), cut)


def test_text_compares_by_code_points():
    between = file(id_=3, type_=t.STRING, lower="\uffff", upper="\U0001f600")
    assert might_match(on_s(Op.EQ, "\U0001f5ff"), between)
    assert not might_match(on_s(Op.EQ, "\ue000"), between)


def test_uuid_bounds_are_unsigned():
    """Java prunes this file: it compares UUIDs as signed numbers."""
    column = BoundReference(ONE.entry(4))
    low, high = UUID(int=1 << 120), UUID(int=(1 << 128) - 1)
    between = file(id_=4, type_=t.UUID, lower=low, upper=high)
    assert might_match(BoundPredicate(Op.EQ, column, (UUID(int=1 << 127),)), between)
    assert not might_match(BoundPredicate(Op.EQ, column, (UUID(int=1),)), between)


def test_uuid_bounds_in_javas_order_lose_nothing():
    column = BoundReference(ONE.entry(4))
    low_half = [UUID(int=(5 << 64) + 1), UUID(int=(5 << 64) + (1 << 63)), UUID(int=9 << 64)]
    # by signed halves the second is the lowest
    signed = file(id_=4, type_=t.UUID, lower=low_half[1], upper=low_half[2])
    assert all(might_match(BoundPredicate(Op.EQ, column, (value,)), signed) for value in low_half)
    swapped = file(id_=4, type_=t.UUID, lower=UUID(int=1 << 127), upper=UUID(int=7))
    assert might_match(BoundPredicate(Op.EQ, column, (UUID(int=3),)), swapped)
    constant = file(id_=4, type_=t.UUID, lower=low_half[0], upper=low_half[0])
    assert must_match(BoundPredicate(Op.EQ, column, (low_half[0],)), constant)


def known_bounds(column, of_file):
    possible = possible_values(column, gather_stats([of_file], BoundPredicate(Op.NOT_NULL, column)))
    return tuple(None if keys is None else keys.key(0) for keys in (possible.lower, possible.upper))


# bounds that make no sense -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "type_", [t.INT, t.LONG, t.DOUBLE, t.BOOLEAN, t.UUID, t.TIME, DecimalType(9, 2), t.FixedType(3)]
)
@pytest.mark.parametrize("junk", [b"\xff" * 5, b"\xff" * 33, b""])
def test_bounds_of_a_wrong_length_are_unknown(type_, junk):
    if isinstance(type_, DecimalType) and len(junk) == 5:
        junk = b""
    column = BoundReference(Schema((Field(1, "a", type_),)).entry(1))
    assert known_bounds(column, file(lower=junk, upper=junk)) == (None, None)


def test_a_time_beyond_the_day_is_unknown():
    column = BoundReference(Schema((Field(1, "a", t.TIME),)).entry(1))
    assert known_bounds(column, file(lower=b"\xff" * 8)) == (None, None)


def test_a_lower_bound_above_the_upper_is_unknown():
    assert might_match(on_a(Op.EQ, 3), file(lower=9, upper=1))
    assert not must_match(on_a(Op.NOT_EQ, 100), file(lower=9, upper=1))


def test_bounds_of_geometries_and_variants_are_not_compared():
    for type_ in (t.VARIANT, t.GeometryType()):
        column = BoundReference(Schema((Field(1, "a", type_),)).entry(1))
        some = file(lower=b"\0" * 16, upper=b"\0" * 16)
        assert not might_match(BoundPredicate(Op.IS_NULL, column), some)
        assert might_match(BoundPredicate(Op.NOT_NULL, column), some)


# nested columns ----------------------------------------------------------------------------------------------

NESTED = Schema((Field(1, "s", StructType((Field(2, "x", t.INT), Field(3, "y", t.INT, required=True)))),))


def test_fields_of_null_structs_that_were_not_counted():
    """ORC and Avro writers count a field only where its struct is not null."""
    x = bind(col("s.x").is_null(), NESTED)
    seven_of_ten = file(id_=2, values=7, nulls=0, lower=1, upper=5)
    assert might_match(x, seven_of_ten)
    assert not must_match(bind(col("s.x") < 9, NESTED), seven_of_ten)
    all_counted = file(id_=2, values=10, nulls=0, lower=1, upper=5)
    assert not might_match(x, all_counted)
    assert must_match(bind(col("s.x") < 9, NESTED), all_counted)


def test_a_required_field_of_an_optional_struct_may_be_null():
    y = bind(col("s.y") < 9, NESTED)
    assert not must_match(y, file(id_=3, values=None, nulls=None, lower=1, upper=5))
    assert not must_match(y, file(id_=3, values=None, nulls=0, lower=1, upper=5))
    assert must_match(y, file(id_=3, values=10, nulls=0, lower=1, upper=5))


def test_a_field_that_is_null_wherever_it_was_counted_is_all_null():
    few = file(id_=2, values=3, nulls=3)
    assert not might_match(bind(col("s.x") == 1, NESTED), few)
    assert must_match(bind(col("s.x").is_null(), NESTED), few)


def test_counts_of_nothing_do_not_mean_all_null_in_structs_either():
    assert might_match(bind(col("s.x") == 1, NESTED), file(id_=2, values=0, nulls=0))


def test_structs_and_lists_have_no_metrics_of_their_own():
    schema = Schema((Field(1, "xs", ListType(2, t.INT)),))
    elements = file(id_=1, values=10, nulls=10)
    assert might_match(bind(col("xs").is_not_null(), schema), elements)
    element = BoundReference(schema.entry(2))
    assert might_match(BoundPredicate(Op.EQ, element, (1,)), file(id_=2, lower=5, upper=9))


def test_columns_of_type_unknown_are_null():
    column = BoundReference(Schema((Field(1, "a", t.UNKNOWN),)).entry(1))
    some = file(values=10, nulls=0)
    assert must_match(BoundPredicate(Op.IS_NULL, column), some)
    assert not might_match(BoundPredicate(Op.NOT_NULL, column), some)


# transformed terms -------------------------------------------------------------------------------------------


def test_bounds_of_order_preserving_transforms_are_derived():
    schema = Schema((Field(1, "ts", t.TIMESTAMP), Field(2, "s", t.STRING)))
    day = 86_400_000_000
    two_days = file(type_=t.TIMESTAMP, lower=-1, upper=day)
    assert might_match(bind(col("ts").day() == "1969-12-31", schema), two_days)
    assert might_match(bind(col("ts").day() == "1970-01-02", schema), two_days)
    assert not might_match(bind(col("ts").day() == "1970-01-03", schema), two_days)
    assert must_match(bind(col("ts").month() >= "1969-12", schema), two_days)
    texts = file(id_=2, type_=t.STRING, lower="iceberg", upper="igloo")
    assert must_match(bind(col("s").truncate(1) == "i", schema), texts)
    assert not might_match(
        bind(col("s").truncate(2) == "if", schema) & TRUE, file(id_=2, type_=t.STRING, lower="ig", upper="ih")
    )


def test_bounds_say_nothing_about_buckets():
    schema = Schema((Field(1, "a", t.INT),))
    some = file(lower=1, upper=1)
    assert might_match(bind(col("a").bucket(4) == 0, schema), some)
    assert not might_match(bind(col("a").bucket(4).is_null(), schema), some)
    assert not might_match(bind(col("a").bucket(4) == 0, schema), file(nulls=10))


def test_a_bound_that_cannot_be_truncated_is_unknown():
    a = BoundTransform(Truncate(10), BoundReference(ONE.entry(1)), t.INT)
    lowest = file(lower=-(2**31), upper=-(2**31) + 3)
    assert might_match(BoundPredicate(Op.EQ, a, (0,)), lowest)


def test_void_and_unknown_transforms():
    a = BoundReference(ONE.entry(1))
    some = file(lower=1, upper=5)
    assert not might_match(BoundPredicate(Op.EQ, BoundTransform(VOID, a, t.INT), (1,)), some)
    assert might_match(BoundPredicate(Op.IS_NULL, BoundTransform(UnknownTransform("z"), a, t.STRING)), some)


def test_many_files_are_evaluated_at_once():
    either = on_a(Op.EQ, 5) | on_a(Op.GT, 100)
    stats = gather_stats([file(lower=low, upper=low + 9) for low in (-10, 0, 10, 95)], either)
    assert files_might_match(either, stats).tolist() == [False, True, False, True]


def test_any_object_with_metrics_will_do():
    some = SimpleNamespace(
        record_count=1, value_counts={}, null_value_counts={}, nan_value_counts={}, lower_bounds={}, upper_bounds={}
    )
    assert might_match(on_a(Op.EQ, 1), some)


def test_delete_files_are_filtered_by_the_rows_they_delete():
    """Spec, Scan Planning, note 2: deletes of ids 1 to 4 cannot matter to a scan for id 9."""
    deletes = DataFile(
        FileContent.EQUALITY_DELETES, "d.parquet", "parquet", (), 4, 100, value_counts={1: 4}, null_value_counts={1: 0},
        lower_bounds={1: encode(t.INT, 1)}, upper_bounds={1: encode(t.INT, 4)}, equality_ids=(1,),
    )  # fmt: skip
    assert not might_match(on_a(Op.EQ, 9), deletes)
    assert might_match(on_a(Op.EQ, 4), deletes)
    assert might_match(on_s(Op.EQ, "x"), deletes)
