"""Numbers for partition tuples, so that files of the same partition are found by comparing numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.avro.manifests import ManifestColumns
from floe.plan.arrow_columns import key_array
from floe.spec.pruning.columnar_rows import Column
from floe.spec.types import Field

__all__ = ["PartitionCodes"]

Codes = NDArray[np.int64]


class PartitionCodes:
    """The distinct partition tuples of some files of one spec, by number.

    >>> from floe.spec.types import INT
    >>> codes = PartitionCodes([Field(1000, "a", INT)], lambda field: pa.array([7, 9, 7]), 3)
    >>> codes.own.tolist(), codes.of({1000: Column(np.array([9, 8]))}.__getitem__, 2).tolist()
    ([0, 1, 0], [1, -1])
    """

    def __init__(self, fields: Iterable[Field], keys_of: Callable[[Field], pa.Array], count: int) -> None:
        self._steps: list[tuple[Field, pa.Array, Codes]] = []
        codes = np.zeros(count, np.int64)
        for field in fields:
            keys = keys_of(field)
            distinct = pc.unique(keys)
            joined = codes * len(distinct) + _places(keys, distinct)
            known, codes = np.unique(joined, return_inverse=True)
            self._steps.append((field, distinct, known))
        self.own: Codes = codes
        """The numbers of the tuples that it was made of."""

    @classmethod
    def of_chunks(cls, chunks: Sequence[ManifestColumns]) -> PartitionCodes:
        """The tuples of all files of some chunks, which have one spec."""

        def keys(field: Field) -> pa.Array:
            return pa.concat_arrays([key_array(field.type, chunk.partition(field.id)) for chunk in chunks])

        return cls(chunks[0].partition_type, keys, sum(map(len, chunks)))

    def __len__(self) -> int:
        return len(self._steps[-1][2]) if self._steps else 1

    def of(self, partition: Callable[[int], Column], count: int) -> Codes:
        """The numbers of other tuples, and -1 for those that are not among the known ones."""
        codes = np.zeros(count, np.int64)
        for field, distinct, known in self._steps:
            places = _places(key_array(field.type, partition(field.id)), distinct)
            joined = codes * len(distinct) + places
            found = np.minimum(np.searchsorted(known, joined), len(known) - 1)
            same = (codes >= 0) & (places >= 0) & (known[found] == joined)
            codes = np.where(same, found, -1)
        return codes


def _places(keys: pa.Array, distinct: pa.Array) -> Codes:
    """Where among distinct values each key is; -1 for none."""
    places = pc.index_in(keys, value_set=distinct).fill_null(-1)
    return np.asarray(places.to_numpy(zero_copy_only=False), np.int64)
