"""Named catalogs: found in files and the environment, with secrets that stay secret."""

import pickle
from pathlib import Path

import pytest

from floe.catalog.settings import Secret, Settings, hide_password, is_secret_name, load_settings, reveal, shown_options
from floe.errors import InvalidSettings, NoSuchCatalog


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "floe.toml"
    path.write_text(text)
    return path


def load(folder: Path, **environ: str) -> Settings:
    return load_settings(environ=environ, folder=str(folder))


def test_the_nearest_file_above_the_working_folder_counts(tmp_path: Path) -> None:
    write(tmp_path, '[catalog.prod]\nuri = "s3://far/wh"')
    write(tmp_path / "a", '[catalog.prod]\nuri = "s3://near/wh"')
    below = tmp_path / "a" / "b" / "c"
    below.mkdir(parents=True)
    assert load(below).catalog("prod").uri == "s3://near/wh"
    assert load(tmp_path).catalog("prod").uri == "s3://far/wh"


def test_the_working_folder_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, '[catalog.prod]\nuri = "s3://b/wh"')
    monkeypatch.chdir(tmp_path)
    assert load_settings(environ={}).catalog("prod").uri == "s3://b/wh"


def test_the_users_file_adds_catalogs_and_yields_to_the_projects(tmp_path: Path) -> None:
    write(tmp_path / "project", '[catalog.both]\nuri = "s3://project/wh"')
    write(
        tmp_path / "home" / ".config" / "floe",
        '[catalog.both]\nuri = "s3://user/wh"\n[catalog.mine]\nuri = "s3://mine/wh"',
    )
    settings = load(tmp_path / "project", HOME=str(tmp_path / "home"))
    assert settings.catalog("both").uri == "s3://project/wh"
    assert settings.catalog("mine").uri == "s3://mine/wh"
    elsewhere = load(tmp_path / "project", HOME="/nowhere", XDG_CONFIG_HOME=str(tmp_path / "home" / ".config"))
    assert elsewhere.names == ("both", "mine")


def test_floe_config_names_the_only_file(tmp_path: Path) -> None:
    write(tmp_path, '[catalog.here]\nuri = "s3://b/wh"')
    chosen = write(tmp_path / "other", '[catalog.there]\nuri = "s3://b/wh"')
    assert load(tmp_path, FLOE_CONFIG=str(chosen)).names == ("there",)
    with pytest.raises(InvalidSettings, match="FLOE_CONFIG names a file that does not exist"):
        load(tmp_path, FLOE_CONFIG=str(tmp_path / "none.toml"))


def test_the_environment_goes_before_files_key_by_key(tmp_path: Path) -> None:
    write(tmp_path, '[catalog.prod]\nuri = "s3://b/wh"\nwarehouse = "s3://b/wh"\n"s3.region" = "eu-west-1"')
    found = load(
        tmp_path, FLOE_CATALOG__PROD__URI="sqlite:////lake.db", FLOE_CATALOG__PROD__S3__ENDPOINT="http://localhost:9000"
    ).catalog("prod")
    assert found.uri == "sqlite:////lake.db"
    assert found.options == {
        "warehouse": "s3://b/wh",
        "s3.region": "eu-west-1",
        "s3.endpoint": "http://localhost:9000",
    }


def test_variables_spell_names_in_capitals(tmp_path: Path) -> None:
    write(tmp_path, '[catalog.my-Lake]\nuri = "s3://b/wh"')
    settings = load(tmp_path, FLOE_CATALOG__MY_LAKE__READ_ONLY="true", FLOE_CATALOG__NEW__URI="memory:")
    assert settings.catalog("my-Lake").options == {"read_only": "true"}
    assert settings.catalog("new").uri == "memory:"


def test_references_are_followed_only_for_the_catalog_asked_for(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '[catalog.a]\nuri = "postgresql://me@h/db"\npassword = "env:DB_PASSWORD"\n[catalog.b]\nuri = "env:B_URI"',
    )
    settings = load(tmp_path, DB_PASSWORD="hunter2")
    assert reveal(settings.catalog("a").options) == {"password": "hunter2"}
    with pytest.raises(InvalidSettings) as caught:
        settings.catalog("b")
    assert caught.value.context == {"file": str(path), "key": "catalog.b.uri"}
    assert "B_URI" in str(caught.value)


def test_relative_paths_count_from_the_files_folder(tmp_path: Path) -> None:
    write(
        tmp_path,
        '[catalog.a]\nuri = "wh"\n[catalog.b]\nuri = "sqlite:///lake.db"\nwarehouse = "wh"\n'
        '[catalog.c]\nuri = "sqlite:////abs.db"\n[catalog.d]\nuri = "sqlite:///:memory:"',
    )
    settings = load(tmp_path)
    assert settings.catalog("a").uri == str(tmp_path / "wh")
    assert settings.catalog("b").uri == f"sqlite:///{tmp_path}/lake.db"
    assert settings.catalog("b").options["warehouse"] == str(tmp_path / "wh")
    assert settings.catalog("c").uri == "sqlite:////abs.db"
    assert settings.catalog("d").uri == "sqlite:///:memory:"


