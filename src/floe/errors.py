"""Every error that Floe raises, in one tree.

```
FloeError
├── InvalidInput (ValueError)          what the caller asked for breaks a rule
│   ├── InvalidType                    a type that does not exist or cannot be
│   ├── InvalidValue                   a value that does not fit its type
│   ├── InvalidSchema                  a schema that breaks a rule of the format
│   │   └── IncompatibleChange         a schema change that would change what old data means
│   ├── InvalidPartitionSpec           a partition spec or transform that cannot be
│   ├── InvalidSortOrder               a sort order that cannot be
│   ├── InvalidExpression              a filter that cannot be parsed or bound
│   ├── InvalidUpdate                  a metadata update that cannot be applied
│   ├── InvalidLocation                a location that no storage can hold
│   ├── InvalidName                    a name that no table, view or namespace can have
│   └── InvalidSettings                a catalog's URI, option or settings file that cannot be used
├── NotFound (LookupError)             something named does not exist
│   ├── NoSuchCatalog
│   ├── NoSuchNamespace
│   ├── NoSuchTable
│   ├── NoSuchView
│   ├── NoSuchColumn
│   ├── NoSuchSnapshot
│   ├── NoSuchRef
│   └── NoSuchFile                     (a StorageError too)
├── AlreadyExists                      something is to be made, and there is one of that name
│   ├── NamespaceAlreadyExists
│   ├── TableAlreadyExists
│   └── ViewAlreadyExists
├── NamespaceNotEmpty                  a namespace that is to be dropped holds something
├── CatalogError                       a catalog could not answer
│   └── CatalogUnavailable             nothing happened, and trying again later may succeed
├── StorageError                       a file could not be read, written, listed or deleted
│   ├── NoSuchFile
│   ├── FileAlreadyExists              a file was to be created, and there is one of that name
│   ├── PathNotAllowed                 outside the allowed roots
│   ├── FileTooLarge                   more bytes than the limit allows
│   ├── AccessDenied                   the store refuses these credentials or this user
│   ├── StorageUnavailable             nothing happened, and trying again later may succeed
│   └── OutcomeUnknown                 a write whose answer was lost: it may have happened
├── CorruptFile                        a file's bytes are not what the format says
│   └── InvalidMetadata                metadata JSON that is broken, hostile or contradicts itself
├── UnsupportedFeature                 valid, but this version of Floe or of the format cannot do it
├── CommitFailed                       a change was not published
│   └── CommitConflict                 somebody else's commit came first
│       ├── RequirementFailed          the table is not in the state that the change was made for
│       └── ConflictingChange          what somebody else changed is what this change rests on
└── CommitStateUnknown                 a change may have been published or not; nothing was deleted

IgnoredSetting (UserWarning)           a property, option or setting of Iceberg's that Floe does not act on
```

Each error carries what a person needs next: `context` (table, file, column, …; shown after the message) and `hint`
(what to do).
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

__all__ = [
    "AccessDenied",
    "AlreadyExists",
    "CatalogError",
    "CatalogUnavailable",
    "CommitConflict",
    "CommitFailed",
    "CommitStateUnknown",
    "ConflictingChange",
    "CorruptFile",
    "FileAlreadyExists",
    "FileTooLarge",
    "FloeError",
    "IgnoredSetting",
    "IncompatibleChange",
    "InvalidExpression",
    "InvalidInput",
    "InvalidLocation",
    "InvalidMetadata",
    "InvalidName",
    "InvalidPartitionSpec",
    "InvalidSchema",
    "InvalidSettings",
    "InvalidSortOrder",
    "InvalidType",
    "InvalidUpdate",
    "InvalidValue",
    "NamespaceAlreadyExists",
    "NamespaceNotEmpty",
    "NoSuchCatalog",
    "NoSuchColumn",
    "NoSuchFile",
    "NoSuchNamespace",
    "NoSuchRef",
    "NoSuchSnapshot",
    "NoSuchTable",
    "NoSuchView",
    "NotFound",
    "OutcomeUnknown",
    "PathNotAllowed",
    "RequirementFailed",
    "StorageError",
    "StorageUnavailable",
    "TableAlreadyExists",
    "UnsupportedFeature",
    "ViewAlreadyExists",
]


class FloeError(Exception):
    """The root of all errors of Floe.

    >>> error = FloeError("cannot read the table", hint="check the path", table="db.t", snapshot=7)
    >>> print(error)
    cannot read the table (table: db.t, snapshot: 7); check the path
    """

    retryable: ClassVar[bool] = False
    """Whether doing the same again later can succeed."""

    def __init__(self, message: str, *, hint: str | None = None, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.context = {name: value for name, value in context.items() if value is not None}

    def __str__(self) -> str:
        text = self.message
        if self.context:
            text += " (" + ", ".join(f"{name}: {value}" for name, value in self.context.items()) + ")"
        if self.hint:
            text += f"; {self.hint}"
        return text

    def with_context(self, **context: Any) -> Self:
        """The same error, telling more about where it happened; what is known already stays."""
        for name, value in context.items():
            if value is not None:
                self.context.setdefault(name, value)
        return self


class InvalidInput(FloeError, ValueError):
    """What the caller asked for breaks a rule."""


class InvalidType(InvalidInput):
    """A type that does not exist, or whose parameters cannot be."""


class InvalidValue(InvalidInput):
    """A value that does not fit its type."""


class _InvalidText(InvalidInput):
    """Something that may have come as text: `text` and `position` (0-based, in characters) point at the place then."""

    def __init__(
        self,
        message: str,
        *,
        text: str | None = None,
        position: int | None = None,
        hint: str | None = None,
        **context: Any,
    ) -> None:
        super().__init__(message, hint=hint, **context)
        self.text = text
        self.position = position

    def __str__(self) -> str:
        words = super().__str__()
        if self.text is None or self.position is None:
            return words
        before = self.text[: self.position]
        line_start = before.rfind("\n") + 1
        line = self.text[line_start:].split("\n", 1)[0]
        return f"{words}\n  {line}\n  {' ' * (self.position - line_start)}^"


class InvalidSchema(_InvalidText):
    """A schema that breaks a rule of the format, or the text of one that cannot be understood."""


class IncompatibleChange(InvalidSchema):
    """A schema change that would change what data already written means."""


class InvalidPartitionSpec(InvalidInput):
    """A partition spec or transform that cannot be."""


class InvalidSortOrder(InvalidInput):
    """A sort order that cannot be."""


class InvalidExpression(_InvalidText):
    """A filter that cannot be parsed, or does not fit the schema.

    `text` and `position` (0-based, in characters) point at the place when the filter came as text.

    >>> print(InvalidExpression("unexpected `)`", text="a > )", position=4))
    unexpected `)`
      a > )
          ^
    """


class InvalidUpdate(InvalidInput):
    """A metadata update that cannot be applied to this table."""


class InvalidLocation(InvalidInput):
    """A location that no storage can hold: an unknown spelling, a missing bucket, a NUL character."""


class InvalidName(InvalidInput):
    """A name that no table, view or namespace can have."""


class InvalidSettings(InvalidInput):
    """A catalog's URI, an option or a settings file that cannot be used."""


