"""Table definitions: read from CREATE TABLE, and shown by SHOW CREATE TABLE and DESCRIBE.

`table_definition` reads a definition; `shown_properties` and `spark_transforms` show that of a table. The statement
that SHOW CREATE TABLE prints creates the same table again: what it shows as properties (`sort-order`,
`identifier-fields`, `format-version`) CREATE TABLE reads as parts of the definition.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from floe.catalog.identifiers import format_identifier
from floe.catalog.protocol import Capability
from floe.errors import InvalidInput, NamespaceAlreadyExists, NoSuchNamespace
from floe.spark.bridge.jvm import Jvm
from floe.spark.schemas import CURRENT_DEFAULT, SparkType, table_schema
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.partitioning.transform_terms import build_spec
from floe.spec.partitioning.transforms import Bucket, Identity, Transform, Truncate, Void
from floe.spec.properties import FILE_FORMAT, FORMAT_VERSION
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import SortOrder, build_order
from floe.spec.types import Field, Type
from floe.sql.printer import explicit_sort_terms, name_text
from floe.table.lake import Lake
from floe.table.table import Table

SORT_ORDER: Final = "sort-order"
IDENTIFIER_FIELDS: Final = "identifier-fields"
PROVIDER: Final = "provider"
LOCATION: Final = "location"

_FILE_FORMATS: Final = ("parquet", "orc", "avro")
_NOT_STORED: Final = frozenset(
    {
        PROVIDER, LOCATION, "external", "is_managed_location", "table_type", "collation", "format", FORMAT_VERSION.name,
        SORT_ORDER, IDENTIFIER_FIELDS, "current-snapshot-id",
    }
)  # fmt: skip
"""Properties of CREATE TABLE that are not stored: clauses that Spark passes as properties, and reserved ones."""

_RESERVED: Final = frozenset(
    {PROVIDER, LOCATION, "format", FORMAT_VERSION.name, SORT_ORDER, IDENTIFIER_FIELDS, "current-snapshot-id"}
)
"""Properties that are shown from the metadata, even if the table has stored ones of these names, as in Java Iceberg."""

_LOCATION_SUFFIXES: Final = (".path", ".location")
"""The ends of the names of properties that say where files of a table are written."""

Evaluate = Callable[[str, Type], Any]
"""Evaluates a SQL expression as a value of a column's type."""


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """The definition of a new table."""

    schema: Schema
    spec: PartitionSpec
    sort_order: SortOrder
    properties: Mapping[str, str]
    format_version: int | None
    location: str | None

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments for `Lake.create_table`."""
        return {
            "schema": self.schema,
            "partition_by": self.spec,
            "sort_by": self.sort_order,
            "properties": self.properties,
            "format_version": self.format_version,
            "location": self.location,
        }


def table_definition(
    spark_schema: SparkType,
    partitioning: Sequence[str],
    properties: Mapping[str, str],
    evaluate: Evaluate,
    *,
    case_sensitive: bool = False,
) -> TableDefinition:
    """The definition in a CREATE TABLE statement; `evaluate` computes column defaults.

    >>> definition = table_definition(
    ...     {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": False, "metadata": {}}]},
    ...     ["bucket(4, id)"],
    ...     {"provider": "iceberg", "format-version": "3", "owner": "me"},
    ...     evaluate=lambda sql, type_: None,
    ... )
    >>> print(definition.spec, definition.format_version, dict(definition.properties))
    [1000: id_bucket: bucket[4](1)] 3 {'owner': 'me'}
    """
    stored = {key: value for key, value in properties.items() if key not in _NOT_STORED}
    provider = properties.get(PROVIDER, "iceberg").lower()
    if provider in _FILE_FORMATS:
        stored.setdefault(FILE_FORMAT.name, provider)
    elif provider not in ("iceberg", "floe"):
        raise InvalidInput(
            f"a table of this catalog is USING iceberg, found {provider}",
            hint="leave out USING, or name a file format: parquet, orc, avro",
        )
    schema = _add_identifier_fields(_add_defaults(table_schema(spark_schema), spark_schema, evaluate), properties)
    version = properties.get(FORMAT_VERSION.name)
    if version is not None and not version.isdigit():
        raise InvalidInput(f"the format version is a number, found {version!r}")
    return TableDefinition(
        schema,
        build_spec(schema, partitioning, case_sensitive=case_sensitive),
        build_order(schema, split_terms(properties.get(SORT_ORDER, "")), case_sensitive=case_sensitive),
        stored,
        None if version is None else int(version),
        properties.get(LOCATION),
    )


def _add_defaults(schema: Schema, spark_schema: SparkType, evaluate: Evaluate) -> Schema:
    """The schema with the defaults of Spark's columns; Spark has none for nested fields."""
    fields: list[Field] = []
    for field, column in zip(schema.fields, spark_schema["fields"], strict=True):
        sql = column.get("metadata", {}).get(CURRENT_DEFAULT)
        value = None if sql is None else evaluate(sql, field.type)
        fields.append(field if value is None else replace(field, initial_default=value, write_default=value))
    return replace(schema, fields=tuple(fields))


def _add_identifier_fields(schema: Schema, properties: Mapping[str, str]) -> Schema:
    names = properties.get(IDENTIFIER_FIELDS, "").strip().strip("[]")
    ids = tuple(schema.resolve(name).field.id for name in split_terms(names))
    return replace(schema, identifier_field_ids=ids) if ids else schema


def split_terms(text: str) -> list[str]:
    """Split a list of terms at its commas, except those within parentheses.

    >>> split_terms("bucket(16, id) desc, ts")
    ['bucket(16, id) desc', 'ts']
    """
    return [term.strip() for term in re.split(r",(?![^(]*\))", text) if term.strip()]


def table_like(table: Table, properties: Mapping[str, str]) -> TableDefinition:
    """The definition of a new table like another, with additional properties of the statement.

    It has all but the rows, the history and the locations of the other table.
    """
    copied = {key: value for key, value in table.properties.items() if not key.endswith(_LOCATION_SUFFIXES)}
    version = properties.get(FORMAT_VERSION.name)
    return TableDefinition(
        table.schema,
        table.spec,
        table.sort_order,
        {**copied, **{key: value for key, value in properties.items() if key not in _NOT_STORED}},
        table.format_version if version is None else int(version),
        properties.get(LOCATION),
    )


def ensure_namespace(lake: Lake, catalog: str, name: tuple[str, ...]) -> None:
    """Create the namespace of a new table if the lake is a catalog of folders, as Java's Hadoop catalog does.

    In other catalogs a missing namespace is an error.

    >>> import floe
    >>> ensure_namespace(floe.connect("memory:"), "lake", ("db", "t"))
    Traceback (most recent call last):
    floe.errors.NoSuchNamespace: there is no such namespace; make it first: CREATE NAMESPACE lake.db (namespace: db)
    """
    namespace = name[:-1]
    if not namespace or lake.namespace_exists(namespace):
        return
    if Capability.CUSTOM_LOCATIONS in lake.capabilities:
        raise no_such_namespace(catalog, namespace)
    with contextlib.suppress(NamespaceAlreadyExists):  # created concurrently
        lake.create_namespace(namespace)


def no_such_namespace(catalog: str, namespace: tuple[str, ...]) -> NoSuchNamespace:
    """The error for a missing namespace, with the statement that creates it."""
    statement = f"CREATE NAMESPACE {'.'.join(map(name_text, (catalog, *namespace)))}"
    return NoSuchNamespace(
        "there is no such namespace", hint=f"make it first: {statement}", namespace=format_identifier(namespace)
    )


def shown_properties(table: Table) -> dict[str, str]:
    """The properties that Spark shows: the stored ones, and reserved ones from the metadata."""
    metadata = table.metadata
    shown = {
        PROVIDER: "iceberg",
        LOCATION: table.location,
        "format": f"iceberg/{metadata.properties.get(FILE_FORMAT.name, FILE_FORMAT.default)}",
        FORMAT_VERSION.name: str(metadata.format_version),
        "current-snapshot-id": "none" if table.current_snapshot is None else str(table.current_snapshot.snapshot_id),
    }
    if table.schema.identifier_field_ids:
        shown[IDENTIFIER_FIELDS] = f"[{','.join(table.schema.identifier_names)}]"
    if not table.sort_order.is_unsorted:
        shown[SORT_ORDER] = ", ".join(explicit_sort_terms(table.sort_order, table.schema))
    return {**{key: value for key, value in metadata.properties.items() if key not in _RESERVED}, **shown}


# Partition transforms -------------------------------------------------------------------------------------------------

_TIME_TRANSFORMS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
"""Spark's names of Iceberg's transforms."""


def spark_transforms(jvm: Jvm, spec: PartitionSpec, schema: Schema) -> Any:
    """The partition fields as a `Transform[]`, without those with a void transform or a dropped source column."""
    transforms = []
    for field in spec.fields:
        entry = schema.by_id.get(field.source_id)
        if entry is not None and not isinstance(field.transform, Void):
            transforms.append(_spark_transform(jvm, field.transform, ".".join(map(name_text, entry.path))))
    return jvm.array("org.apache.spark.sql.connector.expressions.Transform", transforms)


def _spark_transform(jvm: Jvm, transform: Transform, column: str) -> Any:
    expressions = jvm.sql("connector.expressions.Expressions")
    match transform:
        case Identity():
            return expressions.identity(column)
        case Bucket(n=count):
            return expressions.bucket(count, jvm.strings([column]))
        case Truncate(width=width):
            arguments = [expressions.literal(width), expressions.column(column)]
            name = "truncate"
        case _ if (method := _TIME_TRANSFORMS.get(str(transform))) is not None:
            return getattr(expressions, method)(column)
        case _:
            arguments, name = [expressions.column(column)], str(transform)
    return expressions.apply(name, jvm.array("org.apache.spark.sql.connector.expressions.Expression", arguments))
