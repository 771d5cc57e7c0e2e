"""What a table's metadata may name by default, and what needs the word of whoever opens it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import floe
from floe import errors
from floe.storage.access import is_allowed
from floe.storage.locations import parse

ROWS = [{"id": 1}, {"id": 2}]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=["./wh", "sqlite:///lake.db"])
def uri(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def opened(uri: str, **options: object) -> floe.Lake:
    where = {"warehouse": "wh"} if uri.startswith("sqlite") else {}
    return floe.connect(uri, durable=False, **where, **options)


def made(uri: str, **options: object) -> floe.Table:
    lake = opened(uri)
    lake.create_namespace("db")
    return lake.create_table("db.t", "id bigint", **options)


def ids(table: floe.Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def secret(folder: Path) -> Path:
    """A Parquet file that no table has been given."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array([99], pa.int64())}), folder / "secret.parquet")
    return folder / "secret.parquet"


def poison(table: floe.Table, path: Path, **changes: object) -> None:
    """Hostile metadata: it names a file that the table was never given, by hand and not by a call."""
    trusting = floe.connect(str(path.parent), durable=False)  # makes a manifest that names the file
    trusting.create_namespace("x")
    other = trusting.create_table("x.t", "id bigint")
    other.add_files(str(path))
    taken = json.loads(Path(parse(other.metadata_location).path).read_text())
    place = Path(parse(table.metadata_location).path)
    ours = json.loads(place.read_text())
    for name in ("snapshots", "refs", "current-snapshot-id", "snapshot-log", "last-sequence-number", "next-row-id"):
        if name in taken:
            ours[name] = taken[name]
    ours["properties"] = {**ours["properties"], "schema.name-mapping.default": NAMES, **changes.pop("properties", {})}
    place.write_text(json.dumps({**ours, **changes}))


NAMES = json.dumps([{"field-id": 1, "names": ["id"]}])


# what is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "declared",
    [
        {},
        {"location": "/"},
        {"properties": {"write.data.path": "/"}},
        {"properties": {"write.metadata.path": "/"}},
        {"location": ".."},
        {"properties": {"floe.files-elsewhere": "true", "floe.root.0": "/"}},
    ],
    ids=str,
)
def test_metadata_cannot_name_files_of_its_own_choice(uri: str, tmp_path: Path, declared: dict[str, object]) -> None:
    table = made(uri)
    declared = {name: str(tmp_path) if value == ".." else value for name, value in declared.items()}
    poison(table, secret(tmp_path / "private"), **declared)
    with pytest.raises(errors.PathNotAllowed) as caught:
        ids(opened(uri).table("db.t"))
    assert f"{tmp_path}/private" in caught.value.context["location"]
    assert f"{tmp_path}/wh" in caught.value.context["roots"]
    assert f"roots=['{tmp_path}/wh', '{tmp_path}/private" in (caught.value.hint or "")


def test_the_roots_that_the_error_tells_are_those_that_help(uri: str, tmp_path: Path) -> None:
    poison(made(uri), secret(tmp_path / "private"))
    roots: dict[str, list[str]] = {}
    for _ in range(2):
        with pytest.raises(errors.PathNotAllowed) as caught:
            ids(opened(uri, **roots).table("db.t"))
        told = (caught.value.hint or "").partition("roots=")[2].partition("]")[0]
        roots = {"roots": json.loads(told.replace("'", '"') + "]")}
    assert ids(opened(uri, **roots).table("db.t")) == [99], "the manifests' folder was told first, then the file's"


def test_everything_is_allowed_to_who_says_so(uri: str, tmp_path: Path) -> None:
    poison(made(uri), secret(tmp_path / "private"))
    assert ids(opened(uri, roots="*").table("db.t")) == [99]
    with pytest.raises(errors.InvalidSettings, match="alone"):
        opened(uri, roots=["*", "/x"])


