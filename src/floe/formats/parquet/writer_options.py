"""Table properties `write.parquet.*` as options of the Parquet writer; delete files may have their own.

| property | effect |
|---|---|
| `compression-codec`, `compression-level` | zstd by default; also gzip, snappy, brotli, lz4, uncompressed |
| `row-group-size-bytes` | about how many bytes a row group has in the file |
| `row-group-limit` | how many rows a row group has at most |
| `page-size-bytes`, `page-row-limit`, `page-version` | the pages of a column |
| `dict-size-bytes`, `dict-encoding-enabled.column.*` | dictionaries of values |
| `stats-enabled.column.*` | statistics in the file itself, not in the table's metadata |
| `bloom-filter-enabled.column.*`, `…-fpp.column.*`, `…-ndv.column.*`, `bloom-filter-max-bytes` | Bloom filters |

Delete files take `write.delete.parquet.*` first, for those of the first five lines. Options that the pyarrow at hand
does not have yet are left out: all of them only change how well a file is laid out, never what it holds.
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
_USUAL_LEVELS = {"zstd": 3}
"""What other writers take; pyarrow's own level 1 makes text a fifth longer, and is hardly faster."""

_PAGE_VERSIONS = {"v1": "1.0", "v2": "2.0", "parquet_1_0": "1.0", "parquet_2_0": "2.0"}

_BLOOM_FPP = 0.01
_BLOOM_WORDS = 8


@dataclass(frozen=True, slots=True)
class ParquetOptions:
    """How row groups are cut, and what else the writer is told."""

    row_group_bytes: int
    row_group_rows: int
    writer: dict[str, Any]


def known_options(function: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that a function of pyarrow takes in the version at hand.

    >>> import pyarrow.parquet as pq
    >>> known_options(pq.ParquetFile.__init__, {"pre_buffer": True, "not_invented_yet": 1})
    {'pre_buffer': True}
    """
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in options.items() if name in parameters}


def parquet_options(properties: Mapping[str, str], leaves: Mapping[str, str], *, deletes: bool) -> ParquetOptions:
    """The options for a file; `leaves` has the Parquet path of each column that holds values, by its dotted name.

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
        return _USUAL_LEVELS.get(codec)  # None for pyarrow's own, and for codecs without levels
    lowest, highest = _LEVELS[codec]
    if not lowest <= level <= highest:
        raise InvalidUpdate(
            f"the level of {codec} is from {lowest} to {highest}, found {level}",
            property=PARQUET_LEVEL.chosen(properties, deletes=deletes).name,
        )
    return level


def _enabled_columns(
    family: SettingFamily[bool | None], properties: Mapping[str, str], leaves: Mapping[str, str]
) -> bool | list[str]:
    """True if all columns have something enabled, else the Parquet paths of those that have."""
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
        # as many distinct values as a filter of that size, made of blocks of 8 words, can tell apart at that rate
        fitting = max(1, int(max_bytes * -math.log(1 - rate ** (1 / _BLOOM_WORDS))))
        count = PARQUET_BLOOM_NDV.member(column).read(properties) or fitting
        filters[leaves[column]] = {"fpp": rate, "ndv": min(count, fitting)}
    return filters or None
