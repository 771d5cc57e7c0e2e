"""Decodes scanned manifest entries: whole columns into arrays, or the values of some entries into Python objects.

Values are as stored: inheritance, and checks beyond the encoding, are in `floe.avro.manifest_columns`.
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
    """The columns of scanned entries, by the format's field names."""

    def __init__(self, scan: ScannedEntries) -> None:
        self.scan = scan
        self.data = scan.window.data

    def __len__(self) -> int:
        return len(self.scan)

    # Numbers and strings ----------------------------------------------------------------------------------------

    def _locate(self, name: str) -> tuple[Slot, Offsets, Mask | None] | None:
        index = self.scan.layout.index.get(name)
        return None if index is None else self._locate_slot(index)

    def _locate_slot(self, index: int) -> tuple[Slot, Offsets, Mask | None]:
        """A slot, the offsets of its values, behind the branch of their union, and which values are not null."""
        slot, starts = self.scan.layout.slots[index], self.scan.starts[index].astype(np.int64, copy=False)
        return slot, starts if slot.tag is None else starts + 1, self.scan.valid[index]

    def longs(self, name: str) -> Column:
        """A column of numbers; all null if the file does not have the column."""
        located = self._locate(name)
        if located is None:
            return Column(np.zeros(len(self), np.int64), np.zeros(len(self), np.bool_))
        _, at, valid = located
        return Column(*self._read_present(at, valid, 0, lambda offsets: read_longs(self.scan.window, offsets)[0]))

    def _read_present(
        self, at: Offsets, valid: Mask | None, missing: int, read: Callable[[Offsets], Any]
    ) -> tuple[Any, Mask | None]:
        """Read the values that are not null; the others are `missing`."""
        if valid is None:
            return read(at), None
        rows = np.flatnonzero(valid)
        present = read(at[rows])
        values = np.full(len(at), missing, present.dtype)
        values[rows] = present
        return values, valid

    def required_longs(self, name: str) -> Offsets:
        """A column of numbers; raises CorruptFile if one is null."""
        column = self.longs(name)
        if column.valid is not None and len(self):
            raise CorruptFile(f"an entry has no {name}")
        return np.asarray(column.values)

    def strings(self, name: str) -> VarBytes:
        """A column of strings, as slices of the bytes; all null if the file does not have the column."""
        located = self._locate(name)
        if located is None:
            return VarBytes(self.data, np.zeros(len(self), np.int64), np.full(len(self), -1, np.int64))
        _, at, valid = located
        return self._strings(at, valid)

    def _strings(self, at: Offsets, valid: Mask | None) -> VarBytes:
        rows = slice(None) if valid is None else np.flatnonzero(valid)
        starts, lengths = np.zeros(len(at), np.int64), np.full(len(at), -1, np.int64)
        lengths[rows], starts[rows] = read_longs(self.scan.window, at[rows])
        return VarBytes(self.data, starts, lengths)

    # Partition fields -------------------------------------------------------------------------------------------

    def partition_slot(self, field: Field) -> PartitionSlot | None:
        """The slot of a partition field, matched by id, or by name if the file has no ids; None if there is none."""
        slots = self.scan.layout.partition
        by_id = next((slot for slot in slots if slot.id == field.id), None)
        return by_id or next((slot for slot in slots if slot.id is None and slot.name == field.name), None)

    def partition(self, field: Field) -> Column:
        """The values of a partition field, as `floe.spec.pruning.column_evaluation` takes them.

        All are null if the file does not have the field.
        """
        partition_slot = self.partition_slot(field)
        if partition_slot is None or partition_slot.type.kind == "unknown":
            return _null_column(field.type, len(self))
        slot, at, valid = self._locate_slot(partition_slot.index)
        if _storage_class(partition_slot.type) != _storage_class(field.type):
            if not len(self) or (valid is not None and not valid.any()):
                # a field that became `void` is stored with the type of its source column, and has only nulls
                return _null_column(field.type, len(self))
            raise CorruptFile(
                f"the values of a partition field of type {field.type} are stored as {partition_slot.type}",
                field=field.name,
            )
        if slot.shape == "long":
            unit = _MILLIS if _has_millis(slot.node.declared) else 1
            numbers, valid = self._read_present(at, valid, 0, lambda offsets: read_longs(self.scan.window, offsets)[0])
            return Column(numbers * unit, valid)
        if slot.shape == "bytes":
            strings = self._strings(at, valid)
            return Column(_parse_uuids(strings) if partition_slot.type.kind == "uuid" else strings)
        if slot.node.kind == "fixed":
            is_valid = np.ones(len(self), np.bool_) if valid is None else valid
            return Column(VarBytes(self.data, at, np.where(is_valid, slot.width, -1)))
        return Column(*self._read_present(at, valid, 0, _PLAIN_READERS[slot.node.kind](self.scan.window.words)))

    # Metrics ----------------------------------------------------------------------------------------------------

    def stats(self, field_id: int) -> ColumnStats:
        """The metrics of a column."""
        values, nulls, nans = (self.counts(name, field_id) for name in COUNTS)
        lower, upper = (self._bounds(name, field_id) for name in BOUNDS)
        return ColumnStats(values, nulls, nans, lower, upper)

    def counts(self, name: str, key: int) -> Offsets | None:
        """The counts of a column in the maps of a field: -1 where it is missing, None if the file has no such field."""
        scanned = self.scan.counts.get((name, key))
        located = self._locate(name)
        if scanned is not None or located is None:
            return scanned
        _, at, valid = located
        rows = np.arange(len(at)) if valid is None else np.flatnonzero(valid)
        values = np.full(len(at), -1, np.int64)
        try:
            values[rows] = find_counts(self.scan.window, at[rows], key)
        except UnusualEncoding:
            values[rows] = [(counts_by_id or {}).get(key, -1) for counts_by_id in self.maps(name, rows)]
        return values

    def _bounds(self, name: str, key: int) -> VarBytes | None:
        scanned = self.scan.bounds.get((name, key))
        if scanned is not None:
            return VarBytes(self.data, *scanned)
        located = self._locate(name)
        if located is None:
            return None
        _, at, valid = located
        rows = np.arange(len(at)) if valid is None else np.flatnonzero(valid)
        starts, lengths = np.zeros(len(at), np.int64), np.full(len(at), -1, np.int64)
        try:
            _, slices = end_of_bounds(self.scan.window, at[rows], (key,))
        except UnusualEncoding:
            strings: list[bytes | None] = [None] * len(at)
            for row, bounds_by_id in zip(rows.tolist(), self.maps(name, rows), strict=True):
                strings[row] = (bounds_by_id or {}).get(key)
            return VarBytes.of(strings)
        starts[rows], lengths[rows] = slices[key]
        return VarBytes(self.data, starts, lengths)

    # Objects ----------------------------------------------------------------------------------------------------

    def maps(self, name: str, rows: Offsets) -> list[Any]:
        """Decode the maps of some entries; None for null."""
        if name in BOUNDS:
            return self._decode_objects(
                name, rows, lambda at: decode_bound_maps(self.scan.window, self.scan.raw, at), _pairs_to_dict
            )
        return self._decode_objects(name, rows, lambda at: decode_count_maps(self.scan.window, at), _pairs_to_dict)

    def lists(self, name: str, rows: Offsets) -> list[tuple[int, ...] | None]:
        """Decode the lists of numbers of some entries; None for null."""
        return self._decode_objects(name, rows, lambda at: decode_long_lists(self.scan.window, at), tuple)

    def _decode_objects(
        self, name: str, rows: Offsets, read: Callable[[Offsets], list[Any]], convert: Callable[[Any], Any]
    ) -> list[Any]:
        located = self._locate(name)
        if located is None:
            return [None] * len(rows)
        slot, at, valid = located
        offsets = at[rows]
        present_rows = None if valid is None else np.flatnonzero(valid[rows])
        present_offsets = offsets if present_rows is None else offsets[present_rows]
        try:
            objects = read(present_offsets)
        except UnusualEncoding:
            read_one = make_reader(slot.node)
            objects = [convert(read_one(self.scan.raw, offset)[0]) for offset in present_offsets.tolist()]
        if present_rows is None:
            return objects
        spread: list[Any] = [None] * len(rows)
        for index, value in zip(present_rows.tolist(), objects, strict=True):
            spread[index] = value
        return spread


