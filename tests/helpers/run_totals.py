"""Numbers that tests tell, such as how many faults were tried, added up and printed at the end of a run."""

from collections import Counter

import pytest

_MARK = "tried: "
_CELL = "cell: "


def tell(record: pytest.FixtureRequest, **numbers: int) -> None:
    """Adds to the numbers that are printed at the end; `_` in a name is a blank."""
    for name, number in numbers.items():
        record.node.user_properties.append((_MARK + name.replace("_", " "), number))


def tell_cells(record: pytest.FixtureRequest, table: str, cells: Counter[tuple[str, str]]) -> None:
    """Adds to the cells, by row and column, of a table that is printed at the end."""
    for (row, column), number in cells.items():
        record.node.user_properties.append((f"{_CELL}{table}|{row}|{column}", number))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the numbers of all tests; other processes send theirs with their reports."""
    totals: Counter[str] = Counter()
    cells: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                totals.update({n.removeprefix(_MARK): v for n, v in report.user_properties if n.startswith(_MARK)})
                cells.update({n.removeprefix(_CELL): v for n, v in report.user_properties if n.startswith(_CELL)})
    _print_tables(terminalreporter, cells)
    if totals:
        terminalreporter.section("numbers tried")
        for name, number in sorted(totals.items()):
            terminalreporter.write_line(f"{number:>9,}  {name}")


def _print_tables(terminalreporter: pytest.TerminalReporter, cells: Counter[str]) -> None:
    for table in sorted({name.split("|")[0] for name in cells}):
        found = {tuple(name.split("|")[1:]): n for name, n in cells.items() if name.startswith(f"{table}|")}
        rows = sorted({row for row, _ in found})
        columns = sorted({column for _, column in found})
        width = max(map(len, rows))
        terminalreporter.section(table)
        terminalreporter.write_line(" " * width + "".join(f"{column:>12}" for column in columns))
        for row in rows:
            numbers = (found.get((row, column), 0) for column in columns)
            terminalreporter.write_line(f"{row:<{width}}" + "".join(f"{n or '-':>12}" for n in numbers))
