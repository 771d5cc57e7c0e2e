"""Spark sessions with lakes as catalogs: `floe.spark` starts a session, `floe.attach` adds catalogs to one.

Before that, `check_environment` and `check_session` raise errors that say what is missing: Java, pandas, or a supported
version of Spark. `FloeSession` is the class of the sessions: its `sql` also runs the statements of `floe.spark.sql`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from pyspark import SparkContext
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from floe.catalog.registry import open_catalog
from floe.errors import InvalidInput, InvalidSettings, StorageError, UnsupportedFeature
from floe.spark.bridge.exceptions import append_advice, null_error
from floe.spark.bridge.jvm import Jvm, jvm_of
from floe.spark.bridge.rules import install_function_rule, install_plan_rule
from floe.spark.bridge.sessions import install_format, prepare_new_sessions, register_catalogs
from floe.spark.catalog.catalog import SparkCatalog
from floe.spark.configured_catalogs import (
    SESSION_CATALOG,
    SESSION_CATALOG_CLASS,
    SPARK_CATALOG,
    check_settings,
    configured_catalogs,
    settings_for_spark,
)
from floe.spark.data_source import find_table
from floe.spark.executors import ship_code
from floe.spark.settings import API_MODE, BUCKETING, CATALOG_URI, PYTHON, REMOTE, check_all_settings
from floe.spark.sql.hints import advice_for
from floe.spark.sql.statements import run_statement
from floe.spark.write.options import forward_commit_properties
from floe.spark.write.retries import patch_merge_into, retry_after_conflicts
from floe.sql.statements import written_table
from floe.storage.local import LocalStorage
from floe.table.lake import Lake

# Checks of the environment --------------------------------------------------------------------------------------------

OLDEST_JAVA: Final = 17
OLDEST_SPARK, NEXT_SPARK = (4, 0), (4, 4)
"""The oldest version of Spark that Floe works with, and the first one that is too new."""

_JAVA_HINT: Final = "install a Java 17 runtime (for example: apt-get install openjdk-17-jre-headless), or set JAVA_HOME"


def check_environment(conf: Mapping[str, Any] | None = None) -> None:
    """Raise if a session with some settings cannot be started here: without Java or pandas, or with Spark Connect."""
    check_python_packages()
    settings = conf or {}
    if REMOTE in settings or settings.get(API_MODE) == "connect" or "SPARK_REMOTE" in os.environ:
        raise _connect_error()
    java = java_version()
    if java is None:
        raise InvalidSettings("Spark needs Java, and there is none", hint=_JAVA_HINT)
    if java < OLDEST_JAVA:
        raise InvalidSettings(f"Spark needs Java {OLDEST_JAVA} or newer, found Java {java}", hint=_JAVA_HINT)


def check_catalog_names(names: Collection[str]) -> None:
    """Raise if there are no names, or if one of them cannot be the name of a catalog."""
    if not names:
        raise InvalidInput("no catalog is given", hint='name one: floe.spark(lake="./warehouse")')
    for name in names:
        if not isinstance(name, str) or not name.isidentifier():
            raise InvalidInput(f"a catalog's name is a word such as lake, found {name!r}")
        if name == "spark_catalog":
            raise InvalidInput("spark_catalog is Spark's own catalog", hint="choose another name, such as lake")


def check_python_packages() -> None:
    """Raise if pandas, which PySpark needs, is missing or of a version that it does not support."""
    pandas = _package_version("pandas")
    if pandas is None:
        raise InvalidSettings("Spark needs pandas for what runs in Python", hint="pip install 'floe[spark]'")
    if pandas >= (3,):
        raise InvalidSettings(f"PySpark cannot use pandas {'.'.join(map(str, pandas))}", hint="pip install 'pandas<3'")


def check_session(session: Any) -> None:
    """Raise if catalogs cannot be added to a session: it is not one of this process, or of an unsupported version."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise _connect_error()
    if not hasattr(session, "_jsparkSession"):
        raise InvalidSettings(f"floe.attach takes a SparkSession, found {type(session).__name__}")
    spark_version = tuple(int(part) for part in session.version.split(".")[:2])
    if not OLDEST_SPARK <= spark_version < NEXT_SPARK:
        raise UnsupportedFeature(
            f"Floe works with Spark 4.0 to 4.3, found {session.version}", hint="pip install 'pyspark>=4.0,<4.4'"
        )
    check_python_packages()


def _connect_error() -> UnsupportedFeature:
    return UnsupportedFeature(
        "a Spark Connect session runs in another process, where catalogs cannot be added from here",
        hint='read with spark.read.format("iceberg"), or start a session with floe.spark(…) and a spark.master',
    )


