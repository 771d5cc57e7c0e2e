"""Sort orders: rules, JSON, which order satisfies which, and sorting rows."""

import gzip
import json
import math
import struct
import uuid
from functools import cmp_to_key

import pytest
from hypothesis import assume, given, settings, strategies as st
from pyiceberg.table.sorting import SortOrder as PyOrder

from floe.errors import InvalidMetadata, InvalidSortOrder, InvalidValue, NoSuchColumn, UnsupportedFeature
from floe.spec import types as t
from floe.spec.partitioning.transforms import DAY, HOUR, IDENTITY, YEAR, Bucket, Truncate, UnknownTransform
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import (
    UNSORTED,
    NullOrder,
    SortDirection,
    SortField,
    SortOrder,
    build_order,
    check_order,
    order_from_json,
    order_to_json,
    sort_key,
)
from floe.spec.types import Field, GeographyType, GeometryType, ListType, MapType, StructType
from floe.spec.values.value_order import compare
from helpers.corpus import metadata_files, table_names
from helpers.transforms import ALLOWED, SOURCES, allowed_id
from helpers.value_strategies import values_of

ASC, DESC = SortDirection.ASC, SortDirection.DESC
FIRST, LAST = NullOrder.NULLS_FIRST, NullOrder.NULLS_LAST
SCHEMA = Schema(
    (
        Field(1, "id", t.LONG),
        Field(2, "ts", t.TIMESTAMP),
        Field(3, "name", t.STRING),
        Field(4, "x", t.DOUBLE),
        Field(5, "at", StructType((Field(6, "city", t.STRING),))),
        Field(7, "tags", ListType(8, t.STRING)),
        Field(9, "v", t.VARIANT),
        Field(10, "g", GeometryType()),
        Field(11, "h", GeographyType()),
        Field(12, "n", t.UNKNOWN),
        Field(13, "m", MapType(14, t.STRING, 15, t.INT)),
    )
)


def order(*fields, order_id=1):
    return SortOrder(fields, order_id)


# spec: Sorting --------------------------------------------------------------------------------------------------


def test_order_id_0_is_reserved_for_the_unsorted_order():
    assert UNSORTED.is_unsorted
    assert UNSORTED.order_id == 0
    with pytest.raises(InvalidSortOrder, match="id 0 is reserved"):
        SortOrder((SortField((1,), IDENTITY),), 0)
    with pytest.raises(InvalidSortOrder, match="unsorted order must have id 0"):
        SortOrder((), 3)


def test_known_transforms_take_one_source_column():
    with pytest.raises(InvalidSortOrder, match="takes one source column"):
        SortField((1, 2), IDENTITY)
    assert SortField((1, 2), UnknownTransform("z")).source_id == 1


@pytest.mark.parametrize(
    ("source_id", "transform", "message"),
    [
        (99, IDENTITY, "no field with id 99"),
        (5, IDENTITY, "cannot sort by a struct"),
        (7, IDENTITY, "cannot sort by a list"),
        (13, IDENTITY, "cannot sort by a map"),
        (9, IDENTITY, "cannot sort by a variant"),
        (8, IDENTITY, "part of a list or map"),
        (14, IDENTITY, "part of a list or map"),
        (10, IDENTITY, "type geometry: they have no order"),
        (11, IDENTITY, "type geography: they have no order"),
        (12, IDENTITY, "type unknown: they have no order"),
        (3, DAY, "day cannot be applied to values of type string"),
        (4, Bucket(4), r"bucket\[4\] cannot be applied to values of type double"),
    ],
)
def test_orders_that_cannot_be(source_id, transform, message):
    with pytest.raises(InvalidSortOrder, match=message):
        check_order(order(SortField((source_id,), transform)), SCHEMA)


def test_orders_over_struct_fields_and_transforms_can_be():
    check_order(order(SortField((6,), Truncate(2)), SortField((2,), HOUR), SortField((4,), IDENTITY)), SCHEMA, 1)
    check_order(UNSORTED, SCHEMA)


