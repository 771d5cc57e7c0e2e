"""Whether Spark's own readers reach the files of a table."""

from __future__ import annotations

from floe.spark.bridge.jvm import Jvm
from floe.spark.scan.source import Source
from floe.spark.scan.splits import actual_location
from floe.storage.locations import parse

__all__ = ["why_not_reachable"]


def why_not_reachable(jvm: Jvm, source: Source) -> str | None:
    """A scheme that has no Hadoop file system on the class path is reached from Python."""
    location = actual_location(source.storage, source.table.location)
    scheme = parse(location).scheme
    if scheme == "file":
        return None
    try:
        hadoop = jvm.active_session().sessionState().newHadoopConf()
        jvm.named("org.apache.hadoop.fs.FileSystem").getFileSystemClass(location.partition(":")[0], hadoop)
    except Exception:
        return f"{scheme}: locations"
    return None
