"""Compiled values, the rows that they are evaluated on, and the declaration of functions.

`Compiled` is a SQL value with its type; `array` evaluates it on `Rows`. `Site` is the call that is being compiled: it
builds compiled values from others, and raises errors that point to the position of the call in the text. `Function`
declares a function of SQL with the number of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.arrow.values.casts import can_cast, cast_array
from floe.errors import FloeError, InvalidExpression
from floe.formats.columns.arrays import to_values
from floe.spec.types import Type
from floe.sql.values import Literal, Node

Column = tuple[str, tuple[str, ...]]
"""A relation of the statement, and the path of a column, or of a field in its structs."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """The rows of a statement: one batch for each relation, all of the same length.

    >>> rows = Rows.of(t=pa.record_batch({"a": [1, 2, 3]}))
    >>> rows.filter(np.array([True, False, True])).relations["t"].num_rows
    2
    """

    count: int
    relations: Mapping[str, pa.RecordBatch]

    @classmethod
    def of(cls, **relations: pa.RecordBatch) -> Rows:
        """The rows of some batches, which are named after their relations."""
        return cls(next(iter(relations.values())).num_rows, relations)

    def filter(self, keep: Mask) -> Rows:
        """The rows where a mask is true."""
        if keep.all():
            return self
        return self.take(np.flatnonzero(keep))

    def take(self, indexes: NDArray[np.int64]) -> Rows:
        """The rows at some indexes."""
        index_array = pa.array(indexes)
        return Rows(len(indexes), {name: batch.take(index_array) for name, batch in self.relations.items()})


@dataclass(frozen=True, eq=False)
class Compiled:
    """A type-checked SQL value; `array` evaluates it on some rows."""

    type: Type
    array: Callable[[Rows], pa.Array]
    node: Node
    columns: frozenset[Column] = frozenset()
    """The columns that it reads."""

    inputs: tuple[Compiled, ...] = field(default=(), repr=False)
    """The values that it is computed from, casts included."""

    @property
    def is_constant(self) -> bool:
        """Whether the value is the same for all rows."""
        return not self.columns

    def constant(self) -> Any:
        """The value of a constant, in the form of `floe.spec.values`."""
        (value,) = to_values(self.type, self.array(Rows(1, {})))
        return value

    def mask(self, rows: Rows) -> Mask:
        """The rows for which a condition is true; null counts as false."""
        return true_mask(self.array(rows))

    def uses(self, relation: str) -> bool:
        """Whether the value reads a column of a relation."""
        return any(name == relation for name, _ in self.columns)


def true_mask(array: pa.Array) -> Mask:
    """The mask of a boolean array; null counts as false.

    >>> true_mask(pa.array([True, None, False])).tolist()
    [True, False, False]
    """
    return np.asarray(pc.fill_null(array, False).to_numpy(zero_copy_only=False), np.bool_)


@dataclass(frozen=True)
class Site:
    """A call that is being compiled: builds compiled values, and raises errors that point to the call in the text."""

    name: str
    node: Node
    text: str | None
    now_us: int

    def fail(self, message: str, hint: str | None = None, at: int | None = None) -> NoReturn:
        """Raise an `InvalidExpression` that points to the call, or to another offset of the text."""
        offset = self.node.at if at is None else at
        has_offset = self.text is not None and offset >= 0
        raise InvalidExpression(message, text=self.text, position=offset if has_offset else None, hint=hint)

    def mismatch(self, values: Sequence[Compiled], expected: str) -> NoReturn:
        """Raise an `InvalidExpression` for arguments of unsupported types."""
        types = " and ".join(str(value.type) for value in values) or "nothing"
        self.fail(f"{self.name} takes {expected}, found {types}")

    def cast(self, value: Compiled, target: Type) -> Compiled:
        """Cast a value to another type; raises `InvalidExpression` if the types cannot be cast."""
        if value.type == target:
            return value
        if not can_cast(value.type, target):
            self.fail(f"a value of type {value.type} cannot be used as {target}", at=value.node.at)
        source = value.type
        value_site = replace(self, node=value.node)
        return value_site.eager(target, [value], lambda array: cast_array(array, source, target))

    def eager(
        self,
        type_: Type,
        values: Sequence[Compiled],
        kernel: Callable[..., pa.Array],
    ) -> Compiled:
        """A value that a kernel computes from the arrays of others, or from the number of rows if there are none."""

        def array(rows: Rows) -> pa.Array:
            inputs = [value.array(rows) for value in values]
            arguments = inputs or [rows.count]
            try:
                return kernel(*arguments)
            except pa.ArrowException as error:
                self.fail(_arrow_message(error, type_))
            except InvalidExpression:
                raise
            except FloeError as error:
                self.fail(error.message, error.hint)

        return self.lazy(type_, values, array)

    def lazy(self, type_: Type, values: Iterable[Compiled], array: Callable[[Rows], pa.Array]) -> Compiled:
        """A value whose `array` evaluates others itself, and only on the rows that need them."""
        inputs = tuple(values)
        columns = frozenset[Column]().union(*(value.columns for value in inputs))
        return Compiled(type_, array, self.node, columns, inputs)

    def constant_of(self, value: Compiled, expected: str) -> Any:
        """The value of an argument that must be the same for all rows; raises `InvalidExpression` if it is not."""
        if not value.is_constant:
            self.fail(f"{self.name} takes {expected} that is the same for all rows", at=value.node.at)
        return value.constant()


def _arrow_message(error: pa.ArrowException, type_: Type) -> str:
    text = str(error).split("\n", 1)[0]
    if "overflow" in text.lower() or "does not fit" in text:
        return f"overflow: a result does not fit {type_}"
    if "divide by zero" in text.lower():
        return "division by zero"
    return text[:200]


CallCompiler = Callable[[Site, Sequence[Compiled]], Compiled]
"""Compiles a call from its compiled arguments."""


def literal_of(value: Compiled) -> Literal | None:
    """The literal of a value that is written as one; else None."""
    return value.node if isinstance(value.node, Literal) and value.is_constant and not value.inputs else None


# Functions ------------------------------------------------------------------------------------------------------------

ANY = 1_000_000
"""No limit for the number of arguments."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of SQL, with the minimum and maximum number of its arguments."""

    compile_call: CallCompiler
    min_arguments: int
    max_arguments: int


def function(compile_call: CallCompiler, min_arguments: int, max_arguments: int | None = None) -> Function:
    """A function with a number of arguments, or with a minimum and a maximum."""
    return Function(compile_call, min_arguments, min_arguments if max_arguments is None else max_arguments)


def typed_function(result: Type, kernel: Callable[..., pa.Array], *types: Type, optional: int = 0) -> Function:
    """A function whose arguments are cast to fixed types, and whose kernel computes the result from their arrays.

    The last `optional` arguments may be missing; the kernel has defaults for them.
    """

    def compile_call(site: Site, values: Sequence[Compiled]) -> Compiled:
        arguments = [site.cast(value, type_) for value, type_ in zip(values, types, strict=False)]
        return site.eager(result, arguments, kernel)

    return Function(compile_call, len(types) - optional, len(types))
