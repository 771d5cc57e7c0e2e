"""A whole Iceberg engine in one file: what `floe.spec` leaves to do is opening files.

Data is Parquet (pyarrow), manifests are Avro (fastavro, by the schemas that `floe.spec` gives), the catalog is a folder
with `v<N>.metadata.json`. It appends, deletes rows by deletion vectors and scans with pruning, and whatever it writes
every Iceberg engine reads. It is an example, not the product: one writer at a time, flat schemas of common types.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from floe.arrow.filters import filter_mask
from floe.arrow.transforms import apply as transform_array
from floe.spec import values
from floe.spec.codecs import deletion_vectors, puffin, single_value
from floe.spec.codecs.manifest_schemas import (
    DEFAULT_BLOCK_SIZE,
    manifest_entry_schema,
    manifest_entry_type,
    manifest_file_type,
    manifest_list_metadata,
    manifest_list_schema,
    manifest_metadata,
)
from floe.spec.expressions.binding import bind
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.expressions.parser import parse_filter
from floe.spec.expressions.rows import compile_tuple_filter
from floe.spec.manifests.entries import (
    DataFile,
    EntryStatus,
    FieldSummary,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    inherit,
)
from floe.spec.manifests.row_lineage import assign_first_row_ids
from floe.spec.manifests.summary import summarize_manifest
from floe.spec.metadata.apply import apply
from floe.spec.metadata.creation import new_table_metadata
from floe.spec.metadata.refs import SnapshotRef
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.summaries import with_totals
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import parse, serialize
from floe.spec.metadata.updates import AddSnapshot, SetSnapshotRef, TableUpdate
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.partitioning.paths import partition_path
from floe.spec.pruning.metrics_filter import might_match
from floe.spec.pruning.projection import inclusive, partition_schema
from floe.spec.schemas.schema import Schema
from floe.spec.sorting import UNSORTED
from floe.spec.types import DecimalType, Field, StructType, Type

ARROW_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
}


@dataclass
class Clock:
    """Time that the caller moves, so that a run can be told again to the letter."""

    now_ms: int = 1_767_225_600_000

    def tick(self) -> int:
        """A minute later."""
        self.now_ms += 60_000
        return self.now_ms


class TinyTable:
    """A table in a folder."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder = folder
        self.clock = clock

    @classmethod
    def create(cls, folder: Path, clock: Clock, schema: Schema, spec: PartitionSpec, **options: Any) -> TinyTable:
        """Make the folder and the first metadata file."""
        for part in ("metadata", "data"):
            (folder / part).mkdir(parents=True)
        table = cls(folder, clock)
        table._publish(
            new_table_metadata(
                schema, spec, UNSORTED, location=str(folder), uuid=str(uuid.uuid4()), now_ms=clock.now_ms, **options
            ),
            version=1,
        )
        return table

    # metadata ------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The number of the current metadata file."""
        return int((self.folder / "metadata" / "version-hint.text").read_text())

    @property
    def metadata_file(self) -> Path:
        """The current metadata file."""
        return self.folder / "metadata" / f"v{self.version}.metadata.json"

    @property
    def metadata(self) -> TableMetadata:
        """The current state of the table."""
        return parse(self.metadata_file.read_bytes())

    def update(self, *updates: TableUpdate) -> TableMetadata:
        """Apply updates and publish the result."""
        version, before = self.version, self.metadata
        after = apply(before, updates, now_ms=self.clock.tick(), metadata_location=str(self.metadata_file))
        self._publish(after, version + 1)
        return after

    def _publish(self, metadata: TableMetadata, version: int) -> None:
        with (self.folder / "metadata" / f"v{version}.metadata.json").open("xb") as file:  # fails when it is there
            file.write(serialize(metadata))
        (self.folder / "metadata" / "version-hint.text").write_text(str(version))

    # writing -------------------------------------------------------------------------------------------------

    def append(self, rows: pa.Table, branch: str = "main") -> Snapshot:
        """Write rows as one file for each partition and commit them."""
        metadata = self.metadata
        schema, spec = metadata.schema, metadata.spec
        check_names(rows, schema)
        files = [self._write_data(part, values_, metadata) for values_, part in split(rows, schema, spec)]
        counts = {
            "added-data-files": str(len(files)),
            "added-records": str(sum(f.record_count for f in files)),
            "added-files-size": str(sum(f.file_size_in_bytes for f in files)),
        }
        return self._commit({"operation": "append", **counts}, files, branch)

    def delete(self, where: str) -> Snapshot:
        """Delete the rows that a filter selects, by deletion vectors (format version 3; each file once)."""
        metadata = self.metadata
        vectors, blobs = [], []
        for entry, bound in self._files(metadata, metadata.current_snapshot, parse_filter(where)):
            if entry.data_file.is_data:
                mask = filter_mask(bound, read_file(entry.data_file.file_path, metadata.schema))
                positions = pc.indices_nonzero(mask).to_pylist()
                if positions:
                    blobs.append(deletion_vectors.blob_of(positions, entry.data_file.file_path))
                    vectors.append((entry.data_file, len(positions)))
        written = puffin.write_file(blobs, {"created-by": "floe tiny engine"})
        path = self.folder / "data" / f"{uuid.uuid4()}-deletes.puffin"
        path.write_bytes(written.data)
        files = [
            DataFile(
                FileContent.POSITION_DELETES,
                str(path),
                "puffin",
                target.partition,
                count,
                len(written.data),
                referenced_data_file=target.file_path,
                content_offset=blob.offset,
                content_size_in_bytes=blob.length,
                spec_id=target.spec_id,
            )
            for (target, count), blob in zip(vectors, written.payload.blobs, strict=True)
        ]
        total = str(sum(count for _, count in vectors))
        counts = {"added-delete-files": str(len(files)), "added-dvs": str(len(files)), "added-position-deletes": total}
        return self._commit({"operation": "delete", **counts}, files, "main")

    def _write_data(self, rows: pa.Table, partition: tuple[Any, ...], metadata: TableMetadata) -> DataFile:
        folder = self.folder / "data" / partition_path(metadata.spec, metadata.schema, partition)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{uuid.uuid4()}.parquet"
        pq.write_table(rows.cast(arrow_schema(metadata.schema)), path, compression="zstd")
        return DataFile(
            FileContent.DATA,
            str(path),
            "parquet",
            partition,
            rows.num_rows,
            path.stat().st_size,
            **metrics(rows, metadata.schema),
            spec_id=metadata.default_spec_id,
        )

    def _commit(self, summary: dict[str, str], files: Sequence[DataFile], branch: str) -> Snapshot:
        """One new manifest, the manifests that were there before, a manifest list, a snapshot, the metadata."""
        metadata = self.metadata
        parent = metadata.snapshot_of_ref(branch) if branch in metadata.refs else None
        snapshot_id = uuid.uuid4().int & (2**63 - 1)
        sequence_number = metadata.next_sequence_number
        new = self._write_manifest(files, metadata, snapshot_id, sequence_number)
        manifests: tuple[ManifestFile, ...] = (new, *self._manifests(parent))
        first_row_id = metadata.next_row_id if metadata.format_version >= 3 else None
        added_rows = None
        if first_row_id is not None:
            manifests, next_row_id = assign_first_row_ids(manifests, first_row_id)
            added_rows = next_row_id - first_row_id
        path = self.folder / "metadata" / f"snap-{snapshot_id}-1-{uuid.uuid4()}.avro"
        version = metadata.format_version
        write_avro(
            path,
            manifest_list_schema(version),
            [manifest_record(m, version) for m in manifests],
            manifest_list_metadata(
                version,
                snapshot_id=snapshot_id,
                parent_snapshot_id=parent.snapshot_id if parent else None,
                sequence_number=sequence_number,
                first_row_id=first_row_id,
            ),
        )
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=parent.snapshot_id if parent else None,
            sequence_number=sequence_number,
            timestamp_ms=self.clock.tick(),
            manifest_list=str(path),
            summary=with_totals(summary, parent.summary if parent else None),
            schema_id=metadata.current_schema_id,
            first_row_id=first_row_id,
            added_rows=added_rows,
        )
        self.update(AddSnapshot(snapshot), SetSnapshotRef(branch, SnapshotRef(snapshot_id=snapshot_id, type="branch")))
        return snapshot

    def _write_manifest(
        self, files: Sequence[DataFile], metadata: TableMetadata, snapshot_id: int, sequence_number: int
    ) -> ManifestFile:
        partition_type = metadata.spec.partition_type(metadata.schema)
        content = ManifestContent.DATA if files[0].is_data else ManifestContent.DELETES
        entries = [ManifestEntry(EntryStatus.ADDED, snapshot_id, None, None, file) for file in files]
        path = self.folder / "metadata" / f"{uuid.uuid4()}-m0.avro"
        version = metadata.format_version
        write_avro(
            path,
            manifest_entry_schema(version, partition_type),
            [entry_record(entry, version, partition_type) for entry in entries],
            manifest_metadata(metadata.schema, metadata.spec, version, content),
        )
        return summarize_manifest(entries, partition_type).manifest_file(
            str(path),
            path.stat().st_size,
            spec_id=metadata.default_spec_id,
            content=content,
            snapshot_id=snapshot_id,
            sequence_number=sequence_number,
        )

    # reading -------------------------------------------------------------------------------------------------

    def scan(self, where: str | None = None, snapshot: int | None = None, columns: Sequence[str] = ()) -> Scan:
        """The rows of a snapshot (the current one by default) that a filter selects."""
        metadata = self.metadata
        chosen = metadata.snapshot(snapshot) if snapshot else metadata.current_snapshot
        schema = metadata.schema_for(chosen) if snapshot and chosen else metadata.schema
        wanted = parse_filter(where) if where else TRUE
        bound = bind(wanted, schema)
        found = list(self._files(metadata, chosen, wanted, schema))
        total = sum(e.data_file.is_data for e, _ in self._files(metadata, chosen, TRUE, schema))
        vectors = {e.data_file.referenced_data_file: e.data_file for e, _ in found if not e.data_file.is_data}
        data = [e.data_file for e, _ in found if e.data_file.is_data]
        parts = [read_live(file, schema, vectors.get(file.file_path), bound) for file in data]
        rows = pa.concat_tables(parts) if parts else arrow_schema(schema).empty_table()
        return Scan(rows.select(columns) if columns else rows, len(data), total)

    def _files(
        self, metadata: TableMetadata, snapshot: Snapshot | None, where: Expression, schema: Schema | None = None
    ) -> Iterator[tuple[ManifestEntry, Expression]]:
        """The live files that may hold rows of a filter, and all deletion vectors."""
        schema = schema or metadata.schema
        bound = bind(where, schema)
        for manifest in self._manifests(snapshot):
            spec = metadata.spec_by_id(manifest.partition_spec_id)
            partition_type = spec.partition_type(schema, metadata.schemas)
            may_hold = compile_tuple_filter(inclusive(bound, spec, schema), partition_schema(spec, schema))
            for record in read_avro(Path(manifest.manifest_path)):
                entry = inherit(entry_of(record, spec, partition_type), manifest)
                file = entry.data_file
                wanted = not file.is_data or (may_hold(file.partition) and might_match(bound, file))
                if entry.is_live and wanted:
                    yield entry, bound

    def _manifests(self, snapshot: Snapshot | None) -> tuple[ManifestFile, ...]:
        if snapshot is None or snapshot.manifest_list is None:
            return ()
        return tuple(manifest_of(record) for record in read_avro(Path(snapshot.manifest_list)))


