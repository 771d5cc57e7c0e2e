"""The manifests of a snapshot, and manifests in groups."""

from dataclasses import replace

import pytest

from floe.errors import CorruptFile, InvalidInput, NoSuchFile, UnsupportedFeature
from floe.plan.manifests import GROUP_BYTES, group_manifests, manifests_of_snapshot, read_manifest_groups
from floe.plan.scan import plan_scan
from floe.spec.manifests.entries import ManifestContent, ManifestFile
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.partitioning.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import IDENTITY
from floe.spec.schemas.schema import Schema
from floe.spec.types import INT, STRING, Field
from helpers.corpus import table_names
from helpers.corpus_tables import open_table
from helpers.planned_tables import TableMaker, added, data_file

SCHEMA = Schema((Field(1, "id", INT), Field(2, "p", STRING)))
BY_P = PartitionSpec((PartitionField((2,), 1000, "p", IDENTITY),), 1)


@pytest.mark.parametrize("name", table_names("v1", "v2", "v3", "part_times_v1", "meta_manifest"))
def test_lists_of_all_versions_and_codecs(corpus_dir, name):
    table = open_table(corpus_dir, name)
    for snapshot in table.metadata.snapshots:
        found = manifests_of_snapshot(snapshot, table.storage)
        assert found
        assert all(table.storage.stat(one.manifest_path).size == one.manifest_length for one in found)


def test_old_snapshots_that_name_their_manifests():
    """Format version 1 before manifest lists: nothing is said about a manifest, not even its spec."""
    maker = TableMaker(SCHEMA, (UNPARTITIONED, BY_P), format_version=1)
    plain = maker.manifest([added(data_file("a"), snapshot=4)], snapshot=4, number=0)
    parted = maker.manifest(
        [added(data_file("b", partition=("x",), spec_id=1), snapshot=5)], snapshot=5, number=0, spec_id=1
    )
    snapshot = Snapshot(
        snapshot_id=5, timestamp_ms=5, manifests=(plain.manifest_path, parted.manifest_path), schema_id=0
    )
    found = manifests_of_snapshot(snapshot, maker.storage)
    assert [(one.partition_spec_id, one.content, one.sequence_number) for one in found] == [(0, 0, 0), (1, 0, 0)]
    maker.snapshots.append(snapshot)
    plan = plan_scan(maker.metadata, maker.storage, snapshot=snapshot)
    told = [(t.file.file_path, t.file.partition, t.entry.snapshot_id, t.entry.sequence_number) for t in plan.tasks()]
    assert told == [("a", (), 4, 0), ("b", ("x",), 5, 0)]


def test_a_snapshot_of_nothing():
    maker = TableMaker(SCHEMA)
    assert manifests_of_snapshot(Snapshot(snapshot_id=1, timestamp_ms=1, manifests=()), maker.storage) == []


def test_errors_name_the_list_and_the_snapshot():
    maker = TableMaker(SCHEMA)
    snapshot = Snapshot(snapshot_id=77, timestamp_ms=1, manifest_list="memory:t/snap.avro")
    with pytest.raises(NoSuchFile, match=r"snap\.avro"):
        manifests_of_snapshot(snapshot, maker.storage)
    maker.storage.write("memory:t/snap.avro", b"nonsense")
    with pytest.raises(CorruptFile, match=r"not an Avro file.*manifest list: memory:t/snap\.avro, snapshot: 77"):
        manifests_of_snapshot(snapshot, maker.storage)
    maker.storage.write("memory:t/snap.avro", b"AGS1nonsense", overwrite=True)
    with pytest.raises(UnsupportedFeature, match="encrypted"):
        manifests_of_snapshot(snapshot, maker.storage)


# groups ---------------------------------------------------------------------------------------------------------------

SMALL = ManifestFile("m", 1000, 0)


def test_small_manifests_are_grouped_up_to_some_megabytes():
    sizes = [GROUP_BYTES // 3] * 7
    groups = list(group_manifests([replace(SMALL, manifest_length=size) for size in sizes]))
    assert [len(group) for group in groups] == [3, 3, 1]


def test_groups_have_one_spec_and_one_content():
    other = replace(SMALL, partition_spec_id=1)
    deletes = replace(SMALL, content=ManifestContent.DELETES)
    assert [len(g) for g in group_manifests([SMALL, SMALL, other, other, SMALL, deletes])] == [2, 2, 1, 1]


def test_lengths_that_lie_still_make_groups():
    assert sum(len(g) for g in group_manifests([replace(SMALL, manifest_length=0)] * 1000)) == 1000
    assert max(len(g) for g in group_manifests([replace(SMALL, manifest_length=0)] * 1000)) < 500


@pytest.mark.parametrize("workers", [1, 2, None])
def test_results_come_in_the_order_of_the_manifests(workers):
    maker = TableMaker(SCHEMA)
    manifests = [maker.manifest([added(data_file(f"f{n}"))], snapshot=1, number=1) for n in range(600)]
    found = read_manifest_groups(
        maker.storage,
        manifests,
        lambda columns: [path.decode() for path in columns.file_path.to_list()],
        types={},
        workers=workers,
    )
    assert [path for paths in found for path in paths] == [f"f{n}" for n in range(600)]


def test_at_least_one_worker():
    with pytest.raises(InvalidInput, match="at least one worker"):
        list(read_manifest_groups(TableMaker(SCHEMA).storage, [], len, types={}, workers=0))
