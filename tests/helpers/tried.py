"""Numbers that tests tell, such as how many faults were tried, added up and printed at the end of a run."""

from collections import Counter

import pytest

_MARK = "tried: "


def tell(record: pytest.FixtureRequest, **numbers: int) -> None:
    """Adds to the numbers that are printed at the end; `_` in a name is a blank."""
    for name, number in numbers.items():
        record.node.user_properties.append((_MARK + name.replace("_", " "), number))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the numbers of all tests; other processes send theirs with their reports."""
    totals: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                totals.update({n.removeprefix(_MARK): v for n, v in report.user_properties if n.startswith(_MARK)})
    if totals:
        terminalreporter.section("numbers tried")
        for name, number in sorted(totals.items()):
            terminalreporter.write_line(f"{number:>9,}  {name}")
