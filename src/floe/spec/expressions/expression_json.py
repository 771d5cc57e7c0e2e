"""Filters as JSON, as Java's ExpressionParser writes it and REST catalogs exchange it (spec: Expressions, Appendix B).

Two forms are read. The term form, which all clients write today and Floe writes too, has a `term`:
`{"type": "lt", "term": "id", "value": 10}`. It has the three-valued logic of SQL. The newer form has expressions on
both sides, `{"type": "lt", "left": {"type": "reference", "id": 1}, "right": 10}`, and is two-valued: `not-eq`,
`not-in`, `not-starts-with` and `not-nan` are true for null, and NaN has no order. It is read as a filter that the same
rows pass. (For NaN that requires a schema, which says whether a column is a float.)

JSON does not have the types of literals. With a schema, they are read as values of the column's type: text is
hexadecimal for a binary column, and a number counts days for a date, microseconds for a time or timestamp.

The JSON may be malicious: nothing here is recursive when reading, and every problem is an `InvalidExpression` with its
JSON path.

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
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from floe.errors import FloeError, InvalidExpression, InvalidInput, UnsupportedFeature
from floe.spec.codecs.single_value_json import from_json, to_json
from floe.spec.expressions.binder import bind_term
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

# Errors ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trail:
    """The path to a part of a JSON document, as a linked list, which is only formatted for errors.

    >>> str(Trail().step("left").step("value"))
    '$.left.value'
    """

    parent: Trail | None = None
    last: str = "$"

    def step(self, last: str) -> Trail:
        """The path extended by one step."""
        return Trail(self, last)

    def __str__(self) -> str:
        steps: list[str] = []
        trail: Trail | None = self
        while trail is not None and len(steps) < 20:
            steps.append(trail.last)
            trail = trail.parent
        return ("" if trail is None else "….") + ".".join(reversed(steps))


def fail(message: str, trail: Trail, hint: str | None = None) -> NoReturn:
    """Raise `InvalidExpression` with a JSON path."""
    raise InvalidExpression(message, hint=hint, at=str(trail))


def mismatch(expected: str, json: Any) -> str:
    """The message of an error for JSON of a wrong type.

    >>> mismatch("an expression", [1])
    'expected an expression, found an array'
    """
    if isinstance(json, dict | list):
        return f"expected {expected}, found {'an object' if isinstance(json, dict) else 'an array'}"
    return f"expected {expected}, found {'nothing' if json is None else _describe(json)}"


def _describe(value: Any) -> str:
    try:
        return repr(value)[:80]
    except ValueError:  # an integer of more digits than Python prints
        return "a very large integer"


# Predicates ------------------------------------------------------------------------------------------------------

_OPERATIONS = {op.value: op for op in Op}
_TRUE_OF_NULL = {Op.NOT_EQ, Op.NOT_IN, Op.NOT_STARTS_WITH, Op.NOT_NAN}
"""The operations of the newer form that are true for null (spec: Expressions, Comparisons and Tests)."""

_MICROS_KINDS = {"time": 1, "timestamp": 1, "timestamptz": 1, "timestamp_ns": 1000, "timestamptz_ns": 1000}
_FLOAT_KINDS = ("float", "double")
_TRANSFORMS: dict[str, Transform] = {str(t): t for t in (IDENTITY, YEAR, MONTH, DAY, HOUR)}
_COLUMN_AND_CONSTANTS = "a filter compares a column, or a transform of one, with constants"


class PredicateReader:
    """Reads predicates; the schema, if there is one, has the types of their literals."""

    def __init__(self, schema: Schema | None, case_sensitive: bool) -> None:
        self.schema = schema
        self.case_sensitive = case_sensitive

    def read(self, kind: str, node: dict[str, Any], trail: Trail, negated: bool) -> Expression:
        """Read a predicate with `type` `kind`; `negated` if it is under an odd number of NOTs."""
        op = _OPERATIONS.get(kind)
        if op is None:
            fail(f"unknown operation {kind[:80]!r}", trail.step("type"), "known are " + ", ".join(_OPERATIONS))
        if "term" in node:
            return self._read_term_form(op, node, trail)
        return self._read_sides_form(op, node, trail, negated)

    # The two forms ------------------------------------------------------------------------------------------------

    def _read_term_form(self, op: Op, node: dict[str, Any], trail: Trail) -> Expression:
        term = self._term(node["term"], trail.step("term"))
        key = "" if op.is_unary else "values" if op.is_set else "value"
        for other in {"value", "values"} - {key}:
            if other in node:
                fail(f"{op.value} takes no {other}", trail.step(other))
        if key and key not in node:
            fail(f"{op.value} needs {key}", trail.step(key))
        return Predicate(op, term, self._literals(key, node, term, trail))

    def _read_sides_form(self, op: Op, node: dict[str, Any], trail: Trail, negated: bool) -> Expression:
        if op.is_unary or op.is_set:
            if "child" not in node or (op.is_set and "values" not in node):
                fail(f"{op.value} needs a child" + " and values" * op.is_set, trail)
            term = self._term(node["child"], trail.step("child"))
            literals = self._literals("values" if op.is_set else "", node, term, trail)
            return self._two_valued_filter(op, term, literals, negated)
        if "left" not in node or "right" not in node:
            fail(f"{op.value} needs a left and a right side", trail)
        left, right = ("left", "right") if _is_term(node["left"]) else ("right", "left")
        if _is_term(node[right]) or not _is_term(node[left]):
            raise UnsupportedFeature(_COLUMN_AND_CONSTANTS, at=str(trail))
        if left == "right":
            if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
                raise UnsupportedFeature(_COLUMN_AND_CONSTANTS, at=str(trail))
            op = op.flipped
        term = self._term(node[left], trail.step(left))
        return self._two_valued_filter(op, term, self._literals(right, node, term, trail), negated)

    def _two_valued_filter(self, op: Op, term: Term, literals: tuple[Any, ...], negated: bool) -> Expression:
        """A predicate of the newer form, which is never unknown, as a filter with the same result for null and NaN."""
        test = Predicate(op, term, literals)
        if op in (Op.IS_NULL, Op.NOT_NULL):
            return test
        if op in _TRUE_OF_NULL:
            return or_(test, Predicate(Op.IS_NULL, term))
        type_ = self._type_of(term)
        ordered = op in (Op.GT, Op.GT_EQ) and type_ is not None and type_.kind in _FLOAT_KINDS
        number = [Predicate(Op.NOT_NAN, term)] if ordered else []
        # unknown can be treated as false, unless it is negated
        return and_(test, *number, *([Predicate(Op.NOT_NULL, term)] if negated else []))

    # Terms --------------------------------------------------------------------------------------------------------

    def _term(self, node: Any, trail: Trail) -> Term:
        if isinstance(node, str):
            return Reference(node)
        kind = node.get("type") if isinstance(node, dict) else None
        if kind == "reference":
            return self._reference(node, trail)
        if kind == "transform":
            text = node.get("transform")
            if not isinstance(text, str):
                fail(mismatch("the name of a transform", text), trail.step("transform"))
            return TransformTerm(_transform(lambda: parse_transform(text), trail), self._column(node, "term", trail))
        if kind == "apply":
            return self._function_term(node, trail)
        fail(mismatch("a column or a transform of one", node), trail)

    def _reference(self, node: dict[str, Any], trail: Trail) -> Reference:
        if "id" in node:
            field_id = node["id"]
            if type(field_id) is not int:
                fail(mismatch("a field id", field_id), trail.step("id"))
            if self.schema is None:
                fail(f"field {field_id} is identified by its id", trail.step("id"), "pass the schema of the table")
            return Reference(self.schema.entry(field_id).path)
        name = node.get("name", node.get("term"))
        if not isinstance(name, str):
            fail(mismatch("the name of a column", name), trail.step("name"))
        return Reference(name)

    def _column(self, node: dict[str, Any], key: str, trail: Trail) -> Reference:
        """Read the column that a transform is applied to; a transform of a transform is an error."""
        child = node.get(key)
        if isinstance(child, str):
            return Reference(child)
        if isinstance(child, dict) and child.get("type") == "reference":
            return self._reference(child, trail.step(key))
        fail(mismatch("a column", child), trail.step(key), "transforms cannot be nested")

    def _function_term(self, node: dict[str, Any], trail: Trail) -> Term:
        """Read a function of the newer form; only transforms are supported."""
        name = _function_name(node.get("function"), trail.step("function"))
        arguments = node.get("arguments")
        if not isinstance(arguments, list) or not 1 <= len(arguments) <= 2:
            fail(mismatch("the one or two arguments of a transform", arguments), trail.step("arguments"))
        column = self._column({"arguments": arguments[-1]}, "arguments", trail)
        if len(arguments) == 1 and name in _TRANSFORMS:
            return TransformTerm(_TRANSFORMS[name], column)
        if len(arguments) == 2 and name in ("bucket", "truncate"):
            parameter = self._literal(arguments[0], None, trail.step("arguments"))
            if type(parameter) is not int:
                fail(mismatch("a whole number", parameter), trail.step("arguments"))
            make = Bucket if name == "bucket" else Truncate
            return TransformTerm(_transform(lambda: make(parameter), trail), column)
        raise UnsupportedFeature(f"a filter cannot use the function {name[:80]}", at=str(trail))

    def _type_of(self, term: Term) -> Type | None:
        """The type of a term's literals; None without a schema, and for transforms of dates and timestamps."""
        if self.schema is None:
            return None
        bound = bind_term(term, self.schema, case_sensitive=self.case_sensitive)
        return None if isinstance(bound, BoundTransform) and bound.transform.is_time else bound.type

    # Literals -----------------------------------------------------------------------------------------------------

    def _literals(self, key: str, node: dict[str, Any], term: Term, trail: Trail) -> tuple[Any, ...]:
        if not key:
            return ()
        type_, literal_trail, json = self._type_of(term), trail.step(key), node[key]
        if key != "values":
            return (self._literal(json, type_, literal_trail),)
        data_type = None
        if isinstance(json, dict) and json.get("type") == "literals":
            data_type, json = json.get("data-type"), json.get("values")
        if not isinstance(json, list):
            fail(mismatch("an array of values", json), literal_trail)
        if data_type is None:
            return tuple(self._literal(value, type_, literal_trail) for value in json)
        value_type = _literal_type(data_type, literal_trail)
        return tuple(_typed_literal(value, value_type, literal_trail) for value in json)

    def _literal(self, json: Any, type_: Type | None, trail: Trail) -> Any:
        if isinstance(json, dict) and json.get("type") == "literal":
            if json.get("data-type") is not None:
                return _typed_literal(json.get("value"), _literal_type(json["data-type"], trail), trail)
            json = json.get("value")
        if not isinstance(json, bool | int | float | str):
            fail(mismatch("a value", json), trail, "nulls are found with is-null")
        if isinstance(json, float) and math.isnan(json):
            fail("NaN cannot be compared", trail, "it is found with is-nan")
        try:
            return json if type_ is None else _literal_of_type(json, type_)
        except (ValueError, InvalidOperation):
            fail(f"{_describe(json)} is not a value of type {type_}", trail)


