"""Changing how a table is partitioned: from the specs it has to the one it should have (spec: Partition Evolution).

Files keep the spec they were written with, so a change only adds a spec. The rules keep ids stable: a field that any
spec has had before gets its old id again, new fields are numbered from the table's last partition id, and v1 tables,
whose ids are positions, never lose a field: a removed one stays in place as `void`.

>>> from floe.spec.partitioning.terms import build_spec
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, LONG, TIMESTAMP
>>> schema = Schema((Field(1, "id", LONG), Field(2, "ts", TIMESTAMP)))
>>> by_month = build_spec(schema, ["month(ts)"])
>>> update = SpecUpdate([by_month], schema, 2, 1000)
>>> print(update.remove_field("ts_month").add_field("day(ts)").add_field("bucket(16, id)").apply())
[1001: ts_day: day(2), 1002: id_bucket_16: bucket[16](1)]
>>> print(SpecUpdate([by_month], schema, 1, 1000).remove_field("month(ts)").add_field("day(ts)").apply())
[1000: ts_month: void(2), 1001: ts_day: day(2)]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Self

from floe.errors import InvalidPartitionSpec, NotFound
from floe.spec.partitioning.partition_spec import (
    PARTITION_FIELD_ID_START,
    PartitionField,
    PartitionSpec,
    check_spec,
    check_writable,
)
from floe.spec.partitioning.terms import Column, check_new_field, parse_partition_term
from floe.spec.partitioning.transforms import VOID, Bucket, Identity, Transform, Truncate, Void
from floe.spec.schemas.schema import Schema

_NEW = -1
"""The id of a field that has none yet."""


class SpecUpdate:
    """A change of a table's partitioning, collected call by call; `apply` gives the spec.

    `specs` are all specs that the table has, `default_spec_id` the one that is changed (the newest if left out), and
    `last_partition_id` the highest id that any partition field has ever had.
    """

    def __init__(
        self,
        specs: Iterable[PartitionSpec],
        schema: Schema,
        format_version: int,
        last_partition_id: int,
        *,
        default_spec_id: int | None = None,
        case_sensitive: bool = True,
    ) -> None:
        self._specs = tuple(specs) or (PartitionSpec(),)
        self._schema = schema
        self._version = format_version
        self._last_id = last_partition_id
        self._case_sensitive = case_sensitive
        newest = max(s.spec_id for s in self._specs)
        wanted = newest if default_spec_id is None else default_spec_id
        current = next((s for s in self._specs if s.spec_id == wanted), None)
        if current is None:
            raise InvalidPartitionSpec(f"the table has no partition spec with id {wanted}")
        self._current = current
        self._removed: set[int] = set()
        self._renamed: dict[int, str] = {}
        self._added: list[PartitionField] = []

    # what a caller asks for ------------------------------------------------------------------------------------

    def add_field(self, source: Column, transform: Transform | None = None, name: str | None = None) -> Self:
        """Partition by a transform of a column, too.

        `source` is a column, with `transform` beside it; or a whole term such as `"bucket(16, id) as shard"`. Without a
        name the field is called `ts_day`, `id_bucket_16`, `name_trunc_4`, or what it was called when the table had it
        before. Adding what was removed by the same update takes the removal back.
        """
        if transform is None:
            source, transform, name = self._term(source, name)
        entry = self._schema.resolve(source, case_sensitive=self._case_sensitive)
        new = PartitionField((entry.field.id,), _NEW, "", transform)
        for existing in self._current.fields:
            if existing.same_source_and_transform(new):
                return self._restore(existing, name)
        new = replace(new, name=name or self._earlier_name(new) or _default_name(entry.name, transform))
        self._check_addition(new)
        self._added.append(new)
        return self

    def remove_field(self, name_or_term: str) -> Self:
        """Stop partitioning by a field, given by its name or as a term such as `"day(ts)"`."""
        existing = self._find(name_or_term)
        if existing.field_id in self._renamed:
            raise InvalidPartitionSpec(f"partition field {existing.name!r} cannot be renamed and removed at once")
        self._removed.add(existing.field_id)
        return self

    def rename_field(self, name: str, new_name: str) -> Self:
        """Call a field by another name; its values and its id stay."""
        if any(f.name == name for f in self._added):
            raise InvalidPartitionSpec(f"partition field {name!r} was only just added", hint=f"add it as {new_name!r}")
        existing = self._current.field_named(name)
        if existing is None:
            raise self._no_such_field(name)
        if existing.field_id in self._removed:
            raise InvalidPartitionSpec(f"partition field {name!r} cannot be removed and renamed at once")
        self._renamed[existing.field_id] = new_name
        return self

    def apply(self) -> PartitionSpec:
        """The spec that the table should have: one it has already if that is equivalent, else a new one.

        The table's last partition id becomes the highest of what it is and `last_assigned_field_id` of the spec.
        """
        kept = [
            replace(f, name=self._renamed.get(f.field_id, f.name))
            for f in self._current.fields
            if f.field_id not in self._removed
        ]
        spec = align_field_ids(
            PartitionSpec((*kept, *self._added)), self._current, self._specs, self._version, self._last_id
        )
        check_writable(spec)
        check_spec(spec, self._schema, self._version)
        return next((s for s in self._specs if s.compatible_with(spec)), spec)

    # how it is found and checked -------------------------------------------------------------------------------

    def _term(self, source: Column, name: str | None) -> tuple[Column, Transform, str | None]:
        if not isinstance(source, str):
            return source, Identity(), name
        term = parse_partition_term(source)
        return term.column, term.transform, name or term.name

    def _restore(self, existing: PartitionField, name: str | None) -> Self:
        """Take a removal back, perhaps under another name."""
        if existing.field_id not in self._removed:
            raise InvalidPartitionSpec(
                f"the table is partitioned by {existing.transform} of that column already, as {existing.name!r}"
            )
        self._removed.discard(existing.field_id)
        return self if name in (None, existing.name) else self.rename_field(existing.name, str(name))

    def _earlier_name(self, new: PartitionField) -> str | None:
        """What the field was called in an earlier spec; v1 tables start afresh."""
        earlier = _earlier_fields(new, self._specs) if self._version > 1 else []
        return earlier[0].name if earlier else None

    def _check_addition(self, new: PartitionField) -> None:
        check_new_field(new, self._schema)
        for other in self._added:
            if other.redundancy_key == new.redundancy_key:
                raise InvalidPartitionSpec(
                    f"partition field {new.name!r} is redundant: {other.name!r} splits the same column",
                    hint="keep the finer one",
                )
            if other.name == new.name:
                raise InvalidPartitionSpec(f"two added partition fields are named {new.name!r}")
        clash = self._current.field_named(new.name)
        if clash is None or clash.field_id in self._removed or isinstance(clash.transform, Void):
            return
        if self._renamed.get(clash.field_id, new.name) == new.name:
            raise InvalidPartitionSpec(
                f"the table has a partition field {new.name!r} already", hint="give the new one another name"
            )

    def _find(self, name_or_term: str) -> PartitionField:
        if any(f.name == name_or_term for f in self._added):
            raise InvalidPartitionSpec(f"partition field {name_or_term!r} was only just added")
        if named := self._current.field_named(name_or_term):
            return named
        term = parse_partition_term(name_or_term)
        if not self._schema.has(term.column, case_sensitive=self._case_sensitive):
            raise self._no_such_field(name_or_term)
        entry = self._schema.resolve(term.column, case_sensitive=self._case_sensitive)
        wanted = PartitionField((entry.field.id,), _NEW, "", term.transform)
        if any(f.same_source_and_transform(wanted) for f in self._added):
            raise InvalidPartitionSpec(f"partition field {name_or_term!r} was only just added")
        for existing in self._current.fields:
            if existing.same_source_and_transform(wanted):
                return existing
        raise self._no_such_field(name_or_term)

    def _no_such_field(self, name: str) -> NotFound:
        names = ", ".join(f.name for f in self._current.fields) or "(none)"
        return NotFound(f"the table has no partition field {name!r}", hint=f"partition fields are {names}")


def align_field_ids(
    wanted: PartitionSpec,
    current: PartitionSpec,
    specs: Sequence[PartitionSpec],
    format_version: int,
    last_partition_id: int,
) -> PartitionSpec:
    """A wanted spec with the field ids that it must have in a table, under a new spec id.

    `wanted` may come from anywhere, such as the spec of a table that replaces this one; ids of its fields are kept
    where `current` has them for the same field. In v1 tables the fields of `current` stay, as `void` where `wanted`
    does not have them, and new fields follow them. A void field in the way of a name gets its id behind its own.
    """
    in_place = {f.field_id: f for f in current.fields}
    kept = {
        f.field_id: f
        for f in wanted.fields
        if f.field_id in in_place and f.same_source_and_transform(in_place[f.field_id])
    }
    taken = set(kept)
    fields: list[PartitionField] = []
    # in v1 an id is a position, so that one which only a forgotten spec had cannot be left out
    following = last_partition_id if format_version > 1 else max(s.last_assigned_field_id for s in (current, *specs))
    for f in wanted.fields:
        if f.field_id in kept and kept[f.field_id] is f:
            fields.append(f)
            continue
        field_id = _reused_id(f, current, specs, taken, format_version)
        if field_id is None:
            following = field_id = following + 1
        taken.add(field_id)
        fields.append(replace(f, field_id=field_id))
    if format_version < 2:
        fields = _with_voids(fields, current, specs)
    spec_id = max((s.spec_id for s in specs), default=-1) + 1
    return PartitionSpec(_without_name_clashes(fields), spec_id, wanted.extra)


def _reused_id(
    new: PartitionField,
    current: PartitionSpec,
    specs: Sequence[PartitionSpec],
    taken: set[int],
    format_version: int,
) -> int | None:
    """The id that an equivalent field has had; in v1 only in the current spec, for ids are positions there.

    An id that the spec uses already is passed over: specs of old v1 tables gave one id to different fields.
    """
    among = specs if format_version > 1 else (current,)
    return next((f.field_id for f in _earlier_fields(new, among) if f.field_id not in taken), None)


def _earlier_fields(new: PartitionField, specs: Iterable[PartitionSpec]) -> list[PartitionField]:
    """The equivalent fields of all specs, newest first, but those of the same name before others."""
    newest_first = sorted(specs, key=lambda s: s.spec_id, reverse=True)
    found = [f for s in newest_first for f in s.fields if f.same_source_and_transform(new)]
    return sorted(found, key=lambda f: f.name != new.name)


def _with_voids(
    fields: list[PartitionField], current: PartitionSpec, specs: Sequence[PartitionSpec]
) -> list[PartitionField]:
    """The fields of a v1 spec by id, with a void field for every id that is left free (spec: Partition Evolution)."""
    by_id = {f.field_id: f for f in fields}
    holders = {f.field_id: f for s in specs for f in s.fields} | {f.field_id: f for f in current.fields}
    needed = {f.field_id for f in current.fields} | set(by_id)
    positions = range(PARTITION_FIELD_ID_START, max(needed, default=PARTITION_FIELD_ID_START - 1) + 1)
    gaps = {i: replace(holders[i], transform=VOID) for i in positions if i not in by_id and i in holders}
    return [f for _, f in sorted((gaps | by_id).items())]


def _without_name_clashes(fields: list[PartitionField]) -> tuple[PartitionField, ...]:
    """Void fields step aside for the names of others, and of later void ones."""
    taken = {f.name for f in fields if not isinstance(f.transform, Void)}
    out: list[PartitionField] = []
    for f in reversed(fields):
        if isinstance(f.transform, Void):
            while f.name in taken:
                f = replace(f, name=f"{f.name}_{f.field_id}")
            taken.add(f.name)
        out.append(f)
    return tuple(reversed(out))


def _default_name(column: str, transform: Transform) -> str:
    """The name of an added field; unlike in a new table it tells the parameter, so that a second bucket has room."""
    match transform:
        case Identity():
            return column
        case Bucket(n=number):
            return f"{column}_bucket_{number}"
        case Truncate(width=number):
            return f"{column}_trunc_{number}"
        case Void():
            return f"{column}_null"
        case _:
            return f"{column}_{transform}"
