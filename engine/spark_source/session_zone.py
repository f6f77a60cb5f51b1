"""The time zone of a Spark session, and how far it is from UTC.

Spark takes what Java's `ZoneId.of` does: regions, offsets with and without UTC, GMT or UT before them, and short names.
"""

from __future__ import annotations

import datetime as dt
import re
from bisect import bisect_left
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from icecore.engine.errors import ValidationError
from icecore.engine.formats.arrays import Longs

ZONE = "spark.sql.session.timeZone"
_DAY = 86_400_000_000
_CYCLE = 146_097 * _DAY
"""400 years, after which the calendar repeats, weekdays too."""
_EPOCH = dt.datetime(1970, 1, 1)
# The range of Python's datetime, without a few days at its ends.
_ENDS = (dt.datetime(1, 1, 4), dt.datetime(9999, 1, 1))
_FIRST, _LAST = ((day - _EPOCH) // dt.timedelta(microseconds=1) for day in _ENDS)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{1,2})(?::?(\d{2}))?)?")
_UTC = ("Z", "UTC", "GMT", "UT")
# Java's `ZoneId.SHORT_IDS`.
_SHORT = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}


def session_zone(zone: str) -> dt.tzinfo:
    """The zone by its name. Raises ValidationError where it is not known."""
    if zone in _UTC:
        return dt.UTC
    found = _OFFSET.fullmatch(_SHORT.get(zone, zone))
    try:
        if found is None:
            return ZoneInfo(_SHORT.get(zone, zone))
        hours, minutes, seconds = (int(part) for part in found.groups("0")[1:])
        offset = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return dt.timezone(-offset if found[1] == "-" else offset)
    except (ValueError, OSError, ZoneInfoNotFoundError) as e:
        raise ValidationError(f"the session's time zone is not known here: {zone!r}") from e


def offsets(times: Longs, zone: dt.tzinfo, *, are_local: bool) -> Longs:
    """The offset from UTC at each time, all in microseconds, times from 1970 on.

    Local times are those on clocks in the zone; a time that they skip has the offset from before, and one that they
    show twice the first offset, as in Spark. Arrow does not serve: it knows no zone's rules from 2038 on.
    """
    days, place = np.unique(times // _DAY, return_inverse=True)
    starts = np.unique(np.concatenate([days, days + 1]))
    at_start = np.array([_offset(int(day) * _DAY, zone, are_local) for day in starts], np.int64)
    before, after = (at_start[np.searchsorted(starts, d)] for d in (days, days + 1))
    found: Longs = before[place]
    for number in np.flatnonzero(before != after):
        of_day = np.flatnonzero(place == number)
        found[of_day] = _offsets_of_day(times[of_day], zone, are_local=are_local)
    return found


def _offsets_of_day(times: Longs, zone: dt.tzinfo, *, are_local: bool) -> Longs:
    """The offsets of times of a day on which the clocks are changed, once."""
    each, place = np.unique(times, return_inverse=True)
    first, last = (_offset(int(each[i]), zone, are_local) for i in (0, -1))
    change = bisect_left(range(len(each)), first != last, key=lambda i: _offset(int(each[i]), zone, are_local) == last)
    found: Longs = np.where(np.arange(len(each)) < change, first, last)[place]
    return found


def _offset(time: int, zone: dt.tzinfo, is_local: bool) -> int:
    """The offset at one time; the calendar, and so the zone's rules, are the same each 400 years."""
    if time > _LAST:
        time -= -((_LAST - time) // _CYCLE) * _CYCLE
    at = (_EPOCH + dt.timedelta(microseconds=max(time, _FIRST))).replace(tzinfo=zone)
    at = at if is_local else zone.fromutc(at)
    return (at.utcoffset() or dt.timedelta()) // dt.timedelta(microseconds=1)
