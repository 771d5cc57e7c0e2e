"""Each property of data and delete files reaches the writer."""

from typing import Any

import pytest

from floe.formats.avro.writer import avro_codec
from floe.formats.metrics import NONE, MetricsConfig
from floe.formats.orc.writer import orc_options
from floe.formats.parquet.writer_options import parquet_options
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, Field

PARQUET = {
    "write.parquet.page-size-bytes": ("data_page_size", "4096", 4096),
    "write.delete.parquet.page-size-bytes": ("data_page_size", "4096", 4096),
    "write.delete.parquet.compression-level": ("compression_level", "7", 7),
    "write.delete.parquet.page-row-limit": ("max_rows_per_page", "9", 9),
    "write.delete.parquet.dict-size-bytes": ("dictionary_pagesize_limit", "64", 64),
    "write.delete.parquet.page-version": ("data_page_version", "v2", "2.0"),
}
ORC = {
    "write.orc.compression-strategy": ("compression_strategy", "compression", "compression"),
    "write.orc.vectorized.batch-size": ("batch_size", "77", 77),
    "write.delete.orc.compression-codec": ("compression", "zstd", "zstd"),
    "write.delete.orc.compression-strategy": ("compression_strategy", "compression", "compression"),
    "write.delete.orc.stripe-size-bytes": ("stripe_size", "5000", 5000),
    "write.delete.orc.vectorized.batch-size": ("batch_size", "77", 77),
}


@pytest.mark.parametrize(("name", "expected"), PARQUET.items())
def test_parquet(name: str, expected: tuple[str, str, Any]) -> None:
    option, text, value = expected
    is_own = name.startswith("write.delete.")
    assert parquet_options({name: text}, {}, deletes=True).writer[option] == value
    assert (parquet_options({name: text}, {}, deletes=False).writer[option] == value) is not is_own


def test_row_groups() -> None:
    sizes = {"write.delete.parquet.row-group-size-bytes": "5000", "write.delete.parquet.row-group-limit": "6"}
    options = parquet_options(sizes, {}, deletes=True)
    assert (options.row_group_bytes, options.row_group_rows) == (5000, 6)


def test_bloom_filters() -> None:
    names = {
        "write.parquet.bloom-filter-enabled.column.a": "true",
        "write.parquet.bloom-filter-fpp.column.a": "0.2",
        "write.parquet.bloom-filter-ndv.column.a": "50",
    }
    leaves = {"a": "a"}
    filters = parquet_options(names, leaves, deletes=False).writer["bloom_filter_options"]
    assert filters == {"a": {"fpp": 0.2, "ndv": 50}}
    small = {**names, "write.parquet.bloom-filter-max-bytes": "8"}
    assert parquet_options(small, leaves, deletes=False).writer["bloom_filter_options"]["a"]["ndv"] < 50
    orc = {"write.orc.bloom.filter.columns": "a", "write.orc.bloom.filter.fpp": "0.2"}
    assert orc_options(orc, {"a": 1}, deletes=False)["bloom_filter_fpp"] == 0.2


@pytest.mark.parametrize(("name", "expected"), ORC.items())
def test_orc(name: str, expected: tuple[str, str, Any]) -> None:
    option, text, value = expected
    is_own = name.startswith("write.delete.")
    assert orc_options({name: text}, {}, deletes=True)[option] == value
    assert (orc_options({name: text}, {}, deletes=False)[option] == value) is not is_own


def test_avro() -> None:
    assert avro_codec({"write.delete.avro.compression-level": "3"}, deletes=True) == ("deflate", 3)
    assert avro_codec({"write.delete.avro.compression-level": "3"}, deletes=False) != ("deflate", 3)


def test_metrics_of_the_first_columns() -> None:
    schema = Schema((Field(1, "a", LONG), Field(2, "b", LONG)))
    config = MetricsConfig.from_properties({"write.metadata.metrics.max-inferred-column-defaults": "1"}, schema)
    assert config.mode(1) != NONE
    assert config.mode(2) == NONE
