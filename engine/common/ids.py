"""Ids that sort by time or hardly collide. Randomness comes in as an argument, so that the makers stay pure."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Container
from typing import TypeVar

LONG_MAX = 2**63 - 1

_Number = TypeVar("_Number", int, int | None)


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def uuid7(timestamp_ms: int, random: bytes) -> uuid.UUID:
    """A UUIDv7 (RFC 9562) of a time and ten random bytes."""
    value = (timestamp_ms & (2**48 - 1)) << 80 | int.from_bytes(random[:10], "big")
    value = value & ~(0xF << 76) | 7 << 76
    return uuid.UUID(int=value & ~(0x3 << 62) | 2 << 62)


def new_event_id() -> str:
    """A new UUIDv7 of the present time, as text."""
    return str(uuid7(now_ms(), os.urandom(10)))


def new_salt() -> bytes:
    """Random bytes that nobody guesses."""
    return os.urandom(16)


def snapshot_id_of(u: uuid.UUID) -> int:
    """A positive 63-bit id from a random UUID, both halves folded (G5)."""
    return ((u.int >> 64) ^ (u.int & (2**64 - 1))) & LONG_MAX


def signed(number: _Number) -> _Number:
    """A number as a signed 64-bit integer, as Java, SQLite and DuckDB have it; some writers give it unsigned."""
    return number - 2**64 if number is not None and number > LONG_MAX else number


def new_snapshot_id(taken: Container[int], random_uuid: Callable[[], uuid.UUID] = uuid.uuid4) -> int:
    """A snapshot id that is not taken and not zero."""
    while (candidate := snapshot_id_of(random_uuid())) in taken or candidate == 0:
        pass
    return candidate
