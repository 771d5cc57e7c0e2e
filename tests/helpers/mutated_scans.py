"""A program that reads tables whose files were damaged: `python -m helpers.mutated_scans orc-data,avro-keys 7 0 99`.

It makes a small table, damages one kind of file of it in as many ways as told, and reads the table each time as a
whole, with a filter, in parts, and (data files) as a file to take into another table or to load. It says on standard
output what is tried next and what came of it, one JSON value a line, so that whoever started it knows what ended it.
The numbers are a seed, the first way and how many; `parquet-footers` goes through `FOOTERS` instead.
"""

from __future__ import annotations

import copy
import json
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

import floe
from floe.arrow.file_import import import_files
from floe.arrow.read.task_reader import TaskReader
from floe.cli.input_files import open_file
from floe.cli.input_text import TextOptions
from floe.errors import FloeError
from floe.formats.parquet.footer import Value, read_struct, write_struct
from floe.formats.writers.delete_files import write_equality_deletes
from floe.formats.writers.write_target import WriteTarget
from floe.spec.expressions.nodes import TRUE
from floe.spec.manifests.entries import DataFile

FORMATS: Final = ("parquet", "orc", "avro")
KINDS: Final = (*(f"{name}-{part}" for name in FORMATS for part in ("data", "positions", "keys")), "puffin-positions")
ROWS: Final = 120
SECONDS: Final = 60
"""No read of such small tables takes that long, on any machine: what does, hangs."""


# the table --------------------------------------------------------------------------------------------------------


def make_table(folder: str, kind: str, *, codec: str | None = None) -> tuple[floe.Table, str]:
    """A table with data and deletes of a format, and the location of the file of the kind."""
    name, part = kind.split("-")
    stored = "parquet" if name == "puffin" else name
    lake = floe.connect(folder)
    lake.create_namespace("n")
    table = lake.create_table(
        "n.t",
        "id bigint, name string, price double, amount decimal(20, 2), at timestamptz, tags array<int>, "
        "at_home struct<street: string, number: int>",
        format_version=3 if name == "puffin" else 2,
        properties={
            "write.format.default": stored,
            "write.delete.format.default": stored,
            "write.delete.mode": "merge-on-read",
            "write.parquet.row-group-limit": "40",
            "write.metadata.metrics.default": "none",  # so that filters ask the file itself
            **({} if codec is None else {f"write.{stored}.compression-codec": codec}),
        },
    )
    table.append(rows())
    table.delete(f"id % 17 = 3 and id < {ROWS}")
    target = WriteTarget.of(table.metadata, table.storage)
    keys = write_equality_deletes(target, [pa.table({"id": [5, 50, 500], "name": ["5", "50", "x"]})], ["id", "name"])
    table.row_delta(deletes=keys)
    return table, _file(table, part).file_path


def rows() -> pa.Table:
    """What the tables had before the deletes."""
    numbers = list(range(ROWS))
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": [None if n % 13 == 1 else str(n) for n in numbers],
            "price": [n * 0.25 for n in numbers],
            "amount": pa.array([Decimal(n).scaleb(-2) for n in numbers], pa.decimal128(20, 2)),
            "at": pa.array([n * 10**9 for n in numbers], pa.timestamp("us", "UTC")),
            "tags": pa.array([None if n % 7 == 2 else list(range(n % 5)) for n in numbers], pa.list_(pa.int32())),
            "at_home": pa.array(
                [None if n % 11 == 3 else {"street": f"s{n % 4}", "number": n} for n in numbers],
                pa.struct([("street", pa.string()), ("number", pa.int32())]),
            ),
        }
    )


def _file(table: floe.Table, part: str) -> DataFile:
    (task,) = table.scan().plan().tasks()
    if part == "data":
        return task.file
    (found,) = (one for one in task.deletes if one.is_equality_delete_file == (part == "keys"))
    return found


# damage -----------------------------------------------------------------------------------------------------------


