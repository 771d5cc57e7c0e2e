"""What a SQL catalog does beyond what all catalogs promise: locations, shared files, several tables, views' files."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from floe.catalog.memory import MemoryCatalog
from floe.catalog.metadata_files import read_metadata
from floe.catalog.purge import plan_purge
from floe.catalog.sql.catalog import SqlCatalog, connect_sql
from floe.commit.loop import commit as loop_commit
from floe.commit.operations.metadata_changes import UpdateProperties
from floe.errors import CatalogError, CommitConflict, InvalidInput, NoSuchFile, NoSuchTable, UnsupportedFeature
from floe.spec.metadata.table_metadata import TableMetadata
from floe.storage.local import LocalStorage
from floe.storage.protocol import Storage
from helpers.sql_catalogs import DATABASES, TABLE, change, commit, create, database, properties_of, sql, view


@pytest.fixture(params=DATABASES)
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with database(request.param, tmp_path) as uri:
        yield uri


@pytest.fixture
def catalog(uri: str, tmp_path: Path) -> Iterator[SqlCatalog]:
    storage = LocalStorage(durable=False)
    catalog = connect_sql(uri, warehouse=str(tmp_path / "warehouse") + "/", storage=storage)
    yield catalog
    catalog.close()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


# locations ---------------------------------------------------------------------------------------------------------


def test_tables_lie_below_the_warehouse_or_their_namespace(catalog: SqlCatalog, tmp_path: Path) -> None:
    catalog.create_namespace(("a", "b"))
    catalog.create_namespace(("c",), {"location": str(tmp_path / "elsewhere")})
    assert catalog.default_location(("a", "b", "t")) == f"{tmp_path}/warehouse/a/b/t"
    assert catalog.default_location(("c", "t")) == f"{tmp_path}/elsewhere/t"


def test_the_place_of_a_table_that_was_renamed_is_not_given_to_another(catalog: SqlCatalog, tmp_path: Path) -> None:
    old = create(catalog)
    assert catalog.default_location(TABLE) == f"{tmp_path}/warehouse/db/orders"  # where it is
    catalog.rename_table(TABLE, ("db", "archive"))
    new = create(catalog)
    place = properties_location(catalog, ("db", "orders"))
    assert place.startswith(f"{tmp_path}/warehouse/db/orders-")
    catalog.drop_table(("db", "orders"), purge=True)
    assert new.load() is None
    assert properties_location(catalog, ("db", "archive")) == f"{tmp_path}/warehouse/db/orders"
    assert old.load() is None


def properties_location(catalog: SqlCatalog, identifier: tuple[str, ...]) -> str:
    state = catalog.pointer(identifier).load()
    assert state is not None
    return state.metadata.location


# files that belong to two tables -----------------------------------------------------------------------------------


def test_files_of_a_table_that_is_registered_twice_are_not_purged(catalog: SqlCatalog, uri: str) -> None:
    state = create(catalog).load()
    assert state is not None
    catalog.register_table(("db", "copy"), state.location)
    with pytest.raises(UnsupportedFeature, match=r"not deleted.*default\.db\.copy"):
        catalog.drop_table(TABLE, purge=True)
    assert catalog.table_exists(TABLE)
    other = connect_sql(uri, name="other", warehouse=catalog.warehouse)
    other.create_namespace(("db",))
    other.register_table(TABLE, state.location)
    catalog.drop_table(("db", "copy"))
    with pytest.raises(UnsupportedFeature, match=r"other\.db\.orders"):
        catalog.drop_table(TABLE, purge=True)
    other.drop_table(TABLE)
    other.close()
    catalog.drop_table(TABLE, purge=True)
    assert not Path(state.location).exists()


def test_files_of_a_table_that_others_spell_differently_are_not_purged(catalog: SqlCatalog) -> None:
    """PyIceberg and Java write `file:` where we have a plain path: it is the same folder all the same."""
    state = create(catalog).load()
    assert state is not None
    for root in ("file:", "file://"):
        catalog.register_table(("db", "copy"), root + state.location)
        with pytest.raises(UnsupportedFeature, match=r"not deleted.*default\.db\.copy"):
            catalog.drop_table(TABLE, purge=True)
        catalog.drop_table(("db", "copy"))
    assert Path(state.location).exists()
    catalog.register_table(("db", "fresh"), "file:" + state.location)
    catalog.drop_table(TABLE)
    assert catalog.default_location(TABLE).startswith(f"{state.metadata.location}-")  # the folder is not free


def test_a_purge_of_a_table_that_goes_on_starts_over(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody commits while the purge is planned: what they added goes too."""
    pointer = create(catalog)
    once = iter([True])

    def planned(state: object, *arguments: object, **options: object) -> object:
        if next(once, False):
            commit(pointer, colour="red")
        return plan_purge(state, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("floe.catalog.sql.catalog.plan_purge", planned)
    location = properties_location(catalog, TABLE)
    catalog.drop_table(TABLE, purge=True)
    assert files(Path(location)) == []


def test_gc_disabled_is_respected(catalog: SqlCatalog) -> None:
    create(catalog, **{"gc.enabled": "false"})
    with pytest.raises(UnsupportedFeature, match=r"gc\.enabled"):
        catalog.drop_table(TABLE, purge=True)
    assert catalog.table_exists(TABLE)
    catalog.drop_table(TABLE)


# rows that cannot be used ------------------------------------------------------------------------------------------


def test_a_row_without_a_location(catalog: SqlCatalog, uri: str) -> None:
    create(catalog)
    sql(uri, "UPDATE iceberg_tables SET metadata_location = NULL")
    with pytest.raises(CatalogError, match="no metadata location"):
        catalog.pointer(TABLE).load()
    assert catalog.tables(("db",)) == [TABLE]


def test_a_row_of_a_kind_that_is_not_known(catalog: SqlCatalog, uri: str) -> None:
    create(catalog)
    sql(uri, "UPDATE iceberg_tables SET iceberg_type = 'INDEX'")
    assert catalog.pointer(TABLE).load() is None
    assert catalog.tables(("db",)) == catalog.views(("db",)) == []
    with pytest.raises(NoSuchTable, match=r"db\.orders.*row of an unknown type"):
        catalog.drop_table(TABLE)


def test_a_metadata_file_that_is_gone(catalog: SqlCatalog) -> None:
    state = create(catalog).load()
    assert state is not None
    Path(state.location).unlink()
    with pytest.raises(NoSuchFile, match=r"db\.orders"):
        catalog.pointer(TABLE).load()
    catalog.drop_table(TABLE)  # what cannot be read can still be dropped
    assert not catalog.table_exists(TABLE)


def test_a_file_that_was_cleaned_up_while_it_was_looked_for(
    catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row is read, two commits clean up its file, and then the file is read."""
    tidy = {"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "true"}
    pointer = create(catalog, **tidy)
    reader = catalog.pointer(TABLE)
    once = iter([True])

    def late(storage: LocalStorage, location: str) -> object:
        if next(once, False):
            for number in range(3):
                pointer.finish(commit(pointer, number=str(number)))
            assert not Path(location).exists()
        return read_metadata(storage, location)

    monkeypatch.setattr("floe.catalog.sql.pointer.read_metadata", late)
    state = reader.load()
    assert state is not None
    assert state.metadata.properties["number"] == "2"


# several tables ----------------------------------------------------------------------------------------------------


def test_tables_of_two_catalogs_are_not_committed_together(catalog: SqlCatalog, uri: str) -> None:
    one = create(catalog)
    other = connect_sql(uri, name="other", warehouse=catalog.warehouse)
    two = create(other)
    with pytest.raises(InvalidInput, match="different catalogs"):
        catalog.shared.swap_all([change(one, a="1"), change(two, a="1")])
    memory = MemoryCatalog()
    memory.create_namespace(("db",))
    state = one.load()
    assert state is not None
    with pytest.raises(InvalidInput, match="different catalogs"):
        catalog.shared.swap_all([memory.pointer(TABLE).propose(None, state.metadata)])
    with pytest.raises(InvalidInput, match="only once"):
        catalog.shared.swap_all([change(one, a="1"), change(one, a="2")])
    assert properties_of(catalog) == {}
    other.close()


def test_one_table_that_was_dropped_stops_all(catalog: SqlCatalog) -> None:
    one, two = create(catalog, ("db", "a")), create(catalog, ("db", "b"))
    proposals = [change(one, colour="red"), change(two, colour="red")]
    catalog.drop_table(("db", "b"))
    with pytest.raises(NoSuchTable):
        catalog.shared.swap_all(proposals)
    assert properties_of(catalog, ("db", "a")) == {}


def test_many_tables_at_once(catalog: SqlCatalog) -> None:
    pointers = [create(catalog, ("db", f"t{number}")) for number in range(30)]
    catalog.shared.swap_all([change(pointer, colour="red") for pointer in pointers])
    assert all(properties_of(catalog, pointer.identifier) == {"colour": "red"} for pointer in pointers)


# views -------------------------------------------------------------------------------------------------------------


def test_files_of_views(catalog: SqlCatalog, tmp_path: Path) -> None:
    """Named and compressed as Java does; the current one goes with the view."""
    place = tmp_path / "view"
    catalog.create_namespace(("db",))
    old = view(str(place))
    new = view(str(place), "SELECT 2 AS id", version_id=2)
    catalog.create_view(("db", "v"), old)
    (first,) = files(place)
    assert first.startswith("00000-")
    assert first.endswith(".gz.metadata.json")
    assert next(place.rglob("*.json")).read_bytes()[:2] == b"\x1f\x8b"
    catalog.replace_view(("db", "v"), old, new)
    assert [name[:6] for name in files(place)] == ["00000-", "00001-"]
    with pytest.raises(CommitConflict):
        catalog.replace_view(("db", "v"), old, new)
    assert len(files(place)) == 2
    catalog.drop_view(("db", "v"))
    assert files(place) == [first]  # as Java: earlier files stay


def test_a_view_that_wants_its_files_plain_or_kept(catalog: SqlCatalog, tmp_path: Path) -> None:
    place = tmp_path / "view"
    catalog.create_namespace(("db",))
    properties = {
        "write.metadata.compression-codec": "none",
        "write.metadata.path": str(place / "here"),
        "gc.enabled": "false",
    }
    catalog.create_view(("db", "v"), replace(view(str(place)), properties=properties))
    (file,) = (place / "here").iterdir()
    assert file.read_bytes().startswith(b"{")
    catalog.drop_view(("db", "v"))
    assert file.exists()


def test_what_this_program_committed_is_not_read_again(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A metadata file never changes; what others committed is read, and once."""
    create(catalog)
    ours, theirs = catalog.pointer(TABLE), catalog.pointer(TABLE)
    read: list[str] = []

    def reading(storage: Storage, location: str) -> TableMetadata:
        read.append(location)
        return read_metadata(storage, location)

    monkeypatch.setattr("floe.catalog.sql.pointer.read_metadata", reading)
    for number in range(3):
        loop_commit(ours, [UpdateProperties({"a": str(number)})])
    assert len(read) == 1
    found = loop_commit(theirs, [UpdateProperties({"b": "1"})])
    assert read[1:] == [entry.metadata_file for entry in found.metadata.metadata_log[-1:]]
    done = loop_commit(ours, [UpdateProperties({"a": "9"})])
    assert (done.metadata.properties["a"], done.metadata.properties["b"]) == ("9", "1")
    assert read[2:] == [found.location]
    again = catalog.pointer(TABLE).load()
    assert again is not None
    assert again.metadata == done.metadata
