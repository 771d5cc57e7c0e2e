"""The same key twice in one object: refused in every document that belongs to a table."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidMetadata
from floe.spec.codecs.avro_schemas import parse_avro_schema
from floe.spec.codecs.puffin import Blob, parse_footer, write_file
from floe.spec.json_reader import check_unique_keys
from floe.spec.schemas.name_mapping import parse_name_mapping
from floe.spec.views.view_metadata import parse_view

VIEW = {
    "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385",
    "format-version": 1,
    "location": "s3://bucket/v",
    "current-version-id": 1,
    "versions": [
        {
            "version-id": 1,
            "timestamp-ms": 1,
            "schema-id": 0,
            "summary": {"engine-name": "floe"},
            "default-namespace": ["db"],
            "representations": [{"type": "sql", "sql": "SELECT 1 AS one", "dialect": "spark"}],
        }
    ],
    "version-log": [{"timestamp-ms": 1, "version-id": 1}],
    "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
}


def puffin(payload: str) -> object:
    """A Puffin file of one blob, with another payload in its footer."""
    data = write_file([Blob("note", (1,), 7, 1, b"hello")]).data
    footer = b"PFA1" + payload.encode() + len(payload.encode()).to_bytes(4, "little") + b"\0" * 4 + b"PFA1"
    return parse_footer(data[: 4 + len(b"hello")] + footer)


BLOB = '{"type":"note","fields":[1],"snapshot-id":7,"sequence-number":1,"offset":4,"length":5}'

DOCUMENTS: dict[str, tuple[Callable[[str], object], str, str, str]] = {
    "name mapping": (
        parse_name_mapping,
        '[{"field-id":1,"names":["a"]}]',
        '[{"field-id":2,"field-id":1,"names":["a"]}]',
        "$[0].field-id",
    ),
    "Avro schema": (
        lambda text: parse_avro_schema(text.encode()),
        '{"type":"record","name":"r","fields":[{"name":"x","type":"int"}]}',
        '{"type":"record","name":"r","fields":[{"name":"x","type":"int","type":"long"}]}',
        "$.fields[0].type",
    ),
    "Puffin footer": (puffin, f'{{"blobs":[{BLOB}]}}', f'{{"blobs":[{BLOB[:-1]},"offset":4}}]}}', "$.blobs[0].offset"),
    "view": (
        lambda text: parse_view(text.encode()),
        json.dumps(VIEW),
        json.dumps(VIEW).replace('"sql": "SELECT', '"sql": "SELECT 2", "sql": "SELECT'),
        "$.versions[0].representations[0].sql",
    ),
}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_key_given_twice_is_refused(kind: str) -> None:
    read, once, twice, path = DOCUMENTS[kind]
    read(once)
    with pytest.raises(InvalidMetadata, match="twice") as caught:
        read(twice)
    assert caught.value.path == path


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(st.tuples(st.sampled_from("abc"), inner), max_size=3).map(tuple)
    ),
    max_leaves=12,
)
"""JSON values, with objects as tuples of pairs, in which a key may stand twice."""


def text_of(value: Any) -> str:
    if isinstance(value, tuple):
        return "{" + ", ".join(f"{json.dumps(key)}: {text_of(child)}" for key, child in value) + "}"
    return "[" + ",".join(map(text_of, value)) + "]" if isinstance(value, list) else json.dumps(value)


def has_twice(value: Any) -> bool:
    if isinstance(value, tuple):
        return len(dict(value)) < len(value) or any(has_twice(child) for _, child in value)
    return isinstance(value, list) and any(map(has_twice, value))


@given(VALUES)
def test_keys_are_found_wherever_they_stand(value: Any) -> None:
    if has_twice(value):
        with pytest.raises(InvalidMetadata, match="twice"):
            check_unique_keys(text_of(value))
    else:
        check_unique_keys(text_of(value))


def test_numbers_of_any_length_do_not_matter() -> None:
    check_unique_keys(b'{"a": ' + b"9" * 10_000 + b', "b": 1e999999}')
