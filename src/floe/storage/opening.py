"""From a location to the storage that holds it: one table of schemes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from floe.errors import InvalidInput
from floe.storage.fsspec_files import FsspecStorage
from floe.storage.local import WHERE_LOCAL_IS, LocalStorage
from floe.storage.locations import parse
from floe.storage.memory import MemoryStorage
from floe.storage.object_stores import OBJECT_SCHEMES, ObjectStorage
from floe.storage.protocol import Storage
from floe.storage.retries import Retrying

__all__ = ["OPENERS", "Opener", "open_storage"]

Opener: TypeAlias = Callable[[str, Mapping[str, Any]], Storage]
"""Opens the storage of a scheme with options."""

_SCHEME_ALONE = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(?://)?")


def _open_local(scheme: str, options: Mapping[str, Any]) -> Storage:
    return LocalStorage(**_only(scheme, options, "durable"))


def _open_memory(scheme: str, options: Mapping[str, Any]) -> Storage:
    return MemoryStorage(**_only(scheme, options, "clock"))


def _open_trinos_local(scheme: str, options: Mapping[str, Any]) -> Storage:
    # fsspec would take local:///x for /x: another file than the one that was written, unless the folder is /.
    raise InvalidInput(f"{scheme}: does not tell where its files are", hint=WHERE_LOCAL_IS)


def _open_objects(scheme: str, options: Mapping[str, Any]) -> Storage:
    return Retrying(ObjectStorage(scheme, options))


def _open_fsspec(scheme: str, options: Mapping[str, Any]) -> Storage:
    return Retrying(FsspecStorage(scheme, options))


OPENERS: Mapping[str, Opener] = MappingProxyType(
    {
        "file": _open_local,
        "memory": _open_memory,
        "local": _open_trinos_local,
        **dict.fromkeys(OBJECT_SCHEMES, _open_objects),
    }
)
"""Who opens what; schemes that are not here are left to fsspec."""


def open_storage(location: str, *, openers: Mapping[str, Opener] = OPENERS, **options: Any) -> Storage:
    """The storage that holds a location (or a whole scheme, as `s3:` or `s3://`), opened with options.

    Options of object stores are Iceberg's (`s3.region`, …) or plain ones (`region`, `endpoint`, `access_key_id`, …);
    what is not given comes from the environment. A program that brings a storage of its own passes `openers` with it.
    Storages that go over a network repeat what may be repeated. Each call opens a storage of its own: two of `memory:`
    share nothing.

    >>> open_storage("file:///wh")
    LocalStorage(durable=True)
    >>> open_storage("mine://x/y", openers={**OPENERS, "mine": lambda scheme, options: MemoryStorage()})
    MemoryStorage(0 files)
    >>> open_storage("memory:", colour="red")
    Traceback (most recent call last):
    floe.errors.InvalidInput: memory: has no option colour
    """
    alone = _SCHEME_ALONE.fullmatch(location)
    # Any host and path will do to learn the canonical scheme; `localhost` is one that file: takes too.
    scheme = parse(f"{alone[1]}://localhost/x" if alone else location).scheme
    return openers.get(scheme, _open_fsspec)(scheme, options)


def _only(scheme: str, options: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """The options, unless there is one that the storage does not have."""
    unknown = [name for name in options if name not in known]
    if unknown:
        raise InvalidInput(f"{scheme}: has no option {', '.join(unknown)}")
    return dict(options)
