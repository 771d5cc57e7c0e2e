"""A program that starts a session and runs its first statements in many threads at once; then another in its place."""

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import floe
from floe.spark.session import FloeSession
from helpers.spark import CONF

FIRST = [
    "SELECT count(*) FROM lake.db.t0 WHERE id > 1",
    "INSERT INTO lake.db.t1 SELECT id + 10, name FROM lake.db.t0 WHERE id > 2",
    "MERGE INTO lake.db.t2 t USING (SELECT * FROM lake.db.t0 WHERE id > 3) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET name = 'x' WHEN NOT MATCHED THEN INSERT *",
    "SELECT count(*) FROM lake.db.t3.files WHERE record_count > 1",
    "CREATE VIEW lake.db.v AS SELECT * FROM lake.db.t4 WHERE id > 1",
    "SELECT max(id) FROM lake.db.t5 WHERE lake.system.bucket(4, id) >= 0",
    "UPDATE lake.db.t6 SET name = 'y' WHERE id = 2",
    "DELETE FROM lake.db.t7 WHERE id % 2 = 0",
]
THEN = [
    "SELECT count(*) FROM lake.db.t0 WHERE id > 1",
    "SELECT count(*) FROM lake.db.t1 WHERE id > 9",
    "SELECT count(*) FROM lake.db.t2 WHERE name = 'x'",
    "SELECT count(*) FROM lake.db.t3.files WHERE record_count > 1",
    "SELECT count(*) FROM lake.db.v WHERE id < 10",
    "SELECT max(id) FROM lake.db.t5 WHERE lake.system.bucket(4, id) >= 0",
    "SELECT count(*) FROM lake.db.t6 WHERE name = 'y'",
    "SELECT count(*) FROM lake.db.t7 WHERE id >= 0",
]
"""What each thread asks after that; its answers for tables of the rows 0 to 4 are `ANSWERS`."""

ANSWERS = [3, 2, 1, 1, 3, 4, 1, 2]


def main(folder: Path) -> None:
    lake = floe.connect(folder / "lake")
    lake.create_namespace("db")
    for number in range(len(FIRST)):
        table = lake.create_table(f"db.t{number}", "id bigint, name string")
        table.append([{"id": n, "name": str(n)} for n in range(5)])
    session = _started(folder)
    together = threading.Barrier(len(FIRST))

    def run(number: int) -> str:
        together.wait()
        try:
            session.sql(FIRST[number]).collect()
            return str(session.sql(THEN[number]).collect()[0][0])
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    with ThreadPoolExecutor(len(FIRST)) as threads:
        answers = list(threads.map(run, range(len(FIRST))))
    once_more = []
    for _ in range(2):
        once_more.append(session.sql(THEN[0]).collect()[0][0])
        session.stop()
        session = _started(folder)
    sys.stdout.write("\n" + json.dumps({"answers": answers, "once more": once_more}) + "\n")


def _started(folder: Path) -> FloeSession:
    conf = {**CONF, "spark.sql.warehouse.dir": str(folder / "hive")}
    return floe.spark({"lake": str(folder / "lake")}, conf=conf)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
