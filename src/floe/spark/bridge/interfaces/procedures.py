"""Procedures: `CALL lake.system.…`."""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.interfaces.catalogs import CatalogPlugin
from floe.spark.bridge.interfaces.missing import CONNECTOR, missing
from floe.spark.bridge.proxies import Proxy

__all__ = ["BoundProcedure", "Procedure", "ProcedureCatalog", "UnboundProcedure"]


class ProcedureCatalog(CatalogPlugin):
    """Procedures by name."""

    interface = CONNECTOR + "catalog.ProcedureCatalog"

    def loadProcedure(self, identifier: Any) -> Any:
        """The procedure of a name."""
        return missing(self, "loadProcedure")

    def listProcedures(self, namespace: Any) -> Any:
        """The procedures of a namespace."""
        return missing(self, "listProcedures")


class Procedure(Proxy):
    """A procedure of whatever kind."""

    interface = CONNECTOR + "catalog.procedures.Procedure"

    def name(self) -> str:
        """Its name."""
        return str(missing(self, "name"))

    def description(self) -> str:
        """What it does, in words."""
        return self.title()


class UnboundProcedure(Procedure):
    """A procedure, before the types of its arguments are known."""

    interface = CONNECTOR + "catalog.procedures.UnboundProcedure"

    def bind(self, schema: Any) -> Any:
        """The procedure for arguments of these types."""
        return missing(self, "bind")


class BoundProcedure(Procedure):
    """A procedure that can be called."""

    interface = CONNECTOR + "catalog.procedures.BoundProcedure"

    def parameters(self) -> Any:
        """What it takes, as a `ProcedureParameter[]`."""
        return missing(self, "parameters")

    def isDeterministic(self) -> bool:
        """Whether it always does the same."""
        return False

    def call(self, row: Any) -> Any:
        """Do it; gives an iterator of scans."""
        return missing(self, "call")
