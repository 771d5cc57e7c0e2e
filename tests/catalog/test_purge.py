"""Purging: all that the metadata leads to, below the table's own location, or nothing at all."""

import json
from dataclasses import replace

import pytest

from floe.avro.manifest_lists import write_manifest_list
from floe.avro.manifest_writer import write_manifest
from floe.catalog.memory import MemoryCatalog
from floe.catalog.purge import plan_purge
from floe.commit.pointer import TableState
from floe.errors import FloeError, StorageError, UnsupportedFeature
from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestEntry, ManifestFile
from floe.spec.metadata.creation import new_table_metadata
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.snapshots import Snapshot, SnapshotRef
from floe.spec.metadata.table_metadata import MetadataLogEntry, StatisticsFile
from floe.spec.metadata.updates import AddSnapshot, SetSnapshotRef, SetStatistics
from floe.spec.partitioning.partition_spec import UNPARTITIONED
from floe.storage.environment import deterministic_environment
from floe.storage.memory import MemoryStorage
from floe.testing.faults import Fault, FaultyStorage
from helpers.catalog_tables import SCHEMA, create, load, names, publish

ORDERS = ("db", "orders")
ROOT = "memory:warehouse/db/orders"


class World:
    """A table with two snapshots: three data files, of which the second snapshot deleted one, and statistics."""

    def __init__(self, *files: str, properties: dict[str, str] | None = None) -> None:
        environment = deterministic_environment()
        self.files = MemoryStorage(clock=environment.clock)
        self.catalog = MemoryCatalog(storage=self.files, environment=environment)
        create(self.catalog, ORDERS, properties)
        names = files or ("data/a.parquet", "data/b.parquet", "data/c.parquet")
        self.data = [name if ":" in name else f"{ROOT}/{name}" for name in names]
        for file in self.data:
            self.files.write(file, b"rows", overwrite=True)
        self._add_snapshot(1, [(EntryStatus.ADDED, file) for file in self.data[:2]])
        self._add_snapshot(2, [(EntryStatus.DELETED, self.data[0]), *((EntryStatus.ADDED, f) for f in self.data[2:])])

    def _add_snapshot(self, number: int, entries: list[tuple[EntryStatus, str]]) -> None:
        pointer = self.catalog.pointer(ORDERS)
        base = load(pointer)
        metadata = base.metadata
        manifest = f"{ROOT}/metadata/m{number}.avro"
        content = write_manifest(
            [
                ManifestEntry(status, number, *seq, DataFile(FileContent.DATA, path, "parquet", (), 1, 4))
                for status, path in entries
                for seq in [(None, None) if status is EntryStatus.ADDED else (1, 1)]
            ],
            SCHEMA,
            UNPARTITIONED,
            format_version=2,
        )
        self.files.write(manifest, content)
        counts = {f"{kind}_{what}_count": 0 for kind in ("added", "existing", "deleted") for what in ("files", "rows")}
        listed = ManifestFile(
            manifest,
            len(content),
            0,
            sequence_number=number,
            min_sequence_number=1,
            added_snapshot_id=number,
            **counts,
        )
        location = f"{ROOT}/metadata/snap-{number}.avro"
        self.files.write(
            location,
            write_manifest_list(
                [listed], format_version=2, snapshot_id=number, parent_snapshot_id=None, sequence_number=number
            ),
        )
        statistics = f"{ROOT}/metadata/{number}.stats"
        self.files.write(statistics, b"puffin")
        snapshot = Snapshot(
            snapshot_id=number,
            timestamp_ms=metadata.last_updated_ms,
            sequence_number=metadata.next_sequence_number,
            summary={"operation": "append"},
            manifest_list=location,
        )
        updates = [
            AddSnapshot(snapshot),
            SetSnapshotRef("main", SnapshotRef(snapshot_id=number, type="branch")),
            SetStatistics(
                StatisticsFile(
                    snapshot_id=number,
                    statistics_path=statistics,
                    file_size_in_bytes=6,
                    file_footer_size_in_bytes=6,
                    blob_metadata=(),
                )
            ),
        ]
        now_ms = pointer.environment.clock.now_ms()
        publish(pointer.propose(base, apply(metadata, updates, now_ms=now_ms, metadata_location=base.location)))

    @property
    def state(self) -> TableState:
        return load(self.catalog.pointer(ORDERS))


def test_everything_that_the_metadata_leads_to_is_deleted() -> None:
    world = World()
    orphan = f"{ROOT}/data/orphan.parquet"
    world.files.write(orphan, b"")
    plan = plan_purge(world.state, world.files)
    assert set(plan.data) == set(world.data)
    assert {file.rpartition("/")[2] for file in plan.manifests} == {"m1.avro", "m2.avro", "snap-1.avro", "snap-2.avro"}
    assert {file.rpartition("/")[2] for file in plan.statistics} == {"1.stats", "2.stats"}
    assert len(plan.metadata) == 3
    assert plan.kept == ()
    world.catalog.drop_table(ORDERS, purge=True)
    assert names(world.files, "memory:warehouse") == ["db/orders/data/orphan.parquet"]


