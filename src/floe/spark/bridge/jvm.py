"""The JVM of a Spark session: its classes, the conversion of values in both directions, and its callbacks to Python.

- `Jvm` (from `jvm_of`) wraps py4j's gateway. A call of the JVM takes from a tenth of a millisecond to several, so a
  value with many parts is sent as JSON, in one call.
- `instantiate_source` compiles a small Java class, where a Python object cannot do, with Janino, the compiler that
  Spark uses for generated code.
- `answer_calls` starts the server for the JVM's calls of Python objects. PySpark's own server listens on the loopback
  address, where every process of the machine can connect, and checks no token in this direction; since object ids are
  small numbers, another user could call the methods of a catalog. This server requires a token, which the JVM gets
  through PySpark's authenticated connection. PySpark's own callbacks (`foreachBatch`, query listeners) use it too.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

from py4j.clientserver import ClientServer, PythonParameters  # type: ignore[import-untyped]
from py4j.java_collections import JavaArray  # type: ignore[import-untyped]
from py4j.java_gateway import JavaClass, JavaMember, JavaObject, quiet_close, quiet_shutdown  # type: ignore[import-untyped]
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn

from floe.spark.bridge.proxies import Proxy
from floe.spark.settings import CASE_SENSITIVE

# Compiled Java classes ------------------------------------------------------------------------------------------------


def spark_loader(jvm: Jvm) -> Any:
    """The class loader in which Spark looks up its own classes and those of data sources."""
    return jvm.java_class("org.apache.spark.util.Utils").getContextOrSparkClassLoader()


def compile_source(jvm: Jvm, source: str) -> Any:
    """Compile a Java source; returns the Janino compiler, which has the byte code and the class loader."""
    compiler = jvm.java_class("org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(spark_loader(jvm))
    compiler.cook(source)
    return compiler


def instantiate_source(jvm: Jvm, source: str, name: str, arguments: Sequence[Any]) -> Any:
    """Create an object of a class that has one constructor; the source is compiled once for each JVM."""
    constructor = jvm.constructors(name, lambda: _constructor(jvm, source, name))
    return constructor.newInstance(jvm.array("java.lang.Object", arguments))


def _constructor(jvm: Jvm, source: str, name: str) -> Any:
    (constructor,) = compile_source(jvm, source).getClassLoader().loadClass(name).getConstructors()
    return constructor


# Calls from the JVM to Python -----------------------------------------------------------------------------------------

_CLIENT_FIELD: Final = "cbClient"
"""The private field of py4j's `Gateway` that holds the client for calls to Python."""

# Each thread of the JVM that calls Python has a connection, which a thread of Python serves. py4j never closes them,
# but Spark starts threads for every statement; so this client closes the connections of threads that have ended.
_PYTHON_CLIENT: Final = "floe.Calls"
_PYTHON_CLIENT_SOURCE: Final = """
package floe;

import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import javax.net.SocketFactory;
import py4j.GatewayServer;
import py4j.Py4JClientConnection;

public class Calls extends py4j.PythonClient {
  private final Map threads = new ConcurrentHashMap();

  public Calls(GatewayServer server, int port, String token) {
    super(server.getGateway(), server.getCustomCommands(), port, server.getCallbackClient().getAddress(), 30L,
        TimeUnit.SECONDS, SocketFactory.getDefault(), server, true, 0, token);
  }

  protected Py4JClientConnection getConnection() throws java.io.IOException {
    Object previous = getPerThreadConnection();
    Py4JClientConnection connection = super.getConnection();
    if (connection != previous) {
      closeConnectionsOfDeadThreads();
      threads.put(connection, Thread.currentThread());
    }
    return connection;
  }

  private void closeConnectionsOfDeadThreads() {
    Iterator entries = threads.entrySet().iterator();
    while (entries.hasNext()) {
      Map.Entry entry = (Map.Entry) entries.next();
      if (((Thread) entry.getValue()).isAlive()) continue;
      entries.remove();
      lock.lock();
      try {
        connections.remove(entry.getKey());
      } finally {
        lock.unlock();
      }
      ((Py4JClientConnection) entry.getKey()).shutdown();
    }
  }
}
"""


