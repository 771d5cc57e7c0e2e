"""How often and how long a commit is tried again, as the table's properties say.

| property | default | meaning |
|---|---|---|
| `commit.retry.num-retries` | 4 | attempts after the first |
| `commit.retry.min-wait-ms` | 100 | the first pause; each later one is twice as long |
| `commit.retry.max-wait-ms` | 60000 | the longest pause |
| `commit.retry.total-timeout-ms` | 1800000 | no attempt is begun after that time |

`commit.status-check.*` has the same four (3, 1000, 60000, 1800000) for finding out what became of a swap whose answer
was lost. Pauses have jitter, for writers that lost the same race should not meet again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from floe.errors import InvalidUpdate
from floe.spec.metadata.properties import integer_property

__all__ = ["COMMIT_RETRY", "STATUS_CHECK", "RetryPolicy", "most_patient", "retry_policy"]

COMMIT_RETRY: Final = "commit.retry"
"""The properties of a commit that lost a race."""

STATUS_CHECK: Final = "commit.status-check"
"""The properties of finding out what became of a commit."""

_NAMES: Final = ("num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms")
_DEFAULTS: Final[Mapping[str, tuple[int, int, int, int]]] = {
    COMMIT_RETRY: (4, 100, 60_000, 1_800_000),
    STATUS_CHECK: (3, 1_000, 60_000, 1_800_000),
}
_MOST_DOUBLINGS: Final = 40


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and with what pauses, something is tried again.

    >>> policy = RetryPolicy(retries=4, min_wait_ms=100, max_wait_ms=1_000, total_ms=60_000)
    >>> [policy.wait_ms(number, 0.5) for number in (1, 2, 3, 4, 5)]
    [100, 200, 400, 800, 1000]
    >>> policy.wait_ms(3, 0.0), policy.wait_ms(3, 0.999), policy.wait_ms(1, 0.0)
    (200, 599, 100)
    """

    retries: int
    min_wait_ms: int
    max_wait_ms: int
    total_ms: int

    def allows(self, attempts: int, elapsed_ms: int) -> bool:
        """Whether there may be another attempt after so many, and so long."""
        return attempts <= self.retries and elapsed_ms < self.total_ms

    def wait_ms(self, attempts: int, chance: float) -> int:
        """The pause after so many attempts; `chance` from 0 to 1 spreads it by half to either side."""
        highest = max(self.min_wait_ms, self.max_wait_ms)
        middle = min(highest, self.min_wait_ms << min(attempts - 1, _MOST_DOUBLINGS))
        return max(self.min_wait_ms, min(highest, int(middle * (0.5 + chance))))

    def pause(
        self, attempts: int, elapsed_ms: int, chance: Callable[[], float], sleep: Callable[[float], None]
    ) -> bool:
        """Waits before the next attempt, not beyond the total time; False if there may be none.

        >>> waits = []
        >>> policy = RetryPolicy(retries=2, min_wait_ms=100, max_wait_ms=1_000, total_ms=250)
        >>> [policy.pause(number, 90 * number, lambda: 0.5, waits.append) for number in (1, 2, 3)], waits
        ([True, True, False], [0.1, 0.07])
        """
        if not self.allows(attempts, elapsed_ms):
            return False
        sleep(min(self.wait_ms(attempts, chance()), self.total_ms - elapsed_ms) / 1000)
        return True


def retry_policy(properties: Mapping[str, str], prefix: str = COMMIT_RETRY) -> RetryPolicy:
    """The policy that a table's properties ask for.

    What is no number counts as not set: a table with a wrong setting must still take the commit that mends it.

    >>> retry_policy({"commit.retry.num-retries": "9", "commit.retry.min-wait-ms": "soon"})
    RetryPolicy(retries=9, min_wait_ms=100, max_wait_ms=60000, total_ms=1800000)
    """
    numbers = [
        _number(properties, f"{prefix}.{name}", default)
        for name, default in zip(_NAMES, _DEFAULTS[prefix], strict=True)
    ]
    return RetryPolicy(*numbers)


def most_patient(policies: Iterable[RetryPolicy]) -> RetryPolicy:
    """One policy for several tables that are committed at once: of each number the highest.

    >>> most_patient([RetryPolicy(4, 100, 500, 900), RetryPolicy(2, 300, 500, 900)])
    RetryPolicy(retries=4, min_wait_ms=300, max_wait_ms=500, total_ms=900)
    """
    chosen = list(policies) or [retry_policy({})]
    return RetryPolicy(
        max(policy.retries for policy in chosen),
        max(policy.min_wait_ms for policy in chosen),
        max(policy.max_wait_ms for policy in chosen),
        max(policy.total_ms for policy in chosen),
    )


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    try:
        return max(0, integer_property(properties, name, default=default))
    except InvalidUpdate:
        return default
