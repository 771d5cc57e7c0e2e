"""The Iceberg table format, versions 1 to 3: values and pure functions, no I/O.

Packages and modules, in reading order:

| name | subject |
|---|---|
| `types` | the types, and fields of structs |
| `values` | the Python values of each type: checks, conversion, text, order |
| `schemas` | schemas, their evolution, column projection, name mapping |
| `partitioning` | transforms, partition specs and their evolution |
| `sort_order` | sort orders |
| `expressions` | filters: building, binding, simplification, evaluation, text, JSON |
| `pruning` | which partitions, manifests and files a filter can skip |
| `manifests` | data files, delete files, entries and manifests; scope of deletes; row lineage |
| `metadata` | snapshots, refs, table metadata, updates, requirements, retention |
| `views` | view metadata and its updates |
| `properties`, `setting_types` | the list of table and view properties; how properties and settings are declared |
| `codecs` | single values, bounds, Avro schemas, Parquet and ORC types, Puffin, deletion vectors |
| `json_reader`, `json_records` | JSON from untrusted files, within limits; records of metadata JSON |

Importing it loads none of them: names are resolved on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe.exports import lazy_exports

if TYPE_CHECKING:
    from floe.spec.expressions.binder import bind as bind
    from floe.spec.expressions.dsl import Column as Column
    from floe.spec.expressions.expression_text import to_text as to_text
    from floe.spec.expressions.nodes import (
        FALSE as FALSE,
        TRUE as TRUE,
        And as And,
        BoundPredicate as BoundPredicate,
        BoundReference as BoundReference,
        BoundTransform as BoundTransform,
        Expression as Expression,
        Not as Not,
        Op as Op,
        Or as Or,
        Predicate as Predicate,
        Reference as Reference,
        TransformTerm as TransformTerm,
        and_ as and_,
        not_ as not_,
        or_ as or_,
    )
    from floe.spec.manifests.entries import (
        DataFile as DataFile,
        EntryStatus as EntryStatus,
        FieldSummary as FieldSummary,
        FileContent as FileContent,
        ManifestContent as ManifestContent,
        ManifestEntry as ManifestEntry,
        ManifestFile as ManifestFile,
    )
    from floe.spec.metadata.metadata_builder import apply as apply
    from floe.spec.metadata.requirements import (
        AssertCreate as AssertCreate,
        AssertCurrentSchemaId as AssertCurrentSchemaId,
        AssertDefaultSortOrderId as AssertDefaultSortOrderId,
        AssertDefaultSpecId as AssertDefaultSpecId,
        AssertLastAssignedFieldId as AssertLastAssignedFieldId,
        AssertLastAssignedPartitionId as AssertLastAssignedPartitionId,
        AssertRefSnapshotId as AssertRefSnapshotId,
        AssertTableUuid as AssertTableUuid,
        TableRequirement as TableRequirement,
    )
    from floe.spec.metadata.snapshots import Snapshot as Snapshot, SnapshotRef as SnapshotRef
    from floe.spec.metadata.table_metadata import (
        BlobMetadata as BlobMetadata,
        EncryptionKey as EncryptionKey,
        MetadataLogEntry as MetadataLogEntry,
        PartitionStatisticsFile as PartitionStatisticsFile,
        SnapshotLogEntry as SnapshotLogEntry,
        StatisticsFile as StatisticsFile,
        TableMetadata as TableMetadata,
    )
    from floe.spec.metadata.table_metadata_json import parse as parse, serialize as serialize
    from floe.spec.metadata.updates import (
        AddEncryptionKey as AddEncryptionKey,
        AddPartitionSpec as AddPartitionSpec,
        AddSchema as AddSchema,
        AddSnapshot as AddSnapshot,
        AddSortOrder as AddSortOrder,
        AssignUuid as AssignUuid,
        RemoveEncryptionKey as RemoveEncryptionKey,
        RemovePartitionSpecs as RemovePartitionSpecs,
        RemovePartitionStatistics as RemovePartitionStatistics,
        RemoveProperties as RemoveProperties,
        RemoveSchemas as RemoveSchemas,
        RemoveSnapshotRef as RemoveSnapshotRef,
        RemoveSnapshots as RemoveSnapshots,
        RemoveStatistics as RemoveStatistics,
        SetCurrentSchema as SetCurrentSchema,
        SetDefaultSortOrder as SetDefaultSortOrder,
        SetDefaultSpec as SetDefaultSpec,
        SetLocation as SetLocation,
        SetPartitionStatistics as SetPartitionStatistics,
        SetProperties as SetProperties,
        SetSnapshotRef as SetSnapshotRef,
        SetStatistics as SetStatistics,
        TableUpdate as TableUpdate,
        UpgradeFormatVersion as UpgradeFormatVersion,
    )
    from floe.spec.partitioning.partition_spec import (
        UNPARTITIONED as UNPARTITIONED,
        PartitionField as PartitionField,
        PartitionSpec as PartitionSpec,
    )
    from floe.spec.partitioning.transforms import (
        Bucket as Bucket,
        Day as Day,
        Hour as Hour,
        Identity as Identity,
        Month as Month,
        Transform as Transform,
        Truncate as Truncate,
        Void as Void,
        Year as Year,
        parse_transform as parse_transform,
    )
    from floe.spec.schemas.name_mapping import MappedField as MappedField, NameMapping as NameMapping
    from floe.spec.schemas.schema import Schema as Schema, SchemaField as SchemaField
    from floe.spec.sort_order import (
        UNSORTED as UNSORTED,
        NullOrder as NullOrder,
        SortDirection as SortDirection,
        SortField as SortField,
        SortOrder as SortOrder,
    )
    from floe.spec.types import (
        BINARY as BINARY,
        BOOLEAN as BOOLEAN,
        DATE as DATE,
        DOUBLE as DOUBLE,
        FLOAT as FLOAT,
        INT as INT,
        LONG as LONG,
        STRING as STRING,
        TIME as TIME,
        TIMESTAMP as TIMESTAMP,
        TIMESTAMP_NS as TIMESTAMP_NS,
        TIMESTAMPTZ as TIMESTAMPTZ,
        TIMESTAMPTZ_NS as TIMESTAMPTZ_NS,
        UNKNOWN as UNKNOWN,
        UUID as UUID,
        VARIANT as VARIANT,
        DecimalType as DecimalType,
        Field as Field,
        FixedType as FixedType,
        GeographyType as GeographyType,
        GeometryType as GeometryType,
        ListType as ListType,
        MapType as MapType,
        PrimitiveType as PrimitiveType,
        StructType as StructType,
        Type as Type,
        parse_type as parse_type,
    )
    from floe.spec.views.view_metadata import (
        OtherRepresentation as OtherRepresentation,
        SqlRepresentation as SqlRepresentation,
        ViewHistoryEntry as ViewHistoryEntry,
        ViewMetadata as ViewMetadata,
        ViewVersion as ViewVersion,
        parse_view as parse_view,
        serialize_view as serialize_view,
    )

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "floe.spec.types": """
            BINARY BOOLEAN DATE DOUBLE FLOAT INT LONG STRING TIME TIMESTAMP TIMESTAMPTZ
            TIMESTAMPTZ_NS TIMESTAMP_NS UNKNOWN UUID VARIANT DecimalType Field FixedType
            GeographyType GeometryType ListType MapType PrimitiveType StructType Type parse_type
        """,
        "floe.spec.schemas.schema": "Schema SchemaField",
        "floe.spec.schemas.name_mapping": "MappedField NameMapping",
        "floe.spec.partitioning.transforms": """
            Bucket Day Hour Identity Month Transform Truncate Void Year parse_transform
        """,
        "floe.spec.partitioning.partition_spec": "PartitionField PartitionSpec UNPARTITIONED",
        "floe.spec.sort_order": "NullOrder SortDirection SortField SortOrder UNSORTED",
        "floe.spec.expressions.nodes": """
            And BoundPredicate BoundReference BoundTransform Expression FALSE Not Op Or Predicate
            Reference TRUE TransformTerm and_ not_ or_
        """,
        "floe.spec.expressions.binder": "bind",
        "floe.spec.expressions.expression_text": "to_text",
        "floe.spec.expressions.dsl": "Column",
        "floe.spec.manifests.entries": """
            DataFile EntryStatus FieldSummary FileContent ManifestContent ManifestEntry ManifestFile
        """,
        "floe.spec.metadata.snapshots": "Snapshot SnapshotRef",
        "floe.spec.metadata.table_metadata": """
            BlobMetadata EncryptionKey MetadataLogEntry PartitionStatisticsFile SnapshotLogEntry
            StatisticsFile TableMetadata
        """,
        "floe.spec.metadata.table_metadata_json": "parse serialize",
        "floe.spec.metadata.updates": """
            AddEncryptionKey AddPartitionSpec AddSchema AddSnapshot AddSortOrder AssignUuid
            RemoveEncryptionKey RemovePartitionSpecs RemovePartitionStatistics RemoveProperties
            RemoveSchemas RemoveSnapshotRef RemoveSnapshots RemoveStatistics SetCurrentSchema
            SetDefaultSortOrder SetDefaultSpec SetLocation SetPartitionStatistics SetProperties
            SetSnapshotRef SetStatistics TableUpdate UpgradeFormatVersion
        """,
        "floe.spec.metadata.requirements": """
            AssertCreate AssertCurrentSchemaId AssertDefaultSortOrderId AssertDefaultSpecId
            AssertLastAssignedFieldId AssertLastAssignedPartitionId AssertRefSnapshotId
            AssertTableUuid TableRequirement
        """,
        "floe.spec.metadata.metadata_builder": "apply",
        "floe.spec.views.view_metadata": """
            OtherRepresentation SqlRepresentation ViewHistoryEntry ViewMetadata ViewVersion
            parse_view serialize_view
        """,
    },
)
