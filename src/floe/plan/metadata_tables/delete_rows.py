"""What position deletes delete: the content of delete files (Parquet, ORC, Avro) and of deletion vectors, as Arrow.

The deleted rows, which few writers keep, are brought to the table's schema, by field id at every depth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from floe.formats.arrow_types import arrow_schema
from floe.formats.position_deletes import read_deletion_vector, read_position_deletes
from floe.formats.registry import default_registry
from floe.plan.metadata_tables.arrays import batch_of
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.metadata_columns import DELETE_ROW_ID
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage

__all__ = ["deleted_positions", "deleted_rows"]

_FORMATS = default_registry()


def deleted_positions(storage: Storage, vector: DataFile) -> pa.Array:
    """The positions in a deletion vector, ascending; CorruptFile unless it has as many as the manifest says."""
    positions = read_deletion_vector(storage, vector)
    return pa.array(np.frombuffer(positions.to_array(), np.uint64).view(np.int64))


def deleted_rows(
    storage: Storage, file: DataFile, wanted: Schema, properties: Mapping[str, str] | None = None
) -> pa.RecordBatch:
    """The rows of a position delete file, in the columns that are wanted; `row` is null where the file has none."""
    schema = Schema(tuple(replace(f, required=f.required and f.id != DELETE_ROW_ID) for f in wanted.fields))
    batches = list(read_position_deletes(_FORMATS, storage, file, schema, trusting=False, properties=properties))
    if not schema.fields:
        return batch_of(schema, [], sum(batch.num_rows for batch in batches))
    return pa.concat_batches([pa.RecordBatch.from_pylist([], arrow_schema(schema)), *batches])
