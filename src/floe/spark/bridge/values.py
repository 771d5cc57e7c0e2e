"""Conversion of rows, metadata columns and predicates between Python and the JVM, in few calls.

- rows: arguments of procedures, and rows that are known without reading files. Types are Spark's, as in the JSON of its
  schemas: strings, numbers, dates, timestamps, arrays of strings, maps of strings.
- metadata columns: objects of the JVM, not proxies, because Spark reads their properties several times in each query.
- predicates and aggregates: Spark's columns, literals, casts, and calls of operators and functions as trees of
  dataclasses (`Node`). A tree is read in one call, however many nodes it has.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import SparkSession, functions as F

from floe.spark.bridge.jvm import Jvm, instantiate_source

# Rows -----------------------------------------------------------------------------------------------------------------

STRING_ARRAY: Final = {"type": "array", "elementType": "string", "containsNull": True}
STRING_MAP: Final = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}


def value_at(row: Any, index: int, type_: Any) -> Any:
    """The value of a column of an `InternalRow`; timestamps are microseconds from 1970 on."""
    if row.isNullAt(index):
        return None
    if not isinstance(type_, str):
        if type_["type"] == "array":
            return _read_strings(row.getArray(index))
        entries = row.getMap(index)
        return dict(zip(_read_strings(entries.keyArray()), _read_strings(entries.valueArray()), strict=True))
    match type_:
        case "string":
            return row.getUTF8String(index).toString()
        case "boolean":
            return row.getBoolean(index)
        case "integer" | "date":
            return row.getInt(index)
        case _:
            return row.getLong(index)


def _read_strings(array: Any) -> list[str | None]:
    return [
        None if array.isNullAt(index) else array.getUTF8String(index).toString() for index in range(array.numElements())
    ]


def to_internal_rows(jvm: Jvm, rows: Sequence[Sequence[Any]], types: Sequence[str]) -> Any:
    """Rows of Python values as an `InternalRow[]`."""
    java_rows = []
    for values in rows:
        row = jvm.sql("catalyst.expressions.GenericInternalRow")(len(types))
        for index, (value, type_) in enumerate(zip(values, types, strict=True)):
            _set(jvm, row, index, value, type_)
        java_rows.append(row)
    return jvm.array("org.apache.spark.sql.catalyst.InternalRow", java_rows)


def optional_value(jvm: Jvm, value: Any, type_: str) -> Any:
    """A `java.util.Optional` of a value of a Spark type; py4j alone would convert a small long to an `Integer`."""
    if value is None:
        return jvm.java_class("java.util.Optional").empty()
    return jvm.java_class("java.util.Arrays").stream(to_internal_rows(jvm, [[value]], [type_])[0].values()).findFirst()


def _set(jvm: Jvm, row: Any, index: int, value: Any, type_: str) -> None:
    if value is None:
        row.setNullAt(index)
        return
    match type_:
        case "string":
            row.update(index, jvm.java_class("org.apache.spark.unsafe.types.UTF8String").fromString(value))
        case "boolean":
            row.setBoolean(index, value)
        case "integer" | "date":
            row.setInt(index, value)
        case "float":
            row.setFloat(index, float(value))
        case "double":
            row.setDouble(index, float(value))
        case _ if type_.startswith("decimal("):
            precision, _, scale = type_.removeprefix("decimal(").rstrip(")").partition(",")
            number = jvm.java_class("java.math.BigDecimal")(f"{value:f}")
            row.update(index, jvm.sql("types.Decimal").apply(number, int(precision), int(scale)))
        case _:
            row.setLong(index, value)


def internal_string_rows(jvm: Jvm, names: Sequence[str], rows: Sequence[Mapping[str, str | None]]) -> Any:
    """Rows of strings as an `InternalRow[]`: Spark parses all of them from one JSON text."""
    spark = SparkSession(jvm.context, jvm.active_session())
    type_ = "ARRAY<STRUCT<" + ", ".join(f"c{index}: STRING" for index in range(len(names))) + ">>"
    text = json.dumps([{f"c{index}": row[name] for index, name in enumerate(names)} for row in rows])
    frame: Any = spark.range(1).select(F.inline(F.from_json(F.lit(text), type_)))
    return frame._jdf.queryExecution().executedPlan().executeCollect()


# Metadata columns -----------------------------------------------------------------------------------------------------

_METADATA_COLUMNS: Final = "floe.MetadataColumns"
_METADATA_COLUMNS_SOURCE: Final = """
package floe;

