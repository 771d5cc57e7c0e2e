"""Hints: what to write instead of a statement of Delta Lake, and where a name needs another catalog."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from pyspark.errors import PySparkException

from floe.sql.printer import name_text
from floe.sql.statements import DeltaStatement

_EQUIVALENTS: Final = {
    "OPTIMIZE": "there is no compaction yet: INSERT OVERWRITE {sql} SELECT * FROM {sql} rewrites all data files, and"
    " {python}.rewrite_manifests() merges manifests",
    "VACUUM": "old snapshots and their files go with {python}.expire(older_than='7d').apply() in Python; `floe doctor"
    " --full` names files that no snapshot has",
    "DESCRIBE HISTORY": "write SELECT * FROM {sql}.history, or {sql}.snapshots for what each of them did",
    "RESTORE TABLE": "write CALL {catalog}.system.rollback_to_snapshot('{name}', <snapshot id>), or"
    " CALL {catalog}.system.rollback_to_timestamp('{name}', TIMESTAMP '…')",
}


def iceberg_equivalent(statement: DeltaStatement, catalog: str, name: str) -> str:
    """What to write for tables of Iceberg in place of a statement of Delta Lake.

    >>> iceberg_equivalent(DeltaStatement("DESCRIBE HISTORY", ("t",)), "lake", "db.t")
    'write SELECT * FROM lake.db.t.history, or lake.db.t.snapshots for what each of them did'
    """
    python = f'spark.lakes["{catalog}"].table("{name}")'
    return _EQUIVALENTS[statement.words].format(sql=f"{catalog}.{name}", python=python, catalog=catalog, name=name)


# Errors that come of a catalog's name -----------------------------------------------------------------------------

_SESSION_CATALOG: Final = "spark_catalog"
_ERROR_CONDITION: Final = re.compile(r"\s*\[([A-Z0-9_.]+)\]")
_QUOTED_NAME: Final = re.compile(r"`[^`]+`(?:\.`[^`]+`)*")
_NESTED: Final = re.compile(r"Nested databases are not supported by v1 session catalog: ([^\s;]+?)\.?(?:\s|$)")
_PROVIDER: Final = re.compile(r"provider '?iceberg'?", re.IGNORECASE)


def advice_for(error: PySparkException, catalogs: Sequence[str]) -> str | None:
    """A sentence for an error caused by an unknown catalog, or by a table of Iceberg in Spark's own; else None."""
    message = str(error)
    condition = match[1] if (match := _ERROR_CONDITION.match(message)) else ""
    if condition.startswith("CANNOT_CREATE_DATA_SOURCE_TABLE") and _PROVIDER.search(message):
        return needed_catalog(_parts(message), catalogs)
    if nested := _NESTED.search(message):
        return wrong_catalog(nested[1].replace("`", "").split("."), catalogs)
    if condition == "REQUIRES_SINGLE_PART_NAMESPACE":
        return wrong_catalog(_parts(message), catalogs)
    if condition == "SCHEMA_NOT_FOUND" and (parts := _parts(message))[:1] == [_SESSION_CATALOG] and len(parts) > 2:
        return wrong_catalog(parts[1:], catalogs)
    return None


def wrong_catalog(parts: Sequence[str], catalogs: Sequence[str]) -> str | None:
    """The hint for a name whose first part is not a catalog; None if it is one.

    >>> wrong_catalog(["lak", "db", "t"], ["lake", "pg"])
    'There is no catalog named lak. The catalogs are lake, pg and spark_catalog. Did you mean lake.db.t?'
    """
    if not parts or parts[0] in (*catalogs, _SESSION_CATALOG):
        return None
    near = (get_close_matches(parts[0], catalogs, 1) or list(catalogs))[:1]
    listed = f"{', '.join(catalogs)} and {_SESSION_CATALOG}" if catalogs else _SESSION_CATALOG
    question = f" Did you mean {_text((*near, *parts[1:]))}?" if near else ""
    return f"There is no catalog named {name_text(parts[0])}. The catalogs are {listed}.{question}"


def needed_catalog(parts: Sequence[str], catalogs: Sequence[str]) -> str | None:
    """The hint for a table of Iceberg that is to be created in Spark's own catalog.

    >>> needed_catalog(["default", "x"], ["lake", "pg"])
    'Tables of Iceberg are in the catalogs lake, pg, not in spark_catalog: write lake.default.x, or USE lake before.'
    """
    if not parts or not catalogs:
        return None
    name = parts[1:] if parts[0] == _SESSION_CATALOG else parts
    return (
        f"Tables of Iceberg are in the catalogs {', '.join(catalogs)}, not in {_SESSION_CATALOG}: "
        f"write {_text((catalogs[0], *name))}, or USE {name_text(catalogs[0])} before."
    )


def _parts(message: str) -> list[str]:
    """The parts of the first backquoted name in a message."""
    match = _QUOTED_NAME.search(message)
    return [] if match is None else [part.strip("`") for part in re.findall(r"`[^`]+`", match[0])]


def _text(parts: Sequence[str]) -> str:
    return ".".join(map(name_text, parts))
