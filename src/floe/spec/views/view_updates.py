"""Updates and requirements of views, as in the REST protocol, and the pure function that applies them.

A view is replaced by adding a version and making it the current one; then the oldest versions beyond
`version.history.num-entries` are removed. A replacement must have SQL in all dialects of the version before, because
other engines may read the view in them, unless the property `replace.drop-dialect.allowed` is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, TypeAlias, cast

from floe.errors import InvalidMetadata, InvalidUpdate, RequirementFailed, UnsupportedFeature
from floe.spec.json_records import JsonField, TaggedJson, json_form, read_int32, read_string
from floe.spec.metadata.table_metadata import check_uuid
from floe.spec.metadata.updates import (
    LAST_ADDED,
    SHARED_FORMS,
    AddSchema,
    AssignUuid,
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
)
from floe.spec.properties import VIEW_DROP_DIALECT, VIEW_HISTORY_SIZE
from floe.spec.schemas.schema import Schema
from floe.spec.views.view_metadata import (
    VIEW_FORMAT_VERSION,
    ViewHistoryEntry,
    ViewMetadata,
    ViewVersion,
    repeated_dialect,
    view_version_from_json,
    view_version_to_json,
)


@dataclass(frozen=True, slots=True)
class AddViewVersion:
    """Add a version, unless an equal one exists; a `schema_id` of -1 is the schema that was added last."""

    action: ClassVar[str] = "add-view-version"
    version: ViewVersion


@dataclass(frozen=True, slots=True)
class SetCurrentViewVersion:
    """Make a version the current one."""

    action: ClassVar[str] = "set-current-view-version"
    version_id: int = LAST_ADDED


ViewUpdate: TypeAlias = (
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetLocation
    | SetProperties
    | RemoveProperties
    | AddViewVersion
    | SetCurrentViewVersion
)
"""Any update of a view's metadata."""


@dataclass(frozen=True, slots=True)
class AssertViewUuid:
    """The view must be this one, not another of the same name."""

    type: ClassVar[str] = "assert-view-uuid"
    uuid: str


def check_view_requirements(requirements: Iterable[AssertViewUuid], metadata: ViewMetadata | None) -> None:
    """Raise `RequirementFailed` unless all requirements hold; `metadata` is None if the view does not exist.

    >>> check_view_requirements([AssertViewUuid("9c12d441-03fe-4693-9a96-a0705ddf69c1")], None)
    Traceback (most recent call last):
    floe.errors.RequirementFailed: the view must exist, but there is none (requirement: assert-view-uuid)
    """
    for requirement in requirements:
        problem = None
        if metadata is None:
            problem = "the view must exist, but there is none"
        elif requirement.uuid.lower() != metadata.view_uuid.lower():
            problem = f"the view's uuid must be {requirement.uuid}, found {metadata.view_uuid}"
        if problem is not None:
            raise RequirementFailed(problem, requirement=requirement.type)


# Updates that create or replace a view ---------------------------------------------------------------------------


def view_creation_updates(
    schema: Schema, version: ViewVersion, *, location: str, uuid: str, properties: Mapping[str, str] | None = None
) -> tuple[ViewUpdate, ...]:
    """Return the updates that create a view.

    >>> from floe.spec.views.view_metadata import SqlRepresentation
    >>> version = ViewVersion(1, 0, 5, (SqlRepresentation("SELECT 1", "spark"),), ("db",))
    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> updates = view_creation_updates(Schema(()), version, location="s3://bucket/v", uuid=uuid)
    >>> apply_to_view(None, updates, now_ms=7).version_log
    (ViewHistoryEntry(timestamp_ms=5, version_id=1),)
    """
    updates: tuple[ViewUpdate, ...] = (AssignUuid(uuid), SetLocation(location), SetProperties(dict(properties or {})))
    return updates + view_replacement_updates(schema, version)


def view_replacement_updates(schema: Schema, version: ViewVersion) -> tuple[ViewUpdate, ...]:
    """Return the updates that give a view a new current version; ids are assigned when they are applied.

    >>> [update.action for update in view_replacement_updates(Schema(()), ViewVersion(1, 0, 5, (), ("db",)))]
    ['add-schema', 'add-view-version', 'set-current-view-version']
    """
    return AddSchema(schema), AddViewVersion(replace(version, schema_id=LAST_ADDED)), SetCurrentViewVersion()


# Applying updates ------------------------------------------------------------------------------------------------


