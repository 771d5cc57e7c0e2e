"""All methods that change the rows of a table: by rows, by condition or key, and by whole files.

`Table`, `Branch`, `Stage` and `Transaction` are writers; they differ in the `CommitTarget` that changes go to. `Branch`
and `Stage` are defined here.

| method | input | effect |
|---|---|---|
| `append` | rows | adds rows |
| `overwrite` | rows | replaces the rows that match a filter, or all |
| `overwrite_partitions` | rows | replaces the partitions that get rows (dynamic overwrite) |
| `delete`, `update` | a condition | deletes or updates rows |
| `upsert`, `merge` | rows and keys, or clauses | updates rows that match, inserts the others |
| `add_files` | locations of Parquet, ORC or Avro files | adds existing files as they are |
| `append_files`, `overwrite_files`, `replace_partitions`, `delete_files` | `DataFile` objects | adds and removes files that an engine has written |
| `row_delta` | data files and delete files | adds rows and deletes together (merge-on-read) |
| `rewrite_files`, `rewrite_manifests` | files with the same rows | compaction |

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
"""  # noqa: E501 (a table)

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import UnionType
from typing import Any, TypeVar

from floe.arrow.dml.merge import merge, upsert
from floe.arrow.dml.statements import delete, update
from floe.arrow.file_import import import_files, list_data_files
from floe.arrow.writer import write_rows
from floe.commit.change import BLIND, Change, Isolation, Reads
from floe.commit.operations.data_changes import (
    DeleteFiles,
    FastAppend,
    MergeAppend,
    Overwrite,
    ReplacePartitions,
    RowDelta,
)
from floe.commit.operations.metadata_changes import UpdateProperties
from floe.commit.operations.rewrite import RewriteFiles, RewriteManifests
from floe.commit.roots import allow_files
from floe.commit.target import BranchTarget, CommitTarget, Committer, StageTarget
from floe.errors import InvalidExpression, InvalidInput
from floe.spec.expressions.binder import bind
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.properties import FILES_ELSEWHERE, NAME_MAPPING
from floe.spec.schemas.name_mapping import format_name_mapping
from floe.sql.filters import as_filter
from floe.table.row_writes import (
    Merge,
    OnlySomeRowsMatch,
    RowsChanged,
    align_input,
    commit_rows,
    has_other_specs,
    matching_rows,
    partition_filter,
    read_source,
    reads_from,
    replace_rows,
    row_options,
    run_statement,
    source_filter,
    write_target,
)

F = TypeVar("F", bound=DataFile | str)


