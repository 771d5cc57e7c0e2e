r"""Where the values of a manifest's entries are: found for many entries at once, or one after another.

Avro has no index: an entry begins where the one before it ends. But every entry has its file format in it, a word that
can be searched for. So there are two ways, with the same result.

*All at once.* The words are found first. From all of them together the rest of each entry is walked to its end, which
is where the next entry begins; from these beginnings the first part of each entry is walked, and has to arrive at the
words again. The first entry begins where its block does and the last has to end there, so if everything meets, every
place is proved right, one entry after another. If not, some path had such a word in it, or the bytes have an unusual
form, and:

*In turn.* Every entry is walked by itself. This way is exact for everything that Avro allows, and the quicker one for
few entries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from floe.avro.lane_arrays import end_of_array, end_of_bounds, find_counts
from floe.avro.lanes import PADDING, Declined, Places, Window, end_of_bytes, end_of_longs
from floe.avro.manifest_layout import ManifestLayout, Slot
from floe.avro.records import Skipper
from floe.errors import CorruptFile
from floe.spec.manifests.entries import FILE_FORMATS
from floe.spec.pruning.columnar_facts import Mask

__all__ = ["BOUNDS", "COUNTS", "Scan", "scan_blocks"]

COUNTS = ("value_counts", "null_value_counts", "nan_value_counts")
BOUNDS = ("lower_bounds", "upper_bounds")

_FEW_ENTRIES = 48
_STRETCH = 4 * 2**20
"""How many bytes are walked together: enough lanes to make each step worth its overhead, and still in the cache."""

_ANCHOR = "file_format"
_WORDS = [
    bytes([2 * len(word)]) + word.encode() for name in sorted(FILE_FORMATS) for word in (name.upper(), name.lower())
]
_ANY_WORD = re.compile(b"|".join(_WORDS))


@dataclass(frozen=True, slots=True)
class Scan:
    """The places of all values of some entries.

    Values are `starts[slot]` for each entry: where the slot begins, with the byte of its union. `valid[slot]` tells
    which are not null, and is None if all are.
    """

    layout: ManifestLayout
    raw: bytes
    """The content of the blocks, one after another, and `PADDING` zeros."""

    window: Window
    starts: list[Places]
    valid: list[Mask | None]
    ends: Places
    counts: dict[tuple[str, int], Places] = field(default_factory=dict)
    bounds: dict[tuple[str, int], tuple[Places, Places]] = field(default_factory=dict)
    """What was asked for beforehand of the metrics, by map and column id; -1 where there is none."""

    taken: bool = False
    """Whether these are entries taken out of others: then slots may be missing, and null ones have no place."""

    def __len__(self) -> int:
        return len(self.ends)

    def part(self, begin: int, end: int) -> Scan:
        """The places of some of the entries; the bytes are shared."""
        cut = slice(begin, end)
        return Scan(
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

    starts: list[Places]
    valid: list[Mask | None]
    ends: Places
    counts: dict[tuple[str, int], Places] = field(default_factory=dict)
    bounds: dict[tuple[str, int], tuple[Places, Places]] = field(default_factory=dict)


def scan_blocks(
    layout: ManifestLayout, blocks: list[bytes], counts: Sequence[int], metrics: Collection[int] = ()
) -> Scan:
    """The places of all values in some decompressed blocks; the metrics of some columns are looked up on the way.

    The blocks are copied together, and the list is emptied: they are large, and not needed any more.
    """
    edges = list(accumulate(map(len, blocks), initial=0))
    blocks.append(bytes(PADDING))
    raw = b"".join(blocks)
    blocks.clear()
    data = np.frombuffer(raw, np.uint8)
    found = [_scan(layout, raw, data, stretch, metrics) for stretch in _stretches(counts, edges)]
    return _joined(layout, raw, Window(data, edges[-1]), found)


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
        except (Declined, IndexError):  # an index beyond the end is one way to find that a guess was wrong
            pass
    return _in_turn(layout, raw, stretch)


def _joined(layout: ManifestLayout, raw: bytes, window: Window, found: list[_Found]) -> Scan:
    slots = range(len(layout.slots))
    if len(found) == 1:
        (one,) = found
        return Scan(layout, raw, window, one.starts, one.valid, one.ends, one.counts, one.bounds)
    sizes = [len(one.ends) for one in found]
    shared = set.intersection(*({*one.counts, *one.bounds} for one in found)) if found else set()
    return Scan(
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


def _concatenated(parts: Iterable[Places]) -> Places:
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
    window = Window(data[begin : end + PADDING], end - begin)
    anchors = _anchors(raw, begin, end, sum(stretch.counts)) - begin
    split = layout.index[_ANCHOR]
    if layout.slots[split].tag is not None:
        raise Declined("the file format may be null")
    walk = _Walk(window, layout, metrics)

    ends = walk.slots(range(split, len(layout.slots)), anchors)
    last = np.cumsum(stretch.counts) - 1
    edges = np.array(stretch.edges, np.int64) - begin
    if (ends[last] != edges[1:]).any():
        raise Declined("the last entry of a block does not end with it")
    starts = np.concatenate([edges[:1], ends[:-1]])
    if (walk.slots(range(split), starts) != anchors).any():
        raise Declined("some file format is not where an entry has it")
    return walk.found(begin, ends)


def _anchors(raw: bytes, begin: int, end: int, count: int) -> Places:
    """Where the entries seem to have their file formats."""
    first = _ANY_WORD.search(raw, begin, end)
    if first is None:
        raise Declined("no file format is found")
    # entries are about equally long, so most of the next one need not be searched
    usual = (end - begin) // count
    for step in (usual * 7 // 8, usual // 2, 1):
        places = _find_all(raw, first.group(), first.start(), end, step)
        if len(places) == count:
            return np.array(places, np.int64)
    places = [match.start() for match in _ANY_WORD.finditer(raw, begin, end)]
    if len(places) != count:
        raise Declined("there are more file formats than entries, or fewer")
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

    def __init__(self, window: Window, layout: ManifestLayout, metrics: Collection[int]) -> None:
        self.window = window
        self.layout = layout
        self.metrics = tuple(metrics)
        self.starts: dict[int, Places] = {}
        self.valid: dict[int, Mask | None] = {}
        self.bounds: dict[tuple[str, int], tuple[Places, Places]] = {}

    def slots(self, numbers: range, at: Places) -> Places:
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
                raise Declined("a union's branch is not one of its branches")
            self.valid[number] = present
            lanes = np.flatnonzero(present)
            at = at + 1
            at[lanes] = self.value(slot, at[lanes], lanes, len(at))
        return at

    def value(self, slot: Slot, at: Places, lanes: Places | None, count: int = 0) -> Places:
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

    def found(self, base: int, ends: Places) -> _Found:
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

    def counts_of(self, name: str, key: int, count: int) -> Places:
        number = self.layout.index.get(name)
        if number is None:
            return np.full(count, -1, np.int64)
        starts, valid = self.starts[number], self.valid[number]
        tag = 0 if self.layout.slots[number].tag is None else 1
        if valid is None:
            return find_counts(self.window, starts + tag, key)
        lanes = np.flatnonzero(valid)
        return _spread(find_counts(self.window, starts[lanes] + tag, key), lanes, count, -1)


def _spread(values: Places, lanes: Places, count: int, missing: int) -> Places:
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
