"""Manifest lists: the manifests of a snapshot, read and written (spec: Manifest Lists).

>>> manifests = [ManifestFile("m.avro", 100, 0, added_snapshot_id=7)]
>>> data = write_manifest_list(manifests, format_version=1, snapshot_id=7, parent_snapshot_id=None)
>>> read_manifest_list(data) == manifests
True
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from floe.avro.container import SCHEMA, Limits, open_container, write_container
from floe.avro.records import Reader, make_reader, make_writer
from floe.avro.schemas import Node, parse_layout
from floe.errors import CorruptFile, InvalidInput
from floe.spec.codecs.manifest_schemas import (
    FORMAT_VERSIONS,
    manifest_file_type,
    manifest_list_metadata,
    manifest_list_schema,
)
from floe.spec.manifests.entries import FieldSummary, ManifestContent, ManifestFile, manifest_content
from floe.spec.manifests.manifest_checks import check_manifest_file
from floe.spec.types import ListType, StructType

BLOCK_BYTES = 64_000

_FIELD_NAMES = {child.id: child.name for version in FORMAT_VERSIONS for child in manifest_file_type(version)}
_FIELD_KINDS = {child.name: child.type.kind for version in FORMAT_VERSIONS for child in manifest_file_type(version)}
_SUMMARY: StructType = next(
    child.type.element
    for child in manifest_file_type(1)
    if isinstance(child.type, ListType) and isinstance(child.type.element, StructType)
)
_SUMMARY_NAMES = {child.id: child.name for child in _SUMMARY}
_SUMMARY_KINDS = {child.name: child.type.kind for child in _SUMMARY}
_PYTHON_TYPES = {"int": int, "long": int, "string": str, "binary": bytes, "boolean": bool, "list": list}
_REQUIRED = ("manifest_path", "manifest_length", "partition_spec_id")


def read_manifest_list(data: bytes, limits: Limits | None = None) -> list[ManifestFile]:
    """Read the manifests of a manifest list from the bytes of its file; raises CorruptFile if it is invalid."""
    container = open_container(data, limits)
    root = parse_layout(container.schema_text)
    if root.kind != "record":
        raise CorruptFile(f"the rows of a manifest list must be records, found {root.kind}")
    read_row = make_reader(root)
    manifests: list[ManifestFile] = []
    contents = container.decompressed(max(root.smallest, 1))
    for block, content in zip(container.blocks, contents, strict=True):
        manifests.extend(_build_manifest(root, row) for row in _read_rows(read_row, content, block.count))
    return manifests


def _read_rows(read_row: Reader, content: bytes, count: int) -> Iterable[dict[str, Any]]:
    at = 0
    for _ in range(count):
        row, at = read_row(content, at)
        yield row
    if at != len(content):
        raise CorruptFile(f"{len(content) - at} bytes follow the last row of a block", position=at)


def _format_values(node: Node, row: dict[str, Any], names: dict[int, str], kinds: dict[str, str]) -> dict[str, Any]:
    """The values of a row by the format's names; fields are matched by id, or by name if the schema has no ids."""
    values = {}
    for child in node.fields:
        name = child.name if child.id is None else names.get(child.id)
        if name is None or name not in kinds:
            continue
        value = row[child.name]
        if value is not None and type(value) is not _PYTHON_TYPES[kinds[name]]:
            raise CorruptFile(f"{name} of a manifest list must be a {kinds[name]}, found {value!r:.80}")
        values[name] = value
    return values


def _build_manifest(node: Node, row: dict[str, Any]) -> ManifestFile:
    values = {
        name: value
        for name, value in _format_values(node, row, _FIELD_NAMES, _FIELD_KINDS).items()
        if value is not None
    }
    for name in _REQUIRED:
        if name not in values:
            raise CorruptFile(f"an entry of the manifest list has no {name}")
    values["content"] = manifest_content(values.get("content"))
    if "partitions" in values:
        summaries = _find_summary_node(node)
        values["partitions"] = tuple(_build_summary(summaries, summary) for summary in values["partitions"])
    manifest = ManifestFile(**values)
    check_manifest_file(manifest)
    return manifest


def _find_summary_node(node: Node) -> Node:
    """Find the layout of a field summary in that of a row."""
    for child in node.fields:
        if (child.name if child.id is None else _FIELD_NAMES.get(child.id)) == "partitions":
            arrays = [branch for branch in (child.node, *child.node.branches) if branch.kind == "array"]
            if arrays and arrays[0].items is not None and arrays[0].items.kind == "record":
                return arrays[0].items
    raise CorruptFile("the partitions of a manifest list must be a list of records")


def _build_summary(node: Node, summary: dict[str, Any]) -> FieldSummary:
    values = _format_values(node, summary, _SUMMARY_NAMES, _SUMMARY_KINDS)
    if values.get("contains_null") is None:
        raise CorruptFile("a field summary of a manifest list has no contains_null")
    return FieldSummary(**values)


def write_manifest_list(
    manifests: Iterable[ManifestFile],
    *,
    format_version: int,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int | None = None,
    first_row_id: int | None = None,
    codec: str = "deflate",
    level: int | None = None,
) -> bytes:
    """Write the manifest list of a snapshot and return its bytes.

    Format version 2 requires `sequence_number`, version 3 also `first_row_id`.
    """
    metadata = manifest_list_metadata(
        format_version,
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent_snapshot_id,
        sequence_number=sequence_number,
        first_row_id=first_row_id,
    )
    type_ = manifest_file_type(format_version)
    write, names = make_writer(type_), [child.name for child in type_]
    rows = [write(tuple(_stored_value(manifest, name, format_version) for name in names)) for manifest in manifests]
    header = {SCHEMA: json.dumps(manifest_list_schema(format_version), separators=(",", ":")).encode()}
    header |= {key: text.encode() for key, text in metadata.items()}
    return write_container(header, group_into_blocks(rows), codec=codec, level=level)


def _stored_value(manifest: ManifestFile, name: str, format_version: int) -> Any:
    value = getattr(manifest, name)
    if name == "partitions" and value is not None:
        return [tuple(getattr(summary, child.name) for child in _SUMMARY) for summary in value]
    if name == "manifest_path" and format_version < 2 and manifest.content != ManifestContent.DATA:
        raise InvalidInput("a v1 table has no delete manifests", hint="upgrade the table to format version 2 first")
    return value


def group_into_blocks(rows: Iterable[bytes], size: int = BLOCK_BYTES) -> Iterable[tuple[int, bytes]]:
    """Group encoded rows into blocks of about `size` bytes, each with its number of rows.

    >>> list(group_into_blocks([b"ab", b"c", b"d"], 3))
    [(2, b'abc'), (1, b'd')]
    """
    block: list[bytes] = []
    left = size
    add: Callable[[bytes], None] = block.append
    for row in rows:
        add(row)
        left -= len(row)
        if left <= 0:
            yield len(block), b"".join(block)
            block.clear()
            left = size
    if block:
        yield len(block), b"".join(block)
