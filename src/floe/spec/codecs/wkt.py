"""Converts geometries between well-known binary and well-known text (spec: Appendix G).

Tables store the binary form: ISO WKB with coordinates XY, XYZ, XYM or XYZM. The JSON of single values has the text form
(spec: Appendix D). All seven kinds of simple features are supported.

>>> wkb_to_wkt(wkt_to_wkb("point z(30 10 2.5)"))
'POINT Z (30 10 2.5)'
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from typing import Any

from floe.errors import InvalidValue

MAX_DEPTH = 32
"""The maximum nesting of collections."""

_KINDS = ("POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION")
_MEMBER_KIND = {"MULTIPOINT": "POINT", "MULTILINESTRING": "LINESTRING", "MULTIPOLYGON": "POLYGON"}
_DIMENSIONS = ("", "Z", "M", "ZM")  # ISO WKB adds 1000 times the index to the code of the kind
_ENDIAN = {0: ">", 1: "<"}

_Point = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Geometry:
    """A parsed geometry.

    `parts` is a point or None (POINT), a list of points (LINESTRING), a list of lists of points (POLYGON), or a list
    of geometries (all others).
    """

    kind: str
    dimensions: str
    parts: Any


def wkb_to_wkt(data: bytes) -> str:
    """Convert well-known binary to well-known text.

    >>> wkb_to_wkt(bytes.fromhex("01010000000000000000003e400000000000002440"))
    'POINT (30 10)'
    """
    return _geometry_text(_BinaryReader(data).read())


def wkt_to_wkb(text: str) -> bytes:
    """Convert well-known text to well-known binary, in little-endian order.

    >>> wkt_to_wkb("POINT (30 10)").hex()
    '01010000000000000000003e400000000000002440'
    """
    out = bytearray()
    _write_geometry(_TextReader(text).read(), out)
    return bytes(out)


class _BinaryReader:
    """Parses WKB; checks each length against the remaining bytes before allocating anything."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = 0
        self.endian = "<"

    def read(self) -> _Geometry:
        geometry = self.geometry(MAX_DEPTH)
        if self.offset != len(self.data):
            raise InvalidValue(f"{len(self.data) - self.offset} bytes too many at the end of the WKB geometry")
        return geometry

    def geometry(self, depth: int) -> _Geometry:
        if depth <= 0:
            raise InvalidValue(f"WKB collections nest deeper than {MAX_DEPTH} levels")
        if self.offset >= len(self.data):
            raise InvalidValue("the WKB geometry ends too early")
        order = self.data[self.offset]
        if order not in _ENDIAN:
            raise InvalidValue(f"a WKB geometry starts with byte order 0 or 1, found {order}")
        self.offset += 1
        self.endian = _ENDIAN[order]
        kind, dimensions = _kind_of_code(self.unsigned())
        width = 2 + len(dimensions)
        if kind == "POINT":
            point = self.numbers(width)
            return _Geometry(kind, dimensions, None if all(map(math.isnan, point)) else point)
        if kind == "LINESTRING":
            return _Geometry(kind, dimensions, self.points(width))
        if kind == "POLYGON":
            return _Geometry(kind, dimensions, [self.points(width) for _ in range(self.count(4))])
        members = []
        for _ in range(self.count(9)):
            member = self.geometry(depth - 1)
            _check_member(kind, dimensions, member)
            members.append(member)
        return _Geometry(kind, dimensions, members)

    def points(self, width: int) -> list[_Point]:
        count = self.count(8 * width)
        numbers = self.numbers(count * width)
        return [numbers[i : i + width] for i in range(0, len(numbers), width)]

    def numbers(self, count: int) -> _Point:
        if len(self.data) - self.offset < 8 * count:
            raise InvalidValue("the WKB geometry ends too early")
        out = struct.unpack_from(f"{self.endian}{count}d", self.data, self.offset)
        self.offset += 8 * count
        return out

    def unsigned(self) -> int:
        if len(self.data) - self.offset < 4:
            raise InvalidValue("the WKB geometry ends too early")
        (out,) = struct.unpack_from(self.endian + "I", self.data, self.offset)
        self.offset += 4
        return int(out)

    def count(self, smallest: int) -> int:
        """Read a number of parts, each of which has at least `smallest` bytes."""
        count = self.unsigned()
        if count * smallest > len(self.data) - self.offset:
            raise InvalidValue(f"the WKB geometry claims {count} parts, but ends too early for them")
        return count


