"""A catalog as a user holds it: namespaces, tables and views by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias

import pyarrow as pa

from floe.arrow.incoming import reader_of
from floe.catalog.identifiers import (
    Identifier,
    Namespace,
    format_identifier,
    parse_identifier,
    parse_namespace,
)
from floe.catalog.protocol import Capability, Catalog
from floe.commit.loop import commit
from floe.commit.operations.create import CreateOrReplaceTable, CreateTable, ReplaceTable, TableDefinition
from floe.errors import (
    FloeError,
    InvalidInput,
    NamespaceAlreadyExists,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    TableAlreadyExists,
    UnsupportedFeature,
    ViewAlreadyExists,
)
from floe.spec.metadata.apply import DEFAULT_FORMAT_VERSION
from floe.spec.metadata.properties import FORMAT_VERSION
from floe.spec.metadata.table_metadata import LATEST_FORMAT_VERSION
from floe.spec.metadata.upgrade import check_format_version
from floe.spec.partitioning.building import build_spec
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.schema import Schema
from floe.spec.sorting import SortOrder, build_order
from floe.storage.environment import Environment
from floe.storage.locations import parse
from floe.table.cards import Card
from floe.table.create_transaction import CreateTransaction
from floe.table.evolution import as_schema
from floe.table.lake_transaction import LakeTransaction
from floe.table.other_names import LAKE_NAMES, no_such_name
from floe.table.secrets import hide_password, is_secret_name
from floe.table.table import Table
from floe.table.view import View, check_can_be_placed, new_view, view_version

__all__ = ["Lake", "Name"]

Name: TypeAlias = str | Sequence[str]
"""A name with dots, with parts in back-quotes where they have dots themselves; or the parts."""

_MAX_SHOWN = 20


class Lake:
    """A catalog: `floe.connect("./warehouse")`.

    It can be used from several threads, and in a `with` block that closes it.

    >>> import floe
    >>> with floe.connect("memory:") as lake:
    ...     lake.create_namespace("db")
    ...     _ = lake.create_table("db.orders", "id bigint not null, customer string")
    ...     lake.namespaces(), lake.tables("db"), "db.orders" in lake
    (['db'], ['db.orders'], True)
    """

    def __init__(self, catalog: Catalog, environment: Environment | None = None) -> None:
        self._catalog = catalog
        self._environment = environment or Environment()

    @property
    def catalog(self) -> Catalog:
        """The catalog behind it."""
        return self._catalog

    @property
    def name(self) -> str:
        """The catalog's name."""
        return self._catalog.name

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this catalog can beyond what all can."""
        return self._catalog.capabilities

    # namespaces --------------------------------------------------------------------------------------------------

    def namespaces(self, parent: Name = "") -> list[str]:
        """The outermost namespaces, or those directly below another one."""
        return [format_identifier(found) for found in self._catalog.namespaces(parse_namespace(parent))]

    def namespace_exists(self, name: Name) -> bool:
        """Whether there is such a namespace."""
        return self._catalog.namespace_exists(parse_namespace(name))

    def create_namespace(
        self, name: Name, properties: Mapping[str, str] | None = None, *, if_not_exists: bool = False
    ) -> None:
        """Make a namespace, and those above it that are missing."""
        try:
            self._catalog.create_namespace(parse_namespace(name), properties)
        except NamespaceAlreadyExists:
            if not if_not_exists:
                raise

    def drop_namespace(
        self, name: Name, *, cascade: bool = False, purge: bool = False, if_exists: bool = False
    ) -> None:
        """Remove a namespace: an empty one, or with `cascade` everything in it (with `purge` the files too)."""
        namespace = parse_namespace(name)
        try:
            if cascade:
                self._empty(namespace, purge)
            self._catalog.drop_namespace(namespace)
        except NoSuchNamespace:
            if not if_exists:
                raise

    def namespace_properties(self, name: Name) -> dict[str, str]:
        """The properties of a namespace."""
        return dict(self._catalog.namespace_properties(parse_namespace(name)))

    def update_namespace(
        self, name: Name, properties: Mapping[str, str] | None = None, *, remove: Iterable[str] = ()
    ) -> None:
        """Set and remove properties of a namespace."""
        self._catalog.update_namespace(parse_namespace(name), properties, tuple(remove))

    def _empty(self, namespace: Namespace, purge: bool) -> None:
        for child in self._catalog.namespaces(namespace):
            self._empty(child, purge)
            self._catalog.drop_namespace(child)
        if Capability.VIEWS in self.capabilities:
            for view in self._catalog.views(namespace):
                self._catalog.drop_view(view)
        for table in self._catalog.tables(namespace):
            self._catalog.drop_table(table, purge=purge)

    # tables ------------------------------------------------------------------------------------------------------

    def tables(self, namespace: Name | None = None) -> list[str]:
        """The tables directly in a namespace; without one, all tables of the catalog."""
        if namespace is not None:
            return [format_identifier(found) for found in self._catalog.tables(parse_namespace(namespace))]
        return [format_identifier(found) for each in self._all_namespaces() for found in self._catalog.tables(each)]

    def table_exists(self, name: Name) -> bool:
        """Whether there is such a table (a view is not one)."""
        return self._catalog.table_exists(parse_identifier(name))

    def table(self, name: Name) -> Table:
        """The table of that name."""
        identifier = parse_identifier(name)
        try:
            return Table.load(self._catalog.pointer(identifier))
        except NoSuchTable as error:
            error.hint = error.hint or self._advice(identifier)
            raise

    def create_table(
        self,
        name: Name,
        schema: Schema | pa.Schema | str | Any = None,
        *,
        data: Any = None,
        partition_by: str | Iterable[str] | PartitionSpec = (),
        sort_by: str | Iterable[str] | SortOrder = (),
        format_version: int | None = None,
        properties: Mapping[str, Any] | None = None,
        location: str | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """Make a table.

        The columns are text (`"id bigint not null, ts timestamptz"`, see `floe.table.ddl`), a schema, or those of an
        Arrow table or frame; partitioning and order are terms such as `"day(ts)"` and `"ts desc"`. The format version
        is 2 unless told otherwise. With `if_not_exists`, a table that is there is given as it is.

        With `data` the table comes with these rows, in one commit; then no columns need be told.
        """
        if data is not None:
            if if_not_exists and self.table_exists(name):
                return self.table(name)
            options = {"partition_by": partition_by, "sort_by": sort_by, "properties": properties, "location": location}
            return self._create_with(data, name, schema, format_version=format_version, **options)
        identifier = parse_identifier(name)
        definition = _definition(schema, partition_by, sort_by, format_version, properties)
        _check_version(definition)
        pointer = self._catalog.pointer(identifier)
        change = CreateTable(definition, self._location(identifier, location), self._new_uuid())
        try:
            return Table(pointer, commit(pointer, [change]))
        except TableAlreadyExists:
            if if_not_exists and self._catalog.table_exists(identifier):
                return self.table(identifier)
            raise
        except NoSuchNamespace as error:
            error.hint = error.hint or f"make it first: create_namespace({format_identifier(identifier[:-1])!r})"
            raise

    def create_or_replace_table(
        self,
        name: Name,
        schema: Schema | pa.Schema | str | Any = None,
        *,
        data: Any = None,
        partition_by: str | Iterable[str] | PartitionSpec = (),
        sort_by: str | Iterable[str] | SortOrder = (),
        format_version: int | None = None,
        properties: Mapping[str, Any] | None = None,
        location: str | None = None,
    ) -> Table:
        """Make a table, or put another in the place of the one that is there, whose history is kept.

        It is empty, or comes with the rows of `data`.
        """
        if data is not None:
            options = {"partition_by": partition_by, "sort_by": sort_by, "properties": properties, "location": location}
            return self._create_with(data, name, schema, format_version=format_version, or_replace=True, **options)
        identifier = parse_identifier(name)
        definition = _definition(schema, partition_by, sort_by, format_version, properties)
        pointer = self._catalog.pointer(identifier)
        change = CreateOrReplaceTable(
            definition,
            new_location=self._location(identifier, None),
            table_uuid=self._new_uuid(),
            location=None if location is None else self._location(identifier, location),
        )
        return Table(pointer, commit(pointer, [change]))

    def replace_table(
        self,
        name: Name,
        schema: Schema | pa.Schema | str | Any,
        *,
        partition_by: str | Iterable[str] | PartitionSpec = (),
        sort_by: str | Iterable[str] | SortOrder = (),
        format_version: int | None = None,
        properties: Mapping[str, Any] | None = None,
        location: str | None = None,
    ) -> Table:
        """Put an empty table in the place of one that is there; columns of the same names keep their ids."""
        identifier = parse_identifier(name)
        table = self.table(identifier)
        definition = _definition(schema, partition_by, sort_by, format_version, properties)
        change = ReplaceTable(
            definition,
            location=None if location is None else self._location(identifier, location),
            seen=table.metadata,
        )
        pointer = self._catalog.pointer(identifier)
        return Table(pointer, commit(pointer, [change], table_uuid=table.uuid))

    def create_table_transaction(
        self,
        name: Name,
        schema: Schema | pa.Schema | str | Any,
        *,
        partition_by: str | Iterable[str] | PartitionSpec = (),
        sort_by: str | Iterable[str] | SortOrder = (),
        format_version: int | None = None,
        properties: Mapping[str, Any] | None = None,
        location: str | None = None,
        or_replace: bool = False,
    ) -> CreateTransaction:
        """Make a table with something in it: what is written in the `with` block comes with the table, in one commit.

        With `or_replace`, a table that is there is replaced by it, and its history is kept.
        """
        identifier = parse_identifier(name)
        definition = _definition(schema, partition_by, sort_by, format_version, properties)
        pointer = self._catalog.pointer(identifier)
        state = pointer.load()
        if state is None and not self._catalog.namespace_exists(identifier[:-1]):
            # asked before rows are written, which make folders
            raise NoSuchNamespace(
                "there is no such namespace",
                hint="make it first, with create_namespace",
                namespace=format_identifier(identifier[:-1]),
            )
        place = self._location(identifier, location)
        if or_replace:
            given = None if location is None else place
            new_place = self._catalog.default_location(identifier)
            replacing = CreateOrReplaceTable(
                definition, new_location=new_place, table_uuid=self._new_uuid(), location=given
            )
            return CreateTransaction(pointer, state, replacing)
        _check_version(definition)
        return CreateTransaction(pointer, state, CreateTable(definition, place, self._new_uuid()))

    def _create_with(self, data: Any, name: Name, schema: Any, **options: Any) -> Table:
        """A new table that comes with rows."""
        reader = reader_of(data, None if schema is None else as_schema(schema))
        with self.create_table_transaction(name, reader if schema is None else schema, **options) as transaction:
            transaction.append(reader)
        return transaction.table

    def rename_table(self, name: Name, new_name: Name) -> Table:
        """Give a table another name, perhaps in another namespace; its files stay where they are."""
        target = parse_identifier(new_name)
        self._catalog.rename_table(parse_identifier(name), target)
        with _told_after("The table was renamed; only loading it failed."):
            return self.table(target)

    def drop_table(self, name: Name, *, purge: bool = False, if_exists: bool = False) -> None:
        """Remove a table; with `purge` its files too, otherwise they stay."""
        identifier = parse_identifier(name)
        try:
            self._catalog.drop_table(identifier, purge=purge)
        except NoSuchTable as error:
            if not if_exists:
                error.hint = error.hint or self._advice(identifier)
                raise

    def purge_table(self, name: Name, *, if_exists: bool = False) -> None:
        """Remove a table and delete its files."""
        self.drop_table(name, purge=True, if_exists=if_exists)

    def register_table(self, name: Name, metadata_location: str) -> Table:
        """Make a table of a metadata file that is there."""
        identifier = parse_identifier(name)
        self._catalog.register_table(identifier, parse(metadata_location).text)
        with _told_after("The table was registered; only loading it failed."):
            return self.table(identifier)

    def transaction(self) -> LakeTransaction:
        """Changes of several tables, one commit: `with lake.transaction() as tx: tx.table("db.a")…`."""
        if self._catalog.shared is None:
            raise UnsupportedFeature(
                "this catalog cannot commit to several tables at once",
                hint="use a transaction of each table, or a catalog that can, such as a SQL database",
                catalog=self.name,
            )
        return LakeTransaction(self._catalog)

    # views -------------------------------------------------------------------------------------------------------

    def views(self, namespace: Name | None = None) -> list[str]:
        """The views directly in a namespace; without one, all views of the catalog."""
        if namespace is not None:
            return [format_identifier(found) for found in self._catalog.views(parse_namespace(namespace))]
        return [format_identifier(found) for each in self._all_namespaces() for found in self._catalog.views(each)]

    def view_exists(self, name: Name) -> bool:
        """Whether there is such a view."""
        return self._catalog.view_exists(parse_identifier(name))

    def view(self, name: Name) -> View:
        """The view of that name."""
        identifier = parse_identifier(name)
        return View(self._catalog, identifier, self._catalog.load_view(identifier), self._environment)

    def create_view(
        self,
        name: Name,
        sql: str | Mapping[str, str],
        *,
        schema: Schema | pa.Schema | str | Any,
        dialect: str = "spark",
        default_namespace: Name | None = None,
        default_catalog: str | None = None,
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
        replace: bool = False,
    ) -> View:
        """Make a view: a query in a dialect, or several queries by dialect, and the columns that it has.

        With `replace`, a view that is there gets a new version, and keeps the properties that are not given. Bare
        names in the query are looked for in `default_namespace`, by default the view's own, and names without a
        catalog in `default_catalog`, by default the view's own too. Metadata files are written to `location` where
        the catalog keeps locations.
        """
        identifier = parse_identifier(name)
        namespace = identifier[:-1] if default_namespace is None else parse_namespace(default_namespace)
        version = view_version(sql, dialect, namespace, self._environment.clock.now_ms(), default_catalog)
        metadata = new_view(
            schema,
            version,
            location=self._location(identifier, location),
            properties=properties,
            environment=self._environment,
        )
        try:
            self._catalog.create_view(identifier, metadata)
        except ViewAlreadyExists:
            if not replace or not self._catalog.view_exists(identifier):
                raise
            return self.view(identifier).replace(
                sql,
                schema=schema,
                dialect=dialect,
                default_namespace=namespace,
                default_catalog=default_catalog,
                properties=properties,
                location=location,
            )
        return View(self._catalog, identifier, metadata, self._environment)

    def drop_view(self, name: Name, *, if_exists: bool = False) -> None:
        """Remove a view."""
        try:
            self._catalog.drop_view(parse_identifier(name))
        except NoSuchView:
            if not if_exists:
                raise

    def rename_view(self, name: Name, new_name: Name) -> View:
        """Give a view another name."""
        target = parse_identifier(new_name)
        self._catalog.rename_view(parse_identifier(name), target)
        with _told_after("The view was renamed; only loading it failed."):
            return self.view(target)

    # small things ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give back connections; the lake cannot be used afterwards."""
        self._catalog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    if not TYPE_CHECKING:  # who checks types is told of every name that is not there

        def __getattr__(self, name: str) -> NoReturn:
            no_such_name(self, name, LAKE_NAMES)

    def __getitem__(self, name: Name) -> Table:
        return self.table(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str | tuple | list) and self.table_exists(name)

    def _ipython_key_completions_(self) -> list[str]:
        return self.tables()

    def _card(self) -> Card:
        shown = {
            key: "***" if is_secret_name(key) else hide_password(str(v)) for key, v in self._catalog.properties.items()
        }
        return Card(self.name, type(self._catalog).__name__, tuple(shown.items()))

    def __repr__(self) -> str:
        return self._card().text()

    def _repr_html_(self) -> str:
        return self._card().html()

    def _all_namespaces(self, parent: Namespace = ()) -> Iterable[Namespace]:
        for namespace in self._catalog.namespaces(parent):
            yield namespace
            yield from self._all_namespaces(namespace)

    def _new_uuid(self) -> str:
        return str(self._environment.ids.uuid())

    def _location(self, identifier: Identifier, given: str | None) -> str:
        if given is not None:
            check_can_be_placed(self._catalog, identifier)
        return self._catalog.default_location(identifier) if given is None else parse(given).text

    def _advice(self, identifier: Identifier) -> str:
        namespace = identifier[:-1]
        if not self._catalog.namespace_exists(namespace):
            found = ", ".join(self.namespaces()[:_MAX_SHOWN]) or "none"
            return f"there is no namespace {format_identifier(namespace)}; there are {found}"
        if Capability.VIEWS in self.capabilities and self._catalog.view_exists(identifier):
            return "it is a view: use view()"
        found = ", ".join(self.tables(namespace)[:_MAX_SHOWN]) or "none"
        return f"the namespace has {found}"


