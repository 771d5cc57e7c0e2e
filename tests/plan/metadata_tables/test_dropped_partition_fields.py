"""Partition fields that were dropped from a table of version 1: they stay in the spec as `void`, with null values."""

import pytest

import floe
from floe import Table
from floe.plan.metadata_tables.tables import NAMES
from floe.spec.manifests.entries import DataFile, FileContent


def data_file(table: Table, name: str, partition: tuple[object, ...]) -> DataFile:
    path = f"{table.location}/data/{name}"
    return DataFile(FileContent.DATA, path, "parquet", partition, 1, 100, spec_id=table.spec.spec_id)


@pytest.mark.parametrize(
    ("term", "value"), [("bucket(3, part)", 2), ("year(ts)", 54), ("truncate(2, part)", "aa"), ("part", "a")]
)
def test_values_of_before_and_nulls_of_after_are_shown_together(term: str, value: object) -> None:
    """`void` has the type of its source column, whatever the field had before (spec: Partition Transforms)."""
    with floe.connect("memory:") as lake:
        lake.create_namespace("db")
        table = lake.create_table("db.t", "part string, ts timestamp", partition_by=[term], format_version=1)
        name = table.spec.fields[0].name
        table.append_files([data_file(table, "before", (value,))])
        table.update_spec().remove_field(name).commit()
        table.append_files([data_file(table, "after", (None,))])
        for which in NAMES:
            table.inspect.table(which)
        files = table.inspect.files(columns=["file_path", "partition"]).to_pylist()
        shown = {row["file_path"].rpartition("/")[2]: row["partition"][name] for row in files}
        assert shown == {"before": value, "after": None}
