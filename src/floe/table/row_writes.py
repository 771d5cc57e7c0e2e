"""How writes of rows run: from input data, or a row-level statement, to files and a commit.

Input data (`floe.arrow.input_data`: Arrow, pandas, Polars, dictionaries, …) is aligned with the table's schema, or
refused before anything is written (`floe.arrow.schema_alignment`). It is written to files that are partitioned, sorted
and sized as the table's properties say, and committed. If the commit fails for certain, the files are deleted again.

Row-level statements are DELETE, UPDATE, upsert and MERGE. Conditions and values are SQL as Spark writes it
(`floe.arrow.values`), filters built with `col`, or plain Python values. A statement reads the newest state of the
table. It is committed on top of what others committed meanwhile, or refused as docs/isolation.md says. The properties
`write.delete.mode`, `write.update.mode` and `write.merge.mode` choose `copy-on-write` (the default) or `merge-on-read`.

>>> import floe
>>> lake = floe.connect("memory:")
>>> lake.create_namespace("db")
>>> t = lake.create_table("db.t", "id bigint not null, amount decimal(9, 2), note string")
>>> _ = t.append([{"id": n, "amount": 10 * n} for n in range(5)])
>>> t.delete("id % 2 = 1")
<RowsChanged: 2 deleted>
>>> t.update({"amount": "amount * 1.5", "note": "'raised'"}, where="amount > 30")
<RowsChanged: 1 updated>
>>> t.upsert([{"id": 4, "note": "again"}, {"id": 7, "note": None}], on="id")
<RowsChanged: 1 updated, 1 inserted>
>>> t.scan(where="id >= 4").to_arrow().to_pylist()
[{'id': 4, 'amount': Decimal('60.00'), 'note': 'again'}, {'id': 7, 'amount': None, 'note': None}]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.dml.base import Base, StatementResult, file_paths
from floe.arrow.dml.merge import Clause, Match, Then
from floe.arrow.dml.merge_join import Source, load_source
from floe.arrow.dml.statements import MatchedFiles, match_files, remaining_rows
from floe.arrow.input_data import batch_reader
from floe.arrow.read.task_reader import TaskReader
from floe.arrow.schema_alignment import SchemaAlignment, add_input_columns
from floe.arrow.writer import write_rows
from floe.commit.change import BLIND, Attempt, Change, Isolation, Reads
from floe.commit.operations.data_changes import Overwrite
from floe.commit.operations.evolution import UpdateSchema, schema_update_of
from floe.commit.operations.snapshot_change import SnapshotOptions
from floe.commit.target import CommitTarget
from floe.errors import ConflictingChange, InvalidInput, InvalidSchema, InvalidUpdate, InvalidValue, UnsupportedFeature
from floe.formats.columns.filters import filter_mask
from floe.formats.writers.rolling_writer import discard, note_undeleted_files
from floe.formats.writers.write_target import WriteTarget
from floe.plan.manifests import manifests_of_snapshot
from floe.plan.scan import ScanOptions, plan_scan
from floe.spec.expressions.expression_text import to_text
from floe.spec.expressions.nodes import TRUE, BoundPredicate, BoundReference, BoundTransform, Expression, Op, and_, or_
from floe.spec.manifests.entries import DataFile, ManifestContent
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.transforms import Identity, Void
from floe.spec.properties import CONFLICT_RETRIES, FILE_FORMAT, WRITE_PREFIX
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
    reader = batch_reader(data, metadata.schema, case_sensitive=case_sensitive)
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
    fitting = SchemaAlignment(reader.schema, metadata.schema, case_sensitive=case_sensitive)
    return InputRows(metadata, fitting.align_all(reader), changes)


def merge_input_schema(
    target: CommitTarget, metadata: TableMetadata, schema: pa.Schema, *, case_sensitive: bool = True
) -> tuple[TableMetadata, tuple[Change, ...]]:
    """Add the columns that only the input data has, and widen types; returns the new metadata and the change."""
    update = schema_update_of(metadata, case_sensitive=case_sensitive)
    version = metadata.format_version
    add_input_columns(update, schema, metadata.schema, format_version=version, case_sensitive=case_sensitive)
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
                destination, remaining_rows(selected.partial, where, reader, columns), row_lineage=lineage
            )
            partly = [task.file for task in selected.partial]
            schema_ids = destination.metadata.current_schema_id, target.published.current_schema_id
            reads = replace(
                reads_from(target, partly, where if read is None else read),
                row_wise=read is None,
                schema_id=schema_ids[0] if read is None else schema_ids[1],
            )
            change = Overwrite(added=(*files, *copied), removed=(*selected.complete, *partly), reads=reads, **options)
    except BaseException as error:
        note_undeleted_files(error, discard(target.storage, [file.file_path for file in (*files, *copied)]))
        raise
    return commit_rows(target, rows, (*files, *copied), change)


def _select_files(target: CommitTarget, destination: WriteTarget, where: Expression) -> MatchedFiles:
    """The files with rows that may match a bound filter."""
    options = ScanOptions(schema=destination.schema, where=where)
    plan = plan_scan(target.published, target.storage, snapshot=target.head, options=options, all_deletes=True)
    reader = TaskReader(destination.metadata, destination.storage, registry=destination.registry)
    selected = match_files(plan, where, reader)
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


# Row-level statements ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class RowsChanged:
    """The result of a row-level statement: its snapshot, and how many rows it changed.

    The snapshot is None if no row was changed, and in a transaction, which makes its snapshots when it is committed.
    """

    snapshot: Snapshot | None = None
    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    copied: int = 0
    """Unchanged rows that copy-on-write had to rewrite, because others of their files changed."""

    unchanged: int = 0
    """Rows of an upsert that were in the table already, with the same values."""

    def __repr__(self) -> str:
        counts = {name: getattr(self, name) for name in ("deleted", "updated", "inserted")}
        text = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        return f"<RowsChanged: {text or 'nothing'}>"


class OnlySomeRowsMatch(Exception):
    """A delete by metadata found, at its commit, a file of which only some rows match; `error` says which."""

    def __init__(self, error: ConflictingChange | InvalidUpdate) -> None:
        self.error = error


def run_statement(
    target: CommitTarget,
    statement: Callable[[Base], StatementResult],
    options: Mapping[str, Any] | None,
    summary: Mapping[str, str] | None,
    *,
    retry: bool = True,
    columns: pa.Schema | None = None,
) -> RowsChanged:
    """Run a statement on the newest state and commit it; after a conflict again, if the table's properties say so.

    With `retry=False` it runs once: input data that was read from the table itself may be outdated after a conflict.
    `columns` are merged into the table's schema in the same commit.
    """
    overrides = write_overrides(options)
    attempts = 0
    while True:
        target.refresh()
        metadata = target.metadata
        schema_changes: tuple[Change, ...] = ()
        if columns is not None:
            metadata, schema_changes = merge_input_schema(target, metadata, columns)
        base = Base.of(target, metadata=metadata, overrides=overrides, summary=summary)
        result = statement(base)
        counts = result.counts
        changed = RowsChanged(None, counts.deleted, counts.updated, counts.inserted, counts.copied, counts.unchanged)
        changes = [*schema_changes, *([] if result.change is None else [result.change])]
        if not changes:
            return changed
        try:
            return replace(changed, snapshot=target.commit(changes, file_paths(result.files)))
        except (ConflictingChange, InvalidUpdate) as error:
            if result.by_metadata:
                raise OnlySomeRowsMatch(error) from None
            attempts += 1
            may_retry = retry and isinstance(error, ConflictingChange)
            if not may_retry or attempts > CONFLICT_RETRIES.read(base.target.properties):
                raise


def read_source(target: CommitTarget, data: Any) -> Source:
    """Read the source of an upsert or MERGE into memory; of a scan of this very table, with what it read."""
    where, head = source_filter(target, data), target.head
    target.refresh()
    return load_source(data, target.metadata.schema, where, None if head is None else head.snapshot_id)


class Merge:
    """A MERGE that is built clause by clause; `execute` runs it.

    Clauses of a kind are tried in order, and the first whose condition is true applies; a row for which none is stays
    as it is. Conditions and values of matched rows may name columns of `t` and `s`, those of new rows columns of `s`,
    and those of rows that no source row matches columns of `t`.
    """

    def __init__(self, run: Callable[[Sequence[Clause]], RowsChanged]) -> None:
        self._run = run
        self._clauses: list[Clause] = []
        self._done = False

    def when_matched_update(self, set: Mapping[str, Any], condition: Expression | str | None = None) -> Self:
        """Set columns of rows that match."""
        return self._add(Clause(Match.MATCHED, Then.UPDATE, set, condition))

    def when_matched_update_all(self, condition: Expression | str | None = None) -> Self:
        """Set all columns that the source has too, under the same names."""
        return self._add(Clause(Match.MATCHED, Then.UPDATE, None, condition))

    def when_matched_delete(self, condition: Expression | str | None = None) -> Self:
        """Delete rows that match."""
        return self._add(Clause(Match.MATCHED, Then.DELETE, None, condition))

    def when_not_matched_insert(self, values: Mapping[str, Any], condition: Expression | str | None = None) -> Self:
        """Insert rows of the source that match no row; columns that are not named get their defaults."""
        return self._add(Clause(Match.NOT_MATCHED, Then.INSERT, values, condition))

    def when_not_matched_insert_all(self, condition: Expression | str | None = None) -> Self:
        """Insert rows of the source that match no row, with all columns that the table has too."""
        return self._add(Clause(Match.NOT_MATCHED, Then.INSERT, None, condition))

    def when_not_matched_by_source_update(
        self, set: Mapping[str, Any], condition: Expression | str | None = None
    ) -> Self:
        """Set columns of rows that no row of the source matches."""
        return self._add(Clause(Match.NOT_MATCHED_BY_SOURCE, Then.UPDATE, set, condition))

    def when_not_matched_by_source_delete(self, condition: Expression | str | None = None) -> Self:
        """Delete rows that no row of the source matches."""
        return self._add(Clause(Match.NOT_MATCHED_BY_SOURCE, Then.DELETE, None, condition))

    def execute(self) -> RowsChanged:
        """Run the MERGE and commit it. This can be done once."""
        self._check_not_executed()
        self._done = True
        return self._run(self._clauses)

    def _add(self, clause: Clause) -> Self:
        self._check_not_executed()
        self._clauses.append(clause)
        return self

    def _check_not_executed(self) -> None:
        if self._done:
            raise InvalidInput("this MERGE was executed already", hint="start another one")

    def __repr__(self) -> str:
        kinds = ", ".join(f"when {clause.when.value} {clause.then.value}" for clause in self._clauses)
        return f"<Merge: {kinds or 'no clauses'}{'' if self._done else ', not executed yet'}>"

    def __del__(self) -> None:
        if getattr(self, "_clauses", None) and not self._done:
            warnings.warn("a MERGE was never executed: end it with .execute()", stacklevel=2)
