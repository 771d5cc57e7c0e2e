"""The names of metadata files (spec: File System Tables, Metastore Tables; Appendix F).

File-system tables name them `v3.metadata.json`, catalogs `00003-<uuid>.metadata.json`. Compressed files are named
`….gz.metadata.json`; the older `….metadata.json.gz` is accepted too. Readers should trust the first bytes of a file
rather than its name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from floe.errors import InvalidInput
from floe.spec.metadata.table_metadata import UUID_PATTERN, is_uuid

_NAME = re.compile(
    rf"""(?:.*/)?
    (?: v(?P<version>[0-9]{{1,10}}) | (?P<number>[0-9]{{1,10}})-(?P<uuid>{UUID_PATTERN}) | (?P<draft>{UUID_PATTERN}) )
    (?P<gz>\.gz)? \.metadata\.json (?P<old_gz>\.gz)?\Z""",
    re.VERBOSE | re.DOTALL,
)
_HIGHEST_VERSION = 2**31 - 1


@dataclass(frozen=True, slots=True)
class MetadataFileName:
    """The parts of the name of a metadata file."""

    version: int | None
    """The version in the name; None for a file of a file-system table before it is renamed to its version."""

    uuid: str | None
    """The random part that catalogs append to the version."""

    is_compressed: bool

    @property
    def is_file_system(self) -> bool:
        """Whether the name is that of a committed version of a file-system table."""
        return self.version is not None and self.uuid is None


def parse_metadata_file_name(location: str) -> MetadataFileName | None:
    """Parse the name or location of a metadata file; returns None if it is not one.

    >>> parse_metadata_file_name("s3://bucket/t/metadata/v3.gz.metadata.json")
    MetadataFileName(version=3, uuid=None, is_compressed=True)
    >>> parse_metadata_file_name("00007-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json").version
    7
    >>> parse_metadata_file_name("snap-12.avro") is None
    True
    """
    match = _NAME.match(location)
    if match is None or (match["gz"] and match["old_gz"]):
        return None
    digits = match["version"] or match["number"]
    version = int(digits) if digits else None
    if version is not None and version > _HIGHEST_VERSION:
        return None
    return MetadataFileName(version, match["uuid"] or match["draft"], bool(match["gz"] or match["old_gz"]))


def file_system_metadata_file_name(version: int, *, compressed: bool = False) -> str:
    """The name of a version of a file-system table.

    >>> file_system_metadata_file_name(3), file_system_metadata_file_name(3, compressed=True)
    ('v3.metadata.json', 'v3.gz.metadata.json')
    """
    _check_version(version)
    return f"v{version}{_extension(compressed)}"


def catalog_metadata_file_name(version: int, uuid: str, *, compressed: bool = False) -> str:
    """The name of a metadata file that a catalog points at; the UUID makes it unique among commit attempts.

    >>> catalog_metadata_file_name(7, "9c12d441-03fe-4693-9a96-a0705ddf69c1")
    '00007-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json'
    """
    if not is_uuid(uuid):
        raise InvalidInput(f"{uuid[:80]!r} is not a uuid")
    _check_version(version)
    return f"{version:05d}-{uuid}{_extension(compressed)}"


def parse_version_hint(text: bytes) -> int | None:
    r"""Parse the content of a `version-hint.text`; returns None if it is not a version, because it is only a hint.

    >>> parse_version_hint(b"12\n"), parse_version_hint(b"twelve")
    (12, None)
    """
    match = re.fullmatch(rb"\s*([0-9]{1,10})\s*", text[:64]) if len(text) <= 64 else None
    version = int(match[1]) if match else None
    return version if version is not None and version <= _HIGHEST_VERSION else None


def _check_version(version: int) -> None:
    if not 0 <= version <= _HIGHEST_VERSION:
        raise InvalidInput(f"a metadata version must be from 0 to {_HIGHEST_VERSION}, found {version}")


def _extension(compressed: bool) -> str:
    return ".gz.metadata.json" if compressed else ".metadata.json"
