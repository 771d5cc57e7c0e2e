"""`floe show`: a table or a view, described from its metadata alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from floe.catalog.protocol import Capability
from floe.catalog.settings import hide_password, is_secret_name
from floe.cli.arguments import (
    CatalogArguments,
    CatalogOption,
    CatalogOptions,
    Debug,
    Json,
    LoadedTable,
    TableName,
    catalog_options,
    find_entry,
    load_table,
)
from floe.cli.ls import summary_count
from floe.errors import NoSuchTable, NotFound
from floe.show.terminal import Output, stdout
from floe.show.times import ago, iso_text, local_text
from floe.spec.metadata.snapshots import TOTAL_DATA_FILES, TOTAL_DELETE_FILES, TOTAL_FILES_SIZE, TOTAL_RECORDS, Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.schema import Schema
from floe.spec.views.view_metadata import SqlRepresentation, ViewMetadata
from floe.sql.printer import partition_terms, sort_terms, type_text
from floe.table.display import Card, table_card, view_card

EXAMPLES = """
floe show warehouse/db/orders
floe show db.orders --catalog sqlite:///lake.db
floe show lake.db.orders --json
"""


def show(
    table: TableName,
    catalog: CatalogOption = None,
    option: CatalogOptions = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the columns, layout, snapshot and properties of a table.

    Only metadata is read. Views can be shown, too.
    """
    out, arguments = stdout(), CatalogArguments(catalog, catalog_options(option))
    try:
        loaded = load_table(table, arguments)
    except NoSuchTable as error:
        view = _load_view(table, arguments)
        if view is None:
            raise error
        _print(out, view_card(table, view), _view_document(table, view) if json else None)
        return
    now_ms = loaded.pointer.environment.clock.now_ms()
    _print(out, _card(loaded, now_ms), _document(loaded) if json else None)


def _load_view(name: str, arguments: CatalogArguments) -> ViewMetadata | None:
    try:
        entry = find_entry(name, arguments)
        if Capability.VIEWS not in entry.catalog.capabilities:
            return None
        return entry.catalog.load_view(entry.identifier)
    except NotFound:
        return None


def _print(out: Output, card: Card, document: Mapping[str, Any] | None) -> None:
    if document is not None:
        out.json(document)
        return
    paint = out.paint
    out.line(f"{paint(card.title, 'bold')} {paint(f'({card.kind})', 'dim')}")
    width = max(len(label) for label, _ in card.rows)
    for label, text in card.lines(full=True):
        out.line(f"  {paint(f'{label:<{width}}', 'cyan')}  {text}")


def _card(table: LoadedTable, now_ms: int) -> Card:
    """The card that `repr(table)` prints, with more about the table's state."""
    metadata = table.state.metadata
    card = table_card(table.name, metadata)
    changed = f"{local_text(metadata.last_updated_ms)} ({ago(metadata.last_updated_ms, now_ms=now_ms)})"
    rows: list[tuple[str, str | Sequence[str]]] = []
    for label, value in card.rows:
        if label == "branches":
            continue  # printed as refs, with their snapshots
        rows.append(("refs", _refs(metadata)) if label == "tags" else (label, value))
        if label == "location":
            rows.append(("metadata", table.state.location))
            rows += [("uuid", metadata.table_uuid)] if metadata.table_uuid else []
        if label == "snapshot" and metadata.snapshots:
            rows.append(("snapshots", f"{len(metadata.snapshots):,}, {_oldest(metadata, now_ms)}"))
            rows.append(("last change", changed))
        if label == "partitions" and len(metadata.partition_specs) > 1:
            rows.append(("", f"(spec {metadata.default_spec_id} of {len(metadata.partition_specs)})"))
    if "refs" not in dict(rows) and len(metadata.refs) > 1:
        position = next((n for n, (label, _) in enumerate(rows) if label == "properties"), len(rows))
        rows.insert(position, ("refs", _refs(metadata)))
    return Card(card.title, card.kind, tuple(rows))


def _oldest(metadata: TableMetadata, now_ms: int) -> str:
    oldest = min(snapshot.timestamp_ms for snapshot in metadata.snapshots)
    return f"the oldest from {ago(oldest, now_ms=now_ms)}"


def _refs(metadata: TableMetadata) -> list[str]:
    width = max(len(name) for name in metadata.refs)
    return [
        f"{name:<{width}}  {'branch' if ref.is_branch else 'tag':<6}  {ref.snapshot_id}"
        for name, ref in sorted(metadata.refs.items(), key=lambda item: (item[0] != "main", item[0]))
    ]


# JSON -----------------------------------------------------------------------------------------------------------------


def _document(table: LoadedTable) -> dict[str, Any]:
    metadata = table.state.metadata
    snapshot = metadata.current_snapshot
    return {
        "name": table.name,
        "kind": "table",
        "format_version": metadata.format_version,
        "uuid": metadata.table_uuid,
        "location": metadata.location,
        "metadata_location": table.state.location,
        "updated": iso_text(metadata.last_updated_ms),
        "columns": _columns(metadata.schema),
        "identifier_columns": list(metadata.schema.identifier_names),
        "partition_by": list(partition_terms(metadata.spec, metadata.schema)),
        "sort_by": list(sort_terms(metadata.sort_order, metadata.schema)),
        "snapshot": None if snapshot is None else _snapshot(snapshot),
        "snapshots": len(metadata.snapshots),
        "refs": {
            name: {"kind": "branch" if ref.is_branch else "tag", "snapshot_id": ref.snapshot_id}
            for name, ref in sorted(metadata.refs.items())
        },
        "properties": _properties(metadata.properties),
    }


def _snapshot(snapshot: Snapshot) -> dict[str, Any]:
    summary = snapshot.summary
    return {
        "id": snapshot.snapshot_id,
        "parent_id": snapshot.parent_snapshot_id,
        "sequence_number": snapshot.sequence_number,
        "operation": snapshot.operation,
        "time": iso_text(snapshot.timestamp_ms),
        "rows": summary_count(summary, TOTAL_RECORDS),
        "data_files": summary_count(summary, TOTAL_DATA_FILES),
        "delete_files": summary_count(summary, TOTAL_DELETE_FILES),
        "bytes": summary_count(summary, TOTAL_FILES_SIZE),
    }


def _view_document(name: str, metadata: ViewMetadata) -> dict[str, Any]:
    queries = metadata.current_version.representations
    return {
        "name": name,
        "kind": "view",
        "uuid": metadata.view_uuid,
        "location": metadata.location,
        "version": metadata.current_version.version_id,
        "columns": _columns(metadata.schema),
        "sql": {query.dialect: query.sql for query in queries if isinstance(query, SqlRepresentation)},
        "properties": _properties(metadata.properties),
    }


def _columns(schema: Schema) -> list[dict[str, Any]]:
    return [
        {
            "id": field.id,
            "name": field.name,
            "type": type_text(field.type),
            "required": field.required,
            "doc": field.doc,
        }
        for field in schema.fields
    ]


def _properties(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: "***" if is_secret_name(key) else hide_password(value) for key, value in properties.items()}
