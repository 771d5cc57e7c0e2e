"""The table of deleted positions: delete files of each format with and without rows, and deletion vectors."""

import io
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID as Uuid

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from floe.avro.container import SCHEMA, write_container
from floe.avro.records import make_writer
from floe.errors import CorruptFile, NoSuchFile
from floe.formats.columns.arrow_types import arrow_schema
from floe.plan.metadata_tables import metadata_table
from floe.spec.codecs.avro_schemas import type_to_avro
from floe.spec.codecs.deletion_vectors import deletion_vector_blob
from floe.spec.codecs.puffin import write_file
from floe.spec.expressions.dsl import col
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import UNPARTITIONED
from floe.spec.schemas.metadata_columns import position_delete_schema
from floe.spec.schemas.schema import Schema
from floe.spec.types import (
    DATE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    UNKNOWN,
    UUID,
    DecimalType,
    Field,
    ListType,
    MapType,
    StructType,
)
from floe.storage.memory import MemoryStorage
from helpers.small_tables import FOLDER, added, small_table

OLD = StructType(
    (
        Field(1, "id", INT),
        Field(2, "old_name", STRING),
        Field(3, "st", StructType((Field(4, "a", INT), Field(5, "dropped", INT)))),
        Field(6, "tags", ListType(7, STRING)),
        Field(8, "m", MapType(9, STRING, 10, DecimalType(9, 2))),
        Field(11, "day", DATE),
        Field(12, "u", UUID),
        Field(13, "gone", LONG),
        Field(18, "numbered", MapType(19, INT, 20, LONG)),
    )
)
NEW = Schema(
    (
        Field(2, "name", STRING),
        Field(1, "id", LONG),
        Field(3, "st", StructType((Field(14, "b", LONG, initial_default=7), Field(4, "a", INT)))),
        Field(6, "tags", ListType(7, STRING)),
        Field(8, "m", MapType(9, STRING, 10, DecimalType(12, 2))),
        Field(11, "day", TIMESTAMP),
        Field(12, "u", UUID),
        Field(15, "added", INT),
        Field(16, "defaulted", STRING, initial_default="d"),
        Field(17, "nothing", UNKNOWN),
        Field(18, "numbered", MapType(19, INT, 20, LONG)),
    )
)
SOME_UUID = Uuid(int=5)
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "old_name": "x",
        "st": {"a": 4, "dropped": 5},
        "tags": ["p", None],
        "m": [("k", Decimal("1.25"))],
        "day": 1,
        "u": SOME_UUID.bytes,
        "gone": 9,
        "numbered": [(3, 4)],
    },
    {
        "id": None,
        "old_name": None,
        "st": None,
        "tags": None,
        "m": None,
        "day": None,
        "u": None,
        "gone": 1,
        "numbered": None,
    },
    {
        "id": 3,
        "old_name": "",
        "st": {"a": None, "dropped": 5},
        "tags": [],
        "m": [],
        "day": -1,
        "u": None,
        "gone": 1,
        "numbered": [],
    },
]
AS_NOW = [
    {
        "name": "x",
        "id": 1,
        "st": {"b": 7, "a": 4},
        "tags": ["p", None],
        "m": [("k", Decimal("1.25"))],
        "day": 86_400_000_000,
        "u": SOME_UUID.bytes,
        "added": None,
        "defaulted": "d",
        "nothing": None,
        "numbered": [(3, 4)],
    },
    {
        "name": None, "id": None, "st": None, "tags": None, "m": None, "day": None, "u": None, "added": None,
        "defaulted": "d", "nothing": None, "numbered": None,
    },
    {
        "name": "", "id": 3, "st": {"b": 7, "a": None}, "tags": [], "m": [], "day": -86_400_000_000, "u": None,
        "added": None, "defaulted": "d", "nothing": None, "numbered": [],
    },
]  # fmt: skip


def delete_file(file_format: str, name: str = "d", **options: Any) -> DataFile:
    return DataFile(FileContent.POSITION_DELETES, f"{FOLDER}/{name}", file_format, (), 3, 10**6, **options)


def table_of(*files: DataFile, version: int = 2) -> tuple[TableMetadata, MemoryStorage]:
    return small_table([added(*files)], NEW, UNPARTITIONED, format_version=version)


def read(metadata: TableMetadata, storage: MemoryStorage, **options: Any) -> pa.Table:
    found = metadata_table("position_deletes", metadata, "x", storage, workers=1, **options)
    found.validate(full=True)
    return found


