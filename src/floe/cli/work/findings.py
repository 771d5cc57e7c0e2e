"""What `floe doctor` finds: how grave it is, what it is about, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

__all__ = ["ERROR", "NOTE", "OK", "STYLES", "WARNING", "Finding"]

OK: Final = "ok"
NOTE: Final = "note"
WARNING: Final = "warning"
ERROR: Final = "error"
STYLES: Final = {OK: "green", NOTE: "cyan", WARNING: "yellow bold", ERROR: "red bold"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    >>> Finding(OK, "Python", "3.11.7").document()
    {'level': 'ok', 'about': 'Python', 'text': '3.11.7', 'advice': None}
    """

    level: str
    """`ok`, `note` (good to know), `warning` (it will get slow or costly) or `error` (it does not work)."""

    about: str
    text: str
    advice: str | None = None

    def document(self) -> dict[str, Any]:
        """The finding for programs."""
        return {"level": self.level, "about": self.about, "text": self.text, "advice": self.advice}
