"""Filters in Python: `(col("amount") > 10) & col("customer").is_not_null()`.

Combine filters with `&`, `|` and `~`, each comparison in parentheses. Names are dotted (`col("who.name")`); if a name
has a dot in it, pass the path: `col("who", "full.name")`. As in SQL, no comparison is true for null.

>>> print((col("amount") > 10) & col("customer").is_not_null())
amount > 10 AND customer IS NOT NULL
>>> print(col("ts").day() == "2024-05-17")
days(ts) = '2024-05-17'
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from floe.errors import InvalidExpression
from floe.spec.expressions.expression_text import term_to_text
from floe.spec.expressions.literals import calendar_count, to_python_value
from floe.spec.expressions.nodes import FALSE, TRUE, Expression, Op, Predicate, Reference, Term, TransformTerm, and_
from floe.spec.partitioning.transforms import DAY, HOUR, MONTH, YEAR, Bucket, TimeTransform, Transform, Truncate


def col(name: str, *path: str) -> Column:
    """A column by its dotted name, or by the names on the path to it.

    >>> print(col("who.name") == "Ann")
    who.name = 'Ann'
    >>> print(col("who", "full.name").is_null())
    who.`full.name` IS NULL
    """
    parts = (name, *path)
    for part in parts:
        if not isinstance(part, str) or not part:
            raise InvalidExpression(f"a column's name is text, found {part!r}", hint='write it as col("name")')
    return Column(Reference(parts if path else name))


class Column:
    """A column, or a transform of one, with methods that return filters; created by `col`."""

    __slots__ = ("_term",)

    def __init__(self, term: Term) -> None:
        self._term = term

    @property
    def term(self) -> Term:
        """The column, or the transform of one, that filters are made from."""
        return self._term

    # Comparisons --------------------------------------------------------------------------------------------------

    def __lt__(self, other: Any) -> Expression:
        return self._compare(Op.LT, other)

    def __le__(self, other: Any) -> Expression:
        return self._compare(Op.LT_EQ, other)

    def __gt__(self, other: Any) -> Expression:
        return self._compare(Op.GT, other)

    def __ge__(self, other: Any) -> Expression:
        return self._compare(Op.GT_EQ, other)

    def __eq__(self, other: Any) -> Expression:  # type: ignore[override]
        return self._compare(Op.EQ, other)

    def __ne__(self, other: Any) -> Expression:  # type: ignore[override]
        return self._compare(Op.NOT_EQ, other)

    __hash__ = None  # type: ignore[assignment]  # == returns a filter

    def between(self, low: Any, high: Any) -> Expression:
        """A filter for values of at least `low` and at most `high`.

        >>> print(col("a").between(1, 5))
        a >= 1 AND a <= 5
        """
        return and_(self._compare(Op.GT_EQ, low), self._compare(Op.LT_EQ, high))

    def is_in(self, values: Iterable[Any]) -> Expression:
        """A filter for values equal to one of `values`; false if there are none.

        >>> print(col("a").is_in([1, 2]))
        a IN (1, 2)
        """
        literals = self._literals(values)
        return Predicate(Op.IN, self._term, literals) if literals else FALSE

    def not_in(self, values: Iterable[Any]) -> Expression:
        """A filter for values that are neither null nor equal to one of `values`; true if there are none.

        >>> print(col("a").not_in([1, 2]))
        a NOT IN (1, 2)
        """
        literals = self._literals(values)
        return Predicate(Op.NOT_IN, self._term, literals) if literals else TRUE

    # Other predicates ---------------------------------------------------------------------------------------------

    def is_null(self) -> Expression:
        """A filter for nulls.

        >>> print(col("a").is_null())
        a IS NULL
        """
        return Predicate(Op.IS_NULL, self._term)

    def is_not_null(self) -> Expression:
        """A filter for values other than null.

        >>> print(col("a").is_not_null())
        a IS NOT NULL
        """
        return Predicate(Op.NOT_NULL, self._term)

    def is_nan(self) -> Expression:
        """A filter for NaN.

        >>> print(col("a").is_nan())
        isnan(a)
        """
        return Predicate(Op.IS_NAN, self._term)

    def is_not_nan(self) -> Expression:
        """A filter for values that are neither NaN nor null.

        >>> print(col("a").is_not_nan())
        NOT isnan(a)
        """
        return Predicate(Op.NOT_NAN, self._term)

    def starts_with(self, prefix: str) -> Expression:
        """A filter for strings with a prefix.

        >>> print(col("a").starts_with("ice"))
        a LIKE 'ice%'
        """
        return self._compare(Op.STARTS_WITH, _text(prefix))

    def not_starts_with(self, prefix: str) -> Expression:
        """A filter for strings without a prefix; null does not pass.

        >>> print(col("a").not_starts_with("ice"))
        a NOT LIKE 'ice%'
        """
        return self._compare(Op.NOT_STARTS_WITH, _text(prefix))

    # Transforms ---------------------------------------------------------------------------------------------------

    def bucket(self, n: int) -> Column:
        """The bucket of the value, of `n` buckets.

        >>> print(col("id").bucket(16) == 3)
        bucket(16, id) = 3
        """
        return self._transform(Bucket(n))

    def truncate(self, width: int) -> Column:
        """The value truncated to a width: strings to their first characters, numbers down to a multiple.

        >>> print(col("name").truncate(2) == "Al")
        truncate(2, name) = 'Al'
        """
        return self._transform(Truncate(width))

    def year(self) -> Column:
        """The year of a date or timestamp (in UTC); compare it with a year such as 2024.

        >>> print(col("ts").year() >= 2024)
        years(ts) >= 54
        """
        return self._transform(YEAR)

    def month(self) -> Column:
        """The month of a date or timestamp; compare it with text such as `2024-05`, or a date.

        >>> print(col("ts").month() == "2024-05")
        months(ts) = '2024-05'
        """
        return self._transform(MONTH)

    def day(self) -> Column:
        """The day of a date or timestamp; compare it with text such as `2024-05-17`, or a date.

        >>> print(col("ts").day() == "2024-05-17")
        days(ts) = '2024-05-17'
        """
        return self._transform(DAY)

    def hour(self) -> Column:
        """The hour of a timestamp; compare it with text such as `2024-05-17-10`, or a datetime.

        >>> print(col("ts").hour() < "2024-05-17-10")
        hours(ts) < '2024-05-17-10'
        """
        return self._transform(HOUR)

    # Implementation -----------------------------------------------------------------------------------------------

    def _transform(self, transform: Transform) -> Column:
        if isinstance(self._term, TransformTerm):
            raise InvalidExpression(f"{self} is transformed already", hint="apply one transform to a plain column")
        return Column(TransformTerm(transform, self._term))

    def _compare(self, op: Op, other: Any) -> Expression:
        return Predicate(op, self._term, (self._literal(other),))

    def _literals(self, values: Iterable[Any]) -> tuple[Any, ...]:
        if isinstance(values, str | bytes | bytearray) or not isinstance(values, Iterable):
            raise InvalidExpression(f"{self} needs a list of values, found {values!r}", hint="put the value in [ ]")
        return tuple(map(self._literal, values))

    def _literal(self, other: Any) -> Any:
        if other is None:
            raise InvalidExpression(
                f"{self} compared with None is never true", hint="use is_null() or is_not_null() to find nulls"
            )
        if isinstance(other, Column):
            raise InvalidExpression(
                f"{self} cannot be compared with {other}: a filter compares a column with values, not with a column"
            )
        if isinstance(other, Expression | list | tuple | set | dict):
            raise InvalidExpression(
                f"{self} cannot be compared with {other!s}",
                hint="put each comparison in parentheses, and use is_in() for a list of values",
            )
        term = self._term
        if isinstance(term, TransformTerm) and isinstance(term.transform, TimeTransform):
            return calendar_count(term.transform, other)
        return to_python_value(other)

    def _not_a_filter(self, *_: Any) -> NoReturn:
        raise InvalidExpression(
            f"{self} is a column, not a filter",
            hint=f"put each comparison in parentheses; for a true-or-false column write ({self} == True)",
        )

    __and__ = __rand__ = __or__ = __ror__ = __invert__ = _not_a_filter

    def _no_arithmetic(self, *_: Any) -> NoReturn:
        raise InvalidExpression(
            f"a filter cannot compute with {self}", hint="compare the column itself, and compute on the other side"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _no_arithmetic
    __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __neg__ = __pow__ = _no_arithmetic

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self} has no truth value; compare it with a value")

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self} cannot be iterated; a filter is made by comparing it with values")

    def __contains__(self, _: object) -> NoReturn:
        raise TypeError(f"`in` does not work with {self}; use is_in() or starts_with()")

    def __repr__(self) -> str:
        return f"<column {term_to_text(self._term)}>"

    def __str__(self) -> str:
        return term_to_text(self._term)


def _text(prefix: Any) -> str:
    if not isinstance(prefix, str):
        raise InvalidExpression(f"a prefix is text, found {prefix!r}")
    return prefix
