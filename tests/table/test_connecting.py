"""`floe.connect` and `floe.open`: which catalog a path, a URI or a name leads to, and what options do."""

from pathlib import Path

import pytest

import floe
from floe import errors
from floe.catalog.file_system.catalog import FileSystemCatalog
from floe.catalog.memory import MemoryCatalog
from floe.catalog.registry import open_catalog
from floe.catalog.settings import Secret
from floe.catalog.sql.catalog import SqlCatalog
from floe.storage.access import Access
from floe.storage.environment import deterministic_environment
from floe.storage.memory import MemoryStorage
from floe.storage.schemes import RoutedStorage, configure_storage
from floe.storage.wrappers import PrefixMap
from floe.table.lake import Lake
from helpers.synthetic_files import data_file, live


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder and an environment without settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("FLOE_CONFIG", raising=False)


# connect --------------------------------------------------------------------------------------------------------------


def test_a_path_is_a_warehouse(tmp_path: Path) -> None:
    (tmp_path / "wh").mkdir()
    for path in (
        "wh",
        "./wh",
        "wh/",
        str(tmp_path / "wh"),
        tmp_path / "wh",
        f"file:{tmp_path}/wh",
        f"file://{tmp_path}/wh",
    ):
        lake = floe.connect(path)
        assert isinstance(lake.catalog, FileSystemCatalog)
        lake.create_namespace("db", if_not_exists=True)
    assert floe.connect("./wh").namespaces() == ["db"]
    assert (tmp_path / "wh" / "db").is_dir()
    assert floe.connect("./wh").name == "wh"


def test_a_home_path_is_expanded(tmp_path: Path) -> None:
    floe.connect("~/lake").create_namespace("db")
    assert (tmp_path / "home" / "lake" / "db").is_dir()


def test_connecting_alone_touches_nothing(tmp_path: Path) -> None:
    floe.connect("./wh")
    floe.connect("sqlite:///lake.db", warehouse="wh")
    assert list(tmp_path.iterdir()) == []


def test_sqlite_is_a_database_with_a_warehouse(tmp_path: Path) -> None:
    with floe.connect("sqlite:///lake.db", warehouse="files", name="mine") as lake:
        assert isinstance(lake.catalog, SqlCatalog)
        assert lake.name == "mine"
        lake.create_namespace("db")
        table = lake.create_table("db.t", "id bigint not null")
        assert table.location == str(tmp_path / "files/db/t")
    assert (tmp_path / "lake.db").exists()


def test_what_trino_calls_local_is_where_the_prefixes_say(tmp_path: Path) -> None:
    """Trino records `local:///x` for files below a folder that its own settings name."""
    options = {"warehouse": "local:///wh", "prefixes": {"local:///": f"{tmp_path}/trino"}}
    with floe.connect(f"sqlite:///{tmp_path}/lake.db", **options) as lake:
        lake.create_namespace("db")
        table = lake.create_table("db.t", "id bigint")
        table.append([{"id": 1}, {"id": 2}])
        assert table.location == "local:///wh/db/t"
        assert (tmp_path / "trino/wh/db/t/metadata").is_dir()
    with floe.connect(f"sqlite:///{tmp_path}/lake.db", warehouse=str(tmp_path), prefixes=options["prefixes"]) as lake:
        assert lake.table("db.t").scan().to_arrow().num_rows == 2
    with floe.connect(f"sqlite:///{tmp_path}/lake.db", warehouse=str(tmp_path)) as lake:  # noqa: SIM117
        with pytest.raises(errors.InvalidLocation, match=r"local: .*prefixes=\{'local:///'"):
            lake.table("db.t")
    with pytest.raises(errors.InvalidInput, match=r"local: .*prefixes=\{'local:///'"):
        floe.connect(f"sqlite:///{tmp_path}/lake.db", warehouse="local:///wh")


def test_postgres_is_a_database() -> None:
    lake = floe.connect(
        "postgresql://me:hunter2@nowhere/db", warehouse="s3://b/wh", user="you", storage=MemoryStorage()
    )
    assert isinstance(lake.catalog, SqlCatalog)
    assert "hunter2" not in repr(lake) + lake._repr_html_()


