"""Rows with other columns than the table's, for tables that take them (property `write.spark.accept-any-schema`).

Spark then leaves it to the table to find the columns. They are found by name; what is missing is null, or the column's
default. Columns that the table does not have, and wider types, are taken into its schema if the write says
`mergeSchema`, in the same commit as the rows.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from floe.arrow.fitting import merged_schema
from floe.commit.operations.schema_update import schema_update_of
from floe.errors import InvalidInput, UnsupportedFeature
from floe.formats.arrow_types import arrow_schema
from floe.spark.bridge.jvm import Jvm
from floe.spark.columns import CURRENT_DEFAULT, spark_schema, table_schema
from floe.spark.write.options import WriteOptions
from floe.spec.schemas.schema import Schema
from floe.table.table import Table
from floe.table.transaction import Transaction

__all__ = ["check_columns", "fitted"]


def fitted(
    jvm: Jvm, rows: DataFrame, target: Table | Transaction, options: WriteOptions
) -> tuple[DataFrame, Table | Transaction]:
    """The rows with the table's columns, and what they are written to: with new columns, a transaction."""
    if not options.any_columns:
        return rows, target
    schema, sensitive = target.metadata.schema, jvm.is_case_sensitive
    rows = _named(rows, schema)
    found = jvm.read_data_type(rows._jdf.schema())
    merged = _merged(target, found, case_sensitive=sensitive)
    if not merged.same_columns(schema):
        if not options.merge_schema:
            raise InvalidInput(
                f"the rows have columns that the table has not, or has narrower: {_differences(merged, schema)}",
                hint="with the option mergeSchema the table takes them in",
            )
        target = _changed(target, merged, options, case_sensitive=sensitive)
    if options.check_ordering:
        _check_order([field["name"] for field in found["fields"]], target.metadata.schema, case_sensitive=sensitive)
    wanted: Any = spark_schema(target.metadata.schema.fields)
    rows = _with_defaults(rows, wanted["fields"], case_sensitive=sensitive)
    if not options.check_nullability:  # the writer looks at the values
        wanted = json.loads(json.dumps(wanted).replace('"nullable": false', '"nullable": true'))
    return rows.to(StructType.fromJson(wanted)), target


def _named(rows: DataFrame, schema: Schema) -> DataFrame:
    """The rows; those of VALUES, to whose columns Spark has given names, with the names of the table's columns."""
    numbered = [f"col{place}" for place in range(1, len(schema.fields) + 1)]
    names = [field.name for field in schema.fields]
    return rows.toDF(*names) if rows.columns == numbered and not set(names) & set(numbered) else rows


def _with_defaults(rows: DataFrame, wanted: list[Any], *, case_sensitive: bool) -> DataFrame:
    """The rows with those columns that are missing and have a default: `DataFrame.to` would make them null."""
    fold = str if case_sensitive else str.lower
    found = set(map(fold, rows.columns))
    missing = [field for field in wanted if fold(field["name"]) not in found]
    defaults = {field["name"]: field["metadata"].get(CURRENT_DEFAULT) for field in missing}
    return rows.withColumns({name: F.expr(default) for name, default in defaults.items() if default is not None})


def check_columns(names: list[str], schema: Schema, options: WriteOptions) -> None:
    """Refuse rows of other columns, for writes that cannot find them by name."""
    wanted = [field.name for field in schema.fields]
    if options.any_columns and names != wanted:
        raise UnsupportedFeature(
            f"rows that replace partitions must have the table's columns in its order, found {', '.join(names)}",
            hint=f"select {', '.join(wanted)}",
        )


def _merged(target: Table | Transaction, found: Any, *, case_sensitive: bool) -> Schema:
    """The table's columns, with those of the rows taken in."""
    metadata = target.metadata
    update = schema_update_of(metadata, case_sensitive=case_sensitive)
    typed = [field for field in found["fields"] if field["type"] != "void"]  # nothing but nulls brings nothing new
    incoming = arrow_schema(table_schema({"type": "struct", "fields": typed}))
    merged_schema(
        update, incoming, metadata.schema, format_version=metadata.format_version, case_sensitive=case_sensitive
    )
    return update.apply()


def _changed(
    target: Table | Transaction, merged: Schema, options: WriteOptions, *, case_sensitive: bool
) -> Table | Transaction:
    """Where the rows go, with the new columns: a transaction, unless they go to a branch or a stage."""
    elsewhere = options.branch is not None or options.wap_id is not None
    changing = target if elsewhere or isinstance(target, Transaction) else target.transaction()
    changing.evolve(case_sensitive=case_sensitive).union_by_name(merged).commit()
    return changing


def _check_order(names: list[str], schema: Schema, *, case_sensitive: bool) -> None:
    fold = str if case_sensitive else str.lower
    places = {fold(field.name): place for place, field in enumerate(schema.fields)}
    found = [places[fold(name)] for name in names]
    if found != sorted(found):
        raise InvalidInput(
            f"the columns of the rows are not in the table's order: {', '.join(names)}",
            hint="without the option check-ordering they are found by name",
        )


def _differences(merged: Schema, schema: Schema) -> str:
    known = {entry.name: entry.field for entry in schema.by_id.values()}
    found = [
        f"{entry.name} {entry.field.type}"
        for entry in merged.by_id.values()
        if entry.name not in known or known[entry.name].type != entry.field.type
    ]
    return ", ".join(found)
