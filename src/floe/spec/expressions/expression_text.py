"""Filters as text: SQL that `floe.sql.filters.parse_filter` reads back as the same filter.

`str(filter)` is this text. The tree's module imports this one for that, so this module knows the tree's classes by name
only. Nothing here recurses: a filter of any depth prints.

>>> from floe.spec.expressions.dsl import col
>>> print((col("amount") > 10) & (col("who.name").starts_with("a") | col("a b").is_null()))
amount > 10 AND (who.name LIKE 'a%' OR `a b` IS NULL)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from floe.spec.values.civil_time import MICROS, NANOS, date_to_text, time_to_text, timestamp_to_text

if TYPE_CHECKING:
    from floe.spec.expressions.nodes import BoundPredicate, BoundTerm, Expression, Predicate, Term
    from floe.spec.types import Type


RESERVED_WORDS = frozenset({
    "and", "any", "between", "case", "cast", "div", "else", "end", "escape", "exists", "false", "ilike", "in",
    "interval", "is", "like", "not", "null", "or", "regexp", "rlike", "select", "some", "then", "true", "when",
})  # fmt: skip
"""Words that must be put in back-quotes to name a column."""


def to_text(expr: Expression) -> str:
    """The filter as SQL.

    >>> from floe.spec.expressions.dsl import col
    >>> to_text(~col("day").is_in([1, 2]))
    'NOT day IN (1, 2)'
    """
    return render(expr, _literals_to_text, _pattern_to_text)


ShowLiterals = Callable[[tuple[Any, ...], "Type | None"], str]
"""The text of a test's literals; of a bound filter their type is known."""


def render(expr: Expression, show_literals: ShowLiterals, show_prefix: ShowLiterals) -> str:
    """The filter as SQL with its literals, and the prefixes that `LIKE` looks for, shown by these functions."""
    out: list[str] = []
    todo: list[Expression | str] = [expr]
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            out.append(node)
            continue
        kind = type(node).__name__
        if kind == "Constant":
            out.append("true" if node.value else "false")  # type: ignore[attr-defined]
        elif kind == "Not":
            child = node.child  # type: ignore[attr-defined]
            todo.extend(_in_parentheses(child) if _is_joined(child) or _is_nan_test(child) else [child])
            out.append("NOT ")
        elif _is_joined(node):
            word = " AND " if kind == "And" else " OR "
            for n, part in reversed(list(enumerate(node.children))):  # type: ignore[attr-defined]
                todo.extend(_in_parentheses(part) if _is_joined(part) else [part])
                if n:
                    todo.append(word)
        else:
            out.append(_test_to_text(node, show_literals, show_prefix))  # type: ignore[arg-type]
    return "".join(out)


def _is_joined(node: Expression) -> bool:
    return type(node).__name__ in ("And", "Or")


def _is_nan_test(node: Expression) -> bool:
    """Whether `NOT` before it would read as the test for not being NaN."""
    return getattr(getattr(node, "op", None), "value", None) == "is-nan"


def _in_parentheses(node: Expression) -> list[Expression | str]:
    return [")", node, "("]  # a stack: the last comes first


_COMPARISONS = {"lt": "<", "lt-eq": "<=", "gt": ">", "gt-eq": ">=", "eq": "=", "not-eq": "<>"}
_TESTS = {
    "is-null": "{} IS NULL",
    "not-null": "{} IS NOT NULL",
    "is-nan": "isnan({})",
    "not-nan": "NOT isnan({})",
    "in": "{} IN ({})",
    "not-in": "{} NOT IN ({})",
    "starts-with": "{} LIKE {}",
    "not-starts-with": "{} NOT LIKE {}",
} | {op: f"{{}} {sign} {{}}" for op, sign in _COMPARISONS.items()}


def _test_to_text(test: Predicate | BoundPredicate, show_literals: ShowLiterals, show_prefix: ShowLiterals) -> str:
    op = test.op.value
    show = show_prefix if op.endswith("starts-with") else show_literals
    return _TESTS[op].format(term_to_text(test.term), show(test.literals, getattr(test.term, "type", None)))


# Terms ----------------------------------------------------------------------------------------------------------------

_PLAIN_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CALENDAR_FUNCTIONS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


def term_to_text(term: Term | BoundTerm) -> str:
    """A column, or a transform of one, as SQL.

    >>> from floe.spec.expressions.nodes import Reference, TransformTerm
    >>> from floe.spec.partitioning.transforms import DAY, Bucket
    >>> term_to_text(TransformTerm(Bucket(16), Reference("id"))), term_to_text(TransformTerm(DAY, Reference("a.ts")))
    ('bucket(16, id)', 'days(a.ts)')
    """
    reference: Any = getattr(term, "ref", term)
    entry = getattr(reference, "entry", None)
    name = name_to_text(reference.name) if entry is None else ".".join(map(_part_to_text, entry.path))
    if reference is term:
        return name
    function, _, parameter = str(term.transform).rstrip("]").partition("[")  # type: ignore[union-attr]
    function = _CALENDAR_FUNCTIONS.get(function, function)
    return f"{function}({parameter}, {name})" if parameter else f"{function}({name})"


