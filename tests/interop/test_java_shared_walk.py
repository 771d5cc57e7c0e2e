"""Java Iceberg and Floe in one Spark, in one warehouse: random steps of both, each reads what the other wrote."""

import random
from collections import Counter
from typing import Any

import pytest

from helpers.java_catalogs import JavaCatalogs
from helpers.two_engine_model import Walk

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

STEPS = 100


@pytest.mark.parametrize(("kind", "seed"), [("files", 11), ("sqlite", 12)])
def test_each_reads_what_the_other_wrote(java_catalogs: JavaCatalogs, kind: str, seed: int) -> None:
    shared = java_catalogs.new(kind)
    session = shared.session()
    catalogs = {"java": shared.key, "floe": shared.floe_key}
    walk, chance = Walk(seed, can_rename=kind != "files"), random.Random(seed)
    done: Counter[tuple[str, str]] = Counter()

    def run(who: str, statement: str, table: str) -> list[Any]:
        catalog = catalogs[who]
        return session.sql(statement.format(c=catalog, t=f"{catalog}.walk.{table}")).collect()

    session.sql(f"CREATE NAMESPACE {shared.key}.walk")
    run(chance.choice(["java", "floe"]), walk.create(), walk.table)
    for number in range(STEPS):
        who, table = chance.choice(["java", "floe"]), walk.table
        what, statement = walk.step()
        told = f"step {number}: {who}: {statement}"
        try:
            run(who, statement, table)
        except Exception as error:
            raise AssertionError(told) from error
        done[who, what] += 1
        columns = ", ".join(walk.names.values())
        for branch in walk.branches:
            place = "{t}" if branch == "main" else f"{{t}}.branch_{branch}"
            for reader in catalogs:
                rows = run(reader, f"SELECT {columns} FROM {place}", walk.table)
                assert sorted(map(tuple, rows), key=repr) == walk.expected(branch), f"{told}: {reader} reads {branch}"
    names = {what for _, what in done}
    assert {"insert", "delete", "update", "merge", "add column", "add partition field", "modes"} <= names
