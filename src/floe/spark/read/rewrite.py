"""The plan that replaces a scan which Spark's Parquet reader cannot do alone; it still does most of the work.

The files are grouped by how they are read, and the plan is a union of the groups:

- Spark's reader reads Parquet files. A file with position deletes or a deletion vector comes with a bitmap, and a
  filter in generated code tests the bit of each row.
- Files with equality deletes are read by Spark's reader too, and anti-joined with the rows of the delete files.
- The Arrow reader reads what Spark's reader cannot: other formats, very many deleted positions, keys of types that it
  does not have.

`_partition`, `_deleted` and the row lineage columns are computed in a projection of the constants of each file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from floe.arrow.reading.extra_columns import with_columns
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import Expressions, Plans
from floe.spark.read.equality_deletes import KeyJoins
from floe.spark.read.native import (
    BITS,
    FIRST_ROW_ID,
    SCOPE,
    SEQUENCE_NUMBER,
    native_columns,
    partition_constant,
    why_not_columns,
)
from floe.spark.read.parts import ArrowPart, DeletedKeys, NativePart, Scopes, Share, compared_columns, deleted_keys
from floe.spark.read.position_deletes import within_budget
from floe.spark.read.source import Mask, PlannedFiles
from floe.spark.schemas import spark_schema, spark_type
from floe.spark.settings import MOST_DELETES_ON_DRIVER
from floe.spec.schemas.metadata_columns import DELETED, LAST_UPDATED_SEQUENCE_NUMBER, PARTITION_ID, POS, ROW_ID
from floe.spec.schemas.schema import Schema
from floe.spec.types import BOOLEAN, DecimalType, Field, Type

if TYPE_CHECKING:
    from floe.spark.read.scan import TableScan

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
        return made.create("If", made.create("IsNull", value), nothing, made.struct(parts))

    def _is_deleted(self) -> Any:
        """Whether a row is deleted, in any way."""
        made = self._expressions
        bits = [made.create("Not", self._is_live())] if self._has_bits else []
        return made.any_of(*bits, *self._joins) if bits or self._joins else made.literal("false")

    def _is_live(self) -> Any:
        """Whether the bit of a row is not set; rows behind the last word have none."""
        made, jvm = self._expressions, self._jvm
        bits, place = self._read[BITS.id], self._math("toIntExact", "integer", self._read[POS.id])
        three, five, two = made.literal("3"), made.literal("5"), made.literal("2")
        behind = made.create(
            "GreaterThanOrEqual", made.create("ShiftRight", place, three), made.create("OctetLength", bits)
        )
        where = made.create("ShiftLeft", made.create("ShiftRight", place, five), two)
        word = made.call("org.apache.parquet.bytes.BytesUtils", "readIntLittleEndian", "integer", bits, where)
        bit = made.create("BitwiseAnd", made.create("ShiftRight", word, place), made.literal("1"))
        return jvm.sql("catalyst.expressions.Or")(behind, made.create("EqualTo", bit, made.literal("0")))

    def _math(self, method: str, type_: str, *arguments: Any) -> Any:
        return self._expressions.call("java.lang.Math", method, type_, *arguments)

    def _first(self, *values: Any) -> Any:
        """The first that is not null."""
        return self._expressions.create("Coalesce", self._jvm.seq(values))

    def _partition(self, field: Field) -> Any:
        """A field of `_partition`, of what carries it."""
        made, constant = self._expressions, partition_constant(field)
        if constant is None:
            return made.null(self._jvm.data_type(spark_type(field.type)))
        carried = self._read[constant.id]
        match field.type.kind:
            case "boolean":
                return made.create("EqualTo", carried, made.literal("1"))
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


# A read that Spark's Parquet reader cannot carry out alone, as a plan in which it does most of the work.

_MOST_ROWS: Final = 2**31 - 64
_LINEAGE: Final = frozenset({ROW_ID.id, LAST_UPDATED_SEQUENCE_NUMBER.id})


def rewritten_read(scan: TableScan, node: Any) -> Any:
    """The plan to put in the place of a read; the node itself if Spark's reader can read nothing of it."""
    metadata, asked, files = scan.source.table.metadata, scan.asked, scan.files
    if scan.unreachable or why_not_columns(metadata, asked, above=True):
        return node
    reasons = _reasons(scan, files)
    keys = deleted_keys(files.keeping(~_any(files, reasons)))
    by_key = files.with_keys
    if strange := [one for one in keys if not _can_join(scan, one)]:
        reasons[f"equality deletes by {' and '.join(map(str, strange))}"] = by_key
    others = _any(files, reasons)
    if others.all():
        return node
    joined = ~others & by_key
    plans, made = Plans(scan.jvm), []
    outputs = [plans.output(node)]  # the parts behind the first have columns of their own
    for chosen, own_keys in ((~others & ~joined, ()), (joined, keys)):
        if chosen.any():
            share = Share(_paths(files, ~chosen), inside=False) if not own_keys else Share(_paths(files, chosen))
            native = NativePlan(scan, node, files.keeping(chosen), share, own_keys)
            made.append(native.plan(outputs.pop() if outputs else _new_columns(scan)))
    if others.any():
        why = " and ".join(name for name, found in reasons.items() if found.any())
        part = ArrowPart(scan, Share(_paths(files, others)), why)
        made.append(plans.scan_relation(node, part, _new_columns(scan)))
    return plans.union(*made)


def _can_join(scan: TableScan, keys: DeletedKeys) -> bool:
    """Whether Spark's reader knows the types of keys, and finds them: beside what is asked for, and in delete files."""
    wanted = (with_columns(schema, keys.columns.entries) for schema in (scan.asked, Schema(())))
    return not any(why_not_columns(scan.source.table.metadata, one, above=True) for one in wanted)


def _new_columns(scan: TableScan) -> list[Any]:
    return Plans(scan.jvm).attributes(spark_schema(scan.columns.fields))


def _reasons(scan: TableScan, files: PlannedFiles) -> dict[str, Mask]:
    """Why the Arrow reader has to read some of the files, whatever their equality deletes are."""
    formats = files.table["file_format"].to_numpy(zero_copy_only=False)
    reasons = {f"{name} files": formats == name for name in sorted(set(formats) - {"parquet"})}
    reasons["very many rows"] = files.record_counts > _MOST_ROWS
    if _LINEAGE & {field.id for field in scan.asked.fields}:
        reasons["rows without ids"] = files.table["first_row_id"].is_null().to_numpy()
    reasons["very many deletes"] = ~within_budget(files, _budget(scan.jvm), scan.splits.target_size)
    return reasons


def _any(files: PlannedFiles, reasons: dict[str, Mask]) -> Mask:
    found = np.zeros(len(files), np.bool_)
    for chosen in reasons.values():
        found |= chosen
    return found


def _paths(files: PlannedFiles, chosen: Mask) -> frozenset[str]:
    return frozenset(files.keeping(chosen).table["file_path"].to_pylist() if chosen.any() else ())


def _budget(jvm: Jvm) -> int:
    """How many bytes of deleted positions the driver may hold."""
    return MOST_DELETES_ON_DRIVER.parse(jvm.setting(MOST_DELETES_ON_DRIVER.name, str(MOST_DELETES_ON_DRIVER.default)))
