"""Table metadata from JSON and back, in all versions (spec: Table Metadata Fields; Appendix C, E and F)."""

import gzip
import json
import pickle
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidMetadata, UnsupportedFeature
from floe.spec.json_records import EncodedList
from floe.spec.metadata import table_metadata_json
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.snapshots import Snapshot, SnapshotRef, snapshot_from_json
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import metadata_from_json, metadata_to_json, parse, serialize
from floe.spec.metadata.updates import AddSnapshot, RemoveSnapshots, SetProperties, SetSnapshotRef, TableUpdate
from floe.spec.partitioning.partition_spec import PARTITION_FIELD_ID_START
from floe.spec.partitioning.transforms import IDENTITY
from floe.spec.sort_order import UNSORTED
from helpers.metadata_documents import (
    DOCUMENTS,
    FIELDS,
    LIST,
    NOW,
    SPEC_FIELD,
    UUID,
    history,
    read,
    snapshot,
    v1_document,
    v2_document,
    v3_document,
)

FULL = v3_document(
    properties={"owner": "ana", "write.format.default": "orc"},
    current_snapshot_id=2,
    snapshots=[
        snapshot(1) | {"first-row-id": 0, "added-rows": 3},
        snapshot(2, parent_snapshot_id=1) | {"first-row-id": 3, "added-rows": 0, "key-id": "k"},
    ],
    next_row_id=3,
    refs={
        "main": {"snapshot-id": 2, "type": "branch", "min-snapshots-to-keep": 3},
        "t": {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 5},
    },
    snapshot_log=[{"timestamp-ms": NOW - 5, "snapshot-id": 1}, {"timestamp-ms": NOW, "snapshot-id": 2}],
    metadata_log=[{"timestamp-ms": NOW - 5, "metadata-file": "s3://bucket/t/metadata/v1.metadata.json"}],
    statistics=[
        {
            "snapshot-id": 1,
            "statistics-path": "s3://bucket/t/metadata/1.stats",
            "file-size-in-bytes": 10,
            "file-footer-size-in-bytes": 5,
            "blob-metadata": [
                {"type": "t", "snapshot-id": 1, "sequence-number": 1, "fields": [1], "properties": {"ndv": "3"}}
            ],
        }
    ],
    partition_statistics=[{"snapshot-id": 1, "statistics-path": "p", "file-size-in-bytes": 5}],
    encryption_keys=[{"key-id": "k", "encrypted-key-metadata": "aWNlYmVyZwo="}],
)

REQUIREMENTS = {  # spec: Table Metadata Fields; r required, o optional, - not in that version
    "format-version": "rrr",
    "table-uuid": "orr",
    "location": "rrr",
    "last-sequence-number": "-rr",
    "last-updated-ms": "rrr",
    "last-column-id": "rrr",
    "schema": "r--",
    "schemas": "orr",
    "current-schema-id": "orr",
    "partition-spec": "r--",
    "partition-specs": "orr",
    "default-spec-id": "orr",
    "last-partition-id": "orr",
    "properties": "ooo",
    "current-snapshot-id": "ooo",
    "snapshots": "ooo",
    "snapshot-log": "ooo",
    "metadata-log": "ooo",
    "sort-orders": "orr",
    "default-sort-order-id": "orr",
    "refs": "-oo",
    "statistics": "ooo",
    "partition-statistics": "ooo",
    "next-row-id": "--r",
    "encryption-keys": "--o",
}


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("key", REQUIREMENTS)
def test_which_fields_each_version_requires(key: str, version: int) -> None:
    document = {k: v for k, v in DOCUMENTS[version]().items() if k != key}
    if REQUIREMENTS[key][version - 1] == "r":
        with pytest.raises(InvalidMetadata, match="is missing") as caught:
            read(document)
        assert caught.value.path == f"$.{key}"
    else:
        read(document)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("key", REQUIREMENTS)
def test_null_is_absent(key: str, version: int) -> None:
    document = DOCUMENTS[version]() | {key: None}
    without = {k: v for k, v in document.items() if k != key}
    assert outcome(document) == outcome(without)


