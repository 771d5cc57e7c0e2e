"""`SqlStore`: the database, rows and file storage that the parts of a SQL catalog share.

`SqlStore.change` runs a transaction and finds its outcome if the connection is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from floe.catalog.identifiers import Identifier, Namespace, format_identifier
from floe.catalog.sql.database import Database, Session
from floe.catalog.sql.records import (
    NAMESPACES,
    TABLES,
    Kind,
    Namespaces,
    Query,
    Record,
    Records,
    SqlSchema,
    joined_namespace,
)
from floe.commit.pointer import Outcome
from floe.commit.roots import TableRoots
from floe.errors import (
    AlreadyExists,
    CatalogUnavailable,
    CommitStateUnknown,
    FloeError,
    InvalidSettings,
    NoSuchTable,
    NoSuchView,
    NotFound,
    OutcomeUnknown,
    TableAlreadyExists,
    ViewAlreadyExists,
)
from floe.storage.environment import Environment
from floe.storage.protocol import Storage

_SHOWN = 5

_WORDS = {Kind.TABLE: "table", Kind.VIEW: "view", None: "row of an unknown type"}
_MISSING: dict[Kind, type[NotFound]] = {Kind.TABLE: NoSuchTable, Kind.VIEW: NoSuchView}
_TAKEN: dict[Kind, type[AlreadyExists]] = {Kind.TABLE: TableAlreadyExists, Kind.VIEW: ViewAlreadyExists}


class CatalogName:
    """The catalog name in the rows: the one from the options, or else the only one that the database has.

    A database with several must have the default among them; an empty one gets the default.
    """

    def __init__(self, configured: str | None, default: str) -> None:
        self._name, self._default = configured, default

    def __str__(self) -> str:
        return self._name or self._default

    def find(self, query: Query) -> str:
        """The name; read from the database once, if it is not configured."""
        if self._name is not None:
            return self._name
        rows = query(f"SELECT catalog_name FROM {TABLES} UNION SELECT catalog_name FROM {NAMESPACES}", ())
        names = sorted(name for (name,) in rows)
        if not names:
            return self._default
        if len(names) > 1 and self._default not in names:
            listed = ", ".join(map(repr, names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
            raise InvalidSettings(
                f"the database has {len(names)} catalogs, {listed}, and none named {self._default!r}",
                hint=f"choose one: name={names[0]!r}, or catalog_name={names[0]!r} in settings",
            )
        self._name = self._default if self._default in names else names[0]
        return self._name


@dataclass(frozen=True, slots=True)
class SqlStore:
    """One catalog's rows in a database, and the storage of its files."""

    database: Database
    schema: SqlSchema
    name: CatalogName
    storage: Storage
    environment: Environment

    def records(self) -> Records:
        """The rows of tables and views; not to be called within a transaction, since it may read the schema."""
        version = self.schema.version()
        return Records(self.name.find(self.database.read), version)

    def namespaces(self) -> Namespaces:
        """The rows of namespaces; not to be called within a transaction."""
        self.schema.version()
        catalog_name = self.name.find(self.database.read)
        return Namespaces(catalog_name, self.database.lock_for_share, self.database.lock_for_update)

    def roots(self, namespace: Namespace) -> TableRoots:
        """The storage for a table of a namespace, limited to the folders that the catalog allows it."""

        def update(properties: Mapping[str, str]) -> None:
            namespaces = self.namespaces()
            with self.database.transaction() as session:
                namespaces.update(session, namespace, properties, frozenset())

        return TableRoots(self.storage, lambda: self.namespaces().properties(self.database.read, namespace), update)

    def storage_at(self, location: str) -> Storage:
        """The storage for a file that a row names, and others in its folder."""
        return self.roots(()).allow_table_folder(location)

    def check_name(self, identifier: Identifier) -> None:
        """Raise if the name is too long for the database."""
        self.schema.check_lengths(table_namespace=joined_namespace(identifier[:-1]), table_name=identifier[-1])

    def check_free(self, query: Query, records: Records, kind: Kind, identifier: Identifier) -> None:
        """Raise if the name is taken; tables and views share their names."""
        record = records.find(query, identifier)
        if record is not None:
            raise self.name_in_use(kind, record)

    @staticmethod
    def name_in_use(kind: Kind, existing: Record) -> AlreadyExists:
        """The error for a new table or view whose name an existing row has."""
        return _TAKEN[kind](
            f"there is a {_WORDS[existing.kind]} of that name already", name=format_identifier(existing.identifier)
        )

    @staticmethod
    def taken_by_another(kind: Kind, identifier: Identifier) -> AlreadyExists:
        """The error for a name that another writer took at the same time."""
        return _TAKEN[kind]("the name was taken at the same time", name=format_identifier(identifier))

    def missing(self, query: Query, kind: Kind, identifier: Identifier, existing: Record | None = None) -> NotFound:
        """The error for a missing table or view; `existing` is a row of that name, but of another kind."""
        hint = f"it is a {_WORDS[existing.kind]}" if existing is not None else self._other_catalogs(query)
        return _MISSING[kind](
            f"there is no such {_WORDS[kind]}", hint=hint, **{_WORDS[kind]: format_identifier(identifier)}
        )

    def required(self, query: Query, records: Records, kind: Kind, identifier: Identifier, *, lock: str = "") -> Record:
        """The row of a name; raises unless it exists and is of that kind."""
        record = records.find(query, identifier, lock=lock)
        if record is None or record.kind is not kind:
            raise self.missing(query, kind, identifier, record)
        return record

    def change(
        self, action: str, work: Callable[[Session], None], outcome: Callable[[Session], Outcome], **context: str
    ) -> None:
        """Runs `work` in a transaction; if its response is lost, `outcome` finds its outcome in the rows.

        `action` names the change in errors.
        """
        try:
            with self.database.transaction() as session:
                work(session)
            return
        except OutcomeUnknown as error:
            lost = error
        except FloeError as error:
            error.with_context(**context)
            raise
        try:
            with self.database.peek() as session:
                result = outcome(session)
        except FloeError as error:
            lost.add_note(f"Reading the database failed: {error}")
            result = Outcome.UNKNOWN
        if result is Outcome.ABSENT:
            raise CatalogUnavailable(
                f"{action} did not happen: the connection was lost", hint="try again", **context
            ) from lost
        if result is Outcome.UNKNOWN:
            raise CommitStateUnknown(
                f"{action} may have happened: the connection was lost",
                hint="check the state before repeating the call",
                **context,
            ) from lost

    def _other_catalogs(self, query: Query) -> str | None:
        """A hint for a user of the wrong catalog in a shared database."""
        names = sorted(name for (name,) in query(f"SELECT DISTINCT catalog_name FROM {TABLES}", ()))
        if not names or str(self.name) in names:
            return None
        return f"this catalog is {str(self.name)!r}; the database has {', '.join(map(repr, names[:5]))} (catalog_name)"
