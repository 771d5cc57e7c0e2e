"""Every metadata table that Java read of the corpus's tables: the same columns with the same ids, the same rows."""

import json
from pathlib import Path
from typing import Any

import pytest

from floe.errors import FloeError
from floe.formats.columns.arrow_types import schema_from_arrow
from floe.plan.metadata_tables import NAMES, metadata_table, schema_of
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import parse
from floe.spec.schemas.column_projection import select
from floe.spec.schemas.schema_json import schema_to_json
from helpers.canonical import canonical_rows, digest
from helpers.corpus import expected, table_names
from helpers.corpus_tables import corpus_storage

TABLES = table_names(without=("invalid_", "odd_", "view_"))


def load(corpus_dir: Path, name: str) -> tuple[dict[str, Any], TableMetadata, str]:
    answers = expected(corpus_dir, name)
    metadata = parse((corpus_dir / name / answers["metadata"]).read_bytes())
    return answers, metadata, f"{answers['location']}/{answers['metadata']}"


def without_docs(json: Any) -> Any:
    if isinstance(json, dict):
        return {key: without_docs(value) for key, value in json.items() if key not in ("doc", "schema-id")}
    return [without_docs(item) for item in json] if isinstance(json, list) else json


@pytest.mark.parametrize("name", TABLES)
def test_rows_and_columns_are_those_that_java_gives(corpus_dir: Path, name: str) -> None:
    answers, metadata, location = load(corpus_dir, name)
    storage = corpus_storage(corpus_dir)
    for case in answers["cases"]:
        query = case["query"]
        if "metadata_table" not in query:
            continue
        table, columns = query["metadata_table"], query.get("columns")
        found = metadata_table(table, metadata, location, storage, columns=columns)
        found.validate(full=True)
        for column in found.schema:
            assert column.nullable or not found.column(column.name).null_count, (table, column.name)
        if "schema" not in case:
            continue  # Spark could not read it, so no answer was recorded
        schema = answers["schemas"][case["schema"]]
        assert without_docs(schema_to_json(schema_from_arrow(found.schema))) == without_docs(schema)
        chosen = select(schema_of(table, metadata), columns) if columns else schema_of(table, metadata)
        assert without_docs(schema_to_json(chosen)) == without_docs(schema)
        rows = canonical_rows(found, schema)
        if "rows" in case:
            assert rows == case["rows"], table
        assert (len(rows), digest(rows)) == (case["count"], case["sha256"]), table


def test_the_corpus_has_answers_for_every_table(corpus_dir: Path) -> None:
    asked = [
        case["query"]["metadata_table"]
        for name in TABLES
        for case in expected(corpus_dir, name)["cases"]
        if "metadata_table" in case["query"] and "sha256" in case
    ]
    assert set(asked) == set(NAMES)
    assert len(asked) > 400


@pytest.mark.parametrize("name", table_names("invalid_", "odd_"))
def test_broken_tables_give_typed_errors_or_answers(corpus_dir: Path, name: str) -> None:
    """Each table can be asked for everything: what cannot be answered is an error of the tree, and nothing else."""
    answers = json.loads((corpus_dir / name / "expected.json").read_text())["invalid"]
    location = f"/floe-corpus/{name}/{answers['metadata']}"
    storage = corpus_storage(corpus_dir)
    try:
        metadata = parse((corpus_dir / name / answers["metadata"]).read_bytes())
    except FloeError:
        return
    failed = set()
    for table in NAMES:
        try:
            metadata_table(table, metadata, location, storage).validate(full=True)
        except FloeError:
            failed.add(table)
    assert failed == FAILING.get(name, set())


_LISTED = {"manifests", "all_manifests"}
_READ = {"entries", "files", "data_files", "partitions", "all_entries", "all_files", "all_data_files"}
_DELETES = {"delete_files", "position_deletes", "all_delete_files"}
FAILING: dict[str, set[str]] = {
    **dict.fromkeys(
        (
            "invalid_avro_block_huge",
            "invalid_avro_block_negative",
            "invalid_avro_codec",
            "invalid_entry_status",
            "invalid_manifest_empty_file",
            "invalid_manifest_truncated",
            "invalid_missing_manifest",
        ),
        _READ,
    ),
    "invalid_missing_manifest_list": _LISTED | _READ | _DELETES,
    **{name: {"position_deletes"} for name in ("invalid_dv_crc", "invalid_dv_magic", "invalid_dv_offset")},
}
"""The tables that must fail: those that need what is broken."""
