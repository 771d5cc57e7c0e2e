"""PyIceberg opens every table that Floe makes, in files and SQL catalogs, and reads every snapshot.

The rows are compared with the model in `helpers.table_maker`, the metadata tables with Floe's own. What PyIceberg
cannot do, or does otherwise than Java, is in lists here with its reason; a test fails when a line there is out of date.
"""

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable, Table as PyIcebergTable

import floe
from floe import Lake
from helpers.made_tables import OPERATIONS, make
from helpers.postgres import postgres_database
from helpers.table_maker import Made, plain
from helpers.table_rows import Rows

# PyIceberg closes files and connections when they are collected
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::DeprecationWarning"
)

INSPECTED = (
    "snapshots", "history", "refs", "metadata_log_entries", "manifests", "entries", "files", "data_files",
    "delete_files", "partitions", "all_manifests", "all_files", "all_data_files", "all_delete_files",
)  # fmt: skip
OF_FILES = ("files", "data_files", "delete_files", "all_files", "all_data_files", "all_delete_files")

NO_EQUALITY_DELETES = "PyIceberg does not yet support equality deletes"
NO_SNAPSHOT = "Cannot get a snapshot as the table does not have any"
NO_SIZES = "'NoneType' object is not iterable"
"""`entries` needs the sizes of columns, which the format has as optional, of every file."""

VOID_TYPE = "Expected bytes, got a 'int' object"
"""A dropped partition field of version 1 is taken for one of its source's type, whatever older files hold."""

EQUALITY_DELETES = ("equality_deletes", "equality_deletes_everywhere", "deletes_across_specs")
WITHOUT_SIZES = (
    *EQUALITY_DELETES, "replace_all", "position_deletes", "deletion_vectors", "upgrade",
)  # fmt: skip


def refused_scan(made: Made, snapshot_id: int | None) -> str | None:
    """The error with which PyIceberg refuses to read a snapshot."""
    scan = made.table.scan(snapshot=snapshot_id)
    deletes = [file for task in scan.plan().tasks() for file in task.deletes]
    return NO_EQUALITY_DELETES if any(file.is_equality_delete_file for file in deletes) else None


def refused_table(made: Made, name: str) -> str | None:
    """The error with which PyIceberg refuses a metadata table."""
    if made.operation == "create" and name in ("entries", "partitions"):
        return NO_SNAPSHOT
    if made.operation == "transforms" and made.version == 1 and name in ("entries", *OF_FILES):
        return None if name.endswith("delete_files") else VOID_TYPE
    bare = made.operation in WITHOUT_SIZES or (made.operation == "rewrite_files" and made.version > 1)
    bare |= made.operation == "statements_merge_on_read" and made.version > 2
    return NO_SIZES if name == "entries" and bare else None


DIFFERS: dict[tuple[str, str], tuple[Callable[[Made], bool], str]] = {
    ("manifests", "partition_summaries"): (
        lambda made: has_empty_summaries(made, made.table.inspect.manifests()),
        "bounds of a field without values are null, where Java says 'null'",
    ),
    ("all_manifests", "partition_summaries"): (
        lambda made: has_empty_summaries(made, made.table.inspect.all_manifests()),
        "bounds of a field without values are null, where Java says 'null'",
    ),
    **{
        (name, column): (
            lambda made: made.operation == "spec_evolution",
            "values of a renamed partition field are looked for under its new name, where files have the old one",
        )
        for name, column in (
            ("entries", "data_file"),
            *((name, "partition") for name in ("files", "data_files", "all_files", "all_data_files", "partitions")),
        )
    },
    ("entries", "data_file"): (
        lambda made: made.operation in ("spec_evolution", "statements_merge_on_read"),
        "a renamed partition field, as above; counts that a delete file has not are an empty map",
    ),
}


def has_empty_summaries(made: Made, manifests: pa.Table) -> bool:
    summaries = [summary for listed in manifests["partition_summaries"].to_pylist() for summary in listed or ()]
    return any(summary["lower_bound"] == "null" for summary in summaries)


def rows_of(table: pa.Table) -> Rows:
    return plain(table.to_pylist())


@contextmanager
def refuses(message: str | None) -> Iterator[None]:
    """What is inside works, or fails with an error that says the message."""
    if message is None:
        yield
    else:
        with pytest.raises(Exception, match=message):
            yield


