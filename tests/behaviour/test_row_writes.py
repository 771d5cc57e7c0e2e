"""Rows written through every catalog and version: what is appended or put in the place of others is what is read."""

import datetime as dt
import io
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floe import Lake, Table, errors
from floe.catalog.protocol import Capability
from floe.commit.target import TableTarget

DAY = dt.date(2024, 5, 17)


def rows(first: int, count: int, day: dt.date = DAY) -> list[dict[str, Any]]:
    return [
        {
            "id": n,
            "day": day,
            "amount": Decimal(n % 7).quantize(Decimal("0.01")),
            "note": None if n % 3 == 0 else f"n{n}",
        }
        for n in range(first, first + count)
    ]


def read(table: Table, **choice: Any) -> list[dict[str, Any]]:
    return sorted(table.scan(**choice).to_arrow().to_pylist(), key=lambda row: row["id"])


def ids(table: Table, **choice: Any) -> list[int]:
    return [row["id"] for row in read(table, **choice)]


def data_files(table: Table) -> set[str]:
    """All files below the table's folder that are no metadata."""
    return {info.location for info in table.storage.list(table.location) if "/metadata/" not in info.location}


# append ---------------------------------------------------------------------------------------------------------------


def test_what_is_appended_is_read(orders: Table, reconnect: Callable[[], Lake]) -> None:
    expected = rows(1, 50) + rows(51, 10, DAY + dt.timedelta(1))
    snapshot = orders.append(expected)
    assert snapshot is not None
    assert snapshot.summary["operation"] == "append"
    assert snapshot.summary["added-records"] == "60"
    assert snapshot.summary["added-data-files"] == "2"
    assert read(orders) == read(reconnect().table("db.orders")) == expected
    assert read(orders, where="day > '2024-05-17' and id < 55") == expected[50:54]


def test_many_forms_of_data(orders: Table) -> None:
    table = pa.Table.from_pylist(rows(1, 2))
    orders.append(table)
    orders.append(table.to_reader())
    orders.append(table.to_pandas())
    orders.append(pl.DataFrame(table))
    orders.append(pl.DataFrame(table).lazy())
    orders.append({"id": [1, 2], "day": [DAY, "2024-05-17"], "amount": [1, "2.00"], "note": ["n1", "n2"]})
    orders.append(row for row in rows(1, 2))
    orders.append(orders.scan())  # itself
    assert read(orders) == sorted(rows(1, 2) * 14, key=lambda row: row["id"])


def test_columns_that_are_left_out_and_those_in_another_order(orders: Table) -> None:
    orders.append(pa.table({"note": ["x"], "id": pa.array([7], pa.int16())}))
    assert read(orders) == [{"id": 7, "day": None, "amount": None, "note": "x"}]


def test_rows_of_nothing_but_defaults(lake: Lake) -> None:
    table = lake.create_table("db.t", "id bigint default 7, note string", format_version=3)
    table.append([{}, {}])
    assert read(table) == [{"id": 7, "note": None}] * 2


@pytest.mark.parametrize("name", ["encryption.key-id", "encryption.data-key-length", "encryption.kms-type"])
def test_who_asks_for_encryption_gets_no_table_in_plain_text(lake: Lake, name: str) -> None:
    asked = {name: "16"}
    with pytest.raises(errors.UnsupportedFeature, match=rf"cannot be encrypted yet.*{name}"):
        lake.create_table("db.t", "id bigint", properties=asked, format_version=3)
    assert not lake.table_exists("db.t")
    table = lake.create_table("db.t", "id bigint", format_version=3)
    with pytest.raises(errors.UnsupportedFeature, match="cannot be encrypted yet"):
        table.set_properties(asked)
    with pytest.raises(errors.UnsupportedFeature, match="cannot be encrypted yet"):
        lake.replace_table("db.t", "id bigint", properties=asked)
    assert name not in table.refresh().properties


def test_nothing_to_append(orders: Table) -> None:
    assert orders.append([]) is None
    assert orders.append(pa.table({"id": pa.array([], pa.int64())})) is None
    assert orders.current_snapshot is None


