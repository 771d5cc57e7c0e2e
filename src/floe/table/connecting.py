"""`floe.connect` and `floe.open`: from a path, a URI or a name to a lake or a table.

| `connect` to | catalog |
|---|---|
| `"./warehouse"`, `"/data/wh"`, `"s3://bucket/wh"` | the file system: a folder in Hadoop's layout, no server |
| `"sqlite:///lake.db"`, `"postgresql://me@host/db"` | a SQL database, with `warehouse=` for the files |
| `"memory:"` | memory, gone when the program ends |
| `"prod"` | a name from `floe.toml` or the environment (`floe.table.settings`), or a folder there is |
"""

from __future__ import annotations

import os
from typing import Any

from floe.table.catalogs import open_catalog, open_pointer
from floe.table.lake import Lake
from floe.table.table import Table

__all__ = ["connect", "open"]


def connect(uri: str | os.PathLike[str] | None = None, **options: Any) -> Lake:
    """The lake at a path or URI, or of a name in the settings; without either, the default one of the settings.

    Options are those of the catalog (`name`, `warehouse`, `user`, `password`, …), those of its storage
    (`floe.table.storages`), and `environment` for tests. Names with dots and dashes can be given as
    `**{"s3.region": "eu-west-1"}`. Nothing is read before the lake is used.

    >>> connect("memory:", name="scratch").name
    'scratch'
    >>> connect("mysql://host/db")
    Traceback (most recent call last):
    floe.errors.InvalidSettings: there is no catalog for mysql: (uri: mysql://host/db); ...
    """
    return Lake(*open_catalog(uri, options))


def open(path: str | os.PathLike[str], **options: Any) -> Table:
    """The table in a folder, or of one metadata file; no catalog is needed.

    A folder in Hadoop's layout can be read and written. A metadata file shows one state of a table, and is only read.
    Options are those of the storage (`floe.table.storages`): `prefixes` opens tables that were moved or copied.

    >>> open("memory:nothing/here")
    Traceback (most recent call last):
    floe.errors.NoSuchTable: ...
    """
    return Table.load(open_pointer(path, options))
