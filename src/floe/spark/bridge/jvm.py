"""The JVM behind a Spark session: its classes, and values that go there and come back.

A call of the JVM costs a tenth of a millisecond to a few, so what has many parts goes as JSON, in one call.

Calls of the JVM that Python answers: those of its own JVM, and of nobody else.

PySpark has the JVM call Python through a port of the loopback address, where everybody on the machine can connect, and
asks for no token there (it does in the other direction). The ids of objects are small numbers, so that others could
call the methods of catalogs. Here the port asks for a token, which the JVM is told through PySpark's own connection.
What PySpark itself has the JVM call (`foreachBatch`, listeners of queries) goes the same way.

Each thread of the JVM that calls Python has a connection, and a thread here that waits for its calls. py4j keeps both
for good, though Spark's threads come and go, some with each statement; here they end when the JVM's thread has.

Classes of a few lines, where an object of Python's cannot do: compiled by the compiler that Spark has inside.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from py4j.clientserver import ClientServer, PythonParameters  # type: ignore[import-untyped]
from py4j.java_collections import JavaArray  # type: ignore[import-untyped]
from py4j.java_gateway import JavaClass, JavaMember, JavaObject, quiet_close, quiet_shutdown  # type: ignore[import-untyped]
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn

from floe.spark.bridge.proxies import Proxy
from floe.spark.settings import CASE_SENSITIVE

if TYPE_CHECKING:
    pass


# Classes of a few lines, where an object of Python's cannot do: compiled by the compiler that Spark has inside.


def spark_loader(jvm: Jvm) -> Any:
    """The loader that has Spark's classes, and in which Spark looks for those of others."""
    return jvm.named("org.apache.spark.util.Utils").getContextOrSparkClassLoader()


def compiled(jvm: Jvm, source: str) -> Any:
    """The compiler with what it has made of a source."""
    compiler = jvm.named("org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(spark_loader(jvm))
    compiler.cook(source)
    return compiler


def instantiate_source(jvm: Jvm, source: str, name: str, arguments: Sequence[Any]) -> Any:
    """An object of a class with one constructor, which is compiled unless it has been before."""
    constructor = jvm.constructors(name, lambda: _constructor(jvm, source, name))
    return constructor.newInstance(jvm.array("java.lang.Object", arguments))


def _constructor(jvm: Jvm, source: str, name: str) -> Any:
    (constructor,) = compiled(jvm, source).getClassLoader().loadClass(name).getConstructors()
    return constructor


# Calls of the JVM that Python answers: those of its own JVM, and of nobody else.

_CLIENT_FIELD: Final = "cbClient"
_NAME: Final = "floe.Calls"
_SOURCE: Final = """
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
    Object known = getPerThreadConnection();
    Py4JClientConnection found = super.getConnection();
    if (found != known) {
      closeThoseOfDeadThreads();
      threads.put(found, Thread.currentThread());
    }
    return found;
  }

  private void closeThoseOfDeadThreads() {
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
    """Have Python answer the calls of a JVM, if they come with the token; errors arrive as what they are.

    A server of PySpark's that runs already is replaced: it gets no further connections, and keeps those that it has.
    """
    gateway = jvm.gateway
    if not isinstance(gateway, ClientServer):  # threads are not pinned; then PySpark's own server asks for a token
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        gateway.callback_server_parameters.propagate_java_exceptions = True
        return
    before, old = gateway.get_callback_server(), gateway.python_parameters
    if before is not None and old.auth_token is not None:
        return
    old.propagate_java_exceptions = True  # for connections that there are
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
    if before is not None:
        with before.lock:
            before.is_shutdown = True
            quiet_shutdown(before.server_socket)
            quiet_close(before.server_socket)


def _call_with_token(jvm: Jvm, port: int, token: str) -> None:
    """Have the JVM call Python at a port with a token: py4j's own way to tell it a port forgets the token."""
    server = JavaObject("GATEWAY_SERVER", jvm.gateway._gateway_client)
    made = instantiate_source(jvm, _SOURCE, _NAME, [server, port, token])
    field = jvm.reflected("py4j.Gateway").getDeclaredField(_CLIENT_FIELD)
    field.setAccessible(True)
    field.set(server.getGateway(), made)


T = TypeVar("T")

_SQL: Final = "org.apache.spark.sql."
_CONVERTERS: Final = "scala.jdk.javaapi.CollectionConverters"
_STRINGS: Final = "[Ljava.lang.String;"
_STRINGS_OF_STRINGS: Final = "[[Ljava.lang.String;"
_MOST_KEPT: Final = 200
"""How many schemas are kept as objects of the JVM: those that queries ask for again and again."""

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

  public String className(Object found) { return found.getClass().getName(); }

  public String identifier(Identifier found) throws Exception {
    ArrayList parts = new ArrayList(Arrays.asList(found.namespace()));
    parts.add(found.name());
    return mapper.writeValueAsString(parts);
  }

  public String settings(String prefix) throws Exception {
    Map all = new HashMap(org.apache.spark.sql.internal.SQLConf.get().settings());
    Map found = new HashMap();
    for (Iterator it = all.entrySet().iterator(); it.hasNext();) {
      Map.Entry entry = (Map.Entry) it.next();
      String name = (String) entry.getKey();
      if (name.startsWith(prefix)) found.put(name.substring(prefix.length()), entry.getValue());
    }
    return mapper.writeValueAsString(found);
  }
}
"""


class _Class(JavaClass):  # type: ignore[misc]
    """A Java class whose methods are looked up once: py4j asks the JVM each time."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            setattr(self, name, found)
        return found


