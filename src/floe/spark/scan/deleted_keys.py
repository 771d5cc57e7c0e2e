"""The equality deletes of a read, as files of rows to be joined with (spec: Scan Planning, Equality Delete Files).

Delete files that compare the same columns are joined with together: those that reach the whole table, and those that
reach rows of their own partition. A row is deleted if it is equal to one of theirs and strictly older.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.reading.equality_deletes import KeyColumns, key_columns
from floe.plan.delete_files import DeleteKind
from floe.spark.scan.files import PlannedFiles
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.schema import SchemaField

__all__ = ["DeletedKeys", "Scopes", "compared_columns", "deleted_keys"]


@dataclass(frozen=True, eq=False)
class DeletedKeys:
    """Delete files that compare the same columns, and reach equally far."""

    columns: KeyColumns
    everywhere: bool
    """Whether they reach the whole table, and not only their partitions."""

    table: pa.Table
    """The files, with the columns that readers of files ask for."""

    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        """How many rows the files have."""
        return sum(max(0, file.record_count) for file in self.files)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Where the files are."""
        return tuple(file.file_path for file in self.files)

    def may_be_null(self, entry: SchemaField) -> bool:
        """Whether a key may have null in a column, by the counts of the files."""
        return bool(entry.ancestors) or not all(_has_no_null(file, entry.field.id) for file in self.files)

    def in_parquet(self, yes: bool) -> DeletedKeys:
        """Those of the files that are in Parquet, or the others."""
        chosen = [(file.file_format == "parquet") == yes for file in self.files]
        files = tuple(file for file, one in zip(self.files, chosen, strict=True) if one)
        return DeletedKeys(self.columns, self.everywhere, self.table.filter(pa.array(chosen, pa.bool_())), files)

    def __str__(self) -> str:
        return f"({', '.join(entry.name for entry in self.columns.entries)})"


class Scopes:
    """The numbers of the partitions of some files, as one plan has them: another plan may have others."""

    def __init__(self, files: PlannedFiles) -> None:
        self._paths = files.table["file_path"].combine_chunks()
        self._numbers = pa.array(files.partition_numbers, pa.int32())

    def added_to(self, table: pa.Table) -> pa.Table:
        """The same files with a column for the numbers."""
        places = pc.index_in(table["file_path"], value_set=self._paths)
        return table.append_column("scope", self._numbers.take(places.combine_chunks()))


def deleted_keys(files: PlannedFiles) -> list[DeletedKeys]:
    """The equality deletes of some files."""
    index = files.plan.deletes
    numbers = files.equality_deletes
    if index is None or not numbers.size:
        return []
    table = files.plan.deletes_to_arrow().take(pa.array(numbers))
    table = table.append_column("scope", pa.array(index.deletes.partition[numbers], pa.int32()))
    table = table.append_column("split_offsets", pa.nulls(len(numbers), pa.list_(pa.int64())))
    everywhere = (index.deletes.kind[numbers] == DeleteKind.GLOBAL_EQUALITY).tolist()
    groups: dict[tuple[tuple[int, ...], bool], list[int]] = defaultdict(list)
    for place, ids in enumerate(table["equality_ids"].to_pylist()):
        groups[tuple(sorted(set(ids or ()))), everywhere[place]].append(place)
    found = []
    for (ids, reach), places in sorted(groups.items()):
        objects = tuple(index.files(numbers[places].tolist()))
        columns = key_columns(files.plan.metadata, ids, objects[0].file_path)
        found.append(DeletedKeys(columns, reach, table.take(pa.array(places)), objects))
    return found


def compared_columns(keys: Iterable[DeletedKeys]) -> list[SchemaField]:
    """The columns that some deletes compare."""
    return [entry for one in keys for entry in one.columns.entries]


def _has_no_null(file: DataFile, field_id: int) -> bool:
    nulls, values = file.null_value_counts or {}, file.value_counts or {}
    return nulls.get(field_id) == 0 and values.get(field_id) == file.record_count
