"""The release, and its name in events and in files."""

from __future__ import annotations

VERSION = "0.1.0"
ENGINE_VERSION = f"icecore {VERSION}"
