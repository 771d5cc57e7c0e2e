"""Which files a filter can skip, and which it selects whole, by the metrics of their columns (spec: Scan Planning).

`might_match` is false only if it is proved that no row of the file passes, so that the file need not be read.
`must_match` is true only if it is proved that all rows pass, so that the file can be deleted, or read unfiltered.
Whatever the metrics do not say counts as unknown: a column without counts may be one that was added after the file was
written and reads as its default or as null.

Nulls do not pass comparisons here, as in SQL, so that `must_match(a <> 5)` needs a proof that there are none. NaN is
greater than every number, so that `a > 5` keeps a file unless it is known to hold no NaN; bounds say nothing about NaN.

>>> from types import SimpleNamespace
>>> from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Op
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, INT
>>> id_column = BoundReference(Schema((Field(1, "id", INT),)).entry(1))
>>> file = SimpleNamespace(
...     record_count=100,
...     value_counts={1: 100},
...     null_value_counts={1: 0},
...     nan_value_counts=None,
...     lower_bounds={1: (10).to_bytes(4, "little")},
...     upper_bounds={1: (20).to_bytes(4, "little")},
... )
>>> might_match(BoundPredicate(Op.LT, id_column, (10,)), file)
False
>>> must_match(BoundPredicate(Op.LT, id_column, (21,)), file)
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Expression, all_true, any_true, fold
from floe.spec.pruning.ranges import FLOAT_KINDS, Facts, RangePredicate, bounds_to_keys, transformed


class FileMetrics(Protocol):
    """What is asked of a file: a `DataFile` has it, and so may anything else."""

    @property
    def record_count(self) -> int:
        """The number of rows; negative when it is not known."""

    @property
    def value_counts(self) -> Mapping[int, int] | None:
        """By field id, the number of values, nulls and NaN among them."""

    @property
    def null_value_counts(self) -> Mapping[int, int] | None:
        """By field id, the number of nulls."""

    @property
    def nan_value_counts(self) -> Mapping[int, int] | None:
        """By field id, the number of NaN."""

    @property
    def lower_bounds(self) -> Mapping[int, bytes] | None:
        """By field id, a serialised value that none of the ordinary values is below."""

    @property
    def upper_bounds(self) -> Mapping[int, bytes] | None:
        """By field id, a serialised value that none of the ordinary values is above."""


def might_match(expression: Expression, file: FileMetrics) -> bool:
    """Whether some row of a file may pass a bound filter; for many files use `compile_might_match` or `columnar`.

    >>> from types import SimpleNamespace
    >>> from floe.spec.expressions.nodes import TRUE
    >>> might_match(TRUE, SimpleNamespace(record_count=0))
    False
    """
    return compile_might_match(expression)(file)


def must_match(expression: Expression, file: FileMetrics) -> bool:
    """Whether every row of a file is known to pass a bound filter.

    >>> from types import SimpleNamespace
    >>> from floe.spec.expressions.nodes import FALSE
    >>> must_match(FALSE, SimpleNamespace(record_count=0))  # of no rows, all pass
    True
    """
    return compile_must_match(expression)(file)


def compile_might_match(expression: Expression) -> Callable[[FileMetrics], bool]:
    """The function behind `might_match`, ready for many files.

    >>> from types import SimpleNamespace
    >>> from floe.spec.expressions.nodes import FALSE
    >>> compile_might_match(FALSE)(SimpleNamespace(record_count=3))
    False
    """
    check = _compile(expression, RangePredicate.might)
    return lambda file: file.record_count != 0 and check(file)


def compile_must_match(expression: Expression) -> Callable[[FileMetrics], bool]:
    """The function behind `must_match`, ready for many files.

    >>> from types import SimpleNamespace
    >>> from floe.spec.expressions.nodes import TRUE
    >>> compile_must_match(TRUE)(SimpleNamespace(record_count=3))
    True
    """
    check = _compile(expression, RangePredicate.must)
    return lambda file: file.record_count == 0 or check(file)


def _compile(
    expression: Expression, question: Callable[[RangePredicate, Facts], bool]
) -> Callable[[FileMetrics], bool]:
    readers: dict[int, Callable[[FileMetrics], Facts]] = {}

    def leaf(predicate: BoundPredicate) -> Callable[[FileMetrics], bool]:
        test, term = RangePredicate.for_predicate(predicate), predicate.term
        reference = term if isinstance(term, BoundReference) else term.ref
        read = readers.get(reference.field_id)
        if read is None:
            read = readers[reference.field_id] = _remembering(_facts_reader(reference))
        if term is reference:
            return lambda file: question(test, read(file))
        return lambda file: question(test, transformed(read(file), term))

    return fold(
        expression,
        constant=lambda value: lambda file: value,
        predicate=leaf,
        all_of=all_true,
        any_of=any_true,
    )


def _remembering(read: Callable[[FileMetrics], Facts]) -> Callable[[FileMetrics], Facts]:
    """The same function, which keeps the facts of the file that it saw last: filters often name a column twice."""
    last: tuple[FileMetrics | None, Facts] = (None, Facts(True, True, True))

    def remembering(file: FileMetrics) -> Facts:
        nonlocal last
        seen, facts = last  # one value, so that threads cannot see the file of one and the facts of another
        if seen is not file:
            facts = read(file)
            last = (file, facts)
        return facts

    return remembering


def column_facts(reference: BoundReference, file: FileMetrics) -> Facts:
    """What the metrics of a file tell about one column.

    >>> from types import SimpleNamespace
    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import Field, INT
    >>> counts = SimpleNamespace(
    ...     record_count=2,
    ...     value_counts={1: 2},
    ...     null_value_counts={1: 2},
    ...     nan_value_counts=None,
    ...     lower_bounds=None,
    ...     upper_bounds=None,
    ... )
    >>> column_facts(BoundReference(Schema((Field(1, "id", INT),)).entry(1)), counts)
    Facts(nulls=True, nans=False, others=False, lower=None, upper=None)
    """
    return _facts_reader(reference)(file)


def _facts_reader(reference: BoundReference) -> Callable[[FileMetrics], Facts]:
    """The function from a file to the facts of a column."""
    entry, type_, field_id = reference.entry, reference.type, reference.field_id
    is_float, nullable = type_.kind in FLOAT_KINDS, entry.nullable
    in_optional_struct = any(ancestor.optional for ancestor in entry.ancestors)
    if type_.kind == "unknown":  # read as null whatever a file holds (spec: Primitive Types)
        return lambda file: Facts(nulls=True, nans=False, others=False)
    if type_.is_nested or entry.in_collection:  # counts, if any, need not be of rows
        return lambda file: Facts(nulls=nullable, nans=is_float, others=True)

    def read(file: FileMetrics) -> Facts:
        values = _count(file.value_counts, field_id)
        nulls = _count(file.null_value_counts, field_id)
        nans = _count(file.nan_value_counts, field_id) if is_float else 0
        every_row_counted = values is not None and values == file.record_count

        # A field of a null struct is null, yet ORC and Avro writers do not count it. There "no nulls" holds only if
        # every row was counted, while "all null" holds of the rows that were not counted too.
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
        return Facts(not no_nulls, not (nans == 0 or all_null), not no_others, lower, upper)

    return read


def _count(counts: Mapping[int, int] | None, field_id: int) -> int | None:
    count = counts.get(field_id) if counts is not None else None
    return None if count is None or count < 0 else count
