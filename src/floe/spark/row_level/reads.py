"""What a statement rests on: the rows that it may change, and what else it reads of its own table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyroaring import BitMap64

from floe.commit.footprint import Reads
from floe.spark.row_level.statement import Statement
from floe.spark.scan.own_reads import OwnReads
from floe.spec.expressions.nodes import or_

__all__ = ["reads_of"]


def reads_of(
    statement: Statement, others: OwnReads, *, copied: Iterable[str] = (), changed: Mapping[str, BitMap64] | None = None
) -> Reads:
    """All that a statement rests on.

    `copied` are the files whose rows it copied. What a MERGE adds depends on the rows that its source matches;
    `changed` are those besides the copied ones, by file, or None if they are not known. If the table is also read to
    decide upon its own rows, what becomes of one depends on others.
    """
    alone = not others.filters
    return Reads(
        others.oldest(statement.base.head),
        filter=or_(statement.where, *others.filters),
        files=frozenset(copied),
        row_wise=alone and not statement.clauses.insert,
        positions=changed if alone else None,
        schema_id=statement.base.schema_id,
    )
