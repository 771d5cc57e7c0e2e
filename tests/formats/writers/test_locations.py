"""Where new files go: the layouts of Java Iceberg, to the letter."""

import pickle

import pytest

from floe.formats.writers.write_target import FileNames, Locations, file_location
from floe.spec.partitioning.transform_terms import build_spec
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, STRING, TIMESTAMP, Field

SCHEMA = Schema((Field(1, "id", LONG), Field(2, "who", STRING), Field(3, "ts", TIMESTAMP)))
HASHED = {"write.object-storage.enabled": "true"}
FLAT = {**HASHED, "write.object-storage.partitioned-paths": "false"}


@pytest.mark.parametrize(
    ("name", "folders"),
    [
        ("a", "0101/0110/1001/10110010"),
        ("b", "1110/0111/1110/00000011"),
        ("c", "0010/1101/0110/01011111"),
        ("d", "1001/0001/0100/01110011"),
    ],
)
def test_hashes_of_names_are_those_of_java(name: str, folders: str) -> None:
    # the expectations of Java Iceberg's own test of its object-store layout
    assert Locations("s3://b/db/t", HASHED).file(name) == f"s3://b/db/t/data/{folders}/{name}"


def test_without_folders_of_partitions_the_hash_joins_the_name() -> None:
    assert Locations("s3://b/t", FLAT).file("test.parquet") == "s3://b/t/data/0110/1010/0011/11101000-test.parquet"
    spec = build_spec(SCHEMA, ["id"])
    plain = Locations("s3://b/t", FLAT).file("test.parquet")
    assert file_location(Locations("s3://b/t", FLAT), spec, SCHEMA, (7,), "test.parquet") == plain


def test_partitions_are_folders() -> None:
    spec = build_spec(SCHEMA, ["day(ts)", "bucket(16, id)", "who"])
    where = file_location(Locations("/wh/t"), spec, SCHEMA, (17486, 3, "a/b c"), "f.orc")
    assert where == "/wh/t/data/ts_day=2017-11-16/id_bucket=3/who=a%2Fb+c/f.orc"
    assert file_location(Locations("/wh/t"), build_spec(SCHEMA, []), SCHEMA, (), "f.orc") == "/wh/t/data/f.orc"


def test_the_hash_covers_the_partition() -> None:
    spec = build_spec(SCHEMA, ["who"])
    locations = {who: file_location(Locations("s3://b/t", HASHED), spec, SCHEMA, (who,), "f") for who in "abcdefgh"}
    assert len({location.split("/")[5] for location in locations.values()}) > 1
    assert all(location.endswith(f"/who={who}/f") for who, location in locations.items())


@pytest.mark.parametrize(
    ("properties", "folder"),
    [
        ({}, "s3://b/db/t/data"),
        ({"write.data.path": "s3://c/rows/"}, "s3://c/rows"),
        ({"write.folder-storage.path": "s3://c/old"}, "s3://c/old"),
        ({"write.object-storage.path": "s3://c/objects"}, "s3://b/db/t/data"),
        ({**HASHED, "write.object-storage.path": "s3://c/objects"}, "s3://c/objects"),
        ({**HASHED, "write.folder-storage.path": "s3://c/old"}, "s3://c/old"),
        ({**HASHED, "write.object-storage.path": "s3://c/o", "write.data.path": "s3://c/d"}, "s3://c/d"),
    ],
)
def test_the_data_folder(properties: dict[str, str], folder: str) -> None:
    assert Locations("s3://b/db/t", properties).data == folder


def test_a_folder_of_several_tables_tells_them_apart() -> None:
    elsewhere = Locations("s3://b/wh/db/t", {**HASHED, "write.data.path": "s3://c/shared"})
    assert elsewhere.file("a") == "s3://c/shared/0101/0110/1001/10110010/db/t/a"


def test_names_are_counted_and_never_twice() -> None:
    names = FileNames("u-u", part=3, task=12)
    assert [names.next("parquet"), names.next("parquet", suffix="deletes"), names.next("avro")] == [
        "00003-12-u-u-00001.parquet",
        "00003-12-u-u-00002-deletes.parquet",
        "00003-12-u-u-00003.avro",
    ]


def test_names_go_on_in_another_process() -> None:
    names = FileNames("u", part=1)
    names.next("orc")
    assert pickle.loads(pickle.dumps(names)).next("orc") == "00001-0-u-00002.orc"
