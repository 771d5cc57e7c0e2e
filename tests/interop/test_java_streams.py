"""Streams of Java Iceberg and of Floe go on where the other stopped: the same offsets and epochs; equal changes."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import floe
from floe.spark.session import FloeSession
from floe.table.table import Table

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Both:
    """A table, and streams of it by Java and by Floe."""

    def __init__(self, spark: Any, folder: Path) -> None:
        lake = floe.connect(folder / "wh")
        lake.create_namespace("db")
        self.table: Table = lake.create_table("db.t", "id bigint, k string", partition_by=["k"])
        self.target: Table = lake.create_table("db.copy", "id bigint, k string")
        self._session: FloeSession = floe.attach(spark.newSession(), streams=lake)
        self._checkpoint = str(folder / "checkpoint")

    def append(self, *ids: int) -> None:
        self.table.append([{"id": one, "k": "ab"[one % 2]} for one in ids])

    def stream(self, engine: str, **options: str) -> Any:
        reader = self._session.readStream.options(**{name.replace("_", "-"): value for name, value in options.items()})
        return reader.format("iceberg").load(self.table.location) if engine == "java" else reader.table("streams.db.t")

    def read(self, engine: str, **options: str) -> list[int]:
        """What a stream reads, with the checkpoint that both share."""
        found: list[int] = []
        writer = self.stream(engine, **options).writeStream.foreachBatch(
            lambda rows, _: found.extend(row[0] for row in rows.collect())
        )
        writer.option("checkpointLocation", self._checkpoint).trigger(availableNow=True).start().awaitTermination()
        return sorted(found)

    def write(self, engine: str) -> None:
        writer = self.stream("floe").writeStream.option("checkpointLocation", self._checkpoint)
        writer = writer.trigger(availableNow=True)
        if engine == "java":
            writer.format("iceberg").start(self.target.location).awaitTermination()
        else:
            writer.toTable("streams.db.copy").awaitTermination()

    def forget_last_commit(self) -> None:
        """The query failed between the commit of its last epoch and its checkpoint."""
        commits = Path(self._checkpoint) / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        for path in (commits / str(last), commits / f".{last}.crc"):
            path.unlink(missing_ok=True)


@pytest.fixture
def both(spark: Any, tmp_path: Path) -> Both:
    return Both(spark, tmp_path)


@pytest.mark.parametrize("first", ["java", "floe"])
def test_a_stream_goes_on_where_the_other_stopped(both: Both, first: str) -> None:
    second = "floe" if first == "java" else "java"
    both.append(1, 2, 3)
    both.append(4, 5)
    limit = {"streaming_max_files_per_micro_batch": "1"}
    assert both.read(first, **limit) == [1, 2, 3, 4, 5]
    both.append(6)
    assert both.read(second) == [6]
    both.append(7, 8)
    assert both.read(first, **limit) == [7, 8]
    both.append(9)
    assert both.read(second, **limit) == [9]


@pytest.mark.parametrize("first", ["java", "floe"])
def test_an_epoch_that_the_other_committed_is_not_written_again(both: Both, first: str) -> None:
    second = "floe" if first == "java" else "java"
    both.append(1, 2, 3)
    both.write(first)
    both.forget_last_commit()
    both.write(second)
    both.append(4)
    both.write(first)
    rows = both.target.refresh().scan().to_arrow()["id"].to_pylist()
    assert sorted(rows) == [1, 2, 3, 4]


def test_changes_are_those_of_java(spark: Any, tmp_path: Path) -> None:
    """Of copy-on-write tables, of which Java can tell; its view leaves out rows that were carried over."""
    both = Both(spark, tmp_path)
    table = both.table
    table.append([{"id": one, "k": "ab"[one % 2]} for one in range(10)])
    table.update({"k": "'b'"}, where="id = 4")
    table.delete("id IN (1, 2)")
    table.append([{"id": 1, "k": "b"}])
    session = both._session
    session.conf.set("spark.sql.catalog.jv", "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set("spark.sql.catalog.jv.type", "hadoop")
    session.conf.set("spark.sql.catalog.jv.warehouse", str(tmp_path / "wh"))
    arguments = "table => 'db.t', changelog_view => '{name}', identifier_columns => array('id')"
    session.sql(f"CALL jv.system.create_changelog_view({arguments.format(name='theirs')})")
    session.sql(f"CALL streams.system.create_changelog_view({arguments.format(name='ours')})")
    theirs, ours = (Counter(map(tuple, session.sql(f"SELECT * FROM {name}").collect())) for name in ("theirs", "ours"))
    assert ours == theirs
