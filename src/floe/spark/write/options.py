"""What a write is told beside its rows: by options of the write, by the session, by the table's name and properties.

| option | setting of the session | property of the table |
|---|---|---|
| `distribution-mode` | `spark.sql.iceberg.distribution-mode` | `write.distribution-mode` |
| `mergeSchema` or `merge-schema` | `spark.sql.iceberg.merge-schema` | |
| `check-nullability`, `check-ordering` | `spark.sql.iceberg.check-nullability`, `….check-ordering` | |
| `snapshot-property.*` | `spark.sql.iceberg.snapshot-property.*`, and before it `floe.commit_properties` | |
| `isolation-level`, `validate-from-snapshot-id` | | |
| `branch`, `target-file-size-bytes`, `write-format`, `compression-codec`, … | | |

An overwrite that is told an isolation level, or a snapshot to validate from, rests on that snapshot: what others wrote
since among the rows that it replaces is a conflict. Without either it means the table as it is when it is committed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyspark

import floe
from floe.commit.conflicts.window import branch_head
from floe.commit.footprint import BLIND, Reads
from floe.commit.operations.snapshot_summary import follow_properties
from floe.errors import InvalidInput
from floe.spark.bridge.jvm import Jvm
from floe.spark.settings import check_write_options, session_settings
from floe.spec.metadata.refs import MAIN_BRANCH
from floe.spec.metadata.summaries import APP_ID, ENGINE_NAME, ENGINE_VERSION, ICEBERG_VERSION, SPARK_APP_ID
from floe.spec.metadata.table_metadata import TableMetadata

__all__ = ["WriteOptions", "carry_commit_properties", "engine_summary", "snapshot_properties", "write_options"]

_PROPERTIES: Final = {
    "target-file-size-bytes": "write.target-file-size-bytes",
    "target-delete-file-size-bytes": "write.delete.target-file-size-bytes",
    "write-format": "write.format.default",
    "delete-format": "write.delete.format.default",
    "delete-granularity": "write.delete.granularity",
}
_BLOCKS: Final = "floe.commit.properties"
"""The property of a thread in the JVM that holds what blocks of `floe.commit_properties` say."""

_SNAPSHOT_PROPERTY: Final = "snapshot-property."
_MODES: Final = ("none", "hash", "range")
_ISOLATIONS: Final = ("serializable", "snapshot")
_SWITCHES: Final = (
    "write.spark.fanout.enabled",
    "write.spark.accept-any-schema",
    "write.object-storage.enabled",
    "write.object-storage.partitioned-paths",
    "write.wap.enabled",
)
"""Properties that say yes or no, and change what a write does."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a write is told."""

    branch: str | None = None
    wap_id: str | None = None
    distribution: str | None = None
    isolation: str = "serializable"
    rests_on: Reads = BLIND
    """The state that an overwrite was made for."""

    summary: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Write properties that take the place of the table's."""

    any_columns: bool = False
    """Whether the rows come with whatever columns they have."""

    merge_schema: bool = False
    check_nullability: bool = True
    check_ordering: bool = False


def write_options(
    jvm: Jvm | None, given: Mapping[str, str], metadata: TableMetadata, named_branch: str | None
) -> WriteOptions:
    """What options, session, name and table say together; options come first, and then the session.

    Where there is no session to be asked (in a worker), options and table say it all.
    """
    for name in _SWITCHES:
        _switch(metadata.properties, name, default=False)
    check_write_options(given)
    session = {} if jvm is None else session_settings(jvm)
    overrides = {own: given[name] for name, own in _PROPERTIES.items() if name in given}
    file_format = overrides.get("write.format.default", metadata.properties.get("write.format.default", "parquet"))
    for name in ("compression-codec", "compression-level", "compression-strategy"):
        if name in given or name in session:
            overrides[f"write.{file_format}.{name}"] = given.get(name, session.get(name, ""))
    said = {**session, **given}
    mode = said.get("distribution-mode") or metadata.properties.get("write.distribution-mode")
    branch, wap_id = _destination(jvm, given, metadata, named_branch)
    return WriteOptions(
        branch,
        wap_id,
        None if mode is None else _one_of("a distribution mode", mode, _MODES),
        _one_of("an isolation level", given.get("isolation-level", "serializable"), _ISOLATIONS),
        _rests_on(given, metadata, branch),
        engine_summary(jvm) | _of_blocks(jvm) | _summary(session) | _summary(given),
        overrides,
        any_columns=_switch(metadata.properties, "write.spark.accept-any-schema", default=False),
        merge_schema=_switch(said, "mergeschema" if "mergeschema" in said else "merge-schema", default=False),
        check_nullability=_switch(said, "check-nullability", default=True),
        check_ordering=_switch(said, "check-ordering", default=False),
    )


