"""The rows of `iceberg_namespace_properties`, and the namespaces that are there because something is in them.

A namespace exists if it has a row, if a table or view is in it, or if a namespace below it exists. A property named
`exists` marks one that has no other row; Java writes it always, PyIceberg only for a namespace without properties.
Floe writes it always, and never shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from floe.catalog.identifiers import Namespace, check_namespace_properties, format_identifier
from floe.catalog.sql.database import Session, Value
from floe.catalog.sql.records import Query, joined_namespace, split_namespace
from floe.catalog.sql.sql_schema import NAMESPACES, TABLES
from floe.errors import InvalidInput, NamespaceAlreadyExists, NamespaceNotEmpty, NoSuchNamespace

__all__ = ["MARKER", "Namespaces", "check_properties"]

MARKER: Final = "exists"

_OF = "catalog_name = ? AND namespace = ?"
_INSERT = f"INSERT INTO {NAMESPACES} (catalog_name, namespace, property_key, property_value) VALUES (?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The namespaces of one catalog; `lock_for_share` and `lock_for_update` are the database's."""

    catalog_name: str
    lock_for_share: str
    lock_for_update: str

    def exist(self, query: Query, namespace: Namespace) -> bool:
        """Whether there is such a namespace; the catalog itself always is."""
        if not namespace:
            return True
        text = joined_namespace(namespace)
        below = text + "."
        values: list[Value] = [self.catalog_name, text, len(below), below]
        statement = f"""SELECT 1 FROM {NAMESPACES}
            WHERE catalog_name = ? AND (namespace = ? OR substr(namespace, 1, ?) = ?)
            UNION ALL SELECT 1 FROM {TABLES}
            WHERE catalog_name = ? AND (table_namespace = ? OR substr(table_namespace, 1, ?) = ?) LIMIT 1"""
        return bool(query(statement, values * 2))

    def require(self, query: Query, namespace: Namespace) -> None:
        """Raise unless there is such a namespace."""
        if not self.exist(query, namespace):
            raise _no_such(namespace)

    def hold(self, session: Session, namespace: Namespace) -> None:
        """Raise unless there is such a namespace, and keep it from being dropped until the transaction ends."""
        if not self._locked(session, namespace, self.lock_for_share):
            self.require(session.query, namespace)

    def below(self, query: Query, parent: Namespace) -> list[Namespace]:
        """The namespaces directly below another one."""
        prefix = joined_namespace(parent) + "." if parent else ""
        values: list[Value] = [self.catalog_name, len(prefix), prefix]
        statement = f"""SELECT namespace FROM {NAMESPACES} WHERE catalog_name = ? AND substr(namespace, 1, ?) = ?
            UNION SELECT table_namespace FROM {TABLES} WHERE catalog_name = ? AND substr(table_namespace, 1, ?) = ?"""
        depth = len(parent) + 1
        found = {split_namespace(text)[:depth] for (text,) in query(statement, values * 2)}
        return sorted(namespace for namespace in found if len(namespace) == depth)

    def properties(self, query: Query, namespace: Namespace) -> dict[str, str]:
        """The properties of a namespace."""
        statement = f"SELECT property_key, property_value FROM {NAMESPACES} WHERE {_OF}"
        rows = query(statement, [self.catalog_name, joined_namespace(namespace)])
        if not rows:
            self.require(query, namespace)
        return {key: value or "" for key, value in sorted(rows) if key != MARKER}

    def create(self, session: Session, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Makes a namespace, and those above it."""
        text = joined_namespace(namespace)
        if self.exist(session.query, namespace) or not self._mark(session, text):
            raise NamespaceAlreadyExists("the namespace is there already", namespace=format_identifier(namespace))
        for levels in range(1, len(namespace)):
            self._mark(session, joined_namespace(namespace[:levels]))
        for key, value in sorted(properties.items()):
            session.execute(_INSERT, [self.catalog_name, text, key, value])

    def drop(self, session: Session, namespace: Namespace) -> None:
        """Removes an empty namespace."""
        text = joined_namespace(namespace)
        # The rows go first: who puts a table into the namespace holds them, so what is looked at below is settled.
        rows = session.execute(f"DELETE FROM {NAMESPACES} WHERE {_OF}", [self.catalog_name, text])
        children = self.below(session.query, namespace)
        tables = session.query(
            f"SELECT table_name FROM {TABLES} WHERE catalog_name = ? AND table_namespace = ?", [self.catalog_name, text]
        )
        if children or tables:
            first = children[0] if children else (*namespace, min(name for (name,) in tables))
            raise NamespaceNotEmpty(
                f"the namespace holds {len(children) + len(tables)} namespaces, tables or views",
                hint=f"the first is {format_identifier(first)}",
                namespace=format_identifier(namespace),
            )
        if not rows:
            raise _no_such(namespace)

    def update(
        self, session: Session, namespace: Namespace, updates: Mapping[str, str], removals: Iterable[str]
    ) -> None:
        """Sets and removes properties."""
        text = joined_namespace(namespace)
        if not self._locked(session, namespace, self.lock_for_update):
            self.require(session.query, namespace)
        self._mark(session, text)  # so that the namespace stays when its last property goes
        for key in sorted(removals):
            session.execute(
                f"DELETE FROM {NAMESPACES} WHERE {_OF} AND property_key = ?", [self.catalog_name, text, key]
            )
        replaced = " ON CONFLICT (catalog_name, namespace, property_key) DO UPDATE SET property_value = ?"
        for key, value in sorted(updates.items()):
            session.execute(_INSERT + replaced, [self.catalog_name, text, key, value, value])

    def _mark(self, session: Session, text: str) -> bool:
        """Makes sure that a namespace has its marker; says whether it had none."""
        return session.execute(_INSERT + " ON CONFLICT DO NOTHING", [self.catalog_name, text, MARKER, "true"]) == 1

    def _locked(self, session: Session, namespace: Namespace, lock: str) -> bool:
        """Locks the rows of a namespace, always in the same order; says whether there are any."""
        statement = f"SELECT property_key FROM {NAMESPACES} WHERE {_OF} ORDER BY property_key{lock}"
        return bool(session.query(statement, [self.catalog_name, joined_namespace(namespace)]))


def check_properties(updates: Mapping[str, str], removals: Iterable[str] = ()) -> None:
    """Raise if a property cannot be set or removed.

    >>> check_properties({"exists": "no"})
    Traceback (most recent call last):
    floe.errors.InvalidInput: 'exists' is the mark of a namespace in SQL catalogs, and cannot be a property
    """
    if MARKER in updates or MARKER in removals:
        raise InvalidInput(f"{MARKER!r} is the mark of a namespace in SQL catalogs, and cannot be a property")
    check_namespace_properties(updates, removals)


def _no_such(namespace: Namespace) -> NoSuchNamespace:
    return NoSuchNamespace("there is no such namespace", namespace=format_identifier(namespace))
