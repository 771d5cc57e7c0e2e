"""Schema evolution: adding, dropping, renaming, moving and promoting columns (spec: Schema Evolution).

A `SchemaUpdate` takes changes one after the other; `apply` returns the new schema. Columns are identified by field id,
so no change touches data: an added column gets an id never used before, a renamed one keeps its id. The update edits a
`FieldTree`, in which each field can be changed by its id.

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

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, Self

from floe.errors import FloeError, IncompatibleChange, InvalidInput, InvalidSchema, InvalidValue, NoSuchColumn
from floe.spec import values
from floe.spec.partitioning.transforms import Void
from floe.spec.schemas.metadata_columns import check_column_name
from floe.spec.schemas.promotion import TransformedField, check_promotion, promote_value
from floe.spec.schemas.schema import (
    DEFAULTS_SINCE,
    NameIndex,
    Schema,
    SchemaField,
    assign_fresh_type_ids,
    check_default,
    initial_value,
    walk_fields,
    with_children,
)
from floe.spec.schemas.union_by_name import (
    AddField,
    Change,
    MakeOptional,
    Promote,
    SetDoc,
    SetWriteDefault,
    union_changes,
)
from floe.spec.types import Field, StructType, Type, parse_type


class FieldTree:
    """A schema as fields by id, with the order of their children; None stands for the schema itself.

    While changes are made, several fields of a struct may share a name.

    >>> from floe.spec.types import INT
    >>> tree = FieldTree([Field(1, "st", StructType((Field(2, "a", INT), Field(3, "b", INT))))])
    >>> tree.replace(replace(tree[3], name="c"))
    >>> tree.reorder(1, [3, 2])
    >>> print(*tree.fields())
    1: st: optional struct<3: c: optional int, 2: a: optional int>
    """

    def __init__(self, fields: Iterable[Field]) -> None:
        self._fields: dict[int, Field] = {}
        self._parents: dict[int, int | None] = {}
        self._children: dict[int | None, list[int]] = {None: []}
        self._names: dict[bool, NameIndex] = {}
        for field in fields:
            self.add(None, field)

    # Reading ------------------------------------------------------------------------------------------------------

    def __contains__(self, field_id: int) -> bool:
        return field_id in self._fields

    def __getitem__(self, field_id: int) -> Field:
        """Return the field as it was added or replaced; changes of its children do not show in its type."""
        return self._fields[field_id]

    def field(self, field_id: int) -> Field:
        """Return the field with its current children; the defaults of lists and maps are converted accordingly."""
        field = self._fields[field_id]
        if not field.type.is_nested:
            return field
        type_ = with_children(field.type, [self.field(i) for i in self._children[field_id]])
        return replace(
            field,
            type=type_,
            initial_default=promote_value(field.type, type_, field.initial_default),
            write_default=promote_value(field.type, type_, field.write_default),
        )

    def fields(self) -> tuple[Field, ...]:
        """Return the fields of the schema."""
        return tuple(self.field(i) for i in self._children[None])

    def children(self, field_id: int | None) -> Sequence[int]:
        """Return the ids of a struct's fields, of a list's element, of a map's key and value."""
        return self._children[field_id]

    def parent(self, field_id: int) -> int | None:
        """Return the id of a field's parent."""
        return self._parents[field_id]

    def lineage(self, field_id: int | None) -> Iterator[int]:
        """Yield the ids of the field and its ancestors, from the inside out."""
        while field_id is not None:
            yield field_id
            field_id = self._parents[field_id]

    def path(self, field_id: int | None) -> tuple[str, ...]:
        """Return the names from the top of the schema down to a field."""
        return tuple(reversed([self._fields[i].name for i in self.lineage(field_id)]))

    def names(self, case_sensitive: bool) -> NameIndex:
        """Return the index of the current names."""
        index = self._names.get(case_sensitive)
        if index is None:
            entries = (entry for i in self._children[None] for entry in self._entries(i))
            index = self._names[case_sensitive] = NameIndex(entries, case_sensitive=case_sensitive)
        return index

    def _entries(self, field_id: int) -> Iterator[SchemaField]:
        """Yield the field and its descendants, each with its ancestors."""
        _, *ancestor_ids = self.lineage(field_id)
        ancestors = tuple(self._fields[i] for i in reversed(ancestor_ids))
        stack = [SchemaField(self._fields[field_id], ancestors, (_TOP, *(field.type for field in ancestors)))]
        while stack:
            entry = stack.pop()
            yield entry
            above, types = (*entry.ancestors, entry.field), (*entry.ancestor_types, entry.field.type)
            children = reversed(self._children[entry.field.id])
            stack.extend(SchemaField(self._fields[i], above, types) for i in children)

    # Changes ------------------------------------------------------------------------------------------------------

    def add(self, parent_id: int | None, field: Field, index: int | None = None) -> None:
        """Add a field with its descendants, at an index among its siblings or as the last of them."""
        siblings = self._children[parent_id]
        siblings.insert(len(siblings) if index is None else index, field.id)
        self._register(parent_id, field)
        self._index_names(field.id)

    def _register(self, parent_id: int | None, field: Field) -> None:
        self._parents[field.id] = parent_id
        self._fields[field.id] = field
        self._register_children(field)

    def _register_children(self, field: Field) -> None:
        self._children[field.id] = [child.id for child in field.type.fields]
        for child in field.type.fields:
            self._register(field.id, child)

    def replace(self, field: Field) -> None:
        """Replace the definition of a field; its children are replaced only if its type was not nested before."""
        replaces_children = not self._fields[field.id].type.is_nested
        self._unindex_names(field.id)
        self._fields[field.id] = field
        if replaces_children:
            self._register_children(field)
        self._index_names(field.id)

    def drop(self, field_id: int) -> None:
        """Remove a field and its descendants."""
        self._unindex_names(field_id)
        self._children[self._parents[field_id]].remove(field_id)
        stack = [field_id]
        while stack:
            dropped = stack.pop()
            stack.extend(self._children.pop(dropped))
            del self._fields[dropped], self._parents[dropped]

    def reorder(self, parent_id: int | None, order: Sequence[int]) -> None:
        """Reorder the children of a struct."""
        self._children[parent_id] = list(order)

    # A schema may have thousands of columns and an update thousands of steps: name indexes are updated, not rebuilt.

    def _index_names(self, field_id: int) -> None:
        for index in self._names.values():
            for entry in self._entries(field_id):
                index.add(entry)

    def _unindex_names(self, field_id: int) -> None:
        for index in self._names.values():
            for entry in self._entries(field_id):
                index.discard(entry)


