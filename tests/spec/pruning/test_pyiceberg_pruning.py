"""Beside PyIceberg: projections and metrics filters differ only where this file says why.

Over all tests, literals and values of the pools. Where the two differ, ours is the narrower filter or the stronger
proof, except that
* nulls never pass a comparison here, so a proof that all rows pass needs a proof that there is no null (SQL; Java and
  PyIceberg take nulls to pass `<>`, NOT IN and NOT STARTS WITH);
* NaN is greater than every number here, so an upper bound alone rules nothing out; PyIceberg ignores NaN;
* of UUID bounds that differ only the first half counts, because Java orders the halves as signed numbers;
* times before 1970 allow for old writers, and the lowest integers for writers whose arithmetic wraps around.
"""

import math
from typing import Any
from uuid import UUID

import pyiceberg.expressions as pe
import pytest
from pyiceberg import types as pt
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator, _StrictMetricsEvaluator, bind as pyiceberg_bind
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema as PyIcebergSchema
from pyiceberg.transforms import parse_transform as pyiceberg_transform

from floe.errors import InvalidValue
from floe.spec import types as t
from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Op
from floe.spec.expressions.row_evaluation import compile_tuple_filter, value_test
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import DAY, HOUR, IDENTITY, MONTH, YEAR, Bucket, Truncate
from floe.spec.pruning.metrics_evaluation import (
    file_might_match as might_match,
    file_must_match as must_match,
    files_might_match,
    files_must_match,
    gather_stats,
)
from floe.spec.pruning.projection import inclusive_projection, partition_schema, strict_projection
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, FixedType
from helpers.filter_strategies import SCHEMA, TYPES, every_predicate, files_of_two, pool, value_in

PYICEBERG_TYPES = {
    "boolean": pt.BooleanType(), "int": pt.IntegerType(), "long": pt.LongType(), "float": pt.FloatType(),
    "double": pt.DoubleType(), "date": pt.DateType(), "time": pt.TimeType(), "timestamp": pt.TimestampType(),
    "timestamptz": pt.TimestamptzType(), "string": pt.StringType(), "uuid": pt.UUIDType(), "binary": pt.BinaryType(),
}  # fmt: skip

# of nanoseconds PyIceberg knows too little, and 38 digits it does not always encode in full
COMPARED = [n + 1 for n, type_ in enumerate(TYPES) if not type_.kind.endswith("_ns") and type_ != DecimalType(38, 10)]
TRANSFORMS = [IDENTITY, Bucket(4), Truncate(1), Truncate(2), Truncate(3), Truncate(10), YEAR, MONTH, DAY, HOUR]

CLASSES = {
    Op.IS_NULL: pe.IsNull, Op.NOT_NULL: pe.NotNull, Op.IS_NAN: pe.IsNaN, Op.NOT_NAN: pe.NotNaN, Op.LT: pe.LessThan,
    Op.LT_EQ: pe.LessThanOrEqual, Op.GT: pe.GreaterThan, Op.GT_EQ: pe.GreaterThanOrEqual, Op.EQ: pe.EqualTo,
    Op.NOT_EQ: pe.NotEqualTo, Op.IN: pe.In, Op.NOT_IN: pe.NotIn, Op.STARTS_WITH: pe.StartsWith,
    Op.NOT_STARTS_WITH: pe.NotStartsWith,
}  # fmt: skip
OPS = {cls: op for op, cls in CLASSES.items()}


def pyiceberg_type(type_: t.Type) -> Any:
    if isinstance(type_, DecimalType):
        return pt.DecimalType(type_.precision, type_.scale)
    return pt.FixedType(type_.length) if isinstance(type_, FixedType) else PYICEBERG_TYPES[type_.kind]


def pyiceberg_schema(field_id: int) -> PyIcebergSchema:
    field = SCHEMA.entry(field_id).field
    return PyIcebergSchema(pt.NestedField(field.id, field.name, pyiceberg_type(field.type), required=False))


def pyiceberg_filter(leaf: BoundPredicate) -> pe.BooleanExpression:
    name, cls = leaf.term.entry.name, CLASSES[leaf.op]
    return cls(name) if leaf.op.is_unary else cls(name, set(leaf.literals) if leaf.op.is_set else leaf.literal)


def columns(ids: list[int] = COMPARED) -> Any:
    return pytest.mark.parametrize("field_id", ids, ids=lambda n: str(TYPES[n - 1]))


# projections -------------------------------------------------------------------------------------------------


def theirs_passes(projected: Any, type_: t.Type, value: Any, *, otherwise: bool) -> bool:
    """What PyIceberg's projection says of a partition value, by our row evaluator."""
    if projected is None:
        return otherwise
    if isinstance(projected, pe.AlwaysTrue | pe.AlwaysFalse):
        return isinstance(projected, pe.AlwaysTrue)
    if hasattr(projected, "literals"):
        literals = tuple(literal.value for literal in projected.literals)
    else:
        literals = (projected.literal.value,) if hasattr(projected, "literal") else ()
    if type_ == t.UUID:
        literals = tuple(UUID(bytes=literal) if isinstance(literal, bytes) else literal for literal in literals)
    return value_test(type_, OPS[type(projected)], literals)(value)


def allowed_for_others(transform: Any, type_: t.Type, leaf: BoundPredicate) -> bool:
    """Whether our projection may be wider, for the sake of writers with faults."""
    if transform.is_time and not (transform == DAY and type_.kind == "date"):
        return any(value <= 0 for value in leaf.literals)
    return isinstance(transform, Truncate) and type_.kind in ("int", "long")


