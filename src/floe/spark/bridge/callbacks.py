"""Calls of the JVM that Python answers: those of its own JVM, and of nobody else.

PySpark has the JVM call Python through a port of the loopback address, where everybody on the machine can connect, and
asks for no token there (it does in the other direction). The ids of objects are small numbers, so that others could
call the methods of catalogs. Here the port asks for a token, which the JVM is told through PySpark's own connection.
What PySpark itself has the JVM call (`foreachBatch`, listeners of queries) goes the same way.

Each thread of the JVM that calls Python has a connection, and a thread here that waits for its calls. py4j keeps both
for good, though Spark's threads come and go, some with each statement; here they end when the JVM's thread has.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from py4j.clientserver import ClientServer, PythonParameters  # type: ignore[import-untyped]
from py4j.java_gateway import JavaObject, quiet_close, quiet_shutdown  # type: ignore[import-untyped]
from pyspark.java_gateway import ensure_callback_server_started

from floe.spark.bridge.compiling import made_of_source

if TYPE_CHECKING:
    from floe.spark.bridge.jvm import Jvm

__all__ = ["answer_calls"]

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
    made = made_of_source(jvm, _SOURCE, _NAME, [server, port, token])
    field = jvm.reflected("py4j.Gateway").getDeclaredField(_CLIENT_FIELD)
    field.setAccessible(True)
    field.set(server.getGateway(), made)
