"""Rows whose partition is null are found like all others.

Spark looks first for the partitions that a MERGE touches, and hands their values over as a list, null among them. Java
Iceberg 1.11 on Spark 4.1 finds them too: tried by hour, by value and by bucket, in both modes.
"""

import pytest

from helpers.spark import Spark


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_merge_finds_rows_in_the_null_partition(session: Spark, mode: str) -> None:
    table = f"lake.null_partitions.{mode.replace('-', '_')}"
    session("CREATE NAMESPACE IF NOT EXISTS lake.null_partitions")
    session(
        f"CREATE TABLE {table} (id BIGINT, note STRING, at TIMESTAMP) PARTITIONED BY (hours(at)) "
        f"TBLPROPERTIES ('write.merge.mode' = '{mode}')"
    )
    session(
        f"INSERT INTO {table} VALUES (1, 'a', TIMESTAMP '2024-01-01 10:00:00'), "
        "(2, 'b', TIMESTAMP '2024-01-01 11:00:00'), (3, 'c', NULL)"
    )
    session(
        f"MERGE INTO {table} t "
        "USING (SELECT * FROM VALUES (2, 'two'), (3, 'three'), (4, 'four') AS v(id, note)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET note = s.note WHEN NOT MATCHED THEN INSERT (id, note) VALUES (s.id, s.note)"
    )
    rows = session.sorted(f"SELECT id, note FROM {table}")
    assert rows == [(1, "a"), (2, "two"), (3, "three"), (4, "four")]
