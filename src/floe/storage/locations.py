"""Locations of files: their spellings, and which of them name the same file.

Iceberg records absolute locations, written by engines that spell them differently. Rules, all as Java Iceberg's file
access has them where it has one answer:

- **Nothing is percent-decoded.** `file:/a%20b` is the file named `a%20b`, and `file:/a b` the one named `a b`: Java
  writes locations un-encoded, and a partition folder such as `ts=2020-01-01T00%3A00` really has that name.
  `?` and `#` are characters like others.
- **Local files**: plain paths, `file:/x`, `file:///x` and `file://localhost/x` are one file. Repeated slashes, `.` and
  `..` are resolved in the text, as Hadoop does (what is checked is what is opened; symbolic links are resolved where
  allowed roots are checked). Relative paths are made absolute by `parse`. `file://host/x` is refused.
- **Object stores**: `s3`, `s3a` and `s3n` are one scheme, `gs` and `gcs`, and `abfs`, `abfss`, `wasb` and `wasbs` (with
  `.dfs.` and `.blob.` hosts the same). The key is what follows the bucket's slash, to the letter: `a//b` and `a/../b`
  are names of their own.
- **HDFS** and `viewfs`: paths are resolved like local ones; port 8020 is the default. `hdfs:///x` names the default
  cluster, so it is never known to be the same as `hdfs://name/x`.
- **`local:`** is what Trino writes for files below a folder that only its own setting (`local.location`) tells. Paths
  are resolved like those of HDFS, and `local:///x` is never known to be the same as `/x`: a prefix map tells where the
  folder is (`prefixes={"local:///": "/folder"}`).
- **memory:** `memory:a`, `memory:/a` and `memory://a` are one file.

>>> same_file("file:///wh/t/data/../a.parquet", "/wh/t//a.parquet")
True
>>> same_file("s3a://bucket/wh/a.parquet", "s3://bucket/wh/a.parquet")
True
>>> same_file("s3://bucket/wh//a.parquet", "s3://bucket/wh/a.parquet")
False
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from floe.errors import InvalidLocation

__all__ = ["LOCATION_SCHEMES", "Location", "canonical", "is_below", "join", "parse", "same_file"]

MAX_LENGTH = 32_768
"""Longer texts are no locations: local paths end at 4096 bytes, object keys at 1024."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_AZURE_HOST = re.compile(r"([^.]+)\.(?:dfs|blob)\.(.+)")


@dataclass(frozen=True, slots=True)
class Location:
    """One file or folder: canonical scheme, authority (bucket, host; may be empty) and path.

    Two locations are equal when they name the same file. `path` starts with a slash where names are paths in
    a tree; for object stores it is the key. `root` is how the text before the path was spelled, so that names found
    below can be spelled the same way.

    >>> location = parse("s3a://bucket/wh/t/")
    >>> str(location), location.authority, location.path
    ('s3://bucket/wh/t/', 'bucket', 'wh/t/')
    >>> location.spelled("wh/t/metadata")
    's3a://bucket/wh/t/metadata'
    """

    scheme: str
    authority: str
    path: str
    root: str = field(default="", compare=False)

    def __str__(self) -> str:
        """The canonical spelling: the same text for every spelling of the same file."""
        if self.scheme == "file":
            return self.path
        if self.scheme == "memory":
            return f"memory:{self.path}"
        return f"{self.scheme}://{self.authority}{'' if self.path.startswith('/') and self.is_tree else '/'}{self.path}"

    @property
    def is_tree(self) -> bool:
        """Whether names are paths in a tree of folders (a file system), not keys."""
        return self.scheme in _TREES

    @property
    def text(self) -> str:
        """The location spelled as it was given, with its path resolved."""
        return self.spelled(self.path)

    @property
    def folder(self) -> str:
        """The path with a slash at its end: what the paths of all files below start with."""
        return self.path if not self.path or self.path.endswith("/") else self.path + "/"

    def spelled(self, path: str) -> str:
        """Another path under the same scheme and authority, spelled the same way."""
        return self.root + path

    def contains(self, other: Location) -> bool:
        """Whether the other location is this one or lies below it, by whole names (`/wh` does not contain `/wh2`)."""
        if (self.scheme, self.authority) != (other.scheme, other.authority):
            return False
        return other.path == self.path.removesuffix("/") or other.folder.startswith(self.folder)


def parse(text: str) -> Location:
    """Reads a location in any spelling; relative paths are taken from the working folder.

    >>> parse("file://localhost/wh/./t") == parse("/wh/t")
    True
    >>> parse("abfss://c@acct.dfs.core.windows.net/x") == parse("wasb://c@acct.blob.core.windows.net/x")
    True
    >>> parse("file://elsewhere/etc")
    Traceback (most recent call last):
    floe.errors.InvalidLocation: a file: location of another host, elsewhere, ...
    """
    if not text:
        raise InvalidLocation("an empty location")
    if len(text) > MAX_LENGTH:
        raise InvalidLocation(
            f"a location of {len(text)} characters; at most {MAX_LENGTH} are allowed", location=text[:80] + "…"
        )
    if "\0" in text:
        raise InvalidLocation("a location with a NUL character", location=repr(text))
    match = _SCHEME.match(text)
    if match is None:
        return Location("file", "", _resolved(os.path.abspath(text)))
    written, rest = match[0], text[match.end() :]
    scheme = _CANONICAL.get(match[1].lower(), match[1].lower())
    return _PARSERS.get(scheme, _parse_object)(scheme, written, rest)


