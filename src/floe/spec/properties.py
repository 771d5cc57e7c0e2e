"""Every property of tables and views that Iceberg or Floe knows: its values, its default, and what Floe does with it.

This is the only module that names properties. A module that honours one reads it through its entry here, and
`docs/properties.md` is made from this list.

>>> TARGET_FILE_SIZE.read({}), TARGET_FILE_SIZE.read({"write.target-file-size-bytes": "1000"})
(536870912, 1000)
>>> WRITE_MODES["merge"].read({"write.merge.mode": "Merge-On-Read"})
'merge-on-read'

Values are checked when they are set (`check_properties`), not when a write fails because of them later. Properties that
are not listed belong to the user and are stored; a name that begins like Iceberg's properties do gets a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from floe.errors import InvalidUpdate, UnsupportedFeature
from floe.spec.manifests.entries import file_format_code
from floe.spec.setting_types import (
    BOOLEAN,
    FRACTION,
    TEXT,
    Setting,
    Settings,
    Values,
    choice,
    integer,
    warn_ignored,
)

T = TypeVar("T")
_KB: Final = 1024
_MB: Final = 1024 * 1024
_DAY_MS: Final = 24 * 60 * 60 * 1000

TABLE_PROPERTIES: Final = Settings("property")
"""The properties of tables."""

VIEW_PROPERTIES: Final = Settings("property")
"""The properties of views."""

_table, _view = TABLE_PROPERTIES, VIEW_PROPERTIES


# reads --------------------------------------------------------------------------------------------------------------

SPLIT_TARGET_SIZE: Final = _table.add("read.split.target-size", integer(1), 128 * _MB, used_by="plan")
SPLIT_LOOKBACK: Final = _table.add("read.split.planning-lookback", integer(1), 10, used_by="plan")
SPLIT_OPEN_FILE_COST: Final = _table.add("read.split.open-file-cost", integer(0), 4 * _MB, used_by="plan")
ADAPTIVE_SPLIT_SIZE: Final = _table.add("read.split.adaptive-size.enabled", BOOLEAN, True, used_by="spark")
_table.ignore("read.split.metadata-target-size", integer(1), "the driver produces the rows of metadata tables")

PAGE_CHECKSUMS: Final = _table.add("read.parquet.page-checksum-verification.enabled", BOOLEAN, True, used_by="formats")
_table.ignore(
    "read.parquet.vectorization.enabled", BOOLEAN,
    "Spark's setting spark.sql.parquet.enableVectorizedReader decides how Parquet files are read", no_effect=("true",),
)  # fmt: skip
_table.ignore(
    "read.parquet.vectorization.batch-size", integer(1),
    "Spark's setting spark.sql.parquet.columnarReaderBatchSize decides how many rows a batch has",
)  # fmt: skip
_ORC_BATCHES: Final = "the Arrow reader always reads ORC files in batches"
_table.ignore("read.orc.vectorization.enabled", BOOLEAN, _ORC_BATCHES, no_effect=("true",))
_table.ignore("read.orc.vectorization.batch-size", integer(1), _ORC_BATCHES)
for _name in ("read.data-planning-mode", "read.delete-planning-mode"):
    _table.ignore(
        _name, choice("auto", "local", "distributed"), "the driver plans all reads", no_effect=("auto", "local")
    )


# the format and size of files ---------------------------------------------------------------------------------------

FILE_FORMATS: Final = ("parquet", "avro", "orc")
"""The file formats that Iceberg specifies; others can be registered with `floe.formats`."""


def _is_file_format(text: str) -> bool:
    """Whether data files can have a format: one of Iceberg's, or one that is registered or installed."""
    name = text.lower()
    return name in FILE_FORMATS or (name != "puffin" and file_format_code(name) is not None)


_FILE_FORMAT_NAMES: Final = Values(
    f"one of {', '.join(FILE_FORMATS)}", lambda text: text.strip().lower(), _is_file_format
)

