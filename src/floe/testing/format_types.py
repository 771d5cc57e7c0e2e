"""What every format model promises of types: each is written and read back as it was, with its nulls."""

from __future__ import annotations

from typing import Any

from floe.errors import InvalidSchema, InvalidValue, UnsupportedFeature
from floe.formats.model import Feature
from floe.spec.types import (
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    VARIANT,
    Field,
    ListType,
    MapType,
    StructType,
    Type,
)
from floe.testing._formats_bench import SAMPLES, FormatBench, columns, refused

__all__ = ["TypePromises"]

_NEEDED = {"variant": Feature.VARIANT, "geometry": Feature.GEOSPATIAL, "geography": Feature.GEOSPATIAL}


def _round_trips(bench: FormatBench, *kinds: str) -> None:
    for type_, values in SAMPLES.items():
        if type_.kind in kinds:
            _round_trip(bench, type_, list(values))


def _round_trip(bench: FormatBench, type_: Type, values: list[Any]) -> None:
    needed = _NEEDED.get(type_.kind)
    optional = columns((1, "a", type_))
    rows = [{"a": value} for value in (*values, None, *values)]
    if needed is not None and not bench.supports(needed):
        with refused(UnsupportedFeature, InvalidSchema):
            bench.write(optional, rows)
        return
    bench.round_trip(optional, rows)
    bench.round_trip(columns(Field(1, "a", type_, required=True)), [{"a": value} for value in values])
    bench.round_trip(optional, [{"a": None}])
    inside = StructType((Field(2, "a", type_), Field(3, "b", INT)))
    bench.round_trip(columns((1, "s", inside)), [{"s": None}, *({"s": {"a": one, "b": 7}} for one in (*values, None))])


