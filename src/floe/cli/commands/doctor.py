"""`floe doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from floe.cli import work
from floe.cli.options import CatalogOption, CatalogOptions, Debug, Json, catalog_options

__all__ = ["EXAMPLES", "doctor"]

EXAMPLES = """
floe doctor                               the installation, the settings, the catalogs
floe doctor warehouse/db/orders           the health of a table
floe doctor lake.db.orders --full         with every file of every snapshot
floe doctor --catalog sqlite:///lake.db   whether a catalog answers, and its tables can be read
"""


def doctor(
    place: Annotated[
        str | None, typer.Argument(metavar="TABLE or PLACE", help="What to look at.", show_default=False)
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Look for every file of every snapshot, and for files nobody needs.")
    ] = False,
    catalog: CatalogOption = None,
    option: CatalogOptions = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Find out what is wrong, and what to do about it.

    Without a name it checks the installation and the settings. Nothing is changed. The exit code is 1 if there is an
    error.
    """
    work.diagnosis.examine(place, catalog, catalog_options(option), full=full, as_json=json)
