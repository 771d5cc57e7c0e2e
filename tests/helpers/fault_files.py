"""Real small data files and delete files for tests that lose nothing: Parquet with ids, and deletion vectors."""

import datetime as dt
import io
from functools import cache

import pyarrow as pa
import pyarrow.parquet

from floe.spec.codecs.deletion_vectors import deletion_vector_blob
from floe.spec.codecs.puffin import write_file
from floe.spec.codecs.single_value import encode
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.types import LONG
from floe.storage.protocol import Storage

EPOCH = dt.date(1970, 1, 1)
DAY = (dt.date(2024, 5, 17) - EPOCH).days
COLUMNS = "id bigint not null, day date"


def _parquet(columns: dict[str, pa.Array], ids: list[int]) -> bytes:
    fields = [
        pa.field(name, values.type, metadata={"PARQUET:field_id": str(field_id)})
        for (name, values), field_id in zip(columns.items(), ids, strict=True)
    ]
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(list(columns.values()), schema=pa.schema(fields)), buffer)
    return buffer.getvalue()


@cache
def rows_of(ids: tuple[int, ...], day: int) -> bytes:
    """A Parquet file with these ids, all of one day."""
    days = [EPOCH + dt.timedelta(days=day)] * len(ids)
    return _parquet({"id": pa.array(ids, pa.int64()), "day": pa.array(days, pa.date32())}, [1, 2])


def put_data(storage: Storage, path: str, ids: tuple[int, ...], day: int = DAY) -> DataFile:
    """Writes a data file as an engine would, before the commit, and describes it."""
    data = rows_of(ids, day)
    storage.write(path, data, overwrite=True)
    return DataFile(
        FileContent.DATA,
        path,
        "parquet",
        (day,),
        len(ids),
        len(data),
        value_counts={1: len(ids)},
        null_value_counts={1: 0},
        lower_bounds={1: encode(LONG, min(ids))},
        upper_bounds={1: encode(LONG, max(ids))},
        spec_id=0,
    )


def put_positions(storage: Storage, path: str, target: DataFile, positions: tuple[int, ...]) -> DataFile:
    """Writes a file of position deletes."""
    columns = {
        "file_path": pa.array([target.file_path] * len(positions)),
        "pos": pa.array(positions, pa.int64()),
    }
    data = _parquet(columns, [2147483546, 2147483545])
    storage.write(path, data, overwrite=True)
    return DataFile(
        FileContent.POSITION_DELETES,
        path,
        "parquet",
        target.partition,
        len(positions),
        len(data),
        referenced_data_file=target.file_path,
        spec_id=target.spec_id,
    )


def put_vector(storage: Storage, path: str, target: DataFile, positions: tuple[int, ...]) -> DataFile:
    """Writes a Puffin file with one deletion vector."""
    made = write_file([deletion_vector_blob(positions, target.file_path)])
    storage.write(path, made.data, overwrite=True)
    (blob,) = made.payload.blobs
    return DataFile(
        FileContent.POSITION_DELETES,
        path,
        "puffin",
        target.partition,
        len(positions),
        len(made.data),
        referenced_data_file=target.file_path,
        content_offset=blob.offset,
        content_size_in_bytes=blob.length,
        spec_id=target.spec_id,
    )


def put_equality(storage: Storage, path: str, ids: tuple[int, ...], day: int = DAY) -> DataFile:
    """Writes a file of equality deletes by id, for one day's partition."""
    data = _parquet({"id": pa.array(ids, pa.int64())}, [1])
    storage.write(path, data, overwrite=True)
    return DataFile(
        FileContent.EQUALITY_DELETES,
        path,
        "parquet",
        (day,),
        len(ids),
        len(data),
        equality_ids=(1,),
        spec_id=0,
    )
