"""PyIceberg agrees: on the schema that a file tells, on its metrics, and on the rows of a table of such files."""

import io
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    pyarrow_to_schema,
)
from pyiceberg.schema import Schema as TheirSchema

from floe.formats.model import ReadRequest, WriteRequest
from floe.formats.registry import ParquetAsArrow
from floe.formats.rows import rows_to_batch
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_from_json, schema_to_json
from floe.spec.types import DOUBLE, Field, ListType, MapType, StructType, Type
from floe.storage.local import LocalStorage
from floe.storage.memory import MemoryStorage
from floe.testing.format_bench import SAMPLES

MODEL = ParquetAsArrow()
KNOWN = [
    type_
    for type_ in SAMPLES
    if type_.kind not in ("variant", "geometry", "geography", "timestamp_ns", "timestamptz_ns") and not type_.is_nested
]
POINT = StructType((Field(101, "x", DOUBLE), Field(102, "l", ListType(103, DOUBLE, element_required=True))))
FIELDS = (
    *(Field(n + 1, f"c{n}", type_) for n, type_ in enumerate(KNOWN)),
    Field(100, "p", POINT),
    Field(104, "m", MapType(105, KNOWN[1], 106, DOUBLE)),
)
SCHEMA = Schema(FIELDS)


def row(number: int) -> dict[str, Any]:
    values: dict[str, Any] = {
        f"c{n}": None if (number + n) % 5 == 0 else SAMPLES[type_][number % len(SAMPLES[type_])]
        for n, type_ in enumerate(KNOWN)
    }
    point = {"x": math.nan if number % 4 == 0 else float(number), "l": [0.5] * (number % 3)}
    return {**values, "p": None if number % 6 == 0 else point, "m": {number: 1.0}}


def theirs(schema: Schema) -> TheirSchema:
    return TheirSchema.model_validate(schema_to_json(schema))


def written(properties: dict[str, str]) -> tuple[DataFile, bytes]:
    storage = MemoryStorage()
    request = WriteRequest(storage=storage, location="memory:a", schema=SCHEMA, properties=properties)
    with MODEL.write(request) as file:
        file.write(rows_to_batch(SCHEMA, [row(n) for n in range(200)]))
    return file.close(), storage.read("memory:a")


def test_the_schema_of_the_file() -> None:
    _, data = written({})
    schema = pyarrow_to_schema(pq.ParquetFile(io.BytesIO(data)).schema_arrow)
    assert schema_from_json(schema.model_dump(mode="json", by_alias=True)).same_columns(SCHEMA)


@pytest.mark.parametrize("mode", ["truncate(16)", "truncate(2)", "full", "counts"])
def test_metrics(mode: str) -> None:
    """PyIceberg takes them from the footer: other code, other data. It counts no NaN, and knows none of structs."""
    properties = {"write.metadata.metrics.default": mode, "write.parquet.row-group-limit": "64"}
    file, data = written(properties)
    schema = theirs(SCHEMA)
    statistics = data_file_statistics_from_parquet_metadata(
        pq.ParquetFile(io.BytesIO(data)).metadata,
        compute_statistics_plan(schema, properties),
        parquet_path_to_id_mapping(schema),
    ).to_serialized_dict()
    assert statistics["record_count"] == file.record_count
    assert list(statistics["split_offsets"]) == list(file.split_offsets or ())
    assert statistics["column_sizes"] == file.column_sizes
    measured = {entry.field.id for entry in SCHEMA.by_id.values() if not entry.in_collection}
    for name in ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds"):
        ours = getattr(file, name) or {}
        for field_id, value in statistics[name].items():
            if field_id in measured:
                assert _comparable(ours.get(field_id)) == _comparable(value), (name, SCHEMA.name_of(field_id))
        assert ours.keys() <= statistics[name].keys() | _unbounded(statistics, name)


def _comparable(value: Any) -> Any:
    """A lower bound of zero may have either sign."""
    return value.replace(b"\x80", b"\x00") if isinstance(value, bytes) and not value.strip(b"\x00\x80") else value


def _unbounded(statistics: dict[str, Any], name: str) -> set[int]:
    """PyIceberg leaves out bounds of columns in which some row group has only NaN or nulls."""
    return set(statistics["value_counts"]) if name.endswith("bounds") else set()


@pytest.mark.parametrize("type_", KNOWN, ids=str)
def test_rows_of_a_table(tmp_path: Path, type_: Type) -> None:
    catalog = InMemoryCatalog("c", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    schema = Schema((Field(1, "a", type_), Field(2, "n", StructType((Field(3, "b", type_),)))))
    table = catalog.create_table("db.t", theirs(schema))
    rows = [{"a": value, "n": {"b": value}} for value in SAMPLES[type_]] + [{"a": None, "n": None}]
    batch = rows_to_batch(schema, rows)
    request = WriteRequest(storage=LocalStorage(), location=f"{tmp_path}/a.parquet", schema=schema)
    with MODEL.write(request) as file:
        file.write(batch)
    data = pq.ParquetFile(f"{tmp_path}/a.parquet")
    assert pyarrow_to_schema(data.schema_arrow) == theirs(schema)
    table.append(data.read())  # their own file of the same rows, which we read
    paths = [task.file.file_path for task in table.scan().plan_files()]
    batches = [
        batch
        for path in paths
        for batch in MODEL.read(ReadRequest(storage=LocalStorage(), location=path, schema=schema))
    ]
    assert len(batches) == 1
    assert str(batches[0].to_pylist()) == str(batch.to_pylist())
