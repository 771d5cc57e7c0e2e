"""Java Iceberg and Floe write a partition to the same folder, whatever its values and names are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from floe.spec import types as t
from floe.spec.codecs.single_value_json import to_json
from floe.spec.partitioning.partition_paths import parse_partition_path, partition_path
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec, spec_to_json
from floe.spec.partitioning.transforms import Transform, parse_transform
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_to_json
from floe.spec.types import Field, StructType, Type
from helpers.java_oracle import ask_all, java_values
from helpers.transforms import ALLOWED, allowed_id
from helpers.value_strategies import TEXT

pytestmark = pytest.mark.interop

AskJava = Callable[..., str]

HOSTILE = [
    "", " ", ".", "..", "/", "a/b", "../../etc", "a=b", "a&b", "100%", "%2F", "+", "a b+c", "*", "~", "-_.!'()", "null",
    "NULL", "__HIVE_DEFAULT_PARTITION__", "\0", "\n\r\t", "\x7f", "ß", "é", "e\u0301", "日本語", "\U0001f600", "\ufeff",
    "\uffff", "?#[]@:$,;", "\\", '"', "<>|", "{}^`", "a" * 300,
]  # fmt: skip
HOSTILE_TEXT = st.sampled_from(HOSTILE) | TEXT


def stored_values(transform: Transform, source: Type) -> st.SearchStrategy[Any]:
    """Partition values of a transform, also such that no row would give."""
    result = transform.result_type(source)
    if result.kind == "string":
        return st.none() | HOSTILE_TEXT
    if result.kind == "int" and transform.is_time:
        return st.none() | st.integers(*_ORDINALS[str(transform)])
    return st.none() | java_values(result)


_ORDINALS = {"year": (-1969, 8029), "month": (-23_628, 96_359), "hour": (-17_259_888, 70_389_527)}
"""What counts years, months and hours from 1970 in the years 1 to 9999."""


@pytest.mark.parametrize(("transform", "source"), ALLOWED, ids=allowed_id)
@settings(max_examples=8)
@given(data=st.data())
def test_every_transform(ask_java: AskJava, transform: Transform, source: Type, data: st.DataObject) -> None:
    schema = Schema((Field(1, "c", source),))
    name = data.draw(HOSTILE_TEXT.filter(bool))
    spec = PartitionSpec((PartitionField((1,), 1000, name, transform),))
    values = data.draw(st.lists(stored_values(transform, source), min_size=1, max_size=30))
    check(ask_java, spec, schema, [(value,) for value in values])


SCHEMA = Schema(
    (
        Field(1, "s", t.STRING),
        Field(2, "at", StructType((Field(3, "ts", t.TIMESTAMPTZ), Field(4, "b", t.BINARY)))),
        Field(5, "n", t.LONG),
    )
)
FIELDS = [
    (source_id, parse_transform(text))
    for source_id, texts in {
        1: ["identity", "bucket[3]", "truncate[2]", "void"],
        3: ["identity", "year", "month", "day", "hour", "bucket[3]"],
        4: ["identity", "truncate[1]"],
        5: ["identity", "truncate[10]", "void"],
    }.items()
    for text in texts
]


@settings(max_examples=80)
@given(data=st.data())
def test_several_fields(ask_java: AskJava, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(FIELDS), max_size=4))
    names = data.draw(st.lists(HOSTILE_TEXT.filter(bool), min_size=len(chosen), max_size=len(chosen), unique=True))
    fields = [PartitionField((i,), 1000 + n, names[n], transform) for n, (i, transform) in enumerate(chosen)]
    each = [stored_values(transform, SCHEMA.entry(i).field.type) for i, transform in chosen]
    tuples = data.draw(st.lists(st.tuples(*each), min_size=1, max_size=5))
    check(ask_java, PartitionSpec(tuple(fields)), SCHEMA, tuples)


def check(ask_java: AskJava, spec: PartitionSpec, schema: Schema, tuples: list[tuple[Any, ...]]) -> None:
    types = [field.type for field in spec.partition_type(schema).fields]
    calls = []
    for values in tuples:
        written = [None if v is None else to_json(type_, v) for type_, v in zip(types, values, strict=True)]
        calls.append(("partitionPath", schema_to_json(schema), spec_to_json(spec), written))
    answers = ask_all(ask_java, calls)
    for values, answer in zip(tuples, answers, strict=True):
        ours, theirs = partition_path(spec, schema, values), str(answer.value)
        folders = parse_partition_path(ours, hive=False)
        assert list(folders) == [field.name for field in spec.fields]
        assert ours == theirs or (same_numbers(ours, theirs, types) and len(ours) < len(theirs))


def same_numbers(ours: str, theirs: str, types: list[Type]) -> bool:
    """Before version 19, Java writes some numbers with more digits than it takes to tell them apart."""
    exact = {"float": np.float32, "double": np.float64}
    pairs = zip(ours.split("/"), theirs.split("/"), types, strict=True)
    return all(
        a == b or (type_.kind in exact and len({exact[type_.kind](text.rpartition("=")[2]) for text in (a, b)}) == 1)
        for a, b, type_ in pairs
    )
