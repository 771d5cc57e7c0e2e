"""Table properties that the format itself acts on: the reserved names, and reading numbers and switches.

>>> integer_property(
...     {"write.metadata.previous-versions-max": "20"}, "write.metadata.previous-versions-max", default=100
... )
20
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from floe.errors import InvalidUpdate

__all__ = [
    "ENCRYPTION_PREFIX",
    "ENCRYPTION_PROPERTIES",
    "FORMAT_VERSION",
    "METADATA_PREVIOUS_VERSIONS_MAX",
    "RESERVED_PROPERTIES",
    "boolean_property",
    "integer_property",
    "stored_properties",
]

FORMAT_VERSION: Final = "format-version"
"""Not stored: setting it upgrades the table."""

RESERVED_PROPERTIES: Final = frozenset(
    {
        FORMAT_VERSION,
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)
"""Names under which catalogs show the table's state as properties; they are never stored in metadata."""

ENCRYPTION_PROPERTIES: Final = frozenset({"encryption.key-id", "encryption.data-key-length"})
"""Properties of table encryption, which came with format version 3."""

ENCRYPTION_PREFIX: Final = "encryption."
"""What all properties and options of encryption begin with."""

METADATA_PREVIOUS_VERSIONS_MAX: Final = "write.metadata.previous-versions-max"
"""How many previous metadata files the metadata log keeps."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


def integer_property(properties: Mapping[str, str], name: str, *, default: int) -> int:
    """The number that a property holds, or the default when it is not set.

    >>> integer_property({"n": "many"}, "n", default=1)
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: property n must be a whole number, found 'many' (property: n)
    """
    text = properties.get(name)
    if text is None:
        return default
    if not isinstance(text, str):  # users write numbers
        raise InvalidUpdate(f"property {name} must be a string, found {text!r:.80}", property=name)
    if not _INTEGER.fullmatch(text):
        raise InvalidUpdate(f"property {name} must be a whole number, found {text[:80]!r}", property=name)
    return int(text)


def boolean_property(properties: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Whether a property is `true` (in any case); every other text is false, as in other engines.

    >>> boolean_property({"gc.enabled": "TRUE"}, "gc.enabled", default=False)
    True
    """
    text = properties.get(name)
    return default if text is None else text.lower() == "true"


def stored_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties without the reserved ones.

    >>> stored_properties({"format-version": "3", "comment": "mine"})
    {'comment': 'mine'}
    """
    return {name: value for name, value in properties.items() if name not in RESERVED_PROPERTIES}
