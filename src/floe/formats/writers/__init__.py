"""Files of a table, written by any engine: Arrow batches in, data files and delete files out, to be committed."""

from __future__ import annotations

from floe.formats.writers.delete_files import write_deletion_vectors, write_equality_deletes, write_position_deletes
from floe.formats.writers.partitioned import ClusteredWriter, FanoutWriter
from floe.formats.writers.rolling import RollingWriter
from floe.formats.writers.write_target import WriteTarget

__all__ = [
    "ClusteredWriter",
    "FanoutWriter",
    "RollingWriter",
    "WriteTarget",
    "write_deletion_vectors",
    "write_equality_deletes",
    "write_position_deletes",
]
