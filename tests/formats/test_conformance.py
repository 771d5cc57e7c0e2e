"""Floe's own format models keep all promises, and a third party's can be registered."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floe.formats.parquet.model import ParquetAsArrow
from floe.formats.rows import AsRows, rows_to_batch
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage
from floe.testing.formats import FormatBench, FormatConformance, feature_table


def without_field_ids(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, _bare(field.type)) for field in schema])


def _bare(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _bare(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(_bare(type_.value_type))
    return type_


def parquet_without_ids(storage: Storage, location: str, schema: Schema, rows: list) -> None:
    batch = rows_to_batch(schema, rows)
    bare = pa.Table.from_batches([batch]).cast(without_field_ids(batch.schema))
    sink = pa.BufferOutputStream()
    pq.write_table(bare, sink)
    storage.write(location, sink.getvalue().to_pybytes())


class TestParquetAsArrow(FormatConformance):
    @pytest.fixture
    def bench(self) -> FormatBench:
        return FormatBench(ParquetAsArrow(), write_without_ids=parquet_without_ids)


class TestParquetAsRows(FormatConformance):
    @pytest.fixture
    def bench(self) -> FormatBench:
        return FormatBench(AsRows(ParquetAsArrow()), write_without_ids=parquet_without_ids)


def test_the_table_of_features_has_no_gap() -> None:
    makers = [
        lambda: FormatBench(ParquetAsArrow(), write_without_ids=parquet_without_ids),
        lambda: FormatBench(AsRows(ParquetAsArrow()), write_without_ids=parquet_without_ids),
    ]
    table = feature_table(makers)
    lines = table.splitlines()
    assert lines[0] == "| feature | parquet as arrow | parquet as rows |"
    assert len(lines) > 70
    assert not [line for line in lines if "FAILS" in line or "not tried" in line]
    assert [line for line in lines if "| no |" in line] == [
        "| Containers used again when allowed, and only then | no | yes |"
    ]


def test_the_table_tells_what_fails() -> None:
    class Forgetful(ParquetAsArrow):
        def read(self, request):
            yield from list(super().read(request))[:-1]

    table = feature_table([lambda: FormatBench(Forgetful())])
    assert "| Type boolean | FAILS: AssertionError" in table
    assert "| Files without ids are read by a name mapping, at any depth | not tried |" in table
