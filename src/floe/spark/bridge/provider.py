"""A format of ours, for `spark.read.format(…)`: a class by that name, which asks Python for the table.

Spark finds formats by the names of classes. So one is compiled when a session starts and given to the loader that Spark
looks in; it has no code but what leads to Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from floe.spark.bridge.compiling import compiled, spark_loader
from floe.spark.bridge.interfaces.java_functions import Function
from floe.spark.bridge.jvm import Jvm

__all__ = ["install_format"]

_CLASS: Final = "iceberg.DefaultSource"
_SOURCE: Final = """
package iceberg;

import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

public class DefaultSource implements org.apache.spark.sql.connector.catalog.TableProvider {
  public static Function find;

  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return ((Table) find.apply(options.asCaseSensitiveMap())).schema();
  }

  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    return (Table) find.apply(properties);
  }

  public boolean supportsExternalMetadata() { return false; }

  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) { return new Transform[0]; }
}
"""


class TableFinder(Function):
    """Finds the table that options say."""

    def __init__(self, jvm: Jvm, find: Callable[[Mapping[str, str]], Any]) -> None:
        super().__init__(jvm)
        self._find = find

    def apply(self, options: Any) -> Any:
        """The table."""
        return self._find({name.lower(): value for name, value in self.jvm.read_map(options).items()})


def install_format(jvm: Jvm, find: Callable[[Mapping[str, str]], Any]) -> None:
    """Make the format `iceberg` known to a JVM; tables are found by options, whose names come in small letters."""
    jvm.once(_CLASS, lambda: _installed(jvm, find))


def _installed(jvm: Jvm, find: Callable[[Mapping[str, str]], Any]) -> Any:
    loader = spark_loader(jvm)
    try:
        found = loader.loadClass(_CLASS)
    except Exception:
        found = _defined(jvm, loader)
    found.getField("find").set(None, TableFinder(jvm, find))
    return found


def _defined(jvm: Jvm, loader: Any) -> Any:
    """The class, in a loader that was there before; Spark starts its JVM so that this is allowed."""
    code = compiled(jvm, _SOURCE).getBytecodes().get(_CLASS)
    number = jvm.named("java.lang.Integer").TYPE
    kinds = [jvm.reflected("java.lang.String"), jvm.reflected("[B"), number, number]
    kind = jvm.reflected("java.lang.ClassLoader")
    define = kind.getDeclaredMethod("defineClass", jvm.array("java.lang.Class", kinds))
    define.setAccessible(True)
    return define.invoke(loader, jvm.array("java.lang.Object", [_CLASS, code, 0, len(code)]))
