"""Filters as text: SQL that `floe.sql.filters.parse_filter` parses to the same filter; and text without values.

`str(filter)` is the SQL. `nodes` imports this module, so this module identifies the classes of nodes by their names.
Nothing here is recursive, so filters of any depth can be printed.

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
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from floe.errors import InvalidValue
from floe.spec.partitioning.murmur3 import hash_bytes
from floe.spec.values.civil_time import (
    MICROS,
    NANOS,
    SECONDS_PER_DAY,
    date_to_text,
    time_to_text,
    timestamp_from_text,
    timestamp_to_text,
)

if TYPE_CHECKING:
    from floe.spec.expressions.nodes import BoundPredicate, BoundTerm, Expression, Predicate, Term
    from floe.spec.types import Type


RESERVED_WORDS = frozenset({
    "and", "any", "between", "case", "cast", "div", "else", "end", "escape", "exists", "false", "ilike", "in",
    "interval", "is", "like", "not", "null", "or", "regexp", "rlike", "select", "some", "then", "true", "when",
})  # fmt: skip
"""Words that must be quoted with backticks as column names."""


def to_text(expr: Expression) -> str:
    """Return a filter as SQL text.

    >>> from floe.spec.expressions.dsl import col
    >>> to_text(~col("day").is_in([1, 2]))
    'NOT day IN (1, 2)'
    """
    return render(expr, _literals_to_text, _pattern_to_text)


ShowLiterals = Callable[[tuple[Any, ...], "Type | None"], str]
"""Returns the text of the literals of a predicate; the type is None if the filter is not bound."""


def render(expr: Expression, show_literals: ShowLiterals, show_prefix: ShowLiterals) -> str:
    """Return a filter as SQL, with its literals and the prefixes of `LIKE` printed by these functions."""
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
    """Whether the node is `isnan`, for which a preceding `NOT` would be parsed as one predicate."""
    return getattr(getattr(node, "op", None), "value", None) == "is-nan"


def _in_parentheses(node: Expression) -> list[Expression | str]:
    return [")", node, "("]  # reversed, because it is pushed on a stack


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
    """Return a column, or a transform of one, as SQL.

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
    """Return a dotted name or a path as SQL, with backticks where they are needed.

    All parts of a path without dots are quoted, so that it is parsed as a path again.

    >>> name_to_text("a.b c"), name_to_text(("a", "b")), name_to_text(("a.b", "c"))
    ('a.`b c`', '`a`.`b`', '`a.b`.c')
    """
    if isinstance(name, str):
        return ".".join(_part_to_text(part) for part in name.split("."))
    as_path = len(name) > 1 and not any("." in part for part in name)
    return ".".join(_quote_name(part) if as_path else _part_to_text(part) for part in name)


def _part_to_text(part: str) -> str:
    return part if _PLAIN_WORD.fullmatch(part) and part.lower() not in RESERVED_WORDS else _quote_name(part)


def _quote_name(part: str) -> str:
    return "`" + part.replace("`", "``") + "`"


# Literals -------------------------------------------------------------------------------------------------------------


def literal_to_text(value: Any, type_: Type | None = None) -> str:
    """Return a literal as SQL: a value of a type in the form of `floe.spec.values`, or a user's Python value.

    >>> from floe.spec.types import DATE
    >>> literal_to_text("ice"), literal_to_text(1.5), literal_to_text(b"ice"), literal_to_text(17486, DATE)
    ("'ice'", '1.5D', "X'696365'", "DATE '2017-11-16'")
    """
    if type_ is not None and (writer := _BY_KIND.get(type_.kind)) is not None:
        return writer(value)
    return next(write(value) for cls, write in _BY_CLASS if isinstance(value, cls))


def _quote_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _literals_to_text(literals: tuple[Any, ...], type_: Type | None) -> str:
    return ", ".join(literal_to_text(literal, type_) for literal in literals)


def _pattern_to_text(literals: tuple[Any, ...], type_: Type | None) -> str:
    """The `LIKE` pattern for strings with a prefix."""
    (prefix,) = literals
    if not isinstance(prefix, str):
        return literal_to_text(prefix)
    return _quote_text(re.sub(r"([\\%_])", r"\\\1", prefix) + "%")


def _bound_float(value: float) -> str:
    return repr(value) if math.isfinite(value) else _named_float(value)


def _free_float(value: float) -> str:
    """A float literal with the suffix that keeps it from being parsed as a decimal."""
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
    (int, lambda value: str(Decimal(value))),  # Decimal prints integers of any size, int does not
    (float, _free_float),
    (Decimal, _free_decimal),
    (str, _quote_text),
    (bytes, lambda value: f"X'{value.hex()}'"),
    (datetime, _free_datetime),  # before date, its base class
    (date, lambda value: f"DATE '{value.isoformat()}'"),
    (time, lambda value: f"TIME '{value.isoformat()}'"),
    (UUID, lambda value: f"UUID '{value}'"),
    (object, repr),
]


# Filters without their values -------------------------------------------------------------------------------------

MAX_SANITIZED_LITERALS = 10
"""How many different words of a list are printed."""


