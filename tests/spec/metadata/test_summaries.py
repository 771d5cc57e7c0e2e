"""Snapshot summaries: keys, and totals that go on from the branch's head."""

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidUpdate
from floe.spec.metadata import snapshots
from floe.spec.metadata.snapshots import TOTALS, check_replace, with_totals
from floe.spec.metadata.table_metadata_json import parse
from helpers.corpus import metadata_files, table_names

# Appendix F of the spec, the tables "Metrics" and "Other Fields".
SPEC_KEYS = [
    "added-data-files",
    "deleted-data-files",
    "total-data-files",
    "added-delete-files",
    "added-equality-delete-files",
    "removed-equality-delete-files",
    "added-position-delete-files",
    "removed-position-delete-files",
    "added-dvs",
    "removed-dvs",
    "removed-delete-files",
    "total-delete-files",
    "added-records",
    "deleted-records",
    "total-records",
    "added-files-size",
    "removed-files-size",
    "total-files-size",
    "added-position-deletes",
    "removed-position-deletes",
    "total-position-deletes",
    "added-equality-deletes",
    "removed-equality-deletes",
    "total-equality-deletes",
    "deleted-duplicate-files",
    "changed-partition-count",
    "manifests-created",
    "manifests-kept",
    "manifests-replaced",
    "entries-processed",
    "wap.id",
    "published-wap-id",
    "source-snapshot-id",
    "engine-name",
    "engine-version",
]


def test_every_key_of_the_optional_summary_fields_has_a_constant():
    constants = {
        value for name, value in vars(snapshots).items() if name[0] != "_" and name.isupper() and isinstance(value, str)
    }
    assert set(SPEC_KEYS) <= constants
    others = {"partitions.", "partition-summaries-included", "replace-partitions", "operation", "main"}
    assert constants - set(SPEC_KEYS) == others | {"iceberg-version", "app-id", "spark.app.id"}


def test_summary_totals_start_at_zero_on_a_branch_without_snapshots():
    assert with_totals({"operation": "append"}, None) == {"operation": "append"} | dict.fromkeys(TOTALS, "0")


def test_summary_totals_chain_from_the_head_of_the_target_branch():
    head = {"total-records": "100", "total-data-files": "7", "total-files-size": "5000", "total-delete-files": "2"}
    commit = {"added-records": "10", "deleted-records": "60", "added-data-files": "1", "removed-files-size": "4000"}
    totals = with_totals(commit, head)
    assert totals["total-records"] == "50"
    assert totals["total-data-files"] == "8"
    assert totals["total-files-size"] == "1000"
    assert totals["total-delete-files"] == "2"
    assert "total-equality-deletes" not in totals, "unknown before, so unknown now"


def test_summary_totals_are_left_out_after_a_snapshot_without_summary():
    assert with_totals({"operation": "append", "added-records": "3"}, {}) == {
        "operation": "append",
        "added-records": "3",
    }


@pytest.mark.parametrize("nonsense", ["", "-1", "many", "1.5", "٣", "9" * 30, "+4", " 5"])
def test_summary_totals_are_not_invented_from_nonsense(nonsense):
    assert "total-records" not in with_totals({}, {"total-records": nonsense})
    assert "total-records" not in with_totals({"added-records": nonsense}, {"total-records": "5"})


def test_summary_totals_never_fall_below_zero():
    assert "total-records" not in with_totals({"deleted-records": "6"}, {"total-records": "5"})


def test_summary_totals_of_the_caller_are_counted_anew():
    assert with_totals({"total-records": "999", "added-records": "1"}, None)["total-records"] == "1"


def test_summary_values_are_strings_and_inputs_stay_unchanged():
    summary, head = {"added-records": "1"}, {"total-records": "1"}
    out = with_totals(summary, head)
    assert all(isinstance(value, str) for value in out.values())
    assert (summary, head) == ({"added-records": "1"}, {"total-records": "1"})


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=20))
def test_summary_totals_are_the_sum_of_all_changes(changes):
    head, total = None, 0
    for added, removed in changes:
        removed = min(removed, total + added)
        total += added - removed
        head = with_totals({"added-records": str(added), "deleted-records": str(removed)}, head)
    assert head is None or head["total-records"] == str(total)


def test_replace_must_not_add_rows():
    check_replace({"operation": "replace", "added-records": "5", "deleted-records": "5"})
    check_replace({"operation": "replace", "deleted-records": "5"})
    check_replace({"operation": "overwrite", "added-records": "5"})
    check_replace({"operation": "replace", "added-records": "a lot", "deleted-records": "5"})
    with pytest.raises(InvalidUpdate, match="adds 6 records and removes 5"):
        check_replace({"operation": "replace", "added-records": "6", "deleted-records": "5"})


def test_summary_totals_are_those_that_java_wrote(corpus_dir: Path):
    """Every snapshot that Java committed to a branch, from what it changed and the summary of its parent."""
    compared = 0
    for name in table_names(without=("invalid", "odd", "view")):
        latest = max(metadata_files(corpus_dir, name), key=lambda p: int(re.findall(r"\d+", p.name)[0]))
        metadata = parse(latest.read_bytes())
        for snapshot in metadata.snapshots:
            parent = metadata.snapshots_by_id.get(snapshot.parent_snapshot_id)
            expired = parent is None and snapshot.parent_snapshot_id is not None
            if expired or not snapshot.summary or (parent and not parent.summary):
                continue
            written = dict(snapshot.summary)
            changes = {key: value for key, value in written.items() if key not in TOTALS}
            assert with_totals(changes, parent.summary if parent else None) == written, (name, snapshot.snapshot_id)
            compared += 1
    assert compared > 400
