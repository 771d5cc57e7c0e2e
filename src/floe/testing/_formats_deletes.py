"""What every format model promises of deletes: delete files say which rows, data files where their rows are."""

from __future__ import annotations

from floe.formats.builders import equality_delete_writer, position_delete_writer
from floe.spec.expressions.dsl import col
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH, DELETE_POS, POS
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, STRING, Field
from floe.testing._formats_bench import FormatBench, Rows, columns

__all__ = ["DeletePromises"]

_SCHEMA = columns(Field(1, "id", LONG, required=True), (2, "name", STRING))
_ROWS: Rows = [{"id": n, "name": f"name-{n % 7}"} for n in range(2000)]
_SMALL_GROUPS = {"write__parquet__row_group_limit": "300", "write__orc__stripe_size_bytes": "4096"}


class DeletePromises:
    """Rows that deletes leave out, and how many those are."""

    def test_rows_deleted_by_position(self, bench: FormatBench) -> None:
        """Delete filter: the rows that position deletes name are removed, and counted."""
        file = bench.write(_SCHEMA, _ROWS, **_SMALL_GROUPS)
        gone = [n for n in range(2000) if n % 13 == 0]
        named = [{"file_path": path, "pos": n} for path in ("a", file.file_path, "z") for n in gone]
        deletes = bench.fill(position_delete_writer(bench.model, bench.storage, bench.location()), named)
        of_this_file = bench.reading(Schema((DELETE_FILE_PATH, DELETE_POS)), deletes).filter(
            col("file_path") == file.file_path
        )
        positions = {row["pos"] for row in bench.rows(of_this_file)}
        assert len(positions) == len(gone)
        wanted = Schema((*_SCHEMA.fields, POS))
        found = bench.read(wanted, file)
        live = [row for row in found if row["_pos"] not in positions]
        assert len(found) - len(live) == len(gone)
        bench.check(live, [{**row, "_pos": n} for n, row in enumerate(_ROWS) if n % 13])

    def test_deleted_rows_in_splits(self, bench: FormatBench) -> None:
        """Delete filter: positions hold in splits and under filters."""
        file = bench.write(_SCHEMA, _ROWS, **_SMALL_GROUPS)
        reading = bench.reading(Schema((POS, *_SCHEMA.fields)), file).filter(col("name") == "name-3")
        step = file.file_size_in_bytes // 3 + 1
        found: Rows = []
        for start in range(0, file.file_size_in_bytes, step):
            found += bench.rows(reading.split(start, step))
        bench.check(
            [row for row in found if row["_pos"] % 2],
            [{"_pos": n, **row} for n, row in enumerate(_ROWS) if n % 7 == 3 and n % 2],
        )

    def test_rows_deleted_by_value(self, bench: FormatBench) -> None:
        """Delete filter: the rows that equality deletes name are removed, by id whatever the names."""
        file = bench.write(_SCHEMA, _ROWS)
        old = columns((2, "title", STRING))
        builder = equality_delete_writer(bench.model, bench.storage, bench.location()).schema(old).compare(2)
        deletes = bench.fill(builder, [{"title": "name-1"}, {"title": "name-5"}, {"title": None}])
        keys = {row["name"] for row in bench.read(columns((2, "name", STRING)), deletes)}
        live = [row for row in bench.read(_SCHEMA, file) if row["name"] not in keys]
        bench.check(live, [row for n, row in enumerate(_ROWS) if n % 7 not in (1, 5)])
