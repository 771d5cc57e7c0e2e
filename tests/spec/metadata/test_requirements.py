"""Requirements: what must be true of a table for a change to be made to it."""

from dataclasses import replace
from typing import get_args

import pytest
from pydantic import TypeAdapter
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update import TableRequirement as PyIcebergRequirement

from floe.errors import CommitConflict, InvalidInput, InvalidMetadata, RequirementFailed, UnsupportedFeature
from floe.spec.metadata.requirements import (
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUuid,
    TableRequirement,
    check_requirements,
    requirement_from_json,
    requirement_to_json,
    requirements_for,
    requirements_from_json,
    requirements_to_json,
)
from floe.spec.metadata.table_metadata_json import metadata_to_json
from floe.spec.metadata.updates import (
    AddPartitionSpec,
    AddSchema,
    AddSnapshot,
    RemovePartitionSpecs,
    RemoveSchemas,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetLocation,
    SetProperties,
    SetSnapshotRef,
)
from floe.spec.partitioning.partition_spec import UNPARTITIONED
from helpers.metadata_samples import OTHER_UUID, SCHEMA, UUID, branch, changed, commit, table, tag

TABLE = changed(commit(commit(table(), 1), 2), SetSnapshotRef("v1", tag(1)), SetSnapshotRef("audit", branch(1)))

# requirement, its JSON, whether it holds for TABLE, and what its message says if not
CASES = [
    (AssertCreate(), {"type": "assert-create"}, f"must not exist, but it does, with uuid {UUID}"),
    (AssertTableUuid(UUID), {"type": "assert-table-uuid", "uuid": UUID}, None),
    (AssertTableUuid(UUID.upper()), {"type": "assert-table-uuid", "uuid": UUID.upper()}, None),
    (
        AssertTableUuid(OTHER_UUID),
        {"type": "assert-table-uuid", "uuid": OTHER_UUID},
        f"uuid must be {OTHER_UUID}, found {UUID}",
    ),
    (
        AssertRefSnapshotId("main", 2),
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2},
        None,
    ),
    (
        AssertRefSnapshotId("main", 1),
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
        "branch 'main' must point at snapshot 1, found it at 2",
    ),
    (
        AssertRefSnapshotId("v1", None),
        {"type": "assert-ref-snapshot-id", "ref": "v1", "snapshot-id": None},
        "no branch or tag may be named 'v1', found a tag at snapshot 1",
    ),
    (
        AssertRefSnapshotId("new", None),
        {"type": "assert-ref-snapshot-id", "ref": "new", "snapshot-id": None},
        None,
    ),
    (
        AssertRefSnapshotId("new", 2),
        {"type": "assert-ref-snapshot-id", "ref": "new", "snapshot-id": 2},
        "'new' must point at snapshot 2, but there is no",
    ),
    (
        AssertLastAssignedFieldId(3),
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 3},
        None,
    ),
    (
        AssertLastAssignedFieldId(2),
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2},
        "last assigned column id must be 2, found 3",
    ),
    (AssertCurrentSchemaId(0), {"type": "assert-current-schema-id", "current-schema-id": 0}, None),
    (
        AssertCurrentSchemaId(5),
        {"type": "assert-current-schema-id", "current-schema-id": 5},
        "current schema must be 5, found 0",
    ),
    (
        AssertLastAssignedPartitionId(1000),
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1000},
        None,
    ),
    (
        AssertLastAssignedPartitionId(999),
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
        "last assigned partition field id must be 999, found 1000",
    ),
    (AssertDefaultSpecId(0), {"type": "assert-default-spec-id", "default-spec-id": 0}, None),
    (
        AssertDefaultSpecId(1),
        {"type": "assert-default-spec-id", "default-spec-id": 1},
        "default partition spec must be 1, found 0",
    ),
    (AssertDefaultSortOrderId(0), {"type": "assert-default-sort-order-id", "default-sort-order-id": 0}, None),
    (
        AssertDefaultSortOrderId(1),
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 1},
        "default sort order must be 1, found 0",
    ),
]


def test_there_is_a_requirement_for_every_one_of_the_rest_protocol():
    assert {kind.type for kind in get_args(TableRequirement)} == {
        "assert-create",
        "assert-table-uuid",
        "assert-ref-snapshot-id",
        "assert-last-assigned-field-id",
        "assert-current-schema-id",
        "assert-last-assigned-partition-id",
        "assert-default-spec-id",
        "assert-default-sort-order-id",
    }


@pytest.mark.parametrize(("requirement", "document", "problem"), CASES)
def test_requirement_is_checked(requirement, document, problem):
    if problem is None:
        check_requirements([requirement], TABLE)
        return
    with pytest.raises(RequirementFailed) as caught:
        check_requirements([requirement], TABLE)
    assert problem in str(caught.value)
    assert requirement.type in str(caught.value)


@pytest.mark.parametrize(("requirement", "document", "problem"), CASES)
def test_requirement_agrees_with_pyiceberg(requirement, document, problem):
    theirs = TypeAdapter(PyIcebergRequirement).validate_python(document)
    metadata = TableMetadataUtil.parse_obj(metadata_to_json(TABLE))
    if problem is None:
        theirs.validate(metadata)
    else:
        with pytest.raises(CommitFailedException):
            theirs.validate(metadata)


@pytest.mark.parametrize(("requirement", "document", "problem"), CASES)
def test_requirement_json_both_ways(requirement, document, problem):
    assert requirement_from_json(document) == requirement
    assert requirement_to_json(requirement) == document


