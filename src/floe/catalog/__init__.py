"""Catalogs: where the pointer to each table's current metadata lives: a file system, a SQL database, or memory.

| module | what it has |
|---|---|
| `identifiers` | names of tables, views and namespaces |
| `protocol` | `Catalog`: what every catalog implements; `Capability`: what only some do |
| `metadata_files` | reading, naming, writing and cleaning up metadata files |
| `purge` | deleting the files of a dropped table |
| `memory` | the catalog in memory |
| `file_system` | the catalog in a folder or bucket |
| `sql` | the catalog in SQLite or PostgreSQL |
| `settings` | catalogs by name in `floe.toml` and the environment |
| `registry` | opening a catalog by its URI, built in or of another package |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe.exports import lazy_exports

if TYPE_CHECKING:
    from floe.catalog.identifiers import (
        Identifier as Identifier,
        Namespace as Namespace,
        format_identifier as format_identifier,
        parse_identifier as parse_identifier,
        parse_namespace as parse_namespace,
    )
    from floe.catalog.memory import MemoryCatalog as MemoryCatalog
    from floe.catalog.protocol import Capability as Capability, Catalog as Catalog
    from floe.catalog.registry import CatalogRequest as CatalogRequest, register as register
    from floe.commit.pointer import (
        Outcome as Outcome,
        Pointer as Pointer,
        Proposal as Proposal,
        SharedSwap as SharedSwap,
        TableState as TableState,
    )

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "floe.catalog.protocol": "Capability Catalog",
        "floe.catalog.identifiers": """
            Identifier Namespace format_identifier parse_identifier parse_namespace
        """,
        "floe.catalog.memory": "MemoryCatalog",
        "floe.catalog.registry": "CatalogRequest register",
        "floe.commit.pointer": "Outcome Pointer Proposal SharedSwap TableState",
    },
)
