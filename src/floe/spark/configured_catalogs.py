"""Catalogs as Spark's settings describe them for Java Iceberg, understood as they are.

```
spark.sql.extensions                     org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.sql.catalog.local                  org.apache.iceberg.spark.SparkCatalog
spark.sql.catalog.local.type             hadoop
spark.sql.catalog.local.warehouse        /data/warehouse
```

The classes are Java's and are not there: a lake takes the catalog's place, and what the extensions are for every
session of Floe's has anyway. `type=hadoop` is a folder, `type=jdbc` a database, in which the catalog has the name that
it has in Spark, as with Java. What goes to the store (`s3.*`, `hadoop.fs.s3a.*`) is passed on.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from floe.catalog.sql.catalog import SQL_OPTIONS
from floe.errors import InvalidSettings, UnsupportedFeature
from floe.spark.settings import (
    CATALOG_IMPL,
    CATALOG_PREFIX,
    CATALOG_TYPE,
    CATALOG_URI,
    CLIENTS,
    EXTENSIONS,
    HADOOP,
    IO_IMPL,
    JDBC_STRICT_MODE,
    STORES,
    WAREHOUSE,
    check_catalog_settings,
)
from floe.spec.setting_types import warn_ignored

SESSION_CATALOG: Final = CATALOG_PREFIX + "spark_catalog"
SPARK_CATALOG: Final = "org.apache.iceberg.spark.SparkCatalog"
SESSION_CATALOG_CLASS: Final = "org.apache.iceberg.spark.SparkSessionCatalog"
_EXTENSION: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

_KINDS: Final = {
    "org.apache.iceberg.hadoop.HadoopCatalog": "hadoop",
    "org.apache.iceberg.jdbc.JdbcCatalog": "jdbc",
    "org.apache.iceberg.inmemory.InMemoryCatalog": "in-memory",
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.nessie.NessieCatalog": "nessie",
    "org.apache.iceberg.aws.dynamodb.DynamoDbCatalog": "dynamodb",
    "org.apache.iceberg.gcp.bigquery.BigQueryMetastoreCatalog": "bigquery",
    "org.apache.iceberg.snowflake.SnowflakeCatalog": "snowflake",
}
_MISSING: Final = {
    "rest": "there are no REST catalogs yet: tables behind a server such as Polaris, Gravitino, Lakekeeper or Unity",
    "hive": "there are no Hive catalogs yet: tables of a Hive metastore",
    "glue": "there are no Glue catalogs yet: tables of the AWS Glue Data Catalog",
    "nessie": "there are no Nessie catalogs yet: tables of a Nessie server",
    "dynamodb": "there are no DynamoDB catalogs yet: tables of such a catalog",
    "bigquery": "there are no BigQuery catalogs yet: tables of such a metastore",
    "snowflake": "there are no Snowflake catalogs yet: tables of such a catalog",
}
_READ_BY_PATH: Final = (
    'can be read by the path of their metadata file, with floe.open("…/metadata/….metadata.json");'
    " catalogs are type=hadoop (a folder) and type=jdbc (SQLite, PostgreSQL)"
)
_JDBC: Final = re.compile(r"jdbc:([a-z0-9]+):")
_FILE_IO: Final = re.compile(r"org\.apache\.iceberg\.[a-z0-9.]*\.[A-Za-z0-9]+FileIO")
_S3A: Final = {
    "fs.s3a.endpoint": "s3.endpoint",
    "fs.s3a.endpoint.region": "s3.region",
    "fs.s3a.access.key": "s3.access-key-id",
    "fs.s3a.secret.key": "s3.secret-access-key",
    "fs.s3a.session.token": "s3.session-token",
    "fs.s3a.path.style.access": "s3.path-style-access",
}
_LIBPQ: Final = {
    "user": "user",
    "password": "password",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "options": "options",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
}
_CONNECTING: Final = {
    setting.name for setting in (CATALOG_TYPE, CATALOG_IMPL, CATALOG_URI, WAREHOUSE, IO_IMPL, CLIENTS)
}
_OF_STORES: Final = (*(family.prefix for family in STORES), "client.")


def settings_for_spark(conf: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without Java Iceberg's classes, which Spark would look for, and what only they would read.

    >>> settings_for_spark(
    ...     {
    ...         "spark.sql.catalog.local": "org.apache.iceberg.spark.SparkCatalog",
    ...         "spark.sql.catalog.local.type": "hadoop",
    ...         "spark.sql.catalog.local.default-namespace": "db",
    ...     }
    ... )
    {'spark.sql.catalog.local.default-namespace': 'db'}
    """
    java = {name for name, value in conf.items() if name.startswith(CATALOG_PREFIX) and _is_java(value)}
    read = {f"{name}.{key}" for name in java for key in _settings_below(conf, name) if _is_connecting(key)}
    kept = {name: value for name, value in conf.items() if name not in java | read}
    if EXTENSIONS in kept:
        names = [name.strip() for name in str(kept.pop(EXTENSIONS)).split(",")]
        if rest := [name for name in names if name and name != _EXTENSION]:
            kept[EXTENSIONS] = ",".join(rest)
    return kept


