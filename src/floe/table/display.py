"""Cards: what `repr` and notebooks show of tables, views, scans and lakes, as text and as HTML.

A card is made from metadata in memory: showing a table reads no file.

>>> card = Card("db.orders", "table, format version 2", (("rows", "1,234"), ("columns", ["id long", "name string"])))
>>> print(card.text())
db.orders (table, format version 2)
  rows     1,234
  columns  id long
           name string
>>> "<table" in card.html()
True
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from floe.catalog.settings import hide_password, is_secret_name
from floe.spec.metadata.snapshots import (
    MAIN_BRANCH,
    TOTAL_DATA_FILES,
    TOTAL_DELETE_FILES,
    TOTAL_FILES_SIZE,
    TOTAL_RECORDS,
    Snapshot,
)
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field
from floe.spec.values.civil_time import millis_to_text
from floe.spec.views.view_metadata import SqlRepresentation, ViewMetadata
from floe.sql.printer import name_text, partition_terms, sort_terms, type_text
from floe.table.human_values import many, size_text

_MAX_LINES = 40
_MAX_WIDTH = 160


@dataclass(frozen=True, slots=True)
class Card:
    """A title, a kind, and rows of a label and one or more lines."""

    title: str
    kind: str
    rows: tuple[tuple[str, str | Sequence[str]], ...]

    def text(self) -> str:
        """The card for a terminal."""
        width = max((len(label) for label, _ in self.rows), default=0)
        lines = (f"  {label:<{width}}  {line}".rstrip() for label, line in self.lines())
        return "\n".join([f"{_plain(self.title)} ({self.kind})", *lines])

    def lines(self, *, full: bool = False) -> Iterator[tuple[str, str]]:
        """The lines of the card as label and text; long lines and long lists are cut unless `full`."""
        for label, value in self.rows:
            for n, line in enumerate(_listed(value) if full else _lines(value)):
                yield "" if n else label, _plain(line)

    def html(self) -> str:
        """The card for a notebook; all text is escaped."""
        cells = "".join(
            f'<tr><th style="text-align:left;vertical-align:top">{escape(label)}</th>'
            f'<td style="text-align:left">{"<br>".join(escape(_plain(line)) for line in _lines(value))}</td></tr>'
            for label, value in self.rows
        )
        return f"<div><b>{escape(_plain(self.title))}</b> <i>{escape(self.kind)}</i><table>{cells}</table></div>"


def table_card(name: str, metadata: TableMetadata, *, branch: str = MAIN_BRANCH) -> Card:
    """The card of a table, with the snapshot of a branch."""
    schema = metadata.schema
    rows: list[tuple[str, str | Sequence[str]]] = [("location", metadata.location), ("columns", _columns(schema))]
    if schema.identifier_names:
        rows.append(("key", ", ".join(schema.identifier_names)))
    if partitions := partition_terms(metadata.spec, schema):
        rows.append(("partitions", ", ".join(partitions)))
    if order := sort_terms(metadata.sort_order, schema):
        rows.append(("sorted by", ", ".join(order)))
    ref = metadata.refs.get(branch)
    snapshot = None if ref is None else metadata.snapshots_by_id.get(ref.snapshot_id)
    rows.append(("snapshot", "none yet" if snapshot is None else snapshot_line(snapshot)))
    if snapshot is not None and (contents := _contents(snapshot.summary or {})):
        rows.append(("holds", contents))
    rows.extend(_refs(metadata))
    if metadata.properties:
        rows.append(("properties", [f"{key} = {_property(key, value)}" for key, value in metadata.properties.items()]))
    kind = f"table, format version {metadata.format_version}" + ("" if branch == MAIN_BRANCH else f", branch {branch}")
    return Card(name, kind, tuple(rows))


def view_card(name: str, metadata: ViewMetadata) -> Card:
    """The card of a view."""
    version = metadata.current_version
    rows: list[tuple[str, str | Sequence[str]]] = [
        ("location", metadata.location),
        ("columns", _columns(metadata.schema)),
    ]
    rows.extend((r.dialect, r.sql.splitlines()) for r in version.representations if isinstance(r, SqlRepresentation))
    if metadata.properties:
        rows.append(("properties", [f"{key} = {_property(key, value)}" for key, value in metadata.properties.items()]))
    return Card(name, f"view, version {version.version_id}", tuple(rows))


def snapshot_line(snapshot: Snapshot) -> str:
    """A snapshot in one line: its id, operation and timestamp.

    >>> snapshot_line(Snapshot(snapshot_id=7, timestamp_ms=1715940000000, summary={"operation": "append"}))
    '7, append at 2024-05-17 10:00:00 UTC'
    """
    operation = snapshot.operation or "unknown operation"
    return f"{snapshot.snapshot_id}, {operation} at {millis_to_text(snapshot.timestamp_ms)}"


def _columns(schema: Schema) -> list[str]:
    width = max((len(name_text(field.name)) for field in schema.fields[:_MAX_LINES]), default=0)
    return [_column(field, width) for field in schema.fields] or ["none"]


def _column(field: Field, width: int) -> str:
    text = f"{name_text(field.name):<{width}}  {type_text(field.type)}{' not null' if field.required else ''}"
    return f"{text}  -- {field.doc}" if field.doc else text


def _contents(summary: Mapping[str, str]) -> str:
    """The totals of a snapshot, as far as its summary has them."""

    def count(key: str) -> int | None:
        text = summary.get(key, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None

    rows, files, deletes, size = map(count, (TOTAL_RECORDS, TOTAL_DATA_FILES, TOTAL_DELETE_FILES, TOTAL_FILES_SIZE))
    parts = [] if rows is None else [many(rows, "row")]
    if files is not None:
        parts.append(many(files, "data file"))
    if deletes:
        parts.append(many(deletes, "delete file"))
    if size is not None:
        parts.append(size_text(size))
    text = ", ".join(parts)
    return f"{text} (rows that delete files remove are counted)" if deletes and rows is not None else text


def _refs(metadata: TableMetadata) -> list[tuple[str, str]]:
    branches = sorted(name for name, ref in metadata.refs.items() if ref.is_branch)
    tags = sorted(name for name, ref in metadata.refs.items() if ref.is_tag)
    rows = [("branches", ", ".join(branches))] if branches and branches != [MAIN_BRANCH] else []
    return [*rows, ("tags", ", ".join(tags))] if tags else rows


def _property(key: str, value: str) -> str:
    return "***" if is_secret_name(key) else hide_password(value)


def _listed(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _lines(value: str | Sequence[str]) -> list[str]:
    lines = _listed(value)
    if len(lines) > _MAX_LINES:
        lines = [*lines[: _MAX_LINES - 1], f"… and {len(lines) - _MAX_LINES + 1} more"]
    return [line if len(line) <= _MAX_WIDTH else line[: _MAX_WIDTH - 1] + "…" for line in lines]


def _plain(text: str) -> str:
    """The text without control characters, which would move the cursor of a terminal."""
    return "".join(c if c.isprintable() else "�" for c in text)
