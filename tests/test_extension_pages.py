"""The worked examples of docs/add-a-catalog.md and docs/add-a-file-format.md run; tests/spark has the others."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import floe
from floe.catalog import Catalog
from floe.catalog.registry import open_catalog
from floe.errors import UnsupportedFeature
from floe.formats import FormatModel, default_registry
from floe.testing import FormatBench, FormatConformance
from helpers.extension_pages import install_page, module_of, run_page


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    default_registry().unregister("feather", "arrow")


def test_the_catalog_of_the_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_page("add-a-catalog.md", folder, monkeypatch)
    run_page("add-a-catalog.md")
    catalog, _ = open_catalog("listed:tables.json", {})
    assert isinstance(catalog, Catalog)
    assert catalog.namespaces() == [("db",)]
    with pytest.raises(UnsupportedFeature):
        floe.connect("listed:tables.json").drop_table("db.orders")


def test_the_file_format_of_the_page_by_an_entry_point(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_page("add-a-file-format.md", folder, monkeypatch)
    run_page("add-a-file-format.md")


def test_the_file_format_of_the_page_by_a_call(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_page("add-a-file-format.md", folder, monkeypatch)
    (folder / "site_floe_feather" / "floe_feather-1.0.dist-info" / "entry_points.txt").write_text("")
    lake = floe.connect(folder / "lake")
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id bigint, v string", partition_by="bucket(2, id)")
    model = importlib.import_module("floe_feather").FeatherAsArrow()
    assert isinstance(model, FormatModel)
    default_registry().register(model)
    table.set_properties({"write.format.default": "feather"})
    rows = [{"id": number, "v": f"v{number}"} for number in range(10)]
    table.append(rows)
    table.delete("id = 3")
    table.update({"v": "'new'"}, where="id = 4")
    table.evolve().add_column("more", "int").commit()
    assert {row["file_format"] for row in table.inspect.files().to_pylist()} == {"FEATHER"}
    expected = [{**row, "more": None} for row in rows if row["id"] != 3]
    expected[3]["v"] = "new"
    found = table.scan(where="id < 100").to_arrow().sort_by("id").to_pylist()
    assert found == expected


class TestFileFormatOfThePage(FormatConformance):
    """The format of the page keeps all promises of format models."""

    @pytest.fixture
    def bench(self) -> FormatBench:
        module, source = module_of("add-a-file-format.md")
        namespace: dict[str, Any] = {}
        exec(compile(source, module, "exec"), namespace)
        return FormatBench(namespace["FeatherAsArrow"]())
