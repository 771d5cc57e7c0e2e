"""The part of a read that Spark's Parquet reader reads, as a plan that makes of its columns what was asked for.

Files with position deletes or deletion vectors are read together with a set of bits for each file, and a filter in
generated code tests the bit of each row. Rows that equality deletes have deleted are taken out by joins. `_partition`,
`_deleted` and the columns of row lineage are made in a projection of what is the same in all rows of a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from floe.arrow.reading.extra_columns import with_columns
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import Expressions, Plans
from floe.spark.columns import spark_schema, spark_type
from floe.spark.scan.constants import BITS, FIRST_ROW_ID, SCOPE, SEQUENCE_NUMBER, partition_constant
from floe.spark.scan.deleted_keys import DeletedKeys, Scopes, compared_columns
from floe.spark.scan.files import PlannedFiles
from floe.spark.scan.key_joins import KeyJoins
from floe.spark.scan.native import native_columns
from floe.spark.scan.parts import NativePart, Share
from floe.spec.schemas.metadata_columns import DELETED, LAST_UPDATED_SEQUENCE_NUMBER, PARTITION_ID, POS, ROW_ID
from floe.spec.schemas.schema import Schema
from floe.spec.types import BOOLEAN, DecimalType, Field, Type

if TYPE_CHECKING:
    from floe.spark.scan.scan import TableScan

__all__ = ["NativePlan"]

_MADE: Final = frozenset({DELETED.id, PARTITION_ID, ROW_ID.id, LAST_UPDATED_SEQUENCE_NUMBER.id})
_EXISTS: Final = Field(-5, "_has_deleted_key", BOOLEAN, required=True)


class NativePlan:
    """Makes the plan of some files; `keys` are their equality deletes."""

    def __init__(
        self, scan: TableScan, node: Any, files: PlannedFiles, share: Share, keys: Sequence[DeletedKeys]
    ) -> None:
        self._scan, self._node, self._share, self._keys = scan, node, share, keys
        self._has_bits = bool(files.with_positions.any())
        self._scopes = None if all(one.everywhere for one in keys) else Scopes(files)
        self._jvm: Jvm = scan.jvm
        self._plans, self._expressions = Plans(scan.jvm), Expressions(scan.jvm)
        self._asked = {field.id: field for field in scan.asked.fields}
        self._marks = DELETED.id in self._asked
        self._joins: list[Any] = []
        """What tells of a row that equality deletes have deleted it, if that is asked for."""

    def plan(self, output: Sequence[Any]) -> Any:
        """The plan, with some attributes for the columns of the whole read."""
        given = {field.id: one for field, one in zip(self._scan.columns.fields, output, strict=True)}
        stored = Schema(tuple(field for field in self._asked.values() if field.id not in _MADE))
        stored = with_columns(stored, compared_columns(self._keys))
        columns = native_columns(self._scan.source.table.metadata, Schema((*stored.fields, *self._added())))
        fresh = [field for field in columns.fields if field.id in _MADE or self._asked.get(field.id) != field]
        made = dict(zip([field.id for field in fresh], self._plans.attributes(spark_schema(fresh)), strict=True))
        self._fields = {field.id: field for field in columns.fields}
        self._read = {field.id: made.get(field.id) or given[field.id] for field in columns.fields}
        joined = " and ".join(f"equality deletes by {one}" for one in self._keys)
        part = NativePart(self._scan, self._share, columns, scopes=self._scopes, joined=joined)
        plan = self._plans.scan_relation(self._node, part, [self._read[field.id] for field in columns.fields])
        if self._has_bits and not self._marks:
            plan = self._plans.filter(self._is_live(), plan)
        plan = self._joined(plan)
        pairs = zip(self._scan.columns.fields, output, strict=True)
        return self._plans.project([self._column(field, one) for field, one in pairs], plan)

    def _joined(self, plan: Any) -> Any:
        """The plan without the rows that equality deletes have deleted, or with what tells which these are."""
        joins = KeyJoins(self._scan, self._node)
        for one in self._keys:
            right, condition = joins.deleted(one, Schema(tuple(self._fields.values())), list(self._read.values()))
            if self._marks:
                self._joins += self._plans.attributes(spark_schema([_EXISTS]))
                plan = self._plans.existence_join(plan, right, condition, self._joins[-1])
            else:
                plan = self._plans.anti_join(plan, right, condition)
        return plan

    def _added(self) -> Iterator[Field]:
        """The columns that are read for others to be made of them, and for joins."""
        asked = self._asked
        if POS.id not in asked and (self._has_bits or ROW_ID.id in asked):
            yield POS
        if self._has_bits:
            yield BITS
        if ROW_ID.id in asked:
            yield from (ROW_ID, FIRST_ROW_ID)
        if LAST_UPDATED_SEQUENCE_NUMBER.id in asked:
            yield LAST_UPDATED_SEQUENCE_NUMBER
        if self._keys or LAST_UPDATED_SEQUENCE_NUMBER.id in asked:
            yield SEQUENCE_NUMBER
        if self._scopes is not None:
            yield SCOPE
        if PARTITION_ID in asked:
            yield from filter(None, map(partition_constant, asked[PARTITION_ID].type.fields))

    def _column(self, field: Field, attribute: Any) -> Any:
        """A column of the output."""
        made = self._expressions
        if field.id not in self._asked:  # a column that was read to count rows
            return made.alias(made.null(attribute.dataType()), attribute)
        match field.id:
            case DELETED.id:
                return made.alias(self._is_deleted(), attribute)
            case ROW_ID.id:
                counted = self._math("addExact", "long", self._read[FIRST_ROW_ID.id], self._read[POS.id])
                return made.alias(self._first(self._read[ROW_ID.id], counted), attribute)
            case LAST_UPDATED_SEQUENCE_NUMBER.id:
                return made.alias(self._first(self._read[field.id], self._read[SEQUENCE_NUMBER.id]), attribute)
            case _ if field.id == PARTITION_ID:
                parts = {one.name: self._partition(one) for one in field.type.fields}
                return made.alias(made.struct(parts), attribute)
            case _ if self._fields[field.id] != field:  # a struct that was read with more fields than are asked for
                return made.alias(self._narrowed(self._read[field.id], self._fields[field.id].type, field), attribute)
            case _:
                return attribute

    def _narrowed(self, value: Any, has: Type, wanted: Field) -> Any:
        """Of a struct the fields that are asked for."""
        if has == wanted.type:
            return value
        made, places = self._expressions, {field.id: place for place, field in enumerate(has.fields)}
        parts = {
            field.name: self._narrowed(made.field(value, places[field.id]), has.fields[places[field.id]].type, field)
            for field in wanted.type.fields
        }
        nothing = made.null(self._jvm.data_type(spark_type(wanted.type)))
        return made.made("If", made.made("IsNull", value), nothing, made.struct(parts))

    def _is_deleted(self) -> Any:
        """Whether a row is deleted, in any way."""
        made = self._expressions
        bits = [made.made("Not", self._is_live())] if self._has_bits else []
        return made.any_of(*bits, *self._joins) if bits or self._joins else made.literal("false")

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
