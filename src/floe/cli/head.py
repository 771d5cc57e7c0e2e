"""`floe head`: the first rows of a table."""

from __future__ import annotations

from typing import Annotated

import typer

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
)
from floe.cli.scan import open_scan, print_rows

EXAMPLES = """
floe head warehouse/db/orders
floe head lake.db.orders -n 3 --records
floe head lake.db.orders -C customer,amount --ref audit
"""


def head(
    table: TableName,
    rows: Annotated[int, typer.Option("--rows", "-n", min=0, metavar="N", help="The number of rows.")] = 10,
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

    Only as many files are read as are needed. A row that is too wide for the terminal is printed as a record. NULL is a
    null, "NULL" a string.
    """
    arguments = CatalogArguments(catalog, catalog_options(option))
    scan = open_scan(table, arguments, columns=columns, snapshot=snapshot, ref=ref, as_of=as_of, limit=rows)
    print_rows(scan, format_="json" if json else "table", records=records, wide=wide)
