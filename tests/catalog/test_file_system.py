"""File-system tables: Java's layout, a hint that is only a hint, and what the layout cannot do."""

import gzip
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from floe.catalog.file_system.catalog import FileSystemCatalog
from floe.catalog.memory import MemoryCatalog
from floe.errors import (
    CommitConflict,
    InvalidMetadata,
    InvalidName,
    InvalidUpdate,
    NamespaceAlreadyExists,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchTable,
    TableAlreadyExists,
    UnsupportedFeature,
)
from floe.storage.environment import deterministic_environment
from floe.storage.local import LocalStorage
from floe.storage.memory import MemoryStorage
from floe.storage.wrappers import PrefixMap
from floe.testing.faults import FaultyStorage
from helpers.catalog_tables import (
    NotExclusive,
    Overwriting,
    a_view,
    change,
    create,
    load,
    names,
    new_metadata,
    propose,
    publish,
)

ORDERS = ("db", "orders")


@pytest.fixture
def catalog(tmp_path: Path) -> FileSystemCatalog:
    return FileSystemCatalog(str(tmp_path), storage=LocalStorage(durable=False))


@pytest.fixture
def metadata(tmp_path: Path) -> Path:
    return tmp_path / "db" / "orders" / "metadata"


def in_memory() -> FileSystemCatalog:
    environment = deterministic_environment()
    return FileSystemCatalog("memory:wh", storage=MemoryStorage(clock=environment.clock), environment=environment)


# the layout -------------------------------------------------------------------------------------------------------


def test_the_layout_is_that_of_javas_hadoop_catalog(catalog: FileSystemCatalog, metadata: Path) -> None:
    state = create(catalog, ORDERS)
    change(catalog.pointer(ORDERS), a="1")
    assert sorted(path.name for path in metadata.iterdir()) == [
        "v1.metadata.json",
        "v2.metadata.json",
        "version-hint.text",
    ]
    assert (metadata / "version-hint.text").read_bytes() == b"2"
    assert state.metadata.location == str(metadata.parent)


def test_pyiceberg_reads_what_is_written(catalog: FileSystemCatalog, metadata: Path) -> None:
    create(catalog, ORDERS, {"write.metadata.compression-codec": "gzip"})
    state = change(catalog.pointer(ORDERS), a="1")
    read = StaticTable.from_metadata(state.location)
    assert read.properties["a"] == "1"
    assert str(read.metadata.table_uuid) == state.metadata.table_uuid


def test_a_relative_warehouse_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    state = create(FileSystemCatalog("lake/wh"), ORDERS)
    assert state.metadata.location == str(tmp_path / "lake" / "wh" / "db" / "orders")


# the hint ---------------------------------------------------------------------------------------------------------

HINTS = {
    "missing": None,
    "stale": b"2",
    "right": b"5",
    "ahead": b"99",
    "torn": b"",
    "garbage": b"\xff\xfe not a number",
    "zero": b"0",
    "negative": b"-1",
    "beyond 32 bits": b"99999999999999999999",
    "huge": b"1" * 1_000_000,
    "with a line end": b"5\n",
}


@pytest.mark.parametrize("hint", HINTS.values(), ids=HINTS.keys())
def test_the_newest_version_is_found_whatever_the_hint_says(
    catalog: FileSystemCatalog, metadata: Path, hint: bytes | None
) -> None:
    create(catalog, ORDERS)
    pointer = catalog.pointer(ORDERS)
    for n in range(2, 6):
        change(pointer, n=str(n))
    (metadata / "version-hint.text").unlink()
    if hint is not None:
        (metadata / "version-hint.text").write_bytes(hint)
    assert load(pointer).metadata.properties["n"] == "5"
    assert catalog.table_exists(ORDERS)
    assert catalog.tables(("db",)) == [ORDERS]
    change(pointer, n="6")
    assert load(pointer).metadata.properties["n"] == "6"
    assert (metadata / "version-hint.text").read_bytes() == b"6"