class TypePromises:
    """Round trips of all types, optional and required, at the top and inside a struct."""

    def test_boolean(self, bench: FormatBench) -> None:
        """Type boolean."""
        _round_trips(bench, "boolean")

    def test_int(self, bench: FormatBench) -> None:
        """Type int."""
        _round_trips(bench, "int")

    def test_long(self, bench: FormatBench) -> None:
        """Type long."""
        _round_trips(bench, "long")

    def test_float(self, bench: FormatBench) -> None:
        """Type float, with NaN, infinities and both zeros."""
        _round_trips(bench, "float")

    def test_double(self, bench: FormatBench) -> None:
        """Type double, with NaN, infinities and both zeros."""
        _round_trips(bench, "double")

    def test_date(self, bench: FormatBench) -> None:
        """Type date."""
        _round_trips(bench, "date")

    def test_time(self, bench: FormatBench) -> None:
        """Type time."""
        _round_trips(bench, "time")

    def test_timestamp(self, bench: FormatBench) -> None:
        """Types timestamp, timestamptz."""
        _round_trips(bench, "timestamp", "timestamptz")

    def test_timestamp_ns(self, bench: FormatBench) -> None:
        """Types timestamp_ns, timestamptz_ns."""
        _round_trips(bench, "timestamp_ns", "timestamptz_ns")

    def test_last_second(self, bench: FormatBench) -> None:
        """Timestamps in the last second before 1970."""
        for type_, values in ((TIMESTAMP, [-1, -999_000, -500_000]), (TIMESTAMPTZ_NS, [-1, -999_000_000])):
            schema, rows = columns((1, "a", type_)), [{"a": value} for value in values]
            if bench.supports(Feature.LAST_SECOND):
                bench.round_trip(schema, rows)
                continue
            for row in rows:
                with refused(UnsupportedFeature, naming="last second before 1970"):
                    bench.write(schema, [row])

    def test_string(self, bench: FormatBench) -> None:
        """Type string."""
        _round_trips(bench, "string")

    def test_uuid(self, bench: FormatBench) -> None:
        """Type uuid."""
        _round_trips(bench, "uuid")

    def test_fixed(self, bench: FormatBench) -> None:
        """Type fixed."""
        _round_trips(bench, "fixed")

    def test_binary(self, bench: FormatBench) -> None:
        """Type binary."""
        _round_trips(bench, "binary")

    def test_decimal(self, bench: FormatBench) -> None:
        """Type decimal in every width."""
        _round_trips(bench, "decimal")

    def test_struct(self, bench: FormatBench) -> None:
        """Type struct."""
        _round_trips(bench, "struct")

    def test_list(self, bench: FormatBench) -> None:
        """Type list, also of structs and lists."""
        _round_trips(bench, "list")

    def test_map(self, bench: FormatBench) -> None:
        """Type map, also of maps."""
        _round_trips(bench, "map")

    def test_variant(self, bench: FormatBench) -> None:
        """Type variant."""
        _round_trips(bench, "variant")

    def test_geometry_and_geography(self, bench: FormatBench) -> None:
        """Types geometry, geography."""
        _round_trips(bench, "geometry", "geography")

    def test_unknown(self, bench: FormatBench) -> None:
        """Type unknown, also inside structs, which reads as null."""
        rows = [{"a": 1, "u": None}, {"a": None, "u": None}]
        bench.round_trip(columns((1, "a", INT), (2, "u", UNKNOWN)), rows)
        bench.round_trip(columns((2, "u", UNKNOWN), (1, "a", INT)), [{"u": None, "a": 1}])
        inner = StructType((Field(3, "u", UNKNOWN), Field(4, "b", INT)))
        bench.round_trip(
            columns((1, "s", inner), (5, "l", ListType(6, StructType((Field(7, "c", INT), Field(8, "v", UNKNOWN)))))),
            [{"s": {"u": None, "b": 1}, "l": [{"c": 1, "v": None}, None]}, {"s": None, "l": None}],
        )

    def test_variants_in_lists_and_maps(self, bench: FormatBench) -> None:
        """Variants inside lists and maps."""
        schema = columns((1, "l", ListType(2, VARIANT)), (3, "m", MapType(4, STRING, 5, VARIANT)))
        one, other = SAMPLES[VARIANT]
        rows = [{"l": [one, None, other], "m": {"a": other}}, {"l": None, "m": {"b": None}}, {"l": [], "m": {}}]
        if bench.supports(Feature.VARIANT):
            bench.round_trip(schema, rows)
        else:
            with refused(UnsupportedFeature, InvalidSchema):
                bench.write(schema, rows)

    def test_many_columns_at_once(self, bench: FormatBench) -> None:
        """All types in one file of many rows."""
        chosen = [t for t in SAMPLES if t.kind not in _NEEDED]
        fields = tuple(Field(n + 1, f"c{n}", _renumbered(t, 1000 * (n + 1))) for n, t in enumerate(chosen))
        values = [SAMPLES[t] for t in chosen]
        rows = [
            {f"c{n}": None if (row + n) % 7 == 0 else several[row % len(several)] for n, several in enumerate(values)}
            for row in range(500)
        ]
        bench.round_trip(columns(*fields), rows)

    def test_wrong_values(self, bench: FormatBench) -> None:
        """Values of a wrong type, and nulls where none may be, are refused."""
        for schema, rows in (
            (columns(Field(1, "a", INT, required=True)), [{"a": None}]),
            (columns((1, "a", INT)), [{"a": "text"}]),
            (columns((1, "a", INT)), [{"a": 2**31}]),
        ):
            with refused(InvalidValue, InvalidSchema, naming="a"):
                bench.write(schema, rows)


def _renumbered(type_: Type, start: int) -> Type:
    """The type with other ids inside, so that several can stand in one schema."""
    if isinstance(type_, StructType):
        return StructType(
            tuple(
                Field(start + 10 * n, child.name, _renumbered(child.type, start + 10 * n + 1))
                for n, child in enumerate(type_.fields)
            )
        )
    if isinstance(type_, ListType):
        return ListType(start, _renumbered(type_.element, start + 100), type_.element_required)
    if isinstance(type_, MapType):
        return MapType(start, type_.key, start + 1, _renumbered(type_.value, start + 200), type_.value_required)
    return type_