FILE_FORMAT: Final = _table.add(
    "write.format.default", _FILE_FORMAT_NAMES, "parquet", used_by="formats, spark",
    note="also a format that is registered with floe.formats",
)  # fmt: skip
DELETE_FILE_FORMAT: Final = _table.add(
    "write.delete.format.default", _FILE_FORMAT_NAMES, used_by="formats, spark",
    note="default: the format of data files",
)  # fmt: skip
TARGET_FILE_SIZE: Final = _table.add("write.target-file-size-bytes", integer(1), 512 * _MB, used_by="formats, spark")
DELETE_TARGET_FILE_SIZE: Final = _table.add(
    "write.delete.target-file-size-bytes", integer(1), 64 * _MB, used_by="formats, spark"
)


@dataclass(frozen=True, slots=True)
class FileProperty(Generic[T]):
    """A property of data files and the property of delete files that takes precedence over it for these."""

    data: Setting[T]
    deletes: Setting[Any]

    def chosen(self, properties: Mapping[str, str], *, deletes: bool) -> Setting[T]:
        """The one of the two whose value counts."""
        return self.deletes if deletes and properties.get(self.deletes.name) else self.data

    def read(self, properties: Mapping[str, str], *, deletes: bool) -> T:
        """The value for data files or for delete files.

        >>> PARQUET_PAGE_ROWS.read({"write.parquet.page-row-limit": "9"}, deletes=True)
        9
        """
        setting = self.chosen(properties, deletes=deletes)
        return setting.read(properties) if properties.get(setting.name) else setting.default


def _file_property(name: str, values: Values[Any], default: Any = None, **more: Any) -> FileProperty[Any]:
    return FileProperty(
        _table.add(f"write.{name}", values, default, used_by="formats", **more),
        _table.add(f"write.delete.{name}", values, used_by="formats", note="default: the value for data files", **more),
    )


def _ignore_for_files(name: str, values: Values[Any], note: str) -> None:
    _table.ignore(f"write.{name}", values, note)
    _table.ignore(f"write.delete.{name}", values, note)


def format_property(file_format: str, name: str) -> str:
    """The name of a property of data files in one format.

    >>> format_property("parquet", "compression-codec")
    'write.parquet.compression-codec'
    """
    return f"write.{file_format.lower()}.{name}"


# Parquet files ------------------------------------------------------------------------------------------------------

PARQUET_CODEC: Final[FileProperty[str]] = _file_property(
    "parquet.compression-codec",
    choice("zstd", "gzip", "snappy", "brotli", "lz4", "lz4_raw", "uncompressed", "none"),
    "zstd",
    error=UnsupportedFeature,
)
PARQUET_LEVEL: Final[FileProperty[int | None]] = _file_property("parquet.compression-level", integer())
PARQUET_ROW_GROUP_BYTES: Final[FileProperty[int]] = _file_property(
    "parquet.row-group-size-bytes", integer(1), 128 * _MB
)
PARQUET_ROW_GROUP_ROWS: Final[FileProperty[int]] = _file_property("parquet.row-group-limit", integer(1), _MB)
PARQUET_PAGE_BYTES: Final[FileProperty[int]] = _file_property("parquet.page-size-bytes", integer(1), _MB)
PARQUET_PAGE_ROWS: Final[FileProperty[int]] = _file_property("parquet.page-row-limit", integer(1), 20_000)
PARQUET_DICTIONARY_BYTES: Final[FileProperty[int]] = _file_property("parquet.dict-size-bytes", integer(1), 2 * _MB)
PARQUET_PAGE_VERSION: Final[FileProperty[str]] = _file_property(
    "parquet.page-version", choice("v1", "v2", "parquet_1_0", "parquet_2_0"), "v1"
)
for _name in ("row-group-check-min-record-count", "row-group-check-max-record-count"):
    _ignore_for_files(f"parquet.{_name}", integer(1), "the size of a row group is checked after each batch")
_table.ignore(
    "write.parquet.row-group-size-track-uncompressed", BOOLEAN,
    "the size of a row group is its compressed size", no_effect=("false",),
)  # fmt: skip
_UNSHREDDED: Final = "variants are written unshredded"
_table.ignore("write.parquet.shred-variants", BOOLEAN, _UNSHREDDED, no_effect=("false",))
_table.ignore("write.parquet.variant-inference-buffer-size", integer(1), _UNSHREDDED)

