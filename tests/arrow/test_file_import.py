"""Import of existing files: metrics, name mappings, partitions, and the files that are rejected."""

import datetime as dt
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from floe.arrow.file_import import import_files, list_data_files
from floe.errors import CorruptFile, FloeError, InvalidInput, InvalidSchema, InvalidValue
from floe.formats.writers.write_target import WriteTarget
from floe.spec.codecs.single_value import decode
from floe.spec.schemas.name_mapping import format_name_mapping
from floe.spec.schemas.schema import Schema
from floe.spec.types import DATE, DOUBLE, LONG, STRING, TIMESTAMP, DecimalType, Field, StructType
from floe.storage.local import LocalStorage
from helpers.written_rows import target_of

SCHEMA = Schema(
    (
        Field(1, "id", LONG),
        Field(2, "day", DATE),
        Field(3, "note", STRING),
        Field(4, "x", DOUBLE),
        Field(5, "amount", DecimalType(9, 2)),
        Field(6, "at", TIMESTAMP),
        Field(7, "in", StructType((Field(8, "n", LONG),))),
    )
)
DAY = dt.date(2024, 2, 29)


def write_file(target: WriteTarget, name: str, data: pa.Table, **options: Any) -> str:
    sink = io.BytesIO()
    if name.endswith(".orc"):
        orc.write_table(data, sink)
    else:
        pq.write_table(data, sink, **options)
    target.storage.write(f"memory:in/{name}", sink.getvalue())
    return f"memory:in/{name}"


def rows(**columns: Any) -> pa.Table:
    return pa.table({"id": [1, 2], "note": ["b", None], **columns})


def test_metrics_come_from_the_footer() -> None:
    target = target_of(SCHEMA)
    data = pa.table(
        {
            "id": pa.array(range(10), pa.int32()),
            "note": ["a" * 30] * 9 + [None],
            "x": [0.0, float("nan"), *range(8)],
            "amount": [Decimal("1.50")] * 10,
            "at": pa.array([DAY] * 10).cast(pa.timestamp("ms")),
            "in": [{"n": n} for n in range(10)],
        }
    )
    (file,) = import_files(target, [write_file(target, "a.parquet", data, row_group_size=4)]).files
    assert (file.record_count, file.file_format) == (10, "parquet")
    assert file.file_size_in_bytes == target.storage.stat(file.file_path).size
    assert len(file.split_offsets or ()) == 3
    assert file.null_value_counts == {1: 0, 3: 1, 4: 0, 5: 0, 6: 0, 8: 0}
    assert file.nan_value_counts is None, "a footer does not count them"
    lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
    assert (decode(LONG, lower[1]), decode(LONG, upper[1])) == (0, 9)
    assert (lower[3], upper[3]) == (b"a" * 16, b"a" * 15 + b"b")
    assert (decode(DecimalType(9, 2), lower[5]), decode(LONG, upper[8])) == (Decimal("1.50"), 9)
    assert decode(TIMESTAMP, lower[6]) == (DAY - dt.date(1970, 1, 1)).days * 86_400_000_000
    assert 4 not in lower or decode(DOUBLE, lower[4]) == 0
    assert set(file.column_sizes or {}) == {1, 3, 4, 5, 6, 8}


def test_files_of_other_formats_are_read_for_their_metrics() -> None:
    target = target_of(SCHEMA)
    (file,) = import_files(target, [write_file(target, "a.orc", rows())]).files
    assert (file.file_format, file.record_count, file.null_value_counts) == ("orc", 2, {1: 0, 3: 1})
    assert (file.lower_bounds or {})[3] == b"b"


def test_a_name_mapping_is_needed_where_there_are_no_ids() -> None:
    target = target_of(SCHEMA)
    imported = import_files(target, [write_file(target, "a.parquet", rows())])
    assert imported.name_mapping is not None
    properties = {"schema.name-mapping.default": format_name_mapping(imported.name_mapping)}
    again = target_of(SCHEMA, properties=properties, storage=target.storage)
    assert import_files(again, ["memory:in/a.parquet"]).name_mapping is None
    with_ids = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    location = write_file(target, "b.parquet", pa.table({"id": [1]}, schema=with_ids))
    assert import_files(target, [location]).name_mapping is None


# partitions -----------------------------------------------------------------------------------------------------------


def partition_of(target: WriteTarget, name: str, data: pa.Table, **options: Any) -> tuple[Any, ...]:
    (file,) = import_files(target, [write_file(target, name, data)], **options).files
    return file.partition


DAYS = (DAY - dt.date(1970, 1, 1)).days


