"""`floe load`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from floe.cli import work
from floe.cli.options import CatalogOption, CatalogOptions, Debug, Json, TableName, catalog_options, pairs_of

__all__ = ["EXAMPLES", "FileFormat", "Mode", "load"]

EXAMPLES = """
floe load orders.parquet lake.db.orders
floe load 'data/*.csv' warehouse/db/orders --create --partition-by 'day(ts)'
floe load - lake.db.events --format jsonl < events.jsonl
floe load new.csv lake.db.orders --mode upsert --on order_id
floe load fixed.parquet lake.db.orders --mode overwrite --where "day = '2024-05-17'"
"""


class Mode(StrEnum):
    """What becomes of the rows that are there."""

    append = "append"
    overwrite = "overwrite"
    overwrite_partitions = "overwrite-partitions"
    upsert = "upsert"


class FileFormat(StrEnum):
    """The formats of files that can be loaded."""

    parquet = "parquet"
    orc = "orc"
    avro = "avro"
    csv = "csv"
    jsonl = "jsonl"


def load(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES",
            help="Parquet, ORC, Avro, CSV or JSON lines: files, folders, patterns in quotes, or - for standard input.",
            show_default=False,
        ),
    ],
    table: TableName,
    create: Annotated[bool, typer.Option("--create", help="Make the table from the data, if there is none.")] = False,
    mode: Annotated[Mode, typer.Option("--mode", "-m", help="What becomes of the rows that are there.")] = Mode.append,
    on: Annotated[
        list[str] | None,
        typer.Option("--on", metavar="A,B", help="The key of an upsert; default: the table's key.", show_default=False),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="FILTER", help="The rows that overwrite replaces.", show_default=False),
    ] = None,
    merge_schema: Annotated[
        bool, typer.Option("--merge-schema", help="Add columns that only the data has, and widen types.")
    ] = False,
    format_: Annotated[
        FileFormat | None,
        typer.Option("--format", "-f", help="The format of the files; default: by their names.", show_default=False),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="COLUMNS",
            help="With --create: the columns, as 'id bigint not null, ts timestamptz'; default: as the data has them.",
            show_default=False,
        ),
    ] = None,
    partition_by: Annotated[
        list[str] | None,
        typer.Option("--partition-by", metavar="TERM", help="With --create: such as 'day(ts)'.", show_default=False),
    ] = None,
    sort_by: Annotated[
        list[str] | None,
        typer.Option("--sort-by", metavar="TERM", help="With --create: such as 'ts desc'.", show_default=False),
    ] = None,
    format_version: Annotated[
        int | None,
        typer.Option("--format-version", min=1, max=3, metavar="N", help="With --create.", show_default=False),
    ] = None,
    property_: Annotated[
        list[str] | None,
        typer.Option("--property", "-p", metavar="KEY=VALUE", help="With --create.", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Make the namespace too, without asking.")] = False,
    delimiter: Annotated[
        str | None,
        typer.Option(
            "--delimiter",
            metavar="TEXT",
            help="What stands between the fields of a CSV file; default: what its first lines tell.",
            show_default=False,
        ),
    ] = None,
    null: Annotated[
        list[str] | None,
        typer.Option("--null", metavar="TEXT", help="What means null in CSV; default: nothing.", show_default=False),
    ] = None,
    header: Annotated[
        bool, typer.Option("--header/--no-header", help="Whether the first line of CSV names the columns.")
    ] = True,
    catalog: CatalogOption = None,
    option: CatalogOptions = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Load files into a table, in one commit.

    Columns are matched by name. On any error the table is as it was.
    """
    if on and mode is not Mode.upsert:
        raise typer.BadParameter("--on belongs to --mode upsert", param_hint="--on")
    if where is not None and mode is not Mode.overwrite:
        raise typer.BadParameter("--where belongs to --mode overwrite", param_hint="--where")
    asked = work.loading.Load(
        files,
        mode.value,
        on or (),
        where,
        merge_schema,
        None if format_ is None else format_.value,
        work.loading.TextOptions(delimiter, tuple(null or ("",)), header),
    )
    layout = work.loading.Layout(
        schema, partition_by or (), sort_by or (), format_version, pairs_of("--property", property_) or None
    )
    work.loading.load(
        asked,
        table,
        catalog,
        catalog_options(option),
        create=create,
        layout=layout,
        consent=yes,
        as_json=json,
    )
