"""Conformance tests of format models for reads: splits and filters, schema evolution, deletes.

The first line of a test's docstring is the label of the feature in `floe.testing.formats.feature_table`.
"""

from __future__ import annotations

from decimal import Decimal

from floe.errors import CorruptFile, InvalidInput, NoSuchColumn, NoSuchFile, UnsupportedFeature
from floe.formats.model import Feature, equality_delete_writer, position_delete_writer
from floe.spec.expressions.dsl import col
from floe.spec.expressions.nodes import Expression
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH, DELETE_POS, POS
from floe.spec.schemas.name_mapping import MappedField, NameMapping, mapping_from_schema
from floe.spec.schemas.schema import Schema
from floe.spec.types import (
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    DecimalType,
    Field,
    ListType,
    MapType,
    StructType,
)
from floe.storage.memory import MemoryStorage
from floe.testing.format_bench import CountingStorage, EncryptedStorage, FormatBench, Rows, columns, expect_error

_SCHEMA = columns(
    Field(1, "id", LONG, required=True),
    (2, "name", STRING),
    (3, "x", DOUBLE),
    (4, "s", StructType((Field(5, "n", INT), Field(6, "t", STRING)))),
)


def _row(n: int) -> dict[str, object]:
    return {
        "id": n,
        "name": None if n % 5 == 0 else f"name-{n % 100:03}",
        "x": float("nan") if n % 11 == 0 else n / 2,
        "s": None if n % 7 == 0 else {"n": n % 10, "t": str(n)},
    }


_READ_ROWS: Rows = [_row(n) for n in range(3000)]
_SMALL_GROUPS = {"write__parquet__row_group_limit": "500", "write__orc__stripe_size_bytes": "8192"}


def _check_broken_file(bench: FormatBench, schema: Schema, location: str) -> None:
    """Read a broken file: an error must name it; no error is fine too, because not every byte matters."""
    try:
        bench.read(schema, location)
    except (CorruptFile, UnsupportedFeature) as error:
        if location not in str(error):
            raise AssertionError(f"the error does not name the file: {error}") from error


def _file(bench: FormatBench) -> DataFile:
    return bench.write(_SCHEMA, _READ_ROWS, **_SMALL_GROUPS)


