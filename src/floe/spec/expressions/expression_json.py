"""Filters as JSON: what Java's ExpressionParser writes and REST catalogs exchange (spec: Expressions, Appendix B).

Two forms are read. The older one, which every client writes today and so do we, tests a `term`:
`{"type": "lt", "term": "id", "value": 10}`. Its logic is SQL's. The newer one has expressions on both sides,
`{"type": "lt", "left": {"type": "reference", "id": 1}, "right": 10}`, and is two-valued: `not-eq`, `not-in`,
`not-starts-with` and `not-nan` are true of null, and no order holds for NaN. It is read as the filter of ours that the
same rows pass. (That NaN has no order can only be said of columns known to be floats, and so needs a schema.)

JSON does not say of what type a literal is. Given a schema, literals are read as values of the column's type: text of
a binary column is hexadecimal, a number beside a date counts days, beside a time or timestamp microseconds.

What is read may be hostile: nothing here recurses on it, and every problem is an `InvalidExpression` that says where.

>>> from floe.spec.expressions.dsl import col
>>> expression_to_json((col("id") < 10) & col("name").is_null())
{'type': 'and', 'left': {'type': 'lt', 'term': 'id', 'value': 10}, 'right': {'type': 'is-null', 'term': 'name'}}
>>> print(expression_from_json({"type": "in", "term": "id", "values": [1, 2]}))
id IN (1, 2)
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from floe.errors import InvalidExpression
from floe.spec.codecs.single_value_json import to_json
from floe.spec.expressions.json_predicates import PredicateReader, Trail, fail, wanted
from floe.spec.expressions.nodes import (
    FALSE,
    TRUE,
    And,
    BoundPredicate,
    BoundTerm,
    BoundTransform,
    Constant,
    Expression,
    Not,
    Or,
    Predicate,
    Reference,
    Term,
    TransformTerm,
    and_,
    not_,
    or_,
)
from floe.spec.expressions.rewrite import MAX_DEPTH, check_depth
from floe.spec.schemas.schema import Schema

__all__ = ["expression_from_json", "expression_to_json"]


# Reading --------------------------------------------------------------------------------------------------------------


def expression_from_json(json: Any, schema: Schema | None = None, *, case_sensitive: bool = True) -> Expression:
    """The filter that JSON (as Python values) says; not yet bound, also when a schema helps to read its literals.

    >>> from floe.spec.types import Field, TIMESTAMP
    >>> schema = Schema((Field(1, "ts", TIMESTAMP),))
    >>> print(expression_from_json({"type": "gt", "term": "ts", "value": 1510871468000000}, schema))
    ts > '2017-11-16T22:31:08'
    >>> expression_from_json({"type": "or", "left": True})
    Traceback (most recent call last):
    floe.errors.InvalidExpression: a right side is missing (at: $.right)
    """
    reader = PredicateReader(schema, case_sensitive)
    done: list[Expression] = []
    work: list[tuple[Any, Trail, bool] | tuple[Callable[..., Expression], int]] = [(json, Trail(), False)]
    while work:
        item = work.pop()
        if len(item) == 2:
            join, count = item
            parts = done[len(done) - count :]
            del done[len(done) - count :]
            done.append(join(*parts))
            continue
        node, trail, negated = item
        kind = _kind(node, trail)
        if kind in ("true", "false"):
            done.append(TRUE if kind == "true" else FALSE)
        elif kind == "not":
            work.append((not_, 1))
            work.append((_child(node, "child", trail), trail.step("child"), not negated))
        elif kind in ("and", "or"):
            parts_to_do = _flat_parts(node, trail, kind)
            work.append((and_ if kind == "and" else or_, len(parts_to_do)))
            work.extend((part, place, negated) for part, place in reversed(parts_to_do))
        else:
            done.append(reader.read(kind, node, trail, negated))
    return check_depth(done[0], 2 * MAX_DEPTH)


def _kind(node: Any, trail: Trail) -> str:
    """The name of an operation as we spell it; `true` and `false` for constants in any of their forms."""
    if isinstance(node, bool):
        return "true" if node else "false"
    if isinstance(node, str) and node.lower() in ("true", "false"):
        return node.lower()
    if not isinstance(node, dict):
        fail(wanted("an expression", node), trail)
    kind = node.get("type")
    if not isinstance(kind, str):
        fail(wanted("the name of an operation", kind), trail.step("type"))
    kind = kind.lower().replace("_", "-")  # Java takes any case, and underscores too
    if kind != "literal":
        return kind
    if not isinstance(node.get("value"), bool):
        fail(wanted("true or false", node.get("value")), trail.step("value"))
    return "true" if node["value"] else "false"


def _child(node: dict[str, Any], key: str, trail: Trail) -> Any:
    if key not in node:
        fail(f"a {key} side is missing" if key != "child" else "a child is missing", trail.step(key))
    return node[key]


def _flat_parts(node: dict[str, Any], trail: Trail, kind: str) -> list[tuple[Any, Trail]]:
    """The parts of a chain of ANDs or ORs, which JSON nests two by two."""
    parts: list[tuple[Any, Trail]] = []
    todo = [(node, trail)]
    while todo:
        part, place = todo.pop()
        if part is node or (isinstance(part, dict) and _kind(part, place) == kind):
            todo.extend((_child(part, side, place), place.step(side)) for side in ("right", "left"))
        else:
            parts.append((part, place))
    return parts


# Writing --------------------------------------------------------------------------------------------------------------


def expression_to_json(expr: Expression) -> bool | dict[str, Any]:
    """The filter as JSON (as Python values), in the form that every REST client reads.

    >>> from floe.spec.expressions.dsl import col
    >>> expression_to_json(col("ts").day() == "2024-05-17")
    {'type': 'eq', 'term': {'type': 'transform', 'transform': 'day', 'term': 'ts'}, 'value': '2024-05-17'}
    """
    return _written(check_depth(expr, 2 * MAX_DEPTH))


def _written(expr: Expression) -> bool | dict[str, Any]:
    if isinstance(expr, Constant):
        return expr.value
    if isinstance(expr, Not):
        return {"type": "not", "child": _written(expr.child)}
    if isinstance(expr, And | Or):
        return _two_by_two("and" if isinstance(expr, And) else "or", [_written(child) for child in expr.children])
    assert isinstance(expr, Predicate | BoundPredicate)
    out: dict[str, Any] = {"type": expr.op.value, "term": _term_to_json(expr.term)}
    literals = [_literal_to_json(literal, expr) for literal in expr.literals]
    if expr.op.is_set:
        out["values"] = literals
    elif literals:
        out["value"] = literals[0]
    return out


def _two_by_two(kind: str, parts: list[bool | dict[str, Any]]) -> bool | dict[str, Any]:
    """Many parts joined in pairs, and the pairs in pairs, so that a long list does not become a deep one."""
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        alone = parts[len(parts) - len(parts) % 2 :]
        parts = [*({"type": kind, "left": left, "right": right} for left, right in pairs), *alone]
    return parts[0]


def _term_to_json(term: Term | BoundTerm) -> Any:
    if isinstance(term, TransformTerm | BoundTransform):
        return {"type": "transform", "transform": str(term.transform), "term": _term_to_json(term.ref)}
    if not isinstance(term, Reference):
        return term.entry.name
    return term.name if isinstance(term.name, str) else ".".join(term.name)


def _literal_to_json(literal: Any, predicate: Predicate | BoundPredicate) -> Any:
    if isinstance(predicate, BoundPredicate):
        return to_json(predicate.term.type, literal)
    writer = next((write for cls, write in _BY_CLASS if isinstance(literal, cls)), None)
    if writer is None:
        raise InvalidExpression(
            f"{literal!r} has no place in the JSON of a filter", hint="bind the filter to a schema first"
        )
    return writer(literal)


def _float_to_json(value: float) -> float | str:
    if math.isnan(value):
        raise InvalidExpression("NaN has no place in the JSON of a filter", hint="ask with is_nan()")
    return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _decimal_to_json(value: Decimal) -> str:
    # a large exponent stands for as many digits, which nobody wants to write out
    return f"{value:f}" if abs(value.adjusted()) < 100 else str(value)


def _datetime_to_json(value: datetime) -> str:
    return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat()


_BY_CLASS: list[tuple[type, Callable[[Any], Any]]] = [
    (bool, bool),
    (int, int),
    (float, _float_to_json),
    (str, str),
    (Decimal, _decimal_to_json),
    (bytes, bytes.hex),
    (uuid.UUID, str),
    (datetime, _datetime_to_json),  # before date, of which it is one
    (date, date.isoformat),
    (time, time.isoformat),
]
