"""Tables that the embedded engine fills and changes in every way, with a model of what each snapshot must hold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from floe import Lake, Table

Row = dict[str, Any]
Rows = list[Row]

COLUMNS = (
    "id bigint not null, part string, day date, amount decimal(9, 2), price double, at timestamptz, local timestamp, "
    "ok boolean, n int, code binary, place struct<x: int, y: double>, tags array<string>, counts map<string, bigint>"
)
PARTS = ("a", "b", None, "ü/c d")
_START = dt.datetime(1961, 3, 1, 22, 30, 0, 250_000, tzinfo=dt.UTC)

FILE_FORMATS = ("parquet", "orc", "avro")
KINDS = [
    (version, mode)
    for version in (1, 2, 3)
    for mode in ("copy-on-write", "merge-on-read")
    if (version, mode) != (1, "merge-on-read")  # which has no deletes
]
PARTITIONINGS: dict[str, list[str]] = {"whole": [], "parts": ["part"], "mixed": ["bucket(3, id)", "month(at)"]}


def new_rows(ids: Iterable[int], **fixed: Any) -> Rows:
    """Rows with these ids; some values are null."""
    return [
        {
            "id": n,
            "part": PARTS[n % len(PARTS)],
            "day": dt.date(1969, 12, 30) + dt.timedelta(days=n),
            "amount": None if n % 7 == 3 else Decimal(n * 325 - 1000).scaleb(-2),
            "price": None if n % 5 == 4 else n * 0.25 - 2,
            "at": None if n % 11 == 10 else _START + dt.timedelta(hours=701 * n, microseconds=n),
            "local": dt.datetime(2024, 2, 29, 23, 59, 59, n),
            "ok": None if n % 3 == 2 else n % 2 == 0,
            "n": -n,
            "code": bytes([n % 256, 255]) if n % 4 else None,
            "place": None if n % 6 == 5 else {"x": n, "y": None if n % 4 == 1 else n / 4},
            "tags": None if n % 9 == 8 else [f"t{n % 3}", None][: n % 3],
            "counts": None if n % 8 == 7 else [("one", n), ("two", None)][: n % 3],
            **fixed,
        }
        for n in ids
    ]


@dataclass
class Life:
    """A table, and its rows by id as they must be now and were at every snapshot."""

    table: Table
    now: dict[int, Row] = field(default_factory=dict)
    then: dict[int, Rows] = field(default_factory=dict)

    @property
    def rows(self) -> Rows:
        """The rows as they are now."""
        return list(self.now.values())

    def saw(self) -> None:
        """Note what the newest snapshot must hold."""
        snapshot = self.table.refresh().current_snapshot
        assert snapshot is not None
        self.then[snapshot.snapshot_id] = [dict(row) for row in self.rows]

    def put(self, rows: Rows) -> None:
        """Note that rows are there, in place of those with the same ids."""
        self.now.update((row["id"], row) for row in rows)

    def drop(self, gone: Callable[[Row], bool]) -> None:
        """Note that rows are gone."""
        self.now = {n: row for n, row in self.now.items() if not gone(row)}


def live(lake: Lake, name: str, version: int, mode: str, file_format: str, partitioning: str) -> Life:
    """Make a table, and do to it everything that the engine can."""
    properties = {
        "write.format.default": file_format,
        **{f"write.{what}.mode": mode for what in ("delete", "update", "merge")},
    }
    life = Life(
        lake.create_table(
            name,
            COLUMNS,
            partition_by=PARTITIONINGS[partitioning],
            properties=properties,
            format_version=version,
        )
    )
    _append_and_delete(life)
    _update_and_merge(life)
    _evolve(life)
    _overwrite(life)
    return life


def _append_and_delete(life: Life) -> None:
    table = life.table
    for ids in (range(40), range(40, 70)):
        rows = new_rows(ids)
        table.append(rows)
        life.put(rows)
        life.saw()
    table.delete("id % 5 = 0")
    life.drop(lambda row: row["id"] % 5 == 0)
    life.saw()
    table.delete("part = 'b'")  # whole files, where the table is partitioned by it
    life.drop(lambda row: row["part"] == "b")
    life.saw()


def _update_and_merge(life: Life) -> None:
    table = life.table
    table.update({"amount": "amount + 1.25", "code": "null"}, where="id > 50")
    for row in life.rows:
        if row["id"] > 50:
            row["amount"] = None if row["amount"] is None else row["amount"] + Decimal("1.25")
            row["code"] = None
    life.saw()
    source = new_rows([*range(60, 66), *range(80, 90)], price=9.5)
    merge = table.merge(source, on="target.id = source.id")
    merge.when_matched_delete("source.id = 62").when_matched_update_all().when_not_matched_insert_all().execute()
    assert 62 in life.now
    life.put(source)
    life.drop(lambda row: row["id"] == 62)
    life.saw()
    rows = new_rows([1, 2, 100], price=-1.0)
    table.upsert(rows, on=["id"])
    life.put(rows)
    life.saw()


def _evolve(life: Life) -> None:
    table = life.table
    table.evolve().rename_column("n", "m").promote("m", "bigint").add_column("note", "string").commit()
    table.evolve().move_column("m", after="id").drop_column("ok").commit()
    if table.spec.is_unpartitioned:
        table.update_spec().add_field("truncate(10, m)").commit()
    for row in life.rows:
        row["m"], row["note"] = row.pop("n"), None
        row.pop("ok")
    rows = [_later(row) for row in new_rows(range(110, 120))]
    table.append(rows)
    life.put(rows)
    life.saw()
    table.delete("m <= -112 or note is null and id between 40 and 48")
    life.drop(lambda row: row["m"] <= -112 or (row["note"] is None and 40 <= row["id"] <= 48))
    life.saw()


def _later(row: Row) -> Row:
    """A row in the columns of the evolved table."""
    changed = {**row, "m": row["n"], "note": f"n{row['id']}"}
    return {name: value for name, value in changed.items() if name not in ("n", "ok")}


def _overwrite(life: Life) -> None:
    table = life.table
    rows = [_later(row) for row in new_rows(range(200, 206), part="a")]
    table.overwrite(rows, where="part = 'a'")
    life.drop(lambda row: row["part"] == "a")
    life.put(rows)
    life.saw()
