"""Tables made by each operation, in each format version and kind of catalog, and beside each what it must hold.

`make_all(lake, kind)` makes every table that a kind of catalog can have, through the public API; `helpers.table_maker`
says where the expected rows come from.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from floe import Lake, Table
from floe.spec.codecs import puffin
from floe.spec.metadata.table_metadata import BlobMetadata, StatisticsFile
from helpers.table_maker import COLUMNS, Made, Maker, new_rows
from helpers.table_rows import Rows

KINDS = ("files", "sqlite", "postgres")
"""The kinds of catalogs that both Java and Floe can open."""


@dataclass(frozen=True)
class Operation:
    """How a table is made."""

    name: str
    make: Callable[[Maker], Made | None] = field(repr=False)
    versions: tuple[int, ...]
    kinds: tuple[str, ...]
    partition_by: tuple[str, ...]
    properties: dict[str, Any]


OPERATIONS: dict[str, Operation] = {}


def operation(
    *partition_by: str,
    versions: tuple[int, ...] = (1, 2, 3),
    kinds: tuple[str, ...] = KINDS,
    properties: dict[str, Any] | None = None,
) -> Callable[[Callable[[Maker], Made | None]], Callable[[Maker], Made | None]]:
    """A function that changes a new table, and may give a second table that it made."""

    def register(make: Callable[[Maker], Made | None]) -> Callable[[Maker], Made | None]:
        name = make.__name__
        OPERATIONS[name] = Operation(name, make, versions, kinds, partition_by, properties or {})
        return make

    return register


def make_all(lake: Lake, kind: str, names: Iterable[str] | None = None) -> Iterator[Made]:
    """Every operation in every format version that has it, in the namespace `made`."""
    lake.create_namespace("made", if_not_exists=True)
    for name in OPERATIONS if names is None else names:
        if kind in OPERATIONS[name].kinds:
            for version in OPERATIONS[name].versions:
                yield from make(lake, name, version)


def make(lake: Lake, name: str, version: int) -> list[Made]:
    """The tables of one operation: one, or two."""
    chosen = OPERATIONS[name]
    table = new_table(lake, f"made.{name}_v{version}", chosen, version)
    made = Made(name, version, table)
    second = chosen.make(Maker(lake, made))
    return [made] if second is None else [made, second]


def new_table(lake: Lake, name: str, chosen: Operation, version: int) -> Table:
    """An empty table for an operation."""
    return lake.create_table(
        name, COLUMNS, partition_by=chosen.partition_by, format_version=version, properties=chosen.properties
    )


@operation("part", "day(at)", properties={"owner": "ü'%", "commit.retry.num-retries": 7})
def create(maker: Maker) -> None:
    """Nothing but the table."""
    maker.table.update_sort("id desc nulls last", "bucket(4, part)")


@operation("day(at)")
def fast_append(maker: Maker) -> None:
    for first in (0, 6, 12):
        maker.append(first, 6, fast=True)


@operation("part", properties={"commit.manifest.min-count-to-merge": 3, "write.summary.partition-limit": 3})
def merge_append(maker: Maker) -> None:
    """Small manifests are merged again and again; with deletes between them too."""
    for first in range(0, 18, 3):
        maker.append(first, 3)
    maker.saw(maker.table.delete("part = 'a'").snapshot, [row for row in maker.rows if row["part"] != "a"])
    for first in range(18, 24, 3):
        maker.append(first, 3)


@operation("part")
def overwrite_by_filter(maker: Maker) -> None:
    maker.append(0, 12)
    added = new_rows(20, 3, part="a")
    kept = [row for row in maker.rows if row["part"] != "a"]
    maker.saw(maker.table.overwrite_files(maker.write(added), where="part = 'a'"), kept + added)
    maker.saw(maker.table.overwrite_files(where="part is null"), [row for row in maker.rows if row["part"] is not None])


@operation()
def overwrite_by_files(maker: Maker) -> None:
    """As an UPDATE that writes files anew."""
    maker.append(0, 5)
    maker.append(5, 5)
    removed = maker.files("id = 7")
    assert len(removed) == 1
    changed = [{**row, "amount": Decimal("99.99")} if row["id"] == 7 else row for row in maker.holds(removed[0])]
    ids = {row["id"] for row in changed}
    files = maker.write(changed)
    maker.saw(maker.table.overwrite_files(files, removed=removed, read="id = 7"), maker.without(ids) + changed)


@operation("part")
def replace_partitions(maker: Maker) -> None:
    maker.append(0, 12)
    added = new_rows(20, 2, part="b") + new_rows(24, 2, part=None)
    kept = [row for row in maker.rows if row["part"] not in ("b", None)]
    maker.saw(maker.table.replace_partitions(maker.write(added)), kept + added)
    fresh = new_rows(30, 2, part="new")
    maker.saw(maker.table.replace_partitions(maker.write(fresh), only_new=True), maker.rows + fresh)


@operation()
def replace_all(maker: Maker) -> None:
    """Dynamic overwrite of a table without partitions; the new file comes with few metrics."""
    maker.append(0, 4)
    rows = new_rows(9, 2)
    few = [
        replace(file, column_sizes=None, nan_value_counts=None, split_offsets=None, sort_order_id=None)
        for file in maker.write(rows)
    ]
    maker.saw(maker.table.replace_partitions(few), rows)


@operation("part", versions=(2,))
def position_deletes(maker: Maker) -> None:
    maker.append(0, 12)
    maker.append(12, 12)
    maker.delete_positions({3, 14})
    maker.delete_positions({0, 4, 16, 20}, together=True)
    maker.delete_positions({5}, [{**row, "amount": Decimal("0.01")} for row in maker.rows if row["id"] == 5])


@operation("part", versions=(2, 3))
def equality_deletes(maker: Maker) -> None:
    """Deletes reach what was written before them, not what comes with them or after."""
    maker.append(0, 12)
    gone = [row for row in maker.rows if row["id"] in (1, 2)]
    maker.saw(maker.table.row_delta(deletes=maker.equality_deletes(gone, "id")), maker.without({1, 2}))
    upserts = [{**row, "n": 1000} for row in maker.rows if row["id"] in (4, 6)]
    maker.saw(
        maker.table.row_delta(maker.write(upserts), maker.equality_deletes(upserts, "id")),
        maker.without({4, 6}) + upserts,
    )
    by_two = [row for row in maker.rows if row["id"] in (3, 10)]  # one has a null amount, and nulls are equal here
    maker.saw(maker.table.row_delta(deletes=maker.equality_deletes(by_two, "amount", "n")), maker.without({3, 10}))
    maker.append(1, 2)


@operation(versions=(2, 3))
def equality_deletes_everywhere(maker: Maker) -> None:
    """Without partitions a delete reaches every file."""
    for first in (0, 5, 10):
        maker.append(first, 5)
    gone = [{**row, "part": "whatever"} for row in maker.rows if row["id"] in (2, 7, 12)]
    maker.saw(maker.table.row_delta(deletes=maker.equality_deletes(gone, "id")), maker.without({2, 7, 12}))


@operation("part", versions=(3,))
def deletion_vectors(maker: Maker) -> None:
    maker.append(0, 12)
    maker.append(12, 12)
    maker.saw(maker.delete_by_vectors("id in (3, 4, 15)"), maker.without({3, 4, 15}))
    maker.saw(maker.delete_by_vectors("id < 2 or id = 8"), maker.without({0, 1, 8}))  # grows the vector of id 4
    maker.append(40, 3)


@operation("part")
def delete_files(maker: Maker) -> None:
    maker.append(0, 12)
    maker.append(12, 6)
    gone = maker.files("part = 'b'")[:1]
    ids = {row["id"] for row in maker.holds(gone[0])}
    maker.saw(maker.table.delete_files([gone[0].file_path]), maker.without(ids))
    maker.saw(maker.table.delete("part = 'a'").snapshot, [row for row in maker.rows if row["part"] != "a"])
    maker.saw(maker.table.delete("true").snapshot, [])
    maker.append(50, 2)


@operation()
def rewrite_files(maker: Maker) -> None:
    """Compaction, in newer versions with deletes that end with it."""
    for first in (0, 4, 8):
        maker.append(first, 4)
    if maker.version == 2:
        maker.delete_positions({1, 9})
    if maker.version == 3:
        maker.saw(maker.delete_by_vectors("id = 1 or id = 9"), maker.without({1, 9}))
    tasks = list(maker.table.scan().plan().tasks())
    removed = [task.file for task in tasks] + [file for task in tasks for file in task.deletes]
    maker.saw(maker.table.rewrite_files(removed, maker.write(maker.rows)))


@operation("part")
def rewrite_manifests(maker: Maker) -> None:
    for first in (0, 4, 8):
        maker.append(first, 4, fast=True)
    maker.saw(maker.table.rewrite_manifests())
    maker.append(12, 4)
    maker.saw(maker.table.delete("part = 'b'").snapshot, [row for row in maker.rows if row["part"] != "b"])
    maker.saw(maker.table.rewrite_manifests())


@operation("part")
def write_audit_publish(maker: Maker) -> None:
    """Two staged changes: the first is published as it is, the second anew on top of it."""
    maker.append(0, 4)
    base = list(maker.rows)
    staged = {}
    for first, wap_id in ((10, "one"), (20, "two")):
        rows = new_rows(first, 3)
        snapshot = maker.table.stage(wap_id).append_files(maker.write(rows))
        assert snapshot is not None
        maker.made.rows[snapshot.snapshot_id] = base + rows
        staged[wap_id] = rows
    maker.rows = maker.rows + staged["one"]
    maker.saw(maker.table.publish("one"))
    maker.rows = maker.rows + staged["two"]
    maker.saw(maker.table.publish("two"))


@operation("part")
def cherry_pick(maker: Maker) -> None:
    """The changes of a branch's snapshot on main."""
    maker.append(0, 4)
    maker.table.create_branch("side")
    rows = new_rows(10, 3)
    side = maker.saw(maker.table.branch("side").append_files(maker.write(rows)), maker.rows + rows, "side")
    maker.append(20, 2)
    maker.saw(maker.table.cherry_pick(side.snapshot_id), maker.rows + rows)


