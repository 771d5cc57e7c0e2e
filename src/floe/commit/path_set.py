"""A set of files, looked for among the paths of manifests without making an object of each path.

Engines spell locations differently (`s3://`, `s3a://`, `file:`, plain), so files are compared by their canonical names.
That is slow, and needed only for paths that may be in the set: what follows the last separator is the same in every
spelling of a file, so its hash, computed for a whole column at once, rules out nearly all others.

>>> files = PathSet(["s3://b/t/data/one.parquet", "s3://b/t/data/two.parquet"])
>>> files.found_in(VarBytes.of([b"s3a://b/t/data/two.parquet", b"s3://b/t/old/one.parquet"]))
{'s3://b/t/data/two.parquet'}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from floe.errors import InvalidLocation
from floe.spec.pruning.var_bytes import WORD, Rows, VarBytes, Words
from floe.storage.locations import canonical

__all__ = ["PathSet", "name_hashes", "text_of"]

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
