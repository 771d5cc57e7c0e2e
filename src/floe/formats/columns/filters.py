"""Filters on Arrow data: a mask of the rows that pass, the rows themselves, or an Arrow expression to hand on.

The meaning is that of `floe.spec.expressions`, which differs from Arrow's own in three points: NaN equals itself and is
greater than every other number, `-0.0` and `0.0` are one value in `IN` as well, and a field of a null struct is null.

>>> import pyarrow as pa
>>> from floe.spec.expressions.binding import bind
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
from floe.formats import arrow_transforms
from floe.spec.expressions.nodes import BoundPredicate, BoundReference, BoundTerm, Expression, Op, fold
from floe.spec.expressions.row_evaluation import value_test
from floe.spec.types import DOUBLE, DecimalType, FixedType, Type

_CANONICAL: dict[str, tuple[pa.DataType, ...]] = {
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
"""The Arrow types that values of a kind are compared in; the first is the usual one."""

_COMPARISONS = {
    Op.LT: pc.less,
    Op.LT_EQ: pc.less_equal,
    Op.GT: pc.greater,
    Op.GT_EQ: pc.greater_equal,
    Op.EQ: pc.equal,
    Op.NOT_EQ: pc.not_equal,
}


# masks -------------------------------------------------------------------------------------------------------


def filter_mask(expression: Expression, data: pa.RecordBatch | pa.Table) -> pa.BooleanArray | pa.ChunkedArray:
    """For each row, whether it passes a bound filter; never null. A table gives a chunked mask.

    Columns are found by name, fields of structs within them. They may be of any Arrow type that holds the column's
    values exactly: large and view layouts, dictionaries, narrower numbers, `arrow.uuid`.

    >>> from floe.spec.expressions.nodes import TRUE
    >>> filter_mask(TRUE, pa.record_batch({"x": [1, 2]})).to_pylist()
    [True, True]
    """
    if isinstance(data, pa.Table):
        return pa.chunked_array([_mask(expression, batch) for batch in data.to_batches()], pa.bool_())
    return _mask(expression, data)


def filter_batch(expression: Expression, data: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
    """The rows of a batch or table that pass a bound filter.

    >>> from floe.spec.expressions.nodes import FALSE
    >>> filter_batch(FALSE, pa.record_batch({"x": [1, 2]})).num_rows
    0
    """
    return data.filter(filter_mask(expression, data))


def _mask(expression: Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    return fold(
        expression,
        constant=lambda value: pa.repeat(value, batch.num_rows),
        predicate=lambda predicate: _test(_term_array(predicate.term, batch), predicate),
        all_of=lambda parts: reduce(pc.and_, parts),
        any_of=lambda parts: reduce(pc.or_, parts),
    )


def _term_array(term: BoundTerm, batch: pa.RecordBatch) -> pa.Array:
    if not isinstance(term, BoundReference):
        return arrow_transforms.transform_array(term.transform, term.ref.type, _term_array(term.ref, batch))
    first, *rest = term.entry.path
    place = batch.schema.get_field_index(first)
    if place < 0:
        raise NoSuchColumn(
            f"the batch has no single column named {first!r}",
            hint=f"its columns are {', '.join(batch.schema.names[:12])}",
            column=term.entry.name,
        )
    array = batch.column(place)
    for name in rest:
        if not pa.types.is_struct(array.type) or array.type.get_field_index(name) < 0:
            raise NoSuchColumn(f"the batch has no field {name!r} in {array.type}", column=term.entry.name)
        array = pc.struct_field(array, name)  # null where the struct is null
    return array


def _test(array: pa.Array, predicate: BoundPredicate) -> pa.BooleanArray:
    """The rows that pass one test; a test that is null is not passed."""
    op, type_ = predicate.op, predicate.term.type
    if isinstance(array, pa.DictionaryArray):
        of_values = _test(array.dictionary, predicate)
        return of_values.take(array.indices).fill_null(op is Op.IS_NULL)
    if pa.types.is_run_end_encoded(array.type):
        return _test(pc.run_end_decode(array), predicate)
    if op is Op.IS_NULL:
        return array.is_null()
    if op is Op.NOT_NULL:
        return array.is_valid()
    array = _canonical(type_, array)
    if type_.kind in ("float", "double"):
        passes = _float_test(array, op, predicate.literals)
    elif op.is_set:
        passes = pc.is_in(array, value_set=_literals(type_, predicate.literals, array.type))
        passes = passes if op is Op.IN else pc.and_(pc.invert(passes), array.is_valid())
    elif op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
        passes = pc.starts_with(array, predicate.literal)
        passes = passes if op is Op.STARTS_WITH else pc.invert(passes)
    elif op in (Op.IS_NAN, Op.NOT_NAN):
        passes = array.is_valid() if op is Op.NOT_NAN else pa.repeat(False, len(array))
    else:
        passes = _COMPARISONS[op](array, _literals(type_, predicate.literals, array.type)[0])
    return passes.fill_null(False)


def _float_test(array: pa.Array, op: Op, literals: tuple[float, ...]) -> pa.BooleanArray:
    """As Arrow for numbers, which sees to `-0.0 = 0.0` in comparisons; then what NaN answers, where there is one."""
    numbers = [x for x in literals if not math.isnan(x)]
    nan_passes = value_test(DOUBLE, op, literals)(math.nan)
    if op.is_set:
        both_zeros = [0.0, -0.0] if 0.0 in numbers else []
        passes = pc.is_in(array, value_set=pa.array([*numbers, *both_zeros], array.type))
        passes = passes if op is Op.IN else pc.invert(passes)
    elif numbers:
        passes = _COMPARISONS[op](array, pa.scalar(numbers[0], array.type))
    else:  # no literal, or NaN: all numbers answer alike
        passes = pa.repeat(value_test(DOUBLE, op, literals)(0.0), len(array))
    passes = pc.if_else(pc.is_nan(array), nan_passes, passes)
    return pc.and_(passes, array.is_valid())


# Arrow types and values --------------------------------------------------------------------------------------


def _canonical_types(type_: Type) -> tuple[pa.DataType, ...]:
    if isinstance(type_, DecimalType):
        return (pa.decimal128(type_.precision, type_.scale),)
    if isinstance(type_, FixedType):
        return (pa.binary(type_.length),)
    return _CANONICAL[type_.kind]


def _canonical(type_: Type, array: pa.Array) -> pa.Array:
    """The array in a type that Arrow compares, whatever layout its values came in."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    wanted = _canonical_types(type_)
    if array.type in wanted:
        return array
    target = wanted[-1]
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(array.type):
        target = pa.timestamp(target.unit, array.type.tz)  # a zone is a matter of display
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