@pytest.mark.parametrize(
    ("data", "error", "why"),
    [
        ({"note": ["a"]}, errors.InvalidSchema, "column id is missing, and required"),
        ({"id": [1], "strange": [1]}, errors.InvalidSchema, "column strange is not in the table"),
        (pa.table({"id": ["a"]}), errors.InvalidSchema, "column id has string, where the table has long"),
        ({"id": [None]}, errors.InvalidValue, "null in a required column"),
        (pd.DataFrame({"id": [1], "day": [DAY], "amount": [0.5]}), errors.InvalidSchema, "column amount has double"),
        ({"id": [1], "amount": [Decimal("1.005")]}, errors.InvalidValue, "column: amount"),
        (7, errors.InvalidInput, "int is not data"),
    ],
)
def test_data_that_does_not_fit_leaves_nothing(lake: Lake, data: Any, error: type[errors.FloeError], why: str) -> None:
    columns = "id bigint not null, day date, amount decimal(9, 2), note string"
    table = lake.create_table("db.t", columns, partition_by=["day"])
    with pytest.raises(error, match=why):
        table.append(data)
    assert data_files(table) == set()
    assert lake.table("db.t").current_snapshot is None


def test_a_source_that_fails_in_the_middle_leaves_nothing(orders: Table) -> None:
    def batches() -> Any:
        yield pa.record_batch({"id": list(range(100_000))})
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        orders.append(batches())
    assert data_files(orders) == set()
    assert orders.refresh().current_snapshot is None


def test_columns_that_somebody_added_meanwhile(lake: Lake, orders: Table) -> None:
    lake.table("db.orders").evolve().add_column("extra", "int").commit()
    orders.append([{"id": 1, "extra": 5}])
    assert read(orders)[0]["extra"] == 5


def test_appends_of_two_who_do_not_know_of_each_other(lake: Lake, orders: Table) -> None:
    other = lake.table("db.orders")
    orders.append(rows(1, 2))
    other.append(rows(3, 2))
    orders.append(rows(5, 1))
    assert ids(orders) == [1, 2, 3, 4, 5]


def test_write_options_and_summary(lake: Lake) -> None:
    table = lake.create_table("db.t", "id bigint", properties={"write.format.default": "orc"})
    table.append({"id": [1]}, summary={"job": "nightly"})
    table.append({"id": [2]}, options={"write.format.default": "avro", "write.object-storage.enabled": True})
    formats = table.inspect.files(columns=["file_format", "file_path"]).to_pylist()
    assert {row["file_format"].lower() for row in formats} == {"orc", "avro"}
    assert table.snapshots[0].summary["job"] == "nightly"
    assert ids(table) == [1, 2]


# merging the schema ---------------------------------------------------------------------------------------------------


def test_new_columns_come_with_the_rows_in_one_commit(orders: Table) -> None:
    orders.append(rows(1, 1))
    before = len(orders.metadata.metadata_log)
    orders.append(pa.table({"id": [2], "extra": ["x"], "tags": [["a"]]}), merge_schema=True)
    assert len(orders.metadata.metadata_log) == before + 1
    found = read(orders)
    assert [row["extra"] for row in found] == [None, "x"]
    assert [row["tags"] for row in found] == [None, ["a"]]
    assert orders.schema.field("id").required


def test_types_are_widened_if_they_have_to_be(lake: Lake, version: int) -> None:
    table = lake.create_table("db.t", "id int, x float", format_version=version)
    table.append({"id": [1], "x": [0.5]})
    table.append(pa.table({"id": [2**40], "x": [0.1]}), merge_schema=True)
    assert [(field.name, str(field.type)) for field in table.schema] == [("id", "long"), ("x", "double")]
    assert read(table) == [{"id": 1, "x": 0.5}, {"id": 2**40, "x": 0.1}]


def test_a_schema_that_cannot_merge_changes_nothing(orders: Table) -> None:
    with pytest.raises(errors.IncompatibleChange, match="cannot change 'id' from long to string"):
        orders.append(pa.table({"id": ["a"]}), merge_schema=True)
    assert orders.refresh().metadata.current_schema_id == 0
    assert data_files(orders) == set()