def java_version() -> int | None:
    """The major version of the Java that Spark would start, such as 17; None if there is none.

    >>> java_version() is None or java_version() >= 1
    True
    """
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if program is None or not os.path.exists(program):
        return None
    released = _release_version(program)
    if released is not None:
        return released
    try:
        run = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    return _major_version(re.search(r'version "(\d+)(?:\.(\d+))?', run.stderr + run.stdout))


def _release_version(program: str) -> int | None:
    """The version in the file `release` of a Java installation, which is faster to read than to start Java."""
    release = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(program))), "release")
    try:
        text = LocalStorage().read(release, max_bytes=1_000_000).decode(errors="replace")
    except StorageError:
        return None
    return _major_version(re.search(r'JAVA_VERSION="(\d+)(?:\.(\d+))?', text))


def _major_version(match: re.Match[str] | None) -> int | None:
    """The major version of the first two parts of a version: 8 for `1.8`, 17 for `17.0`."""
    if match is None:
        return None
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


def _package_version(name: str) -> tuple[int, ...] | None:
    try:
        text = version(name)
    except PackageNotFoundError:
        return None
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


# Sessions -------------------------------------------------------------------------------------------------------------

CatalogSource = str | os.PathLike[str] | Lake | Mapping[str, Any]
"""A catalog: the URI or path for `floe.connect`, a lake, or the options of `floe.connect` with `uri` among them."""


