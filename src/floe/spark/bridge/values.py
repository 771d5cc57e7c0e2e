"""Values, rows, metadata columns and predicates: from Python to the JVM and back, in few calls.

- values and rows: arguments of procedures, and rows that are known without reading files. Types are Spark's, as in the
  JSON of its schemas: strings, numbers, dates, timestamps, arrays of strings, maps of strings
- metadata columns: as objects of the JVM, because Spark reads their properties several times in each query
- predicates: Spark's `V2ExpressionBuilder` makes columns, literals, casts, and calls of operators and functions by
  name; here they are trees of dataclasses, read in one call however many nodes there are
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

# values and rows ------------------------------------------------------------------------------------------------------

STRING_ARRAY: Final = {"type": "array", "elementType": "string", "containsNull": True}
STRING_MAP: Final = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}


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


def to_internal_rows(jvm: Jvm, rows: Sequence[Sequence[Any]], types: Sequence[str]) -> Any:
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
    return jvm.named("java.util.Arrays").stream(to_internal_rows(jvm, [[value]], [type_])[0].values()).findFirst()


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


def internal_string_rows(jvm: Jvm, names: Sequence[str], rows: Sequence[Mapping[str, str | None]]) -> Any:
    """An `InternalRow[]` of texts: Spark makes them all in one go."""
    spark = SparkSession(jvm.context, jvm.active_session())
    kind = "ARRAY<STRUCT<" + ", ".join(f"c{place}: STRING" for place in range(len(names))) + ">>"
    text = json.dumps([{f"c{place}": row[name] for place, name in enumerate(names)} for row in rows])
    made: Any = spark.range(1).select(F.inline(F.from_json(F.lit(text), kind)))
    return made._jdf.queryExecution().executedPlan().executeCollect()


# metadata columns -----------------------------------------------------------------------------------------------------

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
    return instantiate_source(jvm, _METADATA_COLUMNS_SOURCE, _METADATA_COLUMNS, []).create(json.dumps(spark_schema))


# predicates -----------------------------------------------------------------------------------------------------------

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
    HashMap made = new HashMap();
    made.put("case_sensitive", Boolean.valueOf(SQLConf.get().caseSensitiveAnalysis()));
    made.put("time_zone", SQLConf.get().sessionLocalTimeZone());
    made.put("trees", trees((Object[]) predicates));
    return mapper.writeValueAsString(made);
  }

  public String aggregates(Aggregation found) throws Exception {
    HashMap made = new HashMap();
    made.put("case_sensitive", Boolean.valueOf(SQLConf.get().caseSensitiveAnalysis()));
    made.put("groups", trees(found.groupByExpressions()));
    made.put("functions", trees(found.aggregateExpressions()));
    return mapper.writeValueAsString(made);
  }

  private static List trees(Object[] expressions) {
    ArrayList made = new ArrayList();
    for (int place = 0; place < expressions.length; place++) made.add(tree(expressions[place]));
    return made;
  }

  private static List node(String kind, Object first, Object second) {
    return Arrays.asList(new Object[] {kind, first, second});
  }

  private static List tree(Object found) {
    if (found instanceof Literal) {
      Literal literal = (Literal) found;
      return node("value", literal.dataType().typeName(), plain(literal.value()));
    }
    if (found instanceof NamedReference) return node("column", ((NamedReference) found).fieldNames(), null);
    if (found instanceof Cast) {
      Cast cast = (Cast) found;
      return node("cast", cast.dataType().typeName(), tree(cast.expression()));
    }
    String name = "?";
    if (found instanceof AggregateFunc) name = found.getClass().getSimpleName();
    if (found instanceof Count && ((Count) found).isDistinct()) name = "CountDistinct";
    if (found instanceof Extract) name = "EXTRACT " + ((Extract) found).field();
    if (found instanceof UserDefinedScalarFunc) name = ((UserDefinedScalarFunc) found).canonicalName();
    if (found instanceof GeneralScalarExpression) name = ((GeneralScalarExpression) found).name();
    return node("call", name, trees(((Expression) found).children()));
  }

  private static Object plain(Object value) {
    if (value == null || value instanceof Boolean || value instanceof byte[]) return value;
    if (value instanceof Float) return Double.valueOf(((Float) value).doubleValue());
    return value instanceof Number ? value : value.toString();
  }
}
"""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field of a struct."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A constant, as Spark's rows have it: a date is a number of days, a timestamp one of microseconds."""

    type: str
    """Spark's name of the type."""

    value: Any


@dataclass(frozen=True, slots=True)
class Cast:
    """A value as one of another type, by Spark's name of it."""

    type: str
    inner: Node


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or a function: those of catalogs by their canonical names, parts of times as `EXTRACT YEAR`."""

    name: str
    arguments: tuple[Node, ...]


Node = Column | Value | Cast | Call


@dataclass(frozen=True, slots=True)
class Conditions:
    """Some predicates, and the settings of the session that they depend on."""

    trees: tuple[Node, ...]
    case_sensitive: bool = False
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Aggregates:
    """Some aggregates: calls by the names of Spark's classes, such as `Min`, `CountStar`, `CountDistinct`."""

    functions: tuple[Node, ...]
    is_grouped: bool
    case_sensitive: bool


def paths_in(tree: Node) -> Iterator[tuple[str, ...]]:
    """The columns that a tree names.

    >>> list(paths_in(Call("<", (Column(("a",)), Cast("long", Column(("s", "b")))))))
    [('a',), ('s', 'b')]
    """
    match tree:
        case Column(path):
            yield path
        case Cast(_, inner):
            yield from paths_in(inner)
        case Call(_, arguments):
            for one in arguments:
                yield from paths_in(one)


def read_conditions(jvm: Jvm, predicates: Any) -> Conditions:
    """The trees of a `Predicate[]`."""
    found: Mapping[str, Any] = json.loads(_reader(jvm).conditions(predicates))
    return Conditions(tuple(map(_node, found["trees"])), found["case_sensitive"], found["time_zone"])


def read_aggregates(jvm: Jvm, aggregation: Any) -> Aggregates:
    """What an `Aggregation` asks for."""
    found: Mapping[str, Any] = json.loads(_reader(jvm).aggregates(aggregation))
    return Aggregates(tuple(map(_node, found["functions"])), bool(found["groups"]), found["case_sensitive"])


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
        return float(value)  # of what JSON has no number for, there is a text
    if type_ == "binary":
        return base64.b64decode(value)
    return Decimal(str(value)) if type_.startswith("decimal") else value
