"""Views as values: versions with their SQL in one or more dialects, and the log of which was current when.

A view has no data; it is a query that engines share (view spec, format version 1). Versions never change: a view is
replaced by adding a version and making it current, which `floe.spec.views.view_updates` does. `extra` keeps the JSON
keys that this version does not know; it takes no part in comparisons.

>>> version = ViewVersion(
...     1,
...     schema_id=0,
...     timestamp_ms=0,
...     default_namespace=("db",),
...     representations=(SqlRepresentation("SELECT 1 AS one", "spark"),),
... )
>>> version.sql("Spark")
'SELECT 1 AS one'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from floe.errors import InvalidMetadata, NotFound
from floe.spec.schemas.schema import Schema

__all__ = [
    "VIEW_FORMAT_VERSION",
    "OtherRepresentation",
    "SqlRepresentation",
    "ViewHistoryEntry",
    "ViewMetadata",
    "ViewRepresentation",
    "ViewVersion",
    "check_view",
]

T = TypeVar("T")

VIEW_FORMAT_VERSION: Final = 1
"""The only version of the view format."""


@dataclass(frozen=True, slots=True)
class SqlRepresentation:
    """The view as a SELECT statement of one dialect."""

    sql: str
    dialect: str
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class OtherRepresentation:
    """The view in a form that this version does not know; `json` is the whole of it."""

    type: str
    json: dict[str, Any] = field(hash=False, repr=False)


ViewRepresentation: TypeAlias = SqlRepresentation | OtherRepresentation
"""One way to say what the view is."""


@dataclass(frozen=True, slots=True)
class ViewVersion:
    """What the view was defined to be at some time; a version never changes.

    Names in the SQL without a catalog are looked for in `default_catalog`, which is the view's own where it is None,
    and bare names in `default_namespace`.
    """

    version_id: int
    schema_id: int
    timestamp_ms: int
    representations: tuple[ViewRepresentation, ...]
    default_namespace: tuple[str, ...]
    default_catalog: str | None = None
    summary: dict[str, str] = field(default_factory=dict, hash=False)
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)

    @property
    def dialects(self) -> tuple[str, ...]:
        """The SQL dialects of the version, in lower case: there is one representation for each."""
        return tuple(r.dialect.lower() for r in self.representations if isinstance(r, SqlRepresentation))

    def sql(self, dialect: str) -> str:
        """The SELECT statement in a dialect, whatever the case of its name.

        >>> ViewVersion(1, 0, 0, (), ()).sql("trino")
        Traceback (most recent call last):
        floe.errors.NotFound: the view has no SQL in dialect 'trino' (view version: 1); ...
        """
        for representation in self.representations:
            if isinstance(representation, SqlRepresentation) and representation.dialect.lower() == dialect.lower():
                return representation.sql
        raise NotFound(
            f"the view has no SQL in dialect {dialect!r}",
            hint=f"it has {', '.join(self.dialects) or 'none'}",
            **{"view version": self.version_id},
        )

    def same_definition(self, other: ViewVersion) -> bool:
        """Whether two versions mean the same, whatever their ids and times, so that one need not be kept beside it."""
        return (
            self.schema_id == other.schema_id
            and self.representations == other.representations
            and self.default_catalog == other.default_catalog
            and self.default_namespace == other.default_namespace
            and self.summary == other.summary
        )


@dataclass(frozen=True, slots=True)
class ViewHistoryEntry:
    """When a version became current; a version that was rolled back to is there again."""

    timestamp_ms: int
    version_id: int
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ViewMetadata:
    """The whole state of a view."""

    view_uuid: str
    location: str
    current_version_id: int
    versions: tuple[ViewVersion, ...]
    version_log: tuple[ViewHistoryEntry, ...]
    schemas: tuple[Schema, ...]
    properties: dict[str, str] = field(default_factory=dict, hash=False)
    format_version: int = VIEW_FORMAT_VERSION
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)

    @property
    def current_version(self) -> ViewVersion:
        """The version that readers use."""
        return self.version(self.current_version_id)

    @property
    def schema(self) -> Schema:
        """The schema of the current version."""
        return self.schema_by_id(self.current_version.schema_id)

    def version(self, version_id: int) -> ViewVersion:
        """The version of that id."""
        return _found(version_id, {version.version_id: version for version in self.versions}, "version")

    def schema_by_id(self, schema_id: int) -> Schema:
        """The schema of that id."""
        return _found(schema_id, {schema.schema_id: schema for schema in self.schemas}, "schema")


def _found(wanted: int, known: Mapping[int, T], what: str) -> T:
    try:
        return known[wanted]
    except KeyError:
        some = ", ".join(map(str, list(known)[:12])) or "none"
        raise NotFound(f"the view has no {what} {wanted}", hint=f"it has {some}") from None


def check_view(metadata: ViewMetadata) -> None:
    """Raise unless the parts of a view's metadata agree; problems are `InvalidMetadata` with their JSON path.

    >>> check_view(ViewMetadata("c9b7…", "s3://b/v", 1, (), (), ()))
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $.current-version-id: there is no version 1
    """
    schema_ids = _distinct([schema.schema_id for schema in metadata.schemas], ".schemas", ".schema-id")
    version_ids = _distinct([version.version_id for version in metadata.versions], ".versions", ".version-id")
    if metadata.current_version_id not in version_ids:
        raise InvalidMetadata(f"there is no version {metadata.current_version_id}").at(".current-version-id")
    for n, version in enumerate(metadata.versions):
        if version.schema_id not in schema_ids:
            raise InvalidMetadata(f"there is no schema {version.schema_id}").at(f".versions[{n}]", ".schema-id")
        if repeated := repeated_dialect(version):
            raise InvalidMetadata(f"there are two SQL representations of dialect {repeated!r}").at(
                f".versions[{n}]", ".representations"
            )


def repeated_dialect(version: ViewVersion) -> str | None:
    """The first dialect that has more than one SQL representation (view spec, SQL representation), or None."""
    seen: set[str] = set()
    for dialect in version.dialects:
        if dialect in seen:
            return dialect
        seen.add(dialect)
    return None


def _distinct(ids: list[int], where: str, key: str) -> set[int]:
    seen: set[int] = set()
    for n, item_id in enumerate(ids):
        if item_id in seen:
            raise InvalidMetadata(f"the id {item_id} is used twice").at(f"{where}[{n}]", key)
        seen.add(item_id)
    return seen
