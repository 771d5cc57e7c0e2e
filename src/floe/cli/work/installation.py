"""Is everything there that Floe needs: libraries, Java for Spark, settings, catalogs that answer, a right clock."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NoAnswer
from importlib import metadata
from typing import Final

import floe
from floe.cli.work.findings import ERROR, NOTE, OK, WARNING, Finding
from floe.errors import FloeError
from floe.table.amounts import many
from floe.table.catalogs import open_catalog
from floe.table.secrets import hide_password
from floe.table.settings import load_settings

__all__ = ["check_catalogs", "check_installation"]

_EXTRAS: Final = (
    ("pyspark", "spark", "tables in Spark"),
    ("psycopg", "postgres", "catalogs in PostgreSQL"),
    ("obstore", "s3", "object stores: S3, Google Cloud, Azure"),
    ("fsspec", "fsspec", "other file systems: HDFS, SFTP, …"),
)
_FRAMES: Final = (("pandas", "scan.to_pandas()"), ("polars", "scan.to_polars()"))
_JAVA_FROM: Final = 17
_PATIENCE: Final = 10.0
_BEGINNING_OF_2025: Final = 1_735_689_600


def check_installation() -> Iterator[Finding]:
    """Python, libraries, Java and the clock."""
    yield Finding(OK, "Floe", floe.__version__)
    yield Finding(OK, "Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}")
    yield from _required()
    for library, extra, purpose in _EXTRAS:
        version = _version(library)
        if version is None:
            yield Finding(NOTE, library, f"is not installed: {purpose}", f"pip install 'floe[{extra}]'")
        else:
            yield Finding(OK, library, f"{version}, for {purpose}")
    for library, purpose in _FRAMES:
        version = _version(library)
        if version is None:
            yield Finding(NOTE, library, f"is not installed: {purpose}", f"pip install {library}")
        else:
            yield Finding(OK, library, f"{version}, for {purpose}")
    yield from _java(needed=_version("pyspark") is not None)
    yield _clock()


def check_catalogs() -> Iterator[Finding]:
    """The settings, and whether the catalogs that they name answer."""
    try:
        settings = load_settings()
    except FloeError as error:
        yield Finding(ERROR, "settings", error.message, error.hint)
        return
    read = ", ".join(settings.files) or "no floe.toml here or above"
    yield Finding(OK, "settings", f"{read}; {many(len(settings.names), 'catalog')}")
    if settings.default is not None and settings.default not in settings.names:
        advice = "write [catalog.<name>] for it, or another default"
        yield Finding(ERROR, "settings", f"the default catalog {settings.default!r} is not described", advice)
    with ThreadPoolExecutor(max(len(settings.names), 1)) as pool:
        asked = {name: pool.submit(_reach, name) for name in settings.names}
        for name, answer in asked.items():
            yield _answered(name, answer)


def _reach(name: str) -> str:
    """Asks a catalog for its namespaces; gives what it said, or fails as it does."""
    uri = hide_password(load_settings().catalog(name).uri)
    catalog, _ = open_catalog(name, {})
    try:
        count = len(catalog.namespaces(()))
    finally:
        catalog.close()
    return f"{uri} answers: {many(count, 'namespace')}"


def _answered(name: str, answer: Future[str]) -> Finding:
    try:
        return Finding(OK, f"catalog {name}", answer.result(_PATIENCE))
    except NoAnswer:
        return Finding(ERROR, f"catalog {name}", f"no answer within {_PATIENCE:.0f} s", "is the server reachable?")
    except FloeError as error:
        where = "".join(f" ({key}: {value})" for key, value in error.context.items())
        return Finding(ERROR, f"catalog {name}", f"{error.message}{where}", error.hint)


def _required() -> Iterator[Finding]:
    """The libraries that Floe always needs, against what its own package says about them."""
    try:
        wanted = metadata.requires("floe") or []
    except metadata.PackageNotFoundError:
        wanted = []
    found = []
    for line in wanted:
        match = re.match(r"([A-Za-z0-9_.-]+)\s*>=\s*([0-9.]+)$", line.strip())
        if match is None:
            continue  # of an extra
        version = _version(match[1])
        if version is None or _numbers(version) < _numbers(match[2]):
            text = "is not installed" if version is None else f"{version} is too old"
            yield Finding(ERROR, match[1], text, f"pip install '{match[1]}>={match[2]}'")
        else:
            found.append(f"{match[1]} {version}")
    if found:
        yield Finding(OK, "libraries", ", ".join(found))


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _java(*, needed: bool) -> Iterator[Finding]:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    advice = f"install Java {_JAVA_FROM} or newer, or set JAVA_HOME"
    if java is None or not os.path.exists(java):
        if needed:
            yield Finding(WARNING, "Java", "is not there, and Spark needs it", advice)
        return
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding(WARNING, "Java", f"{java} does not run: {error}", advice)
        return
    match = re.search(r'"(?:1\.)?(\d+)[^"]*"', done.stderr + done.stdout)
    if match is not None and int(match[1]) < _JAVA_FROM:
        yield Finding(WARNING, "Java", f"{match[0].strip(chr(34))} is too old for Spark 4", advice)
    elif match is not None:
        yield Finding(OK, "Java", f"{match[0].strip(chr(34))}, for Spark")


def _clock() -> Finding:
    now = time.time()
    text = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(now))
    if now < _BEGINNING_OF_2025:
        return Finding(ERROR, "clock", f"{text} is in the past", "set the clock: commits and expiry go by it")
    return Finding(OK, "clock", text)
