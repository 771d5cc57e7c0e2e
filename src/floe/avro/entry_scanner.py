"""Offsets of the values of manifest entries: finds where each field of each entry starts, without decoding it.

Avro has no index: an entry starts where the one before it ends. But every entry contains the name of its file format,
which can be searched for. So there are two algorithms with the same result:

*Together.* Search for all format names. From there, skip the rest of all entries at once; the end of each entry is the
start of the next. From these starts, skip the first fields of all entries, which must lead to the format names again.
The first entry starts where its block does, and the last must end where its block does. If all of this is true, all
offsets are correct, by induction over the entries. If not, a path contains the name of a format, or the encoding is
unusual, and the second algorithm is used.

*One by one.* Skip each entry by itself. This supports everything that Avro allows, and is faster for few entries.

`take_entries` copies the bytes of some entries, so that the others can be freed. A plan keeps few of the entries that
it reads, and not their metrics, which are most of an entry. The result is a `ScannedEntries` too; columns and objects
are decoded from it on demand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.avro.manifest_layout import ManifestLayout, Slot
from floe.avro.records import Skipper
from floe.avro.vector_decoder import (
    PADDING,
    Offsets,
    PaddedBytes,
    UnusualEncoding,
    end_of_array,
    end_of_bounds,
    end_of_bytes,
    end_of_longs,
    find_counts,
)
from floe.errors import CorruptFile
from floe.spec.manifests.entries import FILE_FORMAT_NAMES
from floe.spec.pruning.range_evaluation import Mask

COUNTS = ("value_counts", "null_value_counts", "nan_value_counts")
BOUNDS = ("lower_bounds", "upper_bounds")

_MIN_TOGETHER = 48
_STRETCH_BYTES = 4 * 2**20
"""The size of the blocks that are scanned together: large for little overhead per lane, but within the CPU's cache."""

_ANCHOR_FIELD = "file_format"
_MAX_WORD_LENGTH = 63  # the length of a longer word takes two bytes


@dataclass(frozen=True, slots=True)
class ScannedEntries:
    """The offsets of all values of some entries.

    `starts[slot]` has the offset of a slot in each entry, which is that of the union's branch if the slot is a union.
    `valid[slot]` says which values are not null; it is None if none is null.
    """

    layout: ManifestLayout
    raw: bytes
    """The content of the blocks, followed by `PADDING` zeros."""

    window: PaddedBytes
    starts: list[Offsets]
    valid: list[Mask | None]
    ends: Offsets
    counts: dict[tuple[str, int], Offsets] = field(default_factory=dict)
    bounds: dict[tuple[str, int], tuple[Offsets, Offsets]] = field(default_factory=dict)
    """The metrics that were found during the scan, by name of the map and column id; -1 for null."""

    is_subset: bool = False
    """Whether the entries were copied by `take_entries`: then slots may be missing, and nulls have no offset."""

    def __len__(self) -> int:
        return len(self.ends)

    def part(self, begin: int, end: int) -> ScannedEntries:
        """The entries from one index to another; the bytes are shared."""
        cut = slice(begin, end)
        return ScannedEntries(
            self.layout,
            self.raw,
            self.window,
            [offsets[cut] for offsets in self.starts],
            [None if mask is None else mask[cut] for mask in self.valid],
            self.ends[cut],
            {key: values[cut] for key, values in self.counts.items()},
            {key: (starts[cut], sizes[cut]) for key, (starts, sizes) in self.bounds.items()},
        )


@dataclass(slots=True)
class _Stretch:
    """Blocks that are scanned together: the number of entries of each, and the offsets between the blocks in `raw`."""

    counts: list[int]
    edges: list[int]


@dataclass(slots=True)
class _ScannedStretch:
    """The offsets of one stretch, with the fields of `ScannedEntries`."""

    starts: list[Offsets]
    valid: list[Mask | None]
    ends: Offsets
    counts: dict[tuple[str, int], Offsets] = field(default_factory=dict)
    bounds: dict[tuple[str, int], tuple[Offsets, Offsets]] = field(default_factory=dict)


