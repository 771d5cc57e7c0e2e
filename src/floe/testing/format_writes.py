"""Conformance tests of format models for writes and metrics.

The first line of a test's docstring is the label of the feature in `floe.testing.formats.feature_table`.
"""

from __future__ import annotations

import math
from typing import Any

from floe.errors import FileAlreadyExists, InvalidInput, InvalidSchema, InvalidUpdate, InvalidValue, UnsupportedFeature
from floe.formats.metrics import FULL, MetricsConfig
from floe.formats.model import Feature, equality_delete_writer, position_delete_writer
from floe.spec.codecs.single_value import GeoPoint, decode, decode_bound
from floe.spec.codecs.wkt import wkt_to_wkb
from floe.spec.expressions.dsl import col
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.manifests.manifest_checks import check_data_file
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import IDENTITY
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH, DELETE_POS
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import NullOrder, SortDirection, SortField, SortOrder
from floe.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    Field,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StructType,
)
from floe.testing.format_bench import SAMPLES, FormatBench, columns, expect_error

_WRITTEN_SCHEMA = columns((1, "id", LONG), (2, "name", STRING))
_WRITTEN_ROWS = [{"id": 1, "name": "a"}, {"id": None, "name": "b"}]
_CODECS = {
    "parquet": ("uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4"),
    "orc": ("none", "zlib", "snappy", "zstd", "lz4"),
    "avro": ("uncompressed", "gzip", "snappy", "zstd"),
}


