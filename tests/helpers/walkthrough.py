"""The calls of docs/walkthrough.md, each with the chain of modules and the limit of files that the page states.

`PYTHONPATH=tests python -m helpers.walkthrough` prints the modules that each call enters.
"""

import functools
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import floe
from floe.errors import ConflictingChange
from helpers.call_trace import CallTrace, traced

PAGE = Path(__file__).parents[2] / "docs" / "walkthrough.md"
ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


@functools.cache
def chains() -> dict[str, list[str]]:
    """The modules of each section of the page, in the order of the page."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {
        section.splitlines()[0].lower(): re.findall(r"^\d+\. `([\w.]+)`", section, re.MULTILINE) for section in sections
    }


@functools.cache
def limits() -> dict[str, int]:
    """The limits of the page: the most files that each call may enter."""
    return {
        name.lower(): int(limit)
        for name, limit in re.findall(r"^\| ([\w ]+) \| (\d+) \|$", PAGE.read_text(), re.MULTILINE)
    }


def check(call: str, trace: CallTrace) -> None:
    """Check a trace against the page."""
    missing = trace.first_missing(chains()[call])
    assert missing is None, f"{call}: {missing} is not entered, or not in this order: {list(trace.modules)}"
    if call in limits():
        assert len(trace.modules) <= limits()[call], f"{call}: {len(trace.modules)} files: {list(trace.modules)}"


def second_call(call: Callable[[], object]) -> CallTrace:
    """The trace of the second of two calls."""
    call()
    with traced() as trace:
        call()
    return trace


def embedded_traces(warehouse: Path) -> dict[str, CallTrace]:
    """The calls of the embedded engine, in a new warehouse."""
    lake = floe.connect(warehouse)
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id bigint, name string")
    append = second_call(lambda: table.append(ROWS))
    scan = second_call(lambda: table.scan(where="id = 1").to_arrow())
    transaction = table.transaction()
    transaction.delete("id = 1")
    lake.table("db.t").update({"name": "'c'"}, where="id = 1")
    with traced() as conflict:
        try:
            transaction.commit()
        except ConflictingChange:
            return {"append": append, "filtered scan": scan, "conflict": conflict}
    raise AssertionError("two changes of one row were committed")


def spark_traces(sql: Callable[[str], Any], namespace: str) -> dict[str, CallTrace]:
    """The calls of Spark, in a new namespace of a file-system catalog; `sql` runs a statement to its end."""
    sql(f"CREATE NAMESPACE {namespace}")
    for name in ("source", "target", "merged"):
        sql(f"CREATE TABLE {namespace}.{name} (id BIGINT, name STRING)")
    sql(f"ALTER TABLE {namespace}.merged SET TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')")
    for name in ("source", "merged"):
        sql(f"INSERT INTO {namespace}.{name} VALUES (1, 'a'), (2, 'b')")
    statements = {
        "insert": f"INSERT INTO {namespace}.target SELECT id + 10, name FROM {namespace}.source",
        "select": f"SELECT name FROM {namespace}.target WHERE id = 11",
        "merge": f"""MERGE INTO {namespace}.merged t USING {namespace}.source s ON t.id = s.id
                     WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT *""",
    }
    return {call: second_call(functools.partial(sql, statement)) for call, statement in statements.items()}


def main() -> None:
    """Print the modules that each call enters."""
    with tempfile.TemporaryDirectory() as folder:
        traces = embedded_traces(Path(folder))
        session = floe.spark(lake=folder, conf={"spark.master": "local[1]", "spark.ui.enabled": False})
        traces |= spark_traces(lambda statement: session.sql(statement).collect(), "lake.walkthrough")
        session.stop()
    for call, trace in traces.items():
        sys.stdout.write(f"{call}: {len(trace.modules)} files, {trace.calls} calls\n")
        sys.stdout.write("".join(f"  {module}\n" for module in trace.modules))


if __name__ == "__main__":
    main()
