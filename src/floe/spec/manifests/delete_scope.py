"""Which deletes apply to which data file (spec: Scan Planning, scope rules).

In short: deletes apply to data of the same partition that is older than they are. Positions also reach files of the
same commit, equality deletes do not; and equality deletes written without partitioning reach the whole table.

| delete            | data sequence number | partition                            | path                             |
|-------------------|----------------------|--------------------------------------|----------------------------------|
| deletion vector   | `<=` the delete's    | same spec and values                 | the file it names                |
| position deletes  | `<=` the delete's    | same spec and values                 | the file they name, if they do   |
| equality deletes  | `<` the delete's     | same, or the delete is unpartitioned | any                              |

A file with a deletion vector needs no position delete file: the vector holds all earlier positions too.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Hashable, Iterable
from typing import Any

from floe.errors import CorruptFile
from floe.spec.manifests.entries import DataFile, ManifestEntry

__all__ = ["applies", "deletes_for", "partition_key", "same_partition"]

_DOUBLE = struct.Struct(">d")
_NAN = _DOUBLE.pack(float("nan"))


def partition_key(spec_id: int, partition: tuple[Any, ...]) -> Hashable:
    """A key that is equal for equal partitions: same spec, same values, floats by their bits with one NaN.

    Values of unknown transforms count as well; they cannot be computed, but they can be compared.

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


def same_partition(one: DataFile, other: DataFile) -> bool:
    """Whether two files lie in the same partition of the same spec.

    >>> from dataclasses import replace
    >>> from floe.spec.manifests.entries import FileContent
    >>> rows = DataFile(FileContent.DATA, "a.parquet", "parquet", ("x",), 3, 100, spec_id=1)
    >>> same_partition(rows, replace(rows, file_path="b.parquet")), same_partition(rows, replace(rows, spec_id=2))
    (True, False)
    """
    return partition_key(one.spec_id, one.partition) == partition_key(other.spec_id, other.partition)


def applies(delete: ManifestEntry, data: ManifestEntry, unpartitioned_specs: Collection[int]) -> bool:
    """Whether a delete applies to a data file, other deletes left aside; both with their sequence numbers.

    `unpartitioned_specs` are the ids of the table's specs without (living) fields.

    >>> from floe.spec.manifests.entries import EntryStatus, FileContent
    >>> rows = DataFile(FileContent.DATA, "a.parquet", "parquet", ("x",), 3, 100, spec_id=1)
    >>> gone = DataFile(FileContent.EQUALITY_DELETES, "d.parquet", "parquet", (), 1, 50, equality_ids=(1,))
    >>> data = ManifestEntry(EntryStatus.ADDED, 1, 4, 4, rows)
    >>> [applies(ManifestEntry(EntryStatus.ADDED, 2, n, n, gone), data, {0}) for n in (4, 5)]
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
    """The deletes that must be applied to a data file, of all those in a snapshot, in their order.

    Deletes that name the file but cannot be meant for it (another partition, or a vector older than the file) are an
    error, not ignored: rows that somebody deleted would come back.

    >>> from floe.spec.manifests.entries import EntryStatus, FileContent
    >>> rows = DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100)
    >>> gone = DataFile(FileContent.POSITION_DELETES, "d.parquet", "parquet", (), 1, 50)
    >>> data, old, new = (ManifestEntry(EntryStatus.ADDED, 1, n, n, f) for n, f in ((4, rows), (3, gone), (4, gone)))
    >>> deletes_for(data, [old, new], {0}) == (new,)
    True
    """
    found = []
    for delete in deletes:
        if applies(delete, data, unpartitioned_specs):
            found.append(delete)
        elif delete.data_file.target_path == data.data_file.file_path:
            _check_aim(delete, data)
    vectors = [delete for delete in found if delete.data_file.is_deletion_vector]
    if len(vectors) > 1:
        raise CorruptFile(
            f"{len(vectors)} deletion vectors for one data file; there can be one", file=data.data_file.file_path
        )
    if vectors:
        return tuple(delete for delete in found if not delete.data_file.is_position_delete_file)
    return tuple(found)


def _check_aim(delete: ManifestEntry, data: ManifestEntry) -> None:
    """Raise unless a delete that names a file, and does not apply to it, has the right not to."""
    why = None
    if not same_partition(delete.data_file, data.data_file):
        why = (
            f"it lies in partition {delete.data_file.partition} of spec {delete.data_file.spec_id}, "
            f"the data file in {data.data_file.partition} of spec {data.data_file.spec_id}"
        )
    elif delete.data_file.is_deletion_vector:
        why = f"its sequence number {delete.sequence_number} is older than the data file's {data.sequence_number}"
    if why is not None:
        raise CorruptFile(
            f"a delete file names a data file but cannot apply to it: {why}",
            file=delete.data_file.file_path,
            **{"data file": data.data_file.file_path},
        )


def _sequence_number(entry: ManifestEntry) -> int:
    if entry.sequence_number is None:
        raise CorruptFile("the file has no data sequence number", file=entry.data_file.file_path)
    return entry.sequence_number
