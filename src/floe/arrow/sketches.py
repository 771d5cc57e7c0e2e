"""How many different values columns have: sketches of the rows that are read, batch by batch.

>>> import pyarrow as pa
>>> from floe.spec.types import LONG, Field
>>> schema = Schema((Field(1, "id", LONG),))
>>> sketches = ColumnSketches(counted_columns(schema))
>>> sketches.add(pa.record_batch({"id": [1, 2, 2, None]}))
>>> sketches.found[1].estimate
2
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from floe.errors import InvalidInput
from floe.formats.arrow_transforms import can_hash, hash_column
from floe.spec.codecs.theta_sketches import ThetaSketch
from floe.spec.schemas.schema import Schema, SchemaField


def counted_columns(
    schema: Schema, names: Iterable[str | Sequence[str]] | None = None, *, case_sensitive: bool = True
) -> tuple[SchemaField, ...]:
    """The columns whose different values can be counted: some, which must be such, or all that are not inside others.

    >>> from floe.spec.types import VARIANT, Field
    >>> counted_columns(Schema((Field(1, "v", VARIANT),)), ["v"])
    Traceback (most recent call last):
    floe.errors.InvalidInput: the values of variant v cannot be counted; only those of single values can, also inside
    structs (column: v)
    """
    if names is None:
        return tuple(entry for entry in schema.by_id.values() if not entry.ancestors and can_hash(entry.field.type))
    found = {}
    for name in names:
        entry = schema.resolve(name, case_sensitive=case_sensitive)
        if entry.in_collection or not can_hash(entry.field.type):
            raise InvalidInput(
                f"the values of {entry.field.type} {entry.name} cannot be counted; only those of single values can, "
                "also inside structs",
                column=entry.name,
            )
        found[entry.field.id] = entry
    return tuple(found.values())


class ColumnSketches:
    """The sketches of some columns, as far as rows have come."""

    def __init__(self, columns: Iterable[SchemaField]) -> None:
        self._columns = tuple(columns)
        self.found: dict[int, ThetaSketch] = {entry.field.id: ThetaSketch() for entry in self._columns}
        """By the ids of the columns."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the values of a batch, which has the columns by their names."""
        for entry in self._columns:
            values = batch.column(entry.path[0])
            for name in entry.path[1:]:
                values = pc.struct_field(values, name)  # null where the struct is
            hashes = hash_column(entry.field.type, values)
            self.found[entry.field.id] = self.found[entry.field.id].including(hashes)
