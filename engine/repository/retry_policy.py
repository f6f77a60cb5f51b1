"""How often a commit that lost a race is made again, and how long it waits: the table properties `commit.retry.*`."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping

from attrs import frozen

NUM_RETRIES = "commit.retry.num-retries"
MIN_WAIT = "commit.retry.min-wait-ms"
MAX_WAIT = "commit.retry.max-wait-ms"
TOTAL_TIMEOUT = "commit.retry.total-timeout-ms"
# A race is lost inside of this engine's own lock, so that another try costs little: where the table does not say how
# often, it is more often than Java's 4, after shorter waits than its 100 ms to 60 s.
DEFAULT_RETRIES = 19
DEFAULT_MIN_WAIT_MS = 5
DEFAULT_MAX_WAIT_MS = 1000
DEFAULT_TOTAL_TIMEOUT_MS = 30 * 60 * 1000


@frozen
class RetryPolicy:
    """The number of further attempts, the waits before them and the time for all, in milliseconds."""

    retries: int = DEFAULT_RETRIES
    min_wait_ms: int = DEFAULT_MIN_WAIT_MS
    max_wait_ms: int = DEFAULT_MAX_WAIT_MS
    total_timeout_ms: int = DEFAULT_TOTAL_TIMEOUT_MS

    @classmethod
    def of(cls, *tables: Mapping[str, str]) -> RetryPolicy:
        """From the properties of a table, of several the most patient; a value that is no number counts as not set."""
        policies = [
            cls(
                _number(properties, NUM_RETRIES, DEFAULT_RETRIES),
                least := _number(properties, MIN_WAIT, DEFAULT_MIN_WAIT_MS),
                max(least, _number(properties, MAX_WAIT, DEFAULT_MAX_WAIT_MS)),
                _number(properties, TOTAL_TIMEOUT, DEFAULT_TOTAL_TIMEOUT_MS),
            )
            for properties in tables or ({},)
        ]
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
        """The numbers of the attempts, with the waits between them, as long as there are any and there is time."""
        started = time.monotonic()
        yield 0
        for retry in range(self.retries):
            wait = self.wait_ms(retry) / 1000
            if time.monotonic() - started + wait > self.total_timeout_ms / 1000:
                return
            time.sleep(wait)
            yield retry + 1


def _number(properties: Mapping[str, str], key: str, default: int) -> int:
    # Whatever the value is, a commit must be possible: the one that corrects it too.
    text = properties.get(key, "").strip()
    return int(text) if text.isdecimal() else default