def configured_catalogs(conf: Mapping[str, Any], given: Collection[str] = ()) -> dict[str, dict[str, Any]]:
    """The catalogs that settings describe for Java Iceberg, as the options of `floe.connect`.

    Those that are `given` in another way are left out: that goes first.

    >>> configured_catalogs(
    ...     {
    ...         "spark.sql.catalog.local": "org.apache.iceberg.spark.SparkCatalog",
    ...         "spark.sql.catalog.local.type": "hadoop",
    ...         "spark.sql.catalog.local.warehouse": "/data/wh",
    ...     }
    ... )
    {'local': {'uri': '/data/wh', 'name': 'local'}}
    """
    found = {}
    for key, value in conf.items():
        name = key.removeprefix(CATALOG_PREFIX)
        if not key.startswith(CATALOG_PREFIX) or "." in name or not _is_java(value):
            continue
        if key == SESSION_CATALOG and value == SESSION_CATALOG_CLASS:
            warn_ignored(
                f"{key}={value} has no effect: spark_catalog stays Spark's own, for tables that are not Iceberg's;"
                " tables of Iceberg are in catalogs of other names"
            )
        elif name not in given:
            if value != SPARK_CATALOG or key == SESSION_CATALOG:
                raise InvalidSettings(f"{key}={value}", hint=f"spark.sql.catalog.<name>={SPARK_CATALOG} is understood")
            found[name] = _options(name, _settings_below(conf, key))
    return found


def check_settings(conf: Mapping[str, Any], name: str, *, is_given: bool) -> None:
    """Look at what is set below a catalog's name; of a catalog that is given in another way, nothing says where it is.

    >>> check_settings({"spark.sql.catalog.lake.default-namespace": "db"}, "lake", is_given=True)
    """
    settings = _settings_below(conf, CATALOG_PREFIX + name)
    check_catalog_settings(name, {key: value for key, value in settings.items() if not _is_connecting(key)})
    unread = [key for key in settings if is_given and _is_connecting(key)]
    if unread:
        warn_ignored(
            f"of catalog {name}, the settings {', '.join(sorted(unread))} have no effect: where it is was given by"
            f" {name}=…"
        )


def _settings_below(conf: Mapping[str, Any], name: str) -> dict[str, str]:
    return {key[len(name) + 1 :]: _text(value) for key, value in conf.items() if key.startswith(f"{name}.")}


def _is_connecting(key: str) -> bool:
    """Whether a setting says where a catalog is, or its files are."""
    return key in _CONNECTING or key.startswith(("jdbc.", HADOOP.prefix, *_OF_STORES))


def _is_java(value: Any) -> bool:
    return value in (SPARK_CATALOG, SESSION_CATALOG_CLASS)


