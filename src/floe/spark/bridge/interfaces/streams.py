"""Streams: read in small batches, and written epoch by epoch."""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.interfaces.missing import CONNECTOR, missing
from floe.spark.bridge.proxies import Proxy

__all__ = [
    "MicroBatchStream",
    "SparkDataStream",
    "StreamingWrite",
    "SupportsAdmissionControl",
    "SupportsTriggerAvailableNow",
]


class SparkDataStream(Proxy):
    """A stream that is read from one offset to another."""

    interface = CONNECTOR + "read.streaming.SparkDataStream"

    def initialOffset(self) -> Any:
        """Where a new query begins."""
        return missing(self, "initialOffset")

    def deserializeOffset(self, json: str) -> Any:
        """The offset of a checkpoint."""
        return missing(self, "deserializeOffset")

    def commit(self, end: Any) -> None:
        """All up to this offset has been processed."""

    def stop(self) -> None:
        """The query has ended."""


class MicroBatchStream(SparkDataStream):
    """A stream that is read in small batches."""

    interface = CONNECTOR + "read.streaming.MicroBatchStream"

    def latestOffset(self, *how: Any) -> Any:
        """How far the next batch goes."""
        return missing(self, "latestOffset")

    def planInputPartitions(self, start: Any, end: Any) -> Any:
        """The parts of a batch."""
        return missing(self, "planInputPartitions")

    def createReaderFactory(self) -> Any:
        """What reads a part, in an executor."""
        return missing(self, "createReaderFactory")


class SupportsAdmissionControl(SparkDataStream):
    """A stream whose batches can be kept small."""

    interface = CONNECTOR + "read.streaming.SupportsAdmissionControl"

    def getDefaultReadLimit(self) -> Any:
        """How much a batch has at most."""
        return self.jvm.sql("connector.read.streaming.ReadLimit").allAvailable()

    def latestOffset(self, *how: Any) -> Any:
        """How far the next batch goes: from which offset, and how much at most."""
        return missing(self, "latestOffset")

    def reportLatestOffset(self) -> Any:
        """How far the stream goes now; not told."""
        return None


class SupportsTriggerAvailableNow(SupportsAdmissionControl):
    """A stream of which a query can read what is there when it starts, and no more."""

    interface = CONNECTOR + "read.streaming.SupportsTriggerAvailableNow"

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember what is there now."""
        missing(self, "prepareForTriggerAvailableNow")


class StreamingWrite(Proxy):
    """A write of a stream, epoch by epoch."""

    interface = CONNECTOR + "write.streaming.StreamingWrite"

    def createStreamingWriterFactory(self, info: Any) -> Any:
        """What writes the rows of a task, in an executor."""
        return missing(self, "createStreamingWriterFactory")

    def useCommitCoordinator(self) -> bool:
        """Whether only one attempt of each task may commit."""
        return True

    def commit(self, epoch: int, messages: Any) -> None:
        """All tasks of an epoch have finished."""
        missing(self, "commit")

    def abort(self, epoch: int, messages: Any) -> None:
        """The write of an epoch has failed."""
        missing(self, "abort")
