"""What must be there for Spark to run: told in one sentence each, before anything fails in a stranger's words."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from floe.errors import InvalidSettings, UnsupportedFeature

__all__ = ["check_environment", "check_session", "java_version"]

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
    try:
        run = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', run.stderr + run.stdout)
    if match is None:
        return None
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


def _package_version(name: str) -> tuple[int, ...] | None:
    try:
        found = version(name)
    except PackageNotFoundError:
        return None
    return tuple(int(part) for part in re.findall(r"\d+", found)[:3])