def test_a_hint_alone_makes_no_table(catalog: FileSystemCatalog, metadata: Path) -> None:
    catalog.create_namespace(("db",))
    metadata.mkdir(parents=True)
    (metadata / "version-hint.text").write_bytes(b"3")
    assert catalog.pointer(ORDERS).load() is None
    assert not catalog.table_exists(ORDERS)
    create(catalog, ORDERS)
    assert load(catalog.pointer(ORDERS)).location.endswith("/v1.metadata.json")
    assert (metadata / "version-hint.text").read_bytes() == b"1"


def test_a_writer_that_is_late_does_not_set_the_hint_back(catalog: FileSystemCatalog, metadata: Path) -> None:
    base = create(catalog, ORDERS)
    pointer = catalog.pointer(ORDERS)
    slow = propose(pointer, base, by="slow")
    pointer.swap(slow)
    change(pointer, by="quick")
    pointer.finish(slow)
    assert (metadata / "version-hint.text").read_bytes() == b"3"


# spellings of versions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v2.gz.metadata.json", "v2.metadata.json.gz"])
def test_compressed_versions_are_read(catalog: FileSystemCatalog, metadata: Path, name: str) -> None:
    create(catalog, ORDERS)
    second = Path(change(catalog.pointer(ORDERS), by="java").location)
    (metadata / name).write_bytes(gzip.compress(second.read_bytes()))
    second.unlink()
    pointer = catalog.pointer(ORDERS)
    assert load(pointer).metadata.properties["by"] == "java"
    assert load(pointer).location == str(metadata / name)
    assert change(pointer, by="floe").location == str(metadata / "v3.metadata.json")


def test_of_several_spellings_the_plain_one_counts_as_for_java(catalog: FileSystemCatalog, metadata: Path) -> None:
    create(catalog, ORDERS)
    plain = Path(change(catalog.pointer(ORDERS), by="plain").location)
    (metadata / "v2.gz.metadata.json").write_bytes(gzip.compress(plain.read_bytes().replace(b"plain", b"other")))
    for hint in (b"1", b"2", b""):
        (metadata / "version-hint.text").write_bytes(hint)
        assert load(catalog.pointer(ORDERS)).metadata.properties["by"] == "plain"


def test_the_first_bytes_tell_compression_not_the_name(catalog: FileSystemCatalog, metadata: Path) -> None:
    create(catalog, ORDERS)
    second = Path(change(catalog.pointer(ORDERS), by="java").location)
    second.write_bytes(gzip.compress(second.read_bytes()))
    assert load(catalog.pointer(ORDERS)).metadata.properties["by"] == "java"


def test_names_that_nobody_reads_are_no_versions(catalog: FileSystemCatalog, metadata: Path) -> None:
    state = create(catalog, ORDERS)
    content = Path(state.location).read_bytes()
    for name in ("v0007.metadata.json", "v9.metadata.json.tmp", "vX.metadata.json", "v99999999999.metadata.json"):
        (metadata / name).write_bytes(content)
    (metadata / "old").mkdir()
    (metadata / "old" / "v8.metadata.json").write_bytes(content)
    (metadata / "version-hint.text").unlink()
    assert load(catalog.pointer(ORDERS)).location == state.location


def test_compression_is_decided_by_the_base(catalog: FileSystemCatalog) -> None:
    """So that all writers of a version create the same file, whatever they change."""
    pointer = catalog.pointer(ORDERS)
    created = create(catalog, ORDERS, {"write.metadata.compression-codec": "gzip"})
    both = [propose(pointer, created, **{"write.metadata.compression-codec": codec}) for codec in ("none", "gzip")]
    assert {proposal.location for proposal in both} == {str(Path(created.location).with_name("v2.gz.metadata.json"))}
    pointer.swap(both[0])
    with pytest.raises(CommitConflict):
        pointer.swap(both[1])
    assert change(pointer, a="1").location.endswith("/v3.metadata.json")


