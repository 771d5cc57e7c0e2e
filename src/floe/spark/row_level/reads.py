"""What a statement rests on: the rows that it may change, and what else it reads of its own table."""

from __future__ import annotations

from collections.abc import Iterable

from floe.commit.footprint import Reads
from floe.spark.row_level.statement import Statement
from floe.spark.scan.own_reads import OwnReads
from floe.spec.expressions.nodes import or_

__all__ = ["reads_of"]


def reads_of(statement: Statement, others: OwnReads, files: Iterable[str] = ()) -> Reads:
    """All that a statement rests on; `files` are those whose rows it copied.

    What a MERGE does with a row depends on others; so it is if the table is read to decide upon its own rows.
    """
    return Reads(
        others.oldest(statement.base.head),
        filter=or_(statement.where, *others.filters),
        files=frozenset(files),
        row_wise=statement.kind != "merge" and not others.filters,
        schema_id=statement.base.schema_id,
    )
