"""Tables opened by their paths: those of the corpus, and those that nobody can tell."""

import gzip
import shutil
import time
from pathlib import Path

import pytest

from floe.catalog.file_system.catalog import FileSystemCatalog
from floe.catalog.file_system.folder_table import MetadataFilePointer, pointer_at
from floe.catalog.memory import MemoryCatalog
from floe.errors import FloeError, InvalidInput, NoSuchTable, UnsupportedFeature
from floe.storage.local import LocalStorage
from floe.storage.memory import MemoryStorage
from floe.storage.wrappers import PrefixMap
from helpers.catalog_tables import change, create, load, propose
from helpers.corpus import expected, table_names

ORDERS = ("db", "orders")


@pytest.mark.parametrize("name", table_names(without=("view_",)))
def test_tables_of_the_corpus(corpus_dir: Path, name: str) -> None:
    """The metadata file that Java names is found, or an error is raised soon."""
    answers = expected(corpus_dir, name)
    invalid = answers.get("invalid")
    storage = PrefixMap(LocalStorage(), {"/floe-corpus/": f"{corpus_dir}/"})
    began = time.perf_counter()
    try:
        state = load(pointer_at(str(corpus_dir / name), storage))
    except FloeError:
        if not invalid:
            raise
    else:
        assert state.location == str(corpus_dir / name / (invalid or answers)["metadata"])
        if not invalid:
            assert state.metadata.current_snapshot_id == answers["current_snapshot_id"]
    assert time.perf_counter() - began < 5


def test_a_table_that_java_wrote_is_committed_to(corpus_dir: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus_dir / "v2_basic", tmp_path / "v2_basic")
    storage = PrefixMap(LocalStorage(durable=False), {"/floe-corpus/": f"{tmp_path}/"})
    for location in (str(tmp_path / "v2_basic"), "/floe-corpus/v2_basic", "file:/floe-corpus/v2_basic/"):
        pointer = pointer_at(location, storage)
        before = load(pointer)
        state = change(pointer, opened=location)
        assert load(pointer).metadata == state.metadata
        assert state.metadata.snapshots == before.metadata.snapshots
    unmapped = pointer_at(str(tmp_path / "v2_basic"), LocalStorage())
    with pytest.raises(UnsupportedFeature, match="prefix map"):
        propose(unmapped, load(unmapped), a="1")


def test_a_folder_of_a_file_system_table(tmp_path: Path) -> None:
    create(FileSystemCatalog(str(tmp_path)), ORDERS)
    folder = tmp_path / "db" / "orders"
    for location in (str(folder), f"{folder}/", f"file:{folder}", str(folder / "metadata")):
        pointer = pointer_at(location, LocalStorage())
        assert change(pointer, by=location).metadata == load(pointer).metadata
    assert load(pointer_at(str(folder), LocalStorage())).location.endswith("/v5.metadata.json")


def test_one_metadata_file_is_read_only(tmp_path: Path) -> None:
    state = create(FileSystemCatalog(str(tmp_path)), ORDERS)
    change(FileSystemCatalog(str(tmp_path)).pointer(ORDERS), later="1")
    renamed = tmp_path / "anything.json"
    renamed.write_bytes(gzip.compress(Path(state.location).read_bytes()))
    for location in (state.location, f"file:{state.location}", str(renamed)):
        pointer = pointer_at(location, LocalStorage())
        assert isinstance(pointer, MetadataFilePointer)
        assert load(pointer).metadata == state.metadata
        with pytest.raises(UnsupportedFeature, match="only be read"):
            propose(pointer, load(pointer), a="1")


def test_a_table_of_a_catalog_is_read_only_and_followed() -> None:
    storage = MemoryStorage()
    catalog = MemoryCatalog(storage=storage)
    create(catalog, ORDERS)
    pointer = pointer_at("memory:warehouse/db/orders", storage)
    for n in range(12):
        state = change(catalog.pointer(ORDERS), n=str(n))
        assert load(pointer).location == state.location
    with pytest.raises(UnsupportedFeature, match="only be read"):
        propose(pointer, load(pointer), a="1")


def test_two_files_of_one_version_leave_it_open() -> None:
    """A commit that was lost, or one that was rolled back: only the catalog knows."""
    storage = MemoryStorage()
    catalog = MemoryCatalog(storage=storage)
    base = create(catalog, ORDERS)
    one, other = (propose(catalog.pointer(ORDERS), base, by=by) for by in ("one", "other"))
    with pytest.raises(InvalidInput, match="2 metadata files of version 1") as error:
        pointer_at("memory:warehouse/db/orders", storage)
    assert one.location in str(error.value)
    assert other.location in str(error.value)
    assert load(pointer_at(one.location, storage)).metadata == one.metadata


@pytest.mark.parametrize("location", ["memory:nowhere", "memory:warehouse", "memory:warehouse/db/x.metadata.json"])
def test_nothing_there(location: str) -> None:
    storage = MemoryStorage()
    create(MemoryCatalog(storage=storage), ORDERS)
    with pytest.raises(NoSuchTable, match="no table at this location"):
        pointer_at(location, storage)
