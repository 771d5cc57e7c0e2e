"""Names of tables, views and namespaces: parsing, formatting and checks, the same for every catalog.

An identifier is a tuple: the levels of the namespace, then the name. As text the parts are joined with dots; a part
that has a dot, a blank or a backtick in it is put in backticks, and a backtick within is written twice, as in Spark.

>>> parse_identifier("db.orders"), parse_identifier("lake.`2024.01`.orders")
(('db', 'orders'), ('lake', '2024.01', 'orders'))
>>> format_identifier(("lake", "2024.01", "orders"))
'lake.`2024.01`.orders'

Names become parts of paths and rows of databases, also in other engines. So names that cannot be in a path (`a/b`,
`..`) or cannot be read or typed (control characters) are rejected by every catalog.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from floe.errors import InvalidInput, InvalidName

Identifier: TypeAlias = tuple[str, ...]
"""The levels of a namespace, then the name of a table or view."""

Namespace: TypeAlias = tuple[str, ...]
"""The levels of a namespace, outermost first; the empty tuple is the catalog itself."""

MAX_NAME_BYTES = 255
"""The longest part, in UTF-8: what file systems, and the columns of SQL catalogs, hold."""

_MAX_LEVELS = 64
_PLAIN = re.compile(r"[^\W\d][\w-]*|\w+")
_PART = re.compile(r"`((?:[^`]|``)*)`|([^`.]*)")
# Cc: control, Cs: half of a pair, Zl and Zp: line ends; the directional marks make a name look like another one
_UNREADABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
_DIRECTIONAL = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")


def parse_identifier(name: str | Iterable[str]) -> Identifier:
    """The identifier that a text or a sequence of parts names; it has a namespace of at least one level.

    >>> parse_identifier(["db", "a.b"])
    ('db', 'a.b')
    >>> parse_identifier("orders")
    Traceback (most recent call last):
    floe.errors.InvalidName: 'orders' names no namespace; write `namespace.orders`
    """
    identifier = _parts(name)
    check_identifier(identifier)
    return identifier


def parse_namespace(name: str | Iterable[str]) -> Namespace:
    """The namespace that a text or a sequence of levels names; nothing at all is the catalog itself.

    >>> parse_namespace("lake.raw"), parse_namespace("")
    (('lake', 'raw'), ())
    """
    namespace = _parts(name) if name else ()
    check_namespace(namespace)
    return namespace


def format_identifier(identifier: Iterable[str]) -> str:
    """The text that `parse_identifier` or `parse_namespace` reads back; parts are quoted where they need it.

    >>> format_identifier(("db", "it`s"))
    'db.`it``s`'
    """
    return ".".join(part if _PLAIN.fullmatch(part) else f"`{part.replace('`', '``')}`" for part in identifier)


def check_identifier(identifier: Identifier) -> None:
    """Raise unless this can name a table or view.

    >>> check_identifier(("db", ".."))
    Traceback (most recent call last):
    floe.errors.InvalidName: a name must not be '..' (name: db.`..`)
    """
    _check_is_parts(identifier)
    if len(identifier) == 1:
        raise InvalidName(f"{identifier[0][:80]!r} names no namespace", hint=f"write `namespace.{identifier[0][:80]}`")
    _check_parts(identifier)


def check_namespace(namespace: Namespace) -> None:
    """Raise unless this can name a namespace; the empty one, the catalog itself, is fine.

    >>> check_namespace(("a", "b/c"))
    Traceback (most recent call last):
    floe.errors.InvalidName: a name must not have a '/' (name: a.`b/c`)
    """
    _check_is_parts(namespace)
    if namespace:
        _check_parts(namespace)


def check_namespace_properties(updates: Mapping[str, str], removals: Iterable[str] = ()) -> None:
    """Raise if properties of a namespace cannot be set and removed: they are text, and each is one or the other.

    >>> check_namespace_properties({"owner": "me"}, ["owner"])
    Traceback (most recent call last):
    floe.errors.InvalidInput: properties cannot be both set and removed: owner
    """
    for key, value in updates.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidInput(f"properties of a namespace are text, found {key!r:.80}: {value!r:.80}")
        if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in key + value):
            raise InvalidInput(f"the property {key!r:.80} has a character that no text file or database can hold")
    both = sorted(set(updates).intersection(removals))
    if both:
        raise InvalidInput(f"properties cannot be both set and removed: {', '.join(both)}")


def _check_is_parts(parts: Iterable[object]) -> None:
    """Raise unless this is a sequence of strings; a string itself, which is one of single letters, is rejected too."""
    if isinstance(parts, str) or not all(isinstance(part, str) for part in parts):
        raise InvalidName(f"a name is a tuple of strings, found {parts!r:.80}", hint="parse_identifier parses text")


def _parts(name: str | Iterable[str]) -> tuple[str, ...]:
    """The parts of a name that is text or already a sequence."""
    if isinstance(name, str):
        return _split(name)
    if not isinstance(name, Iterable):
        raise InvalidName(f"a name is text, or a sequence of its parts, found {name!r:.80}")
    parts = tuple(name)
    for part in parts:
        if not isinstance(part, str):
            raise InvalidName(f"the parts of a name must be text, found {part!r:.80}")
    return parts


def _split(text: str) -> tuple[str, ...]:
    """The parts between the dots of a text; a dot within backticks belongs to the part."""
    parts: list[str] = []
    position = 0
    while True:
        part = _PART.match(text, position)
        assert part is not None  # the second alternative matches the empty text
        position = part.end()
        parts.append(part[2] if part[1] is None else part[1].replace("``", "`"))
        if position == len(text):
            return tuple(parts)
        if text[position] != ".":
            raise InvalidName(
                f"a backtick is misplaced in {text[:200]!r}",
                hint="put a whole part in backticks, and write a backtick within it twice",
            )
        position += 1


def _check_parts(parts: tuple[str, ...]) -> None:
    """Raise unless there are parts, not too many, and each is a valid name."""
    if not parts:
        raise InvalidName("a name without parts")
    if len(parts) > _MAX_LEVELS:
        raise InvalidName(f"a name of {len(parts)} parts; at most {_MAX_LEVELS} are allowed")
    for part in parts:
        problem = _problem_of(part)
        if problem:
            raise InvalidName(f"a name must not {problem}", name=_for_display(parts))


def _problem_of(part: str) -> str | None:
    """What a part must not be or have, as the end of a sentence; None if it is a valid name."""
    if not part or part.isspace():
        return "be empty"
    if part in (".", ".."):
        return f"be {part!r}"
    for character in "/\\":
        if character in part:
            return f"have a {character!r}"
    for character in part:
        if unicodedata.category(character) in _UNREADABLE or character in _DIRECTIONAL:
            return f"have the unreadable character U+{ord(character):04X}"
    if len(part.encode()) > MAX_NAME_BYTES:
        return f"be longer than {MAX_NAME_BYTES} bytes"
    return None


def _for_display(parts: tuple[str, ...]) -> str:
    """The name for an error message: unreadable characters replaced, and cut if it is long."""
    text = format_identifier(parts)
    safe = "".join(c if unicodedata.category(c) not in _UNREADABLE and c not in _DIRECTIONAL else "�" for c in text)
    return safe if len(safe) <= 200 else safe[:200] + "…"
