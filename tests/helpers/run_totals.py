"""Totals that tests report, such as the number of faults, added up over all tests and printed at the end of a run."""

from collections import Counter

import pytest

_MARK = "tried: "
_CELL = "cell: "


def report_totals(record: pytest.FixtureRequest, **numbers: int) -> None:
    """Add to the totals that are printed at the end; `_` in a name is printed as a space."""
    for name, number in numbers.items():
        record.node.user_properties.append((_MARK + name.replace("_", " "), number))


def report_cells(record: pytest.FixtureRequest, table: str, cells: Counter[tuple[str, str]]) -> None:
    """Add to the cells of a table that is printed at the end; the keys of `cells` are (row, column)."""
    for (row, column), number in cells.items():
        record.node.user_properties.append((f"{_CELL}{table}|{row}|{column}", number))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the totals of all tests; other processes send theirs with their reports."""
    totals: Counter[str] = Counter()
    cells: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                totals.update({n.removeprefix(_MARK): v for n, v in report.user_properties if n.startswith(_MARK)})
                cells.update({n.removeprefix(_CELL): v for n, v in report.user_properties if n.startswith(_CELL)})
    _print_tables(terminalreporter, cells)
    if totals:
        terminalreporter.section("totals")
        for name, number in sorted(totals.items()):
            terminalreporter.write_line(f"{number:>9,}  {name}")


def _print_tables(terminalreporter: pytest.TerminalReporter, cells: Counter[str]) -> None:
    for table in sorted({name.split("|")[0] for name in cells}):
        table_cells = {tuple(name.split("|")[1:]): n for name, n in cells.items() if name.startswith(f"{table}|")}
        rows = sorted({row for row, _ in table_cells})
        columns = sorted({column for _, column in table_cells})
        width = max(map(len, rows))
        terminalreporter.section(table)
        terminalreporter.write_line(" " * width + "".join(f"{column:>12}" for column in columns))
        for row in rows:
            numbers = (table_cells.get((row, column), 0) for column in columns)
            terminalreporter.write_line(f"{row:<{width}}" + "".join(f"{n or '-':>12}" for n in numbers))