def scan_blocks(
    layout: ManifestLayout, blocks: list[bytes], counts: Sequence[int], metrics: Collection[int] = ()
) -> ScannedEntries:
    """Find the offsets of all values in decompressed blocks; `counts` are the numbers of entries of the blocks.

    `metrics` are the field ids of columns whose metrics are looked up during the scan. The blocks are joined, and the
    list is emptied to free their memory.
    """
    edges = list(accumulate(map(len, blocks), initial=0))
    blocks.append(bytes(PADDING))
    raw = b"".join(blocks)
    blocks.clear()
    data = np.frombuffer(raw, np.uint8)
    stretches = [_scan_stretch(layout, raw, data, stretch, metrics) for stretch in _group_into_stretches(counts, edges)]
    return _join_stretches(layout, raw, PaddedBytes(data, edges[-1]), stretches)


def _group_into_stretches(counts: Sequence[int], edges: Sequence[int]) -> Iterator[_Stretch]:
    stretch = _Stretch([], [0])
    for count, begin, end in zip(counts, edges, edges[1:], strict=False):
        if count == 0:
            if end > begin:
                raise CorruptFile(f"a block without records has {end - begin} bytes")
            continue
        if stretch.counts and end - stretch.edges[0] > _STRETCH_BYTES:
            yield stretch
            stretch = _Stretch([], [begin])
        stretch.counts.append(count)
        stretch.edges.append(end)
    if stretch.counts:
        yield stretch


def _scan_stretch(
    layout: ManifestLayout, raw: bytes, data: NDArray[np.uint8], stretch: _Stretch, metrics: Collection[int]
) -> _ScannedStretch:
    if layout.columnar and sum(stretch.counts) >= _MIN_TOGETHER:
        try:
            return _scan_together(layout, raw, data, stretch, metrics)
        except (UnusualEncoding, IndexError):  # a wrong guess can lead to an index beyond the end
            pass
    return _scan_one_by_one(layout, raw, stretch)


def _join_stretches(
    layout: ManifestLayout, raw: bytes, window: PaddedBytes, stretches: list[_ScannedStretch]
) -> ScannedEntries:
    slots = range(len(layout.slots))
    if len(stretches) == 1:
        (stretch,) = stretches
        return ScannedEntries(
            layout, raw, window, stretch.starts, stretch.valid, stretch.ends, stretch.counts, stretch.bounds
        )
    sizes = [len(stretch.ends) for stretch in stretches]
    shared = set.intersection(*({*stretch.counts, *stretch.bounds} for stretch in stretches)) if stretches else set()
    return ScannedEntries(
        layout,
        raw,
        window,
        [_concatenate([stretch.starts[n] for stretch in stretches]) for n in slots],
        [_concatenate_masks([stretch.valid[n] for stretch in stretches], sizes) for n in slots],
        _concatenate([stretch.ends for stretch in stretches]),
        {key: _concatenate([stretch.counts[key] for stretch in stretches]) for key in shared if key[0] in COUNTS},
        {
            key: (
                _concatenate([stretch.bounds[key][0] for stretch in stretches]),
                _concatenate([stretch.bounds[key][1] for stretch in stretches]),
            )
            for key in shared
            if key[0] in BOUNDS
        },
    )


def _concatenate(parts: Iterable[Offsets]) -> Offsets:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _concatenate_masks(masks: list[Mask | None], sizes: list[int]) -> Mask | None:
    if all(mask is None for mask in masks):
        return None
    parts = [np.ones(size, np.bool_) if mask is None else mask for mask, size in zip(masks, sizes, strict=True)]
    return np.concatenate(parts)


# Scan of all entries together ---------------------------------------------------------------------------------


def _scan_together(
    layout: ManifestLayout, raw: bytes, data: NDArray[np.uint8], stretch: _Stretch, metrics: Collection[int]
) -> _ScannedStretch:
    begin, end = stretch.edges[0], stretch.edges[-1]
    window = PaddedBytes(data[begin : end + PADDING], end - begin)
    anchors = _find_format_names(raw, begin, end, sum(stretch.counts)) - begin
    split = layout.index[_ANCHOR_FIELD]
    if layout.slots[split].tag is not None:
        raise UnusualEncoding("the file format may be null")
    walk = _Walk(window, layout, metrics)

    ends = walk.skip_slots(range(split, len(layout.slots)), anchors)
    last = np.cumsum(stretch.counts) - 1
    edges = np.array(stretch.edges, np.int64) - begin
    if (ends[last] != edges[1:]).any():
        raise UnusualEncoding("the last entry of a block does not end with it")
    starts = np.concatenate([edges[:1], ends[:-1]])
    if (walk.skip_slots(range(split), starts) != anchors).any():
        raise UnusualEncoding("the offset of a file format is not the one that the entry has")
    return walk.to_stretch(begin, ends)


