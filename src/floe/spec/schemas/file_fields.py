"""The columns of a data file as the file's own schema tells them; their field ids may be missing.

Readers of Parquet, Avro and ORC files turn the file's schema into `FileField`s; `name_mapping` fills in missing ids,
and `column_resolution` matches them with the columns of a table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from floe.errors import CorruptFile
from floe.spec.types import Field, Type

__all__ = ["FileField", "has_ids", "without_ids"]

_CHILDREN: dict[str, int | None] = {"struct": None, "list": 1, "map": 2}
"""How many children a nested column has; None for any number."""


@dataclass(frozen=True, slots=True)
class FileField:
    """A column of a data file, or a part of one.

    `stored` is the type as stored, for a column without children. A list has one child and a map two, key and value,
    whatever the file calls them.

    >>> from floe.spec.types import INT, ListType
    >>> tags = FileField.of(Field(1, "tags", ListType(2, INT)))
    >>> tags.kind, tags.children
    ('list', (FileField(name='element', kind='int', stored=INT, id=2, children=()),))
    """

    name: str
    kind: str
    stored: Type | None = None
    id: int | None = None
    children: tuple[FileField, ...] = ()

    def __post_init__(self) -> None:
        wanted = _CHILDREN.get(self.kind, 0)
        if wanted is not None and len(self.children) != wanted:
            raise CorruptFile(
                f"a column of kind {self.kind} must have {wanted} children, found {len(self.children)}",
                column=self.name,
            )
        if (self.stored is None) != (self.kind in _CHILDREN):
            raise CorruptFile("a column has either children or a type", column=self.name)

    @classmethod
    def of(cls, field: Field) -> FileField:
        """The column that a file has when it was written with a field."""
        children = tuple(map(cls.of, field.type.fields))
        return cls(field.name, field.type.kind, None if field.type.is_nested else field.type, field.id, children)


def has_ids(fields: Iterable[FileField]) -> bool:
    """Whether any column, at any depth, has a field id: then the file's ids hold and no name mapping applies.

    >>> from floe.spec.types import INT
    >>> has_ids([FileField("a", "int", INT)]), has_ids([FileField("a", "int", INT, id=1)])
    (False, True)
    """
    return any(field.id is not None or has_ids(field.children) for field in fields)


def without_ids(fields: Iterable[FileField]) -> tuple[FileField, ...]:
    """The same columns as a file has them that was not written for a table."""
    return tuple(replace(field, id=None, children=without_ids(field.children)) for field in fields)
