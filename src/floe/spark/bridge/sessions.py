"""Catalogs and rules in sessions: in one that is there, and in those that Spark makes of it later by itself.

Spark makes sessions without asking anybody: `newSession`, a copy for each streaming query, which is the session of the
data frames that `foreachBatch` gets. Neither has the catalogs of the session that they come of. But all share its
extensions, and a rule that is put there sees the first statement of a session before its tables are looked up.

A format of ours, for `spark.read.format(…)`: a class by that name, which asks Python for the table.

Spark finds formats by the names of classes. So one is compiled when a session starts and given to the loader that Spark
looks in; it has no code but what leads to Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from floe.errors import UnsupportedFeature
from floe.spark.bridge.jvm import Jvm, compiled, instantiate_source, spark_loader
from floe.spark.bridge.proxies import Consumer, Function, Proxy

if TYPE_CHECKING:
    from floe.spark.bridge.jvm import Jvm

_FIELD: Final = "catalogs"
_SOURCE: Final = """
package floe;

import java.util.function.*;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import scala.collection.mutable.Map;

public class FirstPlan extends org.apache.spark.sql.catalyst.rules.Rule implements Function {
  private final Object session;
  private volatile Consumer prepare;

  public FirstPlan(Object session, Consumer prepare) { this.session = session; this.prepare = prepare; }

  public Object apply(Object session) {
    return session instanceof TreeNode ? first((TreeNode) session) : new FirstPlan(session, prepare);
  }

  public TreeNode apply(TreeNode plan) { return first(plan); }

  private TreeNode first(TreeNode plan) {
    if (prepare != null) prepared();
    return plan;
  }

  private synchronized void prepared() {
    if (prepare != null) {
      prepare.accept(session);
      prepare = null;
    }
  }

  public void register(Object manager, Map catalogs, String name, Object made, boolean onlyNew) {
    synchronized (manager) {
      if (!(onlyNew && catalogs.contains(name))) catalogs.put(name, made);
    }
  }
}
"""
"""A rule that looks at no plan: it has a session prepared when the first one comes, and the others wait meanwhile.

Also what makes such rules, and what puts a catalog where Spark keeps them, under the lock that Spark takes there.
"""


def register_catalogs(jvm: Jvm, java_session: Any, catalogs: Mapping[str, Proxy], *, only_new: bool = False) -> None:
    """Make objects the catalogs of these names in a session; with `only_new`, where there is none of that name."""
    manager = java_session.sessionState().catalogManager()
    known = jvm.once(_FIELD, lambda: _catalogs_of(manager.getClass())).get(manager)
    registry = jvm.once(
        "registry of catalogs", lambda: instantiate_source(jvm, _SOURCE, "floe.FirstPlan", [None, None])
    )
    for name, catalog in dict(catalogs).items():  # others may be added meanwhile
        registry.register(manager, known, name, catalog, only_new)


def _catalogs_of(kind: Any) -> Any:
    """Where a manager keeps its catalogs by name."""
    while kind is not None:
        if any(field.getName() == _FIELD for field in kind.getDeclaredFields()):
            field = kind.getDeclaredField(_FIELD)
            field.setAccessible(True)
            return field
        kind = kind.getSuperclass()
    raise UnsupportedFeature("this Spark keeps its catalogs in a way that Floe does not know")


@contextmanager
def active(jvm: Jvm, java_session: Any) -> Iterator[None]:
    """Makes a session the active one of this thread for a while: Spark takes some settings from that one."""
    sessions = jvm.sql("classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(java_session)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def prepare_new_sessions(jvm: Jvm, java_session: Any, prepare: Callable[[Any], None]) -> None:
    """Have a function called with every session that Spark makes of this one, before its first statement.

    Sessions that share their extensions share the function: the first one given stays.
    """
    extensions = java_session.extensions()
    known = jvm.once("prepared extensions", list[Any])
    with jvm.lock:
        if any(one.equals(extensions) for one in known):
            return
        known.append(extensions)
    made = instantiate_source(jvm, _SOURCE, "floe.FirstPlan", [None, _Prepared(jvm, prepare)])
    extensions.injectHintResolutionRule(jvm.named("scala.jdk.javaapi.FunctionConverters").asScalaFromFunction(made))


class _Prepared(Consumer):
    """Prepares a session."""

    def __init__(self, jvm: Jvm, prepare: Callable[[Any], None]) -> None:
        super().__init__(jvm)
        self._prepare = prepare

    def accept(self, java_session: Any) -> None:
        """The session is there, and is about to analyze its first statement."""
        self._prepare(java_session)


# A format of ours, for `spark.read.format(…)`: a class by that name, which asks Python for the table.

_CLASS: Final = "iceberg.DefaultSource"
_PROVIDER_SOURCE: Final = """
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
    code = compiled(jvm, _PROVIDER_SOURCE).getBytecodes().get(_CLASS)
    number = jvm.named("java.lang.Integer").TYPE
    kinds = [jvm.reflected("java.lang.String"), jvm.reflected("[B"), number, number]
    kind = jvm.reflected("java.lang.ClassLoader")
    define = kind.getDeclaredMethod("defineClass", jvm.array("java.lang.Class", kinds))
    define.setAccessible(True)
    return define.invoke(loader, jvm.array("java.lang.Object", [_CLASS, code, 0, len(code)]))
