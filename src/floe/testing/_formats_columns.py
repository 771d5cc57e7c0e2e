"""What every format model promises of columns that no file has: metadata columns, constants, row lineage."""

from __future__ import annotations

from floe.errors import InvalidInput
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
from floe.spec.types import DATE, INT, LONG, STRING, DecimalType, Field, StructType
from floe.testing._formats_bench import FormatBench, columns, refused

__all__ = ["ColumnPromises"]

_SCHEMA = columns((1, "id", LONG), (2, "day", STRING))
_ROWS = [{"id": n, "day": "mon"} for n in range(5)]


class ColumnPromises:
    """Columns that the reader makes."""

    def test_file(self, bench: FormatBench) -> None:
        """Metadata column _file."""
        file = bench.write(_SCHEMA, _ROWS)
        bench.check(bench.read(Schema((FILE,)), file), [{"_file": file.file_path}] * 5)

    def test_position(self, bench: FormatBench) -> None:
        """Metadata column _pos, among others in any order."""
        file = bench.write(_SCHEMA, _ROWS)
        wanted = Schema((POS, _SCHEMA.fields[0], FILE))
        bench.check(bench.read(wanted, file), [{"_pos": n, "id": n, "_file": file.file_path} for n in range(5)])

    def test_positions_under_a_filter(self, bench: FormatBench) -> None:
        """Metadata column _pos counts rows that a filter leaves out."""
        file = bench.write(_SCHEMA, _ROWS)
        reading = bench.reading(Schema((POS,)), file).filter(col("id") >= 3, _SCHEMA)
        bench.check(bench.rows(reading), [{"_pos": 3}, {"_pos": 4}])

    def test_spec(self, bench: FormatBench) -> None:
        """Metadata column _spec_id, which the reader has to be told."""
        file = bench.write(_SCHEMA, _ROWS[:2])
        reading = bench.reading(Schema((SPEC_ID,)), file)
        bench.check(bench.rows(reading.constants({SPEC_ID.id: 3})), [{"_spec_id": 3}] * 2)
        with refused(InvalidInput, naming="_spec_id"):
            bench.rows(reading)

    def test_deleted(self, bench: FormatBench) -> None:
        """Metadata column _deleted, which is false unless the reader is told otherwise."""
        file = bench.write(_SCHEMA, _ROWS[:2])
        reading = bench.reading(Schema((DELETED, _SCHEMA.fields[0])), file)
        bench.check(bench.rows(reading), [{"_deleted": False, "id": 0}, {"_deleted": False, "id": 1}])
        bench.check(bench.rows(reading.constants({DELETED.id: True}))[:1], [{"_deleted": True, "id": 0}])

    def test_partition(self, bench: FormatBench) -> None:
        """Metadata column _partition, with the values of every kind of transform."""
        file = bench.write(_SCHEMA, _ROWS[:2])
        fields = [
            ("name", STRING, "mon"), ("id_bucket", INT, 4), ("name_trunc", STRING, "mo"), ("at_year", INT, 54),
            ("at_month", INT, 650), ("at_day", DATE, 19_800), ("at_hour", INT, -1), ("price", DecimalType(9, 2), None),
        ]  # fmt: skip
        type_ = StructType(tuple(Field(1000 + n, name, type_) for n, (name, type_, _) in enumerate(fields)))
        value = {name: one for name, _, one in fields}
        reading = bench.reading(Schema((partition_column(type_),)), file).constants({PARTITION_ID: value})
        bench.check(bench.rows(reading), [{"_partition": value}] * 2)

    def test_partition_evolution(self, bench: FormatBench) -> None:
        """Metadata column _partition after fields were added to the spec and removed: null where the file has none."""
        file = bench.write(_SCHEMA, _ROWS[:2])
        wanted = Schema((partition_column(StructType((Field(1000, "day", STRING), Field(1001, "b", INT)))),))
        for value in ({"day": "mon", "b": 4}, {"day": None, "b": None}, {"day": "tue"}, {"b": 7}, {}):
            there = {"day": None, "b": None, **value}
            reading = bench.reading(wanted, file).constants({PARTITION_ID: value})
            bench.check(bench.rows(reading), [{"_partition": there}] * 2)

    def test_partition_values(self, bench: FormatBench) -> None:
        """Partition values for columns that the file lacks; what the file has comes first."""
        file = bench.write(columns((1, "id", LONG)), [{"id": 7}, {"id": None}])
        reading = bench.reading(_SCHEMA, file).constants({1: 99, 2: "tue"})
        bench.check(bench.rows(reading), [{"id": 7, "day": "tue"}, {"id": None, "day": "tue"}])
        bench.check(bench.rows(reading.filter(col("day") == "mon")), [])
        bench.check(bench.rows(reading.filter(col("day") == "tue")), bench.rows(reading))

    def test_inherited_lineage(self, bench: FormatBench) -> None:
        """Row lineage inherited from the file."""
        file = bench.write(_SCHEMA, _ROWS)
        wanted = Schema((ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER))
        bench.check(
            bench.rows(bench.reading(wanted, file).lineage(1000, 4)),
            [{"_row_id": 1000 + n, "_last_updated_sequence_number": 4} for n in range(5)],
        )
        bench.check(bench.read(wanted, file), [{"_row_id": None, "_last_updated_sequence_number": None}] * 5)

    def test_stored_lineage(self, bench: FormatBench) -> None:
        """Row lineage stored in the file wins, row by row."""
        schema = with_row_lineage(columns((1, "id", LONG)))
        rows = [
            {"id": 1, "_row_id": 55, "_last_updated_sequence_number": 2},
            {"id": 2, "_row_id": None, "_last_updated_sequence_number": None},
            {"id": 3, "_row_id": 57, "_last_updated_sequence_number": None},
        ]
        file = bench.write(schema, rows)
        wanted = [
            {"id": 1, "_row_id": 55, "_last_updated_sequence_number": 2},
            {"id": 2, "_row_id": 1001, "_last_updated_sequence_number": 4},
            {"id": 3, "_row_id": 57, "_last_updated_sequence_number": 4},
        ]
        bench.check(bench.rows(bench.reading(schema, file).lineage(1000, 4)), wanted)
        reading = bench.reading(schema, file).lineage(1000, 4).filter(col("_row_id") >= 57)
        bench.check(bench.rows(reading), wanted[1:])
