"""How rows become files and a commit: what `Writer.append`, `overwrite` and `overwrite_partitions` do inside.

Input data (`floe.arrow.input_data`: Arrow, pandas, Polars, dictionaries, …) is aligned with the table's schema, or
refused before anything is written (`floe.arrow.schema_alignment`). It is written to files that are partitioned, sorted
and sized as the table's properties say, and committed. If the commit fails for certain, the files are deleted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.dml.statements import Concerned, concerned_files, rows_that_stay
from floe.arrow.input_data import reader_of
from floe.arrow.reading.task_reader import TaskReader
from floe.arrow.schema_alignment import Fitting, merged_schema
from floe.arrow.writer import write_rows
from floe.commit.change import BLIND, Attempt, Change, Isolation, Reads
from floe.commit.operations.evolution import UpdateSchema, schema_update_of
from floe.commit.operations.overwrite import Overwrite
from floe.commit.operations.snapshot_change import SnapshotOptions
from floe.commit.target import CommitTarget
from floe.errors import InvalidInput, InvalidSchema, InvalidValue, UnsupportedFeature
from floe.formats.arrow_filters import filter_mask
from floe.formats.writers.rolling import discard, leave_nothing
from floe.formats.writers.write_target import WriteTarget
from floe.plan.manifests import manifests_of_snapshot
from floe.plan.scan import ScanOptions, plan_scan
from floe.spec.expressions.nodes import TRUE, BoundPredicate, BoundReference, BoundTransform, Expression, Op, and_, or_
from floe.spec.expressions.printing import to_text
from floe.spec.manifests.entries import DataFile, ManifestContent
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.transforms import Identity, Void
from floe.spec.properties import FILE_FORMAT, WRITE_PREFIX
from floe.spec.schemas.metadata_columns import with_row_lineage
from floe.sql.filters import as_filter
from floe.table.scan import Scan

# input data -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InputRows:
    """Input data that is aligned with a table's schema, and the schema changes that it needs."""

    metadata: TableMetadata
    """The table's metadata with these changes."""

    batches: Iterator[pa.RecordBatch]
    schema_changes: tuple[Change, ...]


def align_input(target: CommitTarget, data: Any, *, merge_schema: bool, case_sensitive: bool) -> InputRows:
    """Align input data with the table's schema: as the target last read it or, if it does not fit, as it is now."""
    metadata = target.metadata
    reader = reader_of(data, metadata.schema, case_sensitive=case_sensitive)
    try:
        return _align(target, metadata, reader, merge_schema, case_sensitive)
    except InvalidSchema:
        target.refresh()
        if target.metadata.current_schema_id == metadata.current_schema_id:
            raise
        return _align(target, target.metadata, reader, merge_schema, case_sensitive)


def _align(
    target: CommitTarget,
    metadata: TableMetadata,
    reader: pa.RecordBatchReader,
    merge_schema: bool,
    case_sensitive: bool,
) -> InputRows:
    changes: tuple[Change, ...] = ()
    if merge_schema:
        metadata, changes = merge_input_schema(target, metadata, reader.schema, case_sensitive=case_sensitive)
    fitting = Fitting(reader.schema, metadata.schema, case_sensitive=case_sensitive)
    return InputRows(metadata, fitting.all(reader), changes)


def merge_input_schema(
    target: CommitTarget, metadata: TableMetadata, schema: pa.Schema, *, case_sensitive: bool = True
) -> tuple[TableMetadata, tuple[Change, ...]]:
    """Add the columns that only the input data has, and widen types; returns the new metadata and the change."""
    update = schema_update_of(metadata, case_sensitive=case_sensitive)
    version = metadata.format_version
    merged_schema(update, schema, metadata.schema, format_version=version, case_sensitive=case_sensitive)
    change = UpdateSchema.from_update(update, metadata)
    if change.schema.same_columns(metadata.schema):
        return metadata, ()
    now_ms = metadata.last_updated_ms
    attempt = Attempt("", metadata, metadata, target.storage, target.environment, now_ms=now_ms)
    return apply(metadata, change.updates(attempt), now_ms=now_ms), (change,)


def matching_rows(batches: Iterator[pa.RecordBatch], where: Expression) -> Iterator[pa.RecordBatch]:
    """The batches, unchanged; `InvalidValue` at the first one with rows that do not match a filter."""
    for batch in batches:
        count = batch.num_rows - (pc.sum(filter_mask(where, batch)).as_py() or 0)
        if count:
            example = batch.filter(pc.invert(filter_mask(where, batch))).slice(0, 1).to_pylist()[0]
            raise InvalidValue(
                f"{count} of the new rows do not match the filter {to_text(where)}, so a second run would add them "
                f"again; one of them is {str(example)[:200]}",
                hint="widen the filter, leave these rows out, or pass only_matching=False",
            )
        yield batch


# where rows are written, and what they were made from -------------------------------------------------------------


def write_overrides(options: Mapping[str, Any] | None) -> dict[str, str]:
    """The write properties that take the place of the table's for one call, as text."""
    if not isinstance(options, Mapping | None):
        raise InvalidInput(f"options must be a dictionary of write properties, found {options!r:.80}")
    for name in options or {}:
        if not isinstance(name, str) or not name.startswith(WRITE_PREFIX):
            raise InvalidInput(
                f"{name!r:.80} is not a write property", hint=f"pass options such as {{'{FILE_FORMAT}': 'orc'}}"
            )
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (options or {}).items()
    }


def write_target(
    target: CommitTarget, metadata: TableMetadata, options: Mapping[str, Any] | None = None
) -> WriteTarget:
    """Where, and how, new files of the table are written."""
    return WriteTarget.of(metadata, target.storage, target.environment, overrides=write_overrides(options))


