"""All statements of the suite, copied on write, in every format version; two files, so that both run at once."""

import pytest

from helpers.dml_cases import CASES
from helpers.dml_layouts import COW, LAYOUTS, Tables


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: CASES[n].name)
def test_statements_in_every_layout(tables: Tables, number: int) -> None:
    tables.run_in_all(CASES[number], number, [layout for layout in LAYOUTS if layout.mode == COW])
