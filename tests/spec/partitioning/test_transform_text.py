"""Partition and sort terms as users write them."""

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidInput, InvalidPartitionSpec, InvalidSortOrder
from floe.spec.partitioning.transform_terms import PartitionTerm, SortTerm, parse_partition_term, parse_sort_term
from floe.spec.partitioning.transforms import DAY, HOUR, IDENTITY, MONTH, VOID, YEAR, Bucket, Truncate


@pytest.mark.parametrize(
    ("text", "transform"),
    [
        ("identity(ts)", IDENTITY),
        ("ts", IDENTITY),
        ("year(ts)", YEAR),
        ("years(ts)", YEAR),
        ("month(ts)", MONTH),
        ("months(ts)", MONTH),
        ("day(ts)", DAY),
        ("days(ts)", DAY),
        ("date(ts)", DAY),
        ("hour(ts)", HOUR),
        ("hours(ts)", HOUR),
        ("date_hour(ts)", HOUR),
        ("void(ts)", VOID),
        ("bucket(16, ts)", Bucket(16)),
        ("bucket(ts, 16)", Bucket(16)),
        ("bucket[16](ts)", Bucket(16)),
        ("truncate(4, ts)", Truncate(4)),
        ("truncate(ts, 4)", Truncate(4)),
        ("truncate[4](ts)", Truncate(4)),
        ("  BUCKET ( 16 ,ts ) ", Bucket(16)),
    ],
)
def test_spellings_of_iceberg_and_of_spark(text, transform):
    assert parse_partition_term(text) == PartitionTerm("ts", transform)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("a.b.c", "a.b.c"),
        ("day(a . b)", "a.b"),
        ("`a b`", ("a b",)),
        ("day(`a.b`.c)", ("a.b", "c")),
        ('"x ""y"""', ('x "y"',)),
        ("`tick``tack`", ("tick`tack",)),
        ("größe", "größe"),
        ("a-b", "a-b"),
        ("bucket(16, `16`)", ("16",)),
        ("day", "day"),
        ("as", "as"),
    ],
)
def test_columns_are_dotted_names_or_quoted_paths(text, column):
    assert parse_partition_term(text).column == column


def test_a_partition_field_may_be_named():
    assert parse_partition_term("bucket(16, id) AS shard").name == "shard"
    assert parse_partition_term("day(ts) as `the day`").name == "the day"
    assert parse_partition_term("day(ts)").name is None


@pytest.mark.parametrize(
    ("text", "descending", "nulls_first"),
    [
        ("ts", False, None),
        ("ts asc", False, None),
        ("ts DESC", True, None),
        ("ts desc nulls first", True, True),
        ("ts nulls last", False, False),
        ("ts ASC NULLS FIRST", False, True),
    ],
)
def test_sort_terms(text, descending, nulls_first):
    assert parse_sort_term(text) == SortTerm("ts", IDENTITY, descending, nulls_first)


def test_sort_terms_may_be_transforms_and_columns_named_like_keywords():
    assert parse_sort_term("bucket(16, id) desc") == SortTerm("id", Bucket(16), True)
    assert parse_sort_term("desc desc") == SortTerm("desc", IDENTITY, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a column, found the end"),
        ("week(ts)", "unknown transform 'week'"),
        ("zorder(a, b)", "takes one column, found 2"),
        ("day()", "expected a column"),
        ("day(ts", r"expected '\)'"),
        ("day(ts))", r"unexpected '\)'"),
        ("day(3, ts)", "takes no number"),
        ("bucket(ts)", "takes one number, found 0"),
        ("bucket(1, 2)", "takes one column, found 0"),
        ("bucket(1, 2, ts)", "takes one number, found 2"),
        ("bucket(0, ts)", "number of buckets must be 1"),
        ("bucket(99999999999, ts)", "expected a number"),
        ("bucket[x](ts)", "expected a number"),
        ("a b", "unexpected 'b'"),
        ("a.", "expected a column, found the end"),
        ("`a", "quote is not closed"),
        ("``", "quote is not closed"),
        ("day(ts) as", "expected a column, found the end"),
        ("ts desc", "unexpected 'desc'"),
    ],
)
def test_mistakes_in_partition_terms(text, message):
    with pytest.raises(InvalidPartitionSpec, match=message):
        parse_partition_term(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ts nulls", "must be followed by `first` or `last`"),
        ("ts down", "unexpected 'down'"),
        ("ts as x", "unexpected"),
    ],
)
def test_mistakes_in_sort_terms(text, message):
    with pytest.raises(InvalidSortOrder, match=message):
        parse_sort_term(text)


@given(st.text('ab16(),.[]`" asdenul', max_size=20))
def test_any_text_is_a_term_or_an_error_of_ours(text):
    for parse in (parse_partition_term, parse_sort_term):
        with suppress(InvalidInput):
            assert parse(text).column
