"""docs/walkthrough.md names the modules that calls of the embedded engine enter, and no call enters too many files."""

import pytest

from helpers.call_trace import CallTrace
from helpers.walkthrough import chains, check, embedded_traces, limits


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CallTrace]:
    return embedded_traces(tmp_path_factory.mktemp("walkthrough"))


@pytest.mark.parametrize("call", ["append", "filtered scan", "conflict"])
def test_the_page_names_the_modules(call: str, traces: dict[str, CallTrace]) -> None:
    check(call, traces[call])


def test_every_call_has_a_section() -> None:
    assert chains().keys() == {"append", "filtered scan", "conflict", "select", "insert", "merge"}
    assert limits().keys() == chains().keys() - {"conflict"}
    assert all(len(chain) >= 8 for chain in chains().values())


def test_a_wrong_order_is_noticed() -> None:
    trace = CallTrace(entries=["floe.a", "floe.b", "floe.a", "floe.c"])
    assert trace.first_missing(["floe.a", "floe.b", "floe.c"]) is None
    assert trace.first_missing(["floe.b", "floe.a", "floe.c"]) is None
    assert trace.first_missing(["floe.c", "floe.a"]) == "floe.a"
    assert trace.first_missing(["floe.d"]) == "floe.d"
