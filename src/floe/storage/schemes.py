"""Storages by URI scheme: which storage opens a location, and how the options of a user configure it.

`open_storage` opens the store of one location. Schemes are found in this order:

| scheme | storage |
|---|---|
| registered with `register`, or by a package in the entry points `floe.storages` | that one |
| `file:` and plain paths, `memory:` | `LocalStorage`, `MemoryStorage` |
| `s3:`, `gs:`, `abfs:`, in all their spellings | `ObjectStorage` |
| all others | `FsspecStorage` |

`configure_storage` applies the options of a catalog or table:

| option | meaning |
|---|---|
| `prefixes` | `{"/old/root/": "/new/root/"}`: files recorded below one folder are read below another (a moved or copied table, or Trino's `local:///`) |
| `roots` | the only folders that may be read and written; `"*"` allows all. Default: the warehouse, and the folders of each table (`floe.commit.roots`) |
| `max_read_bytes` | the largest read into memory (1 GiB) |
| `storage` | a storage object, instead of one that is opened |
| others | options of the store: `s3.region`, `s3.endpoint`, … or `durable=False` for the local disk |

Only the stores of the warehouse, the roots and the prefixes are opened: a table in a bucket cannot make a program read
local files.
"""  # noqa: E501 (a table)

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, Final, TypeAlias

from floe.errors import FloeError, InvalidInput, InvalidSettings, PathNotAllowed, UnsupportedFeature
from floe.plugins import PluginRegistry
from floe.spec.properties import ENCRYPTION_PREFIX
from floe.storage.access import DEFAULT_MAX_READ_BYTES, Access
from floe.storage.local import LOCAL_SCHEME_HINT, LocalStorage
from floe.storage.locations import is_below, parse
from floe.storage.memory import MemoryStorage
from floe.storage.protocol import Data, Deletion, FileInfo, FileWriter, Storage
from floe.storage.wrappers import PrefixMap

# opening by scheme ---------------------------------------------------------------------------------------------------

StorageOpener: TypeAlias = Callable[[str, Mapping[str, Any]], Storage]
"""Opens the storage of a canonical scheme with options."""