@lru_cache(maxsize=4)
def _format_pattern(names: tuple[str, ...]) -> re.Pattern[bytes]:
    """The pattern of encoded file formats: the length as an Avro long, and the name in upper or lower case."""
    words = [word.encode() for name in sorted(names) for word in (name.upper(), name)]
    return re.compile(b"|".join(re.escape(bytes([2 * len(w)]) + w) for w in words if len(w) <= _MAX_WORD_LENGTH))


def _find_format_names(raw: bytes, begin: int, end: int, count: int) -> Offsets:
    """The offsets where the entries seem to have their file formats."""
    any_format = _format_pattern(tuple(FILE_FORMAT_NAMES))
    first = any_format.search(raw, begin, end)
    if first is None:
        raise UnusualEncoding("no file format is found")
    # entries have about the same size, so most of the next entry need not be searched
    entry_size = (end - begin) // count
    for step in (entry_size * 7 // 8, entry_size // 2, 1):
        offsets = _find_word(raw, first.group(), first.start(), end, step)
        if len(offsets) == count:
            return np.array(offsets, np.int64)
    offsets = [match.start() for match in any_format.finditer(raw, begin, end)]
    if len(offsets) != count:
        raise UnusualEncoding("there are more file formats than entries, or fewer")
    return np.array(offsets, np.int64)


def _find_word(raw: bytes, word: bytes, offset: int, end: int, step: int) -> list[int]:
    find, step = raw.find, max(step, 1)
    offsets: list[int] = []
    add = offsets.append
    while offset >= 0:
        add(offset)
        offset = find(word, offset + step, end)
    return offsets


class _Walk:
    """Skips the values of all entries of a stretch together, slot by slot, and records their offsets."""

    def __init__(self, window: PaddedBytes, layout: ManifestLayout, metrics: Collection[int]) -> None:
        self.window = window
        self.layout = layout
        self.metrics = tuple(metrics)
        self.starts: dict[int, Offsets] = {}
        self.valid: dict[int, Mask | None] = {}
        self.bounds: dict[tuple[str, int], tuple[Offsets, Offsets]] = {}

    def skip_slots(self, numbers: range, at: Offsets) -> Offsets:
        """Skip some slots; returns the offsets behind the last."""
        for number in numbers:
            slot = self.layout.slots[number]
            self.starts[number] = at
            self.valid[number] = None
            if slot.tag is None:
                at = self.skip_value(slot, at, None)
                continue
            tags = self.window.data[at]
            present = tags == slot.tag
            if present.all():
                at = self.skip_value(slot, at + 1, None)
                continue
            if slot.null is None or (tags[~present] != slot.null).any():
                raise UnusualEncoding("a union's branch is not one of its branches")
            self.valid[number] = present
            lanes = np.flatnonzero(present)
            at = at + 1
            at[lanes] = self.skip_value(slot, at[lanes], lanes, len(at))
        return at

    def skip_value(self, slot: Slot, at: Offsets, lanes: Offsets | None, count: int = 0) -> Offsets:
        """The offsets behind the values of a slot; `lanes` are the entries whose value is not null, None for all."""
        window = self.window
        if slot.shape == "long":
            return end_of_longs(window, at)
        if slot.shape == "bytes":
            return end_of_bytes(window, at)
        if slot.shape == "longs":
            return end_of_array(window, at, 1)
        if slot.shape == "long_map":
            return end_of_array(window, at, 2)
        if slot.shape == "bytes_map":
            ends, bounds_by_key = end_of_bounds(window, at, self.metrics if slot.name in BOUNDS else ())
            for key, (starts, sizes) in bounds_by_key.items():
                if lanes is not None:
                    starts, sizes = _spread(starts, lanes, count, 0), _spread(sizes, lanes, count, -1)
                self.bounds[slot.name, key] = starts, sizes
            return ends
        return at + slot.width

    def to_stretch(self, base: int, ends: Offsets) -> _ScannedStretch:
        """The recorded offsets, relative to the start of all bytes."""
        slots = range(len(self.layout.slots))
        counts = {(name, key): self.find_counts_of(name, key, len(ends)) for name in COUNTS for key in self.metrics}
        no_bounds = np.full(len(ends), -1, np.int64) if self.metrics else ends
        bounds = {}
        for name in BOUNDS:
            for key in self.metrics:
                starts, sizes = self.bounds.get((name, key), (no_bounds, no_bounds))
                bounds[name, key] = starts + base, sizes
        return _ScannedStretch(
            [self.starts[n] + base for n in slots], [self.valid[n] for n in slots], ends + base, counts, bounds
        )

    def find_counts_of(self, name: str, key: int, count: int) -> Offsets:
        number = self.layout.index.get(name)
        if number is None:
            return np.full(count, -1, np.int64)
        starts, valid = self.starts[number], self.valid[number]
        tag = 0 if self.layout.slots[number].tag is None else 1
        if valid is None:
            return find_counts(self.window, starts + tag, key)
        lanes = np.flatnonzero(valid)
        return _spread(find_counts(self.window, starts[lanes] + tag, key), lanes, count, -1)


def _spread(values: Offsets, lanes: Offsets, count: int, missing: int) -> Offsets:
    """Spread the values of some lanes over an array of all lanes."""
    spread = np.full(count, missing, np.int64)
    spread[lanes] = values
    return spread


# Scan of entries one by one -----------------------------------------------------------------------------------


def _scan_one_by_one(layout: ManifestLayout, raw: bytes, stretch: _Stretch) -> _ScannedStretch:
    offsets: list[list[int]] = [[] for _ in layout.slots]
    flags: list[list[bool]] = [[] for _ in layout.slots]
    ends: list[int] = []
    steps: list[_Step] = [
        (slot_offsets.append, slot_flags.append, slot.tag, slot.null, slot.skip)
        for slot_offsets, slot_flags, slot in zip(offsets, flags, layout.slots, strict=True)
    ]
    try:
        for count, begin, end in zip(stretch.counts, stretch.edges, stretch.edges[1:], strict=False):
            _scan_block(raw, count, begin, end, steps, ends)
    except IndexError:
        raise CorruptFile("an entry goes beyond the last block") from None
    valid = [
        np.array(slot_offsets, np.bool_) if slot_offsets and not all(slot_offsets) else None for slot_offsets in flags
    ]
    return _ScannedStretch(
        [np.array(slot_offsets, np.int64) for slot_offsets in offsets], list(valid), np.array(ends, np.int64)
    )


_Step = tuple[Callable[[int], None], Callable[[bool], None], int | None, int | None, Skipper]


def _scan_block(raw: bytes, count: int, at: int, end: int, steps: list[_Step], ends: list[int]) -> None:
    """Record the offsets of the entries of a block."""
    for _ in range(count):
        for add_offset, add_flag, tag, null, skip in steps:
            add_offset(at)
            if tag is not None:
                byte = raw[at]
                if byte != tag and byte != null:
                    raise CorruptFile(f"a union's branch must be {tag} or {null}, found {byte}", position=at)
                at += 1
                add_flag(byte == tag)
                if byte != tag:
                    continue
            at = skip(raw, at)
        ends.append(at)
        if at > end:
            raise CorruptFile("an entry goes beyond its block", position=at)
    if at != end:
        raise CorruptFile(f"{end - at} bytes follow the last entry of a block", position=at)


# Copies of some entries ---------------------------------------------------------------------------------------

_OMITTED = ""
"""The name of slots that were not copied."""


def take_slices(data: NDArray[np.uint8], begins: Offsets, ends: Offsets) -> tuple[pa.Buffer, Offsets]:
    """Copy ascending slices that do not overlap. Returns the joined bytes, and the offsets between the slices.

    >>> buffer, offsets = take_slices(np.frombuffer(b"abcdef", np.uint8), np.array([1, 4]), np.array([3, 5]))
    >>> buffer.to_pybytes(), offsets.tolist()
    (b'bce', [0, 2, 3])
    """
    count = len(begins)
    if count == 0:
        return pa.py_buffer(b""), np.zeros(1, np.int64)
    # The slices and the gaps between them are an Arrow array of strings, without a copy; Arrow takes every second one.
    edges = np.empty(2 * count, np.int64)
    edges[0::2], edges[1::2] = begins, ends
    strings = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), 2 * count - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)]
    )
    kept_slices = pc.take(strings, pa.array(np.arange(0, 2 * count, 2)), boundscheck=False)
    _, offsets, content = kept_slices.buffers()
    slice_offsets = np.frombuffer(offsets, np.int64, count + 1, kept_slices.offset * 8)
    return content.slice(
        int(slice_offsets[0]), int(slice_offsets[-1] - slice_offsets[0])
    ), slice_offsets - slice_offsets[0]


