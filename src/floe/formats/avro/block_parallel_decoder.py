"""Vectorized decoding of the rows of many Avro blocks: a lane for each block, all lanes move from row to row together.

The offset of a row is known only after the row before it was read, but blocks are independent. A walk through all
blocks at once finds the offset of every value; each column is then decoded in one go. This works for flat rows in
enough blocks. Nested rows have no such decoder, and unusual encodings raise `UnusualEncoding`; both are decoded row by
row instead, which also reports what is wrong with damaged bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from floe.avro.entry_scanner import take_slices
from floe.avro.schemas import Node
from floe.avro.vector_decoder import (
    PADDING,
    Offsets,
    PaddedBytes,
    UnusualEncoding,
    end_of_bytes,
    end_of_longs,
    read_longs,
)
from floe.formats.avro.column_decoders import decimals_of
from floe.formats.columns.arrays import validity_buffer
from floe.formats.columns.arrow_types import arrow_type
from floe.spec.schemas.name_mapping import FileField
from floe.spec.types import DecimalType

MIN_LANES = 8
"""The minimum number of blocks: with fewer, decoding row by row is as fast."""

_MAX_WASTE = 4
"""How many times as many offsets as values may be allocated, if blocks have different numbers of rows."""

Mask = NDArray[np.bool_]
_Skip = Callable[[PaddedBytes, Offsets], Offsets]
_Decode = Callable[[PaddedBytes, Offsets, Mask], pa.Array]
"""Decodes a column, from the offsets of its values and the mask of rows that are not null."""


def _skip_bytes(size: int) -> _Skip:
    return lambda window, offsets: offsets + size


_SKIPS: dict[str, _Skip] = {
    "null": _skip_bytes(0),
    "boolean": _skip_bytes(1),
    "int": end_of_longs,
    "long": end_of_longs,
    "float": _skip_bytes(4),
    "double": _skip_bytes(8),
    "bytes": end_of_bytes,
    "string": end_of_bytes,
    "enum": end_of_longs,
}


@dataclass(frozen=True, slots=True)
class _Slot:
    """A column of the row: how to skip its value, and how to decode it if it is requested."""

    skip: _Skip
    branches: tuple[int, int] | None
    """For a union with null, the bytes of the branches of null and of the value."""

    decode: _Decode | None


class BlockParallelDecoder:
    """Decodes the requested columns of blocks of rows with the same layout."""

    def __init__(self, slots: Sequence[_Slot]) -> None:
        self._slots = slots

    def columns(self, contents: Sequence[bytes], counts: Sequence[int]) -> list[pa.Array]:
        """Decode the requested columns of decompressed blocks with some row counts.

        Raises `UnusualEncoding` if the blocks have to be decoded row by row.
        """
        raw = b"".join((*contents, bytes(PADDING)))
        window = PaddedBytes(np.frombuffer(raw, np.uint8), len(raw) - PADDING)
        ends = np.cumsum([len(content) for content in contents])
        try:
            walk = _Walk(window, ends - np.array([len(content) for content in contents]), ends, np.array(counts))
            column_values = walk.find_values(self._slots)
            decoded = zip((slot.decode for slot in self._slots), column_values, strict=True)
            return [decode(window, *values) for decode, values in decoded if decode is not None and values is not None]
        except (IndexError, pa.ArrowException):
            raise UnusualEncoding("invalid bytes") from None


class _Walk:
    """The walk through the blocks, whose lanes are sorted by row count, most rows first."""

    def __init__(self, window: PaddedBytes, begins: Offsets, ends: Offsets, counts: Offsets) -> None:
        self._window = window
        self._counts = counts
        self._order = np.argsort(-counts, kind="stable")
        self._offsets, self._ends = begins[self._order], ends[self._order]
        self._steps = int(counts.max(initial=0))
        if self._steps * len(counts) > _MAX_WASTE * max(int(counts.sum()), 1):
            raise UnusualEncoding("blocks of too different sizes")

    def find_values(self, slots: Sequence[_Slot]) -> list[tuple[Offsets, Mask] | None]:
        """For each requested column, the offsets of its values and the mask of rows that are not null."""
        shape = (self._steps, len(self._counts))
        offsets = [None if slot.decode is None else np.zeros(shape, np.int64) for slot in slots]
        branches = [None if slot.branches is None else np.zeros(shape, np.uint8) for slot in slots]
        ended_lanes = np.bincount(self._counts, minlength=self._steps + 1)
        active = len(self._counts) - int(ended_lanes[0])
        for step in range(self._steps):
            self._skip_row(slots, offsets, branches, step, active)
            active -= int(ended_lanes[step + 1])
        if (self._offsets != self._ends).any():
            raise UnusualEncoding("rows that do not end with their block")
        rows = np.arange(self._steps) < self._counts[:, None]
        block_order = np.argsort(self._order, kind="stable")
        return [self._in_order(*column, rows, block_order) for column in zip(slots, offsets, branches, strict=True)]

    def _skip_row(
        self,
        slots: Sequence[_Slot],
        offsets: Sequence[Offsets | None],
        branches_read: Sequence[NDArray[np.uint8] | None],
        step: int,
        active: int,
    ) -> None:
        """Skip over a row in all lanes that have one left, and record the offsets of its values."""
        window, current = self._window, self._offsets[:active]
        for slot, column_offsets, branches in zip(slots, offsets, branches_read, strict=True):
            is_value = None
            if slot.branches is not None and branches is not None:
                branch = window.data[current]
                branches[step, :active] = branch
                is_value = branch == slot.branches[1]
                current = current + 1
            if column_offsets is not None:
                column_offsets[step, :active] = current
            if is_value is None or is_value.all():
                current = slot.skip(window, current)
            elif is_value.any():
                lanes = np.flatnonzero(is_value)
                current[lanes] = slot.skip(window, current[lanes])
        if active and int(current.max()) > window.size:
            raise UnusualEncoding("a row beyond the end")
        self._offsets[:active] = current

    def _in_order(
        self, slot: _Slot, offsets: Offsets | None, branches: NDArray[np.uint8] | None, rows: Mask, block_order: Offsets
    ) -> tuple[Offsets, Mask] | None:
        """The offsets of a column in the order of the rows, and the mask of rows that are not null."""
        if branches is not None and slot.branches is not None:
            branch = branches.T[block_order][rows]
            valid = branch == slot.branches[1]
            if not (valid | (branch == slot.branches[0])).all():
                raise UnusualEncoding("a branch that a union does not have")
        else:
            valid = np.ones(int(rows.sum()), bool)
        return None if offsets is None else (offsets.T[block_order][rows][valid], valid)


# Columns --------------------------------------------------------------------------------------------------------------


def parallel_decoder(layout: Node, columns: Sequence[FileField], chosen: Sequence[int]) -> BlockParallelDecoder | None:
    """The decoder of the chosen columns of rows of a layout; None if a column cannot be decoded this way."""
    if not layout.smallest:
        return None  # rows may take no bytes
    slots = []
    for index, child in enumerate(layout.fields):
        slot = _slot(child.node, columns[index] if index in set(chosen) else None)
        if slot is None:
            return None
        slots.append(slot)
    return BlockParallelDecoder(slots)


def _slot(node: Node, column: FileField | None) -> _Slot | None:
    branches = None
    if node.kind == "union":
        nulls = [index for index, branch in enumerate(node.branches) if branch.kind == "null"]
        if len(node.branches) != 2 or len(nulls) != 1:
            return None
        branches = (nulls[0] << 1, (1 - nulls[0]) << 1)
        node = node.branches[1 - nulls[0]]
    skip = _skip_bytes(node.size) if node.kind == "fixed" else _SKIPS.get(node.kind)
    if skip is None:
        return None
    decode = None if column is None else _decoder(node, column)
    return None if column is not None and decode is None else _Slot(skip, branches, decode)


def _decoder(node: Node, column: FileField) -> _Decode | None:
    """The function that decodes a column; None for types that are decoded row by row."""
    type_ = column.stored
    logical = node.declared.get("logicalType") if isinstance(node.declared, dict) else None
    if type_ is None or type_.kind == "unknown" or (logical or "").endswith("-millis"):
        return None
    target = arrow_type(type_)
    match node.kind:
        case "int" | "long":
            return lambda window, offsets, valid: _long_array(target, window, offsets, valid)
        case "float" | "double":
            return lambda window, offsets, valid: _float_array(target, window, offsets, valid)
        case "boolean":
            return _boolean_array
        case "string" if type_.kind == "string":
            return lambda window, offsets, valid: _binary_array(window, offsets, valid).cast(target)
        case "bytes" if type_.kind == "binary":
            return _binary_array
        case "fixed" if isinstance(type_, DecimalType) and 0 < node.size <= 16:
            return lambda window, offsets, valid: decimals_of(
                type_, _scatter(_matrix(window, offsets, node.size), valid), validity_buffer(_null_mask(valid))
            )
        case "fixed" if type_.kind in ("fixed", "uuid"):
            return lambda window, offsets, valid: _fixed_array(target, _matrix(window, offsets, node.size), valid)
    return None


def _null_mask(valid: Mask) -> Mask | None:
    return None if valid.all() else valid


def _scatter(values: NDArray[Any], valid: Mask) -> NDArray[Any]:
    """The values at the rows that are not null, and zeros elsewhere."""
    if valid.all():
        return values
    full = np.zeros((len(valid), *values.shape[1:]), values.dtype)
    full[valid] = values
    return full


def _fixed_array(type_: pa.DataType, values: NDArray[Any], valid: Mask) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(_scatter(values, valid)))
    return pa.Array.from_buffers(type_, len(valid), [validity_buffer(_null_mask(valid)), data])


def _long_array(type_: pa.DataType, window: PaddedBytes, offsets: Offsets, valid: Mask) -> pa.Array:
    numbers, _ = read_longs(window, offsets)
    if type_.bit_width == 64:
        return _fixed_array(type_, numbers, valid)
    narrow = numbers.astype(np.int32)
    if (narrow != numbers).any():
        raise UnusualEncoding("a number of more than 32 bits")
    return _fixed_array(type_, narrow, valid)


def _float_array(type_: pa.DataType, window: PaddedBytes, offsets: Offsets, valid: Mask) -> pa.Array:
    words = window.words[offsets]
    return _fixed_array(type_, words.astype("<u8") if type_.bit_width == 64 else words.astype("<u4"), valid)


def _boolean_array(window: PaddedBytes, offsets: Offsets, valid: Mask) -> pa.Array:
    values = window.data[offsets]
    if (values > 1).any():
        raise UnusualEncoding("a boolean that is neither")
    return pa.array(_scatter(values, valid).astype(bool), mask=None if valid.all() else ~valid)


def _binary_array(window: PaddedBytes, value_offsets: Offsets, valid: Mask) -> pa.Array:
    sizes, begins = read_longs(window, value_offsets)
    content, _ = take_slices(window.data, begins, begins + sizes)
    ends = np.cumsum(_scatter(sizes, valid))
    if len(ends) and ends[-1] >= 2**31:
        raise UnusualEncoding("more text than an array holds")
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(valid), [validity_buffer(_null_mask(valid)), pa.py_buffer(offsets), content]
    )


def _matrix(window: PaddedBytes, offsets: Offsets, size: int) -> NDArray[np.uint8]:
    matrix: NDArray[np.uint8] = window.data[offsets[:, None] + np.arange(size)]
    return matrix
