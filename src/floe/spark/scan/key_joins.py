"""Joins with the rows of equality delete files: null equals null, NaN equals NaN, and `-0.0` is not `0.0`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from floe.spark.bridge.plans import Expressions, Plans
from floe.spark.columns import spark_schema, spark_type
from floe.spark.scan.constants import SCOPE, SEQUENCE_NUMBER
from floe.spark.scan.deleted_keys import DeletedKeys
from floe.spark.scan.key_parts import ArrowKeys, KeysPart, NativeKeys
from floe.spec.schemas.schema import Schema
from floe.spec.types import INT, LONG, Field

if TYPE_CHECKING:
    from floe.spark.scan.scan import TableScan

__all__ = ["KeyJoins"]

_BITS: Final = {
    "float": ("java.lang.Float", "floatToIntBits", INT),
    "double": ("java.lang.Double", "doubleToLongBits", LONG),
}
"""Floats are compared by their bits, for Spark takes `-0.0` for `0.0`; the bits of all NaNs are the same."""

_FEW: Final = 10_000
"""So many keys are not worth the shuffle that it takes to bring equal ones together: a row may meet each of them."""


class KeyJoins:
    """Makes what a read is joined with."""

    def __init__(self, scan: TableScan, node: Any) -> None:
        self._scan, self._node = scan, node
        self._plans, self._expressions = Plans(scan.jvm), Expressions(scan.jvm)

    def deleted(self, keys: DeletedKeys, schema: Schema, attributes: Sequence[Any]) -> tuple[Any, Any]:
        """A plan of deleted keys, and the condition that rows of a schema, in some attributes, have one of them."""
        made = self._expressions
        plan, own = self._newest(keys)
        conditions = []
        for entry in keys.columns.entries:
            mine, theirs = self._comparable(schema, attributes, entry.field), own[entry.field.id]
            both = mine.nullable() and keys.may_be_null(entry)
            conditions.append(made.made("EqualNullSafe" if both else "EqualTo", mine, theirs))
        if not keys.everywhere:
            conditions.append(made.made("EqualTo", self._value(schema, attributes, SCOPE.id), own[SCOPE.id]))
        age = self._value(schema, attributes, SEQUENCE_NUMBER.id)
        return plan, made.all_of(*conditions, made.made("LessThan", age, own[SEQUENCE_NUMBER.id]))

    def _newest(self, keys: DeletedKeys) -> tuple[Any, dict[int, Any]]:
        """The keys, each with the newest of its ages if there are many; and the attributes that these have."""
        in_parquet, others = keys.in_parquet(True), keys.in_parquet(False)
        parts: list[KeysPart] = [NativeKeys(self._scan, in_parquet)] if in_parquet.files else []
        parts += [ArrowKeys(self._scan, others)] if others.files else []
        found = [self._flat(part, keys) for part in parts]
        plan, attributes = self._plans.union(*(one for one, _ in found)), found[0][1]
        if len(keys.files) == 1 or keys.rows <= _FEW:
            return plan, attributes
        age = attributes.pop(SEQUENCE_NUMBER.id)
        (newest,) = self._plans.attributes(spark_schema([SEQUENCE_NUMBER]))
        plan = self._plans.greatest(list(attributes.values()), age, newest, plan)
        return plan, {**attributes, SEQUENCE_NUMBER.id: newest}

    def _flat(self, part: KeysPart, keys: DeletedKeys) -> tuple[Any, dict[int, Any]]:
        """The rows of delete files in columns that can be compared; and the attributes that these have."""
        schema, read = Schema(part.fields), self._plans.attributes(spark_schema(part.fields))
        plan = self._plans.scan_relation(self._node, part, read)
        fields = [_compared(entry.field) for entry in keys.columns.entries]
        values = [self._comparable(schema, read, entry.field) for entry in keys.columns.entries]
        for field in (SEQUENCE_NUMBER,) if keys.everywhere else (SCOPE, SEQUENCE_NUMBER):
            fields.append(field)
            values.append(self._value(schema, read, field.id))
        output = self._plans.attributes(spark_schema(fields))
        aliases = [self._expressions.alias(value, one) for value, one in zip(values, output, strict=True)]
        return self._plans.project(aliases, plan), {f.id: one for f, one in zip(fields, output, strict=True)}

    def _comparable(self, schema: Schema, attributes: Sequence[Any], field: Field) -> Any:
        value = self._value(schema, attributes, field.id)
        if field.type.kind not in _BITS:
            return value
        kind, method, type_ = _BITS[field.type.kind]
        return self._expressions.call(kind, method, str(spark_type(type_)), value, nullable=True)

    def _value(self, schema: Schema, attributes: Sequence[Any], field_id: int) -> Any:
        """A column of rows, or a field within one; null where a struct around it is."""
        entry = schema.entry(field_id)
        fields, value = schema.fields, None
        for one in (*entry.ancestors, entry.field):
            place = next(n for n, field in enumerate(fields) if field.id == one.id)
            value = attributes[place] if value is None else self._expressions.field(value, place)
            fields = one.type.fields
        return value


def _compared(field: Field) -> Field:
    type_ = _BITS[field.type.kind][2] if field.type.kind in _BITS else field.type
    return replace(field, name=f"floe-{field.id}", type=type_, required=False, initial_default=None, write_default=None)