def test_write_defaults(lake: Lake) -> None:
    table = lake.create_table("db.t", "id bigint, kind string not null default 'new'", format_version=3)
    table.append([{"id": 1}, {"id": 2, "kind": "old"}])
    table.append({"id": [3]})
    assert [row["kind"] for row in read(table)] == ["new", "old", "new"]


# partitions, order, sizes ---------------------------------------------------------------------------------------------

TERMS = {
    "day": "day",
    "month(day)": "day_month",
    "bucket(4, id)": "id_bucket",
    "truncate(10, id)": "id_trunc",
    "truncate(2, note)": "note_trunc",
    "amount": "amount",
    "void(note)": "note_null",
}


@pytest.mark.parametrize("term", TERMS)
def test_partitions_of_every_transform(lake: Lake, term: str) -> None:
    columns = "id bigint not null, day date, amount decimal(9, 2), note string"
    table = lake.create_table("db.t", columns, partition_by=[term])
    data = rows(1, 20) + rows(21, 20, DAY + dt.timedelta(40))
    table.append(data)
    assert read(table) == data
    assert all(f"/data/{TERMS[term]}=" in path for path in data_files(table))
    for row in data[::7]:
        for column in ("id", "day", "amount"):
            where = f"{column} = {row[column] if column != 'day' else repr(str(row[column]))}"
            expected = [one["id"] for one in data if one[column] == row[column]]
            assert ids(table, where=where) == expected


def test_files_are_sorted_and_rolled(lake: Lake) -> None:
    properties = {"write.target-file-size-bytes": 20_000, "write.parquet.compression-codec": "uncompressed"}
    table = lake.create_table("db.t", "id bigint, note string", sort_by=["id desc"], properties=properties)
    table.append({"id": [n * 7919 % 10_000 for n in range(10_000)], "note": ["x"] * 10_000})
    files = table.inspect.files(columns=["file_path", "record_count", "sort_order_id", "lower_bounds"]).to_pylist()
    assert len(files) > 3
    assert {file["sort_order_id"] for file in files} == {1}
    for file in files:
        with table.storage.open_read(file["file_path"]) as stream:
            numbers = pq.read_table(stream)["id"].to_pylist()
        assert numbers == sorted(numbers, reverse=True)
        assert len(numbers) == file["record_count"]
    assert ids(table) == list(range(10_000))


def test_the_layout_of_object_stores(lake: Lake) -> None:
    properties = {"write.object-storage.enabled": True}
    table = lake.create_table("db.t", "id bigint", partition_by=["id"], properties=properties)
    table.append({"id": list(range(20))})
    for path in data_files(table):
        inside = path.split("/data/")[1].split("/")
        assert [len(part) for part in inside[:4]] == [4, 4, 4, 8]
        assert inside[4].startswith("id=")
    assert ids(table) == list(range(20))


# overwrite ------------------------------------------------------------------------------------------------------------


def test_everything_is_replaced(orders: Table) -> None:
    orders.append(rows(1, 10))
    snapshot = orders.overwrite(rows(20, 3))
    assert snapshot is not None
    assert snapshot.summary["operation"] == "overwrite"
    assert ids(orders) == [20, 21, 22]
    orders.overwrite([])
    assert ids(orders) == []


def test_whole_files_are_replaced_by_metadata(orders: Table) -> None:
    for n in range(3):
        orders.append(rows(10 * n, 10, DAY + dt.timedelta(n)))
    before = data_files(orders)
    orders.overwrite(rows(100, 1, DAY + dt.timedelta(1)), where="day = '2024-05-18'")
    assert ids(orders) == [*range(10), *range(20, 30), 100]
    assert len(data_files(orders) - before) == 1, "nothing was copied"


def test_files_of_which_only_some_rows_pass_are_written_anew(orders: Table) -> None:
    orders.append(rows(0, 10))
    orders.append(rows(10, 10, DAY + dt.timedelta(1)))
    snapshot = orders.overwrite([{"id": 7, "note": "new"}], where="id >= 5 and id < 15")
    assert snapshot is not None
    assert ids(orders) == [0, 1, 2, 3, 4, 7, 15, 16, 17, 18, 19]
    assert read(orders)[5] == {"id": 7, "day": None, "amount": None, "note": "new"}
    assert read(orders)[:5] == rows(0, 5)
    assert orders.snapshots[-2].snapshot_id == snapshot.parent_snapshot_id, "one commit"


