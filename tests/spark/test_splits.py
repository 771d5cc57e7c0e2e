"""Files cut into parts for Spark's own reader, and their URLs: no session is needed."""

from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from floe import errors
from floe.spark.read.native_reader import actual_location, even_split_size, hadoop_path, hadoop_urls, split_files
from floe.spec.schemas.metadata_columns import FILE
from floe.storage.access import Access
from floe.storage.local import LocalStorage
from floe.storage.protocol import Storage
from floe.storage.wrappers import PrefixMap

LOCAL = LocalStorage()
MOVED = PrefixMap(LOCAL, {"s3://b/wh": "/copy", "s3://b/wh/t/x=1": "/apart", "local:///": "/trino"})
NAMES = ["a", "..", ".", "", "x=1", "day=2024-01-01", "b c", "100%", "ä", "x+y", "a:b"]


def one_by_one(storage: Storage, path: str) -> str:
    return quote(hadoop_path(actual_location(storage, path)), safe="/:@&=+$,;-_.!~*'()")


@given(
    storage=st.sampled_from([LOCAL, MOVED]),
    root=st.sampled_from(["/wh/t", "file:///wh/t", "file:/wh/t", "s3://b/wh/t", "s3://other/t"]),
    folders=st.lists(st.lists(st.sampled_from(NAMES), max_size=4), max_size=6),
)
def test_urls_together_are_those_of_each(storage: Storage, root: str, folders: list[list[str]]) -> None:
    paths = ["/".join([root, *names, f"{n}.parquet"]) for n, names in enumerate(folders)]
    assert hadoop_urls(storage, pa.array(paths, pa.string())).to_pylist() == [
        one_by_one(storage, path) for path in paths
    ]


ROOTS = [
    *("", "/", "/wh", "file:", "file:/wh/t", "file://", "file:///wh/t", "file://localhost/wh", "local://", "local:/wh"),
    *("s3://b", "s3://b/wh/t", "s3a://b/wh/t", "s3n://b2/wh/t", "s3://b2", "gs://b", "hdfs://nn", "hdfs://", "hdfs:"),
    *(
        "viewfs://",
        "viewfs://cluster/wh",
        "abfss://c@acct.dfs.core.windows.net",
        "wasbs://c@acct.blob.core.windows.net",
    ),
]


@given(
    storage=st.sampled_from([LOCAL, MOVED]),
    places=st.lists(st.tuples(st.sampled_from(ROOTS), st.lists(st.sampled_from(NAMES), max_size=2)), max_size=8),
)
def test_urls_of_mixed_spellings_schemes_and_buckets(storage: Storage, places: list[tuple[str, list[str]]]) -> None:
    paths = ["/".join([root, f"w{n % 2}", *names, f"{n}.parquet"]) for n, (root, names) in enumerate(places)]
    assert hadoop_urls(storage, pa.array(paths, pa.string())).to_pylist() == [
        one_by_one(storage, path) for path in paths
    ]


@pytest.mark.parametrize(
    ("paths", "urls"),
    [
        (["file:/wh/t/a", "file:///wh/t/b"], ["file:/wh/t/a", "file:/wh/t/b"]),
        (["file:///one/a", "file:///two/b"], ["file:/one/a", "file:/two/b"]),
        (["s3://b1/t/a", "s3://b2/t/b"], ["s3://b1/t/a", "s3://b2/t/b"]),
        (["s3://b/t/a", "s3a://b/t/b"], ["s3://b/t/a", "s3a://b/t/b"]),
        (["hdfs://nn/one/a", "hdfs://nn/two/b"], ["hdfs://nn/one/a", "hdfs://nn/two/b"]),
        (["viewfs:///one/a", "viewfs:///two/b"], ["viewfs:///one/a", "viewfs:///two/b"]),
        (["local:///one/a", "local:///two/b"], ["file:/trino/one/a", "file:/trino/two/b"]),
    ],
)
def test_urls_of_files_that_have_less_than_a_folder_in_common(paths: list[str], urls: list[str]) -> None:
    assert hadoop_urls(MOVED, pa.array(paths)).to_pylist() == urls


def test_files_without_a_common_folder() -> None:
    paths = ["s3://b/a.parquet", "/wh/b.parquet", "file:/wh/ c.parquet"]
    urls = hadoop_urls(LOCAL, pa.array(paths)).to_pylist()
    assert urls == ["s3://b/a.parquet", "file:/wh/b.parquet", "file:/wh/%20c.parquet"]