def test_lists_of_requirements_both_ways():
    documents = [document for _, document, _ in CASES]
    assert requirements_to_json(requirements_from_json(documents)) == documents


def test_a_table_that_does_not_exist_meets_assert_create_alone():
    check_requirements([AssertCreate()], None)
    for requirement, _, _ in CASES[1:]:
        with pytest.raises(RequirementFailed, match="the table must exist, but there is none"):
            check_requirements([requirement], None)


def test_a_table_without_uuid_is_not_the_one_required():
    with pytest.raises(RequirementFailed, match="found None"):
        check_requirements([AssertTableUuid(UUID)], replace(table(1), table_uuid=None))


def test_the_first_requirement_that_fails_is_told():
    with pytest.raises(RequirementFailed, match="current schema"):
        check_requirements([AssertTableUuid(UUID), AssertCurrentSchemaId(9), AssertDefaultSpecId(9)], TABLE)


def test_a_failed_requirement_is_a_conflict_that_can_be_retried():
    assert issubclass(RequirementFailed, CommitConflict)
    assert RequirementFailed.retryable


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "$: must be a JSON object"),
        ({}, "$.type: is missing"),
        ({"type": "assert-table-uuid"}, "$.uuid: is missing"),
        ({"type": "assert-table-uuid", "uuid": 3}, "$.uuid: must be a string"),
        ({"type": "assert-ref-snapshot-id", "snapshot-id": 3}, "$.ref: is missing"),
        ({"type": "assert-ref-snapshot-id", "ref": "a", "snapshot-id": "3"}, "$.snapshot-id: must be an integer"),
        ({"type": "assert-current-schema-id", "current-schema-id": 2**40}, "does not fit a 32-bit integer"),
    ],
)
def test_hostile_requirement_json_is_found_with_its_path(document, message):
    with pytest.raises(InvalidMetadata) as caught:
        requirement_from_json(document)
    assert message in str(caught.value)


def test_an_unknown_requirement_is_named():
    with pytest.raises(UnsupportedFeature, match="assert-weather"):
        requirement_from_json({"type": "assert-weather"})
    with pytest.raises(UnsupportedFeature, match="it is a requirement of a view"):
        requirement_from_json({"type": "assert-view-uuid", "uuid": UUID})


# derived from updates ---------------------------------------------------------------------------------------------


def test_creating_requires_that_the_table_does_not_exist():
    assert requirements_for([AddSchema(SCHEMA), SetCurrentSchema()], None) == (AssertCreate(),)


def test_every_change_requires_the_same_table():
    assert requirements_for([SetLocation("s3://b/u"), SetProperties({})], TABLE) == (AssertTableUuid(UUID),)
    assert requirements_for([], replace(table(1), table_uuid=None)) == ()


@pytest.mark.parametrize(
    ("update", "requirement"),
    [
        (SetSnapshotRef("main", branch(1)), AssertRefSnapshotId("main", 2)),
        (SetSnapshotRef("new", tag(1)), AssertRefSnapshotId("new", None)),
        (AddSchema(SCHEMA), AssertLastAssignedFieldId(3)),
        (SetCurrentSchema(), AssertCurrentSchemaId(0)),
        (AddPartitionSpec(UNPARTITIONED), AssertLastAssignedPartitionId(1000)),
        (SetDefaultSpec(), AssertDefaultSpecId(0)),
        (SetDefaultSortOrder(), AssertDefaultSortOrderId(0)),
    ],
)
def test_a_change_requires_what_it_was_made_for(update, requirement):
    assert requirements_for([update, update], TABLE) == (AssertTableUuid(UUID), requirement)


def test_replacing_requires_only_that_ids_are_not_given_twice():
    updates = [
        SetSnapshotRef("main", branch(1)),
        AddSchema(SCHEMA),
        SetCurrentSchema(),
        AddPartitionSpec(UNPARTITIONED),
        SetDefaultSpec(),
        SetDefaultSortOrder(),
    ]
    assert requirements_for(updates, TABLE, replacing=True) == (
        AssertTableUuid(UUID),
        AssertLastAssignedFieldId(3),
        AssertLastAssignedPartitionId(1000),
    )


@pytest.mark.parametrize(
    ("update", "pinned"),
    [(RemovePartitionSpecs((1,)), AssertDefaultSpecId(0)), (RemoveSchemas((1,)), AssertCurrentSchemaId(0))],
)
def test_removing_specs_or_schemas_requires_that_no_branch_moved(update, pinned):
    assert requirements_for([update], TABLE) == (
        AssertTableUuid(UUID),
        pinned,
        AssertRefSnapshotId("main", 2),
        AssertRefSnapshotId("audit", 1),
    )
    assert AssertRefSnapshotId("main", None) in requirements_for([update], table()), "nor that a first one came"


def test_derived_requirements_hold_for_the_table_they_were_derived_from():
    updates = [
        AddSnapshot(TABLE.snapshots[0]),
        SetSnapshotRef("main", branch(1)),
        AddSchema(SCHEMA),
        SetCurrentSchema(),
        RemoveSchemas((7,)),
        RemovePartitionSpecs((7,)),
        SetDefaultSortOrder(),
    ]
    check_requirements(requirements_for(updates, TABLE), TABLE)
    with pytest.raises(RequirementFailed, match="main"):
        check_requirements(requirements_for(updates, TABLE), commit(TABLE, 3))


def test_what_is_no_requirement_is_refused():
    with pytest.raises(InvalidInput, match="not a table requirement: 'nonsense'"):
        check_requirements(["nonsense"], table())
