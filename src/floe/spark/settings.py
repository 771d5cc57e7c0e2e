"""Every setting and option of Iceberg in Spark, and Spark's own settings that Floe reads.

| list | contents |
|---|---|
| `SESSION_SETTINGS` | `spark.sql.iceberg.*`, `spark.wap.*` and `spark.sql.floe.*` of a session |
| `CATALOG_SETTINGS` | what follows `spark.sql.catalog.<name>.` |
| `READ_OPTIONS`, `WRITE_OPTIONS` | options of `spark.read` and of writes |
| `HADOOP_SETTINGS` | what follows `spark.hadoop.` |

This is the only module that names them. A module that honours a setting reads it through its entry here, and
`docs/configuration.md` is generated from these lists. The states are those of table properties
(`floe.spec.setting_types`). For a setting without effect there is one warning for each value in a process, because
Spark analyzes a query several times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from floe.errors import FloeError, InvalidInput, InvalidSettings
from floe.spec.properties import FILE_FORMATS
from floe.spec.setting_types import BOOLEAN, TEXT, Setting, Settings, choice, integer, warn_ignored

if TYPE_CHECKING:
    from floe.spark.bridge.jvm import Jvm

T = TypeVar("T")

PREFIX: Final = "spark.sql.iceberg."
CATALOG_PREFIX: Final = "spark.sql.catalog."
_HADOOP_PREFIX: Final = "spark.hadoop."

SESSION_SETTINGS: Final = Settings("session setting", InvalidSettings)
READ_OPTIONS: Final = Settings("read option", InvalidInput)
WRITE_OPTIONS: Final = Settings("write option", InvalidInput)
CATALOG_SETTINGS: Final = Settings("catalog setting", InvalidInput)
HADOOP_SETTINGS: Final = Settings("Hadoop setting", InvalidInput)

_session, _read, _write = SESSION_SETTINGS, READ_OPTIONS, WRITE_OPTIONS
_catalog, _hadoop = CATALOG_SETTINGS, HADOOP_SETTINGS

_DISTRIBUTION_MODES: Final = choice("none", "hash", "range")
_STRATEGIES: Final = choice("speed", "compression")
_PLANNING_MODES: Final = choice("auto", "local", "distributed")
_UNSHREDDED: Final = "variants are written unshredded"
_VECTORIZED: Final = "Spark's setting spark.sql.parquet.enableVectorizedReader decides how Parquet files are read"
_TASK_SIZE: Final = "tasks get about write.target-file-size-bytes of rows"
_NOT_AHEAD: Final = "a micro-batch is planned when Spark asks for it"
_NO_LOCALITY: Final = "Spark chooses the executor of each task"


# the session --------------------------------------------------------------------------------------------------------

SESSION_CHECK_NULLABILITY: Final = _session.add(f"{PREFIX}check-nullability", BOOLEAN, True)
SESSION_CHECK_ORDERING: Final = _session.add(f"{PREFIX}check-ordering", BOOLEAN, False)
SESSION_AGGREGATES: Final = _session.add(f"{PREFIX}aggregate-push-down.enabled", BOOLEAN, True)
SESSION_DISTRIBUTION_MODE: Final = _session.add(f"{PREFIX}distribution-mode", _DISTRIBUTION_MODES)
SESSION_COMPRESSION: Final[Mapping[str, Setting[object]]] = {
    "compression-codec": _session.add(f"{PREFIX}compression-codec", TEXT),
    "compression-level": _session.add(f"{PREFIX}compression-level", integer()),
    "compression-strategy": _session.add(f"{PREFIX}compression-strategy", _STRATEGIES),
}
SESSION_SPLIT_SIZE: Final = _session.add(f"{PREFIX}read.split-size", integer(1))
SESSION_MERGE_SCHEMA: Final = _session.add(f"{PREFIX}merge-schema", BOOLEAN, False)
SESSION_COLUMN_STATS: Final = _session.add(f"{PREFIX}report-column-stats", BOOLEAN, True)
SESSION_ADAPTIVE_SPLITS: Final = _session.add(f"{PREFIX}read.adaptive-split-size.enabled", BOOLEAN)
SESSION_PARALLELISM: Final = _session.add(f"{PREFIX}read.adaptive-split-size.parallelism", integer(1))
SESSION_SNAPSHOT_PROPERTY: Final = _session.family(f"{PREFIX}snapshot-property.*", TEXT)
WAP_ID: Final = _session.add("spark.wap.id", TEXT, "")
WAP_BRANCH: Final = _session.add("spark.wap.branch", TEXT, "")
MOST_DELETES_ON_DRIVER: Final = _session.add(
    "spark.sql.floe.most-deletes-on-driver", integer(0), 32 * 2**20,
    note="how many bytes of position deletes the driver reads for a scan; Python workers read files with more",
)  # fmt: skip

_session.ignore(f"{PREFIX}vectorization.enabled", BOOLEAN, _VECTORIZED, no_effect=("true",))
_session.ignore(
    f"{PREFIX}planning.preserve-data-grouping", BOOLEAN,
    "no partitioning is reported to Spark yet, so joins by partitions shuffle their rows", no_effect=("false",),
)  # fmt: skip
_session.ignore(f"{PREFIX}shred-variants", BOOLEAN, _UNSHREDDED, no_effect=("false",))
_session.ignore(f"{PREFIX}variant-inference-buffer-size", integer(1), _UNSHREDDED)
for _name in ("data-planning-mode", "delete-planning-mode"):
    _session.ignore(f"{PREFIX}{_name}", _PLANNING_MODES, "the driver plans all reads", no_effect=("auto", "local"))
_session.ignore(f"{PREFIX}advisory-partition-size", integer(1), _TASK_SIZE)
_session.ignore(f"{PREFIX}locality.enabled", BOOLEAN, _NO_LOCALITY, no_effect=("false",))
_session.ignore(f"{PREFIX}async-micro-batch-planning-enabled", BOOLEAN, _NOT_AHEAD, no_effect=("false",))
_session.ignore(f"{PREFIX}identifier-fields-rely", BOOLEAN, "Floe reports no keys to Spark", no_effect=("false",))
_NO_CACHE: Final = "executors do not cache deletes: a task gets the deletes of its files"
for _name in ("enabled", "locality.enabled", "delete-files.enabled"):
    _session.ignore(f"{PREFIX}executor-cache.{_name}", BOOLEAN, _NO_CACHE, no_effect=("false",))
_session.ignore(f"{PREFIX}executor-cache.timeout", TEXT, _NO_CACHE)
for _name in ("max-entry-size", "max-total-size"):
    _session.ignore(f"{PREFIX}executor-cache.{_name}", integer(0), _NO_CACHE)


# reads --------------------------------------------------------------------------------------------------------------

SNAPSHOT_ID: Final = _read.add("snapshot-id", integer(0))
AS_OF_TIMESTAMP: Final = _read.add("as-of-timestamp", integer(0))
READ_BRANCH: Final = _read.add("branch", TEXT)
READ_TAG: Final = _read.add("tag", TEXT)
START_SNAPSHOT_ID: Final = _read.add("start-snapshot-id", integer(0))
END_SNAPSHOT_ID: Final = _read.add("end-snapshot-id", integer(0))
START_TIMESTAMP: Final = _read.add("start-timestamp", integer(0))
END_TIMESTAMP: Final = _read.add("end-timestamp", integer(0))
SPLIT_SIZE: Final = _read.add("split-size", integer(1))
LOOKBACK: Final = _read.add("lookback", integer(1))
FILE_OPEN_COST: Final = _read.add("file-open-cost", integer(0))
AGGREGATES: Final = _read.add("aggregate-push-down-enabled", BOOLEAN)
COLUMN_STATS: Final = _read.add("report-column-stats", BOOLEAN)
STREAM_FROM: Final = _read.add("stream-from-timestamp", integer(0))
STREAM_MAX_FILES: Final = _read.add("streaming-max-files-per-micro-batch", integer(1))
STREAM_MAX_ROWS: Final = _read.add("streaming-max-rows-per-micro-batch", integer(1))
STREAM_SKIP_DELETES: Final = _read.add("streaming-skip-delete-snapshots", BOOLEAN, False)
STREAM_SKIP_OVERWRITES: Final = _read.add("streaming-skip-overwrite-snapshots", BOOLEAN, False)
PUSH_FILTERS: Final = _read.add(
    "push-filters", BOOLEAN, False,
    note="for the data source in sessions without catalogs of Floe: use Spark's filters to prune files",
)  # fmt: skip

_read.ignore("vectorization-enabled", BOOLEAN, _VECTORIZED, no_effect=("true",))
_read.ignore(
    "batch-size", integer(1),
    "Spark's setting spark.sql.parquet.columnarReaderBatchSize decides how many rows a batch has",
)  # fmt: skip
_read.ignore("locality", BOOLEAN, _NO_LOCALITY, no_effect=("false",))
_read.ignore("async-micro-batch-planning-enabled", BOOLEAN, _NOT_AHEAD, no_effect=("false",))
for _name in (
    "streaming-snapshot-polling-interval-ms", "async-queue-preload-file-limit", "async-queue-preload-row-limit",
):  # fmt: skip
    _read.ignore(_name, integer(0), _NOT_AHEAD)

PATH: Final = "path"
CATALOG: Final = "catalog"
_SPARK_OPTIONS: Final = frozenset({PATH, CATALOG, "paths", "versionasof", "timestampasof"})
"""Options of Spark's readers and writers; `path` and `catalog` name a table for the data source."""