def arrow_rows(rows: list[dict[str, Any]] | None) -> pa.Table:
    """The content of a delete file, as its writer has it."""
    columns: dict[str, Any] = {"file_path": ["a", "a", "b"], "pos": [1, 5, 0]}
    if rows is not None:
        columns["row"] = rows
    schema = arrow_schema(position_delete_schema(None if rows is None else OLD))
    return pa.table({name: pa.array(columns[name], schema.field(name).type) for name in columns}, schema=schema)


def parquet(rows: list[dict[str, Any]] | None) -> bytes:
    out = io.BytesIO()
    pq.write_table(arrow_rows(rows), out)
    return out.getvalue()


def orc_file(rows: list[dict[str, Any]] | None) -> bytes:
    out = io.BytesIO()
    orc.write_table(arrow_rows(rows), out)
    return out.getvalue()


def avro(rows: list[dict[str, Any]] | None) -> bytes:
    type_ = position_delete_schema(None if rows is None else OLD).as_struct()
    write = make_writer(type_)
    content = b""
    for n, (path, pos) in enumerate([("a", 1), ("a", 5), ("b", 0)]):
        row: list[Any] = [path, pos]
        if rows is not None:
            own = dict(rows[n])
            for name in ("m", "numbered"):
                own[name] = None if own[name] is None else dict(own[name])
            own["st"] = None if own["st"] is None else tuple(own["st"].values())
            own["u"] = None if own["u"] is None else Uuid(bytes=own["u"])
            row.append(tuple(own.values()))
        content += write(tuple(row))
    header = {SCHEMA: json.dumps(type_to_avro(type_, "delete")).encode()}
    return write_container(header, [(3, content)])


FORMATS = {"parquet": parquet, "orc": orc_file, "avro": avro}


@pytest.mark.parametrize(
    ("file_format", "with_rows"),
    [("parquet", False), ("parquet", True), ("avro", False), ("avro", True), ("orc", False)],
)
def test_delete_files_of_each_format(file_format: str, with_rows: bool) -> None:
    metadata, storage = table_of(delete_file(file_format))
    storage.write(f"{FOLDER}/d", FORMATS[file_format](ROWS if with_rows else None))
    rows = read(metadata, storage)
    assert rows.select(["file_path", "pos", "spec_id", "delete_file_path"]).to_pylist() == [
        {"file_path": path, "pos": pos, "spec_id": 0, "delete_file_path": f"{FOLDER}/d"}
        for path, pos in (("a", 1), ("a", 5), ("b", 0))
    ]
    assert _moments_as_numbers(rows.column("row")) == (AS_NOW if with_rows else [None] * 3)


def _moments_as_numbers(column: pa.ChunkedArray) -> list[Any]:
    struct = column.combine_chunks()
    fields = [
        field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field
        for field in (struct.type.field(n) for n in range(struct.type.num_fields))
    ]
    return struct.cast(pa.struct(fields)).to_pylist()


@pytest.mark.parametrize("file_format", FORMATS)
def test_columns_that_are_not_asked_for(file_format: str) -> None:
    metadata, storage = table_of(delete_file(file_format))
    storage.write(f"{FOLDER}/d", FORMATS[file_format](None))
    assert read(metadata, storage, columns=["pos"]).to_pylist() == [{"pos": 1}, {"pos": 5}, {"pos": 0}]
    assert read(metadata, storage, columns=["delete_file_path"]).num_rows == 3
    assert read(metadata, storage, columns=[]).num_rows == 3
    where = (col("pos") > 0) & (col("file_path") == "a")
    assert read(metadata, storage, where=where, columns=["pos"]).to_pylist() == [{"pos": 1}, {"pos": 5}]


def test_rows_in_orc_files() -> None:
    """Without ids, as Arrow writes them, columns are found by name."""
    metadata, storage = table_of(delete_file("orc"))
    row = [{"id": 1, "st": {"a": 4}, "day": 1, "gone": 2}, None]
    type_ = pa.struct(
        [("id", pa.int32()), ("st", pa.struct([("a", pa.int32())])), ("day", pa.date32()), ("gone", pa.int64())]
    )
    table = pa.table(
        {"file_path": ["a", "b"], "pos": pa.array([1, 2], pa.int64()), "row": pa.array(row, type_)},
    )
    out = io.BytesIO()
    orc.write_table(table, out)
    storage.write(f"{FOLDER}/d", out.getvalue())
    first, second = _moments_as_numbers(read(metadata, storage).column("row"))
    assert (first["id"], first["st"], first["day"], first["defaulted"]) == (1, {"b": 7, "a": 4}, 86_400_000_000, "d")
    assert second is None


def test_filters_on_deleted_rows() -> None:
    metadata, storage = table_of(delete_file("parquet"))
    storage.write(f"{FOLDER}/d", parquet(ROWS))
    where = (col("row.id") == 3) | col("row.name").is_null()
    assert read(metadata, storage, where=where, columns=["pos"]).column("pos").to_pylist() == [5, 0]


