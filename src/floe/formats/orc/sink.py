"""What pyarrow's ORC writer writes to: a stream whose last bytes can be held back, and that survives errors."""

from __future__ import annotations

from collections import deque

from floe.storage.protocol import Data, FileWriter

__all__ = ["OrcSink"]

_KEPT_BYTES = 4 * 2**20


class OrcSink:
    """The stream, as pyarrow writes to it; what comes last can be held back, and the ends of stripes are kept.

    Errors are kept too, and raised by `check`: the ORC writer inside pyarrow does not survive a write that fails.
    """

    def __init__(self, stream: FileWriter) -> None:
        self._stream = stream
        self._held: list[bytes] | None = None
        self._ends: list[tuple[int, bytes]] = []
        self._part: deque[bytes] = deque()
        self._part_bytes = 0
        self._error: BaseException | None = None
        self._discarding = False
        self.closed = False
        self.mode = "wb"

    def write(self, data: Data) -> int:
        """Write on, or hold back, or throw away."""
        own = bytes(data)
        if self._discarding:
            return len(own)
        if self._held is not None:
            self._held.append(own)
            return len(own)
        self._part.append(own)
        self._part_bytes += len(own)
        while self._part_bytes - len(self._part[0]) > _KEPT_BYTES:
            self._part_bytes -= len(self._part.popleft())
        try:
            self._stream.write(own)
        except BaseException as error:
            self._error, self._discarding = error, True
        return len(own)

    def check(self) -> None:
        """Raise what a write has raised."""
        if self._error is not None:
            raise self._error

    def discard(self) -> None:
        """Whatever is still written goes nowhere."""
        self._discarding = True

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
        self._held = []

    def held(self) -> bytes:
        """What was held back, which is the end of the file."""
        data = b"".join(self._held or ())
        self._ends.append((self._stream.tell(), data))
        self._held = None
        return data

    def tell(self) -> int:
        """How many bytes there are, with those held back."""
        return self._stream.tell() + sum(map(len, self._held or ()))

    def flush(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing: the stream is its owner's to close."""
        self.closed = True

    def readable(self) -> bool:
        """False."""
        return False

    def writable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """False."""
        return False