@pytest.mark.parametrize("name", ["v2.gz.metadata.json", "v2.metadata.json.gz"])
def test_a_version_in_another_spelling_is_taken(catalog: FileSystemCatalog, metadata: Path, name: str) -> None:
    """Java changed the codec in the same commit: its file has another name, and still it was first."""
    base = create(catalog, ORDERS)
    pointer = catalog.pointer(ORDERS)
    proposal = propose(pointer, base, by="floe")
    (metadata / name).write_bytes(gzip.compress(proposal.content.replace(b'"floe"', b'"java"')))
    with pytest.raises(CommitConflict):
        pointer.swap(proposal)
    assert load(pointer).metadata.properties["by"] == "java"
    assert not (metadata / "v2.metadata.json").exists()


# what is refused --------------------------------------------------------------------------------------------------


def test_locations_of_their_own_are_refused(catalog: FileSystemCatalog, tmp_path: Path) -> None:
    catalog.create_namespace(("db",))
    pointer = catalog.pointer(ORDERS)
    with pytest.raises(UnsupportedFeature, match="cannot have its own location"):
        pointer.propose(None, new_metadata(pointer, f"{tmp_path}/elsewhere"))
    with pytest.raises(UnsupportedFeature, match="cannot have its own location"):
        catalog.create_namespace(("x",), {"location": "/elsewhere"})
    assert not catalog.namespace_exists(("x",))
    # other spellings of the same folder are the same folder
    publish(pointer.propose(None, new_metadata(pointer, f"file://{tmp_path}/db/orders/")))


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"write.metadata.path": "/elsewhere"}, UnsupportedFeature),
        ({"write.metadata.compression-codec": "lzma"}, InvalidUpdate),
    ],
)
def test_properties_that_would_break_the_layout_are_refused(
    catalog: FileSystemCatalog, properties: dict[str, str], error: type[Exception]
) -> None:
    base = create(catalog, ORDERS)
    pointer = catalog.pointer(ORDERS)
    with pytest.raises(error):
        propose(pointer, base, **properties)
    with pytest.raises(error):
        create(catalog, ("db", "new"), properties)
    assert load(pointer).location == base.location


def test_a_table_that_was_copied_is_not_committed_to(tmp_path: Path) -> None:
    """Its metadata leads to the original: new files would land there."""
    storage = MemoryStorage(clock=deterministic_environment().clock)
    create(FileSystemCatalog("memory:old", storage=storage), ORDERS)
    for info in list(storage.list("memory:old")):
        storage.write(info.location.replace("memory:old", "memory:new"), storage.read(info.location))
    copied = FileSystemCatalog("memory:new", storage=storage)
    with pytest.raises(UnsupportedFeature, match="prefix map"):
        change(copied.pointer(ORDERS), a="1")
    mapped = FileSystemCatalog("memory:new", storage=PrefixMap(storage, {"memory:old": "memory:new"}))
    change(mapped.pointer(ORDERS), a="1")
    assert load(copied.pointer(ORDERS)).metadata.properties == {"a": "1"}


def test_storages_that_do_not_create_exclusively_are_refused() -> None:
    storage = MemoryStorage()
    create(FileSystemCatalog("memory:wh", storage=storage), ORDERS)
    for unfit in (
        FileSystemCatalog("memory:wh", storage=NotExclusive(storage)),
        FileSystemCatalog("s3://bucket/wh", storage=Overwriting(storage)),
    ):
        unfit.create_namespace(("new",))
        with pytest.raises(UnsupportedFeature, match="exclusively"):
            create(unfit, ("new", "t"))
    readable = FileSystemCatalog("memory:wh", storage=NotExclusive(storage))
    with pytest.raises(UnsupportedFeature, match="exclusively"):
        change(readable.pointer(ORDERS), a="1")
    assert load(readable.pointer(ORDERS)).metadata.properties == {}


def test_a_store_is_tried_once(tmp_path: Path) -> None:
    storage = FaultyStorage(MemoryStorage())
    catalog = FileSystemCatalog("s3://bucket/wh", storage=storage)
    create(catalog, ORDERS)
    for n in range(3):
        change(catalog.pointer(ORDERS), n=str(n))
    assert sum(".floe-probe-" in call.location for call in storage.calls if call.operation == "create") == 2


