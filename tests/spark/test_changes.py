"""What was changed: each snapshot's rows against a model of the table, and views of it."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException

import floe
from floe.arrow.writer import write_rows
from floe.errors import NoSuchSnapshot
from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.writers.write_target import WriteTarget
from floe.spark.names import AsOf
from floe.spark.read.changes import ChangeRange, change_range
from floe.spec.schemas.schema import Schema
from floe.table.table import Table
from helpers.spark import Spark

Row = tuple[Any, ...]
Change = tuple[Row, str]


@pytest.fixture(scope="module", autouse=True)
def namespace(session: Spark) -> None:
    session("CREATE NAMESPACE IF NOT EXISTS lake.cdc")


class Model:
    """A table, and what each of its snapshots had."""

    def __init__(self, session: Spark, name: str, version: int, mode: str, partitioned: bool) -> None:
        self.session, self.name = session, f"lake.cdc.{name}"
        modes = ", ".join(f"'write.{what}.mode' = '{mode}'" for what in ("delete", "update", "merge"))
        by = "PARTITIONED BY (k)" if partitioned else ""
        session(
            f"CREATE TABLE {self.name} (id BIGINT, k STRING, v DOUBLE) {by}"
            f" TBLPROPERTIES ('format-version' = '{version}', {modes})"
        )
        self.table: Table = session.lake().table(f"cdc.{name}")
        self.states: list[Counter[Row]] = []

    def step(self, rows: list[Row]) -> None:
        """What the table has now."""
        self.states.append(Counter(rows))

    @property
    def rows(self) -> list[Row]:
        return list(self.states[-1].elements()) if self.states else []

    def append(self, *rows: Row) -> None:
        self.table.append([dict(zip(("id", "k", "v"), row, strict=True)) for row in rows])
        self.step([*self.rows, *rows])

    def delete(self, where: str, *ids: int) -> None:
        self.table.delete(where)
        self.step([row for row in self.rows if row[0] not in ids])

    def update(self, value: float, *ids: int) -> None:
        self.table.update({"v": value}, where=f"id IN ({', '.join(map(str, ids))})")
        self.step([(*row[:2], value) if row[0] in ids else row for row in self.rows])

    def delete_by_value(self, *ids: int) -> None:
        """By an equality delete, as other engines write them."""
        schema = Schema((self.table.schema.field("id"),))
        batch = pa.RecordBatch.from_pylist([{"id": one} for one in ids], arrow_schema(schema))
        target = WriteTarget.of(self.table.metadata, self.table.storage)
        field = self.table.schema.field("id")
        files = write_rows(target, [batch], schema=schema, content="equality-deletes", equality_ids=[field.id])
        self.table.row_delta(deletes=files)
        self.step([row for row in self.rows if row[0] not in ids])

    def expected(self, begin: int = 0, end: int | None = None) -> Counter[tuple[Row, str, int]]:
        """The changes of each snapshot, with its place, as the difference of what was there before and after."""
        changes: Counter[tuple[Row, str, int]] = Counter()
        states = [Counter[Row](), *self.states]
        for ordinal, (before, after) in enumerate(zip(states[begin:end], states[begin + 1 :], strict=False)):
            changes.update({(row, "INSERT", ordinal): count for row, count in (after - before).items()})
            changes.update({(row, "DELETE", ordinal): count for row, count in (before - after).items()})
        return changes

    def changes(self, **options: Any) -> Counter[tuple[Row, str, int]]:
        read_options = {name.replace("_", "-"): str(value) for name, value in options.items()}
        rows = self.session.session.read.options(**read_options).table(f"{self.name}.changes").collect()
        return Counter((tuple(row[:3]), row[3], row[4]) for row in rows)


def changed(session: Spark, name: str, version: int, mode: str, partitioned: bool) -> Model:
    model = Model(session, name, version, mode, partitioned)
    model.append((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0), (4, "b", 4.0), (4, "b", 4.0))
    model.append((5, "c", 5.0), (1, "a", 1.0))
    model.delete("id = 2", 2)
    model.update(30.0, 3, 5)
    model.delete("k = 'c'", 5)
    model.append((6, "a", float("inf")), (7, "b", -0.5))
    model.update(6.5, 6, 1)
    return model


@pytest.mark.parametrize(
    ("version", "mode", "partitioned"),
    [
        (2, "copy-on-write", True),
        (3, "merge-on-read", True),
        pytest.param(2, "merge-on-read", False, marks=pytest.mark.slow),
        pytest.param(1, "copy-on-write", False, marks=pytest.mark.slow),
        pytest.param(2, "copy-on-write", False, marks=pytest.mark.slow),
        pytest.param(2, "merge-on-read", True, marks=pytest.mark.slow),
        pytest.param(3, "copy-on-write", True, marks=pytest.mark.slow),
        pytest.param(3, "merge-on-read", False, marks=pytest.mark.slow),
    ],
)
def test_each_snapshot_s_changes_are_the_difference_of_the_states(
    session: Spark, version: int, mode: str, partitioned: bool
) -> None:
    name = f"v{version}_{mode.replace('-', '_')}_{'p' if partitioned else 'u'}"
    model = changed(session, name, version, mode, partitioned)
    assert model.changes() == model.expected()
    ids = [one.snapshot_id for one in model.table.snapshots]
    assert model.changes(start_snapshot_id=ids[1], end_snapshot_id=ids[4]) == model.expected(2, 5)
    counted = f"SELECT count(*) FROM {model.name}.changes WITH (`start-snapshot-id` = '{ids[5]}')"
    assert session.one(counted) == model.expected(6).total()
    # columns that are not asked for are compared too: otherwise an update of v would be no change of id
    wanted = Counter((row[0], kind) for row, kind, _ in model.expected().elements())
    found = session(f"SELECT id, _change_type FROM {model.name}.changes")
    assert Counter(found) == wanted
    filtered = session(f"SELECT id, _change_type FROM {model.name}.changes WHERE k = 'b' AND _change_type = 'DELETE'")
    assert Counter(filtered) == Counter(
        (row[0], kind) for row, kind, _ in model.expected().elements() if row[1] == "b" and kind == "DELETE"
    )


def test_equality_deletes_are_changes_too(session: Spark) -> None:
    model = Model(session, "by_value", 2, "merge-on-read", partitioned=False)
    model.append((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0))
    model.delete_by_value(1, 3, 99)
    model.append((3, "b", 3.0))
    model.delete("id = 2", 2)
    assert model.changes() == model.expected()


@pytest.mark.slow
def test_counts_and_joins_of_changes(session: Spark) -> None:
    model = changed(session, "counted", 2, "copy-on-write", partitioned=False)
    assert session.one(f"SELECT count(*) FROM {model.name}.changes") == model.expected().total()
    joined = session.sorted(
        f"SELECT s.operation, count(*) FROM {model.name}.changes c JOIN {model.name}.snapshots s"
        " ON c._commit_snapshot_id = s.snapshot_id GROUP BY 1"
    )
    operations = [one.operation for one in model.table.snapshots]
    expected = Counter(operations[place] for _, _, place in model.expected().elements())
    assert joined == sorted(expected.items())


@pytest.mark.slow
def test_times_from_before_what_has_expired_are_not_known() -> None:
    lake = floe.connect("memory:")
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id bigint")
    for number in range(3):
        table.append([{"id": number}])
    first, second, third = table.snapshots
    begin = {"start-timestamp": str(first.timestamp_ms - 1)}
    assert change_range(table.metadata, AsOf(), begin) == ChangeRange(None, third.snapshot_id)
    table.create_tag("kept", snapshot=first.snapshot_id)
    table.expire(snapshots=[second.snapshot_id]).apply()
    for options in (begin, {"end-timestamp": str(first.timestamp_ms - 1)}):
        with pytest.raises(NoSuchSnapshot, match=f"has expired.*snapshot {third.snapshot_id} of"):
            change_range(table.metadata, AsOf(), options)
    late = {"start-timestamp": str(third.timestamp_ms)}
    assert change_range(table.metadata, AsOf(), late) == ChangeRange(third.snapshot_id, third.snapshot_id)


def test_ranges_by_time(session: Spark) -> None:
    model = changed(session, "timed", 2, "merge-on-read", partitioned=False)
    times = [one.timestamp_ms for one in model.table.snapshots]
    assert len(set(times)) == len(times)
    assert model.changes(start_timestamp=times[1], end_timestamp=times[3]) == model.expected(2, 4)
    assert model.changes(start_timestamp=times[0] - 1, end_timestamp=times[0]) == model.expected(0, 1)
    assert model.changes(start_timestamp=times[-1]) == Counter()
    assert model.changes(end_timestamp=times[0] - 1) == Counter()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start_snapshot_id": 1, "start_timestamp": 1}, "start-snapshot-id and start-timestamp"),
        ({"start_timestamp": 2, "end_timestamp": 1}, "end before they start"),
        ({"start_snapshot_id": "x"}, "must be a whole number"),
        ({"start_snapshot_id": 12345}, "12345 is not in the history"),
    ],
)
def test_ranges_that_make_no_sense_are_told(session: Spark, options: dict[str, Any], message: str) -> None:
    session("CREATE TABLE IF NOT EXISTS lake.cdc.ranges AS SELECT 1L AS id, 'a' AS k, 1.0D AS v")
    read_options = {name.replace("_", "-"): str(value) for name, value in options.items()}
    with pytest.raises(IllegalArgumentException, match=message):
        session.session.read.options(**read_options).table("lake.cdc.ranges.changes").collect()


# views ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mode"),
    [("seen_cow", "copy-on-write"), pytest.param("seen_mor", "merge-on-read", marks=pytest.mark.slow)],
)
def test_a_view_tells_updates_by_identifier_columns(session: Spark, name: str, mode: str) -> None:
    model = Model(session, name, 2, mode, partitioned=False)
    model.append((1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0))
    model.update(20.0, 2)
    model.delete("id = 3", 3)
    called = (
        f"CALL lake.system.create_changelog_view(table => 'cdc.{name}',"
        f" changelog_view => 'told', identifier_columns => array('id'))"
    )
    assert session(called) == [("told",)]
    model.append((4, "d", 4.0))  # which the view was made too early for
    rows = [(*row[:4], row[4]) for row in session("SELECT * FROM told ORDER BY _change_ordinal, id, _change_type")]
    assert rows == [
        (1, "a", 1.0, "INSERT", 0),
        (2, "b", 2.0, "INSERT", 0),
        (3, "c", 3.0, "INSERT", 0),
        (2, "b", 20.0, "UPDATE_AFTER", 1),
        (2, "b", 2.0, "UPDATE_BEFORE", 1),
        (3, "c", 3.0, "DELETE", 2),
    ]


def test_net_changes_leave_out_what_was_undone(session: Spark) -> None:
    model = Model(session, "undone", 2, "copy-on-write", partitioned=False)
    model.append((1, "a", 1.0), (2, "b", 2.0), (9, "z", 9.0), (9, "z", 9.0))
    start = model.table.snapshots[0].snapshot_id
    model.update(5.0, 1)
    model.append((3, "c", 3.0), (3, "c", 3.0))
    model.update(1.0, 1)  # back to what it was
    model.delete("id = 2", 2)
    model.delete("id = 3", 3)
    model.append((3, "c", 3.0))
    called = (
        "CALL lake.system.create_changelog_view(table => 'cdc.undone', net_changes => true,"
        f" options => map('start-snapshot-id', '{start}'))"
    )
    assert session(called) == [("undone_changes",)]
    rows = session("SELECT id, v, _change_type, _change_ordinal FROM undone_changes ORDER BY id")
    assert rows == [(2, 2.0, "DELETE", 3), (3, 3.0, "INSERT", 5)]


@pytest.mark.slow
def test_identifiers_of_the_table_and_rows_that_share_one(session: Spark) -> None:
    session("CREATE TABLE lake.cdc.keyed (id BIGINT NOT NULL, v STRING)")
    session("ALTER TABLE lake.cdc.keyed SET IDENTIFIER FIELDS id")
    session("INSERT INTO lake.cdc.keyed VALUES (1, 'a'), (2, 'b')")
    session.lake().table("cdc.keyed").update({"v": "'c'"}, where="id = 1")
    session("CALL lake.system.create_changelog_view('cdc.keyed', 'by_key', compute_updates => true)")
    rows = session.sorted("SELECT id, v, _change_type FROM by_key WHERE _change_ordinal = 1")
    assert rows == [(1, "a", "UPDATE_BEFORE"), (1, "c", "UPDATE_AFTER")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("compute_updates => true", "without identifier columns"),
        ("identifier_columns => array('id'), net_changes => true", "net changes have no updates"),
        ("options => map('since', '1')", "no option since"),
        ("changelog_view => 'a.b'", "without a namespace"),
    ],
)
def test_mistakes_with_views_are_told(session: Spark, arguments: str, message: str) -> None:
    session("CREATE TABLE IF NOT EXISTS lake.cdc.plain AS SELECT 1L AS id")
    with pytest.raises(IllegalArgumentException, match=message):
        session(f"CALL lake.system.create_changelog_view(table => 'cdc.plain', {arguments})")
