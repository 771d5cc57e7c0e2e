"""A real S3 server for tests (versitygw over a folder), and a proxy before it that loses answers on purpose."""

import http.client
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ACCESS_KEY = "floe-test-access"
SECRET_KEY = "floe-test-secret-canary"
INSTALL = "scripts/s3_server.sh"
BUILT = Path(__file__).parents[2] / ".cache" / "bin"


def find_server() -> str | None:
    """The server's program, where `make test` puts it or on the path."""
    return shutil.which("versitygw", path=str(BUILT)) or shutil.which("versitygw")


@contextmanager
def running_server(folder: Path) -> Iterator[str]:
    """Starts the server over a folder (each folder in it is a bucket), and gives its URL."""
    program = find_server()
    assert program is not None
    port = _free_port()
    command = [program, "--port", f"127.0.0.1:{port}", "--quiet", "posix", str(folder)]
    keys = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
    process = subprocess.Popen(
        command, env={**os.environ, **keys}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        _wait_until_it_answers(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_it_answers(process: "subprocess.Popen[str]", port: int) -> None:
    waiting = threading.Event()
    for _ in range(400):
        if process.poll() is not None:
            raise RuntimeError(f"the S3 server ended: {process.communicate()[0]}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            waiting.wait(0.025)
        else:
            return
    raise RuntimeError("the S3 server did not start within 10 seconds")


class Proxy:
    """Passes requests on to a server; each PUT takes the next word of `faults`.

    `drop`: passed on, and the connection closed without an answer. `500 after`: passed on, answered with 500.
    `503 before`: not passed on, answered with 503. No word: passed on and answered.
    """

    def __init__(self, target: str) -> None:
        self.faults: list[str] = []
        self.puts = 0
        proxy, host = self, target.removeprefix("http://")

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                fault = ""
                if self.command == "PUT":
                    proxy.puts += 1
                    fault = proxy.faults.pop(0) if proxy.faults else ""
                if fault == "503 before":
                    self._answer(503, {}, b"")
                    return
                status, headers, content = proxy._forward(host, self.command, self.path, self.headers, body)
                if fault == "drop":
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                elif fault == "500 after":
                    self._answer(500, {}, b"")
                else:
                    self._answer(status, headers, content)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

            def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "connection", "transfer-encoding", "date", "server"):
                        self.send_header(name, value)
                length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(content))
                self.send_header("Content-Length", length)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @staticmethod
    def _forward(host: str, method: str, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(host, timeout=10)
        try:
            connection.request(method, path, body=body, headers=dict(headers.items()))
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def close(self) -> None:
        """Stops the proxy."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
