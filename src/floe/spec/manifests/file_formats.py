"""The names of file formats that manifests may contain: those of the spec, and those that other packages add.

A package adds a name when its format model is registered (`floe.formats.Registry.register`), or with an entry point in
the group `floe.formats`, which is looked up when a manifest contains a name that is not known yet.

>>> file_format_code("parquet"), file_format_code("no-such-format")
(0, None)
"""

from __future__ import annotations

import threading
from typing import Final

from floe.plugins import entry_points

ENTRY_POINT_GROUP: Final = "floe.formats"

FILE_FORMAT_NAMES: Final = ["parquet", "orc", "avro", "puffin"]
"""All known names, in lower case; append-only, because the index of a name stands for it in columns of manifests."""

_LOCK: Final = threading.Lock()


def add_file_format(name: str) -> int:
    """Add a name, in lower case, unless it is known already; returns its index in `FILE_FORMAT_NAMES`."""
    with _LOCK:
        if name not in FILE_FORMAT_NAMES:
            FILE_FORMAT_NAMES.append(name)
        return FILE_FORMAT_NAMES.index(name)


def file_format_code(name: str) -> int | None:
    """The index of a name in `FILE_FORMAT_NAMES`; None if no registered model or entry point has the name."""
    if name in FILE_FORMAT_NAMES:
        return FILE_FORMAT_NAMES.index(name)
    if any(point.name.lower() == name for point in entry_points(ENTRY_POINT_GROUP)):
        return add_file_format(name)
    return None