def answer_calls(jvm: Jvm) -> None:
    """Start a server that answers the JVM's calls of Python objects if they have the token; nothing if it runs already.

    Java exceptions that a method raises reach the JVM as themselves. If PySpark's own server runs already, it accepts
    no further connections, but keeps those that are open.
    """
    gateway = jvm.gateway
    if not isinstance(gateway, ClientServer):  # without pinned threads, PySpark's own server requires a token
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        gateway.callback_server_parameters.propagate_java_exceptions = True
        return
    old_server, old_parameters = gateway.get_callback_server(), gateway.python_parameters
    if old_server is not None and old_parameters.auth_token is not None:
        return
    old_parameters.propagate_java_exceptions = True  # for the connections that are open
    token = secrets.token_hex(32)
    parameters = PythonParameters(
        port=0, daemonize=True, daemonize_connections=True, propagate_java_exceptions=True, auth_token=token
    )
    for owner in (gateway, gateway._gateway_client):
        owner.python_parameters = parameters
    gateway.callback_server_parameters = parameters
    gateway._callback_server = None
    gateway.start_callback_server(parameters)
    server = gateway.get_callback_server()
    server.port = gateway._python_proxy_port = server.get_listening_port()
    _call_with_token(jvm, server.port, token)
    if old_server is not None:
        with old_server.lock:
            old_server.is_shutdown = True
            quiet_shutdown(old_server.server_socket)
            quiet_close(old_server.server_socket)


def _call_with_token(jvm: Jvm, port: int, token: str) -> None:
    """Make the JVM call Python at a port with a token; py4j's own `resetCallbackClient` drops the token."""
    server = JavaObject("GATEWAY_SERVER", jvm.gateway._gateway_client)
    client = instantiate_source(jvm, _PYTHON_CLIENT_SOURCE, _PYTHON_CLIENT, [server, port, token])
    field = jvm.class_object("py4j.Gateway").getDeclaredField(_CLIENT_FIELD)
    field.setAccessible(True)
    field.set(server.getGateway(), client)


# The JVM --------------------------------------------------------------------------------------------------------------

T = TypeVar("T")

_SQL: Final = "org.apache.spark.sql."
_CONVERTERS: Final = "scala.jdk.javaapi.CollectionConverters"
_STRINGS: Final = "[Ljava.lang.String;"
_STRING_ARRAYS: Final = "[[Ljava.lang.String;"
_MAX_CACHED: Final = 200
"""How many schemas are cached as objects of the JVM, because every query on a table needs them again."""

_TEXTS: Final = """
package floe;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Identifier;

public class Texts {
  private final ObjectMapper mapper = new ObjectMapper();

  public Texts() {}

  public String className(Object object) { return object.getClass().getName(); }

  public String identifier(Identifier identifier) throws Exception {
    ArrayList parts = new ArrayList(Arrays.asList(identifier.namespace()));
    parts.add(identifier.name());
    return mapper.writeValueAsString(parts);
  }

  public String settings(String prefix) throws Exception {
    Map all = new HashMap(org.apache.spark.sql.internal.SQLConf.get().settings());
    Map selected = new HashMap();
    for (Iterator it = all.entrySet().iterator(); it.hasNext();) {
      Map.Entry entry = (Map.Entry) it.next();
      String name = (String) entry.getKey();
      if (name.startsWith(prefix)) selected.put(name.substring(prefix.length()), entry.getValue());
    }
    return mapper.writeValueAsString(selected);
  }
}
"""