def damaged(data: bytes, chance: random.Random, parquet: bool) -> bytes:
    """The bytes with something wrong, most often near the end, where formats say what a file holds."""
    if parquet and chance.random() < 0.3:
        return with_damaged_footer(data, chance)
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        end = len(changed)
        place = chance.randrange(max(0, end - chance.choice((200, 1500, end, end))), end)
        match chance.randrange(7):
            case 0 | 1:
                changed[place] ^= 1 << chance.randrange(8)
            case 2:
                changed[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            case 3:
                stop = min(end, place + chance.randrange(1, 20))
                changed[place:stop] = bytes(chance.randrange(256) for _ in range(stop - place))
            case 4:
                stop = min(end, place + chance.randrange(1, 20))
                changed[place:stop] = bytes([chance.choice((0, 0xFF))]) * (stop - place)
            case 5:
                other, length = chance.randrange(end), chance.randrange(1, 16)
                changed[place : place + length] = changed[other : other + length]
            case _:
                del changed[place : place + chance.randrange(1, 5)]
        if not changed:
            break
    return bytes(changed)


Fields = dict[int, Value]


def with_footer(data: bytes, change: Callable[[Fields], object]) -> bytes:
    """A Parquet file whose footer is changed, and can be parsed."""
    length = int.from_bytes(data[-8:-4], "little")
    footer = read_struct(data[-8 - length : -8])
    change(footer)
    made = write_struct(footer)
    return data[: -8 - length] + made + len(made).to_bytes(4, "little") + data[-4:]


def with_damaged_footer(data: bytes, chance: random.Random) -> bytes:
    """A Parquet file whose footer has one or two values that are not true."""

    def change(footer: Fields) -> None:
        places = list(_places(footer))
        for _ in range(chance.choice((1, 1, 2))):
            chance.choice(places)(chance)

    return with_footer(data, change)


def _places(fields: Fields) -> Iterator[Callable[[random.Random], None]]:
    for number, (kind, content) in fields.items():
        match kind:
            case 3 | 4 | 5 | 6 | 8:
                yield lambda chance, n=number, k=kind, c=content: fields.update({n: Value(k, _other(k, c, chance))})
            case 9:
                item, items = content
                yield lambda chance, i=item, of=items: _change_list(i, of, chance)
                for one in items if item == 12 else ():
                    yield from _places(one)
            case 12:
                yield from _places(content)
        if len(fields) > 1:
            yield lambda chance, n=number: fields.pop(n, None)


def _other(kind: int, content: Any, chance: random.Random) -> Any:
    if kind == 8:
        return chance.choice((b"", content[: len(content) // 2], content + b"\xff", b"\xff" * len(content)))
    if kind == 3:
        return chance.randrange(256)
    most = {4: 2**15 - 1, 5: 2**31 - 1, 6: 2**63 - 1}[kind]
    return chance.choice((0, 1, -1, content + 1, content - 1, content * 2, most, -most, chance.randrange(40)))


def _change_list(kind: int, items: list[Any], chance: random.Random) -> None:
    if items and chance.random() < 0.5:
        items.pop(chance.randrange(len(items)))
    elif items:
        items.extend(copy.deepcopy(chance.choice(items)) for _ in range(chance.choice((1, 1, 7))))
    elif 4 <= kind <= 6:
        items.extend(range(chance.choice((1, 3))))


def _columns(footer: Fields) -> list[Fields]:
    """The columns of the second row group (Parquet: ColumnChunk)."""
    return footer[4].content[1][1][1].content[1]  # type: ignore[no-any-return]


def _metadata(footer: Fields, place: int) -> Fields:
    """Those of a column (Parquet: ColumnMetaData)."""
    return _columns(footer)[place][3].content  # type: ignore[no-any-return]


def _histogram(footer: Fields, place: int, field: int, counts: list[int]) -> None:
    _metadata(footer, place)[16].content[field] = Value(9, (6, counts))


def _bounds(footer: Fields, place: int, bound: bytes) -> None:
    _metadata(footer, place)[12].content.update({5: Value(8, bound), 6: Value(8, bound)})


def _encrypted(footer: Fields) -> None:
    _columns(footer)[0][8] = Value(12, {2: Value(12, {1: Value(9, (8, [b"id"]))})})


FOOTERS: Final[dict[str, Callable[[Fields], object]]] = {
    "definition levels": lambda footer: _histogram(footer, 5, 3, [1] * 9),
    "repetition levels": lambda footer: _histogram(footer, 5, 2, [1] * 9),
    "levels of a flat column": lambda footer: _histogram(footer, 0, 2, [1, 2, 3]),
    "bounds too short": lambda footer: _bounds(footer, 0, b"\x01"),
    "bounds of no length": lambda footer: _bounds(footer, 2, b""),
    "another type": lambda footer: _metadata(footer, 0).update({1: Value(5, 2)}),
    "a type that is none": lambda footer: _metadata(footer, 0).update({1: Value(5, 77)}),
    "a codec that is none": lambda footer: _metadata(footer, 0).update({4: Value(5, 77)}),
    "a column too many": lambda footer: _columns(footer).append(copy.deepcopy(_columns(footer)[0])),
    "a column too few": lambda footer: _columns(footer).pop(),
    "a column of another file": lambda footer: _columns(footer)[0].update({1: Value(8, b"elsewhere")}),
    "a column without metadata": lambda footer: _columns(footer)[0].pop(3),
    "an encrypted column": _encrypted,
    "no row groups": lambda footer: footer.pop(4),
    "a negative size": lambda footer: _metadata(footer, 0).update({7: Value(6, -5)}),
    "a size beyond the file": lambda footer: _metadata(footer, 0).update({7: Value(6, 2**62)}),
    "a place beyond the file": lambda footer: _metadata(footer, 0).update({9: Value(6, 2**40), 11: Value(6, 2**40)}),
}
"""Footers that contradict themselves or the file, each in its own way."""


# reading ----------------------------------------------------------------------------------------------------------


def outcomes(table: floe.Table, location: str, kind: str) -> Iterator[str]:
    """What comes of each way to read the table: `right`, `other` rows, or the name of an error of ours.

    Anything else is told with its text: an error that is not ours, or one that does not name the file.
    """
    for read, expected in _ways(table, location, kind):
        try:
            found = read()
        except FloeError as error:
            yield type(error).__name__ if location in str(error) else f"{type(error).__name__}: {error}"
        except Exception as error:
            yield f"{type(error).__name__}: {error}"
        else:
            yield "right" if expected is None or found == expected else "other"


def _ways(table: floe.Table, location: str, kind: str) -> Iterator[tuple[Callable[[], Any], Any]]:
    live = [row for row in rows().to_pylist() if row["id"] % 17 != 3 and row["id"] not in (5, 50)]
    yield lambda: table.scan().to_arrow().to_pylist(), live
    yield (
        lambda: table.scan(where="id > 70 and name <> 'x'").to_arrow().num_rows,
        sum(row["id"] > 70 and row["name"] is not None for row in live),
    )
    yield lambda: _in_parts(table), len(live)
    if kind.endswith("data"):
        yield lambda: _imported(table, location), None
        yield lambda: _loaded(location), None


def _in_parts(table: floe.Table) -> int:
    reader, schema = TaskReader(table.metadata, table.storage), table.schema
    bins = table.scan().plan().combined(target_size=2_000, open_file_cost=1)
    return sum(batch.num_rows for one in bins for task in one for batch in reader.batches(task, schema, where=TRUE))


def _imported(table: floe.Table, location: str) -> None:
    import_files(WriteTarget.of(table.metadata, table.storage), [location])


def _loaded(location: str) -> int:
    source = open_file(location, None, None, TextOptions())
    try:
        return sum(batch.num_rows for batch in source.batches)
    finally:
        source.close()


# the program ------------------------------------------------------------------------------------------------------


def run(kind: str, seed: int, first: int, count: int) -> None:
    """Try some of the ways in which a seed damages files of a kind, or all of the damaged footers."""
    kind, footers = ("parquet-data", FOOTERS) if kind == "parquet-footers" else (kind, None)
    with tempfile.TemporaryDirectory() as folder:
        table, location = make_table(folder, kind)
        whole = table.storage.read(location)
        assert set(outcomes(table, location, kind)) == {"right"}
        for number in range(first, first + count) if footers is None else footers:
            _tell(f"{kind} {seed} {number}")
            signal.alarm(SECONDS)
            if footers is None:
                data = damaged(whole, random.Random(f"{kind} {seed} {number}"), kind.startswith("parquet"))
            else:
                data = with_footer(whole, footers[str(number)])
            table.storage.write(location, data, overwrite=True)
            _tell(list(outcomes(table, location, kind)))
        signal.alarm(0)


def _tell(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    for one in sys.argv[1].split(","):
        run(one, *map(int, sys.argv[2:]))