def _kind_of_code(code: int) -> tuple[str, str]:
    dimensions, kind = divmod(code, 1000)
    if 1 <= kind <= len(_KINDS) and dimensions < len(_DIMENSIONS):
        return _KINDS[kind - 1], _DIMENSIONS[dimensions]
    if code & 0xE000_0000:
        raise InvalidValue("this is PostGIS's EWKB, not ISO WKB", hint="write ISO WKB, for example with ST_AsBinary")
    raise InvalidValue(f"unknown WKB geometry type {code}")


def _check_member(kind: str, dimensions: str, member: _Geometry) -> None:
    member_kind = _MEMBER_KIND.get(kind)
    if member_kind is not None and member.kind != member_kind:
        raise InvalidValue(f"a {kind} is made of {member_kind}s, found a {member.kind}")
    if member.dimensions != dimensions:
        raise InvalidValue(f"a {kind} with coordinates XY{dimensions} holds a {member.kind} XY{member.dimensions}")


def _write_geometry(geometry: _Geometry, out: bytearray) -> None:
    code = 1 + _KINDS.index(geometry.kind) + 1000 * _DIMENSIONS.index(geometry.dimensions)
    out += struct.pack("<BI", 1, code)
    if geometry.kind == "POINT":
        width = 2 + len(geometry.dimensions)
        out += struct.pack(f"<{width}d", *(geometry.parts or (math.nan,) * width))
    elif geometry.kind == "LINESTRING":
        _write_points(geometry.parts, out)
    else:
        out += struct.pack("<I", len(geometry.parts))
        for part in geometry.parts:
            if geometry.kind == "POLYGON":
                _write_points(part, out)
            else:
                _write_geometry(part, out)


def _write_points(points: list[_Point], out: bytearray) -> None:
    out += struct.pack("<I", len(points))
    for point in points:
        out += struct.pack(f"<{len(point)}d", *point)


def _geometry_text(geometry: _Geometry) -> str:
    tag = f"{geometry.kind} {geometry.dimensions}".rstrip()
    return f"{tag} {_body_text(geometry)}"


def _body_text(geometry: _Geometry) -> str:
    if not geometry.parts:
        return "EMPTY"
    if geometry.kind == "POINT":
        return f"({_point_text(geometry.parts)})"
    if geometry.kind == "LINESTRING":
        return _points_text(geometry.parts)
    if geometry.kind == "POLYGON":
        return f"({', '.join(map(_points_text, geometry.parts))})"
    part_text = _geometry_text if geometry.kind == "GEOMETRYCOLLECTION" else _body_text
    return f"({', '.join(map(part_text, geometry.parts))})"


def _points_text(points: list[_Point]) -> str:
    return f"({', '.join(map(_point_text, points))})" if points else "EMPTY"


def _point_text(point: _Point) -> str:
    return " ".join(map(_number_text, point))


