"""Points in time as users give them: milliseconds since the epoch, a datetime, or ISO 8601 text.

A time without a zone is local time everywhere, as for Python's `datetime.timestamp()`. (Values in rows and filters are
another matter: their types tell whether they have a zone.)
"""

from __future__ import annotations

import datetime as dt

from icecore.engine.common.identifiers import whole_number
from icecore.engine.errors import ValidationError
from icecore.engine.spec.types import LongType

TimestampLike = int | dt.datetime | str
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def to_epoch_ms(moment: TimestampLike, what: str) -> int:
    """Milliseconds since the epoch, cut off to whole ones.

    A datetime or text without a zone is local time. Raises ValidationError, in which the value is called `what`.
    """
    time = _parsed(moment) if isinstance(moment, str) else moment
    if not isinstance(time, dt.datetime):
        return _checked(moment, what)
    try:
        # Subclasses may have other rules for a time without a zone: pandas takes it for UTC.
        plain = dt.datetime.combine(time.date(), time.timetz())
        return (plain.astimezone(dt.UTC) - _EPOCH) // dt.timedelta(milliseconds=1)
    except (OverflowError, OSError, ValueError) as e:
        raise ValidationError(f"{what} {time} is out of range") from e


def _parsed(text: str) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return None


def _checked(moment: TimestampLike, what: str) -> int:
    found = whole_number(moment)
    if found is None:
        raise ValidationError(
            f"{what} must be milliseconds since 1970, a datetime or text as '2013-05-01T12:00:00Z', "
            f"found {type(moment).__name__} {str(moment)[:60]!r}"
        )
    if not LongType.min <= found <= LongType.max:
        raise ValidationError(f"{what} {found} is out of range")
    return found
