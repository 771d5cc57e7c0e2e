"""ORC keeps all promises of a format model, as Arrow batches and as plain rows."""

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from floe.errors import UnsupportedFeature
from floe.formats.orc.model import OrcAsArrow
from floe.formats.rows import AsRows, rows_to_batch
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage
from floe.testing.formats import FormatBench, FormatConformance


def orc_without_ids(storage: Storage, location: str, schema: Schema, rows: list) -> None:
    batch = rows_to_batch(schema, rows)
    bare = pa.Table.from_batches([batch]).cast(pa.schema([pa.field(f.name, _bare(f.type)) for f in batch.schema]))
    sink = pa.BufferOutputStream()
    orc.write_table(bare, sink)
    storage.write(location, sink.getvalue().to_pybytes())


def _bare(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _bare(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(_bare(type_.value_type))
    return type_


class _Orc(FormatConformance):
    """All but one: a moment before 1970 with a fraction of a second, which is among the samples, cannot be written."""

    @pytest.mark.parametrize(
        "promise",
        ["test_timestamps", "test_nanosecond_timestamps", "test_bounds_of_all_types", "test_many_columns_at_once"],
    )
    def test_early_fractions_are_refused(self, bench: FormatBench, promise: str) -> None:
        with pytest.raises(UnsupportedFeature, match=r"timestamps before 1970 with fractions .* \(column: "):
            getattr(FormatConformance, promise)(self, bench)

    test_timestamps = test_nanosecond_timestamps = None
    test_bounds_of_all_types = test_many_columns_at_once = None


class TestOrcAsArrow(_Orc):
    @pytest.fixture
    def bench(self) -> FormatBench:
        return FormatBench(OrcAsArrow(), write_without_ids=orc_without_ids)


class TestOrcAsRows(_Orc):
    @pytest.fixture
    def bench(self) -> FormatBench:
        return FormatBench(AsRows(OrcAsArrow()), write_without_ids=orc_without_ids)
