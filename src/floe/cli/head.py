"""`floe head`."""

from __future__ import annotations

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

__all__ = ["EXAMPLES", "head"]

EXAMPLES = """
floe head warehouse/db/orders
floe head lake.db.orders -n 3 --records
floe head lake.db.orders -C customer,amount --ref audit
"""


def head(
    table: TableName,
    rows: Annotated[int, typer.Option("--rows", "-n", min=0, metavar="N", help="How many rows.")] = 10,
    columns: Columns = None,
    ref: Ref = None,
    snapshot: SnapshotId = None,
    as_of: AsOf = None,
    records: Records = False,
    wide: Wide = False,
    catalog: CatalogOption = None,
    option: CatalogOptions = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the first rows of a table.

    As many files are read as are needed. A wide table shows each row as a record; NULL is a null, "NULL" a text.
    """
    chosen = work.reading.scan_of(
        table,
        catalog,
        catalog_options(option),
        columns=columns or (),
        snapshot=snapshot,
        ref=ref,
        as_of=as_of,
        limit=rows,
    )
    work.reading.print_rows(chosen, format_="json" if json else "table", records=records, wide=wide)