# writes -------------------------------------------------------------------------------------------------------------

WRITE_FORMAT: Final = _write.add("write-format", choice(*FILE_FORMATS), note="also a registered format")
DELETE_FORMAT: Final = _write.add("delete-format", choice(*FILE_FORMATS), note="also a registered format")
TARGET_FILE_SIZE: Final = _write.add("target-file-size-bytes", integer(1))
TARGET_DELETE_FILE_SIZE: Final = _write.add("target-delete-file-size-bytes", integer(1))
DELETE_GRANULARITY: Final = _write.add("delete-granularity", choice("partition", "file"))
CHECK_NULLABILITY: Final = _write.add("check-nullability", BOOLEAN)
CHECK_ORDERING: Final = _write.add("check-ordering", BOOLEAN)
SNAPSHOT_PROPERTY: Final = _write.family("snapshot-property.*", TEXT)
_write.add("fanout-enabled", BOOLEAN, note="no effect: rows need not be clustered, and memory is bounded")
ISOLATION_LEVEL: Final = _write.add("isolation-level", choice("serializable", "snapshot"), "serializable")
VALIDATE_FROM: Final = _write.add("validate-from-snapshot-id", integer())
COMPRESSION: Final[Mapping[str, Setting[object]]] = {
    "compression-codec": _write.add("compression-codec", TEXT),
    "compression-level": _write.add("compression-level", integer()),
    "compression-strategy": _write.add("compression-strategy", _STRATEGIES),
}
DISTRIBUTION_MODE: Final = _write.add("distribution-mode", _DISTRIBUTION_MODES)
MERGE_SCHEMA: Final = _write.add("merge-schema", BOOLEAN)
MERGE_SCHEMA_SPARK: Final = _write.add("mergeschema", BOOLEAN, note="the spelling of Spark's data sources")
WRITE_BRANCH: Final = _write.add("branch", TEXT)

