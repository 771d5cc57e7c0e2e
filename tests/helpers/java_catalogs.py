"""Catalogs that Floe, Java Iceberg and Spark have open at the same time: files, SQLite and PostgreSQL."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import floe
from floe import Lake
from floe.spark.session import FloeSession
from helpers.made_tables import OPERATIONS, make
from helpers.postgres import postgres_database
from helpers.table_maker import Made

HADOOP = "org.apache.iceberg.hadoop.HadoopCatalog"
JDBC = "org.apache.iceberg.jdbc.JdbcCatalog"


@dataclass
class Shared:
    """One catalog, seen by all."""

    kind: str
    key: str
    """Its name in `FloeTables.java` and in Spark's SQL."""

    lake: Lake
    warehouse: Path
    java: Callable[..., Any] = field(repr=False)
    spark: Any = field(repr=False)
    properties: dict[str, str] = field(repr=False)
    _made: dict[tuple[str, int], list[Made]] = field(default_factory=dict, repr=False)

    def ask(self, method: str, *arguments: Any) -> Any:
        """Calls a method of `FloeTables` on this catalog."""
        return self.java(method, self.key, *arguments)

    def sql(self, statement: str) -> list[Any]:
        """Runs SQL in Spark; `{c}` stands for the catalog."""
        return self.spark.sql(statement.format(c=self.key)).collect()  # type: ignore[no-any-return]

    @property
    def floe_key(self) -> str:
        """Its name in Spark's SQL where Floe serves it."""
        return f"floe_{self.key}"

    def session(self) -> FloeSession:
        """A session of Spark in which Java and Floe both serve it, under their names for it."""
        other = self.spark.newSession()
        for name, value in self.properties.items():
            other.conf.set(f"spark.sql.catalog.{self.key}.{name}", value)
        other.conf.set(f"spark.sql.catalog.{self.key}", "org.apache.iceberg.spark.SparkCatalog")
        other.conf.set(f"spark.sql.catalog.{self.key}.cache-enabled", "false")
        return floe.attach(other, {self.floe_key: self.lake})

    def made(self, operation: str, version: int) -> list[Made]:
        """The tables that an operation makes, made when they are first asked for."""
        if not self._made:
            self.lake.create_namespace("made", if_not_exists=True)
        if (operation, version) not in self._made:
            self._made[operation, version] = make(self.lake, operation, version)
        return self._made[operation, version]


def made_ids(kinds: tuple[str, ...]) -> list[tuple[str, str, int]]:
    """Every kind of catalog with every operation and format version that it has."""
    return [
        (kind, name, version)
        for kind in kinds
        for name, chosen in OPERATIONS.items()
        if kind in chosen.kinds
        for version in chosen.versions
    ]


class JavaCatalogs:
    """Opens catalogs when they are first asked for, and closes them all."""

    def __init__(self, folder: Path, java: Callable[..., Any], spark: Any) -> None:
        self._folder, self._java, self._spark = folder, java, spark
        self._open: dict[str, Shared] = {}
        self._stack = ExitStack()
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def __getitem__(self, kind: str) -> Shared:
        """The catalog of that kind that all tests share."""
        if kind not in self._open:
            self._open[kind] = self.new(kind)
        return self._open[kind]

    def new(self, kind: str, **java_properties: str) -> Shared:
        """A catalog of that kind that nobody else uses; Java creates its tables first if it is given properties."""
        self._count += 1
        key = f"{kind}{self._count}"
        warehouse = self._folder / key
        warehouse.mkdir()
        uri, jdbc = self._addresses(kind, warehouse)
        common = {"warehouse": str(warehouse)}
        if kind == "files":
            properties = {"catalog-impl": HADOOP, **common}
        else:
            properties = {"catalog-impl": JDBC, "uri": jdbc, "jdbc.schema-version": "V1", **common, **java_properties}
        lake = self._lake(kind, uri, key, warehouse)
        if not java_properties:
            lake.namespaces()  # makes the tables of a database
        self._java("open", key, key, properties)
        self._stack.callback(lake.close)
        self._stack.callback(self._java, "close", key)
        self._spark.conf.set(f"spark.sql.catalog.{key}", "org.apache.iceberg.spark.SparkCatalog")
        self._spark.conf.set(f"spark.sql.catalog.{key}.cache-enabled", "false")
        for name, value in properties.items():
            self._spark.conf.set(f"spark.sql.catalog.{key}.{name}", value)
        return Shared(kind, key, lake, warehouse, self._java, self._spark, properties)

    def _lake(self, kind: str, uri: str, key: str, warehouse: Path) -> Lake:
        if kind == "files":
            return floe.connect(uri, durable=False)
        return floe.connect(uri, name=key, warehouse=str(warehouse), durable=False)

    def _addresses(self, kind: str, warehouse: Path) -> tuple[str, str]:
        """Where Floe and where Java finds the catalog."""
        if kind == "files":
            return str(warehouse), ""
        if kind == "sqlite":
            file = warehouse.with_suffix(".db")
            return f"sqlite:///{file}", f"jdbc:sqlite:{file}?busy_timeout=10000"
        uri = self._stack.enter_context(postgres_database())
        port = self._stack.enter_context(ToUnixSocket(socket_of(uri))).port
        database = urlsplit(uri).path.lstrip("/")
        return uri, f"jdbc:postgresql://127.0.0.1:{port}/{database}?user=postgres&sslmode=disable&gssEncMode=disable"


def socket_of(uri: str) -> str:
    """The socket file of a PostgreSQL server."""
    return f"{parse_qs(urlsplit(uri).query)['host'][0]}/.s.PGSQL.5432"


class ToUnixSocket:
    """A TCP port of this machine that leads to a Unix socket, for clients that know no other, such as JDBC."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for end in (self._listener, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for end in (self._listener, *self._ends):
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            server.connect(self._path)
            self._ends += [client, server]
            for source, target in ((client, server), (server, client)):
                thread = threading.Thread(target=_copy, args=(source, target), daemon=True)
                self._threads.append(thread)
                thread.start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
