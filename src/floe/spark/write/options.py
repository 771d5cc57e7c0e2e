"""What a write is told beside its rows: by options of the write, by the session, by the table's name and properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from floe.errors import InvalidInput
from floe.spark.bridge.jvm import Jvm
from floe.spec.metadata.properties import boolean_property
from floe.spec.metadata.table_metadata import TableMetadata

__all__ = ["WriteOptions", "write_options"]

_PROPERTIES: Final = {
    "target-file-size-bytes": "write.target-file-size-bytes",
    "target-delete-file-size-bytes": "write.delete.target-file-size-bytes",
    "write-format": "write.format.default",
    "delete-format": "write.delete.format.default",
    "delete-granularity": "write.delete.granularity",
}
_SNAPSHOT_PROPERTY: Final = "snapshot-property."
_SESSION_SNAPSHOT_PROPERTY: Final = "spark.sql.iceberg.snapshot-property."
_MODES: Final = ("none", "hash", "range")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a write is told."""

    branch: str | None = None
    wap_id: str | None = None
    distribution: str | None = None
    isolation: str = "serializable"
    summary: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Write properties that take the place of the table's."""


def write_options(
    jvm: Jvm, given: Mapping[str, str], metadata: TableMetadata, named_branch: str | None
) -> WriteOptions:
    """What options, session and name say together; options come first."""
    overrides = {own: given[name] for name, own in _PROPERTIES.items() if name in given}
    file_format = overrides.get("write.format.default", metadata.properties.get("write.format.default", "parquet"))
    for name in ("compression-codec", "compression-level", "compression-strategy"):
        if name in given:
            overrides[f"write.{file_format}.{name}"] = given[name]
    mode = given.get("distribution-mode") or metadata.properties.get("write.distribution-mode")
    if mode is not None and mode not in _MODES:
        raise InvalidInput(f"a distribution mode is one of {', '.join(_MODES)}, found {mode!r}")
    summary = {
        name.removeprefix(_SNAPSHOT_PROPERTY): value
        for name, value in given.items()
        if name.startswith(_SNAPSHOT_PROPERTY)
    }
    branch, wap_id = _destination(jvm, given, metadata, named_branch)
    return WriteOptions(branch, wap_id, mode, given.get("isolation-level", "serializable"), summary, overrides)


def _destination(
    jvm: Jvm, given: Mapping[str, str], metadata: TableMetadata, named: str | None
) -> tuple[str | None, str | None]:
    """The branch to write to, or the id under which the write is staged (write, audit, publish)."""
    asked = given.get("branch")
    if asked is not None and named is not None and asked != named:
        raise InvalidInput(f"the name says branch {named!r}, and the option says branch {asked!r}")
    branch = named or asked
    if not boolean_property(metadata.properties, "write.wap.enabled", default=False):
        return branch, None
    wap_id, wap_branch = jvm.setting("spark.wap.id", ""), jvm.setting("spark.wap.branch", "")
    if wap_id and wap_branch:
        raise InvalidInput("spark.wap.id and spark.wap.branch are both set", hint="unset one of them")
    if branch is not None:
        if wap_branch and wap_branch != branch:
            raise InvalidInput(f"the write is for branch {branch!r}, and spark.wap.branch is {wap_branch!r}")
        return branch, None
    return wap_branch or None, wap_id or None