@operation()
def rollback(maker: Maker) -> None:
    first = maker.append(0, 3)
    second = maker.append(3, 3)
    maker.append(6, 3)
    maker.table.rollback(first.snapshot_id)
    maker.back_to(first)
    maker.append(9, 3)
    maker.table.set_current(second.snapshot_id)
    maker.back_to(second)


@operation("part")
def branches_and_tags(maker: Maker) -> None:
    first = maker.append(0, 4)
    maker.table.create_tag("v1.0", max_ref_age="10d")
    maker.table.create_branch("audit", min_snapshots=2, max_snapshot_age="2d", max_ref_age="30d")
    maker.made.branches["audit"] = list(maker.rows)
    rows = new_rows(10, 2)
    maker.saw(maker.table.branch("audit").append_files(maker.write(rows)), maker.rows + rows, "audit")
    maker.table.create_branch("old", snapshot=first.snapshot_id)
    maker.made.branches["old"] = list(maker.rows)
    maker.table.fast_forward("main", "audit")
    maker.rows = maker.rows + rows
    maker.made.branches["main"] = list(maker.rows)
    maker.append(20, 2)
    maker.table.create_tag("gone")
    maker.table.drop_tag("gone")
    maker.table.create_branch("short")
    maker.table.rename_branch("short", "renamed")
    maker.made.branches["renamed"] = list(maker.rows)
    maker.table.set_retention("renamed", min_snapshots=5)
    maker.table.replace_tag("v1.0", "audit")


