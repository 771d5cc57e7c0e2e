"""Manifests of unusual writers: other orders, unknown fields, odd blocks and types; all read as fastavro reads them."""

import contextlib
import copy
import io
import json
import random
from collections.abc import Callable
from typing import Any

import fastavro
import msgspec
import pytest

from floe.avro import entry_scanner
from floe.avro.container import open_container, write_container
from floe.avro.manifest_reader import read_manifest
from floe.avro.records import encode_long
from floe.errors import CorruptFile, FloeError
from floe.spec.codecs.manifest_schemas import manifest_entry_schema
from floe.spec.types import StructType
from helpers.avro_oracle import as_floe

MAPS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
COUNT = 120
Record = dict[str, Any]


def base_schema(version: int = 3) -> Any:
    return json.loads(msgspec.json.encode(manifest_entry_schema(version, StructType())))


def file_schema(schema: Any) -> Any:
    return next(f for f in schema["fields"] if f["name"] == "data_file")["type"]


def field(fields: list[Any], name: str) -> Any:
    return next(f for f in fields if f["name"] == name)


def pairs(n: int, columns: int, value: Callable[[random.Random], Any]) -> list[Record]:
    rng = random.Random(n)
    return [{"key": k, "value": value(rng)} for k in range(1, columns + 1)]


def record(n: int, columns: int = 5, **changes: Any) -> Record:
    file: Record = {
        "content": 0,
        "file_path": f"s3://bucket/table/data/file-{n:05}.parquet",
        "file_format": "PARQUET",
        "partition": {},
        "record_count": 1000 + n,
        "file_size_in_bytes": 10**6 * n,
        **{m: pairs(n, columns, lambda rng: rng.randrange(10 ** rng.randrange(1, 12))) for m in MAPS[:4]},
        **{m: pairs(n, columns, lambda rng: rng.randbytes(rng.choice((0, 4, 8, 30)))) for m in MAPS[4:]},
        "key_metadata": None,
        "split_offsets": [4, 1000 * n],
        "equality_ids": None,
        "sort_order_id": 0,
        "first_row_id": None,
        "referenced_data_file": None,
        "content_offset": None,
        "content_size_in_bytes": None,
        "block_size_in_bytes": 67108864,
    }
    entry: Record = {
        "status": 1,
        "snapshot_id": 6807436400916514125 - n,
        "sequence_number": None,
        "file_sequence_number": None,
        "data_file": file,
    }
    for name, value in changes.items():
        (entry if name in entry else file)[name] = value
    return entry


def written(schema: Any, records: list[Record], **options: Any) -> bytes:
    out = io.BytesIO()
    fastavro.writer(
        out, fastavro.parse_schema(copy.deepcopy(schema)), records, metadata={"format-version": "3"}, **options
    )
    return out.getvalue()


def partitioned(*fields: tuple[str, Any], value: Callable[[int, str], Any]) -> tuple[Any, list[Record]]:
    schema = base_schema()
    field(file_schema(schema)["fields"], "partition")["type"]["fields"] = [
        {"name": name, "type": ["null", type_], "default": None, "field-id": 1000 + n}
        for n, (name, type_) in enumerate(fields)
    ]
    rows = [
        record(n, partition={name: None if n % 7 == 3 else value(n, name) for name, _ in fields}) for n in range(COUNT)
    ]
    return schema, rows


def changed(change: Callable[[Any, Any], None], rows: list[Record] | None = None, version: int = 3) -> tuple[Any, Any]:
    schema = base_schema(version)
    change(schema, file_schema(schema))
    return schema, rows or [record(n) for n in range(COUNT)]


def plain(rows: list[Record]) -> tuple[Any, list[Record]]:
    return base_schema(), rows


def shuffled(schema: Any, file: Any) -> None:
    random.Random(3).shuffle(schema["fields"])
    random.Random(4).shuffle(file["fields"])


def unknown_fields(schema: Any, file: Any) -> None:
    extra = {"type": "record", "name": "extra", "fields": [{"name": "x", "type": ["null", "int", "string"]}]}
    file["fields"].insert(2, {"name": "new_thing", "type": ["null", extra], "default": None, "field-id": 900})
    file["fields"].append({"name": "other", "type": ["null", "double"], "default": None})
    schema["fields"].append({"name": "last", "type": "string", "default": "", "field-id": 901})


def unknown_simple(schema: Any, file: Any) -> None:
    file["fields"].insert(0, {"name": "new_thing", "type": ["null", "long"], "default": None, "field-id": 900})
    schema["fields"].append({"name": "last", "type": "string", "default": "", "field-id": 901})


def reversed_unions(schema: Any, file: Any) -> None:
    for field in (*schema["fields"], *file["fields"]):
        if isinstance(field["type"], list):
            field["type"].reverse()
            field.pop("default", None)


