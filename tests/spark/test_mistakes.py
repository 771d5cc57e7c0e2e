"""Mistakes on Spark: what is wrong, and what to write instead, where Spark alone would leave one guessing."""

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException

from floe.spark.procedures.procedure import INSTEAD, PROCEDURES
from helpers.spark import Spark


@pytest.fixture(scope="module")
def name(session: Spark) -> str:
    session("CREATE NAMESPACE IF NOT EXISTS lake.mistakes")
    session("CREATE OR REPLACE TABLE lake.mistakes.t (id BIGINT NOT NULL, n STRING, s STRUCT<a: INT NOT NULL>)")
    session.lake().table("mistakes.t").append([{"id": 1, "n": "a", "s": None}])
    return "lake.mistakes.t"


def test_metadata_tables_that_are_not_there(session: Spark, name: str) -> None:
    expected = r"lake\.mistakes\.t has no metadata table snapshot; did you mean snapshots\? there are .*history"
    with pytest.raises(IllegalArgumentException, match=expected):
        session(f"SELECT * FROM {name}.snapshot")
    with pytest.raises(IllegalArgumentException, match=r"has no metadata table wombat; there are "):
        session.session.table(f"{name}.wombat").collect()
    session(f"DROP TABLE IF EXISTS {name}.snapshot")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        session("SELECT * FROM lake.mistakes.nowhere.snapshots")


NULLS = {
    "INSERT INTO {name} VALUES (CAST(NULL AS BIGINT), 'b', NULL)": "id",
    "INSERT INTO {name} SELECT IF(id > 2, id, NULL), 'x', NULL FROM range(5)": "id",
    "INSERT INTO {name} VALUES (5, 'b', named_struct('a', CAST(NULL AS INT)))": "s.a",
    "UPDATE {name} SET id = IF(n = 'a', NULL, 5)": "id",
    "MERGE INTO {name} USING (SELECT 1 AS k) ON id = k WHEN MATCHED THEN UPDATE SET id = IF(n = 'a', NULL, 3)": "id",
}


def test_null_for_a_required_column(session: Spark, name: str) -> None:
    for statement, column in NULLS.items():
        with pytest.raises(IllegalArgumentException) as caught:
            session(statement.format(name=name))
        assert str(caught.value) == (
            f"[NOT_NULL_ASSERT_VIOLATION] null for {column}, which {name} requires;"
            f" leave rows without it out, or ALTER TABLE {name} ALTER COLUMN {column} DROP NOT NULL"
        ), statement
    frame = session.session.sql("SELECT IF(id > 2, id, NULL) AS id, 'x' AS n, NULL AS s FROM range(5)")
    with pytest.raises(IllegalArgumentException, match=rf"null for id, which {name} requires"):
        frame.writeTo(name).append()
    assert session.one(f"SELECT count(*) FROM {name}") == 1


STATEMENTS = {
    "OPTIMIZE {name} ZORDER BY (id)": r"INSERT OVERWRITE lake\.mistakes\.t SELECT \* FROM lake\.mistakes\.t",
    "-- clean\nVACUUM {name} RETAIN 7 HOURS": r'spark\.lakes\["lake"\]\.table\("mistakes\.t"\)\.expire\(older_than',
    "DESCRIBE HISTORY {name}": r"SELECT \* FROM lake\.mistakes\.t\.history",
    "RESTORE TABLE {name} TO VERSION AS OF 1": r"CALL lake\.system\.rollback_to_snapshot\('mistakes\.t', ",
}


def test_statements_of_another_format(session: Spark, name: str) -> None:
    for statement, expected in STATEMENTS.items():
        with pytest.raises(ParseException, match=rf"is not a statement for tables of Iceberg; .*{expected}"):
            session(statement.format(name=name))
    with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
        session("OPTIMIZE elsewhere.t")  # which another extension of Spark's may know


def test_the_advice_is_good(session: Spark, name: str) -> None:
    table = session.lake().table("mistakes.t")
    table.expire(older_than="7d").apply()
    table.rewrite_manifests()
    session(f"INSERT OVERWRITE {name} SELECT * FROM {name}")
    assert session.one(f"SELECT count(*) FROM {name}.history") == 2
    assert session.one(f"SELECT count(*) FROM {name}") == 1
    for method in ("expire", "rewrite_manifests", "add_files", "rewrite_files"):
        assert hasattr(table, method)


def test_procedures_that_are_not_there_yet(session: Spark, name: str) -> None:
    assert not set(INSTEAD) & set(PROCEDURES)
    advice = r"in Python, spark\.lakes\[\"lake\"\]\.table\(\"db\.t\"\)\.expire\(older_than='7d'\)\.apply\(\) does it"
    with pytest.raises(IllegalArgumentException, match=rf"expire_snapshots; {advice}; .*ancestors_of"):
        session("CALL lake.system.expire_snapshots('mistakes.t')")
    with pytest.raises(IllegalArgumentException, match=r"prefixes=\{\"/old/root\": \"/new/root\"\}"):
        session("CALL lake.system.rewrite_table_path('mistakes.t')")
