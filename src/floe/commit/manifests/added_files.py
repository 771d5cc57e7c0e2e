"""The files that a change adds: checked alone when the change is made, and against the table at every attempt.

Nothing of this depends on what others did, except that the table's schema, specs or format version may have changed
since the files were written; then the files no longer fit, and the change has to be made anew.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from floe.errors import ConflictingChange, InvalidInput, InvalidUpdate, NoSuchColumn
from floe.spec.manifests.checks import check_addable, check_equality_columns
from floe.spec.manifests.entries import DataFile, EntryStatus, ManifestContent, ManifestEntry
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import check_writable
from floe.spec.schemas.schema import Schema

__all__ = ["AddedFiles", "file_key"]


def file_key(file: DataFile) -> tuple[str, int | None]:
    """What tells a file from all others: its path, and for a deletion vector its place in the Puffin file.

    >>> from floe.spec.manifests.entries import FileContent
    >>> file_key(DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100))
    ('a.parquet', None)
    """
    return file.file_path, file.content_offset if file.is_deletion_vector else None


@dataclass(frozen=True, eq=False, slots=True)
class AddedFiles:
    """Data files and delete files to be added.

    `sequence_numbers` are the data sequence numbers of files that are as old as what they replace, by path; all others
    get the commit's.
    """

    files: tuple[DataFile, ...] = ()
    sequence_numbers: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Iterable[DataFile], sequence_numbers: Mapping[str, int] | None = None) -> AddedFiles:
        """The files without row ids, which they get when they are committed; no file may be there twice.

        >>> from floe.spec.manifests.entries import FileContent
        >>> file = DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100)
        >>> AddedFiles.of([file, file])
        Traceback (most recent call last):
        floe.errors.InvalidInput: a file is added twice (file: a.parquet)
        """
        found = tuple(file if file.first_row_id is None else replace(file, first_row_id=None) for file in files)
        _check_distinct(found)
        return cls(found, dict(sequence_numbers or {}))

    @property
    def data(self) -> tuple[DataFile, ...]:
        """The files of rows."""
        return tuple(file for file in self.files if file.is_data)

    @property
    def deletes(self) -> tuple[DataFile, ...]:
        """The files of deletes, deletion vectors among them."""
        return tuple(file for file in self.files if not file.is_data)

    @property
    def vectors(self) -> tuple[DataFile, ...]:
        """The deletion vectors."""
        return tuple(file for file in self.files if file.is_deletion_vector)

    def lowest_number(self) -> int | None:
        """The lowest data sequence number that a data file brings along."""
        return min(
            (n for file in self.data if (n := self.sequence_numbers.get(file.file_path)) is not None), default=None
        )

    def highest_number(self) -> int | None:
        """The highest of these numbers, or None if a data file gets that of the commit."""
        numbers = [self.sequence_numbers.get(file.file_path) for file in self.data]
        known = [number for number in numbers if number is not None]
        return max(known) if known and len(known) == len(numbers) else None

    def groups(self) -> Iterator[tuple[int, ManifestContent, list[DataFile]]]:
        """The files of each spec, rows and deletes apart: no manifest has both (spec: Manifests)."""
        groups: dict[tuple[ManifestContent, int], list[DataFile]] = {}
        for file in self.files:
            content = ManifestContent.DATA if file.is_data else ManifestContent.DELETES
            groups.setdefault((content, file.spec_id), []).append(file)
        for (content, spec_id), files in groups.items():
            yield spec_id, content, files

    def entries(self, files: Sequence[DataFile], snapshot_id: int, format_version: int) -> list[ManifestEntry]:
        """The entries of some of the files; sequence numbers are inherited, unless a file brings its own."""
        numbers = self.sequence_numbers if format_version > 1 else {}
        return [
            ManifestEntry(EntryStatus.ADDED, snapshot_id, numbers.get(file.file_path), None, file) for file in files
        ]

    # at every attempt ---------------------------------------------------------------------------------------------

    def check(self, metadata: TableMetadata, written_with: int | None, *, again: bool) -> None:
        """Raise unless the table may get these files as it is now.

        `written_with` is the id of the schema that the files were written with, if it is known. What does not fit any
        more though it did at an earlier attempt is a conflict.
        """
        try:
            for file in self.files:
                check_addable(file, metadata.format_version)
            self._check_specs(metadata)
            self._check_numbers(metadata)
            _check_columns(self.data, metadata, written_with)
            for ids in {file.equality_ids for file in self.files if file.is_equality_delete_file}:
                check_equality_columns(metadata.schema, ids or ())
        except (InvalidUpdate, NoSuchColumn) as error:
            if not again:
                raise
            raise ConflictingChange(
                f"the table was changed meanwhile: {error.message}", hint=error.hint, **error.context
            ) from error

    def _check_specs(self, metadata: TableMetadata) -> None:
        for spec_id in {file.spec_id for file in self.files}:
            spec = metadata.specs_by_id.get(spec_id)
            if spec is None:
                file = next(file for file in self.files if file.spec_id == spec_id)
                raise InvalidUpdate(
                    f"the file was written with partition spec {spec_id}, which the table does not have",
                    hint="write it again with one of the table's specs",
                    file=file.file_path,
                )
            check_writable(spec)
            for file in self.files:
                if file.spec_id == spec_id and len(file.partition) != len(spec.fields):
                    raise InvalidUpdate(
                        f"a file of partition spec {spec_id} has {len(spec.fields)} partition values, "
                        f"found {len(file.partition)}",
                        file=file.file_path,
                    )

    def _check_numbers(self, metadata: TableMetadata) -> None:
        for path, number in self.sequence_numbers.items():
            if not 0 <= number <= metadata.last_sequence_number and metadata.format_version > 1:
                raise InvalidUpdate(
                    f"a file cannot be of sequence number {number}: the table is at {metadata.last_sequence_number}",
                    file=path,
                )


def _check_distinct(files: Iterable[DataFile]) -> None:
    seen: set[Hashable] = set()
    targets: dict[str, str] = {}
    for file in files:
        key = file_key(file)
        if key in seen:
            raise InvalidInput("a file is added twice", file=file.file_path)
        seen.add(key)
        target = file.referenced_data_file if file.is_deletion_vector else None
        if target is None:
            continue
        if target in targets:
            raise InvalidInput(
                "two deletion vectors are added for one data file",
                hint="put both into one vector before committing",
                **{"data file": target},
            )
        targets[target] = file.file_path


def _check_columns(files: Sequence[DataFile], metadata: TableMetadata, written_with: int | None) -> None:
    """Raise if a required column of the current schema has nulls in a file, or is not in it and has no default.

    Whoever reads a required column does not look for nulls.
    """
    schema = metadata.schema
    required = {field.id: field.name for field in schema.fields if field.required}
    for file in files:
        for column, nulls in (file.null_value_counts or {}).items():
            if nulls > 0 and column in required:
                raise InvalidUpdate(
                    f"the file has {nulls} nulls in a column that is required",
                    file=file.file_path,
                    column=required[column],
                )
    if written_with is None or written_with == metadata.current_schema_id or not files:
        return
    known = metadata.schemas_by_id.get(written_with)
    if known is None:
        raise InvalidUpdate(
            f"the files were written with schema {written_with}, which the table does not have",
            hint="write them again with the current schema",
        )
    _check_written_with(schema, known, files[0])


def _check_written_with(schema: Schema, known: Schema, example: DataFile) -> None:
    for field_ in schema.fields:
        before = known.find(field_.id)
        lacking = before is None and field_.initial_default is None
        if field_.required and (lacking or (before is not None and not before.required)):
            raise InvalidUpdate(
                "the files were written before the column was required, and may lack values of it",
                hint="write them again with the current schema",
                column=field_.name,
                file=example.file_path,
            )