def without_ids(schema: Any, file: Any) -> None:
    for field in (*schema["fields"], *file["fields"]):
        field.pop("field-id", None)


def text_ids(schema: Any, file: Any) -> None:
    for field in (*schema["fields"], *file["fields"]):
        field["field-id"] = str(field["field-id"])


def without_optional(schema: Any, file: Any) -> None:
    schema["fields"] = [f for f in schema["fields"] if f["name"] in ("status", "data_file")]
    keep = ("file_path", "file_format", "partition", "record_count", "file_size_in_bytes")
    file["fields"] = [f for f in file["fields"] if f["name"] in keep]


def mixed_nulls(n: int) -> Record:
    changes = {
        m: (None, [], pairs(n, n % 9, lambda rng: rng.randrange(99)))[(n + k) % 3] for k, m in enumerate(MAPS[:4])
    }
    changes |= {
        m: (None, [], pairs(n, n % 5, lambda rng: rng.randbytes(3)))[(n + k) % 3] for k, m in enumerate(MAPS[4:])
    }
    lists = {"split_offsets": (None, [], [1, 2, 3])[n % 3], "key_metadata": (None, b"", b"k" * 80)[n % 3]}
    return record(n, **changes, **lists, sort_order_id=None if n % 2 else 3)


def deletes(n: int) -> Record:
    return record(
        n, content=2 if n % 2 else 1, equality_ids=[1, 200] if n % 2 else None, status=n % 3,
        referenced_data_file=None if n % 2 else "s3://b/x", sequence_number=n, file_sequence_number=n,
        file_format=("PARQUET", "ORC", "AVRO", "parquet", "orc", "avro")[n % 6],
    )  # fmt: skip


FIXED16 = {"type": "fixed", "size": 16, "name": "uuid_fixed", "logicalType": "uuid"}
DECIMAL = {"type": "fixed", "size": 4, "name": "decimal_9_2", "logicalType": "decimal", "precision": 9, "scale": 2}
WIDE = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3}


def unscaled(n: int, name: str) -> bytes:
    return (n * 12345 * (-1) ** n).to_bytes(4 if name == "d" else 7, "big", signed=True)


def logical(name: str, kind: str = "long", **more: Any) -> Record:
    return {"type": kind, "logicalType": name, **more}


EDGES: dict[str, Callable[[], tuple[Any, list[Record]]]] = {
    "base": lambda: plain([record(n) for n in range(COUNT)]),
    "v1": lambda: changed(lambda s, f: None, version=1),
    "v2": lambda: changed(lambda s, f: None, version=2),
    "v3 with row ids and vectors": lambda: plain(
        [
            record(
                n,
                content=1,
                file_format="PUFFIN",
                first_row_id=None,
                referenced_data_file=f"s3://x/{n}",
                content_offset=4,
                content_size_in_bytes=50,
            )
            for n in range(1, COUNT)
        ]
    ),
    "first row ids": lambda: plain([record(n, first_row_id=n * 1000 if n % 2 else None) for n in range(COUNT)]),
    "no entries": lambda: plain([]),
    "one entry": lambda: plain([record(0)]),
    "100 columns": lambda: plain([record(n, 100) for n in range(COUNT)]),
    "no metrics": lambda: plain([record(n, 0) for n in range(COUNT)]),
    "null maps and empty maps": lambda: plain([mixed_nulls(n) for n in range(COUNT)]),
    "large column ids": lambda: plain(
        [
            record(n, lower_bounds=[{"key": 2147483546, "value": b"p"}], value_counts=[{"key": 70, "value": 2**62}])
            for n in range(COUNT)
        ]
    ),
    "keys in another order in each": lambda: plain(
        [record(n, **{m: random.Random(n).sample(record(n)["data_file"][m], 5) for m in MAPS}) for n in range(COUNT)]
    ),
    "delete files of several formats": lambda: plain([deletes(n) for n in range(COUNT)]),
    "snapshot ids of every length": lambda: plain(
        [record(n, snapshot_id=None if n % 5 == 0 else (1 << n % 63) * (-1) ** n) for n in range(COUNT)]
    ),
    "paths with file formats in them": lambda: plain(
        [record(n, file_path=f"s3://b/\x0ePARQUET/{n}\x06ORC") for n in range(COUNT)]
    ),
    "long paths": lambda: plain([record(n, file_path="é" * 5000 + str(n)) for n in range(COUNT)]),
    "long bounds": lambda: plain(
        [record(n, upper_bounds=[{"key": 1, "value": b"x" * 300}, {"key": 2, "value": b""}]) for n in range(COUNT)]
    ),
    "formats in lower case": lambda: plain([record(n, file_format="parquet") for n in range(COUNT)]),
    "fields in another order": lambda: changed(shuffled),
    "unknown fields": lambda: changed(unknown_fields),
    "unknown fields of simple types": lambda: changed(unknown_simple),
    "null last in unions": lambda: changed(
        reversed_unions, [record(n, sort_order_id=None if n % 2 else 3) for n in range(COUNT)]
    ),
    "fields without ids": lambda: changed(without_ids),
    "ids in strings": lambda: changed(text_ids),
    "optional fields missing": lambda: changed(without_optional),
    "partition: string and bytes": lambda: partitioned(
        ("s", "string"), ("b", "bytes"), value=lambda n, name: f"stré-{n}" if name == "s" else bytes([n])
    ),
    "partition: uuid in fixed": lambda: partitioned(("u", FIXED16), value=lambda n, _: n.to_bytes(16, "big")),
    "partition: decimals": lambda: partitioned(("d", DECIMAL), ("w", WIDE), value=unscaled),
    "partition: fixed": lambda: partitioned(
        ("f", {"type": "fixed", "size": 5, "name": "f5"}), value=lambda n, _: bytes([n] * 5)
    ),
    "partition: boolean, float and double": lambda: partitioned(
        ("t", "boolean"), ("f", "float"), ("d", "double"), value=lambda n, name: n % 2 == 0 if name == "t" else n / 4
    ),
    "partition: dates and times": lambda: partitioned(
        ("d", logical("date", "int")),
        ("t", logical("time-micros")),
        ("ts", logical("timestamp-micros")),
        value=lambda n, name: n * 86400 - 1000 if name == "ts" else n,
    ),
    "partition: nanoseconds": lambda: partitioned(
        ("n", logical("timestamp-nanos", **{"adjust-to-utc": True})), value=lambda n, _: n * 10**15 + 7
    ),
    "partition: ints and longs": lambda: partitioned(
        ("i", "int"), ("l", "long"), value=lambda n, name: -n if name == "i" else -(1 << n % 63)
    ),
}


