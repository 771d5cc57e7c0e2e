"""A read that Spark's Parquet reader cannot carry out alone, as a plan in which it does most of the work.

Files with position deletes or deletion vectors are read by it together with a set of bits for each file, and a filter
in generated code tests the bit of each row. `_partition`, `_deleted` and the columns of row lineage are made in a
projection of what is the same in all rows of a file. The files that it cannot read (other formats, equality deletes,
very many deletes) are read by the Arrow reader, and both parts are put together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from floe.errors import InvalidInput
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import Expressions, Plans
from floe.spark.columns import spark_schema, spark_type
from floe.spark.scan.constants import BITS, FIRST_ROW_ID, SEQUENCE_NUMBER, partition_constant
from floe.spark.scan.deleted_rows import within_budget
from floe.spark.scan.files import PlannedFiles
from floe.spark.scan.native import native_columns, why_not_columns
from floe.spark.scan.parts import ArrowPart, NativePart, Others
from floe.spec.schemas.metadata_columns import DELETED, LAST_UPDATED_SEQUENCE_NUMBER, PARTITION_ID, POS, ROW_ID
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, Field

if TYPE_CHECKING:
    from floe.spark.scan.scan import TableScan

__all__ = ["rewritten_read"]

MOST_DELETES: Final = "spark.sql.floe.most-deletes-on-driver"
"""How many bytes the deleted positions of a read may take on the driver; files with more are read in workers."""

_MOST_DELETES: Final = 32 * 2**20
_MOST_ROWS: Final = 2**31 - 64
_LINEAGE: Final = frozenset({ROW_ID.id, LAST_UPDATED_SEQUENCE_NUMBER.id})
_MADE: Final = frozenset({DELETED.id, PARTITION_ID, *_LINEAGE})


def rewritten_read(scan: TableScan, node: Any) -> Any:
    """The plan to put in the place of a read; the node itself if Spark's reader can read nothing of it."""
    asked = scan.asked
    if scan.unreachable or why_not_columns(scan.source.table.metadata, asked, above=True):
        return node
    files = scan.files
    others = _others(scan, files, asked)
    if len(others.paths) == len(files):
        return node
    natively = files.among(others.paths, inside=False)
    made = _Native(scan, node, has_bits=bool(natively.with_deletes(equality=False).any())).plan(others)
    if not others.paths:
        return made
    plans = Plans(scan.jvm)
    part = ArrowPart(scan, others)
    return plans.union(made, plans.scan_relation(node, part, plans.attributes(spark_schema(scan.columns.fields))))


def _others(scan: TableScan, files: PlannedFiles, asked: Schema) -> Others:
    """The files that the Arrow reader has to read."""
    formats = files.table["file_format"].to_numpy(zero_copy_only=False)
    reasons = {f"{name} files": formats == name for name in sorted(set(formats) - {"parquet"})}
    reasons["equality deletes"] = files.with_deletes(equality=True)
    reasons["very many rows"] = files.record_counts > _MOST_ROWS
    if _LINEAGE & {field.id for field in asked.fields}:
        reasons["rows without ids"] = files.table["first_row_id"].is_null().to_numpy()
    reasons["very many deletes"] = ~within_budget(files, _budget(scan.jvm), scan.split_size)
    chosen = np.zeros(len(files), np.bool_)
    for found in reasons.values():
        chosen |= found
    why = " and ".join(name for name, found in reasons.items() if found.any())
    return Others(frozenset(files.keeping(chosen).table["file_path"].to_pylist() if chosen.any() else ()), why)


def _budget(jvm: Jvm) -> int:
    """How many bytes of deleted positions the driver may hold."""
    found = jvm.setting(MOST_DELETES, str(_MOST_DELETES))
    if not found.strip().isdigit():
        raise InvalidInput(f"{MOST_DELETES} is a number of bytes, found {found!r}")
    return int(found)


