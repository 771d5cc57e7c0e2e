"""Spark's predicates as filters: for leaving out files, so a filter may let more rows pass than the predicate does.

A part of a predicate that is not understood is left out where that only lets more rows pass (of an AND), and takes the
whole with it elsewhere. Whether a filter says exactly what the predicate says is known too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from floe.errors import FloeError
from floe.spark.bridge.jvm import Jvm
from floe.spark.columns import ONLY_READ
from floe.spec.expressions.binding import bind_predicate
from floe.spec.expressions.nodes import (
    FALSE,
    TRUE,
    BoundPredicate,
    BoundReference,
    BoundTerm,
    BoundTransform,
    Expression,
    Op,
    and_,
    not_,
    or_,
)
from floe.spec.expressions.printing import literal_to_text
from floe.spec.partitioning.transforms import DAY
from floe.spec.schemas.metadata_columns import FILE
from floe.spec.schemas.schema import Schema
from floe.spec.types import Type

__all__ = ["Translated", "files_named", "translate"]

_COMPARISONS: Final = {
    "=": Op.EQ,
    "<>": Op.NOT_EQ,
    "<": Op.LT,
    "<=": Op.LT_EQ,
    ">": Op.GT,
    ">=": Op.GT_EQ,
}
_MANY: Final = 24
"""A list with more values is fetched as text, in one call."""


@dataclass(frozen=True, slots=True)
class Translated:
    """What is known of a predicate."""

    filter: Expression = TRUE
    exact: bool = False
    """Whether the filter lets just the same rows pass."""

    negatable: bool = True
    """Whether the same holds for the opposites of both: not where one is unknown and the other is false."""


UNKNOWN_PREDICATE: Final = Translated()


def translate(jvm: Jvm, predicate: Any, schema: Schema, *, case_sensitive: bool) -> Translated:
    """The filter that a predicate means, bound to a schema."""
    return _Translator(jvm, schema, case_sensitive).predicate(predicate)


def files_named(jvm: Jvm, predicate: Any) -> frozenset[str] | None:
    """The files that `_file = …` and `_file IN (…)` let pass; None for other predicates."""
    if predicate.name() not in ("=", "IN"):
        return None
    found = translate(jvm, predicate, Schema((FILE,)), case_sensitive=True).filter
    if isinstance(found, BoundPredicate) and found.op in (Op.EQ, Op.IN):
        return frozenset(map(str, found.literals))
    return None


class _Translator:
    def __init__(self, jvm: Jvm, schema: Schema, case_sensitive: bool) -> None:
        self._jvm = jvm
        self._schema = schema
        self._case_sensitive = case_sensitive

    def predicate(self, found: Any) -> Translated:
        kind = self._jvm.simple_name(found)
        match kind:
            case "AlwaysTrue":
                return Translated(TRUE, exact=True)
            case "AlwaysFalse":
                return Translated(FALSE, exact=True)
            case "And" | "Or" | "Not" | "Predicate":
                return self._named(found.name(), found)
            case _:
                return UNKNOWN_PREDICATE

    def _named(self, name: str, found: Any) -> Translated:
        match name:
            case "AND":
                return _joined(and_, [self.predicate(child) for child in found.children()])
            case "OR":
                return _joined(or_, [self.predicate(child) for child in found.children()])
            case "NOT":
                (child,) = (self.predicate(child) for child in found.children())
                if not child.exact or not child.negatable:
                    return UNKNOWN_PREDICATE
                return Translated(not_(child.filter), exact=True)
        try:
            return self._test(name, found)
        except (FloeError, ValueError):
            return UNKNOWN_PREDICATE  # such as a value that the column's type does not have

    def _test(self, name: str, found: Any) -> Translated:
        children = found.children()
        if name == "IN":
            return self._in(found, children)
        left, right = children[0], children[1] if len(children) > 1 else None
        if name in ("IS_NULL", "IS_NOT_NULL"):
            term = self._term(left)
            if not isinstance(term, BoundReference):
                return UNKNOWN_PREDICATE
            return Translated(bind_predicate(Op.IS_NULL if name == "IS_NULL" else Op.NOT_NULL, term), exact=True)
        op = _COMPARISONS.get(name)
        if op is not None and self._is_literal(left):
            left, right, op = right, left, op.flipped
        if right is None or not self._is_literal(right):
            return UNKNOWN_PREDICATE
        term = self._term(left)
        if term is None:
            return UNKNOWN_PREDICATE
        value = right.value()
        if name == "<=>":
            if not isinstance(term, BoundReference):
                return UNKNOWN_PREDICATE
            if value is None:
                return Translated(bind_predicate(Op.IS_NULL, term), exact=True)
            equal = self._compared(Op.EQ, term, value).filter
            return Translated(equal, exact=True, negatable=False)  # of null, one is false and the other unknown
        if name == "STARTS_WITH":
            op = Op.STARTS_WITH
        if op is None or value is None:
            return UNKNOWN_PREDICATE
        return self._compared(op, term, value)

    def _compared(self, op: Op, term: BoundTerm, value: Any) -> Translated:
        """A comparison. To Spark NaN is equal to itself and above all numbers; to Iceberg it is neither."""
        if term.type.kind not in ("float", "double"):
            return Translated(bind_predicate(op, term, (self._literal(term, value),)), exact=True)
        is_nan = bind_predicate(Op.IS_NAN, term)
        if math.isnan(value):
            return Translated(is_nan, exact=True, negatable=False) if op in (Op.EQ, Op.GT_EQ) else UNKNOWN_PREDICATE
        number = bind_predicate(op, term, (self._literal(term, value),))
        if op in (Op.GT, Op.GT_EQ):
            return Translated(or_(number, is_nan), exact=True)
        return Translated(number, exact=True, negatable=op not in (Op.LT, Op.LT_EQ))

    def _in(self, found: Any, children: Any) -> Translated:
        term = self._term(children[0])
        if not isinstance(term, BoundReference):
            return UNKNOWN_PREDICATE
        count = len(children) - 1
        if count > _MANY:
            values = _listed_values(str(found.toString()), term.type, count)
            if values is None:
                return UNKNOWN_PREDICATE
        else:
            if not all(self._is_literal(children[place]) for place in range(1, count + 1)):
                return UNKNOWN_PREDICATE
            values = [children[place].value() for place in range(1, count + 1)]
        known = [value for value in values if value is not None]
        if any(isinstance(value, float) and math.isnan(value) for value in known):
            return UNKNOWN_PREDICATE
        literals = tuple(self._literal(term, value) for value in known)
        # with a null in the list the test is never false, but unknown
        return Translated(bind_predicate(Op.IN, term, literals), exact=True, negatable=len(known) == len(values))

    def _is_literal(self, found: Any) -> bool:
        return self._jvm.simple_name(found) == "LiteralValue"

    def _term(self, found: Any) -> BoundTerm | None:
        kind = self._jvm.simple_name(found)
        if kind == "FieldReference":
            path = self._jvm.read_strings(found.fieldNames())
            if not self._schema.has(path, case_sensitive=self._case_sensitive):
                return None
            entry = self._schema.resolve(path, case_sensitive=self._case_sensitive)
            is_shown_otherwise = entry.field.type.kind in ONLY_READ
            return None if entry.in_collection or is_shown_otherwise else BoundReference(entry)
        if kind == "Cast" and found.dataType().simpleString() == "date":
            inner = self._term(found.expression())
            if isinstance(inner, BoundReference) and self._has_the_days_of_utc(inner.type):
                return BoundTransform(DAY, inner, DAY.result_type(inner.type))
        return None

    def _has_the_days_of_utc(self, type_: Type) -> bool:
        """Whether the date of a timestamp is its day: always without a time zone, and in UTC."""
        if type_.kind == "timestamp":
            return True
        return type_.kind == "timestamptz" and self._jvm.setting("spark.sql.session.timeZone") in ("UTC", "Etc/UTC")

    def _literal(self, term: BoundTerm, value: Any) -> Any:
        """A value of Spark's rows as a person would write it."""
        kind = term.type.kind
        if isinstance(term, BoundTransform) or kind in ("date", "timestamp", "timestamptz"):
            type_ = term.type
            return literal_to_text(int(value), type_).partition("'")[2].rpartition("'")[0]
        if kind == "decimal":
            return Decimal(str(value))
        if kind in ("string", "uuid"):
            return str(value)
        if kind in ("binary", "fixed"):
            return bytes(value)
        return value


def _joined(join: Callable[..., Expression], parts: Sequence[Translated]) -> Translated:
    return Translated(
        join(*(part.filter for part in parts)),
        all(part.exact for part in parts),
        all(part.negatable for part in parts),
    )


def _listed_values(text: str, type_: Type, count: int) -> list[Any] | None:
    """The values of the text of an IN, as Spark's rows have them; None if they cannot be told apart for sure."""
    inside = text[text.index("(") + 1 : text.rindex(")")]
    if type_.kind in ("string", "uuid"):
        found: Sequence[Any] = [quoted.replace("''", "'") for quoted in re.findall(r"'((?:[^']|'')*)'", inside)]
        if "null" in re.sub(r"'(?:[^']|'')*'", "", inside).lower():
            return None
    elif type_.kind in ("int", "long", "date", "timestamp", "timestamptz"):
        parts = [part.strip() for part in inside.split(",")]
        if not all(re.fullmatch(r"-?\d+", part) for part in parts):
            return None
        found = [int(part) for part in parts]
    else:
        return None
    return list(found) if len(found) == count else None
