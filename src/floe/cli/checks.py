"""The checks of `floe doctor`: the installation and its catalogs, a catalog, and a table.

Nothing is changed. Of a table, by default a sample of the files of the current snapshot is checked; `full` checks the
files of all snapshots, and looks for orphan files, which no snapshot refers to.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError as NoAnswer
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version as installed_version
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import floe
from floe.catalog.identifiers import format_identifier
from floe.catalog.registry import open_catalog
from floe.catalog.settings import hide_password, load_settings
from floe.cli.arguments import CatalogScope, all_tables
from floe.errors import FloeError, NoSuchFile
from floe.show.times import ago, local_text
from floe.spec.metadata.metadata_checks import all_problems
from floe.spec.metadata.retention import plan_expiry
from floe.spec.properties import TARGET_FILE_SIZE
from floe.storage.concurrency import map_concurrently
from floe.storage.locations import canonical, join
from floe.storage.protocol import FileInfo, Storage
from floe.table.human_values import many, size_text
from floe.table.table import Table

OK: Final = "ok"
NOTE: Final = "note"
WARNING: Final = "warning"
ERROR: Final = "error"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    >>> Finding(OK, "Python", "3.11.7").document()
    {'level': 'ok', 'about': 'Python', 'text': '3.11.7', 'advice': None}
    """

    level: str
    """`ok`, `note` (good to know), `warning` (it will get slow or costly) or `error` (it does not work)."""

    about: str
    text: str
    advice: str | None = None

    def document(self) -> dict[str, Any]:
        """The finding as JSON."""
        return asdict(self)


# The installation -----------------------------------------------------------------------------------------------------

_EXTRAS: Final = (
    ("pyspark", "spark", "tables in Spark"),
    ("psycopg", "postgres", "catalogs in PostgreSQL"),
    ("obstore", "s3", "object stores: S3, Google Cloud, Azure"),
    ("fsspec", "fsspec", "other file systems: HDFS, SFTP, …"),
)
_DATA_FRAMES: Final = (("pandas", "scan.to_pandas()"), ("polars", "scan.to_polars()"))
_MIN_JAVA: Final = 17
_TIMEOUT_SECONDS: Final = 10.0
_START_OF_2025: Final = 1_735_689_600


def check_installation() -> Iterator[Finding]:
    """Check Python, libraries, Java, the clock, the settings, and whether the catalogs in them answer."""
    yield Finding(OK, "Floe", floe.__version__)
    yield Finding(OK, "Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}")
    yield from _check_required_libraries()
    for library, extra, purpose in _EXTRAS:
        yield _check_optional_library(library, purpose, f"pip install 'floe[{extra}]'")
    for library, purpose in _DATA_FRAMES:
        yield _check_optional_library(library, purpose, f"pip install {library}")
    yield from _check_java(needed=_version("pyspark") is not None)
    yield _check_clock()
    yield from _check_settings()


def _check_optional_library(library: str, purpose: str, advice: str) -> Finding:
    version = _version(library)
    if version is None:
        return Finding(NOTE, library, f"not installed; needed for {purpose}", advice)
    return Finding(OK, library, f"{version}, for {purpose}")


def _check_settings() -> Iterator[Finding]:
    """Check the settings, and whether the catalogs in them answer."""
    try:
        settings = load_settings()
    except FloeError as error:
        yield Finding(ERROR, "settings", error.message, error.hint)
        return
    files = ", ".join(settings.files) or "no floe.toml in this folder or above"
    yield Finding(OK, "settings", f"{files}; {many(len(settings.names), 'catalog')}")
    if settings.default is not None and settings.default not in settings.names:
        advice = "add a section [catalog.<name>] for it, or change the default"
        yield Finding(ERROR, "settings", f"the default catalog {settings.default!r} has no section", advice)
    with ThreadPoolExecutor(max(len(settings.names), 1)) as pool:
        answers = {name: pool.submit(_list_namespaces, name) for name in settings.names}
        for name, answer in answers.items():
            yield _check_answer(name, answer)