def outcome(document: dict[str, Any]) -> object:
    """The metadata, or what the error says."""
    try:
        return read(document)
    except InvalidMetadata as error:
        return str(error)


def written_keys(version: int) -> list[str]:
    document = FULL | {"format-version": version}
    if version == 1:
        document |= {"last-sequence-number": 0, "snapshots": [s | {"sequence-number": 0} for s in FULL["snapshots"]]}
    return list(metadata_to_json(read(document | {"schema": {"type": "struct", "fields": FIELDS}})))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_keys_are_written_in_the_order_of_java(version: int) -> None:
    order = [
        *("format-version", "table-uuid", "location", "last-sequence-number", "last-updated-ms", "last-column-id"),
        *("schema", "current-schema-id", "schemas", "partition-spec", "default-spec-id", "partition-specs"),
        *("last-partition-id", "default-sort-order-id", "sort-orders", "properties", "current-snapshot-id"),
        *("next-row-id", "encryption-keys", "refs", "snapshots", "statistics", "partition-statistics"),
        *("snapshot-log", "metadata-log"),
    ]
    absent = {1: {"last-sequence-number", "next-row-id"}, 2: {"schema", "partition-spec", "next-row-id"}}
    expected = [key for key in order if key not in absent.get(version, {"schema", "partition-spec"})]
    kept = ["last-sequence-number", "next-row-id"] if version == 1 else ["next-row-id"] if version == 2 else []
    assert written_keys(version) == expected + kept


@pytest.mark.parametrize("version", [1, 2, 3])
def test_minimal_documents(version: int) -> None:
    table = read(DOCUMENTS[version]())
    assert table.format_version == version
    assert table.location == "s3://bucket/t"
    assert [f.name for f in table.schema.fields] == ["x", "y"]
    assert (table.snapshots, dict(table.refs), dict(table.properties)) == ((), {}, {})
    assert parse(serialize(table)) == table


# each field -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [4, 5, 99, 2**31 - 1])
def test_format_version_above_the_supported_one_is_refused_by_its_number(version: int) -> None:
    with pytest.raises(UnsupportedFeature, match=rf"format version {version}; .* reads 1 to 3") as caught:
        read(v2_document(format_version=version))
    assert caught.value.context["path"] == "$.format-version"


def test_format_version_is_looked_at_before_anything_else() -> None:
    with pytest.raises(UnsupportedFeature, match="format version 4"):
        read({"format-version": 4, "location": None, "snapshots": "a form of their own"})


@pytest.mark.parametrize("version", [0, -1, -(2**31)])
def test_format_version_below_one_does_not_exist(version: int) -> None:
    with pytest.raises(InvalidMetadata, match=f"no format version {version}"):
        read(v2_document(format_version=version))


def test_table_uuid_is_kept_as_written() -> None:
    assert read(v2_document(table_uuid=UUID.upper())).table_uuid == UUID.upper()


@pytest.mark.parametrize("uuid", ["", "x", UUID[:-1], UUID + "0", UUID.replace("-", ""), f"{{{UUID}}}", UUID + "\n"])
def test_table_uuid_must_be_one(uuid: str) -> None:
    for document in (v1_document(table_uuid=uuid), v2_document(table_uuid=uuid)):
        with pytest.raises(InvalidMetadata, match="is not a uuid") as caught:
            read(document)
        assert caught.value.path == "$.table-uuid"


def test_table_uuid_may_be_missing_in_version_1() -> None:
    table = read(v1_document())
    assert table.table_uuid is None
    assert "table-uuid" not in metadata_to_json(table)


def test_location_is_kept_as_written() -> None:
    for location in ("s3://bucket/t/", "/a/b", "file:/a/b", "abfss://c@a.example/t"):
        assert metadata_to_json(read(v2_document(location=location)))["location"] == location


def test_location_must_not_be_empty() -> None:
    with pytest.raises(InvalidMetadata, match="is empty"):
        read(v2_document(location=""))


