"""`make demo`: a table in a temporary folder, written, read back, evolved, deleted from, and seen as it was."""

from __future__ import annotations

import datetime as dt
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

import floe
import tiny_engine as engine
from floe import Table
from floe.table.scan import Scan

COLUMNS = "order_id bigint not null, customer string, amount decimal(10, 2), ts timestamptz not null"


def orders(day: dt.date, first_id: int, count: int) -> pa.Table:
    """Some orders of one day."""
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


def say(text: str) -> None:
    """A step of the story."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")


def indent(text: str) -> None:
    """Something that Floe says about itself."""
    print("\n".join(f"  {line}" for line in text.splitlines()))


def show(table: Table, scan: Scan | None = None) -> None:
    """The rows, and how much had to be read for them."""
    scan = table.scan() if scan is None else scan
    rows = engine.read(table, scan).sort_by("order_id")
    print(f"  {rows.num_rows} rows from {len(scan.files())} files")
    names = rows.column_names
    lines = [names, *([str(row[name]) for name in names] for row in rows.slice(0, 5).to_pylist())]
    widths = [max(len(line[n]) for line in lines) for n in range(len(names))]
    for line in lines:
        print("    " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    if rows.num_rows > 5:
        print(f"    … and {rows.num_rows - 5} more")


def main(warehouse: Path) -> Table:
    """The whole story, in a warehouse folder."""
    say("1. Connect to a folder and create a table, partitioned by day(ts) and bucket(4, order_id)")
    lake = floe.connect(warehouse)
    lake.create_namespace("db")
    table = lake.create_table("db.orders", COLUMNS, partition_by=["day(ts)", "bucket(4, order_id)"])
    indent(repr(table))

    say("2. Append two days of orders")
    first = engine.append(table, orders(dt.date(2026, 1, 1), 1, 8))
    engine.append(table, orders(dt.date(2026, 1, 2), 9, 8))
    for entry in table.history():
        indent(str(entry))

    say("3. Read back, with a filter on columns: hidden partitioning and column bounds leave files out")
    show(table)
    scan = table.scan(where="ts >= '2026-01-02' and amount < 12")
    show(table, scan)
    indent(scan.explain())

    say("4. Change the columns and the properties in one transaction; no file is rewritten")
    with table.transaction() as tx:
        tx.evolve().add_column("note", "string", after="customer").rename_column("amount", "total")
        tx.set_properties({"owner": "demo"})
    show(table, table.scan(where="order_id <= 2"))

    say("5. Upgrade to format version 3 and delete rows by deletion vectors")
    table.upgrade(3)
    engine.delete(table, "customer = 'bob' and total > 3")
    show(table)
    print(f"  counted from metadata alone: {table.scan().count()} rows")

    say("6. Write to a branch, look at it, and publish it")
    audit = table.branch("audit", create=True)
    more = orders(dt.date(2026, 1, 3), 17, 2).rename_columns({"amount": "total"})
    audit.append_files(engine.write_rows(table, more.append_column("note", pa.nulls(2, pa.string()))))
    print(f"  main has {table.scan().count()} rows, audit {audit.scan().count()}")
    table.fast_forward("main", "audit")
    print(f"  main has {table.scan().count()} rows after the fast-forward")

    say("7. Tag a snapshot and travel in time; the past has the columns of its time")
    assert first is not None
    table.create_tag("after-day-one", snapshot=first.snapshot_id)
    show(table, table.scan(ref="after-day-one"))

    say("8. What the table knows about itself, as Arrow")
    partitions = table.inspect.partitions(columns=["partition", "record_count", "file_count"])
    for row in partitions.slice(0, 3).to_pylist():
        print(f"  {row}")
    print(f"  … {partitions.num_rows} partitions in all")
    for entry in table.history():
        indent(str(entry))
    return table


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="floe-demo-") as folder:
        main(Path(folder) / "warehouse")
    print("\nDone; the temporary warehouse is gone. Every Iceberg engine can read what was in it (`make interop`).")