def test_rows_that_stay_keep_their_identity(lake: Lake) -> None:
    table = lake.create_table("db.t", "id bigint", format_version=3)
    table.append({"id": [1, 2, 3]})
    lineage = ["id", "_row_id", "_last_updated_sequence_number"]
    before = {row["id"]: row for row in table.scan(columns=lineage).to_arrow().to_pylist()}
    table.overwrite({"id": [2]}, where="id = 2")
    after = {row["id"]: row for row in table.scan(columns=lineage).to_arrow().to_pylist()}
    assert (after[1], after[3]) == (before[1], before[3])
    assert after[2]["_row_id"] not in {row["_row_id"] for row in before.values()}


def test_nulls_do_not_pass_a_filter(orders: Table) -> None:
    orders.append(rows(0, 6))
    orders.overwrite([], where="note <> 'n1'")
    assert ids(orders) == [0, 1, 3]


def test_new_rows_have_to_pass_the_filter(orders: Table) -> None:
    orders.append(rows(0, 3))
    before = data_files(orders)
    with pytest.raises(errors.InvalidValue, match=r"1 of the new rows .*id = 1"):
        orders.overwrite([{"id": 1}, {"id": 9}], where="id = 1")
    assert data_files(orders) == before
    orders.overwrite([{"id": 9}], where="id = 1", only_matching=False)
    assert ids(orders) == [0, 2, 9]


def test_a_filter_that_no_row_passes(orders: Table) -> None:
    orders.append(rows(0, 10))
    orders.overwrite([], where="id > 3 and id < 6 and note = 'zz'")
    orders.overwrite([{"id": 5, "note": "zz"}], where="note = 'zz'")
    assert ids(orders) == sorted([*range(10), 5])


def test_what_others_did_to_rows_that_the_data_was_made_from(lake: Lake, orders: Table) -> None:
    orders.append(rows(0, 3))
    mine = orders.scan().to_arrow()
    lake.table("db.orders").append(rows(7, 1))
    before = data_files(orders)
    with pytest.raises(errors.ConflictingChange):
        orders.overwrite(mine, read="true")
    assert data_files(orders) == before, "what was written for nothing is gone"
    orders.overwrite(mine)
    assert ids(orders) == [0, 1, 2]


def test_rows_made_from_the_table_itself(lake: Lake, orders: Table) -> None:
    orders.append(rows(0, 3))
    mine = orders.scan(where="id < 2")
    lake.table("db.orders").append(rows(1, 1))
    with pytest.raises(errors.ConflictingChange):
        orders.append(mine)
    with pytest.raises(errors.ConflictingChange):
        orders.overwrite(mine)
    orders.refresh()
    orders.append(mine), orders.overwrite(orders.scan(where="id = 2"))
    assert ids(orders) == [2]


def test_rows_that_appear_among_those_that_are_copied(lake: Lake, orders: Table, monkeypatch: Any) -> None:
    orders.append(rows(0, 10))
    before = data_files(orders)
    replaced = TableTarget.commit

    def after_somebody_else(self: TableTarget, *given: Any) -> Any:
        monkeypatch.undo()
        lake.table("db.orders").append(rows(5, 1))
        return replaced(self, *given)

    monkeypatch.setattr(TableTarget, "commit", after_somebody_else)
    with pytest.raises(errors.ConflictingChange):
        orders.overwrite([], where="id = 5")
    assert len(data_files(orders) - before) == 1, "the other's file, and none of ours"
    orders.overwrite([], where="id = 5")
    assert ids(orders) == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def test_partitions_that_get_rows_are_replaced(orders: Table) -> None:
    for n in range(3):
        orders.append(rows(10 * n, 2, DAY + dt.timedelta(n)))
    orders.overwrite_partitions(rows(50, 1) + rows(60, 1, DAY + dt.timedelta(5)))
    assert ids(orders) == [10, 11, 20, 21, 50, 60]
    assert orders.overwrite_partitions([]) is None


