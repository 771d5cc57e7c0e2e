"""What versions of Spark do differently, where no object of the JVM is at hand to be asked."""

from __future__ import annotations

from typing import Final

import pyspark

__all__ = ["READS_RENAMED_FIELDS"]

_VERSION: Final = tuple(int(part) for part in pyspark.__version__.split(".")[:2])

READS_RENAMED_FIELDS: Final = _VERSION >= (4, 1)
"""Whether Spark's Parquet reader takes fields of structs by their ids where a file has other names for them."""
