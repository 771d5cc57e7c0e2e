"""The plan that replaces a scan which Spark's Parquet reader cannot read alone: deletes, metadata columns, formats.

`rewrite_scan` groups the files by how they are read; the plan is a union of the groups:

- Spark's reader reads Parquet files. A file with position deletes or a deletion vector comes with a bitmap, and a
  filter in generated code tests the bit of each row (`NativePlan`).
- Files with equality deletes are read by Spark's reader too, and anti-joined with the rows of the delete files
  (`EqualityDeleteJoins`). In these joins null equals null, NaN equals NaN, and `-0.0` does not equal `0.0`.
- The Arrow reader reads what Spark's reader cannot: other formats, very many deleted positions, equality deletes on
  columns whose types Spark's reader does not support.

`_partition`, `_deleted` and the row lineage columns are computed in a projection from the constants of each file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from floe.arrow.read.extra_columns import with_columns
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import Expressions, Plans
from floe.spark.read.deletes import (
    EqualityDeleteGroup,
    PartitionScopes,
    group_equality_deletes,
    key_fields,
    within_budget,
)
from floe.spark.read.native_reader import (
    DELETED_ROWS,
    FIRST_ROW_ID,
    SCOPE,
    SEQUENCE_NUMBER,
    column_obstacle,
    native_columns,
    partition_constant,
)
from floe.spark.read.part_scans import (
    ArrowEqualityDeletesScan,
    ArrowScan,
    EqualityDeletesScan,
    FileShare,
    NativeEqualityDeletesScan,
    NativeScan,
)
from floe.spark.read.scan_source import Mask, PlannedFiles
from floe.spark.schemas import spark_schema, spark_type
from floe.spark.settings import MOST_DELETES_ON_DRIVER
from floe.spec.schemas.metadata_columns import DELETED, LAST_UPDATED_SEQUENCE_NUMBER, PARTITION_ID, POS, ROW_ID
from floe.spec.schemas.schema import Schema
from floe.spec.types import BOOLEAN, INT, LONG, DecimalType, Field, Type

if TYPE_CHECKING:
    from floe.spark.read.scan import TableScan

# Grouping of files ----------------------------------------------------------------------------------------------------

_MAX_ROWS: Final = 2**31 - 64
"""The most rows of a file whose positions fit into the Java int by which bitmaps are tested."""

_LINEAGE: Final = frozenset({ROW_ID.id, LAST_UPDATED_SEQUENCE_NUMBER.id})


def rewrite_scan(scan: TableScan, node: Any) -> Any:
    """The plan that replaces the node of a scan; the node itself if Spark's reader can read none of the files."""
    metadata, projection, files = scan.source.table.metadata, scan.projection, scan.files
    if scan.access_obstacle or column_obstacle(metadata, projection, above=True):
        return node
    reasons = _arrow_reasons(scan, files)
    groups = group_equality_deletes(files.select(~_any_mask(files, reasons)))
    with_equality_deletes = files.has_equality_deletes
    if unsupported := [group for group in groups if not _can_join(scan, group)]:
        reasons[f"equality deletes by {' and '.join(map(str, unsupported))}"] = with_equality_deletes
    by_arrow = _any_mask(files, reasons)
    if by_arrow.all():
        return node
    joined = ~by_arrow & with_equality_deletes
    plans, parts = Plans(scan.jvm), []
    outputs = [plans.output(node)]  # for the first part; the other parts of a union need attributes of their own
    for chosen, joined_groups in ((~by_arrow & ~joined, ()), (joined, groups)):
        if chosen.any():
            # most files have no equality deletes, so the list of those that are not read here is shorter
            share = (
                FileShare(_paths(files, chosen)) if joined_groups else FileShare(_paths(files, ~chosen), inside=False)
            )
            native = NativePlan(scan, node, files.select(chosen), share, joined_groups)
            parts.append(native.plan(outputs.pop() if outputs else _new_attributes(scan)))
    if by_arrow.any():
        reason = " and ".join(name for name, mask in reasons.items() if mask.any())
        part = ArrowScan(scan, FileShare(_paths(files, by_arrow)), reason)
        parts.append(plans.scan_relation(node, part, _new_attributes(scan)))
    return plans.union(*parts)