class WriteTests:
    """Tests of file writers: a file appears completely or not at all, with its rows and its description."""

    def test_overwriting(self, bench: FormatBench) -> None:
        """An existing file is overwritten only with `overwrite`."""
        file = bench.write(_WRITTEN_SCHEMA, _WRITTEN_ROWS)
        again = bench.writing(_WRITTEN_SCHEMA, file.file_path)
        with expect_error(FileAlreadyExists):
            bench.fill(again, _WRITTEN_ROWS[:1])
        bench.check(bench.read(_WRITTEN_SCHEMA, file), _WRITTEN_ROWS)
        bench.fill(again.overwrite(), _WRITTEN_ROWS[:1])
        bench.check(bench.read(_WRITTEN_SCHEMA, file), _WRITTEN_ROWS[:1])

    def test_aborting(self, bench: FormatBench) -> None:
        """A file that is aborted, or whose writer raises, never appears."""
        assert bench.to_batch is not None
        for raising in (False, True):
            builder = bench.writing(_WRITTEN_SCHEMA)
            try:
                with builder.build() as file:
                    file.write(bench.to_batch(_WRITTEN_SCHEMA, _WRITTEN_ROWS))
                    if raising:
                        raise KeyError("of the caller")
                    file.abort()
            except (KeyError, ValueError):
                pass
            assert not bench.storage.exists(builder.request.location)

    def test_not_there_until_closed(self, bench: FormatBench) -> None:
        """A file does not exist before it is closed; closing twice returns the same description."""
        assert bench.to_batch is not None
        builder = bench.writing(_WRITTEN_SCHEMA)
        file = builder.build()
        file.write(bench.to_batch(_WRITTEN_SCHEMA, _WRITTEN_ROWS))
        assert file.record_count == 2
        assert file.length >= 0
        assert not bench.storage.exists(builder.request.location)
        assert file.close() == file.close()
        file.abort()
        assert bench.storage.exists(builder.request.location)

    def test_empty_files(self, bench: FormatBench) -> None:
        """A file without rows."""
        file = bench.fill(bench.writing(_WRITTEN_SCHEMA))
        assert file.record_count == 0
        bench.check(bench.read(_WRITTEN_SCHEMA, file), [])
        bench.check(bench.rows(bench.reading(_WRITTEN_SCHEMA, file).filter(col("id") > 1)), [])

    def test_many_writes(self, bench: FormatBench) -> None:
        """Many small writes make one file, which grows as it is written."""
        assert bench.to_batch is not None
        rows = [{"id": n, "name": f"{n * 7919}" * 20} for n in range(3000)]
        lengths = []
        with bench.writing(_WRITTEN_SCHEMA).build() as file:
            for start in range(0, 3000, 100):
                file.write(bench.to_batch(_WRITTEN_SCHEMA, rows[start : start + 100]))
                lengths.append(file.length)
        assert lengths == sorted(lengths)
        assert lengths[-1] > lengths[0]
        bench.check(bench.read(_WRITTEN_SCHEMA, file.close()), rows)

    def test_write_defaults(self, bench: FormatBench) -> None:
        """Columns that the rows do not have get their write default."""
        full = columns(
            (1, "id", LONG),
            Field(2, "name", STRING, required=True, write_default="none"),
            Field(3, "l", ListType(4, INT), write_default=[1, 2]),
            (5, "s", StructType((Field(6, "a", INT, write_default=7), Field(7, "b", INT)))),
        )
        part = columns((1, "id", LONG), (5, "s", StructType((Field(7, "b", INT),))))
        assert bench.to_batch is not None
        builder = bench.writing(full)
        with builder.build() as file:
            file.write(bench.to_batch(part, [{"id": 1, "s": {"b": 2}}, {"id": 2, "s": None}]))
        bench.check(
            bench.read(full, file.close()),
            [
                {"id": 1, "name": "none", "l": [1, 2], "s": {"a": 7, "b": 2}},
                {"id": 2, "name": "none", "l": [1, 2], "s": None},
            ],
        )

    def test_columns_that_do_not_fit(self, bench: FormatBench) -> None:
        """Missing required columns and unknown columns are errors that name them."""
        assert bench.to_batch is not None
        both = columns((1, "id", LONG), Field(2, "name", STRING, required=True))
        for schema, input_schema, rows in (
            (both, columns((1, "id", LONG)), [{"id": 1}]),
            (columns((1, "id", LONG)), both, [{"id": 1, "name": "a"}]),
        ):
            builder = bench.writing(schema)
            with expect_error(InvalidSchema, InvalidValue, text="name"), builder.build() as file:
                file.write(bench.to_batch(input_schema, rows))
            assert not bench.storage.exists(builder.request.location)

    def test_what_the_request_says(self, bench: FormatBench) -> None:
        """Partition, spec, sort order and key metadata are recorded."""
        spec = PartitionSpec((PartitionField((2,), 1000, "name", IDENTITY),), spec_id=3)
        builder = bench.writing(_WRITTEN_SCHEMA).partition(spec, ("a",)).sort_order(5).key_metadata(b"key")
        file = bench.fill(builder, _WRITTEN_ROWS[:1])
        assert (file.content, file.file_format) == (FileContent.DATA, bench.model.file_format)
        assert (file.spec_id, file.partition, file.sort_order_id, file.key_metadata) == (3, ("a",), 5, b"key")
        with expect_error(InvalidInput, text="partition"):
            bench.writing(_WRITTEN_SCHEMA).partition(spec, ()).build()
        with expect_error(InvalidInput):
            bench.writing(columns()).build()

    def test_properties(self, bench: FormatBench) -> None:
        """Unknown properties and those of other formats are ignored; file metadata is accepted."""
        builder = bench.writing(_WRITTEN_SCHEMA).properties({"write.unheard-of": "1"}).properties({"mine": "2"})
        builder = builder.metadata({"a": "1"}).metadata({"b": "ü"})
        bench.check(bench.read(_WRITTEN_SCHEMA, bench.fill(builder, _WRITTEN_ROWS)), _WRITTEN_ROWS)

    def test_compression(self, bench: FormatBench) -> None:
        """Compression codecs by property, each readable, with an effect."""
        name = bench.model.file_format
        rows = [{"id": n, "name": "again and again"} for n in range(5000)]
        sizes = {}
        for codec in _CODECS.get(name, ()):
            builder = bench.writing(_WRITTEN_SCHEMA).properties({f"write.{name}.compression-codec": codec})
            file = bench.fill(builder, rows)
            bench.check(bench.read(_WRITTEN_SCHEMA, file), rows)
            sizes[codec] = file.file_size_in_bytes
        if sizes:
            uncompressed, *compressed = sizes.values()
            assert max(compressed) < uncompressed, str(sizes)
            with expect_error(UnsupportedFeature, InvalidUpdate, text="shrink"):
                bench.writing(_WRITTEN_SCHEMA).properties({f"write.{name}.compression-codec": "shrink"}).build()