def canonical(text: str) -> str:
    """The one spelling of a file that all its spellings share.

    >>> canonical("file:/wh/t"), canonical("s3n://b/k"), canonical("hdfs://NameNode:8020/a/../b")
    ('/wh/t', 's3://b/k', 'hdfs://namenode/b')
    """
    return str(parse(text))


def same_file(one: str, other: str) -> bool:
    """Whether two spellings name the same file.

    >>> same_file("memory:/a/b", "memory://a/b"), same_file("gs://b/k", "s3://b/k")
    (True, False)
    """
    return one == other or parse(one) == parse(other)


def is_below(location: str, folder: str) -> bool:
    """Whether a location is the folder or lies below it, by whole names.

    >>> is_below("file:/wh/t/data/a", "/wh/t/"), is_below("/wh/t2/a", "/wh/t"), is_below("/wh/t/../u", "/wh/t")
    (True, False, False)
    """
    return parse(folder).contains(parse(location))


def join(folder: str, *names: str) -> str:
    """A location below a folder, spelled as the folder is.

    >>> join("s3a://b/wh/", "t", "metadata"), join("/wh", "t/data")
    ('s3a://b/wh/t/metadata', '/wh/t/data')
    """
    start = folder if folder.endswith("/") else folder + "/"
    return start + "/".join(name.strip("/") for name in names)


def _resolved(path: str) -> str:
    """An absolute path without `.`, `..` and repeated slashes; `..` at the top stays at the top."""
    kept: list[str] = []
    for name in path.split("/"):
        if name == "..":
            if kept:
                kept.pop()
        elif name and name != ".":
            kept.append(name)
    return "/" + "/".join(kept)


def _parse_file(scheme: str, written: str, rest: str) -> Location:
    root = written
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host.lower() not in ("", "localhost"):
            raise InvalidLocation(
                f"a file: location of another host, {host}",
                hint="write file:///path for a file of this machine",
                location=written + rest,
            )
        root, rest = f"{written}//{host}", slash + path
    if not rest.startswith("/"):
        raise InvalidLocation(
            "a file: location without an absolute path", hint="write file:/path", location=written + rest
        )
    return Location(scheme, "", _resolved(rest), root)


def _parse_object(scheme: str, written: str, rest: str) -> Location:
    bucket, key = _authority(written, rest)
    if not bucket:
        raise InvalidLocation(
            f"a {scheme}: location without a bucket",
            hint=f"write {scheme}://bucket/key" if rest else "write a plain path as ./name",
            location=written + rest,
        )
    return Location(scheme, bucket, key.removeprefix("/"), f"{written}//{bucket}/")


def _parse_azure(scheme: str, written: str, rest: str) -> Location:
    location = _parse_object(scheme, written, rest)
    container, at, host = location.authority.partition("@")
    host = host.lower()
    if match := _AZURE_HOST.fullmatch(host):
        host = f"{match[1]}.dfs.{match[2]}"
    return Location(scheme, container + at + host, location.path, location.root)


def _parse_tree(scheme: str, written: str, rest: str) -> Location:
    authority, path = _authority(written, rest)
    if not path.startswith("/"):
        raise InvalidLocation(f"a {scheme}: location without an absolute path", location=written + rest)
    host = authority.lower().removesuffix(":8020")
    root = f"{written}//{authority}" if rest.startswith("//") else written
    return Location(scheme, host, _resolved(path), root)


def _parse_memory(scheme: str, written: str, rest: str) -> Location:
    path = rest.lstrip("/")
    return Location(scheme, "", path, written + rest[: len(rest) - len(path)])


def _authority(written: str, rest: str) -> tuple[str, str]:
    """Splits `//authority/path`; a location without `//` has no authority."""
    if not rest.startswith("//"):
        return "", rest
    authority, slash, path = rest[2:].partition("/")
    return authority, slash + path


_CANONICAL = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfss": "abfs",
    "wasb": "abfs",
    "wasbs": "abfs",
    "az": "abfs",
}
_TREES = frozenset({"file", "hdfs", "viewfs", "local"})
_PARSERS: dict[str, Callable[[str, str, str], Location]] = {
    "file": _parse_file,
    "abfs": _parse_azure,
    "hdfs": _parse_tree,
    "viewfs": _parse_tree,
    "local": _parse_tree,
    "memory": _parse_memory,
}

LOCATION_SCHEMES: Final = frozenset({*_CANONICAL, *_CANONICAL.values(), *_PARSERS})
"""The schemes that are known here, in all spellings; fsspec may know others."""