@columns()
def test_projections_are_as_narrow_as_pyicebergs(field_id):
    reference = BoundReference(SCHEMA.entry(field_id))
    type_ = reference.type
    their_schema = pyiceberg_schema(field_id)
    for transform in TRANSFORMS:
        if not transform.can_transform(type_):
            continue
        by = PartitionSpec((PartitionField((field_id,), 1000, "p", transform),))
        tuples = partition_schema(by, SCHEMA)
        their_transform, result = pyiceberg_transform(str(transform)), tuples.fields[0].type
        places = [None]
        for value in pool(type_):
            try:
                places.append(transform.apply(type_, value))
            except InvalidValue:
                continue
        for leaf in every_predicate(reference):
            if skip(transform, leaf):
                continue
            bound = pyiceberg_bind(their_schema, pyiceberg_filter(leaf), True)
            if not isinstance(bound, pe.BoundPredicate):
                continue  # folded
            might = compile_tuple_filter(inclusive_projection(leaf, by, SCHEMA), tuples)
            must = compile_tuple_filter(strict_projection(leaf, by, SCHEMA), tuples)
            widened = allowed_for_others(transform, type_, leaf)
            their_might, their_must = their_transform.project("p", bound), their_transform.strict_project("p", bound)
            for place in places:
                what = (str(leaf), str(transform), place, their_might, their_must)
                if might((place,)) and not theirs_passes(their_might, result, place, otherwise=True):
                    assert widened, what
                if theirs_passes(their_must, result, place, otherwise=False) and not must((place,)):
                    assert widened, what


def skip(transform: Any, leaf: BoundPredicate) -> bool:
    """Tests with literals at the very end of a type: PyIceberg's neighbours of them overflow, or are folded away."""
    if transform == IDENTITY:
        return leaf.term.type == t.FLOAT and any(map(math.isinf, leaf.literals))
    type_ = leaf.term.type
    if isinstance(type_, DecimalType):
        return any(abs(x) * 10**type_.scale >= 10**type_.precision - 20 for x in leaf.literals)
    limit = {"int": 2**31, "date": 2**31, "long": 2**63}.get(type_.kind)
    return limit is not None and any(abs(x) >= limit - 20 for x in leaf.literals)


# metrics -----------------------------------------------------------------------------------------------------


def pyiceberg_file(metrics: Any) -> DataFile:
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path="f.parquet",
        file_format=FileFormat.PARQUET,
        partition=None,
        record_count=metrics.record_count,
        file_size_in_bytes=1,
        value_counts=metrics.value_counts,
        null_value_counts=metrics.null_value_counts,
        nan_value_counts=metrics.nan_value_counts,
        lower_bounds=metrics.lower_bounds,
        upper_bounds=metrics.upper_bounds,
    )


@columns()
def test_metrics_filters_are_as_sharp_as_pyicebergs(field_id):
    reference = BoundReference(SCHEMA.entry(field_id))
    their_schema = pyiceberg_schema(field_id)
    files = [(rows, metrics, pyiceberg_file(metrics)) for rows, metrics in files_of_two(field_id)]
    stats = gather_stats([metrics for _, metrics, _ in files], BoundPredicate(Op.NOT_NULL, reference))
    for leaf in every_predicate(reference):
        if reference.type == t.FLOAT and any(map(math.isinf, leaf.literals)):
            continue  # PyIceberg takes infinity for a number beyond the type, and folds the test, nulls and all
        their_filter = pyiceberg_filter(leaf)
        mights, musts = files_might_match(leaf, stats).tolist(), files_must_match(leaf, stats).tolist()
        their_might_match = _InclusiveMetricsEvaluator(their_schema, their_filter).eval
        their_must_match = _StrictMetricsEvaluator(their_schema, their_filter).eval
        for (rows, _, their_file), might, must in zip(files, mights, musts, strict=True):
            values = [value_in(row, field_id) for row in rows]
            has_null, has_nan = None in values, any(v != v for v in values)
            their_might, their_must = their_might_match(their_file), their_must_match(their_file)
            uuids_apart = reference.type == t.UUID and values[0] != values[1]
            what = (str(leaf), values)
            if might and not their_might:
                assert has_nan or uuids_apart, what
            if their_must and not must:
                nulls_pass = has_null and leaf.op in (Op.NOT_EQ, Op.NOT_IN, Op.NOT_STARTS_WITH, Op.NOT_NAN)
                assert has_nan or uuids_apart or nulls_pass, what


def test_the_differences_are_as_described():
    """A null is no proof of `a <> 5`, and NaN is above 5."""
    schema = Schema((SCHEMA.entry(2).field, SCHEMA.entry(5).field))
    differ, above = BoundReference(schema.entry(2)), BoundReference(schema.entry(5))
    found = {str(value_in(rows[0], 2)) + str(value_in(rows[1], 2)): m for rows, m in files_of_two(2)}
    not_five = BoundPredicate(Op.NOT_EQ, differ, (5,))
    assert _StrictMetricsEvaluator(pyiceberg_schema(2), pyiceberg_filter(not_five)).eval(
        pyiceberg_file(found["NoneNone"])
    )
    assert not must_match(not_five, found["NoneNone"])
    found = {str(value_in(rows[0], 5)) + str(value_in(rows[1], 5)): m for rows, m in files_of_two(5)}
    high = BoundPredicate(Op.GT, above, (5.0,))
    assert not _InclusiveMetricsEvaluator(pyiceberg_schema(5), pyiceberg_filter(high)).eval(
        pyiceberg_file(found["nannan"])
    )
    assert might_match(high, found["nannan"])
