"""The columns of partition statistics files: every row of the spec's table, and the files that Java writes."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from floe.errors import UnsupportedFeature
from floe.spec.codecs.manifest_schemas import partition_statistics_schema
from floe.spec.partitioning.partition_spec import spec_from_json, unified_partition_type
from floe.spec.schemas.schema_json import schema_from_json
from floe.spec.types import DATE, INT, LONG, STRING, Field, StructType
from helpers.corpus import expected

PARTITION = StructType((Field(1000, "p", STRING), Field(1001, "d_day", DATE)))

# id, name, type, then v1, v2 and v3 (r: required, o: optional, -: not written)
TABLE = [
    (1, "partition", PARTITION, "rrr"),
    (2, "spec_id", INT, "rrr"),
    (3, "data_record_count", LONG, "rrr"),
    (4, "data_file_count", INT, "rrr"),
    (5, "total_data_file_size_in_bytes", LONG, "rrr"),
    (6, "position_delete_record_count", LONG, "oor"),
    (7, "position_delete_file_count", INT, "oor"),
    (13, "dv_count", INT, "--r"),
    (8, "equality_delete_record_count", LONG, "oor"),
    (9, "equality_delete_file_count", INT, "oor"),
    (10, "total_record_count", LONG, "ooo"),
    (11, "last_updated_at", LONG, "ooo"),
    (12, "last_updated_snapshot_id", LONG, "ooo"),
]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(("field_id", "name", "type_", "need"), TABLE, ids=[row[1] for row in TABLE])
def test_partition_statistics_file_fields(field_id: int, name: str, type_: Any, need: str, version: int) -> None:
    found = partition_statistics_schema(version, PARTITION).find(field_id)
    if need[version - 1] == "-":
        assert found is None
    else:
        assert found == Field(field_id, name, type_, required=need[version - 1] == "r")


def test_unknown_format_version_has_no_partition_statistics() -> None:
    with pytest.raises(UnsupportedFeature):
        partition_statistics_schema(4, PARTITION)


def test_columns_of_javas_partition_statistics_are_the_same(corpus_dir: Path) -> None:
    folder = corpus_dir / "meta_partition_stats"
    metadata = json.loads((folder / expected(corpus_dir, "meta_partition_stats")["metadata"]).read_bytes())
    schemas = [schema_from_json(s) for s in metadata["schemas"]]
    specs = [spec_from_json(s) for s in metadata["partition-specs"]]
    ours = partition_statistics_schema(metadata["format-version"], unified_partition_type(specs, schemas))
    paths = sorted(folder.glob("metadata/partition-stats-*.parquet"))
    assert paths
    for path in paths:
        theirs = pq.read_schema(path)  # type: ignore[no-untyped-call]
        assert [(f.name, int(f.metadata[b"PARQUET:field_id"]), not f.nullable) for f in theirs] == [
            (f.name, f.id, f.required) for f in ours.fields
        ]
        partition = theirs.field("partition").type
        parts = [partition.field(i) for i in range(partition.num_fields)]
        assert [(f.name, int(f.metadata[b"PARQUET:field_id"])) for f in parts] == [
            (f.name, f.id) for f in ours.fields[0].type.fields
        ]
