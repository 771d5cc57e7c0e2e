"""The data files of the corpus with their partition tuples, and their rows as values of Floe."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from floe.spec.partitioning.partition_spec import PartitionSpec, fields_from_json
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_from_json
from floe.spec.types import StructType, Type
from floe.spec.values import convert
from helpers.avro_files import header, local, read_manifest


@dataclass
class PartitionedFile:
    """A data file in Parquet, what its manifest says of it, and where its columns are."""

    path: Path
    spec: PartitionSpec
    schema: Schema
    partition: tuple[Any, ...]

    def columns(self) -> dict[int, pa.ChunkedArray]:
        """The file's top-level columns by field id; columns without an id are left out."""
        table = pq.ParquetFile(self.path).read()
        ids = (field.metadata and field.metadata.get(b"PARQUET:field_id") for field in table.schema)
        return {int(i): column for i, column in zip(ids, table.columns, strict=True) if i}


def partitioned_files(corpus_dir: Path, table: str) -> Iterator[PartitionedFile]:
    """Every Parquet data file that a manifest of the table lists under a spec with fields."""
    avro = sorted((corpus_dir / table / "metadata").glob("*.avro"))
    for manifest in (path for path in avro if not path.name.startswith("snap-")):
        facts = header(manifest)
        fields = fields_from_json(json.loads(facts["partition-spec"]))
        if not fields or facts.get("content", "data") != "data":
            continue
        spec = PartitionSpec(fields, int(facts["partition-spec-id"]))
        schema = schema_from_json(json.loads(facts["schema"]))
        partition_type = spec.partition_type(schema)
        for entry in read_manifest(manifest):
            path = local(corpus_dir, entry.data_file.file_path)
            if path.suffix == ".parquet" and path.exists():
                values = partition_values(partition_type, entry.data_file.partition)
                yield PartitionedFile(path, spec, schema, values)


def partition_values(partition_type: StructType, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """A partition tuple as fastavro gives it, in values of Floe."""
    return tuple(_value(field.type, value) for field, value in zip(partition_type.fields, values, strict=True))


def _value(type_: Type, value: Any) -> Any:
    """What fastavro gives, as a value of Floe."""
    if type_.kind == "uuid" and isinstance(value, bytes):
        return UUID(bytes=value)
    if type_.kind == "timestamp" and value is not None:
        value = value.replace(tzinfo=None)  # fastavro does not know of `adjust-to-utc`
    return convert(type_, value) if value is not None else None


def arrow_values(type_: Type, column: pa.ChunkedArray) -> list[Any]:
    """The values of an Arrow column in the form of `floe.spec.values`."""
    if type_.kind in ("date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"):
        width = pa.int32() if type_.kind == "date" else pa.int64()
        return column.combine_chunks().view(width).to_pylist()
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    values = column.to_pylist()
    if type_.kind == "uuid":
        return [v if v is None else UUID(bytes=v) for v in values]
    return values
