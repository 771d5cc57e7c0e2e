"""The `floe` command, in reading order.

- `main`: the group of commands, the table of their names, and the report of errors.
- `arguments`: the arguments and options that commands share, and the tables and catalogs that they name.
- `ls`, `show`, `history`: the contents of a catalog and the metadata of a table, without loading Arrow.
- `head`, `scan` with `export`: rows, printed or written as CSV, JSON or Parquet.
- `load` with `input_files` and `input_text`: loading files into a table.
- `doctor` with `checks`: problems of an installation, a catalog or a table.
- `demo`: a demonstration on a new table.

Each command is one module with its options and its code, which is imported when the command runs or for its help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe.exports import lazy_exports

if TYPE_CHECKING:
    from floe.cli import checks as checks, export as export, input_files as input_files, input_text as input_text

# Commands name these as `cli.export`, so that their help is printed without loading pyarrow.
_, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "floe.cli.checks": "checks",
        "floe.cli.export": "export",
        "floe.cli.input_files": "input_files",
        "floe.cli.input_text": "input_text",
    },
)
