"""Every error that Floe raises, in one tree.

```
FloeError
├── InvalidInput (ValueError)          an argument breaks a rule
│   ├── InvalidType                    an unknown type, or one with invalid parameters
│   ├── InvalidValue                   a value that does not fit its type
│   ├── InvalidSchema                  a schema that breaks a rule of the format
│   │   └── IncompatibleChange         a schema change that would change the meaning of existing data
│   ├── InvalidPartitionSpec           an invalid partition spec or transform
│   ├── InvalidSortOrder               an invalid sort order
│   ├── InvalidExpression              a filter that cannot be parsed or bound
│   ├── InvalidUpdate                  a metadata update that cannot be applied
│   ├── InvalidLocation                a location that is not a valid URI or path
│   ├── InvalidName                    an invalid name of a table, view or namespace
│   └── InvalidSettings                an invalid catalog URI, option or settings file
├── NotFound (LookupError)             something named does not exist
│   ├── NoSuchCatalog
│   ├── NoSuchNamespace
│   ├── NoSuchTable
│   ├── NoSuchView
│   ├── NoSuchColumn
│   ├── NoSuchSnapshot
│   ├── NoSuchRef
│   └── NoSuchFile                     (a StorageError too)
├── AlreadyExists                      the name is taken
│   ├── NamespaceAlreadyExists
│   ├── TableAlreadyExists
│   └── ViewAlreadyExists
├── NamespaceNotEmpty                  a namespace that still contains something cannot be dropped
├── CatalogError                       a catalog could not be read or changed
│   └── CatalogUnavailable             nothing was changed; a retry may succeed
├── StorageError                       a file could not be read, written, listed or deleted
│   ├── NoSuchFile
│   ├── FileAlreadyExists              a file to be created exists already
│   ├── PathNotAllowed                 a location outside the allowed roots
│   ├── FileTooLarge                   more bytes than the limit allows
│   ├── AccessDenied                   missing permissions or invalid credentials
│   ├── StorageUnavailable             nothing was changed; a retry may succeed
│   └── OutcomeUnknown                 the response to a write was lost: it may have succeeded
├── CorruptFile                        a file that does not follow its format
│   └── InvalidMetadata                malformed, inconsistent or oversized metadata JSON
├── UnsupportedFeature                 valid, but not supported by this version of Floe or of the format
├── CommitFailed                       a change was not committed
│   └── CommitConflict                 another writer committed first
│       ├── RequirementFailed          the table changed since the change was prepared
│       └── ConflictingChange          another commit changed the data that this change depends on
└── CommitStateUnknown                 a change may or may not have been committed; no file was deleted

IgnoredSetting (UserWarning)           an Iceberg property, option or setting that Floe ignores
```

Each error carries `context` (table, file, column, …; shown after the message) and a `hint` (what to do).
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
    """Base class of all errors that Floe raises.

    >>> error = FloeError("cannot read the table", hint="check the path", table="db.t", snapshot=7)
    >>> print(error)
    cannot read the table (table: db.t, snapshot: 7); check the path
    """

    retryable: ClassVar[bool] = False
    """Whether repeating the same call later can succeed."""

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
        """Add context to the error and return it; keys that it has already keep their value."""
        for name, value in context.items():
            if value is not None:
                self.context.setdefault(name, value)
        return self


class InvalidInput(FloeError, ValueError):
    """An argument breaks a rule."""


class InvalidType(InvalidInput):
    """An unknown type, or one with invalid parameters."""


class InvalidValue(InvalidInput):
    """A value that does not fit its type."""


class _InvalidText(InvalidInput):
    """Input that may have been text: then `text` and `position` (0-based, in characters) locate the problem."""

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
    """A schema that breaks a rule of the format, or schema text that cannot be parsed."""


class IncompatibleChange(InvalidSchema):
    """A schema change that would change the meaning of data already written."""


class InvalidPartitionSpec(InvalidInput):
    """An invalid partition spec or transform."""


class InvalidSortOrder(InvalidInput):
    """An invalid sort order."""


class InvalidExpression(_InvalidText):
    """A filter that cannot be parsed, or does not fit the schema.

    When the filter was given as text, `text` and `position` (0-based, in characters) locate the problem.

    >>> print(InvalidExpression("unexpected `)`", text="a > )", position=4))
    unexpected `)`
      a > )
          ^
    """


class InvalidUpdate(InvalidInput):
    """A metadata update that cannot be applied to this table."""


class InvalidLocation(InvalidInput):
    """A location that is not a valid URI or path: an unknown scheme, a missing bucket, a NUL character."""


class InvalidName(InvalidInput):
    """An invalid name of a table, view or namespace."""


class InvalidSettings(InvalidInput):
    """An invalid catalog URI, option or settings file."""


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
    """Something of that name exists already."""


class NamespaceAlreadyExists(AlreadyExists):
    """A namespace of that name exists already."""


class TableAlreadyExists(AlreadyExists):
    """A table or view of that name exists already."""


class ViewAlreadyExists(AlreadyExists):
    """A view or table of that name exists already."""


class NamespaceNotEmpty(FloeError):
    """A namespace cannot be dropped while it contains tables, views or other namespaces."""


class CatalogError(FloeError):
    """A catalog could not be read or changed."""


class CatalogUnavailable(CatalogError):
    """The catalog did not respond and nothing was changed; a retry may succeed."""

    retryable = True


class StorageError(FloeError):
    """A file could not be read, written, listed or deleted."""


class NoSuchFile(StorageError, NotFound):
    """No file of that name (a folder is not a file)."""


class FileAlreadyExists(StorageError):
    """A file to be created exists already."""


class PathNotAllowed(StorageError):
    """The location is outside the allowed roots."""


class FileTooLarge(StorageError):
    """The file, or the requested part of it, exceeds the size limit."""


class AccessDenied(StorageError):
    """The storage rejects the credentials, or the user lacks permissions."""


class StorageUnavailable(StorageError):
    """The storage did not respond or refused the request temporarily; a retry may succeed."""

    retryable = True


class OutcomeUnknown(StorageError):
    """The response to a write was lost: only reading can tell whether the file was written.

    It is never retried blindly: a second attempt would take the file of the first for another writer's.
    """


class CorruptFile(FloeError):
    """A file that does not follow its format."""


class InvalidMetadata(CorruptFile):
    """Malformed, inconsistent or oversized metadata; `path` is the JSON path of the problem.

    The path is built from the inside out: each parser adds its own step with `at`.

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
        """Prepend steps (`.name` or `[index]`) to the path and return the error."""
        self._steps = "".join(steps) + self._steps
        return self

    def __str__(self) -> str:
        return f"{self.path}: {super().__str__()}"


class UnsupportedFeature(FloeError):
    """Valid, but not supported by this version of Floe, or by the table's format version."""


class CommitFailed(FloeError):
    """A change was not committed."""


class CommitConflict(CommitFailed):
    """Another writer committed first."""

    retryable = True


class RequirementFailed(CommitConflict):
    """The table changed since the change was prepared."""


class ConflictingChange(CommitConflict):
    """Another commit changed the data that this change depends on; made again on the current table, it may succeed.

    Committing it unchanged would lose one of the two changes, so it is not retried; the context names the other commit.
    """

    retryable = False


class CommitStateUnknown(FloeError):
    """A change may or may not have been committed: the response was lost and the table could not be read.

    No file was deleted. Read the table before repeating the change: the hint says what to look for.
    """


class IgnoredSetting(UserWarning):
    """A property, option or setting of Iceberg, or one that looks like it, that Floe ignores.

    The text says what happens instead. `warnings.filterwarnings("error", category=floe.errors.IgnoredSetting)` makes
    it an error.
    """
