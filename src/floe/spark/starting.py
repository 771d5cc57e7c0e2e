"""A session made from nothing: `floe.spark`.

Java needs seconds to start, in which Python has nothing to do; so most of Floe is imported meanwhile.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession

from floe.spark.configured import configured_catalogs, settings_for_spark
from floe.spark.requirements import check_catalog_names, check_environment, check_session

if TYPE_CHECKING:
    from floe.spark.session import FloeSession, Where

__all__ = ["spark"]

_DEFAULTS: Final = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
}

_SETTINGS_ELSEWHERE: Final = ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME")
"""Where one of these is set there may be settings, and so catalogs, that only the session tells of."""


def spark(
    catalogs: Mapping[str, Where] | None = None,
    *,
    conf: Mapping[str, Any] | None = None,
    ship: bool = False,
    **more: Where,
) -> FloeSession:
    """A Spark session in which each of the lakes is a catalog of that name.

    `floe.spark(lake="warehouse")` is short for `floe.spark({"lake": "warehouse"})`. Each lake is given as for
    `floe.connect`. `conf` are Spark's own settings; catalogs that they describe for Java Iceberg
    (`spark.sql.catalog.local=org.apache.iceberg.spark.SparkCatalog`, …) are understood, and need not be given again. If
    there is a session already, it is that one. With `ship`, Floe's own code is sent to the executors, which then need
    only the packages that it uses.
    """
    given = {**(catalogs or {}), **more}
    given |= configured_catalogs(conf or {}, given)
    if given or not any(name in os.environ for name in _SETTINGS_ELSEWHERE):
        check_catalog_names(given)
    check_environment(conf or {})
    os.environ.setdefault("PYSPARK_PYTHON", _text((conf or {}).get("spark.pyspark.python", sys.executable)))
    builder = SparkSession.builder
    for name, value in {**_DEFAULTS, **settings_for_spark(conf or {})}.items():
        builder = builder.config(name, _text(value))
    with ThreadPoolExecutor(1, "floe-imports") as meanwhile:
        rest = meanwhile.submit(import_module, "floe.spark.session")
        session = builder.getOrCreate()
    check_session(session)
    made: FloeSession = rest.result().attach(session, given, ship=ship)
    return made


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