_TOP = StructType()
ColumnName = str | Sequence[str]
"""A dotted name or a path of names; a path is needed for a name that contains a dot."""


class _Transforms(Protocol):
    """A partition spec or a sort order."""

    @property
    def fields(self) -> Sequence[TransformedField]:
        """The fields of the spec or order, each with a transform."""


class SchemaUpdate:
    """Changes to a schema, made one after the other; each method returns the update, so that calls can be chained.

    Every step uses the names that the steps before it left. While two columns share a name, it refers to the one that
    had it from the start; so names are swapped by `rename_column("a", "b")`, then `rename_column("b", "a")`.

    `partition_specs` are all specs of the table: a type is not promoted where partition values would change. Columns
    that `current_spec` or `sort_order` use cannot be dropped. `allow_incompatible` permits changes that may make
    existing data invalid: required columns without a default, and requiring a column that was optional.

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
        """The highest field id ever used, including those assigned by this update."""
        return self._last_column_id

    def apply(self) -> Schema:
        """Return the changed schema; it has the id of the old one until it is added to a table."""
        self._check_names()
        for field_id in self._identifiers:
            if field_id not in self._tree:
                name = self._base.name_of(field_id) if field_id in self._base.by_id else str(field_id)
                raise IncompatibleChange(
                    f"cannot drop {name!r}, which is an identifier field or contains one",
                    hint="change the identifier fields with set_identifier_fields in the same update",
                    column=name,
                )
        for field_id in self._added:
            if field_id in self._tree:
                self._check_added(self._tree.parent(field_id), self._tree.field(field_id))
        changed = replace(self._base, fields=self._tree.fields(), identifier_field_ids=self._identifiers)
        changed.check_for_table(self._format_version)
        return self._base if changed == self._base else changed

    # Structs and their fields --------------------------------------------------------------------------------------

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
        """Add a column, last in its struct unless `first`, `before` or `after` is set; nested fields get new ids too.

        `"a.b"` adds `b` to the struct `a`, or to the structs in the list or map `a`; `("a.b",)` adds a column of that
        name. The default (format version 3) applies to existing rows, and is the write default too.
        """
        parent_id, last_name = self._parent_for(name)
        type_ = _as_type(type_, last_name)
        default = self._converted_default(type_, default, "initial-default", last_name)
        field = Field(0, last_name, type_, required, doc, initial_default=default, write_default=default)
        has_position = first or before is not None or after is not None
        self._add(parent_id, field, self._index_among(parent_id, None, first, before, after) if has_position else None)
        return self

    def drop_column(self, name: ColumnName) -> Self:
        """Drop a column; its id is never reused, so adding a column of the same name does not restore it."""
        field_id = self._find_in_struct(name, "dropped")
        for layout, label in ((self._current_spec, "partition spec"), (self._sort_order, "sort order")):
            for field in layout.fields if layout else ():
                if not isinstance(field.transform, Void) and any(
                    field_id in self._tree.lineage(i) for i in field.source_ids if i in self._tree
                ):
                    raise IncompatibleChange(
                        f"cannot drop {self._name(field_id)!r}: the table's {label} uses it",
                        hint=f"change the {label} first",
                        column=self._name(field_id),
                    )
        self._tree.drop(field_id)
        return self

    def rename_column(self, name: ColumnName, new_name: str) -> Self:
        """Rename a column; `new_name` is the name within its struct."""
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
        """Move a column within its struct: first, or next to a sibling, named within the struct or in full."""
        field_id = self._find_in_struct(name, "moved")
        parent_id = self._tree.parent(field_id)
        index = self._index_among(parent_id, field_id, first, before, after)
        order = [i for i in self._tree.children(parent_id) if i != field_id]
        order.insert(index, field_id)
        self._tree.reorder(parent_id, order)
        return self

    # Single fields -------------------------------------------------------------------------------------------------

    def promote(self, name: ColumnName, type_: Type | str) -> Self:
        """Change a column to a wider type that the format version allows (see `floe.spec.schemas.promotion`)."""
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
        """Change the documentation of a column."""
        self._change(self._find_in_struct(name, "documented"), doc=doc)
        return self

    def set_default(self, name: ColumnName, default: Any) -> Self:
        """Change the write default of a column; existing rows keep their values."""
        field_id = self._find_in_struct(name, "given a default")
        field = self._tree.field(field_id)
        default = self._converted_default(field.type, default, "write-default", self._name(field_id))
        self._tree.replace(replace(field, write_default=default))
        return self

    # The entire schema ---------------------------------------------------------------------------------------------

    def set_identifier_fields(self, *names: ColumnName) -> Self:
        """Replace the identifier fields, the columns that identify a row; without names, remove them."""
        self._identifiers = tuple(dict.fromkeys(self._find(name) for name in names))
        return self

    def union_by_name(self, other: Schema) -> Self:
        """Add the columns of another schema by name (see `floe.spec.schemas.union_by_name`)."""
        self._check_names()
        current = Schema(self._tree.fields())
        saved = FieldTree(current.fields), set(self._added), self._last_column_id
        try:
            for change in union_changes(
                current, other, format_version=self._format_version, case_sensitive=self._case_sensitive
            ):
                self._apply_change(change)
        except FloeError:
            self._tree, self._added, self._last_column_id = saved
            raise
        return self

    def _apply_change(self, change: Change) -> None:
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
                self._check_supports_defaults("write-default", self._name(field_id))
                self._tree.replace(replace(self._tree.field(field_id), write_default=value))

    # Changes by field id ---------------------------------------------------------------------------------------------

    def _add(self, parent_id: int | None, field: Field, index: int | None = None) -> None:
        if parent_id is not None:
            self._check_not_key(parent_id)
        check_column_name(field.name, top_level=parent_id is None)
        for entry in walk_fields((field,)):
            if entry.field.write_default is not None:
                self._check_supports_defaults("write-default", entry.name)
        field_id = self._last_column_id + 1
        type_, next_id = assign_fresh_type_ids(field.type, next_id=field_id + 1)
        field = replace(field, id=field_id, type=type_)
        Schema((field,)).check_for_table(self._format_version)
        self._check_added(parent_id, field)
        self._tree.add(parent_id, field, index)
        self._added.add(field_id)
        self._last_column_id = next_id - 1

    def _check_added(self, parent_id: int | None, field: Field) -> None:
        """Raise if a required field is added without both defaults being set (spec: Schema Evolution)."""
        name = ".".join((*self._tree.path(parent_id), field.name))
        lacks_default = field.required and (field.initial_default is None or field.write_default is None)
        if lacks_default and not (self._allow_incompatible or self._is_new(parent_id)):
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
        for sort_field in self._sort_order.fields if self._sort_order else ():
            if field_id in sort_field.source_ids and not sort_field.transform.can_transform(target):
                raise IncompatibleChange(
                    f"cannot change {name!r} to {target}: the table's sort order uses {sort_field.transform} of it",
                    hint="change the sort order first",
                    column=name,
                )
        target, next_id = assign_fresh_type_ids(target, next_id=self._last_column_id + 1)
        self._last_column_id = next_id - 1
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

    # Lookup and checks ----------------------------------------------------------------------------------------------

    def _find(self, name: ColumnName) -> int:
        """Return the id of the column that a name refers to after the steps so far."""
        ids = self._tree.names(self._case_sensitive).lookup(name)
        if len(ids) > 1:
            unchanged = (i for i in ids if i in self._base.by_id and self._base.by_id[i].path == self._tree.path(i))
            ids = tuple(unchanged) or ids
        if len(ids) == 1:
            return ids[0]
        text = name if isinstance(name, str) else ".".join(name)
        if ids:
            raise NoSuchColumn(f"the name {text!r} is ambiguous", hint="pass a path of names", column=text)
        former_ids = self._base.name_index(case_sensitive=self._case_sensitive).lookup(name)
        if not former_ids:
            names = [self._tree[i].name for i in self._tree.children(None)]
            hint = f"columns are {', '.join(names[:12])}{', …' if len(names) > 12 else ''}"
            raise NoSuchColumn(f"no column is named {text!r}", hint=hint, column=text)
        change = f"renamed it to {self._name(former_ids[0])!r}" if former_ids[0] in self._tree else "dropped it"
        raise NoSuchColumn(
            f"no column is named {text!r} any more: an earlier step of this update has {change}", column=text
        )

    def _find_in_struct(self, name: ColumnName, verb: str) -> int:
        """Return the id of a struct's field; elements, keys and values have no name, doc or default to change."""
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

    def _parent_for(self, name: ColumnName) -> tuple[int | None, str]:
        """Return the id of the struct that a new column is added to, and the column's name within it."""
        if isinstance(name, str):
            parent, dot, last_name = name.rpartition(".")
            path: ColumnName | None = parent if dot else None
        elif not name:
            raise InvalidInput("a path must have at least one name")
        else:
            path, last_name = (name[:-1] or None), name[-1]
        if path is None:
            return None, last_name
        try:
            parent_id = self._find(path)
        except NoSuchColumn as error:
            if isinstance(name, str):
                error.hint = f"pass a name that contains a dot as a path: ({name!r},)"
            raise
        kind = self._tree[parent_id].type.kind
        if kind in ("list", "map"):  # the element, or the value
            parent_id = self._tree.children(parent_id)[-1]
        if self._tree[parent_id].type.kind != "struct":
            parent = self._name(parent_id)
            raise InvalidSchema(
                f"cannot add {last_name!r} to {parent!r}: it is not a struct, but {self._tree[parent_id].type}",
                column=parent,
            )
        return parent_id, last_name

    def _index_among(
        self,
        parent_id: int | None,
        field_id: int | None,
        first: bool,
        before: ColumnName | None,
        after: ColumnName | None,
    ) -> int:
        """Return the index of a field among the others of its struct; `field_id` is None for a new field."""
        if (first, before is not None, after is not None).count(True) != 1:
            raise InvalidInput("pass exactly one of first, before and after")
        reference = before if before is not None else after
        if reference is None:
            return 0
        siblings = [i for i in self._tree.children(parent_id) if i != field_id]
        sibling = self._sibling(parent_id, reference)
        if sibling == field_id:
            raise InvalidSchema(f"cannot move {self._name(sibling)!r} next to itself", column=self._name(sibling))
        if sibling not in siblings:
            struct = (
                f"the struct {'.'.join(self._tree.path(parent_id))!r}" if parent_id is not None else "the top level"
            )
            raise IncompatibleChange(
                f"{self._name(sibling)!r} is not in {struct}: a field cannot move to another struct",
                hint="fields can only be moved within their struct",
                column=self._name(sibling),
            )
        return siblings.index(sibling) + (after is not None)

    def _sibling(self, parent_id: int | None, reference: ColumnName) -> int:
        """Return the id of the field that a move refers to, by its name within the struct or its full name."""
        fold: Callable[[str], str] = str if self._case_sensitive else str.lower
        if isinstance(reference, str):
            matches = [i for i in self._tree.children(parent_id) if fold(self._tree[i].name) == fold(reference)]
            if len(matches) == 1:
                return matches[0]
        return self._find(reference)

    def _check_not_key(self, field_id: int) -> None:
        for ancestor_id in self._tree.lineage(field_id):
            parent_id = self._tree.parent(ancestor_id)
            if (
                parent_id is not None
                and self._tree[parent_id].type.kind == "map"
                and self._tree.children(parent_id)[0] == ancestor_id
            ):
                raise IncompatibleChange(
                    f"cannot change {self._name(field_id)!r}: map keys cannot change, because two might become equal",
                    column=self._name(field_id),
                )

    def _check_names(self) -> None:
        """Raise if a name would refer to two columns that did not share it before."""
        before = self._base.name_index(case_sensitive=self._case_sensitive)
        for name, ids in self._tree.names(self._case_sensitive).shared_names():
            if len(before.lookup(name)) < len(ids):
                raise InvalidSchema(
                    f"the name {name!r} would refer to both {self._tree.path(ids[0])} and {self._tree.path(ids[1])}"
                    if self._tree.path(ids[0]) != self._tree.path(ids[1])
                    else f"the name {name!r} is already in use",
                    hint="drop or rename the other column in the same update, or choose another name",
                    column=name,
                )

    def _check_supports_defaults(self, label: str, name: str) -> None:
        if self._format_version < DEFAULTS_SINCE:
            raise InvalidSchema(
                f"the {label} of {name!r} needs format version {DEFAULTS_SINCE}; the table has {self._format_version}",
                hint="upgrade the table's format version first",
                column=name,
            )

    def _converted_default(self, type_: Type, default: Any, label: str, name: str) -> Any:
        if default is None:
            return None
        self._check_supports_defaults(label, name)
        if type_.kind in ("struct", "unknown", "variant", "geometry", "geography"):
            check_default(type_, default, label, name)
            return default
        try:
            return values.convert(type_, default)
        except InvalidValue as error:
            raise error.with_context(column=name) from None

    def _is_new(self, field_id: int | None) -> bool:
        """Whether this update added the field or one of its ancestors, so that no row has a value of it yet."""
        return any(i in self._added for i in self._tree.lineage(field_id))

    def _name(self, field_id: int) -> str:
        return ".".join(self._tree.path(field_id))


def _as_type(type_: Type | str, column: str) -> Type:
    type_ = type_ if isinstance(type_, Type) else parse_type(type_)
    for _ in walk_fields((Field(0, column, type_),)):
        pass  # raises for types nested too deeply, before anything recurses into them
    return type_