PARQUET_DICTIONARY: Final = _table.family("write.parquet.dict-encoding-enabled.column.*", BOOLEAN, used_by="formats")
PARQUET_STATISTICS: Final = _table.family(
    "write.parquet.stats-enabled.column.*", BOOLEAN, used_by="formats, commit",
    note="statistics in the file itself, not in the table's metadata",
)  # fmt: skip
PARQUET_BLOOM_FILTER: Final = _table.family(
    "write.parquet.bloom-filter-enabled.column.*", BOOLEAN, used_by="formats, commit"
)
PARQUET_BLOOM_FPP: Final = _table.family("write.parquet.bloom-filter-fpp.column.*", FRACTION, used_by="formats")
PARQUET_BLOOM_NDV: Final = _table.family("write.parquet.bloom-filter-ndv.column.*", integer(1), used_by="formats")
PARQUET_BLOOM_BYTES: Final = _table.add("write.parquet.bloom-filter-max-bytes", integer(1), _MB, used_by="formats")
_table.ignore(
    "write.parquet.bloom-filter-adaptive-enabled", BOOLEAN,
    "the false positive rate and write.parquet.bloom-filter-max-bytes decide how large a Bloom filter is",
    no_effect=("false",),
)  # fmt: skip


# Avro files ---------------------------------------------------------------------------------------------------------

AVRO_CODEC: Final[FileProperty[str]] = _file_property(
    "avro.compression-codec",
    choice("gzip", "zstd", "snappy", "uncompressed", "deflate", "none"),
    "gzip",
    error=UnsupportedFeature,
)
AVRO_LEVEL: Final[FileProperty[int | None]] = _file_property("avro.compression-level", integer())


# ORC files ----------------------------------------------------------------------------------------------------------

ORC_CODEC: Final[FileProperty[str]] = _file_property(
    "orc.compression-codec", choice("zlib", "zstd", "snappy", "lz4", "none"), "zlib", error=UnsupportedFeature
)
ORC_STRATEGY: Final[FileProperty[str]] = _file_property(
    "orc.compression-strategy", choice("speed", "compression"), "speed", error=UnsupportedFeature
)
ORC_STRIPE_BYTES: Final[FileProperty[int]] = _file_property("orc.stripe-size-bytes", integer(1), 64 * _MB)
ORC_BATCH_ROWS: Final[FileProperty[int]] = _file_property("orc.vectorized.batch-size", integer(1), 1024)
_ignore_for_files("orc.block-size-bytes", integer(1), "stripes are not aligned with the blocks of a file system")
ORC_BLOOM_COLUMNS: Final = _table.add(
    "write.orc.bloom.filter.columns", TEXT, "", used_by="formats", note="names of columns, separated by commas"
)
ORC_BLOOM_FPP: Final = _table.add("write.orc.bloom.filter.fpp", FRACTION, 0.05, used_by="formats")


# column metrics -----------------------------------------------------------------------------------------------------

_METRICS: Final = re.compile(r"none|counts|full|truncate\(\s*0*[1-9][0-9]{0,8}\s*\)")
_METRICS_MODES: Final = Values(
    "none, counts, truncate(n) with n above 0, or full",
    str,  # floe.formats.metrics parses it
    lambda text: bool(_METRICS.fullmatch(text.strip().lower())),
)
METRICS_DEFAULT: Final = _table.add(
    "write.metadata.metrics.default", _METRICS_MODES, used_by="formats",
    note="default: truncate(16) for the first columns, see write.metadata.metrics.max-inferred-column-defaults",
)  # fmt: skip
METRICS_COLUMN: Final = _table.family(
    "write.metadata.metrics.column.*", _METRICS_MODES, used_by="formats, commit, spec"
)
METRICS_MAX_INFERRED: Final = _table.add(
    "write.metadata.metrics.max-inferred-column-defaults",
    Values("a whole number of at least 0", integer().parse, integer(0).accepts),  # readers take less for the default
    100,
    used_by="formats",
)


# where files are ----------------------------------------------------------------------------------------------------

