"""UPDATE and MERGE of tables that take rows of any columns (`write.spark.accept-any-schema`): as of all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from helpers.spark import Spark
from helpers.spark_statements import COW, MOR, Make

COLUMNS = "id INT, v STRING DEFAULT 'd', n BIGINT, st STRUCT<a: INT, b: STRING>"
BEFORE = [(1, "a", 1, (1, "x")), (2, "b", 2, None)]
SOURCE = "(SELECT * FROM VALUES (2, 'x'), (9, 'y') AS s(id, w)) s"

STATEMENTS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "update": ("UPDATE {t} SET v = 'u', n = 7 WHERE id = 1", [(1, "u", 7, (1, "x")), BEFORE[1]]),
    "update of a nested field": ("UPDATE {t} SET st.a = 7 WHERE id = 1", [(1, "a", 1, (7, "x")), BEFORE[1]]),
    "update to a default": ("UPDATE {t} SET v = DEFAULT WHERE id = 2", [BEFORE[0], (2, "d", 2, None)]),
    "upsert": (
        "MERGE INTO {t} t USING {s} ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.w "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.w)",
        [BEFORE[0], (2, "x", 2, None), (9, "y", None, None)],
    ),
    "upsert of all columns": (
        "MERGE INTO {t} t USING (SELECT 2 AS id, 'x' AS v, 5L AS n, named_struct('a', 1, 'b', 'z') AS st) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        [BEFORE[0], (2, "x", 5, (1, "z"))],
    ),
    "merge that deletes": ("MERGE INTO {t} t USING {s} ON t.id = s.id WHEN MATCHED THEN DELETE", [BEFORE[0]]),
    "merge that deletes and inserts": (
        "merge /* as ever */ into {t} t USING {s} ON t.id = s.id WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT (v, id) VALUES (s.w, s.id)",
        [BEFORE[0], (9, "y", None, None)],
    ),
    "merge that inserts": (
        "MERGE INTO {t} t USING {s} ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
        [*BEFORE, (9, "d", None, None)],
    ),
    "merge by source": (
        "MERGE INTO {t} t USING {s} ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 'gone'",
        [(1, "gone", 1, (1, "x")), BEFORE[1]],
    ),
    "merge with itself": (
        "MERGE INTO {t} t USING {t} s ON t.id = s.id + 1 WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id + 1, s.n)",
        [BEFORE[0], (2, "a", 2, None), (3, "d", 2, None)],
    ),
}


@pytest.fixture
def any_columns(make: Make, session: Spark) -> Callable[[str], Any]:
    def make_table(mode: str) -> Any:
        t = make(COLUMNS, mode=mode, **{"write.spark.accept-any-schema": "true"})
        session(
            f"INSERT INTO {t.name} SELECT 1 AS id, 'a' AS v, 1L AS n, named_struct('a', 1, 'b', 'x') AS st "
            "UNION ALL SELECT 2, 'b', 2L, NULL"
        )
        return t

    return make_table


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("mode", [COW, MOR])
def test_statements_find_their_columns(
    session: Spark, any_columns: Callable[[str], Any], mode: str, statement: str
) -> None:
    t = any_columns(mode)
    text, expected = STATEMENTS[statement]
    session(text.format(t=t.name, s=SOURCE))
    assert t.rows() == expected


@pytest.mark.parametrize("mode", [COW, MOR])
def test_data_frames_merge(session: Spark, any_columns: Callable[[str], Any], mode: str) -> None:
    t = any_columns(mode)
    source = session.session.createDataFrame([(2, "x"), (9, "y")], "id INT, v STRING").alias("s")
    values = {"id": F.expr("s.id"), "v": F.expr("s.v")}
    on = F.expr(f"{t.name}.id = s.id")
    source.mergeInto(t.name, on).whenNotMatched().insert(values).merge()
    assert t.rows() == [*BEFORE, (9, "y", None, None)]
    source.mergeInto(t.name, on).whenMatched().update({"v": F.expr("s.v || '!'")}).merge()
    assert t.rows("id, v") == [(1, "a"), (2, "x!"), (9, "y!")]


def test_the_columns_of_a_merge_are_taken_in_if_it_says_so(session: Spark, any_columns: Callable[[str], Any]) -> None:
    source = "(SELECT 2 AS id, 'x' AS v, 'new' AS extra UNION ALL SELECT 3, 'y', 'new') s"
    merge = f"INTO {{t}} t USING {source} ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    for mode in (COW, MOR):
        t = any_columns(mode)
        with pytest.raises(PySparkException):  # columns n and st are not in the source
            session("MERGE " + merge.format(t=t.name))
        assert t.rows() == BEFORE
        if session.version >= (4, 1):
            session("MERGE WITH SCHEMA EVOLUTION " + merge.format(t=t.name))
            assert t.rows("id, v, n, extra") == [(1, "a", 1, None), (2, "x", 2, "new"), (3, "y", None, "new")]


def test_inserts_go_on_taking_any_columns(session: Spark, any_columns: Callable[[str], Any]) -> None:
    t = any_columns(MOR)
    session(f"INSERT INTO {t.name} SELECT 'merge into' AS v, 9 AS id")
    assert t.rows("id, v") == [(1, "a"), (2, "b"), (9, "merge into")]
    session(f"INSERT OVERWRITE {t.name} SELECT 'x' AS v, 7 AS id")
    assert t.rows("id, v") == [(7, "x")]
    source = session.session.createDataFrame([(8,)], "id INT").alias("s")
    source.mergeInto(t.name, F.expr(f"{t.name}.id = s.id")).whenNotMatched().insert({"id": F.expr("s.id")}).merge()
    source.withColumnRenamed("id", "n").writeTo(t.name).append()
    assert t.rows("id, v, n") == [(7, "x", None), (8, "d", None), (None, "d", 8)]
    if session.version >= (4, 2):
        session(f"INSERT WITH SCHEMA EVOLUTION INTO {t.name} BY NAME SELECT 5 AS id, 'x' AS extra")
        assert t.rows("id, v, n, extra", "id = 5") == [(5, "d", None, "x")]
