"""Tables to write files of, without any catalog, and the rows of files read back."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from floe.formats.registry import default_registry
from floe.formats.writers.write_target import WriteTarget
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.creation import new_table_metadata
from floe.spec.partitioning.transform_terms import build_spec
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import build_order
from floe.storage.environment import deterministic_environment
from floe.storage.memory import MemoryStorage
from floe.storage.protocol import Storage

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


def target_of(
    schema: Schema,
    *,
    partition_by: Iterable[str] = (),
    sort_by: Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
    format_version: int = 2,
    storage: Storage | None = None,
) -> WriteTarget:
    """A table in memory, to write files of."""
    metadata = new_table_metadata(
        schema,
        build_spec(schema, partition_by),
        build_order(schema, sort_by),
        location="memory:wh/t",
        uuid=UUID,
        now_ms=0,
        properties=dict(properties or {}),
        format_version=format_version,
    )
    return WriteTarget.of(metadata, MemoryStorage() if storage is None else storage, deterministic_environment())


def read_file(storage: Storage, file: DataFile, schema: Schema) -> pa.Table:
    """The rows of a file, as its format's reader gives them; the row count is checked."""
    reading = default_registry().read(file.file_format, "arrow", storage, file.file_path).project(schema)
    batches = list(reading.facts(record_count=file.record_count))
    return pa.Table.from_batches(batches) if batches else pa.table({field.name: [] for field in schema})


def file_names(storage: Storage) -> list[str]:
    """Every file there is."""
    return [info.location for info in storage.list("memory:wh")]


def plain_rows(storage: Storage, files: Iterable[DataFile], schema: Schema) -> list[dict[str, Any]]:
    """The rows of several files, one after the other."""
    return [row for file in files for row in read_file(storage, file, schema).to_pylist()]
