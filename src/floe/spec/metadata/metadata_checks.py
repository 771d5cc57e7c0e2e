"""The rules between the parts of table metadata: what readers require, and what writers require.

Readers require what Java's reader requires, and also a valid UUID, and that the default partition spec and sort order
exist. Writers also require what the spec demands of writers but readers can do without: a table whose next field id is
used already can be read, but must not be written to.

>>> from dataclasses import replace
>>> from floe.spec.metadata.table_metadata_json import parse
>>> metadata = parse(
...     b'''{"format-version": 1, "location": "s3://bucket/t", "last-updated-ms": 1515100955770, "last-column-id": 1,
...     "schema": {"type": "struct", "fields": [{"id": 1, "name": "x", "required": true, "type": "long"}]},
...     "partition-spec": []}'''
... )
>>> check_for_writing(metadata)
>>> ids_would_clash = replace(metadata, last_column_id=0)
>>> list(reading_problems(ids_would_clash)), [problem.path for problem in writing_problems(ids_would_clash)]
([], ['$.last-column-id'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from floe.errors import InvalidInput, InvalidMetadata
from floe.spec.json_reader import step
from floe.spec.metadata.snapshots import MAIN_BRANCH, OPERATIONS
from floe.spec.metadata.table_metadata import LATEST_FORMAT_VERSION, TableMetadata, is_uuid
from floe.spec.partitioning.partition_spec import check_name_conflicts, check_spec
from floe.spec.sort_order import check_order

Problems = Iterator[InvalidMetadata]

CLOCK_SKEW_MS: Final = 60_000
"""How much earlier than its predecessor a log entry may be, because clocks of writers differ; the same as in Java."""


def check_for_reading(metadata: TableMetadata) -> None:
    """Raise the first problem that prevents reading a table.

    >>> from dataclasses import replace
    >>> from floe.spec.metadata.table_metadata_json import parse
    >>> metadata = parse(
    ...     b'''{"format-version": 1, "location": "s3://bucket/t", "last-updated-ms": 1515100955770,
    ...     "last-column-id": 0, "partition-spec": [], "schema": {"type": "struct", "fields": []}}'''
    ... )
    >>> check_for_reading(replace(metadata, current_schema_id=7))
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $.current-schema-id: there is no schema with id 7; ...
    """
    for problem in reading_problems(metadata):
        raise problem


def check_for_writing(metadata: TableMetadata) -> None:
    """Raise the first problem that prevents reading a table or writing to it."""
    for problem in writing_problems(metadata):
        raise problem


def reading_problems(metadata: TableMetadata) -> Problems:
    """Yield all problems that prevent reading a table."""
    for rule in _READING_RULES:
        yield from rule(metadata)


def writing_problems(metadata: TableMetadata) -> Problems:
    """Yield all problems that prevent reading a table or writing to it; those of reading come first."""
    for rule in (*_READING_RULES, *_WRITING_RULES):
        yield from rule(metadata)


def all_problems(metadata: TableMetadata) -> Problems:
    """Yield all problems of a table's metadata, including those of summaries, which readers do not decode."""
    yield from writing_problems(metadata)
    yield from _summaries_are_valid(metadata)


def _problem(path: str, message: str, hint: str | None = None) -> InvalidMetadata:
    return InvalidMetadata(message, path=path, hint=hint)


# Rules for reading -----------------------------------------------------------------------------------------------


def _version_is_known(metadata: TableMetadata) -> Problems:
    if not 1 <= metadata.format_version <= LATEST_FORMAT_VERSION:
        yield _problem(".format-version", f"there is no format version {metadata.format_version}")


def _uuid_is_valid(metadata: TableMetadata) -> Problems:
    if metadata.table_uuid is None:
        if metadata.format_version > 1:
            yield _problem(".table-uuid", f"is missing; format version {metadata.format_version} needs it")
    elif not is_uuid(metadata.table_uuid):
        yield _problem(".table-uuid", f"{metadata.table_uuid[:80]!r} is not a uuid")


