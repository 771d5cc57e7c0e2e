"""How a table is doing: is everything there that its metadata names, and what makes it slow or large.

Nothing is changed. By default a sample of the files of the current snapshot is looked for; `full` looks for all files
of all snapshots, and for files in the table's folder that nothing refers to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.cli.work.findings import ERROR, NOTE, OK, WARNING, Finding
from floe.errors import FloeError, NoSuchFile
from floe.show.times import ago, local_text
from floe.spec.metadata.checks import all_problems
from floe.spec.metadata.properties import integer_property
from floe.spec.metadata.retention import plan_expiry
from floe.storage.concurrency import map_concurrently
from floe.storage.locations import canonical, join
from floe.storage.protocol import FileInfo, Storage
from floe.table.amounts import many, size_text
from floe.table.table import Table

__all__ = ["check_table"]

_SAMPLE: Final = 200
_AT_ONCE: Final = 16
_SHOWN: Final = 3
_TARGET_BYTES: Final = 512 * 2**20
_MANY_SMALL: Final = 20
_MANY_MANIFESTS: Final = 100
_SMALL_MANIFEST: Final = 2 * 2**20
_MANY_DELETES: Final = 0.1
_LARGE_METADATA: Final = 8 * 2**20
_MANY_SNAPSHOTS: Final = 1000
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000


def check_table(table: Table, *, full: bool = False) -> Iterator[Finding]:
    """Everything that is to be said about a table."""
    yield from _metadata(table)
    yield from _history(table)
    if table.current_snapshot is None and not full:
        return
    try:
        manifests = table.inspect.all_manifests() if full else table.inspect.manifests()
        files = (table.inspect.all_files if full else table.inspect.files)(columns=_columns(table))
    except FloeError as error:
        yield Finding(ERROR, "manifests", error.message + _context(error), error.hint)
        return
    yield from _present(table.storage, "manifests", manifests["path"], manifests["length"], full=True)
    yield from _present(table.storage, "files", files["file_path"], files["file_size_in_bytes"], full=full)
    if not full:
        yield from _manifest_count(manifests)
        yield from _small_files(table, files)
        yield from _deletes(files)
        yield from _bounds(files)
    yield from _orphans(table, files if full else None)


def _columns(table: Table) -> list[str]:
    """What is looked at of each file; a table that never was partitioned has no column for partitions."""
    named = ["content", "file_path", "spec_id", "record_count", "file_size_in_bytes", "lower_bounds"]
    return [*named, "partition"] if any(spec.fields for spec in table.metadata.partition_specs) else named


def _metadata(table: Table) -> Iterator[Finding]:
    metadata = table.metadata
    size = _size_of(table.storage, table.metadata_location)
    text = f"{table.metadata_location}, format version {metadata.format_version}"
    yield Finding(OK, "metadata", text + ("" if size is None else f", {size_text(size)}"))
    for problem in all_problems(metadata):
        yield Finding(ERROR, "metadata", f"{problem.path}: {problem.message}", problem.hint)
    if size is not None and size > _LARGE_METADATA:
        advice = "expire old snapshots: every commit writes all of it anew"
        yield Finding(WARNING, "metadata", f"the metadata file has {size_text(size)}", advice)
    if metadata.format_version == 1:
        advice = "t.upgrade(2), once all who write it can"
        yield Finding(NOTE, "format version", "version 1 has no row-level deletes", advice)
    ahead = metadata.last_updated_ms - table.environment.clock.now_ms()
    if ahead > _MINUTE_MS:
        text = f"the last change was made at {local_text(metadata.last_updated_ms)}, which is still to come"
        yield Finding(WARNING, "clock", text, "compare the clocks of those who write the table")


def _history(table: Table) -> Iterator[Finding]:
    metadata, now_ms = table.metadata, table.environment.clock.now_ms()
    if not metadata.snapshots:
        yield Finding(OK, "snapshots", "none yet")
        return
    oldest = min(snapshot.timestamp_ms for snapshot in metadata.snapshots)
    about = f"{len(metadata.snapshots):,}, the oldest made {ago(oldest, now_ms=now_ms)}"
    try:
        expired = plan_expiry(metadata, now_ms=now_ms).snapshots
    except FloeError as error:
        yield Finding(NOTE, "snapshots", f"{about}; {error.message}", error.hint)
        return
    if len(metadata.snapshots) >= _MANY_SNAPSHOTS:
        text = f"{about}; every commit writes, and every reader reads, what the metadata says of each"
        go = f"{len(expired):,} may expire" if expired else "none may expire yet"
        advice = (
            f"expire more of them: {go} by the table's history.expire properties; t.expire(older_than=…) goes further"
        )
        yield Finding(WARNING, "snapshots", text, advice)
    elif expired:
        advice = "t.expire().plan() shows what would go, t.expire().apply() does it"
        yield Finding(NOTE, "snapshots", f"{about}; {len(expired):,} may expire", advice)
    else:
        yield Finding(OK, "snapshots", about)


# what is there --------------------------------------------------------------------------------------------------------


def _present(
    storage: Storage, what: str, paths: pa.ChunkedArray, sizes: pa.ChunkedArray, *, full: bool
) -> Iterator[Finding]:
    """Whether files are there, and as large as they should be."""
    named = pa.table({"path": paths, "size": sizes}).group_by("path").aggregate([("size", "max")])
    total = named.num_rows
    if not full and total > _SAMPLE:
        step = total / _SAMPLE
        named = named.take([int(n * step) for n in range(_SAMPLE)])
    listed = list(zip(named["path"].to_pylist(), named["size_max"].to_pylist(), strict=True))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(map_concurrently(lambda item: _look(storage, *item), listed, limit=_AT_ONCE, executor=pool))
    lost = [path for (path, _), problem in zip(listed, found, strict=True) if problem == _LOST]
    wrong = [
        f"{path} ({problem})" for (path, _), problem in zip(listed, found, strict=True) if problem not in ("", _LOST)
    ]
    looked = f"{len(listed):,} of {total:,}" if len(listed) < total else f"{total:,}"
    if lost:
        advice = "restore them, or roll back to a snapshot that does not need them (floe history)"
        yield Finding(ERROR, what, f"{len(lost):,} of {looked} are not there: {_some(lost)}", advice)
    if wrong:
        advice = "they were changed or cut after they were written: restore them"
        yield Finding(ERROR, what, f"{len(wrong):,} of {looked} are not as recorded: {_some(wrong)}", advice)
    if not lost and not wrong:
        sampled = "" if len(listed) == total else "; --full looks for all of them"
        yield Finding(OK, what, f"{looked} looked for, all there with their sizes{sampled}")


_LOST: Final = "lost"


def _look(storage: Storage, path: str, size: int) -> str:
    try:
        found = storage.stat(path).size
    except NoSuchFile:
        return _LOST
    except FloeError as error:
        return error.message
    return "" if found == size else f"{found:,} bytes, recorded are {size:,}"


def _orphans(table: Table, files: pa.Table | None) -> Iterator[Finding]:
    """Files in the table's folder that nothing refers to; young ones may belong to a commit that is being made."""
    metadata = table.metadata
    known = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    known |= {snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.manifest_list is not None}
    known |= {file.statistics_path for file in metadata.statistics}
    known |= {file.statistics_path for file in metadata.partition_statistics}
    try:
        known |= set(table.inspect.all_manifests(columns=["path"])["path"].to_pylist())
        folders = [join(table.location, "metadata")]
        if files is not None:
            known |= set(files["file_path"].to_pylist())
            folders.append(join(table.location, "data"))
        kept = {canonical(path) for path in known}
        young = table.environment.clock.now_ms() - _HOUR_MS
        orphans = [
            info
            for folder in folders
            for info in table.storage.list(folder)
            if canonical(info.location) not in kept and info.modified_ms < young and not _is_bookkeeping(info)
        ]
    except FloeError as error:
        yield Finding(WARNING, "orphans", f"cannot be looked for: {error.message}{_context(error)}", error.hint)
        return
    if orphans:
        size = size_text(sum(info.size for info in orphans))
        text = f"{many(len(orphans), 'file')} that nothing refers to, {size}: {_some([i.location for i in orphans])}"
        yield Finding(NOTE, "orphans", text, "left by writers that failed; delete them when no writer is at work")
    elif files is not None:
        yield Finding(OK, "orphans", "none")


