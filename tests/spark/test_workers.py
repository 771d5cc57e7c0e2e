"""Python workers that do less between tasks."""

import gc
import importlib
import sys
import zipfile
from pathlib import Path
from zipimport import zipimporter

import pytest

from floe.spark import executors


def test_archives_of_pyspark_are_read_once_and_others_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for archive, module in (("pyspark.zip", "floe_test_lasting"), ("mine.zip", "floe_test_mine")):
        with zipfile.ZipFile(tmp_path / archive, "w") as made:
            made.writestr(f"{module}/__init__.py", "")
            made.writestr(f"{module}/inner.py", "VALUE = 7")
        monkeypatch.syspath_prepend(tmp_path / archive)
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    monkeypatch.setitem(executors._state, "settled", False)
    importlib.import_module("floe_test_lasting")
    importlib.import_module("floe_test_mine")
    executors.reduce_worker_overhead()
    gc.unfreeze()
    found = {place: finder for place, finder in sys.path_importer_cache.items() if place.startswith(str(tmp_path))}
    kept = [place for place, finder in found.items() if isinstance(finder, zipimporter)]
    assert kept
    assert all("mine.zip" in place for place in kept)
    assert any("pyspark.zip" in place for place in found)
    importlib.invalidate_caches()
    assert importlib.import_module("floe_test_lasting.inner").VALUE == 7
    assert importlib.import_module("floe_test_mine.inner").VALUE == 7
