"""What partition fields and sort fields have in common in JSON: source columns and transform (spec: Appendix C).

What is read may be hostile: every problem is an `InvalidMetadata` with the JSON path of the place.

>>> source_ids_from_json({"source-id": 4}), source_ids_from_json({"source-ids": [1, 2]})
((4,), (1, 2))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from floe.errors import InvalidInput, InvalidMetadata
from floe.spec.partitioning.transforms import Transform, UnknownTransform, parse_transform

__all__ = [
    "describe",
    "int_from_json",
    "object_from_json",
    "source_ids_from_json",
    "source_ids_to_json",
    "text_from_json",
    "transform_from_json",
]


def source_ids_from_json(obj: Mapping[str, Any]) -> tuple[int, ...]:
    """The source columns of a field: `source-id`, or `source-ids` where there are several (v3)."""
    if "source-ids" not in obj:
        return (int_from_json(obj.get("source-id"), ".source-id"),)
    ids = obj["source-ids"]
    if not isinstance(ids, list) or not ids:
        raise InvalidMetadata(f"must be a list of at least one field id, found {describe(ids)}").at(".source-ids")
    found = tuple(int_from_json(i, f".source-ids[{n}]") for n, i in enumerate(ids))
    if obj.get("source-id", found[0]) != found[0]:
        raise InvalidMetadata(f"contradicts source-ids, which begins with {found[0]}").at(".source-id")
    return found


def source_ids_to_json(source_ids: tuple[int, ...]) -> dict[str, Any]:
    """The JSON key of the source columns: `source-id` for one, `source-ids` for several.

    >>> source_ids_to_json((4,)), source_ids_to_json((1, 2))
    ({'source-id': 4}, {'source-ids': [1, 2]})
    """
    return {"source-id": source_ids[0]} if len(source_ids) == 1 else {"source-ids": list(source_ids)}


def transform_from_json(obj: Mapping[str, Any], source_ids: tuple[int, ...]) -> Transform:
    """The transform of a field; of several source columns it is one that this version does not know.

    >>> transform_from_json({"transform": "bucket[4]"}, (1,)), transform_from_json({"transform": "bucket[4]"}, (1, 2))
    (Bucket(n=4), UnknownTransform(text='bucket[4]'))
    """
    text = text_from_json(obj, "transform")
    if len(source_ids) > 1:
        return UnknownTransform(text)
    try:
        return parse_transform(text)
    except InvalidInput as error:
        raise InvalidMetadata(error.message, hint=error.hint).at(".transform") from error


def text_from_json(obj: Mapping[str, Any], key: str) -> str:
    """The string that must stand under a key."""
    value = obj.get(key)
    if isinstance(value, str):
        return value
    raise InvalidMetadata("is missing" if value is None else f"must be a string, found {describe(value)}").at(f".{key}")


def int_from_json(json: Any, step: str) -> int:
    """A 32-bit integer."""
    if type(json) is not int:
        problem = "is missing" if json is None else f"must be an integer, found {describe(json)}"
        raise InvalidMetadata(problem).at(step)
    if not -(2**31) <= json < 2**31:
        raise InvalidMetadata("does not fit a 32-bit integer").at(step)
    return json


def object_from_json(json: Any) -> dict[str, Any]:
    """A JSON object."""
    if isinstance(json, dict):
        return json
    raise InvalidMetadata(f"must be a JSON object, found {describe(json)}")


def describe(json: Any) -> str:
    """A few words for a JSON value of any size.

    >>> describe([1] * 1000), describe("x" * 1000), describe(None)
    ('a list', "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…'", 'null')
    """
    if isinstance(json, str):
        return repr(json if len(json) <= 40 else json[:40] + "…")
    for kind, words in ((dict, "an object"), (list, "a list"), (bool, "true" if json else "false")):
        if isinstance(json, kind):
            return words
    return "null" if json is None else "a number"
