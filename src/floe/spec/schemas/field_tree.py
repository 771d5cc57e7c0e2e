"""A schema taken apart, so that each field can be changed by its id, and put together again.

>>> from floe.spec.types import INT
>>> tree = FieldTree([Field(1, "st", StructType((Field(2, "a", INT), Field(3, "b", INT))))])
>>> tree.replace(replace(tree[3], name="c"))
>>> tree.reorder(1, [3, 2])
>>> print(*tree.fields())
1: st: optional struct<3: c: optional int, 2: a: optional int>
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from floe.spec.schemas.promotion import promote_value
from floe.spec.schemas.schema_fields import NameIndex, SchemaField, with_children
from floe.spec.types import Field, StructType

__all__ = ["FieldTree"]


class FieldTree:
    """Fields by id, with the order of their children; None stands for the schema itself.

    While changes are made, several fields of a struct may share a name.
    """

    def __init__(self, fields: Iterable[Field]) -> None:
        self._fields: dict[int, Field] = {}
        self._parents: dict[int, int | None] = {}
        self._children: dict[int | None, list[int]] = {None: []}
        self._names: dict[bool, NameIndex] = {}
        for field in fields:
            self.add(None, field)

    # looked at -----------------------------------------------------------------------------------------------------

    def __contains__(self, field_id: int) -> bool:
        return field_id in self._fields

    def __getitem__(self, field_id: int) -> Field:
        """The field by itself: of a nested type only the kind counts, its children are what `children` says.

        The type, and the defaults with it, are as they were when the field was added or replaced.
        """
        return self._fields[field_id]

    def field(self, field_id: int) -> Field:
        """The field with all that it holds now; the default of a list or map follows what has changed inside."""
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
        """The fields of the schema."""
        return tuple(self.field(i) for i in self._children[None])

    def children(self, field_id: int | None) -> Sequence[int]:
        """The ids of a struct's fields, of a list's element, of a map's key and value."""
        return self._children[field_id]

    def parent(self, field_id: int) -> int | None:
        """The id of the field that directly holds this one."""
        return self._parents[field_id]

    def lineage(self, field_id: int | None) -> Iterator[int]:
        """The field and those that hold it, from the inside out."""
        while field_id is not None:
            yield field_id
            field_id = self._parents[field_id]

    def path(self, field_id: int | None) -> tuple[str, ...]:
        """The names from the top of the schema down to a field."""
        return tuple(reversed([self._fields[i].name for i in self.lineage(field_id)]))

    def names(self, case_sensitive: bool) -> NameIndex:
        """The index of all names as they are now."""
        index = self._names.get(case_sensitive)
        if index is None:
            entries = (entry for i in self._children[None] for entry in self._entries(i))
            index = self._names[case_sensitive] = NameIndex(entries, case_sensitive=case_sensitive)
        return index

    def _entries(self, field_id: int) -> Iterator[SchemaField]:
        """The field and all that it holds, with where they stand."""
        _, *around = self.lineage(field_id)
        above = tuple(self._fields[i] for i in reversed(around))
        waiting = [SchemaField(self._fields[field_id], above, (_TOP, *(field.type for field in above)))]
        while waiting:
            entry = waiting.pop()
            yield entry
            ancestors, holders = (*entry.ancestors, entry.field), (*entry.ancestor_types, entry.field.type)
            children = reversed(self._children[entry.field.id])
            waiting.extend(SchemaField(self._fields[i], ancestors, holders) for i in children)

    # changed -------------------------------------------------------------------------------------------------------

    def add(self, parent_id: int | None, field: Field, place: int | None = None) -> None:
        """Add a field with all that it holds, at a place among its siblings or as the last of them."""
        siblings = self._children[parent_id]
        siblings.insert(len(siblings) if place is None else place, field.id)
        self._put(parent_id, field)
        self._name(field.id)

    def _put(self, parent_id: int | None, field: Field) -> None:
        self._parents[field.id] = parent_id
        self._fields[field.id] = field
        self._put_children(field)

    def _put_children(self, field: Field) -> None:
        self._children[field.id] = [child.id for child in field.type.fields]
        for child in field.type.fields:
            self._put(field.id, child)

    def replace(self, field: Field) -> None:
        """Put another definition in the place of a field; children come with it only if its type was not nested."""
        brings_children = not self._fields[field.id].type.is_nested
        self._unname(field.id)
        self._fields[field.id] = field
        if brings_children:
            self._put_children(field)
        self._name(field.id)

    def drop(self, field_id: int) -> None:
        """Remove a field and all that it holds."""
        self._unname(field_id)
        self._children[self._parents[field_id]].remove(field_id)
        gone = [field_id]
        while gone:
            step = gone.pop()
            gone.extend(self._children.pop(step))
            del self._fields[step], self._parents[step]

    def reorder(self, parent_id: int | None, order: Sequence[int]) -> None:
        """Put the children of a struct in another order."""
        self._children[parent_id] = list(order)

    # A schema may have thousands of columns and an update thousands of steps, so names are kept up to date one by one.

    def _name(self, field_id: int) -> None:
        for index in self._names.values():
            for entry in self._entries(field_id):
                index.add(entry)

    def _unname(self, field_id: int) -> None:
        for index in self._names.values():
            for entry in self._entries(field_id):
                index.discard(entry)


_TOP = StructType()
