"""Which snapshot a read sees, and with which schema."""

import pytest

from floe.errors import InvalidInput, NoSuchRef, NoSuchSnapshot
from floe.plan.snapshot_selection import choose_snapshot, schema_for
from floe.spec.values.civil_time import millis_to_text
from helpers.corpus import table_names
from helpers.corpus_tables import open_table

TABLES = table_names(without=("invalid", "odd", "view"))


@pytest.mark.parametrize("name", TABLES)
def test_snapshots_and_schemas_are_those_that_java_reads(corpus_dir, name):
    table = open_table(corpus_dir, name)
    asked = 0
    for case in table.facts["cases"]:
        query = case["query"]
        if set(query) - {"snapshot_id", "ref", "timestamp_ms"}:
            continue
        choice = {"snapshot": query.get("snapshot_id"), "ref": query.get("ref"), "as_of_ms": query.get("timestamp_ms")}
        schema = schema_for(table.metadata, **choice)
        assert [f["name"] for f in table.facts["schemas"][case["schema"]]["fields"]] == [f.name for f in schema.fields]
        snapshot = choose_snapshot(table.metadata, **choice)
        if "snapshot_id" in query:
            assert snapshot.snapshot_id == query["snapshot_id"]
        asked += 1
    assert asked or name == "evo_defaults_orc"


def test_time_travel_follows_the_log_not_the_parents(corpus_dir):
    """After a rollback the older snapshot was current again, though the newer one came later."""
    metadata = open_table(corpus_dir, "hist_rollback").metadata
    for entry in metadata.snapshot_log:
        newest = [e for e in metadata.snapshot_log if e.timestamp_ms <= entry.timestamp_ms][-1]
        assert choose_snapshot(metadata, as_of_ms=entry.timestamp_ms).snapshot_id == newest.snapshot_id


def test_time_before_the_first_snapshot(corpus_dir):
    metadata = open_table(corpus_dir, "v2_basic").metadata
    first = min(entry.timestamp_ms for entry in metadata.snapshot_log)
    with pytest.raises(NoSuchSnapshot, match=f"begins at {millis_to_text(first)}"):
        choose_snapshot(metadata, as_of_ms=first - 1)
    assert choose_snapshot(metadata, as_of_ms=first) is not None


def test_what_does_not_exist(corpus_dir):
    metadata = open_table(corpus_dir, "v2_basic").metadata
    with pytest.raises(NoSuchSnapshot, match="no snapshot 17"):
        choose_snapshot(metadata, snapshot=17)
    with pytest.raises(NoSuchRef, match="nobody"):
        choose_snapshot(metadata, ref="nobody")
    with pytest.raises(NoSuchRef, match="nobody"):
        schema_for(metadata, ref="nobody")


@pytest.mark.parametrize("function", [choose_snapshot, schema_for])
def test_a_snapshot_is_chosen_in_one_way(corpus_dir, function):
    metadata = open_table(corpus_dir, "v2_basic").metadata
    with pytest.raises(InvalidInput, match="snapshot and ref"):
        function(metadata, snapshot=1, ref="main")


def test_a_table_without_snapshots(corpus_dir):
    metadata = open_table(corpus_dir, "empty_new").metadata
    assert choose_snapshot(metadata) is None
    assert choose_snapshot(metadata, ref="main") is None
    assert schema_for(metadata) == schema_for(metadata, ref="main") == metadata.schema
