"""Tables that are broken or meant to harm: a typed error or the right files, quickly and without much memory."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from floe.errors import CorruptFile, FloeError, InvalidMetadata, NoSuchFile, UnsupportedFeature
from floe.plan.scan import ScanOptions, plan_scan
from floe.spec.expressions.dsl import col
from floe.spec.manifests.entries import FieldSummary, FileContent, ManifestContent
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import IDENTITY
from floe.spec.schemas.schema import Schema
from floe.spec.types import INT, STRING, Field
from helpers.corpus import expected, table_names
from helpers.corpus_tables import open_table
from helpers.planned_tables import TableMaker, added, data_file, existing

TABLES = table_names("invalid", "odd")
ONLY_READING_TELLS = {
    "invalid_dv_crc",
    "invalid_dv_magic",
    "invalid_entry_format",
    "invalid_missing_data_file",
    "invalid_parquet_truncated",
    "invalid_path_dotdot",
    "invalid_path_passwd",
}
"""What is wrong is in the data files; the plan cannot know."""

SCRIPT = """
import json, sys, time
from pathlib import Path
from floe.errors import FloeError
from floe.plan.scan import plan_scan
from helpers.corpus_tables import open_table
found = {}
for name in sys.argv[2:]:
    started = time.process_time()
    try:
        table = open_table(Path(sys.argv[1]), name)
        plan = plan_scan(table.metadata, table.storage, snapshot=table.metadata.current_snapshot)
        outcome = [len(list(plan.tasks())), plan.record_count]
    except FloeError as error:
        outcome = f"{type(error).__name__}: {error}"
    found[name] = outcome, time.process_time() - started
