"""Functions of Java's, which Python calls stand for."""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.interfaces.missing import missing
from floe.spark.bridge.proxies import Proxy

__all__ = ["BiFunction", "Consumer", "Function"]


class Function(Proxy):
    """Something for something."""

    interface = "java.util.function.Function"

    def apply(self, given: Any) -> Any:
        """What the function gives."""
        return missing(self, "apply")

    def andThen(self, other: Any) -> Any:
        """Spark does not ask for it."""
        return missing(self, "andThen")

    def compose(self, other: Any) -> Any:
        """Spark does not ask for it."""
        return missing(self, "compose")


class BiFunction(Proxy):
    """Something for two things."""

    interface = "java.util.function.BiFunction"

    def apply(self, first: Any, second: Any) -> Any:
        """What the function gives."""
        return missing(self, "apply")

    def andThen(self, other: Any) -> Any:
        """Spark does not ask for it."""
        return missing(self, "andThen")


class Consumer(Proxy):
    """Something is done, and nothing given."""

    interface = "java.util.function.Consumer"

    def accept(self, given: Any) -> None:
        """Do it."""
        missing(self, "accept")

    def andThen(self, other: Any) -> Any:
        """Spark does not ask for it."""
        return missing(self, "andThen")
