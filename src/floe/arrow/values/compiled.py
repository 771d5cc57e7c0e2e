"""What a compiled value is, the rows that it is asked for, and the place in the text where a function was called.

A function with the number of arguments that it takes, and helpers to declare many that are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.arrow.values.casts import cast_array
from floe.arrow.values.coercion import can_cast
from floe.errors import FloeError, InvalidExpression
from floe.formats.arrow_arrays import to_values
from floe.spec.types import Type
from floe.sql.values import Literal, Node

Column = tuple[str, tuple[str, ...]]
"""A relation of the statement, and the path to a column or field of it."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """Some rows, with a batch of equal length for each relation of the statement.

    >>> rows = Rows.of(t=pa.record_batch({"a": [1, 2, 3]}))
    >>> rows.filter(np.array([True, False, True])).relations["t"].num_rows
    2
    """

    count: int
    relations: Mapping[str, pa.RecordBatch]

    @classmethod
    def of(cls, **relations: pa.RecordBatch) -> Rows:
        """The rows of some batches, by the names of their relations."""
        return cls(next(iter(relations.values())).num_rows, relations)

    def filter(self, keep: Mask) -> Rows:
        """Some of the rows."""
        if keep.all():
            return self
        return self.take(np.flatnonzero(keep))

    def take(self, places: NDArray[np.int64]) -> Rows:
        """The rows at some places."""
        chosen = pa.array(places)
        return Rows(len(places), {name: batch.take(chosen) for name, batch in self.relations.items()})


@dataclass(frozen=True, eq=False)
class Compiled:
    """A value that is known to be possible, with its type; `array` makes a column of it for some rows."""

    type: Type
    array: Callable[[Rows], pa.Array]
    node: Node
    columns: frozenset[Column] = frozenset()
    """What it reads."""

    inputs: tuple[Compiled, ...] = field(default=(), repr=False)
    """What it is made of, casts included."""

    @property
    def is_constant(self) -> bool:
        """Whether it is the same for all rows."""
        return not self.columns

    def constant(self) -> Any:
        """The value that a constant has in all rows, in the form of `floe.spec.values`."""
        (found,) = to_values(self.type, self.array(Rows(1, {})))
        return found

    def mask(self, rows: Rows) -> Mask:
        """For a condition: in which rows it is true; where it is unknown it is not."""
        return masked(self.array(rows))

    def uses(self, relation: str) -> bool:
        """Whether it reads a column of a relation."""
        return any(name == relation for name, _ in self.columns)


def masked(array: pa.Array) -> Mask:
    """Where a boolean array is true.

    >>> masked(pa.array([True, None, False])).tolist()
    [True, False, False]
    """
    return np.asarray(pc.fill_null(array, False).to_numpy(zero_copy_only=False), np.bool_)


@dataclass(frozen=True)
class Site:
    """Where a function is called: it makes errors that point there, and values that know it."""

    name: str
    node: Node
    text: str | None
    now_us: int

    def fail(self, message: str, hint: str | None = None, at: int | None = None) -> NoReturn:
        """Raise an error that points at the call, or at another place."""
        place = self.node.at if at is None else at
        pointing = self.text is not None and place >= 0
        raise InvalidExpression(message, text=self.text, position=place if pointing else None, hint=hint)

    def mismatch(self, values: Sequence[Compiled], wants: str) -> NoReturn:
        """Raise for arguments of types that the function does not take."""
        found = " and ".join(str(value.type) for value in values) or "nothing"
        self.fail(f"{self.name} takes {wants}, found {found}")

    def cast(self, value: Compiled, target: Type) -> Compiled:
        """The value in another type; a type that it cannot be turned into is an error."""
        if value.type == target:
            return value
        if not can_cast(value.type, target):
            self.fail(f"a value of type {value.type} cannot be used as {target}", at=value.node.at)
        source = value.type
        there = replace(self, node=value.node)
        return there.eager(target, [value], lambda array: cast_array(array, source, target))

    def eager(
        self,
        type_: Type,
        values: Sequence[Compiled],
        kernel: Callable[..., pa.Array],
    ) -> Compiled:
        """A value made of the columns of others."""

        def array(rows: Rows) -> pa.Array:
            inputs = [value.array(rows) for value in values]
            with_rows = inputs or [rows.count]
            try:
                return kernel(*with_rows)
            except pa.ArrowException as error:
                self.fail(_problem(error, type_))
            except InvalidExpression:
                raise
            except FloeError as error:
                self.fail(error.message, error.hint)

        return self.lazy(type_, values, array)

    def lazy(self, type_: Type, values: Iterable[Compiled], array: Callable[[Rows], pa.Array]) -> Compiled:
        """A value that asks others only for the rows that it needs them for."""
        inputs = tuple(values)
        columns = frozenset[Column]().union(*(value.columns for value in inputs))
        return Compiled(type_, array, self.node, columns, inputs)

    def constant_of(self, value: Compiled, what: str) -> Any:
        """The value of an argument that has to be the same for all rows."""
        if not value.is_constant:
            self.fail(f"{self.name} takes {what} that is the same for all rows", at=value.node.at)
        return value.constant()


def _problem(error: pa.ArrowException, type_: Type) -> str:
    text = str(error).split("\n", 1)[0]
    if "overflow" in text.lower() or "does not fit" in text:
        return f"overflow: a result does not fit {type_}"
    if "divide by zero" in text.lower():
        return "division by zero"
    return text[:200]


Function = Callable[[Site, Sequence[Compiled]], Compiled]
"""Makes a value of a call from its arguments."""


def literal_of(value: Compiled) -> Literal | None:
    """The literal that a value was written as, if it was."""
    return value.node if isinstance(value.node, Literal) and value.is_constant and not value.inputs else None


# A function with the number of arguments that it takes, and helpers to declare many that are alike.

ANY = 1_000_000
"""As many arguments as one likes."""


@dataclass(frozen=True, slots=True)
class Known:
    """A function, and the least and largest number of its arguments."""

    make: Function
    least: int
    most: int


def known(make: Function, least: int, most: int | None = None) -> Known:
    """A function of so many arguments."""
    return Known(make, least, least if most is None else most)


def plain(result: Type, kernel: Callable[..., pa.Array], *types: Type, optional: int = 0) -> Known:
    """A function whose arguments are cast to fixed types, and whose kernel does the rest.

    The last `optional` arguments may be left out, and the kernel has defaults for them.
    """

    def make(site: Site, values: Sequence[Compiled]) -> Compiled:
        given = [site.cast(value, type_) for value, type_ in zip(values, types, strict=False)]
        return site.eager(result, given, kernel)

    return Known(make, len(types) - optional, len(types))