def _can_join(scan: TableScan, group: EqualityDeleteGroup) -> bool:
    """Whether Spark's reader can read the compared columns, from data files and from delete files."""
    schemas = (with_columns(schema, group.columns.entries) for schema in (scan.projection, Schema(())))
    return not any(column_obstacle(scan.source.table.metadata, read_schema, above=True) for read_schema in schemas)


def _new_attributes(scan: TableScan) -> list[Any]:
    return Plans(scan.jvm).attributes(spark_schema(scan.columns.fields))


def _arrow_reasons(scan: TableScan, files: PlannedFiles) -> dict[str, Mask]:
    """Why the Arrow reader must read some of the files, apart from equality deletes; each reason with its files."""
    formats = files.table["file_format"].to_numpy(zero_copy_only=False)
    reasons = {f"{name} files": formats == name for name in sorted(set(formats) - {"parquet"})}
    reasons["very many rows"] = files.record_counts > _MAX_ROWS
    if _LINEAGE & {field.id for field in scan.projection.fields}:
        reasons["rows without ids"] = files.table["first_row_id"].is_null().to_numpy()
    reasons["very many deletes"] = ~within_budget(files, _budget(scan.jvm), scan.splits.target_size)
    return reasons


def _any_mask(files: PlannedFiles, reasons: dict[str, Mask]) -> Mask:
    mask = np.zeros(len(files), np.bool_)
    for reason_mask in reasons.values():
        mask |= reason_mask
    return mask


def _paths(files: PlannedFiles, chosen: Mask) -> frozenset[str]:
    return frozenset(files.select(chosen).table["file_path"].to_pylist() if chosen.any() else ())


def _budget(jvm: Jvm) -> int:
    """The most bytes of deleted positions that the driver loads."""
    return MOST_DELETES_ON_DRIVER.parse(jvm.setting(MOST_DELETES_ON_DRIVER.name, str(MOST_DELETES_ON_DRIVER.default)))


# Plans of files that Spark reads --------------------------------------------------------------------------------------

_COMPUTED: Final = frozenset({DELETED.id, PARTITION_ID, ROW_ID.id, LAST_UPDATED_SEQUENCE_NUMBER.id})
"""The ids of the metadata columns that are computed in a projection above the reader."""

_EXISTS: Final = Field(-5, "_has_deleted_key", BOOLEAN, required=True)


