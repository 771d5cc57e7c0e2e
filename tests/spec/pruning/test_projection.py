"""Filters on rows turned into filters on partitions: sound through every transform, and as narrow as it can be."""

import functools
import math
from decimal import Decimal

import pytest
from hypothesis import assume, given, settings, strategies as st

from floe.errors import InvalidValue
from floe.spec import types as t
from floe.spec.expressions.binder import bind
from floe.spec.expressions.dsl import col
from floe.spec.expressions.nodes import FALSE, TRUE, BoundPredicate, BoundReference, Op
from floe.spec.expressions.row_evaluation import compile_row_filter, compile_tuple_filter
from floe.spec.partitioning.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import (
    DAY,
    HOUR,
    IDENTITY,
    MONTH,
    VOID,
    YEAR,
    Bucket,
    TimeTransform,
    Truncate,
    UnknownTransform,
)
from floe.spec.pruning.projection import inclusive_projection, partition_schema, strict_projection
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, Field, StructType
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
    transform_terms,
    value_in,
)

DAY_MICROS = 86_400_000_000


def spec(*transforms, source=1, start=1000):
    fields = (PartitionField((source,), start + n, f"p{n}", transform) for n, transform in enumerate(transforms))
    return PartitionSpec(tuple(fields))


def projected(expression, type_, *transforms):
    """The inclusive and the strict projection of a filter on column `v`, as text."""
    schema = Schema((Field(1, "v", type_),))
    bound = bind(expression, schema)
    by = spec(*transforms)
    return str(inclusive_projection(bound, by, schema)), str(strict_projection(bound, by, schema))


V = col("v")


# what each transform makes of each test ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        (V < 5, "p0 < 5"), (V != 5, "p0 <> 5"), (V.is_in([1, 2]), "p0 IN (1, 2)"), (V.is_null(), "p0 IS NULL"),
        (~V.is_in([1, 2]), "p0 NOT IN (1, 2)"), (V >= 5, "p0 >= 5"), (V == 5, "p0 = 5"),
    ],
    ids=str,
)  # fmt: skip
def test_identity_keeps_the_test(expression, wanted):
    assert projected(expression, t.INT, IDENTITY) == (wanted, wanted)


def test_identity_of_floats_keeps_nan_tests():
    assert (
        projected(V.is_nan(), t.DOUBLE, IDENTITY) == ("p0 IS NAN",) * 2
        or "NAN" in projected(V.is_nan(), t.DOUBLE, IDENTITY)[0].upper()
    )


def test_bucket_projects_equality_inclusively_and_inequality_strictly():
    # the hash of 34 is 2017239379 (Appendix B)
    at = 2017239379 % 16
    assert projected(V == 34, t.LONG, Bucket(16)) == (f"p0 = {at}", "false")
    assert projected(V != 34, t.LONG, Bucket(16)) == ("p0 IS NOT NULL", f"p0 <> {at}")
    assert projected(V < 34, t.LONG, Bucket(16)) == ("p0 IS NOT NULL", "false")
    assert projected(V.is_null(), t.LONG, Bucket(16)) == ("p0 IS NULL", "p0 IS NULL")
    assert projected(V.is_not_null(), t.LONG, Bucket(16)) == ("p0 IS NOT NULL", "p0 IS NOT NULL")


def test_bucket_of_a_set_is_the_set_of_buckets():
    buckets = sorted({Bucket(4).apply(t.LONG, n) for n in (1, 2, 3)})
    shown = f"({', '.join(map(str, buckets))})"
    assert projected(V.is_in([1, 2, 3]), t.LONG, Bucket(4)) == (f"p0 IN {shown}", "false")
    assert projected(~V.is_in([1, 2, 3]), t.LONG, Bucket(4)) == ("p0 IS NOT NULL", f"p0 NOT IN {shown}")
    assert projected(V.is_in([1, 2]), t.LONG, Bucket(1)) == ("p0 = 0", "false")


