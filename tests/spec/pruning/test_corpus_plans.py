"""The plans of the corpus: which files Java selects for a filter, and what it leaves to check on their rows.

Every file whose rows pass must be selected. Beyond that our choice is Java's, but for two differences, both of them
right by SQL (see tests/corpus/README.md): files with nothing but nulls in the column are skipped for `<>`, NOT IN, NOT
LIKE and NOT isnan; and files are kept that Java loses rows of, because NaN is greater than every number or -0.0 is 0.0.
"""

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from floe.spec.expressions.binder import bind
from floe.spec.expressions.expression_json import expression_from_json
from floe.spec.expressions.nodes import Expression
from floe.spec.expressions.row_evaluation import compile_row_filter, compile_tuple_filter
from floe.spec.expressions.simplification import field_ids
from floe.spec.manifests.entries import DataFile, EntryStatus, ManifestContent, ManifestFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import parse
from floe.spec.pruning import metrics_evaluation
from floe.spec.pruning.column_evaluation import evaluate, make_column
from floe.spec.pruning.projection import inclusive_projection, partition_schema
from floe.spec.schemas.schema import Schema
from floe.spec.types import StructType
from helpers import scalar_pruning
from helpers.avro_files import local, read_manifest, read_manifest_list
from helpers.corpus import expected
from helpers.partitioned_files import arrow_values, partition_values
from helpers.residuals import compile_residual

TABLES = [
    "combo_v2", "del_dv", "del_dv_part", "del_eq", "del_eq_part", "del_pos_avro", "del_pos_file", "del_pos_file_part",
    "del_pos_orc", "del_pos_partition", "del_spec_evolution", "evo_defaults", "evo_defaults_avro", "evo_partition",
    "evo_readd", "evo_swap", "evo_swap_part", "evo_widen", "evo_widen_avro", "evo_widen_orc", "fmt_mixed",
    "imp_add_files_part", "meta_metrics", "names_special", "part_bucket", "part_day", "part_hour",
    "part_identity_string", "part_identity_types", "part_month", "part_multi", "part_times_v1", "part_truncate",
    "part_truncate_wide", "part_void", "part_year", "plan_day_bucket", "plan_metrics", "scale_many_files",
]  # fmt: skip


@dataclass
class Table:
    """A table's current snapshot: its manifests of data files, and the live files of each."""

    folder: Path
    metadata: TableMetadata
    manifests: list[ManifestFile]
    files: dict[str, list[tuple[str, DataFile, tuple[Any, ...]]]]
    plans: list[dict[str, Any]]


@functools.cache
def load(corpus_dir: Path, name: str) -> Table:
    facts = expected(corpus_dir, name)
    metadata = parse((corpus_dir / name / facts["metadata"]).read_bytes())
    listed = read_manifest_list(local(corpus_dir, metadata.current_snapshot.manifest_list))
    manifests = [m for m in listed if m.content == ManifestContent.DATA]
    files = {}
    for manifest in manifests:
        spec = metadata.spec_by_id(manifest.partition_spec_id)
        found = []
        for entry in read_manifest(local(corpus_dir, manifest.manifest_path)):
            if entry.status != EntryStatus.DELETED:
                path = str(local(corpus_dir, entry.data_file.file_path).relative_to(corpus_dir / name))
                values = partition_values(spec.partition_type(metadata.schema), entry.data_file.partition)
                found.append((path, entry.data_file, values))
        files[manifest.manifest_path] = found
    return Table(corpus_dir / name, metadata, manifests, files, facts["plans"])


def bound_filter(table: Table, json: Any) -> Expression:
    return bind(expression_from_json(json, table.metadata.schema), table.metadata.schema)


def select(table: Table, bound: Expression) -> dict[str, Expression]:
    """The files that a scan would read, and what is left of the filter for each."""
    schema, chosen = table.metadata.schema, {}
    might = scalar_pruning.compile_might_match(bound)
    for manifest in table.manifests:
        spec = table.metadata.spec_by_id(manifest.partition_spec_id)
        projected, partition = inclusive_projection(bound, spec, schema), partition_schema(spec, schema)
        keep, left = compile_tuple_filter(projected, partition), compile_residual(bound, spec, schema)
        if scalar_pruning.manifest_might_match(projected, manifest, partition):
            for path, file, values in table.files[manifest.manifest_path]:
                if keep(values) and might(file):
                    chosen[path] = left(values)
    return chosen


def select_by_columns(table: Table, bound: Expression) -> set[str]:
    """The same with columns in place of objects."""
    schema, chosen = table.metadata.schema, set()
    for spec_id in {m.partition_spec_id for m in table.manifests}:
        spec = table.metadata.spec_by_id(spec_id)
        projected, partition = inclusive_projection(bound, spec, schema), partition_schema(spec, schema)
        manifests = [m for m in table.manifests if m.partition_spec_id == spec_id]
        summaries = metrics_evaluation.gather_summaries(manifests, partition)
        kept = metrics_evaluation.manifests_might_match(projected, summaries, len(manifests))
        files = [f for m, keep in zip(manifests, kept, strict=True) if keep for f in table.files[m.manifest_path]]
        columns = {
            field.id: make_column(field.type, [values[n] for _, _, values in files])
            for n, field in enumerate(partition.fields)
            if field.id in field_ids(projected)
        }
        in_partition = evaluate(projected, columns, len(files))
        stats = metrics_evaluation.gather_stats([file for _, file, _ in files], bound)
        selected = in_partition & metrics_evaluation.files_might_match(bound, stats)
        chosen |= {path for (path, _, _), keep in zip(files, selected, strict=True) if keep}
    return chosen


