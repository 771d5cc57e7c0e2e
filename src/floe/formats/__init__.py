"""The file formats of tables: Parquet, ORC and Avro, and Arrow, through which their columns go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe.exports import lazy_exports

if TYPE_CHECKING:
    from floe.formats.metrics import MetricsConfig as MetricsConfig, MetricsMode as MetricsMode
    from floe.formats.model import (
        Feature as Feature,
        FileAppender as FileAppender,
        FormatModel as FormatModel,
        ReadRequest as ReadRequest,
        WriteRequest as WriteRequest,
    )
    from floe.formats.registry import Registry as Registry, default_registry as default_registry

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "floe.formats.model": "Feature FileAppender FormatModel ReadRequest WriteRequest",
        "floe.formats.metrics": "MetricsConfig MetricsMode",
        "floe.formats.registry": "Registry default_registry",
    },
)