# Metrics (spec: Data File Fields) -------------------------------------------------------------------------------------

_METRICS = "write.metadata.metrics."
_SCHEMA = columns((1, "id", LONG), (2, "name", STRING), (3, "data", BINARY), (4, "x", DOUBLE))
_ROWS = [
    {"id": 5, "name": "b" * 40, "data": b"\x01" * 40, "x": 1.5},
    {"id": -3, "name": None, "data": None, "x": math.nan},
    {"id": 9, "name": "a" * 40, "data": b"\xff" * 40, "x": None},
]


def _bounds(schema: Schema, file: DataFile) -> dict[str, tuple[Any, Any]]:
    """The lower and upper bounds of columns, by name; None for a bound that is missing."""
    decoded = {}
    for field_id, entry in schema.by_id.items():
        lower, upper = ((bounds or {}).get(field_id) for bounds in (file.lower_bounds, file.upper_bounds))
        if lower is not None or upper is not None:
            type_ = entry.field.type
            decoded[entry.name] = (
                None if lower is None else decode(type_, lower),
                None if upper is None else decode(type_, upper),
            )
    return decoded


class MetricsTests:
    """Tests of the metrics of written files: counts, bounds and sizes of columns."""

    def _write(self, bench: FormatBench, **modes: str) -> DataFile:
        properties = {_METRICS + name.replace("__", "."): mode for name, mode in modes.items()}
        file = bench.fill(bench.writing(_SCHEMA).properties(properties), _ROWS)
        check_data_file(file)
        assert (file.record_count, file.content) == (3, FileContent.DATA)
        assert file.file_size_in_bytes == len(bench.storage.read(file.file_path))
        return file

    def test_default_metrics(self, bench: FormatBench) -> None:
        """Metrics: counts, nulls, NaN and bounds of 16 characters by default."""
        file = self._write(bench)
        assert file.value_counts == dict.fromkeys((1, 2, 3, 4), 3)
        assert file.null_value_counts == {1: 0, 2: 1, 3: 1, 4: 1}
        assert file.nan_value_counts == {4: 1}
        assert _bounds(_SCHEMA, file) == {
            "id": (-3, 9),
            "name": ("a" * 16, "b" * 15 + "c"),
            "data": (b"\x01" * 16, None),  # no value of 16 bytes is an upper bound of forty bytes 0xff
            "x": (1.5, 1.5),
        }

    def test_no_metrics(self, bench: FormatBench) -> None:
        """Metrics mode none."""
        file = self._write(bench, default="none")
        assert file.value_counts is file.null_value_counts is file.nan_value_counts is None
        assert file.lower_bounds is file.upper_bounds is None
        assert file.column_sizes is None

    def test_counts(self, bench: FormatBench) -> None:
        """Metrics mode counts."""
        file = self._write(bench, default="counts")
        assert file.null_value_counts == {1: 0, 2: 1, 3: 1, 4: 1}
        assert file.nan_value_counts == {4: 1}
        assert file.lower_bounds is file.upper_bounds is None

    def test_full_bounds(self, bench: FormatBench) -> None:
        """Metrics mode full."""
        file = self._write(bench, default="full")
        assert _bounds(_SCHEMA, file)["name"] == ("a" * 40, "b" * 40)
        assert _bounds(_SCHEMA, file)["data"] == (b"\x01" * 40, b"\xff" * 40)

    def test_modes_of_columns(self, bench: FormatBench) -> None:
        """Metrics modes of single columns."""
        file = self._write(bench, column__name="truncate(3)", column__id="none", column__x="counts")
        assert _bounds(_SCHEMA, file) == {"name": ("aaa", "bbc"), "data": (b"\x01" * 16, None)}
        assert file.null_value_counts == {2: 1, 3: 1, 4: 1}
        with expect_error(InvalidUpdate, text="truncate"):
            self._write(bench, default="truncate(0)")

    def test_a_metrics_config(self, bench: FormatBench) -> None:
        """Metrics by a config in place of properties."""
        file = bench.fill(bench.writing(_SCHEMA).metrics(MetricsConfig(FULL)), _ROWS)
        assert _bounds(_SCHEMA, file)["name"] == ("a" * 40, "b" * 40)

    def test_bounds_of_all_types(self, bench: FormatBench) -> None:
        """Bounds of every type that has them."""
        types = (
            BOOLEAN, INT, LONG, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, STRING, UUID, FixedType(20), BINARY,
            DecimalType(9, 2), DecimalType(10, 3), DecimalType(38, 10), FLOAT, DOUBLE,
        )  # fmt: skip
        for type_ in types:
            schema = columns((1, "a", type_))
            values = list(SAMPLES[type_])
            file = bench.fill(
                bench.writing(schema).metrics(MetricsConfig(FULL)), [{"a": None}, *({"a": v} for v in values)]
            )
            ordered = sorted(v for v in values if v == v)
            assert _bounds(schema, file)["a"] == (ordered[0], ordered[-1]), str(type_)

    def test_zeros_and_nans(self, bench: FormatBench) -> None:
        """Bounds ignore NaN, and include both zeros."""
        for type_ in (FLOAT, DOUBLE):
            schema = columns((1, "a", type_))
            for values, lower, upper in (
                ([0.0], -0.0, 0.0),
                ([-0.0], -0.0, 0.0),
                ([math.nan, 2.5, math.nan, -1.0], -1.0, 2.5),
                ([math.inf, -math.inf], -math.inf, math.inf),
            ):
                file = bench.write(schema, [{"a": v} for v in values])
                assert repr(_bounds(schema, file)["a"]) == repr((lower, upper))
                assert file.nan_value_counts == {1: sum(map(math.isnan, values))}
            file = bench.write(schema, [{"a": math.nan}, {"a": None}])
            assert file.lower_bounds is file.upper_bounds is None

    def test_geospatial_bounds(self, bench: FormatBench) -> None:
        """Bounds of geometries are the corners of the box around them."""
        if not bench.supports(Feature.GEOSPATIAL):
            return
        schema = columns((1, "g", GeometryType()), (2, "h", GeographyType()))
        rows = [
            {"g": wkt_to_wkb("POINT (30 10)"), "h": wkt_to_wkb("POINT (-170 5)")},
            {"g": wkt_to_wkb("POLYGON ((0 0, 4 -3, 2 2, 0 0))"), "h": wkt_to_wkb("POINT (179 -5)")},
            {"g": None, "h": None},
        ]
        file = bench.write(schema, rows)
        corners = [
            {field_id: decode_bound(schema.entry(field_id).field.type, bound) for field_id, bound in bounds.items()}
            for bounds in (file.lower_bounds or {}, file.upper_bounds or {})
        ]
        assert corners == [
            {1: GeoPoint(0.0, -3.0), 2: GeoPoint(-170.0, -5.0)},
            {1: GeoPoint(30.0, 10.0), 2: GeoPoint(179.0, 5.0)},
        ]
        assert file.null_value_counts == {1: 1, 2: 1}

    def test_nested_columns(self, bench: FormatBench) -> None:
        """Metrics of fields of structs; none of lists and maps."""
        inner = StructType((Field(11, "a", INT), Field(12, "b", DOUBLE)))
        schema = columns((1, "s", inner), (2, "l", ListType(21, INT)), (3, "m", MapType(31, STRING, 32, DOUBLE)))
        rows = [
            {"s": {"a": 4, "b": math.nan}, "l": [1], "m": {"k": 1.0}},
            {"s": None, "l": None, "m": None},
            {"s": {"a": None, "b": 2.0}, "l": [], "m": {}},
        ]
        file = bench.write(schema, rows)
        assert (file.value_counts, file.null_value_counts) == ({11: 3, 12: 3}, {11: 2, 12: 1})
        assert file.nan_value_counts == {12: 1}
        assert _bounds(schema, file) == {"s.a": (4, 4), "s.b": (2.0, 2.0)}

    def test_wide_tables(self, bench: FormatBench) -> None:
        """Metrics of the first 100 columns only, unless properties say otherwise."""
        schema = columns(*((n, f"c{n}", INT) for n in range(1, 121)))
        rows = [{f"c{n}": n for n in range(1, 121)}]
        assert set(bench.write(schema, rows).lower_bounds or ()) == set(range(1, 101))
        chosen = bench.fill(bench.writing(schema).properties({f"{_METRICS}max-inferred-column-defaults": "5"}), rows)
        assert set(chosen.lower_bounds or ()) == {1, 2, 3, 4, 5}
        every = bench.fill(bench.writing(schema).properties({f"{_METRICS}default": "truncate(16)"}), rows)
        assert set(every.lower_bounds or ()) == set(range(1, 121))

    def test_sorted_columns(self, bench: FormatBench) -> None:
        """Metrics of the columns of the sort order, also beyond the first 100."""
        schema = columns(*((n, f"c{n}", INT) for n in range(1, 121)))
        order = SortOrder((SortField((120,), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),), order_id=3)
        file = bench.fill(bench.writing(schema).sort_order(order), [{f"c{n}": n for n in range(1, 121)}])
        assert file.sort_order_id == 3
        assert set(file.lower_bounds or ()) == {*range(1, 101), 120}

    def test_column_sizes(self, bench: FormatBench) -> None:
        """Stored sizes of columns."""
        rows = [{"id": n, "name": str(n * 7919) * 5, "data": None, "x": 0.0} for n in range(2000)]
        file = bench.write(_SCHEMA, rows)
        if not bench.supports(Feature.COLUMN_SIZES):
            assert file.column_sizes is None
            return
        sizes = file.column_sizes
        assert sizes is not None
        assert set(sizes) == {1, 2, 3, 4}
        assert sum(sizes.values()) < file.file_size_in_bytes
        assert sizes[2] > sizes[4]

    def test_equality_deletes(self, bench: FormatBench) -> None:
        """Equality deletes: written, described, read."""
        schema = columns((1, "id", LONG), (2, "name", STRING))
        rows = [{"id": 1, "name": "a"}, {"id": None, "name": None}]
        builder = equality_delete_writer(bench.model, bench.storage, bench.location()).schema(schema).compare(1, 2)
        file = bench.fill(builder, rows)
        assert (file.content, file.equality_ids) == (FileContent.EQUALITY_DELETES, (1, 2))
        assert file.null_value_counts == {1: 1, 2: 1}
        bench.check(bench.read(schema, file), rows)

    def test_position_deletes(self, bench: FormatBench) -> None:
        """Position deletes: written, described, read; a single data file is recorded."""
        for paths, only in ((("s3://b/a",), "s3://b/a"), (("s3://b/a", "s3://b/c"), None)):
            rows = [{"file_path": path, "pos": n} for path in paths for n in (0, 7)]
            file = bench.fill(position_delete_writer(bench.model, bench.storage, bench.location()), rows)
            check_data_file(file)
            assert (file.content, file.referenced_data_file) == (FileContent.POSITION_DELETES, only)
            assert file.target_path == only
            assert (file.lower_bounds or {})[DELETE_FILE_PATH.id] == paths[0].encode()
            assert decode(LONG, (file.upper_bounds or {})[DELETE_POS.id]) == 7
            bench.check(bench.read(Schema((DELETE_FILE_PATH, DELETE_POS)), file), rows)

    def test_position_deletes_with_rows(self, bench: FormatBench) -> None:
        """Position deletes with the deleted rows."""
        row = StructType((Field(1, "id", LONG), Field(2, "name", STRING)))
        builder = position_delete_writer(bench.model, bench.storage, bench.location(), row)
        rows = [{"file_path": "a", "pos": 3, "row": {"id": 1, "name": None}}]
        file = bench.fill(builder, rows)
        bench.check(bench.read(builder.request.schema, file), rows)
