"""Rows like those of an order book: numbers, prices, dates, a few short texts and one longer."""

from pathlib import Path
from typing import Any

_WORDS = [
    "amber",
    "basin",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heath",
    "islet",
    "jetty",
    "knoll",
    "larch",
    "marsh",
    "north",
    "ocean",
    "plain",
    "quarry",
    "ridge",
    "shore",
    "tundra",
    "upland",
    "valley",
    "willow",
    "yonder",
    "zenith",
]


def _pick(words: list[str], salt: int) -> str:
    texts = ", ".join(f"'{word}'" for word in words)
    return f"element_at(array({texts}), CAST(pmod(xxhash64(id, {salt}), {len(words)}) AS INT) + 1)"


def _number(salt: int, count: int) -> str:
    return f"pmod(xxhash64(id, {salt}), {count})"


COLUMNS = {
    "id": "id",
    "order_id": "id div 5",
    "line": "CAST(id % 5 AS INT)",
    "product": f"{_number(1, 300_000)}",
    "supplier": f"CAST({_number(2, 15_000)} AS INT)",
    "quantity": f"CAST({_number(3, 60)} AS INT)",
    "price": f"CAST({_number(4, 9_000_000)} / 100 AS DECIMAL(12, 2))",
    "discount": f"{_number(5, 12)} / 100.0D",
    "tax": f"{_number(6, 8)} / 100.0D",
    "state": _pick(["open", "paid", "sent"], 7),
    "shipped": f"date_add(DATE'2020-01-01', CAST(pmod(xxhash64(id div 5, 8), 1800) + {_number(9, 90)} AS INT))",
    "changed": f"timestamp_micros(1577836800000000 + {_number(10, 157_680_000)} * 1000000)",
    "mode": _pick(["air", "mail", "rail", "road", "ship"], 11),
    "note": "concat_ws(' ', " + ", ".join(_pick(_WORDS, salt) for salt in range(20, 26)) + ")",
}


def rows(start: int, end: int, parts: int) -> str:
    """The query that generates rows."""
    columns = ", ".join(f"{expression} AS {name}" for name, expression in COLUMNS.items())
    return f"SELECT {columns} FROM range({start}, {end}, 1, {parts})"


def make(session: Any, folder: Path, count: int) -> None:
    """Write the inputs as Parquet files: `lines`, and `more`, an eighth as many."""
    session.sql(rows(0, count, 4)).write.parquet(str(folder / "lines"))
    session.sql(rows(count, count + count // 8, 2)).write.parquet(str(folder / "more"))
    session.sql("SELECT id, concat('row ', id) AS text FROM range(10)").coalesce(1).write.parquet(str(folder / "ten"))
