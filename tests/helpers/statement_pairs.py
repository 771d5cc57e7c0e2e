"""Pairs of statements that race on one table, and what is promised of them: for the embedded engine and for Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from floe import Table
from floe.arrow.writer import write_rows
from floe.formats.writers import WriteTarget
from helpers import row_model
from helpers.row_model import Aim, Kind, Row, Rows

COW, MOR = "copy-on-write", "merge-on-read"
STATEMENTS = ("append", "DELETE", "UPDATE", "MERGE", "overwrite", "compaction")
DISTANCES = {"same row": 1, "same file": 2, "same partition": 5, "apart": 9}
"""The key that the second statement is aimed at; the first is aimed at 1."""

FILES = (range(4), range(4, 8), range(8, 12))
PARTS = {key: 0 if key < 8 else 1 for key in range(12)}
START: Rows = {key: Row(key, key, PARTS[key], f"v{key}") for key in range(12)}

KINDS = {
    "append": Kind("append", row_model.append, blind=True),
    "DELETE": Kind("DELETE", row_model.delete, pure=True),
    "UPDATE": Kind("UPDATE", row_model.update),
    "MERGE": Kind("MERGE", row_model.merge),
    "overwrite": Kind("overwrite", row_model.overwrite_blindly, blind=True),
    "compaction": Kind("compaction", row_model.nothing, pure=True),
}


@dataclass(frozen=True)
class Pair:
    """Two statements, how far apart they are, and the table that they meet on."""

    first: str
    second: str
    distance: str
    mode: str
    isolation: str
    version: int

    def aims(self) -> tuple[Aim, Aim]:
        return _aim(1, "a"), _aim(DISTANCES[self.distance], "b")


def _aim(key: int, tag: str) -> Aim:
    return Aim(START[key], tag, next(keys for keys in FILES if key in keys), partner=11)


def pairs() -> Iterator[Pair]:
    kinds = product(STATEMENTS, STATEMENTS, DISTANCES, (COW, MOR), ("serializable", "snapshot"), (2, 3))
    return (Pair(*one) for one in kinds)


def promised(pair: Pair) -> bool:
    """What docs/isolation.md says is never refused."""
    other_file = pair.distance in ("same partition", "apart")
    by_row = pair.mode == MOR and {pair.first, pair.second} <= {"DELETE", "UPDATE", "MERGE"}
    return (
        pair.second in ("append", "overwrite")
        or pair.distance == "apart"
        or (pair.mode == MOR and (pair.first, pair.second) == ("DELETE", "DELETE"))
        or (by_row and pair.distance != "same row")
        or (pair.first == "compaction" and other_file)
        or (pair.first == "append" and pair.second == "compaction")
        or (pair.first == "append" and pair.isolation == "snapshot")
        or (pair.first == "append" and pair.distance != "same row" and pair.second in ("DELETE", "UPDATE", "MERGE"))
    )


def compact(table: Table, aim: Aim) -> None:
    """The file that holds the row, written anew as it is."""
    keys = aim.file_keys
    where = f"key >= {keys.start} and key < {keys.stop}"
    tasks = list(table.scan(where=where).plan().tasks())
    columns = ["key", "part", "value", *(["_row_id", "_last_updated_sequence_number"] * (table.format_version > 2))]
    rows = table.scan(columns=columns, where=where).to_arrow()
    target = WriteTarget.of(table.metadata, table.storage, table.environment)
    new = write_rows(target, rows.to_batches(), row_lineage=table.format_version > 2)
    vectors = [delete for task in tasks for delete in task.deletes if delete.is_deletion_vector]
    table.rewrite_files([*(task.file for task in tasks), *vectors], new)


def stored(row: Row) -> dict[str, object]:
    return {"key": row.key, "part": row.part, "value": row.value}


def rows_of(table: Table) -> Rows:
    found = table.scan().to_arrow().to_pylist()
    return {place: Row(place, row["key"], row["part"], row["value"]) for place, row in enumerate(found)}