def apply_to_view(metadata: ViewMetadata | None, updates: Sequence[ViewUpdate], *, now_ms: int) -> ViewMetadata:
    """Apply updates to a view's metadata; returns the new metadata, or the same object if nothing changes.

    If `metadata` is None, the updates create a view. Raises `InvalidUpdate` if an update cannot be applied.

    >>> apply_to_view(None, [SetLocation("")], now_ms=0)
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: a view's location must not be empty (update: set-location, number 0)
    """
    if type(now_ms) is not int:
        raise InvalidUpdate(f"now_ms must be whole milliseconds since 1970, found {now_ms!r}")
    draft = _Draft(metadata, metadata or _BLANK)
    for number, update in enumerate(updates):
        handler = _HANDLERS.get(type(update))
        if handler is None:
            raise InvalidUpdate(f"update number {number} is not one of a view: {update!r:.80}")
        label = f"{update.action}, number {number}"
        try:
            if not isinstance(update, AddSchema):  # schemas have rules of their own
                _UPDATES.check(update)
            handler(draft, update)
        except InvalidMetadata as error:  # values of wrong types
            raise InvalidUpdate(f"{error.path}: {error.message}", hint=error.hint, update=label) from error
        except (InvalidUpdate, UnsupportedFeature) as error:
            error.with_context(update=label)
            raise
    if draft.metadata == metadata:
        return metadata
    _check_complete(draft.metadata)
    _log_current_version(draft, now_ms)
    _check_dialects(draft)
    _expire_versions(draft)
    return draft.metadata


_BLANK: Final = ViewMetadata("", "", LAST_ADDED, (), (), ())


@dataclass(slots=True)
class _Draft:
    """Metadata to which some updates have been applied, with what they added."""

    base: ViewMetadata | None
    metadata: ViewMetadata
    last_schema_id: int | None = None
    last_version_id: int | None = None
    added_versions: set[int] = field(default_factory=set)

    def change(self, **fields: Any) -> None:
        """Replace the metadata by a copy with other values of some fields."""
        self.metadata = replace(self.metadata, **fields)


def _assign_uuid(draft: _Draft, update: AssignUuid) -> None:
    check_uuid(update.uuid)
    current = draft.metadata.view_uuid
    if not current:
        draft.change(view_uuid=update.uuid)
    elif current.lower() != update.uuid.lower():
        raise InvalidUpdate(f"the view has uuid {current} and cannot become {update.uuid}")


def _upgrade(draft: _Draft, update: UpgradeFormatVersion) -> None:
    if update.format_version > VIEW_FORMAT_VERSION:
        raise UnsupportedFeature(f"view format version {update.format_version} is not supported")
    if update.format_version < draft.metadata.format_version:
        raise InvalidUpdate(f"a view cannot go back to format version {update.format_version}")


def _set_location(draft: _Draft, update: SetLocation) -> None:
    if not update.location:
        raise InvalidUpdate("a view's location must not be empty")
    draft.change(location=update.location)


def _set_properties(draft: _Draft, update: SetProperties) -> None:
    draft.change(properties={**draft.metadata.properties, **update.updates})


def _remove_properties(draft: _Draft, update: RemoveProperties) -> None:
    removed = set(update.removals)
    draft.change(properties={k: v for k, v in draft.metadata.properties.items() if k not in removed})


def _add_schema(draft: _Draft, update: AddSchema) -> None:
    """Add a schema with the next id, unless the view has an equal one."""
    schemas = draft.metadata.schemas
    for existing in schemas:
        if existing.same_columns(update.schema):
            draft.last_schema_id = existing.schema_id
            return
    new_id = max((schema.schema_id for schema in schemas), default=-1) + 1
    draft.change(schemas=(*schemas, update.schema.with_id(new_id)))
    draft.last_schema_id = new_id


def _add_version(draft: _Draft, update: AddViewVersion) -> None:
    """Add a version with an id above all others, unless the view has one with the same definition."""
    version = update.version
    if version.schema_id == LAST_ADDED:
        if draft.last_schema_id is None:
            raise InvalidUpdate("the last added schema was requested, but no schema was added")
        version = replace(version, schema_id=draft.last_schema_id)
    if all(schema.schema_id != version.schema_id for schema in draft.metadata.schemas):
        raise InvalidUpdate(f"the view has no schema with id {version.schema_id}")
    if not version.representations:
        raise InvalidUpdate("a view version must have at least one representation")
    if repeated := repeated_dialect(version):
        raise InvalidUpdate(f"a view version can have one SQL representation of dialect {repeated!r}, found two")
    versions = draft.metadata.versions
    for existing in versions:
        if existing.same_definition(version):
            draft.last_version_id = existing.version_id
            return
    new_id = max((version.version_id, *(existing.version_id + 1 for existing in versions)))
    draft.change(versions=(*versions, replace(version, version_id=new_id)))
    draft.added_versions.add(new_id)
    draft.last_version_id = new_id


def _set_current_version(draft: _Draft, update: SetCurrentViewVersion) -> None:
    version_id = update.version_id
    if version_id == LAST_ADDED:
        if draft.last_version_id is None:
            raise InvalidUpdate("the last added view version was requested, but none was added")
        version_id = draft.last_version_id
    if all(version.version_id != version_id for version in draft.metadata.versions):
        raise InvalidUpdate(f"the view has no version {version_id}")
    draft.change(current_version_id=version_id)