import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

public class MetadataColumns {
  public MetadataColumns() {}

  public MetadataColumn[] create(String schema) {
    StructField[] fields = ((StructType) DataType.fromJson(schema)).fields();
    MetadataColumn[] columns = new MetadataColumn[fields.length];
    for (int i = 0; i < fields.length; i++) columns[i] = new Column(fields[i]);
    return columns;
  }

  public static class Column implements MetadataColumn {
    private final StructField field;
    private final String json;

    public Column(StructField field) {
      this.field = field;
      Metadata metadata = new MetadataBuilder().withMetadata(field.metadata()).remove("comment").build();
      this.json = metadata.equals(Metadata.empty()) ? null : metadata.json();
    }

    public String name() { return field.name(); }

    public DataType dataType() { return field.dataType(); }

    public boolean isNullable() { return field.nullable(); }

    public String comment() { return (String) (field.getComment().isDefined() ? field.getComment().get() : null); }

    public String metadataInJSON() { return json; }
  }
}
"""


def java_metadata_columns(jvm: Jvm, spark_schema: Any) -> Any:
    """The fields of a schema's JSON as a `MetadataColumn[]`, with the comments and metadata of the fields."""
    return instantiate_source(jvm, _METADATA_COLUMNS_SOURCE, _METADATA_COLUMNS, []).create(json.dumps(spark_schema))


# Predicates and aggregates --------------------------------------------------------------------------------------------

_CONDITIONS: Final = "floe.Conditions"
_CONDITIONS_SOURCE: Final = """
package floe;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import org.apache.spark.sql.connector.expressions.*;
import org.apache.spark.sql.connector.expressions.aggregate.*;
import org.apache.spark.sql.internal.SQLConf;

public class Conditions {
  private final ObjectMapper mapper = new ObjectMapper();

  public Conditions() {}

  public String conditions(Object predicates) throws Exception {
    HashMap json = new HashMap();
    json.put("case_sensitive", Boolean.valueOf(SQLConf.get().caseSensitiveAnalysis()));
    json.put("time_zone", SQLConf.get().sessionLocalTimeZone());
    json.put("trees", trees((Object[]) predicates));
    return mapper.writeValueAsString(json);
  }

  public String aggregates(Aggregation aggregation) throws Exception {
    HashMap json = new HashMap();
    json.put("case_sensitive", Boolean.valueOf(SQLConf.get().caseSensitiveAnalysis()));
    json.put("groups", trees(aggregation.groupByExpressions()));
    json.put("functions", trees(aggregation.aggregateExpressions()));
    return mapper.writeValueAsString(json);
  }

  private static List trees(Object[] expressions) {
    ArrayList trees = new ArrayList();
    for (int i = 0; i < expressions.length; i++) trees.add(tree(expressions[i]));
    return trees;
  }

  private static List node(String kind, Object first, Object second) {
    return Arrays.asList(new Object[] {kind, first, second});
  }

  private static List tree(Object e) {
    if (e instanceof Literal) {
      Literal literal = (Literal) e;
      return node("value", literal.dataType().typeName(), jsonValue(literal.value()));
    }
    if (e instanceof NamedReference) return node("column", ((NamedReference) e).fieldNames(), null);
    if (e instanceof Cast) {
      Cast cast = (Cast) e;
      return node("cast", cast.dataType().typeName(), tree(cast.expression()));
    }
    String name = "?";
    if (e instanceof AggregateFunc) name = e.getClass().getSimpleName();
    if (e instanceof Count && ((Count) e).isDistinct()) name = "CountDistinct";
    if (e instanceof Extract) name = "EXTRACT " + ((Extract) e).field();
    if (e instanceof UserDefinedScalarFunc) name = ((UserDefinedScalarFunc) e).canonicalName();
    if (e instanceof GeneralScalarExpression) name = ((GeneralScalarExpression) e).name();
    return node("call", name, trees(((Expression) e).children()));
  }

  private static Object jsonValue(Object value) {
    if (value == null || value instanceof Boolean || value instanceof byte[]) return value;
    if (value instanceof Float) return Double.valueOf(((Float) value).doubleValue());
    return value instanceof Number ? value : value.toString();
  }
}
"""


