"""The file formats of tables: Parquet, ORC and Avro as Arrow batches and as plain rows, and Puffin.

In reading order:

- `model`: format models, and the requests to read and to write a file, built step by step.
- `registry`: the format models by format and object model; those of `parquet`, `orc` and `avro` as Arrow batches.
- `rows`: any format as plain Python rows.
- `appender`: what the writers of these formats share.
- `metrics`: counts and bounds of the columns of a file.
- `columns`: types, values, filters and conversions of Arrow columns, which the readers and writers share.
- `puffin`: Puffin files.
- `writers`: data files and delete files of a table, split by partition and by size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe.exports import lazy_exports

if TYPE_CHECKING:
    from floe.formats.appender import ArrowAppender as ArrowAppender, WrittenFile as WrittenFile
    from floe.formats.columns.arrow_types import arrow_schema as arrow_schema
    from floe.formats.columns.projection import project_batches as project_batches
    from floe.formats.metrics import MetricsConfig as MetricsConfig, MetricsMode as MetricsMode
    from floe.formats.model import (
        Feature as Feature,
        FileAppender as FileAppender,
        FormatModel as FormatModel,
        ReadRequest as ReadRequest,
        WriteRequest as WriteRequest,
        plain_storage_to_read as plain_storage_to_read,
    )
    from floe.formats.registry import Registry as Registry, default_registry as default_registry

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "floe.formats.model": "Feature FileAppender FormatModel ReadRequest WriteRequest plain_storage_to_read",
        "floe.formats.metrics": "MetricsConfig MetricsMode",
        "floe.formats.appender": "ArrowAppender WrittenFile",
        "floe.formats.columns.projection": "project_batches",
        "floe.formats.columns.arrow_types": "arrow_schema",
        "floe.formats.registry": "Registry default_registry",
    },
)
