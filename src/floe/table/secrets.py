"""Passwords, tokens and keys among a catalog's options: held apart, and never printed.

A `Secret` shows as `***` wherever it is printed, and gives its value only to who asks for it. Options are secret when
their name says so, or when they came from an `env:` reference; the password in a URI is one too.

>>> options = {"uri": "postgresql://me:hunter2@host/db", "s3.secret-access-key": "abc", "warehouse": "s3://b/wh"}
>>> shown_options(options)
"uri='postgresql://me:***@host/db', s3.secret-access-key=***, warehouse='s3://b/wh'"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["Secret", "hide_password", "is_secret_name", "reveal", "shown_options"]


class Secret:
    """A value that is not to be seen: printing, formatting and pickling do not give it away.

    >>> password = Secret("hunter2")
    >>> password, f"{password}", str([password])
    (***, '***', '[***]')
    >>> password.reveal()
    'hunter2'
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for whoever has to send it."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> Any:
        raise TypeError("a secret is not pickled")


_SECRET_WORDS = re.compile(
    r"password|passwd|secret|token|credential|signature|(?:^|[._-])(?:key|sas|pwd)(?:$|[._-])", re.I
)
_PUBLIC_WORDS = re.compile(r"(?:^|[._-])(?:key[._-]id|access[._-]key[._-]id|token[._-]uri)$|no[._-]auth", re.I)
_USER_PART = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]*://[^/@:]*):.*@(?=[^@]*$)", re.DOTALL)
_QUERY_SECRET = re.compile(r"([?&](?:password|sslpassword|token|sig|secret)[^=&]*=)[^&]*", re.I)


def is_secret_name(name: str) -> bool:
    """Whether an option of that name holds something that must not be seen.

    >>> [name for name in ("uri", "password", "s3.secret-access-key", "s3.region") if is_secret_name(name)]
    ['password', 's3.secret-access-key']
    """
    return bool(_SECRET_WORDS.search(name)) and not _PUBLIC_WORDS.search(name)


def hide_password(uri: str) -> str:
    """A URI without the password in it.

    >>> hide_password("postgresql://me:p@ss:w0rd@host/db?sslmode=require&password=x")
    'postgresql://me:***@host/db?sslmode=require&password=***'
    """
    return _QUERY_SECRET.sub(r"\1***", _USER_PART.sub(r"\1:***@", uri))


def shown_options(options: Mapping[str, Any]) -> str:
    """Options as text, secrets hidden."""
    return ", ".join(f"{name}={_shown(name, value)}" for name, value in options.items())


def reveal(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with the secrets in the clear, for whoever opens the catalog.

    >>> reveal({"password": Secret("hunter2"), "warehouse": "wh"})
    {'password': 'hunter2', 'warehouse': 'wh'}
    """
    return {name: value.reveal() if isinstance(value, Secret) else value for name, value in options.items()}


def _shown(name: str, value: Any) -> str:
    if isinstance(value, Secret) or is_secret_name(name):
        return "***"
    return repr(hide_password(value)) if isinstance(value, str) else repr(value)
