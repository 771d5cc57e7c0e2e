"""The plans of the corpus: the files, deletes and residuals that Java Iceberg has for each filter.

Our choice of files is Java's but for what tests/spec/pruning/test_corpus_plans.py explains: nulls do not pass `<>`, NOT
IN, NOT LIKE and NOT isnan, NaN is greater than every number, and -0.0 is 0.0. Residuals are Java's too, or simpler:
days of dates and the prefixes of short strings settle an equality that Java checks again.
"""

import pytest

from floe.plan.scan import ScanOptions, plan_scan
from floe.spec.expressions.binder import bind
from floe.spec.expressions.expression_json import expression_from_json
from floe.spec.expressions.nodes import TRUE
from helpers.corpus import expected, table_names
from helpers.corpus_tables import open_table
from helpers.manifest_rules import without_metrics

TABLES = table_names(without=("invalid", "odd", "view"))
SETTLED_HERE = {"del_spec_evolution", "part_day", "part_times_v1", "part_truncate_wide"}
"""Where a partition settles an equality that Java leaves."""


def planned(table, filter_json, **options):
    where = expression_from_json(filter_json, table.metadata.schema)
    options = ScanOptions(where=where, **options)
    return plan_scan(table.metadata, table.storage, snapshot=table.metadata.current_snapshot, options=options)


@pytest.mark.parametrize("name", TABLES)
def test_plans_are_those_of_java(corpus_dir, name):
    table = open_table(corpus_dir, name)
    settled = False
    for plan in table.facts.get("plans", []):
        found = planned(table, plan["filter"])
        ours = {table.relative(task.file.file_path): task for task in found.tasks()}
        assert len(found) == len(ours)
        if "files" not in plan:
            assert "NullPointerException" in plan["java_error"]
            continue
        java = {file["file"]: file for file in plan["files"]}
        differs = plan.get("java_differs", {}).get("generics", {})
        if ours.keys() - java.keys():
            assert differs["lost_rows"] > 0, (plan["filter_sql"], ours.keys() - java.keys())
        if java.keys() - ours.keys():
            assert differs["count"] > plan["count"], (plan["filter_sql"], java.keys() - ours.keys())
        for path in ours.keys() & java.keys():
            task, theirs = ours[path], java[path]
            assert task.file.record_count == theirs["records"]
            assert sorted(table.relative(d.file_path) for d in task.deletes) == sorted(theirs["deletes"])
            residual = bind(expression_from_json(theirs["residual_json"], table.metadata.schema), table.metadata.schema)
            if task.residual != residual:
                assert task.residual == TRUE, (plan["filter_sql"], path)
                settled = True
    assert settled == (name in SETTLED_HERE)


def test_there_are_plans(corpus_dir):
    plans = [plan for name in TABLES for plan in expected(corpus_dir, name).get("plans", [])]
    assert sum(len(plan.get("files", [])) for plan in plans) > 2000


@pytest.mark.parametrize("name", TABLES)
def test_without_a_filter_the_plan_has_all_files_and_their_rows(corpus_dir, name):
    """Counts are those of the answers, where nothing is deleted row by row."""
    table = open_table(corpus_dir, name)
    cases = [case for case in table.facts["cases"] if not set(case["query"]) - {"snapshot_id"}]
    for case in cases[:: len(cases) // 20 + 1]:
        wanted = case["query"].get("snapshot_id", table.metadata.current_snapshot_id)
        snapshot = None if wanted is None else table.metadata.snapshot(wanted)
        plan = plan_scan(table.metadata, table.storage, snapshot=snapshot)
        tasks = list(plan.tasks())
        assert len(tasks) == len(plan) == plan.report.files
        assert plan.record_count == sum(task.file.record_count for task in tasks)
        assert plan.size == sum(task.file.file_size_in_bytes for task in tasks)
        if not any(task.deletes for task in tasks):
            assert plan.record_count == case["count"]
        else:
            assert plan.record_count > case["count"]


@pytest.mark.parametrize("name", ["plan_day_bucket", "scale_many_files", "evo_partition", "combo_v2"])
def test_threads_change_nothing(corpus_dir, name):
    table = open_table(corpus_dir, name)
    for plan in table.facts["plans"]:
        assert list(planned(table, plan["filter"], workers=1).tasks()) == list(
            planned(table, plan["filter"], workers=4).tasks()
        )


@pytest.mark.parametrize("name", table_names("del_", "part_", "evo_partition", "combo"))
def test_arrow_has_what_the_tasks_have(corpus_dir, name):
    table = open_table(corpus_dir, name)
    plan = plan_scan(table.metadata, table.storage, snapshot=table.metadata.current_snapshot)
    rows, deletes = plan.to_arrow().to_pylist(), plan.deletes_to_arrow().to_pylist()
    for row, task in zip(rows, plan.tasks(), strict=True):
        file = task.file
        assert row["file_path"] == file.file_path
        assert row["file_format"] == file.file_format
        assert (row["spec_id"], row["record_count"]) == (file.spec_id, file.record_count)
        assert row["file_size_in_bytes"] == file.file_size_in_bytes
        assert row["sequence_number"] == task.entry.sequence_number
        assert row["first_row_id"] == file.first_row_id
        assert row["split_offsets"] == (None if file.split_offsets is None else list(file.split_offsets))
        assert row["residual"] == "true"
        assert [deletes[n]["file_path"] for n in row["deletes"]] == [d.file_path for d in task.deletes]
        assert [deletes[n]["content_offset"] for n in row["deletes"]] == [d.content_offset for d in task.deletes]


@pytest.mark.parametrize("name", ["plan_metrics", "meta_metrics"])
def test_metrics_are_kept_when_asked_for(corpus_dir, name):
    table = open_table(corpus_dir, name)
    snapshot = table.metadata.current_snapshot

    def files(metrics):
        return [
            task.file
            for task in plan_scan(
                table.metadata, table.storage, snapshot=snapshot, options=ScanOptions(metrics=metrics)
            ).tasks()
        ]

    nothing, everything, some = files(()), files(None), files((1, 3))
    assert all(file.lower_bounds is None and file.value_counts is None for file in nothing)
    assert any(file.lower_bounds for file in everything)
    for whole, part in zip(everything, some, strict=True):
        for key in (
            "column_sizes",
            "value_counts",
            "null_value_counts",
            "nan_value_counts",
            "lower_bounds",
            "upper_bounds",
        ):
            wanted = {i: value for i, value in (getattr(whole, key) or {}).items() if i in (1, 3)}
            assert (getattr(part, key) or {}) == wanted
    assert [without_metrics(file) for file in everything] == nothing
