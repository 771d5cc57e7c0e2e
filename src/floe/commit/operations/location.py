"""Changing where a table puts new files.

Concurrency: a change of the location by somebody else since is a `ConflictingChange`, if the caller says which location
he saw; without that the last writer wins. Every other commit is built upon. Files that are there stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from floe.commit.change import Attempt
from floe.errors import ConflictingChange
from floe.spec.metadata.apply import without_trailing_slash
from floe.spec.metadata.updates import SetLocation, TableUpdate
from floe.storage.locations import same_file

__all__ = ["UpdateLocation"]


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
