"""What goes to executors: with every task what it needs to know of a table, and on request Floe's own code."""

from __future__ import annotations

import py_compile
import shutil
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import floe
from floe.spec.metadata.table_metadata import TableMetadata
from floe.storage.local import LocalStorage

__all__ = ["packed_code", "ship_code", "shipped"]

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The oldest time that such an archive knows: equal code makes equal archives."""


def shipped(metadata: TableMetadata) -> TableMetadata:
    """What readers and writers in executors need to know of a table: its layout, not its history."""
    return replace(
        metadata,
        snapshots=(),
        refs={},
        snapshot_log=(),
        metadata_log=(),
        current_snapshot_id=None,
        statistics=(),
        partition_statistics=(),
    )


def ship_code(context: Any) -> None:
    """Send Floe's own code to the executors of a Spark context, now and those that come later."""
    name = f"floe-{floe.__version__}.zip"
    if any(str(path).endswith("/" + name) for path in context.listFiles):
        return
    # executors fetch it whenever they come, so it stays where Spark has what lives as long as the application
    context.addPyFile(str(packed_code(Path(tempfile.mkdtemp(dir=context._temp_dir)) / name)))


def packed_code(target: Path) -> Path:
    """Write Floe's own code as an archive from which Python can import it.

    It has the compiled modules too, for Python does not keep what it compiles of an archive.
    """
    root = Path(floe.__file__).parent
    if not root.is_dir():  # it came in an archive itself
        shutil.copyfile(root.parent, target)
        return target
    storage = LocalStorage()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root.parent)
            archive.writestr(zipfile.ZipInfo(str(name), _EPOCH), storage.read(str(path)), zipfile.ZIP_DEFLATED)
            archive.writestr(zipfile.ZipInfo(f"{name}c", _EPOCH), _compiled(path, str(name)), zipfile.ZIP_DEFLATED)
    return target


def _compiled(path: Path, name: str) -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".pyc") as made:
        py_compile.compile(
            str(path),
            cfile=made.name,
            dfile=name,
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
        return LocalStorage().read(made.name)  # it has taken the place of the file that was opened
