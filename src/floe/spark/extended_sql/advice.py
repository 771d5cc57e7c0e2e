"""What to type instead, where Spark's own error does not know: the catalogs that there are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from pyspark.errors import PySparkException

from floe.table.column_text import name_text

__all__ = ["advice_for"]

_OWN: Final = "spark_catalog"
_CONDITION: Final = re.compile(r"\s*\[([A-Z0-9_.]+)\]")
_NAME: Final = re.compile(r"`[^`]+`(?:\.`[^`]+`)*")
_NESTED: Final = re.compile(r"Nested databases are not supported by v1 session catalog: ([^\s;]+?)\.?(?:\s|$)")
_PROVIDER: Final = re.compile(r"provider '?iceberg'?", re.IGNORECASE)


def advice_for(error: PySparkException, catalogs: Sequence[str]) -> str | None:
    """A sentence about an error that comes of a catalog's name: a wrong one, or none where Iceberg needs one."""
    message = str(error)
    condition = found[1] if (found := _CONDITION.match(message)) else ""
    if condition.startswith("CANNOT_CREATE_DATA_SOURCE_TABLE") and _PROVIDER.search(message):
        return needed_catalog(_parts(message), catalogs)
    if nested := _NESTED.search(message):
        return wrong_catalog(nested[1].replace("`", "").split("."), catalogs)
    if condition == "REQUIRES_SINGLE_PART_NAMESPACE":
        return wrong_catalog(_parts(message), catalogs)
    if condition == "SCHEMA_NOT_FOUND" and (parts := _parts(message))[:1] == [_OWN] and len(parts) > 2:
        return wrong_catalog(parts[1:], catalogs)
    return None


def wrong_catalog(parts: Sequence[str], catalogs: Sequence[str]) -> str | None:
    """What is said about a name that begins with no catalog.

    >>> wrong_catalog(["lak", "db", "t"], ["lake", "pg"])
    'There is no catalog named lak. The catalogs are lake, pg and spark_catalog. Did you mean lake.db.t?'
    """
    if not parts or parts[0] in (*catalogs, _OWN):
        return None
    near = (get_close_matches(parts[0], catalogs, 1) or list(catalogs))[:1]
    listed = f"{', '.join(catalogs)} and {_OWN}" if catalogs else _OWN
    question = f" Did you mean {_text((*near, *parts[1:]))}?" if near else ""
    return f"There is no catalog named {name_text(parts[0])}. The catalogs are {listed}.{question}"


def needed_catalog(parts: Sequence[str], catalogs: Sequence[str]) -> str | None:
    """What is said about a table of Iceberg in Spark's own catalog.

    >>> needed_catalog(["default", "x"], ["lake", "pg"])
    'Tables of Iceberg are in the catalogs lake, pg, not in spark_catalog: write lake.default.x, or USE lake before.'
    """
    if not parts or not catalogs:
        return None
    name = parts[1:] if parts[0] == _OWN else parts
    return (
        f"Tables of Iceberg are in the catalogs {', '.join(catalogs)}, not in {_OWN}: "
        f"write {_text((catalogs[0], *name))}, or USE {name_text(catalogs[0])} before."
    )


def _parts(message: str) -> list[str]:
    """The parts of the first name with backquotes in a message."""
    found = _NAME.search(message)
    return [] if found is None else [part.strip("`") for part in re.findall(r"`[^`]+`", found[0])]


def _text(parts: Sequence[str]) -> str:
    return ".".join(map(name_text, parts))
