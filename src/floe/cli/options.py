"""The arguments and options that commands share."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from floe import cli


def _set_debug(context: typer.Context, value: bool) -> bool:
    if value:
        context.ensure_object(dict)["debug"] = True
    return value


def _complete_table(incomplete: str) -> list[str]:
    return cli.names.complete_table(incomplete)


TableName: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="The table: warehouse/db/orders (a folder, or a metadata file), lake.db.orders (lake is a catalog of"
        " floe.toml), or db.orders with --catalog or a default catalog.",
        autocompletion=_complete_table,
        show_default=False,
    ),
]
CatalogOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        "-c",
        metavar="URI",
        help="The catalog: a folder, sqlite:///lake.db, postgresql://host/db, or a name from floe.toml.",
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
        "prefixes=/old=/new for a table that was moved. Repeat it for more.",
        show_default=False,
    ),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Debug: TypeAlias = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", callback=_set_debug, expose_value=True)
]
SnapshotId: TypeAlias = Annotated[
    int | None, typer.Option("--snapshot", metavar="ID", help="Read this snapshot.", show_default=False)
]
Ref: TypeAlias = Annotated[
    str | None, typer.Option("--ref", metavar="NAME", help="Read this branch or tag.", show_default=False)
]
AsOf: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="Read the table as of this time: 2024-05-17, 2024-05-17T10:00:00Z, or an age such as 7d. The default time"
        " zone is UTC.",
        show_default=False,
    ),
]
Columns: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        "-C",
        metavar="A,B",
        help="Read only these columns, in this order; write a.b for a nested field.",
        show_default=False,
    ),
]
Records: TypeAlias = Annotated[bool, typer.Option("--records", "-r", help="Print one line for each column of a row.")]
Wide: TypeAlias = Annotated[bool, typer.Option("--wide", "-w", help="Print complete lines; cut nothing.")]


def key_values(option: str, texts: list[str] | None) -> dict[str, str]:
    """Parse the values of an option that are written as KEY=VALUE.

    >>> key_values("--option", ["warehouse=wh", "s3.region=eu=1"])
    {'warehouse': 'wh', 's3.region': 'eu=1'}
    """
    pairs = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"expected KEY=VALUE, found {text!r}", param_hint=option)
        pairs[key.strip()] = value
    return pairs


def catalog_options(texts: list[str] | None) -> dict[str, Any]:
    """Parse the options of a catalog and its storage into the types that `floe.connect` takes.

    >>> catalog_options(["warehouse=wh", "prefixes=/old=/new", "durable=false"])
    {'warehouse': 'wh', 'durable': False, 'prefixes': {'/old': '/new'}}
    """
    options: dict[str, Any] = {}
    for key, value in key_values(
        "--option", [text for text in texts or () if not text.startswith("prefixes=")]
    ).items():
        if key == "max_read_bytes" and value.isdigit():
            options[key] = int(value)
        elif key == "roots":
            options[key] = value.split(",")
        elif key == "durable":
            options[key] = value.lower() != "false"
        else:
            options[key] = value
    prefixes = [text.removeprefix("prefixes=") for text in texts or () if text.startswith("prefixes=")]
    if prefixes:
        options["prefixes"] = key_values("--option prefixes", prefixes)
    return options


def split_names(texts: list[str] | None) -> list[str]:
    """Names of columns that are separated by commas, or given one by one.

    >>> split_names(["a, b", "c"])
    ['a', 'b', 'c']
    """
    return [name.strip() for text in texts or () for name in text.split(",") if name.strip()]
