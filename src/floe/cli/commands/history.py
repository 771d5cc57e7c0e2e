"""`floe history`."""

from __future__ import annotations

from typing import Annotated

import typer

from floe.cli import work
from floe.cli.options import CatalogOption, CatalogOptions, Debug, Json, TableName, catalog_options

__all__ = ["EXAMPLES", "history"]

EXAMPLES = """
floe history warehouse/db/orders
floe history lake.db.orders -n 20
floe history lake.db.orders --ref audit --json
"""


def history(
    table: TableName,
    ref: Annotated[
        str | None,
        typer.Option("--ref", metavar="NAME", help="Only what led to this branch or tag.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="The newest ones only.", show_default=False)
    ] = None,
    catalog: CatalogOption = None,
    option: CatalogOptions = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what happened to a table.

    Its snapshots, newest first, with branches, tags and rollbacks.

    Times are local; JSON has them in UTC.
    """
    work.snapshots.show_history(table, catalog, catalog_options(option), ref=ref, limit=limit, as_json=json)
