"""Spark's predicates as trees of plain values: read in one call, however many parts they have.

What a connector is given is what Spark's `V2ExpressionBuilder` makes of conditions: columns, constants, casts, and
calls of operators and functions by name.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from floe.spark.bridge.jvm import Jvm, made_of_source

_NAME: Final = "floe.Conditions"
_SOURCE: Final = """
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
    return jvm.once(_NAME, lambda: made_of_source(jvm, _SOURCE, _NAME, []))


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
