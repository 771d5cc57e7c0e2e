"""Metrics modes by table properties: what Java's MetricsConfig makes of them."""

import pytest

from floe.errors import InvalidUpdate
from floe.formats.metrics import COUNTS, DEFAULT_MODE, FULL, NONE, MetricsConfig, MetricsMode, parse_mode
from floe.spec.partitioning.transforms import DAY, IDENTITY, Bucket
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import SortField, SortOrder
from floe.spec.types import INT, STRING, TIMESTAMP, Field, ListType, StructType

PREFIX = "write.metadata.metrics."
NESTED = StructType((Field(3, "x", INT), Field(4, "y", INT)))
SCHEMA = Schema((Field(1, "id", INT), Field(2, "p", NESTED), Field(5, "ts", TIMESTAMP), Field(6, "s", STRING)))


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("none", NONE),
        ("COUNTS", COUNTS),
        ("Full", FULL),
        ("truncate(16)", DEFAULT_MODE),
        (" truncate( 7 ) ", MetricsMode(True, True, 7)),
    ],
)
def test_modes(text: str, mode: MetricsMode) -> None:
    assert parse_mode(text) == mode


@pytest.mark.parametrize("text", ["", "some", "truncate", "truncate(0)", "truncate(-1)", "truncate(x)"])
def test_wrong_modes_are_named(text: str) -> None:
    with pytest.raises(InvalidUpdate, match=r"column\.id"):
        MetricsConfig.from_properties({PREFIX + "column.id": text}, SCHEMA)


def test_modes_of_nested_columns_and_of_unknown_ones() -> None:
    config = MetricsConfig.from_properties(
        {PREFIX + "default": "counts", PREFIX + "column.p.x": "full", PREFIX + "column.gone": "full"}, SCHEMA
    )
    assert (config.mode(3), config.mode(4), config.mode(99)) == (FULL, COUNTS, COUNTS)


def test_sorted_columns_have_bounds() -> None:
    order = SortOrder((SortField((1,), IDENTITY), SortField((5,), DAY), SortField((6,), Bucket(4))), 1)
    config = MetricsConfig.from_properties({PREFIX + "default": "none"}, SCHEMA, order)
    assert [config.mode(n) for n in (1, 5, 6)] == [DEFAULT_MODE, DEFAULT_MODE, NONE]
    full = MetricsConfig.from_properties({PREFIX + "default": "full"}, SCHEMA, order)
    assert full.mode(1) == FULL
    with_column = MetricsConfig.from_properties(
        {PREFIX + "default": "none", PREFIX + "column.id": "counts"}, SCHEMA, order
    )
    assert with_column.mode(1) == COUNTS


def test_of_wide_tables_the_columns_at_the_top_come_first() -> None:
    nested = StructType((Field(10, "a", INT), Field(11, "b", INT)))
    schema = Schema((Field(1, "s", nested), Field(2, "l", ListType(12, INT)), Field(3, "z", INT)))
    properties = {PREFIX + "max-inferred-column-defaults": "2"}
    config = MetricsConfig.from_properties(properties, schema)
    assert [n for n in schema.by_id if config.mode(n) != NONE] == [10, 3]
    below = MetricsConfig.from_properties({PREFIX + "max-inferred-column-defaults": "-1"}, schema)
    assert below.default == DEFAULT_MODE
