"""Evaluates filters on columns of values, such as the partition values of many files.

| type | the values of a `Column` |
|---|---|
| boolean, int, long, date, time, timestamps | integers |
| float, double | floats |
| decimal | integers, the unscaled values, where they fit 64 bits; or `VarBytes` in big-endian two's complement |
| string, binary, uuid, fixed | `VarBytes` |

A value is a range with equal bounds, so the rules of `range_evaluation` apply, and their result is exact.

>>> from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Op
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, INT
>>> bucket = BoundReference(Schema((Field(1000, "id_bucket", INT),)).entry(1000))
>>> buckets = Column(np.array([3, 7, 0]), np.array([True, True, False]))
>>> evaluate(BoundPredicate(Op.NOT_EQ, bucket, (7,)), {1000: buckets}, 3).tolist()
[True, False, False]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floe.errors import CorruptFile, InvalidExpression
from floe.spec.expressions.nodes import BoundPredicate, BoundReference, BoundTransform, Expression, fold
from floe.spec.partitioning import columnar_transforms
from floe.spec.pruning.key_columns import (
    ByteKeys,
    FloatKeys,
    IntKeys,
    KeyColumn,
    decimal_words,
    keys_from_decimal_words,
)
from floe.spec.pruning.range_evaluation import Mask, PossibleValues, might_match
from floe.spec.pruning.ranges import FLOAT_KINDS, WIDE_DECIMAL_BYTES, RangePredicate, has_int_keys, literal_key
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.types import DecimalType, Type


@dataclass(frozen=True, eq=False, slots=True)
class Column:
    """Values of one type in the layout of the table above; `valid` is False for nulls, None if there are none."""

    values: NDArray[Any] | VarBytes
    valid: Mask | None = None

    @property
    def is_valid(self) -> Mask:
        """Which values are not null."""
        stored = self.values.is_valid if isinstance(self.values, VarBytes) else np.ones(len(self.values), np.bool_)
        return stored if self.valid is None else stored & self.valid


def make_column(type_: Type, values: Iterable[Any]) -> Column:
    """Make a column from Python values in the form of `floe.spec.values`; None is null.

    >>> from floe.spec.types import STRING
    >>> make_column(STRING, ["a", None]).is_valid.tolist()
    [True, False]
    """
    items = list(values)
    if isinstance(type_, DecimalType):
        wide = DecimalType(38, type_.scale)
        keys = [None if v is None else literal_key(wide, v) for v in items]
        flipped = (None if key is None else bytes([key[0] ^ 0x80]) + key[1:] for key in keys)  # type: ignore[index]
        return Column(VarBytes.of(flipped))
    if type_.kind in FLOAT_KINDS or has_int_keys(type_):
        dtype = np.float64 if type_.kind in FLOAT_KINDS else np.int64
        valid = np.array([v is not None for v in items], np.bool_)
        return Column(np.array([0 if v is None else v for v in items], dtype), valid)
    return Column(VarBytes.of([None if v is None else literal_key(type_, v) for v in items]))  # type: ignore[misc]


def evaluate(expression: Expression, columns: Mapping[int, Column], count: int) -> Mask:
    """Return for each of `count` rows whether it passes a bound filter; columns are by field id.

    >>> from floe.spec.expressions.nodes import TRUE
    >>> evaluate(TRUE, {}, 2).tolist()
    [True, True]
    """
    possible_by_id: dict[int, PossibleValues] = {}

    def leaf(predicate: BoundPredicate) -> Mask:
        term = predicate.term
        if isinstance(term, BoundReference):
            if term.field_id not in possible_by_id:
                possible_by_id[term.field_id] = _column_ranges(term.type, _column(term, columns))
            possible = possible_by_id[term.field_id]
        else:
            possible = _column_ranges(term.type, _transform_column(_column(term.ref, columns), term))
        return might_match(RangePredicate.for_predicate(predicate), possible)

    return fold(
        expression,
        constant=lambda value: np.full(count, value),
        predicate=leaf,
        all_of=lambda parts: reduce(np.logical_and, parts),
        any_of=lambda parts: reduce(np.logical_or, parts),
    )


def _column(reference: BoundReference, columns: Mapping[int, Column]) -> Column:
    try:
        return columns[reference.field_id]
    except KeyError:
        raise InvalidExpression(
            f"the filter uses {reference.entry.name!r}, which is not among the columns", column=reference.entry.name
        ) from None


def _column_ranges(type_: Type, column: Column) -> PossibleValues:
    is_valid = column.is_valid
    keys = _keys(type_, column, is_valid)
    nans = np.zeros(len(is_valid), np.bool_)
    if isinstance(keys, FloatKeys):
        nans = is_valid & np.isnan(keys.values)
    return PossibleValues(~is_valid, nans, is_valid & ~nans, keys, keys)


def _keys(type_: Type, column: Column, is_valid: Mask) -> KeyColumn:
    values = column.values
    if isinstance(type_, DecimalType):
        high, low, readable = _decimal_words(values)
        if not readable[is_valid].all():
            raise CorruptFile(f"a value of type {type_} has at most {WIDE_DECIMAL_BYTES} bytes")
        return keys_from_decimal_words(type_, high, low, is_valid)
    if isinstance(values, VarBytes):
        return ByteKeys(values, is_valid)
    if type_.kind in FLOAT_KINDS:
        return FloatKeys(values.astype(np.float64, copy=False), is_valid)
    return IntKeys(values.astype(np.int64, copy=False), is_valid)


def _decimal_words(values: NDArray[Any] | VarBytes) -> tuple[NDArray[np.int64], NDArray[np.uint64], Mask]:
    if isinstance(values, VarBytes):
        return decimal_words(values)
    low = values.astype(np.int64, copy=False)
    return low >> 63, low.view(np.uint64), np.ones(len(low), np.bool_)


def _transform_column(column: Column, term: BoundTransform) -> Column:
    """The column of a transform's results, computed in the layouts of `columnar_transforms`."""
    source, is_valid, values = term.ref.type, column.is_valid, column.values
    if isinstance(source, DecimalType):
        high, low, _ = _decimal_words(values)
        values = np.stack([low.view(np.int64), high], axis=1)
    elif isinstance(values, VarBytes):
        rows = np.flatnonzero(is_valid)
        data, offsets = VarBytes(values.data, values.starts, np.where(is_valid, values.lengths, -1)).packed()
        if source.kind in ("string", "binary"):
            return _from_layout(
                *columnar_transforms.apply(term.transform, source, (data, offsets), is_valid), term, is_valid
            )
        width = 16 if source.kind == "uuid" else int(values.lengths[rows].max(initial=0))
        matrix = np.zeros((len(is_valid), width), np.uint8)
        matrix[rows] = data.reshape(len(rows), width)
        values = matrix
    else:
        values = np.where(is_valid, values, values.dtype.type(0))
    return _from_layout(*columnar_transforms.apply(term.transform, source, values, is_valid), term, is_valid)


def _from_layout(
    values: columnar_transforms.Column, valid: columnar_transforms.Valid, term: BoundTransform, is_valid: Mask
) -> Column:
    valid = is_valid if valid is None else valid
    if isinstance(values, tuple):
        return Column(VarBytes.from_offsets(values[0], values[1]), valid)
    if values.ndim == 1:
        return Column(values, valid)
    if isinstance(term.type, DecimalType):
        return Column(VarBytes.from_words([values[:, 1].view(np.uint64), values[:, 0].view(np.uint64)], valid))
    return Column(VarBytes.of([row.tobytes() for row in values]), valid)
