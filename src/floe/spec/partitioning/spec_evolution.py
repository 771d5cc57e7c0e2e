"""Partition evolution: changes the default partition spec of a table (spec: Partition Evolution).

Files keep the spec that they were written with, so a change only adds a spec. Field ids stay stable: a field that was
in any earlier spec gets its old id again, and new fields are numbered from the table's last partition id. In v1 tables
ids are positions, so a removed field stays in its position as `void`.

>>> from floe.spec.partitioning.transform_terms import build_spec
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
from floe.spec.partitioning.transform_terms import Column, check_new_field, parse_partition_term
from floe.spec.partitioning.transforms import VOID, Bucket, Identity, Transform, Truncate, Void
from floe.spec.schemas.schema import Schema

_NEW = -1
"""The id of a field that has no id yet."""


class SpecUpdate:
    """A builder of a new partition spec; `apply` returns the spec.

    `specs` are all specs of the table, `default_spec_id` is the one to change (by default the newest), and
    `last_partition_id` is the highest id that a partition field ever had.
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
        spec_id = newest if default_spec_id is None else default_spec_id
        current = next((s for s in self._specs if s.spec_id == spec_id), None)
        if current is None:
            raise InvalidPartitionSpec(f"the table has no partition spec with id {spec_id}")
        self._current = current
        self._removed: set[int] = set()
        self._renamed: dict[int, str] = {}
        self._added: list[PartitionField] = []

    # Changes ------------------------------------------------------------------------------------------------------

    def add_field(self, source: Column, transform: Transform | None = None, name: str | None = None) -> Self:
        """Add a partition field.

        `source` is a column if `transform` is passed, or else a term such as `"bucket(16, id) as shard"`. The default
        name is that of an equal field in an earlier spec, or else `ts_day`, `id_bucket_16`, `name_trunc_4`. Adding a
        field that was removed by the same update cancels the removal.
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
        """Remove a partition field, by its name or by a term such as `"day(ts)"`."""
        existing = self._find(name_or_term)
        if existing.field_id in self._renamed:
            raise InvalidPartitionSpec(f"partition field {existing.name!r} cannot be renamed and removed at once")
        self._removed.add(existing.field_id)
        return self

    def rename_field(self, name: str, new_name: str) -> Self:
        """Rename a partition field; its values and id do not change."""
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
        """Return the changed spec: an equivalent one of the table if there is one, or else a new one.

        The table's last partition id becomes at least `last_assigned_field_id` of the spec.
        """
        remaining = [
            replace(f, name=self._renamed.get(f.field_id, f.name))
            for f in self._current.fields
            if f.field_id not in self._removed
        ]
        spec = align_field_ids(
            PartitionSpec((*remaining, *self._added)), self._current, self._specs, self._version, self._last_id
        )
        check_writable(spec)
        check_spec(spec, self._schema, self._version)
        return next((s for s in self._specs if s.compatible_with(spec)), spec)

    # Lookup and checks --------------------------------------------------------------------------------------------

    def _term(self, source: Column, name: str | None) -> tuple[Column, Transform, str | None]:
        if not isinstance(source, str):
            return source, Identity(), name
        term = parse_partition_term(source)
        return term.column, term.transform, name or term.name

    def _restore(self, existing: PartitionField, name: str | None) -> Self:
        """Cancel the removal of a field, and rename it if another name is passed."""
        if existing.field_id not in self._removed:
            raise InvalidPartitionSpec(
                f"the table is partitioned by {existing.transform} of that column already, as {existing.name!r}"
            )
        self._removed.discard(existing.field_id)
        return self if name in (None, existing.name) else self.rename_field(existing.name, str(name))

    def _earlier_name(self, new: PartitionField) -> str | None:
        """The name of an equal field in an earlier spec; not used in v1 tables."""
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
        sought = PartitionField((entry.field.id,), _NEW, "", term.transform)
        if any(f.same_source_and_transform(sought) for f in self._added):
            raise InvalidPartitionSpec(f"partition field {name_or_term!r} was only just added")
        for existing in self._current.fields:
            if existing.same_source_and_transform(sought):
                return existing
        raise self._no_such_field(name_or_term)

    def _no_such_field(self, name: str) -> NotFound:
        names = ", ".join(f.name for f in self._current.fields) or "(none)"
        return NotFound(f"the table has no partition field {name!r}", hint=f"partition fields are {names}")


def align_field_ids(
    spec: PartitionSpec,
    current: PartitionSpec,
    specs: Sequence[PartitionSpec],
    format_version: int,
    last_partition_id: int,
) -> PartitionSpec:
    """Return a spec with the field ids that it must have in a table, and with a new spec id.

    `spec` may come from outside, such as that of a table that replaces this one; its fields keep their ids if `current`
    has the same fields with these ids. In v1 tables all fields of `current` stay, as `void` if `spec` does not have
    them, and new fields come after them. If a void field has the name of another field, its id is appended to its name.
    """
    current_fields = {f.field_id: f for f in current.fields}
    unchanged = {
        f.field_id: f
        for f in spec.fields
        if f.field_id in current_fields and f.same_source_and_transform(current_fields[f.field_id])
    }
    used_ids = set(unchanged)
    fields: list[PartitionField] = []
    # in v1 an id is a position, so an id that only an unused spec has cannot be skipped
    last_id = last_partition_id if format_version > 1 else max(s.last_assigned_field_id for s in (current, *specs))
    for f in spec.fields:
        if f.field_id in unchanged and unchanged[f.field_id] is f:
            fields.append(f)
            continue
        field_id = _reused_id(f, current, specs, used_ids, format_version)
        if field_id is None:
            last_id = field_id = last_id + 1
        used_ids.add(field_id)
        fields.append(replace(f, field_id=field_id))
    if format_version < 2:
        fields = _with_voids(fields, current, specs)
    spec_id = max((s.spec_id for s in specs), default=-1) + 1
    return PartitionSpec(_without_name_clashes(fields), spec_id, spec.extra)


def _reused_id(
    new: PartitionField,
    current: PartitionSpec,
    specs: Sequence[PartitionSpec],
    used_ids: set[int],
    format_version: int,
) -> int | None:
    """The id of an equivalent field in an earlier spec; in v1 only in the current spec, because ids are positions.

    An id that the spec uses already is skipped: specs of old v1 tables may have one id for different fields.
    """
    candidates = specs if format_version > 1 else (current,)
    return next((f.field_id for f in _earlier_fields(new, candidates) if f.field_id not in used_ids), None)


def _earlier_fields(new: PartitionField, specs: Iterable[PartitionSpec]) -> list[PartitionField]:
    """The equivalent fields of all specs, newest first, with those of the same name before others."""
    newest_first = sorted(specs, key=lambda s: s.spec_id, reverse=True)
    equivalent = [f for s in newest_first for f in s.fields if f.same_source_and_transform(new)]
    return sorted(equivalent, key=lambda f: f.name != new.name)


def _with_voids(
    fields: list[PartitionField], current: PartitionSpec, specs: Sequence[PartitionSpec]
) -> list[PartitionField]:
    """The fields of a v1 spec by id, with a void field for every unused id (spec: Partition Evolution)."""
    by_id = {f.field_id: f for f in fields}
    known_fields = {f.field_id: f for s in specs for f in s.fields} | {f.field_id: f for f in current.fields}
    needed = {f.field_id for f in current.fields} | set(by_id)
    positions = range(PARTITION_FIELD_ID_START, max(needed, default=PARTITION_FIELD_ID_START - 1) + 1)
    gaps = {i: replace(known_fields[i], transform=VOID) for i in positions if i not in by_id and i in known_fields}
    return [f for _, f in sorted((gaps | by_id).items())]


def _without_name_clashes(fields: list[PartitionField]) -> tuple[PartitionField, ...]:
    """Rename void fields that have the name of another field or of a later void field."""
    names = {f.name for f in fields if not isinstance(f.transform, Void)}
    out: list[PartitionField] = []
    for f in reversed(fields):
        if isinstance(f.transform, Void):
            while f.name in names:
                f = replace(f, name=f"{f.name}_{f.field_id}")
            names.add(f.name)
        out.append(f)
    return tuple(reversed(out))


def _default_name(column: str, transform: Transform) -> str:
    """The default name of an added field; unlike in a new table it includes the parameter, for later changes of it."""
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
