"""The retries of a commit that lost a race: the table properties `commit.retry.*`."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping

from attrs import frozen

from icecore.engine.properties.table_properties import MAX_WAIT_MS, MIN_WAIT_MS, NUM_RETRIES, TOTAL_TIMEOUT_MS

LOCKED_S = 2.0
"""The seconds that a plan may take while others wait for the write lock.

Another engine waits as long as its driver does: that of Java 3 seconds, that of PyIceberg 5.
"""
FOREIGN_ATTEMPTS = 20
"""The attempts at a change that needs no files while another engine keeps changing what it is about."""


@frozen
class RetryPolicy:
    """The number of further attempts, the waits before them and the time for all, in milliseconds."""

    retries: int = NUM_RETRIES.of({})
    min_wait_ms: int = MIN_WAIT_MS.of({})
    max_wait_ms: int = MAX_WAIT_MS.of({})
    total_timeout_ms: int = TOTAL_TIMEOUT_MS.of({})

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RetryPolicy:
        """The policy of a table's properties; values that are no numbers don't count."""
        # Whatever the values are, a commit must be possible: the one that corrects them too.
        least = MIN_WAIT_MS.or_default(properties)
        most = max(least, MAX_WAIT_MS.or_default(properties))
        return cls(NUM_RETRIES.or_default(properties), least, most, TOTAL_TIMEOUT_MS.or_default(properties))

    @classmethod
    def most_patient(cls, several: Iterable[RetryPolicy]) -> RetryPolicy | None:
        """The policy of a commit of several parts; None if there are none."""
        policies = tuple(several)
        if not policies:
            return None
        return cls(
            max(p.retries for p in policies),
            max(p.min_wait_ms for p in policies),
            max(p.max_wait_ms for p in policies),
            max(p.total_timeout_ms for p in policies),
        )

    def wait_ms(self, retry: int) -> float:
        """The wait before a retry, the first being 0: from the least wait to twice as much each time, at random."""
        most = min(self.max_wait_ms, self.min_wait_ms * 2 ** min(retry + 1, 30))
        return random.uniform(min(self.min_wait_ms, most), most)

    def attempts(self) -> Iterator[int]:
        """The numbers of the attempts, with waits between them, until retries or time run out."""
        started = time.monotonic()
        yield 0
        for retry in range(self.retries):
            wait = self.wait_ms(retry) / 1000
            if time.monotonic() - started + wait > self.total_timeout_ms / 1000:
                return
            time.sleep(wait)
            yield retry + 1


def plans_inside(attempt: int, began: float) -> bool:
    """Whether an attempt that was planned since `began`, of time.monotonic(), may be planned again in the write lock.

    A commit that takes longer to plan than others take to commit would lose each race. The first attempt is not worth
    making others wait.
    """
    return attempt > 0 and time.monotonic() - began <= LOCKED_S
