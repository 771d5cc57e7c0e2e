"""Rows as tables and records: aligned, cut to the width of the terminal, and printed while they are read."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from floe.formats.rows import rows_to_batch
from floe.show.rows import RowStyle, cell_texts, row_lines, value_text
from floe.show.terminal import Paint
from floe.spec.schemas.schema import Schema
from floe.sql.columns import parse_column_type, parse_columns


def lines(schema: Schema, rows: list[dict[str, Any]], **style: Any) -> list[str]:
    return list(row_lines(schema, [rows_to_batch(schema, rows)], RowStyle(**style)))


TEXTS = parse_columns("id int, note string, other string")


def test_long_texts_are_cut_and_numbers_are_not() -> None:
    schema = parse_columns("n decimal(38, 0), note string")
    printed = lines(schema, [{"n": Decimal(10**37), "note": "x" * 100}], width=60)
    assert printed[1] == f"{10**37}  {'x' * 19}…"
    assert max(map(len, printed)) == 60


def test_columns_that_would_get_too_narrow_become_records() -> None:
    rows = [{"id": 1, "note": "a" * 30, "other": None}]
    assert lines(TEXTS, rows, width=80)[0].startswith("id  note")
    assert lines(TEXTS, rows, width=20) == [
        "── 1 ───────────────",
        "id     1",
        "note   " + "a" * 24,
        "       " + "a" * 6,
        "other  NULL",
    ]
    assert lines(TEXTS, rows, width=20, records=False)[0].startswith("id  note"), "unless records are switched off"


@given(
    st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.text(max_size=80), st.text(max_size=80)), max_size=6),
    st.integers(30, 120),
)
def test_no_line_is_longer_than_the_terminal(rows: list[tuple[int, str, str]], width: int) -> None:
    printed = lines(TEXTS, [{"id": a, "note": b, "other": c} for a, b, c in rows], width=width)
    assert all(cell_len(line) <= max(width, 5 + 2 + 24) for line in printed)
    assert all(line.isprintable() for line in printed)


@given(st.lists(st.text(alphabet="aé日\n\x1b", max_size=8), min_size=1, max_size=5))
def test_columns_are_aligned(words: list[str]) -> None:
    schema = parse_columns("word string, n int")
    _, *printed = lines(schema, [{"word": word, "n": 7} for word in words])
    assert {cell_len(line) for line in printed} == {cell_len(printed[0])}
    assert all(line.endswith("7") for line in printed)


def test_null_is_not_the_text_null() -> None:
    column = pa.array(["NULL", None, "null", ""])
    assert cell_texts(parse_column_type("string"), column) == ['"NULL"', None, "null", ""]
    printed = lines(parse_columns("w string"), [{"w": "NULL"}, {"w": None}], paint=Paint(True))
    assert printed[1] == '"NULL"'
    assert printed[2] == "\x1b[2;3mNULL  \x1b[0m"


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        ("timestamp_ns", 1, "1970-01-01 00:00:00.000000001"),
        ("timestamptz", -1, "1969-12-31 23:59:59.999999Z"),
        ("timestamp", 400_000_000_000_000_000, "+14645-06-30 15:06:40"),
        ("date", -719_529, "-0001-12-31"),
        ("float", 0.10000000149011612, "0.1"),
        ("double", float("nan"), "NaN"),
        ("boolean", False, "false"),
        ("fixed(2)", b"\x00\xff", "0x00ff"),
        ("list<list<int>>", [[1], None, []], "[[1], null, []]"),
        ("map<int, string>", {1: 'a"b'}, '{1: "a\\"b"}'),
        ("struct<`a b`: string>", {"a b": None}, "{`a b`: null}"),
    ],
)
def test_the_text_of_values(type_: str, value: Any, text: str) -> None:
    assert value_text(parse_column_type(type_), value) == text


def test_rows_are_printed_before_all_are_read() -> None:
    batches_read = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal batches_read
        for _ in range(100):
            batches_read += 1
            yield rows_to_batch(TEXTS, [{"id": 1, "note": "a", "other": "b"}] * 200)

    printed = row_lines(TEXTS, batches())
    assert next(printed).startswith("id  note")
    assert next(printed) == " 1  a     b"
    assert batches_read == 1


def test_small_batches_share_their_widths() -> None:
    small = [rows_to_batch(TEXTS, [{"id": 10**n, "note": "x" * n, "other": "y"}]) for n in range(5)]
    printed = list(row_lines(TEXTS, small))
    assert {len(line) for line in printed[1:]} == {len(printed[1])}


def test_a_table_without_columns_or_rows() -> None:
    assert list(row_lines(TEXTS, [])) == ["id  note  other"]
    assert list(row_lines(Schema(()), [])) == [""]
