"""A catalog as a user holds it (`Lake`), and how one is opened: `floe.connect`, and `floe.open` for a single table.

| `connect` to | catalog |
|---|---|
| `"./warehouse"`, `"/data/wh"`, `"s3://bucket/wh"` | the file system: a folder in Hadoop's layout, no server |
| `"sqlite:///lake.db"`, `"postgresql://me@host/db"` | a SQL database, with `warehouse=` for the files |
| `"memory:"` | memory, gone when the program ends |
| `"prod"` | a name from `floe.toml` or the environment (`floe.catalog.settings`), or an existing folder |

A table can be created together with its first rows in one commit:

>>> import floe
>>> lake = floe.connect("memory:")
>>> lake.create_namespace("db")
>>> with lake.create_table_transaction("db.t", "id bigint not null") as tx:
...     tx.set_properties({"owner": "me"})
...     lake.table_exists("db.t")
False
>>> tx.table.properties["owner"]
'me'
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias

import pyarrow as pa

from floe.arrow.input_data import batch_reader
from floe.catalog.identifiers import Identifier, Namespace, format_identifier, parse_identifier, parse_namespace
from floe.catalog.protocol import Capability, Catalog
from floe.catalog.registry import open_catalog, open_pointer
from floe.catalog.settings import hide_password, is_secret_name
from floe.commit.change import Change
from floe.commit.loop import commit
from floe.commit.operations.create import CreateOrReplaceTable, CreateTable, ReplaceTable, TableDefinition
from floe.commit.pointer import Pointer, TableState
from floe.commit.roots import allow_changed
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
from floe.spec.metadata.metadata_builder import DEFAULT_FORMAT_VERSION, apply
from floe.spec.metadata.table_metadata import LATEST_FORMAT_VERSION
from floe.spec.metadata.update_handlers import check_format_version
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.partitioning.transform_terms import build_spec
from floe.spec.properties import FORMAT_VERSION
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import SortOrder, build_order
from floe.storage.environment import Environment
from floe.storage.locations import parse
from floe.table.display import Card
from floe.table.evolution import as_schema
from floe.table.hints import LAKE_NAMES, raise_no_attribute
from floe.table.table import Table
from floe.table.transaction import LakeTransaction, PendingTarget, Transaction
from floe.table.view import View, check_custom_location, new_view, view_version


class CreateTransaction(Transaction):
    """A transaction that creates or replaces a table; what is written before its end is part of the same commit."""

    def __init__(
        self, pointer: Pointer, state: TableState | None, creation: CreateTable | CreateOrReplaceTable
    ) -> None:
        if state is not None and not isinstance(creation, ReplaceTable):
            raise TableAlreadyExists(
                "a table of that name exists already", hint="choose another name, or replace it", table=pointer.name
            )
        if state is None:
            metadata = apply(None, creation.creation(), now_ms=pointer.environment.clock.now_ms())
        else:
            metadata = state.metadata
        super().__init__(PendingTarget(pointer, metadata, creation, exists=state is not None), self._create)
        self._uuid = None if state is None else state.metadata.table_uuid
        self._table: Table | None = None
        allow_changed(pointer.storage, None if state is None else state.metadata, self.metadata)

    @property
    def table(self) -> Table:
        """The table, after the commit."""
        if self._table is None:
            raise InvalidInput("the table does not exist before the transaction ends", table=self.name)
        return self._table

    def _create(self, changes: list[Change]) -> None:
        pointer = self.commit_target.pointer
        self._table = Table(pointer, commit(pointer, changes, table_uuid=self._uuid))


Name: TypeAlias = str | Sequence[str]
"""A dotted name, with backquotes around parts that have dots themselves; or the parts."""

_MAX_SHOWN = 20


class Lake:
    """A catalog with its namespaces, tables and views: `floe.connect("./warehouse")`.

    It can be used from several threads, and in a `with` block, which closes it.

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
        """The catalog itself."""
        return self._catalog

    @property
    def name(self) -> str:
        """The catalog's name."""
        return self._catalog.name

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The optional capabilities of the catalog."""
        return self._catalog.capabilities

    # namespaces --------------------------------------------------------------------------------------------------

    def namespaces(self, parent: Name = "") -> list[str]:
        """The top-level namespaces, or those directly below another one."""
        return [format_identifier(namespace) for namespace in self._catalog.namespaces(parse_namespace(parent))]

    def namespace_exists(self, name: Name) -> bool:
        """Whether a namespace exists."""
        return self._catalog.namespace_exists(parse_namespace(name))

    def create_namespace(
        self, name: Name, properties: Mapping[str, str] | None = None, *, if_not_exists: bool = False
    ) -> None:
        """Create a namespace, and its parents if they are missing."""
        try:
            self._catalog.create_namespace(parse_namespace(name), properties)
        except NamespaceAlreadyExists:
            if not if_not_exists:
                raise

    def drop_namespace(
        self, name: Name, *, cascade: bool = False, purge: bool = False, if_exists: bool = False
    ) -> None:
        """Drop a namespace: an empty one, or with `cascade` everything in it (with `purge` the files too)."""
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
            return [format_identifier(table) for table in self._catalog.tables(parse_namespace(namespace))]
        return [format_identifier(table) for each in self._all_namespaces() for table in self._catalog.tables(each)]

    def table_exists(self, name: Name) -> bool:
        """Whether a table exists; a view is not a table."""
        return self._catalog.table_exists(parse_identifier(name))

    def table(self, name: Name) -> Table:
        """The table of a name; `NoSuchTable` if it does not exist."""
        identifier = parse_identifier(name)
        try:
            return Table.load(self._catalog.pointer(identifier))
        except NoSuchTable as error:
            error.hint = error.hint or self._missing_table_hint(identifier)
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
        """Create a table.

        The columns are text (`"id bigint not null, ts timestamptz"`, see `floe.sql.columns`), a schema, or those of an
        Arrow table or data frame. Partition fields and sort order are terms such as `"day(ts)"` and `"ts desc"`. The
        default format version is 2. With `if_not_exists`, an existing table is returned as it is.

        With `data` the table is created with these rows, in one commit; then `schema` can be left out.
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
            error.hint = error.hint or f"create it first: create_namespace({format_identifier(identifier[:-1])!r})"
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
        """Create a table, or replace the existing one, whose history is kept.

        The table is empty, or has the rows of `data`.
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
        """Replace an existing table by an empty one; history and the ids of columns with the same names are kept."""
        identifier = parse_identifier(name)
        table = self.table(identifier)
        definition = _definition(schema, partition_by, sort_by, format_version, properties)
        change = ReplaceTable(
            definition,
            location=None if location is None else self._location(identifier, location),
            expected=table.metadata,
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
        """Create a table with content: what is written in the `with` block is part of the same commit.

        With `or_replace`, an existing table is replaced, and its history is kept.
        """
        identifier = parse_identifier(name)
        definition = _definition(schema, partition_by, sort_by, format_version, properties)
        pointer = self._catalog.pointer(identifier)
        state = pointer.load()
        if state is None and not self._catalog.namespace_exists(identifier[:-1]):
            # checked here because writing rows creates folders, which the file-system catalog takes for a namespace
            raise NoSuchNamespace(
                "no such namespace",
                hint="create it first, with create_namespace",
                namespace=format_identifier(identifier[:-1]),
            )
        new_location = self._location(identifier, location)
        if or_replace:
            replacement = CreateOrReplaceTable(
                definition,
                new_location=self._catalog.default_location(identifier),
                table_uuid=self._new_uuid(),
                location=None if location is None else new_location,
            )
            return CreateTransaction(pointer, state, replacement)
        _check_version(definition)
        return CreateTransaction(pointer, state, CreateTable(definition, new_location, self._new_uuid()))

    def _create_with(self, data: Any, name: Name, schema: Any, **options: Any) -> Table:
        """Create a table with rows."""
        reader = batch_reader(data, None if schema is None else as_schema(schema))
        with self.create_table_transaction(name, reader if schema is None else schema, **options) as transaction:
            transaction.append(reader)
        return transaction.table

    def rename_table(self, name: Name, new_name: Name) -> Table:
        """Rename a table, or move it to another namespace; its files stay where they are."""
        target = parse_identifier(new_name)
        self._catalog.rename_table(parse_identifier(name), target)
        with _noting("The table was renamed; only loading it failed."):
            return self.table(target)

    def drop_table(self, name: Name, *, purge: bool = False, if_exists: bool = False) -> None:
        """Drop a table; with `purge` its files are deleted too."""
        identifier = parse_identifier(name)
        try:
            self._catalog.drop_table(identifier, purge=purge)
        except NoSuchTable as error:
            if not if_exists:
                error.hint = error.hint or self._missing_table_hint(identifier)
                raise

    def purge_table(self, name: Name, *, if_exists: bool = False) -> None:
        """Drop a table and delete its files."""
        self.drop_table(name, purge=True, if_exists=if_exists)

    def register_table(self, name: Name, metadata_location: str) -> Table:
        """Add an existing table to the catalog, by the location of its metadata file."""
        identifier = parse_identifier(name)
        self._catalog.register_table(identifier, parse(metadata_location).text)
        with _noting("The table was registered; only loading it failed."):
            return self.table(identifier)

    def transaction(self) -> LakeTransaction:
        """Changes of several tables, one commit: `with lake.transaction() as tx: tx.table("db.a")…`."""
        if self._catalog.shared is None:
            raise UnsupportedFeature(
                "this catalog cannot commit to several tables at once",
                hint="use one transaction for each table, or a catalog that can, such as a SQL database",
                catalog=self.name,
            )
        return LakeTransaction(self._catalog)

    # views -------------------------------------------------------------------------------------------------------

    def views(self, namespace: Name | None = None) -> list[str]:
        """The views directly in a namespace; without one, all views of the catalog."""
        if namespace is not None:
            return [format_identifier(view) for view in self._catalog.views(parse_namespace(namespace))]
        return [format_identifier(view) for each in self._all_namespaces() for view in self._catalog.views(each)]

    def view_exists(self, name: Name) -> bool:
        """Whether a view exists."""
        return self._catalog.view_exists(parse_identifier(name))

    def view(self, name: Name) -> View:
        """The view of a name; `NoSuchView` if it does not exist."""
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
        """Create a view: a query in a dialect, or several queries by dialect, and its columns.

        With `replace`, an existing view gets a new version, and keeps the properties that are not named. Unqualified
        names in the query are resolved in `default_namespace`, by default that of the view, and names without a catalog
        in `default_catalog`, by default that of the view. Metadata files are written to `location`, if the catalog
        stores locations.
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
        """Drop a view."""
        try:
            self._catalog.drop_view(parse_identifier(name))
        except NoSuchView:
            if not if_exists:
                raise

    def rename_view(self, name: Name, new_name: Name) -> View:
        """Rename a view."""
        target = parse_identifier(new_name)
        self._catalog.rename_view(parse_identifier(name), target)
        with _noting("The view was renamed; only loading it failed."):
            return self.view(target)

    # closing and display ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close connections; the lake cannot be used afterwards."""
        self._catalog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    if not TYPE_CHECKING:  # type checkers report unknown attributes themselves

        def __getattr__(self, name: str) -> NoReturn:
            raise_no_attribute(self, name, LAKE_NAMES)

    def __getitem__(self, name: Name) -> Table:
        return self.table(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str | tuple | list) and self.table_exists(name)

    def _ipython_key_completions_(self) -> list[str]:
        return self.tables()

    def _card(self) -> Card:
        properties = {
            key: "***" if is_secret_name(key) else hide_password(str(v)) for key, v in self._catalog.properties.items()
        }
        return Card(self.name, type(self._catalog).__name__, tuple(properties.items()))

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

    def _location(self, identifier: Identifier, location: str | None) -> str:
        if location is not None:
            check_custom_location(self._catalog, identifier)
        return self._catalog.default_location(identifier) if location is None else parse(location).text

    def _missing_table_hint(self, identifier: Identifier) -> str:
        namespace = identifier[:-1]
        if not self._catalog.namespace_exists(namespace):
            namespaces = ", ".join(self.namespaces()[:_MAX_SHOWN]) or "none"
            return f"there is no namespace {format_identifier(namespace)}; the catalog has {namespaces}"
        if Capability.VIEWS in self.capabilities and self._catalog.view_exists(identifier):
            return "it is a view: use view()"
        tables = ", ".join(self.tables(namespace)[:_MAX_SHOWN]) or "no tables"
        return f"the namespace has {tables}"