def test_memory_is_memory() -> None:
    one, other = floe.connect("memory:"), floe.connect("memory://")
    assert isinstance(one.catalog, MemoryCatalog)
    one.create_namespace("db")
    assert other.namespaces() == []


def test_a_folder_in_a_bucket_is_a_warehouse() -> None:
    lake = floe.connect("s3://bucket/wh", storage=MemoryStorage())
    assert isinstance(lake.catalog, FileSystemCatalog)
    lake.create_namespace("db")
    assert lake.create_table("db.t", "id bigint").location == "s3://bucket/wh/db/t"


@pytest.mark.parametrize("uri", ["thrift://h:9083", "https://catalog", "mysql://h/db", "jdbc:postgresql://h/db"])
def test_catalogs_that_there_are_not_are_told(uri: str) -> None:
    with pytest.raises(errors.InvalidSettings, match=r"there is no catalog for .*sqlite"):
        floe.connect(uri)


@pytest.mark.parametrize("wrong", ["", 5, b"wh"])
def test_what_is_no_uri(wrong: object) -> None:
    with pytest.raises((errors.FloeError, TypeError)):
        floe.connect(wrong)  # type: ignore[arg-type]


def test_encryption_is_not_ignored() -> None:
    for uri in ("./wh", "s3://bucket/wh"):
        with pytest.raises(errors.UnsupportedFeature, match=r"cannot be encrypted yet.* encryption\.kms-type"):
            floe.connect(uri, **{"encryption.kms-type": "aws"})


def test_options_that_nobody_knows_are_told() -> None:
    with pytest.raises(errors.FloeError, match="colour"):
        floe.connect("./wh", colour="red")
    with pytest.raises(errors.FloeError, match="colour"):
        floe.connect("memory:", colour="red")
    with pytest.raises(errors.FloeError, match="colour"):
        floe.connect("sqlite:///x.db", warehouse="wh", colour="red")
    with pytest.raises(errors.InvalidSettings, match="its own warehouse"):
        floe.connect("./wh", warehouse="other")
    with pytest.raises(errors.InvalidSettings, match="environment"):
        floe.connect("./wh", environment="prod")


def test_a_name_comes_from_the_settings(tmp_path: Path) -> None:
    (tmp_path / "floe.toml").write_text('default = "prod"\n[catalog.prod]\nuri = "sqlite:///l.db"\nwarehouse = "wh"')
    lake = floe.connect("prod")
    assert isinstance(lake.catalog, SqlCatalog)
    assert lake.name == "prod"
    assert floe.connect().name == "prod"
    lake.create_namespace("db")
    assert floe.connect("prod").namespaces() == ["db"]
    assert floe.connect("prod", name="other").name == "other"


def test_a_name_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOE_CATALOG__SCRATCH__URI", "memory:")
    assert isinstance(floe.connect("scratch").catalog, MemoryCatalog)


def test_a_name_nearly_right_is_not_taken_for_a_folder(tmp_path: Path) -> None:
    (tmp_path / "floe.toml").write_text('[catalog.production]\nuri = "memory:"')
    with pytest.raises(errors.NoSuchCatalog, match="did you mean 'production'"):
        floe.connect("produktion")
    floe.connect("./produktion").create_namespace("db")
    assert floe.connect("produktion").namespaces() == ["db"], "a folder that is there is meant"


@pytest.mark.parametrize("word", ["prdo", "glue", "warehouse"])
def test_a_word_that_is_neither_a_name_nor_a_folder_is_a_mistake(tmp_path: Path, word: str) -> None:
    with pytest.raises(errors.NoSuchCatalog, match=f"no settings.*write './{word}'"):
        floe.connect(word)
    (tmp_path / "floe.toml").write_text('[catalog.prod]\nuri = "memory:"\n[catalog.dev]\nuri = "memory:"')
    told = "did you mean 'prod'" if word == "prdo" else "the settings have 'dev', 'prod'"
    with pytest.raises(errors.NoSuchCatalog, match=f"{told}.*write './{word}'"):
        floe.connect(word)
    assert floe.connect(f"./{word}").namespaces() == []
    assert floe.connect(Path(word)).name == word
    assert sorted(path.name for path in tmp_path.iterdir()) == ["floe.toml"]


