"""CREATE TABLE … LIKE …, where Spark itself has it for its own catalog only (before 4.2)."""

from __future__ import annotations

from floe.errors import FloeError, NoSuchNamespace
from floe.spark.bridge.exceptions import declared_error, to_python
from floe.spark.bridge.jvm import Jvm
from floe.spark.definitions import make_room, table_like
from floe.spark.extended_sql.parsing import CreateTableLike
from floe.spark.extended_sql.views import Place

__all__ = ["create_table_like"]


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
