"""Equality deletes written to files: rows are deleted by the values of some columns (spec: Equality Delete Files).

A delete file applies to the rows of its own partition that were there before. So the keys have to hold the columns
that the table is partitioned by, or the deletes are written without a partition, and apply to all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from floe.errors import InvalidInput, UnsupportedFeature
from floe.formats.writers.partitioned import FanoutWriter
from floe.formats.writers.target import WriteTarget
from floe.spec.manifests.checks import check_equality_columns
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.schema import Schema
from floe.spec.sorting import UNSORTED

__all__ = ["write_equality_deletes"]

_SINCE = 2


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
    if target.metadata.format_version < _SINCE:
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
