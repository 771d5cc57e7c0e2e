"""A statement that reads rows does not go together with rows that its own transaction has changed before it."""

from __future__ import annotations

from floe.arrow.changing.base import Base
from floe.errors import UnsupportedFeature

__all__ = ["refuse_pending_rows"]


def refuse_pending_rows(base: Base) -> None:
    """Raise if rows were changed earlier in the same transaction: they cannot be read before its commit."""
    if base.rows_pending:
        raise UnsupportedFeature(
            "rows that were changed earlier in this transaction cannot be read before its commit",
            hint="commit first, and run the statement after it",
        )
