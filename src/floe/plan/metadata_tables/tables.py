"""The metadata tables by name, as Arrow tables.

| table | a row for each | time travel |
|---|---|---|
| `snapshots` | snapshot | |
| `history` | time that another snapshot became current | |
| `refs` | branch and tag | |
| `metadata_log_entries` | metadata file that the log still has | |
| `manifests` | manifest | yes |
| `entries` | entry of a manifest, deleted ones too | yes |
| `files`, `data_files`, `delete_files` | file | yes |
| `partitions` | partition | yes |
| `position_deletes` | row that a position delete file or deletion vector deletes | yes |
| `all_manifests` | manifest of each snapshot | |
| `all_entries` | entry of any manifest of any snapshot | |
| `all_files`, `all_data_files`, `all_delete_files` | file of any manifest of any snapshot; it may come twice | |

Those that need only table metadata (`snapshots`, `history`, `refs` and `metadata_log_entries`) are built here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from floe.errors import InvalidInput
from floe.formats.columns.arrow_types import arrow_schema
from floe.plan.arrow_columns import record_batch
from floe.plan.metadata_tables import schemas
from floe.plan.metadata_tables.entries import entry_table
from floe.plan.metadata_tables.filters import bind_filter, filter_table
from floe.plan.metadata_tables.manifests import all_manifests, manifests
from floe.plan.metadata_tables.partitions import partitions
from floe.plan.metadata_tables.position_deletes import position_deletes
from floe.plan.metadata_tables.schemas import HISTORY, METADATA_LOG_ENTRIES, REFS, SNAPSHOTS, MetadataSource
from floe.spec.expressions.nodes import Expression
from floe.spec.manifests.entries import ManifestContent
from floe.spec.metadata.ancestry import ancestors
from floe.spec.metadata.snapshots import OPERATION, Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.column_projection import project
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage

# Tables that need only table metadata -----------------------------------------------------------------------------

_MICROS_PER_MILLI = 1000


def _table(schema: Schema, columns: Mapping[str, list[Any]]) -> pa.Table:
    target = arrow_schema(schema)
    return pa.Table.from_arrays([pa.array(columns[field.name], field.type) for field in target], schema=target)


def snapshots(metadata: TableMetadata) -> pa.Table:
    """One row for each snapshot; the summary is shown without the operation, which has a column of its own."""
    listed = metadata.snapshots
    summaries = [snapshot.summary for snapshot in listed]
    return _table(
        SNAPSHOTS,
        {
            "committed_at": [snapshot.timestamp_ms * _MICROS_PER_MILLI for snapshot in listed],
            "snapshot_id": [snapshot.snapshot_id for snapshot in listed],
            "parent_id": [snapshot.parent_snapshot_id for snapshot in listed],
            "operation": [snapshot.operation for snapshot in listed],
            "manifest_list": [snapshot.manifest_list for snapshot in listed],
            "summary": [
                None if summary is None else [pair for pair in summary.items() if pair[0] != OPERATION]
                for summary in summaries
            ],
        },
    )


def history(metadata: TableMetadata) -> pa.Table:
    """One row for each time that another snapshot became current, rollbacks included."""
    log, by_id = metadata.snapshot_log, metadata.snapshots_by_id
    current = {snapshot.snapshot_id for snapshot in ancestors(metadata, metadata.current_snapshot_id)}
    return _table(
        HISTORY,
        {
            "made_current_at": [entry.timestamp_ms * _MICROS_PER_MILLI for entry in log],
            "snapshot_id": [entry.snapshot_id for entry in log],
            "parent_id": [
                by_id[entry.snapshot_id].parent_snapshot_id if entry.snapshot_id in by_id else None for entry in log
            ],
            "is_current_ancestor": [entry.snapshot_id in current for entry in log],
        },
    )


def refs(metadata: TableMetadata) -> pa.Table:
    """One row for each branch and tag."""
    listed = metadata.refs.values()
    return _table(
        REFS,
        {
            "name": list(metadata.refs),
            "type": [ref.type.upper() for ref in listed],
            "snapshot_id": [ref.snapshot_id for ref in listed],
            "max_reference_age_in_ms": [ref.max_ref_age_ms for ref in listed],
            "min_snapshots_to_keep": [ref.min_snapshots_to_keep for ref in listed],
            "max_snapshot_age_in_ms": [ref.max_snapshot_age_ms for ref in listed],
        },
    )


def metadata_log_entries(metadata: TableMetadata, metadata_location: str) -> pa.Table:
    """One row for each metadata file in the log and the current one, with the snapshot that was current then."""
    files = [(entry.timestamp_ms, entry.metadata_file) for entry in metadata.metadata_log]
    files.append((metadata.last_updated_ms, metadata_location))
    # Of the snapshot log the last entry that is not later counts. Clocks go wrong, so the log may be out of order; the
    # lowest time from each entry on never falls, and can be searched.
    log = metadata.snapshot_log
    lowest = list(accumulate((entry.timestamp_ms for entry in reversed(log)), min))[::-1]
    indices = [bisect_right(lowest, time) - 1 for time, _ in files]
    ids = [None if index < 0 else log[index].snapshot_id for index in indices]
    latest = [None if snapshot_id is None else metadata.snapshots_by_id.get(snapshot_id) for snapshot_id in ids]
    return _table(
        METADATA_LOG_ENTRIES,
        {
            "timestamp": [time * _MICROS_PER_MILLI for time, _ in files],
            "file": [location for _, location in files],
            "latest_snapshot_id": ids,
            "latest_schema_id": [None if snapshot is None else snapshot.schema_id for snapshot in latest],
            "latest_sequence_number": [None if snapshot is None else snapshot.sequence_number for snapshot in latest],
        },
    )


@dataclass(frozen=True, slots=True)
class _Request:
    """A request for rows of a metadata table: a snapshot, columns of its schema, and a bound filter."""

    sources: MetadataSource
    snapshot: Snapshot | None
    schema: Schema
    columns: Schema
    where: Expression


@dataclass(frozen=True, slots=True)
class _Kind:
    """A metadata table: its columns, and the function that returns its rows."""

    schema: Callable[[TableMetadata], Schema]
    rows: Callable[[_Request], pa.Table]
    travels: bool = False


def _small_table(schema: Schema, build: Callable[[_Request], pa.Table], *, travels: bool = False) -> _Kind:
    """A small table: all its rows and columns are built before the filter and the projection."""

    def rows(request: _Request) -> pa.Table:
        matching = filter_table(request.where, build(request), request.schema)
        return _project(matching, request.columns)

    return _Kind(lambda metadata: schema, rows, travels)


def _project(table: pa.Table, columns: Schema) -> pa.Table:
    """The projected columns of a table, and fields of its structs; without columns it still has its rows."""
    target = arrow_schema(columns)
    if target == table.schema:
        return table
    if not target.names:
        return pa.Table.from_batches([record_batch(columns, [], table.num_rows)])
    return table.select(target.names).cast(target)


def _of_entries(
    schema: Callable[[TableMetadata], Schema],
    *,
    content: ManifestContent | None = None,
    live_only: bool = True,
    all_snapshots: bool = False,
) -> _Kind:
    def rows(request: _Request) -> pa.Table:
        sources = request.sources
        listed = sources.all_manifests() if all_snapshots else sources.manifests(request.snapshot)
        return entry_table(
            sources,
            listed,
            request.schema,
            request.columns,
            request.where,
            content=content,
            live_only=live_only,
        )

    return _Kind(schema, rows, travels=not all_snapshots)


_DATA, _DELETES = ManifestContent.DATA, ManifestContent.DELETES
_KINDS: MappingProxyType[str, _Kind] = MappingProxyType(
    {
        "snapshots": _small_table(schemas.SNAPSHOTS, lambda r: snapshots(r.sources.metadata)),
        "history": _small_table(schemas.HISTORY, lambda r: history(r.sources.metadata)),
        "refs": _small_table(schemas.REFS, lambda r: refs(r.sources.metadata)),
        "metadata_log_entries": _small_table(
            schemas.METADATA_LOG_ENTRIES,
            lambda r: metadata_log_entries(r.sources.metadata, r.sources.metadata_location),
        ),
        "manifests": _small_table(schemas.MANIFESTS, lambda r: manifests(r.sources, r.snapshot), travels=True),
        "entries": _of_entries(schemas.entries_schema, live_only=False),
        "files": _of_entries(schemas.files_schema),
        "data_files": _of_entries(schemas.files_schema, content=_DATA),
        "delete_files": _of_entries(schemas.files_schema, content=_DELETES),
        "partitions": _Kind(
            schemas.partitions_schema,
            lambda r: _project(partitions(r.sources, r.snapshot, r.schema, r.where), r.columns),
            travels=True,
        ),
        "position_deletes": _Kind(
            schemas.position_deletes_schema,
            lambda r: position_deletes(r.sources, r.snapshot, r.schema, r.columns, r.where),
            travels=True,
        ),
        "all_manifests": _small_table(schemas.ALL_MANIFESTS, lambda r: all_manifests(r.sources, r.where)),
        "all_entries": _of_entries(schemas.entries_schema, live_only=False, all_snapshots=True),
        "all_files": _of_entries(schemas.files_schema, all_snapshots=True),
        "all_data_files": _of_entries(schemas.files_schema, content=_DATA, all_snapshots=True),
        "all_delete_files": _of_entries(schemas.files_schema, content=_DELETES, all_snapshots=True),
    }
)

NAMES = tuple(_KINDS)
"""The names of all metadata tables."""

TIME_TRAVEL = tuple(name for name, kind in _KINDS.items() if kind.travels)
"""The names of those that show a snapshot, and so can show an older one."""


def schema_of(name: str, metadata: TableMetadata) -> Schema:
    """The columns of a metadata table, to which filters on it are bound.

    >>> from floe.spec.metadata.table_metadata_json import parse
    >>> metadata = parse(
    ...     b'''{"format-version": 1, "location": "s3://bucket/t", "last-updated-ms": 30, "last-column-id": 0,
    ...     "schema": {"type": "struct", "fields": []}, "partition-spec": []}'''
    ... )
    >>> [field.name for field in schema_of("refs", metadata)][:3]
    ['name', 'type', 'snapshot_id']
    >>> schema_of("filez", metadata)
    Traceback (most recent call last):
    floe.errors.InvalidInput: there is no metadata table 'filez'; there are snapshots, history, refs, ...
    """
    return _kind(name).schema(metadata)


def metadata_table(
    name: str,
    metadata: TableMetadata,
    metadata_location: str,
    storage: Storage,
    *,
    snapshot: Snapshot | int | None = None,
    where: Expression | None = None,
    columns: str | Iterable[str | Sequence[str]] | None = None,
    workers: int | None = None,
) -> pa.Table:
    """The rows of a metadata table as an Arrow table, with field ids in the metadata of its fields.

    `snapshot` is one of the table or its id; by default the current one is shown, and a table without one has no files.
    `where` is a filter on the columns of `schema_of`, bound to it or not. `columns` are names of columns, or of fields
    within structs (`data_file.file_path`, `partition.day`, `readable_metrics.id.lower_bound`); what is not asked for is
    not decoded. They come in the table's order. Files are read by several threads, or by as many as `workers` says.

    >>> from floe.spec.expressions.dsl import col
    >>> from floe.spec.metadata.table_metadata_json import parse
    >>> from floe.storage.memory import MemoryStorage
    >>> metadata = parse(
    ...     b'''{"format-version": 1, "location": "s3://bucket/t", "last-updated-ms": 30, "last-column-id": 0,
    ...     "schema": {"type": "struct", "fields": []}, "partition-spec": [], "current-snapshot-id": 2,
    ...     "snapshots": [{"snapshot-id": 1, "timestamp-ms": 10, "manifests": []},
    ...                   {"snapshot-id": 2, "parent-snapshot-id": 1, "timestamp-ms": 20, "manifests": []}]}'''
    ... )
    >>> later = metadata_table(
    ...     "snapshots",
    ...     metadata,
    ...     "v1.metadata.json",
    ...     MemoryStorage(),
    ...     where=col("snapshot_id") > 1,
    ...     columns=["parent_id"],
    ... )
    >>> later.to_pylist()
    [{'parent_id': 1}]
    """
    kind = _kind(name)
    if snapshot is not None and not kind.travels:
        raise InvalidInput(
            f"the metadata table {name!r} shows all snapshots, so none can be chosen",
            hint=f"time travel is for {', '.join(TIME_TRAVEL)}",
        )
    if snapshot is None:
        snapshot = metadata.current_snapshot if kind.travels else None
    elif not isinstance(snapshot, Snapshot):
        snapshot = metadata.snapshot(snapshot)
    schema = kind.schema(metadata)
    request = _Request(
        MetadataSource(metadata, metadata_location, storage, workers),
        snapshot,
        schema,
        schema if columns is None else _selected(schema, columns),
        bind_filter(where, schema),
    )
    return kind.rows(request)


def _kind(name: str) -> _Kind:
    kind = _KINDS.get(name)
    if kind is None:
        raise InvalidInput(f"there is no metadata table {name!r:.80}", hint=f"there are {', '.join(_KINDS)}")
    return kind


def _selected(schema: Schema, columns: str | Iterable[str | Sequence[str]]) -> Schema:
    names = [columns] if isinstance(columns, str) else list(columns)
    if "*" in names:
        return schema
    return project(schema, {schema.resolve(name).field.id for name in names})
