"""Boxes around geometries, against coordinates read from their text by hand."""

import re
import struct

import pyarrow as pa
import pytest

from floe.formats.metrics import GeoBox
from floe.spec.codecs.single_value import GeoPoint
from floe.spec.codecs.wkt import wkt_to_wkb

SHAPES = [
    "POINT (30 10)",
    "POINT (-7.5 1e300)",
    "LINESTRING (30 10, 10 30, 40 40)",
    "POLYGON ((35 10, 45 45, 15 40, 10 20, 35 10), (20 30, 35 35, 30 20, 20 30))",
    "MULTIPOINT ((10 40), (40 30), (-20 20), (30 -10))",
    "MULTILINESTRING ((10 10, 20 20, 10 40), (40 40, 30 30, 40 20, 30 10))",
    "MULTIPOLYGON (((40 40, 20 45, 45 30, 40 40)), ((20 35, 10 30, 10 10, 30 5, 45 20, 20 35)))",
    "GEOMETRYCOLLECTION (POINT (40 10), LINESTRING (10 10, 20 20, 10 40), GEOMETRYCOLLECTION (POINT (-1 -2)))",
    "POINT Z (1 2 3)",
    "LINESTRING ZM (1 2 3 4, 5 6 7 8)",
    "POINT M (1 2 9)",
]


def box_of(*texts: str | None, straight: bool = True) -> GeoBox:
    box = GeoBox(edges_are_straight=straight)
    box.add(pa.array([None if text is None else wkt_to_wkb(text) for text in texts], pa.binary()))
    return box


def numbers(text: str, width: int) -> list[list[float]]:
    values = [float(n) for n in re.findall(r"-?[0-9][0-9.e+]*", text)]
    return [values[index::width] for index in range(width)]


@pytest.mark.parametrize("text", SHAPES)
def test_boxes_are_those_of_the_coordinates(text: str) -> None:
    head = text.split("(", maxsplit=1)[0].split()
    extra = head[1] if len(head) > 1 else ""
    by_dimension = dict(zip("xy" + extra.lower(), numbers(text, 2 + len(extra)), strict=True))
    box = box_of(text, None)
    for corner, pick in ((box.lower, min), (box.upper, max)):
        assert corner == GeoPoint(**{name: pick(values) for name, values in by_dimension.items()})


def test_boxes_grow_batch_by_batch() -> None:
    box = box_of("POINT (1 2)", "POINT (3 -4)", "LINESTRING (0 0, 2 9)")
    box.add(pa.array([wkt_to_wkb("POINT (10 0)")] * 3).slice(1, 1))
    assert (box.lower, box.upper) == (GeoPoint(0.0, -4.0), GeoPoint(10.0, 9.0))


def test_a_dimension_that_only_some_have_is_left_out() -> None:
    box = box_of("POINT Z (1 2 3)", "POINT (5 6)")
    assert (box.lower, box.upper) == (GeoPoint(1.0, 2.0), GeoPoint(5.0, 6.0))


def test_big_endian_points_and_empty_ones() -> None:
    box = GeoBox(edges_are_straight=True)
    box.add(pa.array([struct.pack(">BIdd", 0, 1, 3.0, 4.0), wkt_to_wkb("POINT EMPTY"), wkt_to_wkb("POINT (1 9)")]))
    assert (box.lower, box.upper) == (GeoPoint(1.0, 4.0), GeoPoint(3.0, 9.0))


def test_no_box() -> None:
    assert box_of().lower is box_of(None).upper is None
    assert box_of("POINT EMPTY").lower is None
    assert box_of("LINESTRING (0 0, 90 0)", straight=False).upper is None  # edges on a sphere leave the box
    assert box_of("POINT (1 2)", straight=False).upper == GeoPoint(1.0, 2.0)
    for broken in (b"", b"\x01", b"\x05\x01\0\0\0", wkt_to_wkb("LINESTRING (0 0, 1 1)")[:-3], b"\x01\xff\xff\xff\xff"):
        box = box_of("POINT (1 2)")
        box.add(pa.array([broken]))
        assert box.lower is None