def _list_namespaces(name: str) -> str:
    """Ask a catalog for its namespaces, and describe the answer."""
    uri = hide_password(load_settings().catalog(name).uri)
    catalog, _ = open_catalog(name, {})
    try:
        count = len(catalog.namespaces(()))
    finally:
        catalog.close()
    return f"{uri} answers: {many(count, 'namespace')}"


def _check_answer(name: str, answer: Future[str]) -> Finding:
    try:
        return Finding(OK, f"catalog {name}", answer.result(_TIMEOUT_SECONDS))
    except NoAnswer:
        return Finding(
            ERROR, f"catalog {name}", f"no answer within {_TIMEOUT_SECONDS:.0f} s", "is the server reachable?"
        )
    except FloeError as error:
        return Finding(ERROR, f"catalog {name}", error.message + _context(error), error.hint)


def _check_required_libraries() -> Iterator[Finding]:
    """Check the required libraries of Floe, as its package metadata lists them."""
    try:
        requirements = requires("floe") or []
    except PackageNotFoundError:
        requirements = []
    installed = []
    for line in requirements:
        match = re.match(r"([A-Za-z0-9_.-]+)\s*>=\s*([0-9.]+)$", line.strip())
        if match is None:
            continue  # it belongs to an extra
        version = _version(match[1])
        if version is None or _numbers(version) < _numbers(match[2]):
            text = "not installed" if version is None else f"{version} is too old"
            yield Finding(ERROR, match[1], text, f"pip install '{match[1]}>={match[2]}'")
        else:
            installed.append(f"{match[1]} {version}")
    if installed:
        yield Finding(OK, "libraries", ", ".join(installed))


def _version(library: str) -> str | None:
    try:
        return installed_version(library)
    except PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _check_java(*, needed: bool) -> Iterator[Finding]:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    advice = f"install Java {_MIN_JAVA} or newer, or set JAVA_HOME"
    if java is None or not os.path.exists(java):
        if needed:
            yield Finding(WARNING, "Java", "not found, and Spark needs it", advice)
        return
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding(WARNING, "Java", f"{java} does not run: {error}", advice)
        return
    match = re.search(r'"(?:1\.)?(\d+)[^"]*"', done.stderr + done.stdout)
    if match is not None and int(match[1]) < _MIN_JAVA:
        yield Finding(WARNING, "Java", f"{match[0].strip(chr(34))} is too old for Spark 4", advice)
    elif match is not None:
        yield Finding(OK, "Java", f"{match[0].strip(chr(34))}, for Spark")


def _check_clock() -> Finding:
    now = time.time()
    text = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(now))
    if now < _START_OF_2025:
        return Finding(ERROR, "clock", f"{text} is in the past", "set the clock: commits and expiry depend on it")
    return Finding(OK, "clock", text)


# A catalog ------------------------------------------------------------------------------------------------------------


def check_catalog(scope: CatalogScope) -> Iterator[Finding]:
    """Check whether a catalog answers, and whether the metadata of its tables can be read."""
    namespaces = scope.catalog.namespaces(scope.namespace)
    yield Finding(OK, f"catalog {scope.catalog.name}", f"answers: {many(len(namespaces), 'namespace')}")
    readable = 0
    for identifier in all_tables(scope):
        try:
            state = scope.catalog.pointer(identifier).load()
        except FloeError as error:
            yield Finding(ERROR, f"table {format_identifier(identifier)}", str(error))
        else:
            readable += state is not None
    yield Finding(
        OK, "tables", f"the metadata of {many(readable, 'table')} can be read; name a table to check its files"
    )


# A table --------------------------------------------------------------------------------------------------------------

