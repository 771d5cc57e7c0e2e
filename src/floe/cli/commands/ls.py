"""`floe ls`."""

from __future__ import annotations

from typing import Annotated

import typer

from floe.cli import work
from floe.cli.options import CatalogOption, CatalogOptions, Debug, Json, catalog_options

__all__ = ["EXAMPLES", "ls"]

EXAMPLES = """
floe ls warehouse                  everything in a folder
floe ls --long lake.db             the tables of a namespace, with their sizes
floe ls sqlite:///lake.db --json   for programs
"""


def ls(
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="PLACE",
            help="A warehouse folder, sqlite:///lake.db, postgresql://host/db, a catalog of floe.toml, or a namespace "
            "of one (lake.db). Default: the default catalog.",
            show_default=False,
        ),
    ] = None,
    long: Annotated[
        bool, typer.Option("--long", "-l", help="Rows, files, size and last change of each table.")
    ] = False,
    catalog: CatalogOption = None,
    option: CatalogOptions = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the namespaces, tables and views of a catalog."""
    work.listing.list_place(place, catalog, catalog_options(option), long=long, as_json=json)
