"""Views in one database: what Java Iceberg makes Floe reads on Spark, and the other way round."""

from typing import Any

import pytest

from helpers.java_catalogs import JavaCatalogs

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

ROWS = [(1, "a"), (2, "b"), (3, None)]


def test_each_reads_and_changes_the_views_of_the_other(java_catalogs: JavaCatalogs) -> None:
    shared = java_catalogs.new("sqlite")
    ours = shared.floe_key
    session = shared.session()

    def run(statement: str) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in session.sql(statement).collect()), key=repr)

    run(f"CREATE NAMESPACE {ours}.db")
    run(f"CREATE TABLE {ours}.db.t (id INT, name STRING)")
    run(f"INSERT INTO {ours}.db.t VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    for maker in (shared.key, ours):
        run(f"USE {maker}.db")
        run(f"CREATE VIEW of_{maker} (key COMMENT 'the key', label) AS SELECT id AS x, name FROM t")
    run("USE spark_catalog.default")
    for maker in (shared.key, ours):
        for reader in (shared.key, ours):
            assert run(f"SELECT key, label FROM {reader}.db.of_{maker}") == ROWS
            assert (f"of_{maker}",) in [row[1:2] for row in run(f"SHOW VIEWS IN {reader}.db")]
    for maker, changer in ((shared.key, ours), (ours, shared.key)):
        run(f"ALTER VIEW {changer}.db.of_{maker} SET TBLPROPERTIES ('changed' = 'yes')")
        assert shared.lake.view(f"db.of_{maker}").properties["changed"] == "yes"
        run(f"CREATE OR REPLACE VIEW {changer}.db.of_{maker} AS SELECT max(id) AS largest FROM {maker}.db.t")
        for reader in (shared.key, ours):
            assert run(f"SELECT largest FROM {reader}.db.of_{maker}") == [(3,)]
        run(f"DROP VIEW {changer}.db.of_{maker}")
    assert shared.lake.views("db") == []
