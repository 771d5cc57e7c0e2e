"""Driver and executors in processes of their own: what runs in one process runs there, and lost tasks cost no rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.cluster import run_on, standalone
from helpers.cluster_program import ROWS, TOTAL

LOCAL_CLUSTER = "local-cluster[2,1,1024]"
LATER = ("dynamic", "changed", "counted", "streamed", "failing", "worker_dies", "executor_dies", "is_overtaken")

Found = dict[str, Any]


def check_core(found: Found) -> None:
    assert found["made"] == found["other format"] == TOTAL
    assert "read by Spark's Parquet reader" in found["native"]
    assert "read by Arrow reader, for orc files" in found["arrow"]
    assert found["joined"] == [[ROWS]]
    assert found["files"] == [[4, ROWS]]


def test_tables_on_a_cluster(tmp_path: Path) -> None:
    check_core(run_on(LOCAL_CLUSTER, tmp_path, "core")["core"])


@pytest.fixture(scope="module", params=["local-cluster", "standalone"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    """What the whole program gives on a cluster."""
    folder = tmp_path_factory.mktemp("cluster")
    if request.param == "local-cluster":
        yield run_on(LOCAL_CLUSTER, folder, *LATER)
    else:
        with standalone(folder) as master:
            yield run_on(master, folder, "core", *LATER)


@pytest.mark.slow
def test_partitions_are_replaced(found: Found) -> None:
    if "core" in found:
        check_core(found["core"])
    assert found["dynamic"] == {"rows": TOTAL, "files": 4}


@pytest.mark.slow
def test_different_values_are_counted(found: Found) -> None:
    assert found["counted"] == {"counts": [str(ROWS), "7"]}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_are_changed(found: Found, mode: str) -> None:
    table = {id_: 1 if id_ % 4 == 0 else 0 for id_ in range(0, ROWS, 2)}
    for id_ in range(100):
        match table.get(id_):
            case 1:
                del table[id_]
            case 0:
                table[id_] = 2
            case _:
                table[id_] = 3
    groups = [[id_ for id_ in table if table[id_] == n] for n in range(4)]
    assert "error" not in found["changed"]
    assert found["changed"][mode] == [[n, len(ids), sum(ids)] for n, ids in enumerate(groups)]


@pytest.mark.slow
def test_streams_take_up_where_they_ended(found: Found) -> None:
    assert found["streamed"] == {"counts": [TOTAL, [[ROWS + 1, TOTAL[0][1]]]]}


@pytest.mark.slow
def test_tasks_that_fail_are_run_again(found: Found) -> None:
    assert found["failing"] == {"rows": TOTAL, "left": 0}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["worker_dies", "executor_dies", "is_overtaken"])
def test_files_of_lost_attempts_are_not_committed(found: Found, how: str) -> None:
    # both attempts wrote a file; one of them is in the table, the other is left as an orphan, which nobody knows of
    assert found[how] == {"rows": TOTAL, "seen": ["first", "second"], "left": 1, "lost": 0}