def _options(name: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """What `floe.connect` is told of a catalog."""
    own = {key: value for key, value in settings.items() if _is_connecting(key) and not _is_of_driver(key)}
    check_catalog_settings(name, own)
    kind = _kind(name, settings)
    stores = _of_stores(name, settings)
    if kind == "in-memory":
        return {"uri": "memory:", "name": name, **stores}
    where = WAREHOUSE.read(settings)
    if kind == "hadoop":
        if not where:
            raise InvalidSettings(
                f"catalog {name} has no warehouse",
                hint=f"set {CATALOG_PREFIX}{name}.warehouse to the folder of its tables",
            )
        is_word = "/" not in where and ":" not in where  # a folder here, never a name of the settings
        return {"uri": f"./{where}" if is_word else where, "name": name, **stores}
    given = {key: value for key, value in settings.items() if key in SQL_OPTIONS}
    warehouse = {} if where is None else {"warehouse": where}
    return {
        "uri": _database(name, settings), "name": name, "catalog_name": name, **warehouse, **given, **stores,
    }  # fmt: skip


def _kind(name: str, settings: Mapping[str, str]) -> str:
    kind, implementation = settings.get(CATALOG_TYPE.name), CATALOG_IMPL.read(settings)
    if kind is not None and implementation is not None:
        raise InvalidSettings(
            f"catalog {name} has both type={kind} and catalog-impl={implementation}", hint="leave out one of them"
        )
    if implementation is not None and implementation not in _KINDS:
        raise UnsupportedFeature(
            f"catalog {name}: the class {implementation} is Java's, and cannot be run here",
            hint=f"{CATALOG_PREFIX}{name}.type is hadoop (a folder) or jdbc (SQLite, PostgreSQL)",
        )
    found = _KINDS[implementation] if implementation is not None else (kind or "hive").lower()
    if found in _MISSING:
        unsaid = "" if kind or implementation else " (no type is set, which means hive, as in Java)"
        raise UnsupportedFeature(f"catalog {name}{unsaid}: {_MISSING[found]} {_READ_BY_PATH}")
    return found


def _database(name: str, settings: Mapping[str, str]) -> str:
    """The URI of a database as `floe.connect` takes it: `jdbc:sqlite:lake.db` is `sqlite:///lake.db`."""
    uri = CATALOG_URI.read(settings)
    if not uri:
        raise InvalidSettings(
            f"catalog {name} has no uri", hint=f"set {CATALOG_PREFIX}{name}.uri=jdbc:sqlite:/data/lake.db"
        )
    found = _JDBC.match(uri)
    scheme, rest = ("", "") if found is None else (found[1], uri[found.end() :])
    if scheme not in ("sqlite", "postgresql"):
        said = f"jdbc:{scheme}:" if scheme else "a uri that does not begin with jdbc:"
        raise UnsupportedFeature(
            f"catalog {name}: no database is known for {said}",  # and no more of it: the rest may hold a password
            hint="databases are jdbc:sqlite:/data/lake.db and jdbc:postgresql://host:5432/database",
        )
    if any(key.startswith("jdbc.") and _is_of_driver(key) for key in settings):
        keys = ", ".join(sorted(key for key in settings if _is_of_driver(key)))
        warn_ignored(f"of catalog {name}, the settings {keys} have no effect: they are for a driver of JDBC")
    path, _, query = rest.partition("?")
    if scheme == "sqlite":
        if query:
            raise UnsupportedFeature(f"catalog {name}: the options {query:.80} of the SQLite driver are not known")
        return f"sqlite:///{path.removeprefix('file:')}"
    return f"postgresql:{path if path.startswith('//') else f'//localhost/{path}'}{_parameters(name, query)}"


def _parameters(name: str, query: str) -> str:
    """The parameters of a PostgreSQL URI, by libpq's names."""
    found = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key == "ssl":
            found["sslmode"] = "disable" if value.lower() == "false" else "verify-full"
        elif key in _LIBPQ:
            found[_LIBPQ[key]] = value
        else:
            raise UnsupportedFeature(
                f"catalog {name}: the parameter {key} of the PostgreSQL driver is not known",
                hint=f"known are ssl, {', '.join(_LIBPQ)}",
            )
    return f"?{urlencode(found)}" if found else ""


def _is_of_driver(key: str) -> bool:
    """Whether a setting goes to a driver of JDBC, which has names of its own for what it can."""
    return key.startswith("jdbc.") and key not in SQL_OPTIONS and key != JDBC_STRICT_MODE.name


def _of_stores(name: str, settings: Mapping[str, str]) -> dict[str, str]:
    """What the store of the files is told."""
    implementation = IO_IMPL.read(settings)
    if implementation is not None and not _FILE_IO.fullmatch(implementation):
        raise UnsupportedFeature(
            f"catalog {name}: io-impl={implementation} is a class of Java's, and cannot be run here",
            hint="leave it out: Floe reaches local disks, S3, Google Cloud Storage and Azure itself",
        )
    found = {key: value for key, value in settings.items() if key.startswith(_OF_STORES)}
    for key, value in HADOOP.members(settings).items():
        if key in _S3A:
            found.setdefault(_S3A[key], value)
        else:
            warn_ignored(
                f"of catalog {name}, the setting hadoop.{key} has no effect: Floe does not read files through Hadoop"
            )
    return found


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
