"""Floe in Spark sessions: catalogs, the preparation of new sessions, and the format `iceberg`.

- `register_catalogs` makes Python objects catalogs of a session.
- `prepare_new_sessions` does the same for sessions that Spark derives from it later: by `newSession`, and a copy for
  each streaming query, in which `foreachBatch` runs. They do not inherit catalogs that are objects, but they share the
  session's extensions; a rule injected there sees the first statement of a session before its tables are resolved.
- `install_format` makes `spark.read.format("iceberg")` find tables. Spark looks up formats by class name, so a small
  class is compiled and defined in Spark's class loader; it calls Python for the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from floe.errors import UnsupportedFeature
from floe.spark.bridge.jvm import Jvm, compile_source, instantiate_source, spark_loader
from floe.spark.bridge.proxies import Consumer, Function, Proxy

# Catalogs and new sessions --------------------------------------------------------------------------------------------

_CATALOGS_FIELD: Final = "catalogs"
"""The private field of Spark's `CatalogManager` that holds its catalogs by name."""

# A rule that changes no plan: at the first statement of its session it calls `prepare` for the session, while other
# threads wait. As a function it creates such a rule for a session. `register` adds a catalog to a manager's map, with
# the lock that Spark takes for it.
_FIRST_PLAN: Final = "floe.FirstPlan"
_FIRST_PLAN_SOURCE: Final = """
package floe;

import java.util.function.*;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import scala.collection.mutable.Map;

public class FirstPlan extends org.apache.spark.sql.catalyst.rules.Rule implements Function {
  private final Object session;
  private volatile Consumer prepare;

  public FirstPlan(Object session, Consumer prepare) { this.session = session; this.prepare = prepare; }

  public Object apply(Object session) {
    return session instanceof TreeNode ? see((TreeNode) session) : new FirstPlan(session, prepare);
  }

  public TreeNode apply(TreeNode plan) { return see(plan); }

  private TreeNode see(TreeNode plan) {
    if (prepare != null) prepareOnce();
    return plan;
  }

  private synchronized void prepareOnce() {
    if (prepare != null) {
      prepare.accept(session);
      prepare = null;
    }
  }

  public void register(Object manager, Map catalogs, String name, Object catalog, boolean onlyNew) {
    synchronized (manager) {
      if (!(onlyNew && catalogs.contains(name))) catalogs.put(name, catalog);
    }
  }
}
"""


def register_catalogs(jvm: Jvm, java_session: Any, catalogs: Mapping[str, Proxy], *, only_new: bool = False) -> None:
    """Register catalogs by name in a session; `only_new` keeps those that are registered already."""
    manager = java_session.sessionState().catalogManager()
    registered = jvm.once(_CATALOGS_FIELD, lambda: _catalogs_field(manager.getClass())).get(manager)
    registry = jvm.once(
        "registry of catalogs", lambda: instantiate_source(jvm, _FIRST_PLAN_SOURCE, _FIRST_PLAN, [None, None])
    )
    for name, catalog in dict(catalogs).items():  # a copy, because another thread may add catalogs
        registry.register(manager, registered, name, catalog, only_new)


def _catalogs_field(manager_class: Any) -> Any:
    """The accessible field with the catalogs of a `CatalogManager`, in its class or a superclass."""
    while manager_class is not None:
        if any(field.getName() == _CATALOGS_FIELD for field in manager_class.getDeclaredFields()):
            field = manager_class.getDeclaredField(_CATALOGS_FIELD)
            field.setAccessible(True)
            return field
        manager_class = manager_class.getSuperclass()
    raise UnsupportedFeature(
        f"the CatalogManager of this Spark has no field {_CATALOGS_FIELD!r} to register a catalog in"
    )


@contextmanager
def activate(jvm: Jvm, java_session: Any) -> Iterator[None]:
    """Make a session the active one of this thread within a `with` block: Spark takes settings from the active one."""
    sessions = jvm.sql("classic.SparkSession")
    previous = sessions.getActiveSession()
    sessions.setActiveSession(java_session)
    try:
        yield
    finally:
        if previous.isDefined():
            sessions.setActiveSession(previous.get())
        else:
            sessions.clearActiveSession()


def prepare_new_sessions(jvm: Jvm, java_session: Any, prepare: Callable[[Any], None]) -> None:
    """Have `prepare` called with each session that Spark derives from this one, before its first statement.

    Sessions that share their extensions share the function; later calls for them do nothing.
    """
    extensions = java_session.extensions()
    prepared = jvm.once("prepared extensions", list[Any])
    with jvm.lock:
        if any(present.equals(extensions) for present in prepared):
            return
        prepared.append(extensions)
    rules = instantiate_source(jvm, _FIRST_PLAN_SOURCE, _FIRST_PLAN, [None, _PrepareSession(jvm, prepare)])
    converters = jvm.java_class("scala.jdk.javaapi.FunctionConverters")
    extensions.injectHintResolutionRule(converters.asScalaFromFunction(rules))


class _PrepareSession(Consumer):
    """Calls a Python function with a new session."""

    def __init__(self, jvm: Jvm, prepare: Callable[[Any], None]) -> None:
        super().__init__(jvm)
        self._prepare = prepare

    def accept(self, java_session: Any) -> None:
        """Prepare a session that is about to analyze its first statement."""
        self._prepare(java_session)


# The format `iceberg` -------------------------------------------------------------------------------------------------

_PROVIDER: Final = "iceberg.DefaultSource"
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
    """Finds the table of the options of a read or write; the class `DefaultSource` calls it."""

    def __init__(self, jvm: Jvm, find: Callable[[Mapping[str, str]], Any]) -> None:
        super().__init__(jvm)
        self._find = find

    def apply(self, options: Any) -> Any:
        """The `Table` of a map of options, from which Spark takes the schema, the scan or the write."""
        return self._find({name.lower(): value for name, value in self.jvm.read_map(options).items()})


def install_format(jvm: Jvm, find: Callable[[Mapping[str, str]], Any]) -> None:
    """Install the format `iceberg` in a JVM; `find` returns the table of some options, whose names are lower case."""
    jvm.once(_PROVIDER, lambda: _install_provider(jvm, find))


def _install_provider(jvm: Jvm, find: Callable[[Mapping[str, str]], Any]) -> Any:
    loader = spark_loader(jvm)
    try:
        provider = loader.loadClass(_PROVIDER)
    except Exception:
        provider = _define_provider(jvm, loader)
    provider.getField("find").set(None, TableFinder(jvm, find))
    return provider


def _define_provider(jvm: Jvm, loader: Any) -> Any:
    """Define the class in an existing class loader; Spark starts its JVM with `--add-opens`, which allows it."""
    code = compile_source(jvm, _PROVIDER_SOURCE).getBytecodes().get(_PROVIDER)
    int_type = jvm.java_class("java.lang.Integer").TYPE
    parameters = [jvm.class_object("java.lang.String"), jvm.class_object("[B"), int_type, int_type]
    loader_class = jvm.class_object("java.lang.ClassLoader")
    define = loader_class.getDeclaredMethod("defineClass", jvm.array("java.lang.Class", parameters))
    define.setAccessible(True)
    return define.invoke(loader, jvm.array("java.lang.Object", [_PROVIDER, code, 0, len(code)]))
