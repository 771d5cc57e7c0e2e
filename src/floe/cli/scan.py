"""`floe scan`: the rows of a table, printed or written while they are read."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import typer

import floe
from floe import cli, show
from floe.cli.arguments import (
    AsOf,
    CatalogArguments,
    CatalogOption,
    CatalogOptions,
    Columns,
    Debug,
    Json,
    Records,
    Ref,
    SnapshotId,
    TableName,
    Wide,
    catalog_options,
    load_table,
    split_names,
)
from floe.errors import InvalidInput
from floe.show.terminal import stderr, stdout
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import FileWriter
from floe.storage.schemes import open_storage
from floe.table.human_values import duration_millis, many, to_millis

if TYPE_CHECKING:  # `floe scan --help` needs neither Arrow nor a table
    import pyarrow as pa

    from floe.arrow.read.streams import OnProgress
    from floe.table.scan import Scan
    from floe.table.table import Table

EXAMPLES = """
floe scan lake.db.orders --where "amount > 100 and ts >= '2024-01-01'" --limit 20
floe scan lake.db.orders -C customer,amount --format csv > orders.csv
floe scan lake.db.orders --as-of 7d -o last-week.parquet
floe scan lake.db.orders --where "customer is null" --count
floe scan lake.db.orders --where "ts >= '2024-01-01'" --explain
"""

_FORMAT_BY_SUFFIX: Final = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
_AGE: Final = re.compile(r"\s*\d+\s*[A-Za-z]")
_PRINTED_BATCH_ROWS: Final = 1000
"""Small batches, so that the first rows are printed at once."""


class Format(StrEnum):
    """The formats of printed rows."""

    table = "table"
    csv = "csv"
    json = "json"
    jsonl = "jsonl"
    parquet = "parquet"


def scan(
    table: TableName,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="FILTER", help="Only rows that match a SQL filter.", show_default=False),
    ] = None,
    columns: Columns = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=0, metavar="N", help="At most N rows.", show_default=False),
    ] = None,
    ref: Ref = None,
    snapshot: SnapshotId = None,
    as_of: AsOf = None,
    format_: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="The format; default: by the name of FILE, or table.", show_default=False),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to a file.", show_default=False),
    ] = None,
    records: Records = False,
    wide: Wide = False,
    count: Annotated[bool, typer.Option("--count", help="Only print the number of rows.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Only print what would be read, and why.")] = False,
    catalog: CatalogOption = None,
    option: CatalogOptions = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Read the rows of a table.

    All rows or those that match a filter, now or as of some time. Rows are printed while they are read. On a terminal
    long texts are cut, and a row that is too wide is printed as a record; piped output is never cut.
    """
    rows = open_scan(
        table,
        CatalogArguments(catalog, catalog_options(option)),
        where=where,
        columns=columns,
        snapshot=snapshot,
        ref=ref,
        as_of=as_of,
        limit=limit,
    )
    if explain:
        _print_plan(rows, as_json=json)
    elif count:
        _print_count(rows, as_json=json)
    else:
        print_format = "json" if json else None if format_ is None else format_.value
        print_rows(rows, format_=print_format, path=output, records=records, wide=wide)


@dataclass(frozen=True)
class OrderedScan:
    """A scan, with its columns in the order in which they were requested."""

    scan: Scan
    schema: Schema

    @staticmethod
    def of(scan: Scan, columns: list[str]) -> OrderedScan:
        """Order the columns of a scan; a column that is named by one of its fields stands where the field was named."""
        fields = {field.name: field for field in scan.schema.fields}
        requested = [name if name in fields else name.partition(".")[0] for name in columns]
        order = dict.fromkeys([*(name for name in requested if name in fields), *fields])
        return OrderedScan(scan, Schema(tuple(fields[name] for name in order)))

    @contextmanager
    def batches(self, **options: Any) -> Iterator[Iterator[pa.RecordBatch]]:
        """The batches, as `Scan.to_batches` reads them."""
        names = [field.name for field in self.schema.fields]
        with self.scan.to_batches(**options) as batches:
            yield (batch.select(names) for batch in batches)


