"""Files: one small protocol, its implementations, and access control by allowed roots and sizes.

In reading order:

- `protocol`: the calls of a storage and what they promise; `locations`: spellings of locations, and which are the same
- `schemes`: from a location to its storage: by URI scheme, and with the options of a user
- `local`, `object_stores`, `fsspec_storage`, `memory`: the storages; `file_objects`: binary files on top of them
- `wrappers`: retries and prefix maps; `access`: allowed roots and size limits
- `environment`: clock, ids and random numbers; `concurrency`: parallel calls

An opened storage is a stack, from the outside in:

```
PrefixMap        recorded locations -> where the files are now        (wrappers)
  Access         allowed roots and size limits, on actual locations   (access)
    Routed       each scheme to its storage                           (schemes)
      Retrying   retries failed calls, but never `create`             (wrappers)
        Local / Object / Fsspec / Memory
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe.exports import lazy_exports

if TYPE_CHECKING:
    from floe.storage.environment import (
        Clock as Clock,
        Environment as Environment,
        Ids as Ids,
        ManualClock as ManualClock,
        SeededIds as SeededIds,
        deterministic_environment as deterministic_environment,
    )
    from floe.storage.memory import MemoryStorage as MemoryStorage
    from floe.storage.protocol import (
        Deletion as Deletion,
        FileInfo as FileInfo,
        FileWriter as FileWriter,
        Storage as Storage,
    )
    from floe.storage.schemes import StorageOpener as StorageOpener, open_storage as open_storage, register as register
    from floe.storage.wrappers import StorageWrapper as StorageWrapper

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "floe.storage.protocol": "Deletion FileInfo FileWriter Storage",
        "floe.storage.schemes": "StorageOpener open_storage register",
        "floe.storage.wrappers": "StorageWrapper",
        "floe.storage.environment": """
            Clock Environment Ids ManualClock SeededIds deterministic_environment
        """,
        "floe.storage.memory": "MemoryStorage",
    },
)
