"""The values of a scanned manifest as they are stored: whole columns as arrays, or those of some entries as objects.

Nothing is inherited here and nothing is checked beyond the encoding; `manifests` does both.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from floe.avro.entry_scanner import BOUNDS, COUNTS, ScannedEntries
from floe.avro.manifest_layout import PartitionSlot, Slot
from floe.avro.records import make_reader
from floe.avro.vector_decoder import (
    Offsets,
    UnusualEncoding,
    decode_bound_maps,
    decode_count_maps,
    decode_long_lists,
    end_of_bounds,
    find_counts,
    read_longs,
)
from floe.errors import CorruptFile
from floe.spec.pruning.column_evaluation import Column
from floe.spec.pruning.metrics_evaluation import ColumnStats
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.pruning.ranges import FLOAT_KINDS, INTEGER_KINDS
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.types import DecimalType, Field, Type
from floe.spec.values.exact_numbers import decimal_from_unscaled

_MILLIS = 1000
_MAX_DECIMAL_BYTES = 32


class StoredColumns:
    """The columns of a scan, by the names that the format has for its fields."""

    def __init__(self, scan: ScannedEntries) -> None:
        self.scan = scan
        self.data = scan.window.data

    def __len__(self) -> int:
        return len(self.scan)

    # numbers and strings ----------------------------------------------------------------------------------------

    def _slot(self, name: str) -> tuple[Slot, Offsets, Mask | None] | None:
        number = self.scan.layout.index.get(name)
        return None if number is None else self._numbered(number)

    def _numbered(self, number: int) -> tuple[Slot, Offsets, Mask | None]:
        """A slot, where its values are, behind the byte of their union, and which are not null."""
        slot, starts = self.scan.layout.slots[number], self.scan.starts[number].astype(np.int64, copy=False)
        return slot, starts if slot.tag is None else starts + 1, self.scan.valid[number]

    def longs(self, name: str) -> Column:
        """A column of numbers; all null if the file has none."""
        found = self._slot(name)
        if found is None:
            return Column(np.zeros(len(self), np.int64), np.zeros(len(self), np.bool_))
        _, at, valid = found
        return Column(*self._present(at, valid, 0, lambda places: read_longs(self.scan.window, places)[0]))

    def _present(
        self, at: Offsets, valid: Mask | None, missing: int, read: Callable[[Offsets], Any]
    ) -> tuple[Any, Mask | None]:
        """The values where there are some."""
        if valid is None:
            return read(at), None
        rows = np.flatnonzero(valid)
        some = read(at[rows])
        values = np.full(len(at), missing, some.dtype)
        values[rows] = some
        return values, valid

    def required_longs(self, name: str) -> Offsets:
        """A column of numbers that must all be there."""
        column = self.longs(name)
        if column.valid is not None and len(self):
            raise CorruptFile(f"an entry has no {name}")
        return np.asarray(column.values)

    def strings(self, name: str) -> VarBytes:
        """A column of strings, in place."""
        found = self._slot(name)
        if found is None:
            return VarBytes(self.data, np.zeros(len(self), np.int64), np.full(len(self), -1, np.int64))
        _, at, valid = found
        return self._strings(at, valid)

    def _strings(self, at: Offsets, valid: Mask | None) -> VarBytes:
        rows = slice(None) if valid is None else np.flatnonzero(valid)
        starts, lengths = np.zeros(len(at), np.int64), np.full(len(at), -1, np.int64)
        lengths[rows], starts[rows] = read_longs(self.scan.window, at[rows])
        return VarBytes(self.data, starts, lengths)

    # partition fields -------------------------------------------------------------------------------------------

    def partition_slot(self, field: Field) -> PartitionSlot | None:
        """The slot of a partition field: by its id, or by its name where the file has no ids."""
        slots = self.scan.layout.partition
        by_id = next((slot for slot in slots if slot.id == field.id), None)
        return by_id or next((slot for slot in slots if slot.id is None and slot.name == field.name), None)

    def partition(self, field: Field) -> Column:
        """The values of a partition field, in the layout of `columnar_rows`; all null if the file has none."""
        found = self.partition_slot(field)
        if found is None or found.type.kind == "unknown":
            return _nulls(field.type, len(self))
        slot, at, valid = self._numbered(found.index)
        if _family(found.type) != _family(field.type):
            if not len(self) or (valid is not None and not valid.any()):
                return _nulls(field.type, len(self))  # `void` has its source's type, not that of the field before it
            raise CorruptFile(
                f"the values of a partition field of type {field.type} are stored as {found.type}", field=field.name
            )
        if slot.shape == "long":
            unit = _MILLIS if _in_millis(slot.node.declared) else 1
            numbers, valid = self._present(at, valid, 0, lambda places: read_longs(self.scan.window, places)[0])
            return Column(numbers * unit, valid)
        if slot.shape == "bytes":
            strings = self._strings(at, valid)
            return Column(_uuids(strings) if found.type.kind == "uuid" else strings)
        if slot.node.kind == "fixed":
            known = np.ones(len(self), np.bool_) if valid is None else valid
            return Column(VarBytes(self.data, at, np.where(known, slot.width, -1)))
        return Column(*self._present(at, valid, 0, _PLAIN[slot.node.kind](self.scan.window.words)))

    # metrics ----------------------------------------------------------------------------------------------------

    def stats(self, field_id: int) -> ColumnStats:
        """The metrics of a column."""
        values, nulls, nans = (self.counts(name, field_id) for name in COUNTS)
        lower, upper = (self._bounds(name, field_id) for name in BOUNDS)
        return ColumnStats(values, nulls, nans, lower, upper)

    def counts(self, name: str, key: int) -> Offsets | None:
        """What the maps of one name have for a column, -1 where they have nothing; None if the file has no such map."""
        known = self.scan.counts.get((name, key))
        found = self._slot(name)
        if known is not None or found is None:
            return known
        _, at, valid = found
        rows = np.arange(len(at)) if valid is None else np.flatnonzero(valid)
        values = np.full(len(at), -1, np.int64)
        try:
            values[rows] = find_counts(self.scan.window, at[rows], key)
        except UnusualEncoding:
            values[rows] = [(one or {}).get(key, -1) for one in self.maps(name, rows)]
        return values

    def _bounds(self, name: str, key: int) -> VarBytes | None:
        known = self.scan.bounds.get((name, key))
        if known is not None:
            return VarBytes(self.data, *known)
        found = self._slot(name)
        if found is None:
            return None
        _, at, valid = found
        rows = np.arange(len(at)) if valid is None else np.flatnonzero(valid)
        starts, lengths = np.zeros(len(at), np.int64), np.full(len(at), -1, np.int64)
        try:
            _, slices = end_of_bounds(self.scan.window, at[rows], (key,))
        except UnusualEncoding:
            strings: list[bytes | None] = [None] * len(at)
            for row, one in zip(rows.tolist(), self.maps(name, rows), strict=True):
                strings[row] = (one or {}).get(key)
            return VarBytes.of(strings)
        starts[rows], lengths[rows] = slices[key]
        return VarBytes(self.data, starts, lengths)

    # objects of some entries ------------------------------------------------------------------------------------

    def maps(self, name: str, rows: Offsets) -> list[Any]:
        """The maps of some entries; None for null."""
        if name in BOUNDS:
            return self._objects(
                name, rows, lambda at: decode_bound_maps(self.scan.window, self.scan.raw, at), _dict_of_pairs
            )
        return self._objects(name, rows, lambda at: decode_count_maps(self.scan.window, at), _dict_of_pairs)

    def lists(self, name: str, rows: Offsets) -> list[tuple[int, ...] | None]:
        """The lists of numbers of some entries; None for null."""
        return self._objects(name, rows, lambda at: decode_long_lists(self.scan.window, at), tuple)

    def _objects(
        self, name: str, rows: Offsets, read: Callable[[Offsets], list[Any]], convert: Callable[[Any], Any]
    ) -> list[Any]:
        found = self._slot(name)
        if found is None:
            return [None] * len(rows)
        slot, at, valid = found
        places = at[rows]
        present = None if valid is None else np.flatnonzero(valid[rows])
        some = places if present is None else places[present]
        try:
            objects = read(some)
        except UnusualEncoding:
            read_one = make_reader(slot.node)
            objects = [convert(read_one(self.scan.raw, place)[0]) for place in some.tolist()]
        if present is None:
            return objects
        spread: list[Any] = [None] * len(rows)
        for place, one in zip(present.tolist(), objects, strict=True):
            spread[place] = one
        return spread


def _dict_of_pairs(pairs: list[dict[str, Any]]) -> dict[int, Any]:
    return dict(tuple(pair.values()) for pair in pairs)


# types ------------------------------------------------------------------------------------------------------------


def _family(type_: Type) -> str:
    """The kinds that are stored alike: a date may be declared as an int, and an int be a long by now."""
    if type_.kind in INTEGER_KINDS:
        return "integer"
    if type_.kind in FLOAT_KINDS:
        return "float"
    return "decimal" if isinstance(type_, DecimalType) else "bytes"


def _in_millis(declared: Any) -> bool:
    return isinstance(declared, dict) and str(declared.get("logicalType")).endswith("-millis")


def _nulls(type_: Type, count: int) -> Column:
    none = np.zeros(count, np.bool_)
    if _family(type_) in ("integer", "float"):
        return Column(np.zeros(count, np.int64 if _family(type_) == "integer" else np.float64), none)
    return Column(VarBytes(np.zeros(0, np.uint8), np.zeros(count, np.int64), np.full(count, -1, np.int64)))


def _booleans(words: Any) -> Callable[[Offsets], Any]:
    def read(at: Offsets) -> Any:
        found = words[at] & np.uint64(0xFF)
        if (found > 1).any():
            raise CorruptFile(f"a boolean must be 0 or 1, found {found.max()}")
        return found.astype(np.int64)

    return read


_PLAIN: dict[str, Callable[[Any], Callable[[Offsets], Any]]] = {
    "boolean": _booleans,
    "float": lambda words: lambda at: words[at].astype(np.uint32).view(np.float32).astype(np.float64),
    "double": lambda words: lambda at: words[at].astype(np.uint64).view(np.float64),
}


def _uuids(texts: VarBytes) -> VarBytes:
    """UUIDs that are stored as text, in bytes."""
    try:
        return VarBytes.of([None if text is None else uuid.UUID(text.decode()).bytes for text in texts.to_list()])
    except (ValueError, UnicodeDecodeError):
        raise CorruptFile("a partition value is not the text of a UUID") from None


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CorruptFile(f"a string is not UTF-8: {data!r:.80}") from None


def _decimal(data: bytes, scale: int) -> Decimal:
    if len(data) > _MAX_DECIMAL_BYTES:
        raise CorruptFile(f"a decimal of {len(data)} bytes; 38 digits need 16")
    return decimal_from_unscaled(int.from_bytes(data, "big", signed=True), scale)


def _uuid(data: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=data)


def column_values(type_: Type, column: Column, rows: Offsets) -> list[Any]:
    """The values of some rows of a column, in the form of `floe.spec.values`.

    >>> from floe.spec.types import STRING
    >>> column_values(STRING, Column(VarBytes.of([b"a", None])), np.array([1, 0]))
    [None, 'a']
    """
    values = column.values
    if isinstance(values, VarBytes):
        convert = _from_bytes(type_)
        return [None if one is None else convert(one) for one in values.take(rows).to_list()]
    found = values[rows].tolist()
    if type_.kind == "boolean":
        found = [one != 0 for one in found]
    if column.valid is None:
        return list(found)
    return [one if known else None for one, known in zip(found, column.valid[rows].tolist(), strict=True)]


def _from_bytes(type_: Type) -> Callable[[bytes], Any]:
    if isinstance(type_, DecimalType):
        return lambda data: _decimal(data, type_.scale)
    if type_.kind == "string":
        return _text
    return _uuid if type_.kind == "uuid" else bytes
