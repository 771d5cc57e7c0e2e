"""DELETE, UPDATE and MERGE give the rows that SQL says, however the table stores its changes."""

import pytest

from helpers.dml_cases import CASES
from helpers.dml_layouts import LAYOUTS, Tables


@pytest.mark.parametrize("number", range(0, len(CASES), 4), ids=lambda n: CASES[n].name)
def test_statements(tables: Tables, number: int) -> None:
    tables.run(CASES[number], LAYOUTS[(number * 7 + number // 10) % len(LAYOUTS)])


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 150
