"""The columns of a stream as those of the table that it is written to: Spark checks them for batches only."""

from __future__ import annotations

from typing import Any, Final

from floe.errors import InvalidInput
from floe.spark.columns import SparkType, spark_type
from floe.spec.schemas.schema import Schema

__all__ = ["places_of"]

_WIDER: Final = frozenset(
    {
        ("byte", "integer"),
        ("byte", "long"),
        ("short", "integer"),
        ("short", "long"),
        ("integer", "long"),
        ("float", "double"),
    }
)


def places_of(schema: Schema, rows: SparkType, *, case_sensitive: bool, table: str) -> tuple[int | None, ...]:
    """For each column of the table its place in the rows, found by its name; None for one that they do not have.

    >>> from floe.table.ddl import parse_columns
    >>> rows = {"type": "struct", "fields": [{"name": "B", "type": "integer"}]}
    >>> places_of(parse_columns("a string, b bigint"), rows, case_sensitive=False, table="db.t")
    (None, 0)
    """

    def spelled(name: str) -> str:
        return name if case_sensitive else name.lower()

    given: dict[str, int] = {}
    for place, field in enumerate(rows["fields"]):
        if given.setdefault(spelled(field["name"]), place) != place:
            raise InvalidInput(f"the stream has two columns named {field['name']!r}", table=table)
    known = {spelled(field.name): field for field in schema.fields}
    if extra := [rows["fields"][place]["name"] for name, place in given.items() if name not in known]:
        raise InvalidInput(
            f"the stream has columns that the table has not: {', '.join(extra)}",
            hint=f"the table's columns are {', '.join(field.name for field in schema.fields)}",
            table=table,
        )
    for name, field in known.items():
        if name not in given:
            if field.required and field.write_default is None:
                raise InvalidInput(f"the stream has no column {field.name!r}, which may not be null", table=table)
            continue
        found, wanted = rows["fields"][given[name]]["type"], spark_type(field.type, field.name)
        if not _fits(found, wanted):
            raise InvalidInput(
                f"the column {field.name!r} of the stream is {_text(found)}, and that of the table {_text(wanted)}",
                hint="cast it",
                table=table,
                column=field.name,
            )
    return tuple(given.get(name) for name in known)


def _fits(found: Any, wanted: Any) -> bool:
    """Whether values of one type can be written as the other, without loss."""
    if isinstance(found, str) or isinstance(wanted, str):
        if not (isinstance(found, str) and isinstance(wanted, str)):
            return False
        if found == wanted or (found, wanted) in _WIDER:
            return True
        if found.startswith(("char(", "varchar(")):
            return wanted == "string"
        return _is_wider_decimal(found, wanted)
    if found["type"] != wanted["type"]:
        return False
    match found["type"]:
        case "struct":
            pairs = list(zip(found["fields"], wanted["fields"], strict=False))
            same = len(found["fields"]) == len(wanted["fields"])
            return same and all(a["name"] == b["name"] and _fits(a["type"], b["type"]) for a, b in pairs)
        case "array":
            return _fits(found["elementType"], wanted["elementType"])
        case "map":
            return all(_fits(found[part], wanted[part]) for part in ("keyType", "valueType"))
        case _:
            return bool(found == wanted)


def _is_wider_decimal(found: str, wanted: str) -> bool:
    if not (found.startswith("decimal(") and wanted.startswith("decimal(")):
        return False
    (precision, scale), (most, same) = (map(int, text[8:-1].split(",")) for text in (found, wanted))
    return scale == same and precision <= most


def _text(type_: Any) -> str:
    return type_ if isinstance(type_, str) else str(type_["type"])
