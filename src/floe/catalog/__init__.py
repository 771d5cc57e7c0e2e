"""Where the pointer to a table's current metadata lives: a file system, a SQL database, or memory."""

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
        "floe.commit.pointer": "Outcome Pointer Proposal SharedSwap TableState",
    },
)