class Once:
    """Values by keys, each made once however many threads ask for it at the same time.

    Each key has a lock of its own, not all of them one: what makes a value may call the JVM, which may call Python in
    another thread, which may ask for other keys.

    >>> once = Once()
    >>> once("answer", lambda: 42), once("answer", lambda: 43)
    (42, 42)
    """

    def __init__(self) -> None:
        self._found: dict[Any, Any] = {}
        self._lock = threading.Lock()
        self._locks: dict[Any, threading.RLock] = {}

    def __call__(self, key: Any, make: Callable[[], T]) -> T:
        """The value of a key; whoever asks while it is made waits for it, and makes it if that failed."""
        if key not in self._found:
            with self._lock:
                lock = self._locks.setdefault(key, threading.RLock())
            with lock:
                if key not in self._found:
                    self._found[key] = make()
            with self._lock:
                self._locks.pop(key, None)
        found: T = self._found[key]
        return found


class Jvm:
    """The JVM of a Spark session; there is one for each gateway and Spark context, made by `jvm_of`."""

    def __init__(self, spark: SparkSession, constructors: Once) -> None:
        self.gateway: Any = spark.sparkContext._gateway
        self.context: Any = spark.sparkContext
        self._classes: dict[str, Any] = {}
        self._made: dict[str, Any] = {}
        self.once: Once = Once()
        """What others keep for as long as the Spark context lives."""

        self.constructors: Once = constructors
        """Those of compiled classes: py4j tells classes apart by their names, so there is one of a name in a JVM."""

        self.lock: Any = threading.RLock()
        """For what is looked at and then changed in one piece, without statements in between."""

        self.version: tuple[int, int] = _version(spark.version)
        """Spark's version, such as (4, 1)."""

        answer_calls(self)

    # classes -----------------------------------------------------------------------------------------------------

    def named(self, name: str) -> Any:
        """A Java class, for its constructor and static methods; without a round trip."""
        found = self._classes.get(name)
        if found is None:
            found = self._classes[name] = _Class(name, self.gateway._gateway_client)
        return found

    def sql(self, name: str) -> Any:
        """A class of `org.apache.spark.sql`."""
        return self.named(_SQL + name)

    def reflected(self, name: str) -> Any:
        """The `java.lang.Class` of a name."""
        return self.named("java.lang.Class").forName(name)

    def has_class(self, name: str) -> bool:
        """Whether this Spark has a class, or a JAR that it was given."""
        return bool(self.module("org.apache.spark.util.Utils").classIsLoadable(name))

    def module(self, name: str) -> Any:
        """A Scala object."""
        key = name + "$"
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = self.reflected(key).getField("MODULE$").get(None)
        return found

    def constant(self, name: str, constant: str) -> Any:
        """A constant of a Java enum, nested ones with `$`."""
        key = f"{name}.{constant}"
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = self.named("java.lang.Enum").valueOf(self.reflected(name), constant)
        return found

    def create(self, name: str, arguments: Sequence[Any]) -> Any:
        """An object of a class with one constructor; what newer versions of it take in addition is left out."""
        count = self.once(f"arguments of {name}", lambda: self._parameter_count(name))
        return self.named(name)(*arguments, *[self.none] * (count - len(arguments)))

    def _parameter_count(self, name: str) -> int:
        (constructor,) = self.reflected(name).getConstructors()
        return int(constructor.getParameterCount())

    @cached_property
    def none(self) -> Any:
        """Scala's `None`."""
        return self.module("scala.None")

    def some(self, value: Any) -> Any:
        """Scala's `Some`."""
        return self.named("scala.Some")(value)

    # values there ------------------------------------------------------------------------------------------------

    @cached_property
    def _mapper(self) -> Any:
        return self.named("com.fasterxml.jackson.databind.ObjectMapper")()

    @cached_property
    def _texts(self) -> Any:
        return instantiate_source(self, _TEXTS, "floe.Texts", [])

    def array(self, class_name: str, items: Sequence[Any]) -> Any:
        """A Java array of a class; there is one empty array of each."""
        if not items:
            key = f"no {class_name}"
            if key not in self._classes:
                self._classes[key] = self.gateway.new_array(self.named(class_name), 0)
            return self._classes[key]
        found = self.gateway.new_array(self.named(class_name), len(items))
        for place, item in enumerate(items):
            if isinstance(item, Proxy):
                self.named("java.lang.reflect.Array").set(found, place, item)  # py4j's own way loses proxies
            else:
                found[place] = item
        return found

    def strings(self, items: Iterable[str]) -> Any:
        """A `String[]`."""
        return self._mapper.readValue(json.dumps(list(items)), self.reflected(_STRINGS))

    def string_lists(self, items: Iterable[Sequence[str]]) -> Any:
        """A `String[][]`."""
        return self._mapper.readValue(json.dumps([list(item) for item in items]), self.reflected(_STRINGS_OF_STRINGS))

    def map(self, items: Mapping[str, str]) -> Any:
        """A `java.util.Map` of strings that remembers their order."""
        return self._mapper.readValue(json.dumps(dict(items)), self.reflected("java.util.LinkedHashMap"))

    def set(self, items: Iterable[Any]) -> Any:
        """A `java.util.Set`."""
        found = self.named("java.util.HashSet")()
        for item in items:
            found.add(item)
        return found

    @cached_property
    def empty_set(self) -> Any:
        """An empty `java.util.Set`."""
        return self.named("java.util.Set").of()

    def seq(self, items: Iterable[Any]) -> Any:
        """A Scala sequence."""
        found = self.named("java.util.ArrayList")()
        for item in items:
            found.add(item)
        return self.named("org.apache.spark.api.python.PythonUtils").toSeq(found)

    def scala_map(self, items: Mapping[str, str]) -> Any:
        """A Scala map of strings."""
        return self.named("org.apache.spark.api.python.PythonUtils").toScalaMap(self.map(items))

    def some_long(self, value: int) -> Any:
        """Scala's `Some` of a `Long`, where py4j would make a small number an `Integer`."""
        return self.named("scala.jdk.javaapi.OptionConverters").toScala(self.optional_long(value))

    def optional_long(self, value: int | None) -> Any:
        """A `java.util.OptionalLong`."""
        kind = self.named("java.util.OptionalLong")
        return kind.empty() if value is None else kind.of(value)

    def data_type(self, spark_type: Any) -> Any:
        """A Spark type of its JSON; a struct is a schema."""
        text = json.dumps(spark_type)
        return self._kept(text, lambda: self.sql("types.DataType").fromJson(text))

    def _kept(self, key: str, make: Callable[[], Any]) -> Any:
        """An object that nobody changes; where there are many, all are forgotten, and made again when asked for."""
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= _MOST_KEPT:
                self._made.clear()
            found = self._made[key] = make()
        return found

    def identifier(self, name: Sequence[str]) -> Any:
        """An `Identifier` of namespace and name."""
        return self.sql("connector.catalog.Identifier").of(self.strings(name[:-1]), name[-1])

    def identifiers(self, names: Sequence[Sequence[str]]) -> Any:
        """An `Identifier[]`."""
        return self.array(_SQL + "connector.catalog.Identifier", [self.identifier(name) for name in names])

    def columns(self, spark_schema: Any) -> Any:
        """A `Column[]` of a schema's JSON."""
        return self._kept(f"columns {json.dumps(spark_schema)}", lambda: self._columns(self.data_type(spark_schema)))

    def _columns(self, schema: Any) -> Any:
        util = self.module(_SQL + "connector.catalog.CatalogV2Util")
        if "structTypeToV2Columns$default$2" in self._methods(util):  # newer ones can keep ids of columns
            return util.structTypeToV2Columns(schema, False)
        return util.structTypeToV2Columns(schema)

    def _methods(self, found: Any) -> frozenset[str]:
        """The names of an object's methods."""
        key = f"methods of {found.getClass().getName()}"
        known = self._classes.get(key)
        if known is None:
            known = self._classes[key] = frozenset(method.getName() for method in found.getClass().getMethods())
        return known

    # values here -------------------------------------------------------------------------------------------------

    def read_strings(self, array: Any) -> tuple[str, ...]:
        """The parts of a `String[]`."""
        return tuple(json.loads(self._mapper.writeValueAsString(array)))

    def read_map(self, found: Any) -> dict[str, str]:
        """The entries of a `java.util.Map` of strings."""
        entries: dict[str, str] = json.loads(self._mapper.writeValueAsString(found))
        return entries

    def read_seq(self, found: Any) -> list[Any]:
        """The parts of a Scala sequence: by place, for an iteration ends with an exception, which takes 10 ms here."""
        items = self.named(_CONVERTERS).asJava(found)
        return [items.get(place) for place in range(items.size())]

    def read_scala_map(self, found: Any) -> dict[str, str]:
        """The entries of a Scala map of strings."""
        return self.read_map(self.named(_CONVERTERS).asJava(found))

    def read_identifier(self, identifier: Any) -> tuple[str, ...]:
        """Namespace and name of an `Identifier`."""
        return tuple(json.loads(self._texts.identifier(identifier)))

    def read_columns(self, columns: Any) -> Any:
        """The JSON of the schema that a `Column[]` makes, with comments and defaults in its metadata."""
        if not isinstance(columns, JavaArray):
            return self.read_data_type(columns)  # older methods of Spark give a `StructType`
        util = self.module(_SQL + "connector.catalog.CatalogV2Util")
        return json.loads(util.v2ColumnsToStructType(columns).json())

    def read_data_type(self, data_type: Any) -> Any:
        """The JSON of a Spark type."""
        return json.loads(data_type.json())

    def simple_name(self, found: Any) -> str:
        """The name of an object's class without its package."""
        name: str = self._texts.className(found)
        return name.rpartition(".")[2].rpartition("$")[2]

    def matching(self, names: Sequence[str], pattern: str) -> list[str]:
        """The names that match a pattern of `SHOW … LIKE`."""
        found = self.module(_SQL + "catalyst.util.StringUtils").filterPattern(self.seq(names), pattern)
        return self.read_seq(found)

    # plans and expressions ----------------------------------------------------------------------------------------

    def expression(self, column: Column) -> Any:
        """The Catalyst expression of a column."""
        java: Any = column
        return self.module(_SQL + "classic.ColumnNodeToExpressionConverter").apply(java._jc.node())

    def column(self, expression: Any) -> Column:
        """The column of a Catalyst expression."""
        return ClassicColumn(self.module(_SQL + "classic.ExpressionUtils").column(expression))

    # what lives as long as the JVM ---------------------------------------------------------------------------------

    def delete_at_exit(self, folder: str) -> None:
        """Have the JVM delete a folder when it ends."""
        self.module("org.apache.spark.util.ShutdownHookManager").registerShutdownDeleteDir(
            self.named("java.io.File")(folder)
        )

    # sessions ----------------------------------------------------------------------------------------------------

    def active_session(self) -> Any:
        """The JVM's session that is at work now."""
        return self.sql("classic.SparkSession").active()

    def setting(self, name: str, default: str | None = None) -> str:
        """A setting of the session that is at work now; without a default, one that Spark itself has one for."""
        settings = self.active_session().conf()
        found: str = settings.get(name) if default is None else settings.get(name, default)
        return found

    def set_thread_property(self, name: str, value: str | None) -> None:
        """Note something for calls that the JVM makes in the thread of this one; not if Spark has stopped meanwhile."""
        if self.context._jsc is not None:
            self.context.setLocalProperty(name, value)  # None takes it away

    def settings_below(self, prefix: str) -> dict[str, str]:
        """The settings of the session that is at work now whose names begin so, by the rest of their names."""
        found: dict[str, str] = json.loads(self._texts.settings(prefix))
        return found

    @property
    def is_case_sensitive(self) -> bool:
        """Whether names are told apart by case."""
        return self.setting(CASE_SENSITIVE, "false").lower() == "true"

    def data_frame(self, spark: SparkSession, plan: Any) -> DataFrame:
        """The data frame of a logical plan."""
        return DataFrame(self.module(_SQL + "classic.Dataset").ofRows(spark._jsparkSession, plan), spark)


_lock = threading.Lock()
_known: dict[int, Jvm] = {}


def jvm_of(spark: SparkSession) -> Jvm:
    """The JVM of a session; sessions of one Spark context share it."""
    gateway = spark.sparkContext._gateway
    with _lock:
        found = _known.get(id(gateway))
        if found is None or found.gateway is not gateway:
            found = _known[id(gateway)] = Jvm(spark, Once())
        elif found.context is not spark.sparkContext:
            found = _known[id(gateway)] = Jvm(spark, found.constructors)
        return found


def _version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)
