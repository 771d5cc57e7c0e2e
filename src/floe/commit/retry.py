"""Retries: how often, and with what waits, a commit or a statement is attempted again.

| property | default | meaning |
|---|---|---|
| `commit.retry.num-retries` | 4 | attempts after the first |
| `commit.retry.min-wait-ms` | 100 | the first wait; each later one is twice as long |
| `commit.retry.max-wait-ms` | 60000 | the longest wait |
| `commit.retry.total-timeout-ms` | 1800000 | no attempt is started after that time |
| `write.conflict.retries` | 0 | how often a row-level statement is run again after a conflict |

`commit.status-check.*` has the same four as `commit.retry.*` (3, 1000, 60000, 1800000), for finding out whether a swap
without an answer was published. Waits have jitter, so that writers that lost the same race do not collide again.

Who retries what:

| module | what is attempted again | after |
|---|---|---|
| `floe.commit.loop` | a commit, on the newest state of the table | `CommitConflict`: somebody else committed first |
| `floe.commit.outcomes` | the question whether a swap was published | `OutcomeUnknown`: its answer was lost |
| `floe.table.row_writes`, `floe.spark.write.retries` | a whole row-level statement | `ConflictingChange`: others changed what it read |
| `floe.catalog.file_system` | a storage call of the catalog that may happen twice | `OutcomeUnknown` |
| `floe.catalog.sql.database` | a query of the catalog's database | a connection that was closed meanwhile |
| `floe.storage.wrappers` | a request to a store | an error that is `retryable` |
"""  # noqa: E501 (a table)

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from floe.spec.properties import COMMIT_RETRY, RetryProperties
from floe.spec.setting_types import Setting, integer

_MAX_DOUBLINGS: Final = 40


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and with what waits, something is attempted again.

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
        """Whether another attempt is allowed after so many, and after so long."""
        return attempts <= self.retries and elapsed_ms < self.total_ms

    def wait_ms(self, attempts: int, jitter: float) -> int:
        """The wait after so many attempts; `jitter` from 0 to 1 moves it by up to a half, down or up."""
        longest = max(self.min_wait_ms, self.max_wait_ms)
        middle = min(longest, self.min_wait_ms << min(attempts - 1, _MAX_DOUBLINGS))
        return max(self.min_wait_ms, min(longest, int(middle * (0.5 + jitter))))

    def wait(self, attempts: int, elapsed_ms: int, random: Callable[[], float], sleep: Callable[[float], None]) -> bool:
        """Wait before the next attempt, but not beyond the total time; False if there is none.

        >>> waits = []
        >>> policy = RetryPolicy(retries=2, min_wait_ms=100, max_wait_ms=1_000, total_ms=250)
        >>> [policy.wait(number, 90 * number, lambda: 0.5, waits.append) for number in (1, 2, 3)], waits
        ([True, True, False], [0.1, 0.07])
        """
        if not self.allows(attempts, elapsed_ms):
            return False
        sleep(min(self.wait_ms(attempts, random()), self.total_ms - elapsed_ms) / 1000)
        return True


def retry_policy(properties: Mapping[str, str], which: RetryProperties = COMMIT_RETRY) -> RetryPolicy:
    """The policy of a table's properties.

    A value that is not a number counts as not set: the commit that corrects the property must still be possible.

    >>> retry_policy({"commit.retry.num-retries": "9", "commit.retry.min-wait-ms": "soon"})
    RetryPolicy(retries=9, min_wait_ms=100, max_wait_ms=60000, total_ms=1800000)
    """
    return RetryPolicy(*(_lenient(setting, properties) for setting in which))


def combine_policies(policies: Iterable[RetryPolicy]) -> RetryPolicy:
    """One policy for several tables that are committed at once: the highest of each number.

    >>> combine_policies([RetryPolicy(4, 100, 500, 900), RetryPolicy(2, 300, 500, 900)])
    RetryPolicy(retries=4, min_wait_ms=300, max_wait_ms=500, total_ms=900)
    """
    combined = list(policies) or [retry_policy({})]
    return RetryPolicy(
        max(policy.retries for policy in combined),
        max(policy.min_wait_ms for policy in combined),
        max(policy.max_wait_ms for policy in combined),
        max(policy.total_ms for policy in combined),
    )


def _lenient(setting: Setting[int], properties: Mapping[str, str]) -> int:
    try:
        return max(0, integer().parse(properties.get(setting.name, str(setting.default))))
    except ValueError:
        return setting.default
