"""Hypothesis strategies for data files: schemas with rows, evolutions of them, and what must then be read."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from floe.spec.schemas.schema import Schema, with_children
from floe.spec.types import DATE, DOUBLE, FLOAT, INT, LONG, STRING, TIMESTAMP, DecimalType, Field, StructType, Type
from helpers.schema_strategies import LEAVES_V3, schemas
from helpers.value_strategies import values_of


def text(value: Any) -> str:
    """A text that tells values apart as tables do: NaN is one, zeros differ, the order of a map does not count."""
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{text(k)}:{text(v)}" for k, v in value.items())) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(text, value)) + "]"
    return "NaN" if isinstance(value, float) and math.isnan(value) else repr(value)


@st.composite
def files(draw: Any, leaves: list[Type] = LEAVES_V3) -> tuple[Schema, list[dict[str, Any]]]:
    """A schema, and rows of it."""
    schema = draw(schemas(leaves))
    columns = {
        field.name: values_of(field.type) if field.required else st.none() | values_of(field.type)
        for field in schema.fields
    }
    return schema, draw(st.lists(st.fixed_dictionaries(columns), max_size=8))


# a plain model of evolution -------------------------------------------------------------------------------------------

PROMOTIONS: dict[Type, Type] = {INT: LONG, FLOAT: DOUBLE, DecimalType(9, 2): DecimalType(20, 2), DATE: TIMESTAMP}
LATEST_DAY = 100_000_000  # further out, a day has no timestamp


@dataclass(frozen=True)
class Allowed:
    """What evolutions may do."""

    promotions: Mapping[Type, Type]
    defaults: bool = True


EVERYTHING = Allowed(PROMOTIONS)


@st.composite
def evolved(draw: Any, fields: tuple[Field, ...], new_ids: Any, allowed: Allowed = EVERYTHING) -> tuple[Field, ...]:
    """The fields after some changes: renamed, reordered, dropped, promoted, made optional, with new ones."""
    changed = [draw(evolved_field(field, new_ids, allowed)) for field in fields if draw(st.integers(0, 3))]
    for _ in range(draw(st.integers(0, 1))):
        default = draw(st.none() | st.integers(0, 9)) if allowed.defaults else None
        required = default is not None and draw(st.booleans())
        field_id = next(new_ids)
        changed.append(Field(field_id, f"new {field_id}", INT, required, initial_default=default))
    if not changed:
        changed = [Field(next(new_ids), "only", STRING)]
    return tuple(draw(st.permutations(changed)))


@st.composite
def evolved_field(draw: Any, field: Field, new_ids: Any, allowed: Allowed) -> Field:
    type_ = field.type
    if type_.kind == "struct":
        type_ = StructType(draw(evolved(type_.fields, new_ids, allowed)))
    elif type_.kind == "list":
        type_ = with_children(type_, (draw(evolved_field(type_.fields[0], new_ids, allowed)),))
    elif type_.kind == "map":
        type_ = with_children(type_, (type_.fields[0], draw(evolved_field(type_.fields[1], new_ids, allowed))))
    elif draw(st.booleans()):
        type_ = allowed.promotions.get(type_, type_)
    name = field.name if draw(st.booleans()) else f"{field.name} {field.id}"
    return replace(field, name=name, type=type_, required=field.required and draw(st.booleans()))


def read_by_model(old: Type, new: Type, value: Any) -> Any:
    """What a value of the old type is under the new one."""
    if value is None:
        return None
    if new.kind == "struct":
        return row_by_model(old.fields, new.fields, value)
    if new.kind == "list":
        return [read_by_model(old.fields[0].type, new.fields[0].type, item) for item in value]
    if new.kind == "map":
        pairs = value.items() if isinstance(value, dict) else value
        old_key, old_value, new_key, new_value = (child.type for child in (*old.fields, *new.fields))
        made = [(read_by_model(old_key, new_key, k), read_by_model(old_value, new_value, v)) for k, v in pairs]
        return dict(made) if isinstance(value, dict) else made
    if old == DATE and new == TIMESTAMP:
        return value * 86_400_000_000
    return value


def row_by_model(old: tuple[Field, ...], new: tuple[Field, ...], row: dict[str, Any]) -> dict[str, Any]:
    stored = {field.id: field for field in old}
    found = {}
    for field in new:
        if field.id in stored:
            before = stored[field.id]
            found[field.name] = read_by_model(before.type, field.type, row.get(before.name))
        else:
            found[field.name] = field.initial_default
    return found


def complete(fields: tuple[Field, ...], row: dict[str, Any]) -> dict[str, Any]:
    """The row with null for what its structs leave out."""
    return row_by_model(fields, fields, row)


def all_leaves(type_: Type, value: Any, test: Callable[[Type, Any], bool]) -> bool:
    """Whether a test holds for every single value in a value."""
    if value is None:
        return True
    if type_.kind == "struct":
        return all(all_leaves(child.type, value.get(child.name), test) for child in type_.fields)
    if type_.kind == "list":
        return all(all_leaves(type_.fields[0].type, item, test) for item in value)
    if type_.kind == "map":
        pairs = value.items() if isinstance(value, dict) else value
        return all(all_leaves(t.type, v, test) for pair in pairs for t, v in zip(type_.fields, pair, strict=True))
    return test(type_, value)


def has_timestamp(type_: Type, value: Any) -> bool:
    """Whether a date is near enough to 1970 to be a timestamp."""
    return type_ != DATE or abs(value) < LATEST_DAY


def orc_holds(type_: Type, value: Any) -> bool:
    """Whether ORC has a form for a value: not for the last second before 1970, but for its first millisecond."""
    ticks = {"timestamp": 10**6, "timestamptz": 10**6, "timestamp_ns": 10**9, "timestamptz_ns": 10**9}.get(type_.kind)
    return ticks is None or not -ticks + ticks // 1000 <= value < 0
