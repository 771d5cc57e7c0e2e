"""Plans of random tables beside a planner that takes one file, one rule after another."""

from hypothesis import given, settings, strategies as st

from floe.plan.scan import ScanOptions, plan_scan
from floe.spec.expressions.nodes import TRUE
from floe.spec.expressions.row_evaluation import compile_row_filter
from helpers.filter_strategies import filters, predicates, references
from helpers.random_tables import IDS, deletes_a_row, naive_plan, random_table

SEEDS = st.integers(0, 2**32)
FILTERS = st.just(TRUE) | filters(predicates(references(IDS), transformed=True))


@settings(max_examples=200)
@given(seed=SEEDS, bound=FILTERS)
def test_plans_are_those_of_the_rules_one_by_one(seed, bound):
    table = random_table(seed)
    plan = plan_scan(
        table.maker.metadata,
        table.maker.storage,
        snapshot=table.maker.snapshots[-1],
        options=ScanOptions(where=bound, workers=1),
    )
    tasks = {task.file.file_path: task for task in plan.tasks()}
    expected = naive_plan(table, bound)
    assert tasks.keys() == expected.keys()
    for path, task in tasks.items():
        naive = expected[path]
        assert task.residual == naive.residual
        assert task.file.partition == naive.file.partition or str(task.file.partition) == str(naive.file.partition)
        own = [delete.file_path for delete in task.deletes if not delete.is_equality_delete_file]
        assert sorted(own) == sorted(delete.file_path for delete in naive.deletes)
        equality = {delete.file_path for delete in task.deletes if delete.is_equality_delete_file}
        assert equality <= {delete.file_path for delete in naive.equality}
        for delete in naive.equality:  # whatever was left out deletes nothing that anybody asked for
            if delete.file_path not in equality:
                assert not deletes_a_row(table, delete, naive.file, bound)


@settings(max_examples=80)
@given(seed=SEEDS, bound=FILTERS)
def test_no_row_that_passes_is_lost_and_settled_files_hold_no_other(seed, bound):
    table = random_table(seed)
    plan = plan_scan(
        table.maker.metadata,
        table.maker.storage,
        snapshot=table.maker.snapshots[-1],
        options=ScanOptions(where=bound, workers=1),
    )
    tasks = {task.file.file_path: task for task in plan.tasks()}
    settled = {
        task.file.file_path
        for chunk, number in zip(plan.chunks, range(len(plan.chunks)), strict=True)
        for task, is_settled in zip(plan.some_tasks(number, next(chunk.blocks(1000))), chunk.all_match, strict=True)
        if is_settled
    }
    passes = compile_row_filter(bound)
    for entry in table.data:
        path = entry.data_file.file_path
        results = [passes(row) for row in table.rows[path]]
        if entry.is_live and any(results):
            assert path in tasks
        if path in tasks:
            left = compile_row_filter(tasks[path].residual)
            assert [left(row) for row in table.rows[path]] == results
        if path in settled:
            assert all(results)