# W=10: 1 -> 0, -1 -> -10 (spec: Truncate Transform Details)
@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        (V < 100, ("p0 <= 90", "p0 < 100")), (V < 101, ("p0 <= 100", "p0 < 100")),
        (V <= 99, ("p0 <= 90", "p0 < 100")), (V <= 100, ("p0 <= 100", "p0 < 100")),
        (V > 100, ("p0 >= 100", "p0 > 100")), (V > 99, ("p0 >= 100", "p0 > 90")),
        (V >= 100, ("p0 >= 100", "p0 > 90")), (V >= 101, ("p0 >= 100", "p0 > 100")),
        (V == 100, ("p0 = 100", "false")), (V != 100, ("p0 IS NOT NULL", "p0 <> 100")),
        (V < 0, ("p0 <= -10", "p0 < 0")), (V > -1, ("p0 >= 0", "p0 > -10")), (V == -1, ("p0 = -10", "false")),
        (V.is_in([1, 2, 11]), ("p0 IN (0, 10)", "false")),
        (~V.is_in([1, 11]), ("p0 IS NOT NULL", "p0 NOT IN (0, 10)")),
    ],
    ids=str,
)  # fmt: skip
def test_truncated_numbers(expression, wanted):
    # dates are truncated by nobody; a decimal has no lowest value that wraps around
    def rescaled(text):
        return text.replace(".00", "")

    assert tuple(map(rescaled, projected(expression, DecimalType(9, 0), Truncate(10)))) == wanted
    inclusive_text, strict_text = projected(expression, t.INT, Truncate(10))
    assert inclusive_text.split(" OR ")[0] == wanted[0]
    assert wanted[1] in (strict_text, strict_text.split(" AND ")[0])


def test_truncated_decimals_step_in_units_of_the_last_place():
    # W=50, s=2: 10.65 -> 10.50
    assert projected(Decimal("10.65") == V, DecimalType(9, 2), Truncate(50)) == ("p0 = 10.50", "false")
    assert projected(Decimal("10.50") > V, DecimalType(9, 2), Truncate(50)) == ("p0 <= 10.00", "p0 < 10.50")
    assert projected(Decimal("-0.01") < V, DecimalType(9, 2), Truncate(50)) == ("p0 >= 0.00", "p0 > -0.50")


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        # shorter than the width: a value is its own prefix, and nothing else's
        (V < "ab", ("p0 < 'ab'", "p0 < 'ab'")), (V <= "ab", ("p0 <= 'ab'", "p0 <= 'ab'")),
        (V > "ab", ("p0 > 'ab'", "p0 > 'ab'")), (V >= "ab", ("p0 >= 'ab'", "p0 >= 'ab'")),
        (V == "ab", ("p0 = 'ab'", "p0 = 'ab'")), (V != "ab", ("p0 <> 'ab'", "p0 <> 'ab'")),
        # just as long
        (V < "abc", ("p0 < 'abc'", "p0 < 'abc'")), (V <= "abc", ("p0 <= 'abc'", "p0 < 'abc'")),
        (V > "abc", ("p0 >= 'abc'", "p0 > 'abc'")), (V >= "abc", ("p0 >= 'abc'", "p0 >= 'abc'")),
        (V == "abc", ("p0 = 'abc'", "false")), (V != "abc", ("p0 IS NOT NULL", "p0 <> 'abc'")),
        # longer
        (V < "abcd", ("p0 <= 'abc'", "p0 < 'abc'")), (V <= "abcd", ("p0 <= 'abc'", "p0 < 'abc'")),
        (V > "abcd", ("p0 >= 'abc'", "p0 > 'abc'")), (V >= "abcd", ("p0 >= 'abc'", "p0 > 'abc'")),
        (V == "abcd", ("p0 = 'abc'", "false")), (V != "abcd", ("p0 IS NOT NULL", "p0 <> 'abc'")),
        (V.is_in(["ab", "abcd"]), ("p0 IN ('ab', 'abc')", "p0 = 'ab'")),
        (~V.is_in(["ab", "abcd"]), ("p0 <> 'ab'", "p0 NOT IN ('ab', 'abc')")),
        # by code points, not UTF-16 units: two characters are shorter than three
        (V == "\U0001f600\U0001f600", ("p0 = '\U0001f600\U0001f600'",) * 2),
        (V == "\U0001f600" * 4, ("p0 = '\U0001f600\U0001f600\U0001f600'", "false")),
    ],
    ids=str,
)  # fmt: skip
def test_truncated_text_by_the_length_of_the_literal(expression, wanted):
    assert projected(expression, t.STRING, Truncate(3)) == wanted


