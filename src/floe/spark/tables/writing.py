"""Writes of tables, whether they are there or being made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from floe.errors import InvalidInput
from floe.spark.bridge.jvm import Jvm
from floe.spark.write.builder import TableWriteBuilder
from floe.spark.write.options import write_options
from floe.spark.write.worker import check_types
from floe.spec.metadata.properties import boolean_property
from floe.spec.metadata.table_metadata import TableMetadata
from floe.table.table import Table
from floe.table.transaction import Transaction

__all__ = ["WRITE_CAPABILITIES", "capability_set", "takes_any_columns", "write_builder", "write_capabilities"]

_CAPABILITY: Final = "org.apache.spark.sql.connector.catalog.TableCapability"

WRITE_CAPABILITIES: Final = (
    "BATCH_WRITE", "V1_BATCH_WRITE", "STREAMING_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC",
)  # fmt: skip


def takes_any_columns(metadata: TableMetadata) -> bool:
    """Whether a table finds the columns of rows itself."""
    return boolean_property(metadata.properties, "write.spark.accept-any-schema", default=False)


def write_capabilities(jvm: Jvm, metadata: TableMetadata, *, changes_rows: bool = False) -> list[str]:
    """What can be done to a table that is there; for a statement that changes rows, Spark has to find its columns."""
    found = list(WRITE_CAPABILITIES)
    if takes_any_columns(metadata) and not changes_rows:
        found.append("ACCEPT_ANY_SCHEMA")
    if jvm.version >= (4, 1):
        found.append("AUTOMATIC_SCHEMA_EVOLUTION")  # Spark alters the table for statements WITH SCHEMA EVOLUTION
    return found


def capability_set(jvm: Jvm, names: Sequence[str]) -> Any:
    """What can be done with a table; Spark asks often, so each set is made once."""
    key = ("capabilities", *names)
    return jvm.once(key, lambda: jvm.set([jvm.constant(_CAPABILITY, name) for name in names]))


def write_builder(
    jvm: Jvm, name: str, target: Table | Transaction, info: Any, branch: str | None = None
) -> TableWriteBuilder:
    """A write of what Spark describes."""
    check_types(target.metadata.schema)
    given = {key.lower(): value for key, value in jvm.read_map(info.options().asCaseSensitiveMap()).items()}
    if "validate-from-snapshot-id" in given and not isinstance(target, Table):
        raise InvalidInput(
            "validate-from-snapshot-id is for writes that replace rows, and this one replaces or creates the table",
            hint="leave the option out, or write with overwrite or overwritePartitions",
            table=name,
        )
    options = write_options(jvm, given, target.metadata, branch)
    return TableWriteBuilder(jvm, name, target, options, info.schema(), info.queryId())
