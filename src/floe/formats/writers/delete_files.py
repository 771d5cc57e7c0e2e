"""Deletion vectors written to Puffin files, for tables of format version 3 (spec: Deletion Vectors).

Many vectors share a file, up to `write.delete.target-file-size-bytes`. A data file has one vector at most, which has
all of its deleted rows; so what was deleted before has to be in the new one. Either the caller has merged it already,
or says where the vectors so far are.

Equality deletes written to files: rows are deleted by the values of some columns (spec: Equality Delete Files).

A delete file applies to the rows of its own partition that were there before. So the keys have to hold the columns
that the table is partitioned by, or the deletes are written without a partition, and apply to all rows.

Position deletes written to files, for tables of format version 2 (spec: Position Delete Files).

Each entry names a data file and a row in it; a delete file is sorted by both. With the granularity `file` every data
file gets deletes of its own, with `partition` those of a partition share files (`write.delete.granularity`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from floe.errors import InvalidInput, UnsupportedFeature
from floe.formats.arrow_types import arrow_schema
from floe.formats.position_deletes import read_deletion_vector
from floe.formats.puffin import PuffinWriter
from floe.formats.writers.partitioned import FanoutWriter
from floe.formats.writers.rolling import RollingWriter, discard, leave_nothing
from floe.formats.writers.write_target import WriteTarget
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.manifests.manifest_checks import check_equality_columns
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.metadata_columns import position_delete_schema
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import UNSORTED

_DELETION_VECTORS_SINCE = 3
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
    if target.metadata.format_version < _DELETION_VECTORS_SINCE:
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


# Equality deletes written to files: rows are deleted by the values of some columns (spec: Equality Delete Files).

_EQUALITY_DELETES_SINCE = 2


def write_equality_deletes(
    target: WriteTarget,
    batches: Iterable[pa.RecordBatch | pa.Table],
    columns: Sequence[str],
    *,
    everywhere: bool = False,
) -> list[DataFile]:
    """The delete files of rows that have the same values in some columns; if anything fails, no file is left.

    The batches hold these columns and may hold others, which are left out. With `everywhere` the deletes apply to rows
    of all partitions; that needs a spec without fields, which the table must have had.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.types import Field, LONG, STRING
    >>> from floe.storage.memory import MemoryStorage
    >>> schema = Schema((Field(1, "id", LONG), Field(2, "note", STRING)))
    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> table = new_table_metadata(schema, location="memory:wh/t", uuid=uuid, now_ms=0)
    >>> keys = pa.record_batch({"id": [3, 5], "note": ["a", "b"]})
    >>> (file,) = write_equality_deletes(WriteTarget.of(table, MemoryStorage()), [keys], ["id"])
    >>> file.record_count, file.equality_ids
    (2, (1,))
    """
    if target.metadata.format_version < _EQUALITY_DELETES_SINCE:
        raise UnsupportedFeature("a table of format version 1 has no deletes by row", hint="upgrade it to version 2")
    if not columns:
        raise InvalidInput("rows are deleted by the values of one column at least")
    schema = target.schema
    compared = [schema.resolve(name) for name in columns]
    ids = tuple(entry.field.id for entry in compared)
    check_equality_columns(schema, ids)
    tops = {(*entry.ancestors, entry.field)[0].id for entry in compared}
    keys = Schema(tuple(field for field in schema.fields if field.id in tops))
    writer = FanoutWriter(
        target,
        schema=keys,
        spec=_spec(target, keys, everywhere),
        order=UNSORTED,
        content=FileContent.EQUALITY_DELETES,
        equality_ids=ids,
    )
    names = [field.name for field in keys.fields]
    with writer:
        for batch in batches:
            writer.write(batch.select(names))
        return writer.close()


def _spec(target: WriteTarget, keys: Schema, everywhere: bool) -> PartitionSpec:
    spec = target.spec
    if everywhere and spec.fields:
        without = next((one for one in target.metadata.partition_specs if not one.fields), None)
        if without is None:
            raise InvalidInput(
                "deletes by value apply to one partition, unless the table has a partition spec without fields",
                hint="delete by columns that the table is partitioned by, too",
            )
        return without
    lacking = [field.name for field in spec.fields if field.source_id not in keys.by_id]
    if lacking and not spec.is_unpartitioned:
        raise InvalidInput(
            f"the columns do not tell the partition of the rows to delete: {', '.join(lacking)}",
            hint="compare the columns that the table is partitioned by, too, or delete everywhere",
        )
    return spec


# Position deletes written to files, for tables of format version 2 (spec: Position Delete Files).

_ROWS_AT_ONCE = 1_000_000
_POSITION_DELETES_SINCE = 2
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
    if not _POSITION_DELETES_SINCE <= version < _UNTIL:
        raise UnsupportedFeature(
            f"a table of format version {version} gets no position deletes",
            hint="upgrade it to version 2 or 3" if version < _POSITION_DELETES_SINCE else "write deletion vectors",
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