_write.ignore("shred-variants", BOOLEAN, _UNSHREDDED, no_effect=("false",))
_write.ignore("variant-inference-buffer-size", integer(1), _UNSHREDDED)
_write.ignore("advisory-partition-size", integer(1), _TASK_SIZE)
_write.ignore(
    "use-merge-append-for-streaming", BOOLEAN,
    "each epoch adds a manifest; Table.rewrite_manifests() merges them", no_effect=("false",),
)  # fmt: skip
_write.ignore(
    "use-table-distribution-and-ordering", BOOLEAN,
    "rows are repartitioned and sorted as the table says; the option distribution-mode=none disables repartitioning",
    no_effect=("true",),
)  # fmt: skip
_write.refuse(
    "overwrite-mode", choice("static", "dynamic"),
    "all rows would be replaced; use df.writeTo(…).overwritePartitions() or set"
    " spark.sql.sources.partitionOverwriteMode=dynamic", no_effect=("static",),
)  # fmt: skip
_write.refuse("output-spec-id", integer(), "files are written by the table's current partition spec")
_write.refuse("output-sort-order-id", integer(), "files are written by the table's current sort order")


# catalogs -----------------------------------------------------------------------------------------------------------

CATALOG_TYPE: Final = _catalog.add(
    "type", choice("hadoop", "jdbc", "rest", "hive", "glue", "nessie", "dynamodb", "bigquery")
)
CATALOG_IMPL: Final = _catalog.add("catalog-impl", TEXT)
CATALOG_URI: Final = _catalog.add("uri", TEXT)
WAREHOUSE: Final = _catalog.add("warehouse", TEXT)
IO_IMPL: Final = _catalog.add(
    "io-impl", TEXT, note="Floe opens every store itself, whichever of Iceberg's classes is named"
)
DEFAULT_NAMESPACE: Final = _catalog.add("default-namespace", TEXT)
_catalog.family("table-default.*", TEXT)
_catalog.family("table-override.*", TEXT)
_catalog.family("view-default.*", TEXT)
_catalog.family("view-override.*", TEXT)
NULLABLE_QUERY_SCHEMA: Final = _catalog.add("use-nullable-query-schema", BOOLEAN, True)
CLIENTS: Final = _catalog.add("clients", integer(1), note="for PostgreSQL: the maximum number of open connections")
_catalog.add("jdbc.user", TEXT)
_catalog.add("jdbc.password", TEXT)
_catalog.add("jdbc.schema-version", choice("v0", "v1"))
_catalog.add("jdbc.init-catalog-tables", BOOLEAN)
JDBC_STRICT_MODE: Final = _catalog.add(
    "jdbc.strict-mode", BOOLEAN, note="a table is never created in a namespace that does not exist"
)
STORES: Final = tuple(_catalog.family(f"{store}.*", TEXT) for store in ("s3", "gcs", "adls"))
_catalog.add("client.region", TEXT)
HADOOP: Final = _catalog.family(
    "hadoop.*", TEXT, note="S3 settings (fs.s3a.endpoint, …) are passed to the store; others give a warning"
)

