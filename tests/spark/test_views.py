"""Views in SQL, over both catalogs: what statements say, what is stored, and views that others stored."""

from pathlib import Path

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


def test_a_list_of_columns_names_what_the_query_does_not(session: Spark, catalog: str, db: str) -> None:
    session(f"CREATE VIEW {db}.listed (a, b) AS SELECT id, upper(name) FROM {db}.t")
    assert session.sorted(f"SELECT a, b FROM {db}.listed WHERE b IS NOT NULL") == [(1, "A"), (2, "B")]
    session(
        f"CREATE OR REPLACE VIEW {db}.listed (c COMMENT 'with, a comma', n COMMENT 'how many') "
        f"AS SELECT concat(name, ',', name), count(*) FROM {db}.t GROUP BY name"
    )
    assert session.sorted(f"SELECT n, c FROM {db}.listed") == [(1, "a,a"), (1, "b,b"), (1, None)]
    fields = session.lake(catalog).view("views.listed").schema.fields
    assert [(field.name, field.doc) for field in fields] == [("c", "with, a comma"), ("n", "how many")]
    session(f"CREATE VIEW IF NOT EXISTS {db}.largest_id (id) AS SELECT max(id) FROM {db}.t")
    assert session.one(f"SELECT id FROM {db}.largest_id") == 3
    session(f"ALTER VIEW {db}.largest_id AS SELECT min(id) AS least FROM {db}.t")
    assert session.one(f"SELECT least FROM {db}.largest_id") == 1
    for statement in (f"CREATE VIEW {db}.unnamed AS", f"ALTER VIEW {db}.largest_id AS"):
        with pytest.raises(AnalysisException, match="CREATE_PERMANENT_VIEW_WITHOUT_ALIAS"):
            session(f"{statement} SELECT max(id) FROM {db}.t")


def test_what_a_replaced_view_keeps(session: Spark, catalog: str, db: str) -> None:
    """As with Java: properties that are not given, the comment, the place, the history."""
    session(
        f"CREATE VIEW {db}.kept COMMENT 'mine' TBLPROPERTIES ('a' = '1', 'version.history.num-entries' = '2') "
        f"AS SELECT concat(name, 'x') AS n FROM {db}.t"
    )
    before = session.lake(catalog).view("views.kept").metadata
    session(f"CREATE OR REPLACE VIEW {db}.kept TBLPROPERTIES ('b' = '2') AS SELECT 1 AS one")
    session(f"CREATE OR REPLACE VIEW {db}.kept (x) TBLPROPERTIES ('a' = '3') AS SELECT concat('a', 'b')")
    view = session.lake(catalog).view("views.kept")
    kept = {key: view.properties[key] for key in ("a", "b", "comment", "version.history.num-entries")}
    assert kept == {"a": "3", "b": "2", "comment": "mine", "version.history.num-entries": "2"}
    assert (view.metadata.view_uuid, view.metadata.location) == (before.view_uuid, before.location)
    assert [version.version_id for version in view.metadata.versions] == [2, 3]
    assert session.one(f"SELECT x FROM {db}.kept") == "ab"


def test_the_place_of_a_view(session: Spark, catalog: str, db: str, tmp_path: Path) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    make = f"VIEW {db}.placed TBLPROPERTIES ('location' = '{{}}') AS SELECT {{}} AS one"
    if catalog == "lake":
        with pytest.raises(PySparkException, match=r"location.*views\.placed"):
            session("CREATE " + make.format(first, 1))
        default_location = session.lake().catalog.default_location(("views", "placed"))
        session("CREATE " + make.format(f"file:{default_location}/", 1))
        assert session.one(f"SELECT one FROM {db}.placed") == 1
        return
    session("CREATE " + make.format(first, 1))
    view = session.lake(catalog).view("views.placed")
    assert view.metadata.location == first
    assert "location" not in view.properties
    assert len(list((tmp_path / "first" / "metadata").iterdir())) == 1
    session(f"ALTER VIEW {db}.placed SET TBLPROPERTIES ('a' = '1')")
    session(f"CREATE OR REPLACE VIEW {db}.placed AS SELECT 2 AS one")
    assert session.lake(catalog).view("views.placed").metadata.location == first
    session("CREATE OR REPLACE " + make.format(second, 3))
    assert session.lake(catalog).view("views.placed").metadata.location == second
    assert len(list((tmp_path / "second" / "metadata").iterdir())) == 1
    assert session.one(f"SELECT one FROM {db}.placed") == 3
    with pytest.raises(PySparkException, match="location is a reserved"):
        session(f"ALTER VIEW {db}.placed SET TBLPROPERTIES ('location' = '{first}')")


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


def test_lists_of_tables_and_views(session: Spark, catalog: str, db: str) -> None:
    """SHOW TABLES has tables alone; tools such as dbt ask SHOW TABLE EXTENDED for all, and what each is."""
    session(f"CREATE NAMESPACE {catalog}.listing")
    session(f"CREATE TABLE {catalog}.listing.ta (id INT)")
    session(f"CREATE VIEW {catalog}.listing.vi (n COMMENT 'a number') COMMENT 'it' AS SELECT id FROM {db}.t")
    session(f"CREATE VIEW {catalog}.listing.wide AS SELECT 1 AS one")
    session("CREATE OR REPLACE TEMPORARY VIEW vi_of_a_moment AS SELECT 1 AS one")
    try:
        assert session(f"SHOW TABLES IN {catalog}.listing") == [("listing", "ta", False)]
        views = [row[1] for row in session(f"SHOW VIEWS IN {catalog}.listing") if not row[2]]
        assert views == ["vi", "wide"]
        rows = session(f"SHOW TABLE EXTENDED IN {catalog}.listing LIKE 'ta|vi*'")
    finally:
        session("DROP VIEW vi_of_a_moment")
    assert [row[:3] for row in rows] == [
        ("listing", "ta", False),
        ("listing", "vi", False),
        ("", "vi_of_a_moment", True),
    ]
    table, view = (row[3].splitlines() for row in rows[:2])
    assert {"Type: MANAGED", "Provider: iceberg"} <= set(table)
    assert {"Table: vi", "Type: VIEW", "Provider: iceberg", "Comment: it", f"View Text: SELECT id FROM {db}.t"} <= set(
        view
    )
    assert " |-- n: integer (nullable = true)" in view
    session(f"USE {catalog}.listing")
    try:
        rows = [row for row in session("show table extended like 'vi|w*'") if not row[2]]
        assert [row[1] for row in rows] == ["vi", "wide"]
    finally:
        session("USE spark_catalog.default")


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
