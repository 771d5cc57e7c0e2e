"""Data and delete files that contradict the table's metadata: a clear error, quickly, and never wrong rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import floe
from floe import Table, errors
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, STRING, Field
from floe.storage.access import Access
from floe.storage.local import LocalStorage
from helpers.written_files import Files

FORMATS = ["parquet", "orc", "avro"]


def new_table(version: int = 2) -> Table:
    lake = floe.connect("memory:")
    lake.create_namespace("db")
    return lake.create_table("db.t", "id bigint not null, s string", format_version=version)


ROWS = [{"id": n, "s": f"s{n}"} for n in range(100)]


def read_fails(table: Table, match: str | None = None) -> errors.FloeError:
    with pytest.raises(errors.CorruptFile, match=match) as caught:
        table.scan().to_arrow()
    assert "file" in caught.value.context
    return caught.value


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.99])
def test_truncated_files(file_format: str, share: float) -> None:
    table = new_table()
    file = Files(table, file_format).data(ROWS)
    data = table.storage.read(file.file_path)
    table.storage.write(file.file_path, data[: int(len(data) * share)], overwrite=True)
    table.append_files([file])
    read_fails(table)


@pytest.mark.parametrize("file_format", FORMATS)
def test_every_byte_of_a_file_may_be_wrong(file_format: str) -> None:
    """Either the rows are found, or an error of ours is raised; checksums are few in these formats."""
    table = new_table()
    file = Files(table, file_format).data(ROWS[:5])
    table.append_files([file])
    data = table.storage.read(file.file_path)
    failed = 0
    for offset in range(0, len(data), max(1, len(data) // 120)):
        broken = bytearray(data)
        broken[offset] ^= 0xFF
        table.storage.write(file.file_path, bytes(broken), overwrite=True)
        try:
            table.scan().to_arrow()
        except errors.FloeError:
            failed += 1
    assert failed > 5


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("record_count", [1, 99, 101, 2**40])
def test_lying_row_counts(file_format: str, record_count: int) -> None:
    table = new_table()
    table.append_files([replace(Files(table, file_format).data(ROWS), record_count=record_count)])
    read_fails(table, "rows")


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("size", [1, 2**50])
def test_lying_sizes_never_give_other_rows(file_format: str, size: int) -> None:
    table = new_table()
    table.append_files([replace(Files(table, file_format).data(ROWS), file_size_in_bytes=size)])
    try:
        rows = table.scan().to_arrow().to_pylist()
    except errors.FloeError:
        return
    assert rows == ROWS


@pytest.mark.parametrize("file_format", FORMATS)
def test_wrong_types(file_format: str) -> None:
    table = new_table()
    other = Schema((Field(1, "id", STRING), Field(2, "s", STRING)))
    table.append_files([Files(table, file_format).data([{"id": "x", "s": "y"}], schema=other)])
    error = read_fails(table, "cannot be read as long")
    assert error.context["column"] == "id"


@pytest.mark.parametrize("file_format", FORMATS)
def test_wrong_ids(file_format: str) -> None:
    table = new_table()
    other = Schema((Field(7, "id", LONG), Field(8, "s", STRING)))
    table.append_files([Files(table, file_format).data(ROWS, schema=other)])
    read_fails(table, "no column for the required field 'id'")


@pytest.mark.parametrize("file_format", FORMATS)
def test_nulls_in_a_required_column(file_format: str) -> None:
    table = new_table()
    other = Schema((Field(1, "id", LONG), Field(2, "s", STRING)))
    file = Files(table, file_format).data([{"id": None, "s": "y"}], schema=other)
    table.append_files([replace(file, null_value_counts=None)])  # with them nobody could commit it
    read_fails(table, "null in a required column")


# deletes --------------------------------------------------------------------------------------------------------------

Breaking = Callable[[Files, DataFile, DataFile], DataFile]

VECTORS: dict[str, tuple[Breaking, str]] = {
    "beyond the file": (lambda files, file, _: files.vector(file, [3, 100]), "deletes row 100 of a file of 100 rows"),
    "far beyond": (lambda files, file, _: files.vector(file, [2**40]), "of a file of 100 rows"),
    "another count": (lambda files, file, _: files.vector(file, [1, 2], record_count=3), "2 positions, expected 3"),
    "wrong length": (lambda files, file, _: files.vector(file, [1, 2], content_size_in_bytes=30), "deletion vector"),
    "wrong place": (lambda files, file, _: files.vector(file, [1, 2], content_offset=5), "deletion vector"),
}


@pytest.mark.parametrize("kind", VECTORS)
def test_deletion_vectors_that_cannot_be_right(kind: str) -> None:
    """Never the rows as if nothing were deleted."""
    table = new_table(3)
    files = Files(table)
    file, other = files.data(ROWS), files.data(ROWS)
    table.append_files([file, other])
    broken, match = VECTORS[kind]
    table.row_delta(deletes=[broken(files, file, other)])
    read_fails(table, match)


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("position", [100, 2**50])
def test_position_deletes_beyond_the_file(file_format: str, position: int) -> None:
    table = new_table()
    files = Files(table, file_format)
    file = files.data(ROWS)
    table.append_files([file])
    table.row_delta(deletes=[files.positions([(file.file_path, 1), (file.file_path, position)])])
    error = read_fails(table, f"deletes row {position} of a file of 100 rows")
    assert error.context["data file"] == file.file_path


@pytest.mark.parametrize("file_format", FORMATS)
def test_truncated_deletes(file_format: str) -> None:
    for kind in ("positions", "keys"):
        table = new_table()
        files = Files(table, file_format)
        file = files.data(ROWS)
        table.append_files([file])
        delete = files.positions([(file.file_path, 1)]) if kind == "positions" else files.keys(["id"], [{"id": 1}])
        data = table.storage.read(delete.file_path)
        table.storage.write(delete.file_path, data[: len(data) // 2], overwrite=True)
        table.row_delta(deletes=[delete])
        error = read_fails(table)
        assert error.context["file"] == delete.file_path


@pytest.mark.parametrize("file_format", FORMATS)
def test_keys_without_their_column(file_format: str) -> None:
    """A delete file that lacks what it compares would delete the rows with null."""
    table = new_table()
    files = Files(table, file_format)
    table.append_files([files.data(ROWS)])
    delete = files.keys(["id"], [{"id": 1}])
    table.row_delta(deletes=[replace(delete, equality_ids=(2,))])
    read_fails(table, "field 2, but the file has no such column")


# other files ----------------------------------------------------------------------------------------------------------


def test_nothing_is_read_outside_the_allowed_roots(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    lake = floe.connect(str(tmp_path / "warehouse"))
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id bigint not null, s string")
    file = Files(table).data(ROWS)
    outside = str(tmp_path / "secret" / "rows.parquet")
    LocalStorage().write(outside, table.storage.read(file.file_path))
    table.append_files([replace(file, file_path=outside)])
    opened: Any = floe.open(table.metadata_location)
    guarded = Access(opened.storage, roots=[str(tmp_path / "warehouse")])
    scan = opened.scan()
    scan._storage = guarded
    with pytest.raises(errors.FloeError) as caught:
        scan.to_arrow()
    assert "rows.parquet" in str(caught.value)
    assert not isinstance(caught.value, errors.CorruptFile)