@given(total=st.integers(1, 10**12), parallelism=st.integers(1, 500), size=st.integers(1, 2**30))
def test_parts_are_as_many_as_fill_all_turns(total: int, parallelism: int, size: int) -> None:
    split_size = even_split_size(total, parallelism, size)
    turns = -(-total // (parallelism * size))
    assert split_size <= size
    assert split_size * parallelism * turns >= total, "no turn more than before"
    assert split_size == size if turns == 1 else split_size > size // 2


@pytest.mark.parametrize(
    ("offsets", "cuts"),
    [
        ([4, 40, 90, 120], [(0, 90), (90, 120), (120, 250)]),
        ([300], [(0, 100), (100, 200), (200, 250)]),
        ([90, 40], [(0, 100), (100, 200), (200, 250)]),
        (None, [(0, 100), (100, 200), (200, 250)]),
    ],
)
def test_big_files_are_cut_where_row_groups_begin(offsets: list[int] | None, cuts: list[tuple[int, int]]) -> None:
    files = pa.table(
        {
            "file_path": ["/wh/a", "/wh/big", "/wh/b"],
            "file_size_in_bytes": [100, 250, 7],
            "split_offsets": pa.array([[4], offsets, None], pa.list_(pa.int64())),
            "key_metadata": pa.nulls(3, pa.binary()),
        }
    )
    parts = split_files(files, LOCAL, [FILE], 100)
    found = list(zip(parts.urls.to_pylist(), parts.begins, parts.begins + parts.lengths, strict=True))
    assert found == [("file:/wh/a", 0, 100), *(("file:/wh/big", *cut) for cut in cuts), ("file:/wh/b", 0, 7)]
    assert parts.constants[0].to_pylist() == ["/wh/a", *["/wh/big"] * len(cuts), "/wh/b"]
    assert parts.sizes.tolist() == [100, *[250] * len(cuts), 7]
    ordered = parts.largest_first()
    assert sorted(ordered.lengths, reverse=True) == ordered.lengths.tolist()
    assert set(zip(ordered.urls.to_pylist(), ordered.begins, strict=True)) == set(
        zip(parts.urls.to_pylist(), parts.begins, strict=True)
    )


def test_files_outside_the_roots_are_not_for_spark_either() -> None:
    usual = Access(LOCAL, roots=["/wh", "/apart/t"], exact=False)
    names = [f"/wh/t/data/day={n}/f.parquet" for n in range(3)]
    assert len(hadoop_urls(usual, pa.array(names))) == 3
    assert len(hadoop_urls(usual, pa.array([*names, "file:/apart/t/a.parquet"]))) == 4, "below no one root"
    for wrong in ("/apart/u/a.parquet", "/wh/t/../../private/a.parquet", "/wh2/a.parquet", "s3://wh/t/a.parquet"):
        with pytest.raises(errors.PathNotAllowed) as caught:
            hadoop_urls(usual, pa.array([*names, wrong]))
        assert caught.value.context["location"] == wrong
    moved = PrefixMap(usual, {"s3://b/wh": "/wh", "s3://b/wh/t/x=1": "/private"})
    assert len(hadoop_urls(moved, pa.array(["s3://b/wh/t/a", "s3://b/wh/t/x=2/a"]))) == 2
    with pytest.raises(errors.PathNotAllowed):
        hadoop_urls(moved, pa.array(["s3://b/wh/t/a", "s3://b/wh/t/x=1/a"]))


def test_given_roots_hold_for_links_to_files(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private/a.parquet").touch()
    (tmp_path / "wh").mkdir()
    (tmp_path / "wh/a.parquet").symlink_to(tmp_path / "private/a.parquet")
    with pytest.raises(errors.PathNotAllowed):
        hadoop_urls(Access(LOCAL, roots=[str(tmp_path / "wh")]), pa.array([f"{tmp_path}/wh/a.parquet"]))


def test_many_files_are_checked_by_their_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    allows = Access.allows
    monkeypatch.setattr(Access, "allows", lambda gate, location: checked.append(location) or allows(gate, location))
    paths = [f"/wh/t/data/f{n}.parquet" for n in range(1000)]
    usual = Access(LOCAL, roots=["/wh/t/data", "/apart"], exact=False)
    hadoop_urls(usual, pa.array(paths))
    assert checked == ["/wh/t/data/"]
    checked.clear()
    hadoop_urls(usual, pa.array([*paths, "/apart/a.parquet"]))
    assert len(checked) <= 4


def test_encrypted_files_are_not_handed_to_spark() -> None:
    keys = pa.array([None, b"key"], pa.binary())
    files = pa.table({"file_path": ["/wh/a", "/wh/b"], "file_size_in_bytes": [1, 1], "key_metadata": keys})
    with pytest.raises(errors.UnsupportedFeature, match=r"the file is encrypted.*/wh/b"):
        split_files(files, LOCAL, [], 100)