def test_last_sequence_number_is_zero_in_version_1_whatever_it_says() -> None:
    table = read(v1_document(last_sequence_number=34))
    assert table.last_sequence_number == 0
    assert table.extra == {"last-sequence-number": 34}
    assert metadata_to_json(table)["last-sequence-number"] == 34


def test_last_updated_ms_and_last_column_id() -> None:
    table = read(v2_document())
    assert (table.last_updated_ms, table.last_column_id) == (NOW, 2)


def test_schema_is_read_where_there_is_no_list_of_schemas() -> None:
    table = read(v1_document(schema={"type": "struct", "schema-id": 6, "fields": FIELDS}))
    assert (table.current_schema_id, [s.schema_id for s in table.schemas]) == (6, [6])


def test_schema_without_an_id_has_id_zero() -> None:
    table = read(v1_document())
    assert (table.current_schema_id, table.schema.schema_id) == (0, 0)
    out = metadata_to_json(table)
    assert out["schema"] == out["schemas"][0] == {"type": "struct", "schema-id": 0, "fields": FIELDS}


def test_schemas_count_where_there_is_also_a_schema() -> None:
    schemas = [{"type": "struct", "schema-id": 1, "fields": FIELDS[:1]}]
    table = read(v1_document(schemas=schemas, current_schema_id=1))
    assert [f.name for f in table.schema.fields] == ["x"]
    assert metadata_to_json(table)["schema"] == schemas[0]


def test_schema_and_partition_spec_are_dropped_from_later_versions() -> None:
    out = metadata_to_json(read(v2_document(schema={"type": "struct", "fields": []}, partition_spec=[])))
    assert {"schema", "partition-spec"}.isdisjoint(out)


@pytest.mark.parametrize(
    ("key", "companion"),
    [
        ("schemas", "current-schema-id"),
        ("partition-specs", "default-spec-id"),
        ("sort-orders", "default-sort-order-id"),
    ],
)
def test_a_list_in_version_1_needs_to_say_which_is_current(key: str, companion: str) -> None:
    with pytest.raises(InvalidMetadata, match="is missing") as caught:
        read(v1_document() | {key: v2_document()[key]})
    assert caught.value.path == f"$.{companion}"


def test_partition_spec_is_read_where_there_is_no_list_of_specs() -> None:
    table = read(v1_document())
    assert (table.default_spec_id, table.spec.spec_id) == (0, 0)
    (field,) = table.spec.fields
    assert (field.name, field.source_id, field.field_id, field.transform) == (
        "x",
        1,
        PARTITION_FIELD_ID_START,
        IDENTITY,
    )
    out = metadata_to_json(table)
    assert out["partition-spec"] == [SPEC_FIELD]
    assert out["partition-specs"] == [{"spec-id": 0, "fields": [SPEC_FIELD]}]


def test_partition_specs_count_where_there_is_also_a_partition_spec() -> None:
    table = read(v1_document(partition_specs=[{"spec-id": 4, "fields": []}], default_spec_id=4))
    assert table.spec.is_unpartitioned
    assert metadata_to_json(table)["partition-spec"] == []


def test_last_partition_id_defaults_to_the_highest_in_version_1() -> None:
    assert read(v1_document()).last_partition_id == 1000
    assert read(v1_document(partition_spec=[])).last_partition_id == 999
    specs = [{"spec-id": 0, "fields": [SPEC_FIELD]}, {"spec-id": 1, "fields": []}]
    assert read(v1_document(partition_specs=specs, default_spec_id=1)).last_partition_id == 1000


def test_sort_orders_default_to_unsorted_in_version_1() -> None:
    table = read(v1_document())
    assert (table.sort_orders, table.default_sort_order_id) == ((UNSORTED,), 0)
    assert metadata_to_json(table)["sort-orders"] == [{"order-id": 0, "fields": []}]