@operation("part", properties={"write.metadata.previous-versions-max": 3})
def expire(maker: Maker) -> None:
    for first in (0, 4, 8):
        maker.append(first, 4)
    maker.table.create_tag("kept", snapshot=maker.table.snapshots[1].snapshot_id)
    maker.saw(maker.table.delete("part = 'a'").snapshot, [row for row in maker.rows if row["part"] != "a"])
    maker.append(12, 4)
    before = {snapshot.snapshot_id for snapshot in maker.table.snapshots}
    maker.table.expire(older_than=dt.datetime(2200, 1, 1, tzinfo=dt.UTC), retain_last=1).apply()
    left = {snapshot.snapshot_id for snapshot in maker.table.snapshots}
    assert left < before
    maker.made.rows = {id_: rows for id_, rows in maker.made.rows.items() if id_ in left}
    maker.append(16, 4)


@operation("part")
def schema_evolution(maker: Maker) -> None:
    """Columns are added, dropped, renamed, moved and widened; one comes back under an old name."""
    maker.append(0, 6)
    with maker.table.evolve() as evolution:
        evolution.add_column("note", "string", doc="what people say", after="id")
        evolution.rename_column("amount", "total").promote("n", "bigint").drop_column("code")
        evolution.promote("total", "decimal(12, 2)").move_column("ok", first=True).make_optional("id")
    maker.rows = [
        {"note": None, "total": row["amount"], **{k: v for k, v in row.items() if k not in ("amount", "code")}}
        for row in maker.rows
    ]
    maker.see_columns()
    maker.append(6, 4, note="hello", total=Decimal("1234567890.12"), n=2**40)
    maker.append(90, 1, id=None, note="no id")
    default = {"default": -5} if maker.version == 3 else {}
    maker.table.evolve().drop_column("note").commit()
    maker.table.evolve().add_column("note", "int", **default).commit()
    maker.rows = [{**row, "note": default.get("default")} for row in maker.rows]
    maker.see_columns()
    maker.append(20, 3, note=7)


