"""The gate: allowed roots and size limits, against everything that hostile metadata may name."""

from pathlib import Path

import pytest

from floe.errors import FileTooLarge, InvalidLocation, NoSuchFile, PathNotAllowed
from floe.storage.access import Access
from floe.storage.local import LocalStorage
from floe.storage.memory import MemoryStorage
from floe.storage.wrappers import PrefixMap
from helpers.corpus import read_metadata

ATTACKS = [
    "/etc/passwd",
    "file:///etc/passwd",
    "file:/etc/passwd",
    "FILE:/etc/passwd",
    "{root}/../secret",
    "{root}/t/../../secret",
    "file:{root}/../secret",
    "{root}//..//secret",
    "{root}/./../secret",
    "{root}2/secret",
    "{root}.bak",
    "{root}/out/secret",
    "{root}/out_file",
    "{root}/chain/secret",
    "/proc/self/environ",
    "{root}/../../../../../../../../etc/passwd",
]


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A folder with links that lead out of it, and a secret beside it."""
    folder = tmp_path / "wh"
    (folder / "t").mkdir(parents=True)
    (folder / "t" / "a").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "out").symlink_to(tmp_path)
    (folder / "out_file").symlink_to(tmp_path / "secret")
    (folder / "chain").symlink_to(folder / "out")
    (folder / "in").symlink_to(folder / "t")
    return str(folder)


@pytest.fixture
def gate(root: str) -> Access:
    return Access(LocalStorage(durable=False), roots=[root])


@pytest.mark.parametrize("attack", ATTACKS)
def test_paths_that_lead_out_are_refused_by_every_call(gate: Access, root: str, attack: str) -> None:
    location = attack.format(root=root)
    for call in (
        lambda: gate.read(location),
        lambda: gate.read_range(location, 0, 1),
        lambda: gate.open_read(location),
        lambda: gate.open_write(location, overwrite=True),
        lambda: gate.write(location, b"", overwrite=True),
        lambda: gate.create(location, b""),
        lambda: gate.stat(location),
        lambda: gate.exists(location),
        lambda: gate.list(location),
        lambda: gate.folders(location),
        lambda: gate.make_folder(location),
        lambda: gate.remove_folder(location),
    ):
        with pytest.raises(PathNotAllowed) as caught:
            call()
        assert location in str(caught.value)
        assert root in str(caught.value)
    (outcome,) = gate.delete_many([location])
    assert isinstance(outcome.error, PathNotAllowed)
    assert (Path(root).parent / "secret").read_bytes() == b"secret"


def test_paths_inside_are_allowed(gate: Access, root: str) -> None:
    for location in (f"{root}/t/a", f"file:{root}/t/../t/a", f"file://{root}/in/a", f"{root}//t//a"):
        assert gate.read(location) == b"inside"
    with pytest.raises(NoSuchFile):
        gate.read(f"{root}/%2e%2e/secret")


def test_deleting_goes_on_beside_a_refusal(gate: Access, root: str) -> None:
    outcomes = gate.delete_many([f"{root}/t/a", "/etc/passwd", f"{root}/t/missing"])
    assert [outcome.deleted for outcome in outcomes] == [True, False, True]


def test_a_root_may_itself_be_a_link(root: str, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    gate = Access(LocalStorage(), roots=[f"{tmp_path}/alias"])
    assert gate.read(f"{tmp_path}/alias/t/a") == gate.read(f"{root}/t/a") == b"inside"


def test_new_files_below_a_link_that_leads_out_are_refused(gate: Access, root: str, tmp_path: Path) -> None:
    with pytest.raises(PathNotAllowed):
        gate.create(f"{root}/out/new/file", b"")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "attack",
    [
        "s3://other/wh/a",
        "s3://bucket/wh2/a",
        "s3://bucket/wh/../secret",
        "s3://bucket/wh/./a",
        "gs://bucket/wh/a",
        "/bucket/wh/a",
        "file:///etc/passwd",
        "s3://bucket",
        "hdfs://bucket/wh/a",
        "memory:wh/a",
    ],
)
def test_object_locations_outside_are_refused(attack: str) -> None:
    files = MemoryStorage()
    files.write(attack + "/x", b"secret")
    gate = Access(files, roots=["s3a://bucket/wh"])
    gate.write("s3://bucket/wh/a", b"")
    with pytest.raises(PathNotAllowed):
        gate.read(attack + "/x")


def test_texts_that_are_no_locations_are_refused(gate: Access) -> None:
    for text in ("", "file://host/etc", "/wh/\0/../../etc"):
        with pytest.raises(InvalidLocation):
            gate.read(text)
    assert not gate.delete_many(["file://host/etc"])[0].deleted


def test_an_empty_list_of_roots_allows_nothing_and_none_allows_all(root: str) -> None:
    with pytest.raises(PathNotAllowed):
        Access(LocalStorage(), roots=[]).read(f"{root}/t/a")
    assert Access(LocalStorage()).read(f"{root}/t/a") == b"inside"


def test_sizes_are_limited(root: str) -> None:
    gate = Access(LocalStorage(), roots=[root], max_read_bytes=6)
    assert gate.read(f"{root}/t/a") == b"inside"
    (Path(root) / "t" / "large").write_bytes(b"1234567")
    with pytest.raises(FileTooLarge, match=r"has 7 bytes, at most 6 are"):
        gate.read(f"{root}/t/large")
    with pytest.raises(FileTooLarge, match=r"has 7 bytes, at most 3 are"):
        gate.read(f"{root}/t/large", max_bytes=3)
    assert gate.read_range(f"{root}/t/large", 1, 6) == b"234567"
    with pytest.raises(FileTooLarge):
        gate.read_range(f"{root}/t/large", 0, 7)
    with gate.open_read(f"{root}/t/large") as file:
        assert file.read() == b"1234567", "streams are read in parts, so only their parts are limited"


def test_a_huge_sparse_file_is_refused_before_it_is_read(root: str) -> None:
    with open(f"{root}/t/huge", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FileTooLarge):
        Access(LocalStorage(), roots=[root]).read(f"{root}/t/huge")


# The tables of the corpus whose manifests name files elsewhere


def test_corpus_invalid_path_passwd_is_refused(corpus_dir: Path) -> None:
    gate = PrefixMap(
        Access(LocalStorage(), roots=[f"{corpus_dir}/invalid_path_passwd"]), {"/floe-corpus/": f"{corpus_dir}/"}
    )
    assert read_metadata(corpus_dir / "invalid_path_passwd/metadata/v3.metadata.json")["location"] == (
        "/floe-corpus/invalid_path_passwd"
    )
    assert gate.exists("/floe-corpus/invalid_path_passwd/metadata/v3.metadata.json")
    with pytest.raises(PathNotAllowed, match="location: file:///etc/passwd"):
        gate.open_read("file:///etc/passwd")


def test_corpus_invalid_path_dotdot_is_refused(corpus_dir: Path) -> None:
    gate = PrefixMap(
        Access(LocalStorage(), roots=[f"{corpus_dir}/invalid_path_dotdot"]), {"/floe-corpus/": f"{corpus_dir}/"}
    )
    with pytest.raises(PathNotAllowed, match=r"etc/passwd"):
        gate.open_read("/floe-corpus/invalid_path_dotdot/data/../../../etc/passwd")
    with pytest.raises(PathNotAllowed):
        gate.open_read("/floe-corpus/invalid_path_dotdot/../v2_basic/metadata/v1.metadata.json")