def test_a_broken_version_is_told_with_its_name(catalog: FileSystemCatalog, metadata: Path) -> None:
    create(catalog, ORDERS)
    (metadata / "v2.metadata.json").write_bytes(b'{"format-version": 2, ')
    with pytest.raises(InvalidMetadata, match=r"v2\.metadata\.json"):
        catalog.pointer(ORDERS).load()


# Java's checksums -------------------------------------------------------------------------------------------------


def test_checksums_that_would_not_fit_any_more_are_removed(catalog: FileSystemCatalog, metadata: Path) -> None:
    """Java's local file system refuses a file whose `.crc` does not fit."""
    base = create(catalog, ORDERS)
    for name in (".version-hint.text.crc", ".v1.metadata.json.crc", ".v2.metadata.json.crc"):
        (metadata / name).write_bytes(b"crc")
    change(catalog.pointer(ORDERS), a="1")
    assert sorted(path.name for path in metadata.glob(".*.crc")) == [".v1.metadata.json.crc"]
    catalog.drop_table(ORDERS)
    assert list(metadata.glob(".*.crc")) == []
    assert base.location.endswith("v1.metadata.json")


# namespaces -------------------------------------------------------------------------------------------------------


def test_namespaces_are_folders_that_java_sees(catalog: FileSystemCatalog, tmp_path: Path) -> None:
    catalog.create_namespace(("lake", "raw"))
    assert list((tmp_path / "lake" / "raw").iterdir()) == []
    (tmp_path / "made by java").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "a file").write_bytes(b"")
    assert catalog.namespaces() == [("lake",), ("made by java",)]
    catalog.update_namespace(("lake", "raw"), {"owner": "me"})
    assert [path.name for path in (tmp_path / "lake" / "raw").iterdir()] == [".floe-namespace.json"]
    catalog.drop_namespace(("lake", "raw"))
    assert list((tmp_path / "lake").iterdir()) == []


def test_a_namespace_file_that_is_broken_is_told(catalog: FileSystemCatalog, tmp_path: Path) -> None:
    catalog.create_namespace(("db",), {"owner": "me"})
    (tmp_path / "db" / ".floe-namespace.json").write_bytes(b'{"properties": {"a": 1}}')
    with pytest.raises(InvalidMetadata, match="properties of a namespace"):
        catalog.namespace_properties(("db",))
    (tmp_path / "db" / ".floe-namespace.json").write_bytes(b'{"properties": {"a": "1", "a": "2"}}')
    with pytest.raises(InvalidMetadata, match=r"\$\.properties\.a: the key 'a' .*twice.*\.floe-namespace\.json"):
        catalog.namespace_properties(("db",))
    assert catalog.namespaces() == [("db",)]


def test_a_namespace_with_other_files_is_not_dropped(catalog: FileSystemCatalog, tmp_path: Path) -> None:
    catalog.create_namespace(("db",), {"owner": "me"})
    (tmp_path / "db" / "notes.txt").write_bytes(b"mine")
    with pytest.raises(NamespaceNotEmpty):
        catalog.drop_namespace(("db",))
    assert catalog.namespace_properties(("db",)) == {"owner": "me"}
    assert (tmp_path / "db" / "notes.txt").read_bytes() == b"mine"


def test_a_namespace_cannot_be_where_a_table_is(catalog: FileSystemCatalog) -> None:
    create(catalog, ORDERS)
    with pytest.raises(NamespaceAlreadyExists, match="a table"):
        catalog.create_namespace(ORDERS)
    with pytest.raises(InvalidName, match="is a table"):
        catalog.create_namespace((*ORDERS, "below"))
    assert not catalog.namespace_exists(ORDERS)
    with pytest.raises(NoSuchTable):
        catalog.drop_table(("db", "none"))