class NotFound(FloeError, LookupError):
    """Something that was named does not exist."""


class NoSuchCatalog(NotFound):
    """No catalog of that name in the settings."""


class NoSuchNamespace(NotFound):
    """No namespace of that name."""


class NoSuchTable(NotFound):
    """No table of that name, or at that location."""


class NoSuchView(NotFound):
    """No view of that name."""


class NoSuchColumn(NotFound):
    """No column of that name or id."""


class NoSuchSnapshot(NotFound):
    """No snapshot of that id, or none at that time."""


class NoSuchRef(NotFound):
    """No branch or tag of that name."""


class AlreadyExists(FloeError):
    """Something is to be made, and there is one of that name already."""


class NamespaceAlreadyExists(AlreadyExists):
    """There is a namespace of that name already."""


class TableAlreadyExists(AlreadyExists):
    """There is a table of that name already (or a view: they share their names)."""


class ViewAlreadyExists(AlreadyExists):
    """There is a view of that name already (or a table: they share their names)."""


class NamespaceNotEmpty(FloeError):
    """A namespace that is to be dropped holds tables, views or other namespaces."""


class CatalogError(FloeError):
    """A catalog could not answer."""


class CatalogUnavailable(CatalogError):
    """The catalog did not answer, and nothing happened; the same call may succeed later."""

    retryable = True