class ReadTests:
    """Tests of splits, filters, batches, and of files that are broken, missing or encrypted."""

    def test_splits(self, bench: FormatBench) -> None:
        """Splits: each row is in exactly one of those that cover the file."""
        file = _file(bench)
        size = file.file_size_in_bytes
        projection = Schema((POS, *_SCHEMA.fields))
        everything = bench.read(projection, file)
        if not bench.supports(Feature.SPLIT):
            bench.check(bench.rows(bench.reading(projection, file).split(0, size)), everything)
            return
        for length in (size, size // 2 + 1, size // 7 + 1, 1000):
            rows: Rows = []
            for start in range(0, size, length):
                rows += bench.rows(bench.reading(projection, file).split(start, length))
            bench.check(rows, everything)
        bench.check(bench.rows(bench.reading(projection, file).split(size, 1000)), [])

    def test_split_offsets(self, bench: FormatBench) -> None:
        """Split offsets are where row groups or stripes begin."""
        file = _file(bench)
        if not bench.supports(Feature.SPLIT_OFFSETS):
            assert file.split_offsets is None or len(file.split_offsets) >= 1
            return
        offsets = file.split_offsets
        assert offsets is not None
        assert offsets == file.usable_split_offsets
        ends = (*offsets[1:], file.file_size_in_bytes)
        parts = [
            bench.rows(bench.reading(_SCHEMA, file).split(start, end - start))
            for start, end in zip(offsets, ends, strict=True)
        ]
        assert all(parts), "a part without rows"
        bench.check([row for part in parts for row in part], _READ_ROWS)

    def test_filters(self, bench: FormatBench) -> None:
        """Filters return exactly the rows that match."""
        file = _file(bench)
        cases: list[tuple[Expression, list[int]]] = [
            (col("id") < 10, list(range(10))),
            (col("id") == 2999, [2999]),
            (col("id") > 5000, []),
            (col("name").is_null() & (col("id") < 20), [0, 5, 10, 15]),
            (col("name") == "name-001", [n for n in range(3000) if n % 100 == 1]),
            (col("name").starts_with("name-00") & (col("id") < 10), [1, 2, 3, 4, 6, 7, 8, 9]),
            (col("x").is_nan() & (col("id") < 30), [0, 11, 22]),
            ((col("x") > 1490.0) & ~col("x").is_nan(), [n for n in range(2981, 3000) if n % 11]),
            (col("id").is_in([7, 1007, 2500]), [7, 1007, 2500]),
            (col("s.n") == 3, [n for n in range(3000) if n % 10 == 3 and n % 7]),
            (col("s.n").is_null() & (col("id") < 15), [0, 7, 14]),
            ((col("id") < 3) | (col("id") >= 2998), [0, 1, 2, 2998, 2999]),
        ]
        for where, ids in cases:
            bench.check(bench.rows(bench.reading(_SCHEMA, file).filter(where)), [_READ_ROWS[n] for n in ids])

    def test_filters_on_other_columns(self, bench: FormatBench) -> None:
        """Filters on columns, also fields of structs, that are not projected."""
        file = _file(bench)
        projection = columns((4, "s", StructType((Field(6, "t", STRING),))))
        where = (col("s.n") == 3) & (col("id") < 20)
        bench.check(
            bench.rows(bench.reading(projection, file).filter(where, _SCHEMA)), [{"s": {"t": "3"}}, {"s": {"t": "13"}}]
        )

    def test_filters_skip(self, bench: FormatBench) -> None:
        """Filters skip parts of the file that cannot match."""
        if not bench.supports(Feature.FILTER):
            return
        storage = CountingStorage(MemoryStorage())
        counting = FormatBench(bench.model, storage, bench.to_batch, bench.to_rows)
        rows = [{"id": n, "name": f"{n * 7919 % 10007:05}" * 40} for n in range(20_000)]
        schema = columns((1, "id", LONG), (2, "name", STRING))
        file = counting.write(
            schema,
            rows,
            write__parquet__row_group_limit="2000",
            write__orc__stripe_size_bytes="100000",
            write__parquet__compression_codec="uncompressed",
            write__orc__compression_codec="none",
        )
        storage.bytes = 0
        counting.check(counting.rows(counting.reading(schema, file).filter(col("id") == 19_999)), [rows[-1]])
        assert storage.bytes < file.file_size_in_bytes / 3, f"{storage.bytes} of {file.file_size_in_bytes} bytes read"

    def test_filters_and_evolution(self, bench: FormatBench) -> None:
        """Filters on renamed, promoted, missing and defaulted columns."""
        file = bench.write(columns((1, "a", INT)), [{"a": n} for n in range(10)])
        schema = columns((1, "b", LONG), Field(2, "d", INT, initial_default=5), (3, "e", STRING))
        row = {"b": 7, "d": 5, "e": None}
        for where, expected in (
            (col("b") == 7, [row]),
            ((col("b") == 7) & (col("d") == 5), [row]),
            ((col("b") == 7) & (col("d") != 5), []),
            ((col("b") == 7) & col("e").is_null(), [row]),
            ((col("b") == 7) & col("e").is_not_null(), []),
        ):
            bench.check(bench.rows(bench.reading(schema, file).filter(where)), expected)

    def test_case(self, bench: FormatBench) -> None:
        """Case-sensitive and case-insensitive names in filters."""
        file = bench.write(columns((1, "Id", LONG)), [{"Id": 1}, {"Id": 2}])
        reading = bench.reading(columns((1, "Id", LONG)), file).filter(col("iD") == 2)
        bench.check(bench.rows(reading.case_sensitive(False)), [{"Id": 2}])
        with expect_error(NoSuchColumn):
            bench.rows(reading.case_sensitive(True))

    def test_batch_size(self, bench: FormatBench) -> None:
        """Batches have at most the requested number of rows."""
        file = _file(bench)
        for size in (1, 7, 1000, 10_000):
            reading = bench.reading(columns((1, "id", LONG)), file).batch_size(size)
            if bench.model.object_model == "arrow":
                sizes = [batch.num_rows for batch in reading]
                assert sum(sizes) == 3000
                assert max(sizes) <= size
            bench.check(bench.rows(reading), [{"id": n} for n in range(3000)])
        with expect_error(InvalidInput):
            bench.rows(bench.reading(_SCHEMA, file).batch_size(0))

    def test_reuse(self, bench: FormatBench) -> None:
        """Containers are reused if the reader allows it, and only then."""
        file = bench.write(columns((1, "id", LONG)), [{"id": n} for n in range(10)])
        reading = bench.reading(columns((1, "id", LONG)), file).batch_size(5)
        separate = list(reading)
        assert len({id(batch) for batch in separate}) == len(separate)
        reused = list(reading.reuse())
        if bench.supports(Feature.REUSE):
            assert len({id(batch) for batch in reused}) == 1
        else:
            bench.check(bench.rows(reading.reuse()), bench.rows(reading))

    def test_lying_row_counts(self, bench: FormatBench) -> None:
        """A file with another number of rows than its manifest entry is an error."""
        file = bench.write(columns((1, "id", LONG)), [{"id": n} for n in range(10)])
        reading = bench.reading(columns((1, "id", LONG)), file)
        bench.check(bench.rows(reading.facts(record_count=10)), [{"id": n} for n in range(10)])
        with expect_error(CorruptFile, text=file.file_path):
            bench.rows(reading.facts(record_count=11))

    def test_broken_files(self, bench: FormatBench) -> None:
        """Truncated and damaged files give an error that names the file, or are read correctly."""
        schema = columns((1, "id", LONG), (2, "name", STRING))
        rows = [{"id": n, "name": f"n{n}"} for n in range(300)]
        file = bench.write(schema, rows)
        data = bench.storage.read(file.file_path)
        broken = [data[: len(data) * n // 10] for n in range(10)]
        offsets = range(0, len(data), max(1, len(data) // 40))
        broken += [data[:offset] + bytes([data[offset] ^ 0xFF]) + data[offset + 1 :] for offset in offsets]
        for content in broken:
            location = bench.location()
            bench.storage.write(location, content)
            _check_broken_file(bench, schema, location)

    def test_missing_files(self, bench: FormatBench) -> None:
        """A missing file raises `NoSuchFile`."""
        with expect_error(NoSuchFile):
            bench.read(_SCHEMA, bench.location())

    def test_encrypted_files(self, bench: FormatBench) -> None:
        """Encrypted files are read by the key metadata hook; without one they are an error."""
        schema, rows = columns((1, "id", LONG)), [{"id": n} for n in range(10)]
        location = bench.location()
        builder = bench.writing(schema, location).encryption(
            lambda storage, location: (EncryptedStorage(storage), b"key")
        )
        file = bench.fill(builder, rows)
        assert file.key_metadata == b"key"
        reading = bench.reading(schema, file)
        bench.check(
            bench.rows(reading.key_metadata(b"key", lambda storage, location, key: EncryptedStorage(storage))), rows
        )
        with expect_error(UnsupportedFeature, text="encrypted"):
            bench.rows(reading.key_metadata(b"key", None))
        with expect_error(CorruptFile):
            bench.rows(reading)


# Schema evolution (spec: Column Projection) ---------------------------------------------------------------------------

_OLD = columns((1, "id", INT), (2, "name", STRING), (3, "score", DOUBLE))
_ROWS = [{"id": 1, "name": "a", "score": 0.5}, {"id": 2, "name": None, "score": None}]


class EvolutionTests:
    """Tests of old files read with new schemas: changed columns, defaults, name mappings."""

    def test_narrow_projection(self, bench: FormatBench) -> None:
        """Projection of some columns."""
        file = bench.write(_OLD, _ROWS)
        bench.check(bench.read(columns((3, "score", DOUBLE)), file), [{"score": 0.5}, {"score": None}])

    def test_empty_projection(self, bench: FormatBench) -> None:
        """Projection of no columns keeps the number of rows."""
        file = bench.write(_OLD, _ROWS * 50)
        bench.check(bench.read(columns(), file), [{}] * 100)

    def test_reorder_and_rename(self, bench: FormatBench) -> None:
        """Columns reordered and renamed."""
        file = bench.write(_OLD, _ROWS)
        projection = columns((3, "name", DOUBLE), (1, "key", INT), (2, "id", STRING))
        bench.check(
            bench.read(projection, file), [{"name": 0.5, "key": 1, "id": "a"}, {"name": None, "key": 2, "id": None}]
        )

    def test_added_columns(self, bench: FormatBench) -> None:
        """Columns added later read as null."""
        file = bench.write(_OLD, _ROWS)
        projection = columns((4, "new", LONG), (1, "id", INT), (5, "tags", ListType(6, STRING)))
        bench.check(
            bench.read(projection, file), [{"new": None, "id": 1, "tags": None}, {"new": None, "id": 2, "tags": None}]
        )

    def test_dropped_and_added_again(self, bench: FormatBench) -> None:
        """A column dropped and added again under its name does not have the old values."""
        file = bench.write(_OLD, _ROWS)
        bench.check(bench.read(columns((9, "name", STRING)), file), [{"name": None}, {"name": None}])

    def test_made_optional(self, bench: FormatBench) -> None:
        """A required column made optional."""
        file = bench.write(columns(Field(1, "id", INT, required=True)), [{"id": 1}])
        bench.check(bench.read(columns((1, "id", INT)), file), [{"id": 1}])

    def test_missing_required(self, bench: FormatBench) -> None:
        """A required column without a value or default is an error that names it."""
        file = bench.write(_OLD, _ROWS)
        with expect_error(CorruptFile, text="needed"):
            bench.read(columns(Field(7, "needed", INT, required=True)), file)

    def test_unexpected_null(self, bench: FormatBench) -> None:
        """A null where the schema allows none is an error that names the column."""
        file = bench.write(_OLD, _ROWS)
        with expect_error(CorruptFile, text="name"):
            bench.read(columns(Field(2, "name", STRING, required=True)), file)

    def test_promotions(self, bench: FormatBench) -> None:
        """Types promoted: int, float, decimal, date."""
        old = columns((1, "i", INT), (2, "f", FLOAT), (3, "d", DecimalType(9, 2)), (4, "t", DATE), (5, "n", DATE))
        new = columns(
            (1, "i", LONG), (2, "f", DOUBLE), (3, "d", DecimalType(38, 2)), (4, "t", TIMESTAMP), (5, "n", TIMESTAMP_NS)
        )
        rows = [
            {"i": -(2**31), "f": 1.5, "d": Decimal("-1.25"), "t": -1, "n": 1},
            {"i": None, "f": None, "d": None, "t": None, "n": None},
        ]
        day = 86_400_000_000
        expected = [{"i": -(2**31), "f": 1.5, "d": Decimal("-1.25"), "t": -day, "n": 1000 * day}, rows[1]]
        bench.check(bench.read(new, bench.write(old, rows)), expected)

    def test_impossible_types(self, bench: FormatBench) -> None:
        """A stored type that cannot be promoted to that of the schema is an error that names the column."""
        file = bench.write(_OLD, _ROWS)
        for type_ in (STRING, ListType(9, INT), StructType((Field(9, "x", INT),)), DecimalType(9, 2)):
            with expect_error(CorruptFile, text="id"):
                bench.read(columns((1, "id", type_)), file)

    def test_nested_changes(self, bench: FormatBench) -> None:
        """Fields inside structs, lists and maps added, dropped, renamed, reordered, promoted."""
        old_point = StructType((Field(11, "x", INT), Field(12, "y", INT), Field(13, "label", STRING)))
        new_point = StructType((Field(13, "title", STRING), Field(14, "z", INT), Field(11, "x", LONG)))
        old = columns((1, "p", old_point), (2, "l", ListType(21, _inside(old_point, 30))))
        new = columns((2, "l", ListType(21, _inside(new_point, 30))), (1, "p", new_point))
        point = {"x": 1, "y": 2, "label": "a"}
        rows = [{"p": point, "l": [point, None]}, {"p": None, "l": None}, {"p": dict.fromkeys(point), "l": []}]
        new_value = {"title": "a", "z": None, "x": 1}
        expected = [
            {"l": [new_value, None], "p": new_value},
            {"l": None, "p": None},
            {"l": [], "p": dict.fromkeys(new_value)},
        ]
        bench.check(bench.read(new, bench.write(old, rows)), expected)

    def test_changes_inside_maps(self, bench: FormatBench) -> None:
        """Values of maps that are structs, with fields added and promoted."""
        old = columns((1, "m", MapType(2, STRING, 3, StructType((Field(4, "a", INT), Field(5, "b", INT))))))
        new = columns((1, "m", MapType(2, STRING, 3, StructType((Field(6, "c", STRING), Field(4, "a", LONG))))))
        rows = [{"m": {"k": {"a": 1, "b": 2}, "n": None}}, {"m": None}, {"m": {}}]
        expected = [{"m": {"k": {"c": None, "a": 1}, "n": None}}, {"m": None}, {"m": {}}]
        bench.check(bench.read(new, bench.write(old, rows)), expected)

    def test_only_new_fields_of_a_struct(self, bench: FormatBench) -> None:
        """A struct of which only new fields are projected is null where it is stored as null."""
        old = columns(
            (1, "s", StructType((Field(2, "a", INT),))), (3, "l", ListType(4, StructType((Field(5, "a", INT),))))
        )
        new = columns(
            (1, "s", StructType((Field(8, "b", INT, initial_default=7),))),
            (3, "l", ListType(4, StructType((Field(9, "b", INT, initial_default=8),)))),
        )
        rows = [{"s": {"a": 1}, "l": [{"a": 1}, None]}, {"s": None, "l": None}]
        expected = [{"s": {"b": 7}, "l": [{"b": 8}, None]}, {"s": None, "l": None}]
        bench.check(bench.read(new, bench.write(old, rows)), expected)

    def test_nested_projection(self, bench: FormatBench) -> None:
        """Projection of some fields of a struct."""
        point = StructType((Field(2, "x", INT), Field(3, "y", STRING), Field(4, "z", DOUBLE)))
        file = bench.write(columns((1, "p", point)), [{"p": {"x": 1, "y": "a", "z": 0.5}}, {"p": None}])
        projection = columns((1, "p", StructType((Field(3, "y", STRING),))))
        bench.check(bench.read(projection, file), [{"p": {"y": "a"}}, {"p": None}])

    def test_initial_defaults(self, bench: FormatBench) -> None:
        """Initial defaults of missing columns, at the top."""
        file = bench.write(_OLD, _ROWS)
        projection = columns(
            Field(1, "id", INT, initial_default=99),
            Field(10, "n", INT, required=True, initial_default=7),
            Field(11, "d", DecimalType(9, 2), initial_default=Decimal("1.50")),
            Field(12, "l", ListType(13, STRING), initial_default=["a", None]),
            Field(14, "m", MapType(15, STRING, 16, INT), initial_default={"k": 1}),
            Field(17, "s", StructType((Field(18, "x", INT, initial_default=3),)), initial_default={}),
            Field(19, "t", TIMESTAMP, initial_default=1_700_000_000_123_456),
        )
        filled = {
            "n": 7,
            "d": Decimal("1.50"),
            "l": ["a", None],
            "m": {"k": 1},
            "s": {"x": 3},
            "t": 1_700_000_000_123_456,
        }
        bench.check(bench.read(projection, file), [{"id": 1, **filled}, {"id": 2, **filled}])

    def test_defaults_inside(self, bench: FormatBench) -> None:
        """Initial defaults inside structs, lists and maps, not where the struct itself is null."""
        old_inner, new_inner = (
            StructType((Field(11, "a", INT), *extra))
            for extra in ((), (Field(12, "b", STRING, required=True, initial_default="x"),))
        )
        old, new = (
            columns(
                (1, "s", _inside(inner, 100)),
                (2, "l", ListType(3, _inside(inner, 200))),
                (4, "m", MapType(5, STRING, 6, _inside(inner, 300))),
            )
            for inner in (old_inner, new_inner)
        )
        rows = [
            {"s": {"a": 1}, "l": [{"a": 2}, None], "m": {"k": {"a": 3}, "n": None}},
            {"s": None, "l": None, "m": None},
        ]
        expected = [
            {
                "s": {"a": 1, "b": "x"},
                "l": [{"a": 2, "b": "x"}, None],
                "m": {"k": {"a": 3, "b": "x"}, "n": None},
            },
            rows[1],
        ]
        bench.check(bench.read(new, bench.write(old, rows)), expected)

    def test_defaults_are_for_missing_columns_only(self, bench: FormatBench) -> None:
        """A stored null stays null, whatever the default."""
        file = bench.write(_OLD, _ROWS)
        projection = columns(Field(2, "name", STRING, initial_default="x"))
        bench.check(bench.read(projection, file), [{"name": "a"}, {"name": None}])

    def test_files_without_ids(self, bench: FormatBench) -> None:
        """Files without ids are read by a name mapping, at any depth."""
        if bench.write_without_ids is None:
            return
        stored = columns((1, "ID", INT), (2, "st", StructType((Field(3, "a", STRING),))), (4, "l", ListType(5, INT)))
        rows = [{"ID": 1, "st": {"a": "x"}, "l": [1, None]}, {"ID": None, "st": None, "l": None}]
        location = bench.location()
        bench.write_without_ids(bench.storage, location, stored, rows)
        mapping = mapping_from_schema(stored)
        mapping = NameMapping((MappedField(("id", "ID"), 1), *mapping.fields[1:]))
        projection = columns(
            (4, "l", ListType(5, LONG)), (1, "key", LONG), (2, "st", StructType((Field(3, "b", STRING),)))
        )
        bench.check(
            bench.rows(bench.reading(projection, location).name_mapping(mapping)),
            [{"l": [1, None], "key": 1, "st": {"b": "x"}}, {"l": None, "key": None, "st": None}],
        )
        nulls = [{"l": None, "key": None, "st": None}] * 2
        bench.check(bench.read(projection, location), nulls)  # without ids and mapping, no column is found

    def test_mappings_do_not_touch_ids(self, bench: FormatBench) -> None:
        """A name mapping is not used for a file that has ids."""
        file = bench.write(_OLD, _ROWS)
        mapping = NameMapping((MappedField(("name",), 7),))
        bench.check(
            bench.rows(bench.reading(columns((7, "other", STRING)), file).name_mapping(mapping)),
            [{"other": None}, {"other": None}],
        )


def _inside(type_: StructType, add: int) -> StructType:
    """The struct with other field ids, so that a schema can have it twice."""
    return StructType(
        tuple(
            Field(child.id + add, child.name, child.type, child.required, initial_default=child.initial_default)
            for child in type_.fields
        )
    )


# Deletes --------------------------------------------------------------------------------------------------------------

_DELETE_SCHEMA = columns(Field(1, "id", LONG, required=True), (2, "name", STRING))
_DELETE_ROWS: Rows = [{"id": n, "name": f"name-{n % 7}"} for n in range(2000)]
_SMALL_DELETE_GROUPS = {"write__parquet__row_group_limit": "300", "write__orc__stripe_size_bytes": "4096"}


class DeleteTests:
    """Tests of delete files: the rows that remain, and their number."""

    def test_rows_deleted_by_position(self, bench: FormatBench) -> None:
        """Delete filter: rows are removed by position deletes, and counted."""
        file = bench.write(_DELETE_SCHEMA, _DELETE_ROWS, **_SMALL_DELETE_GROUPS)
        deleted = [n for n in range(2000) if n % 13 == 0]
        delete_rows = [{"file_path": path, "pos": n} for path in ("a", file.file_path, "z") for n in deleted]
        deletes = bench.fill(position_delete_writer(bench.model, bench.storage, bench.location()), delete_rows)
        of_this_file = bench.reading(Schema((DELETE_FILE_PATH, DELETE_POS)), deletes).filter(
            col("file_path") == file.file_path
        )
        positions = {row["pos"] for row in bench.rows(of_this_file)}
        assert len(positions) == len(deleted)
        projection = Schema((*_DELETE_SCHEMA.fields, POS))
        rows = bench.read(projection, file)
        live = [row for row in rows if row["_pos"] not in positions]
        assert len(rows) - len(live) == len(deleted)
        bench.check(live, [{**row, "_pos": n} for n, row in enumerate(_DELETE_ROWS) if n % 13])

    def test_deleted_rows_in_splits(self, bench: FormatBench) -> None:
        """Delete filter: positions are right in splits and with filters."""
        if not bench.supports(Feature.SPLIT):
            return
        file = bench.write(_DELETE_SCHEMA, _DELETE_ROWS, **_SMALL_DELETE_GROUPS)
        reading = bench.reading(Schema((POS, *_DELETE_SCHEMA.fields)), file).filter(col("name") == "name-3")
        step = file.file_size_in_bytes // 3 + 1
        rows: Rows = []
        for start in range(0, file.file_size_in_bytes, step):
            rows += bench.rows(reading.split(start, step))
        bench.check(
            [row for row in rows if row["_pos"] % 2],
            [{"_pos": n, **row} for n, row in enumerate(_DELETE_ROWS) if n % 7 == 3 and n % 2],
        )

    def test_rows_deleted_by_value(self, bench: FormatBench) -> None:
        """Delete filter: rows are removed by equality deletes, by field id whatever the names."""
        file = bench.write(_DELETE_SCHEMA, _DELETE_ROWS)
        old = columns((2, "title", STRING))
        builder = equality_delete_writer(bench.model, bench.storage, bench.location()).schema(old).compare(2)
        deletes = bench.fill(builder, [{"title": "name-1"}, {"title": "name-5"}, {"title": None}])
        keys = {row["name"] for row in bench.read(columns((2, "name", STRING)), deletes)}
        live = [row for row in bench.read(_DELETE_SCHEMA, file) if row["name"] not in keys]
        bench.check(live, [row for n, row in enumerate(_DELETE_ROWS) if n % 7 not in (1, 5)])
