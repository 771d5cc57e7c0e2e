"""Table properties `write.parquet.*` as options of the Parquet writer.

| property | effect |
|---|---|
| `compression-codec`, `compression-level` | zstd by default; also gzip, snappy, brotli, lz4, uncompressed |
| `row-group-size-bytes` | the approximate size of a row group in the file |
| `row-group-limit` | the maximum rows of a row group |
| `page-size-bytes`, `page-row-limit`, `page-version` | the pages of a column |
| `dict-size-bytes`, `dict-encoding-enabled.column.*` | dictionary encoding |
| `stats-enabled.column.*` | statistics in the file, not in the table's metadata |
| `bloom-filter-enabled.column.*`, `…-fpp.column.*`, `…-ndv.column.*`, `bloom-filter-max-bytes` | Bloom filters |

For delete files, `write.delete.parquet.*` takes precedence for the properties in the first five lines. Options that the
installed version of pyarrow does not have are ignored: they change the layout of a file, never its content.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from floe.errors import InvalidUpdate
from floe.spec.properties import (
    PARQUET_BLOOM_BYTES,
    PARQUET_BLOOM_FILTER,
    PARQUET_BLOOM_FPP,
    PARQUET_BLOOM_NDV,
    PARQUET_CODEC,
    PARQUET_DICTIONARY,
    PARQUET_DICTIONARY_BYTES,
    PARQUET_LEVEL,
    PARQUET_PAGE_BYTES,
    PARQUET_PAGE_ROWS,
    PARQUET_PAGE_VERSION,
    PARQUET_ROW_GROUP_BYTES,
    PARQUET_ROW_GROUP_ROWS,
    PARQUET_STATISTICS,
)
from floe.spec.setting_types import SettingFamily

_CODECS = {
    "zstd": "zstd",
    "gzip": "gzip",
    "snappy": "snappy",
    "brotli": "brotli",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "uncompressed": "none",
    "none": "none",
}
_LEVELS = {"zstd": (1, 22), "gzip": (0, 9), "brotli": (0, 11)}
_DEFAULT_LEVELS = {"zstd": 3}
"""The default of other writers; pyarrow's default level 1 makes text a fifth larger, and is hardly faster."""

_PAGE_VERSIONS = {"v1": "1.0", "v2": "2.0", "parquet_1_0": "1.0", "parquet_2_0": "2.0"}

_BLOOM_FPP = 0.01
_BLOOM_WORDS = 8


@dataclass(frozen=True, slots=True)
class ParquetOptions:
    """The size of row groups, and the options of pyarrow's writer."""

    row_group_bytes: int
    row_group_rows: int
    writer: dict[str, Any]


def supported_options(function: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a function of pyarrow has a parameter for in the installed version.

    >>> import pyarrow.parquet as pq
    >>> supported_options(pq.ParquetFile.__init__, {"pre_buffer": True, "not_invented_yet": 1})
    {'pre_buffer': True}
    """
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in options.items() if name in parameters}


def parquet_options(properties: Mapping[str, str], leaves: Mapping[str, str], *, deletes: bool) -> ParquetOptions:
    """The options for a file; `leaves` has the Parquet path of each leaf column by its dotted name.

    Raises `InvalidUpdate` for an invalid property.

    >>> options = parquet_options({"write.parquet.compression-codec": "gzip"}, {}, deletes=False)
    >>> options.writer["compression"], options.row_group_bytes
    ('gzip', 134217728)
    """
    codec = _CODECS[PARQUET_CODEC.read(properties, deletes=deletes)]
    writer: dict[str, Any] = {
        "compression": codec,
        "compression_level": _level(properties, codec, deletes=deletes),
        "data_page_size": PARQUET_PAGE_BYTES.read(properties, deletes=deletes),
        "max_rows_per_page": PARQUET_PAGE_ROWS.read(properties, deletes=deletes),
        "dictionary_pagesize_limit": PARQUET_DICTIONARY_BYTES.read(properties, deletes=deletes),
        "data_page_version": _PAGE_VERSIONS[PARQUET_PAGE_VERSION.read(properties, deletes=deletes)],
        "use_dictionary": _enabled_columns(PARQUET_DICTIONARY, properties, leaves),
        "write_statistics": _enabled_columns(PARQUET_STATISTICS, properties, leaves),
        "bloom_filter_options": _bloom_filters(properties, leaves),
    }
    return ParquetOptions(
        PARQUET_ROW_GROUP_BYTES.read(properties, deletes=deletes),
        PARQUET_ROW_GROUP_ROWS.read(properties, deletes=deletes),
        writer,
    )


def _level(properties: Mapping[str, str], codec: str, *, deletes: bool) -> int | None:
    level = PARQUET_LEVEL.read(properties, deletes=deletes)
    if level is None or codec not in _LEVELS:
        return _DEFAULT_LEVELS.get(codec)  # None for pyarrow's default, and for codecs without levels
    lowest, highest = _LEVELS[codec]
    if not lowest <= level <= highest:
        raise InvalidUpdate(
            f"the level of {codec} must be from {lowest} to {highest}, found {level}",
            property=PARQUET_LEVEL.chosen(properties, deletes=deletes).name,
        )
    return level


def _enabled_columns(
    family: SettingFamily[bool | None], properties: Mapping[str, str], leaves: Mapping[str, str]
) -> bool | list[str]:
    """True if a feature is enabled for all columns, else the Parquet paths of those that have it."""
    disabled = {
        leaves[column]
        for column in family.suffixes(properties)
        if column in leaves and not family.member(column).read(properties)
    }
    return [path for path in leaves.values() if path not in disabled] if disabled else True


def _bloom_filters(properties: Mapping[str, str], leaves: Mapping[str, str]) -> dict[str, dict[str, Any]] | None:
    max_bytes = PARQUET_BLOOM_BYTES.read(properties)
    filters = {}
    for column in PARQUET_BLOOM_FILTER.suffixes(properties):
        if column not in leaves or not PARQUET_BLOOM_FILTER.member(column).read(properties):
            continue
        rate = PARQUET_BLOOM_FPP.member(column).read(properties) or _BLOOM_FPP
        # the distinct values that a filter of that size, in blocks of 8 words, stores at that false positive rate
        capacity = max(1, int(max_bytes * -math.log(1 - rate ** (1 / _BLOOM_WORDS))))
        count = PARQUET_BLOOM_NDV.member(column).read(properties) or capacity
        filters[leaves[column]] = {"fpp": rate, "ndv": min(count, capacity)}
    return filters or None
