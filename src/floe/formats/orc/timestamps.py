"""Timestamps of ORC files beyond the reach of Arrow's nanoseconds, and those that have more digits than their type.

ORC stores the seconds since 2015 and the nanoseconds of a timestamp in streams of their own, so that any year can be
had. Arrow's reader gives both as one number of nanoseconds, which reach from 1677 to 2262. Where that is not enough the
seconds are read as plain numbers (see `floe.formats.orc.reader`), and the nanoseconds are read here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from floe.errors import CorruptFile, UnsupportedFeature
from floe.formats.arrow_arrays import validity_buffer
from floe.formats.arrow_types import arrow_type
from floe.formats.orc.streams import SECONDARY, StripeStreams, decode_unsigned
from floe.formats.orc.tail import OrcNode, bytes_of, type_of

Leaf = Callable[[OrcNode, pa.Array], pa.Array]
"""From a column of timestamps as it was read to the array that it means."""

MOMENT_KINDS = ("timestamp", "timestamp_instant")
EPOCH_2015 = 1_420_070_400
"""What the seconds of a timestamp are counted from."""

MILLISECOND = 999_999
"""Before 1970, seconds are rounded up where there are more nanoseconds than this."""

_SAME_AS_UTC = frozenset({"", "UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z", "UCT", "Zulu", "Etc/UCT", "Universal"})


# arrays ---------------------------------------------------------------------------------------------------------------


def moments_below(nodes: Sequence[OrcNode], number: int) -> list[int]:
    """The columns of timestamps that a column is or has inside.

    >>> moments_below([OrcNode(0, "array", (), (1,)), OrcNode(1, "timestamp")], 0)
    [1]
    """
    node = nodes[number]
    own = [number] if node.kind in MOMENT_KINDS else []
    return own + [found for child in node.children for found in moments_below(nodes, child)]


def has_moments(nodes: Sequence[OrcNode], number: int) -> bool:
    """Whether a column is one of timestamps, or has such inside.

    >>> has_moments([OrcNode(0, "int")], 0)
    False
    """
    return bool(moments_below(nodes, number))


def with_leaves(nodes: Sequence[OrcNode], number: int, array: pa.Array, leaf: Leaf) -> pa.Array:
    """The array with its timestamps, at any depth, replaced; all else stays as it is."""
    node = nodes[number]
    if node.kind in MOMENT_KINDS:
        return leaf(node, array)
    if not has_moments(nodes, number):
        return array
    if node.kind == "map":
        parts = [array.keys, array.items]
    else:
        parts = [array.values] if node.kind == "array" else [array.field(n) for n in range(len(node.children))]
    made = [with_leaves(nodes, child, part, leaf) for child, part in zip(node.children, parts, strict=True)]
    buffers = array.buffers()
    if node.kind == "struct":
        fields = [pa.field(array.type.field(n).name, part.type) for n, part in enumerate(made)]
        return pa.Array.from_buffers(pa.struct(fields), len(array), buffers[:1], children=made)
    if node.kind == "array":
        return pa.Array.from_buffers(pa.list_(made[0].type), len(array), buffers[:2], children=made)
    entries = pa.StructArray.from_arrays(
        made, fields=[pa.field("key", made[0].type, False), pa.field("value", made[1].type)]
    )
    return pa.Array.from_buffers(pa.map_(made[0].type, made[1].type), len(array), buffers[:2], children=[entries])


def rounded_down(node: OrcNode, array: pa.Array) -> pa.Array:
    """Timestamps as their type has them: more digits than microseconds are cut off (spec: Appendix A, ORC, note 2).

    >>> node = OrcNode(1, "timestamp")
    >>> rounded_down(node, pa.array([-1, 1999, None], pa.timestamp("ns"))).view(pa.int64()).to_pylist()
    [-1, 1, None]
    """
    wanted = arrow_type(type_of(node))
    if wanted.unit == array.type.unit:
        return array
    numbers = array.view(pa.int64())
    whole = np.asarray(numbers.fill_null(0)) // 1000
    return pa.Array.from_buffers(wanted, len(array), [array.buffers()[0], pa.py_buffer(whole)], offset=0)


# seconds and nanoseconds ----------------------------------------------------------------------------------------------


class Seconds:
    """The timestamps of one stripe, from their seconds and the stripe's streams of nanoseconds."""

    def __init__(self, streams: StripeStreams) -> None:
        self._streams = streams

    def __call__(self, node: OrcNode, array: pa.Array) -> pa.Array:
        """The timestamps of a column, from the seconds since 2015 that it stores."""
        self._check_zone(node)
        known = np.asarray(array.is_valid())
        seconds = np.asarray(array.fill_null(0)).astype(np.int64) + EPOCH_2015
        nanos = np.zeros(len(array), np.int64)
        nanos[known] = self._nanos(node, int(known.sum()))
        seconds -= (seconds < 0) & (nanos > MILLISECOND)  # how ORC's writers round before 1970
        wanted = arrow_type(type_of(node))
        per_second = 1_000_000 if wanted.unit == "us" else 1_000_000_000
        parts = nanos // (1_000_000_000 // per_second)
        _check_range(seconds, parts, per_second, wanted)
        numbers = seconds * per_second + parts
        return pa.Array.from_buffers(
            wanted, len(array), [validity_buffer(known) if array.null_count else None, pa.py_buffer(numbers)]
        )

    def _check_zone(self, node: OrcNode) -> None:
        zone = b"".join(bytes_of(self._streams.footer, 3)[-1:]).decode(errors="replace")
        if node.kind == "timestamp" and zone not in _SAME_AS_UTC:
            raise UnsupportedFeature(f"timestamps before 1677 or after 2262 that were written in the time zone {zone}")

    def _nanos(self, node: OrcNode, count: int) -> NDArray[np.int64]:
        if not count:
            return np.zeros(0, np.int64)
        data, version = self._streams.read(node.id, SECONDARY), self._streams.run_version(node.id)
        if data is None or version is None:
            raise CorruptFile(f"column {node.id} of a stripe has no nanoseconds", position=self._streams.stripe.offset)
        packed = decode_unsigned(data, count, version=version)
        zeros = packed & 7  # that many and one more were cut off at the end, if any were
        nanos: NDArray[np.int64] = (packed >> 3) * np.where(zeros > 0, 10 ** (zeros + 1), 1)
        if nanos.min() < 0 or nanos.max() >= 1_000_000_000:
            raise CorruptFile(f"column {node.id} of a stripe has nanoseconds of more than a second")
        return nanos


def _check_range(seconds: NDArray[np.int64], parts: NDArray[np.int64], per_second: int, wanted: pa.DataType) -> None:
    """Raise if a number of 64 bits cannot count the units of some timestamp."""
    limit = 2**63 // per_second
    for place in np.flatnonzero((seconds >= limit) | (seconds <= -limit)).tolist():
        if not -(2**63) <= int(seconds[place]) * per_second + int(parts[place]) < 2**63:
            raise CorruptFile(f"a timestamp {seconds[place]} seconds from 1970 is out of the range of {wanted}")
