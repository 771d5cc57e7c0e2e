"""The examples of the guides run, and print what they say."""

import doctest
import tempfile
from pathlib import Path

import pytest

# docs/guide-cli.md has sessions of a shell, which tests/cli/test_guide.py runs.
GUIDES = sorted(p for p in (Path(__file__).parent.parent.parent / "docs").glob("guide-*.md") if p.stem != "guide-cli")


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_examples_run_and_print_what_they_say(guide: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, tried = doctest.testfile(str(guide), module_relative=False, optionflags=flags)
    assert tried > 5
    assert not failed
