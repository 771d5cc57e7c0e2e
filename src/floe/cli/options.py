"""The arguments and options that commands share."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from floe.cli import work

__all__ = [
    "AsOf",
    "CatalogOption",
    "CatalogOptions",
    "Columns",
    "Debug",
    "Json",
    "Records",
    "Ref",
    "SnapshotId",
    "TableName",
    "Wide",
    "catalog_options",
    "pairs_of",
]


def _debug(context: typer.Context, value: bool) -> bool:
    if value:
        context.ensure_object(dict)["debug"] = True
    return value


def _names(incomplete: str) -> list[str]:
    return work.completion.names(incomplete)


TableName: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="A table: warehouse/db/orders (a folder, or a metadata file), lake.db.orders (lake of floe.toml), or"
        " db.orders of --catalog or of the default catalog.",
        autocompletion=_names,
        show_default=False,
    ),
]
CatalogOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        "-c",
        metavar="URI",
        help="The catalog: a folder, sqlite:///lake.db, postgresql://host/db, or a name of floe.toml.",
        show_default=False,
    ),
]
CatalogOptions: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-O",
        metavar="KEY=VALUE",
        help="An option of the catalog or its storage, such as warehouse=s3://bucket/wh, s3.region=eu-west-1, or "
        "prefixes=/old=/new for a table that was moved.",
        show_default=False,
    ),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Debug: TypeAlias = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", callback=_debug, expose_value=True)
]
SnapshotId: TypeAlias = Annotated[
    int | None, typer.Option("--snapshot", metavar="ID", help="As of this snapshot.", show_default=False)
]
Ref: TypeAlias = Annotated[
    str | None, typer.Option("--ref", metavar="NAME", help="As of this branch or tag.", show_default=False)
]
AsOf: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="As of this time: 2024-05-17, 2024-05-17T10:00:00Z, or an age such as 7d. No zone means UTC.",
        show_default=False,
    ),
]
Columns: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        "-C",
        metavar="A,B",
        help="These columns only, in this order; inner ones as a.b.",
        show_default=False,
    ),
]
Records: TypeAlias = Annotated[bool, typer.Option("--records", "-r", help="One line for each column of a row.")]
Wide: TypeAlias = Annotated[bool, typer.Option("--wide", "-w", help="Lines as long as they are; nothing is cut.")]


def pairs_of(option: str, given: list[str] | None) -> dict[str, str]:
    """Options that were given as KEY=VALUE.

    >>> pairs_of("--option", ["warehouse=wh", "s3.region=eu=1"])
    {'warehouse': 'wh', 's3.region': 'eu=1'}
    """
    pairs = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"expected KEY=VALUE, found {text!r}", param_hint=option)
        pairs[key.strip()] = value
    return pairs


def catalog_options(given: list[str] | None) -> dict[str, Any]:
    """Options of a catalog and its storage, in the types that `floe.connect` takes.

    >>> catalog_options(["warehouse=wh", "prefixes=/old=/new", "durable=false"])
    {'warehouse': 'wh', 'durable': False, 'prefixes': {'/old': '/new'}}
    """
    options: dict[str, Any] = {}
    for key, value in pairs_of("--option", [text for text in given or () if not text.startswith("prefixes=")]).items():
        if key == "max_read_bytes" and value.isdigit():
            options[key] = int(value)
        elif key == "roots":
            options[key] = value.split(",")
        elif key == "durable":
            options[key] = value.lower() != "false"
        else:
            options[key] = value
    moved = [text.removeprefix("prefixes=") for text in given or () if text.startswith("prefixes=")]
    if moved:
        options["prefixes"] = pairs_of("--option prefixes", moved)
    return options
