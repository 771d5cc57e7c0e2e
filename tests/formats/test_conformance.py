"""Floe's own format models keep all promises, in three formats and two object models, with no gap left unsaid."""

from typing import Any

import pytest

from floe.formats.model import Feature, FormatModel
from floe.formats.registry import AvroAsArrow, OrcAsArrow, ParquetAsArrow, default_registry
from floe.formats.rows import AsRows
from floe.testing.format_bench import FormatBench
from floe.testing.formats import FormatConformance, feature_table

MODELS: list[FormatModel[Any]] = list(default_registry())


@pytest.fixture(params=MODELS, ids=lambda model: f"{model.file_format}-as-{model.object_model}")
def bench(request: pytest.FixtureRequest) -> FormatBench:
    return FormatBench(request.param)


class TestOwnModels(FormatConformance):
    """Every promise of every model of the registry."""


def test_the_registry_has_three_formats_in_two_object_models() -> None:
    assert {(model.file_format, model.object_model) for model in MODELS} == {
        (file_format, model) for file_format in ("parquet", "orc", "avro") for model in ("arrow", "rows")
    }


LISTED = {
    "split handling": ["test_splits", "test_split_offsets", "test_deleted_rows_in_splits"],
    "projection": ["test_narrow_projection", "test_empty_projection", "test_nested_projection"],
    "case sensitivity": ["test_case"],
    "filtering": ["test_filters", "test_filters_on_other_columns", "test_filters_skip", "test_filters_and_evolution"],
    "container reuse": ["test_reuse"],
    "batch size": ["test_batch_size"],
    **{
        f"type {kind}": [f"test_{kind}"]
        for kind in (
            "boolean", "int", "long", "float", "double", "date", "time", "timestamp", "string", "uuid", "fixed",
            "binary", "decimal", "struct", "list", "map", "timestamp_ns", "variant", "unknown",
        )
    },
    "type geometry": ["test_geometry_and_geography"],
    "file path": ["test_file"],
    "row position": ["test_position", "test_positions_under_a_filter"],
    "is deleted": ["test_deleted"],
    "spec id": ["test_spec"],
    "partition column: transformations": ["test_partition"],
    "partition column: evolution": ["test_partition_evolution"],
    "adding a column": ["test_added_columns", "test_only_new_fields_of_a_struct"],
    "removing a column": ["test_narrow_projection", "test_nested_changes"],
    "removing and adding a column of the same name": [
        "test_dropped_and_added_again", "test_files_without_ids", "test_mappings_do_not_touch_ids",
    ],
    "allowed type changes": ["test_promotions", "test_impossible_types"],
    "reordering columns": ["test_reorder_and_rename"],
    "metrics": ["test_default_metrics", "test_no_metrics", "test_counts", "test_full_bounds", "test_modes_of_columns"],
    "default values": ["test_initial_defaults", "test_defaults_inside", "test_write_defaults"],
    "delete filter: removed rows": ["test_rows_deleted_by_position", "test_rows_deleted_by_value"],
    "delete filter: counters": ["test_rows_deleted_by_position"],
    "encryption": ["test_encrypted_files"],
}  # fmt: skip
"""What the proposal of the file-format API lists for its test suite, with the promises that cover it."""


def test_everything_that_the_proposal_lists_is_promised() -> None:
    missing = {
        feature: names for feature, names in LISTED.items() if not all(hasattr(FormatConformance, n) for n in names)
    }
    assert not missing


def test_the_table_of_features_has_no_gap() -> None:
    lines = feature_table([lambda: FormatBench(OrcAsArrow()), lambda: FormatBench(AsRows(AvroAsArrow()))]).splitlines()
    assert lines[0] == "| feature | orc as arrow | avro as rows |"
    promised = [name for name in dir(FormatConformance) if name.startswith("test_")]
    assert len(lines) == len(promised) + 2
    cells = {line.split(" | ")[0].removeprefix("| "): line.removesuffix(" |").split(" | ")[1:] for line in lines[2:]}
    assert {feature: results for feature, results in cells.items() if results != ["yes", "yes"]} == {
        "Split offsets are where row groups or stripes begin": ["yes", "no: blocks are found wherever a split begins"],
        "Filters skip parts of the file that cannot match": ["yes", "no: Avro has no statistics"],
        "Stored sizes of columns": ["yes", "no: Avro stores rows, not columns"],
        "Containers are reused if the reader allows it, and only then": ["no: Arrow batches never change", "yes"],
        "Timestamps in the last second before 1970": ["no: ORC's readers read them as a second later", "yes"],
    }


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_what_a_model_lacks_has_a_reason(model: FormatModel[Any]) -> None:
    assert set(model.lacks) == set(Feature) - model.features  # type: ignore[attr-defined]


def test_the_table_tells_what_fails() -> None:
    class Forgetful(ParquetAsArrow):
        file_format = "forgetful"

        def read(self, request):
            yield from list(super().read(request))[:-1]

    table = feature_table([lambda: FormatBench(Forgetful())])
    assert "| Type boolean | FAILS: AssertionError" in table
    assert "| Files without ids are read by a name mapping, at any depth | not tried |" in table