def test_properties_are_strings_by_name() -> None:
    properties = {"write.format.default": "avro", "commit.retry.num-retries": "4", "": "", "extra": "x"}
    assert metadata_to_json(read(v2_document(properties=properties)))["properties"] == properties


@pytest.mark.parametrize(("version", "written"), [(1, -1), (2, -1), (3, None)])
def test_no_current_snapshot_is_written_as_java_does(version: int, written: int | None) -> None:
    assert metadata_to_json(read(DOCUMENTS[version]()))["current-snapshot-id"] == written


def test_current_snapshot_id_must_exist() -> None:
    with pytest.raises(InvalidMetadata, match="no snapshot 9"):
        read(v2_document(current_snapshot_id=9, snapshots=history((1, None))))


def test_next_row_id_means_nothing_before_version_3_and_is_kept() -> None:
    table = read(v2_document(next_row_id=7))
    assert table.next_row_id is None
    assert metadata_to_json(table)["next-row-id"] == 7


def test_encryption_keys_of_earlier_versions_are_kept() -> None:
    keys = [{"key-id": "k", "encrypted-key-metadata": "aWNlYmVyZwo="}]
    assert metadata_to_json(read(v2_document(encryption_keys=keys)))["encryption-keys"] == keys


def test_lists_that_are_missing_are_written_empty_as_java_does() -> None:
    out = metadata_to_json(read(v2_document()))
    for key in ("snapshots", "statistics", "partition-statistics", "snapshot-log", "metadata-log"):
        assert out[key] == []
    assert (out["refs"], out["properties"]) == ({}, {})


# whole documents ------------------------------------------------------------------------------------------------


def test_a_full_document_round_trips() -> None:
    assert metadata_to_json(read(FULL)) == FULL


def test_legacy_v1_document_of_the_oldest_form() -> None:
    table = read(
        v1_document(
            properties={},
            current_snapshot_id=2,
            snapshots=[
                {"snapshot-id": 1, "timestamp-ms": NOW - 9, "manifests": ["m1.avro"]},
                {"snapshot-id": 2, "timestamp-ms": NOW, "manifest-list": LIST, "summary": {"operation": "append"}},
            ],
            snapshot_log=[{"timestamp-ms": NOW, "snapshot-id": 2}],
        )
    )
    assert table.current_snapshot is table.snapshots[1]
    assert dict(table.refs) == {"main": SnapshotRef(snapshot_id=2, type="branch")}
    assert [s.sequence_number for s in table.snapshots] == [0, 0]
    assert [table.schema_for(s).schema_id for s in table.snapshots] == [0, 0]
    assert parse(serialize(table)) == table


def test_gzip_and_layout_make_no_difference() -> None:
    table = read(FULL)
    for data in (
        gzip.compress(json.dumps(FULL).encode()),
        json.dumps(FULL, indent=2).encode(),
        b"\n  " + json.dumps(FULL).encode() + b"\n",
        json.dumps(dict(reversed(FULL.items()))).encode(),
        json.dumps(FULL, ensure_ascii=False).encode(),
    ):
        assert parse(data) == table
        assert serialize(parse(data)) == serialize(table)


def test_writing_is_compact_and_stable() -> None:
    data = serialize(read(FULL))
    assert data == json.dumps(json.loads(data), separators=(",", ":"), ensure_ascii=False).encode()
    assert serialize(parse(data)) == data


def test_json_values_go_both_ways() -> None:
    assert metadata_from_json(FULL) == read(FULL)
    assert metadata_to_json(metadata_from_json(FULL)) == FULL


def test_a_change_is_written_over_an_unknown_key_of_that_name() -> None:
    """`next-row-id` of a version 2 document is kept like an unknown key; version 3 writes its own."""
    table = read(v2_document(next_row_id=7))
    assert metadata_to_json(replace(table, format_version=3, next_row_id=0))["next-row-id"] == 0


# unknown keys ---------------------------------------------------------------------------------------------------

STRING_MAPS = {"properties", "summary", "refs"}


