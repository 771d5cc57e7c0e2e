"""All recorded reads of the tables that Java Iceberg wrote return Java's rows, as Arrow and as Python rows.

The end of a run prints the number of reads for each feature, file format and format version; `explained` has the
reasons for the combinations without any.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from floe import errors
from floe.spec.schemas.schema_json import schema_to_json
from helpers.canonical import canonical_rows, canonical_values, digest
from helpers.corpus import expected, table_names
from helpers.corpus_scans import FEATURES, FORMATS, cases_of, features_of, opened, same_read, scan_of
from helpers.run_totals import report_cells, report_totals

VALID = table_names(without=("invalid_", "odd_", "view_"))
BROKEN = table_names("invalid_", "odd_")
TITLE = "reads of the corpus that give Java's rows"


def answers(case: dict[str, Any]) -> set[str]:
    """The right digests: where the answer hangs on a convention there are several."""
    return {case["sha256"], *(other["sha256"] for other in case.get("alternatives", {}).values())}


LONG = "hist_many_snapshots"
"""The table whose reads take longer than all others together; of its plain rows a part is read here, all in `slow`."""


@pytest.mark.parametrize("name", VALID)
def test_rows_are_those_of_java(corpus_dir: Path, name: str, request: pytest.FixtureRequest) -> None:
    check_rows(corpus_dir, name, request, 1 if name != LONG else 20)


@pytest.mark.slow
def test_plain_rows_of_many_snapshots_are_those_of_java(corpus_dir: Path, request: pytest.FixtureRequest) -> None:
    check_rows(corpus_dir, LONG, request, 1)


def check_rows(corpus_dir: Path, name: str, request: pytest.FixtureRequest, step: int) -> None:
    """All cases as Arrow, and every so many distinct ones as plain rows."""
    table, facts = opened(corpus_dir, name)
    rows_by_read: dict[Any, list[str]] = {}
    cells: Counter[tuple[str, str]] = Counter()
    cases = 0
    for case in cases_of(facts):
        query, schema = case["query"], facts["schemas"][case["schema"]]
        scan = scan_of(table, query)
        key = same_read(scan)
        if key not in rows_by_read:
            rows = canonical_rows(scan.to_arrow(), schema)
            if len(rows_by_read) % step == 0:
                assert canonical_values(scan_of(table, query, in_sql=True).to_rows(), schema) == rows, query
            assert scan.count() == len(rows), query
            rows_by_read[key] = rows
            features = set(features_of(table, scan, query))
            cells.update((feature, f"{file} v{table.format_version}") for feature, file in features)
        assert digest(rows_by_read[key]) in answers(case), (query, rows_by_read[key][:3], case.get("rows", [])[:3])
        cases += 1
    report_totals(request, cases_of_the_corpus_read=cases, distinct_reads_of_the_corpus=len(rows_by_read))
    report_cells(request, TITLE, cells)


def test_appends_of_the_corpus_are_those_of_java(corpus_dir: Path) -> None:
    table, facts = opened(corpus_dir, "incr_append")
    cases = [case for case in facts["cases"] if "incremental_append" in case["query"]]
    assert len(cases) == 3
    for case in cases:
        ends = case["query"]["incremental_append"]
        changes = table.changes(since=ends["from_snapshot_id_exclusive"], until=ends["to_snapshot_id"])
        rows = canonical_rows(changes.appended().to_arrow(), facts["schemas"][case["schema"]])
        assert digest(rows) in answers(case)


# what the corpus has ------------------------------------------------------------------------------------------------

V1 = "Java writes v1 tables of the corpus in Parquet alone"
NO_V1 = "format version 1 has no such thing"
V3 = "format version 3 alone has it"
PARQUET = "Java 1.11 writes it into Parquet alone"
FEW = "the v3 tables of the corpus in ORC and Avro are few, and about types, defaults and filters"


def explained(feature: str, file_format: str, version: int) -> str | None:
    """Why there is no read of a kind, or None if there has to be one."""
    if feature in ("row lineage", "deletion vectors", "default values", "variants") and version < 3:
        return V3
    if feature in ("position delete files", "equality delete files") and version == 1:
        return NO_V1
    if version == 1 and file_format != "parquet":
        return V1
    if feature in ("variants", "deletion vectors", "row lineage") and file_format != "parquet":
        return PARQUET
    if version == 3 and file_format != "parquet" and feature not in ("rows", "time travel", "filter", "older schema"):
        return None if feature == "default values" else FEW
    return {
        ("filter", 1): "no v1 table of the corpus has recorded filters",
        ("metadata columns", 1): "no v1 table of the corpus is asked for them",
        ("older schema", 1): "snapshots of v1 tables do not say their schema",
        ("name mapping", 1): "imported tables of the corpus are v2",
        ("nested types", 1): "the v1 tables of the corpus are flat",
        ("name mapping", 3): "imported tables of the corpus are v2",
        ("several partition specs", 3): "tables of the corpus whose partitioning changed are v1 and v2",
        ("equality delete files", 3): "Spark writes none, and the v3 tables of the corpus are Spark's",
    }.get((feature, version))


def test_there_is_no_gap_without_a_reason(corpus_dir: Path) -> None:
    there = set()
    for name in VALID:
        table, facts = opened(corpus_dir, name)
        for case in distinct(table, facts):
            features = features_of(table, scan_of(table, case["query"]), case["query"])
            there |= {(feature, file_format, table.format_version) for feature, file_format in features}
    everything = {
        (feature, file_format, version) for feature in FEATURES for file_format in FORMATS for version in (1, 2, 3)
    }
    assert there <= everything
    gaps = everything - there
    assert {gap for gap in gaps if explained(*gap) is None} == set()
    assert {cell for cell in there if explained(*cell) is not None} == set()


def distinct(table: Any, facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The cases of a table without those that read the same."""
    reads = set()
    for case in cases_of(facts):
        key = same_read(scan_of(table, case["query"]))
        if key not in reads:
            reads.add(key)
            yield case


# Broken tables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BROKEN)
def test_broken_tables_give_an_error_or_the_right_rows(corpus_dir: Path, name: str) -> None:
    """Never other rows, and never an error that is not one of ours."""
    answer = expected(corpus_dir, name)["invalid"]
    outcome = rows_or_error(corpus_dir, name)
    if isinstance(outcome, errors.FloeError):
        assert not name.startswith("odd_"), outcome
        assert "root:" not in str(outcome)  # what /etc/passwd says
    else:
        assert answer["readable"], "rows of a table that cannot be read"
        assert digest(outcome) == answer["sha256"]


def rows_or_error(corpus_dir: Path, name: str) -> list[str] | errors.FloeError:
    try:
        table, _ = opened(corpus_dir, name)
        return canonical_rows(table.scan().to_arrow(), schema_to_json(table.schema))
    except errors.FloeError as error:
        return error
