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
from typing import Any, Final

import pyspark

import floe
from floe.commit.change import BLIND, Reads
from floe.commit.conflicts.concurrent_commits import branch_head
from floe.commit.operations.snapshot_summary import follow_properties
from floe.errors import InvalidInput
from floe.spark import settings
from floe.spark.bridge.jvm import Jvm
from floe.spark.settings import check_write_options, first_set, session_settings
from floe.spec import properties
from floe.spec.metadata.snapshots import APP_ID, ENGINE_NAME, ENGINE_VERSION, ICEBERG_VERSION, MAIN_BRANCH, SPARK_APP_ID
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.setting_types import Setting

_OVERRIDES: Final[Mapping[str, Setting[Any]]] = {
    settings.TARGET_FILE_SIZE.name: properties.TARGET_FILE_SIZE,
    settings.TARGET_DELETE_FILE_SIZE.name: properties.DELETE_TARGET_FILE_SIZE,
    settings.WRITE_FORMAT.name: properties.FILE_FORMAT,
    settings.DELETE_FORMAT.name: properties.DELETE_FILE_FORMAT,
    settings.DELETE_GRANULARITY.name: properties.DELETE_GRANULARITY,
}
"""Write options and the table properties that they override."""

_BLOCKS: Final = "floe.commit.properties"
"""The property of a thread in the JVM that holds what blocks of `floe.commit_properties` say."""

_SWITCHES: Final = (
    properties.FANOUT,
    properties.ACCEPT_ANY_SCHEMA,
    properties.OBJECT_STORAGE,
    properties.PARTITIONED_PATHS,
    properties.WAP_ENABLED,
)
"""Boolean properties that change what a write does; a text that is neither true nor false is an error here."""


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
    for switch in _SWITCHES:
        if not switch.values.accepts(metadata.properties.get(switch.name, "false")):
            switch.reject(metadata.properties[switch.name])
    check_write_options(given)
    session = {} if jvm is None else session_settings(jvm)
    overrides = {setting.name: given[name] for name, setting in _OVERRIDES.items() if name in given}
    file_format = {**metadata.properties, **overrides}.get(properties.FILE_FORMAT.name, properties.FILE_FORMAT.default)
    for name, option in settings.COMPRESSION.items():
        text = given.get(option.name, session.get(settings.SESSION_COMPRESSION[name].name))
        if text is not None:
            overrides[properties.format_property(file_format, name)] = text
    branch, wap_id = _destination(jvm, given, metadata, named_branch)
    return WriteOptions(
        branch,
        wap_id,
        first_set(
            (settings.DISTRIBUTION_MODE, given),
            (settings.SESSION_DISTRIBUTION_MODE, session),
            (properties.DISTRIBUTION_MODE, metadata.properties),
            default=None,
        ),
        settings.ISOLATION_LEVEL.read(given),
        _rests_on(given, metadata, branch),
        engine_summary(jvm)
        | _of_blocks(jvm)
        | settings.SESSION_SNAPSHOT_PROPERTY.members(session)
        | settings.SNAPSHOT_PROPERTY.members(given),
        overrides,
        any_columns=properties.ACCEPT_ANY_SCHEMA.read(metadata.properties),
        merge_schema=first_set(
            (settings.MERGE_SCHEMA_SPARK, given),
            (settings.MERGE_SCHEMA, given),
            (settings.SESSION_MERGE_SCHEMA, session),
            default=False,
        ),
        check_nullability=first_set(
            (settings.CHECK_NULLABILITY, given), (settings.SESSION_CHECK_NULLABILITY, session), default=True
        ),
        check_ordering=first_set(
            (settings.CHECK_ORDERING, given), (settings.SESSION_CHECK_ORDERING, session), default=False
        ),
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
    return engine_summary(jvm) | _of_blocks(jvm) | settings.SESSION_SNAPSHOT_PROPERTY.members(session_settings(jvm))


def carry_commit_properties(jvm: Jvm) -> None:
    """Have blocks of `floe.commit_properties` reach what SQL commits: that is done in threads of the JVM."""
    follow_properties("spark", lambda said: jvm.set_thread_property(_BLOCKS, json.dumps(dict(said)) if said else None))


def _of_blocks(jvm: Jvm | None) -> dict[str, str]:
    said = None if jvm is None else jvm.context.getLocalProperty(_BLOCKS)
    return {} if said is None else dict(json.loads(said))


def _rests_on(given: Mapping[str, str], metadata: TableMetadata, branch: str | None) -> Reads:
    """The state that an overwrite is validated from: a snapshot that is named, or the branch's head of now."""
    named = given.get(settings.VALIDATE_FROM.name)
    if named is None and not settings.ISOLATION_LEVEL.is_set(given):
        return BLIND
    found = branch_head(metadata, branch or MAIN_BRANCH)
    if named is not None:
        known = {str(snapshot_id): snapshot_id for snapshot_id in metadata.snapshots_by_id}
        if named not in known:
            raise InvalidInput(
                f"{settings.VALIDATE_FROM} is {named!r:.80}, and the table has no such snapshot",
                hint="give the snapshot that was current before the table was read; it may have expired",
            )
        found = known[named]
    return Reads(found, schema_id=metadata.current_schema_id)


def _destination(
    jvm: Jvm | None, given: Mapping[str, str], metadata: TableMetadata, named: str | None
) -> tuple[str | None, str | None]:
    """The branch to write to, or the id under which the write is staged (write, audit, publish)."""
    asked = settings.WRITE_BRANCH.read(given)
    if asked is not None and named is not None and asked != named:
        raise InvalidInput(f"the name says branch {named!r}, and the option says branch {asked!r}")
    branch = named or asked
    if jvm is None or not properties.WAP_ENABLED.read(metadata.properties):
        return branch, None
    wap_id, wap_branch = jvm.setting(settings.WAP_ID.name, ""), jvm.setting(settings.WAP_BRANCH.name, "")
    if wap_id and wap_branch:
        raise InvalidInput(f"{settings.WAP_ID} and {settings.WAP_BRANCH} are both set", hint="unset one of them")
    if branch is not None:
        if wap_branch and wap_branch != branch:
            raise InvalidInput(f"the write is for branch {branch!r}, and {settings.WAP_BRANCH} is {wap_branch!r}")
        return branch, None
    return wap_branch or None, wap_id or None
