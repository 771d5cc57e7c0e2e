"""Filters on Arrow data: as a mask of rows, as the matching rows, or as an Arrow expression.

The semantics are those of `floe.spec.expressions`, which differ from Arrow's in three points: NaN equals itself and is
greater than every other number, `-0.0` and `0.0` are equal in `IN` too, and a field of a null struct is null.

>>> import pyarrow as pa
>>> from floe.spec.expressions.binder import bind
>>> from floe.spec.expressions.dsl import col
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import DOUBLE, Field
>>> schema = Schema((Field(1, "x", DOUBLE),))
>>> batch = pa.record_batch({"x": [1.0, 7.0, float("nan"), None]})
>>> filter_mask(bind(col("x") > 5, schema), batch).to_pylist()
[False, True, True, False]
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from floe.errors import InvalidValue, NoSuchColumn, UnsupportedFeature
from floe.formats.columns import transforms
from floe.spec.expressions.nodes import BoundPredicate, BoundReference, BoundTerm, Expression, Op, fold
from floe.spec.expressions.row_evaluation import value_test
from floe.spec.types import DOUBLE, DecimalType, FixedType, Type

_CANONICAL_TYPES: dict[str, tuple[pa.DataType, ...]] = {
    "boolean": (pa.bool_(),),
    "int": (pa.int32(),),
    "long": (pa.int64(),),
    "float": (pa.float32(),),
    "double": (pa.float64(),),
    "date": (pa.date32(),),
    "time": (pa.time64("us"),),
    "timestamp": (pa.timestamp("us"),),
    "timestamptz": (pa.timestamp("us", "UTC"),),
    "timestamp_ns": (pa.timestamp("ns"),),
    "timestamptz_ns": (pa.timestamp("ns", "UTC"),),
    "uuid": (pa.binary(16),),
    "string": (pa.string(), pa.large_string()),
    "binary": (pa.binary(), pa.large_binary()),
}
"""The Arrow types in which values are compared, by kind of type; arrays of other types are cast to the last."""

_COMPARISONS = {
    Op.LT: pc.less,
    Op.LT_EQ: pc.less_equal,
    Op.GT: pc.greater,
    Op.GT_EQ: pc.greater_equal,
    Op.EQ: pc.equal,
    Op.NOT_EQ: pc.not_equal,
}


# Masks ----------------------------------------------------------------------------------------------------------------


def filter_mask(expression: Expression, data: pa.RecordBatch | pa.Table) -> pa.BooleanArray | pa.ChunkedArray:
    """For each row, whether it matches a bound filter; never null. A table returns a chunked mask.

    Columns and fields of structs are found by name. They may have any Arrow type that represents the column's values
    exactly: large and view layouts, dictionaries, narrower numbers, `arrow.uuid`. Raises `NoSuchColumn` if one is
    missing.

    >>> from floe.spec.expressions.nodes import TRUE
    >>> filter_mask(TRUE, pa.record_batch({"x": [1, 2]})).to_pylist()
    [True, True]
    """
    if isinstance(data, pa.Table):
        return pa.chunked_array([_mask(expression, batch) for batch in data.to_batches()], pa.bool_())
    return _mask(expression, data)


def filter_batch(expression: Expression, data: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
    """The rows of a batch or table that match a bound filter.

    >>> from floe.spec.expressions.nodes import FALSE
    >>> filter_batch(FALSE, pa.record_batch({"x": [1, 2]})).num_rows
    0
    """
    return data.filter(filter_mask(expression, data))


def _mask(expression: Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    return fold(
        expression,
        constant=lambda value: pa.repeat(value, batch.num_rows),
        predicate=lambda predicate: _predicate_mask(_term_array(predicate.term, batch), predicate),
        all_of=lambda parts: reduce(pc.and_, parts),
        any_of=lambda parts: reduce(pc.or_, parts),
    )


def _term_array(term: BoundTerm, batch: pa.RecordBatch) -> pa.Array:
    if not isinstance(term, BoundReference):
        return transforms.transform_array(term.transform, term.ref.type, _term_array(term.ref, batch))
    first, *nested = term.entry.path
    index = batch.schema.get_field_index(first)
    if index < 0:
        raise NoSuchColumn(
            f"the batch has no single column named {first!r}",
            hint=f"its columns are {', '.join(batch.schema.names[:12])}",
            column=term.entry.name,
        )
    array = batch.column(index)
    for name in nested:
        if not pa.types.is_struct(array.type) or array.type.get_field_index(name) < 0:
            raise NoSuchColumn(f"the batch has no field {name!r} in {array.type}", column=term.entry.name)
        array = pc.struct_field(array, name)  # null where the struct is null
    return array


def _predicate_mask(array: pa.Array, predicate: BoundPredicate) -> pa.BooleanArray:
    """The rows that match a predicate; null counts as false."""
    op, type_ = predicate.op, predicate.term.type
    if isinstance(array, pa.DictionaryArray):
        dictionary_mask = _predicate_mask(array.dictionary, predicate)
        return dictionary_mask.take(array.indices).fill_null(op is Op.IS_NULL)
    if pa.types.is_run_end_encoded(array.type):
        return _predicate_mask(pc.run_end_decode(array), predicate)
    if op is Op.IS_NULL:
        return array.is_null()
    if op is Op.NOT_NULL:
        return array.is_valid()
    array = _canonical(type_, array)
    if type_.kind in ("float", "double"):
        mask = _float_mask(array, op, predicate.literals)
    elif op.is_set:
        mask = pc.is_in(array, value_set=_literals(type_, predicate.literals, array.type))
        mask = mask if op is Op.IN else pc.and_(pc.invert(mask), array.is_valid())
    elif op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
        mask = pc.starts_with(array, predicate.literal)
        mask = mask if op is Op.STARTS_WITH else pc.invert(mask)
    elif op in (Op.IS_NAN, Op.NOT_NAN):
        mask = array.is_valid() if op is Op.NOT_NAN else pa.repeat(False, len(array))
    else:
        mask = _COMPARISONS[op](array, _literals(type_, predicate.literals, array.type)[0])
    return mask.fill_null(False)


def _float_mask(array: pa.Array, op: Op, literals: tuple[float, ...]) -> pa.BooleanArray:
    """As Arrow for numbers, which compares `-0.0` and `0.0` as equal; then the result for NaN where there is one."""
    numbers = [x for x in literals if not math.isnan(x)]
    nan_matches = value_test(DOUBLE, op, literals)(math.nan)
    if op.is_set:
        both_zeros = [0.0, -0.0] if 0.0 in numbers else []
        mask = pc.is_in(array, value_set=pa.array([*numbers, *both_zeros], array.type))
        mask = mask if op is Op.IN else pc.invert(mask)
    elif numbers:
        mask = _COMPARISONS[op](array, pa.scalar(numbers[0], array.type))
    else:  # no literal, or NaN: the result is the same for all numbers
        mask = pa.repeat(value_test(DOUBLE, op, literals)(0.0), len(array))
    mask = pc.if_else(pc.is_nan(array), nan_matches, mask)
    return pc.and_(mask, array.is_valid())


# Arrow types and values -----------------------------------------------------------------------------------------------


def _canonical_types(type_: Type) -> tuple[pa.DataType, ...]:
    if isinstance(type_, DecimalType):
        return (pa.decimal128(type_.precision, type_.scale),)
    if isinstance(type_, FixedType):
        return (pa.binary(type_.length),)
    return _CANONICAL_TYPES[type_.kind]


def _canonical(type_: Type, array: pa.Array) -> pa.Array:
    """Cast an array of any layout to a type that Arrow compares."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    accepted = _canonical_types(type_)
    if array.type in accepted:
        return array
    target = accepted[-1]
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(array.type):
        target = pa.timestamp(target.unit, array.type.tz)  # the time zone only affects display
        if array.type == target:
            return array
    try:
        return array.cast(target)
    except pa.ArrowException as error:
        raise InvalidValue(
            f"an Arrow array of type {array.type} does not hold values of type {type_}: {error}"
        ) from None


