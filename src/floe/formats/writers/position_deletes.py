"""Position deletes written to files, for tables of format version 2 (spec: Position Delete Files).

Each entry names a data file and a row in it; a delete file is sorted by both. With the granularity `file` every data
file gets deletes of its own, with `partition` those of a partition share files (`write.delete.granularity`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from floe.errors import UnsupportedFeature
from floe.formats.arrow_types import arrow_schema
from floe.formats.writers.rolling import RollingWriter, leave_nothing
from floe.formats.writers.target import WriteTarget
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.metadata_columns import position_delete_schema

__all__ = ["write_position_deletes"]

_ROWS_AT_ONCE = 1_000_000
_SINCE = 2
_UNTIL = 3


def write_position_deletes(
    target: WriteTarget, deleted: Iterable[tuple[DataFile, PartitionSpec, BitMap64]]
) -> list[DataFile]:
    """The delete files for rows of data files, each given with its spec; if anything fails, no file is left.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import Field, LONG
    >>> from floe.storage.memory import MemoryStorage
    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> table = new_table_metadata(Schema((Field(1, "id", LONG),)), location="memory:wh/t", uuid=uuid, now_ms=0)
    >>> data = DataFile(FileContent.DATA, "memory:wh/t/data/a.parquet", "parquet", (), 10, 100)
    >>> (file,) = write_position_deletes(
    ...     WriteTarget.of(table, MemoryStorage()), [(data, UNPARTITIONED, BitMap64([3, 5]))]
    ... )
    >>> file.record_count, file.referenced_data_file
    (2, 'memory:wh/t/data/a.parquet')
    """
    version = target.metadata.format_version
    if not _SINCE <= version < _UNTIL:
        raise UnsupportedFeature(
            f"a table of format version {version} gets no position deletes",
            hint="upgrade it to version 2 or 3" if version < _SINCE else "write deletion vectors",
        )
    groups: dict[object, list[tuple[DataFile, PartitionSpec, BitMap64]]] = {}
    per_file = target.deletes_per_file
    for one in deleted:
        file, spec, positions = one
        if positions:
            # by their texts, for NaN is not equal to itself
            key = file.file_path if per_file else (spec.spec_id, repr(file.partition))
            groups.setdefault(key, []).append(one)
    writers: list[RollingWriter] = []
    try:
        for group in groups.values():
            first, spec, _ = group[0]
            writer = RollingWriter(
                target,
                spec=spec,
                partition=first.partition,
                schema=position_delete_schema(),
                content=FileContent.POSITION_DELETES,
            )
            writers.append(writer)
            for batch in _batches(group):
                writer.write(batch)
            writer.end_file()
    except BaseException as error:
        leave_nothing(error, [left for writer in writers for left in writer.abort()])
        raise
    return [file for writer in writers for file in writer.close()]


def _batches(group: Iterable[tuple[DataFile, PartitionSpec, BitMap64]]) -> Iterator[pa.RecordBatch]:
    """Paths and positions, sorted by both: paths as the bytes of their text."""
    schema = arrow_schema(position_delete_schema())
    merged: dict[str, BitMap64] = {}
    for file, _, positions in group:
        merged[file.file_path] = merged[file.file_path] | positions if file.file_path in merged else positions
    for path in sorted(merged, key=str.encode):
        rows = np.frombuffer(merged[path].to_array(), np.uint64).astype(np.int64)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = rows[start : start + _ROWS_AT_ONCE]
            yield pa.record_batch([pa.repeat(pa.scalar(path), len(part)), pa.array(part)], schema=schema)
