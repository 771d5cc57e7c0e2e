"""The names of metadata files (spec: File System Tables, Metastore Tables; Appendix F).

File-system tables name them `v3.metadata.json`, catalogs `00003-<uuid>.metadata.json`.

Compressed files are named `….gz.metadata.json`; the older `….metadata.json.gz` is read too. Readers
should trust the first bytes of a file over its name.
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
    """What the name of a metadata file tells."""

    version: int | None
    """The version in the name; None for a file-system table's file before it is renamed to its version."""

    uuid: str | None
    """The random part that catalogs put behind the version."""

    is_compressed: bool

    @property
    def is_file_system(self) -> bool:
        """Whether the name is that of a committed version of a file-system table."""
        return self.version is not None and self.uuid is None


def parse_metadata_file_name(location: str) -> MetadataFileName | None:
    """What a metadata file's name or location tells, or None if it is no such name.

    >>> parse_metadata_file_name("s3://bucket/t/metadata/v3.gz.metadata.json")
    MetadataFileName(version=3, uuid=None, is_compressed=True)
    >>> parse_metadata_file_name("00007-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json").version
    7
    >>> parse_metadata_file_name("snap-12.avro") is None
    True
    """
    found = _NAME.match(location)
    if found is None or (found["gz"] and found["old_gz"]):
        return None
    digits = found["version"] or found["number"]
    version = int(digits) if digits else None
    if version is not None and version > _HIGHEST_VERSION:
        return None
    return MetadataFileName(version, found["uuid"] or found["draft"], bool(found["gz"] or found["old_gz"]))


def file_system_metadata_file_name(version: int, *, compressed: bool = False) -> str:
    """The name of a version of a file-system table.

    >>> file_system_metadata_file_name(3), file_system_metadata_file_name(3, compressed=True)
    ('v3.metadata.json', 'v3.gz.metadata.json')
    """
    return f"v{_checked(version)}{_extension(compressed)}"


def catalog_metadata_file_name(version: int, uuid: str, *, compressed: bool = False) -> str:
    """The name of a metadata file that a catalog points at; the uuid makes it unlike that of any other attempt.

    >>> catalog_metadata_file_name(7, "9c12d441-03fe-4693-9a96-a0705ddf69c1")
    '00007-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json'
    """
    if not is_uuid(uuid):
        raise InvalidInput(f"{uuid[:80]!r} is not a uuid")
    return f"{_checked(version):05d}-{uuid}{_extension(compressed)}"


def parse_version_hint(text: bytes) -> int | None:
    r"""The version that a `version-hint.text` names, or None if it holds anything else: it is only a hint.

    >>> parse_version_hint(b"12\n"), parse_version_hint(b"twelve")
    (12, None)
    """
    found = re.fullmatch(rb"\s*([0-9]{1,10})\s*", text[:64]) if len(text) <= 64 else None
    version = int(found[1]) if found else None
    return version if version is not None and version <= _HIGHEST_VERSION else None


def _checked(version: int) -> int:
    if not 0 <= version <= _HIGHEST_VERSION:
        raise InvalidInput(f"a metadata version must be from 0 to {_HIGHEST_VERSION}, found {version}")
    return version


def _extension(compressed: bool) -> str:
    return ".gz.metadata.json" if compressed else ".metadata.json"