class NativePlan:
    """Builds the plan of files that Spark's reader reads, with their deletes applied.

    `groups` are the equality deletes of the files. If the query reads `_deleted`, deleted rows are marked, not removed.
    """

    def __init__(
        self, scan: TableScan, node: Any, files: PlannedFiles, share: FileShare, groups: Sequence[EqualityDeleteGroup]
    ) -> None:
        self._scan, self._node, self._share, self._groups = scan, node, share, groups
        self._has_bitmaps = bool(files.has_position_deletes.any())
        self._scopes = None if all(group.is_global for group in groups) else PartitionScopes(files)
        self._jvm: Jvm = scan.jvm
        self._plans, self._expressions = Plans(scan.jvm), Expressions(scan.jvm)
        self._projected = {field.id: field for field in scan.projection.fields}
        self._marks_deleted = DELETED.id in self._projected
        self._existence_flags: list[Any] = []
        """The boolean attributes of existence joins with equality deletes, if deleted rows are marked."""

    def plan(self, output: Sequence[Any]) -> Any:
        """The plan, whose output are some attributes for the columns of the scan."""
        given = dict(zip([field.id for field in self._scan.columns.fields], output, strict=True))
        stored = Schema(tuple(field for field in self._projected.values() if field.id not in _COMPUTED))
        stored = with_columns(stored, key_fields(self._groups))
        columns = native_columns(self._scan.source.table.metadata, Schema((*stored.fields, *self._helper_columns())))
        fresh = [field for field in columns.fields if field.id in _COMPUTED or self._projected.get(field.id) != field]
        attributes = dict(zip([field.id for field in fresh], self._plans.attributes(spark_schema(fresh)), strict=True))
        self._fields = {field.id: field for field in columns.fields}
        self._attributes = {field.id: attributes.get(field.id) or given[field.id] for field in columns.fields}
        joined = " and ".join(f"equality deletes by {group}" for group in self._groups)
        scan = NativeScan(self._scan, self._share, columns, scopes=self._scopes, joined=joined)
        plan = self._plans.scan_relation(self._node, scan, [self._attributes[field.id] for field in columns.fields])
        if self._has_bitmaps and not self._marks_deleted:
            plan = self._plans.filter(self._is_live(), plan)
        plan = self._join_deletes(plan)
        pairs = zip(self._scan.columns.fields, output, strict=True)
        return self._plans.project([self._output_column(field, attribute) for field, attribute in pairs], plan)

    def _join_deletes(self, plan: Any) -> Any:
        """The plan without the rows that equality deletes delete, or with an attribute that marks them."""
        joins = EqualityDeleteJoins(self._scan, self._node)
        for group in self._groups:
            schema = Schema(tuple(self._fields.values()))
            right, condition = joins.join_side(group, schema, list(self._attributes.values()))
            if self._marks_deleted:
                self._existence_flags += self._plans.attributes(spark_schema([_EXISTS]))
                plan = self._plans.existence_join(plan, right, condition, self._existence_flags[-1])
            else:
                plan = self._plans.anti_join(plan, right, condition)
        return plan

    def _helper_columns(self) -> Iterator[Field]:
        """The columns that are read in addition, to compute metadata columns, apply deletes and join."""
        projected = self._projected
        if POS.id not in projected and (self._has_bitmaps or ROW_ID.id in projected):
            yield POS
        if self._has_bitmaps:
            yield DELETED_ROWS
        if ROW_ID.id in projected:
            yield from (ROW_ID, FIRST_ROW_ID)
        if LAST_UPDATED_SEQUENCE_NUMBER.id in projected:
            yield LAST_UPDATED_SEQUENCE_NUMBER
        if self._groups or LAST_UPDATED_SEQUENCE_NUMBER.id in projected:
            yield SEQUENCE_NUMBER
        if self._scopes is not None:
            yield SCOPE
        if PARTITION_ID in projected:
            yield from filter(None, map(partition_constant, projected[PARTITION_ID].type.fields))

    def _output_column(self, field: Field, attribute: Any) -> Any:
        """The expression of a column of the output."""
        build = self._expressions
        if field.id not in self._projected:  # a column that is only read to count rows
            return build.alias(build.null(attribute.dataType()), attribute)
        match field.id:
            case DELETED.id:
                return build.alias(self._is_deleted(), attribute)
            case ROW_ID.id:
                counted = self._math("addExact", "long", self._attributes[FIRST_ROW_ID.id], self._attributes[POS.id])
                return build.alias(self._coalesce(self._attributes[ROW_ID.id], counted), attribute)
            case LAST_UPDATED_SEQUENCE_NUMBER.id:
                return build.alias(
                    self._coalesce(self._attributes[field.id], self._attributes[SEQUENCE_NUMBER.id]), attribute
                )
            case _ if field.id == PARTITION_ID:
                parts = {
                    partition_field.name: self._partition_field(partition_field)
                    for partition_field in field.type.fields
                }
                return build.alias(build.struct(parts), attribute)
            case _ if self._fields[field.id] != field:  # a struct with more fields than the query needs
                return build.alias(
                    self._prune_struct(self._attributes[field.id], self._fields[field.id].type, field), attribute
                )
            case _:
                return attribute

    def _prune_struct(self, value: Any, read_type: Type, field: Field) -> Any:
        """A struct with only those of its fields that the query needs."""
        if read_type == field.type:
            return value
        build, indexes = self._expressions, {child.id: index for index, child in enumerate(read_type.fields)}
        parts = {
            child.name: self._prune_struct(
                build.field(value, indexes[child.id]), read_type.fields[indexes[child.id]].type, child
            )
            for child in field.type.fields
        }
        null = build.null(self._jvm.data_type(spark_type(field.type)))
        return build.create("If", build.create("IsNull", value), null, build.struct(parts))

    def _is_deleted(self) -> Any:
        """The value of `_deleted`: whether a delete of any kind deletes the row."""
        build = self._expressions
        flags = [*([build.create("Not", self._is_live())] if self._has_bitmaps else []), *self._existence_flags]
        return build.any_of(*flags) if flags else build.literal("false")

    def _is_live(self) -> Any:
        """Whether the bit of a row in the bitmap of its file is not set; rows past the end of the bitmap have none."""
        build, jvm = self._expressions, self._jvm
        bitmap = self._attributes[DELETED_ROWS.id]
        position = self._math("toIntExact", "integer", self._attributes[POS.id])
        three, five, two = build.literal("3"), build.literal("5"), build.literal("2")
        past_end = build.create(
            "GreaterThanOrEqual", build.create("ShiftRight", position, three), build.create("OctetLength", bitmap)
        )
        offset = build.create("ShiftLeft", build.create("ShiftRight", position, five), two)
        word = build.call("org.apache.parquet.bytes.BytesUtils", "readIntLittleEndian", "integer", bitmap, offset)
        bit = build.create("BitwiseAnd", build.create("ShiftRight", word, position), build.literal("1"))
        return jvm.sql("catalyst.expressions.Or")(past_end, build.create("EqualTo", bit, build.literal("0")))

    def _math(self, method: str, type_: str, *arguments: Any) -> Any:
        return self._expressions.call("java.lang.Math", method, type_, *arguments)

    def _coalesce(self, *values: Any) -> Any:
        """The first value that is not null."""
        return self._expressions.create("Coalesce", self._jvm.seq(values))

    def _partition_field(self, field: Field) -> Any:
        """A field of `_partition`, computed from the constant that carries it."""
        build, constant = self._expressions, partition_constant(field)
        if constant is None:
            return build.null(self._jvm.data_type(spark_type(field.type)))
        carried = self._attributes[constant.id]
        match field.type.kind:
            case "boolean":
                return build.create("EqualTo", carried, build.literal("1"))
            case "float":
                return build.call("java.lang.Float", "intBitsToFloat", "float", carried, nullable=True)
            case "double":
                return build.call("java.lang.Double", "longBitsToDouble", "double", carried, nullable=True)
            case "decimal":
                assert isinstance(field.type, DecimalType)
                precision, scale = build.literal(str(field.type.precision)), build.literal(str(field.type.scale))
                type_ = self._jvm.data_type(spark_type(field.type))
                kind = "org.apache.spark.sql.types.Decimal"
                return build.call(kind, "createUnsafe", type_, carried, precision, scale, nullable=True)
            case _:
                return carried


