"""The options of a write: from its own options, the session's settings, the table's name and its properties.

| option | setting of the session | property of the table |
|---|---|---|
| `distribution-mode` | `spark.sql.iceberg.distribution-mode` | `write.distribution-mode` |
| `mergeSchema` or `merge-schema` | `spark.sql.iceberg.merge-schema` | |
| `check-nullability`, `check-ordering` | `spark.sql.iceberg.check-nullability`, `….check-ordering` | |
| `snapshot-property.*` | `spark.sql.iceberg.snapshot-property.*`, and before it `floe.commit_properties` | |
| `isolation-level`, `validate-from-snapshot-id` | | |
| `branch`, `target-file-size-bytes`, `write-format`, `compression-codec`, … | | |

An overwrite with `validate-from-snapshot-id` depends on that snapshot, and one with only `isolation-level` on the
current one: rows that concurrent commits have added since among those that it replaces are a conflict. Without either
option it replaces the rows that the table has when it is committed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyspark

import floe
from floe.commit.change import BLIND, Reads
from floe.commit.conflicts.concurrent_commits import branch_head_id
from floe.commit.operations.snapshot_change import follow_properties
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

_COMMIT_PROPERTIES: Final = "floe.commit.properties"
"""The local property of a thread in the JVM that holds the properties of `floe.commit_properties` blocks, as JSON."""

_SWITCHES: Final = (
    properties.FANOUT,
    properties.ACCEPT_ANY_SCHEMA,
    properties.OBJECT_STORAGE,
    properties.PARTITIONED_PATHS,
    properties.WAP_ENABLED,
)
"""Boolean properties that change what a write does; a value that is neither true nor false is an error here."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write, resolved."""

    branch: str | None = None
    """The branch to commit to; None for the main branch."""

    wap_id: str | None = None
    """The id under which the snapshot is staged (write-audit-publish); None if it is not staged."""

    distribution: str | None = None
    """The distribution mode; None for the default of the table's partition spec and sort order."""

    isolation: str = "serializable"
    validate_from: Reads = BLIND
    """The snapshot since which an overwrite is checked for conflicts."""

    summary: Mapping[str, str] = field(default_factory=dict)
    """The properties for the summary of the snapshot."""

    overrides: Mapping[str, str] = field(default_factory=dict)
    """Table properties that options override, by name."""

    accept_any_schema: bool = False
    """Whether Floe, not Spark, matches the columns of the rows with those of the table."""

    merge_schema: bool = False
    check_nullability: bool = True
    check_ordering: bool = False


def write_options(
    jvm: Jvm | None, options: Mapping[str, str], metadata: TableMetadata, named_branch: str | None
) -> WriteOptions:
    """Resolve the options of a write: its own come first, then the session's settings, then the table's properties.

    `named_branch` is the branch in the name of the table. Without a JVM, in a worker, there is no session. Raises for
    an unknown option or an invalid value.
    """
    for switch in _SWITCHES:
        if not switch.values.accepts(metadata.properties.get(switch.name, "false")):
            switch.reject(metadata.properties[switch.name])
    check_write_options(options)
    session = {} if jvm is None else session_settings(jvm)
    overrides = {setting.name: options[name] for name, setting in _OVERRIDES.items() if name in options}
    file_format = {**metadata.properties, **overrides}.get(properties.FILE_FORMAT.name, properties.FILE_FORMAT.default)
    for name, option in settings.COMPRESSION.items():
        codec = options.get(option.name, session.get(settings.SESSION_COMPRESSION[name].name))
        if codec is not None:
            overrides[properties.format_property(file_format, name)] = codec
    branch, wap_id = _destination(jvm, options, metadata, named_branch)
    return WriteOptions(
        branch,
        wap_id,
        first_set(
            (settings.DISTRIBUTION_MODE, options),
            (settings.SESSION_DISTRIBUTION_MODE, session),
            (properties.DISTRIBUTION_MODE, metadata.properties),
            default=None,
        ),
        settings.ISOLATION_LEVEL.read(options),
        _validate_from(options, metadata, branch),
        engine_summary(jvm)
        | _commit_properties(jvm)
        | settings.SESSION_SNAPSHOT_PROPERTY.members(session)
        | settings.SNAPSHOT_PROPERTY.members(options),
        overrides,
        accept_any_schema=properties.ACCEPT_ANY_SCHEMA.read(metadata.properties),
        merge_schema=first_set(
            (settings.MERGE_SCHEMA_SPARK, options),
            (settings.MERGE_SCHEMA, options),
            (settings.SESSION_MERGE_SCHEMA, session),
            default=False,
        ),
        check_nullability=first_set(
            (settings.CHECK_NULLABILITY, options), (settings.SESSION_CHECK_NULLABILITY, session), default=True
        ),
        check_ordering=first_set(
            (settings.CHECK_ORDERING, options), (settings.SESSION_CHECK_ORDERING, session), default=False
        ),
    )