def test_partitions_from_folders_of_hive_tables() -> None:
    target = target_of(SCHEMA, partition_by=["day", "note"])
    data = pa.table({"id": [1]})
    assert partition_of(target, "day=2024-02-29/note=a%20b/f.parquet", data) == (DAYS, "a b")
    null = "day=__HIVE_DEFAULT_PARTITION__/note=x/f.parquet"
    assert partition_of(target, null, data) == (None, "x")


def test_partitions_from_the_caller() -> None:
    target = target_of(SCHEMA, partition_by=["day", "bucket(4, id)"])
    data = pa.table({"note": ["a"]})
    assert partition_of(target, "f.parquet", data, partition={"day": "2024-02-29", "id_bucket": 3}) == (DAYS, 3)
    with pytest.raises(InvalidValue, match="'soon' is not a value of type date"):
        partition_of(target, "g.parquet", data, partition={"day": "soon", "id_bucket": 3})


def test_a_value_for_what_is_no_partition_field_is_refused() -> None:
    target = target_of(SCHEMA, partition_by=["id"])
    with pytest.raises(InvalidInput, match=r"not partitioned by 'idd'; its partition fields are id$"):
        partition_of(target, "f.parquet", rows(), partition={"idd": 3})
    with pytest.raises(InvalidInput, match="it has no partitions"):
        partition_of(target_of(SCHEMA), "f.parquet", rows(), partition={"id": 3})


@pytest.mark.parametrize(
    ("term", "columns", "expected"),
    [
        ("id", {"id": [7, 7]}, 7),
        ("day", {"day": [DAY, DAY]}, DAYS),
        ("day", {"day": pa.array([None, None], pa.date32())}, None),
        ("month(day)", {"day": [DAY, DAY - dt.timedelta(10)]}, 54 * 12 + 1),
        ("truncate(10, id)", {"id": [11, 19]}, 10),
        ("bucket(8, id)", {"id": [34, 34]}, None),
        ("note", {"note": ["a", "a"]}, "a"),
        ("truncate(1, note)", {"note": ["ab", "ac"]}, "a"),
        ("amount", {"amount": pa.array([Decimal("1.5")] * 2, pa.decimal128(9, 2))}, Decimal("1.50")),
        ("x", {"x": [0.5, 0.5]}, 0.5),
        ("bucket(4, in.n)", {"in": [{"n": 1}, {"n": 1}]}, None),
    ],
)
@pytest.mark.parametrize("ending", ["parquet", "orc"])
def test_partitions_from_rows(term: str, columns: dict[str, Any], expected: Any, ending: str) -> None:
    target = target_of(SCHEMA, partition_by=[term])
    partition = partition_of(target, f"f.{ending}", pa.table(columns))
    if "bucket" in term:  # by the transform of one value
        field = target.spec.fields[0]
        value = 34 if term == "bucket(8, id)" else 1
        expected = field.transform.bind(LONG)(value)
    assert partition == (expected,)


@pytest.mark.parametrize(
    ("term", "columns"),
    [
        ("id", {"id": [1, 2]}),
        ("id", {"id": [1, None]}),
        ("day(at)", {"at": pa.array([0, 86_400_000_000], pa.timestamp("us"))}),
        ("bucket(8, id)", {"id": [1, 2, 3, 4]}),
        ("note", {"note": ["a", "b"]}),
    ],
)
def test_rows_of_several_partitions_are_refused(term: str, columns: dict[str, Any]) -> None:
    target = target_of(SCHEMA, partition_by=[term])
    with pytest.raises(InvalidValue, match=r"the file has rows of several partitions.*file: memory:in/f.parquet"):
        partition_of(target, "f.parquet", pa.table(columns))


def test_folders_that_say_something_else_than_the_rows() -> None:
    target = target_of(SCHEMA, partition_by=["id"])
    with pytest.raises(InvalidValue, match=r"have 7 for the partition field id, but .* says 8"):
        partition_of(target, "id=8/f.parquet", pa.table({"id": [7]}))


def test_a_partition_column_without_a_value() -> None:
    target = target_of(SCHEMA, partition_by=["day"])
    assert partition_of(target, "f.parquet", pa.table({"id": [1]})) == (None,)


