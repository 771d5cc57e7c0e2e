"""Metadata files, for all catalogs: reading and checking them, naming and writing the next one, deleting old ones.

Catalogs that move a pointer write each new state to a file with a random part in its name, such as
`00007-<uuid>.metadata.json`, and then swap; `write_proposal`, `discard_proposal` and `clean_old_files` are all that
their pointers need for files. The file-system catalog publishes by creating a file of a known name, and uses the rest.

| table property | what it does |
|---|---|
| `write.metadata.compression-codec` | `none` (default) or `gzip` |
| `write.metadata.path` | the folder of metadata files; default: `metadata` below the table's location |
| `write.metadata.previous-versions-max` | how many earlier files the metadata log keeps (100) |
| `write.metadata.delete-after-commit.enabled` | whether files that leave the log are deleted (`false`) |
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from typing import Final

from floe.commit.pointer import Pointer, Proposal, TableState
from floe.errors import FloeError, OutcomeUnknown, StorageUnavailable
from floe.spec.json_reader import Limits
from floe.spec.metadata.file_names import catalog_metadata_file_name, parse_metadata_file_name
from floe.spec.metadata.requirements import TableRequirement
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import parse, serialize
from floe.spec.metadata.updates import TableUpdate
from floe.spec.properties import METADATA_CODEC, METADATA_DELETE_AFTER_COMMIT, METADATA_PATH
from floe.storage.environment import Ids
from floe.storage.locations import canonical, is_below, join
from floe.storage.protocol import Storage

_HIGHEST_VERSION: Final = 2**31 - 1


# reading ----------------------------------------------------------------------------------------------------------


def read_metadata(storage: Storage, location: str, *, limits: Limits | None = None) -> TableMetadata:
    """The metadata in a file, plain or gzip whatever its name says, checked for reading.

    >>> from floe.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> storage.write("memory:t/metadata/v1.metadata.json", b"{")
    >>> read_metadata(storage, "memory:t/metadata/v1.metadata.json")
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $: not JSON: ... (file: memory:t/metadata/v1.metadata.json)
    """
    return parse_metadata(read_metadata_bytes(storage, location, limits=limits), location, limits=limits)


def read_metadata_bytes(storage: Storage, location: str, *, limits: Limits | None = None) -> bytes:
    """The bytes of a metadata file, unless it is too large to be one."""
    return storage.read(location, max_bytes=(limits or Limits()).max_bytes)


def parse_metadata(data: bytes, location: str, *, limits: Limits | None = None) -> TableMetadata:
    """The metadata in the bytes of a file; errors name the file."""
    try:
        return parse(data, limits=limits)
    except FloeError as error:
        raise error.with_context(file=location) from None


# writing ----------------------------------------------------------------------------------------------------------


def is_compressed(metadata: TableMetadata) -> bool:
    """Whether the table's properties ask for compressed metadata files."""
    return METADATA_CODEC.read(metadata.properties) == "gzip"


def compressed(data: bytes) -> bytes:
    """The gzip file of some bytes; the same bytes always give the same file."""
    return gzip.compress(data, compresslevel=6, mtime=0)


def encode_metadata(metadata: TableMetadata) -> bytes:
    """The bytes of a metadata file, compressed if the table's properties ask for it."""
    use_gzip = is_compressed(metadata)
    data = serialize(metadata)
    return compressed(data) if use_gzip else data


def metadata_folder(metadata: TableMetadata) -> str:
    """The folder in which the table keeps its metadata files."""
    folder = METADATA_PATH.read(metadata.properties)
    return folder.rstrip("/") if folder else join(metadata.location, "metadata")


def next_metadata_location(base: TableState | None, metadata: TableMetadata, ids: Ids) -> str:
    """The location of a new metadata file: the version after the base's, and a random part that makes it unique.

    A base with the name of a file-system table's version counts as no base, as in other engines.
    """
    base_name = None if base is None else parse_metadata_file_name(base.location)
    version = -1 if base_name is None or base_name.uuid is None or base_name.version is None else base_name.version
    name = catalog_metadata_file_name(
        min(version + 1, _HIGHEST_VERSION), str(ids.uuid()), compressed=is_compressed(metadata)
    )
    return join(metadata_folder(metadata), name)


def write_proposal(
    pointer: Pointer,
    base: TableState | None,
    metadata: TableMetadata,
    *,
    updates: Sequence[TableUpdate] = (),
    requirements: Sequence[TableRequirement] = (),
) -> Proposal:
    """`Pointer.propose` for catalogs that move a pointer: writes the new metadata to a file of a unique name."""
    location = next_metadata_location(base, metadata, pointer.environment.ids)
    content = encode_metadata(metadata)
    try:
        pointer.storage.write(location, content)
    except OutcomeUnknown as error:
        _confirm_written(pointer.storage, location, content, error)
    return Proposal(pointer, base, metadata, location, tuple(updates), tuple(requirements), content)


def _confirm_written(storage: Storage, location: str, content: bytes, lost: OutcomeUnknown) -> None:
    """Read a file after the response to its write was lost; raise unless it is there (its name is unique)."""
    try:
        if storage.read(location) == content:
            return
    except FloeError as error:
        lost.add_note(f"Reading it failed: {error}")
    raise StorageUnavailable("the metadata file could not be written", location=location) from lost


def discard_proposal(proposal: Proposal) -> None:
    """`Pointer.discard` for catalogs that move a pointer: deletes the unpublished file; never raises."""
    try:
        proposal.pointer.storage.delete_many([proposal.location])
    except Exception:  # what is left over is found by orphan removal
        return


# cleaning up ------------------------------------------------------------------------------------------------------


def removed_from_log(base: TableMetadata, metadata: TableMetadata) -> list[str]:
    """The metadata files that left the log with a commit and may be deleted, oldest first.

    Empty unless the table's properties ask for it. A log may hold any text, so only files that are named like metadata
    files and lie below the table's own folders are returned.
    """
    if not METADATA_DELETE_AFTER_COMMIT.read(metadata.properties):
        return []
    kept = {canonical(entry.metadata_file) for entry in metadata.metadata_log}
    roots = (metadata.location, metadata_folder(metadata))
    logged_before = (entry.metadata_file for entry in base.metadata_log)
    return [
        file
        for file in dict.fromkeys(logged_before)
        if canonical(file) not in kept
        and parse_metadata_file_name(file) is not None
        and any(is_below(file, root) for root in roots)
    ]


def clean_old_files(proposal: Proposal) -> None:
    """`Pointer.finish` for catalogs that move a pointer: deletes files that left the log; never raises."""
    if proposal.base is None:
        return
    try:
        kept = {canonical(proposal.base.location), canonical(proposal.location)}
        removed = removed_from_log(proposal.base.metadata, proposal.metadata)
        proposal.pointer.storage.delete_many([file for file in removed if canonical(file) not in kept])
    except Exception:  # the commit is done; old files that stay do no harm
        return