DATA_PATH: Final = _table.add(
    "write.data.path", TEXT, used_by="formats, commit", note="default: the folder data in the table's location"
)
FOLDER_STORAGE_PATH: Final = _table.add(
    "write.folder-storage.path", TEXT, used_by="formats, commit", note="an older name of write.data.path"
)
OBJECT_STORAGE_PATH: Final = _table.add(
    "write.object-storage.path", TEXT, used_by="formats, commit",
    note="an older name of write.data.path, for write.object-storage.enabled",
)  # fmt: skip
OBJECT_STORAGE: Final = _table.add("write.object-storage.enabled", BOOLEAN, False, used_by="formats, spark")
PARTITIONED_PATHS: Final = _table.add("write.object-storage.partitioned-paths", BOOLEAN, True, used_by="formats, spark")
METADATA_PATH: Final = _table.add(
    "write.metadata.path", TEXT, used_by="commit, catalog",
    note="default: the folder metadata in the table's location",
)  # fmt: skip
FILES_ELSEWHERE: Final = _table.add(
    "floe.files-elsewhere", TEXT, used_by="commit",
    note="set by Floe: the namespace lists other folders with files of the table",
)  # fmt: skip
_table.ignore(
    "write.location-provider.impl", TEXT,
    "Floe cannot run a Java class; write.data.path and write.object-storage.enabled decide where files are written",
)  # fmt: skip


# row-level statements -----------------------------------------------------------------------------------------------

_STATEMENTS: Final = ("delete", "update", "merge")
_WRITE_MODES: Final = choice("copy-on-write", "merge-on-read")
_ISOLATION_LEVELS: Final = choice("serializable", "snapshot")
_DISTRIBUTION_MODES: Final = choice("none", "hash", "range")

WRITE_MODES: Final[Mapping[str, Setting[str]]] = {
    statement: _table.add(f"write.{statement}.mode", _WRITE_MODES, "copy-on-write", used_by="arrow")
    for statement in _STATEMENTS
}
"""How rows are changed, by the kind of statement."""

ISOLATION_LEVELS: Final[Mapping[str, Setting[str]]] = {
    statement: _table.add(f"write.{statement}.isolation-level", _ISOLATION_LEVELS, "serializable", used_by="arrow")
    for statement in _STATEMENTS
}
"""Which concurrent changes are conflicts, by the kind of statement."""

DISTRIBUTION_MODE: Final = _table.add("write.distribution-mode", _DISTRIBUTION_MODES, used_by="spark")
DISTRIBUTION_MODES: Final[Mapping[str, Setting[str | None]]] = {
    statement: _table.add(f"write.{statement}.distribution-mode", _DISTRIBUTION_MODES, used_by="spark")
    for statement in _STATEMENTS
}
"""How Spark distributes changed rows over tasks, by the kind of statement."""

DELETE_GRANULARITY: Final = _table.add(
    "write.delete.granularity", choice("partition", "file"), "file", used_by="formats, spark"
)
CONFLICT_RETRIES: Final = _table.add(
    "write.conflict.retries", integer(0), 0, used_by="table",
    note="how often a statement is retried after a conflict",
)  # fmt: skip
WAP_ENABLED: Final = _table.add("write.wap.enabled", BOOLEAN, False, used_by="spark")
WAP_BRANCH: Final = _table.add(
    "write.wap.branch", TEXT, used_by="commit", note="the branch that is written unless a write names one"
)
FANOUT: Final = _table.add(
    "write.spark.fanout.enabled", BOOLEAN, False, used_by="spark",
    note="no effect: rows need not be clustered, and memory is bounded",
)  # fmt: skip
ACCEPT_ANY_SCHEMA: Final = _table.add("write.spark.accept-any-schema", BOOLEAN, False, used_by="spark")
_table.ignore(
    "write.spark.advisory-partition-size-bytes", integer(1), "tasks get about write.target-file-size-bytes of rows"
)
_table.ignore(
    "write.spark.auto-schema-evolution.enabled", BOOLEAN,
    "the write option mergeSchema and WITH SCHEMA EVOLUTION add columns", no_effect=("false",),
)  # fmt: skip
_table.store("write.upsert.enabled", BOOLEAN, "for Flink")


