"""Statements that Floe runs itself, in sessions that it made, because Spark, or this version of it, cannot.

`run_statement` decides. `ALTER TABLE` as Iceberg extends it and `CREATE TABLE … LIKE …` (before Spark 4.2) are run as
values that `floe.sql.statements` parses. Before 4.2 Spark has views in its own catalog only, so statements about views
are run here too. Spark runs SHOW TABLE EXTENDED itself, in all versions, but leaves out views: they are added. Names of
columns are resolved whatever their case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from floe.catalog.protocol import Capability
from floe.errors import (
    FloeError,
    InvalidInput,
    NoSuchColumn,
    NoSuchNamespace,
    NoSuchRef,
    TableAlreadyExists,
    ViewAlreadyExists,
)
from floe.spark.bridge.exceptions import declared_error, to_python
from floe.spark.bridge.jvm import Jvm, jvm_of
from floe.spark.bridge.sessions import activate
from floe.spark.bridge.views import (
    HAS_VIEWS,
    AlterQuery,
    CreateView,
    DropView,
    RenameView,
    SetProperties,
    ShowCreate,
    ShowExtended,
    ShowViews,
    UnsetProperties,
    ViewStatement,
    check_query,
    is_temporary,
    parse_view_statement,
)
from floe.spark.catalog.definitions import ensure_namespace, no_such_namespace, table_like
from floe.spark.catalog.views import (
    NOT_SHOWN,
    ViewDefinition,
    change_view,
    check_not_reserved,
    create_or_replace_view,
    create_view,
    update_properties,
    view_definition,
)
from floe.spark.schemas import string_literal
from floe.spark.settings import UNNAMED_VIEW_COLUMNS, with_defaults
from floe.spark.sql.hints import iceberg_equivalent
from floe.spec.properties import DISTRIBUTION_MODE
from floe.sql.printer import name_text
from floe.sql.statements import (
    AddPartitionField,
    ColumnPath,
    CreateTableLike,
    DropIdentifierFields,
    DropPartitionField,
    DropRef,
    MakeRef,
    ReplacePartitionField,
    SetIdentifierFields,
    TableAction,
    WriteOrder,
    parse_delta_statement,
    parse_statement,
)
from floe.table.lake import Lake
from floe.table.table import Table

# Views ----------------------------------------------------------------------------------------------------------------


Query = Callable[[str], DataFrame]
"""Spark's own `sql`."""

_LISTED = "namespace STRING, viewName STRING, isTemporary BOOLEAN"


class ResolvedName:
    """A name within a lake; `current` is the current catalog and namespace of the session."""

    def __init__(self, lake: Lake, catalog: str, name: tuple[str, ...], current: tuple[str, ...]) -> None:
        self.lake, self.catalog, self.name, self.current = lake, catalog, name, current


def run_view_statement(
    jvm: Jvm, session: SparkSession, query: Query, target: ResolvedName, statement: ViewStatement
) -> DataFrame | None:
    """Run a statement; only SHOW statements return rows."""
    lake, name = target.lake, target.name
    try:
        match statement:
            case ShowViews():
                return _show(jvm, session, target, statement.pattern)
            case ShowCreate():
                return session.createDataFrame([(_create_statement(target),)], "createtab_stmt STRING")
            case CreateView():
                _create(jvm, query, target, statement)
            case AlterQuery():
                view = lake.view(name)
                current = view_definition(view)
                change_view(
                    view,
                    _definition(jvm, query, target, statement.query, (), current.properties, current.schema_mode),
                )
            case SetProperties():
                view = lake.view(name)
                check_not_reserved(statement.properties, view)
                update_properties(view, statement.properties, [])
            case UnsetProperties():
                view = lake.view(name)
                check_not_reserved(dict.fromkeys(statement.keys, ""), view)
                update_properties(view, {}, list(statement.keys))
            case RenameView():
                lake.rename_view(name, _new_name(target, statement.new_name))
            case DropView():
                lake.drop_view(name, if_exists=statement.if_exists)
    except FloeError as error:
        about = name[:-1] if isinstance(error, NoSuchNamespace) else name
        declared = declared_error(jvm, error, about)
        raise AnalysisException(str(error)) if declared is None else to_python(declared) from None
    return None


