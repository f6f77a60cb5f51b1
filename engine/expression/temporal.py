"""Dates, times and timestamps of filters as integers.

Zone rules: for a column with zone, a timestamp without one is taken as UTC, as DuckDB does in a session whose zone is
UTC. For a column without zone, a zone in text must be UTC, because DuckDB would ignore another and PyIceberg refuse it;
an aware datetime or a TIMESTAMPTZ literal becomes UTC's wall clock, as in such a session.
"""

from __future__ import annotations

import datetime as dt
import re

from icecore.engine.errors import ExpressionError
from icecore.engine.spec import single_value
from icecore.engine.spec.single_value import NS_PER_SECOND, US_PER_DAY, US_PER_SECOND
from icecore.engine.spec.types import TimeType

_ZONE = re.compile(r"\s*(Z|UTC|[+-]\d\d(?::?\d\d)?)$", re.IGNORECASE)
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def parse_timestamp_text(text: str, *, zoned: bool, nano: bool) -> int:
    """Microseconds (nanoseconds where `nano`) since 1970 of an ISO timestamp or date, in UTC.

    Raises ExpressionError for a zone other than UTC where none is wanted, ValidationError for other text, and for
    digits that the unit would lose.
    """
    body = text.strip()
    day, _, clock = body.replace(" ", "T", 1).partition("T")
    zone = _ZONE.search(clock)
    if zone and not zoned and zone[1].upper() not in ("Z", "UTC") and set(zone[1]) & set("123456789"):
        raise ExpressionError(f"{text!r} has a zone, the column has none: leave it out or write TIMESTAMPTZ {text!r}")
    if zone:
        clock = clock[: zone.start()]
    offset = zone[1] if zone and zone[1].upper() not in ("Z", "UTC") else "+00:00"
    per_second = NS_PER_SECOND if nano else US_PER_SECOND
    return single_value.parse_timestamp(f"{day}T{clock or '00:00'}{offset}", with_zone=True, per_second=per_second)


def parse_date_text(text: str) -> int:
    """Days since 1970 of an ISO date; its time of day must be midnight. Raises ExpressionError, ValidationError."""
    body = text.strip()
    if len(body) <= 10:
        return single_value.parse_date(body)
    days, rest = divmod(parse_timestamp_text(body, zoned=False, nano=True), US_PER_DAY * 1000)
    if rest:
        raise ExpressionError(f"{text!r} has a time of day, a date was expected")
    return days


def parse_time_text(text: str) -> int:
    """Microseconds since midnight of `HH:MM[:SS[.ffffff]]`. Raises ValidationError for other text."""
    return int(single_value.from_json(TimeType(), text.strip()))


def time_of(value: dt.time) -> int:
    """Microseconds since midnight. Raises ExpressionError for a time with a zone."""
    if value.tzinfo is not None:
        raise ExpressionError(f"{value!r} has a zone, a time has none")
    return ((value.hour * 60 + value.minute) * 60 + value.second) * US_PER_SECOND + value.microsecond


def datetime_of(value: dt.datetime) -> int:
    """Microseconds since 1970, in UTC; without a zone the value is taken as UTC."""
    # The offset is subtracted last: near the years 1 and 9999 the time in UTC may be no datetime.
    return (value.replace(tzinfo=None) - _EPOCH - (value.utcoffset() or dt.timedelta())) // _MICROSECOND


def date_of(value: dt.date) -> int:
    """Days since 1970."""
    return (value - single_value.EPOCH).days


def month_start(months: int) -> int:
    """Days since 1970 of the first of the month that is `months` after January 1970."""
    year, month = divmod(months, 12)
    return single_value.parse_date(f"{'-' if year < -1970 else ''}{abs(1970 + year):04d}-{month + 1:02d}-01")
