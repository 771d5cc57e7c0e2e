"""The delete files of a snapshot as columns: what each deletes, and where it applies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from floe.avro.manifests import FORMATS, ManifestColumns
from floe.errors import CorruptFile
from floe.plan.arrow_columns import text_array
from floe.plan.partition_codes import PartitionCodes
from floe.spec.manifests.entries import DataFile, FileContent, ManifestEntry
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH

__all__ = ["DeleteFiles", "DeleteKind"]

Places = NDArray[np.int64]

_PUFFIN = FORMATS.index("puffin")


class DeleteKind(IntEnum):
    """How deletes find their rows."""

    VECTOR = 0
    POSITIONS = 1
    """Positions in any data files of a partition."""

    FILE_POSITIONS = 2
    """Positions in one data file."""

    EQUALITY = 3
    """Rows of a partition that are equal in some columns."""

    GLOBAL_EQUALITY = 4
    """Rows of the whole table that are equal in some columns."""


class DeleteFiles:
    """All delete files that may matter to a scan, numbered in the order of the manifests.

    Partitions of all specs, and paths of data files, have numbers too, by which data files find their deletes.
    """

    def __init__(self, chunks: Sequence[ManifestColumns], unpartitioned_specs: Iterable[int]) -> None:
        self.chunks = [chunk for chunk in chunks if len(chunk)]
        """The live entries, with their metrics; all of a chunk have one spec."""

        self._begins = np.cumsum([0, *map(len, self.chunks)])
        everywhere = frozenset(unpartitioned_specs)
        self.kind = _joined([_kinds(chunk, chunk.spec_id in everywhere) for chunk in self.chunks])
        self.sequence_number = _joined([np.asarray(chunk.sequence_number.values) for chunk in self.chunks])
        self.record_count = _joined([chunk.record_count for chunk in self.chunks])
        self._codes: dict[int, tuple[int, PartitionCodes]] = {}
        self.partition = self._number_partitions()
        self._number_paths()
        self._objects: dict[int, ManifestEntry] = {}

    def __len__(self) -> int:
        return int(self._begins[-1])

    # partitions and paths ---------------------------------------------------------------------------------------

    def _number_partitions(self) -> Places:
        own = np.zeros(len(self), np.int64)
        first = 0
        for spec_id in dict.fromkeys(chunk.spec_id for chunk in self.chunks):
            numbers = [n for n, chunk in enumerate(self.chunks) if chunk.spec_id == spec_id]
            rows = np.concatenate([np.arange(self._begins[n], self._begins[n + 1]) for n in numbers])
            codes = PartitionCodes.of_chunks([self.chunks[n] for n in numbers])
            own[rows] = first + codes.own
            self._codes[spec_id] = first, codes
            first += len(codes)
        return own

    def partitions_of(self, data: ManifestColumns) -> Places:
        """The numbers of the partitions of data files; -1 where no delete file has the same."""
        first, codes = self._codes.get(data.spec_id, (0, None))
        if codes is None:
            return np.full(len(data), -1)
        found = codes.of(data.partition, len(data))
        return np.where(found < 0, -1, found + first)

    def _number_paths(self) -> None:
        self.path = np.full(len(self), -1)
        """The numbers of the paths that deletes of one data file name; -1 for other deletes."""

        self.paths: pa.Array = pa.array([], pa.large_string())
        aimed = np.flatnonzero((self.kind == DeleteKind.VECTOR) | (self.kind == DeleteKind.FILE_POSITIONS))
        if not aimed.size:
            return
        targets = pa.concat_arrays([text_array(_targets(chunk)) for chunk in self.chunks])
        encoded = targets.take(pa.array(aimed)).dictionary_encode()
        self.paths = encoded.dictionary
        self.path[aimed] = encoded.indices.to_numpy(zero_copy_only=False)

    # objects ----------------------------------------------------------------------------------------------------

    def entries(self, numbers: Iterable[int]) -> list[ManifestEntry]:
        """Some delete files as objects, each made once."""
        wanted = list(numbers)
        missing = np.array(sorted({n for n in wanted if n not in self._objects}), np.int64)
        places = np.searchsorted(self._begins, missing, "right") - 1
        for chunk in np.unique(places).tolist():
            own = missing[places == chunk]
            found = self.chunks[chunk].entries(own - self._begins[chunk])
            self._objects.update(zip(own.tolist(), found, strict=True))
        return [self._objects[n] for n in wanted]

    def files(self, numbers: Iterable[int]) -> list[DataFile]:
        """Some delete files as the objects that tasks have."""
        return [entry.data_file for entry in self.entries(numbers)]


def _joined(parts: Sequence[NDArray[Any]]) -> Places:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _kinds(chunk: ManifestColumns, is_global: bool) -> Places:
    equality = np.equal(chunk.content, FileContent.EQUALITY_DELETES)
    vectors = ~equality & np.equal(chunk.file_format, _PUFFIN)
    nameless = vectors & ~chunk.referenced_data_file.known
    if nameless.any():
        chunk.entry(int(np.flatnonzero(nameless)[0]))  # says what is wrong with it
        raise CorruptFile("a deletion vector must name its data file (referenced_data_file)")
    positions = np.where(_targets(chunk).known, DeleteKind.FILE_POSITIONS, DeleteKind.POSITIONS)
    equalities = DeleteKind.GLOBAL_EQUALITY if is_global else DeleteKind.EQUALITY
    return np.where(equality, equalities, np.where(vectors, DeleteKind.VECTOR, positions)).astype(np.int64)


def _targets(chunk: ManifestColumns) -> VarBytes:
    """The one data file that positions are for: named, or told by equal bounds (see `DataFile.target_path`)."""
    positions = np.equal(chunk.content, FileContent.POSITION_DELETES)
    named = chunk.referenced_data_file
    bounds = chunk.stored.stats(DELETE_FILE_PATH.id)
    if bounds.lower is None or bounds.upper is None:
        return VarBytes(named.data, named.starts, np.where(positions, named.lengths, -1))
    lower, upper = bounds.lower, bounds.upper
    alike = positions & ~named.known & lower.known & upper.known & np.equal(lower.compare(upper), 0)
    if not alike.any():
        return VarBytes(named.data, named.starts, np.where(positions, named.lengths, -1))
    strings = [
        name if name is not None else bound if same else None
        for name, bound, same in zip(named.to_list(), lower.to_list(), alike.tolist(), strict=True)
    ]
    return VarBytes.of([one if is_own else None for one, is_own in zip(strings, positions.tolist(), strict=True)])