@dataclass(frozen=True)
class Scan:
    """What a scan found, and how many of the snapshot's files it had to read."""

    rows: pa.Table
    files_read: int
    files_total: int


# rows -----------------------------------------------------------------------------------------------------------


def arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type of one of the types that this example knows."""
    if isinstance(type_, DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    return ARROW_TYPES[type_.kind]


def arrow_schema(schema: Schema) -> pa.Schema:
    """Arrow's schema, with the field ids that Parquet files must carry."""
    return pa.schema(
        pa.field(f.name, arrow_type(f.type), not f.required, {"PARQUET:field_id": str(f.id)}) for f in schema
    )


def check_names(rows: pa.Table, schema: Schema) -> None:
    """Raise unless the columns are just those of the schema, in order."""
    wanted = [f.name for f in schema]
    if rows.column_names != wanted:
        raise ValueError(f"the table's columns are {wanted}, the data's are {rows.column_names}")


def split(rows: pa.Table, schema: Schema, spec: PartitionSpec) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """The rows of each partition, with its partition tuple."""
    if spec.is_unpartitioned:
        yield (), rows
        return
    keys = []
    for field in spec.fields:
        source = schema.entry(field.source_id).field
        column = rows[source.name].cast(arrow_type(source.type))
        keys.append(transform_array(field.transform, source.type, column))
    names = [f"key{n}" for n in range(len(keys))]
    keyed = pa.table([*keys, pa.array(range(rows.num_rows))], [*names, "row"])
    types = [f.type for f in spec.partition_type(schema)]
    for group in keyed.group_by(names).aggregate([("row", "list")]).to_pylist():
        tuple_ = tuple(values.convert(t, group[name]) for t, name in zip(types, names, strict=True))
        yield tuple_, rows.take(group["row_list"])