class _Native:
    """Makes the part of the plan that Spark's reader reads."""

    def __init__(self, scan: TableScan, node: Any, *, has_bits: bool) -> None:
        self._scan, self._node, self._has_bits = scan, node, has_bits
        self._jvm: Jvm = scan.jvm
        self._plans, self._expressions = Plans(scan.jvm), Expressions(scan.jvm)
        self._asked = {field.id: field for field in scan.asked.fields}
        self._output = self._plans.output(node)
        self._given = {field.id: one for field, one in zip(scan.columns.fields, self._output, strict=True)}

    def plan(self, others: Others) -> Any:
        """The part, with the output of the node."""
        read = (*(field for field in self._asked.values() if field.id not in _MADE), *self._added())
        columns = native_columns(self._scan.source.table.metadata, Schema(read))
        fresh = [field for field in columns.fields if field.id not in self._asked or field.id in _MADE]
        made = dict(zip([field.id for field in fresh], self._plans.attributes(spark_schema(fresh)), strict=True))
        self._read = {field.id: made.get(field.id) or self._given[field.id] for field in columns.fields}
        part = NativePart(self._scan, others, columns)
        plan = self._plans.scan_relation(self._node, part, [self._read[field.id] for field in columns.fields])
        if self._has_bits and DELETED.id not in self._asked:
            plan = self._plans.filter(self._is_live(), plan)
        return self._plans.project([self._column(field, one) for field, one in self._outputs()], plan)

    def _outputs(self) -> Iterable[tuple[Field, Any]]:
        return zip(self._scan.columns.fields, self._output, strict=True)

    def _added(self) -> Iterable[Field]:
        """The columns that are read for others to be made of them."""
        asked = self._asked
        if POS.id not in asked and (self._has_bits or ROW_ID.id in asked):
            yield POS
        if self._has_bits:
            yield BITS
        if ROW_ID.id in asked:
            yield from (ROW_ID, FIRST_ROW_ID)
        if LAST_UPDATED_SEQUENCE_NUMBER.id in asked:
            yield from (LAST_UPDATED_SEQUENCE_NUMBER, SEQUENCE_NUMBER)
        if PARTITION_ID in asked:
            yield from filter(None, map(partition_constant, asked[PARTITION_ID].type.fields))

    def _column(self, field: Field, attribute: Any) -> Any:
        """A column of the output."""
        made = self._expressions
        if field.id not in self._asked:  # a column that was read to count rows
            return made.alias(made.null(attribute.dataType()), attribute)
        match field.id:
            case DELETED.id:
                gone = made.made("Not", self._is_live()) if self._has_bits else made.literal("false")
                return made.alias(gone, attribute)
            case ROW_ID.id:
                counted = self._math("addExact", "long", self._read[FIRST_ROW_ID.id], self._read[POS.id])
                return made.alias(self._first(self._read[ROW_ID.id], counted), attribute)
            case LAST_UPDATED_SEQUENCE_NUMBER.id:
                return made.alias(self._first(self._read[field.id], self._read[SEQUENCE_NUMBER.id]), attribute)
            case _ if field.id == PARTITION_ID:
                parts = {one.name: self._partition(one) for one in field.type.fields}
                return made.alias(made.struct(parts), attribute)
            case _:
                return attribute

    def _is_live(self) -> Any:
        """Whether the bit of a row is not set; rows behind the last word have none."""
        made, jvm = self._expressions, self._jvm
        bits, place = self._read[BITS.id], self._math("toIntExact", "integer", self._read[POS.id])
        three, five, two = made.literal("3"), made.literal("5"), made.literal("2")
        behind = made.made("GreaterThanOrEqual", made.made("ShiftRight", place, three), made.made("OctetLength", bits))
        where = made.made("ShiftLeft", made.made("ShiftRight", place, five), two)
        word = made.call("org.apache.parquet.bytes.BytesUtils", "readIntLittleEndian", "integer", bits, where)
        bit = made.made("BitwiseAnd", made.made("ShiftRight", word, place), made.literal("1"))
        return jvm.sql("catalyst.expressions.Or")(behind, made.made("EqualTo", bit, made.literal("0")))

    def _math(self, method: str, type_: str, *arguments: Any) -> Any:
        return self._expressions.call("java.lang.Math", method, type_, *arguments)

    def _first(self, *values: Any) -> Any:
        """The first that is not null."""
        return self._expressions.made("Coalesce", self._jvm.seq(values))

    def _partition(self, field: Field) -> Any:
        """A field of `_partition`, of what carries it."""
        made, constant = self._expressions, partition_constant(field)
        if constant is None:
            return made.null(self._jvm.data_type(spark_type(field.type)))
        carried = self._read[constant.id]
        match field.type.kind:
            case "boolean":
                return made.made("EqualTo", carried, made.literal("1"))
            case "float":
                return made.call("java.lang.Float", "intBitsToFloat", "float", carried, nullable=True)
            case "double":
                return made.call("java.lang.Double", "longBitsToDouble", "double", carried, nullable=True)
            case "decimal":
                assert isinstance(field.type, DecimalType)
                precision, scale = made.literal(str(field.type.precision)), made.literal(str(field.type.scale))
                type_ = self._jvm.data_type(spark_type(field.type))
                kind = "org.apache.spark.sql.types.Decimal"
                return made.call(kind, "createUnsafe", type_, carried, precision, scale, nullable=True)
            case _:
                return carried
