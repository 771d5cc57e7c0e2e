"""Files as engines write them that know nothing of tables: without field ids, in Parquet, ORC and Avro."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from floe.avro.container import open_container, write_container
from floe.formats.avro_data.model import AvroAsArrow
from floe.formats.model import WriteRequest
from floe.formats.rows import rows_to_batch
from floe.spec.schemas.schema import Schema
from floe.storage.memory import MemoryStorage
from floe.storage.protocol import Storage

__all__ = ["WITHOUT_IDS", "WriteWithoutIds"]

WriteWithoutIds = Callable[[Storage, str, Schema, list[Any]], None]
"""Writes some rows to a location, in the columns of a schema but without its ids."""

_AVRO_IDS = frozenset({"field-id", "element-id", "key-id", "value-id"})


def _bare(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _bare(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(_bare(type_.key_type), _bare(type_.item_type))
    return pa.list_(_bare(type_.value_type)) if pa.types.is_list(type_) else type_


def _bare_table(schema: Schema, rows: list[Any]) -> pa.Table:
    batch = rows_to_batch(schema, rows)
    return pa.Table.from_batches([batch]).cast(
        pa.schema([pa.field(field.name, _bare(field.type)) for field in batch.schema])
    )


def _parquet(storage: Storage, location: str, schema: Schema, rows: list[Any]) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(_bare_table(schema, rows), sink)
    storage.write(location, sink.getvalue().to_pybytes())


def _orc(storage: Storage, location: str, schema: Schema, rows: list[Any]) -> None:
    sink = pa.BufferOutputStream()
    orc.write_table(_bare_table(schema, rows), sink)
    storage.write(location, sink.getvalue().to_pybytes())


def _avro(storage: Storage, location: str, schema: Schema, rows: list[Any]) -> None:
    own = MemoryStorage()
    with AvroAsArrow().write(WriteRequest(storage=own, location="memory:with-ids", schema=schema)) as file:
        file.write(rows_to_batch(schema, rows))
    container = open_container(own.read("memory:with-ids"))
    bare = json.dumps(_without_ids(json.loads(container.schema_text)))
    counts = [block.count for block in container.blocks]
    blocks = zip(counts, container.decompressed(), strict=True)
    storage.write(location, write_container({"avro.schema": bare.encode()}, blocks))


def _without_ids(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _without_ids(value) for key, value in schema.items() if key not in _AVRO_IDS}
    return [_without_ids(item) for item in schema] if isinstance(schema, list) else schema


WITHOUT_IDS: dict[str, WriteWithoutIds] = {"parquet": _parquet, "orc": _orc, "avro": _avro}
"""How each format of Floe's own is written without ids."""