def take_entries(scan: ScannedEntries, rows: Offsets, without: Collection[str] = ()) -> ScannedEntries:
    """Copy the entries at some ascending rows; the slots named in `without` are omitted, as if the file had none."""
    layout = scan.layout
    is_kept = [name not in without and name != _OMITTED for name in (slot.name for slot in layout.slots)]
    runs = [range(len(is_kept))] if scan.is_subset else _kept_runs(is_kept)
    begins, ends = _slice_bounds(scan, rows, runs)
    # the padding behind the last entry is copied as one more slice
    size = scan.window.size
    buffer, offsets = take_slices(
        scan.window.data, np.append(begins.ravel(), size), np.append(ends.ravel(), size + PADDING)
    )
    raw = buffer.to_pybytes()
    shifts = offsets[:-2].reshape(len(rows), len(runs)) - begins
    starts: list[Any] = [np.zeros(0, np.int64)] * len(layout.slots)
    valid: list[Any] = [None] * len(layout.slots)
    for n, run in enumerate(runs):
        for slot in run:
            if not is_kept[slot]:
                continue
            mask = scan.valid[slot]
            valid[slot] = None if mask is None else _compact_mask(mask[rows])
            if valid[slot] is not None and not valid[slot].any():
                starts[slot] = np.broadcast_to(np.int64(0), (len(rows),))
            else:
                starts[slot] = (scan.starts[slot][rows] + shifts[:, n]).astype(_offset_type(len(raw)))
    index = {name: n for name, n in layout.index.items() if is_kept[n]}
    slots = tuple(
        slot if kept else replace(slot, name=_OMITTED) for slot, kept in zip(layout.slots, is_kept, strict=True)
    )
    return ScannedEntries(
        replace(layout, slots=slots, index=index),
        raw,
        PaddedBytes(np.frombuffer(raw, np.uint8), len(raw) - PADDING),
        starts,
        valid,
        offsets[len(runs) : -1 : len(runs)],
        is_subset=True,
    )


