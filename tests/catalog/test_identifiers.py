"""Names as text and back, and those that are refused."""

import pytest
from hypothesis import given, strategies as st

from floe.catalog.identifiers import (
    MAX_NAME_BYTES,
    check_identifier,
    format_identifier,
    parse_identifier,
    parse_namespace,
)
from floe.errors import InvalidName

characters = st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp", "Cf"], exclude_characters="/\\")
parts = st.text(characters, min_size=1, max_size=20).filter(lambda text: text.strip() and text not in (".", ".."))


@given(st.lists(parts, min_size=2, max_size=5).map(tuple))
def test_text_and_back(identifier: tuple[str, ...]) -> None:
    assert parse_identifier(format_identifier(identifier)) == identifier
    assert parse_namespace(format_identifier(identifier)) == identifier


@pytest.mark.parametrize(
    ("text", "identifier"),
    [
        ("db.orders", ("db", "orders")),
        ("a.b.c", ("a", "b", "c")),
        ("`a.b`.`c``d`", ("a.b", "c`d")),
        ("db.`order details`", ("db", "order details")),
        ("db.数据", ("db", "数据")),
        ("db.with space", ("db", "with space")),
    ],
)
def test_reading(text: str, identifier: tuple[str, ...]) -> None:
    assert parse_identifier(text) == identifier


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders",
        ".",
        "db.",
        ".orders",
        "db..orders",
        "db.`orders",
        "db.`a`b",
        "db.a`b",
        "db.``",
        "db.\0",
        "db.a\tb",
        "db.a/b",
        "db.`..`",
        "db.\ud800",
        "db.\u202etxt",
        "db.\u2028",
        "db." + "é" * (MAX_NAME_BYTES // 2 + 1),
        ".".join("x" * 100),
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(InvalidName) as error:
        parse_identifier(text)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 600


def test_parts_must_be_text() -> None:
    with pytest.raises(InvalidName, match="must be text"):
        parse_identifier(["db", 7])  # type: ignore[list-item]
    with pytest.raises(InvalidName):
        check_identifier(())


def test_nothing_is_the_catalog_itself() -> None:
    assert parse_namespace("") == parse_namespace([]) == ()


def test_the_longest_name() -> None:
    assert parse_identifier(["db", "x" * MAX_NAME_BYTES])[1] == "x" * MAX_NAME_BYTES
