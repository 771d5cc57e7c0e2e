"""Spark sessions with lakes as catalogs: `floe.attach` adds them to one that is there; `floe.spark` makes one first."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from floe.spark.bridge.exceptions import null_error, with_advice
from floe.spark.bridge.function_rule import install_function_rule
from floe.spark.bridge.jvm import Jvm, jvm_of
from floe.spark.bridge.provider import install_format
from floe.spark.bridge.rules import install_rule
from floe.spark.bridge.sessions import prepare_new_sessions, register_catalogs
from floe.spark.catalog.catalog import SparkCatalog
from floe.spark.configured import (
    SESSION_CATALOG,
    SESSION_CATALOG_CLASS,
    SPARK_CATALOG,
    check_settings,
    configured_catalogs,
)
from floe.spark.extended_sql.advice import advice_for
from floe.spark.extended_sql.answering import answer
from floe.spark.extended_sql.other_formats import changed_table
from floe.spark.provider import found_table
from floe.spark.requirements import check_catalog_names, check_session
from floe.spark.row_level.retrying import again_after_conflicts, merge_frames_again
from floe.spark.settings import check_all_settings
from floe.spark.shipping import ship_code
from floe.spark.write.options import carry_commit_properties
from floe.table.catalogs import open_catalog
from floe.table.lake import Lake

__all__ = ["FloeSession", "attach"]

Where = str | os.PathLike[str] | Lake | Mapping[str, Any]
"""What a catalog is: where `floe.connect` finds it, a lake, or `connect`'s options with `uri` among them."""


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
        with self._advising(sqlQuery):
            answered = answer(self, self._floe_catalogs, sqlQuery, run)
            if answered is not None:
                return answered
            return again_after_conflicts(jvm_of(self), lambda: run(sqlQuery, args, **kwargs))

    def table(self, tableName: str) -> DataFrame:
        """The rows of a table."""
        with self._advising():
            return super().table(tableName)

    @contextmanager
    def _advising(self, statement: str = "") -> Iterator[None]:
        """Errors about a catalog's name tell which catalogs there are, those about nulls the column and the table."""
        try:
            yield
        except PySparkException as error:
            told = null_error(error, changed_table(statement))
            if told is not None:
                raise IllegalArgumentException(str(told)) from None
            advice = advice_for(error, list(self._floe_catalogs))
            raise error if advice is None else with_advice(error, advice) from None

    def newSession(self) -> SparkSession:
        """Another session with its own settings and temporary views, and the same catalogs."""
        return _attached(super().newSession(), self._floe_catalogs)


def attach(
    session: SparkSession, catalogs: Mapping[str, Where] | None = None, *, ship: bool = False, **more: Where
) -> FloeSession:
    """Add lakes to a session that exists, as catalogs.

    Gives the same object, which can then do all that a session of `floe.spark` can. The sessions that Spark itself
    makes of such a session have its catalogs already: for those, none has to be given, nor for those that the session's
    settings describe for Java Iceberg, whose classes are not there.
    """
    check_session(session)
    jvm = jvm_of(session)
    settings = jvm.read_scala_map(session._jsparkSession.conf().getAll())
    explicit = {**(catalogs or {}), **more}
    known = {**_application(jvm), **getattr(session, "_floe_catalogs", {})}
    configured: Mapping[str, Where] = {}
    if not jvm.has_class(SPARK_CATALOG):
        configured = configured_catalogs(settings, {**known, **explicit})
        if settings.get(SESSION_CATALOG) == SESSION_CATALOG_CLASS:
            session.conf.unset(SESSION_CATALOG)  # or nothing of Spark's own catalog could be used
    given = {**configured, **explicit}
    lakes = {} if not given and known else _lakes(given)
    for name in lakes:
        check_settings(settings, name, is_given=name in explicit)
    check_all_settings(settings)
    return _attached(session, lakes, ship)


def _attached(session: SparkSession, lakes: Mapping[str, Lake], ship: bool = False) -> FloeSession:
    jvm, java_session = jvm_of(session), session._jsparkSession
    with jvm.lock:
        application = _application(jvm)
        inherited = {} if lakes else {name: catalog.lake for name, catalog in application.items()}
        known = {**inherited, **getattr(session, "_floe_catalogs", {}), **lakes}
        added = {name: SparkCatalog(jvm, name, lake) for name, lake in lakes.items()}
        application.update(added)
        register_catalogs(jvm, java_session, added)
        install_rule(jvm, java_session)
        install_function_rule(jvm, java_session)
        prepare_new_sessions(jvm, java_session, lambda new: _prepare(jvm, new))
        install_format(jvm, lambda options: found_table(jvm, application, options))
        merge_frames_again()
        carry_commit_properties(jvm)
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
    install_function_rule(jvm, java_session)


def _application(jvm: Jvm) -> dict[str, SparkCatalog]:
    """The catalogs of all sessions of this Spark application: those that Spark makes by itself have them all."""
    return jvm.once("catalogs of the application", dict[str, SparkCatalog])


def _lakes(given: Mapping[str, Where]) -> dict[str, Lake]:
    check_catalog_names(given)
    return {name: _lake(name, where) for name, where in given.items()}


def _lake(name: str, where: Where) -> Lake:
    if isinstance(where, Lake):
        return where
    if isinstance(where, Mapping):
        options = dict(where)
        return Lake(*open_catalog(options.pop("uri", None), options, called=name))
    return Lake(*open_catalog(where, {}, called=name))
