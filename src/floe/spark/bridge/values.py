"""Single values in rows of Spark's: arguments of procedures, and answers that are known without reading files.

Types are Spark's, as in the JSON of its schemas; a text, a number, a time, a list of texts, a map of texts.

Rows as Spark keeps them inside.

Metadata columns as objects of the JVM's own: Spark asks for all they say in every query, several times.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import SparkSession, functions as F

from floe.spark.bridge.jvm import Jvm, made_of_source

ARRAY_OF_TEXTS: Final = {"type": "array", "elementType": "string", "containsNull": True}
MAP_OF_TEXTS: Final = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}


def value_at(row: Any, place: int, type_: Any) -> Any:
    """The value of a row at a place; timestamps are microseconds from 1970 on."""
    if row.isNullAt(place):
        return None
    if not isinstance(type_, str):
        if type_["type"] == "array":
            return _texts(row.getArray(place))
        found = row.getMap(place)
        return dict(zip(_texts(found.keyArray()), _texts(found.valueArray()), strict=True))
    match type_:
        case "string":
            return row.getUTF8String(place).toString()
        case "boolean":
            return row.getBoolean(place)
        case "integer" | "date":
            return row.getInt(place)
        case _:
            return row.getLong(place)


def _texts(array: Any) -> list[str | None]:
    return [
        None if array.isNullAt(place) else array.getUTF8String(place).toString() for place in range(array.numElements())
    ]


def internal_rows_of(jvm: Jvm, rows: Sequence[Sequence[Any]], types: Sequence[str]) -> Any:
    """Some rows as an `InternalRow[]`."""
    made = []
    for values in rows:
        row = jvm.sql("catalyst.expressions.GenericInternalRow")(len(types))
        for place, (value, type_) in enumerate(zip(values, types, strict=True)):
            _set(jvm, row, place, value, type_)
        made.append(row)
    return jvm.array("org.apache.spark.sql.catalyst.InternalRow", made)


def optional_value(jvm: Jvm, value: Any, type_: str) -> Any:
    """A `java.util.Optional` of a value as Spark's rows have it; py4j alone would make a small long an `Integer`."""
    if value is None:
        return jvm.named("java.util.Optional").empty()
    return jvm.named("java.util.Arrays").stream(internal_rows_of(jvm, [[value]], [type_])[0].values()).findFirst()


def _set(jvm: Jvm, row: Any, place: int, value: Any, type_: str) -> None:
    if value is None:
        row.setNullAt(place)
        return
    match type_:
        case "string":
            row.update(place, jvm.named("org.apache.spark.unsafe.types.UTF8String").fromString(value))
        case "boolean":
            row.setBoolean(place, value)
        case "integer" | "date":
            row.setInt(place, value)
        case "float":
            row.setFloat(place, float(value))
        case "double":
            row.setDouble(place, float(value))
        case _ if type_.startswith("decimal("):
            precision, _, scale = type_.removeprefix("decimal(").rstrip(")").partition(",")
            number = jvm.named("java.math.BigDecimal")(f"{value:f}")
            row.update(place, jvm.sql("types.Decimal").apply(number, int(precision), int(scale)))
        case _:
            row.setLong(place, value)


# Rows as Spark keeps them inside.


def internal_rows(jvm: Jvm, names: Sequence[str], rows: Sequence[Mapping[str, str | None]]) -> Any:
    """An `InternalRow[]` of texts: Spark makes them all in one go."""
    spark = SparkSession(jvm.context, jvm.active_session())
    kind = "ARRAY<STRUCT<" + ", ".join(f"c{place}: STRING" for place in range(len(names))) + ">>"
    text = json.dumps([{f"c{place}": row[name] for place, name in enumerate(names)} for row in rows])
    made: Any = spark.range(1).select(F.inline(F.from_json(F.lit(text), kind)))
    return made._jdf.queryExecution().executedPlan().executeCollect()


# Metadata columns as objects of the JVM's own: Spark asks for all they say in every query, several times.

_NAME: Final = "floe.MetadataColumns"
_SOURCE: Final = """
package floe;

import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

public class MetadataColumns {
  public MetadataColumns() {}

  public MetadataColumn[] made(String schema) {
    StructField[] fields = ((StructType) DataType.fromJson(schema)).fields();
    MetadataColumn[] made = new MetadataColumn[fields.length];
    for (int place = 0; place < fields.length; place++) made[place] = new Column(fields[place]);
    return made;
  }

  public static class Column implements MetadataColumn {
    private final StructField field;
    private final String told;

    public Column(StructField field) {
      this.field = field;
      Metadata rest = new MetadataBuilder().withMetadata(field.metadata()).remove("comment").build();
      this.told = rest.equals(Metadata.empty()) ? null : rest.json();
    }

    public String name() { return field.name(); }

    public DataType dataType() { return field.dataType(); }

    public boolean isNullable() { return field.nullable(); }

    public String comment() { return (String) (field.getComment().isDefined() ? field.getComment().get() : null); }

    public String metadataInJSON() { return told; }
  }
}
"""


def java_metadata_columns(jvm: Jvm, spark_schema: Any) -> Any:
    """A `MetadataColumn[]` of a schema's JSON; what the fields' metadata has but comments is what the columns tell."""
    return made_of_source(jvm, _SOURCE, _NAME, []).made(json.dumps(spark_schema))