def check_rows(made: Made, theirs: PyIcebergTable) -> None:
    """The rows of every snapshot, branch and tag."""
    assert {snapshot.snapshot_id for snapshot in theirs.metadata.snapshots} == set(made.rows)
    for snapshot_id, rows in made.rows.items():
        with refuses(refused_scan(made, snapshot_id)):
            assert rows_of(theirs.scan(snapshot_id=snapshot_id).to_arrow()) == plain(rows)
    assert set(theirs.metadata.refs) == set(made.table.refs)
    for name, ref in made.table.refs.items():
        rows = made.branches[name] if ref.is_branch else made.rows[ref.snapshot_id]
        with refuses(refused_scan(made, ref.snapshot_id)):
            assert rows_of(theirs.scan().use_ref(name).to_arrow()) == plain(rows)


def check_inspected(made: Made, theirs: PyIcebergTable) -> None:
    """All metadata tables, in the columns that PyIceberg has."""
    for name in INSPECTED:
        with refuses(refused_table(made, name)):
            told = getattr(theirs.inspect, name)()
            ours = made.table.inspect.table(name)
            for column in told.column_names:
                if column == "partition" and column not in ours.column_names:
                    assert made.table.spec.is_unpartitioned  # Java and Floe leave it out of tables without partitions
                    continue
                values = comparable(told[column], ours[column].type)
                expected = comparable(ours[column], told[column].type)
                differs, reason = DIFFERS.get((name, column), (lambda made: False, ""))
                assert (values != expected) == differs(made), (name, column, reason)


def comparable(column: pa.ChunkedArray, other: pa.DataType) -> list[str]:
    """A column's values as sorted texts; of structs the fields that another type has too."""
    return sorted(repr(_comparable(value, other)) for value in column.to_pylist())


def _comparable(value: Any, other: pa.DataType | None) -> Any:
    if isinstance(value, dict):
        types = {field.name: field.type for field in other} if isinstance(other, pa.StructType) else None
        names = sorted(value if types is None else set(value) & set(types))
        return {name: _comparable(value[name], None if types is None else types[name]) for name in names}
    if isinstance(value, list):
        items = [_comparable(item, None) for item in value]
        return sorted(items) if items and isinstance(items[0], tuple) else items  # the pairs of a map
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def cases(kind: str) -> list[tuple[str, int]]:
    return [(name, v) for name, chosen in OPERATIONS.items() if kind in chosen.kinds for v in chosen.versions]


def made_in(lake: Lake, operation: str, version: int) -> list[Made]:
    lake.create_namespace("made", if_not_exists=True)
    return make(lake, operation, version)


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "version"), cases("files"))
def test_by_metadata_file(tmp_path: Path, operation: str, version: int) -> None:
    """The rows of every snapshot, and all metadata tables."""
    with floe.connect(tmp_path / "warehouse", durable=False) as lake:
        for made in made_in(lake, operation, version):
            theirs = StaticTable.from_metadata(made.table.metadata_location)
            check_rows(made, theirs)
            check_inspected(made, theirs)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgres_database() as uri:
        yield uri


@pytest.mark.parametrize("operation", [name for name, chosen in OPERATIONS.items() if "sqlite" in chosen.kinds])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_in_a_database(tmp_path: Path, request: pytest.FixtureRequest, kind: str, operation: str) -> None:
    """The same database, opened by both; which snapshots and versions there are has no part in it."""
    version = OPERATIONS[operation].versions[-1]
    uri = f"sqlite:///{tmp_path}/lake.db" if kind == "sqlite" else request.getfixturevalue("database")
    name = f"catalog_of_{operation}"
    catalog = None
    with floe.connect(uri, name=name, warehouse=str(tmp_path / "warehouse"), durable=False) as lake:
        mades = made_in(lake, operation, version)
        try:
            catalog = SqlCatalog(name, uri=uri.replace("postgresql://", "postgresql+psycopg://"))
            assert sorted(".".join(found) for found in catalog.list_tables("made")) == sorted(lake.tables("made"))
            for made in mades:
                theirs = catalog.load_table(made.table.name)
                assert theirs.metadata_location == made.table.metadata_location
                with refuses(refused_scan(made, None)):
                    assert rows_of(theirs.scan().to_arrow()) == plain(made.current)
        finally:
            if catalog is not None:
                catalog.engine.dispose()
