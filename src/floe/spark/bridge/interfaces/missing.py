"""What a method says that nobody has given."""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.proxies import Proxy

__all__ = ["CONNECTOR", "missing"]

CONNECTOR = "org.apache.spark.sql.connector."
"""The package of Spark's interfaces for connectors."""


def missing(proxy: Proxy, method: str) -> Any:
    """Raise, for an object that was not made for such calls."""
    raise NotImplementedError(f"{type(proxy).__name__} does not support {method}")
