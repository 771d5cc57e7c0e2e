"""The story that `floe demo` tells: a table written, read back, evolved, deleted from, branched, and seen as it was."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from floe.cli.output import Output
from floe.show.rows import RowStyle, row_lines
from floe.spec.metadata.snapshots import Snapshot
from floe.table.amounts import many
from floe.table.connecting import connect
from floe.table.scan import Scan
from floe.table.table import Table

__all__ = ["COLUMNS", "orders", "tell"]

_KEYS = "order_id bigint not null, customer string"
_FACTS = "amount decimal(10, 2), ts timestamptz not null"
COLUMNS = f"{_KEYS}, {_FACTS}"
_SHOWN = 5


def orders(day: dt.date, first_id: int, count: int) -> pa.Table:
    """Some orders of one day.

    >>> orders(dt.date(2026, 1, 1), 1, 2).select(["order_id", "customer"]).to_pylist()
    [{'order_id': 1, 'customer': 'ada'}, {'order_id': 2, 'customer': 'bob'}]
    """
    names = ["ada", "bob", "cyd", None]
    start = dt.datetime.combine(day, dt.time(8), dt.UTC)
    return pa.table(
        {
            "order_id": pa.array(range(first_id, first_id + count), pa.int64()),
            "customer": [names[n % 4] for n in range(count)],
            "amount": pa.array([Decimal(n * 5) + Decimal("0.99") for n in range(count)], pa.decimal128(10, 2)),
            "ts": pa.array([start + dt.timedelta(minutes=37 * n) for n in range(count)], pa.timestamp("us", "UTC")),
        }
    )


def tell(warehouse: str, out: Output) -> Table:
    """The whole story, in a warehouse folder; gives the table that it leaves there."""
    page = _Page(out)
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
    lake = connect(warehouse)
    lake.create_namespace("db")
    t = lake.create_table("db.orders", COLUMNS, partition_by=["day(ts)", "bucket(4, order_id)"])
    page.text(repr(t))

    page.step("Append two days of orders; each is one commit", "t.append(monday)", "t.append(tuesday)")
    first = t.append(orders(dt.date(2026, 1, 1), 1, 8))
    t.append(orders(dt.date(2026, 1, 2), 9, 8))
    page.history(t)

    page.step(
        "Read back, with a filter on columns: hidden partitioning and column bounds leave files out",
        "t.scan().to_arrow()",
        "t.scan(where=\"ts >= '2026-01-02' and amount < 12\").to_arrow()",
    )
    page.rows(t.scan())
    cheap = t.scan(where="ts >= '2026-01-02' and amount < 12")
    page.rows(cheap)
    page.text(cheap.explain())

    page.step(
        "Change columns and properties in one transaction; no file is rewritten",
        "with t.transaction() as tx:",
        '    tx.evolve().add_column("note", "string", after="customer").rename_column("amount", "total")',
        '    tx.set_properties({"owner": "demo"})',
    )
    with t.transaction() as tx:
        tx.evolve().add_column("note", "string", after="customer").rename_column("amount", "total")
        tx.set_properties({"owner": "demo"})
    page.rows(t.scan(where="order_id <= 2"))

    page.step(
        "Upgrade to format version 3, and delete rows by deletion vectors",
        "t.upgrade(3)",
        't.set_properties({"write.delete.mode": "merge-on-read"})',
        "t.delete(\"customer = 'bob' and total > 3\")",
        "t.scan().count()",
    )
    t.upgrade(3)
    t.set_properties({"write.delete.mode": "merge-on-read"})
    t.delete("customer = 'bob' and total > 3")
    page.rows(t.scan())
    page.text(f"counted from metadata alone: {many(t.scan().count(), 'row')}")

    page.step(
        "Write to a branch, look at it, and publish it",
        'audit = t.branch("audit", create=True)',
        "audit.append(wednesday)",
        't.fast_forward("main", "audit")',
    )
    audit = t.branch("audit", create=True)
    audit.append(orders(dt.date(2026, 1, 3), 17, 2).rename_columns({"amount": "total"}))
    page.text(f"main has {many(t.scan().count(), 'row')}, audit {audit.scan().count()}")
    t.fast_forward("main", "audit")
    page.text(f"main has {many(t.scan().count(), 'row')} after the fast-forward")

    page.step(
        "Tag a snapshot and travel in time; the past has the columns of its time",
        't.create_tag("after-day-one", snapshot=first.snapshot_id)',
        't.scan(ref="after-day-one").to_arrow()',
    )
    assert isinstance(first, Snapshot)
    t.create_tag("after-day-one", snapshot=first.snapshot_id)
    page.rows(t.scan(ref="after-day-one"))

    page.step(
        "What the table knows about itself, as Arrow", 't.inspect.partitions(columns=["partition", "record_count"])'
    )
    partitions = t.inspect.partitions(columns=["partition", "record_count"])
    page.text("\n".join(str(row) for row in partitions.slice(0, 3).to_pylist()))
    page.text(f"… {many(partitions.num_rows, 'partition')} in all")
    page.history(t)
    return t


class _Page:
    """Where the story is written: steps with a number, the code of each, and what it gives."""

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
        """The first rows, how many there are, and how much had to be read for them."""
        rows = scan.to_arrow().sort_by("order_id")
        self.text(f"{many(rows.num_rows, 'row')} from {many(len(scan.files()), 'file')}")
        shown: Sequence[pa.RecordBatch] = rows.slice(0, _SHOWN).to_batches()
        width = None if self._out.width is None else self._out.width - 4
        self._out.lines(f"    {line}" for line in row_lines(scan.schema, shown, RowStyle(self._out.paint, width)))
        if rows.num_rows > _SHOWN:
            self.text(f"  … and {rows.num_rows - _SHOWN} more")
