"""Where in the bytes of a variant its metadata ends and its value begins (spec: Bound serialization).

A variant's bound is the encoded metadata, version 1, followed by the encoded value, which is an object whose keys are
normalised JSON paths. The layout is that of Parquet's variant encoding.
"""

from __future__ import annotations

from floe.errors import CorruptFile

__all__ = ["check_variant_bound", "split_variant"]

_VERSION = 1
_OBJECT = 2


def split_variant(data: bytes) -> tuple[bytes, bytes]:
    r"""The metadata and the value of a variant whose bytes are put together, or `CorruptFile`.

    >>> metadata, value = b"\x01\x01\x00\x01a", b"\x02\x01\x00\x00\x01\x00"  # {"a": null}
    >>> split_variant(metadata + value) == (metadata, value)
    True
    """
    if not data:
        raise CorruptFile("a variant cannot be empty")
    header = data[0]
    if header & 0x0F != _VERSION:
        raise CorruptFile(f"the metadata of a variant has version {_VERSION}, found {header & 0x0F}")
    width = (header >> 6) + 1  # bytes of a count or an offset
    names = int.from_bytes(data[1 : 1 + width], "little")
    strings = 1 + width + (names + 1) * width  # where the offsets end and the names begin
    if strings > len(data):
        raise CorruptFile(f"the metadata of a variant claims {names} names, but ends too early for them")
    end = strings + int.from_bytes(data[strings - width : strings], "little")
    if end >= len(data):
        raise CorruptFile("a variant ends before its value begins")
    return bytes(data[:end]), bytes(data[end:])


def check_variant_bound(data: bytes) -> None:
    r"""Raise `CorruptFile` unless the bytes are laid out as the bound of a variant: metadata, then an object.

    >>> check_variant_bound(b"\x01\x00\x00\x00")
    Traceback (most recent call last):
    floe.errors.CorruptFile: the bound of a variant is an object, found a primitive value
    """
    _, value = split_variant(data)
    if value[0] & 0x03 != _OBJECT:
        kind = {0: "a primitive value", 1: "a short string", 3: "an array"}[value[0] & 0x03]
        raise CorruptFile(f"the bound of a variant is an object, found {kind}")