def _slice_bounds(scan: ScannedEntries, rows: Offsets, runs: list[range]) -> tuple[Offsets, Offsets]:
    """The offsets where the runs of slots to copy start and end: one row per entry, one column per run."""
    begins = np.empty((len(rows), len(runs)), np.int64)
    ends = np.empty_like(begins)
    if scan.is_subset:  # not all slots have offsets any more, but there are no gaps between entries
        begins[:, 0], ends[:, 0] = np.concatenate([[0], scan.ends])[rows], scan.ends[rows]
        return begins, ends
    edges = [*scan.starts, scan.ends]
    for n, run in enumerate(runs):
        begins[:, n], ends[:, n] = edges[run.start][rows], edges[run.stop][rows]
    return begins, ends


def _kept_runs(is_kept: list[bool]) -> list[range]:
    """The runs of adjacent slots that are kept."""
    runs: list[range] = []
    for n, kept in enumerate(is_kept):
        if not kept:
            continue
        if runs and runs[-1].stop == n:
            runs[-1] = range(runs[-1].start, n + 1)
        else:
            runs.append(range(n, n + 1))
    return runs


def _offset_type(size: int) -> Any:
    """The smallest integer type for offsets into so many bytes; a plan keeps them for long, so their size matters."""
    return np.int32 if size < 2**31 else np.int64


def _compact_mask(mask: Any) -> Any:
    """The same mask without memory for its elements if all are the same; None if all are True."""
    if mask.all():
        return None
    return np.broadcast_to(np.False_, mask.shape) if not mask.any() else mask