def _location_is_not_empty(metadata: TableMetadata) -> Problems:
    if not metadata.location:
        yield _problem(".location", "is empty")


def _ids_are_unique(metadata: TableMetadata) -> Problems:
    for key, kind, ids in (
        (".schemas", "schemas", [schema.schema_id for schema in metadata.schemas]),
        (".partition-specs", "partition specs", [spec.spec_id for spec in metadata.partition_specs]),
        (".sort-orders", "sort orders", [order.order_id for order in metadata.sort_orders]),
        (".snapshots", "snapshots", [snapshot.snapshot_id for snapshot in metadata.snapshots]),
    ):
        yield from _duplicates(key, kind, ids)


def _duplicates(key: str, kind: str, ids: Sequence[Any]) -> Problems:
    if len(set(ids)) == len(ids):
        return
    first: dict[Any, int] = {}
    for n, id_ in enumerate(ids):
        if first.setdefault(id_, n) != n:
            yield _problem(f"{key}[{n}]", f"two {kind} have the id {id_}: numbers {first[id_]} and {n} of the list")


def _current_ids_exist(metadata: TableMetadata) -> Problems:
    for key, kind, current_id, by_id in (
        (".current-schema-id", "schema", metadata.current_schema_id, metadata.schemas_by_id),
        (".default-spec-id", "partition spec", metadata.default_spec_id, metadata.specs_by_id),
        (".default-sort-order-id", "sort order", metadata.default_sort_order_id, metadata.sort_orders_by_id),
    ):
        if current_id not in by_id:
            ids = ", ".join(map(str, list(by_id)[:12])) or "none"
            yield _problem(key, f"there is no {kind} with id {current_id}", f"the table has {ids}")


def _current_snapshot_exists(metadata: TableMetadata) -> Problems:
    current = metadata.current_snapshot_id
    if current is not None and current not in metadata.snapshots_by_id:
        yield _problem(".current-snapshot-id", f"there is no snapshot {current}")


def _refs_are_valid(metadata: TableMetadata) -> Problems:
    for name, ref in metadata.refs.items():
        path = f".refs{step(name)}"
        if ref.snapshot_id not in metadata.snapshots_by_id:
            yield _problem(f"{path}.snapshot-id", f"there is no snapshot {ref.snapshot_id}")
        for key, value, branch_only in (
            ("min-snapshots-to-keep", ref.min_snapshots_to_keep, True),
            ("max-snapshot-age-ms", ref.max_snapshot_age_ms, True),
            ("max-ref-age-ms", ref.max_ref_age_ms, False),
        ):
            if value is not None and branch_only and not ref.is_branch:
                yield _problem(f"{path}.{key}", "is only for branches, and this is a tag")
            elif value is not None and value <= 0:
                yield _problem(f"{path}.{key}", f"must be positive, found {value}")


def _main_is_current(metadata: TableMetadata) -> Problems:
    main = metadata.refs.get(MAIN_BRANCH)
    current = metadata.current_snapshot_id
    if main is not None and main.snapshot_id != current:
        actual = "there is no current snapshot" if current is None else f"the current snapshot is {current}"
        yield _problem(".refs.main.snapshot-id", f"main is at snapshot {main.snapshot_id}, while {actual}")


def _sequence_numbers_are_in_range(metadata: TableMetadata) -> Problems:
    last = metadata.last_sequence_number
    if metadata.format_version == 1 and last != 0:
        yield _problem(".last-sequence-number", f"must be 0 in format version 1, found {last}")
    for n, snapshot in enumerate(metadata.snapshots):
        if snapshot.sequence_number > last:
            yield _problem(
                f".snapshots[{n}].sequence-number",
                f"{snapshot.sequence_number} is above the table's last sequence number {last}",
            )