_HANDLERS: Final[Mapping[type[Any], Callable[[_Draft, Any], None]]] = {
    AssignUuid: _assign_uuid,
    UpgradeFormatVersion: _upgrade,
    AddSchema: _add_schema,
    SetLocation: _set_location,
    SetProperties: _set_properties,
    RemoveProperties: _remove_properties,
    AddViewVersion: _add_version,
    SetCurrentViewVersion: _set_current_version,
}


def _check_complete(metadata: ViewMetadata) -> None:
    missing = None
    if not metadata.view_uuid:
        missing = "uuid"
    elif not metadata.location:
        missing = "location"
    elif metadata.current_version_id == LAST_ADDED:
        missing = "current version"
    if missing is not None:
        raise InvalidUpdate(f"the view would have no {missing}", hint="add an update that gives it one")


def _log_current_version(draft: _Draft, now_ms: int) -> None:
    """Log a change of the current version, with its timestamp if the updates added it, or else that of the change."""
    current = draft.metadata.current_version
    if draft.base is not None and draft.base.current_version_id == current.version_id:
        return
    timestamp_ms = current.timestamp_ms if current.version_id in draft.added_versions else now_ms
    draft.change(version_log=(*draft.metadata.version_log, ViewHistoryEntry(timestamp_ms, current.version_id)))


def _check_dialects(draft: _Draft) -> None:
    """Raise if the current version lacks a SQL dialect of the version before, unless the view's property allows it."""
    if draft.base is None or VIEW_DROP_DIALECT.read(draft.metadata.properties):
        return
    before, after = draft.base.current_version.dialects, draft.metadata.current_version.dialects
    if lost := [dialect for dialect in before if dialect not in after]:
        raise InvalidUpdate(
            f"the view would lose its SQL in {', '.join(lost)}; it would have {', '.join(after) or 'none'}",
            hint=f"give the SQL in every dialect, or set {VIEW_DROP_DIALECT} to true",
        )


def _expire_versions(draft: _Draft) -> None:
    """Remove old versions, but keep the current one, those just added, and the newest up to the number to keep.

    The log begins after the last entry of a removed version: with a gap in it, it would show wrong versions for some
    timestamps.
    """
    metadata = draft.metadata
    size = VIEW_HISTORY_SIZE.read(metadata.properties)
    retained = {metadata.current_version_id, *draft.added_versions}
    for version_id in sorted((version.version_id for version in metadata.versions), reverse=True):
        if len(retained) >= size:
            break
        retained.add(version_id)
    gaps = [n for n, entry in enumerate(metadata.version_log) if entry.version_id not in retained]
    draft.change(
        versions=tuple(version for version in metadata.versions if version.version_id in retained),
        version_log=metadata.version_log[gaps[-1] + 1 :] if gaps else metadata.version_log,
    )


# JSON ------------------------------------------------------------------------------------------------------------


def view_update_from_json(json: Any) -> ViewUpdate:
    """Parse an update from a JSON object.

    >>> view_update_from_json({"action": "set-current-view-version", "view-version-id": -1})
    SetCurrentViewVersion(version_id=-1)
    """
    return cast(ViewUpdate, _UPDATES.read(json))


def view_updates_from_json(json: Any) -> tuple[ViewUpdate, ...]:
    """Parse updates from a JSON list.

    >>> view_updates_from_json([{"action": "set-location", "location": "s3://bucket/v"}])
    (SetLocation(location='s3://bucket/v'),)
    """
    return _UPDATES.read_all(json)


def view_update_to_json(update: ViewUpdate) -> dict[str, Any]:
    """Return an update as a JSON object.

    >>> view_update_to_json(SetCurrentViewVersion(3))
    {'action': 'set-current-view-version', 'view-version-id': 3}
    """
    return _UPDATES.write(update)


def view_requirement_from_json(json: Any) -> AssertViewUuid:
    """Parse a requirement from a JSON object.

    >>> view_requirement_from_json({"type": "assert-view-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"})
    AssertViewUuid(uuid='9c12d441-03fe-4693-9a96-a0705ddf69c1')
    """
    return cast(AssertViewUuid, _REQUIREMENTS.read(json))


def view_requirement_to_json(requirement: AssertViewUuid) -> dict[str, Any]:
    """Return a requirement as a JSON object.

    >>> view_requirement_to_json(AssertViewUuid("9c12d441-03fe-4693-9a96-a0705ddf69c1"))
    {'type': 'assert-view-uuid', 'uuid': '9c12d441-03fe-4693-9a96-a0705ddf69c1'}
    """
    return _REQUIREMENTS.write(requirement)


_UPDATES = TaggedJson(
    "view update",
    "action",
    (
        *SHARED_FORMS,
        json_form(
            AddViewVersion.action,
            AddViewVersion,
            JsonField("view-version", "version", view_version_from_json, view_version_to_json),
        ),
        json_form(
            SetCurrentViewVersion.action, SetCurrentViewVersion, JsonField("view-version-id", "version_id", read_int32)
        ),
    ),
)
_REQUIREMENTS = TaggedJson(
    "view requirement", "type", [json_form(AssertViewUuid.type, AssertViewUuid, JsonField("uuid", "uuid", read_string))]
)