# expressions -------------------------------------------------------------------------------------------------


def to_arrow_expression(expression: Expression) -> pc.Expression:
    """The filter as an Arrow expression, to hand to Arrow's datasets and Parquet reader.

    Rows for which it is true are those that pass. Transformed terms have no such form; `filter_mask` evaluates them.

    >>> from floe.spec.expressions.binding import bind
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
        field = field.cast(arrow_type)  # may be of the extension type, which Arrow does not compare
    if op.is_set:
        found = field.isin(_literals(type_, literals, arrow_type))
        return found if op is Op.IN else ~found & field.is_valid()
    if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
        found = pc.starts_with(field, pattern=predicate.literal)
        return found if op is Op.STARTS_WITH else ~found
    return _COMPARISONS[op](field, _literals(type_, literals, arrow_type)[0])


def _float_expression(field: pc.Expression, predicate: BoundPredicate) -> pc.Expression:
    op, literals = predicate.op, predicate.literals
    numbers = [x for x in literals if not math.isnan(x)]
    test = value_test(DOUBLE, op, literals)
    if op.is_set:
        both_zeros = [0.0, -0.0] if 0.0 in numbers else []
        found = field.isin(pa.array([*numbers, *both_zeros], pa.float64()))
        passes = found if op is Op.IN else ~found & field.is_valid()
    elif numbers:
        passes = _COMPARISONS[op](field, pa.scalar(numbers[0], pa.float64()))
    else:
        passes = field.is_valid() if test(0.0) else pc.scalar(False)
    # of NaN, Arrow finds only "differs" true
    return passes | field.is_nan() if test(math.nan) else passes & ~field.is_nan()