@contextmanager
def _noting(note: str) -> Iterator[None]:
    """Add a note to errors inside: the change before them was made."""
    try:
        yield
    except FloeError as error:
        error.add_note(note)
        raise


def _definition(
    schema: Schema | pa.Schema | str | Any,
    partition_by: str | Iterable[str] | PartitionSpec,
    sort_by: str | Iterable[str] | SortOrder,
    format_version: int | None,
    properties: Mapping[str, Any] | None,
) -> TableDefinition:
    if schema is None:
        raise InvalidInput("a table needs columns", hint="pass text such as 'id bigint, note string', or a schema")
    if properties is not None and not isinstance(properties, Mapping):
        raise InvalidInput(f"properties must be a mapping from text to text, found {properties!r:.80}")
    version = format_version or (properties or {}).get(FORMAT_VERSION.name) or DEFAULT_FORMAT_VERSION
    columns = as_schema(schema, format_version=int(version) if str(version).isdigit() else DEFAULT_FORMAT_VERSION)
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


def _terms(argument: str, terms: str | Iterable[str]) -> Iterable[str]:
    if not isinstance(terms, Iterable):
        raise InvalidInput(f"{argument} must be a term such as 'ts', or a list of terms, found {terms!r:.80}")
    return [terms] if isinstance(terms, str) else terms


