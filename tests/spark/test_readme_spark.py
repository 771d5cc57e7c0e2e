"""The README's example of Spark runs."""

import re
from pathlib import Path

import pytest

from helpers.spark import Spark

README = Path(__file__).parents[2] / "README.md"


def test_the_example_runs(session: Spark, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"## On Spark.*?```python\n(.*?)```", README.read_text(), re.DOTALL)
    first, _, statements = block.partition("\n")
    assert first.startswith('spark = floe.spark(lake="./warehouse")')
    session("DROP NAMESPACE IF EXISTS lake.readme CASCADE")
    exec(statements.replace("lake.db", "lake.readme"), {"spark": session.session})
    assert session("SELECT order_id, customer FROM lake.readme.orders") == [(2, "bob")]
    shown = capsys.readouterr().out
    assert "25.00" in shown
    assert "DELETE" in shown