# commits, metadata and history --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RetryProperties:
    """The four properties of how often and how long something is tried again."""

    num_retries: Setting[int]
    min_wait_ms: Setting[int]
    max_wait_ms: Setting[int]
    total_timeout_ms: Setting[int]

    def __iter__(self) -> Iterator[Setting[int]]:
        yield from (self.num_retries, self.min_wait_ms, self.max_wait_ms, self.total_timeout_ms)


def _retry_properties(prefix: str, *defaults: int, used_by: str) -> RetryProperties:
    names = ("num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms")
    return RetryProperties(
        *(
            _table.add(f"{prefix}.{name}", integer(0), default, used_by=used_by)
            for name, default in zip(names, defaults, strict=True)
        )
    )


COMMIT_RETRY: Final = _retry_properties("commit.retry", 4, 100, 60_000, 1_800_000, used_by="commit, spec")
"""How often and how long a commit is tried again that lost a race."""

COMMIT_STATUS_CHECK: Final = _retry_properties("commit.status-check", 3, 1_000, 60_000, 1_800_000, used_by="commit")
"""How often and how long Floe asks whether a commit was published whose answer was lost."""

MANIFEST_TARGET_SIZE: Final = _table.add("commit.manifest.target-size-bytes", integer(1), 8 * _MB, used_by="commit")
MANIFEST_MIN_COUNT: Final = _table.add("commit.manifest.min-count-to-merge", integer(0), 100, used_by="commit")
MANIFEST_MERGE: Final = _table.add("commit.manifest-merge.enabled", BOOLEAN, True, used_by="commit")
MANIFEST_CODEC: Final = _table.add(
    "write.manifest.compression-codec", choice("gzip", "zstd", "snappy", "uncompressed"), "gzip", used_by="commit"
)
MANIFEST_LEVEL: Final = _table.add("write.manifest.compression-level", integer(), used_by="commit")
SUMMARY_PARTITION_LIMIT: Final = _table.add("write.summary.partition-limit", integer(), 0, used_by="commit")
METADATA_CODEC: Final = _table.add(
    "write.metadata.compression-codec", choice("none", "gzip"), "none", used_by="catalog"
)
METADATA_DELETE_AFTER_COMMIT: Final = _table.add(
    "write.metadata.delete-after-commit.enabled", BOOLEAN, False, used_by="catalog"
)
METADATA_PREVIOUS_VERSIONS_MAX: Final = _table.add(
    "write.metadata.previous-versions-max", integer(), 100, used_by="spec",
    note="the number of entries in the metadata log",
)  # fmt: skip
MAX_SNAPSHOT_AGE_MS: Final = _table.add(
    "history.expire.max-snapshot-age-ms", integer(), 5 * _DAY_MS, used_by="spec, commit"
)
MIN_SNAPSHOTS_TO_KEEP: Final = _table.add("history.expire.min-snapshots-to-keep", integer(), 1, used_by="spec")
MAX_REF_AGE_MS: Final = _table.add("history.expire.max-ref-age-ms", integer(), 2**63 - 1, used_by="spec")
GC_ENABLED: Final = _table.add(
    "gc.enabled", BOOLEAN, True, used_by="spec, catalog", note="false: other tables may use the table's files"
)


# schemas, names and compatibility -----------------------------------------------------------------------------------

NAME_MAPPING: Final = _table.add(
    "schema.name-mapping.default", TEXT, used_by="arrow, commit, table, spark, spec",
    note="JSON: the column ids for files without ids",
)  # fmt: skip
FORMAT_VERSION: Final = _table.add(
    "format-version", integer(), used_by="spec, table, spark", note="not stored: setting it upgrades the table"
)
COMMENT: Final = _table.add("comment", TEXT, used_by="spark")
_table.ignore("identifier-fields.rely", BOOLEAN, "Floe reports no keys to Spark", no_effect=("false",))
_table.ignore(
    "compatibility.snapshot-id-inheritance.enabled", BOOLEAN,
    "the manifests of a table of format version 1 always contain the ids of their snapshots", no_effect=("false",),
)  # fmt: skip
ENCRYPTION_PREFIX: Final = "encryption."
ENCRYPTION_KEY: Final = "encryption.key-id"
ENCRYPTION_PROPERTIES: Final = frozenset({ENCRYPTION_KEY, "encryption.data-key-length"})
"""The properties of table encryption, which came with format version 3."""

