"""Which files a table reaches, and finding files among many without looking at each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from floe.avro.manifest_writer import write_manifest
from floe.catalog.metadata_files import read_metadata
from floe.commit.loop import commit
from floe.commit.manifests.file_sets import PathSet, name_hashes, text_of
from floe.commit.outcomes import delete_uncommitted
from floe.commit.pointer import Pointer
from floe.commit.reachability import FileBatch, FileKind, reachable_among, reachable_files
from floe.errors import CorruptFile, InvalidLocation, NoSuchFile
from floe.spec.manifests.entries import EntryStatus, ManifestEntry
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.partitioning.partition_spec import UNPARTITIONED
from floe.spec.pruning.var_bytes import VarBytes
from floe.storage.local import LocalStorage
from floe.storage.locations import canonical
from floe.storage.memory import MemoryStorage
from floe.storage.wrappers import PrefixMap
from floe.testing.faults import Fault, FaultyStorage
from helpers.corpus import expected, table_names
from helpers.pointers import LOCATION, SCHEMA, loaded, new_table
from helpers.small_snapshots import PutFiles, data_file, delete_file, deletion_vector


def path(name: str) -> str:
    return f"{LOCATION}/data/{name}"


def put(pointer: Pointer, *files: object, remove: tuple[object, ...] = ()) -> PutFiles:
    change = PutFiles(pointer.environment, files, remove)  # type: ignore[arg-type]
    commit(pointer, [change])
    return change


def by_kind(pointer: Pointer, **options: object) -> dict[FileKind, list[str]]:
    found: dict[FileKind, list[str]] = {}
    state = loaded(pointer)
    for batch in reachable_files(state.metadata, pointer.storage, metadata_location=state.location, **options):  # type: ignore[arg-type]
        found.setdefault(batch.kind, []).extend(batch.texts())
    return found


def test_every_kind_of_file_is_reached() -> None:
    pointer = new_table(format_version=3)
    first = put(pointer, data_file(path("a")), deletion_vector(path("d.puffin"), path("a"), 4))
    second = put(pointer, delete_file(path("e"), equality=True))
    state = loaded(pointer)
    found = by_kind(pointer)
    assert found[FileKind.DATA] == [path("a")]
    assert found[FileKind.DELETION_VECTORS] == [path("d.puffin")]
    assert found[FileKind.EQUALITY_DELETES] == [path("e")]
    assert set(found[FileKind.MANIFEST]) | set(found[FileKind.MANIFEST_LIST]) == {*first.written(), *second.written()}
    assert found[FileKind.METADATA] == [state.location, *(e.metadata_file for e in state.metadata.metadata_log)]
    everything = {info.location for info in pointer.storage.list(LOCATION)}
    assert everything == {one for paths in found.values() for one in paths}


def test_position_delete_files_are_not_deletion_vectors() -> None:
    pointer = new_table()
    put(pointer, delete_file(path("p")))
    assert by_kind(pointer)[FileKind.POSITION_DELETES] == [path("p")]


def test_what_is_deleted_is_not_reached_by_the_snapshot_that_deleted_it() -> None:
    pointer = new_table()
    put(pointer, data_file(path("a")), data_file(path("b")))
    put(pointer, remove=(path("a"),))
    table = loaded(pointer).metadata
    reached = {
        name
        for batch in reachable_files(table, pointer.storage, snapshots=[table.snapshots[-1]])
        if batch.kind is FileKind.DATA
        for name in batch.texts()
    }
    assert reached == {path("b")}
    assert set(by_kind(pointer)[FileKind.DATA]) == {path("a"), path("b")}


def test_each_file_is_read_once() -> None:
    pointer = new_table()
    for name in "abc":
        put(pointer, data_file(path(name)))
    files = FaultyStorage(pointer.storage)
    list(reachable_files(loaded(pointer).metadata, files))
    reads = [call.location for call in files.calls if call.operation == "read"]
    assert len(reads) == len(set(reads)) == 6, "three lists and three manifests"


def test_several_at_once_find_the_same() -> None:
    pointer = new_table()
    for name in "abcdef":
        put(pointer, data_file(path(name)))
    with ThreadPoolExecutor(4) as pool:
        assert by_kind(pointer, executor=pool) == by_kind(pointer)


def test_what_cannot_be_read_is_an_error_and_no_gap() -> None:
    pointer = new_table()
    change = put(pointer, data_file(path("a")))
    manifest = next(name for name in change.written() if name.endswith("-m0.avro"))
    pointer.storage.write(manifest, b"rubbish", overwrite=True)
    with pytest.raises(CorruptFile, match="manifest: "):
        by_kind(pointer)
    pointer.storage.delete_many([manifest])
    with pytest.raises(NoSuchFile):
        by_kind(pointer)


def test_v1_snapshots_that_name_their_manifests_themselves() -> None:
    storage = MemoryStorage()
    entry = ManifestEntry(EntryStatus.ADDED, 7, None, None, data_file(path("a")))
    storage.write(path("m.avro"), write_manifest([entry], SCHEMA, UNPARTITIONED, format_version=1))
    table = loaded(new_table(format_version=1)).metadata
    table = replace(table, snapshots=(Snapshot(snapshot_id=7, timestamp_ms=1, manifests=(path("m.avro"),)),))
    found = {batch.kind: batch.texts() for batch in reachable_files(table, storage)}
    assert found == {FileKind.MANIFEST: [path("m.avro")], FileKind.DATA: [path("a")]}


@pytest.mark.parametrize("name", table_names(without=("invalid", "odd", "view")))
def test_tables_of_the_corpus_reach_files_that_are_there(name: str, corpus_dir: Path) -> None:
    """Java wrote them: every file that their newest metadata reaches is on disk."""
    answers = expected(corpus_dir, name)
    storage = PrefixMap(LocalStorage(), {answers["location_prefix"]: f"{corpus_dir}/"})
    location = f"{answers['location']}/{answers['metadata']}"
    table = read_metadata(storage, location)
    kinds = set()
    for batch in reachable_files(table, storage):
        kinds.add(batch.kind)
        missing = [text for text in batch.texts() if not storage.exists(text)]
        assert missing == [], f"{batch.kind} {missing[:3]}"
    if table.snapshots:
        assert {FileKind.MANIFEST_LIST} <= kinds


# files among files ------------------------------------------------------------------------------------------------


def test_files_are_found_in_any_spelling() -> None:
    pointer = new_table()
    put(pointer, data_file(path("a")), data_file(path("b").replace("memory:", "memory://")))
    wanted = [path("a").replace("memory:", "memory:/"), path("b"), path("c")]
    assert reachable_among(loaded(pointer).metadata, wanted, pointer.storage) == set(wanted[:2])


NAMES = st.sampled_from(["a", "b.parquet", "c:d", "x" * 300, "x" * 300 + "y", "..", ".", "", "é", "a b"])
FOLDERS = st.lists(st.sampled_from(["t", "data", "..", ".", "", "p=1"]), max_size=3)
PREFIXES = st.sampled_from(["/", "file:/", "file:///", "s3://b/", "s3a://b/", "memory:", "memory://", "hdfs://n/"])


@st.composite
def paths(draw: st.DrawFn) -> str:
    text = draw(PREFIXES) + "/".join([*draw(FOLDERS), draw(NAMES)])
    return text if not text.startswith("file://") or text.startswith("file:///") else text.replace("file://", "/")


@given(st.lists(paths(), max_size=8), st.lists(paths(), max_size=20))
@example(["/t/a"], ["file:/t/a/", "/t/x/../a", "/t/a/."])
def test_a_path_set_finds_what_comparing_each_finds(wanted: list[str], column: list[str]) -> None:
    files = PathSet(wanted)
    names = {canonical(one) for one in column}
    found = files.found_in(VarBytes.of(one.encode() for one in column))
    assert {canonical(one) for one in found} == {canonical(one) for one in wanted} & names
    assert found <= set(wanted)


def test_a_path_set_changes_with_its_files() -> None:
    files = PathSet(["/t/a"])
    column = VarBytes.of([b"/t/a", b"/t/b"])
    assert files.found_in(column) == {"/t/a"}
    files.add(["file:/t/b", "file:/t/a"])
    assert files.found_in(column) == {"/t/a", "file:/t/b"}
    files.remove(["/t/a"])
    assert files.found_in(column) == {"file:/t/b"}
    assert ("/t/b" in files, "/t/a" in files, 7 in files) == (True, False, False)
    assert repr(files) == "PathSet(1 files)"
    assert PathSet().found_in(column) == set()


def test_names_of_many_files_are_told_apart() -> None:
    column = VarBytes.of(f"s3://bucket/t/data/part-{n:09d}.parquet".encode() for n in range(50_000))
    hashes = name_hashes(column)
    assert len(set(hashes.tolist())) == 50_000


def test_paths_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidLocation, match="not UTF-8"):
        text_of(b"/t/\xff")
    assert FileBatch.of(FileKind.DATA, ["/t/é"]).texts() == ["/t/é"]


# data files of commits that failed --------------------------------------------------------------------------------


def test_data_files_of_a_failed_commit_are_deleted_on_request() -> None:
    pointer = new_table()
    change = PutFiles(pointer.environment, [data_file(path("a"))])
    pointer.storage.write(path("a"), b"rows")
    assert delete_uncommitted(pointer, [change], [path("a")]) == [path("a")]
    assert not pointer.storage.exists(path("a"))
    assert delete_uncommitted(pointer, [change], []) == []


def test_data_files_stay_if_the_commit_is_there_after_all() -> None:
    pointer = new_table()
    change = put(pointer, data_file(path("a")))
    assert delete_uncommitted(pointer, [change], [path("a")]) == []
    assert pointer.storage.exists(path("a"))


def test_data_files_stay_if_another_table_has_the_name() -> None:
    pointer = new_table()
    failed = PutFiles(pointer.environment, [data_file(path("a"))])
    pointer.storage.write(path("a"), b"rows")
    uuid = pointer.load().metadata.table_uuid
    assert delete_uncommitted(pointer, [failed], [path("a")], table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1") == []
    assert delete_uncommitted(pointer, [failed], [path("a")], table_uuid=uuid) == [path("a")]


def test_data_files_stay_if_anybody_uses_one_of_them() -> None:
    pointer = new_table()
    put(pointer, data_file(path("a")))
    pointer.storage.write(path("b"), b"rows")
    failed = PutFiles(pointer.environment, [data_file(path("a")), data_file(path("b"))])
    assert delete_uncommitted(pointer, [failed], [path("a"), path("b")]) == []


def test_data_files_stay_if_the_table_cannot_be_read() -> None:
    pointer = new_table()
    put(pointer, data_file(path("a")))
    pointer.storage.write(path("b"), b"rows")
    failed = PutFiles(pointer.environment, [data_file(path("b"))])
    files = pointer.storage
    for at in (1, 2):
        pointer.catalog.storage = FaultyStorage(files, Fault.BEFORE, at=at, only={"read"})  # type: ignore[attr-defined]
        assert delete_uncommitted(pointer, [failed], [path("b")]) == []
    assert files.exists(path("b"))
