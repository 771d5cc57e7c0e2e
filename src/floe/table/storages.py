"""The storage of a lake or a table, put together from what a user says: where, with which keys, moved from where.

| option | meaning |
|---|---|
| `prefixes` | `{"/old/root/": "/new/root/"}`: files recorded below one folder are found below another (a moved or copied table, or Trino's `local:///`) |
| `roots` | folders that may be touched, and no others; `"*"` for all. By default the warehouse, and what is vouched for of each table (`floe.commit.roots`) |
| `max_read_bytes` | the most that one read takes into memory (1 GiB) |
| `storage` | a storage of your own, in place of all this |
| others | those of the store: `s3.region`, `s3.endpoint`, … or `durable=False` for local disk |

Only the stores of the warehouse and of the roots are opened: a table in a bucket cannot make anybody read local files.
"""  # noqa: E501 (a table)

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from floe.errors import InvalidSettings, UnsupportedFeature
from floe.spec.metadata.properties import ENCRYPTION_PREFIX
from floe.storage.access import DEFAULT_MAX_READ_BYTES, Access
from floe.storage.locations import is_below, parse
from floe.storage.opening import open_storage
from floe.storage.prefix_map import PrefixMap
from floe.storage.protocol import Storage
from floe.storage.routing import RoutedStorage

__all__ = ["STORAGE_OPTIONS", "storage_for"]

STORAGE_OPTIONS: Final = ("storage", "prefixes", "roots", "max_read_bytes")
"""The options that are read here; all others go to the store itself."""

_ANYWHERE: Final = "*"


def storage_for(location: str, options: Mapping[str, Any], *, usual: Iterable[str] | None = None) -> Storage:
    """The storage that holds a location, as the options say; without roots it allows `usual`, or the location.

    >>> storage_for("/warehouse", {"prefixes": {"/old": "/warehouse"}})
    PrefixMap(Access(LocalStorage(durable=True), roots=('/warehouse',), ...), {'/old': '/warehouse'})
    """
    given = dict(options)
    own = {name: given.pop(name) for name in STORAGE_OPTIONS if name in given}
    if asked := sorted(name for name in given if name.lower().startswith(ENCRYPTION_PREFIX)):
        raise UnsupportedFeature(
            f"tables cannot be encrypted yet, and {', '.join(asked)} asks for it",
            hint="leave it out, and encrypt the storage (buckets, disks) for now",
        )
    prefixes = _mapping("prefixes", own.get("prefixes"))
    roots = _roots(own.get("roots"))
    storage = own.get("storage")
    if storage is None:
        named = [root for root in roots or () if root != _ANYWHERE]
        # local: has no store of its own: its files are where the map says.
        mapped = parse(location).scheme == "local" and any(is_below(location, prefix) for prefix in prefixes)
        storage = _opened([*(() if mapped else (location,)), *named, *prefixes.values()], given)
    elif given:
        raise InvalidSettings(f"a storage was given, so there is nothing that takes {', '.join(sorted(given))}")
    limit = own.get("max_read_bytes", DEFAULT_MAX_READ_BYTES)
    if limit is not None and (type(limit) is not int or limit <= 0):
        raise InvalidSettings(f"max_read_bytes must be a positive number, found {limit!r:.80}")
    if roots is not None:
        storage = Access(storage, roots=None if roots == [_ANYWHERE] else roots, max_read_bytes=limit)
    else:
        usual = dict.fromkeys([*([location] if usual is None else usual), *prefixes.values()])
        storage = Access(storage, roots=usual, max_read_bytes=limit, exact=False)
    return PrefixMap(storage, prefixes) if prefixes else storage


def _opened(locations: list[str], options: Mapping[str, Any]) -> Storage:
    by_scheme: dict[str, Storage] = {}
    for location in locations:
        scheme = parse(location).scheme
        if scheme not in by_scheme:
            by_scheme[scheme] = open_storage(location, **_for_scheme(scheme, options))
    return next(iter(by_scheme.values())) if len(by_scheme) == 1 else RoutedStorage(by_scheme)


def _for_scheme(scheme: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those of other stores, which local disk and memory would not know."""
    if scheme not in ("file", "memory"):
        return {name: value for name, value in options.items() if name != "durable"}
    return {name: value for name, value in options.items() if "." not in name}


def _mapping(name: str, given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(v, str) for pair in given.items() for v in pair):
        raise InvalidSettings(f"{name} must map one folder to another, found {given!r:.80}")
    return dict(given)


def _roots(given: Any) -> list[str] | None:
    if given is None:
        return None
    roots = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(root, str) for root in roots):
        raise InvalidSettings(f"roots must be folders, found {given!r:.80}")
    if _ANYWHERE in roots and len(roots) > 1:
        raise InvalidSettings("roots must be folders, or '*' alone, which allows all", hint="leave out the others")
    return roots
