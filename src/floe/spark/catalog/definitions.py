"""What CREATE TABLE says, as a table's definition; and a table's properties as SHOW CREATE TABLE tells them.

SHOW CREATE TABLE gives a statement that makes the same table again, so what it shows as a property (`sort-order`,
`identifier-fields`, `format-version`) is taken as what it is by CREATE TABLE.

A table's partitioning as Spark's transforms.
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
from floe.spec.partitioning.terms import build_spec
from floe.spec.partitioning.transforms import Bucket, Identity, Transform, Truncate, Void
from floe.spec.properties import FILE_FORMAT, FORMAT_VERSION
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import SortOrder, build_order
from floe.spec.types import Field, Type
from floe.sql.printing import name_text, spelled_sort_terms
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
"""What Spark says with properties, and what only SHOW CREATE TABLE has."""

_KNOWN_OTHERWISE: Final = frozenset(
    {PROVIDER, LOCATION, "format", FORMAT_VERSION.name, SORT_ORDER, IDENTIFIER_FIELDS, "current-snapshot-id"}
)
"""What a table's own properties cannot say, as with Java's."""

_PLACES: Final = (".path", ".location")

Evaluate = Callable[[str, Type], Any]
"""Gives the value of a SQL expression, as a value of a column's type."""


@dataclass(frozen=True, slots=True)
class NewTable:
    """What is needed to make a table."""

    schema: Schema
    spec: PartitionSpec
    sort_order: SortOrder
    properties: Mapping[str, str]
    format_version: int | None
    location: str | None

    def arguments(self) -> dict[str, Any]:
        """What the methods of a lake take."""
        return {
            "schema": self.schema,
            "partition_by": self.spec,
            "sort_by": self.sort_order,
            "properties": self.properties,
            "format_version": self.format_version,
            "location": self.location,
        }


def new_table(
    spark_schema: SparkType,
    partitioning: Sequence[str],
    properties: Mapping[str, str],
    evaluate: Evaluate,
    *,
    case_sensitive: bool = False,
) -> NewTable:
    """The table that CREATE TABLE describes.

    >>> made = new_table(
    ...     {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": False, "metadata": {}}]},
    ...     ["bucket(4, id)"],
    ...     {"provider": "iceberg", "format-version": "3", "owner": "me"},
    ...     evaluate=lambda sql, type_: None,
    ... )
    >>> print(made.spec, made.format_version, dict(made.properties))
    [1000: id_bucket: bucket[4](1)] 3 {'owner': 'me'}
    """
    own = {key: value for key, value in properties.items() if key not in _NOT_STORED}
    provider = properties.get(PROVIDER, "iceberg").lower()
    if provider in _FILE_FORMATS:
        own.setdefault(FILE_FORMAT.name, provider)
    elif provider not in ("iceberg", "floe"):
        raise InvalidInput(
            f"a table of this catalog is USING iceberg, found {provider}",
            hint="leave out USING, or name a file format: parquet, orc, avro",
        )
    schema = _with_keys(_with_defaults(table_schema(spark_schema), spark_schema, evaluate), properties)
    version = properties.get(FORMAT_VERSION.name)
    if version is not None and not version.isdigit():
        raise InvalidInput(f"the format version is a number, found {version!r}")
    return NewTable(
        schema,
        build_spec(schema, partitioning, case_sensitive=case_sensitive),
        build_order(schema, split_terms(properties.get(SORT_ORDER, "")), case_sensitive=case_sensitive),
        own,
        None if version is None else int(version),
        properties.get(LOCATION),
    )


def _with_defaults(schema: Schema, spark: SparkType, evaluate: Evaluate) -> Schema:
    """Spark takes defaults of columns, not of fields within them."""
    fields: list[Field] = []
    for field, described in zip(schema.fields, spark["fields"], strict=True):
        sql = described.get("metadata", {}).get(CURRENT_DEFAULT)
        value = None if sql is None else evaluate(sql, field.type)
        fields.append(field if value is None else replace(field, initial_default=value, write_default=value))
    return replace(schema, fields=tuple(fields))


