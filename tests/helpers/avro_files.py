"""Avro files of the corpus as values of Floe: headers read by hand, rows by fastavro."""

import json
from pathlib import Path
from typing import Any

import fastavro

from floe.spec.manifests.entries import (
    DataFile,
    FieldSummary,
    ManifestEntry,
    ManifestFile,
    manifest_content,
)
from helpers.manifest_rules import entry_status, file_content, file_format

PREFIXES = ("file:///floe-corpus/", "file:/floe-corpus/", "/floe-corpus/")


def local(corpus_dir: Path, path: str) -> Path:
    """Where a file of the corpus lies, by the path that metadata has for it."""
    for prefix in PREFIXES:
        if path.startswith(prefix):
            return corpus_dir / path.removeprefix(prefix)
    raise AssertionError(path)


def _long(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def header(path: Path) -> dict[str, str]:
    """The key-value metadata of an Avro file."""
    data, at = path.read_bytes(), 4
    assert data[:4] == b"Obj\x01"
    found = {}
    while True:
        count, at = _long(data, at)
        if count == 0:
            return found
        if count < 0:
            count, (_, at) = -count, _long(data, at)
        for _ in range(count):
            size, at = _long(data, at)
            key, at = data[at : at + size].decode(), at + size
            size, at = _long(data, at)
            found[key], at = data[at : at + size].decode(), at + size


def avro_schema(path: Path) -> Any:
    """The Avro schema of a file as JSON."""
    return json.loads(header(path)["avro.schema"])


def without_docs(schema: Any) -> Any:
    """An Avro schema without its documentation strings."""
    if isinstance(schema, dict):
        return {key: without_docs(value) for key, value in schema.items() if key != "doc"}
    if isinstance(schema, list):
        return [without_docs(item) for item in schema]
    return schema


def rows(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as file:
        return list(fastavro.reader(file))  # type: ignore[arg-type]


def read_manifest_list(path: Path) -> list[ManifestFile]:
    """The manifests of a manifest list, as stored."""
    return [manifest_file(row) for row in rows(path)]


def manifest_file(row: dict[str, Any]) -> ManifestFile:
    """A row of a manifest list."""
    return ManifestFile(
            row["manifest_path"],
            row["manifest_length"],
            row["partition_spec_id"],
            manifest_content(row.get("content")),
            row.get("sequence_number") or 0,
            row.get("min_sequence_number") or 0,
            *(row.get(name) for name in (
                "added_snapshot_id", "added_files_count", "existing_files_count", "deleted_files_count",
                "added_rows_count", "existing_rows_count", "deleted_rows_count",
            )),
            None if row["partitions"] is None else tuple(FieldSummary(**summary) for summary in row["partitions"]),
            row.get("key_metadata"),
            row.get("first_row_id"),
        )  # fmt: skip


def _map(pairs: list[dict[str, Any]] | None) -> dict[int, Any] | None:
    return None if pairs is None else {pair["key"]: pair["value"] for pair in pairs}


def _tuple(values: list[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def read_manifest(path: Path) -> list[ManifestEntry]:
    """The entries of a manifest, as stored; partition values as fastavro gives them."""
    return [entry(row) for row in rows(path)]


def entry(row: dict[str, Any]) -> ManifestEntry:
    """A row of a manifest."""
    return ManifestEntry(
        entry_status(row["status"]),
        row.get("snapshot_id"),
        row.get("sequence_number"),
        row.get("file_sequence_number"),
        _data_file(row["data_file"]),
    )


def _data_file(row: dict[str, Any]) -> DataFile:
    return DataFile(
        file_content(row.get("content")),
        row["file_path"],
        file_format(row["file_format"]),
        tuple(row["partition"].values()),
        row["record_count"],
        row["file_size_in_bytes"],
        *(_map(row.get(name)) for name in (
            "column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds",
        )),
        key_metadata=row.get("key_metadata"),
        split_offsets=_tuple(row.get("split_offsets")),
        equality_ids=_tuple(row.get("equality_ids")),
        sort_order_id=row.get("sort_order_id"),
        first_row_id=row.get("first_row_id"),
        referenced_data_file=row.get("referenced_data_file"),
        content_offset=row.get("content_offset"),
        content_size_in_bytes=row.get("content_size_in_bytes"),
    )  # fmt: skip
