"""Deletion vectors written to Puffin files, for tables of format version 3 (spec: Deletion Vectors).

Many vectors share a file, up to `write.delete.target-file-size-bytes`. A data file has one vector at most, which has
all of its deleted rows; so what was deleted before has to be in the new one. Either the caller has merged it already,
or says where the vectors so far are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyroaring import BitMap64

from floe.errors import InvalidInput, UnsupportedFeature
from floe.formats.position_deletes import read_deletion_vector
from floe.formats.puffin import PuffinWriter
from floe.formats.writers.rolling import discard, leave_nothing
from floe.formats.writers.target import WriteTarget
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.partitioning.partition_spec import PartitionSpec

__all__ = ["write_deletion_vectors"]

_SINCE = 3
_VECTORS_OF_A_FILE = 100_000


def write_deletion_vectors(
    target: WriteTarget,
    deleted: Iterable[tuple[DataFile, PartitionSpec, BitMap64]],
    *,
    existing: Mapping[str, DataFile] | None = None,
) -> list[DataFile]:
    """The vectors for deleted rows of data files, each given with its spec; if anything fails, no file is left.

    `existing` are the vectors that data files have, by the path of the data file: their rows are added. Without it
    the positions must be complete.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import Field, LONG
    >>> from floe.storage.memory import MemoryStorage
    >>> made = {"location": "memory:wh/t", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1", "format_version": 3}
    >>> table = new_table_metadata(Schema((Field(1, "id", LONG),)), now_ms=0, **made)
    >>> target = WriteTarget.of(table, MemoryStorage())
    >>> data = DataFile(FileContent.DATA, "memory:wh/t/data/a.parquet", "parquet", (), 10, 100)
    >>> (first,) = write_deletion_vectors(target, [(data, UNPARTITIONED, BitMap64([3, 5]))])
    >>> again = [(data, UNPARTITIONED, BitMap64([7]))]
    >>> (second,) = write_deletion_vectors(target, again, existing={data.file_path: first})
    >>> list(read_deletion_vector(target.storage, second))
    [3, 5, 7]
    """
    if target.metadata.format_version < _SINCE:
        raise UnsupportedFeature(
            f"a table of format version {target.metadata.format_version} has no deletion vectors",
            hint="write position deletes, or upgrade the table to version 3",
        )
    locations: list[str] = []
    written: list[DataFile] = []
    seen: set[str] = set()
    file: PuffinWriter | None = None
    size = count = 0
    try:
        for data, spec, given in deleted:
            if data.file_path in seen:
                raise InvalidInput("a data file has one deletion vector at most", **{"data file": data.file_path})
            seen.add(data.file_path)
            positions = _complete(target, data, given, (existing or {}).get(data.file_path))
            if not positions:
                continue
            if file is None:
                locations.append(target.new_location("puffin", content=FileContent.POSITION_DELETES))
                file, size, count = target.registry.write_puffin(target.storage, locations[-1]), 0, 0
            file.add_vector(data, positions, spec=spec)
            size, count = size + len(positions.serialize()), count + 1
            if size >= target.delete_file_bytes or count >= _VECTORS_OF_A_FILE:
                written += file.close().vectors()
                file = None
        if file is not None:
            written += file.close().vectors()
    except BaseException as error:
        leave_nothing(error, discard(target.storage, locations))
        raise
    return written


def _complete(target: WriteTarget, data: DataFile, given: BitMap64, before: DataFile | None) -> BitMap64:
    positions = given if before is None else given | read_deletion_vector(target.storage, before)
    if positions and positions.max() >= data.record_count:
        raise InvalidInput(
            f"row {positions.max()} cannot be deleted: the file has {data.record_count} rows",
            **{"data file": data.file_path},
        )
    return positions
