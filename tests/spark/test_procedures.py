"""CALL: procedures that move branches and tell of history; SHOW and DESCRIBE PROCEDURE."""

from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException

from helpers.spark import Spark

NAMES = [
    "ancestors_of",
    "cherrypick_snapshot",
    "fast_forward",
    "publish_changes",
    "register_table",
    "rollback_to_snapshot",
    "rollback_to_timestamp",
    "set_current_snapshot",
]


@pytest.fixture(scope="module", autouse=True)
def namespace(session: Spark, catalog: str) -> None:
    session(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.calls")


def make(session: Spark, catalog: str, name: str, rows: int = 3) -> list[int]:
    """A table with a row for each of its snapshots; the ids of the snapshots."""
    session(f"CREATE TABLE {catalog}.calls.{name} (id BIGINT)")
    for number in range(rows):
        session(f"INSERT INTO {catalog}.calls.{name} VALUES ({number})")
    return snapshots(session, catalog, name)


def snapshots(session: Spark, catalog: str, name: str) -> list[int]:
    return [snapshot.snapshot_id for snapshot in session.lake(catalog).table(f"calls.{name}").snapshots]


def ids(session: Spark, catalog: str, name: str) -> list[Any]:
    return [row[0] for row in session.sorted(f"SELECT id FROM {catalog}.calls.{name}")]


def test_rollback_by_snapshot_and_by_time(session: Spark, catalog: str) -> None:
    first, second, third = make(session, catalog, "back")
    assert session(f"CALL {catalog}.system.rollback_to_snapshot('calls.back', {second})") == [(third, second)]
    assert ids(session, catalog, "back") == [0, 1]
    assert session(f"CALL {catalog}.system.set_current_snapshot(table => 'calls.back', snapshot_id => {third})") == [
        (second, third)
    ]
    at = session.lake(catalog).table("calls.back").snapshot(second).timestamp_ms
    time = session.one(f"SELECT CAST(timestamp_millis({at}) AS STRING)")
    called = f"CALL {catalog}.system.rollback_to_timestamp(timestamp => TIMESTAMP '{time}', table => 'calls.back')"
    assert session(called) == [(third, first)]  # strictly older than the time
    assert ids(session, catalog, "back") == [0]


def test_only_the_history_can_be_gone_back_to(session: Spark, catalog: str) -> None:
    _, second, third = make(session, catalog, "aside")
    session(f"CALL {catalog}.system.rollback_to_snapshot('calls.aside', {second})")
    with pytest.raises(PySparkException, match=str(third)):
        session(f"CALL {catalog}.system.rollback_to_snapshot('calls.aside', {third})")


def test_set_current_snapshot_takes_one_of_both(session: Spark, catalog: str) -> None:
    first, second, third = make(session, catalog, "current")
    session(f"ALTER TABLE {catalog}.calls.current CREATE TAG early AS OF VERSION {first}")
    assert session(f"CALL {catalog}.system.set_current_snapshot('calls.current', ref => 'early')") == [(third, first)]
    assert ids(session, catalog, "current") == [0]
    for wrong in ("'calls.current'", f"'calls.current', {second}, 'early'"):
        with pytest.raises(IllegalArgumentException, match="either snapshot_id or ref"):
            session(f"CALL {catalog}.system.set_current_snapshot({wrong})")


def test_cherry_pick_and_publish(session: Spark, catalog: str) -> None:
    make(session, catalog, "staged", 1)
    session(f"ALTER TABLE {catalog}.calls.staged SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    staged = {}
    for number, wap_id in ((10, "a"), (11, "b")):
        session.session.conf.set("spark.wap.id", wap_id)
        try:
            session(f"INSERT INTO {catalog}.calls.staged VALUES ({number})")
        finally:
            session.session.conf.unset("spark.wap.id")
        staged[wap_id] = snapshots(session, catalog, "staged")[-1]
    assert ids(session, catalog, "staged") == [0]
    ((source, current),) = session(f"CALL {catalog}.system.publish_changes('calls.staged', 'a')")
    assert source == staged["a"]
    assert ids(session, catalog, "staged") == [0, 10]
    assert current == session.lake(catalog).table("calls.staged").metadata.current_snapshot_id
    ((source, current),) = session(f"CALL {catalog}.system.cherrypick_snapshot('calls.staged', {staged['b']})")
    assert source == staged["b"]
    assert ids(session, catalog, "staged") == [0, 10, 11]
    with pytest.raises(PySparkException, match="nothing"):
        session(f"CALL {catalog}.system.publish_changes('calls.staged', 'nothing')")


def test_fast_forward(session: Spark, catalog: str) -> None:
    (first,) = make(session, catalog, "ahead", 1)
    session(f"ALTER TABLE {catalog}.calls.ahead CREATE BRANCH audit")
    session(f"INSERT INTO {catalog}.calls.ahead.branch_audit VALUES (7)")
    second = snapshots(session, catalog, "ahead")[-1]
    assert session(f"CALL {catalog}.system.fast_forward('calls.ahead', 'main', 'audit')") == [("main", first, second)]
    assert ids(session, catalog, "ahead") == [0, 7]
    assert session(f"CALL {catalog}.system.fast_forward('calls.ahead', 'fresh', 'audit')") == [("fresh", None, second)]


def test_ancestors_of(session: Spark, catalog: str) -> None:
    snapshot_ids = make(session, catalog, "line")
    history = session.lake(catalog).table("calls.line").snapshots
    times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in history}
    expected = [(snapshot_id, times[snapshot_id]) for snapshot_id in reversed(snapshot_ids)]
    assert session(f"CALL {catalog}.system.ancestors_of('calls.line')") == expected
    assert session(f"CALL {catalog}.system.ancestors_of('calls.line', {snapshot_ids[1]})") == expected[1:]


def test_history_after_expiry_and_transactions(session: Spark, catalog: str) -> None:
    first, second, third = make(session, catalog, "cut")
    table = session.lake(catalog).table("calls.cut")
    table.create_tag("kept", snapshot=first)
    table.expire(snapshots=[second]).apply()
    assert [row[0] for row in session(f"CALL {catalog}.system.ancestors_of('calls.cut')")] == [third]
    for call in (f"rollback_to_snapshot('calls.cut', {first})", f"cherrypick_snapshot('calls.cut', {first})"):
        with pytest.raises(PySparkException, match=r"what came before has expired|already"):
            session(f"CALL {catalog}.system.{call}")
    with table.transaction() as tx:
        tx.append([{"id": 3}])
        tx.append([{"id": 4}])
    within, last = snapshots(session, catalog, "cut")[-2:]
    with pytest.raises(PySparkException, match=f"from snapshot {third} to snapshot {last} at once"):
        session(f"CALL {catalog}.system.rollback_to_snapshot('calls.cut', {within})")
    assert ids(session, catalog, "cut") == [0, 1, 2, 3, 4]


def test_register_table(session: Spark, catalog: str) -> None:
    make(session, catalog, "original", 2)
    table = session.lake(catalog).table("calls.original")
    if catalog == "lake":
        pytest.skip("tables of a file-system catalog are where their folders are")
    called = (
        f"CALL {catalog}.system.register_table(table => 'calls.again', metadata_file => '{table.metadata_location}')"
    )
    assert session(called) == [(table.metadata.current_snapshot_id, 2, 2)]
    assert ids(session, catalog, "again") == [0, 1]


def test_names_may_have_the_catalog_or_only_the_table(session: Spark, catalog: str) -> None:
    _, second = make(session, catalog, "named", 2)
    expected = session(f"CALL {catalog}.system.ancestors_of('{catalog}.calls.named')")
    assert expected[0][0] == second
    with pytest.raises(IllegalArgumentException, match="with its namespace"):
        session(f"CALL {catalog}.system.ancestors_of('named')")
    session(f"USE {catalog}.calls")
    try:
        assert session("CALL system.ANCESTORS_OF('named')") == expected
    finally:
        session("USE spark_catalog.default")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("system.ancestors_of('calls.nowhere')", "nowhere"),
        ("system.ancestors_of(NULL)", "table must not be null"),
        ("system.no_such_thing('calls.t')", "there is no procedure system.no_such_thing"),
        ("other.ancestors_of('calls.t')", "there is no procedure other.ancestors_of"),
    ],
)
def test_errors_say_what_is_wrong(session: Spark, catalog: str, call: str, message: str) -> None:
    with pytest.raises(PySparkException) as caught:
        session(f"CALL {catalog}.{call}")
    assert message in str(caught.value)
    assert "Py4J" not in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_an_argument_that_is_missing_is_spark_s_own_error(session: Spark, catalog: str) -> None:
    with pytest.raises(AnalysisException) as caught:
        session(f"CALL {catalog}.system.rollback_to_snapshot('calls.t')")
    assert caught.value.getCondition() == "REQUIRED_PARAMETER_NOT_FOUND"


def test_procedures_are_shown_and_described(session: Spark, catalog: str) -> None:
    if session.version < (4, 1):
        pytest.skip("this Spark has no SHOW PROCEDURES")
    listed = session(f"SHOW PROCEDURES IN {catalog}.system")
    assert set(NAMES) <= {row[3] for row in listed}
    assert {row[0] for row in listed} == {catalog}
    message = "\n".join(row[0] for row in session(f"DESCRIBE PROCEDURE {catalog}.system.fast_forward"))
    assert "moves a branch ahead" in message
