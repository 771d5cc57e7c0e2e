"""`make demo`: a table in a temporary folder, written, read back, evolved, deleted from, branched, and seen as it was.

It is what `floe demo` does; `src/floe/cli/work/story.py` is the code, to be read from top to bottom.
"""

from __future__ import annotations

from pathlib import Path

from floe import Table
from floe.cli.main import app
from floe.cli.output import results
from floe.cli.work.story import COLUMNS, orders, tell

__all__ = ["COLUMNS", "main", "orders"]


def main(warehouse: Path) -> Table:
    """The whole story, in a warehouse folder."""
    return tell(str(warehouse), results())


if __name__ == "__main__":
    app(["demo"])
