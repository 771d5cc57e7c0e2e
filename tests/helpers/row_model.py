"""An independent model of a table as rows: what each kind of operation does to them, and which outcomes are right.

Nothing here knows Floe's rules. An operation is a function from the rows that it sees to the rows that it removes,
changes and adds. Two concurrent operations have a right outcome

* under serializable isolation, if the table is as if the second had run after the first;
* under snapshot isolation, if the second's own changes, made to what it had read, are put on top of the first's, and
  both changed different rows (or both only deleted); or if one of the two serial orders explains it.

A row that is updated, or moved to another file or partition, is the same row: it keeps its `id`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


class Row(NamedTuple):
    """A row: its identity, which nobody sees, and its columns."""

    id: int
    key: int
    part: int
    value: str


Rows = dict[int, Row]


@dataclass(frozen=True)
class Effect:
    """What an operation does to rows."""

    gone: frozenset[int] = frozenset()
    changed: tuple[Row, ...] = ()
    new: tuple[Row, ...] = ()

    @property
    def touched(self) -> frozenset[int]:
        """The rows that it writes, new ones aside."""
        return self.gone | {row.id for row in self.changed}

    def on(self, rows: Rows) -> Rows:
        """The rows afterwards."""
        left = {id_: row for id_, row in rows.items() if id_ not in self.touched}
        return left | {row.id: row for row in (*self.changed, *self.new)}


@dataclass(frozen=True)
class Kind:
    """A kind of operation, aimed at one row."""

    name: str
    effect: Callable[[Rows, Aim], Effect] = field(repr=False)
    pure: bool = False
    """Whether it only deletes rows, or none."""

    blind: bool = False
    """Whether it is made for the table as it is when it is committed, whatever was read before."""

    versions: tuple[int, ...] = (2, 3)


@dataclass(frozen=True)
class Aim:
    """The row that an operation is aimed at, and who makes it: new rows and values carry the tag."""

    row: Row
    tag: str
    file_keys: range
    """The keys of the rows that were in the same file."""

    partner: int
    """The key of a row in another partition."""

    @property
    def new_id(self) -> int:
        return 1000 + sum(self.tag.encode())


def _keyed(rows: Rows, aim: Aim) -> list[Row]:
    return [row for row in rows.values() if row.key == aim.row.key]


def _in_part(rows: Rows, aim: Aim) -> list[Row]:
    return [row for row in rows.values() if row.part == aim.row.part]


def _ids(rows: list[Row]) -> frozenset[int]:
    return frozenset(row.id for row in rows)


def _new(aim: Aim, value: str, key: int | None = None) -> Row:
    return Row(aim.new_id, aim.row.key if key is None else key, aim.row.part, f"{aim.tag}:{value}")


def _seen(rows: list[Row]) -> str:
    return ",".join(sorted(row.value for row in rows))


def append(rows: Rows, aim: Aim) -> Effect:
    return Effect(new=(_new(aim, "appended"),))


def insert_select(rows: Rows, aim: Aim) -> Effect:
    return Effect(new=(_new(aim, f"saw {_seen(_in_part(rows, aim))}", key=500),))


def delete(rows: Rows, aim: Aim) -> Effect:
    return Effect(gone=_ids(_keyed(rows, aim)))


def update(rows: Rows, aim: Aim) -> Effect:
    return Effect(changed=tuple(row._replace(value=f"{row.value}+{aim.tag}") for row in _keyed(rows, aim)))


def move(rows: Rows, aim: Aim) -> Effect:
    return Effect(changed=tuple(row._replace(part=1 - row.part) for row in _keyed(rows, aim)))


def merge(rows: Rows, aim: Aim) -> Effect:
    return update(rows, aim) if _keyed(rows, aim) else Effect(new=(_new(aim, "merged"),))


def move_file(rows: Rows, aim: Aim) -> Effect:
    return Effect(changed=tuple(row._replace(part=1 - row.part) for row in rows.values() if row.key in aim.file_keys))


def drop_file(rows: Rows, aim: Aim) -> Effect:
    return Effect(gone=_ids([row for row in rows.values() if row.key in aim.file_keys]))


def _if_partner(effect: Callable[[Rows, Aim], Effect]) -> Callable[[Rows, Aim], Effect]:
    def conditional(rows: Rows, aim: Aim) -> Effect:
        there = any(row.key == aim.partner for row in rows.values())
        return effect(rows, aim) if there else Effect()

    return conditional


def overwrite(rows: Rows, aim: Aim) -> Effect:
    return Effect(changed=tuple(row._replace(value=f"{row.value}+{aim.tag}") for row in _in_part(rows, aim)))


def overwrite_blindly(rows: Rows, aim: Aim) -> Effect:
    return Effect(gone=_ids(_in_part(rows, aim)), new=(_new(aim, "fresh", key=600),))


def clear(rows: Rows, aim: Aim) -> Effect:
    return Effect(gone=_ids(_in_part(rows, aim)))


def delete_by_value(rows: Rows, aim: Aim) -> Effect:
    """Equality deletes of a partition reach no further."""
    return Effect(gone=_ids([row for row in _keyed(rows, aim) if row.part == aim.row.part]))


def upsert(rows: Rows, aim: Aim) -> Effect:
    return Effect(gone=delete_by_value(rows, aim).gone, new=(_new(aim, "upserted"),))


def nothing(rows: Rows, aim: Aim) -> Effect:
    return Effect()


KINDS = {
    kind.name: kind
    for kind in (
        Kind("append", append, blind=True, versions=(1, 2, 3)),
        Kind("insert select", insert_select, versions=(1, 2, 3)),
        Kind("MoR delete", delete, pure=True),
        Kind("MoR delete, coarse file", delete, pure=True, versions=(2,)),
        Kind("MoR delete if partner", _if_partner(delete), pure=True),
        Kind("MoR update", update),
        Kind("MoR update, coarse file", update, versions=(2,)),
        Kind("MoR move", move),
        Kind("MoR merge", merge),
        Kind("CoW update", update, versions=(1, 2, 3)),
        Kind("CoW delete", delete, pure=True, versions=(1, 2, 3)),
        Kind("CoW delete if partner", _if_partner(delete), pure=True, versions=(1, 2, 3)),
        Kind("CoW move of a file", move_file, versions=(1, 2, 3)),
        Kind("drop file", drop_file, pure=True, versions=(1, 2, 3)),
        Kind("drop file if partner", _if_partner(drop_file), pure=True, versions=(1, 2, 3)),
        Kind("overwrite by filter", overwrite, versions=(1, 2, 3)),
        Kind("blind overwrite", overwrite_blindly, blind=True, versions=(1, 2, 3)),
        Kind("replace partitions", overwrite, versions=(1, 2, 3)),
        Kind("blind replace partitions", overwrite_blindly, blind=True, versions=(1, 2, 3)),
        Kind("delete by filter after reading", _if_partner(clear), pure=True, versions=(1, 2, 3)),
        Kind("delete by filter", clear, pure=True, blind=True, versions=(1, 2, 3)),
        Kind("compaction", nothing, pure=True),
        Kind("compaction, new sequence number", nothing, pure=True, versions=(1, 2, 3)),
        Kind("rewrite deletes", nothing, pure=True),
        Kind("convert deletes", nothing, pure=True),
        Kind("rewrite manifests", nothing, pure=True, blind=True, versions=(1, 2, 3)),
        Kind("upsert", upsert, blind=True),
        Kind("delete by value", delete_by_value, pure=True, blind=True),
        Kind("delete by value if partner", _if_partner(delete_by_value), pure=True),
    )
}


def same(one: Rows, other: Rows) -> bool:
    """Whether two tables look the same; the identity of rows is not looked at."""
    return Counter(row[1:] for row in one.values()) == Counter(row[1:] for row in other.values())


def serializable(start: Rows, first: tuple[Kind, Aim], second: tuple[Kind, Aim], final: Rows) -> bool:
    """Whether the table is as if the second had run after the first."""
    return same(final, _run(second, _run(first, start)))


def snapshot_isolated(start: Rows, first: tuple[Kind, Aim], second: tuple[Kind, Aim], final: Rows) -> bool:
    """Whether snapshot isolation allows the outcome."""
    if serializable(start, first, second, final) or same(final, _run(first, _run(second, start))):
        return True
    (one, one_aim), (two, two_aim) = first, second
    between = _run(first, start)
    done = one.effect(start, one_aim)
    doing = two.effect(between if two.blind else start, two_aim)
    apart = not (done.touched & doing.touched) or (one.pure and two.pure)
    return apart and same(final, doing.on(between))


def _run(operation: tuple[Kind, Aim], rows: Rows) -> Rows:
    kind, aim = operation
    return kind.effect(rows, aim).on(rows)
