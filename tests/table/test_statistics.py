"""Statistics of columns in the embedded engine: what is counted, what the file says, what becomes of other files."""

import datetime
import decimal
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

import floe
from floe import Table
from floe.errors import ConflictingChange, InvalidInput, NoSuchColumn
from floe.formats.registry import default_registry
from floe.spec.codecs.theta_sketches import ThetaSketch
from floe.spec.metadata.table_metadata import PartitionStatisticsFile, StatisticsFile
from floe.table.maintenance import register_sketches


@pytest.fixture
def lake(tmp_path: Path) -> floe.Lake:
    lake = floe.connect(tmp_path / "warehouse")
    lake.create_namespace("db")
    return lake


def table_of(lake: floe.Lake, columns: str = "id bigint, k string", **options: object) -> Table:
    return lake.create_table("db.t", columns, **options)


def counts(table: Table, file: StatisticsFile | None) -> dict[str, int]:
    assert file is not None
    return {table.schema.name_of(blob.fields[0]): int(blob.properties["ndv"]) for blob in file.blob_metadata}


def rows(count: int, of: int = 3) -> list[dict[str, object]]:
    return [{"id": n, "k": f"k{n % of}"} for n in range(count)]


def test_the_file_and_what_metadata_says_of_it(lake: floe.Lake) -> None:
    table = table_of(lake)
    snapshot = table.append(rows(10))
    assert snapshot is not None
    made = table.compute_statistics()
    assert made is not None
    assert table.metadata.statistics == lake.table("db.t").metadata.statistics == (made,)
    folder, name = f"{table.location}/metadata", made.statistics_path.rpartition("/")[2]
    assert made.statistics_path == f"{folder}/{name}"
    assert name.startswith(f"{snapshot.snapshot_id}-")
    assert name.endswith(".stats")
    assert uuid.UUID(name.removeprefix(f"{snapshot.snapshot_id}-").removesuffix(".stats"))
    assert table.storage.stat(made.statistics_path).size == made.file_size_in_bytes
    reader = default_registry().read_puffin(table.storage, made.statistics_path)
    for blob, told, count in zip(reader.blobs, made.blob_metadata, (10, 3), strict=True):
        assert blob.type == told.type == "apache-datasketches-theta-v1"
        assert blob.fields == told.fields
        assert blob.snapshot_id == told.snapshot_id == made.snapshot_id == snapshot.snapshot_id
        assert blob.sequence_number == told.sequence_number == snapshot.sequence_number
        assert blob.compression_codec == "zstd"
        assert blob.properties == told.properties == {"ndv": str(count)}
        assert ThetaSketch.deserialize(reader.read(blob)).estimate == count


def test_the_folder_of_metadata_is_where_it_goes(tmp_path: Path) -> None:
    lake = floe.connect(f"sqlite:///{tmp_path}/lake.db", warehouse=str(tmp_path / "warehouse"))
    lake.create_namespace("db")
    table = table_of(lake, properties={"write.metadata.path": str(tmp_path / "elsewhere")})
    table.append(rows(1))
    made = table.compute_statistics()
    assert made is not None
    assert made.statistics_path.startswith(f"{tmp_path}/elsewhere/")


def test_many_values_are_counted_about(lake: floe.Lake) -> None:
    table = table_of(lake)
    table.append(pa.table({"id": range(100_000), "k": [f"k{n % 50_000}" for n in range(100_000)]}))
    found = counts(table, table.compute_statistics())
    assert found["id"] == pytest.approx(100_000, rel=0.05)
    assert found["k"] == pytest.approx(50_000, rel=0.05)


def test_columns_that_are_not_counted_stay_as_they_were(lake: floe.Lake) -> None:
    table = table_of(lake)
    table.append(rows(10))
    table.compute_statistics("k")
    assert counts(table, table.compute_statistics(["id"])) == {"id": 10, "k": 3}
    (only,) = table.metadata.statistics
    assert counts(table, only) == {"id": 10, "k": 3}


def puffins(table: Table) -> list[str]:
    return sorted(one.location for one in table.storage.list(table.location) if one.location.endswith(".stats"))


def named(table: Table) -> list[str]:
    return sorted(str(file.statistics_path) for file in table.metadata.statistics)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_file_that_is_replaced_goes(lake: floe.Lake, version: int) -> None:
    table = table_of(lake, format_version=version)
    table.append(rows(10))
    table.compute_statistics("k")
    table.compute_statistics("id")
    assert len(puffins(table)) == 1, "and not that of the first time"
    table.append(rows(5))
    table.compute_statistics()
    table.compute_statistics()
    assert len(puffins(table)) == 2
    table.expire(retain_last=1, older_than=datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)).apply()
    (path,) = puffins(table)
    assert path.endswith(named(table)[0].rpartition("/")[2])
    table.update_statistics(forget=[table.snapshots[-1].snapshot_id])
    assert puffins(table) == []


