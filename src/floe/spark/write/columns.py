"""Rows with other columns than the table's, for tables that take them (property `write.spark.accept-any-schema`).

Spark then leaves it to the table to find the columns. They are found by name; what is missing is null, or the column's
default. Columns that the table does not have, and wider types, are taken into its schema if the write says
`mergeSchema`, in the same commit as the rows.

The columns of a stream as those of the table that it is written to: Spark checks them for batches only.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import StructType

from floe.arrow.schema_alignment import merged_schema
from floe.commit.operations.evolution import schema_update_of
from floe.errors import InvalidInput, UnsupportedFeature
from floe.formats.arrow_types import arrow_schema
from floe.spark.bridge.jvm import Jvm
from floe.spark.schemas import CURRENT_DEFAULT, SparkType, spark_schema, spark_type, table_schema
from floe.spark.write.options import WriteOptions
from floe.spec.schemas.schema import Schema
from floe.table.table import Table
from floe.table.transaction import Transaction


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


# The columns of a stream as those of the table that it is written to: Spark checks them for batches only.

_WIDER: Final = frozenset(
    {
        ("byte", "integer"),
        ("byte", "long"),
        ("short", "integer"),
        ("short", "long"),
        ("integer", "long"),
        ("float", "double"),
    }
)


def places_of(schema: Schema, rows: SparkType, *, case_sensitive: bool, table: str) -> tuple[int | None, ...]:
    """For each column of the table its place in the rows, found by its name; None for one that they do not have.

    >>> from floe.sql.columns import parse_columns
    >>> rows = {"type": "struct", "fields": [{"name": "B", "type": "integer"}]}
    >>> places_of(parse_columns("a string, b bigint"), rows, case_sensitive=False, table="db.t")
    (None, 0)
    """

    def spelled(name: str) -> str:
        return name if case_sensitive else name.lower()

    given: dict[str, int] = {}
    for place, field in enumerate(rows["fields"]):
        if given.setdefault(spelled(field["name"]), place) != place:
            raise InvalidInput(f"the stream has two columns named {field['name']!r}", table=table)
    known = {spelled(field.name): field for field in schema.fields}
    if extra := [rows["fields"][place]["name"] for name, place in given.items() if name not in known]:
        raise InvalidInput(
            f"the stream has columns that the table has not: {', '.join(extra)}",
            hint=f"the table's columns are {', '.join(field.name for field in schema.fields)}",
            table=table,
        )
    for name, field in known.items():
        if name not in given:
            if field.required and field.write_default is None:
                raise InvalidInput(f"the stream has no column {field.name!r}, which may not be null", table=table)
            continue
        found, wanted = rows["fields"][given[name]]["type"], spark_type(field.type, field.name)
        if not _fits(found, wanted):
            raise InvalidInput(
                f"the column {field.name!r} of the stream is {_text(found)}, and that of the table {_text(wanted)}",
                hint="cast it",
                table=table,
                column=field.name,
            )
    return tuple(given.get(name) for name in known)


def _fits(found: Any, wanted: Any) -> bool:
    """Whether values of one type can be written as the other, without loss."""
    if isinstance(found, str) or isinstance(wanted, str):
        if not (isinstance(found, str) and isinstance(wanted, str)):
            return False
        if found == wanted or (found, wanted) in _WIDER:
            return True
        if found.startswith(("char(", "varchar(")):
            return wanted == "string"
        return _is_wider_decimal(found, wanted)
    if found["type"] != wanted["type"]:
        return False
    match found["type"]:
        case "struct":
            pairs = list(zip(found["fields"], wanted["fields"], strict=False))
            same = len(found["fields"]) == len(wanted["fields"])
            return same and all(a["name"] == b["name"] and _fits(a["type"], b["type"]) for a, b in pairs)
        case "array":
            return _fits(found["elementType"], wanted["elementType"])
        case "map":
            return all(_fits(found[part], wanted[part]) for part in ("keyType", "valueType"))
        case _:
            return bool(found == wanted)


def _is_wider_decimal(found: str, wanted: str) -> bool:
    if not (found.startswith("decimal(") and wanted.startswith("decimal(")):
        return False
    (precision, scale), (most, same) = (map(int, text[8:-1].split(",")) for text in (found, wanted))
    return scale == same and precision <= most


def _text(type_: Any) -> str:
    return type_ if isinstance(type_, str) else str(type_["type"])
