"""Streams: what is appended to a table comes once each, and what is written to a table is there once."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException, StreamingQueryException
from pyspark.sql import DataFrame, functions as F

from floe.errors import CommitStateUnknown, InvalidInput
from floe.spark.streaming import sink
from floe.spark.streaming.sink import commit_epoch, epoch_summary, last_epoch
from floe.spark.streaming.source import StreamOffset, parse_offset
from floe.spark.write.columns import column_indexes
from floe.sql.columns import parse_columns
from helpers.spark import Spark

Row = tuple[Any, ...]


@pytest.fixture(scope="module", autouse=True)
def namespace(session: Spark) -> None:
    session("CREATE NAMESPACE IF NOT EXISTS lake.streams")


class Reading:
    """A stream of a table, read as far as it goes, as often as is asked for."""

    def __init__(self, session: Spark, table: str, checkpoint: Path, **options: Any) -> None:
        self._session, self._table, self._checkpoint = session, table, checkpoint
        self.options = {name.replace("_", "-"): str(value).lower() for name, value in options.items()}

    def __call__(self) -> list[list[Row]]:
        """The batches that have rows."""
        batches: list[list[Row]] = []
        stream = self._session.session.readStream.options(**self.options).table(self._table)
        query = (
            stream.writeStream.foreachBatch(lambda rows, _: batches.append(sorted(map(tuple, rows.collect()))))
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [batch for batch in batches if batch]


@pytest.fixture
def reading(session: Spark, tmp_path: Path) -> Callable[..., Reading]:
    return lambda table, **options: Reading(session, table, tmp_path / "checkpoint", **options)


# reading ----------------------------------------------------------------------------------------------------------


def test_each_appended_row_comes_once_also_after_restarts(session: Spark, reading: Callable[..., Reading]) -> None:
    session("CREATE TABLE lake.streams.once (id BIGINT, k STRING) PARTITIONED BY (k)")
    read = reading("lake.streams.once")
    assert read() == []
    session("INSERT INTO lake.streams.once VALUES (1, 'a'), (2, 'b')")
    session("INSERT INTO lake.streams.once VALUES (3, 'c')")
    assert read() == [[(1, "a"), (2, "b"), (3, "c")]]
    assert read() == []
    # a column that comes later is not a column of a stream that was started before, and is one afterwards
    session("ALTER TABLE lake.streams.once ADD COLUMN x INT")
    session("ALTER TABLE lake.streams.once RENAME COLUMN k TO kind")
    session("INSERT INTO lake.streams.once VALUES (4, 'd', 7)")
    assert read() == [[(4, "d", 7)]]
    session.lake().table("streams.once").rewrite_manifests()  # which changes no row
    assert read() == []


@pytest.mark.slow
def test_batches_are_as_small_as_they_are_asked_to_be(session: Spark, reading: Callable[..., Reading]) -> None:
    session("CREATE TABLE lake.streams.small (id BIGINT, k BIGINT) PARTITIONED BY (k)")
    session("INSERT INTO lake.streams.small SELECT id, id % 4 FROM range(8)")  # 4 files of 2 rows each
    session("INSERT INTO lake.streams.small SELECT id + 100, 0 FROM range(5)")
    read = reading("lake.streams.small", streaming_max_files_per_micro_batch=3)
    first, second = read()
    assert (len(first), len(second)) == (6, 7)
    assert sorted(first + second) == sorted(session("SELECT * FROM lake.streams.small"))
    session("INSERT INTO lake.streams.small SELECT id + 200, id % 4 FROM range(8)")
    session("INSERT INTO lake.streams.small SELECT id + 300, 0 FROM range(5)")
    # 4 rows are two files; a file of more rows than a batch may have is a batch of its own
    read.options = {"streaming-max-rows-per-micro-batch": "4"}
    assert [len(batch) for batch in read()] == [4, 4, 5]


def test_deletes_and_overwrites_are_told_unless_they_are_passed_over(
    session: Spark, reading: Callable[..., Reading]
) -> None:
    session("CREATE TABLE lake.streams.gone (id BIGINT, k STRING) PARTITIONED BY (k)")
    session("INSERT INTO lake.streams.gone VALUES (1, 'a'), (2, 'b')")
    session("DELETE FROM lake.streams.gone WHERE k = 'a'")
    session("INSERT INTO lake.streams.gone VALUES (3, 'c')")
    read = reading("lake.streams.gone")
    with pytest.raises(StreamingQueryException, match="streaming-skip-delete-snapshots"):
        read()
    read.options = {"streaming-skip-delete-snapshots": "true"}
    assert read() == [[(1, "a"), (2, "b"), (3, "c")]]
    session("INSERT OVERWRITE lake.streams.gone VALUES (9, 'z')")
    session("INSERT INTO lake.streams.gone VALUES (4, 'd')")
    with pytest.raises(StreamingQueryException, match="streaming-skip-overwrite-snapshots"):
        read()
    read.options["streaming-skip-overwrite-snapshots"] = "true"
    assert read() == [[(4, "d")]]


def test_a_stream_may_begin_at_a_time(session: Spark, reading: Callable[..., Reading]) -> None:
    session("CREATE TABLE lake.streams.since (id BIGINT)")
    for number in range(3):
        session(f"INSERT INTO lake.streams.since VALUES ({number})")
    times = [one.timestamp_ms for one in session.lake().table("streams.since").snapshots]
    assert reading("lake.streams.since", stream_from_timestamp=times[1])() == [[(1,), (2,)]]


@pytest.mark.slow
def test_nothing_is_new_enough(session: Spark, reading: Callable[..., Reading]) -> None:
    session("CREATE TABLE lake.streams.later AS SELECT 1 AS id")
    read = reading("lake.streams.later", stream_from_timestamp=int(time.time() * 1000) + 3_600_000)
    assert read() == []


def test_a_stream_begins_with_all_rows_where_their_history_has_expired(
    session: Spark, reading: Callable[..., Reading]
) -> None:
    """Java begins with what the oldest snapshot added, and leaves out the rows that were there before."""
    session("CREATE TABLE lake.streams.expired (id BIGINT) TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    session("INSERT INTO lake.streams.expired SELECT id FROM range(10)")
    table = session.lake().table("streams.expired")
    table.delete("id = 3")
    session("INSERT INTO lake.streams.expired VALUES (100)")
    first, second, _ = table.refresh().snapshots
    table.expire(snapshots=[first.snapshot_id, second.snapshot_id]).apply()
    read = reading("lake.streams.expired", streaming_max_files_per_micro_batch=1)
    assert sorted(row for batch in read() for row in batch) == [(n,) for n in (0, 1, 2, 4, 5, 6, 7, 8, 9, 100)]
    session("INSERT INTO lake.streams.expired VALUES (101)")
    assert read() == [[(101,)]]


def test_a_stream_whose_place_has_expired_says_so(session: Spark, reading: Callable[..., Reading]) -> None:
    session("CREATE TABLE lake.streams.lost AS SELECT 1 AS id")
    read = reading("lake.streams.lost")
    assert read() == [[(1,)]]
    session("INSERT INTO lake.streams.lost VALUES (2)")
    table = session.lake().table("streams.lost")
    table.expire(snapshots=[table.snapshots[0].snapshot_id]).apply()
    with pytest.raises(StreamingQueryException, match="the snapshot expired"):
        read()


@pytest.mark.slow
def test_a_branch_can_be_followed(session: Spark, reading: Callable[..., Reading]) -> None:
    session("CREATE TABLE lake.streams.branched AS SELECT 1 AS id")
    session("ALTER TABLE lake.streams.branched CREATE BRANCH audit")
    session("INSERT INTO lake.streams.branched.branch_audit VALUES (2)")
    session("INSERT INTO lake.streams.branched VALUES (3)")
    assert reading("lake.streams.branched", branch="audit")() == [[(1,), (2,)]]


def test_a_state_of_the_past_is_no_stream(session: Spark, reading: Callable[..., Reading]) -> None:
    session("CREATE TABLE lake.streams.past AS SELECT 1 AS id")
    snapshot = session.lake().table("streams.past").current_snapshot
    assert snapshot is not None
    with pytest.raises((StreamingQueryException, IllegalArgumentException), match="not a past snapshot"):
        reading("lake.streams.past", snapshot_id=snapshot.snapshot_id)()


def test_other_formats_and_metadata_columns_come_too(session: Spark, tmp_path: Path) -> None:
    session("CREATE TABLE lake.streams.orc (id BIGINT) TBLPROPERTIES ('write.format.default' = 'orc')")
    session("INSERT INTO lake.streams.orc SELECT id FROM range(3)")
    session("ALTER TABLE lake.streams.orc SET TBLPROPERTIES ('write.format.default' = 'parquet')")
    session("INSERT INTO lake.streams.orc VALUES (3)")
    rows: list[Row] = []
    stream = session.session.readStream.table("lake.streams.orc").select("_file", "id", "_pos")
    query = stream.writeStream.foreachBatch(lambda batch, _: rows.extend(map(tuple, batch.collect()))).trigger(
        availableNow=True
    )
    query.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
    assert sorted(rows, key=repr) == session.sorted("SELECT _file, id, _pos FROM lake.streams.orc")


def test_offsets_are_written_as_java_writes_them() -> None:
    text = '{"version":1,"snapshot_id":3051729675574597004,"position":4,"scan_all_files":false}'
    assert parse_offset(text) == StreamOffset(3051729675574597004, 4)
    assert str(parse_offset(text)) == text


# writing ----------------------------------------------------------------------------------------------------------


class Folder:
    """A folder of JSON files as a stream."""

    def __init__(self, session: Spark, path: Path, schema: str) -> None:
        self._session, self._path, self._schema = session, path / "incoming", schema
        self._path.mkdir()

    def add(self, *rows: dict[str, Any]) -> None:
        name = f"{len(list(self._path.iterdir()))}.json"
        (self._path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def stream(self) -> DataFrame:
        reader = self._session.session.readStream.schema(self._schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self._path))


def write(rows: DataFrame, table: str, checkpoint: Path, mode: str = "append", **options: Any) -> None:
    writer = rows.writeStream.outputMode(mode).options(**options).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).toTable(table).awaitTermination()


def test_an_epoch_that_comes_again_is_not_written_again(session: Spark, tmp_path: Path) -> None:
    """The query fails after its last epoch was committed, and before its checkpoint says so."""
    session("CREATE TABLE lake.streams.exactly (id BIGINT, k STRING) PARTITIONED BY (k)")
    folder = Folder(session, tmp_path, "id BIGINT, k STRING")
    folder.add({"id": 1, "k": "a"}, {"id": 2, "k": "b"})
    folder.add({"id": 3, "k": "a"})
    checkpoint = tmp_path / "checkpoint"
    write(folder.stream(), "lake.streams.exactly", checkpoint, **{"fanout-enabled": "true"})
    expected = [(1, "a"), (2, "b"), (3, "a")]
    assert session.sorted("SELECT * FROM lake.streams.exactly") == expected
    table = session.lake().table("streams.exactly")
    assert table.current_snapshot is not None
    (query_id,) = {(one.summary or {})["spark.sql.streaming.queryId"] for one in table.snapshots}
    epochs = [(one.summary or {})["spark.sql.streaming.epochId"] for one in table.snapshots]
    assert epochs == ["0", "1"]
    assert last_epoch(table.metadata, "main", query_id) == 1

    for file in (checkpoint / "commits" / "1", checkpoint / "commits" / ".1.crc"):
        file.unlink()
    session("INSERT INTO lake.streams.exactly VALUES (4, 'z')")  # others write too
    write(folder.stream(), "lake.streams.exactly", checkpoint)
    assert session.sorted("SELECT * FROM lake.streams.exactly") == [*expected, (4, "z")]
    files = {Path(path).name for (path,) in session("SELECT file_path FROM lake.streams.exactly.files")}
    folder_of_table = Path(table.location.removeprefix("file:"))
    assert {path.name for path in folder_of_table.rglob("*.parquet")} == files  # those of the second time are gone

    folder.add({"id": 5, "k": "b"})
    write(folder.stream(), "lake.streams.exactly", checkpoint)
    assert session.sorted("SELECT * FROM lake.streams.exactly") == [*expected, (4, "z"), (5, "b")]


def test_another_query_has_epochs_of_its_own(session: Spark) -> None:
    session("CREATE TABLE lake.streams.queries AS SELECT 1 AS id")
    table = session.lake().table("streams.queries")
    table.append([{"id": 2}], summary=epoch_summary("other", 7))
    assert last_epoch(table.metadata, "main", "other") == 7
    assert last_epoch(table.metadata, "main", "mine") is None
    assert last_epoch(table.metadata, "audit", "other") is None


def test_a_task_that_fails_leaves_nothing_and_the_next_start_goes_on(session: Spark, tmp_path: Path) -> None:
    session("CREATE TABLE lake.streams.failing (id BIGINT)")
    folder = Folder(session, tmp_path, "id BIGINT")
    folder.add(*({"id": n} for n in range(100)))
    mended = tmp_path / "mended"

    def fails_once(number: int) -> int:
        if number == 57 and not mended.exists():
            raise ValueError("on purpose")
        return number

    rows = folder.stream().select(F.udf(fails_once, "bigint", useArrow=False)("id").alias("id"))
    with pytest.raises(StreamingQueryException):
        write(rows, "lake.streams.failing", tmp_path / "checkpoint")
    assert session.lake().table("streams.failing").snapshots == ()
    mended.touch()
    write(rows, "lake.streams.failing", tmp_path / "checkpoint")
    assert session.sorted("SELECT count(*), sum(id) FROM lake.streams.failing") == [(100, 4950)]


@pytest.mark.slow
def test_rows_that_a_source_makes_are_there_once(session: Spark, tmp_path: Path) -> None:
    """Starts and stops, one batch of a hundred numbers at a time; the second is repeated after a failure."""
    session("CREATE TABLE lake.streams.made_up (value BIGINT, timestamp TIMESTAMP) PARTITIONED BY (bucket(4, value))")
    made = session.session.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    for epoch in range(4):
        writer = made.writeStream.option("checkpointLocation", str(tmp_path))
        writer.trigger(once=True).toTable("lake.streams.made_up").awaitTermination()
        if epoch == 1:
            for name in ("1", ".1.crc"):
                (tmp_path / "commits" / name).unlink()
    found = session("SELECT count(*), count(DISTINCT value), min(value), max(value) FROM lake.streams.made_up")
    count = found[0][0]
    assert count in (300, 400)  # the repeated batch may be all that its start did
    assert found == [(count, count, 0, count - 1)]


def test_complete_output_replaces_all_rows(session: Spark, tmp_path: Path) -> None:
    session("CREATE TABLE lake.streams.totals (k STRING, n BIGINT)")
    folder = Folder(session, tmp_path, "k STRING")
    folder.add({"k": "a"}, {"k": "b"})
    folder.add({"k": "a"})
    counted = folder.stream().groupBy("k").agg(F.count("*").alias("n"))
    write(counted, "lake.streams.totals", tmp_path / "checkpoint", mode="complete")
    assert session.sorted("SELECT * FROM lake.streams.totals") == [("a", 2), ("b", 1)]
    folder.add({"k": "c"})
    write(counted, "lake.streams.totals", tmp_path / "checkpoint", mode="complete")
    assert session.sorted("SELECT * FROM lake.streams.totals") == [("a", 2), ("b", 1), ("c", 1)]


@pytest.mark.parametrize(("mode", "most"), [("hash", 3), pytest.param("none", 12, marks=pytest.mark.slow)])
def test_the_rows_of_a_partition_come_together(session: Spark, tmp_path: Path, mode: str, most: int) -> None:
    name = f"lake.streams.together_{mode}"
    session(
        f"CREATE TABLE {name} (id BIGINT, k STRING) PARTITIONED BY (truncate(1, k), bucket(1, id))"
        f" TBLPROPERTIES ('write.distribution-mode' = '{mode}')"
    )
    folder = Folder(session, tmp_path, "id BIGINT, k STRING")
    folder.add(*({"id": n, "k": "abc"[n % 3] * 2} for n in range(60)))
    write(folder.stream().repartition(4), name, tmp_path / "checkpoint")
    assert session(f"SELECT count(*), sum(id) FROM {name}") == [(60, 1770)]
    files = session.one(f"SELECT count(*) FROM {name}.files")
    assert files == 3 if mode == "hash" else 3 < files <= most


def test_columns_are_found_by_name_and_filled_with_defaults(session: Spark, tmp_path: Path) -> None:
    session(
        "CREATE TABLE lake.streams.named (a STRING, b BIGINT NOT NULL, c INT DEFAULT 5, d DATE)"
        " TBLPROPERTIES ('format-version' = '3')"
    )
    folder = Folder(session, tmp_path, "B INT, a STRING")
    folder.add({"B": 1, "a": "x"})
    write(folder.stream(), "lake.streams.named", tmp_path / "checkpoint")
    assert session("SELECT * FROM lake.streams.named") == [("x", 1, 5, None)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("a string, b long, z integer", "columns that are not in the table: z"),
        ("a string", "no column 'b', which may not be null"),
        ("a integer, b long", "'a' of the stream is integer, and that of the table string"),
        ("a string, b long, c decimal(5,3)", "'c' of the stream is decimal"),
        ("a string, b long, A string", "two columns named 'A'"),
    ],
)
def test_columns_that_do_not_fit_are_told(columns: str, message: str) -> None:
    fields = [dict(zip(("name", "type"), one.split(" "), strict=True)) for one in columns.split(", ")]
    table = parse_columns("a string, b bigint not null, c decimal(9, 2)")
    with pytest.raises(InvalidInput, match=message):
        column_indexes(table, {"type": "struct", "fields": fields}, case_sensitive=False, table="db.t")


def test_a_query_tells_of_columns_that_do_not_fit(session: Spark, tmp_path: Path) -> None:
    session("CREATE TABLE lake.streams.misfit (a STRING, b BIGINT NOT NULL)")
    folder = Folder(session, tmp_path, "a STRING, b BIGINT, z INT")
    folder.add({"b": 1})
    with pytest.raises(StreamingQueryException, match="columns that are not in the table: z"):
        write(folder.stream(), "lake.streams.misfit", tmp_path / "checkpoint")


def test_a_null_that_may_not_be_is_told(session: Spark, tmp_path: Path) -> None:
    session("CREATE TABLE lake.streams.required (a STRING, b BIGINT NOT NULL)")
    folder = Folder(session, tmp_path, "a STRING, b BIGINT")
    folder.add({"a": "x"})
    with pytest.raises(StreamingQueryException, match="null"):
        write(folder.stream(), "lake.streams.required", tmp_path / "checkpoint")
    assert session("SELECT * FROM lake.streams.required") == []


@pytest.mark.slow
def test_a_stream_makes_its_table_and_another_reads_it(session: Spark, tmp_path: Path) -> None:
    folder = Folder(session, tmp_path, "id BIGINT, k STRING")
    folder.add({"id": 1, "k": "a"}, {"id": 2, "k": "b"})
    write(folder.stream(), "lake.streams.made", tmp_path / "first")
    kept = session.session.readStream.table("lake.streams.made").where("id > 1")
    write(kept, "lake.streams.chained", tmp_path / "second")
    folder.add({"id": 3, "k": "c"})
    write(folder.stream(), "lake.streams.made", tmp_path / "first")
    write(kept, "lake.streams.chained", tmp_path / "second")
    assert session.sorted("SELECT * FROM lake.streams.chained") == [(2, "b"), (3, "c")]


def test_an_epoch_whose_commit_got_no_answer_keeps_its_files(
    session: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark aborts a write whose commit failed, but this one may have been made, and was."""
    session("CREATE TABLE lake.streams.no_answer (n BIGINT)")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"n": 1}\n')

    def lost(*given: Any, **options: Any) -> bool:
        commit_epoch(*given, **options)
        raise CommitStateUnknown("no answer")

    def run() -> None:
        rows = session.session.readStream.schema("n BIGINT").json(str(tmp_path / "in"))
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        writer.toTable("lake.streams.no_answer").awaitTermination()

    monkeypatch.setattr(sink, "commit_epoch", lost)
    with pytest.raises(StreamingQueryException, match="no answer"):
        run()
    monkeypatch.undo()
    assert session("SELECT n FROM lake.streams.no_answer") == [(1,)]
    run()
    assert session("SELECT n FROM lake.streams.no_answer") == [(1,)]
