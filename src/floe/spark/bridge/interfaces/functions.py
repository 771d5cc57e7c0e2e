"""Functions of a catalog."""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.interfaces.catalogs import CatalogPlugin
from floe.spark.bridge.interfaces.missing import CONNECTOR, missing
from floe.spark.bridge.proxies import Proxy

__all__ = ["FunctionCatalog", "UnboundFunction"]


class FunctionCatalog(CatalogPlugin):
    """Functions by name."""

    interface = CONNECTOR + "catalog.FunctionCatalog"

    def listFunctions(self, namespace: Any) -> Any:
        """The functions of a namespace."""
        return missing(self, "listFunctions")

    def loadFunction(self, identifier: Any) -> Any:
        """A function."""
        return missing(self, "loadFunction")

    def functionExists(self, identifier: Any) -> bool:
        """Whether there is such a function."""
        return bool(missing(self, "functionExists"))


class UnboundFunction(Proxy):
    """A function whose arguments are not known yet."""

    interface = CONNECTOR + "catalog.functions.UnboundFunction"

    def name(self) -> str:
        """Its name."""
        return str(missing(self, "name"))

    def bind(self, arguments: Any) -> Any:
        """The function for arguments of these types."""
        return missing(self, "bind")

    def description(self) -> str:
        """What it does."""
        return str(missing(self, "description"))