class _Class(JavaClass):  # type: ignore[misc]
    """A Java class that caches its methods; py4j asks the JVM for them at each access."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        if isinstance(member, JavaMember):
            setattr(self, name, member)
        return member


class Once:
    """A cache that computes the value of each key once, however many threads ask for it at the same time.

    Each key has its own lock: computing a value may call the JVM, which may call Python in another thread, which may
    ask for another key.

    >>> once = Once()
    >>> once("answer", lambda: 42), once("answer", lambda: 43)
    (42, 42)
    """

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}
        self._lock = threading.Lock()
        self._locks: dict[Any, threading.RLock] = {}

    def __call__(self, key: Any, make: Callable[[], T]) -> T:
        """The value of a key, computed by `make` if there is none.

        Threads that ask meanwhile wait; if `make` raises, the next of them calls it again.
        """
        if key not in self._values:
            with self._lock:
                lock = self._locks.setdefault(key, threading.RLock())
            with lock:
                if key not in self._values:
                    self._values[key] = make()
            with self._lock:
                self._locks.pop(key, None)
        value: T = self._values[key]
        return value


class Jvm:
    """The JVM of a Spark session; `jvm_of` creates one for each gateway and Spark context."""

    def __init__(self, spark: SparkSession, constructors: Once) -> None:
        self.gateway: Any = spark.sparkContext._gateway
        self.context: Any = spark.sparkContext
        self._classes: dict[str, Any] = {}
        self._types: dict[str, Any] = {}
        self.once: Once = Once()
        """A cache of objects that live as long as the Spark context."""

        self.constructors: Once = constructors
        """The constructors of compiled classes; a name is compiled once for each JVM, because py4j looks up by name."""

        self.lock: Any = threading.RLock()
        """Guards state of the JVM that is read and then changed; no statements run while it is held."""

        self.version: tuple[int, int] = _version(spark.version)
        """Spark's version, such as (4, 1)."""

        answer_calls(self)

    # Classes and Scala objects --------------------------------------------------------------------------------------

    def java_class(self, name: str) -> Any:
        """The py4j class of a name, for its constructor and static methods; needs no call of the JVM."""
        java_class = self._classes.get(name)
        if java_class is None:
            java_class = self._classes[name] = _Class(name, self.gateway._gateway_client)
        return java_class

    def sql(self, name: str) -> Any:
        """A class of the package `org.apache.spark.sql` or below it."""
        return self.java_class(_SQL + name)

    def class_object(self, name: str) -> Any:
        """The `java.lang.Class` object of a name, for reflection."""
        return self.java_class("java.lang.Class").forName(name)

    def has_class(self, name: str) -> bool:
        """Whether Spark can load a class, from its own JARs or those of the session."""
        return bool(self.module("org.apache.spark.util.Utils").classIsLoadable(name))

    def module(self, name: str) -> Any:
        """The singleton of a Scala `object`."""
        key = name + "$"
        module = self._classes.get(key)
        if module is None:
            module = self._classes[key] = self.class_object(key).getField("MODULE$").get(None)
        return module

    def constant(self, name: str, constant: str) -> Any:
        """A constant of a Java enum; the name of a nested enum has a `$`."""
        key = f"{name}.{constant}"
        member = self._classes.get(key)
        if member is None:
            member = self._classes[key] = self.java_class("java.lang.Enum").valueOf(self.class_object(name), constant)
        return member

    def create(self, name: str, arguments: Sequence[Any]) -> Any:
        """Create an object of a class that has one constructor.

        Parameters that newer versions of Spark add at the end get Scala's `None`.
        """
        count = self.once(f"arguments of {name}", lambda: self._parameter_count(name))
        return self.java_class(name)(*arguments, *[self.none] * (count - len(arguments)))

    def _parameter_count(self, name: str) -> int:
        (constructor,) = self.class_object(name).getConstructors()
        return int(constructor.getParameterCount())

    @cached_property
    def none(self) -> Any:
        """The `None` of Scala's `Option`."""
        return self.module("scala.None")

    def some(self, value: Any) -> Any:
        """A value as `Some` of Scala's `Option`."""
        return self.java_class("scala.Some")(value)

    # Values from Python to the JVM ----------------------------------------------------------------------------------

    @cached_property
    def _mapper(self) -> Any:
        return self.java_class("com.fasterxml.jackson.databind.ObjectMapper")()

    @cached_property
    def _texts(self) -> Any:
        return instantiate_source(self, _TEXTS, "floe.Texts", [])

    def array(self, class_name: str, items: Sequence[Any]) -> Any:
        """A Java array of a class; empty arrays are cached."""
        if not items:
            key = f"no {class_name}"
            if key not in self._classes:
                self._classes[key] = self.gateway.new_array(self.java_class(class_name), 0)
            return self._classes[key]
        array = self.gateway.new_array(self.java_class(class_name), len(items))
        for index, item in enumerate(items):
            if isinstance(item, Proxy):
                # py4j's assignment to an element does not convert proxies
                self.java_class("java.lang.reflect.Array").set(array, index, item)
            else:
                array[index] = item
        return array

    def strings(self, items: Iterable[str]) -> Any:
        """Strings as a `String[]`."""
        return self._mapper.readValue(json.dumps(list(items)), self.class_object(_STRINGS))

    def string_lists(self, items: Iterable[Sequence[str]]) -> Any:
        """Lists of strings as a `String[][]`."""
        return self._mapper.readValue(json.dumps([list(item) for item in items]), self.class_object(_STRING_ARRAYS))

    def map(self, items: Mapping[str, str]) -> Any:
        """A dictionary of strings as a `java.util.LinkedHashMap`, in its order."""
        return self._mapper.readValue(json.dumps(dict(items)), self.class_object("java.util.LinkedHashMap"))

    def set(self, items: Iterable[Any]) -> Any:
        """Java objects as a `java.util.HashSet`."""
        java_set = self.java_class("java.util.HashSet")()
        for item in items:
            java_set.add(item)
        return java_set

    @cached_property
    def empty_set(self) -> Any:
        """The immutable empty `java.util.Set`."""
        return self.java_class("java.util.Set").of()

    def seq(self, items: Iterable[Any]) -> Any:
        """Java objects as a Scala `Seq`."""
        java_list = self.java_class("java.util.ArrayList")()
        for item in items:
            java_list.add(item)
        return self.java_class("org.apache.spark.api.python.PythonUtils").toSeq(java_list)

    def scala_map(self, items: Mapping[str, str]) -> Any:
        """A dictionary of strings as a Scala `Map`."""
        return self.java_class("org.apache.spark.api.python.PythonUtils").toScalaMap(self.map(items))

    def some_long(self, value: int) -> Any:
        """A number as `Some` of a Scala `Long`; py4j would convert a small one to an `Integer`."""
        return self.java_class("scala.jdk.javaapi.OptionConverters").toScala(self.optional_long(value))

    def optional_long(self, value: int | None) -> Any:
        """A number as a `java.util.OptionalLong`, which is empty for None."""
        optional = self.java_class("java.util.OptionalLong")
        return optional.empty() if value is None else optional.of(value)

    def data_type(self, spark_type: Any) -> Any:
        """The `DataType` of its JSON; for a schema a `StructType`."""
        text = json.dumps(spark_type)
        return self._cached_type(text, lambda: self.sql("types.DataType").fromJson(text))

    def _cached_type(self, key: str, make: Callable[[], Any]) -> Any:
        """An immutable object of the JVM from the cache of types, which is cleared when it is full."""
        java_type = self._types.get(key)
        if java_type is None:
            if len(self._types) >= _MAX_CACHED:
                self._types.clear()
            java_type = self._types[key] = make()
        return java_type

    def identifier(self, name: Sequence[str]) -> Any:
        """A namespace and name as an `Identifier`."""
        return self.sql("connector.catalog.Identifier").of(self.strings(name[:-1]), name[-1])

    def identifiers(self, names: Sequence[Sequence[str]]) -> Any:
        """Namespaces and names as an `Identifier[]`."""
        return self.array(_SQL + "connector.catalog.Identifier", [self.identifier(name) for name in names])

    def columns(self, spark_schema: Any) -> Any:
        """The columns of a schema's JSON as a `Column[]`."""
        key = f"columns {json.dumps(spark_schema)}"
        return self._cached_type(key, lambda: self._columns(self.data_type(spark_schema)))

    def _columns(self, schema: Any) -> Any:
        util = self.module(_SQL + "connector.catalog.CatalogV2Util")
        if "structTypeToV2Columns$default$2" in self._methods(util):  # newer versions can keep the ids of columns
            return util.structTypeToV2Columns(schema, False)
        return util.structTypeToV2Columns(schema)

    def _methods(self, target: Any) -> frozenset[str]:
        """The names of the methods of a Java object."""
        key = f"methods of {target.getClass().getName()}"
        names = self._classes.get(key)
        if names is None:
            names = self._classes[key] = frozenset(method.getName() for method in target.getClass().getMethods())
        return names

    # Values from the JVM to Python ----------------------------------------------------------------------------------

    def read_strings(self, array: Any) -> tuple[str, ...]:
        """The elements of a `String[]`."""
        return tuple(json.loads(self._mapper.writeValueAsString(array)))

    def read_map(self, java_map: Any) -> dict[str, str]:
        """The entries of a `java.util.Map` of strings."""
        entries: dict[str, str] = json.loads(self._mapper.writeValueAsString(java_map))
        return entries

    def read_seq(self, seq: Any) -> list[Any]:
        """The elements of a Scala `Seq`."""
        # by index: a py4j iteration ends with a Java exception, which takes 10 ms
        items = self.java_class(_CONVERTERS).asJava(seq)
        return [items.get(index) for index in range(items.size())]

    def read_scala_map(self, scala_map: Any) -> dict[str, str]:
        """The entries of a Scala `Map` of strings."""
        return self.read_map(self.java_class(_CONVERTERS).asJava(scala_map))

    def read_identifier(self, identifier: Any) -> tuple[str, ...]:
        """The namespace and name of an `Identifier`."""
        return tuple(json.loads(self._texts.identifier(identifier)))

    def read_columns(self, columns: Any) -> Any:
        """The schema's JSON of a `Column[]`, with comments and defaults in the metadata of its fields."""
        if not isinstance(columns, JavaArray):
            return self.read_data_type(columns)  # Spark's older methods pass a `StructType`
        util = self.module(_SQL + "connector.catalog.CatalogV2Util")
        return json.loads(util.v2ColumnsToStructType(columns).json())

    def read_data_type(self, data_type: Any) -> Any:
        """The JSON of a `DataType`."""
        return json.loads(data_type.json())

    def simple_name(self, target: Any) -> str:
        """The class name of a Java object, without its package; empty for a Scala `object`."""
        name: str = self._texts.className(target)
        return name.rpartition(".")[2].rpartition("$")[2]

    def filter_names(self, names: Sequence[str], pattern: str) -> list[str]:
        """The names that match a pattern of `SHOW … LIKE`, by Spark's own rules."""
        matches = self.module(_SQL + "catalyst.util.StringUtils").filterPattern(self.seq(names), pattern)
        return self.read_seq(matches)

    # Columns and expressions ----------------------------------------------------------------------------------------

    def expression(self, column: Column) -> Any:
        """The Catalyst expression of a PySpark column."""
        java_column: Any = column
        return self.module(_SQL + "classic.ColumnNodeToExpressionConverter").apply(java_column._jc.node())

    def column(self, expression: Any) -> Column:
        """The PySpark column of a Catalyst expression."""
        return ClassicColumn(self.module(_SQL + "classic.ExpressionUtils").column(expression))

    # Sessions -------------------------------------------------------------------------------------------------------

    def delete_at_exit(self, folder: str) -> None:
        """Register a folder that the JVM deletes when it exits."""
        self.module("org.apache.spark.util.ShutdownHookManager").registerShutdownDeleteDir(
            self.java_class("java.io.File")(folder)
        )

    def active_session(self) -> Any:
        """The active session of the JVM's thread: the one whose statement runs."""
        return self.sql("classic.SparkSession").active()

    def setting(self, name: str, default: str | None = None) -> str:
        """A setting of the active session; without a default, Spark must have one for it."""
        settings = self.active_session().conf()
        value: str = settings.get(name) if default is None else settings.get(name, default)
        return value

    def set_thread_property(self, name: str, value: str | None) -> None:
        """Set a local property of Spark's context for this thread; None removes it. Nothing if Spark has stopped."""
        if self.context._jsc is not None:
            self.context.setLocalProperty(name, value)

    def settings_below(self, prefix: str) -> dict[str, str]:
        """The settings of the active session whose names have a prefix, by the names without it."""
        settings: dict[str, str] = json.loads(self._texts.settings(prefix))
        return settings

    @property
    def is_case_sensitive(self) -> bool:
        """Whether column names are case-sensitive in the active session."""
        return self.setting(CASE_SENSITIVE, "false").lower() == "true"

    def data_frame(self, spark: SparkSession, plan: Any) -> DataFrame:
        """The DataFrame of a logical plan."""
        return DataFrame(self.module(_SQL + "classic.Dataset").ofRows(spark._jsparkSession, plan), spark)


_lock = threading.Lock()
_jvms: dict[int, Jvm] = {}


def jvm_of(spark: SparkSession) -> Jvm:
    """The JVM of a session; all sessions of a Spark context share it."""
    gateway = spark.sparkContext._gateway
    with _lock:
        jvm = _jvms.get(id(gateway))
        if jvm is None or jvm.gateway is not gateway:
            jvm = _jvms[id(gateway)] = Jvm(spark, Once())
        elif jvm.context is not spark.sparkContext:
            jvm = _jvms[id(gateway)] = Jvm(spark, jvm.constructors)
        return jvm


def _version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)