def metrics(rows: pa.Table, schema: Schema) -> dict[str, Any]:
    """Counts and bounds of each column."""
    lower, upper, counts, nulls = {}, {}, {}, {}
    for field in schema:
        column = rows[field.name]
        counts[field.id], nulls[field.id] = len(column), column.null_count
        low, high = pc.min_max(column).as_py().values()
        if low is not None:
            lower[field.id] = single_value.encode(field.type, values.convert(field.type, low))
            upper[field.id] = single_value.encode(field.type, values.convert(field.type, high))
    return {"value_counts": counts, "null_value_counts": nulls, "lower_bounds": lower, "upper_bounds": upper}


def read_file(path: str, schema: Schema) -> pa.Table:
    """A data file under a schema: columns are found by field id, so renames and later columns are right."""
    stored = pq.ParquetFile(path).read()
    by_id = {int(f.metadata[b"PARQUET:field_id"]): f.name for f in stored.schema if f.metadata}
    columns = [
        stored[by_id[f.id]].cast(arrow_type(f.type)) if f.id in by_id else missing(f, stored.num_rows) for f in schema
    ]
    return pa.table(columns, schema=arrow_schema(schema))


def missing(field: Field, count: int) -> pa.Array:
    """A column that a file does not have: its initial default, or null."""
    return pa.array([field.initial_default] * count, arrow_type(field.type))


