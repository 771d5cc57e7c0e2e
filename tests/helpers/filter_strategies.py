"""Rows, their exact metrics and filters on them, for tests that prune: small domains, so that filters hit and miss."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from floe.spec import types as t
from floe.spec.codecs.single_value import encode, truncate_lower, truncate_upper
from floe.spec.expressions.nodes import (
    FALSE,
    TRUE,
    And,
    BoundPredicate,
    BoundReference,
    BoundTransform,
    Constant,
    Op,
    Or,
    and_,
    or_,
)
from floe.spec.partitioning.transforms import DAY, HOUR, MONTH, YEAR, Bucket, Truncate
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, Field, FixedType, StructType
from floe.spec.values.value_order import sort_key

NAN = math.nan
DAY_MICROS = 86_400_000_000
_TIMES = [
    -(10**15),
    -DAY_MICROS - 1,
    -DAY_MICROS,
    -1,
    0,
    1,
    3_600_000_000,
    DAY_MICROS - 1,
    DAY_MICROS,
    1_700_000_000_000_000,
]
_STRINGS = [
    "",
    "a",
    "ab",
    "abc",
    "abcd",
    "abd",
    "b",
    "ba",
    "é",
    "éa",
    "日本",
    "日本語",
    "\U0001f600",
    "\U0001f600a",
    "\uffff",
]

POOLS: dict[str, list[Any]] = {
    "boolean": [False, True],
    "int": [-(2**31), -(2**31) + 9, -21, -11, -10, -1, 0, 1, 5, 9, 10, 2**31 - 1],
    "long": [-(2**63), -11, -10, -1, 0, 1, 5, 9, 10, 2**40, 2**63 - 1],
    "float": [-math.inf, -1.5, -0.0, 0.0, 0.5, 1.5, math.inf, NAN],
    "double": [-math.inf, -1e300, -1.5, -0.0, 0.0, 0.1, 1.5, math.inf, NAN],
    "decimal": [-(10**9) + 1, -1065, -101, -100, -51, -1, 0, 1, 49, 50, 100, 1065, 10**9 - 1],
    "date": [-(2**31), -800, -366, -31, -1, 0, 1, 31, 365, 19_000, 2**31 - 1],
    "time": [0, 1, 3_600_000_000, DAY_MICROS - 1],
    "timestamp": _TIMES,
    "timestamptz": _TIMES,
    "timestamp_ns": [n * 1000 + d for n in _TIMES for d in (0, 1)],
    "timestamptz_ns": [n * 1000 for n in _TIMES],
    "string": _STRINGS,
    "uuid": [UUID(int=n) for n in (0, 1, 2**63, 2**64, 2**64 + 2**63, 2**127 - 1, 2**127, 2**127 + 2**63, 2**128 - 1)],
    "fixed": [b"\0\0\0", b"\0a\0", b"abc", b"ab\xff", b"\xff\xff\xff"],
    "binary": [b"", b"\0", b"a", b"a\0", b"ab", b"ab\xff", b"\xff", b"\xff\xff", b"abcdefghi", b"abcdefghj"],
}

TYPES = [
    t.BOOLEAN, t.INT, t.LONG, t.FLOAT, t.DOUBLE, DecimalType(9, 2), DecimalType(18, 0), DecimalType(38, 10), t.DATE,
    t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.TIMESTAMP_NS, t.TIMESTAMPTZ_NS, t.STRING, t.UUID, FixedType(3), t.BINARY,
]  # fmt: skip

INNER = StructType((Field(102, "x", t.LONG), Field(103, "f", t.DOUBLE), Field(104, "s", t.STRING, required=True)))
SCHEMA = Schema(
    (
        *(Field(n + 1, f"c{n + 1}", type_) for n, type_ in enumerate(TYPES)),
        Field(50, "needed", t.INT, required=True),
        Field(101, "inner", INNER),
    )
)
COLUMNS = [*range(1, len(TYPES) + 1), 50, 102, 103, 104]

TRANSFORMS = [Bucket(4), Truncate(1), Truncate(2), Truncate(3), Truncate(10), YEAR, MONTH, DAY, HOUR]


def pool(type_: t.Type) -> list[Any]:
    """Some values of a type, among them those at the edges."""
    values = POOLS[type_.kind]
    if isinstance(type_, DecimalType):
        return [Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -type_.scale)) for n in values]
    return values


def nullable_values(type_: t.Type) -> st.SearchStrategy[Any]:
    """Values of a type, null among them."""
    return st.sampled_from([None, *pool(type_)])


def references(field_ids: list[int] = COLUMNS, schema: Schema = SCHEMA) -> st.SearchStrategy[BoundReference]:
    """A column of the schema."""
    return st.sampled_from(field_ids).map(lambda i: BoundReference(schema.entry(i)))


def transform_terms(reference: BoundReference) -> list[BoundTransform]:
    """The column under every transform that it can have."""
    return [
        BoundTransform(transform, reference, transform.result_type(reference.type))
        for transform in TRANSFORMS
        if transform.can_transform(reference.type)
    ]


@st.composite
def predicates(draw: Any, reference: st.SearchStrategy[BoundReference], *, transformed: bool = False) -> BoundPredicate:
    """One test of a column, or of a transform of it, with literals of its type."""
    source = draw(reference)
    term = draw(st.sampled_from([source, *(transform_terms(source) if transformed else [])]))
    type_ = term.type
    ops = [op for op in Op if allowed(op, type_)]
    op = draw(st.sampled_from(ops))
    if op.is_unary:
        return BoundPredicate(op, term)
    literal = st.sampled_from([v for v in literal_pool(term) if v == v])
    if op.is_set:
        values = draw(st.lists(literal, min_size=2, max_size=4, unique=True))
        return BoundPredicate(op, term, tuple(sorted(values)))
    if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
        literal = literal.filter(bool)
    return BoundPredicate(op, term, (draw(literal),))


def files_of_two(field_id: int) -> list[tuple[list[dict[str, Any]], "Metrics"]]:
    """Files of two rows with values of a column's pool: the same twice, neighbours, and values far apart."""
    entry = SCHEMA.entry(field_id)
    values = [*pool(entry.field.type), *([None] if field_id not in (50, 104) else [])]
    files = []
    for n, first in enumerate(values):
        for second in {
            id(v): v for v in (first, values[(n + 1) % len(values)], values[(n + 5) % len(values)], values[-1])
        }.values():
            data = [
                {"inner": {entry.field.name: v}} if entry.ancestors else {entry.field.name: v} for v in (first, second)
            ]
            files.append((data, exact_metrics(data, [field_id])))
    return files