def _create(jvm: Jvm, query: Query, target: ResolvedName, statement: CreateView) -> None:
    lake, name = target.lake, target.name
    if statement.if_not_exists and (lake.view_exists(name) or lake.table_exists(name)):
        return
    definition = _definition(
        jvm, query, target, statement.query, statement.columns, statement.properties, statement.schema_mode
    )
    properties = with_defaults(jvm, target.catalog, "view", definition.properties)
    definition = replace(definition, properties=properties)
    try:
        if not lake.namespace_exists(name[:-1]):
            raise no_such_namespace(target.catalog, name[:-1])
        (create_or_replace_view if statement.replace else create_view)(lake, name, definition)
    except ViewAlreadyExists:
        if lake.table_exists(name):
            raise TableAlreadyExists("there is a table of that name") from None
        if not statement.if_not_exists:
            raise


def _definition(
    jvm: Jvm,
    query: Query,
    target: ResolvedName,
    text: str,
    columns: Sequence[tuple[str, str | None]],
    properties: Any,
    schema_mode: str | None,
) -> ViewDefinition:
    analyzed = query(text)
    check_query(jvm, target.name, analyzed, [column for column, _ in columns])
    schema = analyzed.schema.jsonValue()
    query_columns = tuple(field["name"] for field in schema["fields"])
    for field, (column, comment) in zip(schema["fields"], columns, strict=False):
        field["name"] = column
        field["metadata"] = {} if comment is None else {"comment": comment}
    catalog, *namespace = target.current
    definition = ViewDefinition(text, schema, query_columns, catalog, tuple(namespace), dict(properties), schema_mode)
    if schema_mode == "EVOLUTION":
        definition = replace(definition, query_columns=())
    return replace(definition, catalog=None) if catalog == target.catalog else definition


def _show(jvm: Jvm, session: SparkSession, target: ResolvedName, pattern: str | None) -> DataFrame:
    names = [view[-1] for view in target.lake.catalog.views(target.name)]
    if pattern is not None:
        names = jvm.filter_names(names, pattern)
    rows = [(".".join(target.name), name, False) for name in names]
    return session.createDataFrame(rows, _LISTED)


def show_extended(
    jvm: Jvm, session: SparkSession, query: Query, text: str, target: ResolvedName, pattern: str
) -> DataFrame:
    """The rows of SHOW TABLE EXTENDED, with rows for views after those of tables."""
    frame = query(text)
    rows = [tuple(row) for row in frame.collect()]
    namespace = ".".join(map(name_text, target.name))
    names = jvm.filter_names([view[-1] for view in target.lake.catalog.views(target.name)], pattern)
    views = [(namespace, name, False, _information(jvm, target, (*target.name, name))) for name in names]
    tables = [row for row in rows if not row[2]]
    return session.createDataFrame([*tables, *views, *(row for row in rows if row[2])], frame.schema)


def _information(jvm: Jvm, target: ResolvedName, name: tuple[str, ...]) -> str:
    """The description of a view, in the format that Spark has for tables."""
    definition = view_definition(target.lake.view(name))
    properties = definition.properties
    shown = sorted(f"{key}={value}" for key, value in properties.items() if key not in NOT_SHOWN)
    description = {
        "Catalog": target.catalog,
        "Namespace": ".".join(map(name_text, name[:-1])),
        "Table": name[-1],
        "Type": "VIEW",
        "Comment": properties.get("comment"),
        "Location": properties["location"],
        "Provider": properties["provider"],
        "Owner": properties.get("owner"),
        "Table Properties": f"[{', '.join(shown)}]" if shown else None,
        "View Text": definition.query,
        "View Catalog and Namespace": ".".join(
            map(name_text, (definition.catalog or target.catalog, *definition.namespace))
        ),
        "Schema": jvm.data_type(definition.columns).treeString(),
    }
    return "".join(f"{key}: {value}\n" for key, value in description.items() if value is not None)