_FRESH: Final = "tables are not cached: each statement reads the newest commit"
_catalog.ignore("cache-enabled", BOOLEAN, _FRESH, no_effect=("false",))
_catalog.ignore("cache.expiration-interval-ms", integer(), _FRESH, no_effect=("0",))
_catalog.ignore("cache.case-sensitive", BOOLEAN, _FRESH)
_catalog.ignore(
    "metrics-reporter-impl", TEXT, "Floe does not report metrics",
    no_effect=("org.apache.iceberg.metrics.loggingmetricsreporter",),
)  # fmt: skip
_catalog.ignore(
    "unique-table-location", BOOLEAN, "a table is created in the folder of its name, or in that of LOCATION",
    no_effect=("false",),
)  # fmt: skip
_UNHELD: Final = "Floe would not hold that lock, and a commit that another engine makes under it could be lost"
_NO_LOCKS: Final = "commits need no lock: each creates a file or changes a row that no other commit can"
_catalog.refuse("lock-impl", TEXT, _UNHELD)
_catalog.ignore("lock.*", TEXT, _NO_LOCKS)
_catalog.refuse("encryption.kms-impl", TEXT, "tables cannot be encrypted yet")
_CREDENTIALS: Final = "use s3.access-key-id and s3.secret-access-key, s3.role-arn, or credentials from the environment"
_catalog.refuse("client.credentials-provider", TEXT, _CREDENTIALS)
for _name in ("arn", "region", "external-id", "timeout-sec"):
    _catalog.refuse(f"client.assume-role.{_name}", TEXT, _CREDENTIALS)
for _name in (
    "snapshot-loading-mode", "rest-metrics-reporting-enabled", "view-endpoints-supported", "rest-page-size",
    "namespace-separator", "scan-planning-mode", "rest-table-cache.*", "rest.*", "token", "credential",
    "oauth2-server-uri", "token-expires-in-ms", "token-refresh-enabled", "token-exchange-enabled", "scope",
    "audience", "resource", "gcp.auth.*",
):  # fmt: skip
    _catalog.ignore(_name, TEXT, "REST catalogs are not supported yet")


# Hadoop -------------------------------------------------------------------------------------------------------------

_hadoop.refuse("iceberg.tables.hadoop.lock-impl", TEXT, _UNHELD)
_hadoop.ignore("iceberg.tables.hadoop.lock.*", TEXT, _NO_LOCKS)
_hadoop.ignore("iceberg.hive.*", TEXT, "Hive catalogs are not supported yet")
_hadoop.ignore("iceberg.engine.hive.*", TEXT, "Hive catalogs are not supported yet")


# Spark's own settings that Floe reads or sets -----------------------------------------------------------------------

ANSI: Final = "spark.sql.ansi.enabled"
API_MODE: Final = "spark.api.mode"
ARROW_BATCH_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
ARROW_BATCH_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
BUCKETING: Final = "spark.sql.sources.v2.bucketing.enabled"
CASE_SENSITIVE: Final = "spark.sql.caseSensitive"
COST_BASED: Final = ("spark.sql.cbo.enabled", "spark.sql.cbo.planStats.enabled")
EXECUTION_ID: Final = "spark.sql.execution.id"
EXTENSIONS: Final = "spark.sql.extensions"
PYTHON: Final = "spark.pyspark.python"
REMOTE: Final = "spark.remote"
UNNAMED_VIEW_COLUMNS: Final = "spark.sql.legacy.allowAutoGeneratedAliasForView"

