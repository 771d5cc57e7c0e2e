"""A lake of each kind, with a table that has a history, and the command as a person types it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import floe
from floe import Table
from floe.cli.main import app
from helpers.cli_lakes import FIRST, SECOND, Floe, Result, Warehouse


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Floe:
    """Run `floe` in an empty folder, without the settings of whoever runs the tests."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(work))
    for name in ("XDG_CONFIG_HOME", "FLOE_CONFIG", "FLOE_DEBUG", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object, stdin: bytes | None = None) -> Result:
        done = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, prog_name="floe")
        return Result(done.exit_code, done.stdout, done.stderr)

    return run


@pytest.fixture(params=["folder", "sqlite"])
def warehouse(request: pytest.FixtureRequest, tmp_path: Path) -> Warehouse:
    if request.param == "folder":
        uri = str(tmp_path / "warehouse")
        return Warehouse(floe.connect(uri), uri)
    uri = f"sqlite:///{tmp_path}/lake.db"
    files = str(tmp_path / "files")
    return Warehouse(floe.connect(uri, warehouse=files), uri, files)


@pytest.fixture
def orders(warehouse: Warehouse) -> Table:
    """A table with two snapshots of four and three rows, and a tag at the first."""
    warehouse.lake.create_namespace("db")
    table = warehouse.lake.create_table(
        "db.orders",
        "id bigint not null, customer string, amount decimal(9, 2), day date",
        partition_by=["day"],
        sort_by=["id"],
        properties={"owner": "tests", "my.password": "hunter2"},
    )
    first = table.append(FIRST)
    assert first is not None
    table.create_tag("first", snapshot=first.snapshot_id)
    table.append(SECOND)
    return table
