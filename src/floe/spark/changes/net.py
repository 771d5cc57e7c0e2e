"""Changes without those that cancel out, and updates made of deletes and inserts: computed by Spark.

A file that was rewritten to change a few rows has all others on both sides; those were only *carried over*. Rows are
compared as wholes, and as often as they occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import MapType

from floe.spec.schemas.metadata_columns import CHANGE_ORDINAL, CHANGE_TYPE, COMMIT_SNAPSHOT_ID

__all__ = ["net_of_all", "net_of_carried_over", "with_updates"]

_TYPE, _ORDINAL, _SNAPSHOT = CHANGE_TYPE.name, CHANGE_ORDINAL.name, COMMIT_SNAPSHOT_ID.name
_TOLD: Final = (_TYPE, _ORDINAL, _SNAPSHOT)
_COUNT, _PLACE, _SUM, _ZERO = "floe-count", "floe-place", "floe-sum", "floe-zero"


def _named(name: str) -> Column:
    return F.col(f"`{name.replace('`', '``')}`")


def _own(rows: DataFrame) -> list[Column]:
    """The columns that are the table's."""
    return [_named(name) for name in rows.columns if name not in _TOLD]


def _keys(rows: DataFrame) -> list[Column]:
    """By what whole rows are told apart: Spark does not compare maps, but their entries."""
    return [
        F.array_sort(F.map_entries(_named(field.name))) if isinstance(field.dataType, MapType) else _named(field.name)
        for field in rows.schema.fields
        if field.name not in _TOLD
    ]


def _sign() -> Column:
    return F.when(_named(_TYPE) == "INSERT", 1).otherwise(-1)


def _repeated(rows: DataFrame, count: Column, columns: Sequence[Column]) -> DataFrame:
    """Each row as often as it is left, as what it is on balance."""
    kind = F.when(count > 0, "INSERT").otherwise("DELETE").alias(_TYPE)
    several = F.explode(F.array_repeat(F.lit(True), F.abs(count).cast("int"))).alias(_PLACE)
    return rows.where(count != 0).select(*columns, kind, _named(_ORDINAL), _named(_SNAPSHOT), several).drop(_PLACE)


def net_of_carried_over(rows: DataFrame) -> DataFrame:
    """The changes without rows that a snapshot deletes and adds again just as they were."""
    own = _own(rows)
    groups = rows.groupBy(*own, _named(_ORDINAL), _named(_SNAPSHOT)).agg(F.sum(_sign()).alias(_COUNT))
    return _repeated(groups, _named(_COUNT), own).select(*map(_named, rows.columns))


def net_of_all(rows: DataFrame) -> DataFrame:
    """The changes on balance over all snapshots: of a row that comes and goes the last that was not undone is left."""
    own, same = _own(rows), Window.partitionBy(*_keys(rows))
    order = same.orderBy(_named(_ORDINAL), _named(_TYPE))
    summed = rows.select(
        *own,
        *map(_named, _TOLD),
        F.row_number().over(order).alias(_PLACE),
        F.sum(_sign()).over(order.rowsBetween(Window.unboundedPreceding, 0)).alias(_SUM),
        F.sum(_sign()).over(same).alias(_COUNT),
    )
    zero = F.coalesce(F.max(F.when(_named(_SUM) == 0, _named(_PLACE))).over(same), F.lit(0))
    first = summed.withColumn(_ZERO, zero).where(_named(_PLACE) == _named(_ZERO) + 1)
    return _repeated(first, _named(_COUNT), own).select(*map(_named, rows.columns))


def with_updates(rows: DataFrame, identifiers: Sequence[str]) -> DataFrame:
    """A row that a snapshot deletes and adds again under the same identifier is an update: before, and after.

    Where several rows have one identifier, they stay what they are.
    """
    same = Window.partitionBy(*map(_named, identifiers), _named(_ORDINAL))
    deleted, added = (F.sum(F.when(_named(_TYPE) == kind, 1).otherwise(0)).over(same) for kind in ("DELETE", "INSERT"))
    image = F.when(_named(_TYPE) == "DELETE", "UPDATE_BEFORE").otherwise("UPDATE_AFTER")
    kind = F.when((deleted == 1) & (added == 1), image).otherwise(_named(_TYPE)).alias(_TYPE)
    return rows.select(*(kind if name == _TYPE else _named(name) for name in rows.columns))
