"""Where the values of a manifest's entries are: found for many entries at once, or one after another.

Avro has no index: an entry begins where the one before it ends. But every entry has its file format in it, a word that
can be searched for. So there are two ways, with the same result.

*All at once.* The words are found first. From all of them together the rest of each entry is walked to its end, which
is where the next entry begins; from these beginnings the first part of each entry is walked, and has to arrive at the
words again. The first entry begins where its block does and the last has to end there, so if everything meets, every
place is proved right, one entry after another. If not, some path had such a word in it, or the bytes have an unusual
form, and:

*In turn.* Every entry is walked by itself. This way is exact for everything that Avro allows, and the quicker one for
few entries.

Some entries of a scan, cut loose from the rest: their bytes are copied together, and all other bytes can go.

A plan keeps few of the entries that it reads, and of these not the metrics, which are most of an entry. What is kept is
a scan like any other, from which columns and objects are decoded when somebody asks.
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
from floe.spec.manifests.file_formats import FILE_FORMAT_NAMES
from floe.spec.pruning.range_evaluation import Mask

COUNTS = ("value_counts", "null_value_counts", "nan_value_counts")
BOUNDS = ("lower_bounds", "upper_bounds")

_FEW_ENTRIES = 48
_STRETCH = 4 * 2**20
"""How many bytes are walked together: enough lanes to make each step worth its overhead, and still in the cache."""

_ANCHOR = "file_format"
_LONGEST_WORD = 63  # longer ones do not have their length in one byte


@dataclass(frozen=True, slots=True)
class ScannedEntries:
    """The places of all values of some entries.

    Values are `starts[slot]` for each entry: where the slot begins, with the byte of its union. `valid[slot]` tells
    which are not null, and is None if all are.
    """

    layout: ManifestLayout
    raw: bytes
    """The content of the blocks, one after another, and `PADDING` zeros."""

    window: PaddedBytes
    starts: list[Offsets]
    valid: list[Mask | None]
    ends: Offsets
    counts: dict[tuple[str, int], Offsets] = field(default_factory=dict)
    bounds: dict[tuple[str, int], tuple[Offsets, Offsets]] = field(default_factory=dict)
    """What was asked for beforehand of the metrics, by map and column id; -1 where there is none."""

    taken: bool = False
    """Whether these are entries taken out of others: then slots may be missing, and null ones have no place."""

    def __len__(self) -> int:
        return len(self.ends)

    def part(self, begin: int, end: int) -> ScannedEntries:
        """The places of some of the entries; the bytes are shared."""
        cut = slice(begin, end)
        return ScannedEntries(
            self.layout,
            self.raw,
            self.window,
            [places[cut] for places in self.starts],
            [None if mask is None else mask[cut] for mask in self.valid],
            self.ends[cut],
            {key: values[cut] for key, values in self.counts.items()},
            {key: (starts[cut], sizes[cut]) for key, (starts, sizes) in self.bounds.items()},
        )


@dataclass(slots=True)
class _Stretch:
    """Blocks that are walked together: how many entries each has, and where the blocks begin and end in `raw`."""

    counts: list[int]
    edges: list[int]


@dataclass(slots=True)
class _Found:
    """The places in one stretch."""

    starts: list[Offsets]
    valid: list[Mask | None]
    ends: Offsets
    counts: dict[tuple[str, int], Offsets] = field(default_factory=dict)
    bounds: dict[tuple[str, int], tuple[Offsets, Offsets]] = field(default_factory=dict)


def scan_blocks(
    layout: ManifestLayout, blocks: list[bytes], counts: Sequence[int], metrics: Collection[int] = ()
) -> ScannedEntries:
    """The places of all values in some decompressed blocks; the metrics of some columns are looked up on the way.

    The blocks are copied together, and the list is emptied: they are large, and not needed any more.
    """
    edges = list(accumulate(map(len, blocks), initial=0))
    blocks.append(bytes(PADDING))
    raw = b"".join(blocks)
    blocks.clear()
    data = np.frombuffer(raw, np.uint8)
    found = [_scan(layout, raw, data, stretch, metrics) for stretch in _stretches(counts, edges)]
    return _joined(layout, raw, PaddedBytes(data, edges[-1]), found)


def _stretches(counts: Sequence[int], edges: Sequence[int]) -> Iterator[_Stretch]:
    stretch = _Stretch([], [0])
    for count, begin, end in zip(counts, edges, edges[1:], strict=False):
        if count == 0:
            if end > begin:
                raise CorruptFile(f"a block without records has {end - begin} bytes")
            continue
        if stretch.counts and end - stretch.edges[0] > _STRETCH:
            yield stretch
            stretch = _Stretch([], [begin])
        stretch.counts.append(count)
        stretch.edges.append(end)
    if stretch.counts:
        yield stretch


def _scan(
    layout: ManifestLayout, raw: bytes, data: NDArray[np.uint8], stretch: _Stretch, metrics: Collection[int]
) -> _Found:
    if layout.columnar and sum(stretch.counts) >= _FEW_ENTRIES:
        try:
            return _all_at_once(layout, raw, data, stretch, metrics)
        except (UnusualEncoding, IndexError):  # an index beyond the end is one way to find that a guess was wrong
            pass
    return _in_turn(layout, raw, stretch)


def _joined(layout: ManifestLayout, raw: bytes, window: PaddedBytes, found: list[_Found]) -> ScannedEntries:
    slots = range(len(layout.slots))
    if len(found) == 1:
        (one,) = found
        return ScannedEntries(layout, raw, window, one.starts, one.valid, one.ends, one.counts, one.bounds)
    sizes = [len(one.ends) for one in found]
    shared = set.intersection(*({*one.counts, *one.bounds} for one in found)) if found else set()
    return ScannedEntries(
        layout,
        raw,
        window,
        [_concatenated([one.starts[n] for one in found]) for n in slots],
        [_joined_masks([one.valid[n] for one in found], sizes) for n in slots],
        _concatenated([one.ends for one in found]),
        {key: _concatenated([one.counts[key] for one in found]) for key in shared if key[0] in COUNTS},
        {
            key: (
                _concatenated([one.bounds[key][0] for one in found]),
                _concatenated([one.bounds[key][1] for one in found]),
            )
            for key in shared
            if key[0] in BOUNDS
        },
    )


def _concatenated(parts: Iterable[Offsets]) -> Offsets:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _joined_masks(masks: list[Mask | None], sizes: list[int]) -> Mask | None:
    if all(mask is None for mask in masks):
        return None
    parts = [np.ones(size, np.bool_) if mask is None else mask for mask, size in zip(masks, sizes, strict=True)]
    return np.concatenate(parts)


# all at once ----------------------------------------------------------------------------------------------------


def _all_at_once(
    layout: ManifestLayout, raw: bytes, data: NDArray[np.uint8], stretch: _Stretch, metrics: Collection[int]
) -> _Found:
    begin, end = stretch.edges[0], stretch.edges[-1]
    window = PaddedBytes(data[begin : end + PADDING], end - begin)
    anchors = _anchors(raw, begin, end, sum(stretch.counts)) - begin
    split = layout.index[_ANCHOR]
    if layout.slots[split].tag is not None:
        raise UnusualEncoding("the file format may be null")
    walk = _Walk(window, layout, metrics)

    ends = walk.slots(range(split, len(layout.slots)), anchors)
    last = np.cumsum(stretch.counts) - 1
    edges = np.array(stretch.edges, np.int64) - begin
    if (ends[last] != edges[1:]).any():
        raise UnusualEncoding("the last entry of a block does not end with it")
    starts = np.concatenate([edges[:1], ends[:-1]])
    if (walk.slots(range(split), starts) != anchors).any():
        raise UnusualEncoding("some file format is not where an entry has it")
    return walk.found(begin, ends)


@lru_cache(maxsize=4)
def _format_words(names: tuple[str, ...]) -> re.Pattern[bytes]:
    """The pattern of stored file formats: the length as an Avro number, and the name in upper or lower case."""
    words = [word.encode() for name in sorted(names) for word in (name.upper(), name)]
    return re.compile(b"|".join(re.escape(bytes([2 * len(w)]) + w) for w in words if len(w) <= _LONGEST_WORD))


def _anchors(raw: bytes, begin: int, end: int, count: int) -> Offsets:
    """Where the entries seem to have their file formats."""
    any_format = _format_words(tuple(FILE_FORMAT_NAMES))
    first = any_format.search(raw, begin, end)
    if first is None:
        raise UnusualEncoding("no file format is found")
    # entries are about equally long, so most of the next one need not be searched
    usual = (end - begin) // count
    for step in (usual * 7 // 8, usual // 2, 1):
        places = _find_all(raw, first.group(), first.start(), end, step)
        if len(places) == count:
            return np.array(places, np.int64)
    places = [match.start() for match in any_format.finditer(raw, begin, end)]
    if len(places) != count:
        raise UnusualEncoding("there are more file formats than entries, or fewer")
    return np.array(places, np.int64)


def _find_all(raw: bytes, word: bytes, place: int, end: int, step: int) -> list[int]:
    find, step = raw.find, max(step, 1)
    places: list[int] = []
    add = places.append
    while place >= 0:
        add(place)
        place = find(word, place + step, end)
    return places


class _Walk:
    """All entries of a stretch, walked together slot by slot."""

    def __init__(self, window: PaddedBytes, layout: ManifestLayout, metrics: Collection[int]) -> None:
        self.window = window
        self.layout = layout
        self.metrics = tuple(metrics)
        self.starts: dict[int, Offsets] = {}
        self.valid: dict[int, Mask | None] = {}
        self.bounds: dict[tuple[str, int], tuple[Offsets, Offsets]] = {}

    def slots(self, numbers: range, at: Offsets) -> Offsets:
        """Walk over some slots; the places behind the last."""
        for number in numbers:
            slot = self.layout.slots[number]
            self.starts[number] = at
            self.valid[number] = None
            if slot.tag is None:
                at = self.value(slot, at, None)
                continue
            tags = self.window.data[at]
            present = tags == slot.tag
            if present.all():
                at = self.value(slot, at + 1, None)
                continue
            if slot.null is None or (tags[~present] != slot.null).any():
                raise UnusualEncoding("a union's branch is not one of its branches")
            self.valid[number] = present
            lanes = np.flatnonzero(present)
            at = at + 1
            at[lanes] = self.value(slot, at[lanes], lanes, len(at))
        return at

    def value(self, slot: Slot, at: Offsets, lanes: Offsets | None, count: int = 0) -> Offsets:
        """The places behind the values of a slot; `lanes` are the entries that have one, if not all do."""
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
            ends, found = end_of_bounds(window, at, self.metrics if slot.name in BOUNDS else ())
            for key, (starts, sizes) in found.items():
                if lanes is not None:
                    starts, sizes = _spread(starts, lanes, count, 0), _spread(sizes, lanes, count, -1)
                self.bounds[slot.name, key] = starts, sizes
            return ends
        return at + slot.width

    def found(self, base: int, ends: Offsets) -> _Found:
        """What was found, as places in the whole of the bytes."""
        slots = range(len(self.layout.slots))
        counts = {(name, key): self.counts_of(name, key, len(ends)) for name in COUNTS for key in self.metrics}
        nothing = np.full(len(ends), -1, np.int64) if self.metrics else ends
        bounds = {}
        for name in BOUNDS:
            for key in self.metrics:
                starts, sizes = self.bounds.get((name, key), (nothing, nothing))
                bounds[name, key] = starts + base, sizes
        return _Found(
            [self.starts[n] + base for n in slots], [self.valid[n] for n in slots], ends + base, counts, bounds
        )

    def counts_of(self, name: str, key: int, count: int) -> Offsets:
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
    """The values of some lanes in an array of all lanes."""
    found = np.full(count, missing, np.int64)
    found[lanes] = values
    return found


# in turn --------------------------------------------------------------------------------------------------------


def _in_turn(layout: ManifestLayout, raw: bytes, stretch: _Stretch) -> _Found:
    places: list[list[int]] = [[] for _ in layout.slots]
    flags: list[list[bool]] = [[] for _ in layout.slots]
    ends: list[int] = []
    steps: list[_Step] = [
        (own.append, flag.append, slot.tag, slot.null, slot.skip)
        for own, flag, slot in zip(places, flags, layout.slots, strict=True)
    ]
    try:
        for count, begin, end in zip(stretch.counts, stretch.edges, stretch.edges[1:], strict=False):
            _walk_block(raw, count, begin, end, steps, ends)
    except IndexError:
        raise CorruptFile("an entry goes beyond the last block") from None
    valid = [np.array(own, np.bool_) if own and not all(own) else None for own in flags]
    return _Found([np.array(own, np.int64) for own in places], list(valid), np.array(ends, np.int64))


_Step = tuple[Callable[[int], None], Callable[[bool], None], int | None, int | None, Skipper]


def _walk_block(raw: bytes, count: int, at: int, end: int, steps: list[_Step], ends: list[int]) -> None:
    """Note the places of one block's entries."""
    for _ in range(count):
        for add, note, tag, null, skip in steps:
            add(at)
            if tag is not None:
                byte = raw[at]
                if byte != tag and byte != null:
                    raise CorruptFile(f"a union's branch must be {tag} or {null}, found {byte}", position=at)
                at += 1
                note(byte == tag)
                if byte != tag:
                    continue
            at = skip(raw, at)
        ends.append(at)
        if at > end:
            raise CorruptFile("an entry goes beyond its block", position=at)
    if at != end:
        raise CorruptFile(f"{end - at} bytes follow the last entry of a block", position=at)


# Some entries of a scan, cut loose from the rest: their bytes are copied together, and all other bytes can go.

_GONE = ""
"""The name of slots that were left out."""


def take_slices(data: NDArray[np.uint8], begins: Offsets, ends: Offsets) -> tuple[pa.Buffer, Offsets]:
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


def take_entries(scan: ScannedEntries, rows: Offsets, without: Collection[str] = ()) -> ScannedEntries:
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
    return ScannedEntries(
        replace(layout, slots=slots, index=index),
        raw,
        PaddedBytes(np.frombuffer(raw, np.uint8), len(raw) - PADDING),
        starts,
        valid,
        offsets[len(runs) : -1 : len(runs)],
        taken=True,
    )


def _edges(scan: ScannedEntries, rows: Offsets, runs: list[range]) -> tuple[Offsets, Offsets]:
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