def _number_text(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    text = repr(number)
    return text.removesuffix(".0")


_TOKEN = re.compile(r"\s*(?:(?P<mark>[(),])|(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
                    r"|(?P<word>[+-]?[A-Za-z]+))")  # fmt: skip
_TAGS = {kind + dims: (kind, dims) for kind in _KINDS for dims in _DIMENSIONS}  # `POINTZ` is accepted for `POINT Z`
_NOT_FINITE = {"NAN": math.nan, "INF": math.inf, "INFINITY": math.inf, "-INF": -math.inf, "-INFINITY": -math.inf}


class _TextReader:
    """Parses WKT with one token of lookahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.offset = 0
        self.token: str | float = ""
        self.advance()

    def read(self) -> _Geometry:
        geometry = self.geometry(MAX_DEPTH)
        if self.token != "":
            raise self.unexpected("the end")
        return geometry

    def advance(self) -> None:
        match = _TOKEN.match(self.text, self.offset)
        if match is None:
            if self.text[self.offset :].strip():
                raise InvalidValue(
                    f"unexpected {self.text[self.offset : self.offset + 20].strip()!r} in the WKT geometry"
                )
            self.token = ""
            self.offset = len(self.text)
            return
        self.offset = match.end()
        if match["number"] is not None:
            self.token = number = float(match["number"])
            if math.isinf(number):
                raise InvalidValue(f"the coordinate {match['number'][:20]} is beyond the range of a double")
        elif match["word"] is not None:
            word = match["word"].upper()
            self.token = _NOT_FINITE.get(word, word)
        else:
            self.token = match["mark"]

    def unexpected(self, expected: str) -> InvalidValue:
        token = "its end" if self.token == "" else repr(self.token)[:40]
        return InvalidValue(f"the WKT geometry should have {expected} at character {self.offset}, found {token}")

    def take(self, token: str) -> bool:
        if self.token != token:
            return False
        self.advance()
        return True

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise self.unexpected(repr(token))

    def geometry(self, depth: int) -> _Geometry:
        if depth <= 0:
            raise InvalidValue(f"WKT collections nest deeper than {MAX_DEPTH} levels")
        kind, dimensions = self.tag()
        return self.body(kind, dimensions, depth)

    def tag(self) -> tuple[str, str]:
        word = self.token
        if not isinstance(word, str) or not word.isalpha():
            raise self.unexpected("the name of a geometry")
        tag = _TAGS.get(word)
        if tag is None:
            raise InvalidValue(f"unknown geometry {word[:40]!r}", hint="known are " + ", ".join(_KINDS))
        kind, dimensions = tag
        self.advance()
        if not dimensions and isinstance(self.token, str) and self.token in _DIMENSIONS[1:]:
            dimensions = self.token
            self.advance()
        return kind, dimensions

    def body(self, kind: str, dimensions: str, depth: int) -> _Geometry:
        width = 2 + len(dimensions)
        if self.take("EMPTY"):
            return _Geometry(kind, dimensions, None if kind == "POINT" else [])
        if kind == "LINESTRING":
            return _Geometry(kind, dimensions, self.points(width))
        self.expect("(")
        if kind == "POINT":
            parts: Any = self.point(width)
            self.expect(")")
            return _Geometry(kind, dimensions, parts)
        parts = [self.part(kind, dimensions, depth)]
        while self.take(","):
            parts.append(self.part(kind, dimensions, depth))
        self.expect(")")
        return _Geometry(kind, dimensions, parts)

    def part(self, kind: str, dimensions: str, depth: int) -> Any:
        if kind == "POLYGON":
            return self.points(2 + len(dimensions))
        if kind == "GEOMETRYCOLLECTION":
            member = self.geometry(depth - 1)
            _check_member(kind, dimensions, member)
            return member
        if kind == "MULTIPOINT" and isinstance(self.token, float):  # an older form without inner parentheses
            return _Geometry("POINT", dimensions, self.point(2 + len(dimensions)))
        return self.body(_MEMBER_KIND[kind], dimensions, depth)

    def points(self, width: int) -> list[_Point]:
        if self.take("EMPTY"):
            return []
        self.expect("(")
        points = [self.point(width)]
        while self.take(","):
            points.append(self.point(width))
        self.expect(")")
        return points

    def point(self, width: int) -> _Point:
        numbers = []
        while isinstance(self.token, float):
            numbers.append(self.token)
            self.advance()
        if len(numbers) != width:
            raise InvalidValue(
                f"a point of the WKT geometry should have {width} coordinates, found {len(numbers)}",
                hint="write Z, M or ZM after the name for a third and fourth coordinate",
            )
        return tuple(numbers)
