"""What a plan looked at and what it left out, for people who ask why a read is fast or slow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["ScanReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    """The counts of one plan; its text is a short table.

    >>> report = ScanReport(
    ...     data_manifests=5, data_manifests_read=2, files_read=90, files_in_partitions=30, files=12, planning_ms=7
    ... )
    >>> print(report)
    data manifests    5 in the snapshot, 3 skipped by partition, 2 read
    delete manifests  0 in the snapshot, 0 skipped by partition, 0 read
    data files        90 in the manifests read, 60 skipped by partition, 18 skipped by metrics, 12 to read
    delete files      0 that may apply
    planned in        7 ms
    """

    data_manifests: int = 0
    """The manifests of data files in the snapshot."""

    data_manifests_read: int = 0
    delete_manifests: int = 0
    delete_manifests_read: int = 0
    files_read: int = 0
    """The live data files of the manifests that were read."""

    files_in_partitions: int = 0
    """Those of them whose partition may hold passing rows."""

    files: int = 0
    """The data files of the plan."""

    file_bytes: int = 0
    delete_files: int = 0
    """The delete files that were indexed, of which each data file has some or none."""

    planning_ms: int = 0

    @property
    def data_manifests_skipped(self) -> int:
        """The manifests that the filter left out, or that have no live files."""
        return self.data_manifests - self.data_manifests_read

    @property
    def delete_manifests_skipped(self) -> int:
        """The manifests of deletes that cannot matter to the files of the plan."""
        return self.delete_manifests - self.delete_manifests_read

    @property
    def files_skipped(self) -> int:
        """The live files of the manifests read that the filter left out."""
        return self.files_read - self.files

    def lines(self) -> Iterator[tuple[str, str]]:
        """The report as pairs of what and how many."""
        yield (
            "data manifests",
            f"{self.data_manifests} in the snapshot, {self.data_manifests_skipped} skipped by partition, "
            f"{self.data_manifests_read} read",
        )
        yield (
            "delete manifests",
            f"{self.delete_manifests} in the snapshot, {self.delete_manifests_skipped} skipped by partition, "
            f"{self.delete_manifests_read} read",
        )
        yield (
            "data files",
            f"{self.files_read} in the manifests read, {self.files_read - self.files_in_partitions} skipped by "
            f"partition, {self.files_in_partitions - self.files} skipped by metrics, {self.files} to read",
        )
        yield "delete files", f"{self.delete_files} that may apply"
        yield "planned in", f"{self.planning_ms} ms"

    def __str__(self) -> str:
        return "\n".join(f"{what:<18}{text}" for what, text in self.lines())
