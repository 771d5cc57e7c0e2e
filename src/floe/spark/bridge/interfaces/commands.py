"""Commands that others than Spark run."""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.interfaces.missing import CONNECTOR, missing
from floe.spark.bridge.proxies import Proxy

__all__ = ["ExternalCommandRunner"]


class ExternalCommandRunner(Proxy):
    """Runs a command."""

    interface = CONNECTOR + "ExternalCommandRunner"

    def executeCommand(self, command: str, options: Any) -> Any:
        """Run it; gives texts as a `String[]`."""
        return missing(self, "executeCommand")