def _pairs_to_dict(pairs: list[dict[str, Any]]) -> dict[int, Any]:
    return dict(tuple(pair.values()) for pair in pairs)


# Types ------------------------------------------------------------------------------------------------------------


def _storage_class(type_: Type) -> str:
    """The encoding of a type; a date can be declared as int, and an int can have become a long."""
    if type_.kind in INTEGER_KINDS:
        return "integer"
    if type_.kind in FLOAT_KINDS:
        return "float"
    return "decimal" if isinstance(type_, DecimalType) else "bytes"


def _has_millis(declared: Any) -> bool:
    return isinstance(declared, dict) and str(declared.get("logicalType")).endswith("-millis")


def _null_column(type_: Type, count: int) -> Column:
    none = np.zeros(count, np.bool_)
    if _storage_class(type_) in ("integer", "float"):
        return Column(np.zeros(count, np.int64 if _storage_class(type_) == "integer" else np.float64), none)
    return Column(VarBytes(np.zeros(0, np.uint8), np.zeros(count, np.int64), np.full(count, -1, np.int64)))


def _boolean_reader(words: Any) -> Callable[[Offsets], Any]:
    def read(at: Offsets) -> Any:
        flags = words[at] & np.uint64(0xFF)
        if (flags > 1).any():
            raise CorruptFile(f"a boolean must be 0 or 1, found {flags.max()}")
        return flags.astype(np.int64)

    return read