def test_the_default_catalog(tmp_path: Path) -> None:
    write(tmp_path, 'default = "b"\n[catalog.a]\nuri = "s3://a/wh"\n[catalog.b]\nuri = "s3://b/wh"')
    assert load(tmp_path).catalog().name == "b"
    write(tmp_path, '[catalog.a]\nuri = "s3://a/wh"')
    assert load(tmp_path).catalog().name == "a"
    write(tmp_path, '[catalog.a]\nuri = "s3://a/wh"\n[catalog.b]\nuri = "s3://b/wh"')
    with pytest.raises(NoSuchCatalog, match="the settings have a, b"):
        load(tmp_path).catalog()


def test_dotted_keys_may_be_quoted_or_not(tmp_path: Path) -> None:
    write(tmp_path, '[catalog.a]\nuri = "s3://a/wh"\ns3.region = "eu"\n"s3.endpoint" = "http://x"')
    assert load(tmp_path).catalog("a").options == {"s3.region": "eu", "s3.endpoint": "http://x"}


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("[catalog.a]\nwarehouse = 's3://b/wh'", "catalog.a.uri", "catalog a has no uri"),
        ("[catalog.a]\nuri = 5", "catalog.a.uri", "must be text"),
        ("[catalog.'a.b']\nuri = 'x'", "catalog.a.b", "letters, digits"),
        ("catalog = 5", "catalog", "described by a table"),
        ("catalog.a = 'x'", "catalog.a", "described by a table"),
        ("[catalogs.a]\nuri = 'x'", "catalogs", "unknown key"),
        ("default = 5", "default", "name of a catalog"),
        ("[catalog.a]\nuri = 's3://b'\nwhen = 2024-05-17", "catalog.a.when", "must be text or a number"),
    ],
)
def test_mistakes_name_the_file_and_the_key(tmp_path: Path, text: str, key: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InvalidSettings, match=message) as caught:
        load(tmp_path).catalog("a")
    assert caught.value.context == {"file": str(path), "key": key}


def test_broken_toml_names_the_file_and_the_line(tmp_path: Path) -> None:
    path = write(tmp_path, "[catalog.a\nuri = 1")
    with pytest.raises(InvalidSettings, match=r"line 1") as caught:
        load(tmp_path)
    assert caught.value.context["file"] == str(path)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "floe.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidSettings, match="not UTF-8"):
        load(tmp_path)


def test_an_unknown_catalog_tells_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(NoSuchCatalog, match=r"there is no floe.toml here or above"):
        load(tmp_path).catalog("prod")
    write(tmp_path, '[catalog.prod]\nuri = "s3://b/wh"')
    with pytest.raises(NoSuchCatalog, match="the settings have prod"):
        load(tmp_path).catalog("prd")


# secrets --------------------------------------------------------------------------------------------------------------


def test_secrets_are_in_no_text(tmp_path: Path) -> None:
    write(
        tmp_path,
        '[catalog.a]\nuri = "postgresql://me:hunter2@h/db"\npassword = "hunter2"\n"s3.secret-access-key" = "hunter2"\n'
        'mine = "env:MINE"',
    )
    settings = load(tmp_path, MINE="hunter2", FLOE_CATALOG__A__TOKEN="hunter2")
    catalog = settings.catalog("a")
    shown = f"{settings!r} {catalog!r} {catalog} {catalog.options} {list(catalog.options.values())}"
    assert "hunter2" not in shown
    assert set(reveal(catalog.options).values()) == {"hunter2"}


def test_secrets_are_not_pickled() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(Secret("hunter2"))


def test_secrets_compare_by_value() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "s3.secret-access-key",
        "token",
        "gcs.oauth2.token",
        "adls.sas-token.acct",
        "adls.account-key",
        "client_secret",
        "credential",
    ],
)
def test_names_that_tell_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["uri", "warehouse", "s3.region", "s3.access-key-id", "s3.endpoint", "keyspace", "user"]
)
def test_names_that_do_not(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgresql://me:pw@host/db", "postgresql://me:***@host/db"),
        ("postgresql+psycopg://me:p@w:x/y@host/db", "postgresql+psycopg://me:***@host/db"),
        ("postgresql://:pw@host/db", "postgresql://:***@host/db"),
        ("postgresql://me@host:5432/db", "postgresql://me@host:5432/db"),
        ("postgresql://host/db?user=me&password=pw&sslmode=on", "postgresql://host/db?user=me&password=***&sslmode=on"),
        ("s3://bucket/wh", "s3://bucket/wh"),
        ("abfs://container@account.dfs.core.windows.net/wh", "abfs://container@account.dfs.core.windows.net/wh"),
        ("/plain/path@x:y", "/plain/path@x:y"),
    ],
)
def test_passwords_in_uris(uri: str, shown: str) -> None:
    assert hide_password(uri) == shown


def test_options_are_shown_without_secrets() -> None:
    assert shown_options({"n": 5, "password": "pw", "uri": "x://a:b@c"}) == "n=5, password=***, uri='x://a:***@c'"
