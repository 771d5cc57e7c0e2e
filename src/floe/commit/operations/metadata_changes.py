"""Setting and removing a table's properties.

Concurrency: every key by itself, and the last writer wins. Two that set different keys both succeed; of two that set
the same key the later one counts, as with any setting. Nothing is lost that somebody else set under another key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from floe.commit.change import Attempt
from floe.errors import InvalidUpdate, UnsupportedFeature
from floe.spec.metadata.known_properties import check_properties
from floe.spec.metadata.properties import (
    ENCRYPTION_PREFIX,
    ENCRYPTION_PROPERTIES,
    FORMAT_VERSION,
    RESERVED_PROPERTIES,
)
from floe.spec.metadata.updates import RemoveProperties, SetProperties, TableUpdate

__all__ = ["UpdateProperties", "refuse_encryption"]


@dataclass(frozen=True, slots=True)
class UpdateProperties:
    """Sets some properties and removes others; `format-version` upgrades the table.

    >>> UpdateProperties({"comment": "mine"}, remove=["owner"])
    UpdateProperties(set={'comment': 'mine'}, remove=('owner',))
    >>> UpdateProperties({"uuid": "7"})
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: uuid is not a property that can be set: it shows the table's state ...
    """

    set: Mapping[str, str] = field(default_factory=dict)
    remove: Collection[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "set", dict(self.set))
        object.__setattr__(self, "remove", tuple(dict.fromkeys(self.remove)))
        for name, value in self.set.items():
            _check(name, value)
        refuse_encryption(self.set)
        check_properties(self.set)
        both = [name for name in self.remove if name in self.set]
        if both:
            raise InvalidUpdate(f"property {both[0]} is both set and removed", property=both[0])
        for name in self.remove:
            if name in RESERVED_PROPERTIES:
                raise InvalidUpdate(f"{name} is not a property that can be removed: it shows the table's state")

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """What the table does not have yet, and what it has still."""
        changed: list[TableUpdate] = []
        if self.set:
            changed.append(SetProperties(dict(self.set)))
        gone = tuple(name for name in self.remove if name in attempt.metadata.properties)
        if attempt.metadata.encryption_keys and (kept := sorted(ENCRYPTION_PROPERTIES.intersection(gone))):
            raise UnsupportedFeature(
                f"{kept[0]} cannot be removed from an encrypted table: what is written next would be in plain text",
                property=kept[0],
            )
        if gone:
            changed.append(RemoveProperties(gone))
        return changed


def refuse_encryption(properties: Iterable[str]) -> None:
    """Raise if properties ask for encryption: who sets them must not find the table's files in plain text.

    >>> refuse_encryption({"encryption.key-id": "k1"})
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: tables cannot be encrypted yet, and this property asks for it ...
    """
    for name in properties:
        if isinstance(name, str) and name.lower().startswith(ENCRYPTION_PREFIX):
            raise UnsupportedFeature(
                "tables cannot be encrypted yet, and this property asks for it",
                hint=f"leave {ENCRYPTION_PREFIX}* out, and encrypt the storage (buckets, disks) for now",
                property=name,
            )


def _check(name: object, value: object) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidUpdate(f"the name of a property must be text, found {name!r:.80}")
    if not isinstance(value, str):
        raise InvalidUpdate(f"property {name} must be text, found {value!r:.80}", hint="write it in quotes")
    if name in RESERVED_PROPERTIES and name != FORMAT_VERSION:
        raise InvalidUpdate(
            f"{name} is not a property that can be set: it shows the table's state",
            hint=f"reserved are {', '.join(sorted(RESERVED_PROPERTIES))}",
            property=name,
        )
