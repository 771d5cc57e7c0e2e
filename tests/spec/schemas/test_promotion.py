"""Type promotion (spec: Schema Evolution): the table of valid promotions, values, and partition fields."""

from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies as st
from pyiceberg.exceptions import ResolveError
from pyiceberg.schema import promote as pyiceberg_promote

from floe.errors import IncompatibleChange, InvalidValue
from floe.spec import types as t
from floe.spec.partitioning.partition_spec import PartitionField
from floe.spec.partitioning.transforms import DAY, HOUR, IDENTITY, MONTH, VOID, YEAR, Bucket, Truncate, UnknownTransform
from floe.spec.schemas.promotion import can_promote, check_promotion, promote_value
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, Field, FixedType, GeographyType, GeometryType, ListType, MapType, StructType
from helpers.schema_strategies import to_pyiceberg

PRIMITIVES = [
    t.BOOLEAN, t.INT, t.LONG, t.FLOAT, t.DOUBLE, t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.TIMESTAMP_NS,
    t.TIMESTAMPTZ_NS, t.STRING, t.UUID, t.BINARY, FixedType(4), FixedType(16), DecimalType(9, 2), DecimalType(18, 2),
    DecimalType(9, 3), GeometryType(), GeographyType(),
]  # fmt: skip
NESTED = [StructType((Field(1, "a", t.INT),)), ListType(1, t.INT), MapType(1, t.INT, 2, t.INT)]
ALL = [*PRIMITIVES, t.UNKNOWN, t.VARIANT, *NESTED]

VALID_V1_V2 = {(t.INT, t.LONG), (t.FLOAT, t.DOUBLE), (DecimalType(9, 2), DecimalType(18, 2))}
VALID_V3 = (
    VALID_V1_V2
    | {(t.DATE, t.TIMESTAMP), (t.DATE, t.TIMESTAMP_NS)}
    | {(t.UNKNOWN, other) for other in ALL if other != t.UNKNOWN}
)


# the table of the spec ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_int_float_and_decimals_are_all_that_v1_and_v2_promote(version):
    allowed = {(a, b) for a in ALL for b in ALL if a != b and can_promote(a, b, version)}
    assert allowed == VALID_V1_V2


def test_v3_adds_unknown_and_date():
    assert {(a, b) for a in ALL for b in ALL if a != b and can_promote(a, b, 3)} == VALID_V3


def test_to_stay_the_same_is_always_allowed():
    for type_ in ALL:
        for version in (1, 2, 3):
            assert can_promote(type_, type_, version)
            check_promotion(type_, type_, version, column="a")


def test_unknown_promotes_to_any_type_in_v3():
    for type_ in ALL:
        check_promotion(t.UNKNOWN, type_, 3, column="a")
    with pytest.raises(IncompatibleChange, match="needs format version 3; the table has 2"):
        check_promotion(t.UNKNOWN, t.INT, 2, column="a")


def test_int_promotes_to_long():
    assert can_promote(t.INT, t.LONG, 1)
    with pytest.raises(IncompatibleChange, match="from long to int: values may not fit"):
        check_promotion(t.LONG, t.INT, 3, column="a")


def test_float_promotes_to_double():
    assert can_promote(t.FLOAT, t.DOUBLE, 1)
    with pytest.raises(IncompatibleChange, match="values may not fit"):
        check_promotion(t.DOUBLE, t.FLOAT, 3, column="a")


def test_date_promotes_to_timestamp_and_timestamp_ns_in_v3():
    for target in (t.TIMESTAMP, t.TIMESTAMP_NS):
        assert can_promote(t.DATE, target, 3)
        with pytest.raises(IncompatibleChange, match="needs format version 3"):
            check_promotion(t.DATE, target, 2, column="a")


@pytest.mark.parametrize("target", [t.TIMESTAMPTZ, t.TIMESTAMPTZ_NS], ids=str)
def test_date_does_not_promote_to_timestamptz(target):
    with pytest.raises(IncompatibleChange, match=r"a date has no time zone .*timestamp and timestamp_ns are allowed"):
        check_promotion(t.DATE, target, 3, column="a")


def test_decimal_widens_precision_only():
    check_promotion(DecimalType(9, 2), DecimalType(38, 2), 1, column="a")
    with pytest.raises(IncompatibleChange, match="the precision of a decimal can only grow"):
        check_promotion(DecimalType(9, 2), DecimalType(8, 2), 3, column="a")


def test_decimal_scale_never_changes():
    for target in (DecimalType(18, 3), DecimalType(18, 1), DecimalType(9, 3)):
        with pytest.raises(IncompatibleChange, match="the scale of a decimal never changes"):
            check_promotion(DecimalType(9, 2), target, 3, column="a")


