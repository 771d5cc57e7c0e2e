"""Delete files: position deletes, equality deletes and deletion vectors.

*Position deletes* (format version 2) have the path of a data file and a row position in each entry, and are sorted by
both (spec: Position Delete Files). With `write.delete.granularity` set to `file`, every data file has its own delete
files; with `partition`, the data files of a partition share them.

*Equality deletes* delete rows by the values of some columns (spec: Equality Delete Files). A delete file applies to the
existing rows of its partition. So the compared columns must include the source columns of the partition spec, or the
deletes are written without a partition and apply to all rows.

*Deletion vectors* (format version 3) are stored in Puffin files, many in each file, up to
`write.delete.target-file-size-bytes` (spec: Deletion Vectors). A data file has at most one vector, with all of its
deleted rows. So a new vector must include the rows deleted before: either the caller has merged them, or passes the
existing vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from floe.errors import InvalidInput, UnsupportedFeature
from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.puffin import PuffinWriter, read_deletion_vector
from floe.formats.writers.partitioned import FanoutWriter
from floe.formats.writers.rolling_writer import RollingWriter, discard, note_undeleted_files
from floe.formats.writers.write_target import WriteTarget
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.manifests.manifest_checks import check_equality_columns
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.metadata_columns import position_delete_schema
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import UNSORTED

# Deletion vectors -----------------------------------------------------------------------------------------------------

_DELETION_VECTORS_SINCE = 3
_MAX_VECTORS_PER_FILE = 100_000


def write_deletion_vectors(
    target: WriteTarget,
    deleted: Iterable[tuple[DataFile, PartitionSpec, BitMap64]],
    *,
    existing: Mapping[str, DataFile] | None = None,
) -> list[DataFile]:
    """Write deletion vectors for the deleted positions of data files, each with its partition spec.

    `existing` has the current vectors by path of the data file, whose positions are added. Without it the positions
    must be complete. Raises `UnsupportedFeature` below format version 3; after an error the new files are deleted.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import Field, LONG
    >>> from floe.storage.memory import MemoryStorage
    >>> table = new_table_metadata(
    ...     Schema((Field(1, "id", LONG),)),
    ...     location="memory:wh/t",
    ...     uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
    ...     now_ms=0,
    ...     format_version=3,
    ... )
    >>> target = WriteTarget.of(table, MemoryStorage())
    >>> data = DataFile(FileContent.DATA, "memory:wh/t/data/a.parquet", "parquet", (), 10, 100)
    >>> (first,) = write_deletion_vectors(target, [(data, UNPARTITIONED, BitMap64([3, 5]))])
    >>> more = [(data, UNPARTITIONED, BitMap64([7]))]
    >>> (second,) = write_deletion_vectors(target, more, existing={data.file_path: first})
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
    data_paths: set[str] = set()
    file: PuffinWriter | None = None
    size = count = 0
    try:
        for data, spec, deleted_positions in deleted:
            if data.file_path in data_paths:
                raise InvalidInput("a data file can have only one deletion vector", **{"data file": data.file_path})
            data_paths.add(data.file_path)
            positions = _add_existing(target, data, deleted_positions, (existing or {}).get(data.file_path))
            if not positions:
                continue
            if file is None:
                locations.append(target.new_location("puffin", content=FileContent.POSITION_DELETES))
                file, size, count = target.registry.write_puffin(target.storage, locations[-1]), 0, 0
            file.add_vector(data, positions, spec=spec)
            size, count = size + len(positions.serialize()), count + 1
            if size >= target.delete_file_bytes or count >= _MAX_VECTORS_PER_FILE:
                written += file.close().vectors()
                file = None
        if file is not None:
            written += file.close().vectors()
    except BaseException as error:
        note_undeleted_files(error, discard(target.storage, locations))
        raise
    return written


def _add_existing(target: WriteTarget, data: DataFile, deleted: BitMap64, existing: DataFile | None) -> BitMap64:
    positions = deleted if existing is None else deleted | read_deletion_vector(target.storage, existing)
    if positions and positions.max() >= data.record_count:
        raise InvalidInput(
            f"row {positions.max()} cannot be deleted: the file has {data.record_count} rows",
            **{"data file": data.file_path},
        )
    return positions


# Equality deletes -----------------------------------------------------------------------------------------------------

_EQUALITY_DELETES_SINCE = 2