def _snapshots_have_manifests(metadata: TableMetadata) -> Problems:
    for n, snapshot in enumerate(metadata.snapshots):
        if snapshot.manifest_list is None and snapshot.manifests is None:
            yield _problem(f".snapshots[{n}].manifest-list", "is missing, and there are no manifests either")


def _row_ids_are_complete(metadata: TableMetadata) -> Problems:
    if metadata.format_version >= 3 and metadata.next_row_id is None:
        yield _problem(".next-row-id", f"is missing; format version {metadata.format_version} needs it")
    for n, snapshot in enumerate(metadata.snapshots):
        first, added = snapshot.first_row_id, snapshot.added_rows
        if first is not None and first < 0:
            yield _problem(f".snapshots[{n}].first-row-id", f"must not be negative, found {first}")
        if added is not None and added < 0:
            yield _problem(f".snapshots[{n}].added-rows", f"must not be negative, found {added}")
        if first is not None and added is None:
            yield _problem(f".snapshots[{n}].added-rows", "is missing; a snapshot with first-row-id needs it")


def _logs_are_in_order(metadata: TableMetadata) -> Problems:
    for key, timestamps in (
        (".snapshot-log", [entry.timestamp_ms for entry in metadata.snapshot_log]),
        (".metadata-log", [entry.timestamp_ms for entry in metadata.metadata_log]),
    ):
        for n, (earlier, later) in () if timestamps == sorted(timestamps) else enumerate(pairwise(timestamps), start=1):
            if later < earlier - CLOCK_SKEW_MS:
                yield _problem(f"{key}[{n}].timestamp-ms", f"{later} is before the entry above it, {earlier}")
        if timestamps and metadata.last_updated_ms < timestamps[-1] - CLOCK_SKEW_MS:
            yield _problem(
                ".last-updated-ms",
                f"{metadata.last_updated_ms} is before the last entry of {key[1:]}, {timestamps[-1]}",
            )


def _keys_are_base64(metadata: TableMetadata) -> Problems:
    for n, key in enumerate(metadata.encryption_keys):
        try:
            _ = key.key_metadata
        except InvalidMetadata as error:
            yield error.at(f".encryption-keys[{n}]")


_READING_RULES: Final[tuple[Callable[[TableMetadata], Problems], ...]] = (
    _version_is_known,
    _uuid_is_valid,
    _location_is_not_empty,
    _ids_are_unique,
    _current_ids_exist,
    _refs_are_valid,
    _main_is_current,
    _current_snapshot_exists,
    _sequence_numbers_are_in_range,
    _snapshots_have_manifests,
    _row_ids_are_complete,
    _logs_are_in_order,
    _keys_are_base64,
)


# Rules for writing -----------------------------------------------------------------------------------------------


def _last_ids_are_highest(metadata: TableMetadata) -> Problems:
    highest = max((schema.highest_field_id for schema in metadata.schemas), default=0)
    if metadata.last_column_id < highest:
        yield _problem(
            ".last-column-id", f"{metadata.last_column_id} is below the highest field id {highest}: ids would clash"
        )
    highest = max((spec.last_assigned_field_id for spec in metadata.partition_specs), default=0)
    if metadata.last_partition_id < highest:
        yield _problem(
            ".last-partition-id",
            f"{metadata.last_partition_id} is below the highest partition field id {highest}: ids would clash",
        )


def _current_parts_are_valid(metadata: TableMetadata) -> Problems:
    version = metadata.format_version
    checks: tuple[tuple[str, Callable[[], None]], ...] = (
        (".schemas", lambda: metadata.schema.check_for_table(version)),
        (".partition-specs", lambda: check_spec(metadata.spec, metadata.schema, version)),
        (".sort-orders", lambda: check_order(metadata.sort_order, metadata.schema, version)),
    )
    for path, check in checks:
        try:
            check()
        except InvalidInput as error:
            yield _problem(path, error.message, error.hint)