class StorageError(FloeError):
    """A file could not be read, written, listed or deleted."""


class NoSuchFile(StorageError, NotFound):
    """No file of that name (a folder is not a file)."""


class FileAlreadyExists(StorageError):
    """A file was to be created, and there is one of that name already."""


class PathNotAllowed(StorageError):
    """The location lies outside the roots that may be touched."""


class FileTooLarge(StorageError):
    """The file, or the part asked for, holds more bytes than the limit allows."""


class AccessDenied(StorageError):
    """The store refuses these credentials, or the file system this user."""


class StorageUnavailable(StorageError):
    """The storage did not answer, or said no for the moment; the same call may succeed later."""

    retryable = True


class OutcomeUnknown(StorageError):
    """A write was sent and its answer was lost: the file may be there or not, and only reading can tell.

    Never retried blindly: a second attempt would mistake the first one's success for somebody else's file.
    """


class CorruptFile(FloeError):
    """A file whose bytes are not what the format says."""


class InvalidMetadata(CorruptFile):
    """Metadata that is broken, hostile or contradicts itself; `path` is the JSON path of the problem.

    The path is put together from the inside out: whoever parses a part adds its own step with `at`.

    >>> print(InvalidMetadata("must be an integer, found a string").at(".fields[2]", ".id").at(".schemas[0]"))
    $.schemas[0].fields[2].id: must be an integer, found a string
    """

    def __init__(self, message: str, *, path: str = "", hint: str | None = None, **context: Any) -> None:
        super().__init__(message, hint=hint, **context)
        self._steps = path.removeprefix("$")

    @property
    def path(self) -> str:
        """The JSON path of the problem, such as `$.schemas[0].fields[3].type`."""
        return "$" + self._steps

    def at(self, *steps: str) -> Self:
        """The same error, known to lie below these steps (`.name` or `[index]`)."""
        self._steps = "".join(steps) + self._steps
        return self

    def __str__(self) -> str:
        return f"{self.path}: {super().__str__()}"


class UnsupportedFeature(FloeError):
    """Valid, but beyond what this version of Floe, or of the table's format, can do."""


class CommitFailed(FloeError):
    """A change was not published."""


class CommitConflict(CommitFailed):
    """Somebody else's commit came first."""

    retryable = True


class RequirementFailed(CommitConflict):
    """The table is not in the state that the change was made for."""


class ConflictingChange(CommitConflict):
    """Somebody else changed what this change rests on: made again from what the table holds now, it may succeed.

    Publishing it as it is would lose one of the two, so it is not retried; the context names the other commit.
    """

    retryable = False


class CommitStateUnknown(FloeError):
    """A change may have been published or not: the answer was lost, and the table could not be read to find out.

    No file was deleted. Read the table before doing the same again: the hint says what to look for.
    """


class IgnoredSetting(UserWarning):
    """A property, option or setting that has a meaning in Iceberg, or looks like one, and that Floe does not act on.

    The text says what happens instead. `warnings.filterwarnings("error", category=floe.errors.IgnoredSetting)` makes
    it an error.
    """
