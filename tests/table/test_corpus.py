"""Tables that Java Iceberg wrote, through the front door: opened, shown, planned and counted as Java does."""

import contextlib
from pathlib import Path
from typing import Any

import pytest

import floe
from floe import Table, errors
from helpers.corpus import expected, table_names

VALID = table_names(without=("invalid_", "odd_", "view_"))
INVALID = table_names("invalid_", "odd_")
PREFIX = "/floe-corpus/"


def opened(corpus_dir: Path, name: str) -> tuple[Table, dict[str, Any]]:
    facts = expected(corpus_dir, name)
    metadata = facts.get("metadata") or facts["invalid"]["metadata"]
    return floe.open(corpus_dir / name / metadata, prefixes={PREFIX: f"{corpus_dir}/"}), facts


@pytest.mark.parametrize("name", VALID)
def test_a_table_of_java_is_what_java_says(corpus_dir: Path, name: str) -> None:
    table, facts = opened(corpus_dir, name)
    assert table.format_version == facts["format_version"]
    current = table.current_snapshot
    assert (None if current is None else current.snapshot_id) == facts["current_snapshot_id"]
    for field in table.schema.fields[:30]:
        assert not field.name.isprintable() or field.name.replace("`", "``")[:100] in repr(table)
    assert table._repr_html_().startswith("<div>")
    for entry in table.history():
        assert str(entry.snapshot_id) in str(entry)
    everything = set(table.scan().files())
    for plan in facts.get("plans", ()):
        assert set(table.scan(where=plan["filter_sql"]).files()) <= everything


@pytest.mark.parametrize("name", VALID)
def test_counts_are_counts_of_rows(corpus_dir: Path, name: str) -> None:
    table, facts = opened(corpus_dir, name)
    for case in facts["cases"]:
        query = dict(case["query"])
        if not query.keys() <= {"snapshot_id", "ref", "timestamp_ms", "filter", "filter_sql"}:
            continue
        if "filter" in query and "filter_sql" not in query:
            continue
        scan = table.scan(
            where=query.get("filter_sql"),
            snapshot=query.get("snapshot_id"),
            ref=query.get("ref"),
            as_of=query.get("timestamp_ms"),
        )
        assert scan.count() == case["count"], query


@pytest.mark.parametrize("name", INVALID)
def test_a_broken_table_is_told_as_such(corpus_dir: Path, name: str) -> None:
    facts = expected(corpus_dir, name)["invalid"]
    if facts["readable"]:  # by Java; where another reader may be stricter, it must say so
        with contextlib.nullcontext() if name.startswith("odd_") else contextlib.suppress(errors.InvalidMetadata):
            table, _ = opened(corpus_dir, name)
            assert name in table.location
        return
    with pytest.raises(errors.FloeError):
        read_all(corpus_dir, name)


def read_all(corpus_dir: Path, name: str) -> None:
    """The rows of every snapshot."""
    table, _ = opened(corpus_dir, name)
    for snapshot in table.snapshots:
        table.scan(snapshot=snapshot.snapshot_id).to_arrow()
