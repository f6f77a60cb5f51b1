"""The time zone of a Spark session as Arrow knows it.

Spark takes what Java's `ZoneId.of` does: regions, offsets with and without UTC, GMT or UT before them, and short names.
"""

from __future__ import annotations

import re

from icecore.engine.errors import ValidationError

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


def arrow_zone(zone: str) -> str:
    """The zone in Arrow's words. Raises ValidationError for an offset with seconds, which Arrow has no word for."""
    if zone in _UTC:
        return "UTC"
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return _SHORT.get(zone, zone)
    sign, hours, minutes, seconds = found.groups("0")
    if int(seconds):
        raise ValidationError(f"the session's time zone {zone!r} has seconds, in which no timestamp can be converted")
    return f"{sign}{int(hours):02d}:{int(minutes):02d}"