def test_what_may_be_needed_stays(lake: floe.Lake, tmp_path: Path) -> None:
    table = table_of(lake, format_version=3, properties={"write.delete.mode": "merge-on-read"})
    table.append(rows(10))
    table.delete("id = 1")
    tasks = list(table.scan().plan().tasks())
    vector = tasks[0].deletes[0].file_path
    outside = tmp_path / "outside.stats"
    made = table.compute_statistics("k")
    assert made is not None
    outside.write_bytes(table.storage.read(made.statistics_path))
    snapshot = table.snapshots[0].snapshot_id
    for path in (vector, tasks[0].file.file_path, str(outside)):  # which somebody has registered by mistake
        table.update_statistics([replace(made, snapshot_id=snapshot, statistics_path=path)])
    shared = [replace(made, snapshot_id=one.snapshot_id) for one in table.snapshots]
    table.update_statistics(shared)
    table.update_statistics(forget=[snapshot])
    assert table.scan().count() == 9
    assert outside.exists()
    assert table.storage.exists(made.statistics_path), "another snapshot has it too"
    part = PartitionStatisticsFile(snapshot_id=snapshot, statistics_path=tasks[0].file.file_path, file_size_in_bytes=1)
    own = f"{table.location}/metadata/partition-stats.parquet"
    table.storage.write(own, b"PAR1")
    for path in (part.statistics_path, own):
        table.update_statistics([replace(part, statistics_path=path)])
    table.update_statistics(forget_partition=[snapshot])
    assert table.scan().to_arrow().num_rows == 9
    assert not table.storage.exists(own)


def test_a_file_that_is_lost_takes_its_counts_along(lake: floe.Lake) -> None:
    table = table_of(lake)
    table.append(rows(10))
    lost = table.compute_statistics("k")
    assert lost is not None
    assert all(one.deleted for one in table.storage.delete_many([lost.statistics_path]))
    assert counts(table, table.compute_statistics(["id"])) == {"id": 10}


def test_deleted_rows_are_not_counted(lake: floe.Lake) -> None:
    for version, mode in ((2, "merge-on-read"), (3, "merge-on-read"), (2, "copy-on-write")):
        table = lake.create_table(
            f"db.v{version}_{mode.replace('-', '_')}",
            "id bigint, k string",
            format_version=version,
            properties={"write.delete.mode": mode},
        )
        table.append(rows(10))
        table.delete("id >= 4 or k = 'k2'")
        assert counts(table, table.compute_statistics()) == {"id": 3, "k": 2}


def test_a_snapshot_of_the_past(lake: floe.Lake) -> None:
    table = table_of(lake)
    first = table.append(rows(3))
    table.evolve().add_column("later", "int").commit()
    table.append([{"id": 77, "k": None, "later": 1}])
    assert first is not None
    made = table.compute_statistics(snapshot=first.snapshot_id)
    assert counts(table, made) == {"id": 3, "k": 3}
    assert counts(table, table.compute_statistics()) == {"id": 4, "k": 3, "later": 1}
    assert {file.snapshot_id for file in table.metadata.statistics} == {one.snapshot_id for one in table.snapshots}


def test_it_counts_what_others_have_committed(lake: floe.Lake) -> None:
    table = table_of(lake)
    lake.table("db.t").append(rows(5))
    assert counts(table, table.compute_statistics("id")) == {"id": 5}


def test_every_type_of_single_values(lake: floe.Lake) -> None:
    columns = {
        "a_boolean": ("boolean", [True, False, True, None]),
        "an_int": ("int", [1, 2, 1, None]),
        "a_float": ("float", [0.0, -0.0, 0.0, None]),  # other bytes, so other values, as in Java
        "a_double": ("double", [1.5, 2.5, 1.5, None]),
        "a_decimal": ("decimal(38, 2)", [decimal.Decimal("-1.00"), decimal.Decimal("1e30"), decimal.Decimal(-1), None]),
        "a_date": ("date", [datetime.date(1, 1, 1), datetime.date(2020, 1, 1), datetime.date(1, 1, 1), None]),
        "a_time": ("time", [datetime.time(1), datetime.time(2), datetime.time(1), None]),
        "a_uuid": ("uuid", [uuid.UUID(int=1), uuid.UUID(int=2), uuid.UUID(int=1), None]),
        "a_fixed": ("fixed[2]", [b"ab", b"cd", b"ab", None]),
        "a_binary": ("binary", [b"", b"cd", b"ab", None]),  # an empty value counts for nothing, as in Java
    }
    for file_format in ("parquet", "orc", "avro"):
        table = lake.create_table(
            f"db.{file_format}",
            ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items()),
            format_version=3,
            properties={"write.format.default": file_format},
        )
        table.append([{name: values[n] for name, (_, values) in columns.items()} for n in range(4)])
        assert counts(table, table.compute_statistics()) == dict.fromkeys(columns, 2)


def test_without_rows_there_is_nothing_to_count(lake: floe.Lake) -> None:
    table = table_of(lake)
    assert table.compute_statistics() is None
    table.append(rows(2))
    table.delete("true")
    assert counts(table, table.compute_statistics()) == {"id": 0, "k": 0}


def test_columns_that_cannot_be_counted(lake: floe.Lake) -> None:
    table = table_of(lake, "l list<int>, s struct<a: int>")
    with pytest.raises(InvalidInput, match="counted"):
        table.compute_statistics()
    with pytest.raises(InvalidInput, match="counted"):
        table.compute_statistics("l")
    with pytest.raises(NoSuchColumn):
        table.compute_statistics("nope")
    table.append([{"l": [1], "s": {"a": 1}}, {"l": [1], "s": None}])
    assert counts(table, table.compute_statistics("s.a")) == {"s.a": 1}


def test_a_snapshot_that_expired_meanwhile_leaves_no_file(lake: floe.Lake) -> None:
    table = table_of(lake)
    snapshot = table.append(rows(1))
    assert snapshot is not None
    table.append(rows(1))
    lake.table("db.t").expire(snapshots=[snapshot.snapshot_id]).apply()
    before = {one.location for one in table.storage.list(table.location)}
    with pytest.raises(ConflictingChange, match="expired"):
        register_sketches(table.commit_target, snapshot, {1: ThetaSketch()})
    assert {one.location for one in table.storage.list(table.location)} == before
