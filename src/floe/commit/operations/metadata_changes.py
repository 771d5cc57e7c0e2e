"""Changes of properties, location, format version and statistics files.

| change | concurrent commits |
|---|---|
| `UpdateProperties` | the last writer of a key wins; other keys are not affected |
| `UpdateLocation` | a `ConflictingChange` if another commit moved the table and the caller says where it was (`expected`); else the last writer wins |
| `UpgradeTable` | compatible with all; nothing to do if another commit upgraded the table at least as far |
| `UpdateStatistics` | compatible with all; the last writer wins; statistics of a snapshot that has expired are a `ConflictingChange` |

A new location applies to new files; existing ones stay where they are. A table cannot be downgraded. A statistics file
that is replaced or unregistered is deleted after the commit, if nothing else can refer to it (see `outcomes`).
"""  # noqa: E501 (a table)

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
    """Sets and removes properties; the property `format-version` upgrades the table.

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
        """The updates that set the properties, and remove those that the table has."""
        updates: list[TableUpdate] = []
        if self.set:
            updates.append(SetProperties(dict(self.set)))
        removed = tuple(name for name in self.remove if name in attempt.metadata.properties)
        if attempt.metadata.encryption_keys and (required := sorted(ENCRYPTION_PROPERTIES.intersection(removed))):
            raise UnsupportedFeature(
                f"{required[0]} cannot be removed from an encrypted table: new files would be in plain text",
                property=required[0],
            )
        if removed:
            updates.append(RemoveProperties(removed))
        return updates


def refuse_encryption(properties: Iterable[str]) -> None:
    """Raise if properties ask for encryption, which is not supported: the files would be in plain text.

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


# Location -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UpdateLocation:
    """Sets the table's base location.

    >>> UpdateLocation("s3://b/t/").location
    's3://b/t'
    """

    location: str
    expected: str | None = None
    """The location that the caller saw; None for any."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "location", without_trailing_slash(self.location))

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The update that sets the location; none if the table has it already."""
        current = attempt.metadata.location
        if current == self.location:
            return ()
        if self.expected is not None and not same_file(current, self.expected):
            raise ConflictingChange(
                f"the table's location cannot be set to {self.location}: it was {self.expected}, and another commit "
                f"set it to {current}",
                hint="load the table again, and repeat the change if it is still needed",
            )
        return (SetLocation(self.location),)


# Format version -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class UpgradeTable:
    """Upgrades the table to a higher format version.

    >>> UpgradeTable(4)
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: format version 4 is not supported; supported are 1 to 3
    """

    format_version: int
    _attempted: bool = False

    def __post_init__(self) -> None:
        check_format_version(self.format_version)

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The update that upgrades the table; none if it has the version already."""
        current = attempt.metadata.format_version
        if current > self.format_version and not self._attempted:
            raise InvalidUpdate(f"a table cannot go back from format version {current} to {self.format_version}")
        self._attempted = True  # on later attempts a higher version is the upgrade of another commit
        return (UpgradeFormatVersion(self.format_version),) if current < self.format_version else ()


# Statistics -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UpdateStatistics:
    """Registers statistics files of snapshots, and unregisters (`forget`) those of others.

    >>> UpdateStatistics(forget=[7]).forget
    (7,)
    """

    set: Sequence[StatisticsFile] = ()
    set_partition: Sequence[PartitionStatisticsFile] = ()
    forget: Sequence[int] = ()
    """The ids of snapshots whose statistics file is unregistered."""

    forget_partition: Sequence[int] = ()
    """The ids of snapshots whose partition statistics file is unregistered."""

    def __post_init__(self) -> None:
        for name in ("set", "set_partition", "forget", "forget_partition"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The updates for files that are not registered yet, and for those that still are."""
        table = attempt.metadata
        paths = [(file.snapshot_id, file.statistics_path) for file in self.set]
        paths += [(file.snapshot_id, file.statistics_path) for file in self.set_partition]
        for snapshot_id, path in paths:
            if snapshot_id not in table.snapshots_by_id:
                raise ConflictingChange(
                    f"statistics of snapshot {snapshot_id} cannot be registered: the table does not have the snapshot, "
                    "which may have expired",
                    snapshot=snapshot_id,
                    file=path,
                )
        registered = {file.snapshot_id for file in table.statistics}
        registered_partition = {file.snapshot_id for file in table.partition_statistics}
        return (
            *(SetStatistics(file) for file in self.set if file not in table.statistics),
            *(SetPartitionStatistics(file) for file in self.set_partition if file not in table.partition_statistics),
            *(RemoveStatistics(id_) for id_ in self.forget if id_ in registered),
            *(RemovePartitionStatistics(id_) for id_ in self.forget_partition if id_ in registered_partition),
        )
