"""Printing for people, in reading order.

- `terminal`: colours, aligned columns, standard output and standard error.
- `times`: timestamps as local time, as an age, and as ISO 8601.
- `rows`: rows of a table as aligned columns or as records, printed while they are read.
- `progress`: a progress bar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe.exports import lazy_exports

if TYPE_CHECKING:
    from floe.show.progress import progress_bar as progress_bar
    from floe.show.rows import RowStyle as RowStyle, row_lines as row_lines

# Commands name these as `show.row_lines`: their help is printed without loading pyarrow and rich.
_, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "floe.show.progress": "progress_bar",
        "floe.show.rows": "RowStyle row_lines",
    },
)
