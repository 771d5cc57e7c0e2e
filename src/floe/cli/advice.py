"""What errors advise programmers to write, as what to type on a command line.

>>> to_type("leave extra out, or pass merge_schema=True to add it")
'leave extra out, or use --merge-schema to add it'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

__all__ = ["to_type"]


def _listed(texts: str) -> str:
    return ",".join(re.findall(r"'([^']*)'", texts))


_TYPED: Final[tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]] = (
    (r"pass merge_schema=True", "use --merge-schema"),
    (r", or pass only_matching=False", ""),
    (r"widen the filter, leave", "widen the filter, or leave"),
    (r'write on=\["(\w+)"\].*', r"name them with --on, as in --on \1"),
    (r", or pass case_sensitive=False", ""),
    (r"open it with prefixes=\{'([^']*)': '([^']*)'\}", r"open it with -O prefixes=\1=\2"),
    (r"open it with roots=\[([^\]]*)\]", lambda found: f"open it with -O roots={_listed(found[1])}"),
    (r"open the catalog with warehouse=….*", "say where with -O warehouse=FOLDER"),
    (r", since it was loaded: refresh\(\) it", ""),
    (r"make it first: create_namespace\(.*\)", "--create --yes makes it"),
    (r"it is a view: use view\(\)", "it is a view: floe show tells what it is"),
)


def to_type(hint: str) -> str:
    """The advice, for somebody at a command line.

    >>> to_type("the table was moved: open it with prefixes={'/old/t': '/new/t'}")
    'the table was moved: open it with -O prefixes=/old/t=/new/t'
    >>> to_type("if you trust this table, open it with roots=['/wh', '/bulk']")
    'if you trust this table, open it with -O roots=/wh,/bulk'
    """
    for pattern, typed in _TYPED:
        hint = re.sub(pattern, typed, hint)
    return hint
