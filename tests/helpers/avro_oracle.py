"""What fastavro reads from manifests, in the form of Floe's values."""

import datetime
import io
import json
import uuid
from dataclasses import replace
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow

from floe.avro.container import open_container, write_container
from floe.spec.manifests.entries import ManifestEntry
from helpers import avro_files

_EPOCH = datetime.date(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def floe_value(value: Any) -> Any:
    """A value of a partition tuple: fastavro makes dates and times of numbers."""
    if isinstance(value, datetime.datetime):
        return (value - datetime.datetime(1970, 1, 1, tzinfo=value.tzinfo)) // _MICROSECOND
    if isinstance(value, datetime.date):
        return (value - _EPOCH).days
    if isinstance(value, datetime.time):
        return (value.hour * 3600 + value.minute * 60 + value.second) * 1_000_000 + value.microsecond
    assert value is None or isinstance(value, bool | int | float | str | bytes | uuid.UUID | Decimal)
    return value


def rows(data: bytes) -> list[dict[str, Any]]:
    """The records of an Avro file; fastavro leaves Zstandard to a library that is not here, so Arrow does that."""
    container = open_container(data)
    if container.codec == "zstandard":
        packed = [data[block.start : block.end] for block in container.blocks]
        unpacked = [pyarrow.input_stream(io.BytesIO(one), compression="zstd").read() for one in packed]
        blocks = [(block.count, one) for block, one in zip(container.blocks, unpacked, strict=True)]
        data = write_container(container.metadata, blocks, codec="null")
    return list(fastavro.reader(io.BytesIO(data)))  # type: ignore[arg-type]


def as_floe(data: bytes) -> list[ManifestEntry]:
    """The entries of a manifest, as stored."""
    uuids = uuid_fields(open_container(data).schema_text)
    return [with_values(avro_files.entry(row), uuids) for row in rows(data)]


def uuid_fields(schema: bytes) -> list[bool]:
    """Which partition fields are UUIDs; fastavro leaves those in fixed bytes as they are."""
    file = next(f for f in json.loads(schema)["fields"] if f["name"] == "data_file")["type"]
    partition = next(f for f in file["fields"] if f["name"] == "partition")["type"]
    return ["uuid" in str(field["type"]) for field in partition["fields"]]


def with_values(entry: ManifestEntry, uuids: list[bool]) -> ManifestEntry:
    partition = tuple(
        uuid.UUID(bytes=value) if is_uuid and isinstance(value, bytes) else floe_value(value)
        for value, is_uuid in zip(entry.data_file.partition, uuids, strict=True)
    )
    return replace(entry, data_file=replace(entry.data_file, partition=partition))
