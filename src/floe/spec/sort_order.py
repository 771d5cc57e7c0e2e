"""Sort orders: how the rows within a file are ordered (spec: Sorting; Appendix C, Sort Orders).

>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import DOUBLE, Field, LONG
>>> schema = Schema((Field(1, "id", LONG), Field(2, "x", DOUBLE)))
>>> order = build_order(schema, ["x desc", "bucket(16, id)"])
>>> print(order)
[identity(2) desc nulls-last, bucket[16](1) asc nulls-first]
>>> rows = [{"id": 1, "x": None}, {"id": 2, "x": float("nan")}, {"id": 3, "x": 1.0}]
>>> [row["id"] for row in sorted(rows, key=sort_key(order, schema))]
[2, 3, 1]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import total_ordering
from typing import Any

from floe.errors import InvalidMetadata, InvalidPartitionSpec, InvalidSortOrder, UnsupportedFeature
from floe.spec.partitioning.partition_spec import check_source_count, column_reader
from floe.spec.partitioning.transform_terms import parse_sort_term
from floe.spec.partitioning.transforms import (
    Transform,
    describe,
    int_from_json,
    object_from_json,
    source_ids_from_json,
    source_ids_to_json,
    text_from_json,
    transform_from_json,
)
from floe.spec.schemas.schema import Schema
from floe.spec.values import value_order

UNSORTED_ORDER_ID = 0
_ORDER_KEYS = frozenset({"order-id", "fields"})
_FIELD_KEYS = frozenset({"transform", "source-id", "source-ids", "direction", "null-order"})


class SortDirection(Enum):
    """The direction of a sort field; the value is its text in JSON."""

    ASC = "asc"
    DESC = "desc"

    def __str__(self) -> str:
        return self.value


class NullOrder(Enum):
    """Whether nulls are first or last, regardless of the direction; the value is its text in JSON."""

    NULLS_FIRST = "nulls-first"
    NULLS_LAST = "nulls-last"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class SortField:
    """A field of a sort order: a transform of a column, a direction, and the order of nulls.

    A field with several source columns (v3) has an `UnknownTransform`. `extra` has the JSON keys that this version does
    not know; it is ignored by comparisons.
    """

    source_ids: tuple[int, ...]
    transform: Transform
    direction: SortDirection = SortDirection.ASC
    null_order: NullOrder = NullOrder.NULLS_FIRST
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        try:
            check_source_count(self.source_ids, self.transform)
        except InvalidPartitionSpec as error:
            raise InvalidSortOrder(error.message) from None

    @property
    def source_id(self) -> int:
        """The id of the source column; the first of them if there are several."""
        return self.source_ids[0]

    def satisfies(self, other: SortField, schema: Schema | None = None) -> bool:
        """Whether rows sorted by this field are also sorted by the other."""
        if (self.source_ids, self.direction, self.null_order) != (
            other.source_ids,
            other.direction,
            other.null_order,
        ):
            return False
        source = schema.find(self.source_id) if schema is not None else None
        return self.transform == other.transform or self.transform.satisfies_order_of(
            other.transform, source.type if source else None
        )

    def __str__(self) -> str:
        return f"{self.transform}({', '.join(map(str, self.source_ids))}) {self.direction} {self.null_order}"


@dataclass(frozen=True, slots=True)
class SortOrder:
    """The fields that rows are sorted by, in order; only the order without fields has id 0."""

    fields: tuple[SortField, ...] = ()
    order_id: int = UNSORTED_ORDER_ID
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.fields and self.order_id == UNSORTED_ORDER_ID:
            raise InvalidSortOrder("sort order id 0 is reserved for the unsorted order", hint="count from 1")
        if not self.fields and self.order_id != UNSORTED_ORDER_ID:
            raise InvalidSortOrder(f"the unsorted order must have id 0, found {self.order_id}")

    @property
    def is_unsorted(self) -> bool:
        """Whether the order has no fields."""
        return not self.fields

    def satisfies(self, other: SortOrder, schema: Schema | None = None) -> bool:
        """Whether rows sorted by this order are also sorted by the other one.

        For truncate it depends on the types in the schema; without a schema the result is conservative.

        >>> from floe.spec.partitioning.transforms import DAY, HOUR
        >>> by_hour = SortOrder((SortField((1,), HOUR), SortField((2,), DAY)), 1)
        >>> by_day = SortOrder((SortField((1,), DAY),), 2)
        >>> by_hour.satisfies(by_day), by_day.satisfies(by_hour), by_day.satisfies(UNSORTED)
        (True, False, True)
        """
        return len(other.fields) <= len(self.fields) and all(
            mine.satisfies(theirs, schema) for mine, theirs in zip(self.fields, other.fields, strict=False)
        )

    def same_order(self, other: SortOrder) -> bool:
        """Whether two orders are equal except for their ids."""
        return self.fields == other.fields

    def with_id(self, order_id: int) -> SortOrder:
        """Return the same order with another id."""
        return replace(self, order_id=order_id)

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.fields))}]"


UNSORTED = SortOrder()
"""The sort order without fields."""


def build_order(schema: Schema, terms: Iterable[str], *, order_id: int = 1, case_sensitive: bool = True) -> SortOrder:
    """Make a sort order from terms, such as `["ts desc nulls first", "bucket(16, id)"]`; `UNSORTED` without terms.

    By default nulls are first in ascending order and last in descending order.

    >>> from floe.spec.types import Field, STRING
    >>> print(build_order(Schema((Field(1, "name", STRING),)), ["truncate(4, name) desc nulls first", "name"]))
    [truncate[4](1) desc nulls-first, identity(1) asc nulls-first]
    """
    fields = []
    for text in terms:
        term = parse_sort_term(text)
        source = schema.resolve(term.column, case_sensitive=case_sensitive)
        nulls_first = not term.descending if term.nulls_first is None else term.nulls_first
        fields.append(
            SortField(
                (source.field.id,),
                term.transform,
                SortDirection.DESC if term.descending else SortDirection.ASC,
                NullOrder.NULLS_FIRST if nulls_first else NullOrder.NULLS_LAST,
            )
        )
    order = SortOrder(tuple(fields), order_id) if fields else UNSORTED
    check_order(order, schema)
    return order


def check_order(order: SortOrder, schema: Schema, format_version: int = 3) -> None:
    """Raise `InvalidSortOrder` unless a table with this schema and format version can have this order.

    >>> from floe.spec.types import Field, VARIANT
    >>> from floe.spec.partitioning.transforms import IDENTITY
    >>> check_order(SortOrder((SortField((1,), IDENTITY),), 1), Schema((Field(1, "v", VARIANT),)))
    Traceback (most recent call last):
    floe.errors.InvalidSortOrder: cannot sort by a variant: source columns are primitive (column: v)
    """
    for sort_field in order.fields:
        if len(sort_field.source_ids) > 1 and format_version < 3:
            raise InvalidSortOrder(
                f"sort field {sort_field} has several source columns, which needs format version 3; "
                f"the table has {format_version}"
            )
        for source_id in sort_field.source_ids:
            _check_source(sort_field, source_id, schema)


def _check_source(sort_field: SortField, source_id: int, schema: Schema) -> None:
    entry = schema.by_id.get(source_id)
    if entry is None:
        raise InvalidSortOrder(
            f"the source column of sort field {sort_field} does not exist: the schema has no field with id {source_id}"
        )
    type_ = entry.field.type
    if not type_.is_primitive:
        raise InvalidSortOrder(f"cannot sort by a {type_.kind}: source columns are primitive", column=entry.name)
    if entry.in_collection:
        raise InvalidSortOrder(
            "cannot sort by a part of a list or map: a row may have many values of it", column=entry.name
        )
    if type_.kind in ("geometry", "geography", "unknown"):
        raise InvalidSortOrder(f"cannot sort by values of type {type_}: they have no order", column=entry.name)
    try:
        sort_field.transform.result_type(type_)
    except InvalidPartitionSpec as error:
        raise InvalidSortOrder(error.message, hint=error.hint, column=entry.name) from None


# Sort keys of rows -----------------------------------------------------------------------------------------------


@total_ordering
class _Descending:
    """A key that sorts in reverse order."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(self.key == other.key)

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.key < self.key)

    def __hash__(self) -> int:
        return hash(self.key)


