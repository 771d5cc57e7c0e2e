"""Runs `floe demo`: creates a table in a temporary folder, writes, reads, evolves and branches it, reads old snapshots.

The code is in `src/floe/cli/demo.py`.
"""

from __future__ import annotations

from pathlib import Path

from floe import Table
from floe.cli.demo import COLUMNS, orders, run_steps
from floe.cli.main import app
from floe.show.terminal import stdout

__all__ = ["COLUMNS", "main", "orders"]


def main(warehouse: Path) -> Table:
    """Run all steps in a warehouse folder."""
    return run_steps(str(warehouse), stdout())


if __name__ == "__main__":
    app(["demo"])
