"""Which of some files a snapshot holds already: no file may be live twice, for its rows would be.

Files that are named by their paths are looked for in all manifests of the head, at every attempt. Of each manifest only
the hashes of its live files' names are needed; manifests never change, so these are remembered, eight bytes a file, and
a table that gets many small commits has only its new manifests read. A hash that is found leads to a look at the paths.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from floe.avro.manifests import ManifestColumns
from floe.commit.manifests.added_files import AddedFiles
from floe.commit.manifests.file_sets import FileName, FileSet, file_name
from floe.commit.manifests.manifest_files import Workspace
from floe.commit.path_set import name_hashes
from floe.errors import ConflictingChange, InvalidInput, InvalidUpdate
from floe.spec.manifests.entries import ManifestFile
from floe.spec.pruning.var_bytes import Words
from floe.storage.protocol import Storage

__all__ = ["check_not_held"]

_MOST_HASHES: Final = 4_000_000
"""How many are remembered of a storage: 32 MB."""


def check_not_held(workspace: Workspace, manifests: Iterable[ManifestFile], added: AddedFiles) -> None:
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
