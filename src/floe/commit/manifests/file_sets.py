"""Sets of paths, files and partitions that are searched in the columns of manifests.

`PathSet` has paths, `FileSet` files (deletion vectors with their offset in the Puffin file), `PartitionSet` partitions
of any specs.

Engines spell locations differently (`s3://`, `s3a://`, `file:`, plain), so files are compared by their canonical paths.
To compute these is slow, and needed only for paths that may be in the set: the part after the last separator is the
same in every spelling of a file, so its hash, computed for a whole column at once, excludes nearly all others.

>>> files = PathSet(["s3://b/t/data/one.parquet", "s3://b/t/data/two.parquet"])
>>> files.found_in(VarBytes.of([b"s3a://b/t/data/two.parquet", b"s3://b/t/old/one.parquet"]))
{'s3://b/t/data/two.parquet'}

>>> from floe.spec.types import Field, INT
>>> days = PartitionSet.of([(0, (3,)), (0, (None,))])
>>> len(days), print(days.filter(0, StructType((Field(1000, "day", INT),))))
day = 3 OR day IS NULL
(2, None)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from floe.avro.manifest_columns import FORMATS, ManifestColumns
from floe.avro.stored_columns import column_values
from floe.avro.vector_decoder import Offsets
from floe.errors import InvalidLocation
from floe.spec.expressions.nodes import FALSE, TRUE, BoundPredicate, BoundReference, Expression, Op, and_, or_
from floe.spec.manifests.delete_scope import partition_key
from floe.spec.manifests.entries import DataFile
from floe.spec.pruning.column_evaluation import evaluate
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.pruning.var_bytes import WORD, Rows, VarBytes, Words
from floe.spec.schemas.schema import Schema
from floe.spec.types import StructType
from floe.storage.locations import canonical

# Paths ----------------------------------------------------------------------------------------------------------

_HASHED_BYTES: Final = 256
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(29)


class PathSet:
    """A set of paths, compared by their canonical form; iteration returns each in its first spelling.

    >>> files = PathSet(["/t/a", "file:/t/a", "/t/b"])
    >>> len(files), "file:///t/b" in files, sorted(files)
    (2, True, ['/t/a', '/t/b'])
    >>> files.remove(["file:/t/b"])
    >>> list(files)
    ['/t/a']
    """

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._spelled: dict[str, str] = {}
        self._hashes: Words | None = None
        self.add(paths)

    def __len__(self) -> int:
        return len(self._spelled)

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and canonical(path) in self._spelled

    def __iter__(self) -> Iterator[str]:
        """The files, spelled as they were first given."""
        return iter(self._spelled.values())

    def __repr__(self) -> str:
        return f"PathSet({len(self)} files)"

    def add(self, paths: Iterable[str]) -> None:
        """Add paths; a path that is in the set in another spelling keeps that spelling."""
        for path in paths:
            self._spelled.setdefault(canonical(path), path)
        self._hashes = None

    def remove(self, paths: Iterable[str]) -> None:
        """Remove paths; those that are not in the set are ignored."""
        for path in paths:
            self._spelled.pop(canonical(path), None)  # its hash may stay: hashes only preselect

    def found_in(self, paths: VarBytes, hashes: Words | None = None) -> set[str]:
        """The paths of the set that occur in a column of paths, in the spelling of the set.

        `hashes` are the column's `name_hashes`, for a column that is compared with several sets. Raises
        `InvalidLocation` if a path of the column is not a location.
        """
        if not self._spelled or not len(paths):
            return set()
        set_hashes = self._sorted_hashes()
        path_hashes = name_hashes(paths) if hashes is None else hashes
        indices = np.minimum(np.searchsorted(set_hashes, path_hashes), len(set_hashes) - 1)
        rows = np.flatnonzero(set_hashes[indices] == path_hashes)
        matches = set()
        for path in paths.take(rows).to_list():
            spelled = self._spelled.get(canonical(text_of(path)))
            if spelled is not None:
                matches.add(spelled)
        return matches

    def _sorted_hashes(self) -> Words:
        if self._hashes is None:
            hashes = name_hashes(VarBytes.of(path.encode() for path in self._spelled))
            self._hashes = np.unique(np.append(hashes, np.uint64(0)))  # 0: names without a hash are always compared
        return self._hashes


def text_of(path: bytes | None) -> str:
    """A path of a manifest as text.

    >>> text_of(b"/t/a")
    '/t/a'
    """
    try:
        return (path or b"").decode()
    except UnicodeDecodeError as error:
        raise InvalidLocation(f"a path in a manifest is not UTF-8: {path!r:.80}") from error


def name_hashes(paths: VarBytes) -> Words:
    """A hash of the part after the last `/` or `:` of each path; 0 if that part is empty, `.` or `..`.

    >>> s3_a, local_a, local_b = name_hashes(VarBytes.of([b"s3://x/a.avro", b"/x/a.avro", b"/x/b.avro"])).tolist()
    >>> s3_a == local_a, s3_a == local_b
    (True, False)
    """
    names = _names(paths)
    lengths = np.minimum(names.lengths, _HASHED_BYTES)
    hashes: Words = names.lengths.astype(np.uint64) * _MIX
    for offset in range(0, int(lengths.max(initial=0)), WORD):
        rows = np.flatnonzero(lengths > offset)
        mixed = (hashes[rows] ^ names.words(offset, rows)) * _MIX
        hashes[rows] = mixed ^ (mixed >> _SHIFT)
    return np.where(_is_relative(names), np.uint64(0), hashes)


def _names(paths: VarBytes) -> VarBytes:
    """The part after the last `/` or `:` of each path."""
    ends = paths.starts + np.maximum(paths.lengths, 0)
    separators: Rows = np.flatnonzero((paths.data == ord("/")) | (paths.data == ord(":")))
    if not separators.size:
        return VarBytes(paths.data, paths.starts, np.maximum(paths.lengths, 0))
    before = np.searchsorted(separators, ends) - 1
    last = np.where(before >= 0, separators[np.maximum(before, 0)], -1)
    starts = np.maximum(paths.starts, last + 1)
    return VarBytes(paths.data, starts, ends - starts)


def _is_relative(names: VarBytes) -> NDArray[np.bool_]:
    """Whether each name is empty, `.` or `..`: no canonical path ends in one, so their hashes cannot be compared."""
    relative: NDArray[np.bool_] = names.lengths == 0
    for name in (b".", b".."):
        relative |= names.compare(name) == 0
    return relative


# Files ----------------------------------------------------------------------------------------------------------

FileKey: TypeAlias = tuple[str, int | None]
"""The canonical path of a file, and the offset of a deletion vector in it."""

_PUFFIN = FORMATS.index("puffin")


def file_key(file: DataFile) -> FileKey:
    """The identity of a file: its canonical path, and for a deletion vector its offset in the Puffin file.

    >>> from floe.spec.manifests.entries import FileContent
    >>> file_key(DataFile(FileContent.DATA, "file:/t/a.parquet", "parquet", (), 3, 100))
    ('/t/a.parquet', None)
    """
    return canonical(file.file_path), file.content_offset if file.is_deletion_vector else None


@dataclass(frozen=True)
class FileSet:
    """A set of data files and delete files.

    >>> files = FileSet.of_paths(["file:/t/a.parquet"])
    >>> files.matching_rows(VarBytes.of([b"/t/b.parquet", b"/t/a.parquet"]))
    {1: '/t/a.parquet'}
    """

    keys: frozenset[FileKey] = frozenset()

    @classmethod
    def of(cls, files: Iterable[DataFile]) -> FileSet:
        """The set of these files."""
        return cls(frozenset(map(file_key, files)))

    @classmethod
    def of_paths(cls, paths: Iterable[str]) -> FileSet:
        """The set of the files at these paths; none of them is a deletion vector."""
        return cls(frozenset((canonical(path), None) for path in paths))

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[FileKey]:
        return iter(self.keys)

    def __or__(self, other: FileSet) -> FileSet:
        return FileSet(self.keys | other.keys)

    @cached_property
    def _paths(self) -> frozenset[str]:
        return frozenset(path for path, _ in self.keys)

    @cached_property
    def _hashes(self) -> Words:
        hashes = name_hashes(VarBytes.of(path.encode() for path in self._paths))
        return np.unique(np.append(hashes, np.uint64(0)))

    def may_be_among(self, hashes: Words) -> bool:
        """Whether a file of the set may be among the files with these `name_hashes`, which are sorted.

        >>> hashes = np.unique(name_hashes(VarBytes.of([b"/t/a.parquet", b"/t/b.parquet"])))
        >>> [FileSet.of_paths([f"file:/t/{name}.parquet"]).may_be_among(hashes) for name in "bc"]
        [True, False]
        """
        if not self.keys or not len(hashes):
            return False
        indices = np.minimum(np.searchsorted(hashes, self._hashes), len(hashes) - 1)
        return bool((hashes[indices] == self._hashes).any())

    def matching_rows(self, paths: VarBytes) -> dict[int, str]:
        """The rows of a column of paths that are paths of the set, with the canonical path of each."""
        if not self.keys or not len(paths):
            return {}
        rows = np.flatnonzero(paths.is_valid & np.isin(name_hashes(paths), self._hashes))
        names = (canonical(text_of(path)) for path in paths.take(rows).to_list())
        return {row: name for row, name in zip(rows.tolist(), names, strict=True) if name in self._paths}

    def matching_entries(self, columns: ManifestColumns, mask: Mask) -> dict[int, FileKey]:
        """The entries of a manifest, out of those in the mask, whose file is in the set."""
        matches = {}
        for row, path in self.matching_rows(columns.file_path).items():
            if mask[row]:
                key = path, _offset(columns, row)
                if key in self.keys:
                    matches[row] = key
        return matches


NO_FILES = FileSet()
"""The empty set."""


def _offset(columns: ManifestColumns, row: int) -> int | None:
    if columns.file_format[row] != _PUFFIN or not columns.content_offset.is_valid[row]:
        return None
    return int(np.asarray(columns.content_offset.values)[row])


def rows_mask(rows: Iterable[int], count: int) -> Mask:
    """A mask of `count` rows that is true at these rows."""
    mask = np.zeros(count, np.bool_)
    indices: Offsets = np.fromiter(rows, np.int64)
    mask[indices] = True
    return mask


# Partitions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartitionSet:
    """A set of partitions of any specs; floats are compared by their bits, and all NaN are equal."""

    keys: frozenset[Hashable] = frozenset()
    tuples: dict[int, tuple[tuple[Any, ...], ...]] = field(default_factory=dict, compare=False)
    """The partition tuples of each spec."""

    @classmethod
    def of(cls, partitions: Iterable[tuple[int, tuple[Any, ...]]]) -> PartitionSet:
        """The set of pairs of spec id and partition tuple."""
        distinct = {partition_key(spec_id, values): (spec_id, values) for spec_id, values in partitions}
        by_spec: dict[int, list[tuple[Any, ...]]] = {}
        for spec_id, values in distinct.values():
            by_spec.setdefault(spec_id, []).append(values)
        return cls(frozenset(distinct), {spec_id: tuple(tuples) for spec_id, tuples in by_spec.items()})

    @classmethod
    def of_files(cls, files: Iterable[DataFile]) -> PartitionSet:
        """The partitions of these files."""
        return cls.of((file.spec_id, file.partition) for file in files)

    def __len__(self) -> int:
        return len(self.keys)

    def filter(self, spec_id: int, partition_type: StructType) -> Expression:
        """A filter that matches the partition tuples of the set; with several fields it may match others too."""
        tuples = self.tuples.get(spec_id)
        if not tuples:
            return FALSE
        schema = Schema(partition_type.fields)
        columns = zip(*tuples, strict=True)
        terms = [BoundReference(schema.entry(child.id)) for child in partition_type]
        return and_(*(_one_of(term, set(values)) for term, values in zip(terms, columns, strict=True)))

    def matching_entries(self, columns: ManifestColumns, mask: Mask) -> Mask:
        """The entries of a manifest, out of those in the mask, that are in a partition of the set."""
        type_, count = columns.partition_type, len(columns)
        possible = mask & evaluate(self.filter(columns.spec_id, type_), columns.partitions, count)
        rows = np.flatnonzero(possible)
        if not len(type_) or not rows.size:
            return possible
        values = zip(*(column_values(f.type, columns.partition(f.id), rows) for f in type_), strict=True)
        possible[rows] = [partition_key(columns.spec_id, partition) in self.keys for partition in values]
        return possible


NO_PARTITIONS = PartitionSet()
"""The empty set."""


def _one_of(term: BoundReference, values: set[Any]) -> Expression:
    if term.type.kind == "unknown":
        return TRUE
    literals = {value for value in values if value is not None and value == value}  # without NaN
    predicates: list[Expression] = []
    if literals:
        predicates.append(BoundPredicate(Op.EQ if len(literals) == 1 else Op.IN, term, tuple(sorted(literals))))
    if any(value is None for value in values):
        predicates.append(BoundPredicate(Op.IS_NULL, term))
    if any(value != value for value in values):
        predicates.append(BoundPredicate(Op.IS_NAN, term))
    return or_(*predicates)