_table.refuse(f"{ENCRYPTION_PREFIX}*", TEXT, "tables cannot be encrypted yet")
_table.store("engine.hive.enabled", BOOLEAN, "for Hive")
_table.store("engine.hive.lock-enabled", BOOLEAN, "for Hive catalogs")

RESERVED_PROPERTIES: Final = frozenset(
    {
        FORMAT_VERSION.name,
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)
"""Names under which catalogs show the state of a table as properties; they are never stored in metadata."""

COLUMN_PROPERTIES: Final = (METRICS_COLUMN, PARQUET_BLOOM_FILTER, PARQUET_STATISTICS)
"""Properties of columns that follow a column when it is renamed or dropped."""

LOCATION_PROPERTIES: Final = (DATA_PATH, METADATA_PATH, FOLDER_STORAGE_PATH, OBJECT_STORAGE_PATH)
"""Properties that name folders of a table."""


# views --------------------------------------------------------------------------------------------------------------

VIEW_HISTORY_SIZE: Final = _view.add(
    "version.history.num-entries", integer(1), 10, used_by="spec", note="the number of versions of a view that are kept"
)
VIEW_DROP_DIALECT: Final = _view.add(
    "replace.drop-dialect.allowed", BOOLEAN, False, used_by="spec", note="whether a new version may drop an SQL dialect"
)
VIEW_METADATA_PATH: Final = _view.add("write.metadata.path", TEXT, used_by="catalog")
VIEW_METADATA_CODEC: Final = _view.add(
    "write.metadata.compression-codec", choice("none", "gzip"), "gzip", used_by="catalog"
)
VIEW_GC_ENABLED: Final = _view.add(
    "gc.enabled", BOOLEAN, True, used_by="catalog", note="true: dropping the view deletes its metadata file"
)


# checks -------------------------------------------------------------------------------------------------------------

WRITE_PREFIX: Final = "write."
"""The prefix of the properties that a single write may override."""

_ICEBERG_PREFIXES: Final = (WRITE_PREFIX, "read.", "commit.", "history.", "compatibility.", "gc.")
_SIMILAR_PREFIXES: Final = (*_ICEBERG_PREFIXES, ENCRYPTION_PREFIX, "format-", "schema.")


def check_properties(properties: Mapping[str, str]) -> None:
    """Check table properties that are being set.

    Raises for a property that is refused or has an invalid value; warns of one that is ignored, and of an unknown one
    whose name begins like Iceberg's.

    >>> check_properties({"write.format.default": "csv"})
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: the property write.format.default must be one of parquet, avro, orc, found 'csv' ...
    """
    for name, value in properties.items():
        if not isinstance(value, str):
            raise InvalidUpdate(f"the property {name} must be text, found {value!r:.80}", property=name)
        if TABLE_PROPERTIES.check(name, value, warn=warn_ignored) is None:
            _warn_unknown(name)


def _warn_unknown(name: str) -> None:
    if not name.startswith(_SIMILAR_PREFIXES):
        return
    similar = TABLE_PROPERTIES.suggest(name)
    if similar is not None:
        warn_ignored(f"the property {name} has no effect: Iceberg has no such property; did you mean {similar}?")
    elif name.startswith(_ICEBERG_PREFIXES) and not _is_file_format(_format_of(name)):
        warn_ignored(f"the property {name} has no effect: neither Iceberg nor Floe has such a property")


def _format_of(name: str) -> str:
    """The file format that the name of a property may contain: `lance` in `write.delete.lance.page-size`."""
    return name.removeprefix("write.delete.").removeprefix(WRITE_PREFIX).partition(".")[0]


def stored_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties without the reserved ones.

    >>> stored_properties({"format-version": "3", "comment": "mine"})
    {'comment': 'mine'}
    """
    return {name: value for name, value in properties.items() if name not in RESERVED_PROPERTIES}
