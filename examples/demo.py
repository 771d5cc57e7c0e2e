"""`make demo`: a table in a temporary folder, written, read back, evolved, deleted from, and seen as it was."""

from __future__ import annotations

import datetime as dt
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from floe.spec.metadata.refs import SnapshotRef
from floe.spec.metadata.updates import AddSchema, SetCurrentSchema, SetSnapshotRef, UpgradeFormatVersion
from floe.spec.partitioning.building import build_spec
from floe.spec.schemas.evolution import SchemaUpdate
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, STRING, TIMESTAMPTZ, DecimalType, Field
from tiny_engine import Clock, Scan, TinyTable

ORDERS = Schema(
    (
        Field(1, "order_id", LONG, required=True),
        Field(2, "customer", STRING),
        Field(3, "amount", DecimalType(10, 2)),
        Field(4, "ts", TIMESTAMPTZ, required=True),
    )
)


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


def show(scan: Scan) -> None:
    """The rows, and how much had to be read for them."""
    rows = scan.rows.sort_by("order_id")
    print(f"  {rows.num_rows} rows, {scan.files_read} of {scan.files_total} files read")
    names = rows.column_names
    lines = [names, *([str(row[name]) for name in names] for row in rows.slice(0, 5).to_pylist())]
    widths = [max(len(line[n]) for line in lines) for n in range(len(names))]
    for line in lines:
        print("    " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    if rows.num_rows > 5:
        print(f"    … and {rows.num_rows - 5} more")


def main(folder: Path) -> TinyTable:
    """The whole story, in a folder."""
    say("1. Create a table: format version 2, partitioned by day(ts) and bucket(4, order_id)")
    table = TinyTable.create(folder, Clock(), ORDERS, build_spec(ORDERS, ["day(ts)", "bucket(4, order_id)"]))
    print(f"  {table.metadata_file}")
    print("  " + str(table.metadata.schema).replace("\n", "\n  "))

    say("2. Append two days of orders")
    first = table.append(orders(dt.date(2026, 1, 1), 1, 8))
    second = table.append(orders(dt.date(2026, 1, 2), 9, 8))
    for snapshot in (first, second):
        summary = snapshot.summary or {}
        print(f"  snapshot {snapshot.snapshot_id}: {snapshot.operation}, {summary['added-records']} rows in", end=" ")
        print(f"{summary['added-data-files']} files, {summary['total-records']} rows in all")

    say("3. Read back, with a filter on columns: hidden partitioning and column bounds leave files out")
    show(table.scan())
    show(table.scan("ts >= '2026-01-02T00:00:00+00:00' and amount < 12"))
    show(table.scan("order_id in (3, 11)"))

    say("4. Evolve the schema: add a column, rename another; no file is rewritten")
    metadata = table.metadata
    update = SchemaUpdate(metadata.schema, format_version=2, last_column_id=metadata.last_column_id)
    evolved = update.add_column("note", STRING, after="customer").rename_column("amount", "total").apply()
    table.update(AddSchema(evolved), SetCurrentSchema(-1))
    show(table.scan("order_id <= 2"))

    say("5. Upgrade to format version 3 and delete rows by a deletion vector")
    table.update(UpgradeFormatVersion(3))
    table.delete("customer = 'bob' and total > 3")
    show(table.scan())

    say("6. Tag a snapshot and travel in time")
    table.update(SetSnapshotRef("after-day-one", SnapshotRef(snapshot_id=first.snapshot_id, type="tag")))
    tagged = table.metadata.snapshot_of_ref("after-day-one")
    show(table.scan(snapshot=tagged.snapshot_id))
    earlier = table.metadata.snapshot_as_of(second.timestamp_ms)
    show(table.scan(snapshot=earlier.snapshot_id))

    say("7. The history, from the metadata")
    for entry in table.metadata.snapshot_log:
        snapshot = table.metadata.snapshot(entry.snapshot_id)
        when = dt.datetime.fromtimestamp(entry.timestamp_ms / 1000, dt.UTC)
        print(f"  {when:%Y-%m-%d %H:%M}  {snapshot.operation:<8} {snapshot.snapshot_id}")
    return table


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="floe-demo-") as warehouse:
        main(Path(warehouse) / "db" / "orders")
    print("\nDone; the temporary warehouse is gone. Every Iceberg engine can read what was in it (`make interop`).")