def name_to_text(name: str | Sequence[str]) -> str:
    """A dotted name or a path, with back-quotes where they are needed.

    A path whose parts hold no dot is put in back-quotes throughout, to be read as a path again.

    >>> name_to_text("a.b c"), name_to_text(("a", "b")), name_to_text(("a.b", "c"))
    ('a.`b c`', '`a`.`b`', '`a.b`.c')
    """
    if isinstance(name, str):
        return ".".join(_part_to_text(part) for part in name.split("."))
    as_path = len(name) > 1 and not any("." in part for part in name)
    return ".".join(_back_quoted(part) if as_path else _part_to_text(part) for part in name)


def _part_to_text(part: str) -> str:
    return part if _PLAIN_WORD.fullmatch(part) and part.lower() not in RESERVED_WORDS else _back_quoted(part)


def _back_quoted(part: str) -> str:
    return "`" + part.replace("`", "``") + "`"


# Literals -------------------------------------------------------------------------------------------------------------


def literal_to_text(value: Any, type_: Type | None = None) -> str:
    """A literal as SQL: a value of a type in the form of `floe.spec.values`, or what a person wrote.

    >>> from floe.spec.types import DATE
    >>> literal_to_text("ice"), literal_to_text(1.5), literal_to_text(b"ice"), literal_to_text(17486, DATE)
    ("'ice'", '1.5D', "X'696365'", "DATE '2017-11-16'")
    """
    if type_ is not None and (writer := _BY_KIND.get(type_.kind)) is not None:
        return writer(value)
    return next(write(value) for cls, write in _BY_CLASS if isinstance(value, cls))


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _literals_to_text(literals: tuple[Any, ...], type_: Type | None) -> str:
    return ", ".join(literal_to_text(literal, type_) for literal in literals)


def _pattern_to_text(literals: tuple[Any, ...], type_: Type | None) -> str:
    """The pattern of `LIKE` for texts with a prefix."""
    (prefix,) = literals
    if not isinstance(prefix, str):
        return literal_to_text(prefix)
    return _quoted(re.sub(r"([\\%_])", r"\\\1", prefix) + "%")


def _bound_float(value: float) -> str:
    return repr(value) if math.isfinite(value) else _named_float(value)


def _free_float(value: float) -> str:
    """A float that is read as a float again, not as a decimal number."""
    return f"{value!r}D" if math.isfinite(value) else _named_float(value)


def _named_float(value: float) -> str:
    return f"double('{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}')"


def _free_decimal(value: Decimal) -> str:
    if not value.is_finite():
        return _named_float(float("nan") if value.is_nan() else float(value))
    text = str(value)
    return text if "." in text and "E" not in text else f"{text}BD"


def _timestamp(ticks: int, unit: int, *, utc: bool = False) -> str:
    text = timestamp_to_text(ticks, unit, utc=utc).replace("T", " ")
    return f"TIMESTAMP '{text}'" if utc else f"TIMESTAMP_NTZ '{text}'"


def _free_datetime(value: datetime) -> str:
    if value.tzinfo is None:
        return f"TIMESTAMP_NTZ '{value.isoformat(' ')}'"
    return f"TIMESTAMP '{value.astimezone(UTC).isoformat(' ')}'"


_BY_KIND: dict[str, Callable[[Any], str]] = {
    "float": _bound_float,
    "double": _bound_float,
    "decimal": lambda value: f"{value:f}",
    "date": lambda value: f"DATE '{date_to_text(value)}'",
    "time": lambda value: f"TIME '{time_to_text(value, MICROS)}'",
    "timestamp": lambda value: _timestamp(value, MICROS),
    "timestamptz": lambda value: _timestamp(value, MICROS, utc=True),
    "timestamp_ns": lambda value: _timestamp(value, NANOS),
    "timestamptz_ns": lambda value: _timestamp(value, NANOS, utc=True),
    "uuid": lambda value: f"'{value}'",
}

_BY_CLASS: list[tuple[type, Callable[[Any], str]]] = [
    (type(None), lambda _: "NULL"),
    (bool, lambda value: "true" if value else "false"),
    (int, lambda value: str(Decimal(value))),  # Python refuses to print very large integers, Decimal does not
    (float, _free_float),
    (Decimal, _free_decimal),
    (str, _quoted),
    (bytes, lambda value: f"X'{value.hex()}'"),
    (datetime, _free_datetime),  # before date, of which it is one
    (date, lambda value: f"DATE '{value.isoformat()}'"),
    (time, lambda value: f"TIME '{value.isoformat()}'"),
    (UUID, lambda value: f"UUID '{value}'"),
    (object, repr),
]
