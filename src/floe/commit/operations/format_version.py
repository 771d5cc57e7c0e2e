"""Raising a table's format version.

Concurrency: compatible with every other commit, for it is made again on what they left; if somebody else raised the
version at least as far there is nothing to do. There is no way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from floe.commit.change import Attempt
from floe.errors import InvalidUpdate
from floe.spec.metadata.updates import TableUpdate, UpgradeFormatVersion
from floe.spec.metadata.upgrade import check_format_version

__all__ = ["UpgradeTable"]


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
