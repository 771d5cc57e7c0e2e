"""The tables of files and of manifest entries, of one snapshot or of all: a batch for each group of manifests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from floe.avro.manifests import ManifestColumns
from floe.formats.arrow_types import arrow_schema
from floe.plan.metadata_tables.entry_rows import EntryRows
from floe.plan.metadata_tables.filtering import ManifestFilter, needed_columns, passing
from floe.plan.metadata_tables.sources import Sources
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import ManifestContent, ManifestFile
from floe.spec.schemas.schema import Schema

__all__ = ["entry_table", "joined"]

_CONTENT_ID, _SPEC_ID = 134, 141
_SMALL_BATCH = 8192
_JOINED_BYTES = 2**30


def entry_table(
    sources: Sources,
    manifests: list[ManifestFile],
    schema: Schema,
    columns: Schema,
    where: Expression,
    *,
    content: ManifestContent | None = None,
    live_only: bool,
) -> pa.Table:
    """The entries of some manifests in some columns of a schema, if they pass a filter that is bound to it."""
    pruning = ManifestFilter(
        where,
        sources.partition_types,
        {field.id: field.id for field in sources.partition_type},
        content_id=_CONTENT_ID,
        spec_column_id=_SPEC_ID,
    )
    read_for_filter = needed_columns(where, schema)

    def batch(entries: ManifestColumns) -> pa.RecordBatch:
        chosen = np.flatnonzero(entries.live) if live_only else np.arange(len(entries))
        rows = EntryRows(entries, chosen, sources.measured)
        if where != TRUE:
            rows = rows.where(passing(where, rows.batch(read_for_filter), schema))
        return rows.batch(columns)

    of_kind = [m for m in manifests if content is None or m.content == content]
    return joined(sources.look_at(list(filter(pruning.might_match, of_kind)), batch), columns)


def joined(batches: Iterator[pa.RecordBatch], schema: Schema) -> pa.Table:
    """The batches as one table; many small ones are put together, because each chunk costs whoever reads them."""
    found = [batch for batch in batches if batch.num_rows]
    table = pa.Table.from_batches(found, arrow_schema(schema))
    small = len(found) > 1 and table.num_rows < len(found) * _SMALL_BATCH
    return table.combine_chunks() if small and table.nbytes < _JOINED_BYTES else table
