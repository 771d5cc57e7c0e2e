"""Table properties `write.avro.*` as the codec of Avro files; delete files may have their own.

| property | effect |
|---|---|
| `compression-codec` | gzip by default; also zstd, snappy, uncompressed |
| `compression-level` | the level of gzip (0 to 9) or zstd (1 to 22) |

Delete files take `write.delete.avro.*` first.
"""

from __future__ import annotations

from collections.abc import Mapping

from floe.errors import InvalidUpdate, UnsupportedFeature
from floe.spec.metadata.properties import integer_property

__all__ = ["avro_codec"]

_PREFIXES = ("write.delete.avro.", "write.avro.")
_CODECS = {
    "gzip": "deflate",
    "zstd": "zstandard",
    "snappy": "snappy",
    "uncompressed": "null",
    "deflate": "deflate",
    "none": "null",
}
_LEVELS = {"deflate": (0, 9), "zstandard": (1, 22)}
_USUAL_LEVELS = {"deflate": 6}
"""Data is written once and kept for long: worth more time than a manifest, whose codec is chosen for speed."""


def avro_codec(properties: Mapping[str, str], *, deletes: bool) -> tuple[str, int | None]:
    """The codec as Avro files name it, and its level; None for the codec's own.

    >>> avro_codec({"write.avro.compression-codec": "zstd", "write.avro.compression-level": "5"}, deletes=False)
    ('zstandard', 5)
    """
    name = _name(properties, "compression-codec", deletes)
    text = properties.get(name, "gzip")
    codec = _CODECS.get(text.lower())
    if codec is None:
        raise UnsupportedFeature(
            f"Avro files cannot be compressed with {text[:80]!r}",
            hint=f"use one of {', '.join(_CODECS)}",
            property=name,
        )
    name = _name(properties, "compression-level", deletes)
    if name not in properties or codec not in _LEVELS:
        return codec, _USUAL_LEVELS.get(codec)
    level = integer_property(properties, name, default=0)
    lowest, highest = _LEVELS[codec]
    if not lowest <= level <= highest:
        raise InvalidUpdate(f"the level of {codec} is from {lowest} to {highest}, found {level}", property=name)
    return codec, level


def _name(properties: Mapping[str, str], suffix: str, deletes: bool) -> str:
    names = [prefix + suffix for prefix in _PREFIXES if deletes or prefix == _PREFIXES[-1]]
    return next((name for name in names if name in properties), names[-1])
