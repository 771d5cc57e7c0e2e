"""Branches and tags (spec: Snapshot References)."""

from typing import Any

import pytest

from floe.errors import InvalidMetadata, NoSuchRef
from floe.spec.json_records import record_from_json, record_to_json
from floe.spec.metadata.snapshots import MAIN_BRANCH, SnapshotRef
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import metadata_to_json
from helpers.metadata_documents import history, read, v1_document, v2_document

BRANCH = {
    "snapshot-id": 1,
    "type": "branch",
    "min-snapshots-to-keep": 5,
    "max-snapshot-age-ms": 86400000,
    "max-ref-age-ms": 10000000,
}


def table(**refs: dict[str, Any]) -> TableMetadata:
    return read(v2_document(snapshots=history((1, None), (2, 1)), refs=refs))


def test_every_field_of_a_branch_is_read_and_written() -> None:
    ref = record_from_json(SnapshotRef, BRANCH)
    assert ref == SnapshotRef(
        snapshot_id=1,
        type="branch",
        min_snapshots_to_keep=5,
        max_snapshot_age_ms=86400000,
        max_ref_age_ms=10000000,
    )
    assert list(record_to_json(ref).items()) == list(BRANCH.items())


def test_a_tag_of_the_spec() -> None:
    json = {"snapshot-id": 123456789000, "type": "tag", "max-ref-age-ms": 10000000}
    ref = record_from_json(SnapshotRef, json)
    assert (ref.is_tag, ref.is_branch, ref.max_ref_age_ms) == (True, False, 10000000)
    assert record_to_json(ref) == json


@pytest.mark.parametrize("key", ["snapshot-id", "type"])
def test_required_fields_of_a_ref(key: str) -> None:
    with pytest.raises(InvalidMetadata, match=rf"\$\.{key}: is missing"):
        record_from_json(SnapshotRef, {k: v for k, v in BRANCH.items() if k != key})


@pytest.mark.parametrize("type_", ["BRANCH", "Tag", "", "head", None, 1])
def test_the_type_is_branch_or_tag(type_: object) -> None:
    with pytest.raises(InvalidMetadata) as caught:
        table(b=BRANCH | {"type": type_})
    assert caught.value.path == "$.refs.b.type"


@pytest.mark.parametrize("key", ["min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms"])
@pytest.mark.parametrize("value", [0, -1])
def test_retention_must_be_positive(key: str, value: int) -> None:
    with pytest.raises(InvalidMetadata, match="must be positive") as caught:
        table(b=BRANCH | {key: value})
    assert caught.value.path == f"$.refs.b.{key}"


@pytest.mark.parametrize("key", ["min-snapshots-to-keep", "max-snapshot-age-ms"])
def test_retention_of_snapshots_is_only_for_branches(key: str) -> None:
    with pytest.raises(InvalidMetadata, match="only for branches") as caught:
        table(t={"snapshot-id": 1, "type": "tag", key: 5})
    assert caught.value.path == f"$.refs.t.{key}"


def test_null_retention_is_no_retention() -> None:
    ref = table(b={"snapshot-id": 1, "type": "branch", "max-ref-age-ms": None}).ref("b")
    assert ref == SnapshotRef(snapshot_id=1, type="branch")


def test_a_ref_must_point_at_a_snapshot() -> None:
    with pytest.raises(InvalidMetadata, match="no snapshot 77") as caught:
        table(b=BRANCH | {"snapshot-id": 77})
    assert caught.value.path == "$.refs.b.snapshot-id"


def test_main_is_there_whenever_there_is_a_current_snapshot() -> None:
    for refs in (..., None, {}):
        metadata = read(v2_document(snapshots=history((1, None)), current_snapshot_id=1, refs=refs))
        assert dict(metadata.refs) == {MAIN_BRANCH: SnapshotRef(snapshot_id=1, type="branch")}
    assert dict(read(v2_document()).refs) == {}


def test_main_is_added_to_other_refs() -> None:
    metadata = read(v2_document(snapshots=history((1, None)), current_snapshot_id=1, refs={"b": BRANCH}))
    assert set(metadata.refs) == {"main", "b"}


def test_v1_tables_have_refs_too_as_java_writes_them() -> None:
    snapshots = [{"snapshot-id": 1, "timestamp-ms": 1, "manifests": []}]
    metadata = read(
        v1_document(snapshots=snapshots, current_snapshot_id=1, refs={"t": {"snapshot-id": 1, "type": "tag"}})
    )
    assert set(metadata.refs) == {"main", "t"}
    assert set(metadata_to_json(metadata)["refs"]) == {"main", "t"}


def test_main_must_be_the_current_snapshot() -> None:
    with pytest.raises(InvalidMetadata, match="main is at snapshot 1, while the current snapshot is 2"):
        read(
            v2_document(
                snapshots=history((1, None), (2, 1)),
                current_snapshot_id=2,
                refs={"main": {"snapshot-id": 1, "type": "branch"}},
            )
        )


@pytest.mark.parametrize("none", [None, -1, ...])
def test_main_without_current_snapshot_is_an_error(none: object) -> None:
    with pytest.raises(InvalidMetadata, match="there is no current snapshot"):
        read(
            v2_document(
                snapshots=history((1, None)),
                current_snapshot_id=none,
                refs={"main": {"snapshot-id": 1, "type": "branch"}},
            )
        )


def test_refs_by_name() -> None:
    metadata = table(b=BRANCH, t={"snapshot-id": 2, "type": "tag"})
    assert metadata.ref("t").snapshot_id == 2
    assert metadata.snapshot_of_ref("b").snapshot_id == 1
    with pytest.raises(NoSuchRef, match=r"no branch or tag named 'x'; there are b, t"):
        metadata.ref("x")
    with pytest.raises(NoSuchRef, match="no snapshots yet"):
        read(v2_document()).ref("main")


def test_names_of_refs_are_any_text() -> None:
    refs = dict.fromkeys(("", "a.b", "ä 🙂", '"', "extra"), BRANCH)
    metadata = table(**refs)
    assert metadata_to_json(metadata)["refs"] == refs


def test_unknown_keys_of_a_ref_survive() -> None:
    ref = BRANCH | {"owner": {"name": "ana"}}
    assert metadata_to_json(table(b=ref))["refs"] == {"b": ref}
