"""Files cut into stretches and packed into bins, beside what Java Iceberg's rules give by hand."""

from dataclasses import replace
from itertools import pairwise

import pytest

from floe.errors import InvalidInput, InvalidUpdate
from floe.plan.scan import plan_scan
from floe.plan.tasks import (
    FileTask,
    SplitSettings,
    adjusted_split_size,
    pack_bins,
    pack_tasks,
    split_settings,
    split_task,
)
from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestEntry
from floe.spec.partitioning.partition_spec import UNPARTITIONED
from floe.spec.schemas.schema import Schema
from floe.spec.types import INT, Field
from helpers.planned_tables import added, data_file, table_of

MB = 2**20
POSITIONS = DataFile(FileContent.POSITION_DELETES, "d", "parquet", (), 1, 10 * MB)
VECTOR = replace(
    POSITIONS, file_format="puffin", referenced_data_file="a", content_offset=4, content_size_in_bytes=2 * MB
)


def task(size, path="a", offsets=None, file_format="parquet", deletes=()):
    file = DataFile(FileContent.DATA, path, file_format, (), 100, size, split_offsets=offsets)
    return FileTask(ManifestEntry(EntryStatus.ADDED, 1, 1, 1, file), UNPARTITIONED, tuple(deletes))


def parts(one, target):
    return [(part.start, part.length) for part in split_task(one, target)]


# cutting --------------------------------------------------------------------------------------------------------------


def test_one_stretch_for_each_offset_whatever_the_target():
    assert parts(task(1000, offsets=(4, 300, 700)), 10) == [(4, 296), (300, 400), (700, 300)]


def test_fixed_sizes_without_offsets():
    assert parts(task(250), 100) == [(0, 100), (100, 100), (200, 50)]
    assert parts(task(100), 100) == [(0, 100)]


@pytest.mark.parametrize("offsets", [(), (300, 4), (4, 4), (4, 1000), (4, 2000), (-1, 4)])
def test_offsets_that_cannot_be_right_are_not_used(offsets):
    assert parts(task(1000, offsets=offsets), 600) == [(0, 600), (600, 400)]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_all_data_formats_can_be_cut(file_format):
    assert len(parts(task(250, file_format=file_format), 100)) == 3


def test_files_of_other_formats_are_cut_at_their_offsets_only():
    assert parts(task(250, file_format="toy"), 100) == [(0, 250)]
    assert parts(task(250, file_format="toy", offsets=(0, 120)), 100) == [(0, 120), (120, 130)]


def test_an_empty_file_has_no_stretch():
    assert parts(task(0), 100) == []


def test_stretches_keep_deletes_and_share_the_entry():
    whole = task(250, deletes=[POSITIONS])
    assert [(p.deletes, p.entry is whole.entry) for p in split_task(whole, 100)] == [((POSITIONS,), True)] * 3


def test_rows_of_a_stretch_are_estimated_by_its_share():
    """Java divides by the bytes behind the first offset."""
    first, second = split_task(task(1004, offsets=(4, 504)), 10)
    assert (first.estimated_rows, second.estimated_rows, task(1004).estimated_rows) == (50, 50, 100)


# packing --------------------------------------------------------------------------------------------------------------


def test_the_first_bin_with_room_takes_an_item():
    assert list(pack_bins([4, 5, 3, 1], int, 8, 10)) == [[4, 3, 1], [5]]


def test_the_heaviest_bin_is_closed_when_too_many_are_open():
    """Three bins [5] [7] [6] with a lookback of 2: the one of 7 goes out, and 1 then finds the first."""
    assert list(pack_bins([5, 7, 6, 1], int, 8, 2)) == [[7], [5, 1], [6]]


def test_of_equally_heavy_bins_the_first_is_closed():
    closed, *_ = pack_bins([(5, "a"), (5, "b"), (5, "c")], lambda item: item[0], 8, 2)
    assert closed == [(5, "a")]


def test_an_item_beyond_the_target_is_alone():
    assert list(pack_bins([100, 1], int, 8, 10)) == [[100], [1]]
    assert list(pack_bins([], int, 8, 10)) == []


def weights(settings, *tasks):
    return [[(p.file.file_path, p.start, p.length) for p in found] for found in pack_tasks(tasks, settings)]


