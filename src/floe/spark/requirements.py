"""What must be there for Spark to run: told in one sentence each, before anything fails in a stranger's words."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Collection, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from floe.errors import InvalidInput, InvalidSettings, StorageError, UnsupportedFeature
from floe.storage.local import LocalStorage

__all__ = ["check_catalog_names", "check_environment", "check_session", "java_version"]

OLDEST_JAVA: Final = 17
OLDEST_SPARK, NEXT_SPARK = (4, 0), (4, 4)
_JAVA_HINT: Final = "install a Java 17 runtime (for example: apt-get install openjdk-17-jre-headless), or set JAVA_HOME"


def check_environment(conf: Mapping[str, Any] | None = None) -> None:
    """Raise unless a session with such settings can be started here."""
    check_python_packages()
    given = conf or {}
    if "spark.remote" in given or given.get("spark.api.mode") == "connect" or "SPARK_REMOTE" in os.environ:
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