def _is_term(node: Any) -> bool:
    return isinstance(node, dict) and node.get("type") in ("reference", "apply", "transform")


def _transform(make: Any, trail: Trail) -> Transform:
    try:
        transform: Transform = make()
    except InvalidInput as error:
        fail(error.message, trail, error.hint)
    return transform


def _function_name(function: Any, trail: Trail) -> str:
    """The name of a function of Iceberg; functions of other catalogs are not supported."""
    catalog = None
    if isinstance(function, dict):
        catalog, function = function.get("catalog"), function.get("identifier")
    if isinstance(function, str):
        function = [function]
    if not isinstance(function, list) or not function or not all(isinstance(part, str) for part in function):
        fail(mismatch("the name of a function", function), trail)
    if catalog not in (None, "iceberg_functions") or len(function) > 1:
        raise UnsupportedFeature(f"a filter cannot use the function {'.'.join(function)[:80]}", at=str(trail))
    return str(function[0])


def _literal_type(json: Any, trail: Trail) -> Type:
    try:
        return type_from_json(json)
    except FloeError as error:
        fail(f"the data type of a literal: {error.message}", trail, error.hint)


def _typed_literal(json: Any, type_: Type, trail: Trail) -> Any:
    """A literal with a data type, in the JSON encoding of single values."""
    if json is None or (isinstance(json, float) and math.isnan(json)):
        fail(mismatch("a value", json), trail, "nulls and NaN are found with is-null and is-nan")
    try:
        value = from_json(type_, json)
    except InvalidInput as error:
        fail(error.message, trail, error.hint)
    return to_text(type_, value) if type_.kind == "date" or type_.kind in _MICROS_KINDS else value