def test_small_files_weigh_what_opening_them_costs():
    """33 files of 1 kB at 4 MB each: 32 fit into 128 MB."""
    found = list(pack_tasks([task(1000, f"f{n}") for n in range(33)], SplitSettings()))
    assert [len(one) for one in found] == [32, 1]


def test_deletes_weigh_too():
    """A file of 1 kB with a delete file of 10 MB weighs 10 MB and 1 kB; with a vector of 2 MB, two files: 8 MB."""
    settings = SplitSettings(target_size=20 * MB, open_file_cost=4 * MB)
    plain = [task(1000, f"f{n}", deletes=[POSITIONS]) for n in range(4)]
    assert [len(one) for one in pack_tasks(plain, settings)] == [1, 1, 1, 1]
    vectors = [task(1000, f"f{n}", deletes=[VECTOR]) for n in range(4)]
    assert [len(one) for one in pack_tasks(vectors, settings)] == [2, 2]


def test_stretches_that_meet_in_a_bin_are_one_again():
    settings = SplitSettings(target_size=600, open_file_cost=0)
    assert weights(settings, task(1000, offsets=(4, 300, 500))) == [[("a", 4, 496)], [("a", 500, 500)]]
    assert weights(settings, task(1000, offsets=(4, 300, 700))) == [
        [("a", 4, 296), ("a", 700, 300)],
        [("a", 300, 400)],
    ]


def test_neighbours_of_different_files_stay_apart():
    settings = SplitSettings(target_size=600, open_file_cost=0)
    assert weights(settings, task(100, "a"), task(100, "b")) == [[("a", 0, 100), ("b", 0, 100)]]


def test_all_bytes_are_read_once():
    tasks = [task(n * 37 % 900 + 1, f"f{n}", offsets=None if n % 2 else (0,)) for n in range(50)]
    found = [part for one in pack_tasks(tasks, SplitSettings(target_size=300, open_file_cost=10)) for part in one]
    for whole in tasks:
        own = sorted((p.start, p.length) for p in found if p.entry is whole.entry)
        assert own[0][0] == 0
        assert all(a + n == b for (a, n), (b, _) in pairwise(own))
        assert sum(n for _, n in own) == whole.length


# settings -------------------------------------------------------------------------------------------------------------


def test_properties_of_the_table_are_used():
    properties = {
        "read.split.target-size": "1000",
        "read.split.planning-lookback": "3",
        "read.split.open-file-cost": "7",
    }
    assert split_settings(properties) == SplitSettings(1000, 3, 7)
    assert split_settings(properties, target_size=5) == SplitSettings(5, 3, 7)
    assert split_settings({}) == SplitSettings(134217728, 10, 4194304)


def test_settings_that_cannot_be():
    for wrong in ({"target_size": 0}, {"lookback": 0}, {"open_file_cost": -1}):
        with pytest.raises(InvalidInput):
            SplitSettings(**wrong)
    with pytest.raises(InvalidUpdate, match=r"read\.split\.target-size"):
        split_settings({"read.split.target-size": "much"})


def test_a_plan_is_combined_by_the_tables_properties():
    files = [added(data_file(f"f{n}", file_size_in_bytes=100)) for n in range(4)]
    maker = table_of(
        files,
        Schema((Field(1, "id", INT),)),
        properties={"read.split.target-size": "200", "read.split.open-file-cost": "0"},
    )
    plan = plan_scan(maker.metadata, maker.storage, snapshot=maker.snapshots[-1])
    assert [len(found) for found in plan.combined()] == [2, 2]
    assert [len(found) for found in plan.combined(target_size=1000)] == [4]


def test_split_size_adjusted_to_readers():
    """Java's TableScanUtil.adjustSplitSize: smaller when there are readers to spare, at least 16 MB."""
    assert adjusted_split_size(1024 * MB, 4, 128 * MB) == 128 * MB
    assert adjusted_split_size(1024 * MB, 16, 128 * MB) == 64 * MB
    assert adjusted_split_size(64 * MB, 100, 128 * MB) == 16 * MB
    assert adjusted_split_size(64 * MB, 100, 8 * MB) == 8 * MB
