"""Which metrics of which columns writers keep: the table properties `write.metadata.metrics.*`.

| mode | what is kept of a column |
|---|---|
| `none` | nothing |
| `counts` | how many values, nulls and NaN |
| `truncate(n)` | counts, and bounds cut to n characters or bytes |
| `full` | counts, and bounds as they are |

Without any property the mode is `truncate(16)` for the first 100 columns and `none` for the rest, so that the metadata
of wide tables stays small; columns by which the rows are sorted have at least `truncate(16)`.

>>> from floe.spec.types import Field, LONG, STRING
>>> schema = Schema((Field(1, "id", LONG), Field(2, "note", STRING)))
>>> config = MetricsConfig.from_properties({"write.metadata.metrics.column.note": "counts"}, schema)
>>> str(config.mode(1)), str(config.mode(2))
('truncate(16)', 'counts')
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from floe.errors import InvalidUpdate
from floe.spec.metadata.properties import integer_property
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH, DELETE_POS
from floe.spec.schemas.schema import Schema
from floe.spec.sorting import SortOrder
from floe.spec.types import Field

__all__ = ["COUNTS", "DEFAULT_MODE", "FULL", "NONE", "MetricsConfig", "MetricsMode", "parse_mode"]

_DEFAULT = "write.metadata.metrics.default"
_COLUMN_PREFIX = "write.metadata.metrics.column."
_MAX_INFERRED = "write.metadata.metrics.max-inferred-column-defaults"
_DEFAULT_MAX_INFERRED = 100
_TRUNCATE = re.compile(r"truncate\(\s*([0-9]{1,9})\s*\)")


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """What is kept of a column; `length` is that of bounds, and None for bounds as they are.

    >>> str(MetricsMode(True, True, 16)), str(MetricsMode(True, False))
    ('truncate(16)', 'counts')
    """

    counts: bool
    bounds: bool
    length: int | None = None

    def __str__(self) -> str:
        if not self.bounds:
            return "counts" if self.counts else "none"
        return "full" if self.length is None else f"truncate({self.length})"


NONE = MetricsMode(False, False)
COUNTS = MetricsMode(True, False)
FULL = MetricsMode(True, True)
DEFAULT_MODE = MetricsMode(True, True, 16)
_NAMED = {str(mode): mode for mode in (NONE, COUNTS, FULL)}


def parse_mode(text: str, property_name: str = _DEFAULT) -> MetricsMode:
    """The mode that a property names.

    >>> parse_mode("Truncate(8)")
    MetricsMode(counts=True, bounds=True, length=8)
    >>> parse_mode("some")
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: 'some' is no metrics mode (property: write.metadata.metrics.default); ...
    """
    lowered = text.strip().lower()
    named = _NAMED.get(lowered)
    if named is not None:
        return named
    found = _TRUNCATE.fullmatch(lowered)
    if found is None or int(found[1]) == 0:
        raise InvalidUpdate(
            f"{text[:80]!r} is no metrics mode",
            hint="the modes are none, counts, truncate(n) with n above 0, and full",
            property=property_name,
        )
    return MetricsMode(True, True, int(found[1]))


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """The metrics mode of each column, by field id, and of all others."""

    default: MetricsMode = DEFAULT_MODE
    by_id: Mapping[int, MetricsMode] = field(default_factory=lambda: MappingProxyType({}))

    def mode(self, field_id: int) -> MetricsMode:
        """What is kept of a column."""
        return self.by_id.get(field_id, self.default)

    @classmethod
    def for_position_deletes(cls) -> MetricsConfig:
        """Exact bounds of path and position, which tell the data files that deletes are for; nothing of the rows.

        >>> str(MetricsConfig.for_position_deletes().mode(DELETE_FILE_PATH.id))
        'full'
        """
        return cls(NONE, MappingProxyType({DELETE_FILE_PATH.id: FULL, DELETE_POS.id: FULL}))

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], schema: Schema, sort_order: SortOrder | None = None
    ) -> MetricsConfig:
        """What the properties of a table say; names of columns that the schema does not have are passed over.

        >>> str(MetricsConfig.from_properties({"write.metadata.metrics.default": "full"}, Schema(())).default)
        'full'
        """
        by_id: dict[int, MetricsMode] = {}
        configured = properties.get(_DEFAULT)
        if configured is not None:
            default = parse_mode(configured)
        else:
            most = integer_property(properties, _MAX_INFERRED, default=_DEFAULT_MAX_INFERRED)
            most = _DEFAULT_MAX_INFERRED if most < 0 else most  # as other writers take it
            default = DEFAULT_MODE
            if len(schema.by_id) > most:
                default = NONE
                by_id.update(dict.fromkeys(_first_columns(schema, most), DEFAULT_MODE))
        for field_id in _sorted_columns(sort_order):
            if not by_id.get(field_id, default).bounds:
                by_id[field_id] = DEFAULT_MODE
        for name, text in properties.items():
            column = name.removeprefix(_COLUMN_PREFIX)
            if column != name and schema.has(column):
                by_id[schema.resolve(column).field.id] = parse_mode(text, name)
        return cls(default, MappingProxyType(by_id))


def _first_columns(schema: Schema, count: int) -> list[int]:
    """The ids of that many columns with values of their own: those of a level before those nested in it."""
    found = (child.id for child in _level_by_level(schema.fields) if not child.type.is_nested)
    return [field_id for _, field_id in zip(range(count), found, strict=False)]


def _level_by_level(fields: tuple[Field, ...]) -> Iterator[Field]:
    yield from fields
    for child in fields:
        yield from _level_by_level(child.type.fields)


def _sorted_columns(order: SortOrder | None) -> list[int]:
    """The columns whose own order is that of the rows, at least roughly."""
    if order is None:
        return []
    return [sort.source_id for sort in order.fields if sort.transform.preserves_order]
