"""Twenty-two queries like those of TPC-H, on Floe's tables and on plain Parquet: the same rows.

The tables are laid out in every way: by transforms, in order, in other formats, and with deleted rows among the others.
"""

import pytest

from helpers import tpch
from helpers.spark import Spark
from helpers.tpch_queries import QUERIES

pytestmark = pytest.mark.slow

SCALE = 0.1
LAYOUTS = {
    "lineitem": "PARTITIONED BY (months(l_shipdate)) TBLPROPERTIES ('format-version' = '3', {by_position})",
    "orders": "PARTITIONED BY (years(o_orderdate), bucket(4, o_custkey)) TBLPROPERTIES ({by_position})",
    "customer": "PARTITIONED BY (truncate(2, c_phone)) TBLPROPERTIES ({by_position})",
    "part": "TBLPROPERTIES ('sort-order' = 'p_brand, p_size desc', 'write.target-file-size-bytes' = '200000')",
    "supplier": "PARTITIONED BY (s_nationkey) TBLPROPERTIES ('write.format.default' = 'orc')",
    "nation": "TBLPROPERTIES ('write.format.default' = 'avro')",
}
"""How tables are laid out; the others as by default."""

DELETED = {"lineitem": "l_orderkey", "orders": "o_orderkey", "customer": "c_custkey"}
"""Tables that get rows which are deleted again, by the column whose sign tells them apart."""


@pytest.fixture(scope="module")
def names(session: Spark, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The tables, in `lake.tpch` and as plain Parquet in views."""
    folder = tmp_path_factory.mktemp("tpch")
    found = tpch.write(folder, SCALE)
    session("CREATE NAMESPACE lake.tpch")
    modes = "'write.delete.mode' = 'merge-on-read'"
    for name in found:
        rows = session.session.read.parquet(str(folder / name))
        rows.createOrReplaceTempView(f"plain_{name}")
        source = f"SELECT * FROM plain_{name}"
        if name in DELETED:
            key = DELETED[name]
            others = ", ".join(f"-{one} AS {one}" if one == key else one for one in rows.columns)
            source += f" UNION ALL SELECT {others} FROM plain_{name} WHERE {key} % 10 < 3"
        session(f"CREATE TABLE lake.tpch.{name} {LAYOUTS.get(name, '').format(by_position=modes)} AS {source}")
        if name in DELETED:
            session(f"DELETE FROM lake.tpch.{name} WHERE {DELETED[name]} < 0")
    return found


def test_deleted_rows_are_among_the_others(session: Spark, names: list[str]) -> None:
    for name in DELETED:
        (counts,) = session(
            f"""SELECT count(*), count_if(content = 0), count_if(content = 1) FROM lake.tpch.{name}.all_files"""
        )
        assert counts[2] > 0
    formats = {row[0] for row in session("SELECT DISTINCT file_format FROM lake.tpch.supplier.files")}
    assert formats == {"ORC"}


@pytest.mark.parametrize("number", QUERIES)
def test_the_same_rows(session: Spark, names: list[str], number: int) -> None:
    spark, found = session.session, []
    for prefix in ("lake.tpch.", "plain_"):
        for name in names:
            spark.table(f"{prefix}{name}").createOrReplaceTempView(name)
        found.append(session(QUERIES[number]))
    assert found[0] == found[1]
    assert len(found[0]) > 0
    assert any(value is not None for row in found[0] for value in row)