def test_partitions_are_replaced_whatever_they_were_written_with(orders: Table) -> None:
    orders.append(rows(0, 4) + rows(10, 4, DAY + dt.timedelta(1)))
    orders.update_spec().add_field("bucket(2, id)").commit()
    orders.append(rows(20, 4))
    orders.overwrite_partitions(rows(0, 1))
    left = ids(orders)
    assert left.count(0) == 1
    gone = {0, 1, 2, 3, 20, 21, 22, 23} - set(left)
    assert {10, 11, 12, 13} <= set(left)
    assert 0 < len(gone) < 8, "those of the bucket of 0, on that day, in files of both specs"
    again = orders.overwrite_partitions(rows(0, 1))
    assert again is not None
    assert ids(orders) == left


def test_without_partitioning_all_rows_are_replaced(lake: Lake) -> None:
    table = lake.create_table("db.t", "id bigint")
    table.append({"id": [1]})
    table.overwrite_partitions({"id": [2]})
    assert ids(table) == [2]


# branches, stages, transactions ---------------------------------------------------------------------------------------


def test_branches_and_stages(orders: Table) -> None:
    orders.append(rows(0, 2))
    orders.branch("audit", create=True).append(rows(2, 1))
    assert ids(orders) == [0, 1]
    assert ids(orders, ref="audit") == [0, 1, 2]
    orders.branch("audit").overwrite([{"id": 9}], where="id >= 1", only_matching=False)
    assert ids(orders, ref="audit") == [0, 9]
    orders.stage("job-1").append(rows(5, 1))
    assert ids(orders) == [0, 1]
    orders.publish("job-1")
    assert ids(orders) == [0, 1, 5]


def test_several_changes_in_one_transaction(orders: Table) -> None:
    orders.append(rows(0, 2))
    with orders.transaction() as tx:
        tx.append(rows(2, 1))
        tx.evolve().add_column("extra", "int")
        tx.append([{"id": 3, "extra": 1}])
        tx.append(pa.table({"id": [4], "more": ["x"]}), merge_schema=True)
        tx.overwrite([{"id": 9}], where="day = '2024-05-17' or id = 9")
    assert ids(orders) == [3, 4, 9]
    assert orders.schema.has("more")


def test_a_transaction_that_fails_leaves_no_file(orders: Table) -> None:
    def work() -> None:
        with orders.transaction() as tx:
            tx.append(rows(0, 3))
            assert len(data_files(orders)) == 1
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        work()
    assert data_files(orders) == set()
    tx = orders.transaction()
    tx.append(rows(0, 3))
    tx.abort()
    assert data_files(orders) == set()


def test_a_transaction_that_is_refused_leaves_no_file(lake: Lake, orders: Table) -> None:
    tx = orders.transaction()
    tx.append(rows(0, 3))
    tx.evolve().add_column("a", "int")
    lake.table("db.orders").evolve().add_column("b", "int").commit()
    with pytest.raises(errors.ConflictingChange):
        tx.commit()
    assert data_files(orders) == set()


def test_rows_of_a_transaction_cannot_be_looked_at_before_it_ends(orders: Table) -> None:
    orders.append(rows(0, 4))
    tx = orders.transaction()
    tx.append(rows(4, 2))
    with pytest.raises(errors.UnsupportedFeature, match="changed earlier in this transaction"):
        tx.overwrite([], where="id = 1")
    tx.commit()
    assert ids(orders.refresh()) == [0, 1, 2, 3, 4, 5], "what was refused has changed nothing"


def test_rows_of_several_tables_at_once(lake: Lake) -> None:
    if lake.catalog.shared is None:
        pytest.skip("this catalog commits to one table at a time")
    a, b = lake.create_table("db.a", "id bigint"), lake.create_table("db.b", "id bigint")
    with lake.transaction() as tx:
        tx.table("db.a").append({"id": [1]})
        tx.table("db.b").append({"id": [2]})
    assert (ids(a.refresh()), ids(b.refresh())) == ([1], [2])
    before = data_files(a) | data_files(b)

    def work() -> None:
        with lake.transaction() as tx:
            tx.table("db.a").append({"id": [1]})
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        work()
    assert data_files(a) | data_files(b) == before