# the kernel's own count for this program; that of getrusage goes on from the process that started it
(peak,) = (line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(json.dumps([found, int(peak) / 1024]))
"""


@pytest.fixture(scope="module")
def outcomes(corpus_dir):
    tests = Path(__file__).parent.parent
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, corpus_dir, *TABLES], cwd=tests, capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout)


def test_within_a_second_and_200_mb(outcomes):
    found, peak = outcomes
    assert all(seconds < 1 for _, seconds in found.values())
    assert peak < 200


@pytest.mark.parametrize("name", TABLES)
def test_a_clear_error_or_the_right_files(corpus_dir, outcomes, name):
    outcome, _ = outcomes[0][name]
    facts = expected(corpus_dir, name)["invalid"]
    if name in ONLY_READING_TELLS:
        assert outcome[0] > 0
    elif isinstance(outcome, str):
        assert len(outcome) > 30  # more than the name of an error
    else:
        assert facts["readable"]
        assert outcome[1] == facts["count"]


@pytest.mark.parametrize(
    "name", ["invalid_avro_block_huge", "invalid_avro_codec", "invalid_entry_status", "invalid_manifest_truncated"]
)
def test_errors_name_the_manifest(corpus_dir, name):
    table = open_table(corpus_dir, name)
    with pytest.raises(
        (CorruptFile, UnsupportedFeature), match=rf"manifest: /floe-corpus/{name}/metadata/\S+-m0\.avro"
    ):
        plan_scan(table.metadata, table.storage, snapshot=table.metadata.current_snapshot)


# manifest lists that lie ----------------------------------------------------------------------------------------------

SCHEMA = Schema((Field(1, "id", INT), Field(2, "p", STRING)))
BY_P = PartitionSpec((PartitionField((2,), 1000, "p", IDENTITY),))
FILES = [data_file(name, partition=(name,)) for name in "abc"]


def planned(where=None, **changes):
    """The paths of a table whose manifest is described otherwise than it is."""
    maker = TableMaker(SCHEMA, (BY_P,))
    manifest = maker.manifest([added(file) for file in FILES], snapshot=1, number=1)
    maker.snapshot(1, [replace(manifest, **changes)])
    plan = plan_scan(maker.metadata, maker.storage, snapshot=maker.snapshots[-1], options=ScanOptions(where=where))
    return [task.file.file_path for task in plan.tasks()]


@pytest.mark.parametrize(
    "changes",
    [
        {"manifest_length": 2**62},
        {"manifest_length": 0},
        {"added_files_count": 2**31 - 1, "added_rows_count": 2**62},
        {"added_files_count": 1, "existing_files_count": 2**31 - 1, "deleted_files_count": 2**31 - 1},
        {"partitions": ()},
        {"partitions": (FieldSummary(False, None, b"", b""),) * 7},
    ],
)
def test_counts_and_lengths_are_only_hints(changes):
    assert planned(**changes) == ["a", "b", "c"]


def test_bounds_that_make_no_sense_are_no_bounds():
    crossed = (FieldSummary(False, None, b"z", b"a"),)
    assert planned(partitions=crossed, where=col("p") == "b") == ["b"]
    assert planned(partitions=None, where=col("p") == "b") == ["b"]


def test_a_spec_that_the_table_does_not_have():
    with pytest.raises(InvalidMetadata, match="no partition spec with id 9"):
        planned(partition_spec_id=9)


def test_data_among_deletes():
    maker = TableMaker(SCHEMA, (BY_P,))
    good = maker.manifest([added(file) for file in FILES], snapshot=1, number=1)
    maker.snapshot(1, [good, replace(good, content=ManifestContent.DELETES)])
    with pytest.raises(CorruptFile, match="manifest of deletes lists a file of data"):
        plan_scan(maker.metadata, maker.storage, snapshot=maker.snapshots[-1])


def test_deletes_among_data():
    maker = TableMaker(SCHEMA, (BY_P,))
    positions = data_file("d", partition=("a",), content=FileContent.POSITION_DELETES)
    manifest = maker.manifest([added(positions)], snapshot=1, number=1)
    maker.snapshot(1, [replace(manifest, content=ManifestContent.DATA)])
    with pytest.raises(CorruptFile, match="manifest of data lists a file of position deletes"):
        plan_scan(maker.metadata, maker.storage, snapshot=maker.snapshots[-1])


def test_a_manifest_that_is_gone():
    maker = TableMaker(SCHEMA, (BY_P,))
    manifest = maker.manifest([added(file) for file in FILES], snapshot=1, number=1)
    maker.snapshot(1, [manifest])
    maker.storage.delete_many([manifest.manifest_path])
    with pytest.raises(NoSuchFile):
        plan_scan(maker.metadata, maker.storage, snapshot=maker.snapshots[-1])


def test_a_list_that_is_cut_off_or_encrypted():
    maker = TableMaker(SCHEMA, (BY_P,))
    maker.snapshot(1, [maker.manifest([added(file) for file in FILES], snapshot=1, number=1)])
    path = maker.snapshots[-1].manifest_list
    whole = maker.storage.read(path)
    for content, error in ((whole[:-30], CorruptFile), (b"AGS1" + whole, UnsupportedFeature), (b"", CorruptFile)):
        maker.storage.write(path, content, overwrite=True)
        with pytest.raises(error, match=r"snap-1\.avro"):
            plan_scan(maker.metadata, maker.storage, snapshot=maker.snapshots[-1])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"record_count": -2}, "record_count must not be negative"),
        ({"file_size_in_bytes": -1}, "file_size_in_bytes must not be negative"),
        ({"file_path": ""}, "must have a path"),
    ],
)
def test_files_that_cannot_be(changes, words):
    maker = TableMaker(SCHEMA, (BY_P,))
    manifest = maker.manifest([existing(replace(FILES[0], **changes), 1, 1)], snapshot=1, number=1)
    maker.snapshot(1, [manifest])
    with pytest.raises(CorruptFile, match=words):
        plan_scan(maker.metadata, maker.storage, snapshot=maker.snapshots[-1])


def test_the_first_error_of_many_manifests_is_told():
    maker = TableMaker(SCHEMA, (BY_P,))
    manifests = [maker.manifest([added(FILES[n % 3])], snapshot=1, number=1) for n in range(40)]
    maker.snapshot(1, manifests)
    broken = manifests[17].manifest_path
    maker.storage.write(broken, b"nonsense", overwrite=True)
    for workers in (1, None):
        with pytest.raises(FloeError, match=broken):
            plan_scan(maker.metadata, maker.storage, snapshot=maker.snapshots[-1], options=ScanOptions(workers=workers))
