"""Writers of the files of a table, for all engines: Arrow batches in, data files and delete files to commit out.

In reading order:

- `write_target`: the table and storage to write to, with the locations of new files.
- `partitioned`: rows of all partitions written to files of their partitions.
- `rolling_writer`: the files of one partition, split by size.
- `delete_files`: position deletes, equality deletes and deletion vectors.
"""

from __future__ import annotations

from floe.formats.writers.delete_files import write_deletion_vectors, write_equality_deletes, write_position_deletes
from floe.formats.writers.partitioned import ClusteredWriter, FanoutWriter
from floe.formats.writers.rolling_writer import RollingWriter
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
