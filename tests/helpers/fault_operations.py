"""Everything that a user can do to a lake, once each, on a lake that has a history: for tests with faults."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from floe import Lake, Table
from floe.catalog.protocol import Capability
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.table_metadata import StatisticsFile
from floe.storage.environment import deterministic_environment
from floe.storage.protocol import Storage
from helpers.fault_files import COLUMNS, DAY, put_data, put_equality, put_positions, put_vector
from helpers.fault_worlds import WAREHOUSE, Content, World

START_MS = 1_715_947_200_000
HOUR_MS = 3_600_000
FOLDER = f"{WAREHOUSE}/db/t/data"
STATISTICS = f"{WAREHOUSE}/db/t/metadata/one.stats"

ROWS: dict[str, tuple[tuple[int, ...], int]] = {
    "a": ((1, 2, 3), DAY),
    "b": ((4, 5, 6), DAY + 1),
    "c": ((7, 8, 9), DAY),
    "d": ((10, 11, 12), DAY + 2),
    "e": ((13, 14), DAY),
    "audited": ((15, 16), DAY),
    "staged": ((17, 18), DAY),
    "ce": ((7, 8, 9, 13, 14), DAY),
    "new": ((21, 22, 23), DAY),
    "more": ((24, 25, 26), DAY + 1),
    "fresh": ((10, 30), DAY + 2),
    "rival": ((90, 91), DAY + 5),
    "other": ((92, 93), DAY),
}


@dataclass(frozen=True)
class Files:
    """The files that engines have written, by name, in the format that a version of tables has."""

    data: dict[str, DataFile]
    deletes: dict[str, DataFile]


@dataclass(frozen=True)
class Operation:
    """Something to do, and what it needs.

    `rival` if somebody else commits between its reading and its publishing; `prepare` happens before all faults.
    """

    name: str
    run: Callable[[Lake, Files], Any]
    version: int = 2
    needs: frozenset[Capability] = frozenset()
    rival: bool = False
    prepare: Callable[[Lake, Files], Any] | None = None
    tags: frozenset[str] = field(default_factory=frozenset)

    def __str__(self) -> str:
        return f"{self.name}, v{self.version}{', after losing a race' if self.rival else ''}"


def put_files(storage: Storage, version: int) -> Files:
    """Writes all files that operations commit."""
    data = {name: put_data(storage, f"{_folder(name)}/{name}.parquet", *rows) for name, rows in ROWS.items()}
    put = put_vector if version >= 3 else put_positions
    end = "puffin" if version >= 3 else "parquet"
    deletes = {
        "of a": put(storage, f"{FOLDER}/of-a.{end}", data["a"], (0,)),
        "of b": put(storage, f"{FOLDER}/of-b.{end}", data["b"], (1, 2)),
        "of d": put(storage, f"{FOLDER}/of-d.{end}", data["d"], (0,)),
        "of ids": put_equality(storage, f"{FOLDER}/of-ids.parquet", (8, 13)),
    }
    storage.write(STATISTICS, b"puffin", overwrite=True)
    return Files(data, deletes)


def _folder(name: str) -> str:
    return f"{WAREHOUSE}/db/other/data" if name == "other" else FOLDER


def build(world: World, version: int) -> tuple[Content, Files]:
    """A lake with a history: main with deletes, a branch, tags, something staged, a view, and other tables."""
    environment = deterministic_environment(version, start_ms=START_MS)
    lake = Lake(world.catalog(world.files, environment), environment)
    clock = environment.clock
    lake.create_namespace("db")
    lake.create_namespace("empty")
    files = put_files(world.files, version)
    data = files.data
    properties = {"commit.manifest.min-count-to-merge": 4, "owner": "somebody"}
    t = lake.create_table("db.t", COLUMNS, partition_by=["day"], format_version=version, properties=properties)
    t.append_files([data["a"], data["b"]])
    clock.advance(HOUR_MS)  # type: ignore[attr-defined]
    t.create_tag("old")
    t.append_files([data["c"]], fast=True)
    t.create_branch("behind")
    clock.advance(HOUR_MS)  # type: ignore[attr-defined]
    if version > 1:
        t.row_delta(deletes=[files.deletes["of a"]])
    t.append_files([data["d"], data["e"]], fast=True)
    t.branch("audit", create=True).append_files([data["audited"]])
    t.stage("w1").append_files([data["staged"]])
    t.create_tag("spare")
    other = lake.create_table("db.other", COLUMNS, partition_by=["day"], format_version=version)
    other.append_files([data["other"]])
    tidy = {"write.metadata.previous-versions-max": 1, "write.metadata.delete-after-commit.enabled": "true"}
    tidied = lake.create_table("db.tidy", COLUMNS, partition_by=["day"], format_version=version, properties=tidy)
    tidied.set_properties({"step": 1})
    tidied.set_properties({"step": 2})
    lake.create_view("db.v", "SELECT 1 AS id", schema="id int")
    clock.advance(HOUR_MS)  # type: ignore[attr-defined]
    lake.close()
    return world.content(), files


# the operations ---------------------------------------------------------------------------------------------------


def t(lake: Lake) -> Table:
    return lake.table("db.t")


def _statistics(lake: Lake, files: Files) -> None:
    table = t(lake)
    assert table.current_snapshot is not None
    file = StatisticsFile(
        snapshot_id=table.current_snapshot.snapshot_id,
        statistics_path=STATISTICS,
        file_size_in_bytes=6,
        file_footer_size_in_bytes=3,
        blob_metadata=(),
    )
    table.update_statistics([file])


def _staged(table: Table) -> int:
    return next(s.snapshot_id for s in table.snapshots if (s.summary or {}).get("wap.id") == "w1")


def _cherry_pick(lake: Lake, files: Files) -> None:
    table = t(lake)
    table.cherry_pick(_staged(table))


def _rollback(lake: Lake, files: Files) -> None:
    table = t(lake)
    table.rollback("old")


def _fast_forward(lake: Lake, files: Files) -> None:
    t(lake).fast_forward("main", "audit")


def _let_go(lake: Lake, files: Files) -> None:
    with t(lake).transaction() as tx:
        tx.drop_tag("old")
        tx.drop_branch("behind")
        tx.delete_files([files.data["b"]])


def _expire(lake: Lake, files: Files) -> None:
    t(lake).expire(older_than="30m", retain_last=1).apply()


def _expire_and_clean(lake: Lake, files: Files) -> None:
    t(lake).expire(older_than="30m", retain_last=1, clean_metadata=True).apply()


def _transaction(lake: Lake, files: Files) -> None:
    with t(lake).transaction() as tx:
        tx.evolve().add_column("note", "string")
        tx.set_properties({"owner": "me"})
        tx.append_files([files.data["new"]])
        tx.delete_files([files.data["b"]])
        tx.create_tag("v1", snapshot="old")


def _two_tables(lake: Lake, files: Files) -> None:
    with lake.transaction() as tx:
        tx.table("db.t").append_files([files.data["new"]])
        tx.table("db.other").append_files([files.data["more"]])
        tx.table("db.tidy").set_properties({"step": 3})


def _create(lake: Lake, files: Files) -> None:
    lake.create_table("db.made", COLUMNS, partition_by=["day"], properties={"owner": "me"})


def _create_or_replace(lake: Lake, files: Files) -> None:
    lake.create_or_replace_table("db.made", COLUMNS)


def _create_and_fill(lake: Lake, files: Files) -> None:
    with lake.create_table_transaction("db.made", COLUMNS, partition_by=["day"]) as tx:
        tx.append_files([files.data["new"]])
        tx.set_properties({"owner": "me"})


def _replace_and_fill(lake: Lake, files: Files) -> None:
    with lake.create_table_transaction("db.t", COLUMNS, partition_by=["day"], or_replace=True) as tx:
        tx.append_files([files.data["new"]])


def _replace(lake: Lake, files: Files) -> None:
    lake.replace_table("db.t", f"{COLUMNS}, note string", partition_by=["day"])


def _register(lake: Lake, files: Files) -> None:
    location = lake.table("db.other").metadata_location
    lake.register_table("db.again", location)


def _drop_other(lake: Lake, files: Files) -> None:
    lake.drop_table("db.other")


def _register_dropped(lake: Lake, files: Files) -> None:
    """In a folder: what was dropped comes back from the file that a drop leaves."""
    storage, folder = t(lake).storage, f"{WAREHOUSE}/db/other/metadata"
    (record,) = [f.location for f in storage.list(folder) if f.location.rpartition("/")[2].startswith("dropped-")]
    lake.register_table("db.other", record)


def _replace_view(lake: Lake, files: Files) -> None:
    lake.view("db.v").replace("SELECT 2 AS id", schema="id int")


def _append_new(table: Any, files: Files, **how: Any) -> None:
    table.append_files([files.data["new"]], **how)


_SEVERAL = frozenset({Capability.SEVERAL_TABLES})
_RENAME = frozenset({Capability.RENAME})
_PLACES = frozenset({Capability.CUSTOM_LOCATIONS})
_ANYWHERE = frozenset({Capability.REGISTER_ANYWHERE})
_VIEWS = frozenset({Capability.VIEWS})
_RENAME_VIEWS = frozenset({Capability.RENAME_VIEWS})
_FOLDERS = frozenset({"folders only"})


@cache
def operations() -> tuple[Operation, ...]:
    """Every operation; those that write rows or deletes in each format version that treats them differently."""
    op = Operation
    return (
        op("append", lambda lake, f: _append_new(t(lake), f)),
        op("append", lambda lake, f: _append_new(t(lake), f), rival=True),
        op("append", lambda lake, f: _append_new(t(lake), f), version=3),
        op("append", lambda lake, f: _append_new(t(lake), f), version=3, rival=True),
        op("append", lambda lake, f: _append_new(t(lake), f, check_duplicates=False), version=1),
        op("fast append", lambda lake, f: _append_new(t(lake), f, fast=True)),
        op("append to a branch", lambda lake, f: _append_new(t(lake).branch("audit"), f)),
        op("append to a new branch", lambda lake, f: _append_new(t(lake).branch("b", create=True), f)),
        op("append to a tidy table", lambda lake, f: _append_new(lake.table("db.tidy"), f)),
        op("stage", lambda lake, f: _append_new(t(lake).stage("w2"), f)),
        op("overwrite", lambda lake, f: t(lake).overwrite_files([f.data["new"]], removed=[f.data["c"]])),
        op("overwrite by filter", lambda lake, f: t(lake).overwrite_files([f.data["fresh"]], where="day='2024-05-19'")),
        op("replace partitions", lambda lake, f: t(lake).replace_partitions([f.data["more"]])),
        op("replace partitions", lambda lake, f: t(lake).replace_partitions([f.data["more"]]), version=1),
        op("delete files", lambda lake, f: t(lake).delete_files([f.data["b"]])),
        op("delete files", lambda lake, f: t(lake).delete_files([f.data["a"]]), version=3),
        op("delete by filter", lambda lake, f: t(lake).delete("day = '2024-05-18'")),
        op("row delta", lambda lake, f: t(lake).row_delta([f.data["new"]], [f.deletes["of b"]])),
        op("row delta", lambda lake, f: t(lake).row_delta([f.data["new"]], [f.deletes["of b"]]), version=3),
        op(
            "row delta",
            lambda lake, f: t(lake).row_delta([], [f.deletes["of b"], f.deletes["of d"]], read="id = 4"),
            version=3,
            rival=True,
        ),
        op("equality deletes", lambda lake, f: t(lake).row_delta(deletes=[f.deletes["of ids"]])),
        op("rewrite files", lambda lake, f: t(lake).rewrite_files([f.data["c"], f.data["e"]], [f.data["ce"]])),
        op(
            "rewrite files",
            lambda lake, f: t(lake).rewrite_files([f.data["c"], f.data["e"]], [f.data["ce"]]),
            rival=True,
        ),
        op(
            "rewrite files",
            lambda lake, f: t(lake).rewrite_files([f.data["c"], f.data["e"]], [f.data["ce"]]),
            version=3,
        ),
        op("rewrite manifests", lambda lake, f: t(lake).rewrite_manifests()),
        op("rewrite manifests", lambda lake, f: t(lake).rewrite_manifests(), version=3, rival=True),
        op("cherry-pick", _cherry_pick),
        op("cherry-pick", _cherry_pick, rival=True),
        op("publish", lambda lake, f: t(lake).publish("w1")),
        op("rollback", _rollback),
        op("set current", lambda lake, f: t(lake).set_current("audit")),
        op("fast-forward", _fast_forward),
        op("create branch", lambda lake, f: t(lake).create_branch("b", snapshot="old", min_snapshots=2)),
        op("create tag", lambda lake, f: t(lake).create_tag("v1"), rival=True),
        op("replace tag", lambda lake, f: t(lake).replace_tag("spare", "old")),
        op("drop branch", lambda lake, f: t(lake).drop_branch("behind")),
        op("rename branch", lambda lake, f: t(lake).rename_branch("behind", "before")),
        op("retention", lambda lake, f: t(lake).set_retention("behind", max_ref_age="9d")),
        op("expire", _expire, prepare=_let_go),
        op("expire", _expire, prepare=_let_go, version=3),
        op("expire and clean", _expire_and_clean),
        op("schema", lambda lake, f: t(lake).evolve().add_column("note", "string").commit()),
        op("schema", lambda lake, f: t(lake).evolve().add_column("note", "string").commit(), rival=True),
        op("spec", lambda lake, f: t(lake).update_spec().add_field("bucket(4, id)").commit()),
        op("sort order", lambda lake, f: t(lake).update_sort("id desc")),
        op("properties", lambda lake, f: t(lake).set_properties({"owner": "me"}), rival=True),
        op("remove properties", lambda lake, f: t(lake).remove_properties("owner")),
        op("location", lambda lake, f: t(lake).set_location(f"{WAREHOUSE}/elsewhere"), needs=_PLACES),
        op("statistics", _statistics),
        op("upgrade", lambda lake, f: t(lake).upgrade(2), version=1),
        op("upgrade", lambda lake, f: t(lake).upgrade(3)),
        op("create table", _create),
        op("create or replace", _create_or_replace),
        op("replace or create", lambda lake, f: lake.create_or_replace_table("db.other", COLUMNS)),
        op("replace table", _replace),
        op("create and fill", _create_and_fill),
        op("replace and fill", _replace_and_fill),
        op("replace and fill", _replace_and_fill, version=3, rival=True),
        op("transaction", _transaction),
        op("transaction", _transaction, version=3, rival=True),
        op("several tables", _two_tables, needs=_SEVERAL),
        op("several tables", _two_tables, needs=_SEVERAL, version=3, rival=True),
        op("drop", lambda lake, f: lake.drop_table("db.t")),
        op("purge", lambda lake, f: lake.purge_table("db.t")),
        op("rename", lambda lake, f: lake.rename_table("db.t", "db.renamed"), needs=_RENAME),
        op("register", _register, needs=_ANYWHERE),
        op("register what was dropped", _register_dropped, prepare=_drop_other, tags=_FOLDERS),
        op("create namespace", lambda lake, f: lake.create_namespace("made.below", {"owner": "me"})),
        op("namespace properties", lambda lake, f: lake.update_namespace("db", {"owner": "me"})),
        op("drop namespace", lambda lake, f: lake.drop_namespace("empty")),
        op("create view", lambda lake, f: lake.create_view("db.w", "SELECT 3 AS id", schema="id int"), needs=_VIEWS),
        op("replace view", _replace_view, needs=_VIEWS),
        op("drop view", lambda lake, f: lake.drop_view("db.v"), needs=_VIEWS),
        op("rename view", lambda lake, f: lake.rename_view("db.v", "db.w"), needs=_RENAME_VIEWS),
    )
