"""What pyarrow's ORC writer writes to: it survives errors, and keeps the ends of stripes."""

from __future__ import annotations

from collections import deque

from floe.formats.holding_sink import HoldingSink
from floe.storage.protocol import Data, FileWriter

__all__ = ["OrcSink"]

_KEPT_BYTES = 4 * 2**20


class OrcSink(HoldingSink):
    """The stream, as pyarrow writes to it; what comes last can be held back, and the ends of stripes are kept.

    Errors are kept too, and raised by `check`: the ORC writer inside pyarrow does not survive a write that fails.
    """

    def __init__(self, stream: FileWriter) -> None:
        super().__init__(stream)
        self._ends: list[tuple[int, bytes]] = []
        self._part: deque[bytes] = deque()
        self._part_bytes = 0
        self._error: BaseException | None = None

    def _forward(self, data: Data) -> None:
        own = bytes(data)
        self._part.append(own)
        self._part_bytes += len(own)
        while self._part_bytes - len(self._part[0]) > _KEPT_BYTES:
            self._part_bytes -= len(self._part.popleft())
        try:
            super()._forward(own)
        except BaseException as error:
            self._error = error
            self.drop()

    def check(self) -> None:
        """Raise what a write has raised."""
        if self._error is not None:
            raise self._error

    def next_part(self) -> None:
        """What was written last ended with the end of a stripe; keep as much of it as a stripe's footer may take."""
        if self._part_bytes > len(b"ORC"):
            end = b"".join(self._part)[-_KEPT_BYTES // 16 :]
            self._ends.append((self._stream.tell() - len(end), end))
        self._part.clear()
        self._part_bytes = 0

    def kept(self, at: int, size: int) -> bytes | None:
        """Bytes that were written, if they are among those that are kept."""
        for begin, data in self._ends:
            if begin <= at and at + size <= begin + len(data):
                return data[at - begin : at - begin + size]
        return None

    def hold(self) -> None:
        """From now on hold back what is written."""
        self.next_part()
        super().hold()

    def held(self) -> bytes:
        """What was held back, which is the end of the file; it is held back no longer."""
        data = super().held()
        self._ends.append((self._stream.tell(), data))
        self._held = None
        return data