class Writer(Committer):
    """The methods that change rows. They return the new snapshot, or how many rows changed.

    There is no snapshot if there was nothing to write, and in a transaction, which makes its snapshots when it is
    committed. Arguments that several methods have:

    - `summary` adds properties to the snapshot's summary.
    - `options` are write properties (`write.…`) that replace the table's for one call, such as
      `{"write.delete.mode": "merge-on-read"}`.
    - `merge_schema` adds columns that only the input data has, and widens types, in the same commit.
    - `case_sensitive=False` matches `ID` and `id`.
    - `isolation` is `"serializable"` or `"snapshot"` (docs/isolation.md).
    """

    # rows --------------------------------------------------------------------------------------------------------

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

        An append reads nothing of the table, so it does not conflict with what others write. Only if the data is a scan
        of this very table, changes of others to the rows that it read are a conflict. `fast` writes one new manifest
        and never merges small ones: for many small commits.
        """
        target = self.commit_target
        read = source_filter(target, data)
        reads = BLIND if read is None else reads_from(target, where=read)
        rows = align_input(target, data, merge_schema=merge_schema, case_sensitive=case_sensitive)
        files = write_rows(write_target(target, rows.metadata, options), rows.batches)
        append = FastAppend if fast else MergeAppend
        return commit_rows(target, rows, files, append(files, reads=reads, **row_options(target, rows, summary)))

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
        """Replace the rows that match a filter by new ones; without a filter, all rows.

        Files whose rows all match are removed; files of which only some rows match are rewritten without them. New rows
        have to match the filter too, so that a second run gives the same table; `only_matching=False` accepts others.

        The rows that are replaced are those that the table holds at the commit. If the data was computed from rows of
        this table, pass a filter for them as `read` (`"true"` for all): changes of others to them, since this object
        was loaded, are then a conflict instead of lost. For a scan of this very table that is known.
        """
        target = self.commit_target
        read = source_filter(target, data) if read is None else read
        filter_ = TRUE if where is None else as_filter(where)
        if filter_ is None:
            raise InvalidExpression(f"a filter must be text or an expression, found {where!r:.80}")
        if where is not None and read is None:
            target.refresh()
        rows = align_input(target, data, merge_schema=merge_schema, case_sensitive=case_sensitive)
        bound = bind(filter_, rows.metadata.schema, case_sensitive=case_sensitive)
        batches = matching_rows(rows.batches, bound) if bound != TRUE and only_matching else rows.batches
        destination = write_target(target, rows.metadata, options)
        files = write_rows(destination, batches)
        snapshot_options = row_options(target, rows, summary, isolation)
        return replace_rows(target, rows, destination, files, bound, read, snapshot_options)

    def overwrite_partitions(
        self,
        data: Any,
        *,
        merge_schema: bool = False,
        case_sensitive: bool = True,
        options: Mapping[str, Any] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Replace the partitions that the rows belong to (dynamic overwrite); `replace_partitions` takes files.

        Partitions without new rows stay as they are. In an unpartitioned table all rows are replaced.
        """
        target = self.commit_target
        target.refresh()
        rows = align_input(target, data, merge_schema=merge_schema, case_sensitive=case_sensitive)
        destination = write_target(target, rows.metadata, options)
        mixed = not destination.spec.is_unpartitioned and has_other_specs(target.head, destination)
        files = write_rows(destination, rows.batches)
        if not files:
            return commit_rows(target, rows, files, None)
        snapshot_options = row_options(target, rows, summary)
        if not mixed:
            return commit_rows(target, rows, files, ReplacePartitions(files, **snapshot_options))
        # files of an older spec may hold rows of these partitions beside rows of others: found by a filter
        return replace_rows(
            target, rows, destination, files, partition_filter(files, destination), None, snapshot_options
        )

    def add_files(
        self,
        locations: str | Iterable[str],
        *,
        partition: Mapping[str, Any] | None = None,
        allow_extra_columns: bool = False,
        check_duplicates: bool = True,
        summary: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Add existing Parquet, ORC and Avro files as they are; a folder stands for all files below it.

        The columns must be the table's, by field id or by name. Each file belongs to one partition. It is taken from
        `partition` (`{"day": "2024-02-29"}`), from the folder names of a Hive table, from the footer, or by reading the
        columns. Files that the table has already are refused; `check_duplicates=False` does not look for them.

        The files belong to the table from then on: when they expire, they are deleted.
        """
        if not isinstance(locations, Iterable):
            raise InvalidInput(f"locations must be text, found {locations!r:.80}")
        target = self.commit_target
        paths = [locations] if isinstance(locations, str) else list(locations)
        destination = write_target(target, target.metadata)
        elsewhere = allow_files(target.storage, [path for path in paths if isinstance(path, str)])
        imported = import_files(
            destination,
            list_data_files(destination, paths),
            partition=partition,
            allow_extra_columns=allow_extra_columns,
        )
        if not imported.files:
            return None
        changes: list[Change] = []
        if imported.name_mapping is not None:
            changes.append(UpdateProperties({NAME_MAPPING.name: format_name_mapping(imported.name_mapping)}))
        if elsewhere and not FILES_ELSEWHERE.is_set(target.metadata.properties):
            changes.append(UpdateProperties({FILES_ELSEWHERE.name: "true"}))
        snapshot_options = target.options(summary)
        snapshot_options["fresh"] = not check_duplicates
        changes.append(MergeAppend(imported.files, **snapshot_options))
        return target.commit(changes)

    # row-level statements ----------------------------------------------------------------------------------------

    def delete(
        self,
        where: Expression | str,
        *,
        metadata_only: bool = False,
        options: Mapping[str, Any] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> RowsChanged:
        """Delete the rows for which a condition is true: `t.delete("id = 7")`.

        If metadata proves that whole files match, no row is read, and the rows that are deleted are those that match at
        the commit. With `metadata_only` anything else is an error. Else a conflicting commit of others is an error;
        with the property `write.conflict.retries` the statement is run again that many times.
        """
        if where is None:
            raise InvalidExpression(
                "a condition must be text or an expression, found None", hint="write 'true' to delete all rows"
            )
        target = self.commit_target
        by_metadata = True if metadata_only else None
        try:
            return run_statement(target, lambda base: delete(base, where, by_metadata=by_metadata), options, summary)
        except OnlySomeRowsMatch as only_some:
            if metadata_only:
                raise only_some.error from None
            # since the plan was made, a file was added of which only some rows match
            return run_statement(target, lambda base: delete(base, where, by_metadata=False), options, summary)

    def update(
        self,
        set: Mapping[str, Any],
        where: Expression | str | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> RowsChanged:
        """Set columns of the rows for which a condition is true: `t.update({"amount": "amount * 2"}, where="id = 7")`.

        Values are SQL over the row as it was, or plain Python values. Text is SQL; `floe.lit("text")` is a string. A
        field of a struct is named by its path. Without a condition all rows are updated.
        """
        return run_statement(self.commit_target, lambda base: update(base, set, where), options, summary)

    def upsert(
        self,
        data: Any,
        on: str | Sequence[str] | None = None,
        *,
        merge_schema: bool = False,
        options: Mapping[str, Any] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> RowsChanged:
        """Update the rows that exist, and insert the others: `t.upsert(data, on=["id"])`.

        Rows are the same if they are equal in the columns `on`, by default the table's identifier fields; two rows of
        the data with equal keys are an error. Columns that the data does not have keep their values, and rows that
        would not change are left alone. Dictionaries must all name the same columns.
        """
        source = read_source(self.commit_target, data)
        return run_statement(
            self.commit_target,
            lambda base: upsert(base, source, on),
            options,
            summary,
            retry=source.table_filter is None,
            columns=source.table.schema if merge_schema else None,
        )

    def merge(
        self,
        data: Any,
        on: str | Sequence[str],
        *,
        merge_schema: bool = False,
        options: Mapping[str, Any] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> Merge:
        """Start a MERGE of rows into the table; add clauses to it, then call `execute()`.

        `on` is a condition over `t` (or `target`), the table, and `s` (or `source`), the data: `"t.id = s.id"`; a list
        of names means that these columns are equal. Without `merge_schema`, clauses for all columns leave out those
        that only the data has. If the data is a scan of this very table, changes of others to the rows that it read are
        a conflict too.

        >>> import floe
        >>> lake = floe.connect("memory:")
        >>> lake.create_namespace("db")
        >>> t = lake.create_table("db.t", "id bigint, n int")
        >>> _ = t.append([{"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 3, "n": 3}])
        >>> merge = t.merge([{"id": 1, "n": 10}, {"id": 2, "n": None}, {"id": 9, "n": 90}], on="t.id = s.id")
        >>> merge = merge.when_matched_delete("s.n is null").when_matched_update({"n": "t.n + s.n"})
        >>> merge.when_not_matched_insert_all().when_not_matched_by_source_update({"n": 0}).execute()
        <RowsChanged: 1 deleted, 2 updated, 1 inserted>
        >>> t.scan().to_arrow().sort_by("id").to_pylist()
        [{'id': 1, 'n': 11}, {'id': 3, 'n': 0}, {'id': 9, 'n': 90}]
        """
        target = self.commit_target
        source = read_source(target, data)
        columns = source.table.schema if merge_schema else None
        return Merge(
            lambda clauses: run_statement(
                target,
                lambda base: merge(base, source, on, clauses),
                options,
                summary,
                retry=source.table_filter is None,
                columns=columns,
            )
        )

    # files -------------------------------------------------------------------------------------------------------

    def append_files(
        self,
        files: Iterable[DataFile],
        *,
        fast: bool = False,
        check_duplicates: bool = True,
        summary: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Add data files.

        `fast` writes one new manifest and never merges small ones: for many small commits. Files that the table has
        already are refused, because their rows would be in it twice. Pass `check_duplicates=False` for files that were
        just written under unique names: then no manifests are read for it.
        """
        options = self.commit_target.options(summary)
        options["fresh"] = not check_duplicates
        append = FastAppend if fast else MergeAppend
        return self.commit_target.commit([append(_file_list(files), **options)])

    def overwrite_files(
        self,
        added: Iterable[DataFile] = (),
        *,
        removed: Iterable[DataFile] = (),
        where: Expression | str | None = None,
        read: Expression | str | None = None,
        isolation: Isolation | str = Isolation.SERIALIZABLE,
        summary: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Remove files and add others in one commit.

        `where` removes the files whose rows all match at the commit. `removed` are files that the table must still
        have; their rows may have been copied to the new ones. `read` is a filter for the rows that the change depends
        on: by default all, if files are removed by name.
        """
        removed_files = _file_list(removed)
        reads = BLIND if not removed_files and read is None else reads_from(self.commit_target, removed_files, read)
        options = self.commit_target.options(summary, isolation)
        change = Overwrite(
            added=_file_list(added), removed=removed_files, where=as_filter(where), reads=reads, **options
        )
        return self.commit_target.commit([change])

    def replace_partitions(
        self, files: Iterable[DataFile], *, only_new: bool = False, summary: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Replace the partitions that data files belong to by these files; `overwrite_partitions` takes rows.

        In an unpartitioned table all files are replaced. With `only_new` the partitions must be empty.
        """
        options = self.commit_target.options(summary)
        return self.commit_target.commit([ReplacePartitions(_file_list(files), only_new=only_new, **options)])

    def delete_files(
        self, files: Iterable[DataFile | str], *, summary: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Remove data files, given as objects or by location; the table must have each of them."""
        removed = _file_list(files, DataFile | str)
        change = DeleteFiles(
            files=[file for file in removed if isinstance(file, DataFile)],
            paths=[file for file in removed if isinstance(file, str)],
            **self.commit_target.options(summary),
        )
        return self.commit_target.commit([change])

    def row_delta(
        self,
        data: Iterable[DataFile] = (),
        deletes: Iterable[DataFile] = (),
        *,
        removed: Iterable[DataFile] = (),
        referenced: Iterable[str] = (),
        read: Expression | str | None = None,
        isolation: Isolation | str = Isolation.SERIALIZABLE,
        summary: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Add data files together with position deletes, deletion vectors or equality deletes.

        `removed` are delete files that the new ones replace. `referenced` are the data files that position deletes
        point into, where the delete files do not name them. `read` is a filter for the rows that the change depends on:
        by default all, and none for equality deletes alone.
        """
        removed_files, delete_files = _file_list(removed), _file_list(deletes)
        blind = read is None and not removed_files and all(file.is_equality_delete_file for file in delete_files)
        reads = BLIND if blind else reads_from(self.commit_target, where=read)
        added = (*_file_list(data), *delete_files)
        options = self.commit_target.options(summary, isolation)
        change = RowDelta(added, removed=removed_files, referenced=referenced, reads=reads, **options)
        return self.commit_target.commit([change])

    def rewrite_files(
        self,
        removed: Iterable[DataFile],
        added: Iterable[DataFile] = (),
        *,
        data_sequence_number: int | None = None,
        sequence_numbers: Mapping[str, int] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Replace files by others with the same rows, as compaction does.

        New data files get the data sequence number of the snapshot that this object has loaded, unless
        `data_sequence_number` is given; rewritten delete files get those of `sequence_numbers`, by path.
        """
        target = self.commit_target
        removed_files = _file_list(removed)
        head = target.head
        if data_sequence_number is None and head is not None and target.metadata.format_version > 1:
            data_sequence_number = head.sequence_number
        reads = Reads(
            None if head is None else head.snapshot_id,
            files=frozenset(file.file_path for file in removed_files if file.is_data),
        )
        change = RewriteFiles(
            reads=reads,
            removed=removed_files,
            added=_file_list(added),
            data_sequence_number=data_sequence_number,
            sequence_numbers=sequence_numbers,
            **target.options(summary),
        )
        return target.commit([change])

    def rewrite_manifests(self, *, summary: Mapping[str, str] | None = None) -> Snapshot | None:
        """Rewrite manifests so that the files of a partition are listed together; scans then read fewer of them."""
        return self.commit_target.commit([RewriteManifests(**self.commit_target.options(summary))])


def _file_list(files: Iterable[F], kinds: type | UnionType = DataFile) -> tuple[F, ...]:
    """The files as a tuple; a single file, or a string, which is iterable too, is refused."""
    if isinstance(files, DataFile | str) or not isinstance(files, Iterable):
        raise InvalidInput(f"expected a list of files, found {type(files).__name__}", hint="write it in brackets")
    listed = tuple(files)
    for file in listed:
        if not isinstance(file, kinds):
            raise InvalidInput(f"expected a DataFile, found {file!r:.80}")
    return listed


# Branches and stages ----------------------------------------------------------------------------------------------


class Branch(Writer):
    """A branch to write to: its readers see the changes at once, readers of `main` when `main` is fast-forwarded.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> lake.create_table("db.t", "id bigint").branch("audit").snapshot
    Traceback (most recent call last):
    floe.errors.NoSuchRef: the table has no branch or tag named 'audit'; the table has no snapshots yet
    """

    def __init__(self, target: CommitTarget, name: str, *, create: bool = False) -> None:
        super().__init__(BranchTarget(target, name, create=create))
        self._name = name

    @property
    def name(self) -> str:
        """The branch's name."""
        return self._name

    @property
    def snapshot(self) -> Snapshot:
        """The branch's newest snapshot."""
        return self.metadata.snapshot_of_ref(self._name)

    def __repr__(self) -> str:
        ref = self.metadata.refs.get(self._name)
        return f"<Branch {self._name!r}: {'does not exist yet' if ref is None else f'snapshot {ref.snapshot_id}'}>"


class Stage(Writer):
    """Changes that are committed under a WAP id, and that no reader sees until `Table.publish` publishes them."""

    def __init__(self, target: CommitTarget, wap_id: str) -> None:
        super().__init__(StageTarget(target, wap_id))
        self._wap_id = wap_id

    def __repr__(self) -> str:
        return f"<Stage {self._wap_id!r}>"
