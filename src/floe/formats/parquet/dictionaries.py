"""Which columns are worth a dictionary: those whose first values, as a dictionary and numbers, take less than plainly.

pyarrow builds dictionaries of all columns until they grow too large, which makes columns of distinct values larger and
slower than they need be. Other writers give a dictionary up when its first page does not pay; this is the same test.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from floe.formats.arrow_conversion import Repeated
from floe.spec.types import Field

__all__ = ["worthwhile"]

_SAMPLE_ROWS = 20_000
_FIRST_ROWS = 2_000
_NEARLY_ALL = 0.995
"""Where so many of the first rows are distinct, those of the sample are too; where hardly any are, they pay."""

_HARDLY_ANY = 0.02
_LENGTH_BYTES = 4
"""What Parquet stores with each text or binary value."""


def worthwhile(fields: list[Field], table: pa.Table) -> list[bool]:
    """For each column of values, in the file's order, whether it should have a dictionary.

    >>> from floe.spec.types import LONG
    >>> fields = [Field(1, "few", LONG), Field(2, "many", LONG)]
    >>> worthwhile(fields, pa.table({"few": [7] * 100, "many": range(100)}))
    [True, False]
    """
    sample = table.slice(0, _SAMPLE_ROWS).combine_chunks()
    columns = [_joined(column) for column in sample.columns]
    return [_pays(leaf) for field, column in zip(fields, columns, strict=True) for leaf in _leaves(field, column)]


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([*column.chunks, pa.array([], column.type)])


def _leaves(field: Field, array: pa.Array) -> Iterator[pa.Array]:
    match field.type.kind:
        case "struct":
            for place, child in enumerate(field.type.fields):
                yield from _leaves(child, array.field(place))
        case "list":
            yield from _leaves(field.type.fields[0], Repeated.of(array).items(array.values))
        case "map":
            parts = Repeated.of(array)
            for child, stored in zip(field.type.fields, (array.keys, array.items), strict=True):
                yield from _leaves(child, parts.items(stored))
        case "variant":
            yield from (array.field(0), array.field(1))
        case _:
            yield array


def _pays(array: pa.Array) -> bool:
    values = array.slice(0, _SAMPLE_ROWS)
    values = values.drop_null() if values.null_count else values
    if not len(values):
        return True
    if len(values) > _FIRST_ROWS:
        share: float = pc.count_distinct(values.slice(0, _FIRST_ROWS)).as_py() / _FIRST_ROWS
        if share > _NEARLY_ALL or share < _HARDLY_ANY:
            return share < _HARDLY_ANY
    distinct = values.unique()
    plain = _plain_bytes(values)
    numbers = len(values) * max(len(distinct) - 1, 1).bit_length() / 8
    return _plain_bytes(distinct) + numbers < plain


def _plain_bytes(values: pa.Array) -> float:
    if pa.types.is_boolean(values.type):
        return len(values) / 8
    if pa.types.is_binary(values.type) or pa.types.is_string(values.type):
        return float((pc.sum(pc.binary_length(values)).as_py() or 0) + _LENGTH_BYTES * len(values))
    return float(len(values) * values.type.bit_width / 8)