def _create_statement(target: ResolvedName) -> str:
    """The CREATE VIEW statement of a view."""
    view = target.lake.view(target.name)
    definition = view_definition(view)
    columns = [
        f"{name_text(field.name)}{'' if field.doc is None else ' COMMENT ' + string_literal(field.doc)}"
        for field in view.schema.fields
    ]
    shown = {key: value for key, value in definition.properties.items() if key not in NOT_SHOWN}
    comment = definition.properties.get("comment")
    properties = ",\n  ".join(f"{string_literal(key)} = {string_literal(shown[key])}" for key in sorted(shown))
    name = ".".join(map(name_text, (target.catalog, *target.name)))
    return "".join(
        [
            f"CREATE VIEW {name} (\n  " + ",\n  ".join(columns) + ")\n",
            "" if comment is None else f"COMMENT {string_literal(comment)}\n",
            f"TBLPROPERTIES (\n  {properties})\n" if properties else "",
            f"WITH SCHEMA {definition.schema_mode}\nAS {definition.query}\n",
        ]
    )


def _new_name(target: ResolvedName, name: tuple[str, ...]) -> tuple[str, ...]:
    """The name that RENAME TO means: without a namespace, one in the namespace of the view."""
    if len(name) == 1:
        return (*target.name[:-1], *name)
    return name[1:] if name[0] == target.catalog and len(name) > 2 else name


# Statements -----------------------------------------------------------------------------------------------------------


# ALTER TABLE ------------------------------------------------------------------------------------------------------


def alter_table(table: Table, action: TableAction) -> None:
    """Run an extended ALTER TABLE statement, in one commit."""
    match action:
        case AddPartitionField():
            table.update_spec(case_sensitive=False).add_field(action.term, action.name).commit()
        case DropPartitionField():
            table.update_spec(case_sensitive=False).remove_field(action.field).commit()
        case ReplacePartitionField():
            update = table.update_spec(case_sensitive=False)
            update.remove_field(action.field).add_field(action.term, action.name).commit()
        case WriteOrder():
            with table.transaction() as transaction:
                transaction.update_sort(*action.terms, case_sensitive=False)
                if action.distribution is not None:
                    transaction.set_properties({DISTRIBUTION_MODE.name: action.distribution})
        case SetIdentifierFields():
            table.evolve(case_sensitive=False).set_identifier_fields(*action.columns).commit()
        case DropIdentifierFields():
            _drop_identifier_fields(table, action.columns)
        case MakeRef():
            _make_ref(table, action)
        case DropRef():
            drop = table.drop_branch if action.type == "branch" else table.drop_tag
            drop(action.name, if_exists=action.if_exists)


def _drop_identifier_fields(table: Table, columns: Iterable[ColumnPath]) -> None:
    schema = table.schema
    left = dict.fromkeys(schema.identifier_field_ids)
    for column in columns:
        entry = schema.resolve(column, case_sensitive=False)
        if entry.field.id not in left:
            names = ", ".join(schema.identifier_names) or "none"
            raise NoSuchColumn(
                "the column is not an identifier field",
                hint=f"the identifier fields are: {names}",
                column=entry.name,
            )
        del left[entry.field.id]
    table.evolve().set_identifier_fields(*(schema.entry(field_id).path for field_id in left)).commit()


def _make_ref(table: Table, action: MakeRef) -> None:
    """Create a branch or tag, or point it to another snapshot."""
    ref = table.refs.get(action.name)
    if ref is None or not action.replace:
        _create_ref(table, action)
        return
    if ref.type != action.type:
        raise InvalidInput(f"{action.name!r} is a {ref.type}, not a {action.type}", table=table.name)
    current = table.current_snapshot
    snapshot_id = action.snapshot_id if action.snapshot_id is not None or current is None else current.snapshot_id
    if snapshot_id is None:
        raise InvalidInput(
            f"{action.type} {action.name!r} cannot be replaced: the table has no current snapshot",
            hint="name a snapshot: AS OF VERSION …",
            table=table.name,
        )
    with table.transaction() as transaction:
        transaction.replace_branch(action.name, snapshot_id)
        retention = {
            "min_snapshots": action.min_snapshots,
            "max_snapshot_age": action.max_snapshot_age,
            "max_ref_age": action.max_ref_age,
        }
        if changed := {name: value for name, value in retention.items() if value is not None}:
            transaction.set_retention(action.name, **changed)  # type: ignore[arg-type]


