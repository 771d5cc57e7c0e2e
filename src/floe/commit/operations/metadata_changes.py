"""Setting and removing a table's properties.

Concurrency: every key by itself, and the last writer wins. Two that set different keys both succeed; of two that set
the same key the later one counts, as with any setting. Nothing is lost that somebody else set under another key.

Changing where a table puts new files.

Concurrency: a change of the location by somebody else since is a `ConflictingChange`, if the caller says which location
he saw; without that the last writer wins. Every other commit is built upon. Files that are there stay where they are.

Raising a table's format version.

Concurrency: compatible with every other commit, for it is made again on what they left; if somebody else raised the
version at least as far there is nothing to do. There is no way back.

Registering and forgetting statistics files.

Concurrency: compatible with every other commit. The statistics of a snapshot are facts about it that do not change,
so of two files for the same snapshot the later one counts. A snapshot that expired meanwhile has no statistics:
registering them is a `ConflictingChange`, forgetting them is done already.

A file that is replaced or forgotten is deleted when that is published, if nothing else can need it (see `cleanup`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from floe.commit.change import Attempt
from floe.errors import ConflictingChange, InvalidUpdate, UnsupportedFeature
from floe.spec.metadata.table_metadata import PartitionStatisticsFile, StatisticsFile
from floe.spec.metadata.update_handlers import check_format_version, without_trailing_slash
from floe.spec.metadata.updates import (
    RemovePartitionStatistics,
    RemoveProperties,
    RemoveStatistics,
    SetLocation,
    SetPartitionStatistics,
    SetProperties,
    SetStatistics,
    TableUpdate,
    UpgradeFormatVersion,
)
from floe.spec.properties import (
    ENCRYPTION_PREFIX,
    ENCRYPTION_PROPERTIES,
    FORMAT_VERSION,
    RESERVED_PROPERTIES,
    check_properties,
)
from floe.storage.locations import same_file


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
    if name in RESERVED_PROPERTIES and name != FORMAT_VERSION.name:
        raise InvalidUpdate(
            f"{name} is not a property that can be set: it shows the table's state",
            hint=f"reserved are {', '.join(sorted(RESERVED_PROPERTIES))}",
            property=name,
        )


# Changing where a table puts new files.


@dataclass(frozen=True, slots=True)
class UpdateLocation:
    """Sets the table's base location.

    >>> UpdateLocation("s3://b/t/").location
    's3://b/t'
    """

    location: str
    seen: str | None = None
    """The location that the caller saw."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "location", without_trailing_slash(self.location))

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The new location, unless the table is there already."""
        now = attempt.metadata.location
        if now == self.location:
            return ()
        if self.seen is not None and not same_file(now, self.seen):
            raise ConflictingChange(
                f"the table's location cannot be set to {self.location}: it was {self.seen}, and somebody set it to "
                f"{now} meanwhile",
                hint="look at the table again",
            )
        return (SetLocation(self.location),)


# Raising a table's format version.


@dataclass(slots=True)
class UpgradeTable:
    """Raises the format version to a later one.

    >>> UpgradeTable(4)
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: format version 4 is not supported; supported are 1 to 3
    """

    format_version: int
    _attempted: bool = False

    def __post_init__(self) -> None:
        check_format_version(self.format_version)

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The upgrade, unless the table has that version."""
        found = attempt.metadata.format_version
        if found > self.format_version and not self._attempted:
            raise InvalidUpdate(f"a table cannot go back from format version {found} to {self.format_version}")
        self._attempted = True  # later, a higher version is somebody else's upgrade, which does for both
        return (UpgradeFormatVersion(self.format_version),) if found < self.format_version else ()


# Registering and forgetting statistics files.


@dataclass(frozen=True, slots=True)
class UpdateStatistics:
    """Registers statistics files, and forgets those of other snapshots.

    >>> UpdateStatistics(forget=[7]).forget
    (7,)
    """

    set: Sequence[StatisticsFile] = ()
    set_partition: Sequence[PartitionStatisticsFile] = ()
    forget: Sequence[int] = ()
    """Ids of snapshots whose statistics file is to be forgotten."""

    forget_partition: Sequence[int] = ()

    def __post_init__(self) -> None:
        for name in ("set", "set_partition", "forget", "forget_partition"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """What is not as it should be yet."""
        table = attempt.metadata
        paths = [(file.snapshot_id, file.statistics_path) for file in self.set]
        paths += [(file.snapshot_id, file.statistics_path) for file in self.set_partition]
        for snapshot_id, path in paths:
            if snapshot_id not in table.snapshots_by_id:
                raise ConflictingChange(
                    f"statistics of snapshot {snapshot_id} cannot be registered: the table has none such, it may have "
                    "expired meanwhile",
                    snapshot=snapshot_id,
                    file=path,
                )
        known = {file.snapshot_id for file in table.statistics}
        known_partition = {file.snapshot_id for file in table.partition_statistics}
        return (
            *(SetStatistics(file) for file in self.set if file not in table.statistics),
            *(SetPartitionStatistics(file) for file in self.set_partition if file not in table.partition_statistics),
            *(RemoveStatistics(snapshot) for snapshot in self.forget if snapshot in known),
            *(RemovePartitionStatistics(snapshot) for snapshot in self.forget_partition if snapshot in known_partition),
        )
