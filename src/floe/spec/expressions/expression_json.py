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

One predicate of a filter's JSON, in its older and its newer form; see `floe.spec.expressions.expression_json`.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from floe.errors import FloeError, InvalidExpression, InvalidInput, UnsupportedFeature
from floe.spec.codecs.single_value_json import from_json, to_json
from floe.spec.expressions.binding import bind_term
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
    Op,
    Or,
    Predicate,
    Reference,
    Term,
    TransformTerm,
    and_,
    not_,
    or_,
)
from floe.spec.expressions.simplification import MAX_DEPTH, check_depth
from floe.spec.partitioning.transforms import (
    DAY,
    HOUR,
    IDENTITY,
    MONTH,
    YEAR,
    Bucket,
    Transform,
    Truncate,
    parse_transform,
)
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import type_from_json
from floe.spec.types import Type
from floe.spec.values import convert, to_text

# One predicate of a filter's JSON, in its older and its newer form; see `floe.spec.expressions.expression_json`.


@dataclass(frozen=True, slots=True)
class Trail:
    """The way to a part of a JSON document; long ways cost nothing until an error shows them.

    >>> str(Trail().step("left").step("value"))
    '$.left.value'
    """

    parent: Trail | None = None
    last: str = "$"

    def step(self, last: str) -> Trail:
        """The way one step further."""
        return Trail(self, last)

    def __str__(self) -> str:
        steps: list[str] = []
        place: Trail | None = self
        while place is not None and len(steps) < 20:
            steps.append(place.last)
            place = place.parent
        return ("" if place is None else "….") + ".".join(reversed(steps))


def fail(message: str, trail: Trail, hint: str | None = None) -> NoReturn:
    """Raise an error that says where in the document it is."""
    raise InvalidExpression(message, hint=hint, at=str(trail))


def wanted(what: str, found: Any) -> str:
    """The words of an error for JSON of a wrong kind.

    >>> wanted("an expression", [1])
    'expected an expression, found an array'
    """
    if isinstance(found, dict | list):
        return f"expected {what}, found {'an object' if isinstance(found, dict) else 'an array'}"
    return f"expected {what}, found {'nothing' if found is None else _shown(found)}"


def _shown(found: Any) -> str:
    try:
        return repr(found)[:80]
    except ValueError:  # an integer of more digits than Python is willing to print
        return "a very large integer"


_OPERATIONS = {op.value: op for op in Op}
_TRUE_OF_NULL = {Op.NOT_EQ, Op.NOT_IN, Op.NOT_STARTS_WITH, Op.NOT_NAN}
"""The tests of the newer form that null passes (spec: Expressions, Comparisons and Tests)."""

_MICROS_KINDS = {"time": 1, "timestamp": 1, "timestamptz": 1, "timestamp_ns": 1000, "timestamptz_ns": 1000}
_FLOAT_KINDS = ("float", "double")
_TRANSFORMS: dict[str, Transform] = {str(t): t for t in (IDENTITY, YEAR, MONTH, DAY, HOUR)}
_NOT_YET = "a filter compares a column, or a transform of one, with constants"