def test_a_table_opened_by_its_path_is_kept_to_its_folder(tmp_path: Path) -> None:
    table = made("./wh")
    poison(table, secret(tmp_path / "private"))
    for path in ("wh/db/t", table.metadata_location):
        with pytest.raises(errors.PathNotAllowed):
            ids(floe.open(path))
        assert ids(floe.open(path, roots=[f"{tmp_path}/wh", f"{tmp_path}/private"])) == [99]


def test_a_copied_table_is_told_how_to_be_opened(tmp_path: Path) -> None:
    table = made("./wh")
    table.append(ROWS)
    (tmp_path / "copy").mkdir()
    (tmp_path / "wh/db/t").rename(tmp_path / "copy/t")
    with pytest.raises(errors.NoSuchFile, match="prefixes="):
        ids(floe.open("copy/t"))
    assert ids(floe.open("copy/t", prefixes={f"{tmp_path}/wh/db/t": f"{tmp_path}/copy/t"})) == [1, 2]


# what goes on working -------------------------------------------------------------------------------------------------


def test_a_location_of_its_own_is_known_to_the_catalog(tmp_path: Path) -> None:
    uri = "sqlite:///lake.db"
    table = made(uri, location=str(tmp_path / "apart/t"))
    table.append(ROWS)
    again = opened(uri).table("db.t")
    again.append(ROWS)
    assert ids(again) == [1, 1, 2, 2]
    assert ids(floe.connect(uri).table("db.t")) == [1, 1, 2, 2], "without a warehouse"
    opened(uri).drop_table("db.t", purge=True)
    assert not list((tmp_path / "apart").rglob("*.parquet"))


def test_a_location_of_its_own_with_rows_at_once(tmp_path: Path) -> None:
    lake = opened("sqlite:///lake.db")
    lake.create_namespace("db")
    lake.create_table("db.t", data=pa.table({"id": [1, 2]}), location=str(tmp_path / "apart/t"))
    assert ids(opened("sqlite:///lake.db").table("db.t")) == [1, 2]


@pytest.mark.parametrize("name", ["location", "write.data.path", "write.object-storage.path"])
def test_folders_that_another_engine_declared_are_the_tables_own(tmp_path: Path, name: str) -> None:
    table = made("sqlite:///lake.db")
    place = Path(parse(table.metadata_location).path)
    metadata = json.loads(place.read_text())
    (metadata if name == "location" else metadata["properties"])[name] = str(tmp_path / "bulk/t")
    if name == "write.object-storage.path":
        metadata["properties"]["write.object-storage.enabled"] = "true"
    place.write_text(json.dumps(metadata))
    opened("sqlite:///lake.db").table("db.t").append(ROWS)
    assert list((tmp_path / "bulk/t").rglob("*.parquet"))
    assert ids(opened("sqlite:///lake.db").table("db.t")) == [1, 2]


def test_a_namespace_with_a_location(tmp_path: Path) -> None:
    lake = opened("sqlite:///lake.db")
    lake.create_namespace("db", {"location": str(tmp_path / "apart")})
    lake.create_table("db.t", data=pa.table({"id": [1, 2]}))
    assert ids(opened("sqlite:///lake.db").table("db.t")) == [1, 2]


def test_paths_that_a_call_declares_are_remembered(uri: str, tmp_path: Path) -> None:
    table = made(uri, properties={"write.data.path": str(tmp_path / "bulk")})
    table.append(ROWS)
    assert list((tmp_path / "bulk").rglob("*.parquet"))
    again = opened(uri).table("db.t")
    assert ids(again) == [1, 2]
    with again.transaction() as tx:
        tx.set_properties({"write.data.path": str(tmp_path / "more")})
        tx.append(ROWS)
    later = opened(uri).table("db.t")
    later.remove_properties("write.data.path")
    assert ids(opened(uri).table("db.t")) == [1, 1, 2, 2], "rows stay where they were"


