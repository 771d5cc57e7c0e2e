"""Statements of Delta Lake's that users of Iceberg try: told what to write instead, in place of a syntax error.

What to type instead, where Spark's own error does not know: the catalogs that there are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from pyspark.errors import PySparkException

from floe.sql.printing import name_text

_NAME: Final = r"(?:`[^`]+`|\w+)"
_TABLE: Final = rf"(?P<table>{_NAME}(?:\s*\.\s*{_NAME})*)"
_WORDS: Final = {
    "OPTIMIZE": r"optimize",
    "VACUUM": r"vacuum",
    "DESCRIBE HISTORY": r"desc(?:ribe)?\s+history",
    "RESTORE TABLE": r"restore\s+(?:table\s+)?",
}
_STATEMENTS: Final = {
    words: re.compile(rf"{pattern}\s*(?<!\w){_TABLE}", re.IGNORECASE) for words, pattern in _WORDS.items()
}
_INSTEAD: Final = {
    "OPTIMIZE": "there is no compaction yet: INSERT OVERWRITE {sql} SELECT * FROM {sql} writes all rows anew, and"
    " {python}.rewrite_manifests() brings manifests together",
    "VACUUM": "old snapshots and their files go with {python}.expire(older_than='7d').apply() in Python; `floe doctor"
    " --full` names files that no snapshot has",
    "DESCRIBE HISTORY": "write SELECT * FROM {sql}.history, or {sql}.snapshots for what each of them did",
    "RESTORE TABLE": "write CALL {catalog}.system.rollback_to_snapshot('{name}', <snapshot id>), or"
    " CALL {catalog}.system.rollback_to_timestamp('{name}', TIMESTAMP '…')",
}
_CHANGE: Final = re.compile(
    rf"\b(?:insert\s+(?:into|overwrite)|merge\s+(?:with\s+schema\s+evolution\s+)?into|update)\s+(?:table\s+)?{_TABLE}",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class OtherStatement:
    """A statement that Iceberg has other words for."""

    words: str
    table: tuple[str, ...]

    def instead(self, catalog: str, name: str) -> str:
        """What to do, for a table of a catalog.

        >>> OtherStatement("DESCRIBE HISTORY", ("t",)).instead("lake", "db.t")
        'write SELECT * FROM lake.db.t.history, or lake.db.t.snapshots for what each of them did'
        """
        python = f'spark.lakes["{catalog}"].table("{name}")'
        return _INSTEAD[self.words].format(sql=f"{catalog}.{name}", python=python, catalog=catalog, name=name)


def parse_other(text: str, start: int = 0) -> OtherStatement | None:
    """Such a statement, if the text is one.

    >>> parse_other("VACUUM lake.db.`t 1` RETAIN 7 HOURS")
    OtherStatement(words='VACUUM', table=('lake', 'db', 't 1'))
    >>> parse_other("SELECT 1") is None
    True
    """
    for words, pattern in _STATEMENTS.items():
        if found := pattern.match(text, start):
            parts = re.findall(_NAME, found["table"])
            return OtherStatement(words, tuple(part.strip("`") for part in parts))
    return None


def changed_table(text: str) -> str:
    """The table that a statement writes to, as it is written there.

    >>> changed_table("INSERT INTO lake.db.t SELECT 1"), changed_table("MERGE INTO t USING s ON true")
    ('lake.db.t', 't')
    """
    found = _CHANGE.search(text)
    return "the table" if found is None else found["table"]


# What to type instead, where Spark's own error does not know: the catalogs that there are.

_OWN: Final = "spark_catalog"
_CONDITION: Final = re.compile(r"\s*\[([A-Z0-9_.]+)\]")
_CATALOG_NAME: Final = re.compile(r"`[^`]+`(?:\.`[^`]+`)*")
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
    found = _CATALOG_NAME.search(message)
    return [] if found is None else [part.strip("`") for part in re.findall(r"`[^`]+`", found[0])]


def _text(parts: Sequence[str]) -> str:
    return ".".join(map(name_text, parts))
