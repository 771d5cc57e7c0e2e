"""Deletion vectors written to Puffin files, for tables of format version 3 (spec: Deletion Vectors).

Many vectors share a file, up to `write.delete.target-file-size-bytes`. A data file has one vector at most, which has
all of its deleted rows; so what was deleted before has to be in the new one. Either the caller has merged it already,
or says where the vectors so far are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyroaring import BitMap64

import floe
from floe.errors import CorruptFile, InvalidInput, UnsupportedFeature
from floe.formats.writers.rolling import discard, leave_nothing
from floe.formats.writers.target import WriteTarget
from floe.spec.codecs import deletion_vectors, puffin
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.storage.protocol import Storage

__all__ = ["read_deletion_vector", "write_deletion_vectors"]

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
    batch: list[tuple[DataFile, int, puffin.Blob]] = []
    size = 0
    try:
        for file, spec, given in deleted:
            if file.file_path in seen:
                raise InvalidInput("a data file has one deletion vector at most", **{"data file": file.file_path})
            seen.add(file.file_path)
            before = (existing or {}).get(file.file_path)
            positions = given if before is None else given | read_deletion_vector(target.storage, before)
            if not positions:
                continue
            if positions.max() >= file.record_count:
                raise InvalidInput(
                    f"row {positions.max()} cannot be deleted: the file has {file.record_count} rows",
                    **{"data file": file.file_path},
                )
            blob = deletion_vectors.blob_of(positions, file.file_path)
            batch.append((file, spec.spec_id, blob))
            size += len(blob.data)
            if size >= target.delete_file_bytes or len(batch) >= _VECTORS_OF_A_FILE:
                written += _write(target, batch, locations)
                batch, size = [], 0
        if batch:
            written += _write(target, batch, locations)
    except BaseException as error:
        leave_nothing(error, discard(target.storage, locations))
        raise
    return written


def _write(target: WriteTarget, batch: list[tuple[DataFile, int, puffin.Blob]], locations: list[str]) -> list[DataFile]:
    made = puffin.write_file([blob for _, _, blob in batch], {"created-by": f"floe {floe.__version__}"})
    location = target.new_location("puffin", content=FileContent.POSITION_DELETES)
    locations.append(location)
    target.storage.write(location, made.data)
    return [
        DataFile(
            FileContent.POSITION_DELETES,
            location,
            "puffin",
            file.partition,
            int(blob.properties[deletion_vectors.CARDINALITY]),
            len(made.data),
            referenced_data_file=file.file_path,
            content_offset=place.offset,
            content_size_in_bytes=place.length,
            spec_id=spec_id,
        )
        for (file, spec_id, blob), place in zip(batch, made.payload.blobs, strict=True)
    ]


def read_deletion_vector(storage: Storage, vector: DataFile) -> BitMap64:
    """The positions in a deletion vector, as a manifest describes it."""
    offset, size = vector.content_offset, vector.content_size_in_bytes
    if not vector.is_deletion_vector or offset is None or size is None:
        raise InvalidInput("this is no deletion vector", file=vector.file_path)
    try:
        return deletion_vectors.deserialize(
            storage.read_range(vector.file_path, offset, size), cardinality=vector.record_count
        )
    except CorruptFile as error:
        raise error.with_context(file=vector.file_path) from None