@dataclass(frozen=True, slots=True)
class Column:
    """A reference to a column, or to a field of a struct."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A literal in the form of Spark's internal rows: dates are days, timestamps microseconds from 1970 on."""

    type: str
    """The type, by Spark's name."""

    value: Any


@dataclass(frozen=True, slots=True)
class Cast:
    """A cast to a type, by Spark's name."""

    type: str
    inner: Node


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an operator or function.

    Functions of catalogs have their canonical names, parts of dates and times names such as `EXTRACT YEAR`.
    """

    name: str
    arguments: tuple[Node, ...]


Node = Column | Value | Cast | Call


@dataclass(frozen=True, slots=True)
class Conditions:
    """The predicates of a filter, and the settings of the session on which their meaning depends."""

    trees: tuple[Node, ...]
    case_sensitive: bool = False
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Aggregates:
    """The aggregates of a query: calls named after Spark's classes, such as `Min`, `CountStar` and `CountDistinct`."""

    functions: tuple[Node, ...]
    is_grouped: bool
    case_sensitive: bool


def paths_in(tree: Node) -> Iterator[tuple[str, ...]]:
    """The paths of the columns that a tree refers to.

    >>> list(paths_in(Call("<", (Column(("a",)), Cast("long", Column(("s", "b")))))))
    [('a',), ('s', 'b')]
    """
    match tree:
        case Column(path):
            yield path
        case Cast(_, inner):
            yield from paths_in(inner)
        case Call(_, arguments):
            for argument in arguments:
                yield from paths_in(argument)


def read_conditions(jvm: Jvm, predicates: Any) -> Conditions:
    """The trees of a `Predicate[]`."""
    document: Mapping[str, Any] = json.loads(_reader(jvm).conditions(predicates))
    return Conditions(tuple(map(_node, document["trees"])), document["case_sensitive"], document["time_zone"])


def read_aggregates(jvm: Jvm, aggregation: Any) -> Aggregates:
    """The aggregates of an `Aggregation`."""
    document: Mapping[str, Any] = json.loads(_reader(jvm).aggregates(aggregation))
    return Aggregates(tuple(map(_node, document["functions"])), bool(document["groups"]), document["case_sensitive"])


def _reader(jvm: Jvm) -> Any:
    return jvm.once(_CONDITIONS, lambda: instantiate_source(jvm, _CONDITIONS_SOURCE, _CONDITIONS, []))


def _node(tree: Any) -> Node:
    kind, first, second = tree
    match kind:
        case "column":
            return Column(tuple(first))
        case "value":
            return Value(first, _value(first, second))
        case "cast":
            return Cast(first, _node(second))
        case _:
            return Call(first, tuple(map(_node, second)))


def _value(type_: str, value: Any) -> Any:
    if value is None:
        return None
    if type_ in ("float", "double"):
        return float(value)  # NaN and infinity are strings, because JSON has no numbers for them
    if type_ == "binary":
        return base64.b64decode(value)
    return Decimal(str(value)) if type_.startswith("decimal") else value
