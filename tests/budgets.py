"""How many examples the property tests take: `make test` the same few each time, `make fuzz` many new ones."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings

_SAME = settings.default is None or settings.default.derandomize


def examples(number: int, new: int | None = None, **others: Any) -> settings:
    """Hypothesis' settings for that many examples where tests are the same each time, else for so many new ones.

    Seven times as many are new where `new` is not said: it is where fewer of the same ones reach all that more did.
    """
    drawn = number * 7 if new is None else new
    return settings(max_examples=number if _SAME else drawn, suppress_health_check=list(HealthCheck), **others)
