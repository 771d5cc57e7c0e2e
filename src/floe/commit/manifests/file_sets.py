"""Sets of files by name, found among the entries of manifests; deletion vectors by their place in the Puffin file too.

Locations are compared by their canonical names, for engines spell them differently (see `path_set`).

A set of files, looked for among the paths of manifests without making an object of each path.

Engines spell locations differently (`s3://`, `s3a://`, `file:`, plain), so files are compared by their canonical names.
That is slow, and needed only for paths that may be in the set: what follows the last separator is the same in every
spelling of a file, so its hash, computed for a whole column at once, rules out nearly all others.

>>> files = PathSet(["s3://b/t/data/one.parquet", "s3://b/t/data/two.parquet"])
>>> files.found_in(VarBytes.of([b"s3a://b/t/data/two.parquet", b"s3://b/t/old/one.parquet"]))
{'s3://b/t/data/two.parquet'}

Sets of partitions: which manifests and files lie in one of them.

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

# A set of files, looked for among the paths of manifests without making an object of each path.

_HASHED_BYTES: Final = 256
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(29)


class PathSet:
    """Files by their canonical names, each with the spelling it was first given.

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
        """Adds files; those that are there under another spelling keep it."""
        for path in paths:
            self._spelled.setdefault(canonical(path), path)
        self._hashes = None

    def remove(self, paths: Iterable[str]) -> None:
        """Removes files; those that are not there are no matter."""
        for path in paths:
            self._spelled.pop(canonical(path), None)  # its hash stays: it leads to a look more, never to one less

    def found_in(self, paths: VarBytes, hashes: Words | None = None) -> set[str]:
        """The files of the set that occur in a column of paths, spelled as they were given to the set.

        `hashes` are the column's `name_hashes`, if it is looked for in several sets. A path that is no location at all,
        in a manifest that somebody else wrote, is an `InvalidLocation`.
        """
        if not self._spelled or not len(paths):
            return set()
        own = self._own_hashes()
        theirs = name_hashes(paths) if hashes is None else hashes
        places = np.minimum(np.searchsorted(own, theirs), len(own) - 1)
        rows = np.flatnonzero(own[places] == theirs)
        found = set()
        for path in paths.take(rows).to_list():
            spelled = self._spelled.get(canonical(text_of(path)))
            if spelled is not None:
                found.add(spelled)
        return found

    def _own_hashes(self) -> Words:
        if self._hashes is None:
            own = name_hashes(VarBytes.of(path.encode() for path in self._spelled))
            self._hashes = np.unique(np.append(own, np.uint64(0)))  # the odd ones are always looked at
        return self._hashes


def text_of(path: bytes | None) -> str:
    """A path of a manifest as text.

    >>> text_of(b"/t/a")
    '/t/a'
    """
    try:
        return (path or b"").decode()
    except UnicodeDecodeError as error:
        raise InvalidLocation(f"a path that is no UTF-8: {path!r:.80}") from error


def name_hashes(paths: VarBytes) -> Words:
    """A hash of what follows the last `/` or `:` of each path; 0 for the odd ones that end in a dot or a separator.

    >>> one, two, three = name_hashes(VarBytes.of([b"s3://b/a.parquet", b"/x/a.parquet", b"/x/b.parquet"])).tolist()
    >>> one == two, one == three
    (True, False)
    """
    names = _names(paths)
    lengths = np.minimum(names.lengths, _HASHED_BYTES)
    hashes: Words = names.lengths.astype(np.uint64) * _MIX
    for offset in range(0, int(lengths.max(initial=0)), WORD):
        rows = np.flatnonzero(lengths > offset)
        mixed = (hashes[rows] ^ names.words(offset, rows)) * _MIX
        hashes[rows] = mixed ^ (mixed >> _SHIFT)
    return np.where(_is_odd(names), np.uint64(0), hashes)


def _names(paths: VarBytes) -> VarBytes:
    ends = paths.starts + np.maximum(paths.lengths, 0)
    separators: Rows = np.flatnonzero((paths.data == ord("/")) | (paths.data == ord(":")))
    if not separators.size:
        return VarBytes(paths.data, paths.starts, np.maximum(paths.lengths, 0))
    before = np.searchsorted(separators, ends) - 1
    last = np.where(before >= 0, separators[np.maximum(before, 0)], -1)
    starts = np.maximum(paths.starts, last + 1)
    return VarBytes(paths.data, starts, ends - starts)


def _is_odd(names: VarBytes) -> NDArray[np.bool_]:
    """Names that a resolved path does not end in: empty ones, `.` and `..`."""
    odd: NDArray[np.bool_] = names.lengths == 0
    for name in (b".", b".."):
        odd |= names.compare(name) == 0
    return odd


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
    places: Offsets = np.fromiter(rows, np.int64)
    mask[places] = True
    return mask


# Sets of partitions: which manifests and files lie in one of them.


@dataclass(frozen=True, slots=True)
class PartitionSet:
    """Partitions of any specs; floats are compared by their bits, with one NaN."""

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
        """The partitions of some files."""
        return cls.of((file.spec_id, file.partition) for file in files)

    def __len__(self) -> int:
        return len(self.keys)

    def filter(self, spec_id: int, partition_type: StructType) -> Expression:
        """A filter on partition tuples that all of the set pass; others may pass too, where a spec has many fields."""
        tuples = self.tuples.get(spec_id)
        if not tuples:
            return FALSE
        schema = Schema(partition_type.fields)
        columns = zip(*tuples, strict=True)
        terms = [BoundReference(schema.entry(child.id)) for child in partition_type]
        return and_(*(_one_of(term, set(values)) for term, values in zip(terms, columns, strict=True)))

    def rows(self, columns: ManifestColumns, among: Mask) -> Mask:
        """Which of a manifest's entries, among some, lie in a partition of the set."""
        type_, count = columns.partition_type, len(columns)
        possible = among & evaluate(self.filter(columns.spec_id, type_), columns.partitions, count)
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
    some = {value for value in values if value is not None and value == value}
    tests: list[Expression] = []
    if some:
        tests.append(BoundPredicate(Op.EQ if len(some) == 1 else Op.IN, term, tuple(sorted(some))))
    if any(value is None for value in values):
        tests.append(BoundPredicate(Op.IS_NULL, term))
    if any(value != value for value in values):
        tests.append(BoundPredicate(Op.IS_NAN, term))
    return or_(*tests)