def test_primitives_do_not_become_structs_nor_structs_primitives():
    """Spec: map<string, int> and map<string, struct<int>> do not turn into each other."""
    struct = StructType((Field(1, "a", t.INT),))
    for source, target in ((t.INT, struct), (struct, t.INT)):
        with pytest.raises(IncompatibleChange, match=r"m\.value.*primitive"):
            check_promotion(source, target, 3, column="m.value")


def test_nested_types_do_not_turn_into_each_other():
    for source in NESTED:
        for target in NESTED:
            if source != target:
                with pytest.raises(IncompatibleChange, match="nested type"):
                    check_promotion(source, target, 3, column="a")


def test_other_changes_of_type_are_refused_with_what_to_do():
    with pytest.raises(IncompatibleChange) as caught:
        check_promotion(t.INT, t.STRING, 3, column="st.a")
    assert "'st.a' from int to string" in caught.value.message
    assert caught.value.context == {"column": "st.a"}
    assert "add a column of the new type" in caught.value.hint


# values ------------------------------------------------------------------------------------------------------------


def test_numbers_keep_their_value():
    assert promote_value(t.INT, t.LONG, -5) == -5
    assert promote_value(t.FLOAT, t.DOUBLE, 0.5) == 0.5
    assert promote_value(DecimalType(9, 2), DecimalType(18, 2), Decimal("1.20")) == Decimal("1.20")
    assert promote_value(t.UNKNOWN, t.INT, None) is None


def test_a_date_becomes_its_midnight():
    assert promote_value(t.DATE, t.TIMESTAMP, 17486) == 17486 * 86_400_000_000
    assert promote_value(t.DATE, t.TIMESTAMP, -1) == -86_400_000_000
    assert promote_value(t.DATE, t.TIMESTAMP_NS, 1) == 86_400_000_000_000
    assert promote_value(t.DATE, t.TIMESTAMP, None) is None


def test_dates_outside_the_range_of_timestamp_ns_fail():
    """int64 nanoseconds reach from 1677-09-21 to 2262-04-11."""
    last = (2**63 - 1) // 86_400_000_000_000
    assert last == 106_751  # 2262-04-11
    assert promote_value(t.DATE, t.TIMESTAMP_NS, last) == last * 86_400_000_000_000
    assert promote_value(t.DATE, t.TIMESTAMP_NS, -last) == -last * 86_400_000_000_000
    for day in (last + 1, -last - 1):
        with pytest.raises(InvalidValue, match="out of the range of timestamp_ns"):
            promote_value(t.DATE, t.TIMESTAMP_NS, day)


def test_dates_outside_the_range_of_timestamp_fail():
    last = (2**63 - 1) // 86_400_000_000
    promote_value(t.DATE, t.TIMESTAMP, last)
    with pytest.raises(InvalidValue, match="out of the range of timestamp"):
        promote_value(t.DATE, t.TIMESTAMP, last + 1)


# partition fields --------------------------------------------------------------------------------------------------


def check(source, target, transform, field_id=1, source_ids=(1,)):
    field = PartitionField(source_ids, 1000, "p", transform)
    check_promotion(source, target, 3, column="a", field_id=field_id, partition_fields=[field])


DATE_TARGETS = pytest.mark.parametrize("target", [t.TIMESTAMP, t.TIMESTAMP_NS], ids=str)


@DATE_TARGETS
@pytest.mark.parametrize("transform", [Bucket(16), IDENTITY], ids=str)
def test_promotion_is_forbidden_where_a_partition_transform_would_change_value(transform, target):
    with pytest.raises(IncompatibleChange, match="partition field with transform"):
        check(t.DATE, target, transform)


@DATE_TARGETS
@pytest.mark.parametrize("transform", [YEAR, MONTH, DAY, VOID], ids=str)
def test_date_may_be_promoted_under_transforms_that_keep_their_value(transform, target):
    check(t.DATE, target, transform)


@DATE_TARGETS
@pytest.mark.parametrize("transform", [YEAR, MONTH, DAY, Bucket(1000), IDENTITY], ids=str)
@settings(max_examples=30)
@given(days=st.integers(-100_000, 100_000))
def test_the_rule_is_true_of_the_transforms_themselves(transform, target, days):
    """What is allowed never changes a value; what is forbidden does (but for 1970-01-01, which is 0 in every unit)."""
    before = transform.apply(t.DATE, days)
    after = transform.apply(target, promote_value(t.DATE, target, days))
    if transform.is_time:
        assert before == after
    elif transform == IDENTITY:
        assert (before == after) == (days == 0)


