"""Spellings of locations: which are the same file, and what is refused."""

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidLocation
from floe.storage.locations import canonical, is_below, join, parse, same_file

SAME = [
    ("/wh/t/a", "file:/wh/t/a"),
    ("/wh/t/a", "file:///wh/t/a"),
    ("/wh/t/a", "file://localhost/wh/t/a"),
    ("/wh/t/a", "FILE://LOCALHOST/wh/t/a"),
    ("/wh/t/a", "//wh///t//a"),
    ("/wh/t/a", "file:////wh/t/a"),
    ("/wh/t/a", "/wh/./t/a"),
    ("/wh/t/a", "/wh/t/b/../a"),
    ("/wh/t", "/wh/t/"),
    ("/a", "/../../a"),
    ("s3://b/k", "s3a://b/k"),
    ("s3://b/k", "s3n://b/k"),
    ("S3://b/k", "s3://b/k"),
    ("gs://b/k", "gcs://b/k"),
    ("abfs://c@acct.dfs.core.windows.net/k", "abfss://c@acct.dfs.core.windows.net/k"),
    ("abfs://c@acct.dfs.core.windows.net/k", "wasb://c@acct.blob.core.windows.net/k"),
    ("abfs://c@acct.dfs.core.windows.net/k", "wasbs://c@ACCT.blob.core.windows.net/k"),
    ("hdfs://nn/wh/a", "hdfs://nn:8020/wh/a"),
    ("hdfs://nn/wh/a", "hdfs://NN/wh//x/../a"),
    ("hdfs:///wh/a", "hdfs:/wh/a"),
    ("viewfs:///wh/a", "viewfs:/wh/x/../a"),
    ("viewfs://cluster/wh/a", "viewfs://cluster/wh//a"),
    ("local:///wh/a", "local:/wh//a"),
    ("memory:a/b", "memory:/a/b"),
    ("memory:a/b", "memory://a/b"),
    ("memory:a/b", "memory:///a/b"),
    ("/wh/ts=2020-01-01T00%3A00/a b", "file:/wh/ts=2020-01-01T00%3A00/a b"),
]
DIFFERENT = [
    ("/wh/a", "/wh/A"),
    ("/wh/a b", "/wh/a%20b"),
    ("file:/wh/a b", "file:///wh/a%20b"),
    ("/wh/%2e%2e/a", "/a"),
    ("s3://b/a//k", "s3://b/a/k"),
    ("s3://b//k", "s3://b/k"),
    ("s3://b/a/../k", "s3://b/k"),
    ("s3://b/./k", "s3://b/k"),
    ("s3://b/k", "s3://c/k"),
    ("s3://b/k", "gs://b/k"),
    ("s3://B/k", "s3://b/k"),
    ("s3://b/k?versionId=1", "s3://b/k"),
    ("/wh/a#b", "/wh/a"),
    ("abfs://c@one.dfs.core.windows.net/k", "abfs://c@two.dfs.core.windows.net/k"),
    ("hdfs:///wh/a", "hdfs://nn/wh/a"),
    ("viewfs:///wh/a", "viewfs://cluster/wh/a"),
    ("viewfs:///wh/a", "hdfs:///wh/a"),
    ("local:///wh/a", "/wh/a"),
    ("hdfs://nn:9000/a", "hdfs://nn/a"),
    ("/memory/a", "memory:a"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_spellings_of_the_same_file(one: str, other: str) -> None:
    assert same_file(one, other)
    assert same_file(other, one)
    assert canonical(one) == canonical(other)
    assert parse(one) == parse(other)
    assert hash(parse(one)) == hash(parse(other))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_files(one: str, other: str) -> None:
    assert not same_file(one, other)
    assert canonical(one) != canonical(other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "file:wh/t",
        "file:",
        "file://",
        "file://elsewhere/etc/passwd",
        "file://localhost",
        "s3:key",
        "s3:///key",
        "s3://",
        "hdfs:wh",
        "local:wh",
        "/wh/\0",
        "s3://b/\0",
        "a:b",
        "/" + "x" * 40_000,
    ],
)
def test_texts_that_are_no_locations(text: str) -> None:
    with pytest.raises(InvalidLocation):
        parse(text)


def test_relative_paths_are_taken_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert canonical("wh/t") == str(tmp_path / "wh" / "t")
    assert canonical("./a:b") == str(tmp_path / "a:b")
    assert canonical("../x") == str(tmp_path.parent / "x")


def test_names_below_keep_the_spelling_of_the_folder() -> None:
    for folder in (
        "/wh",
        "file:/wh",
        "file:///wh",
        "file://localhost/wh",
        "hdfs://nn:8020/wh",
        "hdfs:/wh",
        "local:///wh",
    ):
        location = parse(folder)
        assert location.spelled(location.folder + "t/a") == f"{folder}/t/a"
    for folder in ("s3a://b/wh", "wasbs://c@acct.blob.core.windows.net/wh", "memory:wh", "memory://wh"):
        location = parse(folder)
        assert location.spelled(location.folder + "t/a") == f"{folder}/t/a"


@pytest.mark.parametrize(
    ("location", "folder", "inside"),
    [
        ("/wh/t/a", "/wh/t", True),
        ("/wh/t", "/wh/t/", True),
        ("/wh/t2", "/wh/t", False),
        ("/wh/t/../t2/a", "/wh/t", False),
        ("file:///wh/t/a", "/wh", True),
        ("/wh", "/", True),
        ("s3a://b/wh/t", "s3://b/wh", True),
        ("s3://b/wh2", "s3://b/wh", False),
        ("s3://b2/wh", "s3://b", False),
        ("s3://b/anything", "s3://b", True),
        ("s3://b/anything", "s3://b/", True),
        ("gs://b/wh/t", "s3://b/wh", False),
    ],
)
def test_being_below_a_folder_goes_by_whole_names(location: str, folder: str, inside: bool) -> None:
    assert is_below(location, folder) is inside


def test_joining() -> None:
    assert join("/wh", "t", "metadata", "v1.json") == "/wh/t/metadata/v1.json"
    assert join("s3://b/", "/t/") == "s3://b/t"


NAMES = st.text(st.sampled_from("ab.%/ \\?#ü~"), min_size=1, max_size=20)


@given(NAMES)
def test_local_paths_are_resolved_as_posix_does(name: str) -> None:
    assert canonical("/wh/" + name) == os.path.normpath("/wh/" + name)
    assert same_file("/wh/" + name, "file:/wh/" + name)


@given(st.sampled_from(["/", "file:///", "s3a://b/", "gs://b/", "memory:", "hdfs://nn:8020/"]), NAMES)
def test_the_canonical_spelling_is_a_spelling_of_the_same_file(start: str, name: str) -> None:
    text = start + name
    assert parse(canonical(text)) == parse(text)
    assert canonical(canonical(text)) == canonical(text)
    assert parse(parse(text).text) == parse(text)


@given(NAMES)
def test_object_keys_are_kept_to_the_letter(name: str) -> None:
    assert parse(f"s3://bucket/{name}").path == name