# Joins with equality deletes ------------------------------------------------------------------------------------------

_FLOAT_BITS: Final = {
    "float": ("java.lang.Float", "floatToIntBits", INT),
    "double": ("java.lang.Double", "doubleToLongBits", LONG),
}
"""Floats are compared by their bits, because Spark takes `-0.0` for `0.0`. These methods map all NaNs to one value."""


_FEW_KEYS: Final = 10_000
"""Up to this many rows of delete files are joined as they are: grouping equal ones would need a shuffle."""


class EqualityDeleteJoins:
    """Builds the relations of equality delete files, and the conditions of the joins with them."""

    def __init__(self, scan: TableScan, node: Any) -> None:
        self._scan, self._node = scan, node
        self._plans, self._expressions = Plans(scan.jvm), Expressions(scan.jvm)

    def join_side(self, group: EqualityDeleteGroup, schema: Schema, attributes: Sequence[Any]) -> tuple[Any, Any]:
        """The right side of the join with a group of delete files, and the join condition.

        The left side has the columns of `schema`, as `attributes`.
        """
        build = self._expressions
        plan, delete_attributes = self._delete_rows(group)
        conditions = []
        for entry in group.columns.entries:
            row_value, delete_value = (
                self._comparable(schema, attributes, entry.field),
                delete_attributes[entry.field.id],
            )
            both_null = row_value.nullable() and group.may_be_null(entry)
            conditions.append(build.create("EqualNullSafe" if both_null else "EqualTo", row_value, delete_value))
        if not group.is_global:
            conditions.append(
                build.create("EqualTo", self._value(schema, attributes, SCOPE.id), delete_attributes[SCOPE.id])
            )
        sequence_number = self._value(schema, attributes, SEQUENCE_NUMBER.id)
        return plan, build.all_of(
            *conditions, build.create("LessThan", sequence_number, delete_attributes[SEQUENCE_NUMBER.id])
        )

    def _delete_rows(self, group: EqualityDeleteGroup) -> tuple[Any, dict[int, Any]]:
        """A plan of the rows of delete files, and its attributes by field id.

        If there are many rows, equal ones are grouped, with the greatest of their sequence numbers.
        """
        parquet, other_formats = group.select_parquet(True), group.select_parquet(False)
        scans: list[EqualityDeletesScan] = [NativeEqualityDeletesScan(self._scan, parquet)] if parquet.files else []
        scans += [ArrowEqualityDeletesScan(self._scan, other_formats)] if other_formats.files else []
        relations = [self._flatten(scan, group) for scan in scans]
        plan, attributes = self._plans.union(*(relation for relation, _ in relations)), relations[0][1]
        if len(group.files) == 1 or group.rows <= _FEW_KEYS:
            return plan, attributes
        sequence_number = attributes.pop(SEQUENCE_NUMBER.id)
        (newest,) = self._plans.attributes(spark_schema([SEQUENCE_NUMBER]))
        plan = self._plans.aggregate_max(list(attributes.values()), sequence_number, newest, plan)
        return plan, {**attributes, SEQUENCE_NUMBER.id: newest}

    def _flatten(self, scan: EqualityDeletesScan, group: EqualityDeleteGroup) -> tuple[Any, dict[int, Any]]:
        """A plan of the rows of a scan of delete files, flat and comparable, and its attributes by field id."""
        schema, attributes = Schema(scan.fields), self._plans.attributes(spark_schema(scan.fields))
        plan = self._plans.scan_relation(self._node, scan, attributes)
        fields = [_comparable_field(entry.field) for entry in group.columns.entries]
        values = [self._comparable(schema, attributes, entry.field) for entry in group.columns.entries]
        for field in (SEQUENCE_NUMBER,) if group.is_global else (SCOPE, SEQUENCE_NUMBER):
            fields.append(field)
            values.append(self._value(schema, attributes, field.id))
        output = self._plans.attributes(spark_schema(fields))
        aliases = [self._expressions.alias(value, attribute) for value, attribute in zip(values, output, strict=True)]
        return self._plans.project(aliases, plan), {
            field.id: attribute for field, attribute in zip(fields, output, strict=True)
        }

    def _comparable(self, schema: Schema, attributes: Sequence[Any], field: Field) -> Any:
        value = self._value(schema, attributes, field.id)
        if field.type.kind not in _FLOAT_BITS:
            return value
        kind, method, type_ = _FLOAT_BITS[field.type.kind]
        return self._expressions.call(kind, method, str(spark_type(type_)), value, nullable=True)

    def _value(self, schema: Schema, attributes: Sequence[Any], field_id: int) -> Any:
        """A column, or a field within a struct; null where the struct is null."""
        entry = schema.entry(field_id)
        fields, value = schema.fields, None
        for step in (*entry.ancestors, entry.field):
            index = next(n for n, field in enumerate(fields) if field.id == step.id)
            value = attributes[index] if value is None else self._expressions.field(value, index)
            fields = step.type.fields
        return value


def _comparable_field(field: Field) -> Field:
    type_ = _FLOAT_BITS[field.type.kind][2] if field.type.kind in _FLOAT_BITS else field.type
    return replace(field, name=f"floe-{field.id}", type=type_, required=False, initial_default=None, write_default=None)
