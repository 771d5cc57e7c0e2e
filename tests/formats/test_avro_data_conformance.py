"""Avro keeps all promises of a format model, as Arrow batches and as plain rows."""

import io

import fastavro
import pytest

from floe.formats.avro_data.model import AvroAsArrow
from floe.formats.rows import AsRows
from floe.spec.codecs.avro_schemas import type_to_avro
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage
from floe.testing.formats import FormatBench, FormatConformance

_IDS = ("field-id", "element-id", "key-id", "value-id", "iceberg-field-name")


def avro_without_ids(storage: Storage, location: str, schema: Schema, rows: list) -> None:
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(_bare(type_to_avro(schema))), rows)
    storage.write(location, stream.getvalue())


def _bare(schema):
    if isinstance(schema, dict):
        return {key: _bare(value) for key, value in schema.items() if key not in _IDS}
    return [_bare(item) for item in schema] if isinstance(schema, list) else schema


class TestAvroAsArrow(FormatConformance):
    @pytest.fixture
    def bench(self) -> FormatBench:
        return FormatBench(AvroAsArrow(), write_without_ids=avro_without_ids)


class TestAvroAsRows(FormatConformance):
    @pytest.fixture
    def bench(self) -> FormatBench:
        return FormatBench(AsRows(AvroAsArrow()), write_without_ids=avro_without_ids)
