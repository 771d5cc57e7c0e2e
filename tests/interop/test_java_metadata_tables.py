"""The metadata tables of every table that Floe makes: Java Iceberg's rows and columns are those of `table.inspect`."""

from typing import Any

import pyarrow as pa
import pytest

from floe.plan.metadata_tables.tables import NAMES, TIME_TRAVEL, schema_of
from floe.spec.schemas.schema_json import schema_to_json
from helpers.canonical import canonical_rows
from helpers.java_catalogs import JavaCatalogs, made_ids
from helpers.made_tables import KINDS
from helpers.table_maker import Made

# Spark's own Python side leaves sockets to the garbage collector
pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

BY_SPARK = "position_deletes"
"""Java's own reader gives this one's rows to engines only."""

OF_JAVA = [name for name in NAMES if name != BY_SPARK]
TRAVELLING = [name for name in TIME_TRAVEL if name != BY_SPARK]
WITH_DELETES = (
    "position_deletes",
    "deletion_vectors",
    "deletes_across_specs",
    "rewrite_files",
    "upgrade",
)  # fmt: skip


def check(made: Made, name: str, told: dict[str, Any], ours: pa.Table) -> None:
    columns = schema_to_json(schema_of(name, made.table.metadata))
    assert without_docs(told["schema"]["fields"]) == without_docs(columns["fields"]), name
    assert sorted(told["rows"]) == canonical_rows(ours, told["schema"]), name


def without_docs(json: Any) -> Any:
    if isinstance(json, dict):
        return {key: without_docs(value) for key, value in json.items() if key != "doc"}
    return [without_docs(item) for item in json] if isinstance(json, list) else json


@pytest.mark.parametrize(("kind", "operation", "version"), made_ids(KINDS))
def test_metadata_tables(java_catalogs: JavaCatalogs, kind: str, operation: str, version: int) -> None:
    """All of them now, and those that can travel in time at every snapshot (which no catalog has a part in)."""
    shared = java_catalogs[kind]
    travelling = TRAVELLING if kind == "files" else []
    for made in shared.made(operation, version):
        told = shared.ask("metadataTables", made.table.name, OF_JAVA, travelling)
        for name in OF_JAVA:
            check(made, name, told["now"][name], made.table.inspect.table(name))
        assert len(told["snapshots"]) == len(made.table.snapshots)
        for snapshot in made.table.snapshots:
            for name in travelling:
                ours = made.table.inspect.table(name, snapshot=snapshot.snapshot_id)
                check(made, name, told["snapshots"][str(snapshot.snapshot_id)][name], ours)


@pytest.mark.parametrize(
    ("kind", "operation", "version"), [case for case in made_ids(("files", "sqlite")) if case[1] in WITH_DELETES]
)
def test_position_deletes(java_catalogs: JavaCatalogs, kind: str, operation: str, version: int) -> None:
    shared = java_catalogs[kind]
    for made in shared.made(operation, version):
        if made.table.format_version == 1:
            continue
        frame = shared.spark.sql(f"SELECT * FROM {shared.key}.{made.table.name}.position_deletes")
        ours = made.table.inspect.position_deletes()
        assert ours.num_rows or operation not in ("position_deletes", "deletion_vectors")
        # PySpark cannot hand out nulls of a struct with required fields, and nobody here stores the deleted rows.
        assert ours["row"].null_count == ours.num_rows
        assert frame.where("row IS NOT NULL").count() == 0
        columns = schema_to_json(schema_of(BY_SPARK, made.table.metadata))
        columns["fields"] = [field for field in columns["fields"] if field["name"] != "row"]
        assert set(frame.columns) == set(ours.column_names)
        ours = ours.drop_columns(["row"])
        told = frame.drop("row").toArrow().select(ours.column_names)
        assert canonical_rows(told, columns) == canonical_rows(ours, columns)
