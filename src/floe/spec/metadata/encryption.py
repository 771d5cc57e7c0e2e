"""Entries for encryption keys (spec: Encryption Keys)."""

from __future__ import annotations

import base64
import binascii

import msgspec

from floe.errors import InvalidMetadata
from floe.spec.metadata.records import Record, StringMap

__all__ = ["EncryptionKey"]


class EncryptionKey(Record, frozen=True, kw_only=True):
    r"""An encrypted key that snapshots refer to by `key_id`.

    >>> EncryptionKey(key_id="5f819b", encrypted_key_metadata="aWNlYmVyZwo=").key_metadata
    b'iceberg\n'
    """

    key_id: str
    encrypted_key_metadata: str
    """Base64 of the encrypted key and its metadata; the table's encryption scheme defines what is in it."""

    encrypted_by_id: str | None = None
    """The id of the key that this one is wrapped with."""

    properties: StringMap = msgspec.field(default_factory=dict)

    @property
    def key_metadata(self) -> bytes:
        """The encrypted key metadata as bytes."""
        try:
            return base64.b64decode(self.encrypted_key_metadata, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidMetadata(f"not base64: {error}", path=".encrypted-key-metadata", key=self.key_id) from error