def engine_summary(jvm: Jvm | None) -> dict[str, str]:
    """What summaries tell of the engine, under the names that Java writes: Spark, its version, and the application.

    A data source in a session of others runs where there is no application to be asked.
    """
    written_by = {ENGINE_NAME: "spark", ICEBERG_VERSION: f"Floe {floe.__version__}"}
    if jvm is None:
        return {**written_by, ENGINE_VERSION: pyspark.__version__}
    version, application = jvm.once(("engine",), lambda: (jvm.context.version, jvm.context.applicationId))
    return {**written_by, ENGINE_VERSION: version, APP_ID: application, SPARK_APP_ID: application}


def snapshot_properties(jvm: Jvm) -> dict[str, str]:
    """What summaries tell of a snapshot that no write with options makes, such as that of a procedure."""
    return engine_summary(jvm) | _of_blocks(jvm) | _summary(session_settings(jvm))


def carry_commit_properties(jvm: Jvm) -> None:
    """Have blocks of `floe.commit_properties` reach what SQL commits: that is done in threads of the JVM."""
    follow_properties("spark", lambda said: jvm.tell_thread(_BLOCKS, json.dumps(dict(said)) if said else None))


def _of_blocks(jvm: Jvm | None) -> dict[str, str]:
    said = None if jvm is None else jvm.context.getLocalProperty(_BLOCKS)
    return {} if said is None else dict(json.loads(said))


def _rests_on(given: Mapping[str, str], metadata: TableMetadata, branch: str | None) -> Reads:
    """The state that an overwrite is validated from: a snapshot that is named, or the branch's head of now."""
    named = given.get("validate-from-snapshot-id")
    if named is None and "isolation-level" not in given:
        return BLIND
    found = branch_head(metadata, branch or MAIN_BRANCH)
    if named is not None:
        known = {str(snapshot_id): snapshot_id for snapshot_id in metadata.snapshots_by_id}
        if named not in known:
            raise InvalidInput(
                f"validate-from-snapshot-id is {named!r:.80}, and the table has no such snapshot",
                hint="give the snapshot that was current before the table was read; it may have expired",
            )
        found = known[named]
    return Reads(found, schema_id=metadata.current_schema_id)


def _one_of(what: str, found: str, known: tuple[str, ...]) -> str:
    if found.lower() not in known:
        raise InvalidInput(f"{what} is one of {', '.join(known)}, found {found!r:.80}")
    return found.lower()


def _switch(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Whether something is on; a text that says neither is a mistake that would go unseen."""
    found = given.get(name)
    if found is None:
        return default
    if found.lower() not in ("true", "false"):
        raise InvalidInput(f"{name} is true or false, found {found!r:.80}")
    return found.lower() == "true"


def _summary(given: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(_SNAPSHOT_PROPERTY): value
        for name, value in given.items()
        if name.startswith(_SNAPSHOT_PROPERTY)
    }


def _destination(
    jvm: Jvm | None, given: Mapping[str, str], metadata: TableMetadata, named: str | None
) -> tuple[str | None, str | None]:
    """The branch to write to, or the id under which the write is staged (write, audit, publish)."""
    asked = given.get("branch")
    if asked is not None and named is not None and asked != named:
        raise InvalidInput(f"the name says branch {named!r}, and the option says branch {asked!r}")
    branch = named or asked
    if jvm is None or not _switch(metadata.properties, "write.wap.enabled", default=False):
        return branch, None
    wap_id, wap_branch = jvm.setting("spark.wap.id", ""), jvm.setting("spark.wap.branch", "")
    if wap_id and wap_branch:
        raise InvalidInput("spark.wap.id and spark.wap.branch are both set", hint="unset one of them")
    if branch is not None:
        if wap_branch and wap_branch != branch:
            raise InvalidInput(f"the write is for branch {branch!r}, and spark.wap.branch is {wap_branch!r}")
        return branch, None
    return wap_branch or None, wap_id or None
