"""The release's name in events and in files."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def engine_version() -> str:
    """The name and version of this release, as `icecore 0.1.0`."""
    try:
        return f"icecore {version('icecore')}"
    except PackageNotFoundError:
        return "icecore"
