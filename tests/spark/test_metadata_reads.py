"""How often a statement parses the metadata files of its tables: each of them once at most."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import floe.catalog.metadata_files
from floe.spec.metadata.table_metadata import TableMetadata
from helpers.spark import Spark

CATALOG = "sq"
STATEMENTS = {
    "select": "SELECT * FROM {a} WHERE id = 1",
    "self-join": "SELECT * FROM {a} x JOIN {a} y USING (id)",
    "insert": "INSERT INTO {a} SELECT * FROM {b}",
    "merge": "MERGE INTO {a} t USING {b} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'm' "
    "WHEN NOT MATCHED THEN INSERT *",
}


@contextmanager
def counting_parses(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each metadata file is parsed, by location."""
    counts: Counter[str] = Counter()
    parse = floe.catalog.metadata_files.parse_metadata

    def counted(data: bytes, location: str, **options: Any) -> TableMetadata:
        counts[location] += 1
        return parse(data, location, **options)

    with monkeypatch.context() as patch:
        patch.setattr("floe.catalog.metadata_files.parse_metadata", counted)
        patch.setattr("floe.catalog.file_system.pointer.parse_metadata", counted)
        yield counts


@pytest.fixture(scope="module")
def tables(session: Spark) -> dict[str, str]:
    session(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.metadata_reads")
    names = {name: f"{CATALOG}.metadata_reads.{name}" for name in ("a", "b")}
    for name in names.values():
        session(f"CREATE TABLE {name} (id bigint, v string)")
        session(f"INSERT INTO {name} VALUES (1, 'x'), (2, 'y')")
    return names


@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
def test_a_statement_parses_a_metadata_file_once_at_most(
    session: Spark, tables: dict[str, str], statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counting_parses(monkeypatch) as counts:
        session(statement, **tables)
    assert [count for count in counts.values() if count > 1] == [], counts


def test_commits_of_others_are_seen(session: Spark, tables: dict[str, str]) -> None:
    before = session.one("SELECT count(*) FROM {a}", **tables)
    session.lake(CATALOG).table("metadata_reads.a").append([{"id": 9, "v": "z"}])
    assert session.one("SELECT count(*) FROM {a}", **tables) == before + 1


def test_a_table_that_was_dropped_and_created_again_is_loaded_anew(session: Spark, tables: dict[str, str]) -> None:
    held = session.session.table(tables["b"])  # keeps the table that was loaded
    lake = session.lake(CATALOG)
    lake.drop_table("metadata_reads.b")
    assert session.lake(CATALOG).table_exists("metadata_reads.b") is False
    lake.create_table("metadata_reads.b", "other int")
    assert session.session.table(tables["b"]).columns == ["other"]
    assert held.columns == ["id", "v"]