def _create_ref(table: Table, action: MakeRef) -> None:
    if not action.create:
        names = ", ".join(sorted(table.refs)) or "none"
        raise NoSuchRef(
            f"there is no {action.type} named {action.name!r} to replace",
            hint=f"branches and tags: {names}; write CREATE OR REPLACE",
            table=table.name,
        )
    if action.if_not_exists and action.name in table.refs:
        return
    if action.type == "tag":
        table.create_tag(action.name, snapshot=action.snapshot_id, max_ref_age=action.max_ref_age)
        return
    table.create_branch(
        action.name,
        snapshot=action.snapshot_id,
        min_snapshots=action.min_snapshots,
        max_snapshot_age=action.max_snapshot_age,
        max_ref_age=action.max_ref_age,
    )


# CREATE TABLE … LIKE … --------------------------------------------------------------------------------------------


def create_table_like(jvm: Jvm, target: ResolvedName, source: ResolvedName, statement: CreateTableLike) -> None:
    """Create a table with the columns, partition spec, sort order and properties of another, without its rows."""
    lake, name = target.lake, target.name
    if statement.if_not_exists and lake.table_exists(name):
        return
    like = source.lake.table(source.name)
    try:
        ensure_namespace(lake, target.catalog, name)
        lake.create_table(name, **table_like(like, statement.properties).arguments())
    except FloeError as error:
        declared = declared_error(jvm, error, name[:-1] if isinstance(error, NoSuchNamespace) else name)
        raise error if declared is None else to_python(declared) from None


# which statements these are ---------------------------------------------------------------------------------------

_COMMENTS: Final = re.compile(r"\s*(?:--[^\n]*(?:\n|$)\s*|/\*.*?\*/\s*)*", re.DOTALL)
_VIEW_STATEMENT: Final = re.compile(
    r"(?:create\s+(?:or\s+replace\s+)?view|alter\s+view|drop\s+view|show\s+views|show\s+create\s+table)\b",
    re.IGNORECASE,
)
_SHOW_CREATE: Final = re.compile(r"show\s+create\s+table\b", re.IGNORECASE)
_SHOW_EXTENDED: Final = re.compile(r"show\s+table\s+extended\b", re.IGNORECASE)
_CREATE_VIEW: Final = re.compile(r"create\s+(?:or\s+replace\s+)?view\b", re.IGNORECASE)


def run_statement(session: SparkSession, lakes: Mapping[str, Lake], text: str, query: Query) -> DataFrame | None:
    """Run a statement if it is Floe's to run; None if it is Spark's. `query` is Spark's own `sql`."""
    jvm = jvm_of(session)
    start = _COMMENTS.match(text).end()  # type: ignore[union-attr]
    _reject_delta_statement(jvm, session, lakes, text, start)
    if _SHOW_EXTENDED.match(text, start):
        return _show_table_extended(jvm, session, lakes, text, query)
    if jvm.version < HAS_VIEWS and _VIEW_STATEMENT.match(text, start):
        return _run_view_statement(jvm, session, lakes, text, query)
    if jvm.version >= HAS_VIEWS and _SHOW_CREATE.match(text, start):
        return _show_create_without_collations(jvm, session, lakes, text, query)
    if jvm.version >= HAS_VIEWS and _CREATE_VIEW.match(text, start):
        return _create_view_with_named_columns(jvm, session, lakes, text, query)
    try:
        statement = parse_statement(text)
    except FloeError as error:
        raise ParseException(str(error)) from None
    if statement is None or (isinstance(statement, CreateTableLike) and jvm.version >= HAS_VIEWS):
        return None
    target = _resolve(jvm, session, lakes, statement.table)
    if target is None:
        return None
    try:
        if isinstance(statement, CreateTableLike):
            source = _resolve(jvm, session, lakes, statement.source)
            if source is None:
                return None
            create_table_like(jvm, target, source, statement)
        else:
            alter_table(target.lake.table(target.name), statement.action)
    except FloeError as error:
        raise AnalysisException(str(error)) from None
    return _no_rows(session)


def _reject_delta_statement(jvm: Jvm, session: SparkSession, lakes: Mapping[str, Lake], text: str, start: int) -> None:
    """Raise for a statement of Delta Lake on a table of a lake, with what to write instead."""
    statement = parse_delta_statement(text, start)
    target = None if statement is None else _resolve(jvm, session, lakes, statement.table)
    if statement is not None and target is not None and target.lake.table_exists(target.name):
        instead = iceberg_equivalent(statement, target.catalog, ".".join(map(name_text, target.name)))
        raise ParseException(f"{statement.words} is not a statement for tables of Iceberg; {instead}")


