"""Values of metadata as a person at a terminal reads them: ids short, counts by thousands, times to the second."""

from __future__ import annotations

import datetime as dt
from typing import Any

from icecore.engine.display.cells import cell

ID_LENGTH = 10
_HASHES = {"hash", "previous_hash", "event_id", "transaction_id", "head"}
_COUNTS = {"rows", "files", "bytes", "deletes", "events", "snapshots", "manifests", "inserts", "updates"}
_COUNT_ENDINGS = ("_count", "_bytes", "_records", "_files", "_rows", "_size", "_length")


def is_id(name: str) -> bool:
    """Whether a column of that name holds ids that are too long to read: those of snapshots, events and tables."""
    return name in _HASHES or name.endswith(("snapshot_id", "uuid"))


def is_count(name: str) -> bool:
    """Whether a column of that name holds counts or sizes."""
    return name in _COUNTS or name.endswith(_COUNT_ENDINGS)


def short(name: str, value: Any, null: str = "") -> str:
    """A value of the column `name` as text: an id's first characters, `1,234,567`, a time without its fraction."""
    if isinstance(value, dt.datetime):
        return cell(value.replace(microsecond=0), null)
    if isinstance(value, int) and not isinstance(value, bool) and is_count(name):
        return f"{value:,}"
    text = cell(value, null)
    return f"{text[:ID_LENGTH]}…" if value is not None and is_id(name) and len(text) > ID_LENGTH + 1 else text