def test_starts_with_and_not_starts_with_by_the_length_of_the_prefix():
    """The projection of NOT STARTS WITH (apache/iceberg-python#3503)."""
    names = Schema((Field(1, "v", t.STRING),))
    v = BoundReference(names.entry(1))

    def both(op, prefix):
        bound = BoundPredicate(op, v, (prefix,))
        results = (
            inclusive_projection(bound, spec(Truncate(3)), names),
            strict_projection(bound, spec(Truncate(3)), names),
        )
        return [(r.op, r.literals) if isinstance(r, BoundPredicate) else r for r in results]

    shorter, equal = (Op.STARTS_WITH, ("ab",)), (Op.EQ, ("abc",))
    assert both(Op.STARTS_WITH, "ab") == [shorter, shorter]
    assert both(Op.STARTS_WITH, "abc") == [equal, equal]
    assert both(Op.STARTS_WITH, "abcd") == [equal, FALSE]
    shorter, equal = (Op.NOT_STARTS_WITH, ("ab",)), (Op.NOT_EQ, ("abc",))
    assert both(Op.NOT_STARTS_WITH, "ab") == [shorter, shorter]
    assert both(Op.NOT_STARTS_WITH, "abc") == [equal, equal]
    assert both(Op.NOT_STARTS_WITH, "abcd") == [(Op.NOT_NULL, ()), equal]


def test_truncated_binary_by_bytes():
    assert "p0 = " in projected(V == b"\xff\xff\xff\xff", t.BINARY, Truncate(2))[0]
    schema = Schema((Field(1, "v", t.BINARY),))
    bound = bind(V == b"\xc3\xa9\xc3", schema)
    assert inclusive_projection(bound, spec(Truncate(2)), schema).literals == (b"\xc3\xa9",)


@pytest.mark.parametrize(
    ("transform", "at", "before"),
    [(YEAR, 54, 53), (MONTH, 54 * 12, 54 * 12 - 1), (DAY, 19723, 19722), (HOUR, 19723 * 24, 19723 * 24 - 1)],
    ids=str,
)
@pytest.mark.parametrize("type_", [t.TIMESTAMP, t.TIMESTAMPTZ, t.TIMESTAMP_NS, t.TIMESTAMPTZ_NS], ids=str)
def test_times_project_to_their_unit(transform, at, before, type_):
    schema = Schema((Field(1, "v", type_),))
    v = BoundReference(schema.entry(1))
    midnight = 19723 * DAY_MICROS * (1000 if type_.kind.endswith("ns") else 1)  # 2024-01-01
    for op, wanted in (
        (Op.LT, ((Op.LT_EQ, before), (Op.LT, at))),
        (Op.LT_EQ, ((Op.LT_EQ, at), (Op.LT, at))),
        (Op.GT, ((Op.GT_EQ, at), (Op.GT, at))),
        (Op.GT_EQ, ((Op.GT_EQ, at), (Op.GT, before))),
    ):
        bound = BoundPredicate(op, v, (midnight,))
        found = inclusive_projection(bound, spec(transform), schema), strict_projection(bound, spec(transform), schema)
        assert tuple((p.op, p.literal) for p in found) == wanted
    equal = BoundPredicate(Op.EQ, v, (midnight,))
    assert inclusive_projection(equal, spec(transform), schema).literals == (at,)
    assert strict_projection(equal, spec(transform), schema) == FALSE


