"""Which statements Floe runs itself, in sessions that it made: what Spark's parser or this Spark does not know.

CREATE TABLE … LIKE …, where Spark itself has it for its own catalog only (before 4.2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from floe.catalog.protocol import Capability
from floe.errors import FloeError, NoSuchNamespace
from floe.spark.bridge.exceptions import declared_error, to_python
from floe.spark.bridge.jvm import Jvm, jvm_of
from floe.spark.bridge.sessions import active
from floe.spark.bridge.views import (
    HAS_VIEWS,
    CreateView,
    ShowCreate,
    ShowExtended,
    ShowViews,
    is_temporary,
    parse_view_statement,
)
from floe.spark.catalog.definitions import make_room, table_like
from floe.spark.settings import UNNAMED_VIEW_COLUMNS
from floe.spark.sql.alter_table import CreateTableLike, parse
from floe.spark.sql.hints import parse_other
from floe.spark.sql.view_statements import Place, Query, run_view_statement, show_extended
from floe.sql.printing import name_text
from floe.table.lake import Lake

# CREATE TABLE … LIKE …, where Spark itself has it for its own catalog only (before 4.2).


def create_table_like(jvm: Jvm, place: Place, source: Place, statement: CreateTableLike) -> None:
    """Make a table with the columns, partitions, order and properties of another, and none of its rows."""
    lake, name = place.lake, place.name
    if statement.if_not_exists and lake.table_exists(name):
        return
    like = source.lake.table(source.name)
    try:
        make_room(lake, place.catalog, name)
        lake.create_table(name, **table_like(like, statement.properties).arguments())
    except FloeError as error:
        told = declared_error(jvm, error, name[:-1] if isinstance(error, NoSuchNamespace) else name)
        raise error if told is None else to_python(told) from None


_COMMENTS: Final = re.compile(r"\s*(?:--[^\n]*(?:\n|$)\s*|/\*.*?\*/\s*)*", re.DOTALL)
_ABOUT_VIEWS: Final = re.compile(
    r"(?:create\s+(?:or\s+replace\s+)?view|alter\s+view|drop\s+view|show\s+views|show\s+create\s+table)\b",
    re.IGNORECASE,
)
_SHOW_CREATE: Final = re.compile(r"show\s+create\s+table\b", re.IGNORECASE)
_SHOW_EXTENDED: Final = re.compile(r"show\s+table\s+extended\b", re.IGNORECASE)
_CREATE_VIEW: Final = re.compile(r"create\s+(?:or\s+replace\s+)?view\b", re.IGNORECASE)


def answer(session: SparkSession, lakes: Mapping[str, Lake], text: str, query: Query) -> DataFrame | None:
    """What a statement gives if it is Floe's to run; None if it is Spark's. `query` is Spark's own `sql`."""
    jvm = jvm_of(session)
    start = _COMMENTS.match(text).end()  # type: ignore[union-attr]
    _check_other(jvm, session, lakes, text, start)
    if _SHOW_EXTENDED.match(text, start):
        return _with_views(jvm, session, lakes, text, query)
    if jvm.version < HAS_VIEWS and _ABOUT_VIEWS.match(text, start):
        return _about_views(jvm, session, lakes, text, query)
    if jvm.version >= HAS_VIEWS and _SHOW_CREATE.match(text, start):
        return _without_collations(jvm, session, lakes, text, query)
    if jvm.version >= HAS_VIEWS and _CREATE_VIEW.match(text, start):
        return _with_named_columns(jvm, session, lakes, text, query)
    try:
        found = parse(text)
    except FloeError as error:
        raise ParseException(str(error)) from None
    if found is None or (isinstance(found, CreateTableLike) and jvm.version >= HAS_VIEWS):
        return None
    place = _place(jvm, session, lakes, found.table)
    if place is None:
        return None
    try:
        if isinstance(found, CreateTableLike):
            source = _place(jvm, session, lakes, found.source)
            if source is None:
                return None
            create_table_like(jvm, place, source, found)
        else:
            found.action.run(place.lake.table(place.name))
    except FloeError as error:
        raise AnalysisException(str(error)) from None
    return _nothing(session)