def test_bucket_of_a_date_differs_from_bucket_of_its_midnight():
    differing = [
        d for d in range(100) if Bucket(1000).apply(t.DATE, d) != Bucket(1000).apply(t.TIMESTAMP, d * 86400 * 10**6)
    ]
    assert len(differing) > 90


@pytest.mark.parametrize(
    ("source", "target"),
    [(t.INT, t.LONG), (DecimalType(9, 2), DecimalType(18, 2))],
    ids=str,
)
@pytest.mark.parametrize("transform", [IDENTITY, Bucket(16), Truncate(10), VOID], ids=str)
def test_numbers_may_be_promoted_under_any_transform(source, target, transform):
    """Spec: bucket[N] gives the same for 34 and 34L."""
    check(source, target, transform)
    value = 34 if source == t.INT else Decimal("34.00")
    assert transform.apply(source, value) == transform.apply(target, value)


def test_float_may_be_promoted_under_identity():
    check(t.FLOAT, t.DOUBLE, IDENTITY)


def test_unknown_may_be_promoted_where_the_transform_takes_the_new_type():
    check(t.UNKNOWN, t.LONG, IDENTITY)
    check(t.UNKNOWN, t.VARIANT, VOID)
    for target in (t.VARIANT, GeometryType(), *NESTED):
        with pytest.raises(IncompatibleChange):
            check(t.UNKNOWN, target, IDENTITY)


def test_unknown_transforms_forbid_promotion():
    for source, target in ((t.INT, t.LONG), (t.DATE, t.TIMESTAMP)):
        with pytest.raises(IncompatibleChange, match=r"zorder"):
            check(source, target, UnknownTransform("zorder"))
        with pytest.raises(IncompatibleChange):
            check(source, target, UnknownTransform("zorder"), source_ids=(7, 1))


def test_transforms_of_other_columns_do_not_matter():
    check(t.DATE, t.TIMESTAMP, Bucket(16), field_id=2)


def test_hour_and_truncate_do_not_exist_for_dates():
    assert not HOUR.can_transform(t.DATE)
    assert not Truncate(10).can_transform(t.DATE)


# PyIceberg ---------------------------------------------------------------------------------------------------------


def pyiceberg_allows(source, target):
    def convert(type_):
        return to_pyiceberg(Schema((Field(9, "a", type_),))).fields[0].field_type

    try:
        pyiceberg_promote(convert(source), convert(target))
    except ResolveError:
        return False
    return True


PYICEBERG_READS = {
    # reading a file, PyIceberg also takes bytes for text, as its reader can; a schema may not change so
    (t.STRING, t.BINARY), (t.BINARY, t.STRING), (FixedType(16), t.UUID),
}  # fmt: skip
PYICEBERG_FORGETS = {
    (a, b)
    for a in PRIMITIVES
    for b in PRIMITIVES
    if a.kind == b.kind == "decimal" and a.scale != b.scale and a.precision <= b.precision
}
"""PyIceberg looks at the precision of decimals only, though the scale must stay."""
PYICEBERG_LACKS = {(t.DATE, t.TIMESTAMP), (t.DATE, t.TIMESTAMP_NS)}
"""PyIceberg does not know the promotions of dates that v3 brought."""


def test_pyiceberg_allows_the_same_but_for_the_differences_above():
    primitives = [type_ for type_ in PRIMITIVES if type_.kind not in ("geometry", "geography")] + [t.UNKNOWN]
    different = {
        (a, b) for a in primitives for b in primitives if a != b and can_promote(a, b, 3) != pyiceberg_allows(a, b)
    }
    assert different == PYICEBERG_READS | PYICEBERG_LACKS | PYICEBERG_FORGETS


def test_values_in_lists_and_maps_are_promoted_with_them():
    assert promote_value(ListType(1, t.DATE), ListType(1, t.TIMESTAMP), [1, None]) == [86_400_000_000, None]
    days, moments = MapType(1, t.STRING, 2, t.DATE), MapType(1, t.STRING, 2, t.TIMESTAMP)
    assert promote_value(days, moments, {"a": -1}) == {"a": -86_400_000_000}
    key = ListType(3, t.INT)
    days, moments = MapType(1, key, 2, t.DATE), MapType(1, key, 2, t.TIMESTAMP)
    assert promote_value(days, moments, [([7], 1)]) == [([7], 86_400_000_000)]


def test_values_of_structs_follow_their_fields_by_id():
    before = StructType((Field(1, "a", t.DATE), Field(2, "b", t.INT), Field(3, "c", t.INT)))
    after = StructType((Field(3, "a", t.INT), Field(1, "day", t.TIMESTAMP), Field(4, "new", t.INT)))
    assert promote_value(before, after, {"a": 1, "b": 2, "c": 3}) == {"day": 86_400_000_000, "a": 3}
    assert promote_value(before, after, {}) == {}
