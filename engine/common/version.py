"""What this release calls itself in events and in the files it writes."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def engine_version() -> str:
    """`icecore 0.1.0`."""
    try:
        return f"icecore {version('icecore')}"
    except PackageNotFoundError:
        return "icecore"
