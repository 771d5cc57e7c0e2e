"""The lost delete: a merge-on-read DELETE beside an UPDATE of the same row, in Java Iceberg and in Floe.

Both read the same snapshot; the update commits first. Java, asked for what Spark's DELETE asks for, lets the delete
through: its deletes point at the row's old place, and the updated row stays. Floe refuses it by itself.
"""

from typing import Any

import pytest

from floe import Table
from floe.errors import ConflictingChange
from helpers.java_catalogs import JavaCatalogs, Shared
from helpers.table_maker import Made, Maker
from helpers.table_rows import Rows, read_rows

# Spark's own Python side leaves sockets to the garbage collector
pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

RED: Rows = [{"name": "jack", "color": "red", "letter": "A"}]
BLUE: Rows = [{"name": "jack", "color": "blue", "letter": "A"}]
AS_SPARK_DELETES = ["data files exist"]
AS_SPARK_UPDATES = ["data files exist", "deleted files", "no conflicting deletes"]


@pytest.fixture
def shared(java_catalogs: JavaCatalogs) -> Shared:
    catalog = java_catalogs["files"]
    catalog.lake.create_namespace("seed", if_not_exists=True)
    return catalog


def new_table(shared: Shared, name: str) -> Maker:
    table = shared.lake.create_table(f"seed.{name}", "name string, color string, letter string", format_version=2)
    maker = Maker(shared.lake, Made("seed", 2, table))
    table.append_files(maker.write(RED))
    return maker


def colors(table: Table) -> list[str]:
    return [row["color"] for row in read_rows(table.refresh())]


def deletes_of(maker: Maker) -> list[Any]:
    [file] = maker.files()
    return [{"file": file.file_path, "positions": [0]}]


def update_then_delete(shared: Shared, maker: Maker, validate: list[str]) -> None:
    """The schedule: both start from the first snapshot, the update commits, then the delete."""
    snapshot = maker.table.current_snapshot
    assert snapshot is not None
    common = {"do": "position deletes", "deletes": deletes_of(maker), "from": snapshot.snapshot_id}
    shared.ask("change", maker.table.name, {**common, "rows": BLUE, "validate": AS_SPARK_UPDATES})
    shared.ask("change", maker.table.name, {**common, "validate": validate})


def test_java_loses_the_delete(shared: Shared) -> None:
    maker = new_table(shared, "java")
    update_then_delete(shared, maker, AS_SPARK_DELETES)
    assert colors(maker.table) == ["blue"]
    assert [s.operation for s in maker.table.snapshots] == ["append", "overwrite", "delete"]


def test_java_finds_the_conflict_when_it_is_asked_to(shared: Shared) -> None:
    maker = new_table(shared, "java_asked")
    with pytest.raises(Exception, match="new conflicting delete files"):
        update_then_delete(shared, maker, AS_SPARK_UPDATES)
    assert colors(maker.table) == ["blue"]


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_floe_needs_not_be_asked(shared: Shared, isolation: str) -> None:
    maker = new_table(shared, f"floe_{isolation}")
    stale = shared.lake.table(maker.table.name)
    [target] = maker.files()
    deletes = [maker.position_deletes_of(target, [0]) for _ in range(2)]
    maker.table.row_delta(maker.write(BLUE), deletes[:1], read="name = 'jack'", isolation=isolation)
    with pytest.raises(ConflictingChange):
        stale.row_delta(deletes=deletes[1:], read="name = 'jack'", isolation=isolation)
    assert colors(maker.table) == ["blue"]


def test_floe_refuses_it_after_javas_update_too(shared: Shared) -> None:
    """The rules look at what was committed, not at who did."""
    maker = new_table(shared, "both")
    stale = shared.lake.table(maker.table.name)
    [target] = maker.files()
    snapshot = maker.table.current_snapshot
    assert snapshot is not None
    update = {"do": "position deletes", "deletes": deletes_of(maker), "from": snapshot.snapshot_id, "rows": BLUE}
    shared.ask("change", maker.table.name, {**update, "validate": AS_SPARK_UPDATES})
    with pytest.raises(ConflictingChange):
        stale.row_delta(deletes=[maker.position_deletes_of(target, [0])], read="name = 'jack'", isolation="snapshot")
    assert colors(maker.table) == ["blue"]
