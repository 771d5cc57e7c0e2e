"""The `floe` command, in reading order.

- `main`: the group of commands, the table of their names, and how errors end.
- `options`: the arguments and options that commands share.
- `names`: which table, catalog or namespace a name on the command line means; shell completion.
- `ls`, `show`, `history`: what is in a catalog and in the metadata of a table, without loading Arrow.
- `head`, `scan` with `export`: rows, printed or written as CSV, JSON or Parquet.
- `load` with `input_files` and `input_text`: files into a table.
- `doctor` with `checks`: what is wrong with an installation, a catalog or a table.
- `demo`: a demonstration on a new table.

Each command is one module with its options and what it does. It is imported when the command runs, or for its help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe.exports import lazy_exports

if TYPE_CHECKING:
    from floe.cli import (
        checks as checks,
        export as export,
        input_files as input_files,
        input_text as input_text,
        names as names,
    )

# Commands name these as `cli.export`: their help is printed without loading pyarrow.
_, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "floe.cli.checks": "checks",
        "floe.cli.export": "export",
        "floe.cli.input_files": "input_files",
        "floe.cli.input_text": "input_text",
        "floe.cli.names": "names",
    },
)
