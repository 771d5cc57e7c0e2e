"""Conformance tests for implementations of `FormatModel`: formats, and object models of formats.

Subclass `FormatConformance` in a test module, with a pytest fixture `bench`: the model, with the conversion of its
batches from plain rows and back. Features that are not among the model's `features` must raise `UnsupportedFeature`.

```python
class TestMine(FormatConformance):
    @pytest.fixture
    def bench(self):
        return FormatBench(MyModel(), to_batch=..., to_rows=...)
```

`feature_table` runs the tests without pytest, and returns a table of what each model supports;
`python -m floe.testing.formats` prints it for Floe's own models.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from floe.errors import InvalidInput, InvalidSchema, InvalidValue, UnsupportedFeature
from floe.formats.model import Feature, FormatModel
from floe.formats.registry import default_registry
from floe.spec.expressions.dsl import col
from floe.spec.schemas.metadata_columns import (
    DELETED,
    FILE,
    LAST_UPDATED_SEQUENCE_NUMBER,
    PARTITION_ID,
    POS,
    ROW_ID,
    SPEC_ID,
    partition_column,
    with_row_lineage,
)
from floe.spec.schemas.schema import Schema
from floe.spec.types import (
    DATE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    VARIANT,
    DecimalType,
    Field,
    ListType,
    MapType,
    StructType,
    Type,
)
from floe.testing.format_bench import SAMPLES, FormatBench, columns, expect_error
from floe.testing.format_reads import DeleteTests, EvolutionTests, ReadTests
from floe.testing.format_writes import MetricsTests, WriteTests

# Types ----------------------------------------------------------------------------------------------------------------


_REQUIRED_FEATURES = {"variant": Feature.VARIANT, "geometry": Feature.GEOSPATIAL, "geography": Feature.GEOSPATIAL}


def _round_trips(bench: FormatBench, *kinds: str) -> None:
    for type_, values in SAMPLES.items():
        if type_.kind in kinds:
            _round_trip(bench, type_, list(values))


def _round_trip(bench: FormatBench, type_: Type, values: list[Any]) -> None:
    feature = _REQUIRED_FEATURES.get(type_.kind)
    optional = columns((1, "a", type_))
    rows = [{"a": value} for value in (*values, None, *values)]
    if feature is not None and not bench.supports(feature):
        with expect_error(UnsupportedFeature, InvalidSchema):
            bench.write(optional, rows)
        return
    bench.round_trip(optional, rows)
    bench.round_trip(columns(Field(1, "a", type_, required=True)), [{"a": value} for value in values])
    bench.round_trip(optional, [{"a": None}])
    inside = StructType((Field(2, "a", type_), Field(3, "b", INT)))
    structs = [{"s": {"a": value, "b": 7}} for value in (*values, None)]
    bench.round_trip(columns((1, "s", inside)), [{"s": None}, *structs])


class TypeTests:
    """Tests that write and read values of each type: optional and required, as columns and inside a struct."""

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
                with expect_error(UnsupportedFeature, text="last second before 1970"):
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
        first, second = SAMPLES[VARIANT]
        rows = [{"l": [first, None, second], "m": {"a": second}}, {"l": None, "m": {"b": None}}, {"l": [], "m": {}}]
        if bench.supports(Feature.VARIANT):
            bench.round_trip(schema, rows)
        else:
            with expect_error(UnsupportedFeature, InvalidSchema):
                bench.write(schema, rows)

    def test_many_columns_at_once(self, bench: FormatBench) -> None:
        """All types in one file of many rows."""
        types = [t for t in SAMPLES if t.kind not in _REQUIRED_FEATURES]
        fields = tuple(Field(n + 1, f"c{n}", _renumber(t, 1000 * (n + 1))) for n, t in enumerate(types))
        samples = [SAMPLES[t] for t in types]
        rows = [
            {f"c{n}": None if (row + n) % 7 == 0 else values[row % len(values)] for n, values in enumerate(samples)}
            for row in range(500)
        ]
        bench.round_trip(columns(*fields), rows)

    def test_wrong_values(self, bench: FormatBench) -> None:
        """Values of a wrong type, and nulls in required columns, are errors."""
        for schema, rows in (
            (columns(Field(1, "a", INT, required=True)), [{"a": None}]),
            (columns((1, "a", INT)), [{"a": "text"}]),
            (columns((1, "a", INT)), [{"a": 2**31}]),
        ):
            with expect_error(InvalidValue, InvalidSchema, text="a"):
                bench.write(schema, rows)


def _renumber(type_: Type, start: int) -> Type:
    """The type with other field ids inside, so that a schema can have several."""
    if isinstance(type_, StructType):
        return StructType(
            tuple(
                Field(start + 10 * n, child.name, _renumber(child.type, start + 10 * n + 1))
                for n, child in enumerate(type_.fields)
            )
        )
    if isinstance(type_, ListType):
        return ListType(start, _renumber(type_.element, start + 100), type_.element_required)
    if isinstance(type_, MapType):
        return MapType(start, type_.key, start + 1, _renumber(type_.value, start + 200), type_.value_required)
    return type_


# Metadata columns -----------------------------------------------------------------------------------------------------

_SCHEMA = columns((1, "id", LONG), (2, "day", STRING))
_ROWS = [{"id": n, "day": "mon"} for n in range(5)]


class MetadataColumnTests:
    """Tests of columns that the reader adds: metadata columns, partition values, row lineage."""

    def test_file(self, bench: FormatBench) -> None:
        """Metadata column _file."""
        file = bench.write(_SCHEMA, _ROWS)
        bench.check(bench.read(Schema((FILE,)), file), [{"_file": file.file_path}] * 5)

    def test_position(self, bench: FormatBench) -> None:
        """Metadata column _pos, among others in any order."""
        file = bench.write(_SCHEMA, _ROWS)
        projection = Schema((POS, _SCHEMA.fields[0], FILE))
        bench.check(bench.read(projection, file), [{"_pos": n, "id": n, "_file": file.file_path} for n in range(5)])

    def test_positions_under_a_filter(self, bench: FormatBench) -> None:
        """Metadata column _pos counts the rows that a filter removes."""
        file = bench.write(_SCHEMA, _ROWS)
        reading = bench.reading(Schema((POS,)), file).filter(col("id") >= 3, _SCHEMA)
        bench.check(bench.rows(reading), [{"_pos": 3}, {"_pos": 4}])

    def test_spec(self, bench: FormatBench) -> None:
        """Metadata column _spec_id, which is a constant of the reader."""
        file = bench.write(_SCHEMA, _ROWS[:2])
        reading = bench.reading(Schema((SPEC_ID,)), file)
        bench.check(bench.rows(reading.constants({SPEC_ID.id: 3})), [{"_spec_id": 3}] * 2)
        with expect_error(InvalidInput, text="_spec_id"):
            bench.rows(reading)

    def test_deleted(self, bench: FormatBench) -> None:
        """Metadata column _deleted, which is false unless it is a constant of the reader."""
        file = bench.write(_SCHEMA, _ROWS[:2])
        reading = bench.reading(Schema((DELETED, _SCHEMA.fields[0])), file)
        bench.check(bench.rows(reading), [{"_deleted": False, "id": 0}, {"_deleted": False, "id": 1}])
        bench.check(bench.rows(reading.constants({DELETED.id: True}))[:1], [{"_deleted": True, "id": 0}])

    def test_partition(self, bench: FormatBench) -> None:
        """Metadata column _partition, with the values of every transform."""
        file = bench.write(_SCHEMA, _ROWS[:2])
        fields = [
            ("name", STRING, "mon"), ("id_bucket", INT, 4), ("name_trunc", STRING, "mo"), ("at_year", INT, 54),
            ("at_month", INT, 650), ("at_day", DATE, 19_800), ("at_hour", INT, -1), ("price", DecimalType(9, 2), None),
        ]  # fmt: skip
        type_ = StructType(tuple(Field(1000 + n, name, type_) for n, (name, type_, _) in enumerate(fields)))
        partition = {name: value for name, _, value in fields}
        reading = bench.reading(Schema((partition_column(type_),)), file).constants({PARTITION_ID: partition})
        bench.check(bench.rows(reading), [{"_partition": partition}] * 2)

    def test_partition_evolution(self, bench: FormatBench) -> None:
        """Metadata column _partition after fields were added to the spec and removed: null where the file has none."""
        file = bench.write(_SCHEMA, _ROWS[:2])
        projection = Schema((partition_column(StructType((Field(1000, "day", STRING), Field(1001, "b", INT)))),))
        for value in ({"day": "mon", "b": 4}, {"day": None, "b": None}, {"day": "tue"}, {"b": 7}, {}):
            expected = {"day": None, "b": None, **value}
            reading = bench.reading(projection, file).constants({PARTITION_ID: value})
            bench.check(bench.rows(reading), [{"_partition": expected}] * 2)

    def test_partition_values(self, bench: FormatBench) -> None:
        """Partition values for columns that the file lacks; stored columns take precedence."""
        file = bench.write(columns((1, "id", LONG)), [{"id": 7}, {"id": None}])
        reading = bench.reading(_SCHEMA, file).constants({1: 99, 2: "tue"})
        bench.check(bench.rows(reading), [{"id": 7, "day": "tue"}, {"id": None, "day": "tue"}])
        bench.check(bench.rows(reading.filter(col("day") == "mon")), [])
        bench.check(bench.rows(reading.filter(col("day") == "tue")), bench.rows(reading))

    def test_inherited_lineage(self, bench: FormatBench) -> None:
        """Row lineage inherited from the file."""
        file = bench.write(_SCHEMA, _ROWS)
        projection = Schema((ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER))
        bench.check(
            bench.rows(bench.reading(projection, file).lineage(1000, 4)),
            [{"_row_id": 1000 + n, "_last_updated_sequence_number": 4} for n in range(5)],
        )
        bench.check(bench.read(projection, file), [{"_row_id": None, "_last_updated_sequence_number": None}] * 5)

    def test_stored_lineage(self, bench: FormatBench) -> None:
        """Row lineage stored in the file takes precedence, row by row."""
        schema = with_row_lineage(columns((1, "id", LONG)))
        rows = [
            {"id": 1, "_row_id": 55, "_last_updated_sequence_number": 2},
            {"id": 2, "_row_id": None, "_last_updated_sequence_number": None},
            {"id": 3, "_row_id": 57, "_last_updated_sequence_number": None},
        ]
        file = bench.write(schema, rows)
        expected = [
            {"id": 1, "_row_id": 55, "_last_updated_sequence_number": 2},
            {"id": 2, "_row_id": 1001, "_last_updated_sequence_number": 4},
            {"id": 3, "_row_id": 57, "_last_updated_sequence_number": 4},
        ]
        bench.check(bench.rows(bench.reading(schema, file).lineage(1000, 4)), expected)
        reading = bench.reading(schema, file).lineage(1000, 4).filter(col("_row_id") >= 57)
        bench.check(bench.rows(reading), expected[1:])


# The suite ------------------------------------------------------------------------------------------------------------


class FormatConformance(
    TypeTests, EvolutionTests, MetadataColumnTests, ReadTests, DeleteTests, MetricsTests, WriteTests
):
    """The conformance tests of a format model, as test methods for pytest."""


_OPTIONAL: dict[str, Feature] = {
    "test_variant": Feature.VARIANT,
    "test_variants_in_lists_and_maps": Feature.VARIANT,
    "test_geometry_and_geography": Feature.GEOSPATIAL,
    "test_last_second": Feature.LAST_SECOND,
    "test_splits": Feature.SPLIT,
    "test_split_offsets": Feature.SPLIT_OFFSETS,
    "test_filters_skip": Feature.FILTER,
    "test_reuse": Feature.REUSE,
    "test_column_sizes": Feature.COLUMN_SIZES,
}
"""The tests of optional features; for a model without the feature they expect an error."""


def feature_table(make_benches: Iterable[Callable[[], FormatBench]]) -> str:
    """A Markdown table of features and models: `yes`, `no` with the reason, or the error of a test that fails.

    >>> from floe.formats.registry import ParquetAsArrow
    >>> print(feature_table([lambda: FormatBench(ParquetAsArrow())])[:44])  # doctest: +SKIP
    | feature | parquet as arrow |
    |---|---|
    """
    makers = list(make_benches)
    heads = [f"{bench.model.file_format} as {bench.model.object_model}" for bench in (make() for make in makers)]
    lines = [f"| feature | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name in _test_names():
        label = (getattr(FormatConformance, name).__doc__ or name).strip().split("\n")[0].removesuffix(".")
        lines.append(f"| {label} | {' | '.join(_outcome(name, make()) for make in makers)} |")
    return "\n".join(lines)


def _test_names() -> list[str]:
    """The names of the tests, in the order of the source."""
    ordered: dict[str, Any] = {}
    for base in FormatConformance.__bases__:
        ordered.update((name, None) for name in vars(base) if name.startswith("test_"))
    return list(ordered)


def _outcome(name: str, bench: FormatBench) -> str:
    if name == "test_files_without_ids" and bench.write_without_ids is None:
        return "not tried"
    feature = _OPTIONAL.get(name)
    try:
        getattr(FormatConformance(), name)(bench)
    except UnsupportedFeature as error:
        return f"no: {error.message[:60]}"
    except Exception as error:  # the table shows every error
        return f"FAILS: {type(error).__name__} {str(error)[:60]}"
    if feature is None or bench.supports(feature):
        return "yes"
    reason = getattr(bench.model, "lacks", {}).get(feature)
    return "no" if reason is None else f"no: {reason}"


def _bench_of(model: FormatModel[Any]) -> Callable[[], FormatBench]:
    return lambda: FormatBench(model)


if __name__ == "__main__":
    sys.stdout.write(feature_table([_bench_of(model) for model in default_registry()]) + "\n")
