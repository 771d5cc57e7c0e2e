"""The parts of a read that has been rewritten: files for Spark's reader, and files for the Arrow reader."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from floe.spark.bridge.interfaces.scans import Batch, SupportsReportStatistics, SupportsRuntimeV2Filtering
from floe.spark.bridge.rules import Rewritable
from floe.spark.columns import spark_schema
from floe.spark.scan.constants import BITS
from floe.spark.scan.deleted_keys import Scopes
from floe.spark.scan.deleted_rows import bit_sets
from floe.spark.scan.files import PlannedFiles
from floe.spark.scan.native import NativeColumns
from floe.spark.scan.readers import arrow_factory, arrow_partitions, columnar_mode, native_factory, native_partitions
from floe.spark.scan.source import Source
from floe.spec.expressions.nodes import Expression
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field

if TYPE_CHECKING:
    from floe.spark.scan.scan import TableScan

__all__ = ["ArrowPart", "NativePart", "ReadPart", "Share"]


class Share:
    """Which files of a read are in a part: decided once, whatever filters come later."""

    def __init__(self, paths: frozenset[str], *, inside: bool = True) -> None:
        self.paths = paths
        self._inside = inside

    def key(self) -> Any:
        """What makes two shares the same."""
        return (self.paths, self._inside)

    def of(self, files: PlannedFiles) -> PlannedFiles:
        """Those of the files that are in the part."""
        return files.among(self.paths, inside=self._inside)


class ReadPart(SupportsReportStatistics, Batch):
    """Files that are read in one way."""

    def __init__(self, whole: TableScan, fields: tuple[Field, ...]) -> None:
        super().__init__(whole.jvm)
        self._whole, self._fields = whole, fields

    def readSchema(self) -> Any:
        """The columns that come."""
        return self.jvm.data_type(spark_schema(self._fields))

    def toBatch(self) -> Any:
        """The read itself."""
        return self

    def columnarSupportMode(self) -> Any:
        """Whether rows come in columns."""
        return self._columnar

    @cached_property
    def _columnar(self) -> Any:
        return columnar_mode(self.jvm, self._factory)

    def createReaderFactory(self) -> Any:
        """Who reads the parts."""
        return self._factory

    @cached_property
    def _factory(self) -> Any:
        raise NotImplementedError


class ScanPart(ReadPart, SupportsRuntimeV2Filtering, Rewritable):
    """Some files of a read; what the query finds out is told to the whole."""

    def __init__(self, whole: TableScan, share: Share, fields: tuple[Field, ...]) -> None:
        super().__init__(whole, fields)
        self._share = share

    def key(self) -> Any:
        """The same part of the same read is the same to Spark."""
        return (self._whole.key(), self._fields, self._share.key())

    @property
    def source(self) -> Source:
        """What is read."""
        return self._whole.source

    @property
    def looked_at(self) -> Expression:
        """The rows that are looked at, at most."""
        return self._whole.looked_at

    @property
    def _files(self) -> PlannedFiles:
        return self._share.of(self._whole.files)

    def estimateStatistics(self) -> Any:
        """Rows and bytes, before filters within files."""
        return self._whole.statistics(self._files, self._fields)

    def filterAttributes(self) -> Any:
        """The columns for which filters at run time are of use."""
        return self._whole.filterAttributes()

    def filter(self, predicates: Any) -> None:
        """Plan again with what the query has found out."""
        self._whole.filter(predicates)


class NativePart(ScanPart):
    """Files that Spark's reader reads, with the columns of which deletes and metadata columns are made above it."""

    def __init__(
        self, whole: TableScan, share: Share, columns: NativeColumns, *, scopes: Scopes | None = None, joined: str = ""
    ) -> None:
        super().__init__(whole, share, columns.fields)
        self._columns, self._scopes, self._joined = columns, scopes, joined
        self._bits: dict[str, bytes] = {}

    def description(self) -> str:
        """The table, its state, the files, and how deletes are applied, in words."""
        files = self._files
        deletes = int(files.with_positions.sum()) if BITS in self._columns.constants else 0
        how = [f"files with deleted rows: {deletes}, tested in generated code"] if deletes else []
        if self._joined:
            how.append(f"joined with {self._joined}")
        return self._whole.described(len(files), "read by Spark's Parquet reader", *how)

    def planInputPartitions(self) -> Any:
        """The files in parts, packed into partitions; each file takes along which of its rows are deleted."""
        files, source = self._files, self._whole.source
        self._whole.began(self, files)
        bits = self._deleted(files) if BITS in self._columns.constants else None
        table = files.table if self._scopes is None else self._scopes.added_to(files.table)
        return native_partitions(self.jvm, table, source.storage, self._columns, self._whole.splits, bits)

    def _deleted(self, files: PlannedFiles) -> dict[str, bytes]:
        """The deleted rows; filters at run time only leave out files, so what has been read is kept."""
        if not self._bits:
            source = self._whole.source
            self._bits = dict(bit_sets(files, source.table.metadata, source.storage))
        return self._bits

    @cached_property
    def _factory(self) -> Any:
        return native_factory(self.jvm, self._columns, self._whole.pushed)


class ArrowPart(ScanPart):
    """The other files, which the Arrow reader reads in workers, with their deletes."""

    def __init__(self, whole: TableScan, share: Share, why: str) -> None:
        super().__init__(whole, share, whole.columns.fields)
        self._why = why

    def description(self) -> str:
        """The table, its state, the files, and why they are read in this way, in words."""
        return self._whole.described(len(self._files), f"read by Arrow reader, for {self._why}")

    def planInputPartitions(self) -> Any:
        """The files in parts, packed into partitions."""
        files = self._files
        self._whole.began(self, files)
        return arrow_partitions(self.jvm, files, self._whole.splits)

    @cached_property
    def _factory(self) -> Any:
        return arrow_factory(self.jvm, self._whole.source, Schema(self._fields))
