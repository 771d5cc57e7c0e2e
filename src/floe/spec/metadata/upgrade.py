"""Raising a table's format version, 1 to 2 to 3 (spec: Appendix E).

Nothing but the metadata file changes: manifests and data files of earlier versions stay valid, and what they lack is
read as the default of the later version. There is no way back, for writers of the later version make files that the
earlier one cannot read.

| to | what the metadata gets |
|---|---|
| 2 | a uuid if it has none; sequence numbers, all 0 so far; a `main` ref where there is a current snapshot |
| 3 | `next-row-id`, which starts at 0; snapshots of before keep having no row ids |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from floe.errors import InvalidInput, InvalidUpdate, UnsupportedFeature
from floe.spec.metadata.refs import MAIN_BRANCH, SnapshotRef
from floe.spec.metadata.table_metadata import LATEST_FORMAT_VERSION, TableMetadata
from floe.spec.metadata.uuids import check_uuid

__all__ = ["check_format_version", "upgrade"]


def upgrade(metadata: TableMetadata, format_version: int, *, new_uuid: str | None = None) -> TableMetadata:
    """The metadata in a later format version, or as it is if it has that version already.

    `new_uuid` is the identity that a v1 table without one gets, for every later version requires one.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.schemas.schema import Schema
    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> table = new_table_metadata(Schema(()), location="s3://b/t", uuid=uuid, now_ms=0, format_version=1)
    >>> upgrade(table, 3).next_row_id
    0
    >>> upgrade(upgrade(table, 3), 2)
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: a table cannot go back from format version 3 to 2
    """
    upgraded = raised(metadata, format_version)
    if upgraded.table_uuid is None and upgraded.format_version > 1:
        if new_uuid is None:
            raise InvalidUpdate(
                f"the table has no uuid, and format version {format_version} requires one", hint="give it a new one"
            )
        check_uuid(new_uuid)
        upgraded = replace(upgraded, table_uuid=new_uuid)
    return upgraded


def raised(metadata: TableMetadata, format_version: int) -> TableMetadata:
    """The metadata with every change that lies between its version and a later one, but for the uuid."""
    check_format_version(format_version)
    if format_version < metadata.format_version:
        raise InvalidUpdate(f"a table cannot go back from format version {metadata.format_version} to {format_version}")
    for version in range(metadata.format_version + 1, format_version + 1):
        metadata = replace(metadata, format_version=version, **_STEPS[version](metadata))
    return metadata


def check_format_version(format_version: int) -> None:
    """Raise unless this version of Floe can write tables of that format version.

    >>> check_format_version(4)
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: format version 4 is not supported; supported are 1 to 3
    """
    if type(format_version) is not int:
        raise InvalidInput(f"a format version is a whole number, found {format_version!r:.80}")
    if not 1 <= format_version <= LATEST_FORMAT_VERSION:
        raise UnsupportedFeature(
            f"format version {format_version} is not supported", hint=f"supported are 1 to {LATEST_FORMAT_VERSION}"
        )


def _to_version_2(metadata: TableMetadata) -> Mapping[str, Any]:
    """Sequence numbers of v1 snapshots are read as 0 (Appendix E), so the next snapshot has number 1."""
    changes: dict[str, Any] = {"last_sequence_number": 0}
    if metadata.current_snapshot_id is not None and MAIN_BRANCH not in metadata.refs:
        main = SnapshotRef(snapshot_id=metadata.current_snapshot_id, type="branch")
        changes["refs"] = {MAIN_BRANCH: main, **metadata.refs}
    return changes


def _to_version_3(metadata: TableMetadata) -> Mapping[str, Any]:
    """Spec, Row Lineage for Upgraded Tables: the first snapshot after the upgrade gives ids to all rows."""
    return {"next_row_id": 0}


_STEPS: dict[int, Callable[[TableMetadata], Mapping[str, Any]]] = {2: _to_version_2, 3: _to_version_3}
