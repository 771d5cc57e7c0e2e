"""A read that Spark's Parquet reader cannot carry out alone, as a plan in which it does most of the work.

The files are cut into parts by what is to be done with them, and the parts are put together. Spark's reader reads
what it can (`floe.spark.scan.native_plan`): files without equality deletes, and files with them, whose rows are then
joined with those of the delete files. What it cannot read (other formats, very many deleted positions, keys of types
that it does not know) is read by the Arrow reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from floe.arrow.reading.extra_columns import with_columns
from floe.errors import InvalidInput
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import Plans
from floe.spark.columns import spark_schema
from floe.spark.scan.deleted_keys import DeletedKeys, deleted_keys
from floe.spark.scan.deleted_rows import within_budget
from floe.spark.scan.files import Mask, PlannedFiles
from floe.spark.scan.native import why_not_columns
from floe.spark.scan.native_plan import NativePlan
from floe.spark.scan.parts import ArrowPart, Share
from floe.spec.schemas.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER, ROW_ID
from floe.spec.schemas.schema import Schema

if TYPE_CHECKING:
    from floe.spark.scan.scan import TableScan

__all__ = ["rewritten_read"]

MOST_DELETES: Final = "spark.sql.floe.most-deletes-on-driver"
"""How many bytes the deleted positions of a read may take on the driver; files with more are read in workers."""

_MOST_DELETES: Final = 32 * 2**20
_MOST_ROWS: Final = 2**31 - 64
_LINEAGE: Final = frozenset({ROW_ID.id, LAST_UPDATED_SEQUENCE_NUMBER.id})


def rewritten_read(scan: TableScan, node: Any) -> Any:
    """The plan to put in the place of a read; the node itself if Spark's reader can read nothing of it."""
    metadata, asked, files = scan.source.table.metadata, scan.asked, scan.files
    if scan.unreachable or why_not_columns(metadata, asked, above=True):
        return node
    reasons = _reasons(scan, files)
    keys = deleted_keys(files.keeping(~_any(files, reasons)))
    by_key = files.with_keys
    if strange := [one for one in keys if not _can_join(scan, one)]:
        reasons[f"equality deletes by {' and '.join(map(str, strange))}"] = by_key
    others = _any(files, reasons)
    if others.all():
        return node
    joined = ~others & by_key
    plans, made = Plans(scan.jvm), []
    outputs = [plans.output(node)]  # the parts behind the first have columns of their own
    for chosen, own_keys in ((~others & ~joined, ()), (joined, keys)):
        if chosen.any():
            share = Share(_paths(files, ~chosen), inside=False) if not own_keys else Share(_paths(files, chosen))
            native = NativePlan(scan, node, files.keeping(chosen), share, own_keys)
            made.append(native.plan(outputs.pop() if outputs else _new_columns(scan)))
    if others.any():
        why = " and ".join(name for name, found in reasons.items() if found.any())
        part = ArrowPart(scan, Share(_paths(files, others)), why)
        made.append(plans.scan_relation(node, part, _new_columns(scan)))
    return plans.union(*made)


def _can_join(scan: TableScan, keys: DeletedKeys) -> bool:
    """Whether Spark's reader knows the types of keys, and finds them: beside what is asked for, and in delete files."""
    wanted = (with_columns(schema, keys.columns.entries) for schema in (scan.asked, Schema(())))
    return not any(why_not_columns(scan.source.table.metadata, one, above=True) for one in wanted)


def _new_columns(scan: TableScan) -> list[Any]:
    return Plans(scan.jvm).attributes(spark_schema(scan.columns.fields))


def _reasons(scan: TableScan, files: PlannedFiles) -> dict[str, Mask]:
    """Why the Arrow reader has to read some of the files, whatever their equality deletes are."""
    formats = files.table["file_format"].to_numpy(zero_copy_only=False)
    reasons = {f"{name} files": formats == name for name in sorted(set(formats) - {"parquet"})}
    reasons["very many rows"] = files.record_counts > _MOST_ROWS
    if _LINEAGE & {field.id for field in scan.asked.fields}:
        reasons["rows without ids"] = files.table["first_row_id"].is_null().to_numpy()
    reasons["very many deletes"] = ~within_budget(files, _budget(scan.jvm), scan.splits.target_size)
    return reasons


def _any(files: PlannedFiles, reasons: dict[str, Mask]) -> Mask:
    found = np.zeros(len(files), np.bool_)
    for chosen in reasons.values():
        found |= chosen
    return found


def _paths(files: PlannedFiles, chosen: Mask) -> frozenset[str]:
    return frozenset(files.keeping(chosen).table["file_path"].to_pylist() if chosen.any() else ())


def _budget(jvm: Jvm) -> int:
    """How many bytes of deleted positions the driver may hold."""
    found = jvm.setting(MOST_DELETES, str(_MOST_DELETES))
    if not found.strip().isdigit():
        raise InvalidInput(f"{MOST_DELETES} is a number of bytes, found {found!r}")
    return int(found)
