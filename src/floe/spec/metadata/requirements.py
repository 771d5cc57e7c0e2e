"""The requirements of a change: what must be true of a table when the change is committed (REST: table requirements).

Updates that were created for one state of a table carry requirements. Whoever commits them checks the requirements
against the state of the table at that time. One that does not hold is a conflict: the updates have to be created again
for the new state.

>>> check_requirements([AssertCreate()], None)
>>> requirement_to_json(AssertRefSnapshotId("main", None))
{'type': 'assert-ref-snapshot-id', 'ref': 'main', 'snapshot-id': None}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias, cast

from floe.errors import InvalidInput, RequirementFailed
from floe.spec.json_records import (
    JsonField,
    JsonForm,
    TaggedJson,
    json_form,
    read_field,
    read_int32,
    read_int64,
    read_string,
)
from floe.spec.metadata.snapshots import MAIN_BRANCH
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import (
    AddPartitionSpec,
    AddSchema,
    RemovePartitionSpecs,
    RemoveSchemas,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetSnapshotRef,
    TableUpdate,
)


@dataclass(frozen=True, slots=True)
class AssertCreate:
    """The table must not exist yet."""

    type: ClassVar[str] = "assert-create"


@dataclass(frozen=True, slots=True)
class AssertTableUuid:
    """The table must be this one, not another of the same name."""

    type: ClassVar[str] = "assert-table-uuid"
    uuid: str


@dataclass(frozen=True, slots=True)
class AssertRefSnapshotId:
    """The branch or tag must point at this snapshot; if `snapshot_id` is None, it must not exist."""

    type: ClassVar[str] = "assert-ref-snapshot-id"
    ref: str
    snapshot_id: int | None


@dataclass(frozen=True, slots=True)
class AssertLastAssignedFieldId:
    """No column may have been added since."""

    type: ClassVar[str] = "assert-last-assigned-field-id"
    last_assigned_field_id: int


@dataclass(frozen=True, slots=True)
class AssertCurrentSchemaId:
    """The current schema must be this one."""

    type: ClassVar[str] = "assert-current-schema-id"
    current_schema_id: int


@dataclass(frozen=True, slots=True)
class AssertLastAssignedPartitionId:
    """No partition field may have been added since."""

    type: ClassVar[str] = "assert-last-assigned-partition-id"
    last_assigned_partition_id: int


@dataclass(frozen=True, slots=True)
class AssertDefaultSpecId:
    """The default partition spec must be this one."""

    type: ClassVar[str] = "assert-default-spec-id"
    default_spec_id: int


@dataclass(frozen=True, slots=True)
class AssertDefaultSortOrderId:
    """The default sort order must be this one."""

    type: ClassVar[str] = "assert-default-sort-order-id"
    default_sort_order_id: int


TableRequirement: TypeAlias = (
    AssertCreate
    | AssertTableUuid
    | AssertRefSnapshotId
    | AssertLastAssignedFieldId
    | AssertCurrentSchemaId
    | AssertLastAssignedPartitionId
    | AssertDefaultSpecId
    | AssertDefaultSortOrderId
)
"""Any requirement of a table."""

# Checks ----------------------------------------------------------------------------------------------------------

_NUMBERS: Final[dict[type[Any], tuple[str, str, str]]] = {
    AssertLastAssignedFieldId: ("last_assigned_field_id", "last_column_id", "last assigned column id"),
    AssertCurrentSchemaId: ("current_schema_id", "current_schema_id", "current schema"),
    AssertLastAssignedPartitionId: (
        "last_assigned_partition_id",
        "last_partition_id",
        "last assigned partition field id",
    ),
    AssertDefaultSpecId: ("default_spec_id", "default_spec_id", "default partition spec"),
    AssertDefaultSortOrderId: ("default_sort_order_id", "default_sort_order_id", "default sort order"),
}
"""The requirements that compare a number: its attribute, the attribute of the metadata, and its name in messages."""


def check_requirements(requirements: Iterable[TableRequirement], metadata: TableMetadata | None) -> None:
    """Raise `RequirementFailed` unless all requirements hold; `metadata` is None if the table does not exist.

    >>> check_requirements([AssertTableUuid("9c12d441-03fe-4693-9a96-a0705ddf69c1")], None)
    Traceback (most recent call last):
    floe.errors.RequirementFailed: the table must exist, but there is none (requirement: assert-table-uuid)
    """
    for requirement in requirements:
        problem = _problem(requirement, metadata)
        if problem is not None:
            raise RequirementFailed(problem, requirement=requirement.type)


def _problem(requirement: TableRequirement, metadata: TableMetadata | None) -> str | None:
    """What was required and what was found, or None if the requirement holds."""
    if isinstance(requirement, AssertCreate):
        return None if metadata is None else f"the table must not exist, but it does, with uuid {metadata.table_uuid}"
    if metadata is None:
        return "the table must exist, but there is none"
    if isinstance(requirement, AssertTableUuid):
        if metadata.table_uuid is not None and requirement.uuid.lower() == metadata.table_uuid.lower():
            return None
        return f"the table's uuid must be {requirement.uuid}, found {metadata.table_uuid}"
    if isinstance(requirement, AssertRefSnapshotId):
        return _ref_problem(requirement, metadata)
    if type(requirement) not in _NUMBERS:
        raise InvalidInput(f"not a table requirement: {requirement!r:.80}")
    attribute, metadata_attribute, label = _NUMBERS[type(requirement)]
    required, actual = getattr(requirement, attribute), getattr(metadata, metadata_attribute)
    return None if required == actual else f"the table's {label} must be {required}, found {actual}"


def _ref_problem(requirement: AssertRefSnapshotId, metadata: TableMetadata) -> str | None:
    ref = metadata.refs.get(requirement.ref)
    if ref is None:
        if requirement.snapshot_id is None:
            return None
        return f"{requirement.ref!r} must point at snapshot {requirement.snapshot_id}, but there is no such ref"
    if requirement.snapshot_id is None:
        return f"no branch or tag may be named {requirement.ref!r}, found a {ref.type} at snapshot {ref.snapshot_id}"
    if ref.snapshot_id != requirement.snapshot_id:
        return (
            f"{ref.type} {requirement.ref!r} must point at snapshot {requirement.snapshot_id}, "
            f"found it at {ref.snapshot_id}"
        )
    return None


# Requirements of updates -----------------------------------------------------------------------------------------


def requirements_for(
    updates: Sequence[TableUpdate], base: TableMetadata | None, *, replacing: bool = False
) -> tuple[TableRequirement, ...]:
    """Return what updates that were created for `base` require of the table that they are applied to.

    The table must be the same one; a ref that is set must not have moved; no other commit may have assigned field ids
    or partition field ids; the current schema, default spec or sort order must not have changed if the updates set it.
    With `replacing`, only the assigned ids matter, because the new table does not depend on the old one. If `base` is
    None, the table must not exist.

    >>> requirements_for([SetCurrentSchema()], None)
    (AssertCreate(),)
    """
    if base is None:
        return (AssertCreate(),)
    requirements: dict[TableRequirement, None] = {}  # in order, without duplicates
    if base.table_uuid is not None:
        requirements[AssertTableUuid(base.table_uuid)] = None
    for update in updates:
        requirements.update(dict.fromkeys(_requirements_of(update, base, replacing)))
    return tuple(requirements)


def _requirements_of(update: TableUpdate, base: TableMetadata, replacing: bool) -> Iterator[TableRequirement]:
    if isinstance(update, AddSchema):
        yield AssertLastAssignedFieldId(base.last_column_id)
    if isinstance(update, AddPartitionSpec):
        yield AssertLastAssignedPartitionId(base.last_partition_id)
    if replacing:
        return
    if isinstance(update, SetSnapshotRef):
        ref = base.refs.get(update.name)
        yield AssertRefSnapshotId(update.name, ref.snapshot_id if ref else None)
    if isinstance(update, SetCurrentSchema | RemoveSchemas):
        yield AssertCurrentSchemaId(base.current_schema_id)
    if isinstance(update, SetDefaultSpec | RemovePartitionSpecs):
        yield AssertDefaultSpecId(base.default_spec_id)
    if isinstance(update, SetDefaultSortOrder):
        yield AssertDefaultSortOrderId(base.default_sort_order_id)
    if isinstance(update, RemovePartitionSpecs | RemoveSchemas):
        yield from _heads_unchanged(base)


def _heads_unchanged(base: TableMetadata) -> Iterator[AssertRefSnapshotId]:
    """No branch may have moved: a new snapshot could use what is removed (Java nevertheless lets `main` move)."""
    if MAIN_BRANCH not in base.refs:
        yield AssertRefSnapshotId(MAIN_BRANCH, None)
    for name, ref in base.refs.items():
        if ref.is_branch:
            yield AssertRefSnapshotId(name, ref.snapshot_id)


# JSON -----------------------------------------------------------------------------------------------------------


def requirement_from_json(json: Any) -> TableRequirement:
    """Parse a requirement from a JSON object.

    >>> requirement_from_json({"type": "assert-current-schema-id", "current-schema-id": 3})
    AssertCurrentSchemaId(current_schema_id=3)
    """
    return cast(TableRequirement, _REQUIREMENTS.read(json))


def requirement_to_json(requirement: TableRequirement) -> dict[str, Any]:
    """Return a requirement as a JSON object.

    >>> requirement_to_json(AssertCurrentSchemaId(3))
    {'type': 'assert-current-schema-id', 'current-schema-id': 3}
    """
    return _REQUIREMENTS.write(requirement)


def requirements_from_json(json: Any) -> tuple[TableRequirement, ...]:
    """Parse requirements from a JSON list.

    >>> requirements_from_json([{"type": "assert-create"}])
    (AssertCreate(),)
    """
    return _REQUIREMENTS.read_all(json)


def requirements_to_json(requirements: Iterable[TableRequirement]) -> list[dict[str, Any]]:
    """Return requirements as a JSON list.

    >>> requirements_to_json([AssertCreate()])
    [{'type': 'assert-create'}]
    """
    return [requirement_to_json(requirement) for requirement in requirements]


def _read_ref_requirement(obj: dict[str, Any]) -> AssertRefSnapshotId:
    return AssertRefSnapshotId(
        read_field(obj, JsonField("ref", "ref", read_string)),
        read_field(obj, JsonField("snapshot-id", "snapshot_id", read_int64, required=False)),
    )


def _write_ref_requirement(requirement: AssertRefSnapshotId) -> dict[str, Any]:
    return {"ref": requirement.ref, "snapshot-id": requirement.snapshot_id}  # null is required


def _number_form(kind: type[Any]) -> JsonForm[Any]:
    attribute = _NUMBERS[kind][0]
    return json_form(kind.type, kind, JsonField(attribute.replace("_", "-"), attribute, read_int32))


_REQUIREMENTS = TaggedJson(
    "table requirement",
    "type",
    [
        json_form(AssertCreate.type, AssertCreate),
        json_form(AssertTableUuid.type, AssertTableUuid, JsonField("uuid", "uuid", read_string)),
        JsonForm(AssertRefSnapshotId.type, AssertRefSnapshotId, _read_ref_requirement, _write_ref_requirement),
        *map(_number_form, _NUMBERS),
    ],
    hints={"assert-view-uuid": "it is a requirement of a view"},
)