@pytest.mark.parametrize("name", [".hidden", "x.metadata.json", "v1.view.json"])
def test_names_that_would_be_misread_are_refused(catalog: FileSystemCatalog, name: str) -> None:
    catalog.create_namespace(("db",))
    with pytest.raises(InvalidName):
        catalog.pointer(("db", name))
    with pytest.raises(InvalidName):
        catalog.create_namespace((name,))


def test_a_table_named_metadata_makes_no_table_of_its_namespace(catalog: FileSystemCatalog) -> None:
    create(catalog, ("db", "metadata"))
    assert catalog.namespaces() == [("db",)]
    assert catalog.tables(("db",)) == [("db", "metadata")]


# dropping ---------------------------------------------------------------------------------------------------------


def test_the_newest_version_is_deleted_last() -> None:
    """Until then the table is there as it was: a crash in between loses nothing."""
    files = MemoryStorage(clock=deterministic_environment().clock)
    catalog = FileSystemCatalog("memory:wh", storage=files)
    create(catalog, ORDERS)
    for n in range(11):
        change(catalog.pointer(ORDERS), n=str(n))
    storage = FaultyStorage(files)
    FileSystemCatalog("memory:wh", storage=storage).drop_table(ORDERS)
    deleted = [call.location.rpartition("/")[2] for call in storage.calls if call.operation == "delete_many"]
    assert deleted == [*(f"v{n}.metadata.json" for n in range(1, 13)), "version-hint.text"]


def test_a_dropped_table_can_be_brought_back(catalog: FileSystemCatalog, metadata: Path) -> None:
    create(catalog, ORDERS)
    state = change(catalog.pointer(ORDERS), a="1")
    data = metadata.parent / "data" / "a.parquet"
    data.parent.mkdir()
    data.write_bytes(b"rows")
    catalog.drop_table(ORDERS)
    (record,) = metadata.glob("dropped-*")
    assert catalog.tables(("db",)) == []
    assert catalog.namespaces(("db",)) == []
    catalog.register_table(ORDERS, str(record))
    back = load(catalog.pointer(ORDERS))
    assert back.metadata.table_uuid == state.metadata.table_uuid
    assert back.metadata.properties == {"a": "1"}
    assert not record.exists()
    assert data.read_bytes() == b"rows"
    with pytest.raises(TableAlreadyExists):
        catalog.register_table(ORDERS, back.location)


def test_what_a_drop_left_can_be_purged(catalog: FileSystemCatalog, tmp_path: Path) -> None:
    create(catalog, ORDERS)
    (tmp_path / "db" / "orders" / "data").mkdir()
    (tmp_path / "db" / "orders" / "data" / "a.parquet").write_bytes(b"rows")
    catalog.drop_table(ORDERS)
    catalog.drop_table(ORDERS, purge=True)
    assert list((tmp_path / "db").iterdir()) == []
    catalog.drop_namespace(("db",))


def test_what_is_left_in_a_dropped_namespace(catalog: FileSystemCatalog, tmp_path: Path) -> None:
    """It can be registered once the namespace is there again, or purged, and then nothing is left at all."""
    outer, inner = ("db", "orders"), ("db", "inner", "orders")
    catalog.create_namespace(("db", "inner"))
    for identifier in (outer, inner):
        create(catalog, identifier)
        catalog.drop_table(identifier)
    catalog.drop_namespace(("db", "inner"))
    catalog.drop_namespace(("db",))
    assert catalog.namespaces() == []
    assert not catalog.namespace_exists(("db", "inner"))
    (record,) = (tmp_path / "db" / "orders" / "metadata").glob("dropped-*")
    with pytest.raises(NoSuchNamespace):
        catalog.register_table(outer, str(record))
    catalog.create_namespace(("db",))
    assert catalog.namespaces(("db",)) == []
    catalog.register_table(outer, str(record))
    assert catalog.tables(("db",)) == [outer]
    catalog.drop_table(outer, purge=True)
    catalog.drop_namespace(("db",))
    catalog.drop_table(inner, purge=True)
    assert list(tmp_path.iterdir()) == []