def _check_other(jvm: Jvm, session: SparkSession, lakes: Mapping[str, Lake], text: str, start: int) -> None:
    """Raise for a statement of another table format on a table of a lake, with what to write instead."""
    found = parse_other(text, start)
    place = None if found is None else _place(jvm, session, lakes, found.table)
    if found is not None and place is not None and place.lake.table_exists(place.name):
        instead = found.instead(place.catalog, ".".join(map(name_text, place.name)))
        raise ParseException(f"{found.words} is no statement for tables of Iceberg; {instead}")


def _about_views(
    jvm: Jvm, session: SparkSession, lakes: Mapping[str, Lake], text: str, query: Query
) -> DataFrame | None:
    statement = parse_view_statement(jvm, session, text)
    if statement is None:
        return None
    if isinstance(statement, ShowViews):
        place = _namespace(jvm, session, lakes, statement.name)
    else:
        assert statement.name is not None
        if not isinstance(statement, CreateView) and is_temporary(jvm, session, statement.name):
            return None
        place = _place(jvm, session, lakes, statement.name)
    if place is None or (isinstance(statement, ShowCreate) and not place.lake.view_exists(place.name)):
        return None
    rows = run_view_statement(jvm, session, query, place, statement)
    return _nothing(session) if rows is None else rows


def _without_collations(
    jvm: Jvm, session: SparkSession, lakes: Mapping[str, Lake], text: str, query: Query
) -> DataFrame | None:
    """SHOW CREATE TABLE of a table of ours: Spark 4.3 gives every text a collation, and Iceberg has none."""
    statement = parse_view_statement(jvm, session, text)
    if not isinstance(statement, ShowCreate) or _place(jvm, session, lakes, statement.name) is None:
        return None
    frame = query(text)
    rows = [(re.sub(r"\bSTRING COLLATE UTF8_BINARY\b", "STRING", row[0]),) for row in frame.collect()]
    return session.createDataFrame(rows, frame.schema)


def _with_views(
    jvm: Jvm, session: SparkSession, lakes: Mapping[str, Lake], text: str, query: Query
) -> DataFrame | None:
    """SHOW TABLE EXTENDED of a namespace of ours."""
    statement = parse_view_statement(jvm, session, text)
    place = _namespace(jvm, session, lakes, statement.name) if isinstance(statement, ShowExtended) else None
    if not isinstance(statement, ShowExtended) or place is None or Capability.VIEWS not in place.lake.capabilities:
        return None
    return show_extended(jvm, session, query, text, place, statement.pattern)


def _with_named_columns(
    jvm: Jvm, session: SparkSession, lakes: Mapping[str, Lake], text: str, query: Query
) -> DataFrame | None:
    """CREATE VIEW of ours with a list of columns: it names those that the query does not, which Spark overlooks."""
    statement = parse_view_statement(jvm, session, text)
    if not isinstance(statement, CreateView) or not statement.columns:
        return None
    if _place(jvm, session, lakes, statement.name) is None:
        return None
    before = session.conf.get(UNNAMED_VIEW_COLUMNS)
    session.conf.set(UNNAMED_VIEW_COLUMNS, "true")
    try:
        return query(text)
    finally:
        session.conf.set(UNNAMED_VIEW_COLUMNS, str(before))


def _nothing(session: SparkSession) -> DataFrame:
    return session.createDataFrame([], StructType([]))


def _place(jvm: Jvm, session: SparkSession, lakes: Mapping[str, Lake], name: tuple[str, ...]) -> Place | None:
    """The lake that a name is in, and the name there; None if it is in no lake."""
    current = _current(jvm, session)
    if name[0] in lakes and len(name) > 1:
        catalog, inside = name[0], name[1:]
    elif current[0] in lakes:
        catalog, inside = current[0], (*(current[1:] if len(name) == 1 else ()), *name)
    else:
        return None
    return Place(lakes[catalog], catalog, inside, current)


def _namespace(
    jvm: Jvm, session: SparkSession, lakes: Mapping[str, Lake], name: tuple[str, ...] | None
) -> Place | None:
    current = _current(jvm, session)
    if name is None:
        name = current
    elif name[0] not in lakes:
        name = (current[0], *name)
    return Place(lakes[name[0]], name[0], name[1:], current) if name[0] in lakes else None


def _current(jvm: Jvm, session: SparkSession) -> tuple[str, ...]:
    """The current catalog and namespace."""
    with active(jvm, session._jsparkSession):
        manager = session._jsparkSession.sessionState().catalogManager()
        return (manager.currentCatalog().name(), *jvm.read_strings(manager.currentNamespace()))
