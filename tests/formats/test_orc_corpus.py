"""Every ORC data and delete file of the corpus, read with the table's schema: Java's rows, by canonical hash."""

import pytest

from helpers.canonical import digest
from helpers.corpus import expected, table_names
from helpers.corpus_files import cases_with, rows_of_case
from helpers.corpus_tables import open_table

TABLES = table_names(without=("invalid", "odd", "view"))


@pytest.fixture(scope="module")
def with_files(corpus_dir):
    """The tables that have such files at all."""
    tables = {path.relative_to(corpus_dir).parts[0] for path in corpus_dir.glob("*/data/**/*.orc")}
    return tables & set(TABLES)


def test_the_corpus_has_enough(with_files, corpus_dir):
    assert len(with_files) >= 12
    assert sum(len(expected(corpus_dir, name)["cases"]) for name in with_files) > 150


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_those_of_java(corpus_dir, with_files, name):
    if name not in with_files:
        return
    table = open_table(corpus_dir, name)
    for case, schema, tasks in cases_with(table, "orc"):
        rows = rows_of_case(table, case, schema, tasks)
        answers = {case["sha256"], *(answer["sha256"] for answer in case.get("alternatives", {}).values())}
        assert digest(rows) in answers, (case["query"], rows[:3], case.get("rows", [])[:3])