def engine_summary(jvm: Jvm | None) -> dict[str, str]:
    """The summary entries about the engine, with Java Iceberg's keys: Spark, its version, and the application.

    Without a JVM, as for a data source in a worker, the application is not known.
    """
    written_by = {ENGINE_NAME: "spark", ICEBERG_VERSION: f"Floe {floe.__version__}"}
    if jvm is None:
        return {**written_by, ENGINE_VERSION: pyspark.__version__}
    version, application = jvm.once(("engine",), lambda: (jvm.context.version, jvm.context.applicationId))
    return {**written_by, ENGINE_VERSION: version, APP_ID: application, SPARK_APP_ID: application}


def snapshot_properties(jvm: Jvm) -> dict[str, str]:
    """The summary entries of a snapshot that is not made by a write with options, such as that of a procedure."""
    session = session_settings(jvm)
    return engine_summary(jvm) | _commit_properties(jvm) | settings.SESSION_SNAPSHOT_PROPERTY.members(session)


def forward_commit_properties(jvm: Jvm) -> None:
    """Forward the properties of `floe.commit_properties` blocks to the JVM, whose threads commit what SQL writes."""

    def set_properties(values: Mapping[str, str]) -> None:
        jvm.set_thread_property(_COMMIT_PROPERTIES, json.dumps(dict(values)) if values else None)

    follow_properties("spark", set_properties)


def _commit_properties(jvm: Jvm | None) -> dict[str, str]:
    """The properties of the `floe.commit_properties` blocks around the statement."""
    text = None if jvm is None else jvm.context.getLocalProperty(_COMMIT_PROPERTIES)
    return {} if text is None else dict(json.loads(text))


def _validate_from(options: Mapping[str, str], metadata: TableMetadata, branch: str | None) -> Reads:
    """The snapshot since which an overwrite is checked: that of the option, or else the head of the branch."""
    option = options.get(settings.VALIDATE_FROM.name)
    if option is None and not settings.ISOLATION_LEVEL.is_set(options):
        return BLIND
    snapshot_id = branch_head_id(metadata, branch or MAIN_BRANCH)
    if option is not None:
        ids = {str(known_id): known_id for known_id in metadata.snapshots_by_id}
        if option not in ids:
            raise InvalidInput(
                f"{settings.VALIDATE_FROM} is {option!r:.80}, and the table has no such snapshot",
                hint="give the snapshot that was current before the table was read; it may have expired",
            )
        snapshot_id = ids[option]
    return Reads(snapshot_id, schema_id=metadata.current_schema_id)


def _destination(
    jvm: Jvm | None, options: Mapping[str, str], metadata: TableMetadata, named_branch: str | None
) -> tuple[str | None, str | None]:
    """The branch to write to, and the WAP id under which the snapshot is staged; at most one of them is set."""
    option = settings.WRITE_BRANCH.read(options)
    if option is not None and named_branch is not None and option != named_branch:
        raise InvalidInput(f"the name says branch {named_branch!r}, and the option says branch {option!r}")
    branch = named_branch or option
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
