"""The metadata tables of a table as Arrow tables: snapshots, files, partitions, … with the columns that SQL has."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from floe.commit.pointer import TableState
from floe.plan.metadata_tables.tables import NAMES, metadata_table
from floe.plan.snapshot_selection import choose_snapshot
from floe.spec.expressions.nodes import Expression
from floe.sql.filters import as_filter
from floe.storage.protocol import Storage
from floe.table.hints import explain_missing_files
from floe.table.human_values import Timestamp, to_millis


class Inspect:
    """The metadata tables of a table, for the state in which it was loaded.

    Each takes `where`, a filter as text or expression, and `columns`; those that show the files of a snapshot also take
    one of `snapshot` (an id), `ref` (a branch or tag) and `as_of` (a timestamp).

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> t = lake.create_table("db.t", "id bigint")
    >>> t.inspect.snapshots().num_rows, t.inspect.files(columns=["file_path"]).column_names
    (0, ['file_path'])
    """

    def __init__(self, state: TableState, table: str, storage: Storage) -> None:
        self._state = state
        self._table = table
        self._storage = storage

    def __repr__(self) -> str:
        return f"<metadata tables: {', '.join(NAMES)}>"

    def table(
        self,
        name: str,
        *,
        where: Expression | str | None = None,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        ref: str | None = None,
        as_of: Timestamp | None = None,
    ) -> pa.Table:
        """The metadata table of that name, such as `"all_files"`."""
        metadata = self._state.metadata
        selected = None
        if snapshot is not None or ref is not None or as_of is not None:
            as_of_ms = None if as_of is None else to_millis(as_of)
            selected = choose_snapshot(metadata, snapshot=snapshot, ref=ref, as_of_ms=as_of_ms)
        with explain_missing_files(self._state, self._table):
            return metadata_table(
                name,
                metadata,
                self._state.location,
                self._storage,
                snapshot=selected,
                where=as_filter(where),
                columns=columns,
            )

    # of the whole table ------------------------------------------------------------------------------------------

    def snapshots(self, *, where: Expression | str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """All snapshots, with their operations and summaries."""
        return self.table("snapshots", where=where, columns=columns)

    def history(self, *, where: Expression | str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Which snapshot was current from when on."""
        return self.table("history", where=where, columns=columns)

    def refs(self, *, where: Expression | str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """The branches and tags."""
        return self.table("refs", where=where, columns=columns)

    def metadata_log_entries(
        self, *, where: Expression | str | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The metadata files: the current one and those before it."""
        return self.table("metadata_log_entries", where=where, columns=columns)

    def all_manifests(self, *, where: Expression | str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """The manifests of all snapshots."""
        return self.table("all_manifests", where=where, columns=columns)

    def all_entries(self, *, where: Expression | str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """The manifest entries of all snapshots."""
        return self.table("all_entries", where=where, columns=columns)

    def all_files(self, *, where: Expression | str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """The data and delete files of all snapshots."""
        return self.table("all_files", where=where, columns=columns)

    def all_data_files(
        self, *, where: Expression | str | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The data files of all snapshots."""
        return self.table("all_data_files", where=where, columns=columns)

    def all_delete_files(
        self, *, where: Expression | str | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The delete files of all snapshots."""
        return self.table("all_delete_files", where=where, columns=columns)

    # as of a snapshot ----------------------------------------------------------------------------------------------

    def manifests(
        self,
        *,
        where: Expression | str | None = None,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        ref: str | None = None,
        as_of: Timestamp | None = None,
    ) -> pa.Table:
        """The manifests of a snapshot."""
        return self.table("manifests", where=where, columns=columns, snapshot=snapshot, ref=ref, as_of=as_of)

    def entries(
        self,
        *,
        where: Expression | str | None = None,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        ref: str | None = None,
        as_of: Timestamp | None = None,
    ) -> pa.Table:
        """The manifest entries of a snapshot, those of removed files too."""
        return self.table("entries", where=where, columns=columns, snapshot=snapshot, ref=ref, as_of=as_of)

    def files(
        self,
        *,
        where: Expression | str | None = None,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        ref: str | None = None,
        as_of: Timestamp | None = None,
    ) -> pa.Table:
        """The data and delete files of a snapshot."""
        return self.table("files", where=where, columns=columns, snapshot=snapshot, ref=ref, as_of=as_of)

    def data_files(
        self,
        *,
        where: Expression | str | None = None,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        ref: str | None = None,
        as_of: Timestamp | None = None,
    ) -> pa.Table:
        """The data files of a snapshot."""
        return self.table("data_files", where=where, columns=columns, snapshot=snapshot, ref=ref, as_of=as_of)

    def delete_files(
        self,
        *,
        where: Expression | str | None = None,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        ref: str | None = None,
        as_of: Timestamp | None = None,
    ) -> pa.Table:
        """The delete files and deletion vectors of a snapshot."""
        return self.table("delete_files", where=where, columns=columns, snapshot=snapshot, ref=ref, as_of=as_of)

    def partitions(
        self,
        *,
        where: Expression | str | None = None,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        ref: str | None = None,
        as_of: Timestamp | None = None,
    ) -> pa.Table:
        """The partitions of a snapshot, with counts of files and rows."""
        return self.table("partitions", where=where, columns=columns, snapshot=snapshot, ref=ref, as_of=as_of)

    def position_deletes(
        self,
        *,
        where: Expression | str | None = None,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        ref: str | None = None,
        as_of: Timestamp | None = None,
    ) -> pa.Table:
        """The positions that a snapshot's position deletes and deletion vectors remove."""
        return self.table("position_deletes", where=where, columns=columns, snapshot=snapshot, ref=ref, as_of=as_of)
