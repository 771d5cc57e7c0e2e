"""The summary of a snapshot: its keys, and the totals that go on from the summary of the branch's head.

A summary says what a commit changed (`added-records`, `deleted-data-files`, …) and what the table then holds
(`total-records`, …). The totals are never counted anew: each is the total of the snapshot before, plus what was added,
minus what was removed (spec: Appendix F, Optional Snapshot Summary Fields).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from floe.errors import InvalidUpdate
from floe.spec.metadata.snapshots import OPERATION

__all__ = [
    "ADDED_DATA_FILES",
    "ADDED_DELETE_FILES",
    "ADDED_DVS",
    "ADDED_EQUALITY_DELETES",
    "ADDED_EQUALITY_DELETE_FILES",
    "ADDED_FILES_SIZE",
    "ADDED_POSITION_DELETES",
    "ADDED_POSITION_DELETE_FILES",
    "ADDED_RECORDS",
    "APP_ID",
    "CHANGED_PARTITION_COUNT",
    "CHANGED_PARTITION_PREFIX",
    "DELETED_DATA_FILES",
    "DELETED_DUPLICATE_FILES",
    "DELETED_RECORDS",
    "ENGINE_NAME",
    "ENGINE_VERSION",
    "ENTRIES_PROCESSED",
    "ICEBERG_VERSION",
    "MANIFESTS_CREATED",
    "MANIFESTS_KEPT",
    "MANIFESTS_REPLACED",
    "PARTITION_SUMMARIES_INCLUDED",
    "PUBLISHED_WAP_ID",
    "REMOVED_DELETE_FILES",
    "REMOVED_DVS",
    "REMOVED_EQUALITY_DELETES",
    "REMOVED_EQUALITY_DELETE_FILES",
    "REMOVED_FILES_SIZE",
    "REMOVED_POSITION_DELETES",
    "REMOVED_POSITION_DELETE_FILES",
    "REPLACE_PARTITIONS",
    "SOURCE_SNAPSHOT_ID",
    "SPARK_APP_ID",
    "TOTALS",
    "TOTAL_DATA_FILES",
    "TOTAL_DELETE_FILES",
    "TOTAL_EQUALITY_DELETES",
    "TOTAL_FILES_SIZE",
    "TOTAL_POSITION_DELETES",
    "TOTAL_RECORDS",
    "WAP_ID",
    "check_replace",
    "with_totals",
]

ADDED_DATA_FILES: Final = "added-data-files"
DELETED_DATA_FILES: Final = "deleted-data-files"
TOTAL_DATA_FILES: Final = "total-data-files"
ADDED_DELETE_FILES: Final = "added-delete-files"
REMOVED_DELETE_FILES: Final = "removed-delete-files"
TOTAL_DELETE_FILES: Final = "total-delete-files"
ADDED_EQUALITY_DELETE_FILES: Final = "added-equality-delete-files"
REMOVED_EQUALITY_DELETE_FILES: Final = "removed-equality-delete-files"
ADDED_POSITION_DELETE_FILES: Final = "added-position-delete-files"
REMOVED_POSITION_DELETE_FILES: Final = "removed-position-delete-files"
ADDED_DVS: Final = "added-dvs"
REMOVED_DVS: Final = "removed-dvs"
ADDED_RECORDS: Final = "added-records"
DELETED_RECORDS: Final = "deleted-records"
TOTAL_RECORDS: Final = "total-records"
ADDED_FILES_SIZE: Final = "added-files-size"
REMOVED_FILES_SIZE: Final = "removed-files-size"
TOTAL_FILES_SIZE: Final = "total-files-size"
ADDED_POSITION_DELETES: Final = "added-position-deletes"
REMOVED_POSITION_DELETES: Final = "removed-position-deletes"
TOTAL_POSITION_DELETES: Final = "total-position-deletes"
ADDED_EQUALITY_DELETES: Final = "added-equality-deletes"
REMOVED_EQUALITY_DELETES: Final = "removed-equality-deletes"
TOTAL_EQUALITY_DELETES: Final = "total-equality-deletes"
DELETED_DUPLICATE_FILES: Final = "deleted-duplicate-files"
CHANGED_PARTITION_COUNT: Final = "changed-partition-count"
MANIFESTS_CREATED: Final = "manifests-created"
MANIFESTS_KEPT: Final = "manifests-kept"
MANIFESTS_REPLACED: Final = "manifests-replaced"
ENTRIES_PROCESSED: Final = "entries-processed"
WAP_ID: Final = "wap.id"
PUBLISHED_WAP_ID: Final = "published-wap-id"
SOURCE_SNAPSHOT_ID: Final = "source-snapshot-id"
ENGINE_NAME: Final = "engine-name"
ENGINE_VERSION: Final = "engine-version"

# Written by other engines though the spec does not list them.
CHANGED_PARTITION_PREFIX: Final = "partitions."
PARTITION_SUMMARIES_INCLUDED: Final = "partition-summaries-included"
REPLACE_PARTITIONS: Final = "replace-partitions"
ICEBERG_VERSION: Final = "iceberg-version"
APP_ID: Final = "app-id"
SPARK_APP_ID: Final = "spark.app.id"

TOTALS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        TOTAL_RECORDS: (ADDED_RECORDS, DELETED_RECORDS),
        TOTAL_FILES_SIZE: (ADDED_FILES_SIZE, REMOVED_FILES_SIZE),
        TOTAL_DATA_FILES: (ADDED_DATA_FILES, DELETED_DATA_FILES),
        TOTAL_DELETE_FILES: (ADDED_DELETE_FILES, REMOVED_DELETE_FILES),
        TOTAL_POSITION_DELETES: (ADDED_POSITION_DELETES, REMOVED_POSITION_DELETES),
        TOTAL_EQUALITY_DELETES: (ADDED_EQUALITY_DELETES, REMOVED_EQUALITY_DELETES),
    }
)
"""Each total, with the key that raises it and the key that lowers it."""

_MAX_LONG = 2**63 - 1


def with_totals(summary: Mapping[str, str], head: Mapping[str, str] | None) -> dict[str, str]:
    """The summary of a new snapshot with its totals.

    `head` is the summary of the snapshot at the head of the branch that is written to: None when the branch has no
    snapshot yet, so that totals start at zero, and empty when that snapshot has no summary, so that nothing is known.
    A total that is not known, or that would fall below zero because a writer before miscounted, is left out rather
    than invented.

    >>> first = with_totals({"operation": "append", "added-records": "10"}, None)
    >>> first["total-records"], first["total-data-files"]
    ('10', '0')
    >>> with_totals({"operation": "delete", "deleted-records": "4"}, first)["total-records"]
    '6'
    """
    out = {key: value for key, value in summary.items() if key not in TOTALS}
    for total, (added, removed) in TOTALS.items():
        before = 0 if head is None else _count(head.get(total))
        raised, lowered = _count(summary.get(added, "0")), _count(summary.get(removed, "0"))
        if before is None or raised is None or lowered is None:
            continue
        if 0 <= before + raised - lowered <= _MAX_LONG:
            out[total] = str(before + raised - lowered)
    return out


def check_replace(summary: Mapping[str, str]) -> None:
    """Raise unless a `replace` keeps the table's rows: it may not add more records than it removes.

    Fewer is right, for a compaction drops rows that delete files had deleted.

    >>> check_replace({"operation": "replace", "added-records": "9", "deleted-records": "10"})
    >>> check_replace({"operation": "replace", "added-records": "11", "deleted-records": "10"})
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: a replace must not add rows, but it adds 11 records and removes 10; ...
    """
    if summary.get(OPERATION) != "replace":
        return
    added, removed = _count(summary.get(ADDED_RECORDS, "0")), _count(summary.get(DELETED_RECORDS, "0"))
    if added is not None and removed is not None and added > removed:
        raise InvalidUpdate(
            f"a replace must not add rows, but it adds {added} records and removes {removed}",
            hint="commit it as an overwrite, or find the rows that were written twice",
        )


def _count(text: str | None) -> int | None:
    """The count that a summary's text holds, or None when it holds none: summaries come from many writers."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 19:
        return None
    return int(text)
