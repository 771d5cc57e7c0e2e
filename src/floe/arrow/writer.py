r"""Writes rows to the files of a table: partitioned, sorted and split into files by the table's settings.

The files are not committed.

>>> from floe.spec.metadata.creation import new_table_metadata
>>> from floe.spec.types import Field, LONG
>>> from floe.storage.memory import MemoryStorage
>>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
>>> table = new_table_metadata(Schema((Field(1, "id", LONG),)), location="memory:wh/t", uuid=uuid, now_ms=0)
>>> (file,) = write_rows(WriteTarget.of(table, MemoryStorage()), [pa.record_batch({"id": [1, 2, 3]})])
>>> file.record_count, file.lower_bounds
(3, {1: b'\x01\x00\x00\x00\x00\x00\x00\x00'})
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import pyarrow as pa

from floe.errors import InvalidInput
from floe.formats.writers.partitioned import ClusteredWriter, FanoutWriter, RowWriter
from floe.formats.writers.write_target import WriteTarget
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.metadata_columns import with_row_lineage
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import SortOrder

_CONTENTS = {"data": FileContent.DATA, "equality-deletes": FileContent.EQUALITY_DELETES}


def write_rows(
    target: WriteTarget,
    batches: Iterable[pa.RecordBatch | pa.Table],
    *,
    schema: Schema | None = None,
    spec: PartitionSpec | None = None,
    order: SortOrder | None = None,
    row_lineage: bool = False,
    content: Literal["data", "equality-deletes"] = "data",
    equality_ids: Sequence[int] = (),
    clustered: bool = False,
    workers: int | None = None,
) -> list[DataFile]:
    """Write rows to files; the schema, partition spec and sort order are by default the table's current ones.

    With `row_lineage`, the batches also have the columns `_row_id` and `_last_updated_sequence_number`, and the files
    store them: for rows that are rewritten (spec: Row Lineage). `clustered` rows are ordered by partition, which needs
    little memory. If the write fails, the files are deleted. Raises `InvalidInput` for row lineage before format
    version 3.
    """
    columns = target.schema if schema is None else schema
    if row_lineage:
        if target.metadata.format_version < 3:
            raise InvalidInput(f"format version {target.metadata.format_version} has no row lineage")
        columns = with_row_lineage(columns)
    options: dict[str, Any] = {
        "schema": columns,
        "spec": spec,
        "order": order,
        "content": _CONTENTS[content],
        "equality_ids": equality_ids,
    }
    writer: RowWriter
    writer = ClusteredWriter(target, **options) if clustered else FanoutWriter(target, workers=workers, **options)
    with writer:
        for batch in batches:
            writer.write(batch)
        return writer.close()
