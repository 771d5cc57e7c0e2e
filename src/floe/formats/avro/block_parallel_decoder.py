"""Rows of many Avro blocks decoded at once: one lane for each block, all of them moving from row to row together.

Where a row begins is known only when the one before it was read, but blocks do not depend on each other. A walk through
them finds the place of every value; each column is then decoded in one go. This is for rows of plain columns in enough
blocks. What is nested, or not of the usual form, raises `Declined`, and is read row by row instead, which also tells
what is wrong with broken bytes.
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
from floe.formats.arrow_arrays import validity_buffer
from floe.formats.arrow_types import arrow_type
from floe.formats.avro.column_decoders import decimals_of
from floe.spec.schemas.name_mapping import FileField
from floe.spec.types import DecimalType

LANES_AT_LEAST = 8
"""With fewer blocks, row by row is as fast."""

_MOST_WASTE = 4
"""How many times the places of all values may be reserved, where blocks have very different numbers of rows."""

Mask = NDArray[np.bool_]
_End = Callable[[PaddedBytes, Offsets], Offsets]
_Decode = Callable[[PaddedBytes, Offsets, Mask], pa.Array]
"""From the places of the values that are there, and which those are, to a column."""


def _after(size: int) -> _End:
    return lambda window, at: at + size


_ENDS: dict[str, _End] = {
    "null": _after(0),
    "boolean": _after(1),
    "int": end_of_longs,
    "long": end_of_longs,
    "float": _after(4),
    "double": _after(8),
    "bytes": end_of_bytes,
    "string": end_of_bytes,
    "enum": end_of_longs,
}


@dataclass(frozen=True, slots=True)
class _Slot:
    """A column on the way through a row: how to step over its value, and how to decode it, if it is wanted."""

    end: _End
    branches: tuple[int, int] | None
    """The bytes that say null and that say value, of a column that may be null."""

    decode: _Decode | None


class Together:
    """Decodes blocks of rows of one layout."""

    def __init__(self, slots: Sequence[_Slot]) -> None:
        self._slots = slots

    def columns(self, contents: Sequence[bytes], counts: Sequence[int]) -> list[pa.Array]:
        """The wanted columns of all rows of some blocks, each of which has that many."""
        raw = b"".join((*contents, bytes(PADDING)))
        window = PaddedBytes(np.frombuffer(raw, np.uint8), len(raw) - PADDING)
        ends = np.cumsum([len(content) for content in contents])
        try:
            walk = _Walk(window, ends - np.array([len(content) for content in contents]), ends, np.array(counts))
            found = walk.through(self._slots)
            decoded = zip((slot.decode for slot in self._slots), found, strict=True)
            return [decode(window, *places) for decode, places in decoded if decode is not None and places is not None]
        except (IndexError, pa.ArrowException):
            raise UnusualEncoding("bytes that are not as they should be") from None


class _Walk:
    """The way through the blocks, whose lanes are ordered by how many rows they have left."""

    def __init__(self, window: PaddedBytes, begins: Offsets, ends: Offsets, counts: Offsets) -> None:
        self._window = window
        self._counts = counts
        self._order = np.argsort(-counts, kind="stable")
        self._at, self._ends = begins[self._order], ends[self._order]
        self._steps = int(counts.max(initial=0))
        if self._steps * len(counts) > _MOST_WASTE * max(int(counts.sum()), 1):
            raise UnusualEncoding("blocks of too different sizes")

    def through(self, slots: Sequence[_Slot]) -> list[tuple[Offsets, Mask] | None]:
        """For each wanted column the places of its values, and in which rows there are some."""
        shape = (self._steps, len(self._counts))
        places = [None if slot.decode is None else np.zeros(shape, np.int64) for slot in slots]
        told = [None if slot.branches is None else np.zeros(shape, np.uint8) for slot in slots]
        left = np.bincount(self._counts, minlength=self._steps + 1)
        active = len(self._counts) - int(left[0])
        for step in range(self._steps):
            self._row(slots, places, told, step, active)
            active -= int(left[step + 1])
        if (self._at != self._ends).any():
            raise UnusualEncoding("rows that do not end with their block")
        rows = np.arange(self._steps) < self._counts[:, None]
        back = np.argsort(self._order, kind="stable")
        return [self._in_order(*column, rows, back) for column in zip(slots, places, told, strict=True)]

    def _row(
        self,
        slots: Sequence[_Slot],
        places: Sequence[Offsets | None],
        told: Sequence[NDArray[np.uint8] | None],
        step: int,
        active: int,
    ) -> None:
        """Step over a row in all lanes that have one left."""
        window, at = self._window, self._at[:active]
        for slot, own, branches in zip(slots, places, told, strict=True):
            there = None
            if slot.branches is not None and branches is not None:
                branch = window.data[at]
                branches[step, :active] = branch
                there = branch == slot.branches[1]
                at = at + 1
            if own is not None:
                own[step, :active] = at
            if there is None or there.all():
                at = slot.end(window, at)
            elif there.any():
                lanes = np.flatnonzero(there)
                at[lanes] = slot.end(window, at[lanes])
        if active and int(at.max()) > window.size:
            raise UnusualEncoding("a row beyond the end")
        self._at[:active] = at

    def _in_order(
        self, slot: _Slot, places: Offsets | None, told: NDArray[np.uint8] | None, rows: Mask, back: Offsets
    ) -> tuple[Offsets, Mask] | None:
        """Places in the order of the rows, which is that of the blocks."""
        if told is not None and slot.branches is not None:
            branch = told.T[back][rows]
            there = branch == slot.branches[1]
            if not (there | (branch == slot.branches[0])).all():
                raise UnusualEncoding("a branch that a union does not have")
        else:
            there = np.ones(int(rows.sum()), bool)
        return None if places is None else (places.T[back][rows][there], there)


# columns --------------------------------------------------------------------------------------------------------------


def together(layout: Node, columns: Sequence[FileField], chosen: Sequence[int]) -> Together | None:
    """What decodes the chosen columns of rows of a layout at once; None if they are not all plain."""
    if not layout.smallest:
        return None  # rows that may take no bytes
    slots = []
    for place, child in enumerate(layout.fields):
        slot = _slot(child.node, columns[place] if place in set(chosen) else None)
        if slot is None:
            return None
        slots.append(slot)
    return Together(slots)


def _slot(node: Node, column: FileField | None) -> _Slot | None:
    branches = None
    if node.kind == "union":
        nulls = [place for place, branch in enumerate(node.branches) if branch.kind == "null"]
        if len(node.branches) != 2 or len(nulls) != 1:
            return None
        branches = (nulls[0] << 1, (1 - nulls[0]) << 1)
        node = node.branches[1 - nulls[0]]
    end = _after(node.size) if node.kind == "fixed" else _ENDS.get(node.kind)
    if end is None:
        return None
    decode = None if column is None else _decoder(node, column)
    return None if column is not None and decode is None else _Slot(end, branches, decode)


def _decoder(node: Node, column: FileField) -> _Decode | None:
    """How a column is decoded; None for the few that are read row by row."""
    type_ = column.stored
    logical = node.declared.get("logicalType") if isinstance(node.declared, dict) else None
    if type_ is None or type_.kind == "unknown" or (logical or "").endswith("-millis"):
        return None
    wanted = arrow_type(type_)
    match node.kind:
        case "int" | "long":
            return lambda window, at, there: _longs(wanted, window, at, there)
        case "float" | "double":
            return lambda window, at, there: _floats(wanted, window, at, there)
        case "boolean":
            return _booleans
        case "string" if type_.kind == "string":
            return lambda window, at, there: _slices(window, at, there).cast(wanted)
        case "bytes" if type_.kind == "binary":
            return _slices
        case "fixed" if isinstance(type_, DecimalType) and 0 < node.size <= 16:
            return lambda window, at, there: decimals_of(
                type_, _spread(_matrix(window, at, node.size), there), validity_buffer(_nulls(there))
            )
        case "fixed" if type_.kind in ("fixed", "uuid"):
            return lambda window, at, there: _array(wanted, _matrix(window, at, node.size), there)
    return None


def _nulls(there: Mask) -> Mask | None:
    return None if there.all() else there


def _spread(values: NDArray[Any], there: Mask) -> NDArray[Any]:
    """Values at the rows that have them, and zeros elsewhere."""
    if there.all():
        return values
    full = np.zeros((len(there), *values.shape[1:]), values.dtype)
    full[there] = values
    return full


def _array(type_: pa.DataType, values: NDArray[Any], there: Mask) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(_spread(values, there)))
    return pa.Array.from_buffers(type_, len(there), [validity_buffer(_nulls(there)), data])


def _longs(type_: pa.DataType, window: PaddedBytes, at: Offsets, there: Mask) -> pa.Array:
    numbers, _ = read_longs(window, at)
    if type_.bit_width == 64:
        return _array(type_, numbers, there)
    narrow = numbers.astype(np.int32)
    if (narrow != numbers).any():
        raise UnusualEncoding("a number of more than 32 bits")
    return _array(type_, narrow, there)


def _floats(type_: pa.DataType, window: PaddedBytes, at: Offsets, there: Mask) -> pa.Array:
    words = window.words[at]
    return _array(type_, words.astype("<u8") if type_.bit_width == 64 else words.astype("<u4"), there)


def _booleans(window: PaddedBytes, at: Offsets, there: Mask) -> pa.Array:
    values = window.data[at]
    if (values > 1).any():
        raise UnusualEncoding("a boolean that is neither")
    return pa.array(_spread(values, there).astype(bool), mask=None if there.all() else ~there)


def _slices(window: PaddedBytes, at: Offsets, there: Mask) -> pa.Array:
    sizes, begins = read_longs(window, at)
    content, _ = take_slices(window.data, begins, begins + sizes)
    ends = np.cumsum(_spread(sizes, there))
    if len(ends) and ends[-1] >= 2**31:
        raise UnusualEncoding("more text than an array holds")
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(there), [validity_buffer(_nulls(there)), pa.py_buffer(offsets), content]
    )


def _matrix(window: PaddedBytes, at: Offsets, size: int) -> NDArray[np.uint8]:
    found: NDArray[np.uint8] = window.data[at[:, None] + np.arange(size)]
    return found
