"""Catalogs that Spark's settings configure for Java Iceberg, opened as catalogs of Floe with the same settings.

```
spark.sql.extensions                     org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.sql.catalog.local                  org.apache.iceberg.spark.SparkCatalog
spark.sql.catalog.local.type             hadoop
spark.sql.catalog.local.warehouse        /data/warehouse
```

Java's classes are not loaded: a lake replaces the catalog, and every session of Floe has the features of the
extensions. `type=hadoop` is a folder, `type=jdbc` a database; as in Java, the catalog's name in the database is that in
Spark. Settings of object stores (`s3.*`, `hadoop.fs.s3a.*`) are passed on.
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

_TYPES_BY_CLASS: Final = {
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
_UNSUPPORTED: Final = {
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
_JDBC_SCHEME: Final = re.compile(r"jdbc:([a-z0-9]+):")
_FILE_IO: Final = re.compile(r"org\.apache\.iceberg\.[a-z0-9.]*\.[A-Za-z0-9]+FileIO")
_S3_OPTIONS: Final = {
    "fs.s3a.endpoint": "s3.endpoint",
    "fs.s3a.endpoint.region": "s3.region",
    "fs.s3a.access.key": "s3.access-key-id",
    "fs.s3a.secret.key": "s3.secret-access-key",
    "fs.s3a.session.token": "s3.session-token",
    "fs.s3a.path.style.access": "s3.path-style-access",
}
_LIBPQ_PARAMETERS: Final = {
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
_CONNECTION_SETTINGS: Final = {
    setting.name for setting in (CATALOG_TYPE, CATALOG_IMPL, CATALOG_URI, WAREHOUSE, IO_IMPL, CLIENTS)
}
_STORE_PREFIXES: Final = (*(family.prefix for family in STORES), "client.")


def settings_for_spark(conf: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without the classes of Java Iceberg, which Spark would try to load, and without what only they read.

    >>> settings_for_spark(
    ...     {
    ...         "spark.sql.catalog.local": "org.apache.iceberg.spark.SparkCatalog",
    ...         "spark.sql.catalog.local.type": "hadoop",
    ...         "spark.sql.catalog.local.default-namespace": "db",
    ...     }
    ... )
    {'spark.sql.catalog.local.default-namespace': 'db'}
    """
    java = {name for name, value in conf.items() if name.startswith(CATALOG_PREFIX) and _is_java_class(value)}
    connections = {f"{name}.{key}" for name in java for key in _settings_below(conf, name) if _is_connection(key)}
    settings = {name: value for name, value in conf.items() if name not in java | connections}
    if EXTENSIONS in settings:
        names = [name.strip() for name in str(settings.pop(EXTENSIONS)).split(",")]
        if other_extensions := [name for name in names if name and name != _EXTENSION]:
            settings[EXTENSIONS] = ",".join(other_extensions)
    return settings


def configured_catalogs(conf: Mapping[str, Any], exclude: Collection[str] = ()) -> dict[str, dict[str, Any]]:
    """The catalogs that settings configure for Java Iceberg, as options of `floe.connect` by name.

    `exclude` names catalogs that are opened in another way, which takes precedence.

    >>> configured_catalogs(
    ...     {
    ...         "spark.sql.catalog.local": "org.apache.iceberg.spark.SparkCatalog",
    ...         "spark.sql.catalog.local.type": "hadoop",
    ...         "spark.sql.catalog.local.warehouse": "/data/wh",
    ...     }
    ... )
    {'local': {'uri': '/data/wh', 'name': 'local'}}
    """
    catalogs = {}
    for key, value in conf.items():
        name = key.removeprefix(CATALOG_PREFIX)
        if not key.startswith(CATALOG_PREFIX) or "." in name or not _is_java_class(value):
            continue
        if key == SESSION_CATALOG and value == SESSION_CATALOG_CLASS:
            warn_ignored(
                f"{key}={value} has no effect: spark_catalog stays Spark's own, for tables that are not Iceberg's;"
                " tables of Iceberg are in catalogs of other names"
            )
        elif name not in exclude:
            if value != SPARK_CATALOG or key == SESSION_CATALOG:
                raise InvalidSettings(
                    f"{key}={value} is not supported", hint=f"spark.sql.catalog.<name>={SPARK_CATALOG} is supported"
                )
            catalogs[name] = _connect_options(name, _settings_below(conf, key))
    return catalogs


def check_settings(conf: Mapping[str, Any], name: str, *, is_given: bool) -> None:
    """Check the settings of a catalog, and warn about those that have no effect.

    `is_given` says that the catalog was passed in Python; settings of its connection have no effect then.

    >>> check_settings({"spark.sql.catalog.lake.default-namespace": "db"}, "lake", is_given=True)
    """
    settings = _settings_below(conf, CATALOG_PREFIX + name)
    check_catalog_settings(name, {key: value for key, value in settings.items() if not _is_connection(key)})
    ignored = [key for key in settings if is_given and _is_connection(key)]
    if ignored:
        warn_ignored(
            f"of catalog {name}, the settings {', '.join(sorted(ignored))} have no effect: the catalog was passed as"
            f" {name}=…"
        )


def _settings_below(conf: Mapping[str, Any], name: str) -> dict[str, str]:
    return {key[len(name) + 1 :]: _text(value) for key, value in conf.items() if key.startswith(f"{name}.")}


def _is_connection(key: str) -> bool:
    """Whether a setting is about the connection to the catalog or to the store of its files."""
    return key in _CONNECTION_SETTINGS or key.startswith(("jdbc.", HADOOP.prefix, *_STORE_PREFIXES))


def _is_java_class(value: Any) -> bool:
    return value in (SPARK_CATALOG, SESSION_CATALOG_CLASS)


