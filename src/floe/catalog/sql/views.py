"""Views in a SQL catalog: rows of type VIEW, and view metadata files named as Java names them.

A view has no log of its earlier files, so a replacement whose answer was lost is found by the row alone: it names the
current file and the one before.
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
        """A view."""
        return self._loaded(identifier)[1]

    def create(self, identifier: Identifier, metadata: ViewMetadata) -> None:
        """Makes a view."""
        store = self._store
        check_view(metadata)
        store.schema.needs_views()
        store.check_name(identifier)
        records, namespaces = store.records(), store.namespaces()
        namespaces.require(store.database.read, identifier[:-1])
        store.check_free(store.database.read, records, Kind.VIEW, identifier)
        location = self._write(None, metadata)

        def work(session: Session) -> None:
            namespaces.hold(session, identifier[:-1])
            if not records.insert(session, Kind.VIEW, identifier, location):
                store.check_free(session.query, records, Kind.VIEW, identifier)
                raise CommitConflict("somebody else created the view, and dropped it")

        def became(session: Session) -> Outcome:
            if records.insert(session, Kind.VIEW, identifier, location):  # waits, and is rolled back
                return Outcome.ABSENT
            found = records.find(session.query, identifier)
            is_ours = found is not None and location in (found.location, found.previous)
            return Outcome.PUBLISHED if is_ours else Outcome.UNKNOWN

        self._publish("creating the view", location, identifier, work, became)

    def replace(self, identifier: Identifier, base: ViewMetadata, metadata: ViewMetadata) -> None:
        """Changes a view that is still as `base` says."""
        store = self._store
        check_view(metadata)
        record, current = self._loaded(identifier)
        if current != base:
            raise CommitConflict("somebody else changed the view", view=format_identifier(identifier))
        records = store.records()
        location = self._write(record, metadata, moved=_metadata_folder(metadata) != _metadata_folder(base))

        def work(session: Session) -> None:
            if not records.update(session, Kind.VIEW, identifier, record.location, location):
                store.required(session.query, records, Kind.VIEW, identifier)
                raise CommitConflict("somebody else changed the view")

        def became(session: Session) -> Outcome:
            found = records.find(session.query, identifier, lock=store.database.lock_for_update)
            if found is not None and location in (found.location, found.previous):
                return Outcome.PUBLISHED
            return Outcome.ABSENT if found is not None and found.location == record.location else Outcome.UNKNOWN

        self._publish("changing the view", location, identifier, work, became)

    def drop(self, identifier: Identifier) -> None:
        """Removes a view, and its metadata file."""
        store, records = self._store, self._store.records()
        record = store.required(store.database.read, records, Kind.VIEW, identifier)

        def work(session: Session) -> None:
            nonlocal record
            record = store.required(session.query, records, Kind.VIEW, identifier, lock=store.database.lock_for_update)
            records.remove(session, Kind.VIEW, identifier, record.location)

        def became(session: Session) -> Outcome:
            found = records.find(session.query, identifier, lock=store.database.lock_for_update)
            if found is None or found.kind is not Kind.VIEW:
                return Outcome.PUBLISHED
            return Outcome.ABSENT if found.location == record.location else Outcome.UNKNOWN

        store.change("dropping the view", work, became, view=format_identifier(identifier))
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
        """Writes the metadata to a file of its own, and says where: if it is `moved`, where the caller asks for."""
        gzip = _is_compressed(metadata)
        found = parse_metadata_file_name(base.location) if base is not None else None
        version = found.version if found is not None and found.version is not None else -1
        name = catalog_metadata_file_name(version + 1, str(self._store.environment.ids.uuid()), compressed=gzip)
        location = join(_metadata_folder(metadata), name)
        self._store.schema.check_lengths(metadata_location=location)
        text = serialize_view(metadata)
        content = compressed(text) if gzip else text
        storage = self._store.storage_at(location if base is None or moved else base.location)
        try:
            storage.write(location, content)
        except OutcomeUnknown as lost:
            # The name is ours alone, so what is there, if anything, is what was sent.
            if not storage.exists(location) or storage.read(location) != content:
                raise StorageUnavailable("the view's metadata file could not be written", location=location) from lost
        return location

    def _publish(
        self,
        what: str,
        location: str,
        identifier: Identifier,
        work: Callable[[Session], None],
        became: Callable[[Session], Outcome],
    ) -> None:
        """Changes the row; the new file goes if it is known that the row did not change."""
        try:
            self._store.change(what, work, became, view=format_identifier(identifier))
        except CommitStateUnknown:
            raise
        except FloeError:
            self._delete([location])
            raise

    def _delete_file(self, record: Record) -> None:
        """Deletes the metadata file of a view that was dropped, if it is the view's own."""
        try:
            metadata = self._read(record)
            is_own = any(is_below(record.location, root) for root in (metadata.location, _metadata_folder(metadata)))
            if is_own and VIEW_GC_ENABLED.read(metadata.properties):
                self._delete([record.location])
        except FloeError:
            return  # the view is gone; a file that stays is no harm

    def _delete(self, locations: list[str]) -> None:
        try:
            for location in locations:
                self._store.storage_at(location).delete_many([location])
        except FloeError:
            return


def _metadata_folder(metadata: ViewMetadata) -> str:
    asked = VIEW_METADATA_PATH.read(metadata.properties)
    return asked.rstrip("/") if asked else join(metadata.location, "metadata")


def _is_compressed(metadata: ViewMetadata) -> bool:
    """Whether the file is compressed: yes unless told otherwise, as Java has it for views."""
    return VIEW_METADATA_CODEC.read(metadata.properties) == "gzip"