_SCHEME_ONLY: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(?://)?")
_OPENERS: Final[PluginRegistry[StorageOpener]] = PluginRegistry(
    "floe.storages",
    {
        "file": "floe.storage.schemes:_open_local",
        "memory": "floe.storage.schemes:_open_memory",
        "local": "floe.storage.schemes:_refuse_trino_local",
        "s3": "floe.storage.object_stores:open_object_storage",
        "gs": "floe.storage.object_stores:open_object_storage",
        "abfs": "floe.storage.object_stores:open_object_storage",
        "fsspec": "floe.storage.fsspec_storage:open_fsspec_storage",
    },
)


def register(scheme: str, opener: StorageOpener, *, replace: bool = False) -> None:
    """Have `opener(scheme, options)` open the storage of all locations `scheme://…`.

    A package does the same, without a call, by an entry point in the group `floe.storages`. A scheme that is built in
    or registered already is an error, unless `replace` is set.

    >>> register("doctest", lambda scheme, options: MemoryStorage())
    >>> open_storage("doctest://bucket/key")
    MemoryStorage(0 files)
    """
    _OPENERS.register(scheme, opener, replace=replace)


def is_registered(scheme: str) -> bool:
    """Whether a scheme has a storage of its own; all others are left to fsspec."""
    return _OPENERS.find(scheme) is not None


def open_storage(location: str, **options: Any) -> Storage:
    """Open the storage that holds a location (or an entire scheme, as `s3:` or `s3://`).

    Options of object stores are Iceberg's (`s3.region`, …) or obstore's (`region`, `endpoint`, `access_key_id`, …);
    what is missing comes from the environment. Storages on a network retry failed calls. Each call opens a new storage:
    two of `memory:` share nothing.

    >>> open_storage("file:///wh")
    LocalStorage(durable=True)
    >>> open_storage("memory:", colour="red")
    Traceback (most recent call last):
    floe.errors.InvalidInput: memory: has no option colour
    """
    scheme_only = _SCHEME_ONLY.fullmatch(location)
    # Any host and path will do to parse the canonical scheme; `localhost` is one that file: allows too.
    scheme = parse(f"{scheme_only[1]}://localhost/x" if scheme_only else location).scheme
    opener = _OPENERS.find(scheme) or _OPENERS.find("fsspec")
    assert opener is not None
    return opener(scheme, options)


def _open_local(scheme: str, options: Mapping[str, Any]) -> Storage:
    return LocalStorage(**_check_options(scheme, options, "durable"))


def _open_memory(scheme: str, options: Mapping[str, Any]) -> Storage:
    return MemoryStorage(**_check_options(scheme, options, "clock"))


def _refuse_trino_local(scheme: str, options: Mapping[str, Any]) -> Storage:
    # fsspec would take local:///x for /x: a different file from the one that was written, unless the folder is /.
    raise InvalidInput(f"{scheme}: locations do not say where the files are", hint=LOCAL_SCHEME_HINT)


def _check_options(scheme: str, options: Mapping[str, Any], *supported: str) -> dict[str, Any]:
    """The options, unless the storage does not support one of them."""
    if unknown := [name for name in options if name not in supported]:
        raise InvalidInput(f"{scheme}: has no option {', '.join(unknown)}")
    return dict(options)


# several stores ------------------------------------------------------------------------------------------------------


class RoutedStorage:
    """Several storages by canonical scheme (`file`, `s3`, `gs`, `abfs`, …); other schemes are an error.

    >>> from floe.storage.memory import MemoryStorage
    >>> hot, cold = MemoryStorage(), MemoryStorage()
    >>> storage = RoutedStorage({"file": hot, "s3": cold})
    >>> storage.write("/wh/a", b"hot")
    >>> storage.write("s3a://bucket/a", b"cold")
    >>> hot.read("/wh/a"), cold.read("s3://bucket/a")
    (b'hot', b'cold')
    >>> storage.read("gs://bucket/a")
    Traceback (most recent call last):
    floe.errors.PathNotAllowed: no storage is open for gs: (location: gs://bucket/a)
    """

    def __init__(self, storages: Mapping[str, Storage]) -> None:
        if not storages:
            raise InvalidInput("a routed storage needs at least one storage")
        self.storages = dict(storages)

    def __repr__(self) -> str:
        return f"RoutedStorage({self.storages!r})"

    @property
    def creates_exclusively(self) -> bool:
        """Whether all storages create files exclusively."""
        return all(storage.creates_exclusively for storage in self.storages.values())

    def storage_of(self, location: str) -> Storage:
        """The storage of a location."""
        scheme = parse(location).scheme
        storage = self.storages.get(scheme)
        if storage is None:
            raise PathNotAllowed(f"no storage is open for {scheme}:", location=location)
        return storage

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """Read a complete file."""
        return self.storage_of(location).read(location, max_bytes=max_bytes)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """Read a byte range."""
        return self.storage_of(location).read_range(location, offset, length)

    def open_read(self, location: str) -> BinaryIO:
        """Open a file for reading."""
        return self.storage_of(location).open_read(location)

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """Open a stream for a new file."""
        return self.storage_of(location).open_write(location, overwrite=overwrite)

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """Write a complete file."""
        self.storage_of(location).write(location, data, overwrite=overwrite)

    def create(self, location: str, data: Data) -> None:
        """Create a file if it does not exist."""
        self.storage_of(location).create(location, data)

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Delete files, with one call for each storage."""
        requested = list(locations)
        outcomes: dict[int, Deletion] = {}
        groups: dict[int, tuple[Storage, list[int]]] = {}
        for index, location in enumerate(requested):
            try:
                storage = self.storage_of(location)
                groups.setdefault(id(storage), (storage, []))[1].append(index)
            except FloeError as error:
                outcomes[index] = Deletion.failed(location, error)
        for storage, indexes in groups.values():
            deletions = storage.delete_many([requested[index] for index in indexes])
            for index, deletion in zip(indexes, deletions, strict=True):
                outcomes[index] = replace(deletion, location=requested[index])
        return [outcomes[index] for index in range(len(requested))]

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """List the files below a folder."""
        return self.storage_of(prefix).list(prefix)

    def folders(self, prefix: str) -> Iterator[str]:
        """List the names of the folders below a folder."""
        return self.storage_of(prefix).folders(prefix)

    def make_folder(self, location: str) -> None:
        """Create a folder and its parents."""
        self.storage_of(location).make_folder(location)

    def remove_folder(self, location: str) -> None:
        """Remove an empty folder."""
        self.storage_of(location).remove_folder(location)

    def stat(self, location: str) -> FileInfo:
        """Return a file's size and modification time."""
        return self.storage_of(location).stat(location)

    def exists(self, location: str) -> bool:
        """Whether the file exists."""
        return self.storage_of(location).exists(location)


# options of a user ---------------------------------------------------------------------------------------------------

STORAGE_OPTIONS: Final = ("storage", "prefixes", "roots", "max_read_bytes")
"""The options of `configure_storage`; all others are passed to the store."""

_ALL_ROOTS: Final = "*"


def configure_storage(
    location: str, options: Mapping[str, Any], *, default_roots: Iterable[str] | None = None
) -> Storage:
    """Open the storage of a location with the options of a user; without `roots`, `default_roots` or the location.

    >>> configure_storage("/warehouse", {"prefixes": {"/old": "/warehouse"}})
    PrefixMap(Access(LocalStorage(durable=True), roots=('/warehouse',), ...), {'/old': '/warehouse'})
    """
    store_options = dict(options)
    storage_options = {name: store_options.pop(name) for name in STORAGE_OPTIONS if name in store_options}
    if encryption := sorted(name for name in store_options if name.lower().startswith(ENCRYPTION_PREFIX)):
        raise UnsupportedFeature(
            f"tables cannot be encrypted yet, found option {', '.join(encryption)}",
            hint="leave it out, and encrypt the storage (buckets, disks) for now",
        )
    prefixes = _check_prefixes(storage_options.get("prefixes"))
    roots = _check_roots(storage_options.get("roots"))
    storage = storage_options.get("storage")
    if storage is None:
        named_roots = [root for root in roots or () if root != _ALL_ROOTS]
        # local: has no store: its files are where the prefixes say.
        is_mapped = parse(location).scheme == "local" and any(is_below(location, prefix) for prefix in prefixes)
        storage = _open_stores([*(() if is_mapped else (location,)), *named_roots, *prefixes.values()], store_options)
    elif store_options:
        raise InvalidSettings(
            f"options of a store cannot be combined with storage=: {', '.join(sorted(store_options))}"
        )
    limit = storage_options.get("max_read_bytes", DEFAULT_MAX_READ_BYTES)
    if limit is not None and (type(limit) is not int or limit <= 0):
        raise InvalidSettings(f"max_read_bytes must be a positive number, found {limit!r:.80}")
    if roots is not None:
        storage = Access(storage, roots=None if roots == [_ALL_ROOTS] else roots, max_read_bytes=limit)
    else:
        defaults = dict.fromkeys([*([location] if default_roots is None else default_roots), *prefixes.values()])
        storage = Access(storage, roots=defaults, max_read_bytes=limit, exact=False)
    return PrefixMap(storage, prefixes) if prefixes else storage


def _open_stores(locations: list[str], options: Mapping[str, Any]) -> Storage:
    """The storage of all these locations: one for each scheme."""
    by_scheme: dict[str, Storage] = {}
    for location in locations:
        scheme = parse(location).scheme
        if scheme not in by_scheme:
            by_scheme[scheme] = open_storage(location, **_options_of_scheme(scheme, options))
    return next(iter(by_scheme.values())) if len(by_scheme) == 1 else RoutedStorage(by_scheme)


def _options_of_scheme(scheme: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those of other stores, which the local disk and memory would refuse."""
    if scheme not in ("file", "memory"):
        return {name: value for name, value in options.items() if name != "durable"}
    return {name: value for name, value in options.items() if "." not in name}


def _check_prefixes(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise InvalidSettings(f"prefixes must map one folder to another, found {value!r:.80}")
    return dict(value)


def _check_roots(value: Any) -> list[str] | None:
    if value is None:
        return None
    roots = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(root, str) for root in roots):
        raise InvalidSettings(f"roots must be folders, found {value!r:.80}")
    if _ALL_ROOTS in roots and len(roots) > 1:
        raise InvalidSettings("roots must be folders, or '*' alone, which allows all", hint="leave out the others")
    return roots
