"""Options that are parsed: times, properties, location mappings."""

from __future__ import annotations

from collections.abc import Iterable

import click

from icecore.engine.errors import ValidationError
from icecore.engine.expression.timestamps import to_epoch_ms


def milliseconds(_: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """A time in ms since the epoch: ISO 8601, or that number itself; see `timestamps`. Raises BadParameter."""
    if text is None:
        return None
    if text.lstrip("-").isdecimal():
        return int(text)
    try:
        return to_epoch_ms(text, "time")
    except ValidationError as e:
        raise click.BadParameter(
            f"{text!r} is no time; write '2013-05-01', '2013-05-01T12:00:00Z' or milliseconds since 1970",
            param=parameter,
        ) from e


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