# the rows of a file, by field id -----------------------------------------------------------------------------


def parquet_rows(path: Path, schema: Schema, wanted: frozenset[int]) -> list[dict[str, Any]] | None:
    """The rows of a Parquet file in some columns, or None for files that need more of a reader than this."""
    if path.suffix != ".parquet":
        return None
    count, arrays = parquet_columns(path)
    if not set(schema.by_id) & set(arrays):
        return None  # imported, without ids
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for i in sorted(wanted):
        entry = schema.entry(i)
        if i not in arrays and entry.field.initial_default is None and entry.ancestors:
            return None
        if i in arrays and isinstance(entry.field.type, StructType):
            return None
        column = arrays.get(i)
        default = entry.field.initial_default
        values = [default] * len(rows) if column is None else arrow_values(entry.field.type, column)
        for row, value in zip(rows, values, strict=True):
            for step in entry.path[:-1]:
                row = row.setdefault(step, {})
            row[entry.path[-1]] = value
    return rows


@functools.cache
def parquet_columns(path: Path) -> tuple[int, dict[int, pa.ChunkedArray]]:
    table = pq.ParquetFile(path).read()
    return table.num_rows, by_id(table.to_struct_array().combine_chunks() if table.num_rows else None)


def by_id(array: pa.StructArray | None, found: dict[int, Any] | None = None) -> dict[int, pa.ChunkedArray]:
    found = {} if found is None else found
    for n in range(array.type.num_fields if array is not None else 0):
        field, child = array.type.field(n), pc.struct_field(array, [n])
        if field.metadata and b"PARQUET:field_id" in field.metadata:
            found[int(field.metadata[b"PARQUET:field_id"])] = pa.chunked_array([child])
        if pa.types.is_struct(field.type):
            by_id(child, found)
    return found


# the tests ---------------------------------------------------------------------------------------------------


def test_every_table_with_plans_is_here(corpus_dir):
    with_plans = [d.name for d in sorted(corpus_dir.iterdir()) if expected(corpus_dir, d.name).get("plans")]
    assert with_plans == TABLES


@pytest.mark.parametrize("name", TABLES)
def test_files_are_selected_as_by_java_but_for_its_faults(corpus_dir, name):
    table = load(corpus_dir, name)
    for plan in table.plans:
        if "files" not in plan:
            assert "NullPointerException" in plan["java_error"]  # Java fails on null partitions
            continue
        ours, java = set(select(table, bound_filter(table, plan["filter"]))), {f["file"] for f in plan["files"]}
        differs = plan.get("java_differs", {}).get("generics", {})
        if ours - java:
            assert differs["lost_rows"] > 0, (plan["filter_sql"], ours - java)
        if java - ours:  # nulls pass in Java: it finds more rows than there are
            assert differs["count"] > plan["count"], (plan["filter_sql"], java - ours)


@pytest.mark.parametrize("name", TABLES)
def test_columns_select_what_objects_select(corpus_dir, name):
    table = load(corpus_dir, name)
    for plan in table.plans:
        bound = bound_filter(table, plan["filter"])
        assert select_by_columns(table, bound) == set(select(table, bound)), plan["filter_sql"]


@pytest.mark.parametrize("name", TABLES)
def test_no_row_that_passes_is_lost_and_residuals_are_equal(corpus_dir, name):
    table = load(corpus_dir, name)
    schema = table.metadata.schema
    everything = [file for files in table.files.values() for file in files]
    for plan in table.plans:
        bound = bound_filter(table, plan["filter"])
        chosen, passes = select(table, bound), compile_row_filter(bound)
        must = scalar_pruning.compile_must_match(bound)
        java = {f["file"]: f["residual_json"] for f in plan.get("files", [])}
        total, complete = 0, True
        for path, file, _ in everything:
            rows = parquet_rows(table.folder / path, schema, field_ids(bound))
            if rows is None:
                complete = False
                continue
            results = [passes(row) for row in rows]
            total += sum(results)
            if any(results):
                assert path in chosen, (plan["filter_sql"], path)
            if must(file):
                assert all(results), (plan["filter_sql"], path)
            if path in chosen:
                left = compile_row_filter(chosen[path])
                assert [left(row) for row in rows] == results, (plan["filter_sql"], path)
            if path in chosen and path in java and not plan.get("java_differs"):
                theirs = compile_row_filter(bound_filter(table, java[path]))
                assert [theirs(row) for row in rows] == results, (plan["filter_sql"], path, json.dumps(java[path]))
        if complete and not name.startswith(("del_", "plan_metrics", "combo")):  # no row is deleted
            assert total == plan["count"], plan["filter_sql"]
