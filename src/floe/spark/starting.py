"""A session made from nothing: `floe.spark`.

Java needs seconds to start, in which Python has nothing to do; so most of Floe is imported meanwhile. What Spark writes
to disk while it runs (shuffled and cached rows) goes to a folder that only this user can read: left alone, Spark puts
it into the system's folder for temporary files, readable by everybody.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from floe.spark.configured import configured_catalogs, settings_for_spark
from floe.spark.requirements import check_catalog_names, check_environment, check_session

if TYPE_CHECKING:
    from floe.spark.session import FloeSession, Where

__all__ = ["spark"]

_DEFAULTS: Final = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
}
_GATEWAY: Final = "PYSPARK_GATEWAY_PORT"
_JVM_OPTIONS: Final = "SPARK_SUBMIT_OPTS"

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

    `floe.spark(lake="./warehouse")` is short for `floe.spark({"lake": "./warehouse"})`. Each lake is given as for
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
    with ThreadPoolExecutor(1, "floe-imports") as meanwhile, _private_folder() as folder:
        rest = meanwhile.submit(import_module, "floe.spark.session")
        session = builder.getOrCreate()
    check_session(session)
    made: FloeSession = rest.result().attach(session, given, ship=ship)
    if folder is not None:
        import_module("floe.spark.bridge.jvm").jvm_of(session).delete_at_exit(folder)
    return made


@contextmanager
def _private_folder() -> Iterator[str | None]:
    """Has a JVM that is started meanwhile keep its temporary files in a folder of its own, unless options say where."""
    if SparkContext._gateway is not None or _GATEWAY in os.environ:
        yield None  # a JVM is there
        return
    before = os.environ.get(_JVM_OPTIONS)
    folder = tempfile.mkdtemp(prefix="floe-spark-")
    os.environ[_JVM_OPTIONS] = f'"-Djava.io.tmpdir={folder}" {before or ""}'
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        if before is None:
            del os.environ[_JVM_OPTIONS]
        else:
            os.environ[_JVM_OPTIONS] = before


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
