"""Every table property with a meaning in Iceberg, and what becomes of it here: nothing is taken and passed over unsaid.

| state | meaning |
|---|---|
| works | Floe does what it says |
| warns | kept for other engines; who sets it is told once, in a sentence, what Floe does instead |
| refused | an error when it is set, since doing something else would be wrong |
| kept | of concern to other engines alone |

Values are looked at when they are set, not when a write fails by them later. Other properties are the user's own, and
mean nothing; but one that looks like a misspelt one of these is told.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal

from floe.errors import IgnoredSetting, InvalidUpdate, UnsupportedFeature

__all__ = [
    "BOOLEAN",
    "FRACTION",
    "TABLE_PROPERTIES",
    "TEXT",
    "Known",
    "Values",
    "check_properties",
    "find",
    "number",
    "one_of",
    "suggestion",
    "warn_of",
]

State = Literal["works", "warns", "refused", "kept"]
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
_METRICS: Final = re.compile(r"none|counts|full|truncate\(\s*0*[1-9][0-9]{0,8}\s*\)")
_COLUMN: Final = "*"


@dataclass(frozen=True, slots=True)
class Values:
    """What a setting can be: in words, and whether a text is one."""

    described: str
    accepts: Callable[[str], bool]


TEXT: Final = Values("text", lambda text: True)
BOOLEAN: Final = Values("true or false", lambda text: text.lower() in ("true", "false"))


def one_of(*names: str) -> Values:
    """One of some words, in any case.

    >>> one_of("none", "hash").accepts("Hash"), one_of("none", "hash").described
    (True, 'one of none, hash')
    """
    return Values(f"one of {', '.join(names)}", lambda text: text.lower() in names)


def number(least: int | None = None) -> Values:
    """A whole number, not below the least one.

    >>> number(1).accepts("0"), number(1).described
    (False, 'a whole number from 1 on')
    """
    described = "a whole number" if least is None else f"a whole number from {least} on"
    return Values(described, lambda text: bool(_WHOLE.fullmatch(text)) and (least is None or int(text) >= least))


def _between_0_and_1(text: str) -> bool:
    try:
        return 0 < float(text) < 1
    except ValueError:
        return False


FRACTION: Final = Values("a number between 0 and 1", _between_0_and_1)


@dataclass(frozen=True, slots=True)
class Known:
    """A setting that Iceberg documents; a name that ends with `*` stands for all that begin so."""

    name: str
    state: State = "works"
    values: Values = TEXT
    note: str = ""
    """What happens instead, or why it is refused; with `works`, what there is to know."""

    harmless: tuple[str, ...] = ()
    """The values that ask for just what happens anyway."""


def find(known: Mapping[str, Known], name: str) -> Known | None:
    """What is known of a name.

    >>> find(TABLE_PROPERTIES, "write.metadata.metrics.column.id").name
    'write.metadata.metrics.column.*'
    """
    found = known.get(name)
    if found is None and "." in name:
        found = next((one for key, one in known.items() if key[-1] == _COLUMN and name.startswith(key[:-1])), None)
    return found


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """The known name that a name may have been meant to be.

    >>> suggestion("write.target-file-size", TABLE_PROPERTIES)
    'write.target-file-size-bytes'
    """
    near = get_close_matches(name, [one for one in known if one[-1] != _COLUMN], n=1, cutoff=0.86)
    return near[0] if near else None


def warn_of(message: str) -> None:
    """Tell the user of a setting that is not acted on."""
    warnings.warn(message, IgnoredSetting, stacklevel=2)


def check_properties(given: Mapping[str, str]) -> None:
    """Raise for a property that is refused or has a value that cannot be; warn of those that are not acted on.

    >>> check_properties({"write.format.default": "csv"})
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: write.format.default is one of parquet, avro, orc, found 'csv' ...
    """
    for name, value in given.items():
        found = find(TABLE_PROPERTIES, name)
        if not isinstance(value, str):
            raise InvalidUpdate(f"property {name} must be text, found {value!r:.80}", property=name)
        if found is None:
            near = suggestion(name, TABLE_PROPERTIES) if name.startswith(_OURS) else None
            if near is not None:
                warn_of(f"the property {name} means nothing to Iceberg; did you mean {near}?")
            continue
        if found.state == "refused":
            raise UnsupportedFeature(f"the property {name} cannot be set: {found.note}", property=name)
        if not found.values.accepts(value):
            raise InvalidUpdate(f"{name} is {found.values.described}, found {value!r:.80}", property=name)
        if found.state == "warns" and value.lower() not in found.harmless:
            warn_of(f"{name}={value:.80} is kept in the table, and Floe does not act on it: {found.note}")


_OURS: Final = ("write.", "read.", "commit.", "history.", "compatibility.", "gc.", "encryption.", "format-", "schema.")

_FORMATS: Final = one_of("parquet", "avro", "orc")
_MODES: Final = one_of("copy-on-write", "merge-on-read")
_LEVELS: Final = one_of("serializable", "snapshot")
_DISTRIBUTIONS: Final = one_of("none", "hash", "range")
_PLANNING: Final = one_of("auto", "local", "distributed")
_PARQUET_CODECS: Final = one_of("zstd", "gzip", "snappy", "brotli", "lz4", "lz4_raw", "uncompressed", "none")
_AVRO_CODECS: Final = one_of("gzip", "zstd", "snappy", "uncompressed", "deflate", "none")
_ORC_CODECS: Final = one_of("zlib", "zstd", "snappy", "lz4", "none")
_METRICS_MODES: Final = Values(
    "none, counts, truncate(n) with n above 0, or full", lambda text: bool(_METRICS.fullmatch(text.strip().lower()))
)
_PAGE_VERSIONS: Final = one_of("v1", "v2", "parquet_1_0", "parquet_2_0")
_ON_DRIVER: Final = "the driver plans all reads"
_ALWAYS_BATCHES: Final = "ORC files are always read in batches by the Arrow reader"
_CHECKS: Final = "row groups are cut by the bytes that were written, whatever the number of rows between looks"


def _file_properties(prefix: str) -> Iterable[Known]:
    """What data files and delete files both have, under prefixes of their own."""
    yield Known(f"{prefix}parquet.compression-codec", values=_PARQUET_CODECS)
    yield Known(f"{prefix}parquet.compression-level", values=number())
    for name in ("row-group-size-bytes", "row-group-limit", "page-size-bytes", "page-row-limit", "dict-size-bytes"):
        yield Known(f"{prefix}parquet.{name}", values=number(1))
    yield Known(f"{prefix}parquet.page-version", values=_PAGE_VERSIONS)
    for name in ("row-group-check-min-record-count", "row-group-check-max-record-count"):
        yield Known(f"{prefix}parquet.{name}", "warns", number(1), _CHECKS)
    yield Known(f"{prefix}avro.compression-codec", values=_AVRO_CODECS)
    yield Known(f"{prefix}avro.compression-level", values=number())
    yield Known(f"{prefix}orc.compression-codec", values=_ORC_CODECS)
    yield Known(f"{prefix}orc.compression-strategy", values=one_of("speed", "compression"))
    yield Known(f"{prefix}orc.stripe-size-bytes", values=number(1))
    yield Known(f"{prefix}orc.vectorized.batch-size", values=number(1))
    yield Known(
        f"{prefix}orc.block-size-bytes", "warns", number(1), "stripes are not aligned with blocks of a file system"
    )


_ALL: Final = (
    # read
    Known("read.split.target-size", values=number(1)),
    Known("read.split.metadata-target-size", "warns", number(1), "the driver makes the rows of metadata tables"),
    Known("read.split.planning-lookback", values=number(1)),
    Known("read.split.open-file-cost", values=number(0)),
    Known("read.split.adaptive-size.enabled", values=BOOLEAN),
    Known(
        "read.parquet.vectorization.enabled", "warns", BOOLEAN,
        "Spark's own setting spark.sql.parquet.enableVectorizedReader says how Parquet files are read", ("true",),
    ),
    Known(
        "read.parquet.vectorization.batch-size", "warns", number(1),
        "Spark's own setting spark.sql.parquet.columnarReaderBatchSize says how many rows a batch has",
    ),
    Known("read.orc.vectorization.enabled", "warns", BOOLEAN, _ALWAYS_BATCHES, ("true",)),
    Known("read.orc.vectorization.batch-size", "warns", number(1), _ALWAYS_BATCHES),
    Known("read.parquet.page-checksum-verification.enabled", values=BOOLEAN),
    Known("read.data-planning-mode", "warns", _PLANNING, _ON_DRIVER, ("auto", "local")),
    Known("read.delete-planning-mode", "warns", _PLANNING, _ON_DRIVER, ("auto", "local")),
    # write
    Known("write.format.default", values=_FORMATS),
    Known("write.delete.format.default", values=_FORMATS),
    *_file_properties("write."),
    *_file_properties("write.delete."),
    Known(
        "write.parquet.row-group-size-track-uncompressed", "warns", BOOLEAN,
        "the size of a row group is that of its compressed bytes", ("false",),
    ),
    Known("write.parquet.shred-variants", "warns", BOOLEAN, "variants are written unshredded", ("false",)),
    Known("write.parquet.variant-inference-buffer-size", "warns", number(1), "variants are written unshredded"),
    Known("write.parquet.bloom-filter-enabled.column.*", values=BOOLEAN),
    Known("write.parquet.bloom-filter-max-bytes", values=number(1)),
    Known("write.parquet.bloom-filter-fpp.column.*", values=FRACTION),
    Known("write.parquet.bloom-filter-ndv.column.*", values=number(1)),
    Known(
        "write.parquet.bloom-filter-adaptive-enabled", "warns", BOOLEAN,
        "a Bloom filter is as large as its rate of false positives and write.parquet.bloom-filter-max-bytes say",
        ("false",),
    ),
    Known("write.parquet.stats-enabled.column.*", values=BOOLEAN),
    Known("write.parquet.dict-encoding-enabled.column.*", values=BOOLEAN),
    Known("write.orc.bloom.filter.columns"),
    Known("write.orc.bloom.filter.fpp", values=FRACTION),
    Known(
        "write.location-provider.impl", "warns", TEXT,
        "a class of Java's cannot be run; files are placed by write.data.path and write.object-storage.enabled",
    ),
    Known("write.metadata.compression-codec", values=one_of("none", "gzip")),
    Known("write.metadata.metrics.max-inferred-column-defaults", values=number(0)),
    Known("write.metadata.metrics.default", values=_METRICS_MODES),
    Known("write.metadata.metrics.column.*", values=_METRICS_MODES),
    Known("write.target-file-size-bytes", values=number(1)),
    Known("write.delete.target-file-size-bytes", values=number(1)),
    Known("write.distribution-mode", values=_DISTRIBUTIONS),
    *(Known(f"write.{what}.distribution-mode", values=_DISTRIBUTIONS) for what in ("delete", "update", "merge")),
    *(Known(f"write.{what}.mode", values=_MODES) for what in ("delete", "update", "merge")),
    *(Known(f"write.{what}.isolation-level", values=_LEVELS) for what in ("delete", "update", "merge")),
    Known("write.delete.granularity", values=one_of("partition", "file")),
    Known("write.wap.enabled", values=BOOLEAN),
    Known("write.summary.partition-limit", values=number()),
    Known("write.metadata.delete-after-commit.enabled", values=BOOLEAN),
    Known("write.metadata.previous-versions-max", values=number()),
    Known("write.spark.fanout.enabled", values=BOOLEAN, note="rows need never be clustered, with bounded memory"),
    Known("write.spark.accept-any-schema", values=BOOLEAN),
    Known(
        "write.spark.advisory-partition-size-bytes", "warns", number(1),
        "tasks get about write.target-file-size-bytes of rows",
    ),
    Known(
        "write.spark.auto-schema-evolution.enabled", "warns", BOOLEAN,
        "columns are added by the write option mergeSchema and by WITH SCHEMA EVOLUTION", ("false",),
    ),
    Known("write.conflict.retries", values=number(0)),
    Known("write.wap.branch"),
    Known("write.object-storage.enabled", values=BOOLEAN),
    Known("write.object-storage.partitioned-paths", values=BOOLEAN),
    *(Known(name) for name in ("write.data.path", "write.object-storage.path", "write.folder-storage.path")),
    Known("write.metadata.path"),
    Known("write.manifest.compression-codec", values=one_of("gzip", "zstd", "snappy", "uncompressed")),
    Known("write.manifest.compression-level", values=number()),
    Known("encryption.*", "refused", note="tables cannot be encrypted yet"),
    # behaviour
    *(
        Known(f"commit.{what}.{name}", values=number(0))
        for what in ("retry", "status-check")
        for name in ("num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms")
    ),
    Known("commit.manifest.target-size-bytes", values=number(1)),
    Known("commit.manifest.min-count-to-merge", values=number(0)),
    Known("commit.manifest-merge.enabled", values=BOOLEAN),
    Known("history.expire.max-snapshot-age-ms", values=number()),
    Known("history.expire.min-snapshots-to-keep", values=number()),
    Known("history.expire.max-ref-age-ms", values=number()),
    Known("gc.enabled", values=BOOLEAN),
    Known("schema.name-mapping.default"),
    Known("identifier-fields.rely", "warns", BOOLEAN, "Spark is told of no keys", ("false",)),
    # reserved: not stored
    Known("format-version", note="not stored: it upgrades the table"),
    # information and compatibility
    Known("comment"),
    Known(
        "compatibility.snapshot-id-inheritance.enabled", "warns", BOOLEAN,
        "manifests of a table of version 1 always have the ids of their snapshots in them", ("false",),
    ),
    # of concern to others
    Known("engine.hive.enabled", "kept", BOOLEAN, "for Hive"),
    Known("engine.hive.lock-enabled", "kept", BOOLEAN, "for Hive catalogs"),
    Known("write.upsert.enabled", "kept", BOOLEAN, "for Flink"),
)  # fmt: skip

TABLE_PROPERTIES: Final[Mapping[str, Known]] = {one.name: one for one in _ALL}
"""Every table property of Iceberg, and those of Floe."""