_PLAIN_READERS: dict[str, Callable[[Any], Callable[[Offsets], Any]]] = {
    "boolean": _boolean_reader,
    "float": lambda words: lambda at: words[at].astype(np.uint32).view(np.float32).astype(np.float64),
    "double": lambda words: lambda at: words[at].astype(np.uint64).view(np.float64),
}


def _parse_uuids(texts: VarBytes) -> VarBytes:
    """Convert UUIDs that are stored as text to bytes."""
    try:
        return VarBytes.of([None if text is None else uuid.UUID(text.decode()).bytes for text in texts.to_list()])
    except (ValueError, UnicodeDecodeError):
        raise CorruptFile("a partition value is not the text of a UUID") from None


def _decode_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CorruptFile(f"a string is not UTF-8: {data!r:.80}") from None


def _decode_decimal(data: bytes, scale: int) -> Decimal:
    if len(data) > _MAX_DECIMAL_BYTES:
        raise CorruptFile(f"a decimal has {len(data)} bytes; 38 digits need at most 16")
    return decimal_from_unscaled(int.from_bytes(data, "big", signed=True), scale)


def _decode_uuid(data: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=data)


def column_values(type_: Type, column: Column, rows: Offsets) -> list[Any]:
    """Convert the values of some rows of a column to Python values, in the form that `floe.spec.values` describes.

    >>> from floe.spec.types import STRING
    >>> column_values(STRING, Column(VarBytes.of([b"a", None])), np.array([1, 0]))
    [None, 'a']
    """
    values = column.values
    if isinstance(values, VarBytes):
        convert = _bytes_decoder(type_)
        return [None if value is None else convert(value) for value in values.take(rows).to_list()]
    plain = values[rows].tolist()
    if type_.kind == "boolean":
        plain = [value != 0 for value in plain]
    if column.valid is None:
        return list(plain)
    return [value if is_valid else None for value, is_valid in zip(plain, column.valid[rows].tolist(), strict=True)]


def _bytes_decoder(type_: Type) -> Callable[[bytes], Any]:
    if isinstance(type_, DecimalType):
        return lambda data: _decode_decimal(data, type_.scale)
    if type_.kind == "string":
        return _decode_text
    return _decode_uuid if type_.kind == "uuid" else bytes