def test_several_source_columns_need_version_3():
    many = order(SortField((1, 2), UnknownTransform("zorder")))
    check_order(many, SCHEMA, 3)
    with pytest.raises(InvalidSortOrder, match="needs format version 3"):
        check_order(many, SCHEMA, 2)


# building from text ---------------------------------------------------------------------------------------------


def test_null_order_follows_the_direction_unless_given():
    terms = ["ts desc", "id", "name asc nulls last", "bucket(4, id) desc nulls first", "at.city"]
    assert build_order(SCHEMA, terms) == order(
        SortField((2,), IDENTITY, DESC, LAST),
        SortField((1,), IDENTITY, ASC, FIRST),
        SortField((3,), IDENTITY, ASC, LAST),
        SortField((1,), Bucket(4), DESC, FIRST),
        SortField((6,), IDENTITY, ASC, FIRST),
    )


def test_building_from_nothing_gives_the_unsorted_order():
    assert build_order(SCHEMA, []) is UNSORTED


def test_building_checks_columns_and_types():
    with pytest.raises(NoSuchColumn):
        build_order(SCHEMA, ["TS"])
    assert build_order(SCHEMA, ["TS"], case_sensitive=False).fields[0].source_id == 2
    with pytest.raises(InvalidSortOrder, match="cannot sort by a variant"):
        build_order(SCHEMA, ["v"])


# which order satisfies which ------------------------------------------------------------------------------------

BY_HOUR, BY_DAY, BY_TS = (SortField((2,), x) for x in (HOUR, DAY, IDENTITY))


def test_any_order_satisfies_the_unsorted_one():
    assert order(BY_DAY).satisfies(UNSORTED)
    assert UNSORTED.satisfies(UNSORTED)
    assert not UNSORTED.satisfies(order(BY_DAY))


def test_an_order_satisfies_its_prefixes():
    both = order(BY_DAY, SortField((1,), IDENTITY))
    assert both.satisfies(order(BY_DAY, order_id=2))
    assert not order(BY_DAY).satisfies(both)


def test_finer_transforms_satisfy_coarser_ones():
    assert order(BY_HOUR).satisfies(order(BY_DAY))
    assert order(BY_TS).satisfies(order(BY_HOUR))
    assert not order(BY_DAY).satisfies(order(BY_HOUR))


def test_direction_null_order_and_column_must_agree():
    assert not order(BY_TS).satisfies(order(SortField((2,), DAY, DESC, FIRST)))
    assert not order(BY_TS).satisfies(order(SortField((2,), DAY, ASC, LAST)))
    assert not order(BY_TS).satisfies(order(SortField((1,), IDENTITY)))
    assert order(SortField((2,), IDENTITY, DESC, LAST)).satisfies(order(SortField((2,), YEAR, DESC, LAST)))


def test_truncated_text_satisfies_shorter_prefixes_where_the_schema_tells_the_type():
    long, short = order(SortField((3,), Truncate(8))), order(SortField((3,), Truncate(2)))
    assert long.satisfies(short, SCHEMA)
    assert not long.satisfies(short)
    steps, tens = order(SortField((1,), Truncate(2))), order(SortField((1,), Truncate(10)))
    assert steps.satisfies(tens, SCHEMA)
    assert not tens.satisfies(steps, SCHEMA)


def test_unknown_transforms_satisfy_themselves():
    strange = order(SortField((1, 2), UnknownTransform("z")))
    assert strange.satisfies(strange)


def test_same_order_ignores_ids():
    assert order(BY_DAY).same_order(order(BY_DAY, order_id=8))
    assert order(BY_DAY) != order(BY_DAY, order_id=8)
    assert order(BY_DAY).with_id(8) == order(BY_DAY, order_id=8)


# sorting rows ---------------------------------------------------------------------------------------------------


