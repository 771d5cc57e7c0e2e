"""Which deletes apply to which data file (spec: Scan Planning, scope rules).

In short: deletes apply to older data of the same partition. Position deletes also apply to files of the same commit,
equality deletes do not; and equality deletes of an unpartitioned spec apply to the entire table.

| delete            | data sequence number | partition                            | path                             |
|-------------------|----------------------|--------------------------------------|----------------------------------|
| deletion vector   | `<=` the delete's    | same spec and values                 | the file it names                |
| position deletes  | `<=` the delete's    | same spec and values                 | the file they name, if they do   |
| equality deletes  | `<` the delete's     | same, or the delete is unpartitioned | any                              |

A file with a deletion vector needs no position delete file: the vector includes all earlier positions.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Hashable, Iterable
from typing import Any

from floe.errors import CorruptFile
from floe.spec.manifests.entries import DataFile, ManifestEntry

_DOUBLE = struct.Struct(">d")
_NAN = _DOUBLE.pack(float("nan"))


def partition_key(spec_id: int, partition: tuple[Any, ...]) -> Hashable:
    """Return a key that is equal for equal partitions: same spec and values, floats by their bits with one NaN.

    Values of unknown transforms are compared too: they cannot be computed, but they are stored.

    >>> nan = float("nan")
    >>> (
    ...     partition_key(1, ("a", nan)) == partition_key(1, ("a", -nan)),
    ...     partition_key(1, (0.0,)) == partition_key(1, (-0.0,)),
    ... )
    (True, False)
    """
    return spec_id, tuple([_bits(value) if type(value) is float else value for value in partition])


def _bits(value: float) -> bytes:
    return _DOUBLE.pack(value) if value == value else _NAN


def same_partition(first: DataFile, second: DataFile) -> bool:
    """Whether two files are in the same partition of the same spec.

    >>> from dataclasses import replace
    >>> from floe.spec.manifests.entries import FileContent
    >>> rows = DataFile(FileContent.DATA, "a.parquet", "parquet", ("x",), 3, 100, spec_id=1)
    >>> same_partition(rows, replace(rows, file_path="b.parquet")), same_partition(rows, replace(rows, spec_id=2))
    (True, False)
    """
    return partition_key(first.spec_id, first.partition) == partition_key(second.spec_id, second.partition)


def applies(delete: ManifestEntry, data: ManifestEntry, unpartitioned_specs: Collection[int]) -> bool:
    """Whether a delete applies to a data file, without regard to other deletes; both have their sequence numbers.

    `unpartitioned_specs` are the ids of the table's specs without fields, other than void ones.

    >>> from floe.spec.manifests.entries import EntryStatus, FileContent
    >>> rows = DataFile(FileContent.DATA, "a.parquet", "parquet", ("x",), 3, 100, spec_id=1)
    >>> deletes = DataFile(FileContent.EQUALITY_DELETES, "d.parquet", "parquet", (), 1, 50, equality_ids=(1,))
    >>> data = ManifestEntry(EntryStatus.ADDED, 1, 4, 4, rows)
    >>> [applies(ManifestEntry(EntryStatus.ADDED, 2, n, n, deletes), data, {0}) for n in (4, 5)]
    [False, True]
    """
    delete_number, data_number = _sequence_number(delete), _sequence_number(data)
    if delete.data_file.is_equality_delete_file:
        return data_number < delete_number and (
            delete.data_file.spec_id in unpartitioned_specs or same_partition(delete.data_file, data.data_file)
        )
    target = delete.data_file.target_path
    return (
        data_number <= delete_number
        and (target is None or target == data.data_file.file_path)
        and same_partition(delete.data_file, data.data_file)
    )


def deletes_for(
    data: ManifestEntry, deletes: Iterable[ManifestEntry], unpartitioned_specs: Collection[int]
) -> tuple[ManifestEntry, ...]:
    """Return the deletes of a snapshot that apply to a data file, in order.

    Deletes that name the file but cannot apply to it (another partition, or a vector older than the file) raise,
    because ignoring them would bring deleted rows back.

    >>> from floe.spec.manifests.entries import EntryStatus, FileContent
    >>> rows = DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100)
    >>> deletes = DataFile(FileContent.POSITION_DELETES, "d.parquet", "parquet", (), 1, 50)
    >>> data, old, new = (
    ...     ManifestEntry(EntryStatus.ADDED, 1, n, n, f) for n, f in ((4, rows), (3, deletes), (4, deletes))
    ... )
    >>> deletes_for(data, [old, new], {0}) == (new,)
    True
    """
    applicable = []
    for delete in deletes:
        if applies(delete, data, unpartitioned_specs):
            applicable.append(delete)
        elif delete.data_file.target_path == data.data_file.file_path:
            _check_target(delete, data)
    vectors = [delete for delete in applicable if delete.data_file.is_deletion_vector]
    if len(vectors) > 1:
        raise CorruptFile(
            f"{len(vectors)} deletion vectors for one data file; there can be one", file=data.data_file.file_path
        )
    if vectors:
        return tuple(delete for delete in applicable if not delete.data_file.is_position_delete_file)
    return tuple(applicable)


def _check_target(delete: ManifestEntry, data: ManifestEntry) -> None:
    """Raise if a delete names a file but can never apply to it."""
    problem = None
    if not same_partition(delete.data_file, data.data_file):
        problem = (
            f"it is in partition {delete.data_file.partition} of spec {delete.data_file.spec_id}, "
            f"the data file in {data.data_file.partition} of spec {data.data_file.spec_id}"
        )
    elif delete.data_file.is_deletion_vector:
        problem = f"its sequence number {delete.sequence_number} is older than the data file's {data.sequence_number}"
    if problem is not None:
        raise CorruptFile(
            f"a delete file names a data file but cannot apply to it: {problem}",
            file=delete.data_file.file_path,
            **{"data file": data.data_file.file_path},
        )


def _sequence_number(entry: ManifestEntry) -> int:
    if entry.sequence_number is None:
        raise CorruptFile("the file has no data sequence number", file=entry.data_file.file_path)
    return entry.sequence_number