@operation("part")
def spec_evolution(maker: Maker) -> None:
    """Files of four specs; a field that was removed comes back."""
    maker.append(0, 8)
    maker.table.update_spec().add_field("day(at)", "when").commit()
    maker.append(8, 8)
    maker.table.update_spec().remove_field("part").add_field("bucket(3, id)").commit()
    maker.append(16, 8)
    maker.table.update_spec().rename_field("when", "at_day").add_field("part").commit()
    maker.append(24, 8)
    maker.saw(maker.table.delete("part = 'a'").snapshot, [row for row in maker.rows if row["part"] != "a"])


@operation("part", versions=(2, 3))
def deletes_across_specs(maker: Maker) -> None:
    """Deletes of one spec reach its files only."""
    maker.append(0, 4)
    maker.append(4, 4)
    maker.table.update_spec().add_field("truncate(10, n)").commit()
    maker.append(8, 8)
    if maker.version == 2:
        maker.delete_positions({1, 5, 9}, together=True)
    else:
        maker.saw(maker.delete_by_vectors("id in (1, 5, 9)"), maker.without({1, 5, 9}))
    values = [row for row in maker.rows if row["id"] in (10, 11)]
    maker.saw(maker.table.row_delta(deletes=maker.equality_deletes(values, "id")), maker.without({10, 11}))


@operation("part")
def sort_evolution(maker: Maker) -> None:
    maker.table.update_sort("id desc nulls last", "day(at)")
    maker.append(0, 4)
    maker.table.update_sort("truncate(4, part) asc nulls first")
    maker.append(4, 4)
    maker.table.update_sort()


@operation(properties={"write.metadata.compression-codec": "gzip", "write.avro.compression-codec": "zstd"})
def properties(maker: Maker) -> None:
    maker.append(0, 3)
    maker.table.set_properties({"owner": "me", "note": 'ü\n"', "write.metadata.delete-after-commit.enabled": True})
    maker.table.set_properties({"write.metadata.previous-versions-max": 2})
    maker.table.remove_properties("owner")
    maker.table.set_properties({"write.metadata.compression-codec": "none"})
    maker.append(3, 3)


@operation()
def statistics(maker: Maker) -> None:
    snapshot = maker.append(0, 6)
    blob = puffin.Blob("apache-datasketches-theta-v1", (1,), snapshot.snapshot_id, snapshot.sequence_number, b"sketch")
    written = puffin.write_file([blob], {"created-by": "floe tests"})
    path = f"{maker.table.location}/metadata/{uuid.uuid4()}.stats"
    maker.table.storage.write(path, written.data)
    described = BlobMetadata(
        type=blob.type, snapshot_id=blob.snapshot_id, sequence_number=blob.sequence_number, fields=(1,)
    )
    maker.table.update_statistics(
        [
            StatisticsFile(
                snapshot_id=snapshot.snapshot_id,
                statistics_path=path,
                file_size_in_bytes=len(written.data),
                file_footer_size_in_bytes=written.footer_size,
                blob_metadata=(described,),
            )
        ]
    )
    maker.append(6, 2)


@operation("part", versions=(1, 2))
def upgrade(maker: Maker) -> None:
    """Files, deletes and rows of every version in one table, up to version 3."""
    maker.append(0, 8)
    for version in range(maker.version + 1, 4):
        if version == 3:
            maker.delete_positions({1, 4})
        maker.table.upgrade(version)
        maker.append(10 * version, 4)
        maker.saw(maker.table.delete("part = 'b'").snapshot, [row for row in maker.rows if row["part"] != "b"])
    kept = [row for row in maker.rows if row["id"] % 4 == 3]
    maker.saw(maker.table.rewrite_manifests())
    assert kept


@operation("part")
def replace_table(maker: Maker) -> None:
    """Another table in the place of the first; the first one's snapshots can still be read."""
    maker.append(0, 5)
    table = maker.lake.replace_table(
        maker.table.name, "id bigint, part string, extra double", partition_by=["bucket(4, id)"]
    )
    maker.table = maker.made.table = table
    maker.rows = []
    maker.made.branches.pop("main", None)
    rows: Rows = [{"id": n, "part": "z", "extra": n / 4} for n in range(4)]
    maker.saw(maker.table.append_files(maker.write(rows)), rows)


