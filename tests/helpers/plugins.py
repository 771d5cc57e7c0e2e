"""Packages with entry points, as `pip install` would leave them."""

import sys
from pathlib import Path

import pytest


def install_plugin(
    folder: Path, monkeypatch: pytest.MonkeyPatch, group: str, name: str, reference: str, source: str
) -> None:
    """Put a module on the path, with an entry point that offers a part of it."""
    module = reference.partition(":")[0]
    site = folder / f"site_{module}"
    metadata = site / f"{module}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / f"{module}.py").write_text(source)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{name} = {reference}\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, module, raising=False)
