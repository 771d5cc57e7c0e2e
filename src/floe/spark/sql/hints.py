"""Statements of Delta Lake's that users of Iceberg try: told what to write instead, in place of a syntax error."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["OtherStatement", "changed_table", "parse_other"]

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