def sort_key(order: SortOrder, schema: Schema) -> Callable[[Mapping[str, Any]], Any]:
    """Return the key function of an order for `sorted` and `list.sort`.

    A row is a mapping by column name, with structs as nested mappings. Floats have the order of the spec: NaN is above
    all other values, and `-0.0` is below `0.0`.
    """
    keys = [_field_key(sort_field, schema) for sort_field in order.fields]
    return lambda row: tuple([key(row) for key in keys])


def _field_key(sort_field: SortField, schema: Schema) -> Callable[[Mapping[str, Any]], Any]:
    if not sort_field.transform.is_known:
        raise UnsupportedFeature(f"cannot sort by {sort_field}: this version does not know the transform")
    entry = schema.entry(sort_field.source_id)
    read = column_reader(entry)
    transform = sort_field.transform.bind(entry.field.type)
    key = value_order.sort_key(sort_field.transform.result_type(entry.field.type))
    null_key = (0,) if sort_field.null_order is NullOrder.NULLS_FIRST else (2,)
    wrap: Callable[[Any], Any] = _Descending if sort_field.direction is SortDirection.DESC else _identity

    def field_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
        value = transform(read(row))
        return null_key if value is None else (1, wrap(key(value)))

    return field_key


def _identity(key: Any) -> Any:
    return key