@pytest.mark.parametrize(
    ("uri", "meant"),
    [
        ("sqlit:///x.db", "sqlite:///x.db"),
        ("postgresq://me:secret@host/db", r"postgresql://me:\*\*\*@host/db"),
        ("fil:///wh", "file:///wh"),
        ("s3n3://b/wh", "s3n://b/wh"),
    ],
)
def test_a_mistyped_scheme_is_told(uri: str, meant: str) -> None:
    with pytest.raises(errors.InvalidSettings, match=rf"did you mean {meant}\?") as caught:
        floe.connect(uri)
    assert "secret" not in str(caught.value)


# one database, whatever it is called ----------------------------------------------------------------------------------

SQL = "sqlite:///lake.db"


def called(name: str, uri: str = SQL, **options: str) -> floe.Lake:
    """The lake as a session of Spark has it under a name."""
    return Lake(*open_catalog(uri, {"warehouse": "./wh", **options}, alias=name))


def test_a_database_is_one_catalog_whatever_it_is_called(tmp_path: Path) -> None:
    with called("lake") as lake:
        assert lake.name == "lake"
        lake.create_namespace("db")
        lake.create_table("db.t", "id bigint")
    with floe.connect(SQL) as found, called("other") as other:
        assert found.tables() == other.tables() == ["db.t"]
        assert (found.name, other.name) == ("default", "other")
        assert found.catalog.catalog_name == other.catalog.catalog_name == "lake"
        other.create_table("db.u", "id bigint")
        assert found.tables() == ["db.t", "db.u"]
    (tmp_path / "floe.toml").write_text(f'[catalog.lake]\nuri = "{SQL}"')
    with called("spark", "lake", catalog_name="lake") as named, floe.connect("lake") as own:
        assert named.tables() == own.tables() == ["db.t", "db.u"]


def test_a_database_that_is_empty_may_be_filled_by_others_first() -> None:
    with called("mine") as mine, called("yours") as yours:
        assert mine.namespaces() == yours.namespaces() == []
        yours.create_namespace("db")
        assert mine.namespaces() == ["db"]


def test_a_name_that_is_given_goes_before_those_that_are_found(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with floe.connect(SQL, warehouse="./wh", name=name) as lake:
            assert lake.namespaces() == []
            lake.create_namespace(f"of_{name}")
    with floe.connect(SQL, name="three") as lake:
        assert lake.namespaces() == []
    with called("two") as lake:
        assert lake.namespaces() == ["of_two"], "it has the name of one of them"
    with called("lake", catalog_name="one") as lake:
        assert lake.namespaces() == ["of_one"]
    for ambiguous in (called("lake"), floe.connect(SQL)):
        with ambiguous as lake, pytest.raises(errors.InvalidSettings, match=r"2 catalogs, 'one', 'two'.*name='one'"):
            lake.namespaces()
    (tmp_path / "floe.toml").write_text(f'[catalog.three]\nuri = "{SQL}"')
    with floe.connect("three") as lake:
        assert lake.namespaces() == [], "a name in the settings is the name of a catalog"


def test_without_settings_there_is_no_default() -> None:
    with pytest.raises(errors.NoSuchCatalog, match=r"write \[catalog\.<name>\]"):
        floe.connect()


def test_secrets_in_settings_reach_the_database_and_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "hunter2")
    (tmp_path / "floe.toml").write_text(
        '[catalog.p]\nuri = "postgresql://me@127.0.0.1:1/db"\npassword = "env:PW"\nwarehouse = "wh"\ntimeout = 1'
    )
    lake = floe.connect("p")
    with pytest.raises(errors.FloeError) as caught:
        lake.namespaces()
    assert "hunter2" not in f"{lake!r} {caught.value} {caught.value!r}"


def test_secrets_can_be_given_by_hand() -> None:
    assert floe.connect("memory:", name=Secret("mine")).name == "mine"


