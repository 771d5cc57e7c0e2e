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

from floe.errors import InvalidUpdate, UnsupportedFeature
from floe.spec.metadata.properties import boolean_property, integer_property

__all__ = ["ParquetOptions", "known_options", "parquet_options"]

_PREFIX = "write.parquet."
_DELETE_PREFIX = "write.delete.parquet."

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

_ROW_GROUP_BYTES = 128 * 1024 * 1024
_ROW_GROUP_ROWS = 1024 * 1024
_PAGE_BYTES = 1024 * 1024
_PAGE_ROWS = 20_000
_DICTIONARY_BYTES = 2 * 1024 * 1024
_BLOOM_BYTES = 1024 * 1024
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
    own = _Properties(properties, deletes)
    codec = _codec(own)
    writer: dict[str, Any] = {
        "compression": codec,
        "compression_level": _level(own, codec),
        "data_page_size": own.size("page-size-bytes", _PAGE_BYTES),
        "max_rows_per_page": own.size("page-row-limit", _PAGE_ROWS),
        "dictionary_pagesize_limit": own.size("dict-size-bytes", _DICTIONARY_BYTES),
        "data_page_version": _page_version(own),
        "use_dictionary": _enabled(properties, "dict-encoding-enabled.column.", leaves),
        "write_statistics": _enabled(properties, "stats-enabled.column.", leaves),
        "bloom_filter_options": _bloom_filters(properties, leaves),
    }
    return ParquetOptions(
        own.size("row-group-size-bytes", _ROW_GROUP_BYTES), own.size("row-group-limit", _ROW_GROUP_ROWS), writer
    )


class _Properties:
    """The properties under the prefix of data files, or first under that of delete files."""

    def __init__(self, properties: Mapping[str, str], deletes: bool) -> None:
        self.properties = properties
        self.prefixes = (_DELETE_PREFIX, _PREFIX) if deletes else (_PREFIX,)

    def name(self, suffix: str) -> str:
        names = [prefix + suffix for prefix in self.prefixes]
        return next((name for name in names if name in self.properties), names[-1])

    def text(self, suffix: str) -> str | None:
        return self.properties.get(self.name(suffix))

    def size(self, suffix: str, default: int) -> int:
        name = self.name(suffix)
        found = integer_property(self.properties, name, default=default)
        if found <= 0:
            raise InvalidUpdate(f"property {name} must be above 0, found {found}", property=name)
        return found


def _codec(own: _Properties) -> str:
    text = own.text("compression-codec") or "zstd"
    codec = _CODECS.get(text.lower())
    if codec is None:
        raise UnsupportedFeature(
            f"Parquet files cannot be compressed with {text[:80]!r}",
            hint=f"use one of {', '.join(_CODECS)}",
            property=own.name("compression-codec"),
        )
    return codec


def _level(own: _Properties, codec: str) -> int | None:
    if own.text("compression-level") is None or codec not in _LEVELS:
        return _USUAL_LEVELS.get(codec)  # None for pyarrow's own, and for codecs without levels
    name = own.name("compression-level")
    level = integer_property(own.properties, name, default=0)
    lowest, highest = _LEVELS[codec]
    if not lowest <= level <= highest:
        raise InvalidUpdate(f"the level of {codec} is from {lowest} to {highest}, found {level}", property=name)
    return level


def _page_version(own: _Properties) -> str:
    text = own.text("page-version") or "v1"
    version = _PAGE_VERSIONS.get(text.lower())
    if version is None:
        raise InvalidUpdate(
            f"there is no page version {text[:80]!r}", hint="use v1 or v2", property=own.name("page-version")
        )
    return version


def _columns(properties: Mapping[str, str], suffix: str, leaves: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The columns that have a property of their own: by Parquet path, the property's name and text."""
    prefix = _PREFIX + suffix
    named = {name.removeprefix(prefix): name for name in properties if name.startswith(prefix)}
    return {leaves[column]: (name, properties[name]) for column, name in named.items() if column in leaves}


def _enabled(properties: Mapping[str, str], suffix: str, leaves: Mapping[str, str]) -> bool | list[str]:
    """Whether something is on: for all columns, or for a list of them, where some have it switched off."""
    chosen = _columns(properties, suffix, leaves)
    off = {path for path, (name, _) in chosen.items() if not boolean_property(properties, name, default=True)}
    return [path for path in leaves.values() if path not in off] if off else True


def _bloom_filters(properties: Mapping[str, str], leaves: Mapping[str, str]) -> dict[str, dict[str, Any]] | None:
    chosen = _columns(properties, "bloom-filter-enabled.column.", leaves)
    rates = _columns(properties, "bloom-filter-fpp.column.", leaves)
    counts = _columns(properties, "bloom-filter-ndv.column.", leaves)
    most = integer_property(properties, _PREFIX + "bloom-filter-max-bytes", default=_BLOOM_BYTES)
    made = {}
    for path, (name, _) in chosen.items():
        if not boolean_property(properties, name, default=False):
            continue
        rate = _rate(*rates[path]) if path in rates else _BLOOM_FPP
        # as many distinct values as a filter of that size, made of blocks of 8 words, can tell apart at that rate
        fitting = max(1, int(most * -math.log(1 - rate ** (1 / _BLOOM_WORDS))))
        count = integer_property(properties, counts[path][0], default=fitting) if path in counts else fitting
        made[path] = {"fpp": rate, "ndv": min(max(count, 1), fitting)}
    return made or None


def _rate(name: str, text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 < rate < 1:
        raise InvalidUpdate(f"a rate of false positives lies between 0 and 1, found {text[:80]!r}", property=name)
    return rate