class PredicateReader:
    """Reads predicates, with a schema to know the types of literals if there is one."""

    def __init__(self, schema: Schema | None, case_sensitive: bool) -> None:
        self.schema = schema
        self.case_sensitive = case_sensitive

    def read(self, kind: str, node: dict[str, Any], trail: Trail, negated: bool) -> Expression:
        """The predicate of a JSON object whose `type` is `kind`, under an odd number of NOTs if `negated`."""
        op = _OPERATIONS.get(kind)
        if op is None:
            fail(f"unknown operation {kind[:80]!r}", trail.step("type"), "known are " + ", ".join(_OPERATIONS))
        if "term" in node:
            return self._read_older(op, node, trail)
        return self._read_newer(op, node, trail, negated)

    # the two forms --------------------------------------------------------------------------------------------

    def _read_older(self, op: Op, node: dict[str, Any], trail: Trail) -> Expression:
        term = self._term(node["term"], trail.step("term"))
        key = "" if op.is_unary else "values" if op.is_set else "value"
        for other in {"value", "values"} - {key}:
            if other in node:
                fail(f"{op.value} takes no {other}", trail.step(other))
        if key and key not in node:
            fail(f"{op.value} needs {key}", trail.step(key))
        return Predicate(op, term, self._literals(key, node, term, trail))

    def _read_newer(self, op: Op, node: dict[str, Any], trail: Trail, negated: bool) -> Expression:
        if op.is_unary or op.is_set:
            if "child" not in node or (op.is_set and "values" not in node):
                fail(f"{op.value} needs a child" + " and values" * op.is_set, trail)
            term = self._term(node["child"], trail.step("child"))
            literals = self._literals("values" if op.is_set else "", node, term, trail)
            return self._two_valued(op, term, literals, negated)
        if "left" not in node or "right" not in node:
            fail(f"{op.value} needs a left and a right side", trail)
        left, right = ("left", "right") if _is_term(node["left"]) else ("right", "left")
        if _is_term(node[right]) or not _is_term(node[left]):
            raise UnsupportedFeature(_NOT_YET, at=str(trail))
        if left == "right":
            if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
                raise UnsupportedFeature(_NOT_YET, at=str(trail))
            op = op.flipped
        term = self._term(node[left], trail.step(left))
        return self._two_valued(op, term, self._literals(right, node, term, trail), negated)

    def _two_valued(self, op: Op, term: Term, literals: tuple[Any, ...], negated: bool) -> Expression:
        """A test of the newer form, which is never unknown, as a filter that is never unknown where that matters."""
        test = Predicate(op, term, literals)
        if op in (Op.IS_NULL, Op.NOT_NULL):
            return test
        if op in _TRUE_OF_NULL:
            return or_(test, Predicate(Op.IS_NULL, term))
        type_ = self._type_of(term)
        ordered = op in (Op.GT, Op.GT_EQ) and type_ is not None and type_.kind in _FLOAT_KINDS
        number = [Predicate(Op.NOT_NAN, term)] if ordered else []
        # unknown is as good as false, unless it is negated
        return and_(test, *number, *([Predicate(Op.NOT_NULL, term)] if negated else []))

    # terms ----------------------------------------------------------------------------------------------------

    def _term(self, node: Any, trail: Trail) -> Term:
        if isinstance(node, str):
            return Reference(node)
        kind = node.get("type") if isinstance(node, dict) else None
        if kind == "reference":
            return self._reference(node, trail)
        if kind == "transform":
            text = node.get("transform")
            if not isinstance(text, str):
                fail(wanted("the name of a transform", text), trail.step("transform"))
            return TransformTerm(_transform(lambda: parse_transform(text), trail), self._column(node, "term", trail))
        if kind == "apply":
            return self._applied(node, trail)
        fail(wanted("a column or a transform of one", node), trail)

    def _reference(self, node: dict[str, Any], trail: Trail) -> Reference:
        if "id" in node:
            field_id = node["id"]
            if type(field_id) is not int:
                fail(wanted("a field id", field_id), trail.step("id"))
            if self.schema is None:
                fail(f"field {field_id} is named by its id", trail.step("id"), "give the schema to find it in")
            return Reference(self.schema.entry(field_id).path)
        name = node.get("name", node.get("term"))
        if not isinstance(name, str):
            fail(wanted("the name of a column", name), trail.step("name"))
        return Reference(name)

    def _column(self, node: dict[str, Any], key: str, trail: Trail) -> Reference:
        """The column that a transform is applied to; a transform of a transform is refused."""
        child = node.get(key)
        if isinstance(child, str):
            return Reference(child)
        if isinstance(child, dict) and child.get("type") == "reference":
            return self._reference(child, trail.step(key))
        fail(wanted("a column", child), trail.step(key), "transforms cannot be nested")

    def _applied(self, node: dict[str, Any], trail: Trail) -> Term:
        """A function of the newer form; of Iceberg's functions, the transforms can be computed."""
        name = _function_name(node.get("function"), trail.step("function"))
        arguments = node.get("arguments")
        if not isinstance(arguments, list) or not 1 <= len(arguments) <= 2:
            fail(wanted("the one or two arguments of a transform", arguments), trail.step("arguments"))
        column = self._column({"arguments": arguments[-1]}, "arguments", trail)
        if len(arguments) == 1 and name in _TRANSFORMS:
            return TransformTerm(_TRANSFORMS[name], column)
        if len(arguments) == 2 and name in ("bucket", "truncate"):
            parameter = self._literal(arguments[0], None, trail.step("arguments"))
            if type(parameter) is not int:
                fail(wanted("a whole number", parameter), trail.step("arguments"))
            make = Bucket if name == "bucket" else Truncate
            return TransformTerm(_transform(lambda: make(parameter), trail), column)
        raise UnsupportedFeature(f"a filter cannot use the function {name[:80]}", at=str(trail))

    def _type_of(self, term: Term) -> Type | None:
        """The type of a term that people's literals are read as; None for what transforms of time count."""
        if self.schema is None:
            return None
        bound = bind_term(term, self.schema, case_sensitive=self.case_sensitive)
        return None if isinstance(bound, BoundTransform) and bound.transform.is_time else bound.type

    # literals -------------------------------------------------------------------------------------------------

    def _literals(self, key: str, node: dict[str, Any], term: Term, trail: Trail) -> tuple[Any, ...]:
        if not key:
            return ()
        type_, place, found = self._type_of(term), trail.step(key), node[key]
        if key != "values":
            return (self._literal(found, type_, place),)
        data_type = None
        if isinstance(found, dict) and found.get("type") == "literals":
            data_type, found = found.get("data-type"), found.get("values")
        if not isinstance(found, list):
            fail(wanted("an array of values", found), place)
        if data_type is None:
            return tuple(self._literal(value, type_, place) for value in found)
        own = _data_type(data_type, place)
        return tuple(_typed(value, own, place) for value in found)

    def _literal(self, found: Any, type_: Type | None, trail: Trail) -> Any:
        if isinstance(found, dict) and found.get("type") == "literal":
            if found.get("data-type") is not None:
                return _typed(found.get("value"), _data_type(found["data-type"], trail), trail)
            found = found.get("value")
        if not isinstance(found, bool | int | float | str):
            fail(wanted("a value", found), trail, "nulls are found with is-null")
        if isinstance(found, float) and math.isnan(found):
            fail("NaN cannot be compared", trail, "it is found with is-nan")
        try:
            return found if type_ is None else _as_type(found, type_)
        except (ValueError, InvalidOperation):
            fail(f"{_shown(found)} is not a value of type {type_}", trail)