def test_the_example_of_the_spec():
    """`ts > X` is `ts_day >= day(X)`."""
    assert projected(V > "2024-01-01T12:00:00", t.TIMESTAMP, DAY) == (
        "p0 >= DATE '2024-01-01'",
        "p0 > DATE '2024-01-01'",
    )


def test_days_of_dates_are_exact():
    assert projected(V == "1969-12-31", t.DATE, DAY) == ("p0 = DATE '1969-12-31'",) * 2
    assert projected(V != "1969-12-31", t.DATE, DAY) == ("p0 <> DATE '1969-12-31'",) * 2


def test_times_before_1970_allow_for_old_writers():
    """Java up to 0.10.0 wrote `day` of 1969-12-31 10:00 as 0: both days are looked at."""
    assert projected(V == "1969-12-31T10:00:00", t.TIMESTAMP, DAY) == (
        "p0 IN (DATE '1969-12-31', DATE '1970-01-01')",
        "false",
    )
    assert projected(V != "1969-12-31T10:00:00", t.TIMESTAMP, DAY) == (
        "p0 IS NOT NULL",
        "p0 NOT IN (DATE '1969-12-31', DATE '1970-01-01')",
    )
    assert projected(V < "1969-12-31T10:00:00", t.TIMESTAMP, DAY) == (
        "p0 <= DATE '1970-01-01'",
        "p0 < DATE '1969-12-31'",
    )
    assert projected(V > "1969-12-31T10:00:00", t.TIMESTAMP, DAY) == (
        "p0 >= DATE '1969-12-31'",
        "p0 > DATE '1970-01-01'",
    )
    assert projected(V < "1970-01-01T10:00:00", t.TIMESTAMP, DAY)[0] == "p0 <= DATE '1970-01-01'"


def test_void_tells_nothing():
    for expression in (V == 1, V.is_null(), V.is_not_null()):
        assert projected(expression, t.INT, VOID) == ("true", "false")


def test_unknown_transform_projects_to_true():
    """Spec, Scan Planning: the inclusive projection for an unknown transform is true."""
    for expression in (V == 1, V.is_null()):
        assert projected(expression, t.INT, UnknownTransform("zorder[3]")) == ("true", "false")


def test_fields_of_several_columns_are_not_used():
    schema = Schema((Field(1, "a", t.INT), Field(2, "b", t.INT)))
    both = PartitionSpec((PartitionField((1, 2), 1000, "ab", UnknownTransform("zorder")),))
    bound = bind(col("a") == 1, schema)
    assert inclusive_projection(bound, both, schema) == TRUE
    assert strict_projection(bound, both, schema) == FALSE


def test_columns_without_a_partition_field_tell_nothing():
    schema = Schema((Field(1, "v", t.INT), Field(2, "w", t.INT)))
    bound = bind((col("v") == 1) & (col("w") == 2), schema)
    assert str(inclusive_projection(bound, spec(IDENTITY), schema)) == "p0 = 1"
    assert strict_projection(bound, spec(IDENTITY), schema) == FALSE
    either = bind((col("v") == 1) | (col("w") == 2), schema)
    assert inclusive_projection(either, spec(IDENTITY), schema) == TRUE
    assert str(strict_projection(either, spec(IDENTITY), schema)) == "p0 = 1"
    assert inclusive_projection(bound, UNPARTITIONED, schema) == TRUE


def test_several_fields_of_one_column_are_all_used():
    assert projected(V == "2024-01-01T01:00:00", t.TIMESTAMP, DAY, HOUR)[0] == (
        f"p0 = DATE '2024-01-01' AND p1 = {19723 * 24 + 1}"
    )
    assert projected(V > "2024-01-01T01:00:00", t.TIMESTAMP, DAY, HOUR)[1] == (
        f"p0 > DATE '2024-01-01' OR p1 > {19723 * 24 + 1}"
    )


# transformed terms -------------------------------------------------------------------------------------------