@contextmanager
def _told_after(done: str) -> Iterator[None]:
    """Errors of what comes after a change say that the change was made."""
    try:
        yield
    except FloeError as error:
        error.add_note(done)
        raise


def _definition(
    schema: Schema | pa.Schema | str | Any,
    partition_by: str | Iterable[str] | PartitionSpec,
    sort_by: str | Iterable[str] | SortOrder,
    format_version: int | None,
    properties: Mapping[str, Any] | None,
) -> TableDefinition:
    if schema is None:
        raise InvalidInput("a table needs columns", hint="give text such as 'id bigint, note string', or a schema")
    if properties is not None and not isinstance(properties, Mapping):
        raise InvalidInput(f"properties are a mapping from text to text, found {properties!r:.80}")
    asked = format_version or (properties or {}).get(FORMAT_VERSION) or DEFAULT_FORMAT_VERSION
    columns = as_schema(schema, format_version=int(asked) if str(asked).isdigit() else DEFAULT_FORMAT_VERSION)
    if not isinstance(partition_by, PartitionSpec):
        partition_by = build_spec(columns, _terms("partition_by", partition_by))
    if not isinstance(sort_by, SortOrder):
        sort_by = build_order(columns, _terms("sort_by", sort_by))
    if format_version is not None:
        check_format_version(format_version)
    for key, value in (properties or {}).items():
        if not isinstance(key, str) or not isinstance(value, str | int | float):
            raise InvalidInput(f"property {key} must be text, found {value!r:.80}")
    texts = {key: str(v).lower() if isinstance(v, bool | int | float) else v for key, v in (properties or {}).items()}
    return TableDefinition(columns, partition_by, sort_by, texts, format_version)


def _terms(option: str, given: str | Iterable[str]) -> Iterable[str]:
    if not isinstance(given, Iterable):
        raise InvalidInput(f"{option} is a term such as 'ts', or a list of them, found {given!r:.80}")
    return [given] if isinstance(given, str) else given


def _check_version(definition: TableDefinition) -> None:
    """Columns that the format version does not have are told as what they are, not as an update that fails."""
    asked = definition.format_version or definition.properties.get(FORMAT_VERSION) or DEFAULT_FORMAT_VERSION
    for version in range(1, LATEST_FORMAT_VERSION + 1):  # others are refused by those who make the table
        if str(asked) == str(version):
            definition.schema.check_for_table(version)
