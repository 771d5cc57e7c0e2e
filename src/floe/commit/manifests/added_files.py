"""The files that a change adds: checks, the search for duplicates, and their manifests.

`AddedFiles` has the files. They are checked alone when the change is created, and against the table at every attempt:
its schema, partition specs or format version may have changed since the files were written.

`check_not_in_table` raises if a file is in the table already, because its rows would be read twice. Files are searched
in all manifests of the head, at every attempt. Manifests are immutable, so the hashes of their live files' names are
cached, with eight bytes per file, and only new manifests are read; paths are compared only where a hash is equal.

`write_added` writes the manifests of the files, once for all attempts. They have neither sequence numbers nor row ids,
which are inherited from the manifest list (spec: Sequence Number Inheritance). So an attempt that lost a race needs a
new manifest list, but no new manifests.
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
from floe.commit.manifests.file_sets import FileKey, FileSet, file_key, name_hashes
from floe.commit.manifests.manifest_files import NewManifest, Workspace
from floe.errors import ConflictingChange, InvalidInput, InvalidUpdate, NoSuchColumn
from floe.spec.manifests.entries import DataFile, EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from floe.spec.manifests.manifest_checks import check_addable, check_equality_columns
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import check_writable
from floe.spec.pruning.var_bytes import Words
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage


def path_key(file: DataFile) -> tuple[str, int | None]:
    """The path of a file as it is spelled, and for a deletion vector its offset in the Puffin file.

    >>> from floe.spec.manifests.entries import FileContent
    >>> path_key(DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100))
    ('a.parquet', None)
    """
    return file.file_path, file.content_offset if file.is_deletion_vector else None


@dataclass(frozen=True, eq=False, slots=True)
class AddedFiles:
    """Data files and delete files that a change adds.

    `sequence_numbers` has the data sequence numbers of files that keep the number of the files they replace, by path;
    all others get the number of the commit.
    """

    files: tuple[DataFile, ...] = ()
    sequence_numbers: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Iterable[DataFile], sequence_numbers: Mapping[str, int] | None = None) -> AddedFiles:
        """The files, without row ids, which the commit assigns; raises `InvalidInput` if a file is given twice.

        >>> from floe.spec.manifests.entries import FileContent
        >>> file = DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100)
        >>> AddedFiles.of([file, file])
        Traceback (most recent call last):
        floe.errors.InvalidInput: a file is added twice (file: a.parquet)
        """
        without_row_ids = tuple(
            file if file.first_row_id is None else replace(file, first_row_id=None) for file in files
        )
        _check_distinct(without_row_ids)
        return cls(without_row_ids, dict(sequence_numbers or {}))

    @property
    def data(self) -> tuple[DataFile, ...]:
        """The data files."""
        return tuple(file for file in self.files if file.is_data)

    @property
    def deletes(self) -> tuple[DataFile, ...]:
        """The delete files, including deletion vectors."""
        return tuple(file for file in self.files if not file.is_data)

    @property
    def vectors(self) -> tuple[DataFile, ...]:
        """The deletion vectors among the delete files."""
        return tuple(file for file in self.files if file.is_deletion_vector)

    def min_sequence_number(self) -> int | None:
        """The lowest data sequence number that is set for a data file; None if none is."""
        return min(
            (n for file in self.data if (n := self.sequence_numbers.get(file.file_path)) is not None), default=None
        )

    def max_sequence_number(self) -> int | None:
        """The highest data sequence number of the data files; None if one of them gets the number of the commit."""
        numbers = [self.sequence_numbers.get(file.file_path) for file in self.data]
        assigned = [number for number in numbers if number is not None]
        return max(assigned) if assigned and len(assigned) == len(numbers) else None

    def groups(self) -> Iterator[tuple[int, ManifestContent, list[DataFile]]]:
        """The files by partition spec and content: a manifest has one of each (spec: Manifests)."""
        groups: dict[tuple[ManifestContent, int], list[DataFile]] = {}
        for file in self.files:
            content = ManifestContent.DATA if file.is_data else ManifestContent.DELETES
            groups.setdefault((content, file.spec_id), []).append(file)
        for (content, spec_id), files in groups.items():
            yield spec_id, content, files

    def entries(self, files: Sequence[DataFile], snapshot_id: int, format_version: int) -> list[ManifestEntry]:
        """The manifest entries of these files; sequence numbers are inherited, unless one is set for a file."""
        numbers = self.sequence_numbers if format_version > 1 else {}
        return [
            ManifestEntry(EntryStatus.ADDED, snapshot_id, numbers.get(file.file_path), None, file) for file in files
        ]

    # checks at every attempt --------------------------------------------------------------------------------------

    def check(self, metadata: TableMetadata, written_with: int | None, *, again: bool) -> None:
        """Raise if the files cannot be added to the table in its current state.

        `written_with` is the id of the schema that the files were written with, if it is known. With `again`, an
        earlier attempt passed the checks, so a failure is a `ConflictingChange`.
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
                f"another commit changed the table: {error.message}", hint=error.hint, **error.context
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
                    f"a file cannot have sequence number {number}: the table's last one is "
                    f"{metadata.last_sequence_number}",
                    file=path,
                )


