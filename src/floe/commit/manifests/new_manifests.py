"""Manifests for files that are added: written once, of a good size, and used again by every attempt.

They hold neither sequence numbers nor row ids, which are inherited from the manifest list (spec: Sequence Number
Inheritance), so that losing a race costs a new list and no new manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from floe.commit.manifests.added_files import AddedFiles, file_key
from floe.commit.manifests.manifest_files import NewManifest, Workspace
from floe.spec.manifests.entries import DataFile, ManifestContent, ManifestEntry

__all__ = ["write_added"]

_TRIED_WHOLE: Final = 10_000
"""Up to so many entries are encoded together; they seldom are too long for one manifest."""

_SAMPLE: Final = 1_000
"""So many of more entries tell how long an entry is."""


def write_added(workspace: Workspace, added: AddedFiles) -> tuple[list[NewManifest], list[NewManifest]]:
    """The manifests of the added files: those of rows, and those of deletes."""
    found: dict[ManifestContent, list[NewManifest]] = {content: [] for content in ManifestContent}
    for spec_id, content, files in added.groups():
        names = tuple(map(file_key, files))
        key = ("added", spec_id, content, names, workspace.target_bytes, workspace.style(spec_id))
        found[content] += workspace.files.once(key, lambda: _write(workspace, added, files, spec_id, content))  # noqa: B023
    return found[ManifestContent.DATA], found[ManifestContent.DELETES]


def _write(
    workspace: Workspace, added: AddedFiles, files: Sequence[DataFile], spec_id: int, content: ManifestContent
) -> list[NewManifest]:
    entries = added.entries(files, workspace.key.snapshot_id, workspace.format_version)
    sample = entries if len(entries) <= _TRIED_WHOLE else entries[:_SAMPLE]
    data = workspace.encode(sample, spec_id, content)
    if sample is entries and len(data) <= workspace.target_bytes:
        return [workspace.store(workspace.new_path(), data, entries, spec_id, content)]
    most = max(int(workspace.target_bytes * len(sample) / len(data)), 1)
    parts = [(workspace.new_path(), entries[begin : begin + most]) for begin in range(0, len(entries), most)]

    def write(item: tuple[str, Sequence[ManifestEntry]]) -> NewManifest:
        path, part = item
        return workspace.store(path, workspace.encode(part, spec_id, content), part, spec_id, content)

    return workspace.several(write, parts)
