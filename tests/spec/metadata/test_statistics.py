"""Entries for statistics files and encryption keys (spec: Table Statistics, Partition Statistics, Encryption Keys)."""

from typing import Any

import pytest

from floe.errors import InvalidMetadata
from floe.spec.json_records import record_from_json, record_to_json
from floe.spec.metadata.table_metadata import BlobMetadata, EncryptionKey, PartitionStatisticsFile, StatisticsFile
from floe.spec.metadata.table_metadata_json import metadata_to_json
from helpers.metadata_documents import history, read, v1_document, v2_document, v3_document

BLOB = {
    "type": "apache-datasketches-theta-v1",
    "snapshot-id": 3055729675574597004,
    "sequence-number": 1,
    "fields": [1, 2],
    "properties": {"ndv": "3"},
}
STATISTICS = {
    "snapshot-id": 3055729675574597004,
    "statistics-path": "s3://a/b/stats.puffin",
    "file-size-in-bytes": 413,
    "file-footer-size-in-bytes": 42,
    "key-metadata": "aWNlYmVyZwo=",
    "blob-metadata": [BLOB],
}
PARTITION_STATISTICS = {
    "snapshot-id": 3055729675574597004,
    "statistics-path": "s3://a/b/partition-stats.parquet",
    "file-size-in-bytes": 43,
}
KEY = {
    "key-id": "5f819b",
    "encrypted-key-metadata": "aWNlYmVyZwo=",
    "encrypted-by-id": "k2",
    "properties": {"scheme": "x"},
}

KINDS = [
    (BlobMetadata, BLOB),
    (StatisticsFile, STATISTICS),
    (PartitionStatisticsFile, PARTITION_STATISTICS),
    (EncryptionKey, KEY),
]
OPTIONAL = {
    BlobMetadata: {"properties"},
    StatisticsFile: {"key-metadata"},
    PartitionStatisticsFile: set(),
    EncryptionKey: {"encrypted-by-id", "properties"},
}


@pytest.mark.parametrize(("kind", "json"), KINDS)
def test_every_field_is_read_and_written_in_order(kind: Any, json: dict[str, Any]) -> None:
    assert list(record_to_json(record_from_json(kind, json)).items()) == list(json.items())


@pytest.mark.parametrize(("kind", "json", "key"), [(kind, json, key) for kind, json in KINDS for key in json])
def test_required_and_optional_fields(kind: Any, json: dict[str, Any], key: str) -> None:
    without = {k: v for k, v in json.items() if k != key}
    if key in OPTIONAL[kind]:
        assert record_to_json(record_from_json(kind, without)) == without
        assert record_to_json(record_from_json(kind, without | {key: None})) == without
    else:
        with pytest.raises(InvalidMetadata, match=rf"\$\.{key}: is missing"):
            record_from_json(kind, without)


@pytest.mark.parametrize(("kind", "json"), KINDS)
def test_unknown_keys_survive(kind: Any, json: dict[str, Any]) -> None:
    more = json | {"later": [1, {"a": None}]}
    assert record_to_json(record_from_json(kind, more)) == more


def test_unknown_keys_of_a_blob_survive_within_its_file() -> None:
    document = v2_document(statistics=[STATISTICS | {"blob-metadata": [BLOB | {"later": 1}], "more": 2}])
    assert metadata_to_json(read(document))["statistics"] == document["statistics"]


def test_a_table_with_statistics_files() -> None:
    table = read(v2_document(statistics=[STATISTICS], partition_statistics=[PARTITION_STATISTICS]))
    assert table.statistics[0].blob_metadata[0].fields == (1, 2)
    assert table.statistics[0].file_footer_size_in_bytes == 42
    assert table.partition_statistics[0].file_size_in_bytes == 43
    assert metadata_to_json(table)["statistics"] == [STATISTICS]
    assert metadata_to_json(table)["partition-statistics"] == [PARTITION_STATISTICS]


def test_v1_tables_may_have_statistics() -> None:
    table = read(v1_document(statistics=[STATISTICS], partition_statistics=[PARTITION_STATISTICS]))
    assert (len(table.statistics), len(table.partition_statistics)) == (1, 1)


def test_statistics_of_a_snapshot_that_is_gone_are_read() -> None:
    assert read(v2_document(snapshots=history((1, None)), statistics=[STATISTICS])).statistics


@pytest.mark.parametrize(
    ("blob", "path"),
    [
        (BLOB | {"fields": [1, "2"]}, "$.statistics[0].blob-metadata[1].fields[1]"),
        (BLOB | {"fields": [2**31]}, "$.statistics[0].blob-metadata[1].fields[0]"),
        (BLOB | {"snapshot-id": 1.5}, "$.statistics[0].blob-metadata[1].snapshot-id"),
        ([], "$.statistics[0].blob-metadata[1]"),
    ],
)
def test_the_path_of_a_mistake_in_a_blob(blob: object, path: str) -> None:
    with pytest.raises(InvalidMetadata) as caught:
        read(v2_document(statistics=[STATISTICS | {"blob-metadata": [BLOB, blob]}]))
    assert caught.value.path == path


def test_blob_metadata_is_a_list() -> None:
    with pytest.raises(InvalidMetadata, match="must be a list") as caught:
        read(v2_document(statistics=[STATISTICS | {"blob-metadata": {}}]))
    assert caught.value.path == "$.statistics[0].blob-metadata"


def test_encryption_keys_are_read_and_written() -> None:
    table = read(v3_document(encryption_keys=[KEY]))
    assert table.encryption_keys == (
        EncryptionKey(
            key_id="5f819b", encrypted_key_metadata="aWNlYmVyZwo=", encrypted_by_id="k2", properties={"scheme": "x"}
        ),
    )
    assert table.encryption_keys[0].key_metadata == b"iceberg\n"
    assert metadata_to_json(table)["encryption-keys"] == [KEY]


def test_encryption_keys_are_not_written_when_there_are_none() -> None:
    assert "encryption-keys" not in metadata_to_json(read(v3_document(encryption_keys=[])))


@pytest.mark.parametrize("text", ["***", "aWN", "ä", "aWNlYmVyZwo=\n"])
def test_encrypted_key_metadata_is_base64(text: str) -> None:
    with pytest.raises(InvalidMetadata, match="not base64") as caught:
        read(v3_document(encryption_keys=[KEY | {"encrypted-key-metadata": text}]))
    assert caught.value.path == "$.encryption-keys[0].encrypted-key-metadata"