def _check_distinct(files: Iterable[DataFile]) -> None:
    distinct: set[Hashable] = set()
    targets: dict[str, str] = {}
    for file in files:
        key = path_key(file)
        if key in distinct:
            raise InvalidInput("a file is added twice", file=file.file_path)
        distinct.add(key)
        target = file.referenced_data_file if file.is_deletion_vector else None
        if target is None:
            continue
        if target in targets:
            raise InvalidInput(
                "two deletion vectors are added for one data file",
                hint="merge both into one vector before committing",
                **{"data file": target},
            )
        targets[target] = file.file_path


def _check_columns(files: Sequence[DataFile], metadata: TableMetadata, written_with: int | None) -> None:
    """Raise if a required column of the current schema has nulls in a file, or is missing and has no default.

    Readers of a required column rely on it having no nulls.
    """
    schema = metadata.schema
    required = {field.id: field.name for field in schema.fields if field.required}
    for file in files:
        for column, nulls in (file.null_value_counts or {}).items():
            if nulls > 0 and column in required:
                raise InvalidUpdate(
                    f"the file has {nulls} nulls in a required column",
                    file=file.file_path,
                    column=required[column],
                )
    if written_with is None or written_with == metadata.current_schema_id or not files:
        return
    written_schema = metadata.schemas_by_id.get(written_with)
    if written_schema is None:
        raise InvalidUpdate(
            f"the files were written with schema {written_with}, which the table does not have",
            hint="write them again with the current schema",
        )
    _check_required_columns(schema, written_schema, files[0])


def _check_required_columns(schema: Schema, written_schema: Schema, example: DataFile) -> None:
    """Raise if a column is required now, but was optional or missing in the schema that the files were written with."""
    for field_ in schema.fields:
        before = written_schema.find(field_.id)
        missing = before is None and field_.initial_default is None
        if field_.required and (missing or (before is not None and not before.required)):
            raise InvalidUpdate(
                "the files were written before the column was required, and may have nulls in it",
                hint="write them again with the current schema",
                column=field_.name,
                file=example.file_path,
            )


# Search for duplicates ------------------------------------------------------------------------------------------

_MAX_HASHES: Final = 4_000_000
"""The most hashes that are cached for a storage: 32 MB."""


def check_not_in_table(workspace: Workspace, manifests: Iterable[ManifestFile], added: AddedFiles) -> None:
    """Raise if an added file is live in the snapshot that has these manifests, or is added in two spellings.

    On the first attempt it is an `InvalidUpdate`, later a `ConflictingChange`: another commit added the file. A file
    that the same commit removes counts too: changelogs, and engines that expire files by deleted entries, would take it
    for removed.
    """
    spelled: dict[FileKey, str] = {}
    for file in added.files:
        if spelled.setdefault(file_key(file), file.file_path) != file.file_path:
            raise InvalidInput("a file is added twice, in two spellings of its path", file=file.file_path)
    files = FileSet(frozenset(spelled))
    live = [manifest for manifest in manifests if manifest.may_have_live_files]
    for duplicates in workspace.run_concurrently(lambda manifest: _live_files(workspace, manifest, files), live):
        for key in duplicates:
            raise _duplicate_error(workspace, spelled[key])