class FloeSession(SparkSession):
    """A Spark session with lakes as catalogs; `floe.spark` and `floe.attach` return one."""

    _floe_catalogs: dict[str, Lake]

    @property
    def lakes(self) -> Mapping[str, Lake]:
        """The lakes by the names of their catalogs."""
        return dict(self._floe_catalogs)

    def sql(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:
        """Run a statement of Spark, or one that only Iceberg tables have (`floe.spark.sql`).

        A statement that changes rows is retried after conflicts, as the table property `write.conflict.retries` says.
        """
        run = super().sql
        with self._explain_errors(sqlQuery):
            rows = run_statement(self, self._floe_catalogs, sqlQuery, run)
            if rows is not None:
                return rows
            return retry_after_conflicts(jvm_of(self), lambda: run(sqlQuery, args, **kwargs))

    def table(self, tableName: str) -> DataFrame:
        """The rows of a table as a data frame."""
        with self._explain_errors():
            return super().table(tableName)

    @contextmanager
    def _explain_errors(self, statement: str = "") -> Iterator[None]:
        """Add to errors of Spark: the catalogs if a name has none of them, the column and table of an invalid null."""
        try:
            yield
        except PySparkException as error:
            null_value = null_error(error, written_table(statement))
            if null_value is not None:
                raise IllegalArgumentException(str(null_value)) from None
            advice = advice_for(error, list(self._floe_catalogs))
            raise error if advice is None else append_advice(error, advice) from None

    def newSession(self) -> SparkSession:
        """Another session with its own settings and temporary views, and the same catalogs."""
        return _attach_lakes(super().newSession(), self._floe_catalogs)


def attach(
    session: SparkSession,
    catalogs: Mapping[str, CatalogSource] | None = None,
    *,
    ship: bool = False,
    **more: CatalogSource,
) -> FloeSession:
    """Add lakes to a session that exists, as catalogs.

    Returns the same object, which is a `FloeSession` then. No catalog has to be named for a session that Spark has made
    of a `FloeSession`, because it has the same catalogs; nor if the session's settings configure catalogs for Java
    Iceberg, and its classes are missing.
    """
    check_session(session)
    jvm = jvm_of(session)
    settings = jvm.read_scala_map(session._jsparkSession.conf().getAll())
    explicit = {**(catalogs or {}), **more}
    attached = {**_application_catalogs(jvm), **getattr(session, "_floe_catalogs", {})}
    configured: Mapping[str, CatalogSource] = {}
    if not jvm.has_class(SPARK_CATALOG):
        configured = configured_catalogs(settings, {**attached, **explicit})
        if settings.get(SESSION_CATALOG) == SESSION_CATALOG_CLASS:
            session.conf.unset(SESSION_CATALOG)  # or Spark's own catalog could not be used at all
    sources = {**configured, **explicit}
    lakes = {} if not sources and attached else _open_lakes(sources)
    for name in lakes:
        check_settings(settings, name, is_given=name in explicit)
    check_all_settings(settings)
    return _attach_lakes(session, lakes, ship)


def _attach_lakes(session: SparkSession, lakes: Mapping[str, Lake], ship: bool = False) -> FloeSession:
    """Register lakes as catalogs of a session, and make it a `FloeSession`; without lakes, those of the application."""
    jvm, java_session = jvm_of(session), session._jsparkSession
    with jvm.lock:
        application = _application_catalogs(jvm)
        inherited = {} if lakes else {name: catalog.lake for name, catalog in application.items()}
        all_lakes = {**inherited, **getattr(session, "_floe_catalogs", {}), **lakes}
        added = {name: SparkCatalog(jvm, name, lake) for name, lake in lakes.items()}
        application.update(added)
        register_catalogs(jvm, java_session, added)
        install_plan_rule(jvm, java_session)
        install_function_rule(jvm, java_session)
        prepare_new_sessions(jvm, java_session, lambda new: _prepare(jvm, new))
        install_format(jvm, lambda options: find_table(jvm, application, options))
        patch_merge_into()
        forward_commit_properties(jvm)
        if ship:
            ship_code(session.sparkContext)
        session.__class__ = FloeSession
        assert isinstance(session, FloeSession)
        session._floe_catalogs = all_lakes
        return session


def _prepare(jvm: Jvm, java_session: Any) -> None:
    """Give a session that Spark has made the catalogs and rules of the application."""
    register_catalogs(jvm, java_session, _application_catalogs(jvm), only_new=True)
    install_plan_rule(jvm, java_session)
    install_function_rule(jvm, java_session)


def _application_catalogs(jvm: Jvm) -> dict[str, SparkCatalog]:
    """The catalogs of all sessions of this Spark application; sessions that Spark makes by itself get all of them."""
    return jvm.once("catalogs of the application", dict[str, SparkCatalog])


def _open_lakes(sources: Mapping[str, CatalogSource]) -> dict[str, Lake]:
    check_catalog_names(sources)
    return {name: _open_lake(name, source) for name, source in sources.items()}


def _open_lake(name: str, source: CatalogSource) -> Lake:
    if isinstance(source, Lake):
        return source
    if isinstance(source, Mapping):
        options = dict(source)
        return Lake(*open_catalog(options.pop(CATALOG_URI.name, None), options, alias=name))
    return Lake(*open_catalog(source, {}, alias=name))


# New sessions ---------------------------------------------------------------------------------------------------------

_DEFAULTS: Final = {BUCKETING: "true"}
_GATEWAY: Final = "PYSPARK_GATEWAY_PORT"
_JVM_OPTIONS: Final = "SPARK_SUBMIT_OPTS"

_SETTINGS_ELSEWHERE: Final = ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME")
"""Environment variables that may bring settings, and so catalogs, which are known only once there is a session."""


def spark(
    catalogs: Mapping[str, CatalogSource] | None = None,
    *,
    conf: Mapping[str, Any] | None = None,
    ship: bool = False,
    **more: CatalogSource,
) -> FloeSession:
    """A Spark session in which each of the lakes is a catalog of that name.

    `floe.spark(lake="./warehouse")` is short for `floe.spark({"lake": "./warehouse"})`. A lake is named as for
    `floe.connect`. `conf` has settings of Spark; catalogs that they configure for Java Iceberg
    (`spark.sql.catalog.local=org.apache.iceberg.spark.SparkCatalog`, …) are opened too. If there is a session already,
    it is that one. With `ship`, Floe's own code is sent to the executors, which then need only the packages that it
    uses.
    """
    sources = {**(catalogs or {}), **more}
    sources |= configured_catalogs(conf or {}, sources)
    if sources or not any(name in os.environ for name in _SETTINGS_ELSEWHERE):
        check_catalog_names(sources)
    check_environment(conf or {})
    os.environ.setdefault("PYSPARK_PYTHON", _text((conf or {}).get(PYTHON, sys.executable)))
    builder = SparkSession.builder
    for name, value in {**_DEFAULTS, **settings_for_spark(conf or {})}.items():
        builder = builder.config(name, _text(value))
    # Java needs seconds to start, in which Python has nothing to do, so the rest of Floe is imported meanwhile.
    with ThreadPoolExecutor(1, "floe-imports") as executor, _private_folder() as folder:
        module = executor.submit(import_module, "floe.spark.session")
        session = builder.getOrCreate()
    check_session(session)
    attached: FloeSession = module.result().attach(session, sources, ship=ship)
    if folder is not None:
        import_module("floe.spark.bridge.jvm").jvm_of(session).delete_at_exit(folder)
    return attached


@contextmanager
def _private_folder() -> Iterator[str | None]:
    """Have a JVM that is started inside the block keep its temporary files in a new folder, unless options name one.

    Only this user can read the folder; the system's default folder for temporary files can be read by everybody, and
    Spark writes shuffled and cached rows there. Yields the folder, or None if there is a JVM already.
    """
    if SparkContext._gateway is not None or _GATEWAY in os.environ:
        yield None
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
