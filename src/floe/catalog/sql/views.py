"""Views in a SQL catalog: rows of type VIEW, and view metadata files named as Java names them.

A view has no log of its earlier files, so the outcome of a replacement whose response was lost is read from the row
alone, which names the current file and the one before.
"""

from __future__ import annotations

from collections.abc import Callable

from floe.catalog.identifiers import Identifier, format_identifier
from floe.catalog.metadata_files import compressed
from floe.catalog.sql.database import Session
from floe.catalog.sql.records import Kind, Record
from floe.catalog.sql.store import SqlStore
from floe.commit.pointer import Outcome
from floe.errors import CommitConflict, CommitStateUnknown, FloeError, OutcomeUnknown, StorageUnavailable
from floe.spec.json_reader import Limits
from floe.spec.metadata.file_names import catalog_metadata_file_name, parse_metadata_file_name
from floe.spec.properties import VIEW_GC_ENABLED, VIEW_METADATA_CODEC, VIEW_METADATA_PATH
from floe.spec.views.view_metadata import ViewMetadata, check_view, parse_view, serialize_view
from floe.storage.locations import is_below, join


class SqlViews:
    """The views of a SQL catalog."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def exists(self, identifier: Identifier) -> bool:
        """Whether there is such a view."""
        return self._store.records().find_kind(self._store.database.read, Kind.VIEW, identifier) is not None

    def load(self, identifier: Identifier) -> ViewMetadata:
        """The current metadata of a view."""
        return self._loaded(identifier)[1]

    def create(self, identifier: Identifier, metadata: ViewMetadata) -> None:
        """Creates a view in a namespace that exists."""
        store = self._store
        check_view(metadata)
        store.schema.upgrade_for_views()
        store.check_name(identifier)
        records, namespaces = store.records(), store.namespaces()
        namespaces.require(store.database.read, identifier[:-1])
        store.check_free(store.database.read, records, Kind.VIEW, identifier)
        location = self._write(None, metadata)

        def work(session: Session) -> None:
            namespaces.hold(session, identifier[:-1])
            if not records.insert(session, Kind.VIEW, identifier, location):
                store.check_free(session.query, records, Kind.VIEW, identifier)
                raise CommitConflict("another writer created the view, and dropped it")

        def outcome(session: Session) -> Outcome:
            if records.insert(session, Kind.VIEW, identifier, location):  # waits for other writers, and is rolled back
                return Outcome.ABSENT
            current = records.find(session.query, identifier)
            is_ours = current is not None and location in (current.location, current.previous)
            return Outcome.PUBLISHED if is_ours else Outcome.UNKNOWN

        self._publish("creating the view", location, identifier, work, outcome)

    def replace(self, identifier: Identifier, base: ViewMetadata, metadata: ViewMetadata) -> None:
        """Replaces a view's metadata if it is still `base`."""
        store = self._store
        check_view(metadata)
        record, current = self._loaded(identifier)
        if current != base:
            raise CommitConflict("another writer changed the view", view=format_identifier(identifier))
        records = store.records()
        location = self._write(record, metadata, moved=_metadata_folder(metadata) != _metadata_folder(base))

        def work(session: Session) -> None:
            if not records.update(session, Kind.VIEW, identifier, record.location, location):
                store.required(session.query, records, Kind.VIEW, identifier)
                raise CommitConflict("another writer changed the view")

        def outcome(session: Session) -> Outcome:
            current = records.find(session.query, identifier, lock=store.database.lock_for_update)
            if current is not None and location in (current.location, current.previous):
                return Outcome.PUBLISHED
            is_unchanged = current is not None and current.location == record.location
            return Outcome.ABSENT if is_unchanged else Outcome.UNKNOWN

        self._publish("changing the view", location, identifier, work, outcome)

    def drop(self, identifier: Identifier) -> None:
        """Drops a view, and deletes its metadata file."""
        store, records = self._store, self._store.records()
        record = store.required(store.database.read, records, Kind.VIEW, identifier)

        def work(session: Session) -> None:
            nonlocal record
            record = store.required(session.query, records, Kind.VIEW, identifier, lock=store.database.lock_for_update)
            records.remove(session, Kind.VIEW, identifier, record.location)

        def outcome(session: Session) -> Outcome:
            current = records.find(session.query, identifier, lock=store.database.lock_for_update)
            if current is None or current.kind is not Kind.VIEW:
                return Outcome.PUBLISHED
            return Outcome.ABSENT if current.location == record.location else Outcome.UNKNOWN

        store.change("dropping the view", work, outcome, view=format_identifier(identifier))
        self._delete_file(record)

    # files ---------------------------------------------------------------------------------------------------

    def _loaded(self, identifier: Identifier) -> tuple[Record, ViewMetadata]:
        store = self._store
        record = store.required(store.database.read, store.records(), Kind.VIEW, identifier)
        return record, self._read(record)

    def _read(self, record: Record) -> ViewMetadata:
        limits, storage = Limits(), self._store.storage_at(record.location)
        try:
            return parse_view(storage.read(record.location, max_bytes=limits.max_bytes), limits=limits)
        except FloeError as error:
            error.with_context(view=format_identifier(record.identifier), file=record.location)
            raise

    def _write(self, base: Record | None, metadata: ViewMetadata, *, moved: bool = False) -> str:
        """Writes the metadata to a new file, and returns its location; `moved` says that the folder is another one."""
        gzip = _is_compressed(metadata)
        base_name = parse_metadata_file_name(base.location) if base is not None else None
        version = base_name.version if base_name is not None and base_name.version is not None else -1
        name = catalog_metadata_file_name(version + 1, str(self._store.environment.ids.uuid()), compressed=gzip)
        location = join(_metadata_folder(metadata), name)
        self._store.schema.check_lengths(metadata_location=location)
        text = serialize_view(metadata)
        content = compressed(text) if gzip else text
        storage = self._store.storage_at(location if base is None or moved else base.location)
        try:
            storage.write(location, content)
        except OutcomeUnknown as lost:
            # The name is unique, so a file of that name can only be ours.
            if not storage.exists(location) or storage.read(location) != content:
                raise StorageUnavailable("the view's metadata file could not be written", location=location) from lost
        return location

    def _publish(
        self,
        action: str,
        location: str,
        identifier: Identifier,
        work: Callable[[Session], None],
        outcome: Callable[[Session], Outcome],
    ) -> None:
        """Changes the row; deletes the new file if the row certainly did not change."""
        try:
            self._store.change(action, work, outcome, view=format_identifier(identifier))
        except CommitStateUnknown:
            raise
        except FloeError:
            self._delete([location])
            raise

    def _delete_file(self, record: Record) -> None:
        """Deletes the metadata file of a dropped view, if it lies in the view's own folders."""
        try:
            metadata = self._read(record)
            is_own = any(is_below(record.location, root) for root in (metadata.location, _metadata_folder(metadata)))
            if is_own and VIEW_GC_ENABLED.read(metadata.properties):
                self._delete([record.location])
        except FloeError:
            return  # the view is dropped; a file that stays does no harm

    def _delete(self, locations: list[str]) -> None:
        try:
            for location in locations:
                self._store.storage_at(location).delete_many([location])
        except FloeError:
            return


def _metadata_folder(metadata: ViewMetadata) -> str:
    folder = VIEW_METADATA_PATH.read(metadata.properties)
    return folder.rstrip("/") if folder else join(metadata.location, "metadata")


def _is_compressed(metadata: ViewMetadata) -> bool:
    """Whether the file is compressed; by default it is, as in Java."""
    return VIEW_METADATA_CODEC.read(metadata.properties) == "gzip"
