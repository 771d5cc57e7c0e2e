"""Views in SQL, over both catalogs: what statements say, what is stored, and views that others stored."""

import pytest
from pyspark.errors import AnalysisException, PySparkException

from helpers.spark import Spark


@pytest.fixture(scope="module")
def db(session: Spark, catalog: str) -> str:
    """A namespace with a table of three rows."""
    session(f"CREATE NAMESPACE {catalog}.views")
    session(f"CREATE TABLE {catalog}.views.t (id INT, name STRING)")
    session(f"INSERT INTO {catalog}.views.t VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    return f"{catalog}.views"


def test_a_view_is_stored_as_iceberg_stores_views(session: Spark, catalog: str, db: str) -> None:
    session(f"USE {db}")
    try:
        session(
            "CREATE VIEW named (key COMMENT 'the key', label) COMMENT 'all of t' TBLPROPERTIES ('x' = '1') "
            "AS SELECT id + 1 AS next, name FROM t"
        )
    finally:
        session("USE spark_catalog.default")
    assert session.sorted(f"SELECT * FROM {db}.named") == [(2, "a"), (3, "b"), (4, None)]
    assert session.sorted(f"SELECT named.key FROM {db}.named WHERE label = 'b'") == [(3,)]
    view = session.lake(catalog).view("views.named")
    assert view.sql("spark") == "SELECT id + 1 AS next, name FROM t"
    assert [(field.name, str(field.type), field.doc) for field in view.schema.fields] == [
        ("key", "int", "the key"),
        ("label", "string", None),
    ]
    version = view.metadata.current_version
    assert (version.default_catalog, version.default_namespace) == (None, ("views",))
    assert view.properties["spark.query-column-names"] == "next,name"
    assert (view.properties["comment"], view.properties["x"]) == ("all of t", "1")


def test_a_view_sees_what_the_table_holds_now(session: Spark, db: str) -> None:
    session(f"CREATE TABLE {db}.grows AS SELECT 1 AS id")
    session(f"CREATE VIEW {db}.largest AS WITH all AS (SELECT * FROM {db}.grows) SELECT max(id) AS id FROM all")
    assert session.one(f"SELECT id FROM {db}.largest") == 1
    session(f"INSERT INTO {db}.grows VALUES (7)")
    assert session.one(f"SELECT id FROM {db}.largest") == 7
    session(f"ALTER TABLE {db}.grows ADD COLUMN more INT")
    assert session.one(f"SELECT id FROM {db}.largest") == 7


def test_views_are_changed_and_keep_their_history(session: Spark, catalog: str, db: str) -> None:
    session(f"CREATE VIEW {db}.changing AS SELECT id FROM {db}.t")
    session(f"ALTER VIEW {db}.changing SET TBLPROPERTIES ('owner of data' = 'me', 'y' = '2')")
    session(f"ALTER VIEW {db}.changing UNSET TBLPROPERTIES ('y')")
    assert dict(session(f"SHOW TBLPROPERTIES {db}.changing"))["owner of data"] == "me"
    assert len(session.lake(catalog).view("views.changing").metadata.versions) == 1
    session(f"ALTER VIEW {db}.changing AS SELECT name FROM {db}.t WHERE id = 1")
    assert session(f"SELECT * FROM {db}.changing") == [("a",)]
    session(f"CREATE OR REPLACE VIEW {db}.changing AS SELECT 7 AS seven")
    assert session(f"SELECT seven FROM {db}.changing") == [(7,)]
    session(f"CREATE VIEW IF NOT EXISTS {db}.changing AS SELECT 8 AS eight")
    assert session(f"SELECT * FROM {db}.changing") == [(7,)]
    view = session.lake(catalog).view("views.changing")
    assert len(view.metadata.versions) == 3
    session(f"DROP VIEW {db}.changing")
    session(f"DROP VIEW IF EXISTS {db}.changing")
    assert not session.lake(catalog).view_exists("views.changing")


def test_views_are_shown(session: Spark, db: str) -> None:
    session(f"CREATE VIEW {db}.shown (a COMMENT 'first') COMMENT 'a view' AS SELECT id FROM {db}.t")
    session(f"CREATE VIEW {db}.shown_too AS SELECT id FROM {db}.t")
    assert session(f"SHOW VIEWS IN {db} LIKE 'shown*'") == [("views", "shown", False), ("views", "shown_too", False)]
    assert session(f"DESCRIBE {db}.shown")[0] == ("a", "int", "first")
    assert session(f"SHOW COLUMNS IN {db}.shown") == [("a",)]
    statement = session.one(f"SHOW CREATE TABLE {db}.shown")
    session(f"DROP VIEW {db}.shown")
    session(statement)
    assert session.sorted(f"SELECT a FROM {db}.shown") == [(1,), (2,), (3,)]


def test_views_that_others_made_are_read_by_the_places_of_their_columns(session: Spark, catalog: str, db: str) -> None:
    lake = session.lake(catalog)
    lake.create_view("views.others", "SELECT id AS x, upper(name) FROM t -- all", schema="key int, label string")
    assert session.sorted(f"SELECT key, label FROM {db}.others") == [(1, "A"), (2, "B"), (3, None)]
    lake.create_view("views.foreign", "SELECT 1", schema="one int", dialect="trino")
    with pytest.raises(PySparkException, match="no SQL in dialect 'spark'"):
        session(f"SELECT * FROM {db}.foreign")


def test_renaming(session: Spark, db: str) -> None:
    session(f"CREATE VIEW {db}.before AS SELECT 1 AS one")
    if db.startswith("lake"):
        with pytest.raises(PySparkException, match="cannot be renamed"):
            session(f"ALTER VIEW {db}.before RENAME TO {db}.after")
        return
    session(f"ALTER VIEW {db}.before RENAME TO {db}.after")
    assert session.one(f"SELECT one FROM {db}.after") == 1


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("CREATE VIEW {db}.t AS SELECT 1 AS one", "TABLE_OR_VIEW_ALREADY_EXISTS"),
        ("CREATE VIEW {db}.bad AS SELECT * FROM a_temporary_view", "INVALID_TEMP_OBJ_REFERENCE"),
        ("CREATE VIEW {db}.bad AS SELECT nope FROM {db}.t", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        ("CREATE VIEW {db}.v (a) AS SELECT 1 AS x, 2 AS y", "CREATE_VIEW_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS"),
        ("CREATE VIEW {db}.nowhere.v AS SELECT 1 AS one", "SCHEMA_NOT_FOUND"),
        ("DROP VIEW {db}.missing", "VIEW_NOT_FOUND"),
        ("SELECT * FROM {db}.missing", "TABLE_OR_VIEW_NOT_FOUND"),
    ],
)  # fmt: skip
def test_mistakes(session: Spark, db: str, statement: str, condition: str) -> None:
    session("CREATE OR REPLACE TEMPORARY VIEW a_temporary_view AS SELECT 1 AS one")
    with pytest.raises(AnalysisException) as caught:
        session(statement.format(db=db))
    assert caught.value.getCondition() == condition
