"""What pyarrow's writers write to: a stream whose last bytes can be held back, to be completed, or dropped."""

from __future__ import annotations

from floe.storage.protocol import Data, FileWriter

__all__ = ["HoldingSink"]


class HoldingSink:
    """A stream as pyarrow writes to it; closing it does nothing, for the stream is its owner's to close.

    >>> from floe.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> with storage.open_write("memory:a") as stream:
    ...     sink = HoldingSink(stream)
    ...     _ = sink.write(b"rows")
    ...     sink.hold()
    ...     _ = sink.write(b"end")
    ...     sink.tell(), sink.held()
    (7, b'end')
    >>> storage.read("memory:a")
    b'rows'
    """

    mode = "wb"

    def __init__(self, stream: FileWriter) -> None:
        self._stream = stream
        self._held: list[bytes] | None = None
        self._dropping = False
        self.closed = False

    def write(self, data: Data) -> int:
        """Write on, or hold back, or throw away."""
        if not self._dropping:
            if self._held is None:
                self._forward(data)
            else:
                self._held.append(bytes(data))
        return memoryview(data).nbytes

    def _forward(self, data: Data) -> None:
        self._stream.write(data)

    def drop(self) -> None:
        """From now on nothing is kept; pyarrow's writers end with a footer even when they are only forgotten."""
        self._dropping = True

    def hold(self) -> None:
        """From now on hold back what is written."""
        self._held = []

    def held(self) -> bytes:
        """What was held back, which is the end of the file."""
        return b"".join(self._held or ())

    def tell(self) -> int:
        """How many bytes there are, with those held back."""
        return self._stream.tell() + sum(map(len, self._held or ()))

    def flush(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing but to say so."""
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
