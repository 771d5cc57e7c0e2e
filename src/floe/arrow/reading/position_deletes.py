"""Which positions of a data file are deleted: vectors and delete files, each read once for all that it is for."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from floe.arrow.reading.read_once import ReadOnce
from floe.errors import CorruptFile, FloeError
from floe.formats.position_deletes import read_deletion_vector, read_position_deletes
from floe.formats.registry import Registry
from floe.spec.manifests.entries import DataFile
from floe.storage.protocol import Storage

__all__ = ["PositionDeletes"]

_ByPath: TypeAlias = Mapping[str, BitMap64]

_BUDGET = 64 * 2**20
"""How many bytes of delete files are kept in memory, about, for the other data files that they are for."""

_BYTES_PER_POSITION = 3
_BYTES_PER_PATH = 500


class PositionDeletes:
    """Reads the position deletes of data files; may be used from several threads."""

    def __init__(
        self,
        storage: Storage,
        formats: Registry,
        *,
        properties: Mapping[str, str] | None = None,
        budget: int = _BUDGET,
    ) -> None:
        self._storage = storage
        self._formats = formats
        self._properties = properties
        self._files: ReadOnce[_ByPath] = ReadOnce(budget=budget, weigh=_weight)

    def of(self, file: DataFile, deletes: Iterable[DataFile]) -> BitMap64:
        """The positions of a data file that some deletes delete; others than position deletes are passed over.

        What is given may be shared, so it must not be changed. A position beyond the file is CorruptFile: then the
        deletes are not meant for this file, and rows that somebody deleted would come back.
        """
        found = BitMap64()
        shared = True
        for delete in deletes:
            if delete.is_equality_delete_file:
                continue
            one = self._positions(file, delete)
            if not one:
                continue
            if not found:
                found, shared = one, True
            elif shared:
                found, shared = found | one, False
            else:
                found |= one
        return found

    def _positions(self, file: DataFile, delete: DataFile) -> BitMap64:
        rows = file.record_count if file.record_count >= 0 else None
        if delete.is_deletion_vector:
            if delete.referenced_data_file != file.file_path:
                raise CorruptFile(
                    f"a deletion vector for {delete.referenced_data_file} was to be applied to another file",
                    file=file.file_path,
                )
            return read_deletion_vector(self._storage, delete, row_count=rows)
        by_path = self._files.get((delete.file_path, delete.content_offset), lambda: self._read(delete))
        found = by_path.get(file.file_path, _NOTHING)
        if found and rows is not None and found.max() >= rows:
            raise CorruptFile(
                f"a delete file deletes row {found.max()} of a file of {rows} rows",
                file=delete.file_path,
                **{"data file": file.file_path},
            )
        return found

    def _read(self, delete: DataFile) -> _ByPath:
        try:
            return _by_path(read_position_deletes(self._formats, self._storage, delete, properties=self._properties))
        except FloeError as error:
            raise error.with_context(file=delete.file_path) from None


_NOTHING = BitMap64()


def _by_path(batches: Iterable[pa.RecordBatch]) -> _ByPath:
    """The positions in each data file; rows are sorted by file in most delete files, and so come in few runs."""
    found: dict[str, BitMap64] = {}
    for batch in batches:
        paths = batch.column(0).dictionary_encode()
        codes, positions = np.asarray(paths.indices), np.asarray(batch.column(1))
        if positions.min() < 0:
            raise CorruptFile(f"a deleted row has the position {positions.min()}")
        if (np.diff(codes) < 0).any():
            order = np.argsort(codes, kind="stable")
            codes, positions = codes[order], positions[order]
        starts = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
        for start, end in zip(starts, [*starts[1:], len(codes)], strict=True):
            path = paths.dictionary[int(codes[start])].as_py()
            found.setdefault(path, BitMap64()).update(_bitmap(positions[start:end]))
    return found


def _bitmap(positions: np.ndarray[tuple[int], np.dtype[np.int64]]) -> BitMap64:
    return BitMap64(array("Q", positions.tobytes()))


def _weight(by_path: _ByPath) -> int:
    return sum(_BYTES_PER_PATH + _BYTES_PER_POSITION * len(one) for one in by_path.values())