def test_a_table_that_moves_on_keeps_its_files(tmp_path: Path) -> None:
    uri = "sqlite:///lake.db"
    table = made(uri, location=str(tmp_path / "apart/t"))
    table.append(ROWS)
    table.set_location(str(tmp_path / "elsewhere/t"))
    opened(uri).table("db.t").append(ROWS)
    assert ids(opened(uri).table("db.t")) == [1, 1, 2, 2]


def test_files_that_were_added_are_remembered(uri: str, tmp_path: Path) -> None:
    path = secret(tmp_path / "landing/day=1")
    table = made(uri)
    table.add_files(str(tmp_path / "landing"))
    assert ids(table) == [99]
    assert ids(opened(uri).table("db.t")) == [99]
    assert table.properties["floe.files-elsewhere"] == "true"
    assert str(tmp_path / "landing") in opened(uri).namespace_properties("db").values()
    other = opened(uri).create_table("db.u", "id bigint")
    other.add_files([str(path)])
    assert ids(opened(uri).table("db.u")) == [99]


def test_files_of_the_warehouse_leave_no_record(uri: str, tmp_path: Path) -> None:
    table = made(uri)
    table.add_files(str(secret(tmp_path / "wh/landing")))
    table.append(ROWS)
    assert "floe.files-elsewhere" not in table.properties
    assert not opened(uri).namespace_properties("db")


def test_a_registered_table_is_where_its_metadata_file_is(tmp_path: Path) -> None:
    table = made("./other")
    table.append(ROWS)
    lake = opened("sqlite:///lake.db")
    lake.create_namespace("db")
    lake.register_table("db.t", table.metadata_location)
    again = opened("sqlite:///lake.db").table("db.t")
    again.append(ROWS)
    assert ids(opened("sqlite:///lake.db").table("db.t")) == [1, 1, 2, 2]


def test_links_in_a_warehouse_are_for_who_made_them(tmp_path: Path) -> None:
    table = made("./wh")
    table.append(ROWS)
    (tmp_path / "disk").mkdir()
    (tmp_path / "wh/db").rename(tmp_path / "disk/db")
    (tmp_path / "wh/db").symlink_to(tmp_path / "disk/db")
    (tmp_path / "alias").symlink_to(tmp_path / "wh")
    assert ids(floe.connect("./wh").table("db.t")) == [1, 2]
    assert ids(floe.connect("./alias").table("db.t")) == [1, 2], "recorded below the other name"
    with pytest.raises(errors.PathNotAllowed):
        ids(floe.connect("./wh", roots=["./wh"]).table("db.t"))


def test_workers_are_kept_to_what_the_driver_knows(tmp_path: Path) -> None:
    table = made("sqlite:///lake.db", location=str(tmp_path / "apart/t"))
    sent = pickle.loads(pickle.dumps(table.storage))
    assert is_allowed(sent, str(tmp_path / "apart/t/data/a.parquet"))
    assert is_allowed(sent, str(tmp_path / "wh/a.parquet"))
    assert not is_allowed(sent, str(tmp_path / "private/a.parquet"))


def test_tables_do_not_share_what_they_are_allowed(tmp_path: Path) -> None:
    lake = opened("sqlite:///lake.db")
    lake.create_namespace("db")
    one = lake.create_table("db.one", "id bigint", location=str(tmp_path / "apart/one"))
    two = lake.create_table("db.two", "id bigint")
    assert is_allowed(one.storage, str(tmp_path / "apart/one/a"))
    assert not is_allowed(two.storage, str(tmp_path / "apart/one/a"))


def test_views_elsewhere_are_read(tmp_path: Path) -> None:
    lake = opened("sqlite:///lake.db")
    lake.create_namespace("db", {"location": str(tmp_path / "apart")})
    lake.create_view("db.v", "SELECT 1 AS id", schema="id int")
    again = opened("sqlite:///lake.db")
    again.view("db.v").replace("SELECT 2 AS id", schema="id int")
    assert opened("sqlite:///lake.db").view("db.v").sql() == "SELECT 2 AS id"
    again.drop_view("db.v")
