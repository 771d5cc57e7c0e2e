"""Locations of files: their spellings, and which of them name the same file.

Iceberg records absolute locations, and engines spell them differently. The rules are those of Java Iceberg's file
access, where it has one answer:

- **Nothing is percent-decoded.** `file:/a%20b` is the file named `a%20b`, and `file:/a b` the one named `a b`: Java
  writes locations un-encoded, and a partition folder such as `ts=2020-01-01T00%3A00` really has that name.
  `?` and `#` are ordinary characters.
- **Local files**: plain paths, `file:/x`, `file:///x` and `file://localhost/x` are one file. Repeated slashes, `.` and
  `..` are resolved in the text, as Hadoop does, so the path that is checked is the path that is opened (symbolic links
  are resolved where allowed roots are checked). `parse` makes relative paths absolute. `file://host/x` is an error.
- **Object stores**: `s3`, `s3a` and `s3n` are one scheme, `gs` and `gcs`, and `abfs`, `abfss`, `wasb` and `wasbs` (with
  `.dfs.` and `.blob.` hosts the same). The key is what follows the bucket's slash, unchanged: `a//b` and `a/../b` are
  different keys from `a/b` and `b`.
- **HDFS** and `viewfs`: paths are resolved like local ones; port 8020 is the default. `hdfs:///x` names the default
  cluster, so it never counts as the same file as `hdfs://name/x`.
- **`local:`** is what Trino writes for files below a folder in its setting `local.location`. Paths are resolved like
  those of HDFS, and `local:///x` never counts as the same file as `/x`: a prefix map has the folder
  (`prefixes={"local:///": "/folder"}`).
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

MAX_LENGTH = 32_768
"""Longer texts are not locations: local paths have at most 4096 bytes, object keys 1024."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_AZURE_HOST = re.compile(r"([^.]+)\.(?:dfs|blob)\.(.+)")


@dataclass(frozen=True, slots=True)
class Location:
    """One file or folder: canonical scheme, authority (bucket, host; may be empty) and path.

    Two locations are equal when they name the same file. `path` starts with a slash in a file system; for object stores
    it is the key. `root` is the text before the path as it was spelled, so that other paths can be spelled alike.

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
        """Whether paths lead through a tree of folders (a file system); otherwise they are keys of an object store."""
        return self.scheme in _TREES

    @property
    def text(self) -> str:
        """The location in its original spelling, with its path resolved."""
        return self.spelled(self.path)

    @property
    def folder(self) -> str:
        """The path with a slash at its end: the prefix of the paths of all files below."""
        return self.path if not self.path or self.path.endswith("/") else self.path + "/"

    def spelled(self, path: str) -> str:
        """The location of another path under the same scheme and authority, spelled the same way."""
        return self.root + path

    def contains(self, other: Location) -> bool:
        """Whether the other location is this one or lies below it, by full names (`/wh` does not contain `/wh2`)."""
        if (self.scheme, self.authority) != (other.scheme, other.authority):
            return False
        return other.path == self.path.removesuffix("/") or other.folder.startswith(self.folder)


def parse(text: str) -> Location:
    """Parse a location in any spelling; relative paths are relative to the working directory.

    >>> parse("file://localhost/wh/./t") == parse("/wh/t")
    True
    >>> parse("abfss://c@acct.dfs.core.windows.net/x") == parse("wasb://c@acct.blob.core.windows.net/x")
    True
    >>> parse("file://elsewhere/etc")
    Traceback (most recent call last):
    floe.errors.InvalidLocation: a file: location on another host, elsewhere ...
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
        return Location("file", "", _resolve(os.path.abspath(text)))
    prefix, path = match[0], text[match.end() :]
    scheme = _CANONICAL.get(match[1].lower(), match[1].lower())
    return _PARSERS.get(scheme, _parse_object)(scheme, prefix, path)


def canonical(text: str) -> str:
    """The canonical spelling of a location: the same text for all spellings of one file.

    >>> canonical("file:/wh/t"), canonical("s3n://b/k"), canonical("hdfs://NameNode:8020/a/../b")
    ('/wh/t', 's3://b/k', 'hdfs://namenode/b')
    """
    return str(parse(text))


def same_file(first: str, second: str) -> bool:
    """Whether two spellings name the same file.

    >>> same_file("memory:/a/b", "memory://a/b"), same_file("gs://b/k", "s3://b/k")
    (True, False)
    """
    return first == second or parse(first) == parse(second)


def is_below(location: str, folder: str) -> bool:
    """Whether a location is the folder or lies below it, by full names.

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


def _resolve(path: str) -> str:
    """An absolute path without `.`, `..` and repeated slashes; `..` at the top stays at the top."""
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            if names:
                names.pop()
        elif name and name != ".":
            names.append(name)
    return "/" + "/".join(names)


def _parse_file(scheme: str, prefix: str, path: str) -> Location:
    location, root = prefix + path, prefix
    if path.startswith("//"):
        host, slash, path = path[2:].partition("/")
        if host.lower() not in ("", "localhost"):
            raise InvalidLocation(
                f"a file: location on another host, {host}",
                hint="write file:///path for a file on this machine",
                location=location,
            )
        root, path = f"{prefix}//{host}", slash + path
    if not path.startswith("/"):
        raise InvalidLocation("a file: location without an absolute path", hint="write file:/path", location=location)
    return Location(scheme, "", _resolve(path), root)


def _parse_object(scheme: str, prefix: str, path: str) -> Location:
    bucket, key = _split_authority(path)
    if not bucket:
        raise InvalidLocation(
            f"a {scheme}: location without a bucket",
            hint=f"write {scheme}://bucket/key" if path else "write a plain path as ./name",
            location=prefix + path,
        )
    return Location(scheme, bucket, key.removeprefix("/"), f"{prefix}//{bucket}/")


def _parse_azure(scheme: str, prefix: str, path: str) -> Location:
    location = _parse_object(scheme, prefix, path)
    container, at, host = location.authority.partition("@")
    host = host.lower()
    if match := _AZURE_HOST.fullmatch(host):
        host = f"{match[1]}.dfs.{match[2]}"
    return Location(scheme, container + at + host, location.path, location.root)


def _parse_tree(scheme: str, prefix: str, path: str) -> Location:
    authority, folder_path = _split_authority(path)
    if not folder_path.startswith("/"):
        raise InvalidLocation(f"a {scheme}: location without an absolute path", location=prefix + path)
    host = authority.lower().removesuffix(":8020")
    root = f"{prefix}//{authority}" if path.startswith("//") else prefix
    return Location(scheme, host, _resolve(folder_path), root)


def _parse_memory(scheme: str, prefix: str, path: str) -> Location:
    name = path.lstrip("/")
    return Location(scheme, "", name, prefix + path[: len(path) - len(name)])


def _split_authority(path: str) -> tuple[str, str]:
    """Split `//authority/path`; a location without `//` has no authority."""
    if not path.startswith("//"):
        return "", path
    authority, slash, path = path[2:].partition("/")
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
"""The supported schemes in all spellings; fsspec may have others."""
