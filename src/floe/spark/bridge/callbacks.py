"""Calls of the JVM that Python answers: those of its own JVM, and of nobody else.

PySpark has the JVM call Python through a port of the loopback address, where everybody on the machine can connect, and
asks for no token there (it does in the other direction). The ids of objects are small numbers, so that others could
call the methods of catalogs. Here the port asks for a token, which the JVM is told through PySpark's own connection.
What PySpark itself has the JVM call (`foreachBatch`, listeners of queries) goes the same way.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

from py4j.clientserver import ClientServer, PythonParameters  # type: ignore[import-untyped]
from py4j.java_gateway import (  # type: ignore[import-untyped]
    JavaClass,
    JavaObject,
    quiet_close,
    quiet_shutdown,
)
from pyspark.java_gateway import ensure_callback_server_started

__all__ = ["answer_calls"]

_CLIENT_FIELD: Final = "cbClient"
_IDLE_SECONDS: Final = 30
"""After which py4j by default closes connections that are not used."""


def answer_calls(gateway: Any) -> None:
    """Have Python answer the calls of a gateway's JVM, if they come with the token; errors arrive as what they are.

    A server of PySpark's that runs already is replaced: it gets no further connections, and keeps those that it has.
    """
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
    _call_with_token(gateway._gateway_client, server.port, token)
    if before is not None:
        with before.lock:
            before.is_shutdown = True
            quiet_shutdown(before.server_socket)
            quiet_close(before.server_socket)


def _call_with_token(client: Any, port: int, token: str) -> None:
    """Have the JVM call Python at a port with a token: py4j's own way to tell it a port forgets the token."""
    server = JavaObject("GATEWAY_SERVER", client)
    gateway, before = server.getGateway(), server.getCallbackClient()
    made = JavaClass("py4j.PythonClient", client)(
        gateway,
        server.getCustomCommands(),
        port,
        before.getAddress(),
        _IDLE_SECONDS,
        JavaClass("java.util.concurrent.TimeUnit", client).SECONDS,
        JavaClass("javax.net.SocketFactory", client).getDefault(),
        server,
        before.isMemoryManagementEnabled(),
        before.getReadTimeout(),
        token,
    )
    field = gateway.getClass().getDeclaredField(_CLIENT_FIELD)
    field.setAccessible(True)
    field.set(gateway, made)
