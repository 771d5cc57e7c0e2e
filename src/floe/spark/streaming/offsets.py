"""How far a stream has come: a snapshot, and how many of its files have been read; written as Java Iceberg does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from floe.errors import InvalidInput

__all__ = ["BEGINNING", "StreamOffset", "offset_of"]

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """So many files of a snapshot have been read, and all that was appended before it.

    >>> print(StreamOffset(17, 2))
    {"version":1,"snapshot_id":17,"position":2,"scan_all_files":false}
    """

    snapshot_id: int
    position: int
    all_files: bool = False
    """Whether all files of the snapshot count, not only those that it added: the stream began there."""

    def __str__(self) -> str:
        told = {
            "version": _VERSION,
            "snapshot_id": self.snapshot_id,
            "position": self.position,
            "scan_all_files": self.all_files,
        }
        return json.dumps(told, separators=(",", ":"))


BEGINNING: Final = StreamOffset(-1, -1)
"""Before everything that a stream will read."""


def offset_of(text: str) -> StreamOffset:
    """The offset that a checkpoint has.

    >>> offset_of('{"version": 1, "snapshot_id": 17, "position": 2, "scan_all_files": true}')
    StreamOffset(snapshot_id=17, position=2, all_files=True)
    """
    try:
        told = json.loads(text)
        if told["version"] != _VERSION:
            raise InvalidInput(f"offsets of version {told['version']} are not known, only those of version {_VERSION}")
        return StreamOffset(int(told["snapshot_id"]), int(told["position"]), bool(told["scan_all_files"]))
    except (KeyError, TypeError, ValueError):
        raise InvalidInput(
            f"the checkpoint is not one of a stream of an Iceberg table: {text:.200}",
            hint="give the query a checkpoint of its own",
        ) from None