@operation("part")
def transaction(maker: Maker) -> None:
    """A new column, rows, a delete, a tag and a property, all at once."""
    maker.append(0, 6)
    first, second = new_rows(10, 2), new_rows(12, 2)
    files = [maker.write(first), maker.write(second)]
    before = {snapshot.snapshot_id for snapshot in maker.table.snapshots}
    with maker.table.transaction() as tx:
        tx.evolve().add_column("note", "string")
        tx.set_properties({"batch": 7})
        tx.append_files(files[0])
        tx.append_files(files[1], fast=True)
        tx.delete("part = 'b'")
    maker.table.create_tag("batch-7")
    rows = [{**row, "note": None} for row in maker.rows]
    steps = [rows + [{**row, "note": None} for row in first]]
    steps.append(steps[0] + [{**row, "note": None} for row in second])
    steps.append([row for row in steps[1] if row["part"] != "b"])
    made = [snapshot for snapshot in maker.table.snapshots if snapshot.snapshot_id not in before]
    for snapshot, shown in zip(made, steps, strict=True):
        maker.saw(snapshot, shown)


@operation("part", kinds=("sqlite", "postgres"))
def two_tables(maker: Maker) -> Made:
    """One commit to two tables, where the catalog can."""
    chosen = OPERATIONS["two_tables"]
    twin = Made("two_tables", maker.version, new_table(maker.lake, f"{maker.table.name}_twin", chosen, maker.version))
    other = Maker(maker.lake, twin)
    maker.append(0, 4)
    rows, others = new_rows(10, 2), new_rows(20, 3)
    files, other_files = maker.write(rows), other.write(others)
    with maker.lake.transaction() as tx:
        tx.table(maker.table.name).append_files(files)
        tx.table(twin.table.name).append_files(other_files)
    maker.saw(maker.table.refresh().current_snapshot, maker.rows + rows)
    other.saw(twin.table.refresh().current_snapshot, others)
    return twin


@operation("part", kinds=("sqlite", "postgres"))
def location(maker: Maker) -> None:
    """Files before and after the table's move to another folder, and another name for the table."""
    maker.append(0, 4)
    maker.table.set_location(f"{maker.table.location}-moved")
    maker.append(4, 4)
    maker.table = maker.made.table = maker.lake.rename_table(maker.table.name, f"{maker.table.name}_renamed")
    maker.append(8, 4)


@operation("year(at)", "bucket(3, part)", "truncate(2, amount)", "n")
def transforms(maker: Maker) -> None:
    """Partitions of several kinds at once."""
    maker.append(0, 8)
    maker.table.update_spec().add_field("month(day)").add_field("ok").remove_field("n").commit()
    maker.append(8, 8)
    maker.table.update_spec().remove_field("year(at)").add_field("hour(at)").add_field("code").commit()
    maker.append(16, 6)
    for term in [each.name for each in maker.table.spec.fields if str(each.transform) != "void"]:
        maker.table.update_spec().remove_field(term).commit()
    maker.append(22, 2)


def _modes(mode: str) -> dict[str, str]:
    return {f"write.{kind}.mode": mode for kind in ("delete", "update", "merge")}


@operation("part", properties=_modes("copy-on-write"))
def statements_copy_on_write(maker: Maker) -> None:
    _statements(maker)


@operation("part", versions=(2, 3), properties=_modes("merge-on-read"))
def statements_merge_on_read(maker: Maker) -> None:
    _statements(maker)


def _statements(maker: Maker) -> None:
    """DELETE, UPDATE, upsert and MERGE, one after the other, each on what the ones before left."""
    maker.append(0, 12)
    maker.append(12, 6)
    maker.saw(maker.table.delete("id in (3, 13) or n = -5").snapshot, maker.without({3, 13, 5}))
    moved = [{**row, "part": "b", "price": 1.5} if row["id"] % 4 == 0 else row for row in maker.rows]
    maker.saw(maker.table.update({"part": "'b'", "price": 1.5}, where="id % 4 = 0").snapshot, moved)
    fresh = new_rows(16, 4, part="z")
    maker.saw(maker.table.upsert(fresh, on="id").snapshot, maker.without({16, 17, 18, 19}) + fresh)
    source = new_rows(17, 6)
    merge = maker.table.merge(source, on="t.id = s.id and t.part is not null").when_matched_delete("s.id = 18")
    merge.when_matched_update({"n": "s.n * 2", "part": "s.part"}).when_not_matched_insert_all()
    merge.when_not_matched_by_source_update({"code": None}, "t.id < 2")
    by_id = {row["id"]: row for row in source}
    left = [
        {**row, "n": by_id[row["id"]]["n"] * 2, "part": by_id[row["id"]]["part"]}
        if row["id"] in by_id
        else {**row, "code": None if row["id"] < 2 else row["code"]}
        for row in maker.without({18})
    ]
    maker.saw(merge.execute().snapshot, left + new_rows(20, 3))