def test_floats_sort_from_negative_nan_over_signed_zeros_to_nan():
    (negative_nan,) = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))
    expected = [negative_nan, -math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan]
    rows = [{"x": value} for value in reversed(expected)]
    found = [row["x"] for row in sorted(rows, key=sort_key(build_order(SCHEMA, ["x"]), SCHEMA))]
    assert [struct.pack("<d", x) for x in found] == [struct.pack("<d", x) for x in expected]


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ("id", [None, 1, 2, 3]),
        ("id desc", [3, 2, 1, None]),
        ("id nulls last", [1, 2, 3, None]),
        ("id desc nulls first", [None, 3, 2, 1]),
    ],
)
def test_nulls_go_first_or_last_whatever_the_direction(term, expected):
    rows = [{"id": 2}, {"id": None}, {"id": 3}, {"id": 1}]
    assert [row["id"] for row in sorted(rows, key=sort_key(build_order(SCHEMA, [term]), SCHEMA))] == expected


def test_later_fields_decide_between_equal_ones():
    rows = [{"ts": 5, "id": 1}, {"ts": 86_400_000_000, "id": 3}, {"ts": 7, "id": 2}]
    found = sorted(rows, key=sort_key(build_order(SCHEMA, ["day(ts)", "id desc"]), SCHEMA))
    assert [row["id"] for row in found] == [2, 1, 3]


def test_rows_of_null_structs_sort_as_null():
    rows = [{"at": {"city": "Oslo"}}, {"at": None}, {}, {"at": {"city": "Bergen"}}]
    found = sorted(rows, key=sort_key(build_order(SCHEMA, ["at.city"]), SCHEMA))
    assert found == [{"at": None}, {}, {"at": {"city": "Bergen"}}, {"at": {"city": "Oslo"}}]


def test_uuids_sort_as_unsigned_bytes():
    schema = Schema((Field(1, "u", t.UUID),))
    high, low = uuid.UUID(int=1 << 127), uuid.UUID(int=1)
    found = sorted([{"u": high}, {"u": low}], key=sort_key(build_order(schema, ["u"]), schema))
    assert [row["u"] for row in found] == [low, high]


def test_rows_cannot_be_sorted_by_a_transform_that_is_not_known():
    with pytest.raises(UnsupportedFeature, match="zorder"):
        sort_key(order(SortField((1,), UnknownTransform("zorder"))), SCHEMA)


def test_sorting_by_nothing_keeps_rows_as_they_are():
    rows = [{"id": 2}, {"id": 1}]
    assert sorted(rows, key=sort_key(UNSORTED, SCHEMA)) == rows


@pytest.mark.parametrize(("transform", "source"), [p for p in ALLOWED if str(p[0]) != "void"], ids=allowed_id)
@settings(max_examples=10)
@given(data=st.data())
def test_sorted_rows_are_in_order_for_every_type_and_transform(transform, source, data):
    values = data.draw(st.lists(st.none() | values_of(source), max_size=8))
    direction, nulls = data.draw(st.sampled_from([ASC, DESC])), data.draw(st.sampled_from([FIRST, LAST]))
    schema = Schema((Field(1, "c", source),))
    try:
        rows = [{"c": v, "r": transform.apply(source, v)} for v in values]
    except InvalidValue:
        assume(False)
    key = sort_key(order(SortField((1,), transform, direction, nulls)), schema)
    found = [row["r"] for row in sorted(rows, key=key)]
    nulls_found = [v for v in found if v is None]
    rest = found[len(nulls_found) :] if nulls is FIRST else found[: len(found) - len(nulls_found)]
    assert None not in rest
    result = transform.result_type(source)
    wanted = sorted(rest, key=cmp_to_key(lambda a, b: compare(result, a, b)), reverse=direction is DESC)
    assert repr(rest) == repr(wanted) or all(compare(result, a, b) == 0 for a, b in zip(rest, wanted, strict=True))


# JSON -----------------------------------------------------------------------------------------------------------

EXAMPLE = {
    "order-id": 1,
    "fields": [
        {"transform": "identity", "source-id": 2, "direction": "asc", "null-order": "nulls-first"},
        {"transform": "bucket[4]", "source-id": 3, "direction": "desc", "null-order": "nulls-last"},
    ],
}


def test_example_of_appendix_c():
    found = order_from_json(EXAMPLE)
    assert found == order(SortField((2,), IDENTITY, ASC, FIRST), SortField((3,), Bucket(4), DESC, LAST))
    assert order_to_json(found) == EXAMPLE
    assert order_from_json({"order-id": 0, "fields": []}) == UNSORTED


