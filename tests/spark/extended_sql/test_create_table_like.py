"""CREATE TABLE … LIKE, read from text; no Spark is needed for that."""

import pytest

from floe.sql.statements import CreateTableLike, parse_statement


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE TABLE a LIKE b", CreateTableLike(("a",), ("b",), False)),
        ("create table lake.db.`a.b` like c.d -- so", CreateTableLike(("lake", "db", "a.b"), ("c", "d"), False)),
        ("CREATE TABLE IF NOT EXISTS a LIKE b USING iceberg;", CreateTableLike(("a",), ("b",), True)),
        (
            "CREATE TABLE a LIKE b TBLPROPERTIES ('x' = '1', 'it''s' = 'y')",
            CreateTableLike(("a",), ("b",), False, {"x": "1", "it's": "y"}),
        ),
        ("CREATE TABLE a LIKE b LOCATION '/x'", CreateTableLike(("a",), ("b",), False, {"location": "/x"})),
    ],
)
def test_read(text: str, expected: CreateTableLike) -> None:
    assert parse_statement(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE a (id INT)",
        "CREATE TABLE a AS SELECT 1 LIKE 1",
        "CREATE TABLE",
        "CREATE",
        "CREATE TABLE a LIKE b USING orc",
        "CREATE TABLE a LIKE b ROW FORMAT DELIMITED",
        "CREATE TABLE a LIKE b TBLPROPERTIES (x = 1)",
        "CREATE TABLE a LIKE b TBLPROPERTIES ('x' = '1'",
    ],
)
def test_left_to_spark(text: str) -> None:
    assert parse_statement(text) is None
