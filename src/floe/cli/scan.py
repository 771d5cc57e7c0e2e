"""`floe head` and `floe scan`: the rows of a table, printed or written while they are read."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, TextIO

import pyarrow as pa

from floe.arrow.reading.streaming import OnProgress
from floe.cli.naming import Where, find_table
from floe.cli.output import complaints, results
from floe.cli.work.exporting import EXPORTERS
from floe.errors import InvalidInput
from floe.show.progress import progress_bar
from floe.show.rows import RowStyle, row_lines
from floe.spec.schemas.schema import Schema
from floe.storage.opening import open_storage
from floe.storage.protocol import FileWriter
from floe.table.amounts import many
from floe.table.moments import duration_millis, to_millis
from floe.table.scan import Scan
from floe.table.table import Table

__all__ = ["Rows", "column_list", "explain", "print_count", "print_rows", "scan_of"]

_BY_SUFFIX: Final = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_AN_AGE: Final = re.compile(r"\s*\d+\s*[A-Za-z]")
_FIRST_BATCH: Final = 1000
"""Rows of a batch that a person waits for."""


@dataclass(frozen=True)
class Rows:
    """What is to be read, with its columns in the order in which they were asked for."""

    scan: Scan
    schema: Schema

    @staticmethod
    def of(scan: Scan, columns: Sequence[str]) -> Rows:
        """The rows of a scan; a column that is named by one of its fields stands where that field was first named."""
        fields = {field.name: field for field in scan.schema.fields}
        asked = [name if name in fields else name.partition(".")[0] for name in columns]
        order = dict.fromkeys([*(name for name in asked if name in fields), *fields])
        return Rows(scan, Schema(tuple(fields[name] for name in order)))

    @contextmanager
    def batches(self, **options: Any) -> Iterator[Iterator[pa.RecordBatch]]:
        """The batches, as `Scan.to_batches` reads them."""
        names = [field.name for field in self.schema.fields]
        with self.scan.to_batches(**options) as batches:
            yield (batch.select(names) for batch in batches)


def scan_of(
    name: str,
    catalog: str | None,
    options: Mapping[str, Any],
    *,
    rows_where: str | None = None,
    columns: Sequence[str] = (),
    snapshot: int | None = None,
    ref: str | None = None,
    as_of: str | None = None,
    limit: int | None = None,
) -> Rows:
    """The rows that the options ask for."""
    found = find_table(name, Where(catalog, options))
    table = Table(found.pointer, found.state)
    wanted = column_list(columns)
    scan = table.scan(
        columns=wanted or None,
        where=rows_where,
        snapshot=snapshot,
        ref=ref,
        as_of=None if as_of is None else _moment(as_of, table),
    )
    return Rows.of(scan if limit is None else scan.limit(limit), wanted)


def print_rows(
    rows: Rows, *, format_: str | None = None, to: str | None = None, records: bool = False, wide: bool = False
) -> None:
    """Print the rows of a scan, or write them to a file, which is there when all rows are in it."""
    chosen = format_ or _format_of(to)
    if to is None:
        out = results()
        if chosen == "table":
            style = RowStyle(out.paint, None if wide else out.width, records or (False if wide else None))
            count = _write_table(rows, out.stream, style)
            out.lines([out.paint(many(count, "row"), "dim")] if out.is_terminal else [])
            return
        if chosen == "parquet" and out.is_terminal:
            raise InvalidInput("a Parquet file is not for a terminal", hint="write it to a file with -o rows.parquet")
        sys.stdout.flush()
        _export(rows, chosen, sys.stdout.buffer)
        return
    begun = perf_counter()
    with open_storage(to).open_write(to, overwrite=True) as file:
        count = (
            _write_table(rows, file, RowStyle(records=records)) if chosen == "table" else _export(rows, chosen, file)
        )
    complaints().line(f"{many(count, 'row')} written to {to} in {perf_counter() - begun:.1f} s")


def print_count(rows: Rows, *, as_json: bool = False) -> None:
    """Print how many rows there are."""
    out = results()
    with _progress("counting") as progress:
        count = rows.scan.count(progress=progress)
    if as_json:
        out.json({"rows": count})
    else:
        out.line(f"{count:,}" if out.is_terminal else str(count))


def explain(rows: Rows, *, as_json: bool = False) -> None:
    """Print what would be read and why."""
    out, scan = results(), rows.scan
    if not as_json:
        out.line(scan.explain())
        return
    report = scan.plan().report
    out.json(
        {
            "snapshot_id": None if scan.snapshot is None else scan.snapshot.snapshot_id,
            "columns": [field.name for field in scan.schema.fields],
            "where": str(scan.where),
            "data_manifests": report.data_manifests,
            "data_manifests_read": report.data_manifests_read,
            "data_files": report.files,
            "data_files_skipped": report.files_skipped,
            "bytes": report.file_bytes,
            "delete_files": report.delete_files,
        }
    )


def column_list(given: Sequence[str]) -> list[str]:
    """Names of columns that were given with commas, or one by one.

    >>> column_list(["a, b", "c"])
    ['a', 'b', 'c']
    """
    return [name.strip() for text in given for name in text.split(",") if name.strip()]


def _write_table(rows: Rows, sink: TextIO | FileWriter, style: RowStyle) -> int:
    count = 0

    def counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nonlocal count
        for batch in batches:
            count += batch.num_rows
            yield batch

    with rows.batches(batch_size=_FIRST_BATCH) as batches:
        for line in row_lines(rows.schema, counted(batches), style):
            if isinstance(sink, FileWriter):
                sink.write(f"{line}\n".encode())
            else:
                sink.write(f"{line}\n")
    return count


def _export(rows: Rows, format_: str, sink: Any) -> int:
    with _progress("reading") as progress, rows.batches(progress=progress) as batches:
        return EXPORTERS[format_](rows.schema, batches, sink)


@contextmanager
def _progress(what: str) -> Iterator[OnProgress | None]:
    with progress_bar(what, sys.stderr) if not sys.stdout.isatty() else nullcontext() as advance:
        if advance is None:
            yield None
        else:
            yield lambda so_far: advance(so_far.bytes, so_far.total_bytes, so_far.rows)


def _format_of(to: str | None) -> str:
    if to is None:
        return "table"
    return next((name for suffix, name in _BY_SUFFIX.items() if to.endswith(suffix)), "table")


def _moment(text: str, table: Table) -> int | str:
    """A moment, or an age such as `7d`, which counts from now."""
    if _AN_AGE.match(text) and "-" not in text:
        return table.environment.clock.now_ms() - duration_millis(text)
    return to_millis(text)
