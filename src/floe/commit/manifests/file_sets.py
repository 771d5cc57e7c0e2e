"""Sets of files by name, found among the entries of manifests; deletion vectors by their place in the Puffin file too.

Locations are compared by their canonical names, for engines spell them differently (see `path_set`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from floe.avro.lanes import Places
from floe.avro.manifests import FORMATS, ManifestColumns
from floe.commit.path_set import name_hashes, text_of
from floe.spec.manifests.entries import DataFile
from floe.spec.pruning.columnar_facts import Mask
from floe.spec.pruning.var_bytes import VarBytes, Words
from floe.storage.locations import canonical

__all__ = ["NO_FILES", "FileName", "FileSet", "file_name", "rows_mask"]

FileName: TypeAlias = tuple[str, int | None]
"""The canonical location of a file, and the offset of a deletion vector within it."""

_PUFFIN = FORMATS.index("puffin")


def file_name(file: DataFile) -> FileName:
    """What tells a file from all others.

    >>> from floe.spec.manifests.entries import FileContent
    >>> file_name(DataFile(FileContent.DATA, "file:/t/a.parquet", "parquet", (), 3, 100))
    ('/t/a.parquet', None)
    """
    return canonical(file.file_path), file.content_offset if file.is_deletion_vector else None


@dataclass(frozen=True)
class FileSet:
    """Some files.

    >>> files = FileSet.of_paths(["file:/t/a.parquet"])
    >>> files.places(VarBytes.of([b"/t/b.parquet", b"/t/a.parquet"]))
    {1: '/t/a.parquet'}
    """

    names: frozenset[FileName] = frozenset()

    @classmethod
    def of(cls, files: Iterable[DataFile]) -> FileSet:
        """The set of some files."""
        return cls(frozenset(map(file_name, files)))

    @classmethod
    def of_paths(cls, paths: Iterable[str]) -> FileSet:
        """The set of files at some locations; none of them is a deletion vector."""
        return cls(frozenset((canonical(path), None) for path in paths))

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[FileName]:
        return iter(self.names)

    def __or__(self, other: FileSet) -> FileSet:
        return FileSet(self.names | other.names)

    @cached_property
    def _paths(self) -> frozenset[str]:
        return frozenset(path for path, _ in self.names)

    @cached_property
    def _hashes(self) -> Words:
        own = name_hashes(VarBytes.of(path.encode() for path in self._paths))
        return np.unique(np.append(own, np.uint64(0)))

    def may_be_among(self, hashes: Words) -> bool:
        """Whether some of the files may be among those whose `name_hashes` these are, in order; no is certain.

        >>> hashes = np.unique(name_hashes(VarBytes.of([b"/t/a.parquet", b"/t/b.parquet"])))
        >>> [FileSet.of_paths([f"file:/t/{name}.parquet"]).may_be_among(hashes) for name in "bc"]
        [True, False]
        """
        if not self.names or not len(hashes):
            return False
        places = np.minimum(np.searchsorted(hashes, self._hashes), len(hashes) - 1)
        return bool((hashes[places] == self._hashes).any())

    def places(self, paths: VarBytes) -> dict[int, str]:
        """Where a column of locations has one of the set's, by canonical name."""
        if not self.names or not len(paths):
            return {}
        rows = np.flatnonzero(paths.known & np.isin(name_hashes(paths), self._hashes))
        names = (canonical(text_of(path)) for path in paths.take(rows).to_list())
        return {row: name for row, name in zip(rows.tolist(), names, strict=True) if name in self._paths}

    def entries(self, columns: ManifestColumns, among: Mask) -> dict[int, FileName]:
        """The entries of a manifest, among some, whose file is in the set."""
        found = {}
        for row, path in self.places(columns.file_path).items():
            if among[row]:
                name = path, _offset(columns, row)
                if name in self.names:
                    found[row] = name
        return found


NO_FILES = FileSet()
"""The empty set."""


def _offset(columns: ManifestColumns, row: int) -> int | None:
    if columns.file_format[row] != _PUFFIN or not columns.content_offset.known[row]:
        return None
    return int(np.asarray(columns.content_offset.values)[row])


def rows_mask(rows: Iterable[int], count: int) -> Mask:
    """A mask that is true at some rows."""
    mask = np.zeros(count, np.bool_)
    places: Places = np.fromiter(rows, np.int64)
    mask[places] = True
    return mask
