"""The files that a scan reads and what deletes them: no session is needed."""

import tracemalloc

import numpy as np
import pytest

import floe
from floe.spark.read.scan_source import PlannedFiles
from floe.table.table import Table
from helpers.synthetic_files import data_file, equality_deletes, position_deletes


@pytest.fixture
def table() -> Table:
    lake = floe.connect("memory:")
    lake.create_namespace("db")
    return lake.create_table("db.t", "id bigint", format_version=2)


def append(table: Table, begin: int, count: int) -> None:
    table.append_files([data_file(table, f"f{n}", (10 * n, 10 * n + 9)) for n in range(begin, begin + count)])


def test_deletes_of_some_files_are_those_of_the_plan(table: Table) -> None:
    append(table, 0, 5)
    files = [task.file for task in table.scan().plan().tasks()]
    table.row_delta((), [position_deletes(table, f"p{n}", files[n]) for n in (1, 3)])
    table.row_delta((), [equality_deletes(table, "early")])
    append(table, 5, 3)
    table.row_delta((), [equality_deletes(table, "late")])
    append(table, 8, 1)
    plan = table.scan().plan()
    names = [path.rpartition("/")[2] for path in plan.deletes_to_arrow()["file_path"].to_pylist()]
    expected = {row["file_path"]: {names[number] for number in row["deletes"]} for row in plan.to_arrow().to_pylist()}
    every = PlannedFiles(plan)
    for chosen in (every, every.select(np.arange(len(every)) % 2 == 1), every.select_paths([files[0].file_path])):
        paths = chosen.table["file_path"].to_pylist()
        owners, numbers = chosen.position_deletes
        found = [(paths[owner], names[number]) for owner, number in zip(owners, numbers, strict=True)]
        assert sorted(found) == sorted(
            (p, one) for p in paths for one in expected[p] if not one.endswith("-eq.parquet")
        )
        by_key = {path: {one for one in expected[path] if one.endswith("-eq.parquet")} for path in paths}
        assert chosen.has_equality_deletes.tolist() == [bool(by_key[path]) for path in paths]
        assert {names[number] for number in chosen.equality_deletes} == set().union(*by_key.values())
        tasks = {t.file.file_path: {d.file_path.rpartition("/")[2] for d in t.deletes} for t in chosen.tasks()}
        assert tasks == {path: expected[path] for path in paths}


def test_memory_does_not_grow_with_the_pairs_of_files_and_equality_deletes(table: Table) -> None:
    append(table, 0, 4000)
    deletes = [equality_deletes(table, f"e{n}") for n in range(3600)]
    table.row_delta((), deletes[:1200])
    few = peak(table, 1200)
    table.row_delta((), deletes[1200:])
    assert peak(table, 3600) < 1.5 * few


def peak(table: Table, deletes: int) -> int:
    """How many bytes it takes to look at all deletes."""
    plan = table.scan().plan()
    tracemalloc.start()
    try:
        files = PlannedFiles(plan)
        assert files.has_equality_deletes.all()
        assert len(files.equality_deletes) == deletes
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
