"""Options that are parsed: times, properties, location mappings."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections.abc import Iterable

import click

from icecore.engine.common.text import number_in
from icecore.engine.errors import ValidationError
from icecore.engine.expression.timestamps import to_epoch_ms

TIMES = "'2013-05-01T12:00:00Z', '2 hours ago' or yesterday"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_AGO = re.compile(rf"(\d{{1,9}}) ?({'|'.join(_UNITS)})s? ago")


def milliseconds(_: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """A time in ms since the epoch: as `time_of` takes it, or that number itself. Raises BadParameter."""
    if text is None:
        return None
    number = number_in(text.removeprefix("-"))
    try:
        if number is not None:
            return to_epoch_ms(-number if text.startswith("-") else number, "time")
        return to_epoch_ms(time_of(text), "time")
    except ValidationError as e:
        raise click.BadParameter(
            f"{text!r} is no time; write {TIMES}, or milliseconds since 1970", param=parameter
        ) from e


def moment(text: str) -> int | str | dt.datetime:
    """A position of the log, or else a time as `time_of` takes it. Raises BadParameter."""
    if (position := number_in(text)) is not None:
        return position
    found = time_of(text)
    try:
        to_epoch_ms(found, "time")
    except ValidationError as e:
        raise click.BadParameter(f"{text!r} is neither a position nor a time; write {TIMES}") from e
    return found


def time_of(text: str, now: dt.datetime | None = None) -> str | dt.datetime:
    """A time that is told from now as a datetime; other texts as they are, which may be ISO 8601.

    `yesterday` and `today` are the midnights with which these days begin here, as a date alone is.
    """
    words = " ".join(text.lower().split())
    now = now or dt.datetime.now()
    if found := _AGO.fullmatch(words):
        with contextlib.suppress(OverflowError):
            ago = dt.timedelta(seconds=int(found[1]) * _UNITS[found[2]])
            return _EPOCH + dt.timedelta(milliseconds=to_epoch_ms(now, "the time")) - ago
        return text
    if words in ("today", "yesterday"):
        return dt.datetime.combine(now.date() - dt.timedelta(words == "yesterday"), dt.time())
    return now if words == "now" else text


def pairs(_: click.Context, parameter: click.Parameter, texts: Iterable[str]) -> dict[str, str]:
    """`KEY=VALUE` texts as a dict. Raises BadParameter."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not of the form {parameter.metavar or 'KEY=VALUE'}", param=parameter)
        found[key] = value
    return found


def names(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    """`a,b,c` as a tuple."""
    return None if text is None else tuple(n.strip() for n in text.split(",") if n.strip())
