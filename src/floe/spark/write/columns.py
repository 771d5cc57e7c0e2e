"""The columns of incoming rows, matched with those of the table where Spark does not do that itself.

Batch writes: Spark does not resolve columns for a table with the property `write.spark.accept-any-schema`.
`align_columns` matches them by name; a missing column is null, or has the column's default. With the option
`mergeSchema`, columns that the table does not have and wider types are added to its schema, in the same commit as the
rows.

Streams: Spark checks the columns of batch writes only, so `column_indexes` matches and checks those of a stream.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import StructType

from floe.arrow.schema_alignment import add_input_columns
from floe.commit.operations.evolution import schema_update_of
from floe.errors import InvalidInput, UnsupportedFeature
from floe.formats.columns.arrow_types import arrow_schema
from floe.spark.bridge.jvm import Jvm
from floe.spark.schemas import CURRENT_DEFAULT, SparkType, spark_schema, spark_type, table_schema
from floe.spark.write.options import WriteOptions
from floe.spec.schemas.schema import Schema
from floe.table.table import Table
from floe.table.transaction import Transaction


def align_columns(
    jvm: Jvm, rows: DataFrame, target: Table | Transaction, options: WriteOptions
) -> tuple[DataFrame, Table | Transaction]:
    """Give rows the columns of the table; returns them with what they are to be written to.

    That is the target itself, or with new columns a transaction, which has to be committed.
    """
    if not options.accept_any_schema:
        return rows, target
    schema, sensitive = target.metadata.schema, jvm.is_case_sensitive
    rows = _name_columns(rows, schema)
    row_type = jvm.read_data_type(rows._jdf.schema())
    merged = _merge_schema(target, row_type, case_sensitive=sensitive)
    if not merged.same_columns(schema):
        if not options.merge_schema:
            raise InvalidInput(
                f"the rows have columns that are not in the table, or of wider types: {_differences(merged, schema)}",
                hint="with the option mergeSchema they are added to the table",
            )
        target = _evolve_table(target, merged, options, case_sensitive=sensitive)
    if options.check_ordering:
        _check_order([field["name"] for field in row_type["fields"]], target.metadata.schema, case_sensitive=sensitive)
    table_type: Any = spark_schema(target.metadata.schema.fields)
    rows = _add_defaults(rows, table_type["fields"], case_sensitive=sensitive)
    if not options.check_nullability:  # the writer checks the values
        table_type = json.loads(json.dumps(table_type).replace('"nullable": false', '"nullable": true'))
    return rows.to(StructType.fromJson(table_type)), target


def _name_columns(rows: DataFrame, schema: Schema) -> DataFrame:
    """Rename the columns `col1`, `col2`, … of VALUES to the table's columns; other rows are returned as they are."""
    numbered = [f"col{number}" for number in range(1, len(schema.fields) + 1)]
    names = [field.name for field in schema.fields]
    return rows.toDF(*names) if rows.columns == numbered and not set(names) & set(numbered) else rows


def _add_defaults(rows: DataFrame, table_fields: list[Any], *, case_sensitive: bool) -> DataFrame:
    """Add the missing columns that have a default: `DataFrame.to` would make them null."""
    fold = str if case_sensitive else str.lower
    present = set(map(fold, rows.columns))
    missing = [field for field in table_fields if fold(field["name"]) not in present]
    defaults = {field["name"]: field["metadata"].get(CURRENT_DEFAULT) for field in missing}
    return rows.withColumns({name: F.expr(default) for name, default in defaults.items() if default is not None})


def check_columns(names: list[str], schema: Schema, options: WriteOptions) -> None:
    """Raise if rows have not exactly the table's columns, for writes that do not match columns by name."""
    table_names = [field.name for field in schema.fields]
    if options.accept_any_schema and names != table_names:
        raise UnsupportedFeature(
            f"rows that replace partitions must have the table's columns in its order, found {', '.join(names)}",
            hint=f"select {', '.join(table_names)}",
        )


def _merge_schema(target: Table | Transaction, row_type: Any, *, case_sensitive: bool) -> Schema:
    """The table's schema, with the new columns and wider types of the rows."""
    metadata = target.metadata
    update = schema_update_of(metadata, case_sensitive=case_sensitive)
    typed = [field for field in row_type["fields"] if field["type"] != "void"]  # a column of nulls has no type to add
    incoming = arrow_schema(table_schema({"type": "struct", "fields": typed}))
    add_input_columns(
        update, incoming, metadata.schema, format_version=metadata.format_version, case_sensitive=case_sensitive
    )
    return update.apply()


def _evolve_table(
    target: Table | Transaction, merged: Schema, options: WriteOptions, *, case_sensitive: bool
) -> Table | Transaction:
    """Add the new columns; returns what the rows are written to.

    That is a transaction, unless the rows go to a branch or a staged snapshot: then the columns are committed at once.
    """
    not_main = options.branch is not None or options.wap_id is not None
    evolved = target if not_main or isinstance(target, Transaction) else target.transaction()
    evolved.evolve(case_sensitive=case_sensitive).union_by_name(merged).commit()
    return evolved