def read_live(file: DataFile, schema: Schema, vector: DataFile | None, bound: Expression) -> pa.Table:
    """The rows of a file that are not deleted and pass the filter."""
    rows = read_file(file.file_path, schema)
    mask = filter_mask(bound, rows)
    if vector is not None:
        assert vector.content_offset is not None
        assert vector.content_size_in_bytes is not None
        blob = Path(vector.file_path).read_bytes()[vector.content_offset :][: vector.content_size_in_bytes]
        dead = deletion_vectors.deserialize(blob, cardinality=vector.record_count, row_count=rows.num_rows)
        mask = pc.and_(mask, pa.array(position not in dead for position in range(rows.num_rows)))
    return rows.filter(mask)


# Avro records <-> values ----------------------------------------------------------------------------------------


def write_avro(path: Path, schema: dict[str, Any], records: list[dict[str, Any]], metadata: dict[str, str]) -> None:
    """An Avro file, as other engines write them."""
    with path.open("xb") as file:
        fastavro.writer(file, schema, records, codec="deflate", metadata=metadata)


def read_avro(path: Path) -> list[dict[str, Any]]:
    """The records of an Avro file."""
    with path.open("rb") as file:
        return list(fastavro.reader(file))  # type: ignore[arg-type]


def record_of(value: Any, type_: StructType) -> dict[str, Any]:
    """The fields of a value that a struct has, as a record."""
    return {f.name: getattr(value, f.name, None) for f in type_}


def pairs(mapping: dict[int, Any] | None) -> list[dict[str, Any]] | None:
    """A map with integer keys, which Avro stores as an array of pairs."""
    return None if mapping is None else [{"key": k, "value": v} for k, v in sorted(mapping.items())]


METRIC_MAPS = (
    "column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds",
)  # fmt: skip


def entry_record(entry: ManifestEntry, version: int, partition_type: StructType) -> dict[str, Any]:
    """A manifest entry as an Avro record."""
    type_ = manifest_entry_type(version, partition_type)
    file = record_of(entry.data_file, type_.fields[-1].type)  # type: ignore[arg-type]
    file |= {name: pairs(file[name]) for name in METRIC_MAPS}
    file["partition"] = dict(zip((f.name for f in partition_type), entry.data_file.partition, strict=True))
    file["file_format"] = entry.data_file.file_format.upper()
    if version == 1:
        file["block_size_in_bytes"] = DEFAULT_BLOCK_SIZE
    return record_of(entry, type_) | {"data_file": file}


def entry_of(record: dict[str, Any], spec: PartitionSpec, partition_type: StructType) -> ManifestEntry:
    """The manifest entry that an Avro record holds."""
    file = dict(record["data_file"])
    file.pop("block_size_in_bytes", None)
    for name in METRIC_MAPS:
        if file.get(name) is not None:
            file[name] = {pair["key"]: pair["value"] for pair in file[name]}
    stored = file.pop("partition")
    file["partition"] = tuple(values.convert(f.type, stored[f.name]) for f in partition_type)
    file["file_format"] = file["file_format"].lower()
    file["content"] = FileContent(file.get("content", 0))
    return ManifestEntry(
        EntryStatus(record["status"]),
        record["snapshot_id"],
        record.get("sequence_number"),
        record.get("file_sequence_number"),
        DataFile(**file, spec_id=spec.spec_id),
    )


def manifest_record(manifest: ManifestFile, version: int) -> dict[str, Any]:
    """A row of a manifest list as an Avro record."""
    record = record_of(manifest, manifest_file_type(version))
    if manifest.partitions is not None:
        record["partitions"] = [
            {name: getattr(s, name) for name in ("contains_null", "contains_nan", "lower_bound", "upper_bound")}
            for s in manifest.partitions
        ]
    return record


def manifest_of(record: dict[str, Any]) -> ManifestFile:
    """The manifest that an Avro record describes."""
    fields = dict(record)
    if fields["partitions"] is not None:
        fields["partitions"] = tuple(FieldSummary(**summary) for summary in fields["partitions"])
    fields["content"] = ManifestContent(fields.get("content", 0))
    return ManifestFile(**fields)
