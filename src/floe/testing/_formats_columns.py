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
from floe.spec.types import INT, LONG, STRING, Field, StructType
from floe.testing._formats_bench import FormatBench, columns, refused

__all__ = ["ColumnPromises"]

_SCHEMA = columns((1, "id", LONG), (2, "day", STRING))
_ROWS = [{"id": n, "day": "mon"} for n in range(5)]


class ColumnPromises:
    """Columns that the reader makes."""

    def test_file_and_position(self, bench: FormatBench) -> None:
        """Metadata columns _file, _pos."""
        file = bench.write(_SCHEMA, _ROWS)
        wanted = Schema((POS, _SCHEMA.fields[0], FILE))
        bench.check(bench.read(wanted, file), [{"_pos": n, "id": n, "_file": file.file_path} for n in range(5)])

    def test_positions_under_a_filter(self, bench: FormatBench) -> None:
        """Metadata column _pos counts rows that a filter leaves out."""
        file = bench.write(_SCHEMA, _ROWS)
        reading = bench.reading(Schema((POS,)), file).filter(col("id") >= 3, _SCHEMA)
        bench.check(bench.rows(reading), [{"_pos": 3}, {"_pos": 4}])

    def test_spec_and_deleted(self, bench: FormatBench) -> None:
        """Metadata columns _spec_id, _deleted."""
        file = bench.write(_SCHEMA, _ROWS[:2])
        wanted = Schema((SPEC_ID, DELETED))
        bench.check(
            bench.rows(bench.reading(wanted, file).constants({SPEC_ID.id: 3})),
            [{"_spec_id": 3, "_deleted": False}] * 2,
        )
        with refused(InvalidInput, naming="_spec_id"):
            bench.read(wanted, file)

    def test_partition(self, bench: FormatBench) -> None:
        """Metadata column _partition, also with fields that other specs have."""
        file = bench.write(_SCHEMA, _ROWS[:2])
        wanted = Schema((partition_column(StructType((Field(1000, "day", STRING), Field(1001, "b", INT)))),))
        for value in ({"day": "mon", "b": 4}, {"day": None, "b": None}, {"day": "tue"}):
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
