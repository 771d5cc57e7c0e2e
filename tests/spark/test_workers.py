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
        with zipfile.ZipFile(tmp_path / archive, "w") as zip_file:
            zip_file.writestr(f"{module}/__init__.py", "")
            zip_file.writestr(f"{module}/inner.py", "VALUE = 7")
        monkeypatch.syspath_prepend(tmp_path / archive)
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    monkeypatch.setitem(executors._state, "reduced", False)
    importlib.import_module("floe_test_lasting")
    importlib.import_module("floe_test_mine")
    executors.reduce_worker_overhead()
    gc.unfreeze()
    finders = {path: finder for path, finder in sys.path_importer_cache.items() if path.startswith(str(tmp_path))}
    zip_paths = [path for path, finder in finders.items() if isinstance(finder, zipimporter)]
    assert zip_paths
    assert all("mine.zip" in path for path in zip_paths)
    assert any("pyspark.zip" in path for path in finders)
    importlib.invalidate_caches()
    assert importlib.import_module("floe_test_lasting.inner").VALUE == 7
    assert importlib.import_module("floe_test_mine.inner").VALUE == 7