def _literal_of_type(json: Any, type_: Type) -> Any:
    """A literal for a column of a type, as Java reads it; binding rejects those that do not have the type."""
    kind = type_.kind
    if isinstance(json, str):
        if kind in ("fixed", "binary"):
            return bytes.fromhex(json)
        if kind == "decimal":
            return Decimal(json)
        if kind in _FLOAT_KINDS and json in ("Infinity", "-Infinity"):
            return float(json)
    elif isinstance(json, int) and not isinstance(json, bool):
        if kind == "date":
            return to_text(type_, convert(type_, json))
        if kind in _MICROS_KINDS:  # also for nanoseconds: Java reads all these numbers as microseconds
            return to_text(type_, convert(type_, json * _MICROS_KINDS[kind]))
    return json


# Filters from JSON -----------------------------------------------------------------------------------------------


def expression_from_json(json: Any, schema: Schema | None = None, *, case_sensitive: bool = True) -> Expression:
    """Parse a filter from JSON (as Python values); it is not bound, even if a schema is passed for its literals.

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
            work.append((_require_child(node, "child", trail), trail.step("child"), not negated))
        elif kind in ("and", "or"):
            pending = _flat_parts(node, trail, kind)
            work.append((and_ if kind == "and" else or_, len(pending)))
            work.extend((part, part_trail, negated) for part, part_trail in reversed(pending))
        else:
            done.append(reader.read(kind, node, trail, negated))
    return check_depth(done[0], 2 * MAX_DEPTH)


def _kind(node: Any, trail: Trail) -> str:
    """The canonical name of an operation; `true` and `false` for constants in any form."""
    if isinstance(node, bool):
        return "true" if node else "false"
    if isinstance(node, str) and node.lower() in ("true", "false"):
        return node.lower()
    if not isinstance(node, dict):
        fail(mismatch("an expression", node), trail)
    kind = node.get("type")
    if not isinstance(kind, str):
        fail(mismatch("the name of an operation", kind), trail.step("type"))
    kind = kind.lower().replace("_", "-")  # Java accepts any case, and underscores
    if kind != "literal":
        return kind
    if not isinstance(node.get("value"), bool):
        fail(mismatch("true or false", node.get("value")), trail.step("value"))
    return "true" if node["value"] else "false"


def _require_child(node: dict[str, Any], key: str, trail: Trail) -> Any:
    if key not in node:
        fail(f"a {key} side is missing" if key != "child" else "a child is missing", trail.step(key))
    return node[key]


def _flat_parts(node: dict[str, Any], trail: Trail, kind: str) -> list[tuple[Any, Trail]]:
    """The parts of nested ANDs or ORs, which are binary in JSON."""
    parts: list[tuple[Any, Trail]] = []
    todo = [(node, trail)]
    while todo:
        part, part_trail = todo.pop()
        if part is node or (isinstance(part, dict) and _kind(part, part_trail) == kind):
            todo.extend((_require_child(part, side, part_trail), part_trail.step(side)) for side in ("right", "left"))
        else:
            parts.append((part, part_trail))
    return parts


# Filters to JSON -------------------------------------------------------------------------------------------------


def expression_to_json(expr: Expression) -> bool | dict[str, Any]:
    """Return a filter as JSON (as Python values), in the term form, which all REST clients read.

    >>> from floe.spec.expressions.dsl import col
    >>> expression_to_json(col("ts").day() == "2024-05-17")
    {'type': 'eq', 'term': {'type': 'transform', 'transform': 'day', 'term': 'ts'}, 'value': '2024-05-17'}
    """
    return _expression_to_json(check_depth(expr, 2 * MAX_DEPTH))


def _expression_to_json(expr: Expression) -> bool | dict[str, Any]:
    if isinstance(expr, Constant):
        return expr.value
    if isinstance(expr, Not):
        return {"type": "not", "child": _expression_to_json(expr.child)}
    if isinstance(expr, And | Or):
        return _join_pairwise(
            "and" if isinstance(expr, And) else "or", [_expression_to_json(child) for child in expr.children]
        )
    assert isinstance(expr, Predicate | BoundPredicate)
    out: dict[str, Any] = {"type": expr.op.value, "term": _term_to_json(expr.term)}
    literals = [_literal_to_json(literal, expr) for literal in expr.literals]
    if expr.op.is_set:
        out["values"] = literals
    elif literals:
        out["value"] = literals[0]
    return out


def _join_pairwise(kind: str, parts: list[bool | dict[str, Any]]) -> bool | dict[str, Any]:
    """Combine parts pairwise into a balanced tree, so that a long list is not nested deeply."""
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        unpaired = parts[len(parts) - len(parts) % 2 :]
        parts = [*({"type": kind, "left": left, "right": right} for left, right in pairs), *unpaired]
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
            f"{literal!r} cannot be written in the JSON of a filter", hint="bind the filter to a schema first"
        )
    return writer(literal)


def _float_to_json(value: float) -> float | str:
    if math.isnan(value):
        raise InvalidExpression("NaN cannot be written in the JSON of a filter", hint="use is_nan()")
    return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _decimal_to_json(value: Decimal) -> str:
    # avoid writing out very many digits for a large exponent
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
    (datetime, _datetime_to_json),  # before date, its base class
    (date, date.isoformat),
    (time, time.isoformat),
]