# JSON ------------------------------------------------------------------------------------------------------------


def order_from_json(json: Any) -> SortOrder:
    """Parse a sort order from a JSON object; raises `InvalidMetadata` with the JSON path of the problem.

    >>> by_x = {"transform": "identity", "source-id": 2, "direction": "asc", "null-order": "nulls-first"}
    >>> print(order_from_json({"order-id": 1, "fields": [by_x]}))
    [identity(2) asc nulls-first]
    """
    obj = object_from_json(json)
    order_id = int_from_json(obj.get("order-id"), ".order-id")
    items = obj.get("fields")
    if not isinstance(items, list):
        problem = "is missing" if items is None else f"must be a list of sort fields, found {describe(items)}"
        raise InvalidMetadata(problem).at(".fields")
    fields = []
    for n, item in enumerate(items):
        try:
            fields.append(_field_from_json(item))
        except InvalidMetadata as error:
            raise error.at(f".fields[{n}]") from None
    try:
        return SortOrder(tuple(fields), order_id, {k: v for k, v in obj.items() if k not in _ORDER_KEYS})
    except InvalidSortOrder as error:
        raise InvalidMetadata(error.message, hint=error.hint).at(".order-id") from error


def order_to_json(order: SortOrder) -> dict[str, Any]:
    """Return a sort order as a JSON object.

    >>> order_to_json(UNSORTED)
    {'order-id': 0, 'fields': []}
    """
    fields = [
        {
            "transform": str(f.transform),
            **source_ids_to_json(f.source_ids),
            "direction": f.direction.value,
            "null-order": f.null_order.value,
        }
        | f.extra
        for f in order.fields
    ]
    return {"order-id": order.order_id, "fields": fields} | order.extra


def _field_from_json(json: Any) -> SortField:
    obj = object_from_json(json)
    source_ids = source_ids_from_json(obj)
    return SortField(
        source_ids,
        transform_from_json(obj, source_ids),
        SortDirection(_choice(obj, "direction", [d.value for d in SortDirection])),
        NullOrder(_choice(obj, "null-order", [n.value for n in NullOrder])),
        {k: v for k, v in obj.items() if k not in _FIELD_KEYS},
    )


def _choice(obj: Mapping[str, Any], key: str, allowed: list[str]) -> str:
    text = text_from_json(obj, key).lower()
    if text not in allowed:
        raise InvalidMetadata(f"must be one of {', '.join(allowed)}, found {describe(obj[key])}").at(f".{key}")
    return text