def every_predicate(term: Any) -> Iterator[BoundPredicate]:
    """Every test of a term with every literal of its pool, and sets of neighbouring ones."""
    literals = sorted(v for v in literal_pool(term) if v == v)
    for op in Op:
        if not allowed(op, term.type):
            continue
        if op.is_unary:
            yield BoundPredicate(op, term)
        elif op.is_set:
            yield from (BoundPredicate(op, term, (a, b)) for a, b in pairwise(dict.fromkeys(literals)))
            yield BoundPredicate(op, term, tuple(dict.fromkeys(literals)))
        else:
            prefix = op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH)
            yield from (BoundPredicate(op, term, (x,)) for x in literals if x or not prefix)


def literal_pool(term: Any) -> list[Any]:
    """Literals that tests of a term may meet."""
    if isinstance(term, BoundReference):
        return pool(term.type)
    if isinstance(term.transform, Bucket):
        return list(range(5))
    results = []
    for value in pool(term.ref.type):
        try:
            results.append(term.transform.apply(term.ref.type, value))
        except ValueError:
            continue  # too low to be truncated
    return list(dict.fromkeys(results))


def allowed(op: Op, type_: t.Type) -> bool:
    """Whether a type may be tested so."""
    if op in (Op.IS_NAN, Op.NOT_NAN):
        return type_.kind in ("float", "double")
    if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
        return type_.kind == "string"
    return True


def filters(leaf: st.SearchStrategy[BoundPredicate]) -> st.SearchStrategy[Any]:
    """Tests joined by AND and OR, up to a few levels."""
    return st.recursive(
        leaf | st.sampled_from([TRUE, FALSE]),
        lambda inner: st.lists(inner, min_size=2, max_size=3).flatmap(
            lambda parts: st.sampled_from([and_(*parts), or_(*parts)])
        ),
        max_leaves=4,
    )


def field_ids(expression: Any) -> list[int]:
    """The columns that a filter names."""
    if isinstance(expression, And | Or):
        return sorted({i for child in expression.children for i in field_ids(child)})
    return [] if isinstance(expression, Constant) else [expression.term.field_id]


