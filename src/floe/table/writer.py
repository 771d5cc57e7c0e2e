"""Rows written to a table: appended, or put in the place of others.

Data may come in many forms (`floe.arrow.incoming`): Arrow, pandas, Polars, dictionaries. It is brought to the table's
columns, or refused before anything is written (`floe.arrow.fitting`); written to files that are partitioned, sorted and
sized as the table says; and committed. If the commit fails for certain, the files are deleted again.

>>> import floe
>>> lake = floe.connect("memory:")
>>> lake.create_namespace("db")
>>> t = lake.create_table("db.t", "id bigint not null, day date", partition_by=["day"])
>>> t.append([{"id": 1, "day": "2024-02-29"}, {"id": 2, "day": "2024-03-01"}]).summary["added-records"]
'2'
>>> t.append({"id": ["x"]})
Traceback (most recent call last):
floe.errors.InvalidValue: 'x' is not a value of type long: it is a str (column: id); ...
>>> t.overwrite([{"id": 3, "day": "2024-03-01"}], where="day >= '2024-03-01'").summary["deleted-records"]
'1'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.fitting import Fitting, merged_schema
from floe.arrow.importing import data_files_at, import_files
from floe.arrow.incoming import reader_of
from floe.arrow.reading.tasks import TaskReader
from floe.arrow.replacing import Concerned, concerned_files, rows_that_stay
from floe.arrow.writing import write_rows
from floe.commit.change import Attempt, Change
from floe.commit.footprint import BLIND, Isolation
from floe.commit.operations.append import FastAppend, MergeAppend
from floe.commit.operations.file_change import as_filter
from floe.commit.operations.overwrite import Overwrite
from floe.commit.operations.properties import UpdateProperties
from floe.commit.operations.replace_partitions import ReplacePartitions
from floe.commit.operations.schema_update import UpdateSchema, schema_update_of
from floe.commit.operations.snapshot_change import SnapshotOptions
from floe.commit.roots import FILES_ELSEWHERE, allow_files
from floe.errors import InvalidExpression, InvalidInput, InvalidSchema, InvalidValue, UnsupportedFeature
from floe.formats.arrow_filters import filter_mask
from floe.formats.writers.rolling import discard, leave_nothing
from floe.formats.writers.target import WriteTarget
from floe.plan.manifest_lists import manifests_of_snapshot
from floe.plan.scan import plan_scan
from floe.spec.expressions.binding import bind
from floe.spec.expressions.nodes import (
    TRUE,
    BoundPredicate,
    BoundReference,
    BoundTransform,
    Expression,
    Op,
    and_,
    or_,
)
from floe.spec.expressions.printing import to_text
from floe.spec.manifests.entries import DataFile, ManifestContent
from floe.spec.metadata.apply import apply
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.transforms import Identity, Void
from floe.spec.schemas.metadata_columns import with_row_lineage
from floe.spec.schemas.name_mapping import NAME_MAPPING_PROPERTY, format_name_mapping
from floe.table.file_actions import FileActions
from floe.table.scan import Scan

__all__ = ["RowActions"]


@dataclass(frozen=True, slots=True)
class _Incoming:
    """Data that fits a table, which may have got new columns for it."""

    metadata: TableMetadata
    batches: Iterator[pa.RecordBatch]
    changes: tuple[Change, ...]


class RowActions(FileActions):
    """The methods that write rows; a table has them, its branches and stages, and transactions.

    Each gives the snapshot that it made: None if there was nothing to write, and always in a transaction, which makes
    it later. `merge_schema` adds columns of the data that the table has not, and widens types, in the same commit.
    `case_sensitive` says whether `ID` is another column than `id`. `summary` adds properties to the snapshot's
    summary, and `options` are write properties (`write.…`) that take the place of the table's for this call.
    """

    def append(
        self,
        data: Any,
        *,
        merge_schema: bool = False,
        case_sensitive: bool = True,
        fast: bool = False,
        options: Mapping[str, Any] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Add rows: `t.append(data)`.

        It reads nothing of the table, so it never conflicts with what others write; unless the data is a scan of this
        very table: then what others change meanwhile among the rows that were read is a conflict. `fast` writes one new
        manifest and never merges small ones: for many small commits.
        """
        read = self._made_from(data)
        reads = BLIND if read is None else self._reads((), read)
        incoming = self._incoming(data, merge_schema=merge_schema, case_sensitive=case_sensitive)
        files = write_rows(self._write_target(incoming.metadata, options), incoming.batches)
        append = FastAppend if fast else MergeAppend
        return self._commit_rows(incoming, files, append(files, reads=reads, **self._row_options(incoming, summary)))

    def overwrite(
        self,
        data: Any,
        where: Expression | str | None = None,
        *,
        only_matching: bool = True,
        read: Expression | str | None = None,
        merge_schema: bool = False,
        case_sensitive: bool = True,
        isolation: Isolation | str = Isolation.SERIALIZABLE,
        options: Mapping[str, Any] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Put rows in the place of those that pass a filter; without one, of all rows.

        Files of which all rows pass are removed; those of which only some pass are written anew without them. New rows
        have to pass the filter too, so that doing it again gives the same table; `only_matching=False` lets others in.

        What is replaced is what the table holds when it is committed. If the data was made from rows of this table, say
        so: `read` is a filter for them (`"true"` for all), and what others changed among them since this object was
        loaded is then a conflict, not lost. Of a scan of this very table it is known.
        """
        read = self._made_from(data) if read is None else read
        chosen = TRUE if where is None else as_filter(where)
        if chosen is None:
            raise InvalidExpression(f"a filter is text or an expression, found {where!r:.80}")
        if where is not None and read is None:
            self._reload()
        incoming = self._incoming(data, merge_schema=merge_schema, case_sensitive=case_sensitive)
        bound = bind(chosen, incoming.metadata.schema, case_sensitive=case_sensitive)
        batches = _matching(incoming.batches, bound) if bound != TRUE and only_matching else incoming.batches
        target = self._write_target(incoming.metadata, options)
        files = write_rows(target, batches)
        return self._replace(incoming, target, files, bound, read, self._row_options(incoming, summary, isolation))

    def overwrite_partitions(
        self,
        data: Any,
        *,
        merge_schema: bool = False,
        case_sensitive: bool = True,
        options: Mapping[str, Any] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Put rows in the place of everything that their partitions hold (dynamic overwrite).

        Partitions without new rows stay as they are; without partitioning, all rows are replaced.
        """
        self._reload()
        incoming = self._incoming(data, merge_schema=merge_schema, case_sensitive=case_sensitive)
        target = self._write_target(incoming.metadata, options)
        mixed = not target.spec.is_unpartitioned and _has_other_specs(self._head(), target)
        files = write_rows(target, incoming.batches)
        if not files:
            return self._commit_rows(incoming, files, None)
        own = self._row_options(incoming, summary)
        if not mixed:
            return self._commit_rows(incoming, files, ReplacePartitions(files, **own))
        # files of another partitioning hold rows of the same partitions, beside others
        return self._replace(incoming, target, files, _in_partitions(files, target), None, own)

    def add_files(
        self,
        locations: str | Iterable[str],
        *,
        partition: Mapping[str, Any] | None = None,
        allow_extra_columns: bool = False,
        check_duplicates: bool = True,
        summary: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Add Parquet, ORC and Avro files that are there already, as they are; a folder stands for all files below it.

        The columns must be the table's, by field id or by name. Each file is of one partition, which is told by
        `partition` (`{"day": "2024-02-29"}`), by folders of a Hive table, by the footer, or by reading the columns.
        Files that the table has already are refused; `check_duplicates=False` does not look for them.

        The files belong to the table from then on: when it expires them, they are deleted.
        """
        if not isinstance(locations, Iterable):
            raise InvalidInput(f"locations are texts, found {locations!r:.80}")
        given = [locations] if isinstance(locations, str) else list(locations)
        target = self._write_target(self.metadata)
        elsewhere = allow_files(self.storage, [location for location in given if isinstance(location, str)])
        imported = import_files(
            target, data_files_at(target, given), partition=partition, allow_extra_columns=allow_extra_columns
        )
        if not imported.files:
            return None
        changes: list[Change] = []
        if imported.name_mapping is not None:
            changes.append(UpdateProperties({NAME_MAPPING_PROPERTY: format_name_mapping(imported.name_mapping)}))
        if elsewhere and FILES_ELSEWHERE not in self.metadata.properties:
            changes.append(UpdateProperties({FILES_ELSEWHERE: "true"}))
        options = self._options(summary)
        options["fresh"] = not check_duplicates
        changes.append(MergeAppend(imported.files, **options))
        return self._do_all(changes)

    # what they share ---------------------------------------------------------------------------------------------

    def _made_from(self, data: Any) -> Expression | None:
        """The filter of the rows that data is made from, if it is a scan of this table as it was last seen."""
        if not isinstance(data, Scan) or data.snapshot is None or data.snapshot != self._head():
            return None
        return data.where

    def _incoming(self, data: Any, *, merge_schema: bool, case_sensitive: bool) -> _Incoming:
        """The data, brought to the table's columns: as this object has seen them, or else as they are now."""
        metadata = self.metadata
        reader = reader_of(data, metadata.schema, case_sensitive=case_sensitive)
        try:
            return self._fitted(metadata, reader, merge_schema, case_sensitive)
        except InvalidSchema:
            self._reload()
            if self.metadata.current_schema_id == metadata.current_schema_id:
                raise
            return self._fitted(self.metadata, reader, merge_schema, case_sensitive)

    def _fitted(
        self, metadata: TableMetadata, reader: pa.RecordBatchReader, merge_schema: bool, case_sensitive: bool
    ) -> _Incoming:
        changes: tuple[Change, ...] = ()
        if merge_schema:
            metadata, changes = self._merged(metadata, reader.schema, case_sensitive)
        fitting = Fitting(reader.schema, metadata.schema, case_sensitive=case_sensitive)
        return _Incoming(metadata, fitting.all(reader), changes)

    def _merged(
        self, metadata: TableMetadata, incoming: pa.Schema, case_sensitive: bool
    ) -> tuple[TableMetadata, tuple[Change, ...]]:
        """The table's metadata with the columns that data brings, and the change that makes it so."""
        update = schema_update_of(metadata, case_sensitive=case_sensitive)
        version = metadata.format_version
        merged_schema(update, incoming, metadata.schema, format_version=version, case_sensitive=case_sensitive)
        change = UpdateSchema.from_update(update, metadata)
        if change.schema.same_columns(metadata.schema):
            return metadata, ()
        now_ms = metadata.last_updated_ms
        attempt = Attempt("", metadata, metadata, self.storage, self.environment, now_ms=now_ms)
        return apply(metadata, change.updates(attempt), now_ms=now_ms), (change,)

    def _write_target(self, metadata: TableMetadata, options: Mapping[str, Any] | None = None) -> WriteTarget:
        """Where new files of the table go."""
        if not isinstance(options, Mapping | None):
            raise InvalidInput(f"options are a dictionary of write properties, found {options!r:.80}")
        for name in options or {}:
            if not isinstance(name, str) or not name.startswith("write."):
                raise InvalidInput(
                    f"{name!r:.80} is no write property", hint="options are such as {'write.format.default': 'orc'}"
                )
        overrides = {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in (options or {}).items()
        }
        return WriteTarget.of(metadata, self.storage, self.environment, overrides=overrides)

    def _row_options(
        self,
        incoming: _Incoming,
        summary: Mapping[str, str] | None,
        isolation: Isolation | str = Isolation.SERIALIZABLE,
    ) -> SnapshotOptions:
        found = self._options(summary, isolation)
        found["fresh"] = True
        found["written_with"] = incoming.metadata.current_schema_id
        if incoming.changes:  # the schema comes with the rows, and gets its id when it is committed
            del found["written_with"]
        return found

    def _commit_rows(self, incoming: _Incoming, files: Sequence[DataFile], change: Change | None) -> Snapshot | None:
        changes = [*incoming.changes, *([] if change is None else [change])]
        return self._do_all(changes, [file.file_path for file in files]) if changes else None

    def _replace(
        self,
        incoming: _Incoming,
        target: WriteTarget,
        files: Sequence[DataFile],
        where: Expression,
        read: Expression | str | None,
        options: SnapshotOptions,
    ) -> Snapshot | None:
        """Commit new files in the place of the rows that pass a bound filter."""
        reads = BLIND if read is None else self._reads((), read)
        copied: Sequence[DataFile] = ()
        try:
            found = None if where == TRUE else self._concerned(target, where)
            if found is None or found.by_metadata:
                change = Overwrite(added=files, where=where, reads=reads, **options)
            else:
                reader = TaskReader(target.metadata, target.storage, registry=target.registry)
                lineage = target.metadata.format_version > 2
                columns = with_row_lineage(target.schema) if lineage else target.schema
                staying = rows_that_stay(found.partly, where, reader, columns)
                copied = write_rows(target, staying, row_lineage=lineage)
                partly = [task.file for task in found.partly]
                reads = replace(
                    self._reads(partly, where if read is None else read),
                    row_wise=read is None,
                    schema_id=target.metadata.current_schema_id if read is None else self._published.current_schema_id,
                )
                change = Overwrite(added=(*files, *copied), removed=(*found.whole, *partly), reads=reads, **options)
        except BaseException as error:
            leave_nothing(error, discard(self.storage, [file.file_path for file in (*files, *copied)]))
            raise
        return self._commit_rows(incoming, (*files, *copied), change)

    def _concerned(self, target: WriteTarget, where: Expression) -> Concerned:
        plan = plan_scan(
            self._published, self.storage, snapshot=self._head(), schema=target.schema, where=where, all_deletes=True
        )
        found = concerned_files(plan, where, TaskReader(target.metadata, target.storage, registry=target.registry))
        if not found.by_metadata and self._rows_pending:
            raise UnsupportedFeature(
                f"some files may have only some rows that pass {to_text(where)}, and rows that were changed earlier in "
                "this transaction cannot be looked at before its commit",
                hint="commit first, or choose a filter that whole files pass",
            )
        return found


def _has_other_specs(head: Snapshot | None, target: WriteTarget) -> bool:
    """Whether there are rows that were written with another partitioning."""
    manifests = [] if head is None else manifests_of_snapshot(head, target.storage)
    return any(
        manifest.content == ManifestContent.DATA and manifest.partition_spec_id != target.spec.spec_id
        for manifest in manifests
    )


def _in_partitions(files: Iterable[DataFile], target: WriteTarget) -> Expression:
    """The bound filter of all rows in the partitions of some files."""
    partitions = {repr(file.partition): file.partition for file in files}  # NaN is not equal to itself
    return or_(*(_in_partition(partition, target) for partition in partitions.values()))


def _in_partition(partition: tuple[Any, ...], target: WriteTarget) -> Expression:
    tests = []
    types = target.spec.partition_type(target.schema).fields
    for field, value, typed in zip(target.spec.fields, partition, types, strict=True):
        if isinstance(field.transform, Void):
            continue
        source = BoundReference(target.schema.entry(field.source_id))
        identity = isinstance(field.transform, Identity)
        term = source if identity else BoundTransform(field.transform, source, typed.type)
        if value is None:
            tests.append(BoundPredicate(Op.IS_NULL, term))
        elif value != value:
            tests.append(BoundPredicate(Op.IS_NAN, term))
        else:
            tests.append(BoundPredicate(Op.EQ, term, (value,)))
    return and_(*tests)


def _matching(batches: Iterator[pa.RecordBatch], where: Expression) -> Iterator[pa.RecordBatch]:
    """The batches, if all of their rows pass a filter."""
    for batch in batches:
        strange = batch.num_rows - (pc.sum(filter_mask(where, batch)).as_py() or 0)
        if strange:
            example = batch.filter(pc.invert(filter_mask(where, batch))).slice(0, 1).to_pylist()[0]
            raise InvalidValue(
                f"{strange} of the new rows do not pass the filter {to_text(where)}, so that doing this again would "
                f"add them again; one of them is {str(example)[:200]}",
                hint="widen the filter, leave these rows out, or pass only_matching=False",
            )
        yield batch
