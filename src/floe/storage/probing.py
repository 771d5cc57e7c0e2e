"""Finding out whether a store really creates files exclusively, before anything is committed there."""

from __future__ import annotations

from floe.errors import FileAlreadyExists, UnsupportedFeature
from floe.storage.environment import Ids, SystemIds
from floe.storage.locations import join
from floe.storage.protocol import Storage

__all__ = ["PROBE_PREFIX", "verify_exclusive_creation"]

PROBE_PREFIX = ".floe-probe-"


def verify_exclusive_creation(storage: Storage, folder: str, *, ids: Ids | None = None) -> None:
    """Creates a small file twice, and refuses the store if the second time succeeds too.

    Some S3-compatible servers take `If-None-Match` without an error and ignore it; two writers would then overwrite
    each other's commits. One look, when a warehouse is first used, is enough.

    >>> from floe.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> verify_exclusive_creation(storage, "memory:wh")
    >>> list(storage.list("memory:wh"))
    []
    """
    if not storage.creates_exclusively:
        raise _refusal(folder)
    location = join(folder, f"{PROBE_PREFIX}{(ids or SystemIds()).uuid().hex}")
    try:
        storage.create(location, b"first")
        storage.create(location, b"second")
    except FileAlreadyExists:
        return
    finally:
        storage.delete_many([location])
    raise _refusal(folder)


def _refusal(folder: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        "this store does not create files exclusively, so writers would overwrite each other's commits",
        hint="use a catalog in a database, or a store with conditional writes (If-None-Match)",
        location=folder,
    )