def expected(data: bytes) -> list[str]:
    """What fastavro reads; where a logical type makes objects of its own, without it."""
    return list(map(repr, as_floe(data)))


@pytest.mark.parametrize("interval", [16_000, 1, 10**7], ids=["usual blocks", "one entry in each block", "one block"])
@pytest.mark.parametrize("name", EDGES)
def test_unusual_manifests(name: str, interval: int, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, rows = EDGES[name]()
    data = written(schema, rows, sync_interval=interval)
    entries = read_manifest(data).entries()
    if "nanoseconds" in name:
        assert [e.data_file.partition for e in entries] == [tuple(r["data_file"]["partition"].values()) for r in rows]
    else:
        assert list(map(repr, entries)) == expected(data)
    monkeypatch.setattr(entry_scanner, "_MIN_TOGETHER", 10**9)
    assert repr(read_manifest(data).entries()) == repr(entries)


# written by hand: what no library writes, and Avro allows ---------------------------------------------------------


def encoded_map(items: list[Record] | None, value: Callable[[Any], bytes], form: str) -> bytes:
    if items is None:
        return b"\0"
    groups = [items[: len(items) // 2], items[len(items) // 2 :]] if form == "several" else [items]
    out = b"\2"
    for group in filter(None, groups):
        body = b"".join(encode_long(pair["key"]) + value(pair["value"]) for pair in group)
        out += encode_long(-len(group)) + encode_long(len(body)) if form == "sized" else encode_long(len(group))
        out += body
    return out + b"\0"


def string(data: bytes) -> bytes:
    return encode_long(len(data)) + data


def encoded(row: Record, form: str) -> bytes:
    file = row["data_file"]
    out = encode_long(row["status"]) + b"\2" + encode_long(row["snapshot_id"]) + b"\0\0" + encode_long(file["content"])
    out += string(file["file_path"].encode()) + string(file["file_format"].encode())
    out += encode_long(file["record_count"]) + encode_long(file["file_size_in_bytes"])
    for name in MAPS:
        out += encoded_map(file[name], string if name in MAPS[4:] else encode_long, form)
    out += b"\0" + b"\2" + encode_long(2) + b"".join(map(encode_long, file["split_offsets"])) + b"\0"
    return out + b"\0" + b"\2\0" + b"\0" * 4


@pytest.mark.parametrize("form", ["plain", "sized", "several"])
def test_blocks_of_arrays_in_every_form(form: str) -> None:
    rows = [record(n) for n in range(COUNT)]
    header = {"avro.schema": msgspec.json.encode(manifest_entry_schema(3, StructType()))}
    data = write_container(header, [(COUNT, b"".join(encoded(row, form) for row in rows))])
    columns = read_manifest(data)
    assert list(map(repr, columns.entries())) == expected(data)
    stats = columns.stats([2, 77]).columns
    assert stats[2].lower is not None
    assert stats[2].lower.to_list() == [row["data_file"]["lower_bounds"][1]["value"] for row in rows]
    assert stats[2].null_count is not None
    assert stats[2].null_count.tolist() == [row["data_file"]["null_value_counts"][1]["value"] for row in rows]
    assert stats[77].lower is not None
    assert not stats[77].lower.is_valid.any()


# broken and hostile -----------------------------------------------------------------------------------------------


def rebuilt(data: bytes, content: bytes) -> bytes:
    opened = open_container(data)
    return write_container(
        opened.metadata, [(sum(b.count for b in opened.blocks), content)], codec="null", sync=bytes(16)
    )


FUZZED = ["base", "null maps and empty maps", "delete files of several formats", "partition: string and bytes",
          "partition: boolean, float and double", "snapshot ids of every length"]  # fmt: skip


@pytest.mark.parametrize("name", FUZZED)
def test_flipped_bytes_give_an_error_or_the_same_in_both_ways(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, rows = EDGES[name]()
    data = written(schema, rows[:60], sync_interval=10**7)
    content = b"".join(open_container(data).decompressed())
    rng = random.Random(name)
    outcomes = []
    for _ in range(150):
        broken = bytearray(content)
        for _ in range(rng.choice((1, 1, 2, 5))):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        file = rebuilt(data, bytes(broken))
        answers = []
        for few in (1, 10**9):
            monkeypatch.setattr(entry_scanner, "_MIN_TOGETHER", few)
            try:
                answers.append(repr(read_manifest(file, metrics=(1, 2)).entries()))
            except CorruptFile:
                answers.append("error")
        assert answers[0] == answers[1]
        outcomes.append(answers[0] == "error")
    assert any(outcomes)
    assert not all(outcomes)


def test_flipped_bytes_of_the_whole_file_give_typed_errors() -> None:
    data = written(*EDGES["base"](), codec="deflate")
    rng = random.Random(11)
    for _ in range(300):
        broken = bytearray(data)
        broken[rng.randrange(len(broken))] = rng.randrange(256)
        with contextlib.suppress(FloeError):
            read_manifest(bytes(broken)).entries()


def test_hostile_counts_of_arrays_are_refused_quickly() -> None:
    rows = [record(n) for n in range(COUNT)]
    header = {"avro.schema": msgspec.json.encode(manifest_entry_schema(3, StructType()))}
    good = [encoded(row, "plain") for row in rows]
    for count in (10**6, 10**12, 2**62, -(2**62)):
        for name in ("value_counts", "lower_bounds"):
            hostile = copy.deepcopy(rows[5])
            hostile["data_file"][name] = []
            bad = encoded(hostile, "plain").replace(b"\2\0", b"\2" + encode_long(count), 1)
            content = b"".join([*good[:5], bad, *good[6:], bytes(2**20)])
            data = write_container(header, [(COUNT, content)])
            with pytest.raises(CorruptFile):
                read_manifest(data, metrics=(1,)).entries()


@pytest.mark.parametrize("missing", ["status", "file_path", "file_format", "record_count", "partition", "data_file"])
def test_schemas_without_required_fields_are_refused(missing: str) -> None:
    schema = base_schema()
    file = file_schema(schema)
    for fields in (schema["fields"], file["fields"]):
        fields[:] = [f for f in fields if f["name"] != missing]
    data = write_container({"avro.schema": msgspec.json.encode(schema)}, [])
    with pytest.raises(CorruptFile, match=f"no field '{missing}'"):
        read_manifest(data)


def test_fields_of_other_types_are_refused() -> None:
    schema = base_schema()
    field(file_schema(schema)["fields"], "record_count")["type"] = "string"
    with pytest.raises(CorruptFile, match="'record_count' has a type"):
        read_manifest(write_container({"avro.schema": msgspec.json.encode(schema)}, []))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"status": 7}, "status must be one of"),
        ({"content": 3}, "content must be one of"),
        ({"file_format": "CSV"}, "format must be one of"),
        ({"record_count": -5}, "record_count must not be negative"),
        ({"file_size_in_bytes": -5}, "file_size_in_bytes must not be negative"),
    ],
)
@pytest.mark.parametrize("count", [1, COUNT])
def test_values_that_cannot_be_are_refused(changes: Record, message: str, count: int) -> None:
    rows = [record(n) for n in range(count - 1)] + [record(5, **changes)]
    with pytest.raises(CorruptFile, match=message):
        read_manifest(written(base_schema(), rows)).entries()