def test_a_term_with_the_transform_of_the_field_projects_directly():
    assert projected(V.bucket(16) == 3, t.LONG, Bucket(16)) == ("p0 = 3", "p0 = 3")
    assert projected(V.bucket(16) < 3, t.LONG, Bucket(16)) == ("p0 < 3", "p0 < 3")
    assert projected(V.truncate(3) == "abc", t.STRING, Truncate(3)) == ("p0 = 'abc'", "p0 = 'abc'")
    assert projected(V.day() == "2024-01-01", t.TIMESTAMP, DAY) == ("p0 = DATE '2024-01-01'",) * 2


def test_a_transformed_term_is_not_transformed_again():
    """Partition values were transformed twice (apache/iceberg-python#3758)."""
    schema = Schema((Field(1, "v", t.LONG),))
    bound = bind(V.bucket(16) == 3, schema)
    keep = compile_tuple_filter(
        inclusive_projection(bound, spec(Bucket(16)), schema), partition_schema(spec(Bucket(16)), schema)
    )
    assert [keep((n,)) for n in range(5)] == [False, False, False, True, False]
    days = Schema((Field(1, "v", t.TIMESTAMP),))
    one_day = bind(V == "2024-01-01T12:00:00", days)
    keep = compile_tuple_filter(inclusive_projection(one_day, spec(DAY), days), partition_schema(spec(DAY), days))
    assert keep((19723,))
    assert not keep((0,))  # what day(19723) as a timestamp would be


def test_another_transform_of_the_column_tells_of_nulls_alone():
    assert projected(V.bucket(8) == 3, t.LONG, Bucket(16)) == ("p0 IS NOT NULL", "false")
    assert projected(V.month() == "2024-01", t.TIMESTAMP, DAY) == ("p0 IS NOT NULL", "false")


def test_any_transform_of_an_identity_field_is_exact():
    schema = Schema((Field(1, "v", t.DATE),))
    bound = bind(V.month() == "2024-01", schema)
    keep = compile_tuple_filter(
        inclusive_projection(bound, spec(IDENTITY), schema), partition_schema(spec(IDENTITY), schema)
    )
    assert [keep((day,)) for day in (19722, 19723, 19753, 19754, None)] == [False, True, True, False, False]


def test_terms_of_times_before_1970_allow_for_old_writers():
    assert projected(V.day() != "1969-12-31", t.TIMESTAMP, DAY) == (
        "p0 IS NOT NULL",
        "p0 NOT IN (DATE '1969-12-31', DATE '1970-01-01')",
    )


# the ends of a type ------------------------------------------------------------------------------------------


def test_the_lowest_integers_are_found_where_other_writers_put_them():
    """Java's truncate[10] of -2147483648 wraps around to 2147483646."""
    schema = Schema((Field(1, "v", t.INT),))
    by, tuples = spec(Truncate(10)), partition_schema(spec(Truncate(10)), schema)
    for expression in (V < 0, V <= -(2**31), V == -(2**31), V < -(2**31) + 1, V != 3, V.is_in([-(2**31), 5])):
        bound = bind(expression, schema)
        assert compile_tuple_filter(inclusive_projection(bound, by, schema), tuples)((2147483646,))
    for expression in (V > 0, V >= -(2**31) + 12, V > -(2**31) + 9):
        bound = bind(expression, schema)
        assert not compile_tuple_filter(strict_projection(bound, by, schema), tuples)((2147483646,))
    assert "OR" not in projected(V < 0, t.INT, Truncate(16))[0]  # 16 divides the lowest


def test_the_lowest_integers_of_a_column_that_is_a_long_by_now():
    schema = Schema((Field(1, "v", t.LONG),))
    by, tuples = spec(Truncate(10)), partition_schema(spec(Truncate(10)), schema)
    was_int, was_long = (2147483646,), (9223372036854775806,)
    for expression in (
        V < 0,
        V == -(2**31),
        V.truncate(10) < 0,
        V.truncate(10) == -2147483650,
        V.truncate(10) != 2147483646,
    ):
        assert compile_tuple_filter(inclusive_projection(bind(expression, schema), by, schema), tuples)(was_int)
    assert compile_tuple_filter(inclusive_projection(bind(V < 0, schema), by, schema), tuples)(was_long)
    for expression in (V > 0, V != -(2**31), V.truncate(10) != -2147483650):
        assert not compile_tuple_filter(strict_projection(bind(expression, schema), by, schema), tuples)(was_int)