def test_unknown_keys_transforms_and_source_ids_survive_a_round_trip():
    item = {
        "transform": "zorder",
        "source-ids": [1, 2],
        "direction": "asc",
        "null-order": "nulls-last",
        "why": {"a": 1},
    }
    original = {"order-id": 7, "fields": [item], "note": None}
    found = order_from_json(original)
    assert found.fields[0].source_ids == (1, 2)
    assert not found.fields[0].transform.is_known
    assert order_to_json(found) == original


def test_case_of_direction_and_null_order_does_not_matter():
    item = EXAMPLE["fields"][0] | {"direction": "DESC", "null-order": "Nulls-Last"}
    assert order_from_json({"order-id": 1, "fields": [item]}).fields[0] == SortField((2,), IDENTITY, DESC, LAST)


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        ({"direction": "up"}, "$.fields[0].direction", "must be one of asc, desc, found 'up'"),
        ({"direction": None}, "$.fields[0].direction", "is missing"),
        ({"null-order": "first"}, "$.fields[0].null-order", "must be one of nulls-first, nulls-last"),
        ({"null-order": None}, "$.fields[0].null-order", "is missing"),
        ({"transform": None}, "$.fields[0].transform", "is missing"),
        ({"transform": "bucket[0]"}, "$.fields[0].transform", "number of buckets"),
        ({"source-id": "x"}, "$.fields[0].source-id", "must be an integer"),
        ({"source-ids": {}}, "$.fields[0].source-ids", "list of at least one"),
    ],
)
def test_broken_fields_give_the_path(change, path, message):
    with pytest.raises(InvalidMetadata, match=message) as caught:
        order_from_json({"order-id": 1, "fields": [EXAMPLE["fields"][0] | change]})
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("broken", "path"),
    [
        (3, "$"),
        ({"fields": []}, "$.order-id"),
        ({"order-id": 1}, "$.fields"),
        ({"order-id": 1, "fields": "x"}, "$.fields"),
        ({"order-id": 1, "fields": []}, "$.order-id"),
        ({"order-id": 0, "fields": EXAMPLE["fields"]}, "$.order-id"),
        ({"order-id": 1, "fields": [None]}, "$.fields[0]"),
    ],
)
def test_broken_orders_give_the_path(broken, path):
    with pytest.raises(InvalidMetadata) as caught:
        order_from_json(broken)
    assert caught.value.path == path


FIELDS = st.builds(
    SortField,
    st.tuples(st.integers(0, 2**31 - 1)),
    st.sampled_from([IDENTITY, DAY, Bucket(3), Truncate(9)]),
    st.sampled_from([ASC, DESC]),
    st.sampled_from([FIRST, LAST]),
)


@given(st.lists(FIELDS, min_size=1, max_size=4), st.integers(1, 100))
def test_orders_survive_a_round_trip_and_pyiceberg_reads_them(fields, order_id):
    original = SortOrder(tuple(fields), order_id)
    text = json.dumps(order_to_json(original))
    assert order_from_json(json.loads(text)) == original
    theirs = PyOrder.model_validate_json(text)
    assert theirs.order_id == order_id
    assert [(f.source_id, str(f.transform), f.direction.value, f.null_order.value) for f in theirs.fields] == [
        (f.source_id, str(f.transform), f.direction.value, f.null_order.value) for f in original.fields
    ]


@pytest.mark.parametrize("table", table_names(without=("view_", "invalid_", "odd_")))
def test_orders_of_the_corpus_survive_a_round_trip(corpus_dir, table):
    for path in metadata_files(corpus_dir, table):
        data = path.read_bytes()
        metadata = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        for item in metadata.get("sort-orders", []):
            assert order_to_json(order_from_json(item)) == item


def test_every_source_type_but_those_without_order_can_be_sorted_by():
    for n, source in enumerate(SOURCES, 1):
        check_order(order(SortField((n,), IDENTITY)), Schema((Field(n, "c", source),)))