_SAMPLE_FILES: Final = 200
_CONCURRENCY: Final = 16
_MAX_PATHS: Final = 3
_MANY_SMALL_FILES: Final = 20
_MANY_MANIFESTS: Final = 100
_SMALL_MANIFEST_BYTES: Final = 2 * 2**20
_MANY_DELETES_RATIO: Final = 0.1
_LARGE_METADATA_BYTES: Final = 8 * 2**20
_MANY_SNAPSHOTS: Final = 1000
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000


def check_table(table: Table, *, full: bool = False) -> Iterator[Finding]:
    """Check the metadata, history, files and layout of a table."""
    yield from _check_metadata(table)
    yield from _check_history(table)
    if table.current_snapshot is None and not full:
        return
    try:
        manifests = table.inspect.all_manifests() if full else table.inspect.manifests()
        files = (table.inspect.all_files if full else table.inspect.files)(columns=_inspected_columns(table))
    except FloeError as error:
        yield Finding(ERROR, "manifests", error.message + _context(error), error.hint)
        return
    yield from _check_files(table.storage, "manifests", manifests["path"], manifests["length"], full=True)
    yield from _check_files(table.storage, "files", files["file_path"], files["file_size_in_bytes"], full=full)
    if not full:
        yield from _check_manifest_count(manifests)
        yield from _check_small_files(table, files)
        yield from _check_deletes(files)
        yield from _check_bounds(files)
    yield from _check_orphans(table, files if full else None)


def _inspected_columns(table: Table) -> list[str]:
    """The columns of the files table to read; a table that never was partitioned has no column `partition`."""
    columns = ["content", "file_path", "spec_id", "record_count", "file_size_in_bytes", "lower_bounds"]
    return [*columns, "partition"] if any(spec.fields for spec in table.metadata.partition_specs) else columns


def _check_metadata(table: Table) -> Iterator[Finding]:
    metadata = table.metadata
    size = _size_of(table.storage, table.metadata_location)
    text = f"{table.metadata_location}, format version {metadata.format_version}"
    yield Finding(OK, "metadata", text + ("" if size is None else f", {size_text(size)}"))
    for problem in all_problems(metadata):
        yield Finding(ERROR, "metadata", f"{problem.path}: {problem.message}", problem.hint)
    if size is not None and size > _LARGE_METADATA_BYTES:
        advice = "expire old snapshots: every commit rewrites the metadata file"
        yield Finding(WARNING, "metadata", f"the metadata file has {size_text(size)}", advice)
    if metadata.format_version == 1:
        advice = "t.upgrade(2), once all writers support version 2"
        yield Finding(NOTE, "format version", "version 1 has no row-level deletes", advice)
    ahead = metadata.last_updated_ms - table.environment.clock.now_ms()
    if ahead > _MINUTE_MS:
        text = f"the last change is at {local_text(metadata.last_updated_ms)}, which is in the future"
        yield Finding(WARNING, "clock", text, "check the clocks of the writers of the table")


def _check_history(table: Table) -> Iterator[Finding]:
    metadata, now_ms = table.metadata, table.environment.clock.now_ms()
    if not metadata.snapshots:
        yield Finding(OK, "snapshots", "none yet")
        return
    oldest = min(snapshot.timestamp_ms for snapshot in metadata.snapshots)
    about = f"{len(metadata.snapshots):,}, the oldest from {ago(oldest, now_ms=now_ms)}"
    try:
        expired = plan_expiry(metadata, now_ms=now_ms).snapshots
    except FloeError as error:
        yield Finding(NOTE, "snapshots", f"{about}; {error.message}", error.hint)
        return
    if len(metadata.snapshots) >= _MANY_SNAPSHOTS:
        text = f"{about}; every commit writes, and every reader reads, the metadata of each"
        expirable = f"{len(expired):,} may expire" if expired else "none may expire yet"
        advice = (
            f"expire more: {expirable} by the table's history.expire properties; t.expire(older_than=…) goes further"
        )
        yield Finding(WARNING, "snapshots", text, advice)
    elif expired:
        advice = "t.expire().plan() lists what would expire, t.expire().apply() removes it"
        yield Finding(NOTE, "snapshots", f"{about}; {len(expired):,} may expire", advice)
    else:
        yield Finding(OK, "snapshots", about)


