"""Moved tables: recorded locations are found where the files are now, in both directions."""

from pathlib import Path

import pytest

from floe.errors import InvalidInput, NoSuchFile
from floe.spec.metadata.table_metadata_json import parse as parse_metadata
from floe.storage.local import LocalStorage
from floe.storage.memory import MemoryStorage
from floe.storage.wrappers import PrefixMap
from helpers.corpus import expected, table_names


def test_all_spellings_of_a_recorded_folder_are_mapped() -> None:
    storage = PrefixMap(LocalStorage(), {"/old/": "/new/"})
    for recorded in ("/old/t/a", "file:/old/t/a", "file:///old/t/a", "/old//t/a", "/old/x/../t/a"):
        assert storage.actual(recorded) == "/new/t/a"
    assert storage.actual("/old") == "/new"


def test_other_locations_stay_as_they_are() -> None:
    storage = PrefixMap(LocalStorage(), {"/old/": "/new/"})
    for location in ("/older/a", "/other", "s3://old/a", "/old/../etc/passwd"):
        assert storage.actual(location) == location


def test_the_longest_prefix_counts() -> None:
    storage = PrefixMap(LocalStorage(), {"/old": "/new", "/old/t": "s3://b/t", "/": "/root"})
    assert storage.actual("/old/u/a") == "/new/u/a"
    assert storage.actual("/old/t/a") == "s3://b/t/a"
    assert storage.actual("/elsewhere/a") == "/root/elsewhere/a"


def test_both_directions() -> None:
    storage = PrefixMap(LocalStorage(), {"s3://b/wh/": "/mnt/wh/", "s3://b/wh/hot": "/ssd"})
    for recorded in ("s3://b/wh/t/a", "s3://b/wh/hot/a"):
        assert storage.recorded(storage.actual(recorded)) == recorded
    assert storage.recorded("/elsewhere") == "/elsewhere"


def test_keys_of_object_stores_are_kept_to_the_letter() -> None:
    storage = PrefixMap(MemoryStorage(), {"s3://old/wh": "s3://new/deep/wh"})
    assert storage.actual("s3://old/wh/a//b") == "s3://new/deep/wh/a//b"
    assert storage.actual("s3://old/wh/%20 x") == "s3://new/deep/wh/%20 x"


def test_listings_give_recorded_locations() -> None:
    files = MemoryStorage()
    for name in ("data/a", "data/b c%20", "metadata/v1"):
        files.write(f"gs://new/t/{name}", b"")
    storage = PrefixMap(files, {"file:/old/": "gs://new/"})
    for folder in ("/old/t", "file:///old/t/", "file:/old/t"):
        locations = [info.location for info in storage.list(folder)]
        start = folder if folder.endswith("/") else folder + "/"
        assert locations == [f"{start}data/a", f"{start}data/b c%20", f"{start}metadata/v1"]
        assert all(storage.stat(location).location == location for location in locations)
    assert list(storage.folders("/old/t")) == ["data", "metadata"]


def test_writes_land_in_the_new_place() -> None:
    files = MemoryStorage()
    storage = PrefixMap(files, {"/old/": "gs://new/"})
    storage.create("/old/a", b"a")
    with storage.open_write("/old/b") as file:
        file.write(b"b")
    assert [info.location for info in files.list("gs://new/")] == ["gs://new/a", "gs://new/b"]
    outcomes = storage.delete_many(["/old/a", "/old/b"])
    assert [(outcome.location, outcome.deleted) for outcome in outcomes] == [("/old/a", True), ("/old/b", True)]


def test_errors_tell_both_places() -> None:
    storage = PrefixMap(MemoryStorage(), {"/old/": "gs://new/"})
    with pytest.raises(NoSuchFile, match=r"location: gs://new/a, recorded_as: /old/a"):
        storage.read("/old/a")


def test_a_prefix_mapped_twice_is_refused() -> None:
    with pytest.raises(InvalidInput):
        PrefixMap(MemoryStorage(), {"/old": "/a", "file:/old/": "/b"})


@pytest.mark.parametrize("name", table_names(without=("invalid", "odd", "view")))
def test_every_table_of_the_corpus_opens_where_it_was_copied_to(corpus_dir: Path, name: str) -> None:
    storage = PrefixMap(LocalStorage(), {"/floe-corpus/": f"{corpus_dir}/"})
    answer = expected(corpus_dir, name)
    metadata = parse_metadata(storage.read(f"/floe-corpus/{name}/{answer['metadata']}"))
    current = metadata.current_snapshot
    if current is not None and current.manifest_list is not None:
        assert storage.read_range(current.manifest_list, 0, 4) == b"Obj\x01"
    assert storage.exists(f"{metadata.location}/{answer['metadata']}")
