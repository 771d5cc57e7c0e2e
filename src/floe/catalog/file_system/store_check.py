"""The check, once for each store, that it creates files exclusively: what commits to file-system tables rest on."""

from __future__ import annotations

import threading

from floe.storage.environment import Ids
from floe.storage.locations import parse
from floe.storage.probing import verify_exclusive_creation
from floe.storage.protocol import Storage

__all__ = ["StoreCheck"]

_KNOWN = frozenset({"file", "memory"})
"""Schemes whose storages are our own and need no trial."""


class StoreCheck:
    """Called before a commit; the first time, a store that somebody else runs is put to a trial.

    >>> from floe.storage.environment import SystemIds
    >>> from floe.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> check = StoreCheck(storage, "s3://bucket/wh", SystemIds())
    >>> check()
    """

    def __init__(self, storage: Storage, folder: str, ids: Ids) -> None:
        self._storage, self._folder, self._ids = storage, folder, ids
        self._passed = storage.creates_exclusively and parse(folder).scheme in _KNOWN
        self._lock = threading.Lock()

    def __call__(self) -> None:
        """Raises `UnsupportedFeature` if writers could overwrite each other's commits here."""
        with self._lock:
            if not self._passed:
                verify_exclusive_creation(self._storage, self._folder, ids=self._ids)
                self._passed = True
