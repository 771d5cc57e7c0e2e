"""Scans of equality delete files, with their sequence numbers, and the anti-joins with their rows.

In these joins null equals null, NaN equals NaN, and `-0.0` does not equal `0.0`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from floe.arrow.reading.deletes import EqualityDeletes, KeyColumns
from floe.arrow.reading.extra_columns import with_columns
from floe.formats.registry import default_registry
from floe.plan.tasks import pack_bins
from floe.spark.bridge.plans import Expressions, Plans
from floe.spark.read.native import SCOPE, SEQUENCE_NUMBER, NativeColumns, native_columns
from floe.spark.read.parts import DeletedKeys, ReadPart, native_factory, native_partitions
from floe.spark.read.source import NOTHING_PUSHED
from floe.spark.read.statistics import TableStatistics, width
from floe.spark.read.worker import for_spark, python_partitions, python_reader_factory, tasks_of
from floe.spark.schemas import spark_schema, spark_type
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.schema import Schema
from floe.spec.types import INT, LONG, Field
from floe.storage.protocol import Storage

if TYPE_CHECKING:
    from floe.spark.read.scan import TableScan


class KeysPart(ReadPart):
    """The rows of some equality delete files."""

    reader: str

    def __init__(self, whole: TableScan, keys: DeletedKeys, fields: tuple[Field, ...]) -> None:
        super().__init__(whole, fields)
        self._keys = keys

    def key(self) -> Any:
        """The same files are the same to Spark, if their partitions have the same numbers."""
        scopes = tuple(self._keys.table["scope"].to_pylist())
        return (self._whole.source.key, self._fields, self._keys.paths, self._keys.everywhere, scopes)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns that come."""
        return self._fields

    def description(self) -> str:
        """The table, what is compared, the files and whom they reach, in words."""
        keys = self._keys
        return "; ".join(
            [
                f"Floe table {self._whole.source.name}",
                f"equality deletes by {keys}",
                f"files: {len(keys.files)}",
                f"rows: {self._keys.rows}",
                f"reach: older rows of {'all partitions' if keys.everywhere else 'the same partition'}",
                f"read by {self.reader}",
            ]
        )

    def estimateStatistics(self) -> Any:
        """Rows and bytes: what is small goes to all executors."""
        size = self._keys.rows * (8 + sum(width(field.type) for field in self._fields))
        return TableStatistics(self.jvm, self._keys.rows, max(1, size))


class NativeKeys(KeysPart):
    """Files that Spark's Parquet reader reads."""

    reader = "Spark's Parquet reader"

    def __init__(self, whole: TableScan, keys: DeletedKeys) -> None:
        stored = with_columns(Schema(()), keys.columns.entries)
        columns = native_columns(whole.source.table.metadata, Schema((*stored.fields, SEQUENCE_NUMBER, SCOPE)))
        # a file without a column would delete the rows that have null there
        self._columns: NativeColumns = replace(columns, all_stored=True)
        super().__init__(whole, keys, columns.fields)

    def planInputPartitions(self) -> Any:
        """The files in parts, packed into partitions."""
        storage = self._whole.source.storage
        return native_partitions(self.jvm, self._keys.table, storage, self._columns, self._whole.splits)

    @cached_property
    def _factory(self) -> Any:
        return native_factory(self.jvm, self._columns, NOTHING_PUSHED)


class ArrowKeys(KeysPart):
    """Files of other formats, read in workers."""

    reader = "Arrow reader"

    def __init__(self, whole: TableScan, keys: DeletedKeys) -> None:
        flat = [replace(entry.field, name=f"floe-{entry.field.id}", required=False) for entry in keys.columns.entries]
        super().__init__(whole, keys, (*flat, SEQUENCE_NUMBER, SCOPE))

    def planInputPartitions(self) -> Any:
        """The files packed into partitions."""
        splits = self._whole.splits
        ages, scopes = (self._keys.table[name].to_pylist() for name in ("sequence_number", "scope"))
        tasks = zip(self._keys.files, ages, scopes, strict=True)
        bins = pack_bins(tasks, lambda task: task[0].file_size_in_bytes, splits.target_size, splits.lookback)
        return python_partitions(self.jvm, map(pickle.dumps, bins))

    @cached_property
    def _factory(self) -> Any:
        source = self._whole.source
        read = ReadKeys(source.shipped_metadata, source.storage, self._keys.columns, self._fields)
        return python_reader_factory(self.jvm, read, spark_schema(self._fields))


@dataclass(frozen=True)
class ReadKeys:
    """Reads equality delete files in a worker, and tells the age and the scope of each."""

    metadata: TableMetadata
    storage: Storage
    columns: KeyColumns
    fields: tuple[Field, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the files that come, one after the other."""
        reader = EqualityDeletes(self.metadata, self.storage, default_registry(), budget=0)
        for file, age, scope in tasks_of(batches):
            for batch in reader.keys(self.columns, file).to_batches():
                ages = pa.repeat(pa.scalar(age, pa.int64()), len(batch))
                scopes = pa.repeat(pa.scalar(scope, pa.int32()), len(batch))
                arrays = [*batch.columns, ages, scopes]
                names = [field.name for field in self.fields]
                yield for_spark(pa.RecordBatch.from_arrays(arrays, names=names), self.fields)


# Joins with the rows of equality delete files: null equals null, NaN equals NaN, and `-0.0` is not `0.0`.

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
            conditions.append(made.create("EqualNullSafe" if both else "EqualTo", mine, theirs))
        if not keys.everywhere:
            conditions.append(made.create("EqualTo", self._value(schema, attributes, SCOPE.id), own[SCOPE.id]))
        age = self._value(schema, attributes, SEQUENCE_NUMBER.id)
        return plan, made.all_of(*conditions, made.create("LessThan", age, own[SEQUENCE_NUMBER.id]))

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
