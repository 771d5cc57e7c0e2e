"""Names of tables on the command line: by path, by catalog and name, by the default catalog; hints for unknown ones."""

from pathlib import Path

import pytest

import floe
from floe.cli.arguments import complete_table
from helpers.cli_lakes import Floe


@pytest.fixture
def here(run: Floe) -> Path:
    """A warehouse in the working folder, with two tables."""
    lake = floe.connect("./warehouse")
    lake.create_namespace("db")
    lake.create_table("db.orders", "id int").append([{"id": 1}])
    lake.create_table("db.items", "id int")
    return Path("warehouse").absolute()


def ids(run: Floe, *name: object) -> list[int]:
    done = run("scan", *name, "--json")
    assert done.code == 0, done.err
    return [row["id"] for row in done.json]


def test_a_path_names_a_table(run: Floe, here: Path) -> None:
    metadata = floe.open(here / "db" / "orders").metadata_location
    for name in (
        "warehouse/db/orders",
        "./warehouse/db/orders/",
        here / "db/orders",
        f"file://{here}/db/orders",
        metadata,
    ):
        assert ids(run, name) == [1], name


def test_a_folder_in_the_working_folder_is_a_path_too(run: Floe, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here / "db")
    assert ids(run, "orders") == [1]


def test_a_catalog_of_the_settings_names_a_table(run: Floe, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("floe.toml").write_text('[catalog.lake]\nuri = "warehouse"\n[catalog.other]\nuri = "elsewhere"\n')
    assert ids(run, "lake.db.orders") == [1]
    assert [entry["name"] for entry in run("ls", "lake.db", "--json").json] == ["db.items", "db.orders"]
    wrong = run("show", "laek.db.orders")
    assert wrong.code == 1
    assert "hint: did you mean lake?" in wrong.err
    monkeypatch.setenv("FLOE_CATALOG__PROD__URI", str(here))
    assert ids(run, "prod.db.orders") == [1]


def test_the_default_catalog_needs_no_name(run: Floe, here: Path) -> None:
    Path("floe.toml").write_text(
        'default = "lake"\n[catalog.lake]\nuri = "warehouse"\n[catalog.other]\nuri = "elsewhere"\n'
    )
    assert ids(run, "db.orders") == [1]
    assert ids(run, "lake.db.orders") == [1]
    assert "hint: did you mean db.orders?" in run("show", "db.oders").err


def test_ls_of_a_folder_that_is_a_namespace_or_a_table(run: Floe, here: Path) -> None:
    assert [entry["name"] for entry in run("ls", "warehouse/db", "--json").json] == ["db.items", "db.orders"]
    assert run("ls", "warehouse/db/orders").err.splitlines() == [
        "error: warehouse/db/orders is a table, not a catalog or namespace",
        "hint: floe show warehouse/db/orders describes it",
    ]
    Path("nothing").mkdir()
    assert run("ls", "nothing").out == "nothing is empty\n"


def test_an_unknown_path_is_reported_with_tables_beside_it(run: Floe, here: Path) -> None:
    assert "hint: did you mean warehouse/db/orders?" in run("show", "warehouse/db/ordres").err
    assert "hint: the folder contains items, orders" in run("show", "warehouse/db").err
    assert "tables beside it are items, orders" in run("show", "warehouse/db/x").err
    assert "give a path" in run("show", "db.orders").err


def test_a_catalog_is_not_a_table(run: Floe) -> None:
    done = run("show", "postgresql://me:hunter2@host/db")
    assert done.code == 1
    assert "--catalog postgresql://me:***@host/db" in done.err
    assert "hunter2" not in done.err


def test_a_table_that_was_moved_opens_with_prefixes(run: Floe, here: Path) -> None:
    moved = here.rename(here.with_name("moved"))
    done = run("scan", "moved/db/orders")
    assert done.code == 1
    hint = done.err.splitlines()[1]
    assert hint == f"hint: the table was moved: open it with -O prefixes={here}/db/orders={moved}/db/orders"
    assert ids(run, "moved/db/orders", "-O", f"prefixes={here}={moved}") == [1]


def test_options_are_pairs(run: Floe, here: Path) -> None:
    done = run("ls", "warehouse", "-O", "nonsense")
    assert done.code == 2
    assert "expected KEY=VALUE" in done.err
    assert "did you mean" in run("ls", "-c", "sqlite:///x.db", "-O", "warehuose=wh").err


def test_an_invalid_command_line_exits_with_2(run: Floe) -> None:
    assert run("lss").code == 2
    assert run("scan").code == 2
    assert run("scan", "a/b/c", "--format", "xml").code == 2
    assert run("head", "a/b/c", "-n", "few").code == 2


def test_a_shell_completes_folders_catalogs_and_tables(run: Floe, here: Path) -> None:
    Path("floe.toml").write_text('[catalog.lake]\nuri = "warehouse"\n')
    assert complete_table("wa") == ["warehouse/"]
    assert complete_table("warehouse/db/o") == ["warehouse/db/orders"]
    assert complete_table("la") == ["lake."]
    assert complete_table("lake.db.o") == ["lake.db.orders"]
    assert complete_table("nothing/here") == []


def test_an_unknown_name_is_not_an_empty_catalog(run: Floe, here: Path) -> None:
    for arguments in (["ls", "prdo"], ["ls", "--catalog", "prdo"], ["show", "prdo.db.orders"]):
        done = run(*arguments)
        assert done.code == 1
        assert "prdo" in done.err
    assert "write './prdo'" in run("ls", "--catalog", "prdo").err
    assert "sqlite:///lake.db?" in run("ls", "sqlit:///lake.db").err
