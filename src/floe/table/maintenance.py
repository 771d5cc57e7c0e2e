"""Statistics of a snapshot's columns: computed, written as a Puffin file, and registered (spec: Table Statistics)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from floe.arrow.reading.streaming import read_plan
from floe.arrow.sketching import ColumnSketches, counted_columns
from floe.catalog.metadata_files import metadata_folder
from floe.commit.operations.statistics import UpdateStatistics
from floe.errors import CorruptFile, InvalidInput, NoSuchFile, UnsupportedFeature
from floe.formats.registry import default_registry
from floe.plan.scan_plan import ScanPlan
from floe.spec.codecs.puffin import THETA_SKETCH, Blob
from floe.spec.codecs.theta_sketches import NDV, ThetaSketch
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.statistics import StatisticsFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.column_projection import project
from floe.spec.schemas.schema import Schema, SchemaField
from floe.storage.locations import join
from floe.storage.protocol import Storage
from floe.table.actions import Actions
from floe.table.committing import make_changes
from floe.table.scan import Scan

__all__ = ["Counting", "counting", "register_sketches", "sketches_here", "statistics_of"]

Sketches = Mapping[int, ThetaSketch]
"""Sketches by the ids of their columns."""


@dataclass(frozen=True)
class Counting:
    """What is to be counted: some columns of the rows of a snapshot."""

    snapshot: Snapshot
    columns: tuple[SchemaField, ...]
    schema: Schema
    """What is read for it."""

    plan: ScanPlan


def counting(
    scan: Scan, names: Iterable[str | Sequence[str]] | None, *, case_sensitive: bool = True
) -> Counting | None:
    """What is to be counted of the rows of a scan; None if there are none yet, `InvalidInput` if no column can be."""
    columns = counted_columns(scan.table_schema, names, case_sensitive=case_sensitive)
    if not columns:
        raise InvalidInput("there is no column whose values could be counted")
    if scan.snapshot is None:
        return None
    schema = project(scan.table_schema, {entry.field.id for entry in columns})
    return Counting(scan.snapshot, columns, schema, scan.plan())


def sketches_here(wanted: Counting, storage: Storage) -> Sketches:
    """The sketches, of rows that are read by threads of this process."""
    sketches = ColumnSketches(wanted.columns)
    for batch in read_plan(wanted.plan, wanted.schema, storage, ordered=False):
        sketches.add(batch)
    return sketches.found


def statistics_of(metadata: TableMetadata, snapshot: Snapshot | None) -> StatisticsFile | None:
    """The statistics file of a snapshot, if there is one."""
    if snapshot is None:
        return None
    return next((file for file in metadata.statistics if file.snapshot_id == snapshot.snapshot_id), None)


def register_sketches(actions: Actions, snapshot: Snapshot, sketches: Sketches) -> StatisticsFile:
    """Write sketches of a snapshot's columns to a new file, with what is known of others, and register it."""
    metadata, storage = actions.metadata, actions.storage
    name = f"{snapshot.snapshot_id}-{actions.environment.ids.uuid()}.stats"
    location = join(metadata_folder(metadata), name)
    known = statistics_of(metadata, snapshot)
    with default_registry().write_puffin(storage, location) as file:
        for field_id, sketch in sketches.items():
            file.add(_blob(snapshot, field_id, sketch))
        for blob in () if known is None else _others(storage, known, sketches):
            file.add(blob)
    made = file.close().statistics(snapshot.snapshot_id)
    make_changes(actions, [UpdateStatistics([made])], [location])
    return made


def _blob(snapshot: Snapshot, field_id: int, sketch: ThetaSketch) -> Blob:
    return Blob(
        THETA_SKETCH,
        (field_id,),
        snapshot.snapshot_id,
        snapshot.sequence_number,
        sketch.serialize(),
        "zstd",
        {NDV: str(sketch.estimate)},
    )


def _others(storage: Storage, known: StatisticsFile, sketches: Sketches) -> Iterator[Blob]:
    """What a statistics file says of other columns, or in another way; nothing if it cannot be read."""
    reader = default_registry().read_puffin(storage, known.statistics_path, file_size=known.file_size_in_bytes)
    try:
        found = [
            Blob(
                blob.type,
                blob.fields,
                blob.snapshot_id,
                blob.sequence_number,
                reader.read(blob),
                blob.compression_codec,
                blob.properties,
            )
            for blob in reader.blobs
            if blob.type != THETA_SKETCH or not set(blob.fields) <= set(sketches)
        ]
    except (CorruptFile, NoSuchFile, UnsupportedFeature):  # statistics may be lost: they are computed again
        return
    yield from found