def _is_term(node: Any) -> bool:
    return isinstance(node, dict) and node.get("type") in ("reference", "apply", "transform")


def _transform(make: Any, trail: Trail) -> Transform:
    try:
        transform: Transform = make()
    except InvalidInput as error:
        fail(error.message, trail, error.hint)
    return transform


def _function_name(function: Any, trail: Trail) -> str:
    """The name of one of Iceberg's functions; other catalogs have others."""
    catalog = None
    if isinstance(function, dict):
        catalog, function = function.get("catalog"), function.get("identifier")
    if isinstance(function, str):
        function = [function]
    if not isinstance(function, list) or not function or not all(isinstance(part, str) for part in function):
        fail(wanted("the name of a function", function), trail)
    if catalog not in (None, "iceberg_functions") or len(function) > 1:
        raise UnsupportedFeature(f"a filter cannot use the function {'.'.join(function)[:80]}", at=str(trail))
    return str(function[0])


def _data_type(json: Any, trail: Trail) -> Type:
    try:
        return type_from_json(json)
    except FloeError as error:
        fail(f"the data type of a literal: {error.message}", trail, error.hint)


def _typed(found: Any, type_: Type, trail: Trail) -> Any:
    """A literal that says its own type, in the JSON form of single values."""
    if found is None or (isinstance(found, float) and math.isnan(found)):
        fail(wanted("a value", found), trail, "nulls and NaN are found with is-null and is-nan")
    try:
        value = from_json(type_, found)
    except InvalidInput as error:
        fail(error.message, trail, error.hint)
    return to_text(type_, value) if type_.kind == "date" or type_.kind in _MICROS_KINDS else value


def _as_type(found: Any, type_: Type) -> Any:
    """A literal beside a column of a type, as Java reads it; what cannot be that type is for binding to refuse."""
    kind = type_.kind
    if isinstance(found, str):
        if kind in ("fixed", "binary"):
            return bytes.fromhex(found)
        if kind == "decimal":
            return Decimal(found)
        if kind in _FLOAT_KINDS and found in ("Infinity", "-Infinity"):
            return float(found)
    elif isinstance(found, int) and not isinstance(found, bool):
        if kind == "date":
            return to_text(type_, convert(type_, found))
        if kind in _MICROS_KINDS:  # also for nanoseconds: Java takes every such number for microseconds
            return to_text(type_, convert(type_, found * _MICROS_KINDS[kind]))
    return found


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