def _old_specs_leave_names_free(metadata: TableMetadata) -> Problems:
    """Java cannot read a table in which a column has the name of a partition field of another column, in any spec."""
    for n, spec in enumerate(metadata.partition_specs):
        if spec.spec_id == metadata.default_spec_id:
            continue  # checked by _current_parts_are_valid
        try:
            check_name_conflicts(spec, metadata.schema)
        except InvalidInput as error:
            yield _problem(f".partition-specs[{n}]", error.message, error.hint)


def _main_is_a_branch(metadata: TableMetadata) -> Problems:
    main = metadata.refs.get(MAIN_BRANCH)
    if main is not None and not main.is_branch:
        yield _problem(".refs.main.type", "main must be a branch, found a tag")
    if main is None and metadata.current_snapshot_id is not None:
        yield _problem(".refs", f"has no main, while the current snapshot is {metadata.current_snapshot_id}")


def _sequence_numbers_grow(metadata: TableMetadata) -> Problems:
    for n, snapshot in enumerate(metadata.snapshots):
        parent_id = snapshot.parent_snapshot_id
        parent = None if parent_id is None else metadata.snapshots_by_id.get(parent_id)
        if parent is not None and 0 < snapshot.sequence_number <= parent.sequence_number:
            yield _problem(
                f".snapshots[{n}].sequence-number",
                f"{snapshot.sequence_number} is not above its parent's {parent.sequence_number}",
            )


def _row_ids_are_free(metadata: TableMetadata) -> Problems:
    next_row_id = metadata.next_row_id
    if next_row_id is None:
        return
    if next_row_id < 0:
        yield _problem(".next-row-id", f"must not be negative, found {next_row_id}")
    for n, snapshot in enumerate(metadata.snapshots):
        end = (snapshot.first_row_id or 0) + (snapshot.added_rows or 0)
        if end > next_row_id:
            yield _problem(".next-row-id", f"{next_row_id} is below the row ids of .snapshots[{n}], which end at {end}")


def _schemas_of_snapshots_exist(metadata: TableMetadata) -> Problems:
    for n, snapshot in enumerate(metadata.snapshots):
        if snapshot.schema_id is not None and snapshot.schema_id not in metadata.schemas_by_id:
            yield _problem(f".snapshots[{n}].schema-id", f"there is no schema with id {snapshot.schema_id}")


def _one_statistics_file_each(metadata: TableMetadata) -> Problems:
    for key, kind, files in (
        (".statistics", "statistics files", metadata.statistics),
        (".partition-statistics", "partition statistics files", metadata.partition_statistics),
    ):
        yield from _duplicates(key, f"{kind} of one snapshot", [file.snapshot_id for file in files])


def _key_ids_are_unique(metadata: TableMetadata) -> Problems:
    yield from _duplicates(".encryption-keys", "encryption keys", [key.key_id for key in metadata.encryption_keys])


_WRITING_RULES: Final[tuple[Callable[[TableMetadata], Problems], ...]] = (
    _last_ids_are_highest,
    _current_parts_are_valid,
    _old_specs_leave_names_free,
    _main_is_a_branch,
    _sequence_numbers_grow,
    _row_ids_are_free,
    _schemas_of_snapshots_exist,
    _one_statistics_file_each,
    _key_ids_are_unique,
)


# Rules for summaries ---------------------------------------------------------------------------------------------


def _summaries_are_valid(metadata: TableMetadata) -> Problems:
    for n, snapshot in enumerate(metadata.snapshots):
        try:
            summary = snapshot.summary
        except InvalidMetadata as error:
            yield error.at(f".snapshots[{n}]")
            continue
        if summary is not None and snapshot.operation not in OPERATIONS:
            yield _problem(
                f".snapshots[{n}].summary.operation",
                f"must be one of {', '.join(OPERATIONS)}, found {str(snapshot.operation)[:80]!r}",
            )