def source_filter(target: CommitTarget, data: Any) -> Expression | None:
    """The filter of the rows that input data consists of, if it is a scan of the target's head."""
    if not isinstance(data, Scan) or data.snapshot is None or data.snapshot != target.head:
        return None
    return data.where


def reads_from(target: CommitTarget, files: Iterable[DataFile] = (), where: Expression | str | None = None) -> Reads:
    """What a change rests on that read rows (by default all) of the target's head, and copied those of some files."""
    head = target.head
    return Reads(
        None if head is None else head.snapshot_id,
        filter=TRUE if where is None else as_filter(where),
        files=frozenset(file.file_path for file in files if file.is_data),
        schema_id=target.published.current_schema_id,
    )


# commits ----------------------------------------------------------------------------------------------------------


def row_options(
    target: CommitTarget,
    rows: InputRows,
    summary: Mapping[str, str] | None,
    isolation: Isolation | str = Isolation.SERIALIZABLE,
) -> SnapshotOptions:
    """The options of a snapshot that adds files which were just written with these rows."""
    options = target.options(summary, isolation)
    options["fresh"] = True
    options["written_with"] = rows.metadata.current_schema_id
    if rows.schema_changes:  # the new schema is part of the commit, which gives it its id
        del options["written_with"]
    return options


def commit_rows(
    target: CommitTarget, rows: InputRows, files: Sequence[DataFile], change: Change | None
) -> Snapshot | None:
    """Commit the change that adds files, together with the schema changes that the rows need."""
    changes = [*rows.schema_changes, *([] if change is None else [change])]
    return target.commit(changes, [file.file_path for file in files]) if changes else None


def replace_rows(
    target: CommitTarget,
    rows: InputRows,
    destination: WriteTarget,
    files: Sequence[DataFile],
    where: Expression,
    read: Expression | str | None,
    options: SnapshotOptions,
) -> Snapshot | None:
    """Commit new files in place of the rows that match a bound filter.

    Files whose rows all match are removed. Of those with some matching rows, the others are copied to new files.
    """
    reads = BLIND if read is None else reads_from(target, where=read)
    copied: Sequence[DataFile] = ()
    try:
        selected = None if where == TRUE else _select_files(target, destination, where)
        if selected is None or selected.by_metadata:
            change = Overwrite(added=files, where=where, reads=reads, **options)
        else:
            reader = TaskReader(destination.metadata, destination.storage, registry=destination.registry)
            lineage = destination.metadata.format_version > 2
            columns = with_row_lineage(destination.schema) if lineage else destination.schema
            copied = write_rows(
                destination, rows_that_stay(selected.partly, where, reader, columns), row_lineage=lineage
            )
            partly = [task.file for task in selected.partly]
            schema_ids = destination.metadata.current_schema_id, target.published.current_schema_id
            reads = replace(
                reads_from(target, partly, where if read is None else read),
                row_wise=read is None,
                schema_id=schema_ids[0] if read is None else schema_ids[1],
            )
            change = Overwrite(added=(*files, *copied), removed=(*selected.whole, *partly), reads=reads, **options)
    except BaseException as error:
        leave_nothing(error, discard(target.storage, [file.file_path for file in (*files, *copied)]))
        raise
    return commit_rows(target, rows, (*files, *copied), change)


def _select_files(target: CommitTarget, destination: WriteTarget, where: Expression) -> Concerned:
    """The files with rows that may match a bound filter."""
    options = ScanOptions(schema=destination.schema, where=where)
    plan = plan_scan(target.published, target.storage, snapshot=target.head, options=options, all_deletes=True)
    reader = TaskReader(destination.metadata, destination.storage, registry=destination.registry)
    selected = concerned_files(plan, where, reader)
    if not selected.by_metadata and target.rows_pending:
        raise UnsupportedFeature(
            f"some files may have rows that match {to_text(where)} and rows that do not, and rows that were changed "
            "earlier in this transaction cannot be read before its commit",
            hint="commit first, or choose a filter that all rows of each file match or none",
        )
    return selected


# partitions -------------------------------------------------------------------------------------------------------


def has_other_specs(head: Snapshot | None, destination: WriteTarget) -> bool:
    """Whether a snapshot has data files of another partition spec than the one that is written."""
    manifests = [] if head is None else manifests_of_snapshot(head, destination.storage)
    return any(
        manifest.content == ManifestContent.DATA and manifest.partition_spec_id != destination.spec.spec_id
        for manifest in manifests
    )


def partition_filter(files: Iterable[DataFile], destination: WriteTarget) -> Expression:
    """The bound filter that all rows in the partitions of some files match."""
    partitions = {repr(file.partition): file.partition for file in files}  # by text: NaN does not equal itself
    return or_(*(_one_partition_filter(partition, destination) for partition in partitions.values()))


def _one_partition_filter(partition: tuple[Any, ...], destination: WriteTarget) -> Expression:
    predicates = []
    types = destination.spec.partition_type(destination.schema).fields
    for field, value, typed in zip(destination.spec.fields, partition, types, strict=True):
        if isinstance(field.transform, Void):
            continue
        source = BoundReference(destination.schema.entry(field.source_id))
        identity = isinstance(field.transform, Identity)
        term = source if identity else BoundTransform(field.transform, source, typed.type)
        if value is None:
            predicates.append(BoundPredicate(Op.IS_NULL, term))
        elif value != value:
            predicates.append(BoundPredicate(Op.IS_NAN, term))
        else:
            predicates.append(BoundPredicate(Op.EQ, term, (value,)))
    return and_(*predicates)
