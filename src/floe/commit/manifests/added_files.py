"""The files that a change adds: checked alone when the change is made, and against the table at every attempt.

Nothing of this depends on what others did, except that the table's schema, specs or format version may have changed
since the files were written; then the files no longer fit, and the change has to be made anew.

Which of some files a snapshot holds already: no file may be live twice, for its rows would be.

Files that are named by their paths are looked for in all manifests of the head, at every attempt. Of each manifest only
the hashes of its live files' names are needed; manifests never change, so these are remembered, eight bytes a file, and
a table that gets many small commits has only its new manifests read. A hash that is found leads to a look at the paths.

Manifests for files that are added: written once, of a good size, and used again by every attempt.

They hold neither sequence numbers nor row ids, which are inherited from the manifest list (spec: Sequence Number
Inheritance), so that losing a race costs a new list and no new manifest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from floe.avro.manifest_columns import ManifestColumns
from floe.commit.manifests.file_sets import FileName, FileSet, file_name, name_hashes
from floe.commit.manifests.manifest_files import NewManifest, Workspace
from floe.errors import ConflictingChange, InvalidInput, InvalidUpdate, NoSuchColumn
from floe.spec.manifests.entries import DataFile, EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from floe.spec.manifests.manifest_checks import check_addable, check_equality_columns
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import check_writable
from floe.spec.pruning.var_bytes import Words
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage


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


# Which of some files a snapshot holds already: no file may be live twice, for its rows would be.

_MOST_HASHES: Final = 4_000_000
"""How many are remembered of a storage: 32 MB."""


def check_not_in_table(workspace: Workspace, manifests: Iterable[ManifestFile], added: AddedFiles) -> None:
    """Raise if one of the added files is live in the snapshot that has these manifests, or is added twice.

    It is a conflict if somebody added it after the first attempt. That the commit removes it too is no excuse: readers
    of changes and engines that expire by deleted entries would take it for gone.
    """
    spelled: dict[FileName, str] = {}
    for file in added.files:
        if spelled.setdefault(file_name(file), file.file_path) != file.file_path:
            raise InvalidInput("a file is added twice, in two spellings of its path", file=file.file_path)
    files = FileSet(frozenset(spelled))
    live = [manifest for manifest in manifests if manifest.may_have_live_files]
    for found in workspace.several(lambda manifest: _held(workspace, manifest, files), live):
        for name in found:
            raise _refused(workspace, spelled[name])


def _refused(workspace: Workspace, path: str) -> ConflictingChange | InvalidUpdate:
    kind = ConflictingChange if workspace.attempt.number > 1 else InvalidUpdate
    return kind(
        "the file is in the table already: added again, its rows would be there twice",
        hint="if they are meant to be there twice, or in place of the old ones, write them to a file of another name",
        file=path,
    )


def _held(workspace: Workspace, manifest: ManifestFile, files: FileSet) -> frozenset[FileName]:
    """Those of the files that are live in a manifest."""
    remembered = _remembered(workspace.storage)
    hashes, columns = remembered.get(manifest), None
    if hashes is None:
        columns = workspace.read(manifest)
        hashes = _live_hashes(columns)
        remembered.put(manifest, hashes)
    if not files.may_be_among(hashes):
        return frozenset()
    columns = workspace.read(manifest) if columns is None else columns
    return frozenset(files.entries(columns, columns.live).values())


def _live_hashes(columns: ManifestColumns) -> Words:
    """The hashes of the names of live files, in order."""
    found: Words = np.unique(name_hashes(columns.file_path.take(np.flatnonzero(columns.live))))
    return found


class _Remembered:
    """Hashes by manifest, those that were used last."""

    def __init__(self) -> None:
        self._hashes: OrderedDict[tuple[str, int], Words] = OrderedDict()
        self._count = 0
        self._lock = Lock()

    def get(self, manifest: ManifestFile) -> Words | None:
        key = manifest.manifest_path, manifest.manifest_length
        with self._lock:
            if key in self._hashes:
                self._hashes.move_to_end(key)
            return self._hashes.get(key)

    def put(self, manifest: ManifestFile, hashes: Words) -> None:
        with self._lock:
            self._hashes[manifest.manifest_path, manifest.manifest_length] = hashes
            self._count += len(hashes)
            while self._count > _MOST_HASHES:
                _, dropped = self._hashes.popitem(last=False)
                self._count -= len(dropped)


_by_storage: WeakKeyDictionary[Storage, _Remembered] = WeakKeyDictionary()
_by_storage_lock = Lock()


def _remembered(storage: Storage) -> _Remembered:
    """What is remembered of a storage, as long as somebody has it."""
    with _by_storage_lock:
        try:
            return _by_storage.setdefault(storage, _Remembered())
        except TypeError:  # somebody's own storage, of which nothing can be remembered
            return _Remembered()


# Manifests for files that are added: written once, of a good size, and used again by every attempt.

_TRIED_WHOLE: Final = 10_000
"""Up to so many entries are encoded together; they seldom are too long for one manifest."""

_SAMPLE: Final = 1_000
"""So many of more entries tell how long an entry is."""


def write_added(workspace: Workspace, added: AddedFiles) -> tuple[list[NewManifest], list[NewManifest]]:
    """The manifests of the added files: those of rows, and those of deletes."""
    found: dict[ManifestContent, list[NewManifest]] = {content: [] for content in ManifestContent}
    for spec_id, content, files in added.groups():
        names = tuple(map(file_key, files))
        key = ("added", spec_id, content, names, workspace.target_bytes, workspace.style(spec_id))
        found[content] += workspace.files.once(key, lambda: _write(workspace, added, files, spec_id, content))  # noqa: B023
    return found[ManifestContent.DATA], found[ManifestContent.DELETES]


def _write(
    workspace: Workspace, added: AddedFiles, files: Sequence[DataFile], spec_id: int, content: ManifestContent
) -> list[NewManifest]:
    entries = added.entries(files, workspace.key.snapshot_id, workspace.format_version)
    sample = entries if len(entries) <= _TRIED_WHOLE else entries[:_SAMPLE]
    data = workspace.encode(sample, spec_id, content)
    if sample is entries and len(data) <= workspace.target_bytes:
        return [workspace.store(workspace.new_path(), data, entries, spec_id, content)]
    most = max(int(workspace.target_bytes * len(sample) / len(data)), 1)
    parts = [(workspace.new_path(), entries[begin : begin + most]) for begin in range(0, len(entries), most)]

    def write(item: tuple[str, Sequence[ManifestEntry]]) -> NewManifest:
        path, part = item
        return workspace.store(path, workspace.encode(part, spec_id, content), part, spec_id, content)

    return workspace.several(write, parts)
