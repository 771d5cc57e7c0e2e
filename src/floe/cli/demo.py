"""`floe demo`: writes, reads, evolves, deletes from and branches a new table, and prints the code of each step.

Each step is a function that runs the code which it prints.
"""

from __future__ import annotations

import datetime as dt
import io
import os
import shutil
import tempfile
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

import floe
from floe import show
from floe.cli.arguments import Debug, Json
from floe.errors import InvalidInput
from floe.show.terminal import PLAIN, Output, stdout
from floe.spec.properties import WRITE_MODES
from floe.table.human_values import many

if TYPE_CHECKING:  # `floe demo --help` needs no table
    from floe.table.scan import Scan
    from floe.table.table import Table

EXAMPLES = """
floe demo                in a temporary folder
floe demo warehouse      in a folder that is kept
"""

_KEYS = "order_id bigint not null, customer string"
_FACTS = "amount decimal(10, 2), ts timestamptz not null"
COLUMNS = f"{_KEYS}, {_FACTS}"
_MAX_ROWS = 5


def demo(
    folder: Annotated[
        str | None, typer.Argument(metavar="FOLDER", help="A folder for the table; it is kept.", show_default=False)
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary folder.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what Floe can do, on a new table."""
    out = stdout()
    keep = keep or folder is not None
    if folder is not None and os.path.exists(os.path.join(folder, "db", "orders")):
        raise InvalidInput("the folder has a table db.orders already", hint="choose another folder", folder=folder)
    parent = tempfile.mkdtemp(prefix="floe-demo-") if folder is None else folder
    warehouse = os.path.join(parent, "warehouse") if folder is None else folder
    path = os.path.join(warehouse, "db", "orders")
    try:
        table = run_steps(warehouse, Output(io.StringIO(), PLAIN, None) if json else out)
        if json:
            rows = table.scan().count()
            out.json({"table": path, "kept": keep, "rows": rows, "snapshots": len(table.snapshots)})
        else:
            _print_end(out, path, keep)
    finally:
        if not keep:
            shutil.rmtree(parent, ignore_errors=True)


def _print_end(out: Output, table: str, keep: bool) -> None:
    out.line()
    if keep:
        out.line(f"Done. The table is in {table}; every Iceberg engine can read it. Look at it:")
        out.lines(f"  floe {command} {table}" for command in ("show", "history", "head", "doctor"))
    else:
        out.line("Done; the temporary folder is removed. `floe demo FOLDER` keeps the table, for any Iceberg engine.")


def run_steps(warehouse: str, out: Output) -> Table:
    """Run and print all steps in a warehouse folder; returns the table."""
    page = _Page(out)
    table = _create(page, warehouse)
    for step in (_append, _read, _evolve, _delete, _branch, _travel, _inspect):
        step(page, table)
    return table


def orders(day: dt.date, first_id: int, count: int) -> list[dict[str, Any]]:
    """Orders of one day.

    >>> [(row["order_id"], row["customer"]) for row in orders(dt.date(2026, 1, 1), 1, 2)]
    [(1, 'ada'), (2, 'bob')]
    """
    customers = ["ada", "bob", "cyd", None]
    start = dt.datetime.combine(day, dt.time(8), dt.UTC)
    return [
        {
            "order_id": first_id + n,
            "customer": customers[n % 4],
            "amount": Decimal(n * 5) + Decimal("0.99"),
            "ts": start + dt.timedelta(minutes=37 * n),
        }
        for n in range(count)
    ]


def _create(page: _Page, warehouse: str) -> Table:
    page.step(
        "Connect to a folder and create a table, partitioned by day and by bucket",
        "lake = floe.connect(warehouse)",
        'lake.create_namespace("db")',
        "t = lake.create_table(",
        '    "db.orders",',
        f'    "{_KEYS}, "',
        f'    "{_FACTS}",',
        '    partition_by=["day(ts)", "bucket(4, order_id)"],',
        ")",
    )
    lake = floe.connect(warehouse)
    lake.create_namespace("db")
    table = lake.create_table("db.orders", COLUMNS, partition_by=["day(ts)", "bucket(4, order_id)"])
    page.text(repr(table))
    return table


def _append(page: _Page, t: Table) -> None:
    page.step("Append two days of orders; each append is one commit", "t.append(monday)", "t.append(tuesday)")
    t.append(orders(dt.date(2026, 1, 1), 1, 8))
    t.append(orders(dt.date(2026, 1, 2), 9, 8))
    page.history(t)


def _read(page: _Page, t: Table) -> None:
    page.step(
        "Read with a filter on columns: hidden partitioning and column bounds skip files",
        "t.scan().to_arrow()",
        "t.scan(where=\"ts >= '2026-01-02' and amount < 12\").to_arrow()",
    )
    page.rows(t.scan())
    cheap = t.scan(where="ts >= '2026-01-02' and amount < 12")
    page.rows(cheap)
    page.text(cheap.explain())


def _evolve(page: _Page, t: Table) -> None:
    page.step(
        "Change columns and properties in one transaction; no data file is rewritten",
        "with t.transaction() as tx:",
        '    tx.evolve().add_column("note", "string", after="customer").rename_column("amount", "total")',
        '    tx.set_properties({"owner": "demo"})',
    )
    with t.transaction() as tx:
        tx.evolve().add_column("note", "string", after="customer").rename_column("amount", "total")
        tx.set_properties({"owner": "demo"})
    page.rows(t.scan(where="order_id <= 2"))


def _delete(page: _Page, t: Table) -> None:
    page.step(
        "Upgrade to format version 3, and delete rows with deletion vectors",
        "t.upgrade(3)",
        't.set_properties({"write.delete.mode": "merge-on-read"})',
        "t.delete(\"customer = 'bob' and total > 3\")",
        "t.scan().count()",
    )
    t.upgrade(3)
    t.set_properties({WRITE_MODES["delete"].name: "merge-on-read"})
    t.delete("customer = 'bob' and total > 3")
    page.rows(t.scan())
    page.text(f"counted from metadata alone: {many(t.scan().count(), 'row')}")


def _branch(page: _Page, t: Table) -> None:
    page.step(
        "Write to a branch, read it, and publish it",
        'audit = t.branch("audit", create=True)',
        "audit.append(wednesday)",
        't.fast_forward("main", "audit")',
    )
    audit = t.branch("audit", create=True)
    audit.append([{"total": row.pop("amount"), **row} for row in orders(dt.date(2026, 1, 3), 17, 2)])
    page.text(f"main has {many(t.scan().count(), 'row')}, audit {audit.scan().count()}")
    t.fast_forward("main", "audit")
    page.text(f"main has {many(t.scan().count(), 'row')} after the fast-forward")


def _travel(page: _Page, t: Table) -> None:
    page.step(
        "Tag a snapshot and travel in time; an old snapshot has the columns of its time",
        "first = t.snapshots[0]",
        't.create_tag("after-day-one", snapshot=first.snapshot_id)',
        't.scan(ref="after-day-one").to_arrow()',
    )
    first = t.snapshots[0]
    t.create_tag("after-day-one", snapshot=first.snapshot_id)
    page.rows(t.scan(ref="after-day-one"))


def _inspect(page: _Page, t: Table) -> None:
    page.step("Read the metadata tables as Arrow", 't.inspect.partitions(columns=["partition", "record_count"])')
    partitions = t.inspect.partitions(columns=["partition", "record_count"])
    page.text("\n".join(str(row) for row in partitions.slice(0, 3).to_pylist()))
    page.text(f"… {many(partitions.num_rows, 'partition')} in all")
    page.history(t)


class _Page:
    """Prints the steps: a numbered title, the code, and the results."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._number = 0

    def step(self, title: str, *code: str) -> None:
        self._number += 1
        self._out.line()
        self._out.line(self._out.paint(f"{self._number}. {title}", "bold"))
        for line in code:
            prompt = "..." if line[0] in " )" else ">>>"
            self._out.line(self._out.paint(f"  {prompt} {line}", "cyan"))

    def text(self, text: str) -> None:
        self._out.lines(f"  {line}" for line in text.splitlines())

    def history(self, table: Table) -> None:
        self._out.lines(f"  {entry}" for entry in table.history())

    def rows(self, scan: Scan) -> None:
        """Print the first rows, the number of rows, and the number of files that were read."""
        rows = scan.to_arrow().sort_by("order_id")
        self.text(f"{many(rows.num_rows, 'row')} from {many(len(scan.files()), 'file')}")
        width = None if self._out.width is None else self._out.width - 4
        style = show.RowStyle(self._out.paint, width)
        lines = show.row_lines(scan.schema, rows.slice(0, _MAX_ROWS).to_batches(), style)
        self._out.lines(f"    {line}" for line in lines)
        if rows.num_rows > _MAX_ROWS:
            self.text(f"  … and {rows.num_rows - _MAX_ROWS} more")
