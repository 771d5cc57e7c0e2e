"""Conditions in SQL: a scan reads the rows that a delete with the same condition removes."""

from typing import Any

import pytest

from floe import Lake, Table, errors

ROWS: list[dict[str, Any]] = [
    {"id": 1, "low": 5, "high": 9, "name": "Ada", "who": {"age": 36, "city": "London"}},
    {"id": 2, "low": 7, "high": 3, "name": "bob", "who": {"age": None, "city": "Paris"}},
    {"id": 3, "low": None, "high": 4, "name": None, "who": None},
    {"id": 4, "low": 2, "high": 2, "name": "carla", "who": {"age": 61, "city": "Rome"}},
]
CONDITIONS = {
    "low < high": [1],
    "low >= high": [2, 4],
    "id % 2 = 0": [2, 4],
    "upper(name) = 'BOB'": [2],
    "name like '%a'": [1, 4],
    "length(name) = 3 and id > 1": [2],
    "coalesce(low, 0) = 0": [3],
    "case when low is null then true else high > 8 end": [1, 3],
    "low + high = 10 or id = 3": [2, 3],
    "who.age + 1 > 40": [4],
    "t.id = 2": [2],
    "id = 4 and not (low < high)": [4],
    "name rlike '^[a-z]'": [2, 4],
    "low between 1 and high": [1, 4],
}


@pytest.fixture
def people(lake: Lake, version: int) -> Table:
    """Rows in two files; in format version 2 and later one row more was deleted by a delete file."""
    columns = "id bigint, low int, high int, name string, who struct<age int, city string>"
    properties = {"write.delete.mode": "merge-on-read"} if version > 1 else {}
    table = lake.create_table("db.people", columns, properties=properties, format_version=version)
    table.append(ROWS[:2])
    table.append([*ROWS[2:], {"id": 5, "low": 0, "high": 9, "name": "gone"}])
    table.delete("id = 5")
    return table


def ids(table: Table, **options: Any) -> list[int]:
    return sorted(table.scan(**options).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_scan_reads_what_a_delete_removes(people: Table, condition: str) -> None:
    expected = CONDITIONS[condition]
    assert ids(people, where=condition) == expected
    assert people.scan(where=condition).count() == len(expected)
    people.delete(condition)
    assert ids(people) == [row["id"] for row in ROWS if row["id"] not in expected]


def test_columns_that_only_the_condition_needs_are_not_given_out(people: Table) -> None:
    scan = people.scan(where="low < high", columns=["name"])
    assert scan.to_arrow().to_pylist() == [{"name": "Ada"}]
    older = people.scan(where="who.age > id", columns=["who.city", "_pos"]).to_arrow()
    assert older.sort_by("_pos").to_pylist() == [
        {"who": {"city": "London"}, "_pos": 0},
        {"who": {"city": "Rome"}, "_pos": 1},
    ]
    assert people.scan(where="length(name) = 3").limit(1).to_arrow().num_rows == 1
    assert people.scan(where="low < high").limit(0).count() == 0


def test_the_part_that_compares_with_constants_prunes_files(people: Table) -> None:
    scan = people.scan(where="id > 2 and low <= high")
    assert len(scan.files()) == 1
    assert ids(people, where="id > 2 and low <= high") == [4]
    assert "low <= high" in scan.explain()
    assert "low <= high" in repr(scan)


@pytest.mark.parametrize(
    ("where", "shown"), [("nope(id) = 1", "nope"), ("id > 1 and upper(nam) = 'X'", "nam"), ("id + 'x", "'x")]
)
def test_wrong_conditions_point_at_the_mistake(people: Table, where: str, shown: str) -> None:
    with pytest.raises(errors.InvalidExpression) as error:
        people.scan(where=where)
    assert error.value.position == where.index(shown)