def _check_order(names: list[str], schema: Schema, *, case_sensitive: bool) -> None:
    fold = str if case_sensitive else str.lower
    index_by_name = {fold(field.name): index for index, field in enumerate(schema.fields)}
    indexes = [index_by_name[fold(name)] for name in names]
    if indexes != sorted(indexes):
        raise InvalidInput(
            f"the columns of the rows are not in the table's order: {', '.join(names)}",
            hint="without the option check-ordering they are matched by name",
        )


def _differences(merged: Schema, schema: Schema) -> str:
    """The columns of the merged schema that are new or have another type, with their types."""
    table_fields = {entry.name: entry.field for entry in schema.by_id.values()}
    different = [
        f"{entry.name} {entry.field.type}"
        for entry in merged.by_id.values()
        if entry.name not in table_fields or table_fields[entry.name].type != entry.field.type
    ]
    return ", ".join(different)


# Streams --------------------------------------------------------------------------------------------------------------

_PROMOTIONS: Final = frozenset(
    {
        ("byte", "integer"),
        ("byte", "long"),
        ("short", "integer"),
        ("short", "long"),
        ("integer", "long"),
        ("float", "double"),
    }
)


def column_indexes(schema: Schema, rows: SparkType, *, case_sensitive: bool, table: str) -> tuple[int | None, ...]:
    """For each column of the table the index of the column with its name in the rows; None if there is none.

    Raises if the rows have other columns, lack a required one, or have a type that cannot be written without loss.

    >>> from floe.sql.columns import parse_columns
    >>> rows = {"type": "struct", "fields": [{"name": "B", "type": "integer"}]}
    >>> column_indexes(parse_columns("a string, b bigint"), rows, case_sensitive=False, table="db.t")
    (None, 0)
    """
    fold = str if case_sensitive else str.lower
    indexes: dict[str, int] = {}
    for index, row_field in enumerate(rows["fields"]):
        if indexes.setdefault(fold(row_field["name"]), index) != index:
            raise InvalidInput(f"the stream has two columns named {row_field['name']!r}", table=table)
    table_fields = {fold(field.name): field for field in schema.fields}
    if extra := [rows["fields"][index]["name"] for name, index in indexes.items() if name not in table_fields]:
        raise InvalidInput(
            f"the stream has columns that are not in the table: {', '.join(extra)}",
            hint=f"the table's columns are {', '.join(field.name for field in schema.fields)}",
            table=table,
        )
    for name, field in table_fields.items():
        if name not in indexes:
            if field.required and field.write_default is None:
                raise InvalidInput(f"the stream has no column {field.name!r}, which may not be null", table=table)
            continue
        row_type, table_type = rows["fields"][indexes[name]]["type"], spark_type(field.type, field.name)
        if not _can_write(row_type, table_type):
            raise InvalidInput(
                f"the column {field.name!r} of the stream is {_type_name(row_type)}, "
                f"and that of the table {_type_name(table_type)}",
                hint="cast it",
                table=table,
                column=field.name,
            )
    return tuple(indexes.get(name) for name in table_fields)


def _can_write(row_type: Any, table_type: Any) -> bool:
    """Whether values of one Spark type can be written as another without loss; both as in the JSON of a schema."""
    if isinstance(row_type, str) or isinstance(table_type, str):
        if not (isinstance(row_type, str) and isinstance(table_type, str)):
            return False
        if row_type == table_type or (row_type, table_type) in _PROMOTIONS:
            return True
        if row_type.startswith(("char(", "varchar(")):
            return table_type == "string"
        return _is_wider_decimal(row_type, table_type)
    if row_type["type"] != table_type["type"]:
        return False
    match row_type["type"]:
        case "struct":
            pairs = list(zip(row_type["fields"], table_type["fields"], strict=False))
            same_length = len(row_type["fields"]) == len(table_type["fields"])
            return same_length and all(a["name"] == b["name"] and _can_write(a["type"], b["type"]) for a, b in pairs)
        case "array":
            return _can_write(row_type["elementType"], table_type["elementType"])
        case "map":
            return all(_can_write(row_type[key], table_type[key]) for key in ("keyType", "valueType"))
        case _:
            return bool(row_type == table_type)


def _is_wider_decimal(row_type: str, table_type: str) -> bool:
    """Whether both are decimals of one scale, the table's with at least the precision of the rows'."""
    if not (row_type.startswith("decimal(") and table_type.startswith("decimal(")):
        return False
    (precision, scale), (table_precision, table_scale) = (
        map(int, text[8:-1].split(",")) for text in (row_type, table_type)
    )
    return scale == table_scale and precision <= table_precision


def _type_name(type_: Any) -> str:
    return type_ if isinstance(type_, str) else str(type_["type"])
