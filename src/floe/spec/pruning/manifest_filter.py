r"""Which manifests a filter can skip, by the summaries of their partition fields (spec: Manifest Lists, Scan Planning).

The filter is one on partition values, as `projection.inclusive` makes it from a filter on rows: every spec has its own.
A manifest list holds for each partition field whether null and NaN occur and between which bounds the other values lie.

>>> from types import SimpleNamespace
>>> from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Op
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, INT
>>> partition = Schema((Field(1000, "id_bucket", INT),))
>>> summary = SimpleNamespace(
...     contains_null=False, contains_nan=None, lower_bound=b"\x02\0\0\0", upper_bound=b"\x05\0\0\0"
... )
>>> bucket = BoundReference(partition.entry(1000))
>>> might_match(BoundPredicate(Op.EQ, bucket, (7,)), SimpleNamespace(partitions=(summary,)), partition)
False
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from floe.errors import InvalidExpression
from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Expression, all_true, any_true, fold
from floe.spec.pruning.ranges import FLOAT_KINDS, Facts, RangePredicate, bounds_to_keys, transformed
from floe.spec.schemas.schema import Schema
from floe.spec.types import Type


class Summary(Protocol):
    """What a manifest list tells about one partition field: a `FieldSummary`."""

    @property
    def contains_null(self) -> bool:
        """Whether the field is null for some file."""

    @property
    def contains_nan(self) -> bool | None:
        """Whether the field is NaN for some file; None when it is not known."""

    @property
    def lower_bound(self) -> bytes | None:
        """The lowest ordinary value, serialised; None when there is none."""

    @property
    def upper_bound(self) -> bytes | None:
        """The highest ordinary value, serialised; None when there is none."""


class PartitionSummaries(Protocol):
    """What is asked of a manifest: a `ManifestFile` has it."""

    @property
    def partitions(self) -> Sequence[Summary] | None:
        """A summary for each field of the manifest's partition spec; None when there are none."""


class LiveCounts(Protocol):
    """How many entries a manifest has; None when it is not known."""

    @property
    def added_files_count(self) -> int | None:
        """The entries that the manifest's own snapshot added."""

    @property
    def existing_files_count(self) -> int | None:
        """The entries that were added before."""


def has_live_files(manifest: LiveCounts) -> bool:
    """False only if all entries of a manifest are known to be deleted ones, which a scan does not use.

    >>> from types import SimpleNamespace
    >>> has_live_files(SimpleNamespace(added_files_count=0, existing_files_count=0))
    False
    >>> has_live_files(SimpleNamespace(added_files_count=0, existing_files_count=None))
    True
    """
    return manifest.added_files_count != 0 or manifest.existing_files_count != 0


def might_match(expression: Expression, manifest: PartitionSummaries, partition: Schema) -> bool:
    """Whether some file of a manifest may pass a filter that is bound to its partition schema.

    >>> from types import SimpleNamespace
    >>> from floe.spec.expressions.nodes import FALSE, TRUE
    >>> unsummarised = SimpleNamespace(partitions=None)
    >>> might_match(TRUE, unsummarised, Schema(())), might_match(FALSE, unsummarised, Schema(()))
    (True, False)
    """
    return compile_might_match(expression, partition)(manifest)


def must_match(expression: Expression, manifest: PartitionSummaries, partition: Schema) -> bool:
    """Whether every file of a manifest is known to pass a filter that is bound to its partition schema.

    >>> from types import SimpleNamespace
    >>> from floe.spec.expressions.nodes import TRUE
    >>> must_match(TRUE, SimpleNamespace(partitions=None), Schema(()))
    True
    """
    return compile_must_match(expression, partition)(manifest)


def compile_might_match(expression: Expression, partition: Schema) -> Callable[[PartitionSummaries], bool]:
    """The function behind `might_match`, ready for many manifests of one spec.

    >>> from types import SimpleNamespace
    >>> from floe.spec.expressions.nodes import TRUE
    >>> compile_might_match(TRUE, Schema(()))(SimpleNamespace(partitions=()))
    True
    """
    return _compile(expression, partition, RangePredicate.might)


def compile_must_match(expression: Expression, partition: Schema) -> Callable[[PartitionSummaries], bool]:
    """The function behind `must_match`, ready for many manifests of one spec.

    >>> from types import SimpleNamespace
    >>> from floe.spec.expressions.nodes import FALSE
    >>> compile_must_match(FALSE, Schema(()))(SimpleNamespace(partitions=()))
    False
    """
    return _compile(expression, partition, RangePredicate.must)


def _compile(
    expression: Expression, partition: Schema, question: Callable[[RangePredicate, Facts], bool]
) -> Callable[[PartitionSummaries], bool]:
    places = {field.id: place for place, field in enumerate(partition.fields)}

    def leaf(predicate: BoundPredicate) -> Callable[[PartitionSummaries], bool]:
        test, term = RangePredicate.for_predicate(predicate), predicate.term
        reference = term if isinstance(term, BoundReference) else term.ref
        if reference.field_id not in places:
            raise InvalidExpression(
                f"the filter asks for {reference.entry.name!r}, which is not a partition field",
                hint="project the filter to the partition spec first",
                column=reference.entry.name,
            )
        place, type_ = places[reference.field_id], reference.type

        def ask(manifest: PartitionSummaries) -> bool:
            summaries = manifest.partitions
            summary = summaries[place] if summaries is not None and place < len(summaries) else None
            return question(test, transformed(summary_facts(type_, summary), term))

        return ask

    return fold(
        expression,
        constant=lambda value: lambda manifest: value,
        predicate=leaf,
        all_of=all_true,
        any_of=any_true,
    )


def summary_facts(type_: Type, summary: Summary | None) -> Facts:
    """What a summary tells about a partition field of a type.

    >>> from types import SimpleNamespace
    >>> from floe.spec.types import INT
    >>> summary_facts(INT, SimpleNamespace(contains_null=True, contains_nan=None, lower_bound=None, upper_bound=None))
    Facts(nulls=True, nans=False, others=False, lower=None, upper=None)
    """
    is_float = type_.kind in FLOAT_KINDS
    if summary is None:
        return Facts(nulls=True, nans=is_float, others=True)
    nulls = summary.contains_null
    nans = is_float and summary.contains_nan is not False
    # Without bounds all values are null or NaN, says the spec (Manifest Lists); if neither is there, the summary says
    # nothing.
    without_bounds = summary.lower_bound is None and summary.upper_bound is None
    others = not (without_bounds and (nulls or nans))
    lower, upper = bounds_to_keys(type_, summary.lower_bound, summary.upper_bound)
    if is_float and lower is None and upper is None:
        nans = nans or not without_bounds  # bounds that were dropped may have been NaN
    return Facts(nulls, nans, others, lower, upper)
