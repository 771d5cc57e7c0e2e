"""What every format model promises of schema evolution: old files read with new schemas (spec: Column Projection)."""

from __future__ import annotations

from decimal import Decimal

from floe.errors import CorruptFile
from floe.spec.schemas.name_mapping import MappedField, NameMapping, mapping_from_schema
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
from floe.testing._formats_bench import FormatBench, columns, refused

__all__ = ["EvolutionPromises"]

_OLD = columns((1, "id", INT), (2, "name", STRING), (3, "score", DOUBLE))
_ROWS = [{"id": 1, "name": "a", "score": 0.5}, {"id": 2, "name": None, "score": None}]


class EvolutionPromises:
    """Columns added, dropped, renamed, reordered, promoted; defaults; name mappings."""

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
        wanted = columns((3, "name", DOUBLE), (1, "key", INT), (2, "id", STRING))
        bench.check(
            bench.read(wanted, file), [{"name": 0.5, "key": 1, "id": "a"}, {"name": None, "key": 2, "id": None}]
        )

    def test_added_columns(self, bench: FormatBench) -> None:
        """Columns added later read as null."""
        file = bench.write(_OLD, _ROWS)
        wanted = columns((4, "new", LONG), (1, "id", INT), (5, "tags", ListType(6, STRING)))
        bench.check(
            bench.read(wanted, file), [{"new": None, "id": 1, "tags": None}, {"new": None, "id": 2, "tags": None}]
        )

    def test_dropped_and_added_again(self, bench: FormatBench) -> None:
        """A column dropped and added again under its name does not bring old values back."""
        file = bench.write(_OLD, _ROWS)
        bench.check(bench.read(columns((9, "name", STRING)), file), [{"name": None}, {"name": None}])

    def test_made_optional(self, bench: FormatBench) -> None:
        """A required column made optional."""
        file = bench.write(columns(Field(1, "id", INT, required=True)), [{"id": 1}])
        bench.check(bench.read(columns((1, "id", INT)), file), [{"id": 1}])

    def test_missing_required(self, bench: FormatBench) -> None:
        """A required column without a value or default is an error that names it."""
        file = bench.write(_OLD, _ROWS)
        with refused(CorruptFile, naming="needed"):
            bench.read(columns(Field(7, "needed", INT, required=True)), file)

    def test_unexpected_null(self, bench: FormatBench) -> None:
        """A null where the schema allows none is an error that names the column."""
        file = bench.write(_OLD, _ROWS)
        with refused(CorruptFile, naming="name"):
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
        wanted = [{"i": -(2**31), "f": 1.5, "d": Decimal("-1.25"), "t": -day, "n": 1000 * day}, rows[1]]
        bench.check(bench.read(new, bench.write(old, rows)), wanted)

    def test_impossible_types(self, bench: FormatBench) -> None:
        """A stored type that cannot become the wanted one is an error that names the column."""
        file = bench.write(_OLD, _ROWS)
        for type_ in (STRING, ListType(9, INT), StructType((Field(9, "x", INT),)), DecimalType(9, 2)):
            with refused(CorruptFile, naming="id"):
                bench.read(columns((1, "id", type_)), file)

    def test_nested_changes(self, bench: FormatBench) -> None:
        """Fields inside structs, lists and maps added, dropped, renamed, reordered, promoted."""
        old_point = StructType((Field(11, "x", INT), Field(12, "y", INT), Field(13, "label", STRING)))
        new_point = StructType((Field(13, "title", STRING), Field(14, "z", INT), Field(11, "x", LONG)))
        old = columns((1, "p", old_point), (2, "l", ListType(21, _inside(old_point, 30))))
        new = columns((2, "l", ListType(21, _inside(new_point, 30))), (1, "p", new_point))
        point = {"x": 1, "y": 2, "label": "a"}
        rows = [{"p": point, "l": [point, None]}, {"p": None, "l": None}, {"p": dict.fromkeys(point), "l": []}]
        there = {"title": "a", "z": None, "x": 1}
        wanted = [
            {"l": [there, None], "p": there},
            {"l": None, "p": None},
            {"l": [], "p": dict.fromkeys(there)},
        ]
        bench.check(bench.read(new, bench.write(old, rows)), wanted)

    def test_changes_inside_maps(self, bench: FormatBench) -> None:
        """Values of maps that are structs, with fields added and promoted."""
        old = columns((1, "m", MapType(2, STRING, 3, StructType((Field(4, "a", INT), Field(5, "b", INT))))))
        new = columns((1, "m", MapType(2, STRING, 3, StructType((Field(6, "c", STRING), Field(4, "a", LONG))))))
        rows = [{"m": {"k": {"a": 1, "b": 2}, "n": None}}, {"m": None}, {"m": {}}]
        wanted = [{"m": {"k": {"c": None, "a": 1}, "n": None}}, {"m": None}, {"m": {}}]
        bench.check(bench.read(new, bench.write(old, rows)), wanted)

    def test_only_new_fields_of_a_struct(self, bench: FormatBench) -> None:
        """A struct of which only new fields are wanted is null where it was."""
        old = columns(
            (1, "s", StructType((Field(2, "a", INT),))), (3, "l", ListType(4, StructType((Field(5, "a", INT),))))
        )
        new = columns(
            (1, "s", StructType((Field(8, "b", INT, initial_default=7),))),
            (3, "l", ListType(4, StructType((Field(9, "b", INT, initial_default=8),)))),
        )
        rows = [{"s": {"a": 1}, "l": [{"a": 1}, None]}, {"s": None, "l": None}]
        wanted = [{"s": {"b": 7}, "l": [{"b": 8}, None]}, {"s": None, "l": None}]
        bench.check(bench.read(new, bench.write(old, rows)), wanted)

    def test_nested_projection(self, bench: FormatBench) -> None:
        """Projection of some fields of a struct."""
        point = StructType((Field(2, "x", INT), Field(3, "y", STRING), Field(4, "z", DOUBLE)))
        file = bench.write(columns((1, "p", point)), [{"p": {"x": 1, "y": "a", "z": 0.5}}, {"p": None}])
        wanted = columns((1, "p", StructType((Field(3, "y", STRING),))))
        bench.check(bench.read(wanted, file), [{"p": {"y": "a"}}, {"p": None}])

    def test_initial_defaults(self, bench: FormatBench) -> None:
        """Initial defaults of missing columns, at the top."""
        file = bench.write(_OLD, _ROWS)
        wanted = columns(
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
        bench.check(bench.read(wanted, file), [{"id": 1, **filled}, {"id": 2, **filled}])

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
        wanted = [
            {
                "s": {"a": 1, "b": "x"},
                "l": [{"a": 2, "b": "x"}, None],
                "m": {"k": {"a": 3, "b": "x"}, "n": None},
            },
            rows[1],
        ]
        bench.check(bench.read(new, bench.write(old, rows)), wanted)

    def test_defaults_are_for_missing_columns_only(self, bench: FormatBench) -> None:
        """A null that is stored stays null whatever the default."""
        file = bench.write(_OLD, _ROWS)
        wanted = columns(Field(2, "name", STRING, initial_default="x"))
        bench.check(bench.read(wanted, file), [{"name": "a"}, {"name": None}])

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
        wanted = columns((4, "l", ListType(5, LONG)), (1, "key", LONG), (2, "st", StructType((Field(3, "b", STRING),))))
        bench.check(
            bench.rows(bench.reading(wanted, location).name_mapping(mapping)),
            [{"l": [1, None], "key": 1, "st": {"b": "x"}}, {"l": None, "key": None, "st": None}],
        )
        nothing = [{"l": None, "key": None, "st": None}] * 2
        bench.check(bench.read(wanted, location), nothing)  # without ids and mapping, nothing is known by id

    def test_mappings_do_not_touch_ids(self, bench: FormatBench) -> None:
        """A name mapping is not used for a file that has ids."""
        file = bench.write(_OLD, _ROWS)
        mapping = NameMapping((MappedField(("name",), 7),))
        bench.check(
            bench.rows(bench.reading(columns((7, "other", STRING)), file).name_mapping(mapping)),
            [{"other": None}, {"other": None}],
        )


def _inside(type_: StructType, add: int) -> StructType:
    """The struct with other ids, so that it can stand in one schema twice."""
    return StructType(
        tuple(
            Field(child.id + add, child.name, child.type, child.required, initial_default=child.initial_default)
            for child in type_.fields
        )
    )
