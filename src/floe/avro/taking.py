"""Some entries of a scan, cut loose from the rest: their bytes are copied together, and all other bytes can go.

A plan keeps few of the entries that it reads, and of these not the metrics, which are most of an entry. What is kept is
a scan like any other, from which columns and objects are decoded when somebody asks.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.avro.lanes import PADDING, Places, Window
from floe.avro.scanning import Scan

__all__ = ["take_entries", "take_slices"]

_GONE = ""
"""The name of slots that were left out."""


def take_slices(data: NDArray[np.uint8], begins: Places, ends: Places) -> tuple[pa.Buffer, Places]:
    """The bytes of ascending slices that do not overlap, one after another, and the offsets between them.

    >>> buffer, offsets = take_slices(np.frombuffer(b"abcdef", np.uint8), np.array([1, 4]), np.array([3, 5]))
    >>> buffer.to_pybytes(), offsets.tolist()
    (b'bce', [0, 2, 3])
    """
    count = len(begins)
    if count == 0:
        return pa.py_buffer(b""), np.zeros(1, np.int64)
    # The slices and the gaps between them are the strings of an Arrow array without a copy; Arrow takes every other.
    edges = np.empty(2 * count, np.int64)
    edges[0::2], edges[1::2] = begins, ends
    strings = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), 2 * count - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)]
    )
    taken = pc.take(strings, pa.array(np.arange(0, 2 * count, 2)), boundscheck=False)
    _, offsets, content = taken.buffers()
    found = np.frombuffer(offsets, np.int64, count + 1, taken.offset * 8)
    return content.slice(int(found[0]), int(found[-1] - found[0])), found - found[0]


def take_entries(scan: Scan, rows: Places, without: Collection[str] = ()) -> Scan:
    """The entries at some ascending rows; the slots of some names are left out, as if the file had none."""
    layout = scan.layout
    kept = [name not in without and name != _GONE for name in (slot.name for slot in layout.slots)]
    runs = [range(len(kept))] if scan.taken else _runs(kept)
    begins, ends = _edges(scan, rows, runs)
    # the padding behind the last entry comes along as a slice of its own
    size = scan.window.size
    buffer, offsets = take_slices(
        scan.window.data, np.append(begins.ravel(), size), np.append(ends.ravel(), size + PADDING)
    )
    raw = buffer.to_pybytes()
    moved = offsets[:-2].reshape(len(rows), len(runs)) - begins
    starts: list[Any] = [np.zeros(0, np.int64)] * len(layout.slots)
    valid: list[Any] = [None] * len(layout.slots)
    for n, run in enumerate(runs):
        for slot in run:
            if not kept[slot]:
                continue
            mask = scan.valid[slot]
            valid[slot] = None if mask is None else _constant(mask[rows])
            if valid[slot] is not None and not valid[slot].any():
                starts[slot] = np.broadcast_to(np.int64(0), (len(rows),))
            else:
                starts[slot] = (scan.starts[slot][rows] + moved[:, n]).astype(_narrow(len(raw)))
    index = {name: n for name, n in layout.index.items() if kept[n]}
    slots = tuple(
        slot if is_kept else replace(slot, name=_GONE) for slot, is_kept in zip(layout.slots, kept, strict=True)
    )
    return Scan(
        replace(layout, slots=slots, index=index),
        raw,
        Window(np.frombuffer(raw, np.uint8), len(raw) - PADDING),
        starts,
        valid,
        offsets[len(runs) : -1 : len(runs)],
        taken=True,
    )


def _edges(scan: Scan, rows: Places, runs: list[range]) -> tuple[Places, Places]:
    """From where to where the stretches of slots go that are to be copied: a row for each entry, a column for each."""
    begins = np.empty((len(rows), len(runs)), np.int64)
    ends = np.empty_like(begins)
    if scan.taken:  # not all slots have a place any more, but entries follow one another without a gap
        begins[:, 0], ends[:, 0] = np.concatenate([[0], scan.ends])[rows], scan.ends[rows]
        return begins, ends
    edges = [*scan.starts, scan.ends]
    for n, run in enumerate(runs):
        begins[:, n], ends[:, n] = edges[run.start][rows], edges[run.stop][rows]
    return begins, ends


def _runs(kept: list[bool]) -> list[range]:
    """The stretches of slots that are kept."""
    runs: list[range] = []
    for n, is_kept in enumerate(kept):
        if not is_kept:
            continue
        if runs and runs[-1].stop == n:
            runs[-1] = range(runs[-1].start, n + 1)
        else:
            runs.append(range(n, n + 1))
    return runs


def _narrow(size: int) -> Any:
    """The type of places among so many bytes; they are kept for long, so their size matters."""
    return np.int32 if size < 2**31 else np.int64


def _constant(mask: Any) -> Any:
    """A mask that takes no room if it says the same everywhere; None if it says that all are there."""
    if mask.all():
        return None
    return np.broadcast_to(np.False_, mask.shape) if not mask.any() else mask
