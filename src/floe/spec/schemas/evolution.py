"""Changing a schema: columns added, dropped, renamed, moved, promoted, … (spec: Schema Evolution).

A `SchemaUpdate` takes changes one after the other and `apply` gives the new schema. Field ids are what columns are
known by, so no change touches data: an added column gets an id never used before, a renamed one keeps its id.

>>> from floe.spec.types import INT, STRING
>>> schema = Schema((Field(1, "id", INT, required=True), Field(2, "note", STRING)))
>>> update = SchemaUpdate(schema, format_version=2, last_column_id=2)
>>> print(update.promote("id", "long").add_column("tag", "string", after="id").rename_column("note", "text").apply())
table {
  1: id: required long
  3: tag: optional string
  2: text: optional string
}
>>> update.last_column_id
3
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, Self

from floe.errors import FloeError, IncompatibleChange, InvalidInput, InvalidSchema, InvalidValue, NoSuchColumn
from floe.spec import values
from floe.spec.partitioning.transforms import Void
from floe.spec.schemas.defaults import DEFAULTS_SINCE, check_default, initial_value
from floe.spec.schemas.field_tree import FieldTree
from floe.spec.schemas.metadata_columns import check_column_name
from floe.spec.schemas.promotion import TransformedField, check_promotion, promote_value
from floe.spec.schemas.schema import Schema, assign_fresh_type_ids
from floe.spec.schemas.schema_fields import walk_fields
from floe.spec.schemas.union_by_name import (
    AddField,
    Change,
    MakeOptional,
    Promote,
    SetDoc,
    SetWriteDefault,
    union_changes,
)
from floe.spec.types import Field, Type, parse_type

__all__ = ["ColumnName", "SchemaUpdate"]

ColumnName = str | Sequence[str]
"""A dotted name, or a path of names; a name that contains a dot itself is given as a path."""


class _Transforms(Protocol):
    """A partition spec or a sort order."""

    @property
    def fields(self) -> Sequence[TransformedField]:
        """The transformed columns."""


class SchemaUpdate:
    """Changes to a schema, made one after the other; each method returns the update, so that calls can be chained.

    Every step sees the names as the steps before it left them. Where two columns share a name for the moment, it
    means the one that had it from the start; so names are swapped by `rename_column("a", "b")`, then
    `rename_column("b", "a")`.

    `partition_specs` are all specs of the table: a type is not promoted where partition values would change. Columns
    that `current_spec` or `sort_order` use cannot be dropped. `allow_incompatible` permits what may make data already
    written invalid: required columns without a default, and requiring a column that was optional.

    >>> from floe.spec.types import DOUBLE, INT, STRING, ListType, StructType
    >>> point = StructType((Field(4, "x", DOUBLE), Field(5, "y", DOUBLE)))
    >>> schema = Schema((Field(1, "id", INT, required=True), Field(2, "track", ListType(3, point))))
    >>> update = SchemaUpdate(schema, format_version=3, last_column_id=5)
    >>> print(
    ...     update.add_column("track.z", "double", doc="height", before="x")
    ...     .add_column("unit", STRING, required=True, default="m", first=True)
    ...     .set_default("unit", "km")
    ...     .drop_column("track.y")
    ...     .rename_column("track.x", "lon")
    ...     .move_column("track", before="id")
    ...     .promote("id", "long")
    ...     .set_doc("id", "the key")
    ...     .set_identifier_fields("id")
    ...     .apply()
    ... )
    table {
      7: unit: required string
      2: track: optional list<struct<6: z: optional double (height), 4: lon: optional double>>
      1: id: required long (the key) (id)
    }
    >>> update.require("track.lon")
    Traceback (most recent call last):
    floe.errors.IncompatibleChange: cannot require 'track.element.lon': rows already written may have null there ...
    """

    def __init__(
        self,
        schema: Schema,
        *,
        format_version: int,
        last_column_id: int,
        partition_specs: Iterable[_Transforms] = (),
        current_spec: _Transforms | None = None,
        sort_order: _Transforms | None = None,
        allow_incompatible: bool = False,
        case_sensitive: bool = True,
    ) -> None:
        self._base = schema
        self._format_version = format_version
        self._last_column_id = max(last_column_id, schema.highest_field_id)
        self._partition_fields = [field for spec in partition_specs for field in spec.fields]
        self._current_spec = current_spec
        self._sort_order = sort_order
        self._allow_incompatible = allow_incompatible
        self._case_sensitive = case_sensitive
        self._tree = FieldTree(schema.fields)
        self._added: set[int] = set()
        self._identifiers = schema.identifier_field_ids

    @property
    def last_column_id(self) -> int:
        """The highest field id ever used, with those given out by this update."""
        return self._last_column_id

    def apply(self) -> Schema:
        """The changed schema; its schema id is that of the old one until the table gives it one of its own."""
        self._check_names()
        for field_id in self._identifiers:
            if field_id not in self._tree:
                name = self._base.name_of(field_id) if field_id in self._base.by_id else str(field_id)
                raise IncompatibleChange(
                    f"cannot drop {name!r}, which is an identifier field or holds one",
                    hint="change the identifier fields with set_identifier_fields in the same update",
                    column=name,
                )
        for field_id in self._added:
            if field_id in self._tree:
                self._check_added(self._tree.parent(field_id), self._tree.field(field_id))
        changed = replace(self._base, fields=self._tree.fields(), identifier_field_ids=self._identifiers)
        changed.check_for_table(self._format_version)
        return self._base if changed == self._base else changed

    # structs and their fields --------------------------------------------------------------------------------------

    def add_column(
        self,
        name: ColumnName,
        type_: Type | str,
        *,
        doc: str | None = None,
        required: bool = False,
        default: Any = None,
        first: bool = False,
        before: ColumnName | None = None,
        after: ColumnName | None = None,
    ) -> Self:
        """Add a column, last in its struct unless a place is given; all that is nested in it gets new ids too.

        `"a.b"` adds `b` to the struct `a`, or to the structs in the list or map `a`; `("a.b",)` adds a column that is
        named so. The default (format version 3) is what rows already written will have, and also the write default.
        """
        parent_id, own_name = self._place_for(name)
        type_ = _as_type(type_, own_name)
        default = self._converted_default(type_, default, "initial-default", own_name)
        field = Field(0, own_name, type_, required, doc, initial_default=default, write_default=default)
        placed = first or before is not None or after is not None
        self._add(parent_id, field, self._place_among(parent_id, None, first, before, after) if placed else None)
        return self

    def drop_column(self, name: ColumnName) -> Self:
        """Drop a column; its id is never used again, so adding a column of the same name does not bring it back."""
        field_id = self._find_in_struct(name, "dropped")
        for used_by, what in ((self._current_spec, "partition spec"), (self._sort_order, "sort order")):
            for field in used_by.fields if used_by else ():
                if not isinstance(field.transform, Void) and any(
                    field_id in self._tree.lineage(i) for i in field.source_ids if i in self._tree
                ):
                    raise IncompatibleChange(
                        f"cannot drop {self._name(field_id)!r}: the table's {what} uses it",
                        hint=f"change the {what} first",
                        column=self._name(field_id),
                    )
        self._tree.drop(field_id)
        return self

    def rename_column(self, name: ColumnName, new_name: str) -> Self:
        """Give a column another name; `new_name` is its own name, without those of the structs around it."""
        field_id = self._find_in_struct(name, "renamed")
        if self._tree[field_id].name != new_name:
            check_column_name(new_name, top_level=self._tree.parent(field_id) is None)
            self._change(field_id, name=new_name)
        return self

    def move_column(
        self,
        name: ColumnName,
        *,
        first: bool = False,
        before: ColumnName | None = None,
        after: ColumnName | None = None,
    ) -> Self:
        """Move a column within its struct: first, or next to a sibling, given by its own or its full name."""
        field_id = self._find_in_struct(name, "moved")
        parent_id = self._tree.parent(field_id)
        place = self._place_among(parent_id, field_id, first, before, after)
        order = [i for i in self._tree.children(parent_id) if i != field_id]
        order.insert(place, field_id)
        self._tree.reorder(parent_id, order)
        return self

    # single fields -------------------------------------------------------------------------------------------------

    def promote(self, name: ColumnName, type_: Type | str) -> Self:
        """Change a column to a wider type, as the table's format version allows (see `floe.spec.schemas.promotion`)."""
        field_id = self._find(name)
        self._promote(field_id, _as_type(type_, self._name(field_id)))
        return self

    def make_optional(self, name: ColumnName) -> Self:
        """Allow nulls in a column."""
        self._make_optional(self._find(name))
        return self

    def require(self, name: ColumnName) -> Self:
        """Forbid nulls in a column, which needs `allow_incompatible` unless the column is new and has a default."""
        field_id = self._find(name)
        field = self._tree[field_id]
        if field.required:
            return self
        self._check_not_key(field_id)
        new_with_value = field_id in self._added and field.initial_default is not None
        if not (self._allow_incompatible or new_with_value or self._is_new(self._tree.parent(field_id))):
            raise IncompatibleChange(
                f"cannot require {self._name(field_id)!r}: rows already written may have null there",
                hint="if no row has, allow incompatible changes",
                column=self._name(field_id),
            )
        self._change(field_id, required=True)
        return self

    def set_doc(self, name: ColumnName, doc: str | None) -> Self:
        """Change what a column's documentation says."""
        self._change(self._find_in_struct(name, "documented"), doc=doc)
        return self

    def set_default(self, name: ColumnName, default: Any) -> Self:
        """Change the value that writers fill in from now on; rows already written keep theirs."""
        field_id = self._find_in_struct(name, "given a default")
        field = self._tree.field(field_id)
        default = self._converted_default(field.type, default, "write-default", self._name(field_id))
        self._tree.replace(replace(field, write_default=default))
        return self

    # the schema as a whole -----------------------------------------------------------------------------------------

    def set_identifier_fields(self, *names: ColumnName) -> Self:
        """Say which columns identify a row, in place of those that did so far; without names, none does."""
        self._identifiers = tuple(dict.fromkeys(self._find(name) for name in names))
        return self

    def union_by_name(self, other: Schema) -> Self:
        """Take in the columns of another schema (see `floe.spec.schemas.union_by_name`)."""
        self._check_names()
        now = Schema(self._tree.fields())
        before = FieldTree(now.fields), set(self._added), self._last_column_id
        try:
            for change in union_changes(
                now, other, format_version=self._format_version, case_sensitive=self._case_sensitive
            ):
                self._make(change)
        except FloeError:
            self._tree, self._added, self._last_column_id = before
            raise
        return self

    def _make(self, change: Change) -> None:
        match change:
            case AddField(parent_id, field):
                self._add(parent_id, field)
            case Promote(field_id, type_):
                self._promote(field_id, type_)
            case MakeOptional(field_id):
                self._make_optional(field_id)
            case SetDoc(field_id, doc):
                self._check_not_key(field_id)
                self._change(field_id, doc=doc)
            case SetWriteDefault(field_id, value):
                self._check_not_key(field_id)
                self._check_defaults_are_known("write-default", self._name(field_id))
                self._tree.replace(replace(self._tree.field(field_id), write_default=value))

    # by id ---------------------------------------------------------------------------------------------------------

    def _add(self, parent_id: int | None, field: Field, place: int | None = None) -> None:
        if parent_id is not None:
            self._check_not_key(parent_id)
        check_column_name(field.name, top_level=parent_id is None)
        for entry in walk_fields((field,)):
            if entry.field.write_default is not None:
                self._check_defaults_are_known("write-default", entry.name)
        field_id = self._last_column_id + 1
        type_, following = assign_fresh_type_ids(field.type, next_id=field_id + 1)
        field = replace(field, id=field_id, type=type_)
        Schema((field,)).check_for_table(self._format_version)
        self._check_added(parent_id, field)
        self._tree.add(parent_id, field, place)
        self._added.add(field_id)
        self._last_column_id = following - 1

    def _check_added(self, parent_id: int | None, field: Field) -> None:
        """Spec, Schema Evolution: when a required field is added, both defaults must be set to a non-null value."""
        name = ".".join((*self._tree.path(parent_id), field.name))
        lacking = field.required and (field.initial_default is None or field.write_default is None)
        if lacking and not (self._allow_incompatible or self._is_new(parent_id)):
            raise IncompatibleChange(
                f"cannot add {name!r} as a required column: rows already written have no value for it",
                hint="give it a default or make it optional"
                if self._format_version >= DEFAULTS_SINCE
                else f"make it optional; default values need format version {DEFAULTS_SINCE}",
                column=name,
            )
        if field.initial_default is not None:
            try:
                initial_value(field)
            except InvalidValue as error:
                raise InvalidSchema(f"the default of {name!r} is incomplete: {error.message}", column=name) from error

    def _promote(self, field_id: int, target: Type) -> None:
        field, name = self._tree.field(field_id), self._name(field_id)
        if field.type == target:
            return
        self._check_not_key(field_id)
        check_promotion(
            field.type,
            target,
            self._format_version,
            column=name,
            field_id=field_id,
            partition_fields=self._partition_fields,
        )
        for key in self._sort_order.fields if self._sort_order else ():
            if field_id in key.source_ids and not key.transform.can_transform(target):
                raise IncompatibleChange(
                    f"cannot change {name!r} to {target}: the table's sort order uses {key.transform} of it",
                    hint="change the sort order first",
                    column=name,
                )
        target, following = assign_fresh_type_ids(target, next_id=self._last_column_id + 1)
        self._last_column_id = following - 1
        promoted = replace(
            field,
            type=target,
            initial_default=promote_value(field.type, target, field.initial_default),
            write_default=promote_value(field.type, target, field.write_default),
        )
        self._tree.replace(promoted)

    def _make_optional(self, field_id: int) -> None:
        if self._tree[field_id].required:
            self._check_not_key(field_id)
            self._change(field_id, required=False)

    def _change(self, field_id: int, **attributes: Any) -> None:
        self._tree.replace(replace(self._tree[field_id], **attributes))

    # finding and checking ------------------------------------------------------------------------------------------

    def _find(self, name: ColumnName) -> int:
        """The id of the column that a name means now."""
        found = self._tree.names(self._case_sensitive).lookup(name)
        if len(found) > 1:
            unchanged = (i for i in found if i in self._base.by_id and self._base.by_id[i].path == self._tree.path(i))
            found = tuple(unchanged) or found
        if len(found) == 1:
            return found[0]
        shown = name if isinstance(name, str) else ".".join(name)
        if found:
            raise NoSuchColumn(f"the name {shown!r} means several columns", hint="give a path of names", column=shown)
        gone = self._base.name_index(case_sensitive=self._case_sensitive).lookup(name)
        if not gone:
            names = [self._tree[i].name for i in self._tree.children(None)]
            hint = f"columns are {', '.join(names[:12])}{', …' if len(names) > 12 else ''}"
            raise NoSuchColumn(f"no column is named {shown!r}", hint=hint, column=shown)
        now = f"named {self._name(gone[0])!r}" if gone[0] in self._tree else "dropped"
        raise NoSuchColumn(f"an earlier step of this update has {now} the column {shown!r}", column=shown)

    def _find_in_struct(self, name: ColumnName, verb: str) -> int:
        """The id of a field of a struct; elements, keys and values have no name, place, doc or default to change."""
        field_id = self._find(name)
        self._check_not_key(field_id)
        parent_id = self._tree.parent(field_id)
        if parent_id is not None and self._tree[parent_id].type.kind != "struct":
            raise IncompatibleChange(
                f"the {self._tree[field_id].name} of {self._name(parent_id)!r} cannot be {verb}: "
                f"it is a part of the {self._tree[parent_id].type.kind}",
                column=self._name(field_id),
            )
        return field_id

    def _place_for(self, name: ColumnName) -> tuple[int | None, str]:
        """The struct that a new column goes to, and the column's own name."""
        if isinstance(name, str):
            parent, dot, own_name = name.rpartition(".")
            path: ColumnName | None = parent if dot else None
        elif not name:
            raise InvalidInput("a path must hold at least one name")
        else:
            path, own_name = (name[:-1] or None), name[-1]
        if path is None:
            return None, own_name
        try:
            parent_id = self._find(path)
        except NoSuchColumn as error:
            if isinstance(name, str):
                error.hint = f"a name that contains a dot is given as a path: ({name!r},)"
            raise
        kind = self._tree[parent_id].type.kind
        if kind in ("list", "map"):  # the element, or the value
            parent_id = self._tree.children(parent_id)[-1]
        if self._tree[parent_id].type.kind != "struct":
            found = f"{self._name(parent_id)!r} is no struct, but {self._tree[parent_id].type}"
            raise InvalidSchema(f"cannot add {own_name!r} there: {found}", column=self._name(parent_id))
        return parent_id, own_name

    def _place_among(
        self,
        parent_id: int | None,
        field_id: int | None,
        first: bool,
        before: ColumnName | None,
        after: ColumnName | None,
    ) -> int:
        """Where a field goes among the others of its struct; the field is None when it is a new one."""
        if (first, before is not None, after is not None).count(True) != 1:
            raise InvalidInput("a place is given by one of first, before and after")
        reference = before if before is not None else after
        if reference is None:
            return 0
        others = [i for i in self._tree.children(parent_id) if i != field_id]
        sibling = self._sibling(parent_id, reference)
        if sibling == field_id:
            raise InvalidSchema(f"cannot move {self._name(sibling)!r} next to itself", column=self._name(sibling))
        if sibling not in others:
            struct = (
                f"the struct {'.'.join(self._tree.path(parent_id))!r}" if parent_id is not None else "the top level"
            )
            raise IncompatibleChange(
                f"{self._name(sibling)!r} is not in {struct}: a field cannot leave its struct, nor join another",
                hint="fields are moved within their struct only",
                column=self._name(sibling),
            )
        return others.index(sibling) + (after is not None)

    def _sibling(self, parent_id: int | None, reference: ColumnName) -> int:
        """The field that a move refers to: by its own name within the struct, or by its full name."""
        fold: Callable[[str], str] = str if self._case_sensitive else str.lower
        if isinstance(reference, str):
            alike = [i for i in self._tree.children(parent_id) if fold(self._tree[i].name) == fold(reference)]
            if len(alike) == 1:
                return alike[0]
        return self._find(reference)

    def _check_not_key(self, field_id: int) -> None:
        for step in self._tree.lineage(field_id):
            holder = self._tree.parent(step)
            if holder is not None and self._tree[holder].type.kind == "map" and self._tree.children(holder)[0] == step:
                raise IncompatibleChange(
                    f"cannot change {self._name(field_id)!r}: the keys of a map are fixed, for some might become equal",
                    column=self._name(field_id),
                )

    def _check_names(self) -> None:
        """Raise when a name would mean two columns that did not share it before."""
        before = self._base.name_index(case_sensitive=self._case_sensitive)
        for name, ids in self._tree.names(self._case_sensitive).shared_names():
            if len(before.lookup(name)) < len(ids):
                raise InvalidSchema(
                    f"the name {name!r} would mean both {self._tree.path(ids[0])} and {self._tree.path(ids[1])}"
                    if self._tree.path(ids[0]) != self._tree.path(ids[1])
                    else f"the name {name!r} is already in use",
                    hint="drop or rename the other column in the same update, or choose another name",
                    column=name,
                )

    def _check_defaults_are_known(self, label: str, name: str) -> None:
        if self._format_version < DEFAULTS_SINCE:
            raise InvalidSchema(
                f"the {label} of {name!r} needs format version {DEFAULTS_SINCE}; the table has {self._format_version}",
                hint="upgrade the table's format version first",
                column=name,
            )

    def _converted_default(self, type_: Type, default: Any, label: str, name: str) -> Any:
        if default is None:
            return None
        self._check_defaults_are_known(label, name)
        if type_.kind in ("struct", "unknown", "variant", "geometry", "geography"):
            check_default(type_, default, label, name)
            return default
        try:
            return values.convert(type_, default)
        except InvalidValue as error:
            raise error.with_context(column=name) from None

    def _is_new(self, field_id: int | None) -> bool:
        """Whether the field, or one around it, was added by this update, so that no row has any value of it yet."""
        return any(i in self._added for i in self._tree.lineage(field_id))

    def _name(self, field_id: int) -> str:
        return ".".join(self._tree.path(field_id))


def _as_type(type_: Type | str, column: str) -> Type:
    type_ = type_ if isinstance(type_, Type) else parse_type(type_)
    for _ in walk_fields((Field(0, column, type_),)):
        pass  # refuses what nests too deep, before anything follows it down
    return type_
