"""Data and delete files of a table written one by one through the file-format API, to be committed by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from floe import Table
from floe.formats.registry import default_registry
from floe.spec.codecs import deletion_vectors, puffin
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.schemas.column_projection import project
from floe.spec.schemas.schema import Schema


class Files:
    """Writes files below a table; nothing of it is in the table until it is committed."""

    def __init__(self, table: Table, file_format: str = "parquet") -> None:
        self.table = table
        self.file_format = file_format
        self._formats = default_registry()
        self._numbers = itertools.count()

    def _path(self, kind: str, suffix: str | None = None) -> str:
        return f"{self.table.location}/data/{kind}-{next(self._numbers)}.{suffix or self.file_format}"

    def data(
        self, rows: Iterable[dict[str, Any]], partition: tuple[Any, ...] = (), schema: Schema | None = None
    ) -> Any:
        """A data file of some rows."""
        table = self.table
        builder = self._formats.write_data(self.file_format, "rows", table.storage, self._path("rows"))
        builder = builder.schema(schema or table.schema).partition(table.spec, partition)
        with builder.build() as file:
            file.write(rows)
        return file.close()

    def positions(self, deleted: Iterable[tuple[str, int]], partition: tuple[Any, ...] = ()) -> DataFile:
        """A file of position deletes."""
        table = self.table
        builder = self._formats.write_position_deletes(self.file_format, "rows", table.storage, self._path("positions"))
        with builder.partition(table.spec, partition).build() as file:
            file.write([{"file_path": path, "pos": position} for path, position in deleted])
        return file.close()

    def vector(self, target: DataFile, positions: Iterable[int], **changes: Any) -> DataFile:
        """A deletion vector."""
        positions = sorted(positions)
        written = puffin.write_file([deletion_vectors.deletion_vector_blob(positions, target.file_path)])
        path = self._path("vector", "puffin")
        self.table.storage.write(path, written.data)
        (place,) = written.payload.blobs
        facts: dict[str, Any] = {
            "record_count": len(positions),
            "file_size_in_bytes": len(written.data),
            "referenced_data_file": target.file_path,
            "content_offset": place.offset,
            "content_size_in_bytes": place.length,
        }
        return DataFile(
            FileContent.POSITION_DELETES,
            path,
            "puffin",
            target.partition,
            spec_id=target.spec_id,
            **{**facts, **changes},
        )

    def keys(self, columns: Iterable[str], rows: Iterable[dict[str, Any]], partition: tuple[Any, ...] = ()) -> DataFile:
        """A file of equality deletes."""
        table = self.table
        ids = [table.schema.field(name).id for name in columns]
        builder = self._formats.write_equality_deletes(self.file_format, "rows", table.storage, self._path("keys"))
        builder = builder.compare(*ids).schema(project(table.schema, ids)).partition(table.spec, partition)
        with builder.build() as file:
            file.write(rows)
        return file.close()