def _is_bookkeeping(info: FileInfo) -> bool:
    """Files that catalogs keep beside the metadata: hints, and the old versions of a file-system table."""
    name = info.location.rpartition("/")[2]
    return name.startswith((".", "version-hint")) or (name.startswith("v") and ".metadata.json" in name)


# what makes it slow ---------------------------------------------------------------------------------------------------


def _manifest_count(manifests: pa.Table) -> Iterator[Finding]:
    count, size = manifests.num_rows, pc.sum(manifests["length"]).as_py() or 0
    if count > _MANY_MANIFESTS and size < count * _SMALL_MANIFEST:
        text = f"{count:,} of {size_text(size // count)} each; planning a read opens them all"
        yield Finding(WARNING, "manifests", text, "t.rewrite_manifests()")


def _small_files(table: Table, files: pa.Table) -> Iterator[Finding]:
    target = integer_property(table.properties, "write.target-file-size-bytes", default=_TARGET_BYTES)
    data = files.filter(pc.equal(files["content"], 0))
    small = data.filter(pc.less(data["file_size_in_bytes"], target // 8))
    if not small.num_rows:
        return
    values = small["partition"].to_pylist() if "partition" in small.column_names else [None] * small.num_rows
    parts = {(spec, str(value)) for spec, value in zip(small["spec_id"].to_pylist(), values, strict=True)}
    to_spare = small.num_rows - len(parts)
    if to_spare >= _MANY_SMALL:
        text = (
            f"{small.num_rows:,} of {data.num_rows:,} data files are small ({size_text(target // 8)} or less), "
            f"in {many(len(parts), 'partition')}"
        )
        yield Finding(WARNING, "small files", text, "write more rows at a time, or rewrite them into larger files")


def _deletes(files: pa.Table) -> Iterator[Finding]:
    rows = files.group_by("content").aggregate([("record_count", "sum"), ("record_count", "count")])
    held = {row["content"]: (row["record_count_sum"], row["record_count_count"]) for row in rows.to_pylist()}
    data_rows, data_files = held.get(0, (0, 0))
    by_position, position_files = held.get(1, (0, 0))
    by_value, value_files = held.get(2, (0, 0))
    advice = "rewrite the data files that they apply to: an overwrite of the rows does it"
    if position_files and by_position > _MANY_DELETES * data_rows:
        text = f"{by_position:,} of {data_rows:,} rows are deleted by {many(position_files, 'delete file')}"
        yield Finding(WARNING, "deletes", text, advice)
    if value_files:
        text = (
            f"{many(value_files, 'equality delete file')} with {many(by_value, 'row')}: every read compares with them"
        )
        yield Finding(WARNING if value_files > data_files * _MANY_DELETES else NOTE, "deletes", text, advice)


def _bounds(files: pa.Table) -> Iterator[Finding]:
    data = files.filter(pc.and_(pc.equal(files["content"], 0), pc.greater(files["record_count"], 0)))
    if not data.num_rows:
        return
    missing = sum(_empty_maps(chunk) for chunk in data["lower_bounds"].chunks)
    if missing:
        text = f"{missing:,} of {data.num_rows:,} data files have no bounds of columns, so filters cannot skip them"
        yield Finding(NOTE, "statistics", text, "write them anew with write.metadata.metrics.default = truncate(16)")


def _empty_maps(column: pa.MapArray) -> int:
    """How many maps have nothing in them, or are null."""
    lengths = np.diff(np.asarray(column.offsets))
    return int(np.count_nonzero((lengths == 0) | np.asarray(column.is_null())))


def _size_of(storage: Storage, location: str) -> int | None:
    try:
        return storage.stat(location).size
    except FloeError:
        return None


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")


def _context(error: FloeError) -> str:
    return "".join(f" ({key}: {value})" for key, value in error.context.items())