def to_sanitized_text(expr: Expression, *, now: datetime | None = None) -> str:
    """Return a filter as text without its values, for logs and reports: `a > (2-digit-int)`.

    The words are those of Java's reports: numbers by their count of digits; strings and other values by a hash; dates
    and timestamps by their type or, if `now` is passed, by their distance from it. Long lists are truncated.

    >>> from floe.spec.expressions.dsl import col
    >>> to_sanitized_text(col("day") == date(2024, 5, 17), now=datetime(2024, 5, 20))
    'day = (date-3-days-ago)'
    """
    show = partial(_sanitize_literals, now=None if now is None else _nanos(now))
    return render(expr, show, show)


def _sanitize_literals(literals: tuple[Any, ...], type_: Type | None, now: int | None) -> str:
    words = [_sanitize_literal(literal, type_, now) for literal in literals]
    distinct = list(dict.fromkeys(words))[:MAX_SANITIZED_LITERALS]
    if len(words) < MAX_SANITIZED_LITERALS or len(distinct) == len(words):
        return ", ".join(words)
    return ", ".join(distinct) + f", ... ({len(words) - len(distinct)} values hidden, {len(words)} in total)"


def _sanitize_literal(literal: Any, type_: Type | None, now: int | None) -> str:
    if type_ is not None and type_.kind in _NANOS_PER_TICK:
        show = _sanitize_date if type_.kind == "date" else _sanitize_timestamp
        return show(literal * _NANOS_PER_TICK[type_.kind], now)
    if type_ is not None and type_.kind == "time":
        return "(time)"
    return next(show(literal, now) for cls, show in _SANITIZE_BY_CLASS if isinstance(literal, cls))


_NANOS_PER_DAY = SECONDS_PER_DAY * NANOS
_NANOS_PER_HOUR = 3600 * NANOS
_NANOS_PER_TICK = {
    "date": _NANOS_PER_DAY,
    "timestamp": 1000,
    "timestamptz": 1000,
    "timestamp_ns": 1,
    "timestamptz_ns": 1,
}


def _nanos(value: date) -> int:
    """A date or datetime as nanoseconds from 1970, in UTC if it has a zone."""
    ticks, offset = timestamp_from_text(value.isoformat(), NANOS)
    return ticks - (offset or 0) * NANOS


def _sanitize_date(nanos: int, now: int | None) -> str:
    if now is None:
        return "(date)"
    days = now // _NANOS_PER_DAY - nanos // _NANOS_PER_DAY
    if days == 0:
        return "(date-today)"
    return f"(date-{abs(days)}-days-{_direction(days)})" if abs(days) < 90 else "(date)"


def _sanitize_timestamp(nanos: int, now: int | None) -> str:
    if now is None:
        return "(timestamp)"
    distance = now - nanos
    if abs(distance) < 300 * NANOS:
        return "(timestamp-about-now)"
    hours = abs(distance) // _NANOS_PER_HOUR
    if hours <= 3 * 24:
        return f"(timestamp-{hours}-hours-{_direction(distance)})"
    return f"(timestamp-{hours // 24}-days-{_direction(distance)})" if hours < 90 * 24 else "(timestamp)"


def _direction(distance: int) -> str:
    return "ago" if distance > 0 else "from-now"


_DATE_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?([-+]\d{2}:\d{2}|Z)?")
_TIME_TEXT = re.compile(r"\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?")


def _sanitize_text(text: str, now: int | None) -> str:
    """In a filter that is not bound, text in the form of a date or timestamp counts as one."""
    if _TIME_TEXT.fullmatch(text):
        return "(time)"
    is_date = _DATE_TEXT.fullmatch(text) is not None
    if is_date or _TIMESTAMP_TEXT.fullmatch(text):
        try:
            ticks, offset = timestamp_from_text(text, NANOS)
        except InvalidValue:
            return _hash_word(text)
        return (_sanitize_date if is_date else _sanitize_timestamp)(ticks - (offset or 0) * NANOS, now)
    return _hash_word(text)


def _hash_word(value: Any, _: int | None = None) -> str:
    data = value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")
    # the hash of Java's reports: the bucket of the value, of 2**31 - 1
    return f"(hash-{(hash_bytes(data) & 0x7FFFFFFF) % 0x7FFFFFFF:08x})"


def _digits_word(value: float | Decimal, word: str) -> str:
    if not (value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)):
        return f"({word})"
    if isinstance(value, Decimal):
        return f"({max(value.adjusted(), -1) + 1 if value else 1}-digit-{word})"
    return f"({int(math.log10(abs(value))) + 1 if value else 1}-digit-{word})"


_SANITIZE_BY_CLASS: list[tuple[type, Callable[[Any, int | None], str]]] = [
    (type(None), lambda value, now: "NULL"),
    (bool, lambda value, now: "(boolean)"),
    (int, lambda value, now: _digits_word(Decimal(value), "int")),
    (float, lambda value, now: _digits_word(value, "float")),
    (Decimal, lambda value, now: _digits_word(value, "decimal")),
    (str, _sanitize_text),
    (datetime, lambda value, now: _sanitize_timestamp(_nanos(value), now)),  # before date, its base class
    (date, lambda value, now: _sanitize_date(_nanos(value), now)),
    (time, lambda value, now: "(time)"),
    (object, _hash_word),
]
