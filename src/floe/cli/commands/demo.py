"""`floe demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from floe.cli import work
from floe.cli.options import Debug, Json

__all__ = ["EXAMPLES", "demo"]

EXAMPLES = """
floe demo                in a temporary folder
floe demo warehouse      in a folder that stays, to look at afterwards
"""


def demo(
    folder: Annotated[
        str | None, typer.Argument(metavar="FOLDER", help="A folder for the table; it stays.", show_default=False)
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary folder.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """See a table made, written, read, changed and travelled through."""
    work.demonstration.demonstrate(folder, keep=keep, as_json=json)