@pytest.mark.parametrize(
    ("type_", "last", "place"),
    [(t.INT, 2**31 - 1, 2147483640), (t.LONG, 2**63 - 1, 9223372036854775800), (DecimalType(4, 2), "99.99", "99.90")],
    ids=str,
)
def test_literals_of_projections_are_values_of_the_type_also_at_its_end(type_, last, place):
    last = Decimal(last) if isinstance(last, str) else last
    assert projected(col("v") > last, type_, Truncate(10))[0] == f"p0 > {place}"
    assert projected(col("v") <= last, type_, Truncate(10))[1] == f"p0 <= {place}"


def test_hours_beyond_32_bits_are_not_projected():
    schema = Schema((Field(1, "v", t.TIMESTAMP),))
    bound = BoundPredicate(Op.GT, BoundReference(schema.entry(1)), (2**63 - 1,))
    assert str(inclusive_projection(bound, spec(HOUR), schema)) == "p0 IS NOT NULL"
    assert strict_projection(bound, spec(HOUR), schema) == FALSE


def test_a_transform_that_does_not_take_the_type_tells_nothing():
    schema = Schema((Field(1, "v", t.DOUBLE),))
    bound = bind(V == 1.0, schema)
    assert inclusive_projection(bound, spec(Bucket(4)), schema) == TRUE
    assert strict_projection(bound, spec(Bucket(4)), schema) == FALSE


def test_fields_of_structs_are_sources_too():
    schema = Schema((Field(1, "s", StructType((Field(2, "x", t.INT),))),))
    by = PartitionSpec((PartitionField((2,), 1000, "s.x", IDENTITY),))
    assert str(inclusive_projection(bind(col("s.x") > 3, schema), by, schema)).endswith("> 3")


def test_partition_schema_has_the_ids_and_result_types_of_the_fields():
    schema = Schema((Field(1, "v", t.TIMESTAMP, required=True),))
    tuples = partition_schema(spec(DAY, HOUR, Bucket(3)), schema)
    assert [(f.id, f.type, f.optional) for f in tuples.fields] == [
        (1000, t.DATE, True),
        (1001, t.INT, True),
        (1002, t.INT, True),
    ]


# brute force -------------------------------------------------------------------------------------------------


