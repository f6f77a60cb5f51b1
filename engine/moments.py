"""Points in time as users give them: milliseconds since the epoch, a datetime, or ISO 8601 text."""

from __future__ import annotations

import datetime as dt

from icecore.engine.errors import ValidationError
from icecore.engine.spec.types import LongType

Moment = int | dt.datetime | str
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def milliseconds_of(moment: Moment, what: str) -> int:
    """Milliseconds since the epoch, cut off to whole ones.

    A datetime without a zone is local time, as everywhere in Python; text without one is UTC. Raises ValidationError,
    in which the value is called `what`.
    """
    if isinstance(moment, int) and not isinstance(moment, bool):
        if not LongType.min <= moment <= LongType.max:
            raise ValidationError(f"{what} {moment} is out of range")
        return moment
    time = _parsed(moment) if isinstance(moment, str) else moment
    if not isinstance(time, dt.datetime):
        raise ValidationError(
            f"{what} must be milliseconds since 1970, a datetime or text as '2013-05-01T12:00:00Z', "
            f"found {type(moment).__name__} {str(moment)[:60]!r}"
        )
    try:
        return (time.astimezone(dt.UTC) - _EPOCH) // dt.timedelta(milliseconds=1)
    except (OverflowError, OSError, ValueError) as e:
        raise ValidationError(f"{what} {time} is out of range") from e


def _parsed(text: str) -> dt.datetime | None:
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=dt.UTC)
