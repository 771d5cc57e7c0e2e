"""Java Iceberg and Floe agree on single values and transforms, value by value."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from floe.spec import types as t
from floe.spec.codecs import single_value, single_value_json
from floe.spec.partitioning.transforms import parse_transform
from floe.spec.schemas.schema_json import type_to_json
from floe.spec.types import DecimalType, FixedType, Type
from helpers.value_strategies import PRIMITIVES, values_of

pytestmark = pytest.mark.interop

# Java's JSON holds dates and timestamps as ISO text, which it reads only for years of four digits.
YEAR_1, YEAR_10000 = -719_162, 2_932_897
DAY_MICROS = 86_400_000_000
RANGES = {
    "date": (YEAR_1, YEAR_10000 - 1),
    "timestamp": (YEAR_1 * DAY_MICROS, YEAR_10000 * DAY_MICROS - 1),
    "timestamptz": (YEAR_1 * DAY_MICROS, YEAR_10000 * DAY_MICROS - 1),
}


def java_values(type_: Type) -> st.SearchStrategy[Any]:
    """Values that Java's JSON can carry: no NaN or infinity, years of four digits."""
    if type_.kind in RANGES:
        return st.integers(*RANGES[type_.kind])
    if type_.kind in ("float", "double"):
        return values_of(type_).filter(math.isfinite)
    return values_of(type_)


def to_json(type_: Type, values: list[Any]) -> str:
    return json.dumps([None if v is None else single_value_json.to_json(type_, v) for v in values])


def type_text(type_: Type) -> str:
    return json.dumps(type_to_json(type_))


@pytest.mark.parametrize("type_", PRIMITIVES, ids=str)
@settings(max_examples=20)
@given(data=st.data())
def test_binary_single_values(ask_java: Callable[..., Any], type_: Type, data: st.DataObject) -> None:
    values = data.draw(st.lists(java_values(type_), min_size=1, max_size=30))
    ours = [single_value.encode(type_, v).hex() for v in values]
    assert json.loads(ask_java("encode", type_text(type_), to_json(type_, values))) == ours
    back = json.loads(ask_java("decode", type_text(type_), json.dumps(ours)))
    assert [single_value_json.from_json(type_, j) for j in back] == values


SOURCES = {
    "identity": [p for p in PRIMITIVES if p.kind != "unknown"],
    "bucket[7]": [t.INT, t.LONG, DecimalType(9, 2), DecimalType(38, 10), t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ,
                  t.TIMESTAMP_NS, t.TIMESTAMPTZ_NS, t.STRING, t.UUID, FixedType(3), t.BINARY],
    "truncate[10]": [t.INT, t.LONG, DecimalType(9, 2), DecimalType(38, 10), t.STRING, t.BINARY],
    "truncate[1]": [t.INT, t.STRING, t.BINARY],
    "year": [t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ, t.TIMESTAMP_NS, t.TIMESTAMPTZ_NS],
    "month": [t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ, t.TIMESTAMP_NS, t.TIMESTAMPTZ_NS],
    "day": [t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ, t.TIMESTAMP_NS, t.TIMESTAMPTZ_NS],
    "hour": [t.TIMESTAMP, t.TIMESTAMPTZ, t.TIMESTAMP_NS, t.TIMESTAMPTZ_NS],
    "void": [t.INT, t.STRING],
}  # fmt: skip
CASES = [(text, type_) for text, sources in SOURCES.items() for type_ in sources]
IDS = [f"{text} of {type_}" for text, type_ in CASES]


def transformable(text: str, type_: Type) -> st.SearchStrategy[Any]:
    values = java_values(type_)
    if text.startswith("truncate") and type_.kind in ("int", "long", "decimal"):
        # Java's arithmetic wraps next to the lowest number, and its truncated decimals may outgrow their type
        return values.filter(lambda v: v > 0 or abs(v) < 10**5)
    return values


@pytest.mark.parametrize(("text", "type_"), CASES, ids=IDS)
@settings(max_examples=15)
@given(data=st.data())
def test_transforms(ask_java: Callable[..., Any], text: str, type_: Type, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | transformable(text, type_), min_size=1, max_size=30))
    transform = parse_transform(text)
    function, result = transform.bind(type_), transform.result_type(type_)
    theirs = json.loads(ask_java("transform", type_text(type_), text, to_json(type_, values)))
    assert [None if j is None else single_value_json.from_json(result, j) for j in theirs] == [
        function(v) for v in values
    ]


@pytest.mark.parametrize(("text", "type_"), CASES, ids=IDS)
@settings(max_examples=15)
@given(data=st.data())
def test_human_text(ask_java: Callable[..., Any], text: str, type_: Type, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | transformable(text, type_), min_size=1, max_size=30))
    transform = parse_transform(text)
    function = transform.bind(type_)
    theirs = json.loads(ask_java("human", type_text(type_), text, to_json(type_, values)))
    ours = [transform.to_human(type_, function(v)) for v in values]
    if type_.kind in ("float", "double"):
        # Java before 19 prints more digits than are needed for some numbers; newer ones print the fewest, as we do
        assert [as_number(type_, text) for text in ours] == [as_number(type_, text) for text in theirs]
    else:
        assert ours == theirs


def as_number(type_: Type, text: str) -> float | None:
    if text == "null":
        return None
    return float(np.float32(text)) if type_.kind == "float" else float(text)