def test_the_metadata_is_deleted_last() -> None:
    """So that what is left after a crash can be found and purged again."""
    world = World()
    order = list(plan_purge(world.state, world.files).files())
    assert order[-1] == world.state.location
    assert order.index(world.data[2]) < order.index(f"{ROOT}/metadata/m2.avro")


def test_files_elsewhere_are_kept_and_told() -> None:
    elsewhere = ("memory:warehouse/db/victim/a.parquet", "memory:warehouse/db/orders2/b.parquet")
    world = World(*elsewhere, "data/c.parquet")
    report = plan_purge(world.state, world.files).apply(world.files).check()
    assert set(report.kept) == set(elsewhere)
    assert all(world.files.exists(file) for file in elsewhere)
    assert not world.files.exists(f"{ROOT}/data/c.parquet")


@pytest.mark.parametrize(
    ("file", "is_own"),
    [
        ("/wh/db/t/metadata/v1.metadata.json", True),
        ("file:///wh/db/t/metadata/../metadata/v1.metadata.json", True),
        ("/wh/db/t/../victim/v1.metadata.json", False),
        ("/wh/db/t", False),
        ("/wh/db/t/", False),
        ("/wh/db/t2/v1.metadata.json", False),
        ("s3://wh/db/t/v1.metadata.json", False),
        ("file://host/wh/db/t/v1.metadata.json", False),
        ("/wh/db/t/\0", False),
        ("", False),
    ],
)
def test_what_is_below_the_table(file: str, is_own: bool) -> None:
    metadata = new_table_metadata(SCHEMA, location="/wh/db/t", uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1", now_ms=0)
    hostile = replace(metadata, metadata_log=(MetadataLogEntry(timestamp_ms=0, metadata_file=file),))
    plan = plan_purge(TableState(hostile, "/wh/db/t/metadata/v2.metadata.json"), MemoryStorage())
    assert (file in plan.files(), file in plan.kept) == (is_own, not is_own)


@pytest.mark.parametrize("location", ["memory:warehouse", "memory:", "memory:warehouse/"])
def test_a_location_that_holds_the_warehouse_is_not_purged(location: str) -> None:
    """A metadata file that somebody registered must not delete the tables of others."""
    world = World()
    hostile = json.loads(world.files.read(world.state.location))
    hostile["location"] = location
    world.files.write("memory:x/hostile.metadata.json", json.dumps(hostile).encode())
    world.catalog.register_table(("db", "hostile"), "memory:x/hostile.metadata.json")
    before = names(world.files, "memory:warehouse")
    with pytest.raises(UnsupportedFeature) as refused:
        world.catalog.drop_table(("db", "hostile"), purge=True)
    assert refused.value.context == {"location": location, "contains": "memory:warehouse"}
    assert names(world.files, "memory:warehouse") == before
    assert world.catalog.table_exists(("db", "hostile"))


@pytest.mark.parametrize("broken", ["m1.avro", "snap-2.avro"])
@pytest.mark.parametrize("content", [None, b"", b"Obj\x01 nonsense"])
def test_what_cannot_be_read_stops_it_before_anything_is_deleted(broken: str, content: bytes | None) -> None:
    world = World()
    location = f"{ROOT}/metadata/{broken}"
    world.files.delete_many([location])
    if content is not None:
        world.files.write(location, content)
    before = names(world.files, "memory:warehouse")
    with pytest.raises(FloeError, match=broken) as error:
        world.catalog.drop_table(ORDERS, purge=True)
    assert any("nothing was deleted" in note for note in error.value.__notes__)
    assert names(world.files, "memory:warehouse") == before
    assert world.catalog.table_exists(ORDERS)


def test_files_that_cannot_be_deleted_are_told() -> None:
    world = World()
    state = world.state
    plan = plan_purge(state, world.files)
    report = plan.apply(FaultyStorage(world.files, Fault.BEFORE, at=1, only={"delete_many"}))
    assert set(report.failed) == set(plan.files())
    with pytest.raises(StorageError, match="could not be deleted"):
        report.check()


def test_a_commit_in_between_is_purged_too() -> None:
    """The plan is made again for what the table is when it is dropped."""
    world = World()

    class Slow(FaultyStorage):
        def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
            if not self.happened:
                self.happened = True
                path = f"{ROOT}/data/late.parquet"
                world.files.write(path, b"rows")
                world._add_snapshot(3, [(EntryStatus.ADDED, path)])
            return super().read(location, max_bytes=max_bytes)

    world.catalog.storage = Slow(world.files)
    world.catalog.drop_table(ORDERS, purge=True)
    assert names(world.files, ROOT) == []