# what does not fit ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "error", "why"),
    [
        ({"id": ["a"]}, InvalidSchema, "the file stores string, which cannot be read as long.*column: id"),
        ({"id": [1], "more": [1]}, InvalidSchema, "a column that the table does not have.*column: more"),
        ({"day": pa.array([0], pa.timestamp("us"))}, InvalidSchema, "cannot be read as date"),
        ({"in": [1]}, InvalidSchema, "cannot be read as struct"),
    ],
)
def test_columns_that_do_not_fit(columns: dict[str, Any], error: type[FloeError], why: str) -> None:
    target = target_of(SCHEMA)
    location = write_file(target, "f.parquet", pa.table(columns))
    with pytest.raises(error, match=why):
        import_files(target, [location])


def test_extra_columns_can_be_allowed() -> None:
    target = target_of(SCHEMA)
    location = write_file(target, "f.parquet", pa.table({"id": [1], "more": [1]}))
    (file,) = import_files(target, [location], allow_extra_columns=True).files
    assert set(file.value_counts or {}) == {1}


def test_a_required_column_that_is_missing() -> None:
    target = target_of(Schema((Field(1, "id", LONG, required=True), Field(2, "note", STRING))))
    with pytest.raises(InvalidSchema, match="no column for the required field 'id'"):
        import_files(target, [write_file(target, "f.parquet", pa.table({"note": ["a"]}))])


def test_ids_of_another_table_are_refused() -> None:
    target = target_of(SCHEMA)
    strange = pa.schema([pa.field("note", pa.string(), metadata={"PARQUET:field_id": "1"})])
    location = write_file(target, "f.parquet", pa.table({"note": ["a"]}, schema=strange))
    with pytest.raises(InvalidSchema, match="field ids of another table: its column 'note' has id 1, which is 'id'"):
        import_files(target, [location])


@pytest.mark.parametrize("ending", ["parquet", "orc", "avro"])
def test_files_that_are_broken(ending: str) -> None:
    target = target_of(SCHEMA)
    target.storage.write(f"memory:in/f.{ending}", b"nonsense" * 10)
    with pytest.raises(CorruptFile, match=f"file: memory:in/f.{ending}"):
        import_files(target, [f"memory:in/f.{ending}"])


def test_formats_are_detected_by_name_or_by_first_bytes() -> None:
    target = target_of(SCHEMA)
    location = write_file(target, "f.parquet", rows())
    target.storage.write("memory:in/noname", target.storage.read(location))
    (file,) = import_files(target, ["memory:in/noname"]).files
    assert file.file_format == "parquet"
    target.storage.write("memory:in/text", b"id,note\n1,a\n")
    with pytest.raises(InvalidInput, match=r"neither the name nor the first bytes .*Parquet, ORC or Avro"):
        import_files(target, ["memory:in/text"])


def test_locations() -> None:
    target = target_of(SCHEMA)
    for name in ("day=1/a.parquet", "day=2/b.orc", "_hidden/c.parquet", ".d.parquet", "readme.txt"):
        target.storage.write(f"memory:in/{name}", b"")
    below = ["memory:in/day=1/a.parquet", "memory:in/day=2/b.orc"]
    assert list_data_files(target, ["memory:in"]) == below
    assert list_data_files(target, ["memory:in/day=2/b.orc", "memory:in/"]) == below[::-1]
    with pytest.raises(InvalidInput, match=r"no data file at this location .*memory:out"):
        list_data_files(target, ["memory:out"])
    with pytest.raises(InvalidInput, match="a location must be text, found 7"):
        list_data_files(target, [7])  # type: ignore[list-item]
    assert list_data_files(target, ["memory:in/day=2/b.orc", "memory:/in/day=2/b.orc", "memory://in"]) == [
        "memory:in/day=2/b.orc",
        "memory://in/day=1/a.parquet",
    ], "a file is there once, however it is spelled"


def test_folders_above_the_one_that_is_named_hide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ".cache" / "in"
    folder.mkdir(parents=True)
    (folder / "a.parquet").write_bytes(b"")
    monkeypatch.chdir(folder.parent)
    target = WriteTarget(None, LocalStorage(), None, None)  # type: ignore[arg-type]
    assert list_data_files(target, ["in"]) == [f"{folder}/a.parquet"]
    assert list_data_files(target, [f"{tmp_path}/x/../.cache/in"]) == [f"{folder}/a.parquet"]


def test_bounds_that_lie_about_zeros_and_nan() -> None:
    target = target_of(SCHEMA)
    data = pa.table({"x": np.array([0.0, 5.0]), "id": [1, 2]})
    (file,) = import_files(target, [write_file(target, "f.parquet", data)]).files
    assert math_sign((file.lower_bounds or {})[4]) == -1.0


def math_sign(bound: bytes) -> float:
    return float(np.copysign(1.0, decode(DOUBLE, bound)))