def stored_value(transform, type_, value, *, old_writer):
    """The partition value that a writer stores; Java's arithmetic wraps around, and once rounded towards 1970."""
    if value is None or transform == VOID:
        return None
    if isinstance(transform, Truncate) and type_.kind in ("int", "long"):
        bits = 32 if type_.kind == "int" else 64
        low = value - value % transform.width
        return low + (1 << bits) if low < -(1 << (bits - 1)) else low
    result = transform.apply(type_, value)
    if old_writer and isinstance(transform, TimeTransform) and result < 0 and type_.kind != "date":
        units = {YEAR: None, MONTH: None, DAY: DAY_MICROS, HOUR: DAY_MICROS // 24}[transform]
        scale = 1000 if type_.kind.endswith("ns") else 1
        return result + 1 if units is None or value % (units * scale) else result
    return result


SPEC_TRANSFORMS = [
    IDENTITY, Bucket(4), Truncate(1), Truncate(2), Truncate(3), Truncate(10), YEAR, MONTH, DAY, HOUR, VOID
]  # fmt: skip


@st.composite
def specs(draw, ids):
    fields = []
    for n in range(draw(st.integers(1, 3))):
        source = draw(st.sampled_from(ids))
        type_ = SCHEMA.entry(source).field.type
        transform = draw(st.sampled_from([x for x in SPEC_TRANSFORMS if x.can_transform(type_)]))
        fields.append(PartitionField((source,), 1000 + n, f"p{n}", transform))
    return PartitionSpec(tuple(fields))


@pytest.mark.parametrize("source", [n + 1 for n in range(len(TYPES))], ids=lambda n: str(TYPES[n - 1]))
def test_every_test_through_every_transform_is_sound(source):
    """All operations, literals and values of the pool of a type, with right writers and those that had bugs."""
    reference = BoundReference(SCHEMA.entry(source))
    name, type_ = reference.entry.name, reference.type
    transforms = [x for x in SPEC_TRANSFORMS if x.can_transform(type_)]
    for term in (reference, *transform_terms(reference)):
        own = transforms if term is reference else [IDENTITY, term.transform]
        for leaf in every_predicate(term):
            passes = compile_row_filter(leaf)
            for transform in own:
                by = spec(transform, source=source)
                tuples = partition_schema(by, SCHEMA)
                might = compile_tuple_filter(inclusive_projection(leaf, by, SCHEMA), tuples)
                must = compile_tuple_filter(strict_projection(leaf, by, SCHEMA), tuples)
                for value, places in stored_places(transform, type_):
                    try:
                        passed = passes({name: value})
                    except InvalidValue:
                        continue
                    for place in places:
                        assert might(place) or not passed, (str(leaf), str(transform), value, place)
                        assert not must(place) or passed, (str(leaf), str(transform), value, place)


@functools.cache
def stored_places(transform, type_):
    """For each value of the pool, the partition tuples that it may be stored under."""
    found = []
    for value in (None, *pool(type_)):
        try:
            places = {(stored_value(transform, type_, value, old_writer=old),) for old in (False, True)}
        except InvalidValue:
            continue
        found.append((value, places))
    return found


@given(st.data())
@settings(max_examples=60)
def test_projections_are_sound(data):
    expression = data.draw(filters(predicates(references(), transformed=True)))
    ids = field_ids(expression)
    assume(ids)
    by = data.draw(specs(ids))
    old_writer = data.draw(st.booleans())
    tuples = partition_schema(by, SCHEMA)
    might = compile_tuple_filter(inclusive_projection(expression, by, SCHEMA), tuples)
    must = compile_tuple_filter(strict_projection(expression, by, SCHEMA), tuples)
    passes = compile_row_filter(expression)
    for row in data.draw(rows(ids, min_size=1, max_size=4)):
        try:
            place = tuple(
                stored_value(
                    f.transform,
                    SCHEMA.entry(f.source_id).field.type,
                    value_in(row, f.source_id),
                    old_writer=old_writer,
                )
                for f in by.fields
            )
            passed = passes(row)
        except InvalidValue:
            continue  # the row has no partition, or no value of the term
        if passed:
            assert might(place)
        else:
            assert not must(place)


@pytest.mark.parametrize("source", [n + 1 for n in range(len(TYPES))], ids=lambda n: str(TYPES[n - 1]))
def test_identity_projections_are_exact(source):
    reference = BoundReference(SCHEMA.entry(source))
    by = spec(IDENTITY, source=source)
    tuples = partition_schema(by, SCHEMA)
    for leaf in every_predicate(reference):
        might = compile_tuple_filter(inclusive_projection(leaf, by, SCHEMA), tuples)
        must = compile_tuple_filter(strict_projection(leaf, by, SCHEMA), tuples)
        passes = compile_row_filter(leaf)
        for value in (None, *pool(reference.type)):
            assert might((value,)) is must((value,)) is passes({reference.entry.name: value})


def test_nan_and_signed_zero_partitions():
    schema = Schema((Field(1, "v", t.DOUBLE),))
    tuples = partition_schema(spec(IDENTITY), schema)
    above = compile_tuple_filter(inclusive_projection(bind(V > 1.0, schema), spec(IDENTITY), schema), tuples)
    assert above((math.nan,))
    zero = compile_tuple_filter(strict_projection(bind(V == 0.0, schema), spec(IDENTITY), schema), tuples)
    assert zero((-0.0,))
