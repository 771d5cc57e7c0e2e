"""Data files and delete files that only their metadata describes: enough for everything but reading rows."""

import datetime as dt

from floe.spec.codecs.single_value import encode
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.partitioning.transforms import Void
from floe.spec.types import LONG
from floe.table.table import Table
from floe.table.transaction import PendingTable

DAY = (dt.date(2024, 5, 17) - dt.date(1970, 1, 1)).days
"""The day that files are of unless told otherwise."""


def data_file(
    table: Table | PendingTable,
    name: str,
    ids: tuple[int, int] = (1, 10),
    *,
    day: int | None = DAY,
    write: bool = False,
    **more: object,
) -> DataFile:
    """A file of rows with these ids, one each, of a day; with `write` there is something at its location too."""
    lowest, highest = ids
    path = f"{table.location}/data/{name}.parquet"
    if write:
        table.storage.write(path, b"rows")
    columns = {field.name: field.id for field in table.schema}
    count = highest - lowest + 1
    partition = _partition(table, day)
    return DataFile(
        FileContent.DATA,
        path,
        "parquet",
        partition,
        count,
        100 * count,
        value_counts={columns["id"]: count},
        null_value_counts={columns["id"]: 0},
        lower_bounds={columns["id"]: encode(LONG, lowest)},
        upper_bounds={columns["id"]: encode(LONG, highest)},
        spec_id=table.spec.spec_id,
        **more,  # type: ignore[arg-type]
    )


def _partition(table: Table | PendingTable, day: int | None) -> tuple[int | None, ...]:
    """The day for the first field that splits anything, null for all others."""
    real = [not isinstance(field.transform, Void) for field in table.spec.fields]
    return tuple(day if is_real and not any(real[:n]) else None for n, is_real in enumerate(real))


def position_deletes(table: Table, name: str, target: DataFile, count: int = 1) -> DataFile:
    """Deletes of some rows of a file: a deletion vector in format version 3, a file of positions before."""
    vector = table.format_version >= 3
    return DataFile(
        FileContent.POSITION_DELETES,
        f"{table.location}/data/{name}.{'puffin' if vector else 'parquet'}",
        "puffin" if vector else "parquet",
        target.partition,
        count,
        64,
        referenced_data_file=target.file_path,
        content_offset=4 if vector else None,
        content_size_in_bytes=40 if vector else None,
        spec_id=target.spec_id,
    )


def equality_deletes(table: Table, name: str, *, day: int | None = DAY) -> DataFile:
    """Deletes of the rows whose id is in a file."""
    partition = _partition(table, day)
    return DataFile(
        FileContent.EQUALITY_DELETES,
        f"{table.location}/data/{name}-eq.parquet",
        "parquet",
        partition,
        3,
        64,
        equality_ids=(table.schema.field("id").id,),
        spec_id=table.spec.spec_id,
    )


def names(paths: list[str]) -> list[str]:
    """The bare names of files, sorted."""
    return sorted(path.rpartition("/")[2].partition(".")[0] for path in paths)


def live(table: Table, **scan: object) -> list[str]:
    """The bare names of the data files that a scan reads."""
    return names(table.scan(**scan).files())  # type: ignore[arg-type]