def _duplicate_error(workspace: Workspace, path: str) -> ConflictingChange | InvalidUpdate:
    kind = ConflictingChange if workspace.attempt.number > 1 else InvalidUpdate
    return kind(
        "the file is in the table already: added again, its rows would be there twice",
        hint="to add its rows a second time, or to replace it, write them to a file with another name",
        file=path,
    )


def _live_files(workspace: Workspace, manifest: ManifestFile, files: FileSet) -> frozenset[FileKey]:
    """The files of the set that are live in a manifest."""
    cache = _hash_cache(workspace.storage)
    hashes, columns = cache.get(manifest), None
    if hashes is None:
        columns = workspace.read(manifest)
        hashes = _live_hashes(columns)
        cache.add(manifest, hashes)
    if not files.may_be_among(hashes):
        return frozenset()
    columns = workspace.read(manifest) if columns is None else columns
    return frozenset(files.matching_entries(columns, columns.live).values())


def _live_hashes(columns: ManifestColumns) -> Words:
    """The hashes of the names of live files, sorted."""
    hashes: Words = np.unique(name_hashes(columns.file_path.take(np.flatnonzero(columns.live))))
    return hashes


class _HashCache:
    """The hashes of manifests' live files; the least recently used ones are dropped."""

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

    def add(self, manifest: ManifestFile, hashes: Words) -> None:
        with self._lock:
            self._hashes[manifest.manifest_path, manifest.manifest_length] = hashes
            self._count += len(hashes)
            while self._count > _MAX_HASHES:
                _, dropped = self._hashes.popitem(last=False)
                self._count -= len(dropped)


_caches: WeakKeyDictionary[Storage, _HashCache] = WeakKeyDictionary()
_caches_lock = Lock()


def _hash_cache(storage: Storage) -> _HashCache:
    """The cache of a storage, which lives as long as the storage object."""
    with _caches_lock:
        try:
            return _caches.setdefault(storage, _HashCache())
        except TypeError:  # a storage that is not hashable, or has no weak references: nothing is cached
            return _HashCache()


# Manifests of added files ---------------------------------------------------------------------------------------

_ENCODED_AT_ONCE: Final = 10_000
"""Up to this many entries are encoded at once; that is seldom too long for one manifest."""

_SAMPLE: Final = 1_000
"""Of more entries, this many are encoded first to estimate the size of an entry."""


def write_added(workspace: Workspace, added: AddedFiles) -> tuple[list[NewManifest], list[NewManifest]]:
    """Write the manifests of the added files; returns those of data files and those of delete files."""
    manifests: dict[ManifestContent, list[NewManifest]] = {content: [] for content in ManifestContent}
    for spec_id, content, files in added.groups():
        paths = tuple(map(path_key, files))
        key = ("added", spec_id, content, paths, workspace.target_bytes, workspace.encoding_key(spec_id))
        manifests[content] += workspace.files.write_once(
            key,
            lambda: _write(workspace, added, files, spec_id, content),  # noqa: B023
        )
    return manifests[ManifestContent.DATA], manifests[ManifestContent.DELETES]


def _write(
    workspace: Workspace, added: AddedFiles, files: Sequence[DataFile], spec_id: int, content: ManifestContent
) -> list[NewManifest]:
    entries = added.entries(files, workspace.key.snapshot_id, workspace.format_version)
    sample = entries if len(entries) <= _ENCODED_AT_ONCE else entries[:_SAMPLE]
    data = workspace.encode(sample, spec_id, content)
    if sample is entries and len(data) <= workspace.target_bytes:
        return [workspace.store(workspace.new_path(), data, entries, spec_id, content)]
    per_manifest = max(int(workspace.target_bytes * len(sample) / len(data)), 1)
    parts = [
        (workspace.new_path(), entries[start : start + per_manifest]) for start in range(0, len(entries), per_manifest)
    ]

    def write(item: tuple[str, Sequence[ManifestEntry]]) -> NewManifest:
        path, part = item
        return workspace.store(path, workspace.encode(part, spec_id, content), part, spec_id, content)

    return workspace.run_concurrently(write, parts)
