"""Spark sessions with lakes as catalogs: `floe.attach` adds them to one that is there; `floe.spark` makes one first.

A session made from nothing: `floe.spark`.

Java needs seconds to start, in which Python has nothing to do; so most of Floe is imported meanwhile. What Spark writes
to disk while it runs (shuffled and cached rows) goes to a folder that only this user can read: left alone, Spark puts
it into the system's folder for temporary files, readable by everybody.

What must be there for Spark to run: told in one sentence each, before anything fails in a stranger's words.
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
from typing import TYPE_CHECKING, Any, Final

from pyspark import SparkContext
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from floe.catalog.registry import open_catalog
from floe.errors import InvalidInput, InvalidSettings, StorageError, UnsupportedFeature
from floe.spark.bridge.exceptions import null_error, with_advice
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
from floe.spark.write.options import carry_commit_properties
from floe.spark.write.retries import again_after_conflicts, merge_frames_again
from floe.sql.statements import written_table
from floe.storage.local import LocalStorage
from floe.table.lake import Lake

if TYPE_CHECKING:
    pass


# What must be there for Spark to run: told in one sentence each, before anything fails in a stranger's words.

OLDEST_JAVA: Final = 17
OLDEST_SPARK, NEXT_SPARK = (4, 0), (4, 4)
_JAVA_HINT: Final = "install a Java 17 runtime (for example: apt-get install openjdk-17-jre-headless), or set JAVA_HOME"


def check_environment(conf: Mapping[str, Any] | None = None) -> None:
    """Raise unless a session with such settings can be started here."""
    check_python_packages()
    given = conf or {}
    if REMOTE in given or given.get(API_MODE) == "connect" or "SPARK_REMOTE" in os.environ:
        raise _connect()
    found = java_version()
    if found is None:
        raise InvalidSettings("Spark needs Java, and there is none", hint=_JAVA_HINT)
    if found < OLDEST_JAVA:
        raise InvalidSettings(f"Spark needs Java {OLDEST_JAVA} or newer, found Java {found}", hint=_JAVA_HINT)


def check_catalog_names(names: Collection[str]) -> None:
    """Raise unless there are names, and catalogs can be called so."""
    if not names:
        raise InvalidInput("no catalog is given", hint='name one: floe.spark(lake="./warehouse")')
    for name in names:
        if not isinstance(name, str) or not name.isidentifier():
            raise InvalidInput(f"a catalog's name is a word such as lake, found {name!r}")
        if name == "spark_catalog":
            raise InvalidInput("spark_catalog is Spark's own catalog", hint="choose another name, such as lake")


def check_python_packages() -> None:
    """Raise unless the packages that PySpark needs are there."""
    found = _package_version("pandas")
    if found is None:
        raise InvalidSettings("Spark needs pandas for what runs in Python", hint="pip install 'floe[spark]'")
    if found >= (3,):
        raise InvalidSettings(f"PySpark cannot use pandas {'.'.join(map(str, found))}", hint="pip install 'pandas<3'")


def check_session(session: Any) -> None:
    """Raise unless a session is one to which catalogs can be added."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise _connect()
    if not hasattr(session, "_jsparkSession"):
        raise InvalidSettings(f"floe.attach takes a SparkSession, found {type(session).__name__}")
    found = tuple(int(part) for part in session.version.split(".")[:2])
    if not OLDEST_SPARK <= found < NEXT_SPARK:
        raise UnsupportedFeature(
            f"Floe works with Spark 4.0 to 4.3, found {session.version}", hint="pip install 'pyspark>=4.0,<4.4'"
        )
    check_python_packages()


def _connect() -> UnsupportedFeature:
    return UnsupportedFeature(
        "a Spark Connect session runs in another process, where catalogs cannot be added from here",
        hint='read with spark.read.format("iceberg"), or start a session with floe.spark(…) and a spark.master',
    )


def java_version() -> int | None:
    """The version of the Java that Spark would start, such as 17; None if there is none.

    >>> java_version() is None or java_version() >= 1
    True
    """
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if program is None or not os.path.exists(program):
        return None
    told = _told_by_the_folder(program)
    if told is not None:
        return told
    try:
        run = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    return _major(re.search(r'version "(\d+)(?:\.(\d+))?', run.stderr + run.stdout))


def _told_by_the_folder(program: str) -> int | None:
    """The version that an installation of Java says in a file: starting Java to ask it takes a while."""
    release = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(program))), "release")
    try:
        text = LocalStorage().read(release, max_bytes=1_000_000).decode(errors="replace")
    except StorageError:
        return None
    return _major(re.search(r'JAVA_VERSION="(\d+)(?:\.(\d+))?', text))


def _major(match: re.Match[str] | None) -> int | None:
    if match is None:
        return None
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


def _package_version(name: str) -> tuple[int, ...] | None:
    try:
        found = version(name)
    except PackageNotFoundError:
        return None
    return tuple(int(part) for part in re.findall(r"\d+", found)[:3])


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
        """Run a statement: Spark's own, or one that only tables of Iceberg have (`floe.spark.sql`).

        One that changes rows is run again after conflicts if its table says so (`write.conflict.retries`).
        """
        run = super().sql
        with self._advising(sqlQuery):
            answered = run_statement(self, self._floe_catalogs, sqlQuery, run)
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
            told = null_error(error, written_table(statement))
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
        install_plan_rule(jvm, java_session)
        install_function_rule(jvm, java_session)
        prepare_new_sessions(jvm, java_session, lambda new: _prepare(jvm, new))
        install_format(jvm, lambda options: find_table(jvm, application, options))
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
    install_plan_rule(jvm, java_session)
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
        return Lake(*open_catalog(options.pop(CATALOG_URI.name, None), options, alias=name))
    return Lake(*open_catalog(where, {}, alias=name))


# A session made from nothing: `floe.spark`.

_DEFAULTS: Final = {BUCKETING: "true"}
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
    os.environ.setdefault("PYSPARK_PYTHON", _text((conf or {}).get(PYTHON, sys.executable)))
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
