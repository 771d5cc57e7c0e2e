"""`floe head` and `floe scan`: the rows of a table, printed or written while they are read."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
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
from floe.storage.opening import open_storage
from floe.storage.protocol import FileWriter
from floe.table.amounts import many
from floe.table.moments import duration_millis, to_millis
from floe.table.scan import Scan
from floe.table.table import Table

__all__ = ["column_list", "explain", "print_count", "print_rows", "scan_of"]

_BY_SUFFIX: Final = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_AN_AGE: Final = re.compile(r"\s*\d+\s*[A-Za-z]")
_FIRST_BATCH: Final = 1000
"""Rows of a batch that a person waits for."""


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
) -> Scan:
    """The scan that the options ask for."""
    found = find_table(name, Where(catalog, options))
    table = Table(found.pointer, found.state)
    scan = table.scan(
        columns=column_list(columns) or None,
        where=rows_where,
        snapshot=snapshot,
        ref=ref,
        as_of=None if as_of is None else _moment(as_of, table),
    )
    return scan if limit is None else scan.limit(limit)


def print_rows(
    scan: Scan, *, format_: str | None = None, to: str | None = None, records: bool = False, wide: bool = False
) -> None:
    """Print the rows of a scan, or write them to a file, which is there when all rows are in it."""
    chosen = format_ or _format_of(to)
    if to is None:
        out = results()
        if chosen == "table":
            style = RowStyle(out.paint, None if wide else out.width, records or (False if wide else None))
            count = _write_table(scan, out.stream, style)
            out.lines([out.paint(many(count, "row"), "dim")] if out.is_terminal else [])
            return
        if chosen == "parquet" and out.is_terminal:
            raise InvalidInput("a Parquet file is not for a terminal", hint="write it to a file with -o rows.parquet")
        sys.stdout.flush()
        _export(scan, chosen, sys.stdout.buffer)
        return
    begun = perf_counter()
    with open_storage(to).open_write(to, overwrite=True) as file:
        count = (
            _write_table(scan, file, RowStyle(records=records)) if chosen == "table" else _export(scan, chosen, file)
        )
    complaints().line(f"{many(count, 'row')} written to {to} in {perf_counter() - begun:.1f} s")


def print_count(scan: Scan, *, as_json: bool = False) -> None:
    """Print how many rows there are."""
    out = results()
    with _progress("counting") as progress:
        count = scan.count(progress=progress)
    if as_json:
        out.json({"rows": count})
    else:
        out.line(f"{count:,}" if out.is_terminal else str(count))


def explain(scan: Scan, *, as_json: bool = False) -> None:
    """Print what would be read and why."""
    out = results()
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


def _write_table(scan: Scan, sink: TextIO | FileWriter, style: RowStyle) -> int:
    count = 0

    def counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nonlocal count
        for batch in batches:
            count += batch.num_rows
            yield batch

    with scan.to_batches(batch_size=_FIRST_BATCH) as batches:
        for line in row_lines(scan.schema, counted(batches), style):
            if isinstance(sink, FileWriter):
                sink.write(f"{line}\n".encode())
            else:
                sink.write(f"{line}\n")
    return count


def _export(scan: Scan, format_: str, sink: Any) -> int:
    with _progress("reading") as progress, scan.to_batches(progress=progress) as batches:
        return EXPORTERS[format_](scan.schema, batches, sink)


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