def _literals(type_: Type, literals: tuple[Any, ...], arrow_type: pa.DataType) -> pa.Array:
    values = [value.bytes for value in literals] if type_.kind == "uuid" else list(literals)
    return pa.array(values, arrow_type)


# Expressions ----------------------------------------------------------------------------------------------------------


def to_arrow_expression(expression: Expression) -> pc.Expression:
    """Convert a bound filter to an Arrow expression, which is true for matching rows, for Arrow's datasets and readers.

    Raises `UnsupportedFeature` for transforms, which only `filter_mask` evaluates.

    >>> from floe.spec.expressions.binder import bind
    >>> from floe.spec.expressions.dsl import col
    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import Field, LONG
    >>> to_arrow_expression(bind(col("id") < 3, Schema((Field(1, "id", LONG),))))
    <pyarrow.compute.Expression (id < 3)>
    """
    return fold(
        expression,
        constant=pc.scalar,
        predicate=_predicate_expression,
        all_of=lambda parts: reduce(lambda a, b: a & b, parts),
        any_of=lambda parts: reduce(lambda a, b: a | b, parts),
    )


def _predicate_expression(predicate: BoundPredicate) -> pc.Expression:
    op, term, literals = predicate.op, predicate.term, predicate.literals
    if not isinstance(term, BoundReference):
        raise UnsupportedFeature(
            f"Arrow has no expression for {term.transform} of {term.ref.entry.name!r}",
            hint="filter the batches with `filter_mask`",
            column=term.ref.entry.name,
        )
    field, type_ = pc.field(*term.entry.path), term.type
    if op is Op.IS_NULL:
        return field.is_null()
    if op is Op.NOT_NULL:
        return field.is_valid()
    if type_.kind in ("float", "double"):
        return _float_expression(field, predicate)
    if op in (Op.IS_NAN, Op.NOT_NAN):
        return field.is_valid() if op is Op.NOT_NAN else pc.scalar(False)
    arrow_type = _canonical_types(type_)[0]
    if type_.kind == "uuid":
        field = field.cast(arrow_type)  # it may have the extension type, which Arrow does not compare
    if op.is_set:
        matches = field.isin(_literals(type_, literals, arrow_type))
        return matches if op is Op.IN else ~matches & field.is_valid()
    if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
        matches = pc.starts_with(field, pattern=predicate.literal)
        return matches if op is Op.STARTS_WITH else ~matches
    return _COMPARISONS[op](field, _literals(type_, literals, arrow_type)[0])


def _float_expression(field: pc.Expression, predicate: BoundPredicate) -> pc.Expression:
    op, literals = predicate.op, predicate.literals
    numbers = [x for x in literals if not math.isnan(x)]
    test = value_test(DOUBLE, op, literals)
    if op.is_set:
        both_zeros = [0.0, -0.0] if 0.0 in numbers else []
        in_set = field.isin(pa.array([*numbers, *both_zeros], pa.float64()))
        matches = in_set if op is Op.IN else ~in_set & field.is_valid()
    elif numbers:
        matches = _COMPARISONS[op](field, pa.scalar(numbers[0], pa.float64()))
    else:
        matches = field.is_valid() if test(0.0) else pc.scalar(False)
    # in Arrow, only != is true for NaN
    return matches | field.is_nan() if test(math.nan) else matches & ~field.is_nan()
