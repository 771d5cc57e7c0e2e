"""Every setting and option of Iceberg for Spark, and what becomes of it here: nothing is passed over unsaid.

The states are those of table properties (`floe.spec.metadata.known_properties`). What is not acted on is told once in a
process, for each value of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from floe.errors import InvalidInput, InvalidSettings, UnsupportedFeature
from floe.spec.metadata.known_properties import (
    BOOLEAN,
    TEXT,
    Known,
    Values,
    find,
    number,
    one_of,
    suggestion,
    warn_of,
)

if TYPE_CHECKING:
    from floe.spark.bridge.jvm import Jvm

__all__ = [
    "CATALOG_SETTINGS",
    "HADOOP_SETTINGS",
    "READ_OPTIONS",
    "SESSION_SETTINGS",
    "WRITE_OPTIONS",
    "check_all_settings",
    "check_catalog_settings",
    "check_read_options",
    "check_write_options",
    "session_settings",
    "with_defaults",
]

PREFIX: Final = "spark.sql.iceberg."
_HADOOP: Final = "spark.hadoop."

_FORMATS: Final = one_of("parquet", "avro", "orc")
_DISTRIBUTIONS: Final = one_of("none", "hash", "range")
_PLANNING: Final = one_of("auto", "local", "distributed")
_UNSHREDDED: Final = "variants are written unshredded"
_ON_DRIVER: Final = "the driver plans all reads"
_BY_SPARK: Final = "Spark's own setting spark.sql.parquet.enableVectorizedReader says how Parquet files are read"
_ROWS_BY_SPARK: Final = "Spark's own setting spark.sql.parquet.columnarReaderBatchSize says how many rows a batch has"
_FILE_SIZE: Final = "tasks get about write.target-file-size-bytes of rows"
_NOT_AHEAD: Final = "a micro-batch is planned when it is asked for"
_NO_CACHE: Final = "executors keep no deletes: they come with the files of a task"
_NOT_PLACED: Final = "tasks are placed as Spark likes"
_FRESH: Final = "nothing is cached, so that each statement sees what others have committed"
_NO_REST: Final = "there are no REST catalogs yet"
_NO_HIVE: Final = "there are no Hive catalogs yet"
_UNHELD: Final = "Floe would not hold that lock, and what others commit under it at the same time could be lost"
_CREDENTIALS: Final = "give s3.access-key-id and s3.secret-access-key, or s3.role-arn, or leave it to the environment"
_NO_LOCKS: Final = "commits need no lock: they create a file or change a row that nobody else can"


def _known(*all_of_them: Known) -> Mapping[str, Known]:
    return {one.name: one for one in all_of_them}


SESSION_SETTINGS: Final = _known(
    Known(f"{PREFIX}vectorization.enabled", "warns", BOOLEAN, _BY_SPARK, ("true",)),
    Known(f"{PREFIX}check-nullability", values=BOOLEAN),
    Known(f"{PREFIX}check-ordering", values=BOOLEAN),
    Known(
        f"{PREFIX}planning.preserve-data-grouping", "warns", BOOLEAN,
        "no partitioning is reported to Spark yet, so that joins by partitions shuffle their rows", ("false",),
    ),
    Known(f"{PREFIX}aggregate-push-down.enabled", values=BOOLEAN),
    Known(f"{PREFIX}distribution-mode", values=_DISTRIBUTIONS),
    Known("spark.wap.id"),
    Known("spark.wap.branch"),
    Known(f"{PREFIX}shred-variants", "warns", BOOLEAN, _UNSHREDDED, ("false",)),
    Known(f"{PREFIX}variant-inference-buffer-size", "warns", number(1), _UNSHREDDED),
    Known(f"{PREFIX}compression-codec"),
    Known(f"{PREFIX}compression-level", values=number()),
    Known(f"{PREFIX}compression-strategy", values=one_of("speed", "compression")),
    Known(f"{PREFIX}data-planning-mode", "warns", _PLANNING, _ON_DRIVER, ("auto", "local")),
    Known(f"{PREFIX}delete-planning-mode", "warns", _PLANNING, _ON_DRIVER, ("auto", "local")),
    Known(f"{PREFIX}advisory-partition-size", "warns", number(1), _FILE_SIZE),
    Known(f"{PREFIX}read.split-size", values=number(1)),
    Known(f"{PREFIX}locality.enabled", "warns", BOOLEAN, _NOT_PLACED, ("false",)),
    Known(f"{PREFIX}executor-cache.enabled", "warns", BOOLEAN, _NO_CACHE, ("false",)),
    Known(f"{PREFIX}executor-cache.timeout", "warns", TEXT, _NO_CACHE),
    Known(f"{PREFIX}executor-cache.max-entry-size", "warns", number(0), _NO_CACHE),
    Known(f"{PREFIX}executor-cache.max-total-size", "warns", number(0), _NO_CACHE),
    Known(f"{PREFIX}executor-cache.locality.enabled", "warns", BOOLEAN, _NO_CACHE, ("false",)),
    Known(f"{PREFIX}executor-cache.delete-files.enabled", "warns", BOOLEAN, _NO_CACHE, ("false",)),
    Known(f"{PREFIX}merge-schema", values=BOOLEAN),
    Known(f"{PREFIX}report-column-stats", values=BOOLEAN),
    Known(f"{PREFIX}read.adaptive-split-size.enabled", values=BOOLEAN),
    Known(f"{PREFIX}read.adaptive-split-size.parallelism", values=number(1)),
    Known(f"{PREFIX}async-micro-batch-planning-enabled", "warns", BOOLEAN, _NOT_AHEAD, ("false",)),
    Known(f"{PREFIX}snapshot-property.*"),
    Known(f"{PREFIX}identifier-fields-rely", "warns", BOOLEAN, "Spark is told of no keys", ("false",)),
)  # fmt: skip
"""Settings of a session, by their whole names."""

READ_OPTIONS: Final = _known(
    *(Known(name, values=number()) for name in ("snapshot-id", "as-of-timestamp", "start-snapshot-id")),
    *(Known(name, values=number()) for name in ("end-snapshot-id", "start-timestamp", "end-timestamp")),
    Known("branch"),
    Known("tag"),
    Known("split-size", values=number(1)),
    Known("lookback", values=number(1)),
    Known("file-open-cost", values=number(0)),
    Known("vectorization-enabled", "warns", BOOLEAN, _BY_SPARK, ("true",)),
    Known("batch-size", "warns", number(1), _ROWS_BY_SPARK),
    Known("aggregate-push-down-enabled", values=BOOLEAN),
    Known("report-column-stats", values=BOOLEAN),
    Known("locality", "warns", BOOLEAN, _NOT_PLACED, ("false",)),
    Known("stream-from-timestamp", values=number(0)),
    Known("streaming-max-files-per-micro-batch", values=number(1)),
    Known("streaming-max-rows-per-micro-batch", values=number(1)),
    Known("streaming-skip-delete-snapshots", values=BOOLEAN),
    Known("streaming-skip-overwrite-snapshots", values=BOOLEAN),
    Known("async-micro-batch-planning-enabled", "warns", BOOLEAN, _NOT_AHEAD, ("false",)),
    Known("streaming-snapshot-polling-interval-ms", "warns", number(0), _NOT_AHEAD),
    Known("async-queue-preload-file-limit", "warns", number(0), _NOT_AHEAD),
    Known("async-queue-preload-row-limit", "warns", number(0), _NOT_AHEAD),
)
"""Options of a read, in small letters."""

WRITE_OPTIONS: Final = _known(
    Known("write-format", values=_FORMATS),
    Known("delete-format", values=_FORMATS),
    Known("target-file-size-bytes", values=number(1)),
    Known("target-delete-file-size-bytes", values=number(1)),
    Known("check-nullability", values=BOOLEAN),
    Known("check-ordering", values=BOOLEAN),
    Known("snapshot-property.*"),
    Known("fanout-enabled", values=BOOLEAN, note="rows need never be clustered, with bounded memory"),
    Known("isolation-level", values=one_of("serializable", "snapshot")),
    Known("validate-from-snapshot-id", values=number()),
    Known("compression-codec"),
    Known("compression-level", values=number()),
    Known("compression-strategy", values=one_of("speed", "compression")),
    Known("distribution-mode", values=_DISTRIBUTIONS),
    Known("delete-granularity", values=one_of("partition", "file")),
    Known("merge-schema", values=BOOLEAN),
    Known("mergeschema", values=BOOLEAN),
    Known("branch"),
    Known("shred-variants", "warns", BOOLEAN, _UNSHREDDED, ("false",)),
    Known("variant-inference-buffer-size", "warns", number(1), _UNSHREDDED),
    Known("advisory-partition-size", "warns", number(1), _FILE_SIZE),
    Known(
        "use-merge-append-for-streaming", "warns", BOOLEAN,
        "each epoch adds a manifest of its own; bring them together with Table.rewrite_manifests()", ("false",),
    ),
    Known(
        "use-table-distribution-and-ordering", "warns", BOOLEAN,
        "rows are brought together and sorted as the table says; the option distribution-mode=none leaves them where"
        " they are", ("true",),
    ),
    Known(
        "overwrite-mode", "refused", one_of("static", "dynamic"),
        "all rows would be replaced; write df.writeTo(…).overwritePartitions() or set"
        " spark.sql.sources.partitionOverwriteMode=dynamic", ("static",),
    ),
    Known("output-spec-id", "refused", number(), "files are written by the table's current partition spec"),
    Known("output-sort-order-id", "refused", number(), "files are written by the table's current sort order"),
)  # fmt: skip
"""Options of a write, in small letters."""

CATALOG_SETTINGS: Final = _known(
    Known("type", values=one_of("hadoop", "jdbc", "rest", "hive", "glue", "nessie", "dynamodb", "bigquery")),
    Known("catalog-impl"),
    Known("uri"),
    Known("warehouse"),
    Known("io-impl", note="Floe reaches every store itself, whichever of Iceberg's classes is named"),
    Known("default-namespace"),
    Known("table-default.*"),
    Known("table-override.*"),
    Known("view-default.*"),
    Known("view-override.*"),
    Known("use-nullable-query-schema", values=BOOLEAN),
    Known("clients", values=number(1), note="of PostgreSQL: how many connections are used at once"),
    Known("jdbc.user"),
    Known("jdbc.password"),
    Known("jdbc.schema-version", values=one_of("v0", "v1")),
    Known("jdbc.init-catalog-tables", values=BOOLEAN),
    Known("jdbc.strict-mode", values=BOOLEAN, note="a table is never made in a namespace that is not there"),
    *(Known(f"{store}.*") for store in ("s3", "gcs", "adls")),
    Known("client.region"),
    Known("hadoop.*", note="those of S3 (fs.s3a.endpoint, …access.key, …) go to the store; others are warned of"),
    Known("cache-enabled", "warns", BOOLEAN, _FRESH, ("false",)),
    Known("cache.expiration-interval-ms", "warns", number(), _FRESH, ("0",)),
    Known("cache.case-sensitive", "warns", BOOLEAN, _FRESH),
    Known(
        "metrics-reporter-impl", "warns", TEXT, "no reports of metrics are made",
        ("org.apache.iceberg.metrics.loggingmetricsreporter",),
    ),
    Known(
        "unique-table-location", "warns", BOOLEAN,
        "a table is made in the folder of its name; say LOCATION for another", ("false",),
    ),
    Known("lock-impl", "refused", TEXT, _UNHELD),
    Known("lock.*", "warns", TEXT, _NO_LOCKS),
    Known("encryption.kms-impl", "refused", TEXT, "tables cannot be encrypted yet"),
    Known("client.credentials-provider", "refused", TEXT, _CREDENTIALS),
    *(
        Known(f"client.assume-role.{name}", "refused", TEXT, _CREDENTIALS)
        for name in ("arn", "region", "external-id", "timeout-sec")
    ),
    *(
        Known(name, "warns", TEXT, _NO_REST)
        for name in (
            "snapshot-loading-mode", "rest-metrics-reporting-enabled", "view-endpoints-supported", "rest-page-size",
            "namespace-separator", "scan-planning-mode", "rest-table-cache.*", "rest.*", "token", "credential",
            "oauth2-server-uri", "token-expires-in-ms", "token-refresh-enabled", "token-exchange-enabled", "scope",
            "audience", "resource", "gcp.auth.*",
        )
    ),
)  # fmt: skip
"""Settings of a catalog, by what follows `spark.sql.catalog.<name>.`"""

HADOOP_SETTINGS: Final = _known(
    Known("iceberg.tables.hadoop.lock-impl", "refused", TEXT, _UNHELD),
    Known("iceberg.tables.hadoop.lock.*", "warns", TEXT, _NO_LOCKS),
    Known("iceberg.hive.*", "warns", TEXT, _NO_HIVE),
    Known("iceberg.engine.hive.*", "warns", TEXT, _NO_HIVE),
)
"""Settings of Hadoop, by what follows `spark.hadoop.`"""

_told: Final[set[str]] = set()
_DEFAULTS: Final = ("default.", "override.")
_SPARKS_OWN: Final = frozenset({"path", "paths", "catalog", "push-filters", "versionasof", "timestampasof"})
"""Options that are read elsewhere, or by Spark itself."""


def session_settings(jvm: Jvm) -> dict[str, str]:
    """The settings of Iceberg of the session at work, by what follows `spark.sql.iceberg.`; they are looked at."""
    found = jvm.settings_below(PREFIX)
    _check_session_settings(found)
    return found


def _check_session_settings(found: Mapping[str, str]) -> None:
    """Look at settings, by what follows `spark.sql.iceberg.`: each name should be known."""
    _check({PREFIX + name: value for name, value in found.items()}, SESSION_SETTINGS, "the setting", all_known=True)


def check_all_settings(found: Mapping[str, str]) -> None:
    """Look at those of a session's settings that are Iceberg's, of whatever kind, but for those of catalogs.

    >>> check_all_settings({"spark.sql.iceberg.distribution-mode": "random"})
    Traceback (most recent call last):
    floe.errors.InvalidSettings: the setting spark.sql.iceberg.distribution-mode is one of none, hash, range, ...
    """
    _check_session_settings({k.removeprefix(PREFIX): v for k, v in found.items() if k.startswith(PREFIX)})
    hadoop = {k.removeprefix(_HADOOP): v for k, v in found.items() if k.startswith(_HADOOP + "iceberg.")}
    _check(hadoop, HADOOP_SETTINGS, "the setting of Hadoop", all_known=True)


def check_read_options(given: Mapping[str, str]) -> None:
    """Look at the options of a read, whose names are in small letters."""
    _check(_others(given), READ_OPTIONS, "the read option", also=WRITE_OPTIONS)


def check_write_options(given: Mapping[str, str]) -> None:
    """Look at the options of a write, whose names are in small letters."""
    _check(_others(given), WRITE_OPTIONS, "the write option", also=READ_OPTIONS)


def _others(given: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in given.items() if name not in _SPARKS_OWN}


def check_catalog_settings(catalog: str, given: Mapping[str, str]) -> None:
    """Look at what is set below `spark.sql.catalog.<name>.`: each name should be known."""
    _check(given, CATALOG_SETTINGS, f"of catalog {catalog}, the setting", all_known=True)


def with_defaults(jvm: Jvm, catalog: str, what: str, given: Mapping[str, str]) -> dict[str, str]:
    """The properties of a new table or view, with those that the settings of its catalog have for it.

    Such as `spark.sql.catalog.lake.table-default.format-version`, and `….view-override.owner`, which goes first.
    """
    found = jvm.settings_below(f"spark.sql.catalog.{catalog}.{what}-")
    default, override = ({k.removeprefix(p): v for k, v in found.items() if k.startswith(p)} for p in _DEFAULTS)
    return {**default, **given, **override}


def _check(
    given: Mapping[str, str],
    known: Mapping[str, Known],
    what: str,
    *,
    also: Iterable[str] = (),
    all_known: bool = False,
) -> None:
    """Raise for what is refused or cannot be; warn of what is not acted on, and of names that look misspelt.

    Where every name should be known, any other is warned of whatever it looks like.
    """
    for name, value in given.items():
        found = find(known, name)
        if found is None:
            near = None if name in also else suggestion(name, known)
            if near is not None or all_known:
                _warn_once(f"{what} {name} is not known" + ("" if near is None else f"; did you mean {near}?"))
            continue
        _check_value(found.values, what, name, value)
        if found.state == "refused" and value.lower() not in found.harmless:
            raise UnsupportedFeature(f"{what} {name}={value:.80} is refused: {found.note}")
        if found.state == "warns" and value.lower() not in found.harmless:
            _warn_once(f"{what} {name}={value:.80} has no effect: {found.note}")


def _warn_once(message: str) -> None:
    """Warn of what is told for the first time: Spark asks for the same read again and again."""
    if message not in _told:
        _told.add(message)
        warn_of(message)


def _check_value(values: Values, what: str, name: str, value: str) -> None:
    if not values.accepts(value):
        kind = InvalidSettings if name.startswith("spark.") else InvalidInput
        raise kind(f"{what} {name} is {values.described}, found {value!r:.80}")