def _with_keys(schema: Schema, properties: Mapping[str, str]) -> Schema:
    names = properties.get(IDENTIFIER_FIELDS, "").strip().strip("[]")
    ids = tuple(schema.resolve(name).field.id for name in split_terms(names))
    return replace(schema, identifier_field_ids=ids) if ids else schema


def split_terms(text: str) -> list[str]:
    """The terms of a list: commas within parentheses belong to a term.

    >>> split_terms("bucket(16, id) desc, ts")
    ['bucket(16, id) desc', 'ts']
    """
    return [term.strip() for term in re.split(r",(?![^(]*\))", text) if term.strip()]


def table_like(table: Table, given: Mapping[str, str]) -> NewTable:
    """A new table like another: all but its rows, its history and where it keeps its files."""
    copied = {key: value for key, value in table.properties.items() if not key.endswith(_PLACES)}
    version = given.get(FORMAT_VERSION.name)
    return NewTable(
        table.schema,
        table.spec,
        table.sort_order,
        {**copied, **{key: value for key, value in given.items() if key not in _NOT_STORED}},
        table.format_version if version is None else int(version),
        given.get(LOCATION),
    )


def make_room(lake: Lake, catalog: str, name: tuple[str, ...]) -> None:
    """Make the namespace of a new table where it is but a folder, as Java's catalog of folders does.

    Other catalogs are asked for it by name.

    >>> import floe
    >>> make_room(floe.connect("memory:"), "lake", ("db", "t"))
    Traceback (most recent call last):
    floe.errors.NoSuchNamespace: there is no such namespace; make it first: CREATE NAMESPACE lake.db (namespace: db)
    """
    namespace = name[:-1]
    if not namespace or lake.namespace_exists(namespace):
        return
    if Capability.CUSTOM_LOCATIONS in lake.capabilities:
        raise no_such_namespace(catalog, namespace)
    with contextlib.suppress(NamespaceAlreadyExists):  # somebody else did
        lake.create_namespace(namespace)


def no_such_namespace(catalog: str, namespace: tuple[str, ...]) -> NoSuchNamespace:
    """The error that says how a namespace is made."""
    statement = f"CREATE NAMESPACE {'.'.join(map(name_text, (catalog, *namespace)))}"
    return NoSuchNamespace(
        "there is no such namespace", hint=f"make it first: {statement}", namespace=format_identifier(namespace)
    )


def shown_properties(table: Table) -> dict[str, str]:
    """The properties that Spark shows: the table's own, and what else there is to know about it."""
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
        shown[SORT_ORDER] = ", ".join(spelled_sort_terms(table.sort_order, table.schema))
    return {**{key: value for key, value in metadata.properties.items() if key not in _KNOWN_OTHERWISE}, **shown}


# A table's partitioning as Spark's transforms.

_TIMES = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


def spark_transforms(jvm: Jvm, spec: PartitionSpec, schema: Schema) -> Any:
    """The partition fields as a `Transform[]`; those that split nothing any more are left out."""
    made = []
    for field in spec.fields:
        entry = schema.by_id.get(field.source_id)
        if entry is not None and not isinstance(field.transform, Void):
            made.append(_transform(jvm, field.transform, ".".join(map(name_text, entry.path))))
    return jvm.array("org.apache.spark.sql.connector.expressions.Transform", made)


def _transform(jvm: Jvm, transform: Transform, column: str) -> Any:
    expressions = jvm.sql("connector.expressions.Expressions")
    match transform:
        case Identity():
            return expressions.identity(column)
        case Bucket(n=number):
            return expressions.bucket(number, jvm.strings([column]))
        case Truncate(width=width):
            arguments = [expressions.literal(width), expressions.column(column)]
            name = "truncate"
        case _ if (time := _TIMES.get(str(transform))) is not None:
            return getattr(expressions, time)(column)
        case _:
            arguments, name = [expressions.column(column)], str(transform)
    return expressions.apply(name, jvm.array("org.apache.spark.sql.connector.expressions.Expression", arguments))