def _check_files(
    storage: Storage, about: str, paths: pa.ChunkedArray, sizes: pa.ChunkedArray, *, full: bool
) -> Iterator[Finding]:
    """Whether files exist, with their recorded sizes; `about` is the kind of the files."""
    recorded = pa.table({"path": paths, "size": sizes}).group_by("path").aggregate([("size", "max")])
    total = recorded.num_rows
    if not full and total > _SAMPLE_FILES:
        step = total / _SAMPLE_FILES
        recorded = recorded.take([int(n * step) for n in range(_SAMPLE_FILES)])
    sample = list(zip(recorded["path"].to_pylist(), recorded["size_max"].to_pylist(), strict=True))
    with ThreadPoolExecutor(_CONCURRENCY) as pool:
        problems = list(
            map_concurrently(lambda item: _problem(storage, *item), sample, limit=_CONCURRENCY, executor=pool)
        )
    checked = list(zip((path for path, _ in sample), problems, strict=True))
    missing = [path for path, problem in checked if problem == _MISSING]
    wrong = [f"{path} ({problem})" for path, problem in checked if problem not in ("", _MISSING)]
    count = f"{len(sample):,} of {total:,}" if len(sample) < total else f"{total:,}"
    if missing:
        advice = "restore them, or roll back to a snapshot that does not need them (floe history)"
        yield Finding(ERROR, about, f"{len(missing):,} of {count} are missing: {_first_paths(missing)}", advice)
    if wrong:
        advice = "they were changed or truncated after they were written: restore them"
        yield Finding(
            ERROR, about, f"{len(wrong):,} of {count} differ from the metadata: {_first_paths(wrong)}", advice
        )
    if not missing and not wrong:
        sampled = "" if len(sample) == total else "; --full checks all of them"
        yield Finding(OK, about, f"{count} checked, all exist with their recorded sizes{sampled}")


_MISSING: Final = "missing"


def _problem(storage: Storage, path: str, size: int) -> str:
    try:
        actual = storage.stat(path).size
    except NoSuchFile:
        return _MISSING
    except FloeError as error:
        return error.message
    return "" if actual == size else f"{actual:,} bytes, recorded are {size:,}"


def _check_orphans(table: Table, files: pa.Table | None) -> Iterator[Finding]:
    """Look for files in the table's folder that nothing refers to.

    Files of the last hour are ignored, because they may belong to a commit in progress.
    """
    metadata = table.metadata
    referenced = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    referenced |= {snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.manifest_list is not None}
    referenced |= {file.statistics_path for file in metadata.statistics}
    referenced |= {file.statistics_path for file in metadata.partition_statistics}
    try:
        referenced |= set(table.inspect.all_manifests(columns=["path"])["path"].to_pylist())
        folders = [join(table.location, "metadata")]
        if files is not None:
            referenced |= set(files["file_path"].to_pylist())
            folders.append(join(table.location, "data"))
        referenced_paths = {canonical(path) for path in referenced}
        recent_ms = table.environment.clock.now_ms() - _HOUR_MS
        orphans = [
            info
            for folder in folders
            for info in table.storage.list(folder)
            if canonical(info.location) not in referenced_paths
            and info.modified_ms < recent_ms
            and not _is_bookkeeping(info)
        ]
    except FloeError as error:
        yield Finding(WARNING, "orphans", f"cannot be listed: {error.message}{_context(error)}", error.hint)
        return
    if orphans:
        size = size_text(sum(info.size for info in orphans))
        paths = _first_paths([info.location for info in orphans])
        text = f"{many(len(orphans), 'file')} that nothing refers to, {size}: {paths}"
        yield Finding(NOTE, "orphans", text, "left by failed writers; delete them while no writer is active")
    elif files is not None:
        yield Finding(OK, "orphans", "none")


