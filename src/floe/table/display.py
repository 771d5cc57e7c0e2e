"""What `repr` and notebooks show: a card that tells a person what they hold, as text and as HTML.

A card is made of what is in memory already: showing a table reads no file.

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

from floe.spec.metadata.refs import MAIN_BRANCH
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.summaries import TOTAL_DATA_FILES, TOTAL_DELETE_FILES, TOTAL_FILES_SIZE, TOTAL_RECORDS
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field
from floe.spec.views.view_metadata import SqlRepresentation, ViewMetadata
from floe.table.amounts import many, size_text
from floe.table.column_text import name_text, type_text
from floe.table.moments import millis_text
from floe.table.secrets import hide_password, is_secret_name
from floe.table.terms import partition_terms, sort_terms

__all__ = ["Card", "snapshot_line", "table_card", "view_card"]

_MAX_LINES = 40
_MAX_WIDTH = 160


@dataclass(frozen=True, slots=True)
class Card:
    """A title, what kind of thing it is, and rows of a label and one or more lines."""

    title: str
    kind: str
    rows: tuple[tuple[str, str | Sequence[str]], ...]

    def text(self) -> str:
        """The card for a terminal."""
        width = max((len(label) for label, _ in self.rows), default=0)
        lines = (f"  {label:<{width}}  {line}".rstrip() for label, line in self.lines())
        return "\n".join([f"{_plain(self.title)} ({self.kind})", *lines])

    def lines(self, *, all_of_them: bool = False) -> Iterator[tuple[str, str]]:
        """The lines of the card as label and text; long ones and long lists are cut unless all is asked for."""
        for label, value in self.rows:
            for n, line in enumerate(_listed(value) if all_of_them else _lines(value)):
                yield "" if n else label, _plain(line)

    def html(self) -> str:
        """The card for a notebook; everything that comes from a table is escaped."""
        cells = "".join(
            f'<tr><th style="text-align:left;vertical-align:top">{escape(label)}</th>'
            f'<td style="text-align:left">{"<br>".join(escape(_plain(line)) for line in _lines(value))}</td></tr>'
            for label, value in self.rows
        )
        return f"<div><b>{escape(_plain(self.title))}</b> <i>{escape(self.kind)}</i><table>{cells}</table></div>"


def table_card(name: str, metadata: TableMetadata, *, branch: str = MAIN_BRANCH) -> Card:
    """The card of a table, as one of its branches sees it."""
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
    if snapshot is not None and (holds := _holdings(snapshot.summary or {})):
        rows.append(("holds", holds))
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
    """A snapshot in one line: its id, what it did, when.

    >>> snapshot_line(Snapshot(snapshot_id=7, timestamp_ms=1715940000000, summary={"operation": "append"}))
    '7, append at 2024-05-17 10:00:00 UTC'
    """
    return f"{snapshot.snapshot_id}, {snapshot.operation or 'made'} at {millis_text(snapshot.timestamp_ms)}"


def _columns(schema: Schema) -> list[str]:
    width = max((len(name_text(field.name)) for field in schema.fields[:_MAX_LINES]), default=0)
    return [_column(field, width) for field in schema.fields] or ["none"]


def _column(field: Field, width: int) -> str:
    text = f"{name_text(field.name):<{width}}  {type_text(field.type)}{' not null' if field.required else ''}"
    return f"{text}  -- {field.doc}" if field.doc else text


def _holdings(summary: Mapping[str, str]) -> str:
    """What a snapshot holds, as far as its summary says."""

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
    """The text without what would move a terminal's cursor or break a line."""
    return "".join(c if c.isprintable() else "�" for c in text)
