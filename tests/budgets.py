"""How many examples the property tests take: `make test` the same few each time, `make fuzz` many new ones."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings

_FACTOR = 1 if settings.default is None or settings.default.derandomize else 7


def examples(number: int, **others: Any) -> settings:
    """Hypothesis' settings for that many examples where tests are the same each time."""
    return settings(max_examples=number * _FACTOR, suppress_health_check=list(HealthCheck), **others)
