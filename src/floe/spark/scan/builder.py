"""A read that is being put together: Spark tells the columns, the filters, the limit and the aggregates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from floe.spark.bridge.interfaces import (
    SupportsPushDownLimit,
    SupportsPushDownRequiredColumns,
    SupportsPushDownV2Filters,
)
from floe.spark.bridge.jvm import Jvm
from floe.spark.scan.predicates import Translated, translate
from floe.spark.scan.projection import projected
from floe.spark.scan.scan import TableScan
from floe.spark.scan.source import Source
from floe.spec.expressions.nodes import TRUE, and_
from floe.spec.partitioning.partition_spec import unified_partition_type
from floe.spec.schemas.schema import Schema

__all__ = ["TableScanBuilder"]

_PREDICATE = "org.apache.spark.sql.connector.expressions.filter.Predicate"


class TableScanBuilder(SupportsPushDownRequiredColumns, SupportsPushDownV2Filters, SupportsPushDownLimit):
    """Puts a read of a table together."""

    def __init__(self, jvm: Jvm, source: Source) -> None:
        super().__init__(jvm)
        self._source = source
        self._wanted: Schema = source.schema
        self._pushed: list[tuple[Any, Translated]] = []
        self._limit: int | None = None

    def pruneColumns(self, schema: Any) -> None:
        """Read these columns, and of structs these parts."""
        metadata = self._source.table.metadata
        partitions = unified_partition_type(metadata.partition_specs, metadata.schemas)
        self._wanted = projected(self._source.schema, self.jvm.read_data_type(schema), partitions)

    def pushPredicates(self, predicates: Any) -> Any:
        """Leave out files by these; Spark checks the rows."""
        sensitive = self.jvm.is_case_sensitive
        found = [(p, translate(self.jvm, p, self._source.schema, case_sensitive=sensitive)) for p in predicates]
        self._pushed = [(predicate, made) for predicate, made in found if made.filter is not TRUE]
        return predicates

    def pushedPredicates(self) -> Any:
        """Those that leave out files."""
        return self.jvm.array(_PREDICATE, [predicate for predicate, _ in self._pushed])

    def pushLimit(self, limit: int) -> bool:
        """So many rows are enough."""
        self._limit = limit
        return True

    def build(self) -> Any:
        """The read."""
        return TableScan(
            self.jvm,
            self._source,
            self._wanted,
            and_(*(made.filter for _, made in self._pushed)),
            predicates=[predicate for predicate, _ in self._pushed],
            limit=self._limit,
        )


def options_of(jvm: Jvm, options: Any) -> Mapping[str, str]:
    """The options of a read, by names in lower case."""
    return {name.lower(): value for name, value in jvm.read_map(options.asCaseSensitiveMap()).items()}