def _connect_options(name: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """The options of `floe.connect` for a catalog with some settings."""
    connection = {key: value for key, value in settings.items() if _is_connection(key) and not _is_for_driver(key)}
    check_catalog_settings(name, connection)
    catalog_type = _catalog_type(name, settings)
    store = _store_options(name, settings)
    if catalog_type == "in-memory":
        return {"uri": "memory:", "name": name, **store}
    warehouse = WAREHOUSE.read(settings)
    if catalog_type == "hadoop":
        if not warehouse:
            raise InvalidSettings(
                f"catalog {name} has no warehouse",
                hint=f"set {CATALOG_PREFIX}{name}.warehouse to the folder of its tables",
            )
        # a single word is a folder, not a catalog's name in the settings of Floe
        is_word = "/" not in warehouse and ":" not in warehouse
        return {"uri": f"./{warehouse}" if is_word else warehouse, "name": name, **store}
    options = {key: value for key, value in settings.items() if key in SQL_OPTIONS}
    if warehouse is not None:
        options = {"warehouse": warehouse, **options}
    return {"uri": _database_uri(name, settings), "name": name, "catalog_name": name, **options, **store}


def _catalog_type(name: str, settings: Mapping[str, str]) -> str:
    """The type of a catalog, such as `hadoop`; raises if there is no such catalog in Floe."""
    configured, implementation = settings.get(CATALOG_TYPE.name), CATALOG_IMPL.read(settings)
    if configured is not None and implementation is not None:
        raise InvalidSettings(
            f"catalog {name} has both type={configured} and catalog-impl={implementation}", hint="leave out one of them"
        )
    if implementation is not None and implementation not in _TYPES_BY_CLASS:
        raise UnsupportedFeature(
            f"catalog {name}: the class {implementation} is Java's, and cannot be run here",
            hint=f"{CATALOG_PREFIX}{name}.type is hadoop (a folder) or jdbc (SQLite, PostgreSQL)",
        )
    catalog_type = _TYPES_BY_CLASS[implementation] if implementation is not None else (configured or "hive").lower()
    if catalog_type in _UNSUPPORTED:
        default = "" if configured or implementation else " (no type is set, which means hive, as in Java)"
        raise UnsupportedFeature(f"catalog {name}{default}: {_UNSUPPORTED[catalog_type]} {_READ_BY_PATH}")
    return catalog_type


def _database_uri(name: str, settings: Mapping[str, str]) -> str:
    """The URI of a database for `floe.connect`: `jdbc:sqlite:lake.db` becomes `sqlite:///lake.db`."""
    uri = CATALOG_URI.read(settings)
    if not uri:
        raise InvalidSettings(
            f"catalog {name} has no uri", hint=f"set {CATALOG_PREFIX}{name}.uri=jdbc:sqlite:/data/lake.db"
        )
    match = _JDBC_SCHEME.match(uri)
    scheme, database = ("", "") if match is None else (match[1], uri[match.end() :])
    if scheme not in ("sqlite", "postgresql"):
        prefix = f"jdbc:{scheme}:" if scheme else "a uri that does not begin with jdbc:"
        raise UnsupportedFeature(
            f"catalog {name}: no database is known for {prefix}",  # without the rest, which may contain a password
            hint="databases are jdbc:sqlite:/data/lake.db and jdbc:postgresql://host:5432/database",
        )
    if any(key.startswith("jdbc.") and _is_for_driver(key) for key in settings):
        keys = ", ".join(sorted(key for key in settings if _is_for_driver(key)))
        warn_ignored(f"of catalog {name}, the settings {keys} have no effect: they are for a JDBC driver")
    path, _, query = database.partition("?")
    if scheme == "sqlite":
        if query:
            raise UnsupportedFeature(f"catalog {name}: the options {query:.80} of the SQLite driver are not known")
        return f"sqlite:///{path.removeprefix('file:')}"
    return f"postgresql:{path if path.startswith('//') else f'//localhost/{path}'}{_libpq_query(name, query)}"


def _libpq_query(name: str, query: str) -> str:
    """The query of a PostgreSQL URI, with the parameters of the JDBC driver turned into those of libpq."""
    parameters = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key == "ssl":
            parameters["sslmode"] = "disable" if value.lower() == "false" else "verify-full"
        elif key in _LIBPQ_PARAMETERS:
            parameters[_LIBPQ_PARAMETERS[key]] = value
        else:
            raise UnsupportedFeature(
                f"catalog {name}: the parameter {key} of the PostgreSQL driver is not known",
                hint=f"known are ssl, {', '.join(_LIBPQ_PARAMETERS)}",
            )
    return f"?{urlencode(parameters)}" if parameters else ""


def _is_for_driver(key: str) -> bool:
    """Whether a setting is for a JDBC driver, and not one of the catalog."""
    return key.startswith("jdbc.") and key not in SQL_OPTIONS and key != JDBC_STRICT_MODE.name


def _store_options(name: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The options of the store of the files; Hadoop's settings of S3 are translated."""
    implementation = IO_IMPL.read(settings)
    if implementation is not None and not _FILE_IO.fullmatch(implementation):
        raise UnsupportedFeature(
            f"catalog {name}: io-impl={implementation} is a class of Java's, and cannot be run here",
            hint="leave it out: Floe reaches local disks, S3, Google Cloud Storage and Azure itself",
        )
    options = {key: value for key, value in settings.items() if key.startswith(_STORE_PREFIXES)}
    for key, value in HADOOP.members(settings).items():
        if key in _S3_OPTIONS:
            options.setdefault(_S3_OPTIONS[key], value)
        else:
            warn_ignored(
                f"of catalog {name}, the setting hadoop.{key} has no effect: Floe does not read files through Hadoop"
            )
    return options


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
