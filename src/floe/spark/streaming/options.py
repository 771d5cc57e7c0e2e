"""What the options of a stream that is read say.

| option | |
|---|---|
| `stream-from-timestamp` (milliseconds) | begin with the first snapshot at or after that time |
| `streaming-skip-delete-snapshots`, `streaming-skip-overwrite-snapshots` | pass over them, in place of an error |
| `streaming-max-files-per-micro-batch`, `streaming-max-rows-per-micro-batch` | how much a batch has at most |
| `branch` | follow a branch in place of `main` |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from floe.errors import InvalidInput
from floe.spec.metadata.properties import boolean_property

__all__ = ["StreamOptions", "stream_options"]


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a stream is told."""

    from_ms: int | None = None
    skip_deletes: bool = False
    skip_overwrites: bool = False
    max_files: int | None = None
    max_rows: int | None = None


def stream_options(given: Mapping[str, str]) -> StreamOptions:
    """What the options say.

    >>> stream_options({"streaming-max-files-per-micro-batch": "5"}).max_files
    5
    """
    return StreamOptions(
        _number(given, "stream-from-timestamp", least=0),
        boolean_property(given, "streaming-skip-delete-snapshots", default=False),
        boolean_property(given, "streaming-skip-overwrite-snapshots", default=False),
        _number(given, "streaming-max-files-per-micro-batch", least=1),
        _number(given, "streaming-max-rows-per-micro-batch", least=1),
    )


def _number(given: Mapping[str, str], name: str, *, least: int) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not text.strip().isdigit() or int(text) < least:
        raise InvalidInput(f"{name} is a number of at least {least}, found {text!r}")
    return int(text)
