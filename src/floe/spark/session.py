"""Spark sessions with lakes as catalogs: `floe.spark` makes one, `floe.attach` adds catalogs to one that is there."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from floe.errors import InvalidInput
from floe.spark.bridge.jvm import Jvm, jvm_of
from floe.spark.bridge.provider import install_format
from floe.spark.bridge.rules import install_rule
from floe.spark.bridge.sessions import prepare_new_sessions, register_catalogs
from floe.spark.catalog.catalog import SparkCatalog
from floe.spark.datasource import IcebergDataSource
from floe.spark.extended_sql.answering import answer
from floe.spark.provider import found_table
from floe.spark.requirements import check_environment, check_session
from floe.spark.row_level.retrying import again_after_conflicts
from floe.spark.shipping import ship_code
from floe.table.connecting import connect
from floe.table.lake import Lake

__all__ = ["FloeSession", "attach", "spark"]

Where = str | os.PathLike[str] | Lake | Mapping[str, Any]
"""What a catalog is: where `floe.connect` finds it, a lake, or `connect`'s options with `uri` among them."""

_DEFAULTS: Final = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",  # the Arrow writer is fast if it is fed well
    "spark.sql.sources.v2.bucketing.enabled": "true",
}


class FloeSession(SparkSession):
    """A Spark session that has lakes as catalogs; made by `floe.spark` and `floe.attach`."""

    _floe_catalogs: dict[str, Lake]

    @property
    def lakes(self) -> Mapping[str, Lake]:
        """The lakes by the names of their catalogs."""
        return dict(self._floe_catalogs)

    def sql(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:
        """Run a statement: Spark's own, or one that only tables of Iceberg have (`floe.spark.extended_sql`).

        One that changes rows is run again after conflicts if its table says so (`write.conflict.retries`).
        """
        run = super().sql
        answered = answer(self, self._floe_catalogs, sqlQuery, run)
        if answered is not None:
            return answered
        return again_after_conflicts(jvm_of(self), lambda: run(sqlQuery, args, **kwargs))

    def newSession(self) -> SparkSession:
        """Another session with its own settings and temporary views, and the same catalogs."""
        return _attached(super().newSession(), self._floe_catalogs)


def spark(
    catalogs: Mapping[str, Where] | None = None,
    *,
    conf: Mapping[str, Any] | None = None,
    ship: bool = False,
    **more: Where,
) -> FloeSession:
    """A Spark session in which each of the lakes is a catalog of that name.

    `floe.spark(lake="warehouse")` is short for `floe.spark({"lake": "warehouse"})`. Each lake is given as for
    `floe.connect`. `conf` are Spark's own settings. If there is a session already, it is that one. With `ship`, Floe's
    own code is sent to the executors, which then need only the packages that it uses.
    """
    lakes = _lakes(catalogs, more)
    check_environment(conf or {})
    os.environ.setdefault("PYSPARK_PYTHON", _text((conf or {}).get("spark.pyspark.python", sys.executable)))
    builder = SparkSession.builder
    for name, value in {**_DEFAULTS, **(conf or {})}.items():
        builder = builder.config(name, _text(value))
    session = builder.getOrCreate()
    check_session(session)
    return _attached(session, lakes, ship)


def attach(
    session: SparkSession, catalogs: Mapping[str, Where] | None = None, *, ship: bool = False, **more: Where
) -> FloeSession:
    """Add lakes to a session that exists, as catalogs.

    Gives the same object, which can then do all that a session of `floe.spark` can. The sessions that Spark itself
    makes of such a session have its catalogs already: for those, none has to be given.
    """
    check_session(session)
    lakes = {} if not catalogs and not more and _application(jvm_of(session)) else _lakes(catalogs, more)
    return _attached(session, lakes, ship)


def _attached(session: SparkSession, lakes: Mapping[str, Lake], ship: bool = False) -> FloeSession:
    jvm, java_session = jvm_of(session), session._jsparkSession
    application = _application(jvm)
    inherited = {} if lakes else {name: catalog.lake for name, catalog in application.items()}
    known = {**inherited, **getattr(session, "_floe_catalogs", {}), **lakes}
    added = {name: SparkCatalog(jvm, name, lake) for name, lake in lakes.items()}
    application.update(added)
    register_catalogs(jvm, java_session, added)
    install_rule(jvm, java_session)
    prepare_new_sessions(jvm, java_session, lambda new: _prepare(jvm, new))
    _register_data_source(session)
    install_format(jvm, lambda options: found_table(jvm, application, options))
    if ship:
        ship_code(session.sparkContext)
    session.__class__ = FloeSession
    assert isinstance(session, FloeSession)
    session._floe_catalogs = known
    return session


def _prepare(jvm: Jvm, java_session: Any) -> None:
    """Give a session that Spark has made what the sessions of its application have."""
    register_catalogs(jvm, java_session, _application(jvm), only_new=True)
    install_rule(jvm, java_session)


def _application(jvm: Jvm) -> dict[str, SparkCatalog]:
    """The catalogs of all sessions of this Spark application: those that Spark makes by itself have them all."""
    found: dict[str, SparkCatalog] = jvm.remembered.setdefault("catalogs of the application", {})
    return found


def _register_data_source(session: SparkSession) -> None:
    """Make `format("iceberg")` known, unless it is already."""
    try:
        session.dataSource.register(IcebergDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _lakes(catalogs: Mapping[str, Where] | None, more: Mapping[str, Where]) -> dict[str, Lake]:
    given = {**(catalogs or {}), **more}
    if not given:
        raise InvalidInput("no catalog is given", hint='name one: floe.spark(lake="warehouse")')
    return {name: _lake(name, where) for name, where in given.items()}


def _lake(name: str, where: Where) -> Lake:
    if not isinstance(name, str) or not name.isidentifier():
        raise InvalidInput(f"a catalog's name is a word such as lake, found {name!r}")
    if name == "spark_catalog":
        raise InvalidInput("spark_catalog is Spark's own catalog", hint="choose another name, such as lake")
    if isinstance(where, Lake):
        return where
    if isinstance(where, Mapping):
        options = dict(where)
        return connect(options.pop("uri", None), **{"name": name, **options})
    return connect(where, name=name)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
