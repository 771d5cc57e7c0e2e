"""`floe demo`: the story, in a temporary folder or in one that stays."""

from __future__ import annotations

import io
import os
import shutil
import tempfile

from floe.cli.output import Output, results
from floe.cli.work.story import tell
from floe.errors import InvalidInput
from floe.show.styles import PLAIN

__all__ = ["demonstrate"]


def demonstrate(folder: str | None, *, keep: bool = False, as_json: bool = False) -> None:
    """Tell the story in a folder; a temporary one is gone at the end unless it is to be kept."""
    out = results()
    keep = keep or folder is not None
    if folder is not None and os.path.exists(os.path.join(folder, "db", "orders")):
        raise InvalidInput("the folder has a table db.orders already", hint="choose another folder", folder=folder)
    place = tempfile.mkdtemp(prefix="floe-demo-") if folder is None else folder
    warehouse = os.path.join(place, "warehouse") if folder is None else folder
    try:
        table = tell(warehouse, Output(io.StringIO(), PLAIN, None) if as_json else out)
        if as_json:
            rows = table.scan().count()
            path = os.path.join(warehouse, "db", "orders")
            out.json({"table": path, "kept": keep, "rows": rows, "snapshots": len(table.snapshots)})
        else:
            _farewell(out, os.path.join(warehouse, "db", "orders"), keep)
    finally:
        if not keep:
            shutil.rmtree(place, ignore_errors=True)


def _farewell(out: Output, table: str, keep: bool) -> None:
    out.line()
    if keep:
        out.line(f"Done. The table is in {table}; every Iceberg engine can read it. Look at it:")
        out.lines(f"  floe {command} {table}" for command in ("show", "history", "head", "doctor"))
    else:
        out.line(
            "Done; the temporary folder is gone. `floe demo FOLDER` keeps the table, for any Iceberg engine to read."
        )
