"""`floe scan`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from floe.cli import work
from floe.cli.options import (
    AsOf,
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
)

__all__ = ["EXAMPLES", "Format", "scan"]

EXAMPLES = """
floe scan lake.db.orders --where "amount > 100 and ts >= '2024-01-01'" --limit 20
floe scan lake.db.orders -C customer,amount --format csv > orders.csv
floe scan lake.db.orders --as-of 7d -o last-week.parquet
floe scan lake.db.orders --where "customer is null" --count
floe scan lake.db.orders --where "ts >= '2024-01-01'" --explain
"""


class Format(StrEnum):
    """The forms that rows can be printed in."""

    table = "table"
    csv = "csv"
    json = "json"
    jsonl = "jsonl"
    parquet = "parquet"


def scan(
    table: TableName,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="FILTER", help="Only rows that pass a filter, as SQL.", show_default=False),
    ] = None,
    columns: Columns = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=0, metavar="N", help="No more rows than this.", show_default=False),
    ] = None,
    ref: Ref = None,
    snapshot: SnapshotId = None,
    as_of: AsOf = None,
    format_: Annotated[
        Format | None,
        typer.Option(
            "--format", "-f", help="The form of the rows; default: as FILE is named, or a table.", show_default=False
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to a file.", show_default=False),
    ] = None,
    records: Records = False,
    wide: Wide = False,
    count: Annotated[bool, typer.Option("--count", help="Only say how many rows there are.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Only say what would be read, and why.")] = False,
    catalog: CatalogOption = None,
    option: CatalogOptions = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Read the rows of a table, or some of them.

    All rows or those that pass a filter, now or as of some time. They are printed as they are read. On a terminal long
    texts are cut, and a wide table shows each row as a record; piped output is never cut.
    """
    chosen = work.reading.scan_of(
        table,
        catalog,
        catalog_options(option),
        rows_where=where,
        columns=columns or (),
        snapshot=snapshot,
        ref=ref,
        as_of=as_of,
        limit=limit,
    )
    if explain:
        work.reading.explain(chosen, as_json=json)
    elif count:
        work.reading.print_count(chosen, as_json=json)
    else:
        form = "json" if json else None if format_ is None else format_.value
        work.reading.print_rows(chosen, format_=form, to=to, records=records, wide=wide)