PARQUET_READER: Final = {
    "parquet.read.support.class": "org.apache.spark.sql.execution.datasources.parquet.ParquetReadSupport",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
    "spark.sql.parquet.variant.annotation.logicalType.ignore": "false",
    CASE_SENSITIVE: "true",
}
"""The settings with which Spark's Parquet reader finds columns by field id, with Iceberg's types."""


# reading and checking -----------------------------------------------------------------------------------------------

_warned: Final[set[str]] = set()


def session_settings(jvm: Jvm) -> dict[str, str]:
    """The settings of Iceberg in the active session, by their full names; checked."""
    settings = {PREFIX + name: value for name, value in jvm.settings_below(PREFIX).items()}
    _check(settings, SESSION_SETTINGS, all_known=True)
    return settings


def check_all_settings(settings: Mapping[str, str]) -> None:
    """Check those of a session's settings that are Iceberg's, except those of catalogs.

    >>> check_all_settings({"spark.sql.iceberg.distribution-mode": "random"})
    Traceback (most recent call last):
    floe.errors.InvalidSettings: the session setting spark.sql.iceberg.distribution-mode must be one of none, hash, ...
    """
    session = {name: value for name, value in settings.items() if name.startswith(PREFIX)}
    _check(session, SESSION_SETTINGS, all_known=True)
    hadoop = {
        name.removeprefix(_HADOOP_PREFIX): value
        for name, value in settings.items()
        if name.startswith(f"{_HADOOP_PREFIX}iceberg.")
    }
    _check(hadoop, HADOOP_SETTINGS, all_known=True)


def check_read_options(options: Mapping[str, str]) -> None:
    """Check the options of a read, whose names are in lower case."""
    _check(options, READ_OPTIONS, other=WRITE_OPTIONS)


def check_write_options(options: Mapping[str, str]) -> None:
    """Check the options of a write, whose names are in lower case."""
    _check(options, WRITE_OPTIONS, other=READ_OPTIONS)


def check_catalog_settings(catalog: str, settings: Mapping[str, str]) -> None:
    """Check the settings of a catalog, by what follows `spark.sql.catalog.<name>.`."""
    try:
        _check(settings, CATALOG_SETTINGS, all_known=True, where=f"catalog {catalog}: ")
    except FloeError as error:
        raise error.with_context(catalog=catalog) from None


def first_set(*candidates: tuple[Setting[T | None], Mapping[str, str]], default: T) -> T:
    """The value of the first setting that is set, such as that of an option before that of the session.

    >>> first_set((SPLIT_SIZE, {}), (SESSION_SPLIT_SIZE, {"spark.sql.iceberg.read.split-size": "7"}), default=1)
    7
    """
    for setting, settings in candidates:
        value = setting.read(settings) if setting.is_set(settings) else None
        if value is not None:
            return value
    return default


def with_defaults(jvm: Jvm, catalog: str, kind: str, properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a new table or view (`kind`), with the defaults and overrides in the settings of its catalog.

    Such as `spark.sql.catalog.lake.table-default.format-version`, and `….view-override.owner`, which takes precedence.
    """
    settings = jvm.settings_below(f"{CATALOG_PREFIX}{catalog}.{kind}-")
    default, override = (
        {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}
        for prefix in ("default.", "override.")
    )
    return {**default, **properties, **override}


def _check(
    values: Mapping[str, str],
    settings: Settings,
    *,
    other: Mapping[str, Setting[object]] | None = None,
    all_known: bool = False,
    where: str = "",
) -> None:
    """Check values; warn of unknown names that are similar to known ones, or of all of them with `all_known`.

    Names in `other` are those of options that belong to the other direction of a data source; they are no mistake.
    """
    for name, value in values.items():
        if name in _SPARK_OPTIONS:
            continue
        if settings.check(name, value, warn=lambda text: _warn_once(where + text)) is not None:
            continue
        similar = None if name in (other or ()) else settings.suggest(name)
        if similar is not None or all_known:
            hint = "" if similar is None else f"; did you mean {similar}?"
            _warn_once(f"{where}the {settings.subject} {name} is unknown{hint}")


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warn_ignored(message)
