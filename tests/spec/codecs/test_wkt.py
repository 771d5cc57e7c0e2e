"""Well-known text and binary: all kinds of simple features in all dimensions, both byte orders, and hostile input."""

import contextlib
import math
import struct

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidValue
from floe.spec.codecs.wkt import MAX_DEPTH, wkb_to_wkt, wkt_to_wkb


def wkb(code, *parts, order="<"):
    """Well-known binary put together by hand: ints are counts, floats coordinates, bytes inner geometries."""
    out = struct.pack(order + "BI", order == "<", code)
    for part in parts:
        out += part if isinstance(part, bytes) else struct.pack(order + ("I" if isinstance(part, int) else "d"), part)
    return out


SHAPES = {
    "POINT (30 10)": wkb(1, 30.0, 10.0),
    "POINT Z (1 2 3)": wkb(1001, 1.0, 2.0, 3.0),
    "POINT M (1 2 3)": wkb(2001, 1.0, 2.0, 3.0),
    "POINT ZM (1 2 3 4)": wkb(3001, 1.0, 2.0, 3.0, 4.0),
    "POINT EMPTY": wkb(1, math.nan, math.nan),
    "POINT ZM EMPTY": wkb(3001, *[math.nan] * 4),
    "LINESTRING (30 10, 10 30.5, -40 0)": wkb(2, 3, 30.0, 10.0, 10.0, 30.5, -40.0, 0.0),
    "LINESTRING Z (0 0 1, 1 1 2)": wkb(1002, 2, 0.0, 0.0, 1.0, 1.0, 1.0, 2.0),
    "LINESTRING EMPTY": wkb(2, 0),
    "POLYGON ((0 0, 1 0, 1 1, 0 0))": wkb(3, 1, 4, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0),
    "POLYGON ((0 0, 1 0, 0 0), (2 2, 3 3, 2 2))": wkb(
        3, 2, 3, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 3, 2.0, 2.0, 3.0, 3.0, 2.0, 2.0
    ),
    "POLYGON EMPTY": wkb(3, 0),
    "MULTIPOINT ((1 2), (3 4))": wkb(4, 2, wkb(1, 1.0, 2.0), wkb(1, 3.0, 4.0)),
    "MULTIPOINT M ((1 2 9), EMPTY)": wkb(2004, 2, wkb(2001, 1.0, 2.0, 9.0), wkb(2001, *[math.nan] * 3)),
    "MULTILINESTRING ((0 0, 1 1), EMPTY)": wkb(5, 2, wkb(2, 2, 0.0, 0.0, 1.0, 1.0), wkb(2, 0)),
    "MULTIPOLYGON (((0 0, 1 0, 0 0)), EMPTY)": wkb(6, 2, wkb(3, 1, 3, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0), wkb(3, 0)),
    "GEOMETRYCOLLECTION (POINT (1 2), LINESTRING EMPTY)": wkb(7, 2, wkb(1, 1.0, 2.0), wkb(2, 0)),
    "GEOMETRYCOLLECTION Z (GEOMETRYCOLLECTION Z (POINT Z (1 2 3)))": wkb(
        1007, 1, wkb(1007, 1, wkb(1001, 1.0, 2.0, 3.0))
    ),
    "GEOMETRYCOLLECTION EMPTY": wkb(7, 0),
}


@pytest.mark.parametrize(("text", "data"), SHAPES.items())
def test_text_and_binary_of_every_kind(text, data):
    assert wkb_to_wkt(data) == text
    assert wkt_to_wkb(text) == data


def test_point_of_the_spec():
    assert wkb_to_wkt(wkt_to_wkb("POINT (30 10)")) == "POINT (30 10)"


def test_big_endian_is_read():
    assert wkb_to_wkt(bytes.fromhex("000000000140000000000000004010000000000000")) == "POINT (2 4)"
    mixed = wkb(4, 1, wkb(1, 1.0, 2.0), order=">")  # a part may have its own byte order
    assert wkb_to_wkt(mixed) == "MULTIPOINT ((1 2))"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("point(30 10)", "POINT (30 10)"),
        ("  POINT\t( 30\n10 )  ", "POINT (30 10)"),
        ("POINTZ(1 2 3)", "POINT Z (1 2 3)"),
        ("PointZM (1 2 3 4)", "POINT ZM (1 2 3 4)"),
        ("MULTIPOINT (1 2, 3 4)", "MULTIPOINT ((1 2), (3 4))"),
        ("POINT (1e2 -.5)", "POINT (100 -0.5)"),
        ("POINT (1 NaN)", "POINT (1 NaN)"),
        ("POINT (inf -Infinity)", "POINT (Infinity -Infinity)"),
        ("POLYGON (EMPTY)", "POLYGON (EMPTY)"),
    ],
)
def test_other_spellings_are_read(text, plain):
    assert wkb_to_wkt(wkt_to_wkb(text)) == plain


