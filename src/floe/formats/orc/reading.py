"""ORC files read into Arrow batches, stripe by stripe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import pyarrow as pa
import pyarrow.orc as orc

from floe.errors import CorruptFile, FloeError
from floe.formats.model import ReadRequest, plain_storage_to_read
from floe.formats.orc.columns import file_columns
from floe.formats.orc.disguise import DisguisedFile, column_name
from floe.formats.orc.moments import Leaf, Seconds, has_moments, moments_below, rounded_down, with_leaves
from floe.formats.orc.streams import StripeStreams, check_streams
from floe.formats.orc.stripes import in_split, matching, within_nanoseconds
from floe.formats.orc.tail import Tail, nodes_below, read_tail
from floe.formats.projection import Projection, rows_without_columns

__all__ = ["read_orc"]


def read_orc(request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """The batches of an ORC file that answer a request."""
    storage = plain_storage_to_read(request)
    size = storage.stat(request.location).size if request.file_size is None else request.file_size
    with storage.open_read(request.location) as stream:
        try:
            with _readable():
                tail = read_tail(stream, size)
            yield from _File(request, stream, tail).batches()
        except FloeError as error:
            raise error.with_context(file=request.location) from None


@contextmanager
def _readable() -> Iterator[None]:
    """What pyarrow cannot read is corrupt; errors of the storage pass."""
    try:
        yield
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise CorruptFile(f"the ORC file cannot be read: {str(error)[:300]}") from None


class _File:
    def __init__(self, request: ReadRequest, stream: BinaryIO, tail: Tail) -> None:
        told = request.record_count
        if told is not None and told >= 0 and told != tail.rows:
            raise CorruptFile(f"the file has {tail.rows} rows, the manifest says {told}")
        self.request = request
        self.stream = stream
        self.tail = tail
        self.projection = Projection(request, file_columns(tail.nodes), nested_selection=False)
        children = tail.nodes[0].children
        self.selected = [children[place] for place in self.projection.selection.places(len(children))]
        self.read_nodes = [node for number in self.selected for node in nodes_below(tail.nodes, number)]
        self.moments = [found for number in self.selected for found in moments_below(tail.nodes, number)]
        self._reader: orc.ORCFile | None = None
        self._as_numbers = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self.projection.reads_nothing:
            return
        chosen = matching(self.tail, in_split(self.tail, self.request.split), self.projection)
        self._as_numbers = not all(within_nanoseconds(self.tail, n, self.moments) for n in chosen if self.moments)
        yield from self.projection.batches(self._stored(chosen))

    def _stored(self, stripes: list[int]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The selected columns of some stripes, in batches with the position of their first row."""
        first = [0]
        for stripe in self.tail.stripes:
            first.append(first[-1] + stripe.rows)
        size = self.request.batch_size
        for number in stripes:
            rows = self.tail.stripes[number].rows
            whole = self._stripe(number) if self.selected else None
            for start in range(0, rows, size):
                count = min(size, rows - start)
                yield first[number] + start, rows_without_columns(count) if whole is None else whole.slice(start, count)

    def _stripe(self, number: int) -> pa.RecordBatch:
        stripe = self.tail.stripes[number]
        with _readable():
            streams = StripeStreams(self.stream, self.tail, stripe)
            check_streams(streams, self.read_nodes)
            batch = self._read(number)
            batch.validate(full=True)  # text that is text, decimals with as many digits as they may have
        if batch.num_rows != stripe.rows or batch.num_columns != len(self.selected):
            raise CorruptFile(
                f"stripe {number} should have {stripe.rows} rows of {len(self.selected)} columns, "
                f"found {batch.num_rows} of {batch.num_columns}"
            )
        return self._with_moments(streams, batch)

    def _read(self, number: int) -> pa.RecordBatch:
        if self._reader is None:
            disguised = DisguisedFile(self.stream, self.tail, self.moments if self._as_numbers else ())
            self._reader = orc.ORCFile(pa.PythonFile(disguised, mode="r"))
        return self._reader.read_stripe(number, columns=[column_name(one) for one in self.selected])

    def _with_moments(self, streams: StripeStreams, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.moments:
            return batch
        nodes = self.tail.nodes
        leaf: Leaf = Seconds(streams) if self._as_numbers else rounded_down
        arrays = [
            with_leaves(nodes, own, array, leaf) if has_moments(nodes, own) else array
            for own, array in zip(self.selected, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
