"""Spark's predicates as filters: for leaving out files, so a filter may let more rows pass than the predicate does.

What is not understood only makes a filter wider. Whether a filter says exactly what the predicate says is known too.

Columns of `time` and of nanosecond timestamps are texts in Spark, all of one width, so that Spark orders them as their
values are ordered. A literal in another spelling would be compared letter by letter, and rows would be lost: it is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from floe.errors import FloeError, InvalidExpression, InvalidValue
from floe.formats.arrow_types import arrow_type
from floe.spark.bridge.predicates import Call, Column, Conditions, Node, Value
from floe.spark.columns import SHOWN_AS_TEXT
from floe.spark.scan.functions import Terms
from floe.spark.scan.translated import NEITHER, UNKNOWN, Side, Translated, all_of, any_of, constant, opposite
from floe.spec.expressions.nodes import BoundPredicate, Expression, Op, and_, or_
from floe.spec.schemas.metadata_columns import FILE
from floe.spec.schemas.schema import Schema
from floe.spec.types import Type
from floe.spec.values.conversion import convert

__all__ = ["check_texts", "files_named", "filter_of", "translate"]

_COMPARISONS: Final = {
    "=": Op.EQ,
    "<>": Op.NOT_EQ,
    "<": Op.LT,
    "<=": Op.LT_EQ,
    ">": Op.GT,
    ">=": Op.GT_EQ,
    "STARTS_WITH": Op.STARTS_WITH,
}
_COMPARES_TEXTS: Final = frozenset({"=", "<>", "<", "<=", ">", ">=", "<=>", "IN"})


def translate(conditions: Conditions, schema: Schema) -> list[Translated]:
    """What the predicates mean, each by itself, bound to a schema.

    >>> from floe.spark.bridge.predicates import Cast, Column
    >>> from floe.spec.types import TIMESTAMP, Field
    >>> year = Call("EXTRACT YEAR", (Cast("date", Column(("at",))),))
    >>> (found,) = translate(
    ...     Conditions((Call("=", (year, Value("integer", 2024))),)), Schema((Field(1, "at", TIMESTAMP),))
    ... )
    >>> print(found.filter, found.exact)
    at >= TIMESTAMP_NTZ '2024-01-01 00:00:00' AND at < TIMESTAMP_NTZ '2025-01-01 00:00:00' True
    """
    terms = Terms(schema, case_sensitive=conditions.case_sensitive, time_zone=conditions.time_zone)
    return [_translated(tree, terms) for tree in conditions.trees]


def filter_of(conditions: Conditions, schema: Schema) -> Expression:
    """A filter for the rows that pass all predicates."""
    return and_(*(one.filter for one in translate(conditions, schema)))


def check_texts(conditions: Conditions, schema: Schema) -> None:
    """Raise if a column whose values Spark has as texts is compared with a text that is spelled otherwise.

    >>> from floe.spec.types import TIMESTAMP_NS, Field
    >>> later = Call("<", (Column(("n",)), Value("string", "1970-01-01T00:00")))
    >>> check_texts(Conditions((later,)), Schema((Field(1, "n", TIMESTAMP_NS),)))
    Traceback (most recent call last):
    floe.errors.InvalidExpression: n is compared with '1970-01-01T00:00': Spark has values of timestamp_ns as texts, and
    this is none of them (column: n); write '1970-01-01 00:00:00.000000000'
    """
    for tree in conditions.trees:
        _check_texts(tree, schema, case_sensitive=conditions.case_sensitive)


def _check_texts(tree: Node, schema: Schema, *, case_sensitive: bool) -> None:
    if not isinstance(tree, Call):
        return
    columns = [part.path for part in tree.arguments if isinstance(part, Column)]
    if tree.name in _COMPARES_TEXTS and len(columns) == 1 and schema.has(columns[0], case_sensitive=case_sensitive):
        field = schema.resolve(columns[0], case_sensitive=case_sensitive).field
        for part in tree.arguments if field.type.kind in SHOWN_AS_TEXT else ():
            if isinstance(part, Value) and isinstance(part.value, str):
                _check_text(".".join(columns[0]), field.type, part.value)
    for part in tree.arguments:
        _check_texts(part, schema, case_sensitive=case_sensitive)


def _check_text(column: str, type_: Type, text: str) -> None:
    try:
        value = pa.scalar(convert(type_, text), pa.int64()).cast(arrow_type(type_))
        shown = str(value.cast(pa.string()).as_py())
        hint = f"write {shown!r}"
    except (InvalidValue, pa.ArrowException):
        shown, hint = None, "cast the column to a type that Spark has, or compare it with a text as SELECT shows it"
    if shown != text:
        raise InvalidExpression(
            f"{column} is compared with {text!r}: Spark has values of {type_} as texts, and this is none of them",
            hint=hint,
            column=column,
        )


def files_named(tree: Node) -> frozenset[str] | None:
    """The files that `_file = …` and `_file IN (…)` let pass; None for other predicates."""
    match tree:
        case Call("=" | "IN"):
            (found,) = translate(Conditions((tree,), case_sensitive=True), Schema((FILE,)))
            if isinstance(found.filter, BoundPredicate) and found.filter.op in (Op.EQ, Op.IN):
                return frozenset(map(str, found.filter.literals))
    return None


def _translated(tree: Node, terms: Terms) -> Translated:
    match tree:
        case Value(value=None):
            return NEITHER
        case Value(value=bool(value)):
            return constant(value)
        case Call("AND", parts):
            return all_of(_translated(part, terms) for part in parts)
        case Call("OR", parts):
            return any_of(_translated(part, terms) for part in parts)
        case Call("NOT", (part,)):
            return opposite(_translated(part, terms))
        case Call("CASE_WHEN", parts):
            return _chosen([_translated(part, terms) for part in parts])
        case Call("COALESCE", (part, Value(value=bool(otherwise)))):
            found = _translated(part, terms)
            return Translated(Side(), found.failing) if otherwise else Translated(found.passing, Side())
        case Call(name, arguments):
            try:
                return _tested(name, arguments, terms)
            except (FloeError, ValueError):
                return UNKNOWN  # such as a value that the column's type does not have
        case _:
            return UNKNOWN


def _chosen(parts: Sequence[Translated]) -> Translated:
    """CASE: conditions, each with what is asked where it is true, and what is asked elsewhere, if that is said."""
    asked = [all_of([condition, then]).passing.filter for condition, then in zip(parts[::2], parts[1::2], strict=False)]
    refused = [
        all_of([condition, opposite(then)]).passing.filter
        for condition, then in zip(parts[::2], parts[1::2], strict=False)
    ]
    if len(parts) % 2:
        asked.append(parts[-1].passing.filter)
        refused.append(parts[-1].failing.filter)
    return Translated(Side(or_(*asked)), Side(or_(*refused)))


def _tested(name: str, arguments: tuple[Node, ...], terms: Terms) -> Translated:
    match name, arguments:
        case (("IS_NULL" | "IS_NOT_NULL"), (inner,)):
            term = terms.of(inner)
            if term is None:
                return UNKNOWN
            return term.is_null() if name == "IS_NULL" else opposite(term.is_null())
        case "IN", (inner, *listed):
            return _one_of(inner, listed, terms)
        case _, (Value() as value, inner) if name in _COMPARISONS and not isinstance(inner, Value):
            return _compared(_COMPARISONS[name].flipped, inner, value, terms)
        case _, (inner, Value() as value) if name in _COMPARISONS:
            return _compared(_COMPARISONS[name], inner, value, terms)
        case "<=>", (inner, Value() as value) | (Value() as value, inner):
            return _same(inner, value, terms)
        case _:
            return UNKNOWN


def _compared(op: Op, inner: Node, value: Value, terms: Terms) -> Translated:
    if value.value is None:
        return NEITHER
    term = terms.of(inner)
    return UNKNOWN if term is None else term.compared(op, value.value)


def _same(inner: Node, value: Value, terms: Terms) -> Translated:
    """Equal, where null is equal to null and to nothing else."""
    term = terms.of(inner)
    if term is None:
        return UNKNOWN
    if value.value is None:
        return term.is_null()
    equal = term.compared(Op.EQ, value.value)
    return Translated(equal.passing, all_of([equal, opposite(term.is_null())]).failing)


def _one_of(inner: Node, listed: Sequence[Node], terms: Terms) -> Translated:
    values = [one.value for one in listed if isinstance(one, Value)]
    term = terms.of(inner)
    if term is None or len(values) != len(listed):
        return UNKNOWN
    found = term.one_of([value for value in values if value is not None])
    # with a null in the list the test is never false, but unknown
    return Translated(found.passing, NEITHER.failing) if None in values else found