@pytest.mark.parametrize(
    "text",
    ["", "POINT", "POINT ()", "POINT (1)", "POINT (1 2 3)", "POINT Z (1 2)", "POINT (1 2", "POINT (1 2))",
     "POINT (1, 2)", "POINT (1 2) POINT (1 2)", "CIRCLE (1 2)", "POINT X (1 2)", "LINESTRING (1 2,)", "POINT (a b)",
     "(1 2)", "1 2", "MULTIPOINT ((1 2), 3)", "GEOMETRYCOLLECTION ((1 2))", "GEOMETRYCOLLECTION Z (POINT (1 2))",
     "SRID=4326;POINT (1 2)", "POINT (1 2)\x00", "POINT ZZ (1 2 3)"],
)  # fmt: skip
def test_broken_text(text):
    with pytest.raises(InvalidValue):
        wkt_to_wkb(text)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "ends too early"),
        (b"\x01", "ends too early"),
        (b"\x02" + bytes(20), "byte order 0 or 1, found 2"),
        (wkb(1, 1.0), "ends too early"),
        (wkb(1, 1.0, 2.0) + b"\x00", "1 bytes too many"),
        (wkb(8, 1.0, 2.0), "unknown WKB geometry type 8"),
        (wkb(0), "unknown WKB geometry type 0"),
        (wkb(4001, 1.0, 2.0), "unknown WKB geometry type 4001"),
        (wkb(0x20000001, 4326, 1.0, 2.0), "EWKB"),
        (wkb(2, 0xFFFFFFFF), "claims 4294967295 parts"),
        (wkb(3, 0xFFFFFFFF), "claims 4294967295 parts"),
        (wkb(7, 0xFFFFFFFF), "claims 4294967295 parts"),
        (wkb(4, 1, wkb(2, 0)), "a MULTIPOINT is made of POINTs, found a LINESTRING"),
        (wkb(7, 1, wkb(1001, 1.0, 2.0, 3.0)), "XY holds a POINT XYZ"),
    ],
)
def test_broken_binary(data, why):
    with pytest.raises(InvalidValue, match=why):
        wkb_to_wkt(data)


def test_nesting_is_limited():
    deep = wkb(1, 1.0, 2.0)
    for _ in range(MAX_DEPTH - 1):
        deep = wkb(7, 1, deep)
    text = wkb_to_wkt(deep)
    assert wkt_to_wkb(text) == deep
    with pytest.raises(InvalidValue, match="nest deeper than 32"):
        wkb_to_wkt(wkb(7, 1, deep))
    with pytest.raises(InvalidValue, match="nest deeper than 32"):
        wkt_to_wkb(f"GEOMETRYCOLLECTION ({text})")
    with pytest.raises(InvalidValue, match="nest deeper than 32"):
        wkt_to_wkb("GEOMETRYCOLLECTION (" * 10**5)


numbers = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def geometries(draw, depth=2, width=None):
    """Well-known binary of any geometry, made by the helper above."""
    width = width or draw(st.integers(2, 4))
    dims = {2: [0], 3: [1000, 2000], 4: [3000]}[width]
    return draw(_shape(draw(st.sampled_from(dims)), width, depth))


def _flat(lists):
    return [number for point in lists for number in point]


def _shape(dims, width, depth):
    point = st.lists(numbers, min_size=width, max_size=width)
    line = st.lists(point, max_size=3).map(lambda points: [len(points), *_flat(points)])
    rings = st.lists(line, max_size=2).map(lambda lines: [len(lines), *_flat(lines)])
    plain = {1: point, 2: line, 3: rings}
    simple = {code: parts.map(lambda p, code=code: wkb(code + dims, *p)) for code, parts in plain.items()}
    multi = [
        st.lists(part, max_size=2).map(lambda parts, code=code: wkb(code + 3 + dims, len(parts), *parts))
        for code, part in simple.items()
    ]
    shapes = st.one_of(*simple.values(), *multi)
    if depth:
        inner = st.lists(_shape(dims, width, depth - 1), max_size=2)
        shapes |= inner.map(lambda parts: wkb(7 + dims, len(parts), *parts))
    return shapes


@given(geometries())
def test_round_trip(data):
    assert wkt_to_wkb(wkb_to_wkt(data)) == data


@given(st.binary(max_size=60))
def test_any_bytes_are_a_geometry_or_refused(data):
    with contextlib.suppress(InvalidValue):
        wkb_to_wkt(data)


@given(st.text("POINTLESRGYMUCZ0123456789.,-+e() ", max_size=40))
def test_any_text_is_a_geometry_or_refused(text):
    with contextlib.suppress(InvalidValue):
        wkt_to_wkb(text)


def test_a_coordinate_beyond_all_doubles_is_refused():
    for number in ("1e400", "-1e400", "9" * 400):
        with pytest.raises(InvalidValue, match="is beyond the range of a double"):
            wkt_to_wkb(f"POINT ({number} 2)")