def _check_version(definition: TableDefinition) -> None:
    """Raise if the format version does not have a type of the columns, before the commit finds out."""
    requested = definition.format_version or definition.properties.get(FORMAT_VERSION.name) or DEFAULT_FORMAT_VERSION
    for version in range(1, LATEST_FORMAT_VERSION + 1):  # other versions are refused by the commit
        if str(requested) == str(version):
            definition.schema.check_for_table(version)


# opening -------------------------------------------------------------------------------------------------------------


def connect(uri: str | os.PathLike[str] | None = None, **options: Any) -> Lake:
    """The lake at a path or URI, or of a name in the settings; without either, the default one of the settings.

    Options are those of the catalog (`name`, `warehouse`, `user`, `password`, …), those of its storage
    (`floe.catalog.registry`), and `environment` for tests. Names with dots and dashes can be given as
    `**{"s3.region": "eu-west-1"}`. Nothing is read before the lake is used.

    >>> connect("memory:", name="scratch").name
    'scratch'
    >>> connect("mysql://host/db")
    Traceback (most recent call last):
    floe.errors.InvalidSettings: there is no catalog for mysql: (uri: mysql://host/db); ...
    """
    return Lake(*open_catalog(uri, options))


def open(path: str | os.PathLike[str], **options: Any) -> Table:
    """The table in a folder, or of one metadata file; no catalog is needed.

    A folder in Hadoop's layout can be read and written. A metadata file shows one state of a table, and is only read.
    Options are those of the storage (`floe.catalog.registry`): `prefixes` opens tables that were moved or copied.

    >>> open("memory:nothing/here")
    Traceback (most recent call last):
    floe.errors.NoSuchTable: ...
    """
    return Table.load(open_pointer(path, options))