@st.composite
def rows(draw: Any, ids: list[int] = COLUMNS, *, min_size: int = 0, max_size: int = 6) -> list[dict[str, Any]]:
    """Rows of the schema with values in some columns; the others are null."""
    found = []
    for _ in range(draw(st.integers(min_size, max_size))):
        row: dict[str, Any] = {}
        inner: dict[str, Any] | None = {}
        if any(i > 100 for i in ids) and draw(st.integers(0, 3)) == 0:
            inner = None
        for i in ids:
            entry = SCHEMA.entry(i)
            if i <= 100:
                strategy = nullable_values(entry.field.type)
                row[entry.field.name] = draw(strategy.filter(lambda v: v is not None) if i == 50 else strategy)
            elif inner is not None:
                strategy = nullable_values(entry.field.type)
                inner[entry.field.name] = draw(strategy.filter(lambda v: v is not None) if i == 104 else strategy)
        row["inner"] = inner
        found.append(row)
    return found


def safe_rows(found: list[dict[str, Any]], ids: list[int]) -> list[dict[str, Any]]:
    """The rows whose values have a truncated value in their type; the very lowest have none."""

    def is_safe(i: int, value: Any) -> bool:
        type_ = SCHEMA.entry(i).field.type
        if value is None or type_.kind not in ("int", "long", "decimal"):
            return True
        if isinstance(type_, DecimalType):
            return int(value.scaleb(type_.scale)) > -(10**type_.precision) + 10
        return value >= -(2 ** (31 if type_.kind == "int" else 63)) + 10

    return [row for row in found if all(is_safe(i, value_in(row, i)) for i in ids)]


def value_in(row: dict[str, Any], field_id: int) -> Any:
    """A column's value in a row."""
    value: Any = row
    for name in SCHEMA.entry(field_id).path:
        if value is None:
            return None
        value = value.get(name)
    return value


@dataclass
class Metrics:
    """What a file says of its columns, in the names of `DataFile`."""

    record_count: int
    value_counts: dict[int, int] | None = field(default_factory=dict)
    null_value_counts: dict[int, int] | None = field(default_factory=dict)
    nan_value_counts: dict[int, int] | None = field(default_factory=dict)
    lower_bounds: dict[int, bytes] | None = field(default_factory=dict)
    upper_bounds: dict[int, bytes] | None = field(default_factory=dict)


def exact_metrics(data: list[dict[str, Any]], ids: list[int] = COLUMNS, *, skip_null_structs: bool = False) -> Metrics:
    """The metrics that a careful writer keeps.

    With `skip_null_structs`, fields of a null struct are not counted, which is how ORC and Avro writers do it.
    """
    metrics = Metrics(len(data))
    for i in ids:
        type_ = SCHEMA.entry(i).field.type
        counted = [row for row in data if i <= 100 or not skip_null_structs or row.get("inner") is not None]
        values = [value_in(row, i) for row in counted]
        present = [v for v in values if v is not None]
        ordinary = sorted((v for v in present if v == v), key=sort_key(type_))
        metrics.value_counts[i] = len(values)
        metrics.null_value_counts[i] = len(values) - len(present)
        if type_.kind in ("float", "double"):
            metrics.nan_value_counts[i] = len(present) - len(ordinary)
        if ordinary:
            metrics.lower_bounds[i] = encode(type_, ordinary[0])
            metrics.upper_bounds[i] = encode(type_, ordinary[-1])
    return metrics


@st.composite
def metrics_of(draw: Any, data: list[dict[str, Any]], ids: list[int]) -> Metrics:
    """Right metrics of some rows, with things left out and strings cut short."""
    metrics = exact_metrics(data, ids, skip_null_structs=draw(st.booleans()))
    for i in ids:
        type_ = SCHEMA.entry(i).field.type
        if type_.kind in ("string", "binary") and i in metrics.lower_bounds and draw(st.booleans()):
            values = [v for row in data if (v := value_in(row, i)) is not None]
            length = draw(st.integers(1, 2))
            metrics.lower_bounds[i] = encode(type_, truncate_lower(type_, min(values), length))
            upper = truncate_upper(type_, max(values), length)
            metrics.upper_bounds.pop(i) if upper is None else metrics.upper_bounds.update({i: encode(type_, upper)})
        for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
            if draw(st.integers(0, 9)) == 0:
                getattr(metrics, name).pop(i, None)
    for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
        if draw(st.integers(0, 19)) == 0:
            setattr(metrics, name, None)
    return metrics
