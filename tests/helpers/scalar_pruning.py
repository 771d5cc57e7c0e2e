"""Pruning one file or one manifest at a time, in plain Python: the oracle of the columnar form in `floe.spec.pruning`.

It follows the same rules with other code: no arrays, one value range after another.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from floe.errors import CorruptFile, InvalidValue
from floe.spec.codecs.single_value import decode
from floe.spec.expressions.nodes import (
    BoundPredicate,
    BoundReference,
    BoundTerm,
    Expression,
    Op,
    all_true,
    any_true,
    fold,
)
from floe.spec.partitioning.transforms import Identity, Truncate, Void
from floe.spec.pruning.metrics_evaluation import FileMetrics, PartitionSummaries, Summary
from floe.spec.pruning.ranges import (
    BYTES_KINDS,
    DECODED_KINDS,
    FLOAT_KINDS,
    NANOSECOND_KINDS,
    WIDE_DECIMAL_BYTES,
    Key,
    RangePredicate,
    has_int_keys,
    in_microseconds,
    literal_key,
)
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, FixedType, Type
from floe.spec.values.exact_numbers import decimal_from_unscaled

_WIDE_OFFSET = 1 << (8 * WIDE_DECIMAL_BYTES - 1)


class ValueRange(NamedTuple):
    """The possible values of one term in a set of rows.

    A value may be null only if `nulls` is true, NaN only if `nans` is true, and anything else only if `others` is true.
    The bounds apply to the latter; a bound of None is unknown.
    """

    nulls: bool
    nans: bool
    others: bool
    lower: Key | None = None
    upper: Key | None = None


# Keys


def _wide_key(unscaled: int) -> bytes:
    low, high = 0, 2 * _WIDE_OFFSET - 1
    return min(max(unscaled + _WIDE_OFFSET, low), high).to_bytes(WIDE_DECIMAL_BYTES, "big")


def bounds_to_keys(type_: Type, lower: bytes | None, upper: bytes | None) -> tuple[Key | None, Key | None]:
    """The keys of a pair of encoded bounds; None for a bound that is missing or not trustworthy."""
    low = None if lower is None else _bound_key(type_, lower)
    high = None if upper is None else _bound_key(type_, upper)
    if low != low or high != high:
        return None, None
    if low is not None and high is not None and low > high:  # type: ignore[operator]
        return None, None
    if type_.kind in NANOSECOND_KINDS and all(key is None or in_microseconds(key) for key in (low, high)):
        return None, None
    if type_.kind == "uuid" and low != high:
        # Java compares UUIDs as two signed numbers. If the bounds are in order here, only their second halves can be
        # wrong, so those are ignored.
        return _replace_second_half(low, b"\x00"), _replace_second_half(high, b"\xff")
    return low, high


def _replace_second_half(key: Key | None, filler: bytes) -> Key | None:
    return key[:8] + filler * 8 if isinstance(key, bytes) else None


def _bound_key(type_: Type, data: bytes) -> Key | None:
    kind = type_.kind
    if kind in DECODED_KINDS:
        try:
            return decode(type_, data)  # type: ignore[no-any-return]
        except CorruptFile:
            return None
    if kind in BYTES_KINDS:
        length = type_.length if isinstance(type_, FixedType) else 16 if kind == "uuid" else len(data)
        return bytes(data) if len(data) == length else None
    if not isinstance(type_, DecimalType) or not 1 <= len(data) <= WIDE_DECIMAL_BYTES:
        return None
    unscaled = int.from_bytes(data, "big", signed=True)
    if not has_int_keys(type_):
        return _wide_key(unscaled)
    return unscaled if -(2**63) <= unscaled < 2**63 else None


def _key_value(type_: Type, key: Key) -> Any:
    """The value of a key; None if there is none, as for bytes that are not UTF-8."""
    if isinstance(type_, DecimalType):
        unscaled = int.from_bytes(key, "big") - _WIDE_OFFSET if isinstance(key, bytes) else int(key)
        return decimal_from_unscaled(unscaled, type_.scale)
    if type_.kind == "string":
        assert isinstance(key, bytes)
        try:
            return key.decode()
        except UnicodeDecodeError:
            return None
    return key


def transform_range(value_range: ValueRange, term: BoundTerm) -> ValueRange:
    """The possible values of a term, computed from those of its column."""
    if isinstance(term, BoundReference) or isinstance(term.transform, Identity):
        return value_range
    transform, source = term.transform, term.ref.type
    if isinstance(transform, Void):
        return ValueRange(nulls=True, nans=False, others=False)
    if not transform.is_known:
        return ValueRange(nulls=True, nans=True, others=True)
    nans = value_range.nans and term.type.kind in FLOAT_KINDS
    if not transform.preserves_order:
        return ValueRange(value_range.nulls, nans, value_range.others)
    function = transform.bind(source)

    def image(key: Key | None) -> Key | None:
        if source.kind == "string" and isinstance(transform, Truncate) and isinstance(key, bytes):
            beginning = key[: transform.width]
            if beginning.isascii():  # as many characters as bytes
                return beginning
        value = None if key is None else _key_value(source, key)
        if value is None:
            return None
        try:
            return literal_key(term.type, function(value))
        except InvalidValue:  # the transform has no result for the bound, such as an hour out of range
            return None

    return ValueRange(value_range.nulls, nans, value_range.others, image(value_range.lower), image(value_range.upper))


# Predicates


def might(test: RangePredicate, value_range: ValueRange) -> bool:
    """Whether some row might pass; False only if it is proved that no row passes."""
    return (
        (value_range.nulls and test.null_passes)
        or (value_range.nans and test.nan_passes)
        or (value_range.others and _some_pass(test, test.op, test.constant, value_range))
    )


def must(test: RangePredicate, value_range: ValueRange) -> bool:
    """Whether every row must pass; True only if it is proved."""
    constant = None if test.constant is None else not test.constant
    return not (
        (value_range.nulls and not test.null_passes)
        or (value_range.nans and not test.nan_passes)
        or (value_range.others and _some_pass(test, test.op.negated, constant, value_range))
    )


def _some_pass(test: RangePredicate, op: Op, constant: bool | None, value_range: ValueRange) -> bool:
    if constant is not None:
        return constant
    return _SOME_PASS[op](test.keys, value_range.lower, value_range.upper, test.discrete)


def _some_in(keys: Sequence[Any], lower: Any, upper: Any, discrete: bool) -> bool:
    first = 0 if lower is None else bisect_left(keys, lower)
    return first < len(keys) and (upper is None or keys[first] <= upper)


def _some_not_in(keys: Sequence[Any], lower: Any, upper: Any, discrete: bool) -> bool:
    """Whether some value between the bounds differs from all keys."""
    if lower is None or upper is None:
        return True
    count = bisect_right(keys, upper) - bisect_left(keys, lower)
    return bool(count < upper - lower + 1) if discrete else not (count and lower == upper)


def _some_start_with(keys: Sequence[Any], lower: Any, upper: Any, discrete: bool) -> bool:
    """Whether some value between the bounds starts with the prefix."""
    (prefix,) = keys
    return (lower is None or lower[: len(prefix)] <= prefix) and (upper is None or upper >= prefix)


def _some_not_start_with(keys: Sequence[Any], lower: Any, upper: Any, discrete: bool) -> bool:
    """Whether some value does not start with the prefix: if both bounds do, so do all values between them."""
    (prefix,) = keys
    return lower is None or upper is None or not (lower.startswith(prefix) and upper.startswith(prefix))


_SOME_PASS: dict[Op, Callable[[Sequence[Any], Any, Any, bool], bool]] = {
    Op.LT: lambda keys, lower, upper, discrete: lower is None or lower < keys[0],
    Op.LT_EQ: lambda keys, lower, upper, discrete: lower is None or lower <= keys[0],
    Op.GT: lambda keys, lower, upper, discrete: upper is None or upper > keys[0],
    Op.GT_EQ: lambda keys, lower, upper, discrete: upper is None or upper >= keys[0],
    Op.EQ: _some_in,
    Op.NOT_EQ: _some_not_in,
    Op.IN: _some_in,
    Op.NOT_IN: _some_not_in,
    Op.STARTS_WITH: _some_start_with,
    Op.NOT_STARTS_WITH: _some_not_start_with,
}
"""Functions for the operations with literals: whether some value between the bounds passes."""


# Files


def might_match(expression: Expression, file: FileMetrics) -> bool:
    """Whether some row of a file may pass a bound filter; `metrics_evaluation` does this for many files at once."""
    return compile_might_match(expression)(file)


def must_match(expression: Expression, file: FileMetrics) -> bool:
    """Whether every row of a file is known to pass a bound filter."""
    return compile_must_match(expression)(file)


def compile_might_match(expression: Expression) -> Callable[[FileMetrics], bool]:
    """Compile `might_match` into a function for many files."""
    check = _compile(expression, might)
    return lambda file: file.record_count != 0 and check(file)


def compile_must_match(expression: Expression) -> Callable[[FileMetrics], bool]:
    """Compile `must_match` into a function for many files."""
    check = _compile(expression, must)
    return lambda file: file.record_count == 0 or check(file)


def _compile(
    expression: Expression, match: Callable[[RangePredicate, ValueRange], bool]
) -> Callable[[FileMetrics], bool]:
    readers: dict[int, Callable[[FileMetrics], ValueRange]] = {}

    def leaf(predicate: BoundPredicate) -> Callable[[FileMetrics], bool]:
        test, term = RangePredicate.for_predicate(predicate), predicate.term
        reference = term if isinstance(term, BoundReference) else term.ref
        read = readers.get(reference.field_id)
        if read is None:
            read = readers[reference.field_id] = _cache_last_file(_range_reader(reference))
        if term is reference:
            return lambda file: match(test, read(file))
        return lambda file: match(test, transform_range(read(file), term))

    return fold(
        expression,
        constant=lambda value: lambda file: value,
        predicate=leaf,
        all_of=all_true,
        any_of=any_true,
    )


def _cache_last_file(read: Callable[[FileMetrics], ValueRange]) -> Callable[[FileMetrics], ValueRange]:
    """Cache the range of the last file: filters often use a column twice."""
    last: tuple[FileMetrics | None, ValueRange] = (None, ValueRange(True, True, True))

    def remembering(file: FileMetrics) -> ValueRange:
        nonlocal last
        last_file, value_range = last  # one tuple, so that threads never combine different files
        if last_file is not file:
            value_range = read(file)
            last = (file, value_range)
        return value_range

    return remembering


def column_range(reference: BoundReference, file: FileMetrics) -> ValueRange:
    """The possible values of a column in a file, according to its metrics."""
    return _range_reader(reference)(file)


def _range_reader(reference: BoundReference) -> Callable[[FileMetrics], ValueRange]:
    """The function that computes the range of a column from the metrics of a file."""
    entry, type_, field_id = reference.entry, reference.type, reference.field_id
    is_float, nullable = type_.kind in FLOAT_KINDS, entry.nullable
    in_optional_struct = any(ancestor.optional for ancestor in entry.ancestors)
    if type_.kind == "unknown":  # always read as null (spec: Primitive Types)
        return lambda file: ValueRange(nulls=True, nans=False, others=False)
    if type_.is_nested or entry.in_collection:  # counts may count elements instead of rows
        return lambda file: ValueRange(nulls=nullable, nans=is_float, others=True)

    def read(file: FileMetrics) -> ValueRange:
        values = _count(file.value_counts, field_id)
        nulls = _count(file.null_value_counts, field_id)
        nans = _count(file.nan_value_counts, field_id) if is_float else 0
        every_row_counted = values is not None and values == file.record_count

        # A field of a null struct is null, but ORC and Avro writers do not count it. There, "no nulls" holds only if
        # every row was counted, while "all null" also holds for the rows that were not counted.
        all_nan = every_row_counted and nans == values
        if nulls is None:
            no_nulls = not nullable or all_nan
        else:
            no_nulls = nulls == 0 and (every_row_counted or (values is None and not in_optional_struct))
        all_null = nulls is not None and 0 < nulls == values and (every_row_counted or in_optional_struct)
        all_counted_out = every_row_counted and nulls is not None and nans is not None and nulls + nans == values
        no_others = all_null or all_nan or all_counted_out

        lowers, uppers = file.lower_bounds or {}, file.upper_bounds or {}
        lower, upper = bounds_to_keys(type_, lowers.get(field_id), uppers.get(field_id))
        return ValueRange(not no_nulls, not (nans == 0 or all_null), not no_others, lower, upper)

    return read


def _count(counts: Mapping[int, int] | None, field_id: int) -> int | None:
    count = counts.get(field_id) if counts is not None else None
    return None if count is None or count < 0 else count


# Manifests


def manifest_might_match(expression: Expression, manifest: PartitionSummaries, partition: Schema) -> bool:
    """Whether some file of a manifest may pass a filter that is bound to its partition schema."""
    return compile_manifest_might_match(expression, partition)(manifest)


def manifest_must_match(expression: Expression, manifest: PartitionSummaries, partition: Schema) -> bool:
    """Whether every file of a manifest is known to pass a filter that is bound to its partition schema."""
    return compile_manifest_must_match(expression, partition)(manifest)


def compile_manifest_might_match(expression: Expression, partition: Schema) -> Callable[[PartitionSummaries], bool]:
    """Compile `might_match` into a function for many manifests of one spec."""
    return _compile_for_manifests(expression, partition, might)


def compile_manifest_must_match(expression: Expression, partition: Schema) -> Callable[[PartitionSummaries], bool]:
    """Compile `must_match` into a function for many manifests of one spec."""
    return _compile_for_manifests(expression, partition, must)


def _compile_for_manifests(
    expression: Expression, partition: Schema, match: Callable[[RangePredicate, ValueRange], bool]
) -> Callable[[PartitionSummaries], bool]:
    indexes = {field.id: index for index, field in enumerate(partition.fields)}

    def leaf(predicate: BoundPredicate) -> Callable[[PartitionSummaries], bool]:
        test, term = RangePredicate.for_predicate(predicate), predicate.term
        reference = term if isinstance(term, BoundReference) else term.ref
        index, type_ = indexes[reference.field_id], reference.type

        def match_manifest(manifest: PartitionSummaries) -> bool:
            summaries = manifest.partitions
            summary = summaries[index] if summaries is not None and index < len(summaries) else None
            return match(test, transform_range(summary_range(type_, summary), term))

        return match_manifest

    return fold(
        expression,
        constant=lambda value: lambda manifest: value,
        predicate=leaf,
        all_of=all_true,
        any_of=any_true,
    )


def summary_range(type_: Type, summary: Summary | None) -> ValueRange:
    """The possible values of a partition field according to its summary."""
    is_float = type_.kind in FLOAT_KINDS
    if summary is None:
        return ValueRange(nulls=True, nans=is_float, others=True)
    nulls = summary.contains_null
    nans = is_float and summary.contains_nan is not False
    # Without bounds all values are null or NaN (spec: Manifest Lists); if neither occurs, the summary is not usable.
    without_bounds = summary.lower_bound is None and summary.upper_bound is None
    others = not (without_bounds and (nulls or nans))
    lower, upper = bounds_to_keys(type_, summary.lower_bound, summary.upper_bound)
    if is_float and lower is None and upper is None:
        nans = nans or not without_bounds  # bounds that bounds_to_keys rejected may have been NaN
    return ValueRange(nulls, nans, others, lower, upper)