# new tables -----------------------------------------------------------------------------------------------------------


def test_a_table_made_with_its_rows(lake: Lake, version: int) -> None:
    frame = pd.DataFrame({"id": [2, 1], "at": pd.to_datetime(["2024-01-01", "2024-01-02"])})
    table = lake.create_table("db.t", data=frame, partition_by=["day(at)"], sort_by=["id"], format_version=version)
    assert ids(table) == [1, 2]
    assert len(table.snapshots) == 1
    assert len(table.metadata.metadata_log) == 0, "one commit"
    assert str(table.spec.fields[0].transform) == "day"
    with pytest.raises(errors.TableAlreadyExists):
        lake.create_table("db.t", data=frame)
    assert ids(lake.create_table("db.t", data=frame, if_not_exists=True)) == [1, 2]
    replaced = lake.create_or_replace_table("db.t", "id bigint not null", data=[{"id": 7}])
    assert ids(replaced) == [7]
    assert len(replaced.snapshots) == 2


def test_columns_of_data_without_its_rows(lake: Lake) -> None:
    table = lake.create_table("db.t", pl.DataFrame({"id": [1], "tags": [["a"]]}))
    assert [field.name for field in table.schema] == ["id", "tags"]
    assert table.current_snapshot is None


def test_a_table_that_cannot_be_made_leaves_no_file(lake: Lake) -> None:
    lake.create_table("db.t", "id bigint")
    where = lake.catalog.default_location(("db", "t"))
    storage = lake.table("db.t").storage
    before = {info.location for info in storage.list(where)}
    tx = lake.create_table_transaction("db.u", "id bigint")
    tx.append({"id": [1]})
    lake.create_table("db.u", "other string")
    with pytest.raises(errors.TableAlreadyExists):
        tx.commit()
    assert data_files(lake.table("db.u")) == set()
    with pytest.raises(errors.InvalidSchema, match="column b is not in the table"):
        lake.create_table("db.v", "a bigint", data={"b": [1]})
    assert not lake.table_exists("db.v")
    assert {info.location for info in storage.list(where)} == before


# files that are there already -----------------------------------------------------------------------------------------


def test_files_that_are_there_already(orders: Table) -> None:
    table = pa.Table.from_pylist(rows(1, 3)).drop_columns("day")
    sink = io.BytesIO()
    pq.write_table(table, sink)
    folder = f"{orders.location}/incoming/day=2024-05-17"
    orders.storage.write(f"{folder}/a.parquet", sink.getvalue())
    snapshot = orders.add_files(f"{orders.location}/incoming")
    assert snapshot is not None
    assert read(orders) == rows(1, 3)
    assert ids(orders, where="id = 2 and day = '2024-05-17'") == [2]
    assert "schema.name-mapping.default" in orders.properties
    orders.evolve().rename_column("note", "remark").commit()
    assert [row["remark"] for row in read(orders)] == ["n1", "n2", None]
    with pytest.raises(errors.InvalidUpdate, match="the file is in the table already"):
        orders.add_files(f"{folder}/a.parquet")
    assert orders.storage.exists(f"{folder}/a.parquet"), "it is the user's, and a failed commit does not delete it"
    orders.append([{"id": 4}])
    assert ids(orders) == [1, 2, 3, 4]


def test_custom_data_folders(lake: Lake) -> None:
    if Capability.CUSTOM_LOCATIONS not in lake.capabilities:
        pytest.skip("this catalog puts each table into a folder of its own choice")
    table = lake.create_table("db.t", "id bigint")
    elsewhere = table.location.rsplit("/", 1)[0] + "/elsewhere"
    table.set_properties({"write.data.path": elsewhere})
    table.append({"id": [1]})
    (path,) = table.scan().files()
    assert path.startswith(f"{elsewhere}/00000-0-")
    assert ids(table) == [1]