# storages -------------------------------------------------------------------------------------------------------------


def test_roots_say_what_may_be_touched(tmp_path: Path) -> None:
    lake = floe.connect("./wh", roots=str(tmp_path / "wh"), durable=False)
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id bigint not null")
    with pytest.raises(errors.PathNotAllowed):
        table.storage.read(str(tmp_path / "secret"))


def test_stores_of_roots_are_opened_and_no_others(tmp_path: Path) -> None:
    storage = configure_storage(str(tmp_path), {"roots": [str(tmp_path), "memory:x"]})
    assert isinstance(storage, Access)
    assert isinstance(storage.storage, RoutedStorage)
    assert set(storage.storage.storages) == {"file", "memory"}
    with pytest.raises(errors.FloeError):
        storage.read("s3://bucket/x")


def test_prefixes_open_what_was_moved(tmp_path: Path) -> None:
    lake = floe.connect(tmp_path / "old", durable=False)
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id bigint not null")
    table.append_files([data_file(table, "a")])
    (tmp_path / "old").rename(tmp_path / "new")
    moved = floe.open(tmp_path / "new" / "db" / "t", prefixes={f"{tmp_path}/old": f"{tmp_path}/new"})
    assert isinstance(moved.storage, PrefixMap)
    assert live(moved) == ["a"]
    again = floe.connect(tmp_path / "new", prefixes={f"{tmp_path}/old": f"{tmp_path}/new"}).table("db.t")
    assert live(again) == ["a"]


@pytest.mark.parametrize(
    "options",
    [
        {"prefixes": "x"},
        {"prefixes": {"a": 5}},
        {"roots": [5]},
        {"max_read_bytes": 0},
        {"max_read_bytes": "many"},
        {"storage": MemoryStorage(), "region": "x"},
    ],
    ids=str,
)
def test_options_of_storages_are_checked(options: dict[str, object]) -> None:
    with pytest.raises(errors.InvalidSettings):
        floe.connect("./wh", **options)


def test_the_limit_of_reads_holds(tmp_path: Path) -> None:
    lake = floe.connect("./wh", max_read_bytes=100)
    lake.create_namespace("db")
    lake.create_table("db.t", "id bigint")
    with pytest.raises(errors.FileTooLarge):
        lake.table("db.t")


# open -----------------------------------------------------------------------------------------------------------------


def test_a_folder_or_a_file_is_opened(tmp_path: Path) -> None:
    environment = deterministic_environment()
    lake = floe.connect("./wh", environment=environment)
    lake.create_namespace("db")
    made = lake.create_table("db.t", "id bigint not null")
    for path in ("wh/db/t", tmp_path / "wh/db/t", f"file:{tmp_path}/wh/db/t/", "wh/db/t/metadata"):
        assert floe.open(path).uuid == made.uuid
    assert floe.open(made.metadata_location).metadata == made.metadata
    assert floe.open("wh/db/t", environment=environment).environment is environment


def test_a_table_of_a_database_is_opened_to_be_read(tmp_path: Path) -> None:
    with floe.connect("sqlite:///lake.db", warehouse="wh", durable=False) as lake:
        lake.create_namespace("db")
        table = lake.create_table("db.t", "id bigint not null")
        table.append_files([data_file(table, "a")])
        opened = floe.open("wh/db/t")
        assert live(opened) == ["a"]
        with pytest.raises(errors.UnsupportedFeature, match="can only be read"):
            opened.append_files([data_file(opened, "b")])
        table.append_files([data_file(table, "c")])
        assert live(opened.refresh()) == ["a", "c"]


@pytest.mark.parametrize("path", ["nowhere", "nowhere/v1.metadata.json", "s3:", ""])
def test_what_is_no_table(path: str) -> None:
    with pytest.raises(errors.FloeError):
        floe.open(path)


def test_a_broken_metadata_file_says_which(tmp_path: Path) -> None:
    (tmp_path / "v1.metadata.json").write_text('{"format-version": 2')
    with pytest.raises(errors.InvalidMetadata, match=r"v1\.metadata\.json"):
        floe.open("v1.metadata.json")
