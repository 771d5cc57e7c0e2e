"""Statements in text files, each with what it must give written under it.

    SELECT id, name FROM t ORDER BY id;      a statement ends with a semicolon at the end of a line
    --> 1 | one                              its rows, the values with bars between them
    --> 2 | NULL

    SELECT * FROM t WHERE id > 9;
    --> nothing                              no rows

    SELECT nope FROM t;
    --! UNRESOLVED_COLUMN                    an error: its class, or how that begins
    --! no such column                       or, in small letters, a part of its message

    --@ v1 v2                                only for tables of these format versions; or lake, sq: catalogs; or 4.2+

Values are compared as Spark casts them to texts. Rows are compared in their order where the statement has ORDER BY.
Statements with nothing under them must not fail. `{name}` in a statement or an expected row is replaced by the value
of an earlier `--= name` line, which takes the only value that the statement above it gave; `{catalog}` and `{ns}` are
where the file runs.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, functions as F

from floe.spark.session import FloeSession


@dataclass
class Case:
    """A statement and what it must give."""

    line: int
    statement: str
    only: tuple[str, ...] = ()
    rows: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    taken_as: str | None = None


def read_cases(path: Path) -> list[Case]:
    """The statements of a file."""
    return list(_cases(path.read_text().splitlines()))


def _cases(lines: list[str]) -> Iterator[Case]:
    only: tuple[str, ...] = ()
    statement: list[str] = []
    current: Case | None = None
    for number, line in enumerate(lines, start=1):
        mark, rest = line[:3], line[3:].strip()
        if mark == "-->" and current is not None:
            current.rows.append(rest)
        elif mark == "--!" and current is not None:
            current.errors.append(rest)
        elif mark == "--=" and current is not None:
            current.taken_as = rest
        elif mark == "--@":
            only = tuple(rest.split())
        elif line.startswith("--") or (not line.strip() and not statement):
            continue
        else:
            if not statement and current is not None:
                yield current
                current = None
            statement.append(line)
            if line.rstrip().endswith(";"):
                text = "\n".join(statement).rstrip().removesuffix(";")
                current = Case(number - len(statement) + 1, text, only)
                statement, only = [], ()
    if current is not None:
        yield current
    assert not statement, f"the last statement has no semicolon: {statement}"


class Runner:
    """Runs the statements of a file in a session, and tells what differs from what they must give."""

    def __init__(self, session: FloeSession, traits: set[str], names: dict[str, str]) -> None:
        self._session, self._traits = session, traits
        self._values = dict(names)

    def run(self, path: Path) -> list[str]:
        """What is wrong, as texts with the line of each statement."""
        problems = []
        for case in read_cases(path):
            if case.only and not any(self._is(trait) for trait in case.only):
                continue
            if (problem := self._problem(case)) is not None:
                problems.append(f"{path.name}:{case.line}: {case.statement[:200]}\n    {problem}")
        return problems

    def _is(self, trait: str) -> bool:
        if re.fullmatch(r"4\.\d\+", trait):
            return tuple(map(int, self._session.version.split(".")[:2])) >= (4, int(trait[2]))
        return trait in self._traits

    def _problem(self, case: Case) -> str | None:
        try:
            rows = texts(self._session.sql(self._filled(case.statement)))
        except PySparkException as error:
            told = f"{error.getCondition()}: {error}"
            if not case.errors:
                return f"failed: {told[:500]}"
            missing = [one for one in case.errors if not _tells(error, one)]
            return f"expected error {missing}, found {told[:500]}" if missing else None
        except Exception as error:  # such as one that PySpark does not know
            return f"failed with {type(error).__name__}: {str(error)[:500]}"
        if case.errors:
            return f"expected error {case.errors}, found rows {rows[:10]}"
        if case.taken_as is not None:
            (self._values[case.taken_as],) = rows
        if not case.rows:
            return None
        expected = [self._filled(row) for row in case.rows if row != "nothing"]
        if "order by" not in case.statement.lower():
            rows, expected = sorted(rows), sorted(expected)
        return None if rows == expected else f"expected {expected}, found {rows}"

    def _filled(self, text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: self._values.get(found[1], found[0]), text)


def _tells(error: PySparkException, expected: str) -> bool:
    if re.match(r"[A-Z_]+(\.[A-Z_]+)*$", expected):
        return (error.getCondition() or "").startswith(expected)
    return expected.lower() in str(error).lower()


def texts(frame: DataFrame) -> list[str]:
    """The rows of a data frame as Spark casts their values to texts."""
    numbered = frame.toDF(*(f"c{n}" for n in range(len(frame.columns))))
    if not numbered.columns:
        return []
    casted = numbered.select(*(F.col(name).cast("string") for name in numbered.columns))
    return [" | ".join("NULL" if value is None else value for value in row).strip() for row in casted.collect()]
