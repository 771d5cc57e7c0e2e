"""What the parts of a SQL catalog share: the database and its rows, the files, and changes whose end is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from floe.catalog.identifiers import Identifier, Namespace, format_identifier
from floe.catalog.sql.database import Database, Session
from floe.catalog.sql.records import Kind, Namespaces, Query, Record, Records, joined_namespace
from floe.catalog.sql.schema import NAMESPACES, TABLES, SqlSchema
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

_WORDS = {Kind.TABLE: "table", Kind.VIEW: "view", None: "thing that this version does not know"}
_MISSING: dict[Kind, type[NotFound]] = {Kind.TABLE: NoSuchTable, Kind.VIEW: NoSuchView}
_TAKEN: dict[Kind, type[AlreadyExists]] = {Kind.TABLE: TableAlreadyExists, Kind.VIEW: ViewAlreadyExists}


class CatalogName:
    """The name under which a catalog's rows stand: the given one, or else the only one that the database has.

    A database that has several must have the `usual` one among them; one that has none gets it.
    """

    def __init__(self, given: str | None, usual: str) -> None:
        self._found, self._usual = given, usual

    def __str__(self) -> str:
        return self._found or self._usual

    def find(self, query: Query) -> str:
        """The name; what is found once stays."""
        if self._found is not None:
            return self._found
        rows = query(f"SELECT catalog_name FROM {TABLES} UNION SELECT catalog_name FROM {NAMESPACES}", ())
        names = sorted(name for (name,) in rows)
        if not names:
            return self._usual
        if len(names) > 1 and self._usual not in names:
            told = ", ".join(map(repr, names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
            raise InvalidSettings(
                f"the database has {len(names)} catalogs, {told}, and none that is named {self._usual!r}",
                hint=f"say which one is meant: name={names[0]!r}, or catalog_name={names[0]!r} in settings",
            )
        self._found = self._usual if self._usual in names else names[0]
        return self._found


@dataclass(frozen=True, slots=True)
class SqlStore:
    """One catalog's rows in a database, and the storage of its files."""

    database: Database
    schema: SqlSchema
    name: CatalogName
    storage: Storage
    environment: Environment

    def records(self) -> Records:
        """The rows of tables and views; not to be called within a transaction, since it may have to look around."""
        version = self.schema.version()
        return Records(self.name.find(self.database.read), version)

    def namespaces(self) -> Namespaces:
        """The rows of namespaces; not to be called within a transaction."""
        self.schema.version()
        found = self.name.find(self.database.read)
        return Namespaces(found, self.database.lock_for_share, self.database.lock_for_update)

    def roots(self, namespace: Namespace) -> TableRoots:
        """The storage of a table of a namespace, which allows what the catalog vouches for."""

        def update(properties: Mapping[str, str]) -> None:
            namespaces = self.namespaces()
            with self.database.transaction() as session:
                namespaces.update(session, namespace, properties, frozenset())

        return TableRoots(self.storage, lambda: self.namespaces().properties(self.database.read, namespace), update)

    def storage_at(self, location: str) -> Storage:
        """The storage for a file that a row names, and others in its folder."""
        return self.roots(()).found(location)

    def check_name(self, identifier: Identifier) -> None:
        """Raise if the database cannot hold the name."""
        self.schema.check_lengths(table_namespace=joined_namespace(identifier[:-1]), table_name=identifier[-1])

    def check_free(self, query: Query, records: Records, kind: Kind, identifier: Identifier) -> None:
        """Raise if the name is taken; tables and views share their names."""
        found = records.find(query, identifier)
        if found is not None:
            raise self.taken(kind, found)

    @staticmethod
    def taken(kind: Kind, found: Record) -> AlreadyExists:
        """The error for something that is to be made under the name of something else."""
        return _TAKEN[kind](
            f"there is a {_WORDS[found.kind]} of that name already", name=format_identifier(found.identifier)
        )

    @staticmethod
    def taken_by_another(kind: Kind, identifier: Identifier) -> AlreadyExists:
        """The error for a name that somebody else took at the same time."""
        return _TAKEN[kind]("the name was taken at the same time", name=format_identifier(identifier))

    def missing(self, query: Query, kind: Kind, identifier: Identifier, found: Record | None = None) -> NotFound:
        """The error for something that is not there; `found` is what else has its name."""
        hint = f"it is a {_WORDS[found.kind]}" if found is not None else self._other_catalogs(query)
        return _MISSING[kind](
            f"there is no such {_WORDS[kind]}", hint=hint, **{_WORDS[kind]: format_identifier(identifier)}
        )

    def required(self, query: Query, records: Records, kind: Kind, identifier: Identifier, *, lock: str = "") -> Record:
        """The row of that kind, or an error."""
        found = records.find(query, identifier, lock=lock)
        if found is None or found.kind is not kind:
            raise self.missing(query, kind, identifier, found)
        return found

    def change(
        self, what: str, work: Callable[[Session], None], became: Callable[[Session], Outcome], **context: str
    ) -> None:
        """Runs a transaction; if its answer is lost, `became` looks at what is there and tells what became of it."""
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
                outcome = became(session)
        except FloeError as error:
            lost.add_note(f"Looking at the database failed: {error}")
            outcome = Outcome.UNKNOWN
        if outcome is Outcome.ABSENT:
            raise CatalogUnavailable(
                f"{what} did not happen: the connection was lost", hint="try again", **context
            ) from lost
        if outcome is Outcome.UNKNOWN:
            raise CommitStateUnknown(
                f"{what} may have happened: the connection was lost", hint="look before doing it again", **context
            ) from lost

    def _other_catalogs(self, query: Query) -> str | None:
        """A hint for who looks into the wrong catalog of a shared database."""
        names = sorted(name for (name,) in query(f"SELECT DISTINCT catalog_name FROM {TABLES}", ()))
        if not names or str(self.name) in names:
            return None
        return f"this catalog is {str(self.name)!r}; the database has {', '.join(map(repr, names[:5]))} (catalog_name)"
