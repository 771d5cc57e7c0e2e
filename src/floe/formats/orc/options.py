"""Table properties `write.orc.*` as options of the ORC writer; delete files may have their own.

| property | effect |
|---|---|
| `compression-codec` | zlib by default; also zstd, snappy, lz4, none |
| `compression-strategy` | `speed` by default, or `compression` |
| `stripe-size-bytes` | about how many bytes a stripe has |
| `vectorized.batch-size` | how many rows the writer takes at a time |
| `bloom.filter.columns`, `bloom.filter.fpp` | Bloom filters |

Delete files take `write.delete.orc.*` first, for those of the first four lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from floe.errors import InvalidUpdate, UnsupportedFeature
from floe.spec.metadata.properties import integer_property

__all__ = ["orc_options"]

_PREFIX = "write.orc."
_DELETE_PREFIX = "write.delete.orc."
_CODECS = {"zlib": "zlib", "zstd": "zstd", "snappy": "snappy", "lz4": "lz4", "none": "uncompressed"}
_STRATEGIES = ("speed", "compression")
_STRIPE_BYTES = 64 * 1024 * 1024
_BATCH_ROWS = 1024
_BLOCK_BYTES = 256 * 1024
_DICTIONARY_SHARE = 0.8
"""Text is stored by a dictionary where at most this share of the values is distinct; both as other writers do it."""

_BLOOM_COLUMNS, _BLOOM_FPP, _DEFAULT_FPP = "bloom.filter.columns", "bloom.filter.fpp", "0.05"


def orc_options(properties: Mapping[str, str], numbers: Mapping[str, int], *, deletes: bool) -> dict[str, Any]:
    """What pyarrow's ORC writer is told; `numbers` has the number of each column's type in the file, by dotted name.

    >>> orc_options({"write.orc.compression-codec": "ZSTD"}, {}, deletes=False)["compression"]
    'zstd'
    """
    own = _Properties(properties, deletes)
    codec = own.choice("compression-codec", _CODECS)
    strategy = own.choice("compression-strategy", {name: name for name in _STRATEGIES})
    return {
        "compression": codec,
        "compression_strategy": "compression" if codec == "lz4" else strategy,  # for speed, it does not compress at all
        "compression_block_size": _BLOCK_BYTES,
        "dictionary_key_size_threshold": _DICTIONARY_SHARE,
        "stripe_size": own.size("stripe-size-bytes", _STRIPE_BYTES),
        "batch_size": own.size("vectorized.batch-size", _BATCH_ROWS),
        **_bloom_filters(properties, numbers),
    }


class _Properties:
    """The properties under the prefix of data files, or first under that of delete files."""

    def __init__(self, properties: Mapping[str, str], deletes: bool) -> None:
        self.properties = properties
        self.prefixes = (_DELETE_PREFIX, _PREFIX) if deletes else (_PREFIX,)

    def name(self, suffix: str) -> str:
        names = [prefix + suffix for prefix in self.prefixes]
        return next((name for name in names if name in self.properties), names[-1])

    def choice(self, suffix: str, known: Mapping[str, str]) -> str:
        """The option that a property names; the first one without it."""
        name = self.name(suffix)
        text = self.properties.get(name) or next(iter(known))
        found = known.get(text.lower())
        if found is None:
            raise UnsupportedFeature(
                f"ORC files cannot be written with {text[:80]!r} as {suffix}",
                hint=f"use one of {', '.join(known)}",
                property=name,
            )
        return found

    def size(self, suffix: str, default: int) -> int:
        name = self.name(suffix)
        found = integer_property(self.properties, name, default=default)
        if found <= 0:
            raise InvalidUpdate(f"property {name} must be above 0, found {found}", property=name)
        return found


def _bloom_filters(properties: Mapping[str, str], numbers: Mapping[str, int]) -> dict[str, Any]:
    """The columns with Bloom filters; names of columns that the file has not are passed over."""
    names = [name.strip() for name in properties.get(_PREFIX + _BLOOM_COLUMNS, "").split(",")]
    columns = [numbers[name] for name in names if name in numbers]
    if not columns:
        return {}
    name = _PREFIX + _BLOOM_FPP
    text = properties.get(name, _DEFAULT_FPP)
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise InvalidUpdate(f"property {name} must be between 0 and 1, found {text[:40]!r}", property=name)
    return {"bloom_filter_columns": columns, "bloom_filter_fpp": share}
