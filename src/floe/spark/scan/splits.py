"""Files cut into parts, for Spark's own reader: about as many bytes each, cut where row groups begin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from floe.plan.scan_plan import ScanPlan
from floe.plan.splits import adjusted_split_size, split_settings
from floe.spark.bridge.partitioned_files import FilePart, url_of
from floe.spark.scan.constants import constant_rows
from floe.spec.types import Field
from floe.storage.locations import Location, parse
from floe.storage.prefix_map import PrefixMap
from floe.storage.protocol import Storage

__all__ = ["actual_location", "file_parts", "hadoop_path", "split_size"]


def split_size(plan: ScanPlan, parallelism: int, asked: int | None = None) -> int:
    """How many bytes a part has at most: as the table says, and less where that keeps more executors busy."""
    settings = split_settings(plan.metadata.properties, target_size=asked)
    if asked is not None or plan.metadata.properties.get("read.split.adaptive-size.enabled", "true") == "false":
        return settings.target_size
    return adjusted_split_size(plan.size, parallelism, settings.target_size)


def file_parts(
    files: pa.Table,
    storage: Storage,
    constants: Sequence[Field],
    size: int,
    bits: Mapping[str, bytes] | None = None,
) -> Iterator[FilePart]:
    """The parts of all files of a plan's table, with what their rows all have; `bits` are the deleted ones."""
    columns = (files[name].to_pylist() for name in ("file_path", "file_size_in_bytes", "split_offsets"))
    rows = constant_rows(files, constants, bits)
    for path, length, places, same in zip(*columns, rows, strict=True):
        url = url_of(hadoop_path(actual_location(storage, path)))
        for begin, end in _cuts(length, places, size):
            yield url, begin, end - begin, length, same


def _cuts(length: int, offsets: Sequence[int] | None, size: int) -> Iterator[tuple[int, int]]:
    """From where to where the parts of a file go."""
    if length <= size:
        yield 0, length
        return
    inside = [place for place in offsets or () if 0 < place < length]
    known = inside == sorted(set(inside)) and len(inside) > 0
    begin = last = 0
    for place in [*(inside if known else range(size, length, size)), length]:
        if place - begin > size and last > begin:
            yield begin, last
            begin = last
        last = place
    yield begin, length


def actual_location(storage: Storage, location: str) -> str:
    """Where a file is, if it is recorded elsewhere."""
    layer: Any = storage
    while layer is not None:
        if isinstance(layer, PrefixMap):
            location = layer.actual(location)
        layer = getattr(layer, "storage", None)
    return location


def hadoop_path(location: str) -> str:
    """A location as Hadoop spells it.

    >>> hadoop_path("/wh/t"), hadoop_path("file:///wh/t"), hadoop_path("s3://b/t")
    ('file:/wh/t', 'file:/wh/t', 's3://b/t')
    """
    found: Location = parse(location)
    return f"file:{found.path}" if found.scheme == "file" else location
