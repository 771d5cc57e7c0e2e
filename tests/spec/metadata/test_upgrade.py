"""Upgrading a table's format version (spec: Appendix E)."""

from dataclasses import replace
from pathlib import Path

import pytest

from floe.errors import InvalidUpdate, UnsupportedFeature
from floe.spec.metadata.metadata_checks import check_for_writing
from floe.spec.metadata.table_metadata_json import metadata_to_json, parse, serialize
from floe.spec.metadata.update_handlers import upgrade
from helpers.corpus import metadata_files
from helpers.metadata_samples import OTHER_UUID, UUID, branch, commit, table


def test_upgrade_1_to_2_requires_a_uuid():
    old = replace(table(1), table_uuid=None)
    assert upgrade(old, 2, new_uuid=OTHER_UUID).table_uuid == OTHER_UUID
    assert upgrade(table(1), 2, new_uuid=OTHER_UUID).table_uuid == UUID, "one that it has stays"
    with pytest.raises(InvalidUpdate, match="has no uuid, and format version 2 requires one"):
        upgrade(old, 2)


def test_upgrade_1_to_2_sequence_numbers_are_0():
    upgraded = upgrade(commit(table(1), 1), 2)
    assert (upgraded.last_sequence_number, upgraded.snapshots[0].sequence_number) == (0, 0)
    assert upgraded.next_sequence_number == 1


def test_upgrade_1_to_2_writes_what_is_now_required():
    document = metadata_to_json(upgrade(commit(table(1), 1), 2))
    required = {
        "table-uuid",
        "last-sequence-number",
        "current-schema-id",
        "schemas",
        "partition-specs",
        "default-spec-id",
        "last-partition-id",
        "sort-orders",
        "default-sort-order-id",
    }
    assert required <= document.keys()
    assert not {"schema", "partition-spec"} & document.keys()


def test_upgrade_1_to_2_names_the_current_snapshot_main():
    old = replace(commit(table(1), 1), refs={})
    assert upgrade(old, 2).refs == {"main": branch(1)}
    assert upgrade(table(1), 2).refs == {}


def test_upgrade_2_to_3_starts_row_ids_at_0():
    old = commit(table(2), 1)
    upgraded = upgrade(old, 3)
    assert (upgraded.next_row_id, upgraded.snapshots) == (0, old.snapshots)
    assert upgraded.snapshots[0].first_row_id is None


def test_upgrade_1_to_3_takes_both_steps():
    old = replace(commit(table(1), 1), refs={}, table_uuid=None)
    upgraded = upgrade(old, 3, new_uuid=UUID)
    assert upgraded == upgrade(upgrade(old, 2, new_uuid=UUID), 3)
    assert (upgraded.format_version, upgraded.next_row_id, upgraded.refs) == (3, 0, {"main": branch(1)})


def test_upgrade_keeps_snapshots_with_manifests_inline():
    """Note of Appendix E: upgraded tables may have metadata that does not follow the requirements of v2."""
    old = commit(table(1), 1, manifest_list=None, manifests=("m.avro",))
    upgraded = upgrade(old, 2)
    assert upgraded.snapshots[0].manifests == ("m.avro",)
    assert parse(serialize(upgraded)) == upgraded


@pytest.mark.parametrize("version", [1, 2, 3])
def test_upgrade_to_the_same_version_changes_nothing(version):
    metadata = table(version)
    assert upgrade(metadata, version) is metadata


@pytest.mark.parametrize(("have", "want"), [(2, 1), (3, 1), (3, 2)])
def test_no_downgrade(have, want):
    with pytest.raises(InvalidUpdate, match=f"cannot go back from format version {have} to {want}"):
        upgrade(table(have), want)


@pytest.mark.parametrize("version", [-1, 0, 4, 99])
def test_unsupported_versions(version):
    with pytest.raises(UnsupportedFeature, match=f"format version {version} is not supported"):
        upgrade(table(1), version)


def test_upgraded_tables_go_on(corpus_dir: Path):
    """Every table of the corpus can be upgraded, and is then fit to be written to."""
    for name in ("v1_legacy_metadata", "del_upgrade", "combo_v2", "hist_expired"):
        for file in metadata_files(corpus_dir, name):
            upgraded = upgrade(parse(file.read_bytes()), 3, new_uuid=UUID)
            check_for_writing(upgraded)
            assert parse(serialize(upgraded)) == upgraded


def test_upgrade_1_to_2_gives_no_uuid_that_is_none():
    with pytest.raises(InvalidUpdate, match="'mine' is not a uuid"):
        upgrade(replace(table(1), table_uuid=None), 2, new_uuid="mine")
