"""`floe show`."""

from __future__ import annotations

from floe.cli import work
from floe.cli.options import CatalogOption, CatalogOptions, Debug, Json, TableName, catalog_options

__all__ = ["EXAMPLES", "show"]

EXAMPLES = """
floe show warehouse/db/orders
floe show db.orders --catalog sqlite:///lake.db
floe show lake.db.orders --json
"""


def show(
    table: TableName,
    catalog: CatalogOption = None,
    option: CatalogOptions = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what a table is.

    Columns, partitioning, order, snapshot, branches and tags, sizes and properties, told from its metadata alone.
    """
    work.showing.show_table(table, catalog, catalog_options(option), as_json=json)