def test_a_table_made_while_its_namespace_is_dropped_keeps_it() -> None:
    """The look whether there is a namespace is before the drop, the creation after it."""
    catalog = in_memory()
    create(catalog, ORDERS)
    catalog.drop_table(ORDERS)
    late = ("db", "late")
    pointer = catalog.pointer(late)
    proposal = pointer.propose(None, new_metadata(pointer, catalog.default_location(late)))
    catalog.drop_namespace(("db",))
    assert not catalog.namespace_exists(("db",))
    publish(proposal)
    assert (catalog.namespaces(), catalog.tables(("db",))) == ([("db",)], [late])
    with pytest.raises(NamespaceNotEmpty):
        catalog.drop_namespace(("db",))


def test_a_purge_keeps_what_an_earlier_drop_kept(catalog: FileSystemCatalog, metadata: Path) -> None:
    create(catalog, ORDERS)
    kept = metadata.parent / "data" / "kept.parquet"
    kept.parent.mkdir()
    kept.write_bytes(b"rows")
    catalog.drop_table(ORDERS)
    create(catalog, ORDERS)
    catalog.drop_table(ORDERS, purge=True)
    assert kept.read_bytes() == b"rows"
    assert len(list(metadata.glob("dropped-*"))) == 1


def test_a_purge_spares_tables_below(catalog: FileSystemCatalog, tmp_path: Path) -> None:
    """Java lets a table be made below another one's folder."""
    create(catalog, ORDERS)
    inner = FileSystemCatalog(str(tmp_path / "db"), storage=catalog.storage)
    below = tmp_path / "db" / "orders" / "below" / "metadata"
    below.mkdir(parents=True)
    (below / "v1.metadata.json").write_bytes(b"{}")
    catalog.drop_table(ORDERS, purge=True)
    assert (below / "v1.metadata.json").exists()
    assert not catalog.table_exists(ORDERS)
    assert inner.tables(("orders",)) == [("orders", "below")]


def test_a_purge_is_refused_if_the_metadata_leads_elsewhere() -> None:
    catalog = in_memory()
    victim = create(catalog, ("db", "victim"))
    create(catalog, ORDERS)
    hostile = catalog.storage.read(load(catalog.pointer(ORDERS)).location).replace(b"wh/db/orders", b"wh/db/victim")
    catalog.storage.create("memory:wh/db/orders/metadata/v2.metadata.json", hostile)
    with pytest.raises(UnsupportedFeature, match=r"db/victim"):
        catalog.drop_table(ORDERS, purge=True)
    assert load(catalog.pointer(("db", "victim"))).metadata == victim.metadata
    assert catalog.table_exists(ORDERS)


def test_a_purged_table_leaves_nothing(catalog: FileSystemCatalog, tmp_path: Path) -> None:
    create(catalog, ORDERS)
    for path in ("data/day=1/a.parquet", "data/day=2/b.parquet", "metadata/orphan.avro"):
        file = tmp_path / "db" / "orders" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    catalog.drop_table(ORDERS, purge=True)
    assert list((tmp_path / "db").iterdir()) == []


def test_views_do_not_look_like_tables_to_java(catalog: FileSystemCatalog, tmp_path: Path) -> None:
    """Java takes a folder for a table if its metadata folder has a file that ends in .metadata.json."""
    catalog.create_namespace(("db",))
    assert names(catalog.storage, str(tmp_path)) == []
    catalog.create_view(("db", "v"), a_view())
    assert names(catalog.storage, str(tmp_path)) == ["db/v/metadata/v1.view.json"]
    catalog.drop_view(("db", "v"))
    assert list((tmp_path / "db").iterdir()) == []


def test_the_catalog_itself_holds_no_tables(catalog: FileSystemCatalog) -> None:
    for one in (catalog, MemoryCatalog()):
        assert (list(one.tables(())), list(one.views(()))) == ([], [])
        for call in (one.namespace_properties, one.update_namespace, one.drop_namespace):
            with pytest.raises((NoSuchNamespace, NamespaceNotEmpty)):
                call(())