def objects(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all objects with keys of the format, leaving out maps of names."""
    found = []
    if isinstance(value, dict) and (not path or path[-1] not in STRING_MAPS):
        found.append(path)
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        found += objects(child, (*path, key))
    return found


def with_key(value: Any, path: tuple[Any, ...], key: str, new: Any) -> Any:
    if not path:
        return value | {key: new}
    head, *rest = path
    if isinstance(value, dict):
        return value | {head: with_key(value[head], tuple(rest), key, new)}
    return [with_key(v, tuple(rest), key, new) if n == head else v for n, v in enumerate(value)]


PLACES = objects(FULL)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def test_there_are_unknown_keys_to_try_at_every_level() -> None:
    kinds = {tuple(step for step in path if isinstance(step, str)) for path in PLACES}
    assert kinds >= {
        (),
        ("schemas",),
        ("schemas", "fields"),
        ("partition-specs",),
        ("partition-specs", "fields"),
        ("sort-orders",),
        ("snapshots",),
        ("refs", "main"),
        ("snapshot-log",),
        ("metadata-log",),
        ("statistics",),
        ("statistics", "blob-metadata"),
        ("partition-statistics",),
        ("encryption-keys",),
    }


@pytest.mark.parametrize("path", PLACES, ids=str)
def test_an_unknown_key_survives_at_every_level(path: tuple[Any, ...]) -> None:
    for key in ("a-later-key", "extra", "parts", ""):
        document = with_key(FULL, path, key, {"deep": [1, 2.5, None, {"x": "é"}]})
        table = read(document)
        assert metadata_to_json(table) == document
        assert parse(serialize(table)) == table


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from("uvw"), JSON), min_size=1, max_size=4))
def test_any_unknown_values_survive(additions: list[tuple[tuple[Any, ...], str, Any]]) -> None:
    document = FULL
    for path, key, value in additions:
        document = with_key(document, path, key, value)
    assert metadata_to_json(read(document)) == document


def test_an_unknown_key_in_one_snapshot_leaves_the_others_as_they_are() -> None:
    document = v2_document(snapshots=[snapshot(1), snapshot(2, later=1), snapshot(3)])
    assert metadata_to_json(read(document))["snapshots"] == document["snapshots"]


def test_a_v1_document_with_an_empty_list_of_specs_is_an_error() -> None:
    with pytest.raises(InvalidMetadata, match="there is no partition spec with id 0") as caught:
        read(v1_document() | {"partition-specs": [], "default-spec-id": 0})
    assert caught.value.path == "$.default-spec-id"


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("value", [object(), nested(100_000), "\ud800"], ids=["no JSON", "deep", "no character"])
def test_a_value_that_is_no_json_is_invalid_metadata(value: object) -> None:
    with pytest.raises(InvalidMetadata, match=r"not JSON|nested too deep"):
        metadata_from_json(v2_document() | {"unknown": value})


def test_a_summary_of_null_is_not_written() -> None:
    document = v2_document(current_snapshot_id=1, snapshots=[snapshot(1, summary=None)])
    document["snapshots"][0]["summary"] = None
    assert "summary" not in metadata_to_json(read(document))["snapshots"][0]


# written again ------------------------------------------------------------------------------------------------------


LAYOUTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "as Floe and Java write": lambda document: json.dumps(document, separators=(",", ":")),
    "indented": lambda document: json.dumps(document, indent=2),
    "keys in another order": lambda document: json.dumps(document, separators=(",", ":"), sort_keys=True),
    "unknown keys": lambda document: json.dumps(
        {**document, "mine": 1, "snapshots": [{**one, "mine": {"a": [1]}} for one in document["snapshots"]]},
        separators=(",", ":"),
    ),
}


def encoded_anew(metadata: TableMetadata) -> dict[str, Any]:
    """The document of metadata of which nothing was read or written before."""
    return metadata_to_json(replace(metadata, snapshots_json=EncodedList(), snapshot_log_json=EncodedList()))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(8))
def test_what_is_carried_over_means_the_same(layout: str, seed: int) -> None:
    """Through commits, expiry, looking at summaries and reading again, a document is what it would be encoded anew."""
    chance = random.Random(seed)
    pairs = [(n, n - 1 if n > 1 else None) for n in range(1, 8)]
    refs = {"main": {"snapshot-id": 7, "type": "branch"}}
    log = [{"timestamp-ms": NOW - 1000 + n, "snapshot-id": n} for n, _ in pairs]
    document = v2_document(current_snapshot_id=7, snapshots=history(*pairs), refs=refs, snapshot_log=log)
    metadata = parse(LAYOUTS[layout](metadata_to_json(read(document))).encode())
    if layout == "unknown keys":
        assert metadata.snapshots[3].extra
    for number in range(8, 30):
        updates: list[TableUpdate] = []
        match chance.choice(["append", "append", "expire", "property", "look", "read"]):
            case "append":
                parent, last = metadata.current_snapshot_id, metadata.last_sequence_number
                made = snapshot(number, parent_snapshot_id=parent, sequence_number=last + 1, timestamp_ms=NOW + number)
                updates = [
                    AddSnapshot(snapshot_from_json(made)),
                    SetSnapshotRef("main", SnapshotRef(snapshot_id=number, type="branch")),
                ]
            case "expire":
                old = [s.snapshot_id for s in metadata.snapshots if s.snapshot_id != metadata.current_snapshot_id]
                updates = [RemoveSnapshots(tuple(chance.sample(old, min(len(old), 2))))] if old else []
            case "property":
                updates = [SetProperties({"a": str(number)})]
            case "look":
                assert chance.choice(metadata.snapshots).summary
            case _:
                metadata = parse(serialize(metadata))
        metadata = apply(metadata, updates, now_ms=NOW + number)
        written = serialize(metadata)
        assert json.loads(written) == encoded_anew(metadata)
        assert parse(written) == metadata


def test_only_what_is_new_is_encoded() -> None:
    lists: list[tuple[int, ...]] = []

    def encode(items: tuple[int, ...]) -> bytes:
        lists.append(items)
        return json.dumps(items, separators=(",", ":")).encode()

    known, items = EncodedList(), tuple(range(1000))
    assert json.loads(bytes(known.encode(items, encode))) == [*items]
    assert json.loads(bytes(known.encode((*items, -1), encode))) == [*items, -1]
    assert json.loads(bytes(known.encode((*items, -1), encode))) == [*items, -1]
    assert json.loads(bytes(known.encode(items[1:], encode))) == [*items[1:]]
    assert lists == [items, (-1,), items[1:]]


def test_a_commit_to_many_snapshots_encodes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of a commit that grows with the history is that of copying bytes."""
    count = 300
    pairs = [(n, n - 1 if n > 1 else None) for n in range(1, count + 1)]
    document = v2_document(current_snapshot_id=count, snapshots=history(*pairs), last_sequence_number=count)
    metadata = parse(serialize(read(document)))
    encoded: list[int] = []
    undecoded = table_metadata_json.has_undecoded_summary

    def looked_at(one: Snapshot) -> bool:
        encoded.append(one.snapshot_id)
        return undecoded(one)

    monkeypatch.setattr(table_metadata_json, "has_undecoded_summary", looked_at)
    for number in (count + 1, count + 2):
        made = snapshot(number, parent_snapshot_id=number - 1, timestamp_ms=NOW + number)
        metadata = apply(metadata, [AddSnapshot(snapshot_from_json(made))], now_ms=NOW + number)
        assert parse(serialize(metadata)) == metadata
    assert encoded == [count + 1, count + 2]


def test_the_json_stays_at_home() -> None:
    """What is sent to other processes, or copied, has no second copy of the lists."""
    metadata = parse(
        serialize(read(v2_document(snapshots=history(*((n, None) for n in range(1, 200))), last_sequence_number=200)))
    )
    sent = pickle.dumps(replace(metadata, snapshots=(), snapshot_log=()))
    assert len(sent) < 5000
    assert pickle.loads(pickle.dumps(metadata)) == metadata