def _run_view_statement(
    jvm: Jvm, session: SparkSession, lakes: Mapping[str, Lake], text: str, query: Query
) -> DataFrame | None:
    statement = parse_view_statement(jvm, session, text)
    if statement is None:
        return None
    if isinstance(statement, ShowViews):
        target = _resolve_namespace(jvm, session, lakes, statement.name)
    else:
        assert statement.name is not None
        if not isinstance(statement, CreateView) and is_temporary(jvm, session, statement.name):
            return None
        target = _resolve(jvm, session, lakes, statement.name)
    if target is None or (isinstance(statement, ShowCreate) and not target.lake.view_exists(target.name)):
        return None
    rows = run_view_statement(jvm, session, query, target, statement)
    return _no_rows(session) if rows is None else rows


def _show_create_without_collations(
    jvm: Jvm, session: SparkSession, lakes: Mapping[str, Lake], text: str, query: Query
) -> DataFrame | None:
    """Run SHOW CREATE TABLE of a table in a lake: Spark 4.3 shows a collation for each string, and Iceberg has none."""
    statement = parse_view_statement(jvm, session, text)
    if not isinstance(statement, ShowCreate) or _resolve(jvm, session, lakes, statement.name) is None:
        return None
    frame = query(text)
    rows = [(re.sub(r"\bSTRING COLLATE UTF8_BINARY\b", "STRING", row[0]),) for row in frame.collect()]
    return session.createDataFrame(rows, frame.schema)


def _show_table_extended(
    jvm: Jvm, session: SparkSession, lakes: Mapping[str, Lake], text: str, query: Query
) -> DataFrame | None:
    """Run SHOW TABLE EXTENDED of a namespace in a lake, with its views."""
    statement = parse_view_statement(jvm, session, text)
    target = _resolve_namespace(jvm, session, lakes, statement.name) if isinstance(statement, ShowExtended) else None
    if not isinstance(statement, ShowExtended) or target is None or Capability.VIEWS not in target.lake.capabilities:
        return None
    return show_extended(jvm, session, query, text, target, statement.pattern)


def _create_view_with_named_columns(
    jvm: Jvm, session: SparkSession, lakes: Mapping[str, Lake], text: str, query: Query
) -> DataFrame | None:
    """Run CREATE VIEW in a lake with a column list: it names columns without an alias too, which Spark refuses."""
    statement = parse_view_statement(jvm, session, text)
    if not isinstance(statement, CreateView) or not statement.columns:
        return None
    if _resolve(jvm, session, lakes, statement.name) is None:
        return None
    before = session.conf.get(UNNAMED_VIEW_COLUMNS)
    session.conf.set(UNNAMED_VIEW_COLUMNS, "true")
    try:
        return query(text)
    finally:
        session.conf.set(UNNAMED_VIEW_COLUMNS, str(before))


def _no_rows(session: SparkSession) -> DataFrame:
    return session.createDataFrame([], StructType([]))


def _resolve(jvm: Jvm, session: SparkSession, lakes: Mapping[str, Lake], name: tuple[str, ...]) -> ResolvedName | None:
    """The lake of a table or view name, and the name in it; None if it is not in a lake."""
    current = _current(jvm, session)
    if name[0] in lakes and len(name) > 1:
        catalog, inside = name[0], name[1:]
    elif current[0] in lakes:
        catalog, inside = current[0], (*(current[1:] if len(name) == 1 else ()), *name)
    else:
        return None
    return ResolvedName(lakes[catalog], catalog, inside, current)


def _resolve_namespace(
    jvm: Jvm, session: SparkSession, lakes: Mapping[str, Lake], name: tuple[str, ...] | None
) -> ResolvedName | None:
    """The lake of a namespace, the current one for None; None if it is not in a lake."""
    current = _current(jvm, session)
    if name is None:
        name = current
    elif name[0] not in lakes:
        name = (current[0], *name)
    return ResolvedName(lakes[name[0]], name[0], name[1:], current) if name[0] in lakes else None


def _current(jvm: Jvm, session: SparkSession) -> tuple[str, ...]:
    """The current catalog and namespace of the session."""
    with activate(jvm, session._jsparkSession):
        manager = session._jsparkSession.sessionState().catalogManager()
        return (manager.currentCatalog().name(), *jvm.read_strings(manager.currentNamespace()))