def open_scan(
    name: str,
    arguments: CatalogArguments,
    *,
    where: str | None = None,
    columns: list[str] | None = None,
    snapshot: int | None = None,
    ref: str | None = None,
    as_of: str | None = None,
    limit: int | None = None,
) -> OrderedScan:
    """The scan that the options ask for."""
    loaded = load_table(name, arguments)
    table = floe.Table(loaded.pointer, loaded.state)
    names = split_names(columns)
    timestamp = None if as_of is None else _timestamp(as_of, table)
    scan = table.scan(columns=names or None, where=where, snapshot=snapshot, ref=ref, as_of=timestamp)
    return OrderedScan.of(scan if limit is None else scan.limit(limit), names)


def print_rows(
    rows: OrderedScan, *, format_: str | None = None, path: str | None = None, records: bool = False, wide: bool = False
) -> None:
    """Print the rows of a scan, or write them to a file, which exists when it is complete."""
    row_format = format_ or _format_of(path)
    if path is not None:
        started = perf_counter()
        with open_storage(path).open_write(path, overwrite=True) as file:
            if row_format == "table":
                count = _write_table(rows, file, show.RowStyle(records=records))
            else:
                count = _export(rows, row_format, file)
        stderr().line(f"{many(count, 'row')} written to {path} in {perf_counter() - started:.1f} s")
        return
    out = stdout()
    if row_format == "table":
        style = show.RowStyle(out.paint, None if wide else out.width, records or (False if wide else None))
        count = _write_table(rows, out.stream, style)
        out.lines([out.paint(many(count, "row"), "dim")] if out.is_terminal else [])
        return
    if row_format == "parquet" and out.is_terminal:
        raise InvalidInput("Parquet cannot be printed on a terminal", hint="write it to a file with -o rows.parquet")
    sys.stdout.flush()
    _export(rows, row_format, sys.stdout.buffer)


def _print_count(rows: OrderedScan, *, as_json: bool) -> None:
    out = stdout()
    with _progress("counting") as progress:
        count = rows.scan.count(progress=progress)
    if as_json:
        out.json({"rows": count})
    else:
        out.line(f"{count:,}" if out.is_terminal else str(count))


def _print_plan(rows: OrderedScan, *, as_json: bool) -> None:
    out, scan = stdout(), rows.scan
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


def _write_table(rows: OrderedScan, sink: TextIO | FileWriter, style: show.RowStyle) -> int:
    count = 0

    def counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nonlocal count
        for batch in batches:
            count += batch.num_rows
            yield batch

    with rows.batches(batch_size=_PRINTED_BATCH_ROWS) as batches:
        for line in show.row_lines(rows.schema, counted(batches), style):
            if isinstance(sink, FileWriter):
                sink.write(f"{line}\n".encode())
            else:
                sink.write(f"{line}\n")
    return count


def _export(rows: OrderedScan, format_: str, sink: Any) -> int:
    with _progress("reading") as progress, rows.batches(progress=progress) as batches:
        return cli.export.EXPORTERS[format_](rows.schema, batches, sink)


@contextmanager
def _progress(title: str) -> Iterator[OnProgress | None]:
    with show.progress_bar(title, sys.stderr) if not sys.stdout.isatty() else nullcontext() as advance:
        if advance is None:
            yield None
        else:
            yield lambda progress: advance(progress.bytes, progress.total_bytes, progress.rows)


def _format_of(path: str | None) -> str:
    if path is None:
        return "table"
    return next((name for suffix, name in _FORMAT_BY_SUFFIX.items() if path.endswith(suffix)), "table")


def _timestamp(text: str, table: Table) -> int:
    """The milliseconds of a timestamp, or of an age such as `7d`, which counts from now."""
    if _AGE.match(text) and "-" not in text:
        return table.environment.clock.now_ms() - duration_millis(text)
    return to_millis(text)