def _is_bookkeeping(info: FileInfo) -> bool:
    """Whether a file belongs to a catalog: a version hint, or a metadata file of a file-system table."""
    name = info.location.rpartition("/")[2]
    return name.startswith((".", "version-hint")) or (name.startswith("v") and ".metadata.json" in name)


def _check_manifest_count(manifests: pa.Table) -> Iterator[Finding]:
    count, size = manifests.num_rows, pc.sum(manifests["length"]).as_py() or 0
    if count > _MANY_MANIFESTS and size < count * _SMALL_MANIFEST_BYTES:
        text = f"{count:,} of {size_text(size // count)} each; planning reads all of them"
        yield Finding(WARNING, "manifests", text, "t.rewrite_manifests()")


def _check_small_files(table: Table, files: pa.Table) -> Iterator[Finding]:
    target = TARGET_FILE_SIZE.read(table.properties)
    data = files.filter(pc.equal(files["content"], 0))
    small = data.filter(pc.less(data["file_size_in_bytes"], target // 8))
    if not small.num_rows:
        return
    values = small["partition"].to_pylist() if "partition" in small.column_names else [None] * small.num_rows
    partitions = {(spec, str(value)) for spec, value in zip(small["spec_id"].to_pylist(), values, strict=True)}
    if small.num_rows - len(partitions) >= _MANY_SMALL_FILES:
        text = (
            f"{small.num_rows:,} of {data.num_rows:,} data files are small ({size_text(target // 8)} or less), "
            f"in {many(len(partitions), 'partition')}"
        )
        yield Finding(WARNING, "small files", text, "write more rows at a time, or rewrite them into larger files")


def _check_deletes(files: pa.Table) -> Iterator[Finding]:
    rows = files.group_by("content").aggregate([("record_count", "sum"), ("record_count", "count")])
    counts = {row["content"]: (row["record_count_sum"], row["record_count_count"]) for row in rows.to_pylist()}
    data_rows, data_files = counts.get(0, (0, 0))
    position_deletes, position_files = counts.get(1, (0, 0))
    equality_deletes, equality_files = counts.get(2, (0, 0))
    advice = "rewrite the data files that they apply to, for example by overwriting the rows"
    if position_files and position_deletes > _MANY_DELETES_RATIO * data_rows:
        text = f"{position_deletes:,} of {data_rows:,} rows are deleted by {many(position_files, 'delete file')}"
        yield Finding(WARNING, "deletes", text, advice)
    if equality_files:
        count = f"{many(equality_files, 'equality delete file')} with {many(equality_deletes, 'row')}"
        yield Finding(
            WARNING if equality_files > data_files * _MANY_DELETES_RATIO else NOTE,
            "deletes",
            f"{count}: every read applies them",
            advice,
        )


def _check_bounds(files: pa.Table) -> Iterator[Finding]:
    data = files.filter(pc.and_(pc.equal(files["content"], 0), pc.greater(files["record_count"], 0)))
    if not data.num_rows:
        return
    missing = sum(_empty_maps(chunk) for chunk in data["lower_bounds"].chunks)
    if missing:
        text = f"{missing:,} of {data.num_rows:,} data files have no column bounds, so filters cannot skip them"
        yield Finding(NOTE, "statistics", text, "rewrite them with write.metadata.metrics.default = truncate(16)")


def _empty_maps(column: pa.MapArray) -> int:
    """The number of maps that are empty or null."""
    lengths = np.diff(np.asarray(column.offsets))
    return int(np.count_nonzero((lengths == 0) | np.asarray(column.is_null())))


def _size_of(storage: Storage, location: str) -> int | None:
    try:
        return storage.stat(location).size
    except FloeError:
        return None


def _first_paths(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_PATHS]) + (f" and {len(names) - _MAX_PATHS:,} more" if len(names) > _MAX_PATHS else "")


def _context(error: FloeError) -> str:
    return "".join(f" ({key}: {value})" for key, value in error.context.items())
