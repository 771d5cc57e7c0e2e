"""First row ids of the manifests of a v3 table (spec: Row Lineage).

A snapshot starts at the table's `next-row-id`; each data manifest without a first row id gets the next free one when
the manifest list is written. Files and rows inherit theirs when they are read, so that neither manifests nor data files
have to be rewritten when a commit is retried.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from floe.errors import InvalidUpdate
from floe.spec.manifests.entries import ManifestContent, ManifestFile


def assign_first_row_ids(manifests: Iterable[ManifestFile], first_row_id: int) -> tuple[tuple[ManifestFile, ...], int]:
    """Return a snapshot's manifests with their first row ids, and the table's next row id after them.

    Manifests that have an id keep it, and delete manifests have none. Each of the others reserves ids for its added and
    existing rows, because existing files of an upgraded table may have no ids yet (spec: First Row ID Assignment). The
    snapshot's `added-rows` is the difference between the two row ids.

    >>> new = ManifestFile("m.avro", 100, 0, added_rows_count=5, existing_rows_count=2)
    >>> manifests, next_row_id = assign_first_row_ids([new, new], 1000)
    >>> [m.first_row_id for m in manifests], next_row_id
    ([1000, 1007], 1014)
    """
    assigned = []
    for manifest in manifests:
        if manifest.content == ManifestContent.DATA and manifest.first_row_id is None:
            added, existing = manifest.added_rows_count, manifest.existing_rows_count
            if added is None or existing is None:
                raise InvalidUpdate(
                    "cannot assign row ids to a manifest whose row counts are unknown",
                    hint="read the manifest and fill in its counts first",
                    manifest=manifest.manifest_path,
                )
            manifest = replace(manifest, first_row_id=first_row_id)
            first_row_id += added + existing
        assigned.append(manifest)
    return tuple(assigned), first_row_id