def write_equality_deletes(
    target: WriteTarget,
    batches: Iterable[pa.RecordBatch | pa.Table],
    columns: Sequence[str],
    *,
    everywhere: bool = False,
) -> list[DataFile]:
    """Write equality deletes: they delete the rows with the same values in some columns as a row of the batches.

    The batches must have these columns; other columns are ignored. With `everywhere` the deletes apply to all
    partitions, which requires that the table has a partition spec without fields. After an error the new files are
    deleted.

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
        raise UnsupportedFeature("a table of format version 1 has no row-level deletes", hint="upgrade it to version 2")
    if not columns:
        raise InvalidInput("equality deletes need at least one column to compare")
    schema = target.schema
    compared = [schema.resolve(name) for name in columns]
    ids = tuple(entry.field.id for entry in compared)
    check_equality_columns(schema, ids)
    tops = {(*entry.ancestors, entry.field)[0].id for entry in compared}
    keys = Schema(tuple(field for field in schema.fields if field.id in tops))
    writer = FanoutWriter(
        target,
        schema=keys,
        spec=_delete_spec(target, keys, everywhere),
        order=UNSORTED,
        content=FileContent.EQUALITY_DELETES,
        equality_ids=ids,
    )
    names = [field.name for field in keys.fields]
    with writer:
        for batch in batches:
            writer.write(batch.select(names))
        return writer.close()


def _delete_spec(target: WriteTarget, keys: Schema, everywhere: bool) -> PartitionSpec:
    spec = target.spec
    if everywhere and spec.fields:
        unpartitioned = next((candidate for candidate in target.metadata.partition_specs if not candidate.fields), None)
        if unpartitioned is None:
            raise InvalidInput(
                "equality deletes apply to one partition, unless the table has a partition spec without fields",
                hint="compare the columns that the table is partitioned by too",
            )
        return unpartitioned
    missing = [field.name for field in spec.fields if field.source_id not in keys.by_id]
    if missing and not spec.is_unpartitioned:
        raise InvalidInput(
            f"the columns do not determine the partition of the rows to delete: {', '.join(missing)}",
            hint="compare the columns that the table is partitioned by too, or pass everywhere=True",
        )
    return spec


# Position deletes -----------------------------------------------------------------------------------------------------

_BATCH_ROWS = 1_000_000
_POSITION_DELETES_SINCE = 2
_POSITION_DELETES_UNTIL = 3


def write_position_deletes(
    target: WriteTarget, deleted: Iterable[tuple[DataFile, PartitionSpec, BitMap64]]
) -> list[DataFile]:
    """Write position deletes for the deleted positions of data files, each with its partition spec.

    Raises `UnsupportedFeature` for other format versions than 2; after an error the new files are deleted.

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
    if not _POSITION_DELETES_SINCE <= version < _POSITION_DELETES_UNTIL:
        raise UnsupportedFeature(
            f"a table of format version {version} cannot have new position deletes",
            hint="upgrade it to version 2 or 3" if version < _POSITION_DELETES_SINCE else "write deletion vectors",
        )
    groups: dict[object, list[tuple[DataFile, PartitionSpec, BitMap64]]] = {}
    per_file = target.deletes_per_file
    for entry in deleted:
        file, spec, positions = entry
        if positions:
            # partitions by their repr, because NaN is not equal to itself
            key = file.file_path if per_file else (spec.spec_id, repr(file.partition))
            groups.setdefault(key, []).append(entry)
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
            for batch in _delete_batches(group):
                writer.write(batch)
            writer.end_file()
    except BaseException as error:
        note_undeleted_files(error, [undeleted for writer in writers for undeleted in writer.abort()])
        raise
    return [file for writer in writers for file in writer.close()]


def _delete_batches(group: Iterable[tuple[DataFile, PartitionSpec, BitMap64]]) -> Iterator[pa.RecordBatch]:
    """Batches of paths and positions, sorted by both; paths by their UTF-8 bytes."""
    schema = arrow_schema(position_delete_schema())
    merged: dict[str, BitMap64] = {}
    for file, _, positions in group:
        merged[file.file_path] = merged[file.file_path] | positions if file.file_path in merged else positions
    for path in sorted(merged, key=str.encode):
        rows = np.frombuffer(merged[path].to_array(), np.uint64).astype(np.int64)
        for start in range(0, len(rows), _BATCH_ROWS):
            part = rows[start : start + _BATCH_ROWS]
            yield pa.record_batch([pa.repeat(pa.scalar(path), len(part)), pa.array(part)], schema=schema)