# deletion vectors ---------------------------------------------------------------------------------------------------


def vector_table(**changes: Any) -> tuple[TableMetadata, MemoryStorage]:
    written = write_file([deletion_vector_blob([3], "a.parquet"), deletion_vector_blob([1, 2, 2**40], "b.parquet")])
    files = [
        DataFile(
            FileContent.POSITION_DELETES,
            f"{FOLDER}/v.puffin",
            "puffin",
            (),
            count,
            len(written.data),
            referenced_data_file=path,
            content_offset=blob.offset,
            content_size_in_bytes=blob.length,
        )
        for path, count, blob in zip(("a.parquet", "b.parquet"), (1, 3), written.payload.blobs, strict=True)
    ]
    files[1] = replace(files[1], **changes)
    metadata, storage = table_of(*files, version=3)
    storage.write(f"{FOLDER}/v.puffin", written.data)
    return metadata, storage


def test_deletion_vectors() -> None:
    metadata, storage = vector_table()
    rows = read(metadata, storage).to_pylist()
    assert [(row["file_path"], row["pos"]) for row in rows] == [
        ("a.parquet", 3), ("b.parquet", 1), ("b.parquet", 2), ("b.parquet", 2**40),
    ]  # fmt: skip
    assert {row["row"] for row in rows} == {None}
    assert [row["content_offset"] for row in rows][:2] == [4, 4 + rows[0]["content_size_in_bytes"]]
    by_path = read(metadata, storage, where=col("file_path") == "b.parquet", columns=["pos"])
    assert by_path.column("pos").to_pylist() == [1, 2, 2**40]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"record_count": 4}, "3 positions, expected 4"),
        ({"content_size_in_bytes": 10**7}, "outside its file"),
        ({"content_offset": 5}, "."),
        ({"file_path": f"{FOLDER}/lost.puffin"}, "lost.puffin"),
    ],
)
def test_broken_vectors_name_their_file(changes: dict[str, Any], message: str) -> None:
    metadata, storage = vector_table(**changes)
    with pytest.raises((CorruptFile, NoSuchFile), match=message) as caught:
        read(metadata, storage)
    assert ".puffin" in str(caught.value)


# broken files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_files_that_are_cut_off_are_corrupt(file_format: str, kept: float) -> None:
    metadata, storage = table_of(delete_file(file_format))
    data = FORMATS[file_format](None)
    storage.write(f"{FOLDER}/d", data[: int(len(data) * kept)])
    with pytest.raises(CorruptFile) as caught:
        read(metadata, storage)
    assert f"{FOLDER}/d" in str(caught.value)


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_files_without_the_columns_are_corrupt(file_format: str) -> None:
    metadata, storage = table_of(delete_file(file_format))
    out = io.BytesIO()
    (pq if file_format == "parquet" else orc).write_table(pa.table({"file_path": ["a"], "place": [1]}), out)
    storage.write(f"{FOLDER}/d", out.getvalue())
    with pytest.raises(CorruptFile, match=f"no column for the required field 'pos'.*{FOLDER}/d"):
        read(metadata, storage)


def test_nulls_where_none_may_be() -> None:
    metadata, storage = table_of(delete_file("parquet"))
    out = io.BytesIO()
    pq.write_table(pa.table({"file_path": ["a", None], "pos": pa.array([1, 2], pa.int64())}), out)
    storage.write(f"{FOLDER}/d", out.getvalue())
    with pytest.raises(CorruptFile, match=r"null in a required column .*column: file_path"):
        read(metadata, storage)


def test_a_file_that_is_gone() -> None:
    metadata, storage = table_of(delete_file("parquet"))
    with pytest.raises(NoSuchFile):
        read(metadata, storage)


def test_rows_of_another_type_are_corrupt() -> None:
    metadata, storage = table_of(delete_file("parquet"))

    def numbered(name: str, type_: pa.DataType, field_id: int) -> pa.Field:
        return pa.field(name, type_, metadata={"PARQUET:field_id": str(field_id)})

    schema = pa.schema(
        [
            numbered("file_path", pa.string(), 2147483546),
            numbered("pos", pa.int64(), 2147483545),
            numbered("row", pa.struct([numbered("id", pa.string(), 1)]), 2147483544),
        ]
    )
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([{"file_path": "a", "pos": 1, "row": {"id": "text"}}], schema), out)
    storage.write(f"{FOLDER}/d", out.getvalue())
    with pytest.raises(CorruptFile, match="stores string, which cannot be read as long"):
        read(metadata, storage)
    assert read(metadata, storage, columns=["pos"]).num_rows == 1
